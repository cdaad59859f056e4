"""safetensors: 8 bytes header length, JSON, the tensors' bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._dtypes import Array, safetensors_name
from ._errors import InputError


def write(tensors: Mapping[str, tuple[str, Array]]) -> bytes:
    """Tensors by name: the program's name of a dtype, and an array of its bits."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, array) in tensors.items():
        header[name] = {
            "dtype": safetensors_name(dtype),
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    parts = [len(text).to_bytes(8, "little"), text]
    parts += [np.ascontiguousarray(array).tobytes() for _, array in tensors.values()]
    return b"".join(parts)


def read(path: Path) -> dict[str, tuple[str, Array]]:
    """Tensors by name: safetensors' name of the dtype, and the bytes."""
    data = np.fromfile(path, dtype="u1")
    if data.size < 8:
        raise InputError(f"{path}: not a safetensors file: it has {data.size} bytes")
    count = int(data[:8].view("<u8")[0])
    if count > data.size - 8:
        raise InputError(f"{path}: not a safetensors file: its header would end beyond it")
    header = json.loads(data[8 : 8 + count].tobytes())
    body = data[8 + count :]
    out: dict[str, tuple[str, Array]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = (entry["dtype"], body[begin:end])
    return out
