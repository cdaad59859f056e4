"""TOML, as far as case files need it."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def _key(key: str) -> str:
    return key if _BARE.match(key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        if math.isnan(value):
            return "nan"
        text = repr(value)
        return text if "." in text or "e" in text else text + ".0"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"no TOML for {type(value).__name__}")


def dumps(document: Mapping[str, Any]) -> str:
    """A case file: [memory.NAME], [[launch]], [[host]], [check], [check.expected.NAME], in order."""
    head = {k: v for k, v in document.items() if k not in ("memory", "step", "check", "ignore")}
    out = [f"{_key(k)} = {_value(v)}" for k, v in head.items()]
    for name, memory in document.get("memory", {}).items():
        out += ["", f"[memory.{_key(name)}]"]
        out += [f"{_key(k)} = {_value(v)}" for k, v in memory.items()]
    for kind, step in document.get("step", []):
        out += ["", f"[[{kind}]]"]
        out += [f"{_key(k)} = {_value(v)}" for k, v in step.items()]
    check = dict(document.get("check", {}))
    let, expected = check.pop("let", {}), check.pop("expected", {})
    if check or ("check" in document and not let and not expected):
        out += ["", "[check]"]
        out += [f"{_key(k)} = {_value(v)}" for k, v in check.items()]
    if let:
        out += ["", "[check.let]"]
        out += [f"{_key(k)} = {_value(v)}" for k, v in let.items()]
    for name, value in expected.items():
        out += ["", f"[check.expected.{_key(name)}]"]
        out += [f"{_key(k)} = {_value(v)}" for k, v in value.items()]
    for entry in document.get("ignore", []):
        out += ["", "[[ignore]]"]
        out += [f"{_key(k)} = {_value(v)}" for k, v in entry.items()]
    return "\n".join(out) + "\n"


def loads(text: str) -> dict[str, Any]:
    document: dict[str, Any] = tomllib.loads(text)
    return document
