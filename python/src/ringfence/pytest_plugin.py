"""The plugin for pytest: options, and the fixture `ringfence`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._testing import Runner


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ringfence", "ringfence: multi-GPU kernels under weak memory")
    group.addoption("--ringfence-schedules", type=int, metavar="N", help="schedules a mode, in place of each test's own")
    group.addoption("--ringfence-seed", type=int, metavar="N", help="first seed, in place of each test's own")
    group.addoption("--ringfence-html", metavar="FOLDER", help="a page of each finding, in this folder")


@pytest.fixture
def ringfence(request: pytest.FixtureRequest) -> Runner:
    """Searches a case: ringfence(case, schedules=500). A finding fails the test with its story."""
    from ._testing import Runner

    config = request.config
    cache: Any = getattr(config, "cache", None)
    html = config.getoption("--ringfence-html")
    return Runner(
        request.node.nodeid,
        Path(cache.mkdir("ringfence")) if cache is not None else None,
        config.getoption("--ringfence-schedules"),
        config.getoption("--ringfence-seed"),
        Path(html) if html else None,
    )
