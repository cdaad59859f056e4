"""Nodes and their memories."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _dtypes
from ._arguments import Address, Context, Struct, TensorMap, _arity, argument
from ._dtypes import Array
from ._errors import InputError

if TYPE_CHECKING:
    from ._case import Case

_GENERATED = ("integers", "normal", "adversarial")


class Memory:
    """An allocation: `symmetric` has a replica on each rank that peers reach, `local` is each rank's own.

    As an argument it is the address of the own replica; see also peers, multicast, peer(), of(), at().
    """

    def __init__(
        self, node: Node, name: str, kind: str, shape: tuple[int, ...], dtype: str, init: Any,
        same: bool, once: bool, distance: int | None,
    ) -> None:  # fmt: skip
        self.node = node
        self.name = name
        self.kind = kind
        self.shape = shape
        self.dtype = dtype
        self.init = init
        self.same = same
        self.once = once
        self.distance = distance
        self._numbers: dict[tuple[int, int], Array] = {}

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * _dtypes.itemsize(self.dtype)

    def __repr__(self) -> str:
        return f"<{self.kind} memory {self.name}: {self.dtype} {list(self.shape)}>"

    # Addresses.

    def _symmetric(self, what: str) -> None:
        if self.kind != "symmetric":
            raise InputError(f"{self.name}.{what}: only its own rank can access a local memory")

    @property
    def peers(self) -> Address:
        """A device array of the addresses of all replicas."""
        self._symmetric("peers")
        return Address(self, "peers")

    @property
    def multicast(self) -> Address:
        """The multicast address."""
        self._symmetric("multicast")
        return Address(self, "multicast")

    def peer(self, distance: int) -> Address:
        """The replica of rank (own rank + distance) mod ranks."""
        self._symmetric("peer()")
        return Address(self, "memory", {"peer": distance})

    def of(self, rank: int) -> Address:
        """The replica of one rank, on all ranks."""
        self._symmetric("of()")
        return Address(self, "memory", {"rank": rank})

    def at(self, offset: int = 0, per_rank: int = 0) -> Address:
        """The own replica, `offset` bytes on, and `per_rank` more for each rank."""
        return Address(self, "memory").at(offset, per_rank)

    def replicas(self, count: int) -> Address:
        """In a struct: the addresses of all replicas, zero beyond the ranks."""
        self._symmetric("replicas()")
        return Address(self, "replicas", {"count": count})

    def distances(self, count: int) -> Address:
        """In a struct: these less the address of the own replica."""
        self._symmetric("distances()")
        return Address(self, "distances", {"count": count})

    def tensor_map(
        self, box: Sequence[int], *, swizzle: str = "none", of: Address | None = None,
        shape: Sequence[int] | None = None, strides: Sequence[int] | None = None,
    ) -> TensorMap:  # fmt: skip
        """A CUtensorMap, sizes as in NumPy: innermost last. `strides`: bytes, but for the innermost."""
        return TensorMap(
            of if of is not None else Address(self, "memory"),
            tuple(box),
            tuple(shape) if shape is not None else self.shape,
            tuple(strides) if strides is not None else None,
            swizzle,
            self.dtype,
        )

    # What is there at the start.

    @property
    def per_call(self) -> bool:
        """Whether what is written there may differ from call to call."""
        return not self.once and (callable(self.init) or self.init in _GENERATED if _hashable(self.init) else False)

    @property
    def is_array(self) -> bool:
        return not isinstance(self.init, (str, int, Struct, Address))

    @property
    def is_generated(self) -> bool:
        return isinstance(self.init, str) and self.init in _GENERATED

    def bits(self, rank: int, call: int) -> Array:
        """The bit patterns that the memory is given before a call."""
        call = 0 if self.once else call
        if isinstance(self.init, str):
            if self.init == "zero":
                return np.zeros(self.shape, _dtypes.bits_dtype(self.dtype))
            if self.init == "poison":
                raise InputError(f"{self.name}: it has no content before a kernel writes it (init = 'poison')")
            return _generate(self, 0 if self.same else rank, call)
        if isinstance(self.init, int):
            whole = np.full(self.nbytes, self.init, "u1")
            return whole.view(_dtypes.bits_dtype(self.dtype)).reshape(self.shape)
        if not self.is_array:
            raise InputError(f"{self.name}: it holds addresses or a struct, which NumPy cannot represent")
        return self._given(rank, call)

    def _given(self, rank: int, call: int) -> Array:
        init = self.init
        if callable(init):
            value = init(rank, call) if _arity(init) > 1 else init(rank)
        elif isinstance(init, (list, tuple)) and len(init) == self.node.ranks and _is_arrays(init, self.shape):
            value = init[rank]
        else:
            value = init
        array, _ = _dtypes.as_array(value)
        if array.shape != self.shape:
            if array.shape != ():
                raise InputError(f"{self.name}: init has shape {list(array.shape)}, the memory {list(self.shape)}")
            array = np.broadcast_to(array, self.shape)
        return _dtypes.to_bits(array, self.dtype)

    def numbers(self, rank: int, call: int = 0) -> Array:
        """The same as numbers: float64 for floats."""
        key = (rank, call)
        if key not in self._numbers:
            array = _dtypes.as_numbers(self.bits(rank, call), self.dtype).reshape(self.shape)
            array.setflags(write=False)
            self._numbers[key] = array
        return self._numbers[key]

    def init_toml(self, context: Context) -> Any:
        """`init` where it is no array; None where nothing need be said."""
        init = self.init
        if isinstance(init, str):
            if init == "zero":
                return None
            if init == "poison":
                return "poison"
            out: dict[str, Any] = {self.dtype: init}
            if self.same:
                out["same"] = True
            if self.once:
                out["once"] = True
            return out
        if isinstance(init, int):
            return {"fill": init}
        return argument(init, None, context)


def _hashable(value: Any) -> bool:
    return isinstance(value, str) or callable(value)


def _is_arrays(values: Sequence[Any], shape: tuple[int, ...]) -> bool:
    """Whether a list is of arrays of that shape, one a rank, and not itself the content."""
    return all(hasattr(v, "shape") and tuple(v.shape) == shape for v in values) or (
        all(isinstance(v, (list, tuple)) for v in values) and np.shape(values[0]) == shape
    )


def _generate(memory: Memory, rank: int, call: int) -> Array:
    """Payloads as the program's: integers leave sums over the ranks exact, unsigned ones are never 0."""
    seed = zlib.crc32(memory.name.encode())
    random = np.random.default_rng([memory.node.seed, seed, rank, call])
    dtype, ranks = memory.dtype, memory.node.ranks
    if memory.init == "integers":
        if _dtypes.is_float(dtype):
            room = {"e4m3": 16, "e5m2": 8}.get(dtype, 128)
            most = min(max(room // ranks, 1), 16)
            return _dtypes.to_bits(random.integers(-most, most + 1, memory.shape).astype("f4"), dtype)
        bits = 8 * _dtypes.itemsize(dtype)
        most = max(1, (1 << min(bits - 1, 24)) // ranks - 1)
        least = 1 if dtype[0] == "u" else -most
        return random.integers(least, most + 1, memory.shape).astype(_dtypes.bits_dtype(dtype))
    if memory.init == "normal":
        if not _dtypes.is_float(dtype):
            raise InputError(f"{memory.name}: init of {dtype} is 'integers', not 'normal'")
        return _dtypes.to_bits(random.standard_normal(memory.shape).astype("f4"), dtype)
    raise InputError(
        f"{memory.name}: what 'adversarial' generates is known to the program alone; expect an expression, "
        "or give arrays"
    )


class Node:
    """A node of so many GPUs, one rank on each, and the memories that its kernels are given.

    `multiprocessors`: of each GPU; how many blocks fit on it at a time follows from it.
    """

    def __init__(self, ranks: int, *, seed: int = 1, multiprocessors: int = 132) -> None:
        if not 1 <= ranks <= 64:
            raise InputError(f"Node(ranks={ranks}): expected 1 to 64")
        if not 1 <= multiprocessors <= 1024:
            raise InputError(f"Node(multiprocessors={multiprocessors}): expected 1 to 1024")
        self.ranks = ranks
        self.multiprocessors = multiprocessors
        self.seed = seed
        self.memories: dict[str, Memory] = {}

    def symmetric(
        self, name: str, shape: int | Sequence[int], dtype: Any = "uint8", *, init: Any = "zero",
        same: bool = False, once: bool = False, distance: int | None = None,
    ) -> Memory:  # fmt: skip
        """A memory with a replica on each rank, which peers and the multicast address reach.

        init: "zero", "poison" (nobody may read it before it is written), "integers", "normal",
        "adversarial"; a byte; an array for all ranks, a list of one a rank, a function of rank and call;
        an address or rf.struct. Generated content and arrays are written anew before each call, unless
        `once`. `same`: one generated content for all ranks.
        """
        return self._add(name, "symmetric", shape, dtype, init, same, once, distance)

    def local(
        self, name: str, shape: int | Sequence[int], dtype: Any = "uint8", *, init: Any = "zero",
        same: bool = False, once: bool = False,
    ) -> Memory:  # fmt: skip
        """A memory that each rank has for itself; `init` as in symmetric()."""
        return self._add(name, "local", shape, dtype, init, same, once, None)

    def _add(
        self, name: str, kind: str, shape: int | Sequence[int], dtype: Any, init: Any, same: bool, once: bool,
        distance: int | None,
    ) -> Memory:  # fmt: skip
        if not re.match(r"[A-Za-z_]\w*\Z", name):
            raise InputError(f"memory {name!r}: its name is a word of letters, digits and _")
        if name in self.memories:
            raise InputError(f"memory {name!r}: the name is already in use")
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
        if any(n < 1 for n in sizes):
            raise InputError(f"memory {name!r}: shape {list(sizes)}: expected sizes of at least 1")
        words = ("zero", "poison", *_GENERATED)
        if isinstance(init, str) and init not in words:
            raise InputError(f"memory {name!r}: init {init!r}: expected one of {', '.join(words)}")
        if isinstance(init, int) and not isinstance(init, bool) and not 0 <= init <= 255:
            raise InputError(f"memory {name!r}: init {init}: expected a byte; for elements give an array")
        memory = Memory(
            self, name, kind, tuple(int(n) for n in sizes), _dtypes.dtype_name(dtype), init, same, once, distance
        )
        if memory.is_array and not callable(init):
            memory.bits(0, 0)  # says now what is wrong with it
        self.memories[name] = memory
        return memory

    def case(self, steps: Any, **options: Any) -> Case:
        """A case: what the host puts on its streams in each call, and what has to come of it. See Case."""
        from ._case import Case

        return Case(self, steps, **options)
