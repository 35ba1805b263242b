"""Reading descriptions: TOML text to a group and back, and one clear error for each mistake."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

import numpy as np
import pytest
from descriptions import ALL, BIAS_GELU, EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

import emitter
import launch
from emitter import errors
from emitter.dtypes import F16, F32
from emitter.group import DimSize, Literal, Node, Ref, ScalarSpec, TensorSpec
from emitter.read import parse, parse_type, read, to_toml

TEMPLATE = """
name = "g"
outputs = ["y"]
[inputs]
x = "f32[M, N]"
b = "f16[N]"
i = "i32[M, N]"
u = "u8[N]"
s = "f32"
[body]
y = '''{expression}'''
z = "x + b + i + u + s"
"""


def body(expression: str) -> emitter.FusionGroup:
    """A group whose output y is the expression; z uses every input, so that none is unused."""
    return parse(TEMPLATE.replace('["y"]', '["y", "z"]').replace("{expression}", expression))


def node(expression: str) -> Node:
    return next(n for n in body(expression).nodes if n.name == "y")


def test_example_has_the_structure_it_describes() -> None:
    group = read(EXAMPLES / "bias_gelu.toml")
    assert group.name == "bias_gelu"
    assert group.inputs == (TensorSpec("x", F16, ("M", "N")), TensorSpec("b", F16, ("N",)))
    assert group.nodes == (
        Node("h", "add", (Ref("x"), Ref("b"))),
        Node("y", "gelu", (Ref("h"),), (("approximate", "tanh"),)),
    )
    assert group.outputs == ("y",) and group.dims == ("M", "N")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_is_named_like_its_file_and_emits(path: Path) -> None:
    group = read(path)
    assert group.name == path.stem
    for backend in emitter.BACKENDS:
        assert group.name in emitter.emit(group, backend).device


SIZES = {"B": 2, "D": 8, "H": 3, "M": 5, "N": 16, "S": 4, "T": 6, "V": 11}


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_gives_right_numbers(path: Path, backend: str) -> None:
    group = read(path)
    chance = np.random.default_rng(0)
    arguments: list[object] = []
    for spec in group.inputs:
        if isinstance(spec, TensorSpec):
            shape = [SIZES[d] if isinstance(d, str) else d for d in spec.shape]
            arguments.append(chance.integers(-7, 7, shape).astype(spec.dtype.numpy))
        else:
            arguments.append(0.25)
    got = launch.load(group, backend, device="cpu")(*arguments)
    want = emitter.reference(group, *arguments)
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True)
    for a, b in pairs:
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_text_and_back_is_the_same_group(name: str) -> None:
    group = parse(ALL[name])
    again = parse(to_toml(group))
    assert again == group and hash(again) == hash(group)
    assert again.canonical == group.canonical and again.fingerprint == group.fingerprint


def test_written_text_is_the_description_itself() -> None:
    assert parse(to_toml(parse(BIAS_GELU))) == parse(BIAS_GELU)
    assert to_toml(parse(BIAS_GELU)).splitlines() == BIAS_GELU.splitlines()


@pytest.mark.parametrize(
    "expression",
    [
        "x * s + b",
        "x * (s + b)",
        "x - (b - s)",
        "x - b - s",
        "-(x + b)",
        "-x ** 2",
        "(-x) ** 2",
        "x ** -1.5",
        "(x ** s) ** b",
        "x ** s ** b",
        "x / (b / s)",
        "(x < b) & (x != s)",
        "(x < b) == (s < b)",
        "(i & 1) != 0",
        "(i | u) ^ (i & u) ^ 7",
        "i << (u + 1)",
        "i >> 1 << 2",
        "~i % 7 // 2",
        "x - -1.0",
        "x + -inf",
        "where(x != x, nan, x)",
        "clip(x, -1.0, 6)",
        "cast(x * s, 'f16') + take(b, i, 0)",
        "gelu(x, approximate='tanh') * M / N",
        "index(-1) + index(0) * N",
        "x + cast(2.5, 'f16')",
    ],
)
def test_printed_expressions_keep_their_meaning_and_brackets(expression: str) -> None:
    group = body(expression)
    text = to_toml(group)
    assert f'y = "{expression}"' in text
    assert parse(text) == group


def test_lines_stand_in_any_order() -> None:
    swapped = BIAS_GELU.replace('h = "x + b"\ny = "gelu(h, approximate=\'tanh\')"', "")
    swapped += '\ny = "gelu(h, approximate=\'tanh\')"\nh = "x + b"\n'
    assert [n.name for n in parse(swapped).nodes] == ["h", "y"]
    assert parse(swapped) == parse(BIAS_GELU)


def test_names_between_do_not_count_but_everything_else_does() -> None:
    group = parse(BIAS_GELU)
    assert parse(re.sub(r"\bh\b", "hidden", BIAS_GELU)) == group
    assert parse(BIAS_GELU.replace('"gelu(h', '"gelu(x + b').replace('h = "x + b"\n', "")) == group
    others = [
        BIAS_GELU.replace("tanh", "none"),
        BIAS_GELU.replace("x + b", "b + x"),
        BIAS_GELU.replace("x + b", "x + b * 2.0"),
        BIAS_GELU.replace("x + b", "x + b * 3.0"),
        BIAS_GELU.replace("f16[N]", "bf16[N]"),
        BIAS_GELU.replace("N]", "K]"),
        BIAS_GELU.replace("bias_gelu", "bias"),
        re.sub(r"\by\b", "out_", BIAS_GELU),
    ]
    prints = {parse(text).fingerprint for text in others} | {group.fingerprint}
    assert len(prints) == len(others) + 1


def test_types() -> None:
    assert parse_type("x", "f32") == ScalarSpec("x", F32)
    assert parse_type("x", " float16 [ M ,4, N ] ") == TensorSpec("x", F16, ("M", 4, "N"))
    assert parse_type("x", "f32[]") == TensorSpec("x", F32, ())
    for text in ("float64[N]", "bfloat16[N]", "int8[N]", "bool[N]", "float8_e4m3fn[N]", "u64[N]"):
        assert parse_type("x", text).name == "x"


def test_operands() -> None:
    assert node("x + 1").operands == (Ref("x"), Literal("int", "1"))
    assert node("x + 1.0").operands[1] == Literal("float", "1.0")
    assert node("x * -0.0").operands[1] == Literal("float", "-0.0")
    assert node("x * inf").operands[1] == Literal("float", "inf")
    assert node("x * -nan").operands[1] == Literal("float", "nan")
    assert node("x * M").operands[1] == DimSize("M")
    assert node("u == True").operands[1] == Literal("bool", "True")
    assert node("+x + +b").operands == (Ref("x"), Ref("b"))
    assert node("x * 2 ** 0.5 / 2").operands[1] == Literal("int", "2")
    assert node("x * (2 ** 0.5 / 2)").operands[1] == Literal("float", repr(2**0.5 / 2))
    assert node("i & ~(1 << 4)").operands[1] == Literal("int", "-17")
    assert node("1 < x") == node("x > 1"), "a constant moves to the right of a comparison, as in Python"


MISTAKES = [
    ("x + b)", errors.DescriptionError, "group g, y: 'x + b)' is not an expression: unmatched ')'"),
    ("", errors.DescriptionError, "is not an expression"),
    ("relux(x)", errors.UnknownOp, "group g, y: unknown op 'relux': use relu(x)"),
    ("np.exp(x)", errors.DescriptionError, "'np.exp(x)' is outside the expression language"),
    ("x.T", errors.DescriptionError, "call ops by their bare name"),
    ("x[0]", errors.DescriptionError, "write take(x, indices, axis)"),
    ("x if s else b", errors.DescriptionError, "write where(condition, a, b)"),
    ("x and b", errors.DescriptionError, "write & and |"),
    ("not x", errors.DescriptionError, "write ~x or logical_not(x)"),
    ("0 < x < 1", errors.DescriptionError, "'0 < x < 1' is outside the expression language; write (a < b) & (b < c)"),
    ("(t := x)", errors.DescriptionError, "a line of its own"),
    ("x + 'one'", errors.DescriptionError, "an operand is a name or a number"),
    ("x + 1j", errors.DescriptionError, "an operand is a name or a number"),
    ("x + None", errors.DescriptionError, "an operand is a name or a number"),
    ("[x, b]", errors.DescriptionError, "use operators, calls of ops, names and numbers"),
    ("lambda: x", errors.DescriptionError, "use operators, calls of ops, names and numbers"),
    ("maximum(*x)", errors.DescriptionError, "write the arguments out"),
    ("maximum(**x)", errors.DescriptionError, "write the arguments out"),
    ("q + x", errors.UnknownName, "group g, y: q is no input, value or dim"),
    ("xx + b", errors.UnknownName, "use x"),
    ("cast(x, f16)", errors.UnknownName, "put a dtype in quotes: cast(x, 'f16')"),
    ("x @ b", errors.DescriptionError, "outside the expression language"),
    ("gelu(x, approximate='fast')", errors.BadAttribute, "approximate must be 'none' or 'tanh', got 'fast'"),
    ("gelu(x, approx='tanh')", errors.BadAttribute, "gelu(x, approximate) has no argument 'approx'"),
    ("gelu('tanh', x)", errors.DescriptionError, "x must be a tensor, scalar, dim or number, got str 'tanh'"),
    ("exp()", errors.BadAttribute, "exp(x) is missing x"),
    ("exp(x, b)", errors.BadAttribute, "takes at most 1 arguments, got 2"),
    ("exp(x, x=b)", errors.BadAttribute, "got x twice"),
    ("cast(x, 'f12')", errors.UnknownDType, "unknown dtype 'f12': expected one of f16 bf16 f32"),
    ("cast(x)", errors.BadAttribute, "needs dtype"),
    ("exp(1.0)", errors.DescriptionError, "exp(1.0) has no tensor, scalar or dim among its operands; write its value"),
    ("x + 1 // 0", errors.DescriptionError, "floor_div(1, 0) cannot be computed"),
    ("x + (-8) ** 0.5", errors.DescriptionError, "not a real number"),
    ("x + 1e308 * 10", errors.DescriptionError, "mul(1e+308, 10) overflows"),
    ("x + 2 ** 5000", errors.DescriptionError, "pow(2, 5000) overflows"),
    ("x + " + "9" * 400, errors.LiteralOverflow, "fits no dtype"),
    ("x + 0x" + "f" * 5000, errors.LiteralOverflow, "an integer of 20000 bits fits no dtype"),
    ("u + 300", errors.LiteralOverflow, "group g, node y (add): add(x, y): expected y to fit u8 (0 to 255), got 300"),
    ("x & i", errors.DTypeMismatch, "group g, node y (bit_and)"),
    ("where(x, b, s)", errors.DTypeMismatch, "expected a bool condition and two values, got f32, f16, f32"),
    ("take(x, b, 0)", errors.DTypeMismatch, "integer indices"),
    ("take(x + b, i, 0)", errors.BadAttribute, "take reads memory, so it gathers from an input tensor"),
    ("take(x, i, 2)", errors.UnknownDim, "axis 2 does not exist; expected -2 to 1 for rank 2"),
    ("index(7) + x", errors.UnknownDim, "axis 7 does not exist"),
    ("index('a') + x", errors.BadAttribute, "axis must be an integer"),
    ("5", errors.DescriptionError, "group g, y is the constant '5'; write it where it is used"),
    ("M", errors.DescriptionError, "group g, y is the constant 'M'"),
    ("z + y", errors.CyclicGroup, "y depends on itself: y -> y"),
]


@pytest.mark.parametrize(("expression", "error", "words"), MISTAKES, ids=[repr(m[0][:30]) for m in MISTAKES])
def test_mistakes_in_an_expression(expression: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        body(expression)
    assert type(caught.value) is error
    assert words in str(caught.value)
    assert str(caught.value).isascii() and "\n" not in str(caught.value)


DOCUMENTS = [
    ("name = ", errors.DescriptionError, "is not TOML"),
    ("[" * 5000, errors.DescriptionError, "is not TOML"),
    ('outputs = ["y"]', errors.DescriptionError, 'expected name = "..."'),
    ("name = 3", errors.DescriptionError, 'expected name = "...", got 3'),
    ('name = "g"', errors.DescriptionError, 'expected outputs = ["..."]'),
    ('name = "g"\noutputs = []', errors.DescriptionError, 'expected outputs = ["..."], a list of names, got []'),
    ('name = "g"\noutputs = "y"', errors.DescriptionError, "expected outputs"),
    ('name = "g"\noutputs = ["y"]\n', errors.DescriptionError, "expected a table [body]"),
    ('name = "g"\noutputs = ["y"]\ninputs = 3', errors.DescriptionError, "expected a table [inputs]"),
    (
        'name = "g"\noutputs = ["y"]\n[inputs]\nx = 1',
        errors.DescriptionError,
        "[inputs] 'x': expected \"type\" in quotes",
    ),
    ('name = "g"\noutputs = ["y"]\n[body]\ny = 1.5', errors.DescriptionError, "[body] 'y': expected \"expression\""),
    (BIAS_GELU.replace("x + b", "x + b\\u0000"), errors.DescriptionError, "null bytes"),
    (BIAS_GELU + "[shapes]\n", errors.DescriptionError, "unknown key 'shapes'; a description has name, outputs"),
    (BIAS_GELU.replace('"f16[N]"', '"f17[N]"'), errors.UnknownDType, "input b: unknown dtype 'f17'"),
    (BIAS_GELU.replace('"f16[N]"', '"f16[N"'), errors.DescriptionError, "input b: 'f16[N' is not a type such as"),
    (BIAS_GELU.replace('"f16[N]"', '"f16[-1]"'), errors.UnknownDim, "input b: '-1' is no dim; expected a size"),
    (BIAS_GELU.replace('"f16[N]"', '"f16[2*N]"'), errors.UnknownDim, "'2*N' is no dim"),
    (BIAS_GELU.replace('"f16[N]"', '"f16[N,]"'), errors.UnknownDim, "input b: '' is no dim"),
    (BIAS_GELU.replace('"f16[N]"', f'"f16[{2**63}]"'), errors.UnknownDim, "expected a size below 2**63"),
    (BIAS_GELU.replace('"f16[N]"', '"f16[K]"'), errors.ShapeMismatch, "x [M, N] and b [K] do not broadcast: axis -1"),
    (BIAS_GELU.replace('"f16[N]"', '"f16[b]"'), errors.DuplicateName, "b is both a dim and a value"),
    (BIAS_GELU.replace("x + b", "x"), errors.UnusedInput, "input b is used by no output; remove it or use it"),
    (BIAS_GELU + 'w = "x * 2"\n', errors.UnusedInput, "value w is used by no output; remove its line"),
    (BIAS_GELU + 'x = "h * 2"\n', errors.DuplicateName, "x is both an input and a value"),
    (BIAS_GELU.replace('["y"]', '["y", "z"]'), errors.UndefinedOutput, "output 'z' has no line in [body]"),
    (BIAS_GELU.replace('["y"]', '["y", "x"]'), errors.UndefinedOutput, "output 'x' is an input; give it a line"),
    (BIAS_GELU.replace('["y"]', '["y", "y"]'), errors.DuplicateName, "output y is listed twice"),
    (BIAS_GELU + 'y = "x"\n', errors.DescriptionError, "is not TOML"),
    (BIAS_GELU.replace("x + b", "x + b + y"), errors.CyclicGroup, "h -> y -> h; break the cycle"),
    (BIAS_GELU.replace('"f16[N]"', '"f8e4m3"'), errors.DTypeMismatch, "scalar parameter b: f8e4m3 is a storage type"),
    (BIAS_GELU.replace("[M, N]", "[A, B, C, D, E, F, G]"), errors.ShapeMismatch, "rank 7, at most 6 dims"),
]


@pytest.mark.parametrize(("text", "error", "words"), DOCUMENTS, ids=[m[2][:40] for m in DOCUMENTS])
def test_mistakes_in_a_document(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        parse(text)
    assert type(caught.value) is error
    assert words in str(caught.value)


def test_a_long_cycle_is_shown_in_full() -> None:
    text = BIAS_GELU + "".join(f'v{k} = "v{(k + 1) % 4} + x"\n' for k in range(4))
    with pytest.raises(errors.CyclicGroup, match="v0 -> v1 -> v2 -> v3 -> v0"):
        parse(text.replace("gelu(h", "gelu(v0 + h"))


def test_a_file_that_is_no_text_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(BIAS_GELU.encode() + b"# caf\xe9\n")
    with pytest.raises(errors.DescriptionError, match=r"latin\.toml is not UTF-8"):
        read(path)
    path.write_bytes(b"\xef\xbb\xbf" + BIAS_GELU.encode())
    assert read(path) == parse(BIAS_GELU), "a byte order mark is no mistake"


def chain(lines: int) -> str:
    """A body of `lines` values, each computed from the one before."""
    body = "".join(f'v{k} = "v{k - 1} * x"\n' for k in range(1, lines))
    return (
        f'name = "c"\noutputs = ["y"]\n[inputs]\nx = "f32[N]"\n[body]\nv0 = "x + 1.0"\n{body}y = "v{lines - 1} - x"\n'
    )


@pytest.mark.timeout(60)
def test_a_chain_of_5000_lines_is_read_written_and_emitted() -> None:
    group = parse(chain(4999))
    assert len(group.nodes) == 5000
    assert parse(to_toml(group)) == group
    assert emitter.emit(group, "cuda").device.count("\n") > 5000


@pytest.mark.timeout(60)
def test_a_long_expression_is_read_or_refused_with_a_way_out() -> None:
    def text(terms: int) -> str:
        return TEMPLATE.replace("{expression}", " + ".join(["x"] * terms)).replace('["y"]', '["y", "z"]')

    group = parse(text(2000))
    assert len(group.nodes) == 1999 + 4
    assert parse(to_toml(group)) == group
    for deep in (text(100_000), text(1).replace("'''x'''", "'" + "exp(" * 500 + "x" + ")" * 500 + "'")):
        with pytest.raises(errors.DescriptionError, match=r"split it into several lines|too many nested parentheses"):
            parse(deep)


@pytest.mark.timeout(60)
def test_thirty_doublings_stay_thirty_nodes() -> None:
    lines = "".join(f'v{k} = "v{k - 1} + v{k - 1}"\n' for k in range(1, 30))
    text = f'name = "d"\noutputs = ["y"]\n[inputs]\nx = "f32[N]"\n[body]\nv0 = "x + x"\n{lines}y = "v29 * 1.0"\n'
    group = parse(text)
    assert len(group.nodes) == 31 and len(group.canonical) < 10_000
    for backend in emitter.BACKENDS:
        assert len(emitter.emit(group, backend).device) < 20_000


NASTY = [
    *("for", "int", "café", "x;}//", "*/", '"""', "{{7*7}}", "M", "x", "f16"),
    *("1e999", "2**2000", "\x00", "('", "~", "", "9" * 400),
]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(ALL)), st.integers(0, 2**32), st.sampled_from(NASTY))
def test_mutated_documents_raise_only_our_errors(name: str, seed: int, nasty: str) -> None:
    chance = random.Random(seed)
    text = ALL[name]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text))
        until = at + chance.randint(0, 5)
        middle = [nasty, chance.choice(string.printable), text[until : until + 6], ""]
        text = text[:at] + chance.choice(middle) + text[until:]
    check_survives(text)


ATOMS = st.sampled_from(
    ["x", "b", "i", "u", "s", "M", "1", "2.5", "0", "True", "inf", "nan", "300", "2**70", "1e-45", "index(-1)"]
)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    symbols = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "==", "!="])
    calls = st.sampled_from([o.name for o in emitter.OPS.values()])
    return st.one_of(
        st.tuples(inner, symbols, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from("-~+"), inner).map("".join),
        st.tuples(calls, st.lists(inner, max_size=3)).map(lambda t: f"{t[0]}({', '.join(t[1])})"),
        inner.map(lambda e: f"cast({e}, 'f16')"),
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.recursive(ATOMS, grown, max_leaves=8) | st.text(max_size=30))
def test_any_expression_raises_only_our_errors(expression: str) -> None:
    check_survives(TEMPLATE.replace("{expression}", expression).replace('["y"]', '["y", "z"]'))


def check_survives(text: str) -> None:
    try:
        group = parse(text)
        assert parse(to_toml(group)) == group
        for backend in emitter.BACKENDS:
            emitter.emit(group, backend)
    except errors.KernelpressError as error:
        assert str(error)
