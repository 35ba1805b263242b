"""Verification: types and shapes of every value, and groups built by hand that cannot mean anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from descriptions import ALL, BIAS_GELU
from hypothesis import given
from hypothesis import strategies as st

from emitter import errors
from emitter.dtypes import BOOL, F16, F32, F64, I64
from emitter.emit import emit
from emitter.group import DimSize, FusionGroup, Literal, Node, Operand, Ref, ScalarSpec, TensorSpec
from emitter.read import parse
from emitter.verify import Type, broadcast, verify

X = TensorSpec("x", F32, ("M", "N"))
ADD = Node("y", "add", (Ref("x"), Literal.of(1.0)))
GROUP = FusionGroup("g", (X,), (ADD,), ("y",))


def test_types_and_space_of_a_group() -> None:
    verified = verify(parse(BIAS_GELU))
    assert verified.types == {
        "x": Type(F16, ("M", "N")),
        "b": Type(F16, ("N",)),
        "h": Type(F16, ("M", "N")),
        "y": Type(F16, ("M", "N")),
    }
    assert verified.space == ("M", "N")
    assert str(verified.types["y"]) == "f16[M, N]"


@pytest.mark.parametrize("name", ALL)
def test_every_value_has_a_type_and_every_node_a_signature(name: str) -> None:
    group = parse(ALL[name])
    verified = verify(group)
    assert set(verified.types) == set(group.by_name)
    assert set(verified.signatures) == {n.name for n in group.nodes}


def shape(expression: str, **inputs: str) -> Type:
    table = "".join(f'{name} = "{text}"\n' for name, text in inputs.items())
    text = f'name = "g"\noutputs = ["y"]\n[inputs]\n{table}[body]\ny = "{expression}"\n'
    return verify(parse(text)).types["y"]


def test_shapes_follow_numpy() -> None:
    assert shape("x + b", x="f32[M, N]", b="f32[N]") == Type(F32, ("M", "N"))
    assert shape("x + b", x="f32[M, 1]", b="f32[1, N]") == Type(F32, ("M", "N"))
    assert shape("x + b", x="f32[]", b="f32[1, 1, N]") == Type(F32, (1, 1, "N"))
    assert shape("x + b", x="f32[0, N]", b="f32[1, N]") == Type(F32, (0, "N"))
    assert shape("x * M", x="f32[M, 4]") == Type(F32, ("M", 4))
    assert shape("x * M", x="i32[M]") == Type(I64, ("M",))
    assert shape("take(x, i, 0)", x="f32[V, D]", i="i64[B, T]") == Type(F32, ("B", "T", "D"))
    assert shape("take(x, i, -1)", x="f32[V, D]", i="i64[]") == Type(F32, ("V",))
    assert shape("take(x, 3, 0)", x="f32[V, D]") == Type(F32, ("D",))
    assert shape("x < index(-1)", x="f32[M, N]") == Type(BOOL, ("M", "N"))
    assert shape("x * index(0)", x="f64[M, N]") == Type(F64, ("M", "N"))
    assert shape("x / s", x="i32[N]", s="f32") == Type(F64, ("N",))


def test_index_must_not_widen_what_it_counts() -> None:
    two = 'name = "g"\noutputs = ["a", "b"]\n[inputs]\nx = "f32[M, N]"\nz = "f32[N]"\n'
    two += '[body]\na = "x + 1"\nb = "z + index(0)"\n'
    assert verify(parse(two)).types["b"] == Type(F64, ("M", "N")), "the space is that of all outputs"
    with pytest.raises(errors.UnknownDim, match="axis 0 does not exist"):
        parse('name = "g"\noutputs = ["y"]\n[inputs]\nx = "f32"\n[body]\ny = "x + index(0)"\n')


DIMS = st.sampled_from(["M", "N", 1, 3])


@given(st.lists(st.lists(DIMS, max_size=3).map(tuple), min_size=1, max_size=3))
def test_broadcast_is_symmetric_and_names_both_shapes(shapes: list[tuple[str | int, ...]]) -> None:
    named = {f"t{k}": s for k, s in enumerate(shapes)}
    backward = dict(reversed(named.items()))
    try:
        result = broadcast("here", named)
    except errors.ShapeMismatch as error:
        with pytest.raises(errors.ShapeMismatch):
            broadcast("here", backward)
        assert sum(f"{name} [{', '.join(map(str, s))}]" in str(error) for name, s in named.items()) >= 2
        return
    assert result == broadcast("here", backward)
    assert len(result) == max(map(len, shapes))
    for s in shapes:
        for axis in range(-len(s), 0):
            assert s[axis] in (1, result[axis])


def add(*operands: Operand, name: str = "y") -> Node:
    return Node(name, "add", operands)


BY_HAND = [
    (replace(GROUP, name="x;}//"), errors.UnsafeName, "the group name 'x;}//'"),
    (replace(GROUP, inputs=(replace(X, name="a b"),)), errors.UnsafeName, "the input name 'a b'"),
    (replace(GROUP, inputs=(replace(X, shape=("M", "*/")),)), errors.UnsafeName, "the dim name '*/'"),
    (replace(GROUP, nodes=(replace(ADD, name="y\n"),), outputs=("y\n",)), errors.UnsafeName, "the value name 'y\\n'"),
    (replace(GROUP, nodes=(ADD, ADD)), errors.DuplicateName, "two values are called y"),
    (replace(GROUP, nodes=(replace(ADD, name="M"),), outputs=("M",)), errors.DuplicateName, "both a dim and a value"),
    (replace(GROUP, nodes=(replace(ADD, name="x"),), outputs=("x",)), errors.DuplicateName, "two values are called x"),
    (replace(GROUP, outputs=()), errors.UndefinedOutput, "it has no outputs"),
    (replace(GROUP, outputs=("y", "y")), errors.DuplicateName, "output y is listed twice"),
    (replace(GROUP, outputs=("x",)), errors.UndefinedOutput, "output 'x' is defined by no node"),
    (replace(GROUP, outputs=("*/",)), errors.UndefinedOutput, "output '*/' is defined by no node"),
    (replace(GROUP, inputs=(X, ScalarSpec("s", F32))), errors.UnusedInput, "input s is used by no output"),
    (
        replace(GROUP, nodes=(add(Ref("x"), Ref("x"), name="z"), ADD)),
        errors.UnusedInput,
        "value z is used by no output",
    ),
    (replace(GROUP, nodes=(replace(ADD, op="plus"),)), errors.UnknownOp, "node y: unknown op 'plus'"),
    (replace(GROUP, nodes=(add(Ref("x"), Ref("z")),)), errors.UnknownName, "uses 'z', which no input and no earlier"),
    (replace(GROUP, nodes=(add(Ref("x"), Ref("y")),)), errors.UnknownName, "uses 'y', which no input and no earlier"),
    (replace(GROUP, nodes=(add(Ref("x"), DimSize("K")),)), errors.UnknownDim, "the dim 'K', which no input has"),
    (replace(GROUP, nodes=(add(Ref("x"), Literal("int", "1; f()")),)), errors.DescriptionError, "is no 'int' constant"),
    (replace(GROUP, nodes=(add(Ref("x"), Literal("str", "1")),)), errors.DescriptionError, "is no 'str' constant"),
    (
        replace(
            GROUP,
            nodes=(
                add(
                    Ref("x"),
                ),
            ),
        ),
        errors.DTypeMismatch,
        "expected 2 operands, got 1",
    ),
    (replace(GROUP, nodes=(Node("y", "gelu", (Ref("x"),)),)), errors.BadAttribute, "own order"),
    (
        replace(GROUP, nodes=(Node("y", "gelu", (Ref("x"),), (("approximate", "*/"),)),)),
        errors.BadAttribute,
        "must be 'none' or 'tanh', got '*/'",
    ),
]


@pytest.mark.parametrize(("group", "error", "words"), BY_HAND, ids=[b[2][:40] for b in BY_HAND])
def test_groups_built_by_hand(group: FusionGroup, error: type[Exception], words: str) -> None:
    for check in (verify, emit):
        with pytest.raises(error) as caught:
            check(group)
        assert type(caught.value) is error
        assert words in str(caught.value)


def test_canonical_form_of_a_cycle_ends() -> None:
    cycle = replace(GROUP, nodes=(add(Ref("x"), Ref("z")), add(Ref("y"), Ref("x"), name="z")))
    assert cycle != GROUP and hash(cycle) != hash(GROUP)
