"""Groups of ranks, and the workspace of each: symmetric buffers and pads, or what stands in for them.

A workspace is made where it is first needed, by all ranks together, and grows as calls do; each has one
native workspace for each hidden size and dtype. What the ranks agree on (whether there is peer access,
who failed) travels over the group itself.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import uuid
import warnings
from typing import Any

import torch
import torch.distributed as dist

from .._errors import InputError, RingfenceError
from . import _native

MAX_RANKS = 8
MAX_HIDDEN = 16384
TRANSPORTS = ("auto", "peer", "push")


class PeerLostError(RingfenceError, RuntimeError):
    """A rank waited longer than the time limit for another. The group's workspace cannot be used any more."""


@dataclasses.dataclass(frozen=True)
class Options:
    transport: str = "auto"
    blocks: int = 0
    start: str = "relaxed"
    dependent_launch: bool = False
    timeout: float = 60.0


class VirtualRanks:
    """Ranks that are all on one device of this process, for tests: tensors have them as their first dimension."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = size
        self.device = device
        self.name = f"ringfence-virtual-{len(_virtual)}"
        _virtual[self.name] = self

    def __repr__(self) -> str:
        return f"VirtualRanks({self.size}, device='{self.device}')"


_virtual: dict[str, VirtualRanks] = {}


def virtual_ranks(size: int, device: torch.device | str | int = "cuda") -> VirtualRanks:
    """A group of `size` ranks on one device. On "cpu", plain PyTorch computes what the kernels would."""
    if not 1 <= size <= MAX_RANKS:
        raise InputError(f"{size} virtual ranks: use 1 to {MAX_RANKS}")
    return VirtualRanks(size, indexed(torch.device(device)))


def indexed(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def group_name(group: Any) -> str:
    """What the operators are given. Traced by torch.compile."""
    if isinstance(group, str):
        return group
    if isinstance(group, VirtualRanks):
        return group.name
    if group is None:
        if not dist.is_initialized():
            raise InputError("group None is torch.distributed's default group, which is not initialised")
        group = dist.group.WORLD
    name = getattr(group, "group_name", None)
    if name is None:
        raise InputError(
            f"group {group!r}: use a ProcessGroup that this process is a member of, its name, or virtual_ranks(n)"
        )
    return str(name)


def owned_rows(tokens: int, size: int, rank: int) -> tuple[int, int]:
    each = -(-tokens // size)
    return min(each * rank, tokens), min(each * (rank + 1), tokens)


class Native:
    """One native workspace, and its members' buffers."""

    def __init__(self, handle: Any, max_tokens: int, dtype: torch.dtype) -> None:
        self.handle = handle
        self.max_tokens = max_tokens
        self.buffers: list[torch.Tensor] = handle.buffers()
        # As their elements are: what a captured graph holds of it must outlive a larger one.
        self.captured = False


def translated(error: RuntimeError) -> Exception:
    """The native side says the kind of an error first."""
    kind, _, text = str(error).partition(": ")
    if kind == "peer-lost":
        return PeerLostError(text)
    if kind == "invalid":
        return InputError(text)
    return error


class Workspace:
    """What this process holds for a group."""

    def __init__(self, name: str, device: torch.device, options: Options) -> None:
        self.name = name
        self.device = device
        self.options = options
        self.natives: dict[tuple[int, torch.dtype, bool], Native] = {}
        self.retired: list[Native] = []
        self.fallback: str | None = None  # why the kernels are not used
        self.virtual = _virtual.get(name)
        self.group: Any = None
        if self.virtual is not None:
            self.size, self.rank = self.virtual.size, 0
            if self.virtual.device != device:
                raise InputError(f"the virtual ranks are on {self.virtual.device}, and a tensor is on {device}")
            if device.type != "cuda":
                self.fallback = f"the ranks are on {device}"
            return
        self.group = _process_group(name)
        self.rank = dist.get_rank(self.group)
        self.size = dist.get_world_size(self.group)
        missing, reason = None, None
        try:
            reason = self._obstacle()
        except ImportError as error:
            missing = str(error)  # told by all: the others would wait for this rank
        seen = self._gather((missing, reason))
        for rank, (lacks, _) in enumerate(seen):
            if lacks is not None:
                raise ImportError(f"rank {rank}: {lacks}")
        self.fallback = next((f"{r} (rank {i})" for i, (_, r) in enumerate(seen) if r is not None), None)
        if self.fallback is not None:
            self._warn()

    def _warn(self) -> None:
        warnings.warn(
            f"ringfence.torch: group '{self.name}' uses the all-reduce of torch.distributed and a norm: {self.fallback}",
            RuntimeWarning,
            stacklevel=2,
        )

    def _gather(self, mine: Any) -> list[Any]:
        every: list[Any] = [None] * self.size
        dist.all_gather_object(every, mine, group=self.group)
        return every

    def _obstacle(self) -> str | None:
        """Why this rank cannot use the kernels. Collective."""
        cuda = self.device.type == "cuda"
        identity = str(torch.cuda.get_device_properties(self.device).uuid) if cuda else ""
        seen = self._gather((_host(), identity))
        if not cuda:
            return f"the tensors are on {self.device.type}"
        if self.size > MAX_RANKS:
            return f"the kernels take up to {MAX_RANKS} ranks, and the group has {self.size}"
        if len({host for host, _ in seen}) > 1:
            return "the ranks are on several hosts"
        _native.load()
        here = {
            str(torch.cuda.get_device_properties(i).uuid): i for i in range(torch.cuda.device_count())
        }
        for rank, (_, other) in enumerate(seen):
            # A device that is hidden from this process is found out when its memory is mapped.
            if other in here and not torch.ops.ringfence_native.can_access_peer(self.device.index, here[other]):
                return f"device {self.device.index} cannot access the memory of rank {rank}'s device"
        return None

    def owned(self, tokens: int) -> tuple[int, int]:
        return owned_rows(tokens, self.size, self.rank)

    def native(self, hidden: int, dtype: torch.dtype, fp32: bool, tokens: int) -> Native | None:
        """The native workspace for a call; None where the group falls back."""
        key = (hidden, dtype, fp32)
        found = self.natives.get(key)
        capturing = torch.cuda.is_current_stream_capturing()
        if found is not None and tokens <= found.max_tokens:
            found.captured = found.captured or capturing
            return found
        if capturing:
            have = "no workspace" if found is None else f"a workspace of {found.max_tokens} tokens"
            raise InputError(
                f"a call with {tokens} tokens is captured into a CUDA graph, and group '{self.name}' has {have} for "
                f"hidden {hidden}, {dtype}: call prepare(group, hidden, dtype, max_tokens={tokens}) before the capture"
            )
        return self.grow(key, max(1024, 1 << (tokens - 1).bit_length()))

    def grow(self, key: tuple[int, torch.dtype, bool], max_tokens: int) -> Native | None:
        """Collective."""
        if self.virtual is None:
            self._require_same({"hidden": key[0], "dtype": key[1], "a weight in fp32": key[2], "max_tokens": max_tokens})
        old = self.natives.get(key)
        if old is not None:
            torch.cuda.synchronize(self.device)
            if old.captured:
                self.retired.append(old)
            del self.natives[key]
        hidden, dtype, fp32 = key
        o = self.options
        job = ""
        if self.virtual is None:
            named = [uuid.uuid4().hex]
            dist.broadcast_object_list(named, src=dist.get_global_rank(self.group, 0), group=self.group)
            job = named[0]
        handle, failure = None, None
        try:
            with torch.cuda.device(self.device):
                handle = _native.load().Workspace(
                    -1 if self.virtual is not None else self.rank, self.size, self.device.index, job, dtype, fp32,
                    max_tokens, hidden, o.transport, o.blocks, o.start == "strict", o.dependent_launch, o.timeout,
                )  # fmt: skip
        except RuntimeError as error:
            failure = error
        if self.virtual is None:
            failures = self._gather(None if failure is None else str(failure))
            # The others then only say that this one has gone.
            first = min((f for f in failures if f is not None), key=lambda f: f.startswith("communication"), default=None)
            failure = None if first is None else RuntimeError(first)
        if failure is not None:
            # Not once calls have gone by: their residuals have a rank's own rows alone.
            first_of_group = not self.natives and not self.retired and old is None
            if str(failure).startswith("not-supported: ") and self.virtual is None and first_of_group:
                self.fallback = str(failure).partition(": ")[2]
                self._warn()
                return None
            raise translated(failure)
        made = Native(handle, max_tokens, dtype)
        self.natives[key] = made
        return made

    def _require_same(self, asked: dict[str, Any]) -> None:
        """Ranks that ask for different things would wait for one another in kernels."""
        mine = {**asked, **dataclasses.asdict(self.options)}
        for rank, theirs in enumerate(self._gather(mine)):
            for name, value in theirs.items():
                if value != mine[name]:
                    raise InputError(
                        f"group '{self.name}': {name} is {mine[name]} on rank {self.rank} and {value} on rank {rank}: "
                        "all ranks have to give the same"
                    )

    def check(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for native in [*self.natives.values(), *self.retired]:
            try:
                native.handle.check()
            except RuntimeError as error:
                raise translated(error) from None


def _host() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return platform.node()


def _process_group(name: str) -> Any:
    from torch.distributed.distributed_c10d import _resolve_process_group

    if not dist.is_initialized():
        raise InputError(f"group '{name}': torch.distributed is not initialised, and no virtual ranks have that name")
    try:
        group = _resolve_process_group(name)
    except (RuntimeError, KeyError, ValueError):
        raise InputError(f"there is no group '{name}' in this process (rank {dist.get_rank()})") from None
    if dist.get_rank(group) < 0:
        raise InputError(f"this process (rank {dist.get_rank()}) is not a member of group '{name}'")
    return group


_workspaces: dict[str, Workspace] = {}


def workspace(name: str, device: torch.device, options: Options | None = None) -> Workspace:
    """The group's, made where there is none yet: collective then."""
    found = _workspaces.get(name)
    if found is None:
        timeout = float(os.environ.get("RINGFENCE_TIMEOUT", Options.timeout))
        found = _workspaces[name] = Workspace(name, device, options or Options(timeout=timeout))
    if found.device != device:
        raise InputError(f"group '{name}' has its workspace on {found.device}, and a tensor is on {device}")
    return found


def release(group: Any) -> None:
    """Frees the group's workspace. No call and no graph may be under way, or come back to it."""
    found = _workspaces.pop(group_name(group), None)
    if found is not None and found.device.type == "cuda":
        torch.cuda.synchronize(found.device)
