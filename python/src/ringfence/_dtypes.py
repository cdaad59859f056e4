"""Element types: the program's names, NumPy's, and what torch and ml_dtypes call them."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import InputError

Array = NDArray[Any]

# The program's name: safetensors' name, the NumPy type of the same bits, bytes, of what kind.
_TABLE: dict[str, tuple[str, str, int, str]] = {
    "bf16": ("BF16", "u2", 2, "f"),
    "f16": ("F16", "f2", 2, "f"),
    "f32": ("F32", "f4", 4, "f"),
    "f64": ("F64", "f8", 8, "f"),
    "e4m3": ("F8_E4M3", "u1", 1, "f"),
    "e5m2": ("F8_E5M2", "u1", 1, "f"),
    "s8": ("I8", "i1", 1, "i"),
    "s16": ("I16", "i2", 2, "i"),
    "s32": ("I32", "i4", 4, "i"),
    "s64": ("I64", "i8", 8, "i"),
    "u8": ("U8", "u1", 1, "i"),
    "u16": ("U16", "u2", 2, "i"),
    "u32": ("U32", "u4", 4, "i"),
    "u64": ("U64", "u8", 8, "i"),
}

_WORDS: dict[str, str] = {
    "bfloat16": "bf16",
    "float16": "f16",
    "half": "f16",
    "fp16": "f16",
    "float32": "f32",
    "float": "f32",
    "fp32": "f32",
    "float64": "f64",
    "double": "f64",
    "fp64": "f64",
    "float8_e4m3fn": "e4m3",
    "fp8e4nv": "e4m3",
    "float8_e5m2": "e5m2",
    "fp8e5": "e5m2",
    "bool": "u8",
    **{f"int{b}": f"s{b}" for b in (8, 16, 32, 64)},
    **{f"uint{b}": f"u{b}" for b in (8, 16, 32, 64)},
    **{f"i{b}": f"s{b}" for b in (8, 16, 32, 64)},
}

_ML: dict[str, str] = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}

# rtol and atol that torch.testing.assert_close takes where none are given.
TOLERANCES: dict[str, tuple[float, float]] = {
    "bf16": (1.6e-2, 1e-5),
    "f16": (1e-3, 1e-5),
    "f32": (1.3e-6, 1e-5),
    "f64": (1e-7, 1e-7),
    "e4m3": (1.25e-1, 1e-3),
    "e5m2": (2.5e-1, 1e-3),
}


def dtype_name(dtype: Any) -> str:
    """The program's name of a dtype: a word, a NumPy, ml_dtypes or torch dtype."""
    if isinstance(dtype, str):
        word = dtype
    elif hasattr(dtype, "name") and not isinstance(dtype, type):
        word = str(dtype.name)  # np.dtype, also of ml_dtypes
    else:
        word = getattr(dtype, "__name__", str(dtype))  # np.float32, ml_dtypes.bfloat16
    word = word.removeprefix("torch.").removeprefix("<").removesuffix("_")
    if word in _TABLE:
        return word
    if word in _WORDS:
        return _WORDS[word]
    raise InputError(f"dtype {dtype!r}: expected one of {', '.join(sorted(_WORDS))}")


def safetensors_name(name: str) -> str:
    return _TABLE[name][0]


def bits_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype whose bytes are those of the type (unsigned for what NumPy does not have)."""
    return np.dtype("<" + _TABLE[name][1])


def itemsize(name: str) -> int:
    return _TABLE[name][2]


def is_float(name: str) -> bool:
    return _TABLE[name][3] == "f"


def numpy_dtype(name: str) -> np.dtype[Any] | None:
    """NumPy's dtype, ml_dtypes' where it is installed; None where nobody here has one."""
    if name not in _ML:
        return bits_dtype(name)
    if importlib.util.find_spec("ml_dtypes") is None:
        return None
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML[name]))
    return dtype


def _ml_or_fail(name: str) -> np.dtype[Any]:
    dtype = numpy_dtype(name)
    if dtype is None:
        raise InputError(f"{name}: arrays of it need the package ml_dtypes")
    return dtype


def _bf16_bits(values: Array) -> Array:
    """To nearest, ties to even. By way of float32, as everyone's bfloat16."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, 0x7FC0, rounded).astype("<u2")


def to_bits(values: Array, name: str) -> Array:
    """Values as the type's bit patterns, little endian."""
    if values.dtype == bits_dtype(name) and name not in _ML:
        return np.ascontiguousarray(values)
    own = numpy_dtype(name)
    if own is not None and values.dtype == own:
        return np.ascontiguousarray(values).view(bits_dtype(name))
    if name == "bf16":
        return _bf16_bits(np.asarray(values, dtype="f4"))
    if name in _ML:
        return np.ascontiguousarray(values.astype(_ml_or_fail(name))).view(bits_dtype(name))
    if not is_float(name):
        if values.dtype.kind == "f" and not np.array_equal(values, np.trunc(values)):
            raise InputError(f"{name}: expected whole numbers")
        wide = values.astype(object) if values.dtype.kind == "f" else values
        least, most = np.iinfo(bits_dtype(name)).min, np.iinfo(bits_dtype(name)).max
        if values.size and (int(wide.min()) < least or int(wide.max()) > most):
            raise InputError(f"{name}: expected numbers from {least} to {most}")
    return np.ascontiguousarray(values.astype(bits_dtype(name)))


def from_bits(bits: Array, name: str) -> Array:
    """Bit patterns as an array: of ml_dtypes where NumPy has no such type, else of float32."""
    if name not in _ML:
        return bits.view(bits_dtype(name))
    own = numpy_dtype(name)
    if own is not None:
        return bits.view(own)
    if name == "bf16":
        return (bits.astype("<u4") << 16).view("<f4")
    return _ml_or_fail(name).type(0)  # type: ignore[no-any-return]  # raises


def as_numbers(bits: Array, name: str) -> Array:
    """Bit patterns as numbers to compute with: float64 for floats, the integers as they are."""
    if not is_float(name):
        return bits.view(bits_dtype(name))
    if name == "bf16":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return (bits.astype("<u4") << 16).view("<f4").astype("f8")
    if name in _ML:
        return bits.view(_ml_or_fail(name)).astype("f8")
    return bits.view(bits_dtype(name)).astype("f8")


def as_array(values: Any) -> tuple[Array, str | None]:
    """An array, and the program's name of its dtype if it says one that is no Python number's.

    Takes NumPy and ml_dtypes arrays, torch tensors (bfloat16 too), whatever has __dlpack__, lists.
    """
    if isinstance(values, np.ndarray):
        return values, dtype_name(values.dtype)
    if isinstance(values, np.generic):
        return np.asarray(values), dtype_name(values.dtype)
    if type(values).__module__.partition(".")[0] == "torch":
        tensor = values.detach().cpu().contiguous()
        name = dtype_name(tensor.dtype)
        if name in _ML:  # NumPy has none: by its bits
            import torch

            same = torch.uint8 if itemsize(name) == 1 else torch.int16
            bits = tensor.view(same).numpy().view(bits_dtype(name))
            own = numpy_dtype(name)
            return (bits.view(own), name) if own is not None else (from_bits(bits, name), name)
        return tensor.numpy(), name
    if hasattr(values, "__dlpack__"):
        array = np.from_dlpack(values)
        return array, dtype_name(array.dtype)
    return np.asarray(values), None
