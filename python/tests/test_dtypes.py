from __future__ import annotations

import numpy as np
import pytest
import ringfence as rf
from ringfence import _dtypes, _safetensors

ml_dtypes = pytest.importorskip("ml_dtypes")


def test_every_bfloat16_is_read_as_ml_dtypes_reads_it() -> None:
    bits = np.arange(1 << 16, dtype="u2")
    ours = _dtypes.as_numbers(bits, "bf16")
    theirs = bits.view(ml_dtypes.bfloat16).astype("f8")
    np.testing.assert_array_equal(ours, theirs)


def test_float32_is_rounded_to_bfloat16_as_ml_dtypes_rounds_it() -> None:
    # Ties, their neighbours, infinities and what overflows to them.
    halves = (np.arange(1 << 16, dtype="u4") << 16) | 0x8000
    bits = np.concatenate([halves - 1, halves, halves + 1])
    values = bits.view("f4")
    values = values[~np.isnan(values)]
    with np.errstate(over="ignore"):
        theirs = values.astype(ml_dtypes.bfloat16).view("u2")
    np.testing.assert_array_equal(_dtypes.to_bits(values, "bf16"), theirs)


def test_dtypes_have_the_names_that_people_use() -> None:
    assert _dtypes.dtype_name("bfloat16") == _dtypes.dtype_name(ml_dtypes.bfloat16) == "bf16"
    assert _dtypes.dtype_name(np.float32) == _dtypes.dtype_name(np.dtype("f4")) == _dtypes.dtype_name("fp32") == "f32"
    assert _dtypes.dtype_name("int8") == "s8"
    assert _dtypes.dtype_name(ml_dtypes.float8_e4m3fn) == "e4m3"
    with pytest.raises(rf.InputError, match="complex64"):
        _dtypes.dtype_name(np.complex64)


def test_numbers_that_a_type_does_not_hold_are_refused() -> None:
    with pytest.raises(rf.InputError, match="from 0 to 255"):
        _dtypes.to_bits(np.array([256]), "u8")
    with pytest.raises(rf.InputError, match="whole numbers"):
        _dtypes.to_bits(np.array([0.5]), "s32")


def test_torch_tensors_are_taken_bfloat16_too() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(8).to(torch.bfloat16)
    array, name = _dtypes.as_array(tensor)
    assert name == "bf16"
    np.testing.assert_array_equal(array.astype("f4"), np.arange(8))


def test_whatever_has_dlpack_is_taken() -> None:
    class Other:
        def __init__(self) -> None:
            self.array = np.arange(4, dtype="i4")

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    array, name = _dtypes.as_array(Other())
    assert name == "s32"
    np.testing.assert_array_equal(array, np.arange(4))


def test_safetensors_come_back_as_they_were_written(tmp_path) -> None:
    tensors = {
        "a.0": ("bf16", np.arange(6, dtype="u2").reshape(2, 3)),
        "b": ("f64", np.array([1.5, -2.0])),
    }
    file = tmp_path / "x.safetensors"
    file.write_bytes(_safetensors.write(tensors))
    back = _safetensors.read(file)
    assert {n: d for n, (d, _) in back.items()} == {"a.0": "BF16", "b": "F64"}
    np.testing.assert_array_equal(back["b"][1].view("f8"), [1.5, -2.0])
    np.testing.assert_array_equal(back["a.0"][1].view("u2"), np.arange(6))
    file.write_bytes(b"\xff" * 16)
    with pytest.raises(rf.InputError, match="not a safetensors file"):
        _safetensors.read(file)
