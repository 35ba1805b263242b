"""The op table: its completeness, dtype rules against NumPy's, and what its errors say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from run_op import undisturbed

from emitter.dtypes import (
    BF16,
    BOOL,
    DTYPES,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U64,
    DType,
    dtype,
)
from emitter.errors import BadAttribute, DTypeMismatch, LiteralOverflow, UnknownDType, UnknownOp
from emitter.group import Attributes
from emitter.ops import ALIASES, OPS, OperandType, op
from emitter.ops.evaluate import Mode, convert, evaluate_op, held, load, store

EXACT = """add sub mul div floor_div mod neg abs sign floor ceil round trunc maximum minimum clip
    bit_and bit_or bit_xor bit_not shift_left shift_right logical_and logical_or logical_xor logical_not
    eq ne lt le gt ge where sqrt relu isnan isinf isfinite cast copy index take"""
INEXACT = """pow exp exp2 expm1 log log2 log1p rsqrt
    sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh
    erf sigmoid gelu silu softplus mish"""
CONTRACT = (EXACT + " " + INEXACT).split()
NUMPYS = tuple(d for d in DTYPES if d not in (BF16, F8E4M3, F8E5M2))
NARROW = (BF16, F8E4M3, F8E5M2)
NUMPY_NAMES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "floor_div": "floor_divide", "mod": "remainder",
    "pow": "power", "neg": "negative", "bit_and": "bitwise_and", "bit_or": "bitwise_or",
    "bit_xor": "bitwise_xor", "bit_not": "invert", "shift_left": "left_shift", "shift_right": "right_shift",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
UFUNCS: dict[str, Callable[..., object]] = {
    name: getattr(np, NUMPY_NAMES.get(name, name))
    for name in CONTRACT
    if hasattr(np, NUMPY_NAMES.get(name, name)) and name not in ("take", "cast", "index")
}


@pytest.fixture(autouse=True)
def watch() -> Iterator[None]:
    with undisturbed():
        yield


def attributes_of(name: str) -> Attributes:
    """Some legal attributes of an op."""
    given: dict[str, dict[str, object]] = {
        "cast": {"dtype": "f32"},
        "index": {"axis": 0},
        "take": {"axis": 0},
    }
    return op(name).bind_attributes(given.get(name, {}), "test")


# Completeness


def test_the_table_holds_the_contract() -> None:
    assert sorted(OPS) == sorted(CONTRACT)
    assert all(definition.name == name for name, definition in OPS.items())
    assert not set(ALIASES) & set(OPS)
    assert set(ALIASES.values()) <= set(OPS)


@pytest.mark.parametrize("name", CONTRACT)
def test_rows_are_complete(name: str) -> None:
    definition = op(name)
    assert definition.doc.endswith(".")
    assert "\n" not in definition.doc
    assert len(definition.domain) in (0, len(definition.parameters))
    assert (definition.numpy is None) == (name in ("cast", "index"))
    assert definition.ulp is None or definition.ulp > 0.5
    hash(definition)


def test_inexact_rows_state_a_bound() -> None:
    assert {name for name in CONTRACT if op(name).ulp is not None} == set(INEXACT.split())


@pytest.mark.parametrize("name", sorted(set(CONTRACT) - {"index"}))
def test_definitions_run_on_every_allowed_dtype_in_both_modes(name: str) -> None:
    definition, attributes, ran = op(name), attributes_of(name), 0
    first = (BOOL,) if name == "where" else DTYPES
    rest = [DTYPES if i else first for i in range(len(definition.parameters))]
    if len(rest) == 3:
        rest[2] = (F16, I32, BF16)
    for operands in itertools.product(*rest):
        try:
            signature = definition.signature(operands, attributes)
        except DTypeMismatch:
            continue
        ran += 1
        modes: tuple[Mode, Mode] = ("exact", "compute")
        for mode in modes:
            args = [
                convert(load(np.ones(3, d.numpy), d, mode), d, t, mode)
                for d, t in zip(operands, signature.operands, strict=True)
            ]
            got = evaluate_op(definition, args, signature, attributes, mode)
            assert got.dtype == held(signature.result, mode)
            assert got.shape == (3,)
            assert store(got, signature.result).dtype == signature.result.numpy
    assert ran >= (len(DTYPES) - 1 if len(rest) == 1 and definition.rule is not op("bit_not").rule else 9)


def test_index_has_no_operand_to_evaluate() -> None:
    with pytest.raises(TypeError, match=r"numerics\.index"):
        evaluate_op(op("index"), (), op("index").signature(()), attributes_of("index"))


# Dtype rules


def numpy_types(name: str, operands: tuple[OperandType, ...]) -> DType | None:
    """The dtype that NumPy itself returns, or None where it refuses."""
    values = [np.ones(1, o.numpy) if isinstance(o, DType) else o for o in operands]
    try:
        with np.errstate(all="ignore"):
            return dtype(np.asarray(UFUNCS[name](*values)).dtype)
    except TypeError:
        return None


def ours(name: str, operands: tuple[OperandType, ...]) -> DType | None:
    try:
        return op(name).signature(operands).result
    except DTypeMismatch:
        return None


@pytest.mark.parametrize("name", [n for n in UFUNCS if len(op(n).parameters) == 1])
def test_unary_rules_are_numpys(name: str) -> None:
    for operand in NUMPYS:
        assert ours(name, (operand,)) == numpy_types(name, (operand,)), operand


@pytest.mark.parametrize("name", [n for n in UFUNCS if len(op(n).parameters) == 2])
def test_binary_rules_are_numpys(name: str) -> None:
    pairs: list[tuple[OperandType, ...]] = list(itertools.product(NUMPYS, NUMPYS))
    for operand, constant in itertools.product(NUMPYS, (True, 2, 1.5)):
        pairs += [(operand, constant), (constant, operand)]
    for pair in pairs:
        assert ours(name, pair) == numpy_types(name, pair), pair


@pytest.mark.parametrize("name", ["clip", "where"])
def test_ternary_rules_are_numpys(name: str) -> None:
    first: tuple[OperandType, ...] = (BOOL,) if name == "where" else NUMPYS
    others: tuple[OperandType, ...] = (*NUMPYS, 2, 1.5)
    for operands in itertools.product(first, others, others):
        assert ours(name, operands) == numpy_types(name, operands), operands


@pytest.mark.parametrize("name", [n for n in UFUNCS if isinstance(UFUNCS[n], np.ufunc)])
def test_operand_types_are_numpys_loops(name: str) -> None:
    function = UFUNCS[name]
    assert isinstance(function, np.ufunc)
    kept = ("floor", "ceil", "trunc")
    for operands in itertools.product(NUMPYS, repeat=function.nin):
        try:
            *inputs, result = map(dtype, function.resolve_dtypes((*(o.numpy for o in operands), None)))
        except TypeError:
            assert ours(name, operands) is None
            continue
        signature = op(name).signature(operands)
        assert signature.operands == tuple(inputs), operands
        assert signature.result is result
        assert name not in kept or signature.operands == operands


def test_rules_of_ops_numpy_lacks() -> None:
    for name in ("rsqrt", "erf", "sigmoid", "gelu", "silu", "softplus", "mish"):
        assert [ours(name, (d,)) for d in (BOOL, I8, U8, I16, I32, U64)] == [F16, F16, F16, F32, F64, F64]
        for operand in (F16, F32, F64, *NARROW):
            assert ours(name, (operand,)) is operand
    assert ours("relu", (I8,)) is I8
    assert ours("relu", (BOOL,)) is None
    assert ours("where", (I8, F32, F32)) is None
    assert op("take").signature((F8E4M3, U8), attributes_of("take")).result is F8E4M3
    assert op("index").signature((), attributes_of("index")).result is I64
    for bad in (BOOL, F32, 1.5):
        with pytest.raises(DTypeMismatch, match="integer indices"):
            op("take").signature((F32, bad), attributes_of("take"))


@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_constants_are_weak_beside_narrow_floats(narrow: DType) -> None:
    for name in ("add", "mul", "div", "mod", "pow", "maximum", "atan2"):
        for constant in (True, 3, 1e30):
            assert op(name).signature((narrow, constant)).operands == (narrow, narrow)
            assert ours(name, (constant, narrow)) is narrow
        assert ours(name, (narrow, narrow)) is narrow
        assert ours(name, (narrow, I8)) is narrow
        assert ours(name, (narrow, F16)) is F32
        assert ours(name, (narrow, F64)) is F64
        assert ours(name, (I32, narrow)) is F64
    assert op("lt").signature((narrow, 0.5)).operands == (narrow, narrow)
    assert ours("lt", (narrow, 0.5)) is BOOL
    assert ours("isnan", (narrow,)) is BOOL
    assert ours("clip", (narrow, 0, 1.5)) is narrow
    assert ours("where", (BOOL, narrow, 1.5)) is narrow
    assert ours("bit_and", (narrow, I8)) is None
    assert ours("shift_left", (narrow, narrow)) is None


def test_promotion_of_case_a21() -> None:
    assert ours("mul", (F32, 2.0)) is F32
    assert ours("mul", (F32, F64)) is F64
    assert ours("add", (I32, 1.5)) is F64
    assert ours("add", (I8, U8)) is I16
    assert ours("add", (F16, I32)) is F64
    assert ours("add", (I64, U64)) is F64
    assert ours("mul", (U8, 2)) is U8
    with pytest.raises(LiteralOverflow, match=r"add\(x, y\): expected y to fit u8 \(0 to 255\), got 300; cast"):
        op("add").signature((U8, 300))
    with pytest.raises(OverflowError):
        op("where").signature((BOOL, U8, -1))


def test_constants_alone_are_python_types() -> None:
    assert ours("add", (2, 3)) is I64
    assert ours("eq", (2, 3)) is BOOL
    assert ours("add", (2, 3.0)) is F64
    assert ours("where", (True, 1, 2.0)) is F64


# Errors


def test_mismatch_names_op_expected_got_and_way_out() -> None:
    with pytest.raises(TypeError) as error:
        op("sub").signature((BOOL, BOOL))
    assert str(error.value) == (
        "sub(x, y): expected integers or floats, got bool, bool; use bit_xor for bool, or cast bool to an integer first"
    )
    for name, operands in {
        "neg": (BOOL,),
        "sign": (BOOL,),
        "bit_and": (I64, U64),
        "shift_left": (F32, I32),
    }.items():
        with pytest.raises(DTypeMismatch, match=rf"^{name}\(.*\): expected .*, got .*; .*"):
            op(name).signature(operands)
    with pytest.raises(DTypeMismatch, match="expected 3 operands, got 1"):
        op("clip").signature((F32,))


def test_unknown_op_gives_the_right_name() -> None:
    for wrong, right in {
        "arcsin": "asin",
        "power": "pow",
        "mod_": "mod",
        "geluu": "gelu",
        "absolute": "abs",
    }.items():
        with pytest.raises(UnknownOp, match=rf"{wrong}.*use {right}\("):
            op(wrong)
    with pytest.raises(UnknownOp, match="known ops: abs acos"):
        op("zzzzzz")


def test_attributes_are_typed() -> None:
    assert op("gelu").bind_attributes({}, "g") == (("approximate", "none"),)
    assert op("cast").bind_attributes({"dtype": "bfloat16"}, "g") == (("dtype", "bf16"),)
    assert op("cast").bind_attributes({"dtype": np.float16}, "g") == (("dtype", "f16"),)
    assert op("cast").bind_attributes({"dtype": F8E4M3}, "g") == (("dtype", "f8e4m3"),)
    bad: list[tuple[str, dict[str, object]]] = [
        ("gelu", {"approximate": "fast"}), ("gelu", {"approximate": 1}), ("index", {"axis": True}),
        ("index", {"axis": 1.0}), ("index", {}), ("cast", {"dtype": 3}), ("exp", {"base": 2}),
    ]  # fmt: skip
    for name, given in bad:
        with pytest.raises(BadAttribute, match=rf"^g\.y: {name}\("):
            op(name).bind_attributes(given, "g.y")
    with pytest.raises(UnknownDType, match=r"g\.y: cast\(x, dtype\): unknown dtype 'f17'"):
        op("cast").bind_attributes({"dtype": "f17"}, "g.y")


def test_text_reads_as_a_description() -> None:
    assert op("add").text(("x", "b")) == "x + b"
    assert op("neg").text(("x",)) == "-x"
    assert op("pow").text(("-1.0", "x")) == "(-1.0) ** x"
    assert op("clip").text(("x", "0", "1")) == "clip(x, 0, 1)"
    assert op("gelu").text(("h",), (("approximate", "tanh"),)) == "gelu(h, approximate='tanh')"
    assert op("gelu").text(("h",), (("approximate", "none"),)) == "gelu(h)"
    assert op("cast").text(("x",), (("dtype", "f16"),)) == "cast(x, 'f16')"
    assert op("index").text((), (("axis", -1),)) == "index(-1)"
