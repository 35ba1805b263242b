"""The device helpers of both preludes: exhaustive against NumPy on the CPU where types are small, and compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from expression_kernels import BACKENDS, PRELUDES, Array, Case, Kernels, Write, compile_text

from emitter import numerics
from emitter.dialects import CUDA, DIALECTS, Dialect, Expr
from emitter.dtypes import BF16, BOOL, DTYPES, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U64, DType
from emitter.prelude import blocks, needed
from emitter.source import Backend
from launch.cpu.cuda import CpuModule, compile_cpu
from launch.cpu.memory import POISON, guarded, outside_written, poisoned
from launch.targets import Target

SM90 = Target.parse("cuda:90")
NARROW = (F16, BF16, F8E4M3, F8E5M2)
INTEGERS = tuple(t for t in DTYPES if t.is_integer)
SIGNED = tuple(t for t in INTEGERS if t.kind == "int")


def _call(name: str) -> Write:
    return lambda dialect, x: dialect.call(name, *x)


def _op(name: str, *types: DType) -> Write:
    return lambda dialect, x: dialect.apply(name, x, types, types[0])


def _cast(source: DType, target: DType) -> Write:
    return lambda dialect, x: dialect.cast(x[0], source, target)


def _itself(dialect: Dialect, x: Sequence[Expr]) -> Expr:
    return x[0]


def _gather_index(dialect: Dialect, x: Sequence[Expr]) -> Expr:
    return dialect.number(dialect.call("gather_index", x[0], dialect.literal(100, I32)), I64)


def _cases() -> Iterator[Case]:
    for t in NARROW:
        yield Case(f"widen_{t}", (t,), F32, _itself)
        yield Case(f"narrow_{t}", (F32,), t, _itself)
        for source in (F32, F64):
            yield Case(f"round_{source}_{t}", (source,), F32, _cast(source, t))
    for t in INTEGERS:
        for name in ("floor_div", "floor_mod", "shift_left", "shift_right", "int_pow", "maximum", "minimum"):
            yield Case(f"{name}_{t}", (t, t), t, _call(name))
        for source in (F32, F64):
            yield Case(f"saturate_{source}_{t}", (source,), t, _cast(source, t))
        yield Case(f"sign_{t}", (t,), t, _call("sign"))
        yield Case(f"gather_index_{t}", (t,), I64, _gather_index)
    for t in SIGNED:
        for op in ("add", "sub", "mul"):
            yield Case(f"{op}_{t}", (t, t), t, _op(op, t, t))
        for op in ("neg", "abs"):
            yield Case(f"{op}_{t}", (t,), t, _op(op, t))
    for t in (F32, F64):
        for name in ("floor_div_float", "floor_mod_float", "maximum", "minimum"):
            yield Case(f"{name}_{t}", (t, t), t, _call(name))
        yield Case(f"neg_{t}", (t,), t, _op("neg", t))
        yield Case(f"sign_{t}", (t,), t, _call("sign"))
        for name in ("is_nan", "is_inf", "is_finite"):
            yield Case(f"{name}_{t}", (t,), BOOL, _call(name))
        for name in COMPOSITES:
            yield Case(f"{name}_{t}", (t,), t, _call(name if t is F32 else f"{name}_f64"))
    yield Case("compare_mixed", (I64, U64), I32, _call("compare_mixed"))


COMPOSITES: dict[str, Callable[[Array], Array]] = {
    "sigmoid": numerics.sigmoid,
    "silu": numerics.silu,
    "gelu": numerics.gelu,
    "gelu_tanh": lambda x: numerics.gelu(x, "tanh"),
    "softplus": numerics.softplus,
    "mish": numerics.mish,
}


@cache
def kernels() -> Kernels:
    return Kernels(_cases())


def same(got: Array, want: Array) -> None:
    """Equal bit for bit, any NaN being equal to any other."""
    assert got.dtype == want.dtype and got.shape == want.shape
    nan = want != want
    np.testing.assert_array_equal(got != got, nan)
    bits = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[~nan], want.view(bits)[~nan])


def every(dtype: DType) -> Array:
    """Every value of a type of at most 16 bits."""
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}").view(dtype.numpy)


def bit_patterns(dtype: DType, count: int = 20000) -> Array:
    """Random bits with the special values of floats, or the limits of integers, in front."""
    rng = np.random.default_rng(list(dtype.name.encode()))
    random = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype.numpy)
    if dtype.is_integer:
        low, high = dtype.limits
        small = np.arange(-70 if low else 0, 71, dtype=np.int64).astype(dtype.numpy)
        return np.concatenate([np.array([low, low + 1, high, high - 1], dtype.numpy), small, random])
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -2.5, 3.0, 464.0, 61440.0, 65520.0, 1e300]
    with np.errstate(all="ignore"):
        moderate = rng.normal(0.0, 100.0, count)
        return np.concatenate([np.array(special), random.astype(np.float64), moderate]).astype(dtype.numpy)


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Every pair of 8-bit integers; of wider types many, close ones and the limits among them."""
    if dtype.bits == 8:
        a, b = np.meshgrid(every(dtype), every(dtype))
        return a.ravel(), b.ravel()
    values = bit_patterns(dtype, 2000)
    edge = values[:160]
    rows, columns = np.meshgrid(edge, edge)
    rng = np.random.default_rng(1)
    a = np.concatenate([values, rows.ravel(), values])
    return a, np.concatenate([rng.permutation(values), columns.ravel(), values[::-1] // 7])


def exact_rounding(x: Array, dtype: DType) -> Array:
    """float64 to a narrower float, half to even, by scaling to integers: an oracle that shares no code."""
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    digits, least = info.nmant, float(info.smallest_subnormal)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(x)
        unit = np.maximum(np.ldexp(1.0, np.where(np.isfinite(x), exponent - 1, 0) - digits), least)
        rounded = np.rint(x / unit) * unit
        over = np.abs(rounded) > float(info.max)
        limit = math.nan if dtype is F8E4M3 else math.inf
        rounded = np.where(over, np.copysign(limit, x), rounded)
    return rounded.astype(np.float32)


def halfway(dtype: DType) -> Array:
    """Every tie between neighbours of a narrow type, and the float64 values beside it."""
    with np.errstate(invalid="ignore"):
        values = every(dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    ties = (values[1:] + values[:-1]) / 2
    return np.concatenate([ties, np.nextafter(ties, math.inf), np.nextafter(ties, -math.inf)])


# Floats narrower than f32


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_narrow_float_is_widened(backend: Backend, dtype: DType) -> None:
    x = every(dtype)
    same(kernels().run(backend, f"widen_{dtype}", x), x.astype(np.float32))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_floats_are_narrowed_once_to_nearest_even(backend: Backend, dtype: DType) -> None:
    x = np.concatenate([bit_patterns(F32), every(dtype).astype(np.float32), halfway(dtype).astype(np.float32)])
    with np.errstate(invalid="ignore"):
        want = exact_rounding(x.astype(np.float64), dtype)
    same(kernels().run(backend, f"narrow_{dtype}", x).astype(np.float32), want)
    same(kernels().run(backend, f"round_f32_{dtype}", x), want)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_f64_is_not_rounded_twice(backend: Backend, dtype: DType) -> None:
    x = np.concatenate([bit_patterns(F64), halfway(dtype)])
    want = exact_rounding(x, dtype)
    same(kernels().run(backend, f"round_f64_{dtype}", x), want)


# Integers


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_floor_division(backend: Backend, dtype: DType) -> None:
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        same(kernels().run(backend, f"floor_div_{dtype}", a, b), np.floor_divide(a, b))
        same(kernels().run(backend, f"floor_mod_{dtype}", a, b), np.remainder(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts(backend: Backend, dtype: DType) -> None:
    a, b = pairs(dtype)
    same(kernels().run(backend, f"shift_left_{dtype}", a, b), np.left_shift(a, b))
    same(kernels().run(backend, f"shift_right_{dtype}", a, b), np.right_shift(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_powers(backend: Backend, dtype: DType) -> None:
    a, b = pairs(dtype)
    same(kernels().run(backend, f"int_pow_{dtype}", a, b), numerics.power(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_signed_integers_wrap(backend: Backend, dtype: DType) -> None:
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        for op, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            same(kernels().run(backend, f"{op}_{dtype}", a, b), function(a, b))
        same(kernels().run(backend, f"neg_{dtype}", a), np.negative(a))
        same(kernels().run(backend, f"abs_{dtype}", a), np.abs(a))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_ordered(backend: Backend, dtype: DType) -> None:
    a, b = pairs(dtype)
    same(kernels().run(backend, f"maximum_{dtype}", a, b), np.maximum(a, b))
    same(kernels().run(backend, f"minimum_{dtype}", a, b), np.minimum(a, b))
    same(kernels().run(backend, f"sign_{dtype}", a), np.sign(a))


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_signs_compare_exactly(backend: Backend) -> None:
    a, b = (x.ravel() for x in np.meshgrid(bit_patterns(I64, 50), bit_patterns(U64, 50)))
    want = (a > b).astype(np.int32) - (a < b).astype(np.int32)
    same(kernels().run(backend, "compare_mixed", a, b), want)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_gather_indices(backend: Backend, dtype: DType) -> None:
    index = np.unique(np.concatenate([bit_patterns(dtype), np.arange(0, 127, dtype=dtype.numpy)]))
    values = [int(i) for i in index]
    want = [i if 0 <= i < 100 else i + 100 if -100 <= i < 0 else -1 for i in values]
    same(kernels().run(backend, f"gather_index_{dtype}", index), np.array(want, np.int64))


# Floats


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_float_to_integer_saturates(backend: Backend, source: DType, dtype: DType) -> None:
    low, high = dtype.limits
    edges = np.array([low, high, low - 1, high + 1, -0.5, 0.5, -0.999], np.float64).astype(source.numpy)
    near = np.concatenate([np.nextafter(edges, source.numpy.type(s)) for s in (-math.inf, math.inf)])
    x = np.concatenate([bit_patterns(source), edges, near])
    same(kernels().run(backend, f"saturate_{source}_{dtype}", x), numerics.saturate(x, dtype))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_float_floor_division_is_numpys(backend: Backend, dtype: DType) -> None:
    some = bit_patterns(dtype, 400)
    a, b = (x.ravel() for x in np.meshgrid(np.concatenate([some, np.arange(-9, 9).astype(dtype.numpy) / 4]), some[:60]))
    with np.errstate(all="ignore"):
        same(kernels().run(backend, f"floor_div_float_{dtype}", a, b), np.floor_divide(a, b))
        same(kernels().run(backend, f"floor_mod_float_{dtype}", a, b), np.remainder(a, b))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_floats_are_ordered_and_classified(backend: Backend, dtype: DType) -> None:
    values = bit_patterns(dtype, 100)
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    zeros = (a == 0) & (b == 0)
    for name, function in (("maximum", np.maximum), ("minimum", np.minimum)):
        got = kernels().run(backend, f"{name}_{dtype}", a, b)
        same(np.where(zeros, dtype.numpy.type(0), got), np.where(zeros, dtype.numpy.type(0), function(a, b)))
    same(kernels().run(backend, f"sign_{dtype}", values), np.sign(values))
    same(kernels().run(backend, f"neg_{dtype}", values), np.negative(values))
    for name, test in (("is_nan", np.isnan), ("is_inf", np.isinf), ("is_finite", np.isfinite)):
        same(kernels().run(backend, f"{name}_{dtype}", values), test(values))


# Composite functions

# |error| on the CPU in units in the last place; a result below TINY counts as TINY. A GPU's exp2 and division are less
# exact than a CPU's: the bounds that the preludes state are wider by what they add, 2 for each.
ULP = {"sigmoid": 68, "silu": 68, "gelu": 140, "gelu_tanh": 156, "softplus": 68, "mish": 68}
ULP_NEAR = {"sigmoid": 5, "silu": 5, "gelu": 10, "gelu_tanh": 11, "softplus": 5, "mish": 6}
TINY = 2.0**-104


def ulps(got: Array, want: Array, tiny: float) -> Array:
    unit = np.spacing(np.maximum(np.abs(want), tiny).astype(got.dtype)).astype(np.float64)
    return np.asarray(np.abs(got.astype(np.float64) - want) / unit)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_in_f32_keep_their_bound(backend: Backend, name: str) -> None:
    bits = np.arange(0, 0x7F800000, 60013, dtype=np.uint32)
    whole = np.concatenate([bits, bits | 0x80000000]).view(np.float32)
    x = np.concatenate([whole, np.linspace(-110, 110, 20001, dtype=np.float32)])
    near = np.linspace(-3, 3, 20001, dtype=np.float32)
    with np.errstate(all="ignore"):
        for points, bound in ((x, ULP[name]), (near, ULP_NEAR[name])):
            want = COMPOSITES[name](points.astype(np.float64))
            got = kernels().run(backend, f"{name}_f32", points)
            assert np.isfinite(got).all()
            error = ulps(got, want, TINY)
            worst = error.argmax()
            assert error[worst] <= bound, (points[worst], got[worst], want[worst], error[worst])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_in_f64_are_precise(backend: Backend, name: str) -> None:
    x = np.concatenate([np.linspace(-30, 30, 6001), np.linspace(-745, 745, 3001), [1e300, -1e300, 5e-324]])
    with np.errstate(all="ignore"):
        want = COMPOSITES[name](x)
    got = kernels().run(backend, f"{name}_f64", x)
    error = ulps(got, want, 2.0**-1000)
    assert error[np.abs(x) < 5].max() <= 32
    assert error.max() <= 4096


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_composites_never_overflow_to_nan(backend: Backend, dtype: DType) -> None:
    x = np.array([-1e4, -200, -100, -50, -13.24, -5, 0, 11, 20, 100, 1000, 1e4, 3e38, -3e38, math.inf], dtype.numpy)
    run = {name: kernels().run(backend, f"{name}_{dtype}", x).astype(np.float64) for name in COMPOSITES}
    assert not np.isnan(list(run.values())).any()
    limits = {"sigmoid": 1.0, "silu": math.inf, "gelu": math.inf, "gelu_tanh": math.inf, "softplus": math.inf}
    assert {name: run[name][-1] for name in limits} == limits
    np.testing.assert_allclose(run["gelu_tanh"][4:9], [0, -2.2918e-7, 0, 11, 20], rtol=1e-4, atol=1e-37)
    np.testing.assert_allclose(run["gelu"][5], -1.4333e-6, rtol=1e-4)
    np.testing.assert_allclose(run["sigmoid"][[1, 9]], [0, 1], atol=1e-40)
    np.testing.assert_allclose(run["softplus"][[0, 10]], [0, 1000])
    nan = np.full(2, math.nan, dtype.numpy)
    assert all(np.isnan(kernels().run(backend, f"{name}_{dtype}", nan)).all() for name in COMPOSITES)
    # x times a factor that vanishes is NaN at -inf, as its definition is; the others have a limit.
    least = np.full(2, -math.inf, dtype.numpy)
    for name, function in COMPOSITES.items():
        with np.errstate(all="ignore"):
            want = function(np.full(2, -math.inf))
        same(kernels().run(backend, f"{name}_{dtype}", least).astype(np.float64), want)


# Memory, in CUDA C

MOVES = """
template <typename T, typename V, int VEC>
__global__ void move(const T* __restrict__ x_ptr, T* __restrict__ y_ptr, int N) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    V x[VEC];
    load(x_ptr + i, N - i, x);
    store(y_ptr + i, N - i, x);
}
template <typename T, typename V, int VEC>
__global__ void move_strided(const T* __restrict__ x_ptr, T* __restrict__ y_ptr, int N) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC;
    V x[VEC];
    load_strided(x_ptr + i * -3, -3, N - i, x);
    store_strided(y_ptr + i * 2, 2, N - i, x);
}
"""
VECTORS = (1, 2, 8, 16)
STORED = tuple(CUDA.storage_type(t) for t in NARROW)


def _moved(kind: str, dtype: DType, vector: int) -> str:
    return f"{kind}<{CUDA.storage_type(dtype)}, {CUDA.value_type(dtype)}, {vector}>"


@cache
def moves() -> CpuModule:
    names = [_moved(kind, t, v) for kind in ("move", "move_strided") for t in DTYPES for v in VECTORS]
    return compile_cpu(_with_helpers(MOVES, *STORED), names, sanitize=True, optimize=0)


def _with_helpers(text: str, *uses: str) -> str:
    return "\n".join([*needed(PRELUDES["cuda"], [text, *uses]), text])


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_neighbours_are_moved_and_nothing_else(dtype: DType, vector: int) -> None:
    for size in (1, 5, 16, 35, 64):
        x = np.resize(every(dtype) if 1 < dtype.bits <= 16 else bit_patterns(dtype, 40), size)
        x = np.where(x != x, dtype.numpy.type(1), x) if dtype.is_float else x
        threads = -(-size // vector) + 3
        y = poisoned(x.shape, dtype.numpy)
        read = guarded(x)
        moves().function(_moved("move", dtype, vector))((1, 1, 1), (threads, 1, 1), _arguments(read, y))
        assert y.tobytes() == x.tobytes() and not outside_written(y)

        spread = guarded(np.repeat(x, 3)[2:])
        y = poisoned((2 * size - 1,), dtype.numpy)
        last = spread[3 * (size - 1) :]
        moves().function(_moved("move_strided", dtype, vector))((1, 1, 1), (threads, 1, 1), _arguments(last, y, size))
        assert y[::2].tobytes() == x[::-1].tobytes() and not outside_written(y)
        assert set(y[1::2].tobytes()) <= {POISON}


def _arguments(x: Array, y: Array, size: int | None = None) -> tuple[int, int, np.int32]:
    return x.ctypes.data, y.ctypes.data, np.int32(y.size if size is None else size)


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64, I8, BOOL, F8E4M3], ids=str)
def test_neighbours_move_in_16_bytes(dtype: DType) -> None:
    vector, stored = 16 // dtype.itemsize, CUDA.storage_type(dtype)
    text = f"""
__global__ void together(const {stored}* __restrict__ x_ptr, {stored}* __restrict__ y_ptr, int N) {{
    const int i = threadIdx.x * {vector};
    {CUDA.value_type(dtype)} x[{vector}];
    load(x_ptr + i, N - i, x);
    store(y_ptr + i, N - i, x);
}}
"""
    sass = compile_text("cuda", _with_helpers(text), SM90).levels["sass"]
    assert "LDG.E.128.CONSTANT" in sass and "STG.E.128" in sass
    packed = {F16: "F2FP.F16.F32.PACK_AB", BF16: "F2FP.BF16.F32.PACK_AB", F8E4M3: "F16.E4M3.UNPACK_B"}
    assert packed.get(dtype, "") in sass


# Text and compilers


def test_every_block_defines_what_it_names() -> None:
    for path in PRELUDES.values():
        names = [name for block in blocks(path) for name in block.names]
        assert len(names) == len(set(names))
        for block in blocks(path):
            for name in block.names:
                assert re.search(rf"(def |[\w>)] ){name}\b", block.text), (path, name)


@pytest.mark.parametrize(("target", "narrow"), [("cuda:80", I8), ("cuda:90", U8), ("hip:gfx942", I16)], ids=str)
def test_every_triton_helper_compiles(target: str, narrow: DType) -> None:
    chosen = kernels().only({*NARROW, F32, F64, BOOL, I32, I64, U64, narrow})
    assert chosen.compile(Target.parse(target)).binary


@pytest.mark.parametrize("arch", [75, 80, 90])
def test_every_cuda_helper_compiles(arch: int) -> None:
    assert kernels().compile_cuda(Target.parse(f"cuda:{arch}")).binary


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_helper_of_a_spelling_is_tested(backend: Backend) -> None:
    path, dialect = PRELUDES[backend], DIALECTS[backend]
    texts = [" ".join(case.lines(dialect)) for case in kernels().cases.values()]
    used = set(needed(path, texts))
    helpers = {name for block in blocks(path) for name in block.names} & dialect.functions
    assert len(helpers) > 20
    assert not [block.names for block in blocks(path) if helpers.intersection(block.names) and block.text not in used]


@pytest.mark.parametrize("backend", BACKENDS)
def test_composites_flush_only_what_their_comment_says(backend: Backend) -> None:
    plain = {name: case for name, case in kernels().cases.items() if name.removesuffix("_f32") in COMPOSITES}
    composites = Kernels(plain.values())
    artifact = composites.compile(SM90) if backend == "triton" else composites.compile_cuda(SM90)
    flushed = set(re.findall(r"\S+\.ftz\S*", artifact.texts["ptx"]))
    assert flushed == ({"ex2.approx.ftz.f32", "rcp.approx.ftz.f32"} if backend == "cuda" else set())


def test_ceil_div_does_not_overflow() -> None:
    text = """
__global__ void together(const int* x_ptr, int* y_ptr, int N) {
    for (int i = 0; i < N; ++i) y_ptr[i] = ceil_div(x_ptr[i], 1024);
}
"""
    module = compile_cpu(_with_helpers(text), ["together"])
    x = np.array([0, 1, 1023, 1024, 1025, 2**31 - 1], np.int32)
    y = np.zeros_like(x)
    module.function("together")((1, 1, 1), (1, 1, 1), _arguments(x, y))
    assert y.tolist() == [0, 1, 1, 1, 2, 2**21]
