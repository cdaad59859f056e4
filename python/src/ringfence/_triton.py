"""Triton kernels: compiled without a GPU, to one PTX, or to one for each rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._arguments import Address, Scalar, TensorMap
from ._errors import CompileError, InputError
from ._formula import Formula
from ._kernel import Configured, Kernel, Launch, Module
from ._memory import Memory, Node

_TYPES = {
    "bf16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64", "e4m3": "fp8e4nv", "e5m2": "fp8e5",
    "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64",
}  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B")
Constexprs = Mapping[str, Any]
# Of one @triton.heuristics: the arguments that it sets, each by a function of all the others.
Heuristics = Mapping[str, Callable[[dict[str, Any]], Any]]


def _pointer(value: Memory | Address) -> tuple[str, int]:
    """Its Triton type, and what its address is a multiple of, as far as known."""
    if isinstance(value, Memory):
        return "*" + _TYPES[value.dtype], 16
    extra = value.extra
    if value.kind in ("peers", "replicas", "distances"):
        element = "u64"
    else:
        element = _TYPES[value.memory.dtype]
    shifts = (extra.get("offset", 0), extra.get("offset_per_rank", 0))
    return "*" + element, 16 if all(s % 16 == 0 for s in shifts) else 1


def _typed(value: Any, name: str) -> tuple[str, bool]:
    """What the JIT makes of an example argument: its type, and whether it is a multiple of 16."""
    if isinstance(value, (Memory, Address)):
        kind, multiple = _pointer(value)
        return kind, multiple == 16
    if isinstance(value, TensorMap):
        return f"tensordesc<{_TYPES[value.dtype]}{list(value.box)}>", False
    if isinstance(value, Scalar):
        return _TYPES[value.type], False
    if isinstance(value, (bool, np.bool_)):
        return "i1", False
    if isinstance(value, (int, np.integer)):
        small = -(2**31) <= int(value) < 2**31
        return ("i32" if small else "i64"), int(value) % 16 == 0
    if isinstance(value, (float, np.floating)):
        return "fp32", False
    if isinstance(value, Formula):
        return "i32", False
    if isinstance(value, (list, tuple, np.ndarray)) and len(value):
        return _typed(value[0], name)[0], False
    if callable(value):
        return "i32", False
    raise InputError(f"argument {name}: {value!r}: expected a memory, an address, a tensor map or a number")


class _Compiled:
    """Of one signature and one set of constexprs a rank."""

    def __init__(self, kernel: Kernel, names: Sequence[str], descriptors: Sequence[Mapping[str, Any]]) -> None:
        self.kernel = kernel
        self.names = tuple(names)
        self.descriptors = tuple(descriptors)


class TritonKernel:
    """A @triton.jit function. `kernel[grid](arguments, BLOCK=64, ...)` compiles it as the JIT would, and launches it.

    A constexpr may be rf.rank, rf.world or a function of the rank: then each rank has PTX of its own.
    """

    def __init__(
        self, fn: Any, signature: Any, constexprs: Constexprs | Callable[[int], Constexprs] | None, ranks: int | None,
        arch: int, options: Mapping[str, Any], heuristics: Sequence[Heuristics] = (),
    ) -> None:  # fmt: skip
        self.fn = fn
        self.heuristics = tuple(heuristics)
        self.name: str = fn.__name__
        self.names: list[str] = list(fn.arg_names)
        self.arch = arch
        self.options = dict(options)
        self._constexprs = constexprs
        self._ranks = ranks
        self._signature = self._named(signature) if signature is not None else None
        self._cache: dict[Any, _Compiled] = {}

    def __repr__(self) -> str:
        return f"<Triton kernel {self.name} {self.options}>"

    def _named(self, signature: Any) -> dict[str, str]:
        """A signature as {argument: type}: of a dict, a text '*bf16, i32', or a list of types or of examples."""
        fixed = self._constexprs(0) if callable(self._constexprs) else self._constexprs or {}
        free = [n for n in self.names if n not in fixed]
        if isinstance(signature, str):
            signature = [t.strip() for t in _split(signature)]
        if not isinstance(signature, Mapping):
            if len(signature) > len(free):
                raise InputError(f"{self.name}: {len(signature)} types for {len(free)} arguments {', '.join(free)}")
            signature = dict(zip(free, signature))
        out: dict[str, str] = {}
        for name, kind in signature.items():
            if name not in self.names:
                raise InputError(f"{self.name}: no argument {name!r}; there is {', '.join(self.names)}")
            if isinstance(kind, str):
                out[name] = kind
            else:
                typed, multiple = _typed(kind, name)
                out[name] = typed + (":16" if multiple else "")
        return out

    def __getitem__(self, grid: Any) -> TritonConfigured:
        return TritonConfigured(self, grid)

    @property
    def ptx(self) -> str:
        """The PTX of what was compiled last, of rank 0."""
        if not self._cache:
            if self._signature is None:
                raise InputError(f"{self.name}: it is compiled only when it is launched or has a signature")
            self.compile({}, {}, self._ranks or 1)
        return list(self._cache.values())[-1].kernel.ptx

    def compile(self, arguments: Mapping[str, Any], constexprs: Constexprs, ranks: int) -> _Compiled:
        signature, hints = self._types(arguments, constexprs)
        each = [self._constants(constexprs, r, ranks) for r in range(ranks)]
        keys = [tuple(sorted((k, repr(v)) for k, v in c.items())) for c in each]
        key = (tuple(signature.items()), tuple(sorted(hints)), tuple(keys if len(set(keys)) > 1 else keys[:1]))
        if key in self._cache:
            return self._cache[key]
        done: dict[Any, tuple[Module, Any]] = {}
        for k, constants in zip(keys, each):
            if k not in done:
                done[k] = self._one(signature, hints, constants)
        modules = [done[k][0] for k in (keys if len(done) > 1 else keys[:1])]
        metadata = done[keys[0]][1]
        shared = max(m.shared for _, m in done.values())
        for what in ("global_scratch_size", "profile_scratch_size"):
            if getattr(metadata, what, 0):
                raise InputError(
                    f"{self.name}: it needs {getattr(metadata, what)} bytes of {what.removesuffix('_size')} "
                    "(descriptors made on the device): pass descriptors from the host (memory.tensor_map(...))"
                )
        if len({m.num_warps for _, m in done.values()}) != 1:
            raise InputError(f"{self.name}: the ranks' kernels have different numbers of warps")
        kernel = Kernel(
            modules, metadata.name, block=[metadata.num_warps * 32], shared_bytes=shared,
            cluster=[metadata.num_ctas] if metadata.num_ctas > 1 else None,
        )  # fmt: skip
        names = [n for n in self.names if signature.get(n) not in (None, "constexpr")]
        compiled = _Compiled(kernel, names, list(getattr(metadata, "tensordesc_meta", None) or []))
        self._cache[key] = compiled
        return compiled

    def _types(self, arguments: Mapping[str, Any], constexprs: Constexprs) -> tuple[dict[str, str], list[int]]:
        signature: dict[str, str] = {}
        hints: list[int] = []
        fixed = self._constexprs(0) if callable(self._constexprs) else self._constexprs or {}
        for i, name in enumerate(self.names):
            if name in constexprs or name in fixed or self._is_constexpr(i):
                signature[name] = "constexpr"
                continue
            if self._signature is not None and name in self._signature:
                kind, _, hint = self._signature[name].partition(":")
                multiple = hint == "16"
            elif name in arguments:
                kind, multiple = _typed(arguments[name], name)
                multiple = multiple and not self._unspecialised(i)
            else:
                raise InputError(f"{self.name}: argument {name!r} is missing")
            signature[name] = kind
            if multiple:
                hints.append(i)
        return signature, hints

    def _is_constexpr(self, i: int) -> bool:
        return bool(self.fn.params[i].is_constexpr)

    def _unspecialised(self, i: int) -> bool:
        return bool(getattr(self.fn.params[i], "do_not_specialize", False))

    def _constants(self, constexprs: Constexprs, rank: int, ranks: int) -> dict[str, Any]:
        fixed = self._constexprs(rank) if callable(self._constexprs) else self._constexprs or {}
        out: dict[str, Any] = {}
        for name, value in {**fixed, **constexprs}.items():
            if name not in self.names:
                raise InputError(f"{self.name}: no argument {name!r}; there is {', '.join(self.names)}")
            if isinstance(value, Formula):
                value = eval(value.text.replace("/", "//"), {"__builtins__": {}}, {"rank": rank, "world": ranks})
            elif inspect.isfunction(value):
                value = value(rank)
            out[name] = value
        for i, p in enumerate(self.fn.params):
            if p.name not in out and self._is_constexpr(i):
                if p.default is inspect.Parameter.empty:
                    raise InputError(f"{self.name}: the constexpr {p.name} is missing")
                out[p.name] = p.default
        return out

    def _one(self, signature: Mapping[str, str], hints: Sequence[int], constants: Constexprs) -> tuple[Module, Any]:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        attrs = {(i,): [["tt.divisibility", 16]] for i in hints}
        source = ASTSource(fn=self.fn, signature=dict(signature), constexprs=dict(constants), attrs=attrs)
        try:
            out = triton.compile(source, target=GPUTarget("cuda", self.arch, 32), options=dict(self.options))
        except Exception as e:
            raise CompileError(f"triton, {self.name}: {e}") from e
        return Module(out.asm["ptx"], self.name), out.metadata


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    out, depth = [""], 0
    for c in text:
        depth += (c in "<[") - (c in ">]")
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return out


def _node_of(values: Sequence[Any]) -> Node | None:
    for v in values:
        if isinstance(v, Memory):
            return v.node
        if isinstance(v, Address):
            return v.memory.node
        if isinstance(v, TensorMap):
            return v.address.memory.node
    return None


class TritonConfigured:
    """A Triton kernel with its grid."""

    def __init__(self, kernel: TritonKernel, grid: Any) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(
        self, *args: Any, stream: int = 0, cooperative: bool = False, dependent: bool = False, **named: Any
    ) -> Launch:
        k = self.kernel
        fixed = k._constexprs(0) if callable(k._constexprs) else k._constexprs or {}
        # Positions are those of the function; constexprs that are known are passed over.
        chosen = [name for values in k.heuristics for name in values]
        free = [n for n in k.names if n not in fixed and n not in named and n not in chosen]
        if len(args) > len(free):
            raise InputError(f"{k.name}: {len(args)} arguments given, {len(free)} are free: {', '.join(free)}")
        given = {**dict(zip(free, args)), **named}
        for name in given:
            if name not in k.names:
                raise InputError(f"{k.name}: no argument {name!r}; there is {', '.join(k.names)}")
        # As Triton does: the outer ones first, each seeing what the ones before it set.
        for values in k.heuristics:
            for name, choose in values.items():
                given[name] = choose({**fixed, **given})
        constexprs: dict[str, Any] = {}
        arguments: dict[str, Any] = {}
        for i, name in enumerate(k.names):
            if name not in given:
                continue
            value = given[name]
            in_signature = k._signature is not None and name in k._signature
            one = type(value) is int and value == 1 and not in_signature and not k._unspecialised(i)
            if k._is_constexpr(i) or value is None or one:
                constexprs[name] = value
            else:
                arguments[name] = value
        node = _node_of(list(arguments.values()))
        ranks = node.ranks if node is not None else k._ranks
        if ranks is None:
            raise InputError(f"{k.name}: unknown number of ranks: give rf.triton ranks=N, or the launch a memory")
        compiled = k.compile(arguments, constexprs, ranks)
        passed: list[Any] = []
        descriptors = iter(compiled.descriptors)
        for name in compiled.names:
            if name not in arguments:
                raise InputError(f"{k.name}: argument {name!r} is missing")
            value = arguments[name]
            if isinstance(value, TensorMap):
                passed += _descriptor(value, next(descriptors), k.name)
            else:
                passed.append(value)
        # Triton's own scratch, of which none is needed.
        passed += [Scalar("u64", 0)] * (len(compiled.kernel.parameters) - len(passed))
        grid = self.grid
        if callable(grid) and list(inspect.signature(grid).parameters)[0].lower() == "meta":
            grid = grid({**k._constants(constexprs, 0, ranks), **given})
        configured: Configured = compiled.kernel[grid]
        return configured(*passed, stream=stream, cooperative=cooperative, dependent=dependent)


def _descriptor(value: TensorMap, meta: Mapping[str, Any], kernel: str) -> list[Any]:
    """A descriptor as Triton's launcher passes it: the map, its sizes, its strides in elements."""
    from . import _dtypes

    if tuple(value.box) != tuple(meta["block_size"]) and int(np.prod(value.box)) < int(np.prod(meta["block_size"])):
        raise InputError(f"{kernel}: a descriptor's block is {list(meta['block_size'])}, not {list(value.box)}")
    size = _dtypes.itemsize(value.dtype)
    mapped = TensorMap(
        value.address, tuple(meta["block_size"]), value.shape, value.strides, _SWIZZLES[meta["swizzle"]], value.dtype
    )
    strides = [1]
    for n in reversed(value.shape[1:]):
        strides.insert(0, strides[0] * n)
    if value.strides is not None:
        strides = [s // size for s in value.strides] + [1]
    return [mapped, *value.shape, *strides]


def triton(
    kernel: Any, signature: Any = None, constexprs: Constexprs | Callable[[int], Constexprs] | None = None, *,
    num_warps: int | None = None, num_stages: int | None = None, num_ctas: int | None = None,
    ranks: int | Node | None = None, arch: int = 90, **options: Any,
) -> TritonKernel:  # fmt: skip
    """A Triton kernel, compiled without a GPU.

    `signature`: {argument: type}, "*bf16:16, i32", or examples; left out, the launch's arguments say it, as for
    Triton's JIT (pointers and multiples of 16 are taken as such). `constexprs`: a dict, or a function of the rank;
    a launch may name them, too. Further options are Triton's (num_warps, num_stages, maxnreg, ...).
    """
    kernel, heuristics = _without_heuristics(kernel)
    if not hasattr(kernel, "arg_names") or not hasattr(kernel, "params"):
        if hasattr(kernel, "configs"):
            raise InputError("an autotuned kernel: rf.triton_configs gives one kernel for each of its configurations")
        raise InputError(f"{kernel!r}: expected a @triton.jit function, or one with @triton.heuristics")
    for key, value in (("num_warps", num_warps), ("num_stages", num_stages), ("num_ctas", num_ctas)):
        if value is not None:
            options[key] = value
    count = ranks.ranks if isinstance(ranks, Node) else ranks
    return TritonKernel(kernel, signature, constexprs, count, arch, options, heuristics)


def _without_heuristics(kernel: Any) -> tuple[Any, list[Heuristics]]:
    """What is below a kernel's @triton.heuristics, and these, the outermost first."""
    heuristics: list[Heuristics] = []
    while hasattr(kernel, "values") and hasattr(kernel, "fn"):
        heuristics.append(kernel.values)
        kernel = kernel.fn
    return kernel, heuristics


def triton_configs(kernel: Any, constexprs: Constexprs | None = None, **options: Any) -> list[TritonKernel]:
    """One kernel for each configuration of a @triton.autotune kernel: what its tuner would choose among."""
    kernel, outer = _without_heuristics(kernel)
    if not hasattr(kernel, "configs"):
        raise InputError(f"{kernel!r}: expected a @triton.autotune kernel")
    out = []
    for config in kernel.configs:
        chosen = {"num_warps": config.num_warps, "num_stages": config.num_stages, "num_ctas": config.num_ctas}
        chosen = {k: v for k, v in chosen.items() if v is not None}
        fixed = {**(constexprs or {}), **config.kwargs}
        made = triton(kernel.fn, constexprs=fixed, **{**chosen, **options})
        made.heuristics = (*outer, *made.heuristics)
        out.append(made)
    return out
