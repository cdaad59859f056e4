"""CUDA to PTX by NVRTC, which needs no driver."""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import importlib.util
import os
from pathlib import Path

from ._errors import CompileError


def _folders() -> list[str]:
    """Of the wheels nvidia-cuda-nvrtc (nvidia/cu13/lib) and -cu12 (nvidia/cuda_nvrtc/lib), of a toolkit."""
    out: list[str] = []
    spec = importlib.util.find_spec("nvidia")
    for root in list(spec.submodule_search_locations or []) if spec is not None else []:
        out += sorted(glob.glob(os.path.join(root, "cu*", "lib")), reverse=True)
        out += [os.path.join(root, "cuda_nvrtc", "lib")]
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return out + [os.path.join(home, "lib64")]


def _includes() -> list[str]:
    """cuda_fp16.h and the like: of the toolkit, or of the wheel nvidia-cuda-runtime."""
    out: list[str] = []
    for folder in _folders():
        for name in (Path(folder).parent / "include", Path(folder).parent.parent / "cuda_runtime" / "include"):
            if (name / "cuda_fp16.h").exists():
                out += [str(name)]
                if (name / "cccl").exists():
                    out += [str(name / "cccl")]
                return out
    return out


def _library() -> ctypes.CDLL:
    tried: list[str] = []
    for folder in _folders():
        for path in sorted(glob.glob(os.path.join(folder, "libnvrtc.so.*"))):
            if "alt" in os.path.basename(path) or "builtins" in path:
                continue
            try:
                return ctypes.CDLL(path)
            except OSError as e:
                tried.append(str(e))
    found = ctypes.util.find_library("nvrtc")
    if found is not None:
        return ctypes.CDLL(found)
    why = f" ({'; '.join(tried)})" if tried else ""
    raise CompileError(f"neither nvcc nor NVRTC is here{why}: pip install nvidia-cuda-nvrtc")


def compile_cuda(text: str, path: str, arch: str, options: tuple[str, ...]) -> str:
    lib = _library()

    def call(name: str, *args: object) -> int:
        status: int = getattr(lib, name)(*args)
        return status

    program = ctypes.c_void_p()
    made = call("nvrtcCreateProgram", ctypes.byref(program), text.encode(),
                (path or "kernel.cu").encode(), 0, None, None)  # fmt: skip
    if made != 0:
        raise CompileError(f"nvrtcCreateProgram: status {made}")
    try:
        words = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", "-lineinfo", *options]
        if path:
            words.append(f"-I{os.path.dirname(os.path.abspath(path))}")
        words += [f"-I{folder}" for folder in _includes()]
        array = (ctypes.c_char_p * len(words))(*[w.encode() for w in words])
        done = call("nvrtcCompileProgram", program, len(words), array)
        if done != 0:
            size = ctypes.c_size_t()
            call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            call("nvrtcGetProgramLog", program, log)
            raise CompileError(f"nvrtc {' '.join(words)}\n{log.value.decode(errors='replace')}".rstrip())
        size = ctypes.c_size_t()
        call("nvrtcGetPTXSize", program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        call("nvrtcGetPTX", program, out)
        return out.value.decode()
    finally:
        call("nvrtcDestroyProgram", ctypes.byref(program))


__all__ = ["compile_cuda"]
