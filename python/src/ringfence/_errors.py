"""What goes wrong, by whose fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._results import Finding, Result


class RingfenceError(Exception):
    """Whatever this package raises by itself."""


class InputError(RingfenceError, ValueError):
    """A case, a kernel or an option is wrong: the program's line says what, where, what would be right."""


class CompileError(RingfenceError):
    """A compiler refused a kernel, or none is there."""


class ProgramError(RingfenceError):
    """The program ended as it never should; please report it."""


class FindingError(RingfenceError, AssertionError):
    """A search found something. Its text is the story."""

    def __init__(self, result: Result, finding: Finding | None) -> None:
        self.result = result
        self.finding = finding
        super().__init__(finding.text if finding is not None else result.text)


class UnknownError(RingfenceError, AssertionError):
    """A search came to no verdict: a bound ended it, or a rank was lost."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(result.text)
