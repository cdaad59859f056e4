"""What memories have to hold after each call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _dtypes
from ._dtypes import Array
from ._errors import InputError
from ._memory import Memory

if TYPE_CHECKING:
    from ._memory import Node

COLLECTIVES = ("sum", "product", "max", "min", "concat", "reduce_scatter", "scatter", "all_to_all", "broadcast", "copy")


@dataclass(frozen=True)
class Expected:
    """See expected()."""

    value: Any
    options: dict[str, Any]


def expected(
    value: Any, *, rtol: float | None = None, atol: float | None = None, round: Sequence[str] | None = None,
    dtype: Any = None, columns: int | None = None, offset: int | None = None, accumulate: Any = None,
    ranks: Sequence[int] | None = None, calls: Sequence[int] | None = None,
) -> Expected:  # fmt: skip
    """An expected value with what goes with it: a tolerance, where and when it holds, its roundings."""
    options: dict[str, Any] = {}
    if rtol is not None:
        options["rtol"] = float(rtol)
    if atol is not None:
        options["atol"] = float(atol)
    if round is not None:
        options["round"] = list(round)
    if dtype is not None:
        options["dtype"] = _dtypes.dtype_name(dtype)
    if columns is not None:
        options["columns"] = columns
    if offset is not None:
        options["offset"] = offset
    if accumulate is not None:
        options["accumulate"] = _dtypes.dtype_name(accumulate)
    if ranks is not None:
        options["ranks"] = list(ranks)
    if calls is not None:
        options["calls"] = list(calls)
    return Expected(value, options)


class Inputs(Mapping[Union[Memory, str], "list[Array]"]):
    """What the memories are given before a call, as numbers: inputs[x][rank] is rank's array."""

    def __init__(self, node: Node, call: int) -> None:
        self._node = node
        self.call = call
        self.used: set[str] = set()

    def __getitem__(self, key: Memory | str) -> list[Array]:
        name = key if isinstance(key, str) else key.name
        if name not in self._node.memories:
            raise KeyError(f"no memory {name!r}; there is {', '.join(self._node.memories)}")
        self.used.add(name)
        memory = self._node.memories[name]
        return [memory.numbers(r, self.call) for r in range(self._node.ranks)]

    def __iter__(self) -> Iterator[Memory | str]:
        return iter(self._node.memories.values())

    def __len__(self) -> int:
        return len(self._node.memories)


def _call(fn: Callable[..., Any], rank: int, inputs: Inputs, call: int) -> Any:
    parameters = inspect.signature(fn).parameters
    given = {"rank": rank, "inputs": inputs, "call": call}
    plain = [p for p in parameters.values() if p.default is inspect.Parameter.empty]
    if all(p.name in given for p in plain):
        return fn(**{p.name: given[p.name] for p in plain})
    return fn(*[rank, inputs, call][: len(plain)])


def values(
    memory: Memory, value: Any, calls: int, options: dict[str, Any]
) -> tuple[dict[tuple[int, int], Array], str, bool, set[str]]:
    """Arrays by (rank, call), their dtype in the file, whether only exact sums of integers made them, of what."""
    node = memory.node
    wanted_ranks = options.get("ranks") or range(node.ranks)
    wanted_calls = options.get("calls") or range(calls)
    dtype = options.get("dtype", memory.dtype)
    as_file = "f64" if _dtypes.is_float(dtype) else dtype
    used: set[str] = set()
    out: dict[tuple[int, int], Array] = {}
    for call in wanted_calls:
        inputs = Inputs(node, call)
        for rank in wanted_ranks:
            if callable(value):
                got = _call(value, rank, inputs, call)
            elif isinstance(value, (list, tuple)) and len(value) == node.ranks:
                got = value[rank]
            else:
                got = value
            array, _ = _dtypes.as_array(got)
            if array.shape == () and memory.shape != ():
                array = np.broadcast_to(array, memory.shape)
            if array.dtype.kind not in "iufb" and array.dtype.name not in ("bfloat16",):
                array = np.asarray(array, dtype="f8")
            if "offset" not in options and array.size != memory.size:
                raise InputError(
                    f"expected {memory.name}: {array.size} elements, the memory has {memory.size} {list(memory.shape)}"
                )
            if as_file == "f64":
                out[rank, call] = np.ascontiguousarray(array, dtype="<f8")
            else:
                out[rank, call] = _dtypes.to_bits(np.asarray(array), dtype)
        used |= inputs.used
    exact = all(
        not _dtypes.is_float(node.memories[n].dtype) or node.memories[n].init in ("integers", "zero") for n in used
        if isinstance(node.memories[n].init, str)
    ) and all(isinstance(node.memories[n].init, (str, int)) or not _dtypes.is_float(node.memories[n].dtype) for n in used)
    return out, as_file, exact and callable(value), used
