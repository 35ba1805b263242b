"""Tracing: a Python function gives the group that its description gives, with names from its variables."""

# ruff: noqa: F821, RET504, RUF034, SIM300, UP037 (annotations are types of the descriptions)
from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest
from descriptions import BIAS_GELU, CAUSAL, EMBEDDING, MIXED, SEVERAL

import emitter
from emitter import errors
from emitter.dtypes import BOOL, F32, F64, I8, I16, U8
from emitter.group import Literal, Node, Ref
from emitter.read import parse, to_toml
from emitter.verify import verify


@emitter.group
def bias_gelu(x: "f16[M, N]", b: "f16[N]"):
    return emitter.gelu(x + b, approximate="tanh")


@emitter.group
def causal(scores: "f16[B, S, T]", scale: "f32"):
    _, s, t = scores.shape
    return emitter.where(emitter.index(-1) <= emitter.index(-2) + (t - s), scores * scale, -np.inf)


@emitter.group
def embedding(table: "f16[V, D]", ids: "i64[T]", position: "f16[T, D]"):
    return emitter.take(table, ids, axis=0) + position


@emitter.group
def mixed(q: "i8[M, N]", zero: "u8[N]", s: "f32[N]", keep: "bool[M, N]", k: "i64[M, 1]"):
    d = (emitter.cast(q, np.int32) - emitter.cast(zero, "i32")) * s
    return emitter.where(keep, d, 0.0) + k


@emitter.group
def several(x: "f32[M, N]", b: "f32[M, 1]"):
    row = b * 2.0
    y = x + row
    positive = y > 0
    return y, positive, row


@pytest.mark.parametrize(
    ("traced", "text"),
    [(bias_gelu, BIAS_GELU), (causal, CAUSAL), (embedding, EMBEDDING), (mixed, MIXED), (several, SEVERAL)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_traced_function_is_its_description(traced: emitter.FusionGroup, text: str) -> None:
    group = parse(text)
    assert traced == group and hash(traced) == hash(group)
    assert traced.canonical == group.canonical
    assert traced.fingerprint == group.fingerprint
    assert parse(to_toml(traced)) == traced
    for backend in emitter.BACKENDS:
        assert emitter.emit(traced, backend).params == emitter.emit(group, backend).params


def test_every_operator_is_the_op_of_the_description() -> None:
    @emitter.group
    def g(i: "i32[N]", u: "i32[N]", x: "f32[N]"):
        a = -(i + u) * 2 - (3 - u) // 4
        b = (i % 5) & 7 | ~u ^ (1 << i) >> 2
        c = abs(x) ** 2 / 3.0 + 2.0**x - 1.0 / +x
        return a, b, c, (i < u) == (1 >= u), (i != u) & (2 > i)

    text = """
name = "g"
outputs = ["a", "b", "c", "y3", "y4"]
[inputs]
i = "i32[N]"
u = "i32[N]"
x = "f32[N]"
[body]
a = "-(i + u) * 2 - (3 - u) // 4"
b = "(i % 5) & 7 | ~u ^ (1 << i) >> 2"
c = "abs(x) ** 2 / 3.0 + 2.0**x - 1.0 / +x"
y3 = "(i < u) == (1 >= u)"
y4 = "(i != u) & (2 > i)"
"""
    assert g == parse(text)


def test_values_are_called_after_local_variables() -> None:
    @emitter.group
    def g(x: "f32[N]", b: "f32[N]"):
        hidden = x + b
        scaled = hidden * 2.0
        _ignored = scaled - 1.0
        x = _ignored * scaled
        return x

    assert [(n.name, n.named) for n in g.nodes] == [("hidden", True), ("scaled", True), ("sub", False), ("y", True)]
    assert g.outputs == ("y",), "an output cannot have an input's name"


def test_variables_named_in_helpers_and_reused_names() -> None:
    def scaled(value, by):
        inner = value * by
        return inner

    @emitter.group
    def g(x: "f32[N]"):
        h = scaled(x, 2.0)
        h = h + 1.0
        add = scaled(h, 3.0)
        return emitter.exp(add)

    assert [n.name for n in g.nodes] == ["mul", "h", "add", "y"]


def test_outputs_by_tuple_dict_and_name() -> None:
    @emitter.group
    def pair(x: "f32[N]"):
        z = x + 1.0
        return z, x * 2.0, z

    assert pair.outputs == ("z", "y1", "y2")
    assert pair.nodes[-1] == Node("y2", "copy", (Ref("z"),))

    @emitter.group
    def named(x: "f32[N]"):
        total = x + 1.0
        return {"first": total, "second": x * 2.0, "same": x}

    assert named.outputs == ("first", "second", "same")
    assert {n.name: n.op for n in named.nodes} == {"first": "add", "second": "mul", "same": "copy"}

    @emitter.group
    def identity(x: "f32[N]"):
        return x

    assert identity.outputs == ("y",) and identity.nodes == (Node("y", "copy", (Ref("x"),)),)


def test_unused_values_are_dropped_and_unused_inputs_refused() -> None:
    @emitter.group
    def g(x: "f32[N]"):
        emitter.exp(x)
        return x + 1.0

    assert [n.op for n in g.nodes] == ["add"]
    with pytest.raises(errors.UnusedInput, match="group f: input b is used by no output"):

        @emitter.group
        def f(x: "f32[N]", b: "f32[N]"):
            return x + 1.0


HALF = ml_dtypes.bfloat16
PROMOTIONS = [
    ("f32[N]", lambda x: x * (2.0 * 1.0), F32),
    ("f32[N]", lambda x: x * (2.0 * np.float32(1)), F32),
    ("f32[N]", lambda x: x * (2.0 * np.float64(1)), F64),
    ("f32[N]", lambda x: x * (2.0 * np.array(1.0)), F64),
    ("f32[N]", lambda x: np.array(1.0) * x, F64),
    ("f32[N]", lambda x: np.float64(2) - x, F64),
    ("f16[N]", lambda x: x + np.float32(0.5), F32),
    ("bf16[N]", lambda x: x + HALF(0.5), emitter.dtypes.BF16),
    ("i32[N]", lambda x: x + 1.5, F64),
    ("i8[N]", lambda x: x + np.uint8(3), I16),
    ("i8[N]", lambda x: x < np.int16(300), BOOL),
    ("i8[N]", lambda x: x * True, I8),
    ("u8[N]", lambda x: x * 2, U8),
    ("u8[N]", lambda x: x * np.int64(2), emitter.dtypes.I64),
    ("f16[N]", lambda x: emitter.where(np.bool_(True), x, 1.0), emitter.dtypes.F16),
]


@pytest.mark.parametrize(("annotation", "compute", "dtype"), PROMOTIONS, ids=map(str, range(len(PROMOTIONS))))
def test_python_scalars_are_weak_and_numpy_scalars_keep_their_dtype(annotation, compute, dtype) -> None:
    def g(x):
        return compute(x)

    g.__annotations__["x"] = annotation
    group = emitter.group(g)
    assert verify(group).types["y"].dtype is dtype
    data = np.arange(5).astype(emitter.dtypes.dtype(annotation[:-3]).numpy)
    if annotation[0] != "b":
        given = {"where": np.where}.get(group.nodes[-1].op)
        want = compute(data) if given is None else data
        assert emitter.reference(group, data).dtype == want.dtype
    assert parse(to_toml(group)) == group


def test_too_large_constants() -> None:
    with pytest.raises(errors.LiteralOverflow, match=r"expected y to fit u8 \(0 to 255\), got 300"):

        @emitter.group
        def f(x: "u8[N]"):
            return x + 300

    with pytest.raises(errors.LiteralOverflow, match="fits no dtype"):

        @emitter.group
        def g(x: "f32[N]"):
            return x + 10**400


def refuse(error: type[Exception], words: str, function) -> None:
    with pytest.raises(error) as caught:
        emitter.group(function)
    assert type(caught.value) is error
    assert words in str(caught.value)


def typed(text: str, function, name: str = "f"):
    function.__annotations__ = dict.fromkeys(function.__code__.co_varnames[: function.__code__.co_argcount], text)
    function.__name__ = name
    return function


BODIES = [
    (lambda x: x if x else x, errors.DescriptionError, "use emitter.where(condition, a, b)"),
    (lambda x: 0 < x < 1, errors.DescriptionError, "no truth value"),
    (lambda x: max(x, 0.0), errors.DescriptionError, "no truth value"),
    (lambda x: sum(x), errors.DescriptionError, "cannot be iterated over"),
    (lambda x: x[0], errors.DescriptionError, "emitter.take(x, indices, axis) gathers"),
    (lambda x: np.where(x > 0, x, 0.0), errors.DescriptionError, "not NumPy's"),
    (lambda x: x + np.arange(4), errors.DescriptionError, "an array is an input of its own"),
    (
        lambda x: x + "1",
        errors.DescriptionError,
        "group f: add(x, y): y must be a tensor, scalar, dim or number, got str",
    ),
    (lambda x: x + None, errors.DescriptionError, "got NoneType None"),
    (lambda x: (x + 1.0).shape[0], errors.DescriptionError, "only an input tensor has a shape"),
    (lambda x: x.shape[0], errors.DescriptionError, "output y must be a traced tensor"),
    (lambda x: None, errors.DescriptionError, "group f: output y must be a traced tensor, got None"),
    (lambda x: (x, [x]), errors.DescriptionError, "output y1 must be a traced tensor"),
    (lambda x: (), errors.DescriptionError, "it returns no output; return a value, a tuple or a dict"),
    (lambda x: {"a b": x + 1.0}, errors.UnsafeName, "the output name 'a b'"),
    (lambda x: {"x": x + 1.0}, errors.DuplicateName, "x is an output and an input or dim"),
    (lambda x: {1: x}, errors.UnsafeName, "the output name '1'"),
    (lambda x: x * emitter.dim("K"), errors.UnknownDim, "uses the dim 'K', which no input has; known dims: N"),
    (lambda x: x * emitter.dim("a b"), errors.UnsafeName, "the dim name 'a b'"),
    (lambda x: emitter.gelu(x, approximate="fast"), errors.BadAttribute, "must be 'none' or 'tanh', got 'fast'"),
    (lambda x: emitter.cast(x, "f12"), errors.UnknownDType, "unknown dtype 'f12'"),
    (lambda x: emitter.exp(), errors.BadAttribute, "exp(x) is missing x"),
    (lambda x: emitter.where(x, x, x), errors.DTypeMismatch, "node y (where)"),
    (lambda x: emitter.index(3) + x, errors.UnknownDim, "axis 3 does not exist"),
    (lambda x: emitter.exp(2.0) + x, errors.DescriptionError, "exp(2.0) has no tensor, scalar or dim"),
    (lambda x: bias_gelu.nodes and emitter.relu("x"), errors.DescriptionError, "relu(x): x must be a tensor"),
]


@pytest.mark.parametrize(("function", "error", "words"), BODIES, ids=[b[2][:40] for b in BODIES])
def test_mistakes_in_a_function(function, error: type[Exception], words: str) -> None:
    refuse(error, words, typed("f32[N]", function))


def test_mistakes_in_a_signature() -> None:
    def default(x: "f32[N]", scale: "f32" = 2.0):
        return x * scale

    def star(*x: "f32[N]"):
        return x[0]

    def bare(x):
        return x

    def wrong(x: float):
        return x

    refuse(errors.DescriptionError, "parameter scale has a default, which a kernel cannot have", default)
    refuse(errors.DescriptionError, "a fixed number of inputs; write them out instead of *x", star)
    refuse(errors.DescriptionError, 'parameter x needs a type, such as x: "f16[M, N]"', bare)
    refuse(errors.UnknownDType, "input x: unknown dtype 'float'", wrong)
    refuse(errors.DescriptionError, "parameter x needs a type", typed("'f32[N]", lambda x: x))
    refuse(errors.DescriptionError, "traces a Python function written with def", np.exp)
    refuse(errors.UnsafeName, "the group name '<lambda>'", lambda x: x)
    refuse(errors.UnknownDType, "input x: unknown dtype 'f31'", typed("f31[N]", lambda x: x + 1))


def test_keyword_only_parameters_and_wrapped_functions() -> None:
    def g(x: "f32[N]", *, b: "f32[N]"):
        total = x + b
        return total

    def wrapper(*args, **kwargs):
        return g(*args, **kwargs)

    wrapper.__wrapped__ = g
    wrapper.__name__ = "g"
    assert emitter.group(g).outputs == ("total",)
    assert emitter.group(wrapper) == emitter.group(g)


def test_ops_work_only_in_a_traced_function_and_on_its_own_values() -> None:
    with pytest.raises(errors.DescriptionError, match=r"emitter\.exp\(\) records an op, so it works only inside"):
        emitter.exp(1.0)
    leaked = []

    @emitter.group
    def outer(x: "f32[N]"):
        leaked.append(x + 1.0)
        return leaked[0]

    with pytest.raises(errors.DescriptionError, match="group f: a value of another traced function"):

        @emitter.group
        def f(x: "f32[N]"):
            return x + leaked[0]

    with pytest.raises(errors.DescriptionError, match="must be a traced tensor"):

        @emitter.group
        def h(x: "f32[N]"):
            return leaked[0]


def test_a_group_can_be_traced_inside_another() -> None:
    @emitter.group
    def outer(x: "f32[N]"):
        first = x + 1.0

        @emitter.group
        def inner(x: "f16[N]"):
            return x * 2

        assert inner.name == "inner" and len(inner.nodes) == 1
        return first * 2.0

    assert [n.name for n in outer.nodes] == ["first", "y"]


def test_an_unknown_function_has_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'swish' \(unknown op 'swish': use silu\(x\)\)"):
        emitter.swish  # noqa: B018
    assert not hasattr(emitter, "__wrapped__") and "gelu" in dir(emitter)


def test_threads_trace_side_by_side() -> None:
    groups: list[emitter.FusionGroup] = []
    gate = threading.Barrier(4)

    def work() -> None:
        @emitter.group
        def g(x: "f32[N]"):
            for _ in range(20):
                gate.wait()
                x = x + 1.0
            return x

        groups.append(g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(groups) == 4 and len(set(groups)) == 1 and len(groups[0].nodes) == 20


def test_an_error_in_the_function_passes_and_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError):

        @emitter.group
        def f(x: "f32[N]"):
            return x + 1 // 0

    with pytest.raises(errors.DescriptionError, match="only inside a function"):
        emitter.exp(1.0)


@pytest.mark.timeout(60)
def test_a_loop_of_5000_ops_and_30_doublings() -> None:
    @emitter.group
    def chain(x: "f32[N]"):
        y = x
        for k in range(5000):
            y = y * x if k % 2 else y + 1.0
        return y

    assert len(chain.nodes) == 5000 and chain.nodes[-1].name == "y"
    assert parse(to_toml(chain)) == chain

    @emitter.group
    def doublings(x: "f32[N]"):
        for _ in range(30):
            x = x + x
        return x

    assert len(doublings.nodes) == 30
    assert np.array_equal(emitter.reference(doublings, np.ones(3, np.float32)), np.full(3, 2.0**30, np.float32))
    assert isinstance(chain.nodes[0].operands[1], Literal)
