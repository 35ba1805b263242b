"""Inputs on which fused kernels are known to go wrong, whole families of them, with the right values (by case id)."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from device_arrays import Arrays
from launches import Runner, described

import emitter
from emitter.dtypes import DTYPES, DType, dtype
from emitter.errors import DTypeMismatch, LiteralOverflow
from launch import Cache

FLOATS = [d for d in DTYPES if d.is_float]
INTEGERS = [d for d in DTYPES if d.is_integer]


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, cache: Cache) -> Runner:
    return Runner(request.param, device, arrays, cache)


def floats(values: list[float], kind: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(values, np.float64).astype(dtype(kind).numpy)


def wrapped(value: int, high: int) -> int:
    """The value as an integer type up to `high` holds it: only MIN // -1 does not fit."""
    return -high - 1 if value == high + 1 else value


@pytest.mark.parametrize("kind", ["i8", "i32", "i64", "u8"])
def test_integer_division_rounds_down_and_never_traps(run: Runner, kind: str) -> None:
    """A01: by tensors, by a 0-d tensor, by a scalar and by constants."""
    constants = (2, 0) if kind == "u8" else (2, -2, 0, -1)
    body = {"q": "x // d", "r": "x % d", "q0": "x // d0", "r0": "x % d0", "qs": "x // s", "rs": "x % s"}
    body |= {f"qc{n}": f"x // {c}" for n, c in enumerate(constants)}
    body |= {f"rc{n}": f"x % {c}" for n, c in enumerate(constants)}
    group = described(f"x: {kind}[N]; d: {kind}[N]; d0: {kind}[]; s: {kind}", body)
    low, high = dtype(kind).limits
    values, divisors = [-7, -7, 7, -6, -1, 0, low, 5, -5, 0], [2, -2, -2, 3, 2, -5, -1, 0, 0, 0]
    quotients, remainders = [-4, 3, -4, -2, -1, 0, low, 0, 0, 0], [1, -1, -1, 0, 1, 0, 0, 0, 0, 0]
    if kind == "u8":
        values, divisors = [7, 200, 255, 5, 0], [2, 3, 255, 0, 0]
        quotients, remainders = [3, 66, 1, 0, 0], [1, 2, 0, 0, 0]
    x, d = np.array(values, dtype(kind).numpy), np.array(divisors, dtype(kind).numpy)
    for divisor in (3, 0, *((-1, -7, low) if low else (high,))):
        q, r, q0, r0, qs, rs, *more = run.checked(group, x, d, np.asarray(divisor, x.dtype), divisor)
        assert q.tolist() == quotients
        assert r.tolist() == remainders
        results = [(divisor, q0, r0), (divisor, qs, rs)]
        results += zip(constants, more[: len(constants)], more[len(constants) :], strict=True)
        for by, quotient, remainder in results:
            wanted = [wrapped(v // by, high) if by else 0 for v in values]
            assert quotient.tolist() == wanted
            assert remainder.tolist() == [v % by if by else 0 for v in values]


def test_narrow_integers_wrap_at_their_own_width(run: Runner) -> None:
    """A03 a to e, h."""
    group = described(
        "x: u8[N]; w: u32[N]",
        {
            "negative": "neg(x)",
            "folded": "neg(abs(x))",
            "wide": "cast(neg(x), 'f32') + 1.5",
            "small": "neg(x) < 4",
            "less": "x - 5",
            "back": "(x - 5) // 2",
            "below": "w < 4294967295",
            "half": "w >> 1",
            "sixteenth": "w >> 4",
        },
    )
    x, w = np.array([7, 200, 0, 6, 3], np.uint8), np.array([0x80000000, 0xDEADBEEF, 3, 0xFFFFFFFF, 0], np.uint32)
    negative, folded, wide, small, less, back, below, half, sixteenth = run.checked(group, x, w)
    assert negative.tolist() == [249, 56, 0, 250, 253]
    assert folded.tolist() == negative.tolist()
    assert np.concatenate([folded[1:2]] * 4).sum(dtype=np.int64) == 224
    assert wide.tolist() == [250.5, 57.5, 1.5, 251.5, 254.5]
    assert small.tolist() == [False, False, True, False, False]
    assert less.tolist() == [2, 195, 251, 1, 254]
    assert back.tolist() == [1, 97, 125, 0, 127]
    assert below.tolist() == [True, True, True, False, True]
    assert half[0] == 0x40000000 and sixteenth[1] == 0x0DEADBEE


def test_bools_add_as_or_and_do_not_subtract(run: Runner) -> None:
    """A03 f."""
    group = described("x: bool[N]; y: bool[N]", {"both": "x + y", "number": "cast(x + y, 'i32')", "product": "x * y"})
    both, number, product = run.checked(group, np.array([True, True, False]), np.array([True, False, False]))
    assert both.tolist() == [True, True, False]
    assert number.tolist() == [1, 1, 0]
    assert product.tolist() == [True, False, False]
    with pytest.raises(DTypeMismatch, match="sub"):
        emitter.emit(described("x: bool[N]; y: bool[N]", {"z": "x - y"}), run.backend)


@pytest.mark.parametrize("kind", [d.name for d in INTEGERS])
def test_shifts_past_the_width_leave_nothing_but_the_sign(run: Runner, kind: str) -> None:
    """A03 g: at every width, by tensors and by constants."""
    bits, (low, high) = dtype(kind).bits, dtype(kind).limits
    body = {"right": "x >> s", "left": "x << s", "right_c": f"x >> {bits}", "left_c": f"x << {bits}"}
    group = described(f"x: {kind}[N]; s: {kind}[N]", body)
    pairs = list(itertools.product((low, high, 1, 100, 0), (0, 1, bits - 1, bits, bits + 1, 127)))
    x = np.array([a for a, _ in pairs], dtype(kind).numpy)
    s = np.array([b for _, b in pairs], dtype(kind).numpy)
    right, left, right_c, left_c = run.checked(group, x, s)
    modulus = 1 << bits
    assert right.tolist() == [a >> b for a, b in pairs]
    assert [v % modulus for v in left.tolist()] == [(a << b) % modulus for a, b in pairs]
    assert right_c.tolist() == [-1 if a < 0 else 0 for a, _ in pairs]
    assert not left_c.any()


@pytest.mark.parametrize("kind", [d.name for d in FLOATS])
def test_casts_of_floats_to_integers_truncate_saturate_and_take_nan_to_0(run: Runner, kind: str) -> None:
    """A04: every float type to every integer type; the rule in Python's own integers."""
    group = described(f"x: {kind}[N]", {f"to_{d}": f"cast(x, '{d}')" for d in INTEGERS})
    numbers = [-2.7, 2.7, -0.5, 127.9, math.inf, -math.inf, math.nan, 510, -200, -2, -1, 0, 1, 3e9, -3e9, 255.5, 1e19]
    numbers += [2.0**k * s + o for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for o in (0, -1, 0.5)]
    x = floats(numbers, kind)
    results = run.checked(group, x)
    exact = x.astype(np.float64).tolist()
    for integer, got in zip(INTEGERS, results, strict=True):
        low, high = integer.limits
        want = [0 if v != v else high if v >= high else low if v <= low else math.trunc(v) for v in exact]
        assert got.tolist() == want, integer
    if kind == "f32":
        assert results[0].tolist()[:9] == [-2, 2, 0, 127, 127, -128, 0, 127, -128]


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_activations_do_not_overflow_inside(run: Runner, kind: str) -> None:
    """A13."""
    group = described(
        f"x: {kind}[N]",
        {
            "by_tanh": "gelu(x, approximate='tanh')",
            "by_erf": "gelu(x)",
            "s": "sigmoid(x)",
            "p": "softplus(x)",
            "t": "tanh(x)",
            "u": "silu(x)",
            "m": "mish(x)",
        },
    )
    x = floats([-1e4, -1000, -200, -100, -50, -13.24, -5, 0, 11, 20, 100, 200, 1000, 1e4], kind)
    results = dict(zip(group.outputs, run.bounded(group, x), strict=True))
    assert not any(np.isnan(y.astype(np.float32)).any() for y in results.values())
    assert results["s"][2] <= 1.5e-45 and results["s"][11] == 1
    assert results["p"][12] == 1000 and results["p"][1] == 0
    assert results["t"][3] == -1 and results["t"][10] == 1
    if kind == "f32":
        assert results["by_tanh"][6] == pytest.approx(-2.2918e-7, rel=1e-3)
        assert results["by_erf"][6] == pytest.approx(-1.4333e-6, rel=1e-3)
    for name in ("by_tanh", "by_erf"):
        assert results[name].astype(np.float64)[8:].tolist() == x.astype(np.float64)[8:].tolist()
        assert abs(results[name].astype(np.float64)[:6]).max() <= 1e-30


def test_subnormals_are_kept_and_no_mode_leaks(run: Runner) -> None:
    """A16."""
    group = described(
        "x: f32[N]; h: f16[N]; d: f64[N]",
        {"p": "x * 4.70197740328915e-38", "s": "x + 0.0", "one": "h * 1.0", "f": "d * 0.5"},
    )
    x = np.array([-126, -127, 0.1875, 1e-40, -1e-45, 1], np.float32)
    h = np.array([6e-8, -6e-8, 6.1e-5, 1, 2, 3], np.float16)
    d = np.array([5e-324, 1e-310, -1e-323, 1, 2, 3], np.float64)
    product, total, one, half = run.checked(group, x, h, d)
    assert product[2] == np.float32(0.1875 * 2.0**-124) != 0
    assert total.tolist() == x.tolist()
    assert one.tolist() == h.tolist() and one[0] != 0
    assert half.tolist() == (d * 0.5).tolist()
    assert np.float32(1e-40) * np.float32(1) == np.float32(1e-40) != 0
    assert np.float64(1e-310) * 0.5 != 0


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_exponentials_reach_the_subnormals(run: Runner, kind: str) -> None:
    """A16: inside the op table's bound, and none of them 0."""
    lowest = -149 if kind == "f32" else -1074
    group = described(f"x: {kind}[N]", {"e": "exp2(x)", "n": "exp(x * 0.6931471805599453)"})
    x = np.array([*range(lowest, lowest + 30), 0, 1], dtype(kind).numpy)
    e, _ = run.bounded(group, x)
    assert (e > 0).all()
    (e,) = run.bounded(described(f"x: {kind}[N]", {"e": "exp2(x)"}), np.array([lowest - 1, lowest - 2], x.dtype))
    assert (e <= np.finfo(x.dtype).smallest_subnormal).all()


@pytest.mark.parametrize(("kind", "large"), [("f16", 2048), ("bf16", 256)])
def test_values_between_stay_wide_and_an_explicit_cast_rounds(run: Runner, kind: str, large: int) -> None:
    """A17."""
    group = described(
        f"a: {kind}[N]; b: {kind}[N]",
        {
            "e": "a + b == a",
            "d": "(a + b) - a",
            "e_cast": f"cast(a + b, '{kind}') == a",
            "d_cast": f"cast(a + b, '{kind}') - a",
            "kept": f"cast(cast(a + b, '{kind}'), 'f32')",
        },
    )
    e, d, e_cast, d_cast, kept = run.checked(group, floats([large], kind), floats([1], kind))
    assert (e.tolist(), d.astype(float).tolist()) == ([False], [1.0])
    assert (e_cast.tolist(), d_cast.astype(float).tolist()) == ([True], [0.0])
    assert kept.tolist() == [large]


def test_outputs_have_numpys_dtypes(run: Runner) -> None:
    """A21: constants are weak, tensors of no dims are not."""
    kinds = ("f32", "i32", "i8", "u8", "f16", "i64", "u64")
    inputs = "; ".join(["one: f64[]", *(f"{k}_: {k}[N]" for k in kinds)])
    body = {
        "a": "f32_ * (2.0 * 1.0)",
        "b": "f32_ * (2.0 * one)",
        "c": "i32_ + 1.5",
        "d": "i8_ + u8_",
        "e": "f16_ + i32_",
        "f": "i64_ + u64_",
        "g": "u8_ * 2",
        "h": "f16_ * 2.5",
        "i": "f16_ + f32_",
    }
    arrays = [np.arange(5).astype(dtype(k).numpy) for k in kinds]
    got = run(described(inputs, body), np.ones((), np.float64), *arrays)
    f32, i32, i8, u8, f16, i64, u64 = arrays
    wanted = [f32 * 2.0, f32 * np.ones(()), i32 + 1.5, i8 + u8, f16 + i32, i64 + u64, u8 * 2, f16 * 2.5, f16 + f32]
    wanted[1] = f32 * np.float64(2)
    for name, result, want in zip(body, got, wanted, strict=True):
        assert result.dtype == want.dtype, name
        assert result.tolist() == want.tolist(), name
    with pytest.raises(LiteralOverflow):
        emitter.emit(described("x: u8[N]", {"y": "x + 300"}), run.backend)


@pytest.mark.parametrize("kind", [d.name for d in INTEGERS])
def test_gathers_count_from_the_end_and_stay_inside(run: Runner, kind: str) -> None:
    """A25: out of range gives 0, in masked lanes too; the table ends at a page that faults."""
    group = described(
        f"x: f32[V]; k: {kind}[N]; keep: bool[N]", {"y": "take(x, k, 0)", "masked": "where(keep, take(x, k, 0), -1.0)"}
    )
    low, high = dtype(kind).limits
    indices = [0, 4, 5, high, high - 1, 3, *((-1, -5, -6, low) if low else ())]
    k = np.array(indices, dtype(kind).numpy)
    keep = np.array([-5 <= i < 5 for i in indices])
    table = [10.0, 20, 30, 40, 50]
    y, masked = run.checked(group, np.array(table, np.float32), k, keep)
    assert y.tolist() == [table[i] if -5 <= i < 5 else 0 for i in indices]
    assert masked.tolist() == [table[i] if -5 <= i < 5 else -1 for i in indices]
    y, masked = run.checked(group, np.array(table, np.float32), k[:0], keep[:0])
    assert y.shape == masked.shape == (0,)


@pytest.mark.parametrize("kind", [d.name for d in DTYPES if d.bits != 8 or d.is_integer])
def test_scalars_arrive_unchanged(run: Runner, kind: str) -> None:
    """A27: also beyond 2**31; bf16 is not its bits."""
    element: DType = dtype(kind)
    group = described(f"x: {kind}[N]; s: {kind}", {"y": "where(x == x, s, x)"})
    numbers = [*element.limits, 1, element.limits[1] // 2 + 1] if element.is_integer else [1, 0]
    if element.is_float:
        numbers = [1.5, -0.0, math.inf, math.nan, float(ml_dtypes.finfo(element.numpy).smallest_subnormal), 2.0**31]
    x = np.ones(3, element.numpy)
    for number in numbers:
        for given in (number, floats([number], kind)[0] if element.is_float else element.numpy.type(number)):
            (y,) = run(group, x, given if element.name != "bf16" else float(given))
            want = floats([number] * 3, kind) if element.is_float else np.full(3, number, element.numpy)
            assert y.tobytes() == want.tobytes() or (number != number and np.isnan(y.astype(float)).all())


def test_the_cpu_path_computes_bf16_as_numbers_and_wraps_int32(run: Runner) -> None:
    """A27, its pointwise part."""
    group = described(
        "x: bf16[N]; n: i32[N]",
        {"y": "x + 1.0", "big": "maximum(x, 2.0)", "sum": "n + n + n + n", "rounded": "x * 1.01"},
    )
    x = floats([math.nan, 2, 3, 4, 255, 256, 3e38, -1], "bf16")
    y, big, total, rounded = run.checked(group, x, np.full(8, 2**30, np.int32))
    assert y.astype(float).tolist()[1:5] == [3, 4, 5, 256] and y[0] != y[0]
    assert big[0] != big[0] and big.astype(float).tolist()[1:4] == [2, 3, 4]
    assert total.tolist() == [0] * 8
    assert float(rounded[1]) == 2.015625, "rounded to nearest, not cut off"
