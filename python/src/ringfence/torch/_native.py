"""The native library: found in the package ringfence_torch, refused where it is stale, loaded once."""

from __future__ import annotations

import importlib
import importlib.util
import importlib.metadata
import re
from pathlib import Path
from typing import Any

import torch

# What this package and cuda/torch agree on; raised with every change of what lies between them.
INTERFACE = 1

INSTALL = "pip install --no-build-isolation ./python/torch (in a checkout of ringfence)"


def version() -> str | None:
    """Of this package: as installed, or as its checkout says."""
    checkout = Path(__file__).resolve().parents[4] / "CMakeLists.txt"
    if checkout.exists() and (match := re.search(r"project\(ringfence VERSION ([0-9.]+)", checkout.read_text())):
        return match.group(1)
    try:
        return importlib.metadata.version("ringfence")
    except importlib.metadata.PackageNotFoundError:
        return None


def stale(build: dict[str, Any], ours: str | None) -> str | None:
    """Why a library that was built so must not be loaded here; None where it may be."""
    here = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cxx11_abi": torch.compiled_with_cxx11_abi(),
        "ringfence": ours,
        "interface": INTERFACE,
    }
    for key, value in here.items():
        if key == "ringfence" and value is None:
            continue
        if build.get(key) != value:
            return (
                f"ringfence-torch was built for {key} {build.get(key)}, and here is {key} {value}: "
                f"build it again: {INSTALL}"
            )
    return None


_loaded: Any = None


def load() -> Any:
    """torch.ops.ringfence_native's library. Raises ImportError: absent, or stale."""
    global _loaded
    if _loaded is None:
        try:
            package = importlib.import_module("ringfence_torch")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"ringfence.torch needs its native part for CUDA tensors, built for torch {torch.__version__}: {INSTALL}"
            ) from None
        reason = stale(package.BUILD, version())
        if reason is not None:
            raise ImportError(reason)
        torch.ops.load_library(str(package.LIBRARY))
        _loaded = torch.classes.ringfence_native
    return _loaded


def installed() -> bool:
    return importlib.util.find_spec("ringfence_torch") is not None
