"""The dialects: each op has a spelling for each type it takes, constants are exact, brackets are where they must be."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial

import numpy as np
import pytest
from expression_kernels import BACKENDS, Array, Case, Kernels, Write

from emitter.dialects import CUDA, DIALECTS, TRITON, Constant, Dialect, Expr
from emitter.dialects.expr import C_PRECEDENCE, PYTHON_PRECEDENCE, Number
from emitter.dtypes import BF16, BOOL, DTYPES, F8E4M3, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType
from emitter.errors import DTypeMismatch, UnsupportedOp
from emitter.group import Attributes
from emitter.ops import OPS, OpDef, Signature
from emitter.ops.evaluate import convert, evaluate_op, load, store
from emitter.source import Backend
from launch.cpu.cuda import compile_cpu
from launch.targets import Target

SPELLED = [op for name, op in OPS.items() if name not in ("index", "take")]
HELD = [t for t in DTYPES if t.compute is t]
X, Y, Z = Expr("x"), Expr("y"), Expr("z")


def forms(op: OpDef) -> list[Attributes]:
    """The attributes that an op's spelling may depend on."""
    if op.name == "gelu":
        return [(("approximate", "none"),), (("approximate", "tanh"),)]
    return [(("dtype", t.name),) for t in DTYPES] if op.name == "cast" else [()]


def signatures(op: OpDef, types: Sequence[DType]) -> Iterator[tuple[tuple[DType, ...], Signature, Attributes]]:
    """Every combination of operand types that the op takes."""
    for attributes in forms(op):
        for operands in itertools.product(types, repeat=len(op.parameters)):
            try:
                yield operands, op.signature(operands, attributes), attributes
            except DTypeMismatch:
                continue


# Completeness


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("op", SPELLED, ids=lambda op: op.name)
def test_every_op_is_spelled_for_every_type_it_takes(dialect: Dialect, op: OpDef) -> None:
    types = DTYPES if len(op.parameters) < 3 else HELD
    names = [X, Y, Z][: len(op.parameters)]
    count = 0
    for operands, signature, attributes in signatures(op, types):
        assert dialect.supports(op.name, operands, signature.result, attributes)
        text = dialect.apply(op.name, names, operands, signature.result, attributes).text
        assert "x" in text and text.count("(") == text.count(")")
        count += 1
    assert count


def test_the_tables_have_no_row_without_an_op() -> None:
    for dialect in DIALECTS.values():
        assert set(dialect.table) <= {*OPS, "gelu_tanh"}
    assert set(TRITON.table) == set(CUDA.table)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_missing_spelling_is_an_error(dialect: Dialect) -> None:
    assert not dialect.supports("neg", (BOOL,), BOOL)
    with pytest.raises(UnsupportedOp, match=r"no spelling of neg\(bool\) computed in bool"):
        dialect.apply("neg", (X,), (BOOL,), BOOL)
    with pytest.raises(UnsupportedOp, match="soften"):
        dialect.apply("soften", (X,), (F32,), F32)


# Meaning: each op in each class of types, against the op table


def _write(op: OpDef, operands: tuple[DType, ...], signature: Signature, attributes: Attributes) -> Write:
    return lambda dialect, x: dialect.apply(op.name, x, operands, signature.result, attributes)


def _operands(op: OpDef) -> Iterator[tuple[DType, ...]]:
    """Same types of every class, and some mixed ones."""
    arity = len(op.parameters)
    for t in (F32, F64, F16, I8, I32, U16, U64, BOOL):
        yield (BOOL, t, t) if op.name == "where" else (t,) * arity
    if arity == 2:
        yield from ((I8, F32), (I32, U32), (I64, U64), (U64, I32), (U8, I16), (BF16, F16), (BOOL, F64))


def _meanings() -> Iterator[tuple[Case, OpDef, Signature, Attributes]]:
    for op in SPELLED:
        if op.name == "cast":
            continue
        for attributes in forms(op):
            for operands in _operands(op):
                try:
                    signature = op.signature(operands, attributes)
                except DTypeMismatch:
                    continue
                name = "_".join([op.name, *(v for _, v in attributes if isinstance(v, str)), *map(str, operands)])
                result = signature.result.compute
                yield (
                    Case(name, operands, result, _write(op, operands, signature, attributes)),
                    op,
                    signature,
                    attributes,
                )


@cache
def meanings() -> Kernels:
    return Kernels(case for case, *_ in _meanings())


def values(dtype: DType, op: OpDef, position: int) -> Array:
    """Numbers of all sizes where the op takes them, and the special ones where its result is exact."""
    rng = np.random.default_rng([position, *dtype.name.encode()])
    if dtype is BOOL:
        return rng.integers(0, 2, 400).astype(bool)
    if dtype.is_integer:
        low, high = dtype.limits
        edge = [low, high, high - 1, 0, 1, 2, 3, 7]
        spread = rng.integers(low, high, 200, dtype.numpy, endpoint=True)
        near = rng.integers(max(low, -9), 40, 192)
        return rng.permutation(np.concatenate([np.array(edge, dtype.numpy), spread, near.astype(dtype.numpy)]))
    interval = op.interval(position)
    low_edge, high_edge = max(interval.low, -1e4), min(interval.high, 1e4)
    spread = np.concatenate(
        [rng.uniform(low_edge, high_edge, 200), rng.uniform(max(low_edge, -4), min(high_edge, 4), 184)]
    )
    special = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, math.inf, -math.inf, math.nan, 1e-40, 0.5, 100.0, -7.0, 7.0, 2.0]
    return rng.permutation(np.concatenate([spread, np.array(special)])).astype(dtype.numpy)


@pytest.mark.parametrize("backend", BACKENDS)
def test_spellings_mean_what_the_op_table_says(backend: Backend) -> None:
    for case, op, signature, attributes in _meanings():
        arrays = [values(t, op, n) for n, t in enumerate(case.operands)]
        got = meanings().run(backend, case.name, *arrays)
        with np.errstate(all="ignore"):
            loaded = [load(x, t, "compute") for x, t in zip(arrays, case.operands, strict=True)]
            args = [
                convert(x, t, s, "compute") for x, t, s in zip(loaded, case.operands, signature.operands, strict=True)
            ]
            want = evaluate_op(op, args, signature, attributes, "compute")
        agrees(case.name, got, want, op, args)


def agrees(name: str, got: Array, want: Array, op: OpDef, args: Sequence[Array]) -> None:
    """Equal; within the op's bound where it has one and its operands are in its domain."""
    assert got.dtype == want.dtype, name
    with np.errstate(all="ignore"):
        same = (got == want) | ((got != got) & (want != want))
        if op.ulp is not None and want.dtype.kind == "f":
            unit = np.spacing(np.maximum(np.abs(want), want.dtype.type(2.0**-100)))
            same |= np.abs(got.astype(np.float64) - want) <= op.ulp * unit.astype(np.float64)
            for position, x in enumerate(args):
                interval = op.interval(position)
                same |= ~((x >= interval.low) & (x <= interval.high)) & (x == x)
        signs = (
            (want == 0) & (np.signbit(got) != np.signbit(want)) if want.dtype.kind == "f" and op.ulp is None else False
        )
        if op.name not in ("maximum", "minimum", "clip", "relu"):
            same &= ~np.asarray(signs)
    wrong = np.flatnonzero(~same)[:5]
    assert not wrong.size, (name, [x[wrong] for x in args], got[wrong], want[wrong])


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_casts(dialect: Dialect) -> None:
    name: Backend = "triton" if dialect is TRITON else "cuda"
    for source, target in itertools.product(
        (F32, F64, BF16, F8E4M3, I8, I64, U32, BOOL), (F16, F8E4M3, F32, F64, I16, U8, BOOL)
    ):
        x = values(source, OPS["cast"], 0)
        case = f"cast_{source}_{target}"
        got = casts().run(name, case, x)
        signature = OPS["cast"].signature((source,), (("dtype", target.name),))
        with np.errstate(all="ignore"):
            want = evaluate_op(
                OPS["cast"], [load(x, source, "compute")], signature, (("dtype", target.name),), "compute"
            )
        agrees(case, got, want, OPS["cast"], [x])


@cache
def casts() -> Kernels:
    def write(source: DType, target: DType) -> Write:
        return lambda dialect, x: dialect.cast(x[0], source, target)

    return Kernels(
        Case(f"cast_{s}_{t}", (s,), t.compute, write(s, t))
        for s in (F32, F64, BF16, F8E4M3, I8, I64, U32, BOOL)
        for t in (F16, F8E4M3, F32, F64, I16, U8, BOOL)
    )


# Constants

FLOAT_CONSTANTS = [0.0, -0.0, 0.1, -2.5, 1e22, 2e50, 1e-40, 5e-324, 16777217.0, math.pi, math.inf, -math.inf, math.nan]


def constants() -> list[tuple[Number, DType]]:
    integers = [(v, t) for t in HELD if t.is_integer for v in (0, 1, 100, *t.limits)]
    return [*((v, t) for t in (F32, F64) for v in FLOAT_CONSTANTS), *integers, (True, BOOL), (False, BOOL)]


def _constant_cases() -> Iterator[Case]:
    for number, (value, t) in enumerate(constants()):
        yield Case(f"alone_{number}", (BOOL,), t, partial(_alone, value, t))
        yield Case(f"chosen_{number}", (BOOL, t), t, partial(_chosen, value, t))
        if t is not BOOL:
            yield Case(f"greater_{number}", (t,), t, partial(_greater, value, t))
            yield Case(f"added_{number}", (t,), t, partial(_added, value, t))


def _alone(value: Number, t: DType, dialect: Dialect, x: Sequence[Expr]) -> Expr:
    return dialect.select(x[0], dialect.literal(value, t), dialect.literal(value, t))


def _chosen(value: Number, t: DType, dialect: Dialect, x: Sequence[Expr]) -> Expr:
    return dialect.select(x[0], dialect.literal(value, t), x[1])


def _greater(value: Number, t: DType, dialect: Dialect, x: Sequence[Expr]) -> Expr:
    return dialect.apply("maximum", (dialect.literal(value, t), x[0]), (t, t), t)


def _added(value: Number, t: DType, dialect: Dialect, x: Sequence[Expr]) -> Expr:
    return dialect.apply("add", (x[0], dialect.literal(value, t)), (t, t), t)


@cache
def constant_kernels() -> Kernels:
    return Kernels(_constant_cases())


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_are_exact(backend: Backend) -> None:
    yes = np.ones(2, bool)
    for number, (value, t) in enumerate(constants()):
        with np.errstate(over="ignore"):
            want = np.full(2, value, t.numpy)
        lowest = np.full(2, -math.inf if t.is_float else t.limits[0] if t.is_integer else 0, t.numpy)
        got = [
            constant_kernels().run(backend, f"alone_{number}", yes),
            constant_kernels().run(backend, f"chosen_{number}", yes, np.zeros(2, t.numpy)),
        ]
        if t is not BOOL:
            got.append(constant_kernels().run(backend, f"greater_{number}", lowest))
            zero = np.full(2, -0.0 if t.is_float else 0, t.numpy)
            got.append(constant_kernels().run(backend, f"added_{number}", zero))
        for result in got:
            assert result.tobytes() == want.tobytes() or (value != value and np.isnan(result).all()), (value, t, got)


@pytest.mark.parametrize(
    ("value", "dtype", "triton", "cuda"),
    [
        (0.1, F32, "0.1", "0.1f"),
        (0.1, F16, "0.1", "0.1f"),
        (2, F32, "2.0", "2.0f"),
        (1e50, F32, 'float("inf")', "infinity"),
        (0.1, F64, "tl.full((), 0.1, tl.float64)", "0.1"),
        (2e50, F64, "tl.full((), 2e+50, tl.float64)", "2e+50"),
        (-math.inf, F64, 'tl.full((), float("-inf"), tl.float64)', "-(double)infinity"),
        (math.nan, F32, 'float("nan")', "quiet_nan"),
        (-0.0, F32, "tl.full((), 0.0, tl.float32) * -1.0", "-0.0f"),
        (1e-40, F32, "tl.full((), 1e-40, tl.float32)", "1e-40f"),
        (3, I32, "3", "3"),
        (3, I64, "tl.full((), 3, tl.int64)", "3LL"),
        (3, U8, "tl.full((), 3, tl.uint8)", "(unsigned char)3"),
        (-(2**31), I32, "-2147483648", "(-2147483647 - 1)"),
        (-(2**63), I64, "tl.full((), -9223372036854775808, tl.int64)", "(-9223372036854775807LL - 1)"),
        (2**64 - 1, U64, "tl.full((), 18446744073709551615, tl.uint64)", "18446744073709551615ULL"),
        (300, U8, "tl.full((), 255, tl.uint8)", "(unsigned char)255"),
        (True, BOOL, "True", "true"),
    ],
    ids=str,
)
def test_constants_by_themselves(value: float, dtype: DType, triton: str, cuda: str) -> None:
    assert (TRITON.literal(value, dtype).text, CUDA.literal(value, dtype).text) == (triton, cuda)


def test_constants_beside_an_operand_are_short() -> None:
    def spelled(op: str, value: float, dtype: DType) -> tuple[str, ...]:
        return tuple(d.apply(op, (X, d.literal(value, dtype)), (dtype, dtype), dtype).text for d in (TRITON, CUDA))

    assert spelled("mul", 0.1, F64) == ("x * 0.1", "x * 0.1")
    assert spelled("mul", 0.5, BF16) == ("x * 0.5", "x * 0.5f")
    assert spelled("sub", 3, U64) == ("x - 3", "x - 3")
    assert spelled("add", 2**32 - 1, U32) == ("x + 4294967295", "x + 4294967295U")
    assert spelled("add", 3, I64) == ("x + 3", "wrapping_add(x, 3LL)")
    assert spelled("maximum", 0.1, F64) == ("maximum(x, tl.full((), 0.1, tl.float64))", "maximum(x, 0.1)")
    assert spelled("floor_div", 3, I32) == ("floor_div(x, 3)", "floor_div(x, 3)")


def test_f64_constants_are_never_f32_on_the_way() -> None:
    def write(dialect: Dialect, x: Sequence[Expr]) -> Expr:
        return dialect.select(x[0], dialect.literal(0.1, F64), dialect.literal(0.7, F64))

    ptx = Kernels([Case("chosen", (BOOL,), F64, write)]).compile(Target.parse("cuda:90")).texts["ptx"]
    bits = [np.float64(v).view(np.int64) for v in (0.1, 0.7)]
    assert all(f"{b:016X}" in ptx or str(b) in ptx for b in bits)


# Brackets


def _pairs(symbols: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for outer, inner in itertools.product(symbols, repeat=2):
        yield outer, inner, "left"
        yield outer, inner, "right"


def _nested(dialect: Dialect, outer: str, inner: str, side: str) -> tuple[str, str, str]:
    """Two operators nested: as the dialect writes them, with every bracket, and with none."""
    inside = dialect.infix(inner, *((X, Y) if side == "left" else (Y, Z)))
    if side == "left":
        return dialect.infix(outer, inside, Z).text, f"(x {inner} y) {outer} z", f"x {inner} y {outer} z"
    return dialect.infix(outer, X, inside).text, f"x {outer} (y {inner} z)", f"x {outer} y {inner} z"


def test_python_gets_exactly_the_brackets_it_needs() -> None:
    for outer, inner, side in _pairs(list(PYTHON_PRECEDENCE)):
        written, full, bare = _nested(TRITON, outer, inner, side)
        tree = ast.dump(ast.parse(full))
        assert ast.dump(ast.parse(written)) == tree
        assert written == bare or ast.dump(ast.parse(bare)) != tree, (written, bare)


def test_c_gets_exactly_the_brackets_it_needs() -> None:
    symbols = [s for s in C_PRECEDENCE if s not in ("/", "%", "<<", ">>")]
    rows = [(*_nested(CUDA, *pair), pair) for pair in _pairs(symbols)]
    lines = [
        f"out[(({n}) * 64 + i) * 3 + {k}] = {text};" for n, row in enumerate(rows) for k, text in enumerate(row[:3])
    ]
    body = "\n    ".join(["const int i = threadIdx.x, x = i & 3, y = i >> 2 & 3, z = i >> 4;", *lines])
    kernel = f"__global__ void evaluate(int* out) {{\n    {body}\n}}\n"
    results = np.zeros((len(rows), 64, 3), np.int32)
    compile_cpu(kernel, ["evaluate"], optimize=0).function("evaluate")((1, 1, 1), (64, 1, 1), (results.ctypes.data,))
    for (written, full, bare, (outer, inner, _)), result in zip(rows, results, strict=True):
        assert (result[:, 0] == result[:, 1]).all(), (written, full)
        # Brackets that integers do not need: sums and products regroup, which floats may not, and a comparison of a
        # comparison stays clear.
        regrouped = outer == inner or {outer, inner} in ({"+", "-"}, {"|", "||"}, {"&", "&&"})
        if written != bare and not regrouped and not {outer, inner} <= COMPARED:
            assert (result[:, 1] != result[:, 2]).any(), (written, bare)


COMPARED = {"==", "!=", "<", "<=", ">", ">="}


def test_brackets_around_casts_signs_and_selections() -> None:
    total = CUDA.infix("+", X, Y)
    assert CUDA.number(total, I64).text == "(long long)(x + y)"
    assert CUDA.number(CUDA.prefix("-", X), F32).text == "(float)-x"
    assert CUDA.prefix("-", CUDA.prefix("-", X)).text == "-(-x)"
    assert CUDA.prefix("-", CUDA.literal(-2.0, F32)).text == "-(-2.0f)"
    assert CUDA.infix("*", X, CUDA.literal(-2.0, F32)).text == "x * -2.0f"
    chosen = CUDA.select(CUDA.infix("<", X, Y), total, Z)
    assert chosen.text == "x < y ? x + y : z"
    assert CUDA.infix("*", chosen, Z).text == "(x < y ? x + y : z) * z"
    assert CUDA.select(X, Y, chosen).text == "x ? y : x < y ? x + y : z"
    assert CUDA.select(chosen, X, Y).text == "(x < y ? x + y : z) ? x : y"
    assert TRITON.number(TRITON.infix("+", X, Y), F32).text == "(x + y).to(tl.float32)"
    assert TRITON.number(TRITON.prefix("~", X), I8).text == "(~x).to(tl.int8)"
    assert TRITON.infix("&", TRITON.infix("<", X, Y), Z).text == "(x < y) & z"
    assert CUDA.infix("&", CUDA.infix("<", X, Y), Z).text == "x < y & z"
    assert TRITON.call("f", TRITON.infix("+", X, Y), Z).text == "f(x + y, z)"


# Spellings that depend on a constant or on a mix of types


def test_comparisons_of_mixed_integers() -> None:
    assert CUDA.apply("lt", (X, Y), (I64, U64), BOOL).text == "compare_mixed(x, y) < 0"
    assert CUDA.apply("lt", (X, Y), (U64, I64), BOOL).text == "compare_mixed(y, x) > 0"
    assert CUDA.apply("eq", (X, Y), (U64, I8), BOOL).text == "compare_mixed((long long)y, x) == 0"
    assert TRITON.apply("ge", (X, Y), (I32, U64), BOOL).text == "compare_mixed(x.to(tl.int64), y) >= 0"
    assert CUDA.apply("lt", (X, Y), (I32, U32), BOOL).text == "(long long)x < (long long)y"
    for value, symbol, always in ((300, "lt", "true"), (-1, "ge", "true"), (300, "eq", "false"), (-1, "ne", "true")):
        assert CUDA.apply(symbol, (X, CUDA.literal(value, U8)), (U8, U8), BOOL).text == always
    assert CUDA.apply("gt", (CUDA.literal(300, U8), X), (U8, U8), BOOL).text == "true"


def test_constant_operands_shorten() -> None:
    def both(op: str, value: float, dtype: DType) -> tuple[str, ...]:
        return tuple(d.apply(op, (X, d.literal(value, dtype)), (dtype, dtype), dtype).text for d in (TRITON, CUDA))

    assert both("pow", 2, F32) == ("x * x", "x * x")
    assert both("pow", 3, I16) == ("x * x * x", "wrapping_mul(wrapping_mul(x, x), x)")
    assert both("shift_left", 3, I32) == ("x << 3", "x << 3")
    assert both("shift_right", 3, U8) == ("x >> 3", "(unsigned char)(x >> 3)")
    assert both("shift_left", 32, I32) == ("shift_left(x, 32)", "shift_left(x, 32)")
    assert both("div", 8, F32) == ("x * 0.125", "x / 8.0f")
    assert both("div", 3, F32) == ("tl.div_rn(x, 3.0)", "x / 3.0f")
    assert both("div", 3, F64) == ("x / 3.0", "x / 3.0")


def test_narrow_integers_come_back_to_their_width() -> None:
    assert CUDA.apply("bit_and", (X, Y), (I8, I8), I8).text == "(signed char)(x & y)"
    assert CUDA.apply("bit_not", (X,), (U16,), U16).text == "(unsigned short)~x"
    assert CUDA.apply("add", (X, Y), (U8, U8), U8).text == "wrapping_add(x, y)"
    assert CUDA.apply("add", (X, Y), (U32, U32), U32).text == "x + y"


def test_conversions() -> None:
    assert TRITON.cast(X, F32, F16).text == "x.to(tl.float16).to(tl.float32)"
    assert TRITON.cast(X, F64, F8E4M3).text == "decode_f8e4m3(encode_f8e4m3(round_to_odd(x)))"
    assert CUDA.cast(X, F64, BF16).text == "(float)bf16(round_to_odd(x))"
    assert CUDA.cast(X, F8E4M3, F16).text == "x"
    assert CUDA.cast(X, I8, F16).text == "(float)x"
    assert CUDA.cast(X, F32, U8).text == "saturate<unsigned char>(x)"
    assert TRITON.cast(X, F32, U8).text == "saturate(x, tl.uint8)"
    assert TRITON.cast(X, F32, BOOL).text == "x != 0.0"
    assert CUDA.convert(CUDA.literal(3, I64), I64, F32).text == "3.0f"
    assert isinstance(TRITON.convert(TRITON.literal(3.7, F32), F32, I8), Constant)
    assert TRITON.convert(TRITON.literal(3.7, F32), F32, I8).text == "tl.full((), 3, tl.int8)"
    assert (TRITON.storage_type(F8E4M3), CUDA.storage_type(F8E4M3)) == ("tl.uint8", "f8e4m3")
    assert (TRITON.value_type(F16), CUDA.value_type(F16)) == ("tl.float32", "float")


# Compiled


@cache
def plain_operators() -> Kernels:
    names = ("add", "sub", "mul", "div", "sqrt", "neg", "abs", "maximum", "minimum", "floor", "ceil", "round", "trunc")
    chosen = [case for case, op, *_ in _meanings() if op.name in names and case.operands[0] is F32 is case.operands[-1]]

    def write(dialect: Dialect, x: Sequence[Expr]) -> Expr:
        return dialect.infix("+", dialect.infix("*", x[0], x[1]), x[0])

    return Kernels([*chosen, Case("multiplied_and_added", (F32, F32), F32, write)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_are_ieee_on_a_gpu(backend: Backend) -> None:
    target = Target.parse("cuda:90")
    kernels = plain_operators()
    assert len(kernels.cases) == 14
    ptx = (kernels.compile(target) if backend == "triton" else kernels.compile_cuda(target)).texts["ptx"]
    assert ".ftz" not in ptx and "approx" not in ptx and "div.full" not in ptx
    assert not re.search(r"\bfma\b", ptx)
    assert {"div.rn.f32", "sqrt.rn.f32", "max.NaN.f32", "min.NaN.f32"} <= set(re.findall(r"\S+\.f32", ptx))


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        ("cuda:80", F32),
        ("cuda:80", U16),
        ("cuda:90", F64),
        ("hip:gfx942", F32),
        ("hip:gfx942", F64),
        ("hip:gfx942", I32),
    ],
    ids=str,
)
def test_every_spelling_compiles_for_triton(target: str, dtype: DType) -> None:
    chosen = meanings().only({dtype, BOOL})
    assert len(chosen.cases) > 60
    assert chosen.compile(Target.parse(target)).binary


@pytest.mark.parametrize(("arch", "dtype"), [(80, F32), (90, F64), (80, I32), (90, U16)], ids=str)
def test_every_spelling_compiles_for_cuda(arch: int, dtype: DType) -> None:
    assert meanings().only({dtype, BOOL}).compile_cuda(Target.parse(f"cuda:{arch}")).binary


def test_stored_values_are_the_reference_s() -> None:
    """`store` of the op table and the kernels round alike."""
    x = values(F32, OPS["add"], 0)
    for backend in BACKENDS:
        kernels = Kernels([Case("stored", (F32,), F16, lambda d, x: x[0])])
        got = kernels.run(backend, "stored", x)
        np.testing.assert_array_equal(got, store(x, F16))
