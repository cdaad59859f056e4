"""What is written of a case, without the program."""

from __future__ import annotations

import numpy as np
import pytest
import ringfence as rf
from conftest import EXAMPLES, NUMBERS, ROOT, all_reduce
from ringfence import _toml
from ringfence._arguments import Context, argument
from ringfence._formula import table
from ringfence._kernel import entries

CONTEXT = Context(ranks=3, calls=4)


def evaluate(formula: int | str, rank: int = 0, call: int = 0, world: int = 3) -> int:
    if isinstance(formula, int):
        return formula
    return int(eval(formula.replace("/", "//"), {}, {"rank": rank, "call": call, "world": world}))


@pytest.mark.parametrize("values", [[5, 5, 5], [0, 1, 2, 3], [7, 4, 1], [1, 0, 0, 9], [0, 0], [-3, 8, -5, 2**40]])
def test_any_values_by_call_are_a_formula(values: list[int]) -> None:
    assert [evaluate(table(values), call=c) for c in range(len(values))] == values


def test_formulas_are_written_with_their_parentheses() -> None:
    assert ((rf.rank + 1) % rf.world).text == "(rank + 1) % world"
    assert (2 * rf.call - 1).text == "(2 * call) - 1"
    assert (rf.rank * -8 + rf.call // 2).text == "(rank * (-8)) + (call / 2)"
    with pytest.raises(rf.InputError):
        rf.rank + 0.5  # type: ignore[operator]


def test_numbers_have_the_types_of_the_parameters() -> None:
    assert argument(8, "u32", CONTEXT) == {"u32": 8}
    assert argument(8, "f32", CONTEXT) == {"f32": 8.0}
    assert argument(0.5, "b32", CONTEXT) == {"f32": 0.5}
    assert argument(-1, "b64", CONTEXT) == {"s64": -1}
    assert argument(np.float32(0.5), "b32", CONTEXT) == {"f32": 0.5}
    assert argument(2**64 - 1, "u64", CONTEXT) == {"s64": -1}
    assert argument([1, 2**63, 3], "u64", CONTEXT) == {"s64": [1, -(2**63), 3]}
    assert argument(rf.rank, "u32", CONTEXT) == "rank"
    assert argument(rf.rank + 1, "u32", CONTEXT) == {"u32": "rank + 1"}
    assert argument([1, 2, 3], "u32", CONTEXT) == {"u32": [1, 2, 3]}
    assert argument(lambda rank: rank * rank, "s32", CONTEXT) == {"s32": [0, 1, 4]}
    assert argument(b"\1\2", None, CONTEXT) == {"bytes": [1, 2]}
    assert argument(rf.struct(rf.s32(4), rf.f32(0.5), count=2), None, CONTEXT) == {
        "struct": [{"s32": 4}, {"f32": 0.5}],
        "count": 2,
    }


def test_numbers_by_rank_and_call_are_formulas_reals_by_their_bits() -> None:
    got = argument(lambda rank, call: 10 * rank + call * call, "u32", CONTEXT)["u32"]
    assert [[evaluate(f, r, c) for c in range(4)] for r, f in enumerate(got)] == [
        [10 * r + c * c for c in range(4)] for r in range(3)
    ]
    got = argument(lambda rank, call: rank + call / 2, "f32", CONTEXT)["u32"]
    bits = np.array([[evaluate(f, r, c) for c in range(4)] for r, f in enumerate(got)], dtype="u4")
    np.testing.assert_array_equal(bits.view("f4"), [[r + c / 2 for c in range(4)] for r in range(3)])


@pytest.mark.parametrize(
    ("value", "kind", "what"),
    [
        (2**32, "u32", "not from 0 to 4294967295"),
        (0.5, "s32", "a whole number"),
        ([1, 2], "u32", "2 numbers for 3 ranks"),
        ("x", "u32", "a memory, an address of one"),
        (4, None, "says its type"),
        (4, "", "pass rf.struct"),
    ],
)
def test_wrong_arguments_are_told(value: object, kind: str | None, what: str) -> None:
    with pytest.raises(rf.InputError, match=what):
        argument(value, kind, CONTEXT)


def test_parameters_are_read_from_ptx() -> None:
    found = entries(NUMBERS)
    assert [p.type for p in found["numbers"]] == ["u64", "s32", "f32", "b64"]
    text = """// .entry no(
.visible .entry k(
	.param .u64 .ptr .global .align 1 k_param_0,
	.param .align 64 .b8 k_param_1[128], /* .param .u32 no */
	.param .u32 k_param_2
)
.entry none()
"""
    found = entries(text)
    assert [(p.type, p.count) for p in found["k"]] == [("u64", None), ("b8", 128), ("u32", None)]
    assert found["none"] == ()


def test_a_case_says_what_the_file_of_the_example_says() -> None:
    ours = _toml.loads(all_reduce(expect={"out": "sum"}).toml())
    theirs = _toml.loads((EXAMPLES / "all_reduce.toml").read_text())
    ours["check"]["expected"]["out"].pop("dtype")
    assert ours == theirs


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "cases" / "files").glob("*.toml")), ids=lambda p: p.stem)
def test_what_toml_writes_reads_back(path) -> None:
    document = _toml.loads(path.read_text())
    again = dict(document)
    again["step"] = [("launch", l) for l in again.pop("launch")] + [("host", h) for h in again.pop("host", [])]
    assert _toml.loads(_toml.dumps(again)) == document


def test_wrong_descriptions_are_told_at_once() -> None:
    node = rf.Node(2)
    x = node.symmetric("x", (2, 4), "float32", init="integers")
    own = node.local("own", 8, "float32")
    k = rf.ptx(NUMBERS, "numbers")
    for wrong, what in [
        (lambda: rf.Node(0), "1 to 64"),
        (lambda: node.local("x", 4), "the name is already in use"),
        (lambda: node.local("a b", 4), "a word of letters"),
        (lambda: node.local("y", 4, "complex128"), "complex128"),
        (lambda: node.local("y", (0, 4)), "at least 1"),
        (lambda: node.local("y", 4, "float32", init="ones"), "init 'ones'"),
        (lambda: node.local("y", 4, "float32", init=np.zeros(5)), "shape \\[5\\]"),
        (lambda: node.local("y", 4, "uint32", init=np.full(4, 0.5)), "u32: expected whole numbers"),
        (lambda: own.peers, "only its own rank can access a local memory"),
        (lambda: k[1](1), "grid and a block"),
        (lambda: k[1, 1](own, 1, 2.0), "3 arguments given, it has 4"),
        (lambda: rf.ptx(NUMBERS, "sum"), "no kernel 'sum'; there is: numbers, nothing, ticket"),
        (lambda: rf.ptx("/none.ptx", "k"), "/none.ptx: cannot be read"),
        (lambda: node.case([]), "at least one launch"),
        (lambda: node.case(k[1, 1](own, 0.5, 1, 1)), "numbers, argument 2: argument s32: expected a whole number, not 0.5"),
        (lambda: node.case(k[1, 1](own, 1, 1, 1), modes="weak"), "mode 'weak'"),
        (lambda: node.case(k[1, 1](own, 1, 1, 1), expect={"z": 1}), "no memory 'z'"),
        (lambda: node.case(k[1, 1](own, 1, 1, 1), restored=["z"]), "no memory 'z'"),
        (lambda: node.case(k[1, 1](own, 1, 1, 1), expect={own: np.zeros(3)}), "3 elements, the memory has 8"),
        (lambda: node.case(k[1, 1](rf.Node(2).local("o", 4), 1, 1, 1)), "belongs to another node"),
    ]:
        with pytest.raises(rf.InputError, match=what):
            wrong()
    assert x.nbytes == 32
    node.local("z", 4, init=np.arange(4, dtype="u1"))
    with pytest.raises(rf.InputError, match="'sum' of what\\? x, z has inputs"):
        node.case(k[1, 1](own, 1, 1, 1), expect={own: "sum"})


def test_generated_inputs_differ_by_rank_and_call_unless_they_are_the_same() -> None:
    node = rf.Node(2)
    x = node.symmetric("x", 64, "bfloat16", init="integers")
    same = node.local("gamma", 64, "bfloat16", init="integers", same=True)
    once = node.local("once", 64, "uint32", init="integers", once=True)
    assert not np.array_equal(x.numbers(0), x.numbers(1))
    assert not np.array_equal(x.numbers(0, 0), x.numbers(0, 1))
    assert np.array_equal(same.numbers(0), same.numbers(1)) and not np.array_equal(same.numbers(0), same.numbers(0, 1))
    assert np.array_equal(once.numbers(0, 0), once.numbers(0, 1)) and (once.numbers(0) > 0).all()
    # Sums over the ranks are exact in the type.
    total = sum(x.numbers(r) for r in range(2))
    assert np.abs(total).max() <= 256
