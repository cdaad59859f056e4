"""Kernels, what they are launched with, and the host's steps between them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from . import _arguments
from ._arguments import Address, Context, argument, by_rank
from ._errors import CompileError, InputError
from ._formula import Formula
from ._memory import Memory

Dim = Union[int, Sequence[int], Callable[[int], Any]]

_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(\([^)]*\))?", re.S)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]\w*)(?:\s+\.ptr(?:\s+\.\w+)*(?:\s+\.align\s+\d+)?)?"
    r"\s+(?:\.align\s+\d+\s+)?[\w$%]+\s*(?:\[\s*(\d+)\s*\])?"
)
_NOTE = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


@dataclass(frozen=True)
class Parameter:
    """Of a kernel: its PTX type without the dot, and its bytes where it is an array (a struct)."""

    type: str
    count: int | None = None


def entries(ptx: str) -> dict[str, tuple[Parameter, ...]]:
    """The kernels of a PTX text and their parameters."""
    out: dict[str, tuple[Parameter, ...]] = {}
    for name, listed in _ENTRY.findall(_NOTE.sub("", ptx)):
        found = _PARAM.findall(listed or "")
        out[name] = tuple(Parameter(t, int(n) if n else None) for t, n in found)
    return out


@dataclass(frozen=True)
class Module:
    """PTX text, and the name that its file has beside a case."""

    ptx: str
    stem: str

    @functools.cached_property
    def entries(self) -> dict[str, tuple[Parameter, ...]]:
        return entries(self.ptx)

    def entry(self, part: str) -> str:
        if part in self.entries:
            return part
        matches = [n for n in self.entries if part in n]
        if len(matches) == 1:
            return matches[0]
        there = ", ".join(self.entries) or "none"
        if not matches:
            raise InputError(f"{self.stem}: no kernel {part!r}; there is: {there}")
        raise InputError(f"{self.stem}: {part!r} is part of several kernels' names: {', '.join(matches)}")


class Kernel:
    """A kernel of one module, or of one for each rank. `kernel[grid, block](arguments)` launches it."""

    def __init__(
        self, modules: Sequence[Module], name: str, *, block: Sequence[int] | None = None,
        shared_bytes: int = 0, cluster: Sequence[int] | None = None, hidden: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        self.modules = tuple(modules)
        names = [m.entry(name) for m in self.modules]
        self.names = tuple(names)
        self.name = names[0]
        self.parameters = self.modules[0].entries[names[0]]
        self._block = block  # what a compiler has fixed
        self._shared = shared_bytes
        self._cluster = cluster
        self._hidden = tuple(hidden)  # arguments that its compiler adds

    @property
    def ptx(self) -> str:
        """The PTX text, of rank 0 where each rank has its own."""
        return self.modules[0].ptx

    def __repr__(self) -> str:
        return f"<kernel {self.name} of {len(self.parameters)} parameters>"

    def __getitem__(self, dims: Any) -> Configured:
        """[grid, block], or [grid] where a compiler fixed the block: numbers, tuples, functions of the rank."""
        if self._block is not None:
            two = isinstance(dims, tuple) and len(dims) == 2 and not all(isinstance(d, int) for d in dims)
            if two:
                raise InputError(f"{self.name}: its block is {list(self._block)}, as it was compiled; give the grid")
            return Configured(self, dims, tuple(self._block))
        if not isinstance(dims, tuple) or len(dims) != 2:
            raise InputError(f"{self.name}[grid, block]: expected a grid and a block, each a number or a tuple")
        return Configured(self, dims[0], dims[1])


@dataclass(frozen=True)
class Configured:
    """A kernel with its grid and block."""

    kernel: Kernel
    grid: Any
    block: Any

    def __call__(
        self, *args: Any, shared_bytes: int | None = None, cluster: int | Sequence[int] | None = None,
        stream: int = 0, cooperative: bool = False, dependent: bool = False,
    ) -> Launch:  # fmt: skip
        k = self.kernel
        given = len(args) + len(k._hidden)
        if given != len(k.parameters):
            due = len(k.parameters) - len(k._hidden)
            raise InputError(f"{k.name}: {len(args)} arguments given, it has {due}")
        options: dict[str, Any] = {}
        shared = k._shared if shared_bytes is None else shared_bytes
        if shared:
            options["shared_bytes"] = shared
        chosen = k._cluster if cluster is None else cluster
        if chosen is not None:
            options["cluster"] = [chosen] if isinstance(chosen, int) else list(chosen)
        if stream:
            options["stream"] = stream
        if cooperative:
            options["cooperative"] = True
        if dependent:
            options["dependent"] = True
        return Launch(k, self.grid, self.block, (*args, *k._hidden), options)


def _dim(value: Any, what: str) -> list[int]:
    if isinstance(value, int):
        return [value]
    try:
        sizes = [int(v) for v in value]
    except TypeError:
        raise InputError(f"{what} {value!r}: expected a number, a tuple or a function of the rank") from None
    if not 1 <= len(sizes) <= 3:
        raise InputError(f"{what} {value!r}: expected 1 to 3 numbers")
    return sizes


def _dims(value: Any, what: str, ranks: int) -> Any:
    if not callable(value):
        return _dim(value, what)
    return [_dim(v, what) for v in by_rank(value, ranks)]


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel by all ranks, in each call."""

    kernel: Kernel
    grid: Any
    block: Any
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def memories(self) -> list[Memory]:
        found: list[Memory] = []
        _collect(self.args, found)
        return found

    def toml(self, context: Context, names: Mapping[int, str]) -> tuple[str, dict[str, Any]]:
        k = self.kernel
        if len(k.modules) not in (1, context.ranks):
            raise InputError(f"{k.name}: compiled for {len(k.modules)} ranks, the node has {context.ranks}")
        files = [names[id(m)] for m in k.modules]
        out: dict[str, Any] = {
            "ptx": files[0] if len(set(files)) == 1 else files,
            "kernel": k.name if len(set(k.names)) == 1 else list(k.names),
            "grid": _dims(self.grid, "grid", context.ranks),
            "block": _dims(self.block, "block", context.ranks),
            **self.options,
        }
        args = []
        for i, (value, parameter) in enumerate(zip(self.args, k.parameters)):
            try:
                args.append(argument(value, parameter.type if parameter.count is None else "", context))
            except InputError as e:
                raise InputError(f"{k.name}, argument {i + 1}: {e}") from None
        out["args"] = args
        return "launch", out


def _collect(values: Any, found: list[Memory]) -> None:
    for value in values:
        if isinstance(value, Memory):
            found.append(value)
        elif isinstance(value, Address):
            found.append(value.memory)
        elif isinstance(value, _arguments.TensorMap):
            found.append(value.address.memory)
        elif isinstance(value, _arguments.Struct):
            _collect(value.fields, found)


# Steps of the host.


@dataclass(frozen=True)
class HostStep:
    """What the host puts on a stream between launches; see docs/cases.md."""

    what: str
    value: Any
    stream: int = 0
    ranks: tuple[int, ...] | None = None

    def memories(self) -> list[Memory]:
        found: list[Memory] = []
        if isinstance(self.value, Mapping):
            _collect(self.value.values(), found)
        return found

    def toml(self, context: Context, names: Mapping[int, str]) -> tuple[str, dict[str, Any]]:
        value = self.value
        if isinstance(value, Mapping):
            value = {k: self._field(v, context) for k, v in value.items()}
        out: dict[str, Any] = {self.what: value}
        if self.stream:
            out["stream"] = self.stream
        if self.ranks is not None:
            out["ranks"] = list(self.ranks)
        return "host", out

    @staticmethod
    def _field(value: Any, context: Context) -> Any:
        if isinstance(value, (Memory, Address)):
            return argument(value, None, context)
        return value.text if isinstance(value, Formula) else value


def _step(what: str, value: Any, stream: int, ranks: Sequence[int] | None) -> HostStep:
    return HostStep(what, value, stream, tuple(ranks) if ranks is not None else None)


Place = Union[Memory, Address]


def memset(
    to: Place, nbytes: int | None = None, value: int = 0, *, stream: int = 0, ranks: Sequence[int] | None = None
) -> HostStep:
    """Bytes of one value, by weak stores."""
    if nbytes is None:
        nbytes = to.nbytes if isinstance(to, Memory) else to.memory.nbytes
    return _step("memset", {"to": to, "bytes": nbytes, "value": value}, stream, ranks)


def copy(
    source: Place, to: Place, nbytes: int | None = None, *, stream: int = 0, ranks: Sequence[int] | None = None
) -> HostStep:
    """A copy, also from or to a peer's replica."""
    if nbytes is None:
        nbytes = source.nbytes if isinstance(source, Memory) else source.memory.nbytes
    return _step("copy", {"from": source, "to": to, "bytes": nbytes}, stream, ranks)


def write_value(
    to: Place, value: int | Formula, *, bits: int = 32, fence: bool = True, stream: int = 0,
    ranks: Sequence[int] | None = None,
) -> HostStep:  # fmt: skip
    """A flag, behind a fence of the stream's earlier tasks unless fence is False."""
    inner = {"to": to, f"u{bits}": value, **({} if fence else {"fence": False})}
    return _step("write", inner, stream, ranks)


def wait_value(
    at: Place, value: int | Formula, *, bits: int = 32, compare: str = "geq", flush: bool = False, stream: int = 0,
    ranks: Sequence[int] | None = None,
) -> HostStep:  # fmt: skip
    """Waits until the value there is as large ("geq") or the same ("eq")."""
    inner = {"at": at, f"u{bits}": value, "compare": compare, **({"flush": True} if flush else {})}
    return _step("wait", inner, stream, ranks)


def record(event: str, *, stream: int = 0, ranks: Sequence[int] | None = None) -> HostStep:
    """Records an event, anew in each call."""
    return _step("record", event, stream, ranks)


def wait_event(
    event: str, *, peer: int | None = None, rank: int | None = None, stream: int = 0,
    ranks: Sequence[int] | None = None,
) -> HostStep:  # fmt: skip
    """Waits until the own rank, or another one, has recorded the event in this call."""
    inner: dict[str, Any] = {"event": event}
    if peer is not None:
        inner["peer"] = peer
    if rank is not None:
        inner["rank"] = rank
    return _step("wait_event", inner, stream, ranks)


# Where kernels come from.


def _stem(path: Path) -> str:
    return re.sub(r"[^\w.-]", "_", path.stem) or "kernel"


def _is_text(source: str | os.PathLike[str]) -> bool:
    return isinstance(source, str) and "\n" in source


@functools.lru_cache(maxsize=256)
def _module(text: str, stem: str) -> Module:
    return Module(text, stem)


def ptx(source: str | bytes | os.PathLike[str], name: str, *, shared_bytes: int = 0) -> Kernel:
    """A kernel of a PTX text or file: what any compiler hands out. `name`: a unique part of its name."""
    if isinstance(source, bytes):
        source = source.decode().rstrip("\0")
    if _is_text(source):
        return Kernel([_module(str(source), "kernel")], name, shared_bytes=shared_bytes)
    path = Path(source)
    try:
        text = path.read_text()
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror}") from None
    return Kernel([_module(text, _stem(path))], name, shared_bytes=shared_bytes)


def _nvcc() -> str | None:
    found = os.environ.get("NVCC") or shutil.which("nvcc")
    usual = "/usr/local/cuda/bin/nvcc"
    return found or (usual if os.access(usual, os.X_OK) else None)


@functools.lru_cache(maxsize=256)
def _compile_cuda(text: str, path: str, stamp: int, arch: str, options: tuple[str, ...], compiler: str) -> str:
    del stamp  # the file as it was then
    nvcc = _nvcc()
    if compiler == "nvrtc" or (compiler == "" and nvcc is None):
        from . import _nvrtc

        return _nvrtc.compile_cuda(text, path, arch, options)
    if nvcc is None:
        raise CompileError("no nvcc on the PATH, in NVCC or in /usr/local/cuda/bin")
    with tempfile.TemporaryDirectory(prefix="ringfence-") as folder:
        out = Path(folder) / "kernel.ptx"
        source = path
        if not source:
            source = str(Path(folder) / "kernel.cu")
            Path(source).write_text(text)
        command = [nvcc, "-ptx", "-lineinfo", f"-arch={arch}", *options, source, "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise CompileError(f"{' '.join(command)}\n{done.stdout}{done.stderr}".rstrip())
        return out.read_text()


def cuda(
    source: str | os.PathLike[str], name: str, *, arch: str = "sm_90", options: Sequence[str] = (),
    compiler: str | None = None, shared_bytes: int = 0,
) -> Kernel:  # fmt: skip
    """A kernel of a CUDA file or text, compiled by nvcc where there is one, else by NVRTC.

    `name`: a unique part of its name, mangled unless it is extern "C". `options` are the compiler's
    (-DNAME, -I...). `compiler`: "nvcc" or "nvrtc", in place of what is found. NVRTC comes from a
    toolkit, or from PyPI: pip install nvidia-cuda-nvrtc.
    """
    if compiler not in (None, "nvcc", "nvrtc"):
        raise InputError(f"compiler {compiler!r}: expected nvcc or nvrtc")
    if _is_text(source):
        text, path, stamp, stem = str(source), "", 0, "kernel"
    else:
        file = Path(source)
        try:
            text, stamp = file.read_text(), file.stat().st_mtime_ns
        except OSError as e:
            raise InputError(f"{file}: cannot be read: {e.strerror}") from None
        path, stem = str(file), _stem(file)
    done = _compile_cuda(text, path, stamp, arch, tuple(options), compiler or "")
    return Kernel([_module(done, stem)], name, shared_bytes=shared_bytes)
