"""What a kernel is given: addresses, scalars, structs, tensor maps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _formula
from ._errors import InputError
from ._formula import Formula

if TYPE_CHECKING:
    from ._memory import Memory


@dataclass(frozen=True)
class Context:
    """Of which case the argument is."""

    ranks: int
    calls: int


@dataclass(frozen=True)
class Address:
    """An address in a memory, or a device array of addresses."""

    memory: Memory
    kind: str  # memory, multicast, peers, replicas, distances
    extra: dict[str, Any] = field(default_factory=dict)

    def at(self, offset: int = 0, per_rank: int = 0) -> Address:
        """`offset` bytes on, and `per_rank` more for each rank."""
        if self.kind in ("replicas", "distances"):
            raise InputError(f"{self.memory.name}.{self.kind}: it has no offset")
        extra = dict(self.extra)
        extra["offset"] = extra.get("offset", 0) + offset
        extra["offset_per_rank"] = extra.get("offset_per_rank", 0) + per_rank
        return Address(self.memory, self.kind, {k: v for k, v in extra.items() if v or k == "rank"})

    def toml(self) -> dict[str, Any]:
        return {self.kind: self.memory.name, **self.extra}


@dataclass(frozen=True)
class Scalar:
    """A number of a type of its own, in place of the parameter's: rf.u32(8)."""

    type: str
    value: Any


def _scalar(type_name: str) -> Callable[[Any], Scalar]:
    def make(value: Any) -> Scalar:
        return Scalar(type_name, value)

    make.__name__ = make.__qualname__ = type_name
    make.__doc__ = f"A scalar of type {type_name}: a number, one a rank, a formula, or a function of rank (and call)."
    return make


u8, u16, u32, u64 = (_scalar(f"u{b}") for b in (8, 16, 32, 64))
s8, s16, s32, s64 = (_scalar(f"s{b}") for b in (8, 16, 32, 64))
f32, f64 = _scalar("f32"), _scalar("f64")


@dataclass(frozen=True)
class Struct:
    fields: tuple[Any, ...]
    count: int = 1


def struct(*fields: Any, count: int = 1) -> Struct:
    """A struct passed by value, laid out as in C++. Its numbers have types: rf.s32(4)."""
    return Struct(fields, count)


@dataclass(frozen=True)
class TensorMap:
    """A CUtensorMap. Sizes are in elements, the innermost dimension last, as in NumPy."""

    address: Address
    box: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    swizzle: str
    dtype: str

    def toml(self) -> dict[str, Any]:
        out = {
            **self.address.toml(),
            "dtype": self.dtype,
            "dims": list(reversed(self.shape)),
            "box": list(reversed(self.box)),
            "swizzle": self.swizzle,
        }
        if self.strides is not None:
            out["strides"] = list(reversed(self.strides))
        return {"tensor_map": out}


def _arity(fn: Callable[..., Any]) -> int:
    """How many of (rank, call) a function takes."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty])


def by_rank(value: Any, ranks: int) -> list[Any]:
    """A function of the rank, as a list."""
    return [value(r) for r in range(ranks)] if callable(value) else [value] * ranks


def _number(value: Any, what: str) -> int | float:
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, np.generic):
        number = value.item()
        if isinstance(number, (int, float)):
            return number
    raise InputError(f"argument {what}: expected a number, not {value!r}")


def _whole(value: Any, type_name: str) -> int | str:
    if isinstance(value, Formula):
        return value.text
    number = _number(value, type_name)
    if isinstance(number, float):
        if not number.is_integer():
            raise InputError(f"argument {type_name}: expected a whole number, not {number}")
        number = int(number)
    bits = int(type_name[1:])
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_name[0] == "s" else (0, (1 << bits) - 1)
    if not least <= number <= most:
        raise InputError(f"argument {type_name}: {number} is not from {least} to {most}")
    return number


def _signed(given: dict[str, Any]) -> dict[str, Any]:
    """TOML's integers have 64 bits with a sign: what is beyond is given by its bits."""
    most = (1 << 63) - 1
    value = given.get("u64")
    listed = value if isinstance(value, list) else [value]
    if not any(isinstance(v, int) and v > most for v in listed):
        return given
    bits = [v - (1 << 64) if isinstance(v, int) and v > most else v for v in listed]
    return {"s64": bits if isinstance(value, list) else bits[0]}


def _real_bits(value: Any, type_name: str) -> int:
    """A real as the integer of its bits, which a formula can give."""
    packed = np.array(float(_number(value, type_name)), dtype="<f4" if type_name == "f32" else "<f8")
    return int(packed.view("<u4" if type_name == "f32" else "<i8"))


def scalar(type_name: str, value: Any, context: Context) -> Any:
    """{u32 = ...}: of a number, a formula, one a rank, or a function of rank (and call)."""
    if isinstance(value, (list, tuple, np.ndarray)) and not (isinstance(value, np.ndarray) and value.ndim == 0):
        if len(value) != context.ranks:
            raise InputError(
                f"argument {type_name}: {len(value)} numbers for {context.ranks} ranks; one, or one for each"
            )
        listed = list(value)
        return scalar(type_name, lambda rank: listed[rank], context)
    real = type_name in ("f32", "f64")
    if not callable(value):
        if real:
            return {type_name: float(_number(value, type_name))}
        return _signed({type_name: _whole(value, type_name)})
    if _arity(value) < 2:
        each = [value(r) for r in range(context.ranks)]
        if real:
            return {type_name: [float(_number(v, type_name)) for v in each]}
        return _signed({type_name: [_whole(v, type_name) for v in each]})
    # By rank and call: formulas, also of a real's bits.
    rows: list[int | str] = []
    for r in range(context.ranks):
        row = [value(r, c) for c in range(context.calls)]
        if real:
            rows.append(_formula.table([_real_bits(v, type_name) for v in row]))
            continue
        whole = [_whole(v, type_name) for v in row]
        rows.append(_formula.table([int(v) for v in whole]))
    if real:
        type_name = "u32" if type_name == "f32" else "s64"
    return {type_name: rows}


def _type_of_parameter(ptx_type: str, value: Any) -> str:
    """What a plain Python number is passed as, by the parameter's PTX type."""
    if not ptx_type:
        raise InputError(f"{value!r} for a struct: pass rf.struct(...) or bytes")
    letter, bits = ptx_type[0], ptx_type[1:]
    if letter in "us":
        return ptx_type
    if letter == "f" and bits in ("32", "64"):
        return ptx_type
    if letter == "b" and bits in ("8", "16", "32", "64"):
        probe = value
        if callable(value):
            probe = value(0) if _arity(value) < 2 else value(0, 0)
        elif isinstance(value, (list, tuple, np.ndarray)) and len(value):
            probe = value[0]
        if isinstance(probe, (float, np.floating)) and bits in ("32", "64"):
            return f"f{bits}"
        negative = isinstance(probe, (int, np.integer)) and not isinstance(probe, bool) and probe < 0
        return f"s{bits}" if negative else f"u{bits}"
    raise InputError(f"parameter .{ptx_type}: pass rf.struct(...) or bytes")


_NUMPY_TYPES = {
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64",
    "float32": "f32", "float64": "f64",
}  # fmt: skip


def argument(value: Any, ptx_type: str | None, context: Context) -> Any:
    """An argument as a case file has it; `ptx_type` is the parameter's, None inside a struct."""
    from ._memory import Memory

    if isinstance(value, Memory):
        return {"memory": value.name}
    if isinstance(value, (Address, TensorMap)):
        return value.toml()
    if isinstance(value, Scalar):
        return scalar(value.type, value.value, context)
    if isinstance(value, Struct):
        out: dict[str, Any] = {"struct": [argument(f, None, context) for f in value.fields]}
        return out if value.count == 1 else {**out, "count": value.count}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": list(value)}
    if isinstance(value, Formula) and value.text in ("rank", "world"):
        return value.text  # as wide as the parameter
    if isinstance(value, np.generic) and str(value.dtype) in _NUMPY_TYPES:
        return scalar(_NUMPY_TYPES[str(value.dtype)], value, context)
    if ptx_type is None:
        raise InputError(f"struct field {value!r}: a number in a struct says its type: rf.s32({value!r})")
    if isinstance(value, Formula) or callable(value) or isinstance(value, (int, float, list, tuple, np.ndarray)):
        return scalar(_type_of_parameter(ptx_type, value), value, context)
    raise InputError(
        f"argument {value!r}: expected a memory, an address of one, a number, rf.rank, rf.struct, bytes or a function"
    )
