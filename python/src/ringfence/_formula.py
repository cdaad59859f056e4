"""Whole numbers that differ from rank to rank or from call to call, as case files write them."""

from __future__ import annotations

from typing import Any

from ._errors import InputError


class Formula:
    """`rank * 8 + call`, say, of rf.rank, rf.world, rf.call and numbers; / and % are those of C."""

    __slots__ = ("text", "_atom")

    def __init__(self, text: str, atom: bool = True) -> None:
        self.text = text
        self._atom = atom

    def _joined(self, sign: str, left: Any, right: Any) -> Formula:
        for side in (left, right):
            if not isinstance(side, (Formula, int)):
                raise InputError(f"{side!r}: a formula consists of whole numbers, rf.rank, rf.world, rf.call")
        return Formula(f"{_factor(left)} {sign} {_factor(right)}", atom=False)

    def __add__(self, other: Formula | int) -> Formula:
        return self._joined("+", self, other)

    def __radd__(self, other: int) -> Formula:
        return self._joined("+", other, self)

    def __sub__(self, other: Formula | int) -> Formula:
        return self._joined("-", self, other)

    def __rsub__(self, other: int) -> Formula:
        return self._joined("-", other, self)

    def __mul__(self, other: Formula | int) -> Formula:
        return self._joined("*", self, other)

    def __rmul__(self, other: int) -> Formula:
        return self._joined("*", other, self)

    def __floordiv__(self, other: Formula | int) -> Formula:
        return self._joined("/", self, other)

    def __mod__(self, other: Formula | int) -> Formula:
        return self._joined("%", self, other)

    def __repr__(self) -> str:
        return f"<{self.text}>"


def _factor(side: Formula | int) -> str:
    if isinstance(side, Formula):
        return side.text if side._atom else f"({side.text})"
    return str(side) if side >= 0 else f"(-{-side})"


rank = Formula("rank")
world = Formula("world")
call = Formula("call")

def table(values: list[int]) -> int | str:
    """Values by call as one formula: the straight line where they lie on one."""
    if all(v == values[0] for v in values):
        return values[0]
    step = values[1] - values[0]
    if all(v == values[0] + step * i for i, v in enumerate(values)):
        line = "call" if step == 1 else f"{_factor(step)} * call"
        return line if values[0] == 0 else f"{line} + {_factor(values[0])}"
    # 1 / (1 + d * d) is 1 where d is 0, else 0.
    terms = []
    for i, v in enumerate(values):
        if v == 0:
            continue
        d = f"(call - {i})" if i else "call"
        terms.append(f"{_factor(v)} * (1 / (1 + {d} * {d}))")
    return " + ".join(terms)
