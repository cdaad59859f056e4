"""Cases: kernels on memories, what has to come of them, and the searches over them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _dtypes, _expected, _program, _safetensors, _toml
from ._arguments import Context, _arity
from ._errors import InputError
from ._expected import Expected
from ._kernel import HostStep, Launch
from ._memory import Memory, Node
from ._results import Finding, RelaxResult, ReplayResult, Result, RunResult, Site, replay_command

Step = Union[Launch, HostStep]
_MODES = ("strict", "stream", "coherent")
_TENSORS = "inputs.safetensors"


def findings_folder() -> Path:
    """Where findings are kept with their cases: RINGFENCE_FINDINGS, else ringfence-findings here."""
    return Path(os.environ.get("RINGFENCE_FINDINGS", "ringfence-findings"))


def _names(memories: Iterable[Memory | str]) -> list[str]:
    return [m if isinstance(m, str) else m.name for m in memories]


def _modes(modes: str | Sequence[str] | None) -> list[str]:
    listed = [modes] if isinstance(modes, str) else list(modes or [])
    for m in listed:
        if m not in _MODES:
            raise InputError(f"mode {m!r}: expected one of {', '.join(_MODES)}")
    return listed


class _Search:
    """What all cases can do, wherever their file is."""

    name = "case"

    def _file(self) -> Path:
        raise NotImplementedError

    def _memory_shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        raise NotImplementedError

    def _options(
        self, boundary: str | None, modes: str | Sequence[str] | None, policy: Mapping[str, str] | None,
        ignore: Sequence[str], edits: Mapping[str, str] | None, options: Sequence[str], payload_seed: int | None,
        calls: int | None,
    ) -> list[str]:  # fmt: skip
        listed = _modes(modes)
        if boundary is None and len(listed) == 1:
            boundary = listed[0]
        elif listed:
            raise InputError("modes: expected one mode, or all that the case claims (leave it out, or boundary='all')")
        out: list[str] = []
        if boundary is not None:
            out += ["--boundary", boundary]
        for key, value in (policy or {}).items():
            out += ["--policy", f"{key}={value}"]
        for kind in ignore:
            out += ["--ignore", kind]
        for key, value in (edits or {}).items():
            out += ["--set", f"{key}={value}"]
        if payload_seed is not None:
            out += ["--payload-seed", str(payload_seed)]
        if calls is not None:
            out += ["--calls", str(calls)]
        return out + list(options)

    # The searches.

    def fuzz(
        self, schedules: int | None = None, *, time: float | None = None, boundary: str | None = None,
        modes: str | Sequence[str] | None = None, seed: int | None = None, strategy: str | None = None,
        jobs: int | None = None, executor: str = "inline", policy: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (), set: Mapping[str, str] | None = None, payload_seed: int | None = None,
        calls: int | None = None, shrink: bool = True, remedies: bool | float = True, progress: bool | None = None,
        keep: bool = True, options: Sequence[str] = (),
    ) -> Result:  # fmt: skip
        """Many schedules under weak memory, in each boundary mode or in the one named.

        `schedules` in each mode (2000), or `time` in seconds. `keep`: a finding's trace, and the case beside it,
        go to a folder of findings_folder(). `remedies`: whether changes that fix a finding are looked for, or for how
        many seconds (2). `options` are further ones of the command line.
        """
        arguments = ["fuzz", *self._options(boundary, modes, policy, ignore, set, options, payload_seed, calls)]
        if schedules is not None:
            arguments += ["--schedules", str(schedules)]
        if time is not None:
            arguments += ["--time", str(time)]
        if seed is not None:
            arguments += ["--seed", str(seed)]
        if strategy is not None:
            arguments += ["--strategy", strategy]
        if jobs is not None:
            arguments += ["--jobs", str(jobs)]
        arguments += ["--executor", executor]
        return self._search(arguments, shrink, remedies, progress, keep)

    def check(
        self, *, time: float | None = None, executions: int | None = None, boundary: str | None = None,
        modes: str | Sequence[str] | None = None, jobs: int | None = None, policy: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (), set: Mapping[str, str] | None = None, payload_seed: int | None = None,
        calls: int | None = None, shrink: bool = True, remedies: bool | float = True, progress: bool | None = None,
        keep: bool = True, options: Sequence[str] = (),
    ) -> Result:  # fmt: skip
        """Every schedule and every read of a small case; `unknown` where a bound ends it or something is left out."""
        arguments = ["check", *self._options(boundary, modes, policy, ignore, set, options, payload_seed, calls)]
        if executions is not None:
            arguments += ["--schedules", str(executions)]
        if time is not None:
            arguments += ["--time", str(time)]
        if jobs is not None:
            arguments += ["--jobs", str(jobs)]
        return self._search(arguments, shrink, remedies, progress, keep)

    def relax(
        self, *, time: float | None = None, executions: int | None = None, fuzz: int | None = None,
        boundary: str | None = None, modes: str | Sequence[str] | None = None, jobs: int | None = None,
        policy: Mapping[str, str] | None = None, ignore: Sequence[str] = (), set: Mapping[str, str] | None = None,
        progress: bool | None = None, options: Sequence[str] = (),
    ) -> RelaxResult:  # fmt: skip
        """Weakens each order, scope, fence and barrier in turn: what the kernels need."""
        arguments = ["relax", *self._options(boundary, modes, policy, ignore, set, options, None, None)]
        for name, value in (("--time", time), ("--schedules", executions), ("--fuzz", fuzz), ("--jobs", jobs)):
            if value is not None:
                arguments += [name, str(value)]
        file = self._file()
        done = _program.run([*arguments, "--case", file.name], file.parent, progress=progress)
        tables: dict[str, list[Site] | None] = {}
        for mode, rows in done.json.get("modes", {}).items():
            keys = ("site", "where", "present", "alone", "jointly", "exhaustive", "why")
            tables[mode] = None if rows is None else [Site(**{k: row[k] for k in keys}) for row in rows]
        return RelaxResult(tables, done.stdout, done.json)

    def run(
        self, *, boundary: str | None = None, executor: str = "processes", policy: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (), set: Mapping[str, str] | None = None, payload_seed: int | None = None,
        calls: int | None = None, options: Sequence[str] = (),
    ) -> RunResult:  # fmt: skip
        """One run, of ranks that go as they like, compared with what is expected; its memories."""
        arguments = ["run", *self._options(boundary, None, policy, ignore, set, options, payload_seed, calls)]
        file = self._file()
        with tempfile.TemporaryDirectory(prefix="ringfence-run-") as folder:
            output = Path(folder) / "memories.safetensors"
            arguments += ["--executor", executor, "--output", str(output), "--case", file.name]
            done = _program.run(arguments, file.parent, progress=False)
            memories = self._memories(output) if output.exists() else {}
        document = done.json
        result = RunResult("run", document.get("verdict", "unknown"), done.stdout, document, [], memories)
        if result.verdict == "finding":
            story = document.get("story") or done.stdout
            result.findings.append(
                Finding(
                    document["kind"], document["boundary"], True, document["message"], story, None, False, "", None,
                    [], document,
                )
            )  # fmt: skip
        return result

    def replay(self, trace: str | os.PathLike[str] | Finding, *, remedies: bool | float = False) -> ReplayResult:
        """A recorded run once more, bit for bit: a trace's file, the token of a finding, or the finding.

        Only the case that it was recorded of replays it.
        """
        if isinstance(trace, Finding):
            if trace.trace is None:
                raise InputError("replay: a free run has no trace; fuzz searches for it")
            trace = trace.trace
        text = os.fspath(trace)
        file = self._file()
        arguments = ["--executor", "inline", *_remedies_option(remedies)]
        if text.startswith("rf1,"):
            return _replayed(_program.run(["replay", text, *arguments], file.parent, ok=(0, 1, 3, 5), progress=False))
        with tempfile.TemporaryDirectory(prefix="ringfence-replay-") as folder:
            # The program looks for the case beside the trace.
            self.save(Path(folder) / file.name)
            try:
                shutil.copy(text, folder)
            except OSError as e:
                raise InputError(f"{text}: cannot be read: {e.strerror}") from None
            name = os.path.basename(text)
            return _replayed(
                _program.run(["replay", name, *arguments], Path(folder), ok=(0, 1, 3, 5), progress=False)
            )

    def save(self, path: str | os.PathLike[str]) -> Path:
        raise NotImplementedError

    # Their results.

    def _search(
        self, arguments: list[str], shrink: bool, remedies: bool | float, progress: bool | None, keep: bool
    ) -> Result:
        arguments += ["--shrink" if shrink else "--no-shrink", *_remedies_option(remedies)]
        file = self._file()
        with tempfile.TemporaryDirectory(prefix="ringfence-search-") as folder:
            trace = Path(folder) / "finding.trace.jsonl"
            done = _program.run(
                [*arguments, "--case", file.name, "--trace", str(trace)], file.parent, progress=progress
            )
            kept = self._keep(done.json.get("findings", [])) if keep else {}
        result = Result(arguments[0], done.json.get("verdict", "unknown"), done.stdout, done.json)
        for document in done.json.get("findings", []):
            found, text = kept.get(document["trace"]), str(document.get("story") or document["message"])
            result.text = _retold(result.text, document["trace"], found)
            result.findings.append(
                Finding(
                    document["kind"],
                    document["mode"],
                    bool(done.json["searches"][document["mode"]]["judged"]),
                    document["message"],
                    _retold(text, document["trace"], found),
                    found,
                    bool(document["confirmed"]),
                    document.get("token", ""),
                    document.get("schedule_seed"),
                    _remedies(document.get("remedies") or {}),
                    document,
                )
            )
        return result

    def _keep(self, findings: Sequence[Mapping[str, Any]]) -> dict[str, Path]:
        """The traces of findings, in a folder of their own beside the case that replays them."""
        out: dict[str, Path] = {}
        there = [f for f in findings if os.path.exists(f["trace"])]
        if not there:
            return out
        folder = (findings_folder() / f"{self.name}-{self.digest()[:12]}").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self.save(folder / self._file().name)
        for f in there:
            content = Path(f["trace"]).read_bytes()
            name = f"{f['kind']}.{f['mode']}.{hashlib.sha256(content).hexdigest()[:8]}.trace.jsonl"
            (folder / name).write_bytes(content)
            out[f["trace"]] = folder / name
        return out

    def _memories(self, path: Path) -> dict[str, _dtypes.Array]:
        tensors = _safetensors.read(path)
        out: dict[str, _dtypes.Array] = {}
        for name, (dtype, shape) in self._memory_shapes().items():
            ranks: list[_dtypes.Array] = []
            while (entry := tensors.get(f"{name}.{len(ranks)}")) is not None:
                bits = entry[1].copy().view(_dtypes.bits_dtype(dtype)).reshape(shape)
                ranks.append(_dtypes.from_bits(bits, dtype) if _dtypes.numpy_dtype(dtype) or dtype == "bf16" else bits)
            if ranks:
                out[name] = np.stack(ranks)
        return out

    def digest(self) -> str:
        """Of the case's file and of those that it names."""
        whole = hashlib.sha256()
        for name, content in sorted(self._contents().items()):
            whole.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        return whole.hexdigest()

    def _contents(self) -> dict[str, bytes]:
        raise NotImplementedError


def _replayed(done: _program.Done) -> ReplayResult:
    document = done.json
    result = ReplayResult("replay", document.get("verdict", "unknown"), done.stdout, document)
    if document.get("kind"):
        result.findings.append(
            Finding(
                document["kind"], document["boundary"], True, document["message"],
                document.get("story") or done.stdout, None, True, "", None,
                _remedies(document.get("remedies") or {}), document,
            )
        )  # fmt: skip
    return result


def _retold(text: str, temporary: str, kept: Path | None) -> str:
    """The story with the command that replays what was kept."""
    if kept is None:
        return text.replace(f"replay: ringfence replay {temporary}\nor:     ", "replay: ")
    return text.replace(f"ringfence replay {temporary}", replay_command(kept)).replace(temporary, str(kept))


def _remedies_option(remedies: bool | float) -> list[str]:
    if isinstance(remedies, bool):
        return [] if remedies else ["--no-remedies"]
    if not remedies > 0:
        raise InputError(f"remedies: {remedies!r}: expected True, False or seconds above 0")
    return ["--remedies", f"{remedies:g}s"]


def _remedies(document: Mapping[str, Any]) -> list[str]:
    out = []
    for found in document.get("found", []):
        # No value: a setting of the user's that has to go.
        changes = [f"without {c['switch']}" if c["to"] is None else f"{c['switch']}={c['to']}" for c in found["changes"]]
        out.append(", ".join(changes))
    return out


class Case(_Search):
    """What the host puts on its streams in each call, and what has to come of it.

    steps: launches and steps of the host, in order. calls: how often they run, each time with new inputs.
    expect: {memory: value after each call}: "sum" and the like, an expression (docs/values.md), an array, one
    a rank, or a function of (rank, inputs[, call]); rf.expected(value, rtol=...) says more. equal: memories
    whose replicas agree after each call. restored: pads that end as they began. modes: the boundary modes
    that the kernels are meant for (stream). same_value="race": stores of one value to a word of shared memory race.
    """

    def __init__(
        self, node: Node, steps: Step | Sequence[Step], *, calls: int = 1,
        expect: Mapping[Memory | str, Any] | None = None, modes: str | Sequence[str] | None = None,
        equal: Sequence[Memory | str] = (), restored: Sequence[Memory | str] = (), let: Mapping[str, str] | None = None,
        ignore: Sequence[Mapping[str, Any]] = (), budget: int | None = None, same_value: str | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self.node = node
        self.steps: list[Step] = [steps] if isinstance(steps, (Launch, HostStep)) else list(steps)
        if not any(isinstance(s, Launch) for s in self.steps):
            raise InputError("a case has at least one launch")
        self.calls = calls
        self.name = re.sub(r"[^\w.-]+", "-", name or next(s.kernel.name for s in self.steps if isinstance(s, Launch)))
        self._tensors: dict[str, tuple[str, _dtypes.Array]] = {}
        self._modules: dict[int, str] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        context = Context(node.ranks, calls)
        # First, as it says which inputs NumPy has to know.
        checks, used = self._expected(expect or {})
        check: dict[str, Any] = {"modes": _modes(modes)} if modes is not None else {}
        if equal:
            check["equal"] = _names(equal)
        if restored:
            check["restored"] = _names(restored)
        if let:
            check["let"] = dict(let)
        if checks:
            check["expected"] = checks
        self._name_modules()
        for step in self.steps:
            for memory in step.memories():
                if memory.node is not node:
                    raise InputError(f"memory {memory.name!r} belongs to another node")
        self.document: dict[str, Any] = {"version": 1, "ranks": node.ranks}
        if calls != 1:
            self.document["calls"] = calls
        if node.multiprocessors != 132:
            self.document["multiprocessors"] = node.multiprocessors
        if budget is not None:
            self.document["budget"] = budget
        if same_value is not None:
            self.document["same_value"] = same_value
        self.document["memory"] = {m.name: self._memory(m, context, used) for m in node.memories.values()}
        self.document["step"] = [s.toml(context, self._modules) for s in self.steps]
        if check:
            self.document["check"] = check
        if ignore:
            self.document["ignore"] = [dict(e) for e in ignore]
        self._check_names(check)

    def _check_names(self, check: Mapping[str, Any]) -> None:
        for key in ("equal", "restored", "expected"):
            for name in check.get(key, ()):
                if name not in self.node.memories:
                    there = ", ".join(self.node.memories)
                    raise InputError(f"{key}: no memory {name!r}; there is {there}")

    def _name_modules(self) -> None:
        taken: dict[str, str] = {}
        for step in self.steps:
            if not isinstance(step, Launch):
                continue
            for i, module in enumerate(step.kernel.modules):
                wanted = module.stem if len(step.kernel.modules) == 1 else f"{module.stem}.rank{i}"
                name, n = f"{wanted}.ptx", 2
                while taken.get(name, module.ptx) != module.ptx:
                    name, n = f"{wanted}-{n}.ptx", n + 1
                taken[name] = module.ptx
                self._modules[id(module)] = name
        self._ptx = taken

    def _memory(self, memory: Memory, context: Context, used: set[str]) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": memory.kind, "bytes": memory.nbytes}
        if memory.distance is not None:
            out["distance"] = memory.distance
        if memory.is_array or (memory.is_generated and memory.name in used):
            out["init"] = self._init_file(memory)
        else:
            init = memory.init_toml(context)
            if init is not None:
                out["init"] = init
        return out

    def _init_file(self, memory: Memory) -> dict[str, Any]:
        calls = self.calls if memory.per_call and (memory.is_generated or _arity(memory.init) > 1) else 1
        init = memory.init
        if memory.is_generated:
            ranks = 1 if memory.same else self.node.ranks
        elif callable(init) or (isinstance(init, (list, tuple)) and len(init) == self.node.ranks):
            ranks = self.node.ranks
        else:
            ranks = 1
        for rank in range(ranks):
            for call in range(calls):
                self._tensors[self._tensor(memory.name, ranks, calls, rank, call)] = (
                    memory.dtype, memory.bits(rank, call),
                )  # fmt: skip
        out = {"file": _TENSORS, "tensor": self._tensor(memory.name, ranks, calls, "{rank}", "{call}")}
        if memory.once:
            out["once"] = True  # type: ignore[assignment]
        return dict(out)

    @staticmethod
    def _tensor(name: str, ranks: int, calls: int, rank: int | str, call: int | str) -> str:
        return name + (f".{rank}" if ranks > 1 else "") + (f".{call}" if calls > 1 else "")

    def _expected(self, expect: Mapping[Memory | str, Any]) -> tuple[dict[str, Any], set[str]]:
        out: dict[str, Any] = {}
        used: set[str] = set()
        for key, given in expect.items():
            name = key if isinstance(key, str) else key.name
            memory = self.node.memories.get(name)
            if memory is None:
                raise InputError(f"expect: no memory {name!r}; there is {', '.join(self.node.memories)}")
            whole = given if isinstance(given, Expected) else Expected(given, {})
            value, options = whole.value, dict(whole.options)
            if isinstance(value, str):
                out[name] = {**self._expression(name, value), **options}
                if "dtype" not in options:
                    out[name]["dtype"] = memory.dtype
                continue
            arrays, as_file, exact, of = _expected.values(memory, value, self.calls, options)
            used |= of
            prefix = f"expected.{name}"
            for (rank, call), array in arrays.items():
                self._tensors[f"{prefix}.{rank}.{call}"] = (as_file, array)
            options.setdefault("dtype", memory.dtype)
            if _dtypes.is_float(options["dtype"]) and not exact and "rtol" not in options and "atol" not in options:
                # Nobody fixes the order of a float's sum: as near as torch.testing.assert_close asks.
                options["rtol"], options["atol"] = _dtypes.TOLERANCES[options["dtype"]]
            out[name] = {"file": _TENSORS, "tensor": f"{prefix}.{{rank}}.{{call}}", **options}
        return out, used

    def _expression(self, name: str, value: str) -> dict[str, Any]:
        if value not in _expected.COLLECTIVES:
            return {"value": value}
        inputs = [m.name for m in self.node.memories.values() if m.is_array or m.is_generated]
        if len(inputs) != 1:
            raise InputError(
                f"expect {name}: {value!r} of what? {', '.join(inputs) or 'no memory'} has inputs: write '{value}(NAME)'"
            )
        return {value: inputs[0]}

    # Its files.

    def toml(self) -> str:
        """The case file."""
        return _toml.dumps(self.document)

    def _contents(self, name: str = "case.toml") -> dict[str, bytes]:
        out = {file: text.encode() for file, text in self._ptx.items()}
        if self._tensors:
            out[_TENSORS] = _safetensors.write(self._tensors)
        out[name] = self.toml().encode()
        return out

    def _file(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ringfence-case-")
            weakref.finalize(self, self._folder.cleanup)
            self._write(Path(self._folder.name) / f"{self.name}.toml")
        return Path(self._folder.name) / f"{self.name}.toml"

    def _write(self, path: Path) -> None:
        for name, content in self._contents(path.name).items():
            (path.parent / name).write_bytes(content)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes what the command line reads: the case, and beside it its PTX and its tensors."""
        out = Path(path)
        out.parent.mkdir(parents=True, exist_ok=True)
        self._write(out)
        return out

    def _memory_shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {m.name: (m.dtype, m.shape) for m in self.node.memories.values()}

    def __repr__(self) -> str:
        return f"<case {self.name}: {self.node.ranks} ranks, {len(self.steps)} steps, {self.calls} calls>"


class LoadedCase(_Search):
    """A case file of the command line's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = re.sub(r"[^\w.-]+", "-", path.stem)
        try:
            self.text = path.read_text()
        except OSError as e:
            raise InputError(f"{path}: cannot be read: {e.strerror}") from None
        try:
            self.document = _toml.loads(self.text)
        except ValueError as e:
            raise InputError(f"{path}: {e}") from None

    @property
    def ranks(self) -> int:
        return int(self.document["ranks"])

    def _file(self) -> Path:
        return self.path.resolve()

    def _named(self) -> list[str]:
        """The files that it names, each once."""
        out: list[str] = []
        for launch in self.document.get("launch", []):
            ptx = launch.get("ptx", [])
            out += ptx if isinstance(ptx, list) else [ptx]
            out += launch.get("link", [])
        for memory in self.document.get("memory", {}).values():
            init = memory.get("init")
            if isinstance(init, dict) and "file" in init:
                out.append(init["file"])
        for value in self.document.get("check", {}).get("expected", {}).values():
            if "file" in value:
                out.append(value["file"])
        return list(dict.fromkeys(out))

    def _contents(self) -> dict[str, bytes]:
        folder = self._file().parent
        out = {name: (folder / name).read_bytes() for name in self._named()}
        return {**out, "case.toml": self.text.encode()}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """A copy, with the files that it names beside it."""
        out = Path(path)
        out.parent.mkdir(parents=True, exist_ok=True)
        text, taken = self.text, {out.name}
        for name in self._named():
            base, n = os.path.basename(name), 2
            while base in taken:
                stem, suffix = os.path.splitext(os.path.basename(name))
                base, n = f"{stem}-{n}{suffix}", n + 1
            taken.add(base)
            source, target = self._file().parent / name, out.parent / base
            if not (target.exists() and os.path.samefile(source, target)):
                shutil.copyfile(source, target)
            if base != name:
                text = text.replace(f'"{name}"', f'"{base}"').replace(f"'{name}'", f"'{base}'")
        out.write_text(text)
        return out

    def _memory_shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        out: dict[str, tuple[str, tuple[int, ...]]] = {}
        expected = self.document.get("check", {}).get("expected", {})
        for name, memory in self.document.get("memory", {}).items():
            dtype = expected.get(name, {}).get("dtype")
            init = memory.get("init")
            if dtype is None and isinstance(init, dict):
                named = [k for k in init if k in _dtypes._TABLE]
                dtype = named[0] if named else None
            name_of = dtype if dtype is not None else "u8"
            count = memory.get("bytes")
            out[name] = (name_of, (-1,) if count is None else (count // _dtypes.itemsize(name_of),))
        return out

    def __repr__(self) -> str:
        return f"<case {self.path}: {self.ranks} ranks>"


def load(path: str | os.PathLike[str]) -> LoadedCase:
    """A case file, as the command line reads it; its searches are those of Case."""
    return LoadedCase(Path(path))


AnyCase = Union[Case, LoadedCase]
