"""Builds ringfence-torch: the kernels of cuda/kernels behind torch's dispatcher, by torch's extension
tools, against the torch that is installed. Its version, its requirements and build.json say which.

    RINGFENCE_CUDA_ARCHITECTURES  "90a" unless set; several: "80;90a;100a"
    RINGFENCE_FMT                 folder that has fmt/core.h, where the compiler does not look there
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def found(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text())
    if match is None:
        raise SystemExit(f"ringfence-torch: {path} does not say {pattern}")
    return match.group(1)


VERSION = found(r"project\(ringfence VERSION ([0-9.]+)", ROOT / "CMakeLists.txt")
ARCHITECTURES = os.environ.get("RINGFENCE_CUDA_ARCHITECTURES", "90a").split(";")
BUILD = {
    "ringfence": VERSION,
    "interface": int(found(r"(?m)^INTERFACE = ([0-9]+)$", ROOT / "python/src/ringfence/torch/_native.py")),
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "cxx11_abi": torch.compiled_with_cxx11_abi(),
    "architectures": ARCHITECTURES,
}
if torch.version.cuda is None:
    raise SystemExit("ringfence-torch: this torch was built without CUDA: install one that has it")
if CUDA_HOME is None:
    raise SystemExit("ringfence-torch: no CUDA toolkit found: set CUDA_HOME to the one that has bin/nvcc")
FMT = Path(os.environ.get("RINGFENCE_FMT", "/usr/include"))
if not (FMT / "fmt" / "core.h").exists():
    raise SystemExit(f"ringfence-torch: no fmt/core.h in {FMT}: install libfmt-dev, or set RINGFENCE_FMT")

HOST = """bootstrap check device grid multicast multicast_gate symmetric_memory tokenweave_operator
    virtual_memory wait_report world""".split()
KERNELS = "push tokenweave tokenweave_bf16 tokenweave_fp16 unfused".split()
SOURCES = [
    ROOT / "cuda/torch/workspace.cpp",
    *(ROOT / f"cuda/host/{name}.cpp" for name in HOST),
    *(ROOT / f"cuda/kernels/{name}.cu" for name in KERNELS),
]


class Build(BuildExtension):
    def run(self) -> None:
        super().run()
        at = Path(self.get_ext_fullpath("ringfence_torch._native")).parent / "build.json"
        at.write_text(json.dumps(BUILD, indent=1, sort_keys=True) + "\n")


def local(text: str) -> str:
    """For the local part of a version: 2.11.0+cu130 is torch2.11.0.cu130."""
    return re.sub(r"[^a-z0-9.]+", ".", text.lower())


common = ["-std=c++20", "-DNDEBUG", "-DFMT_HEADER_ONLY"]
setup(
    name="ringfence-torch",
    version=f"{VERSION}+torch{local(str(torch.__version__))}",
    description="The native part of ringfence.torch, built for one torch",
    license="Apache-2.0",
    python_requires=">=3.10",
    install_requires=[f"ringfence == {VERSION}", f"torch == {str(torch.__version__).split('+')[0]}"],
    package_dir={"": "src"},
    packages=["ringfence_torch"],
    ext_modules=[
        CUDAExtension(
            "ringfence_torch._native",
            [str(s) for s in SOURCES],
            include_dirs=[str(ROOT), *([] if FMT == Path("/usr/include") else [str(FMT)])],
            extra_compile_args={
                "cxx": [*common, "-O2", "-ffp-contract=off"],
                "nvcc": [
                    *common, "-O3", "--expt-relaxed-constexpr",
                    *(f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES),
                ],
            },
        )
    ],
    cmdclass={"build_ext": Build.with_options(no_python_abi_suffix=True)},
)  # fmt: skip
