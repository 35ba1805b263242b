"""Arithmetic of interpreted Triton kernels: casts, wrapping, rounding, NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from triton_cases import BF16, E4M3, E5M2, FLOATS, INF, INTEGERS, NAN, numbers, pointwise, same, sample

# The interpreter promises silence: no NumPy warning leaves it.
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("source", [*FLOATS, "float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("target", FLOATS)
def test_casts_between_floats_round_to_nearest_even(source: str, target: str) -> None:
    x = numbers(source)
    dtype = sample(target).dtype
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
        if source == "float64" and target == "bfloat16":
            want = np.array([nearest(v, BF16) for v in x.tolist()], BF16)
    same(pointwise("a", dtype, x), want)


def nearest(value: float, dtype: Any) -> Any:
    """`value` rounded once to `dtype`, by looking at the neighbours of its double rounding."""
    near = dtype(value)
    if not math.isfinite(value) or not np.isfinite(near):
        return near
    around = np.array([near]).view(np.uint16)[0] + np.array([-1, 0, 1])
    candidates = around.astype(np.uint16).view(dtype)
    finite = [c for c in candidates if np.isfinite(c)]
    return min(
        finite,
        key=lambda c: (abs(Fraction(float(c)) - Fraction(value)), int(np.array(c).view(np.uint16)) & 1),
    )


def test_float64_is_rounded_to_bfloat16_once() -> None:
    x = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, -1 - 2**-8 - 2**-40])
    same(pointwise("a", BF16, x), np.array([1 + 2**-7, 1, -1 - 2**-7], BF16))


def test_rounding_toward_zero() -> None:
    x = np.array([1 + 2**-7 * 0.9, -1 - 2**-7 * 0.9, 3.4e38, -3.4e38, INF, NAN], np.float32)
    want = np.array([1, -1, 3.3895314e38, -3.3895314e38, INF, NAN], BF16)
    same(pointwise("a.to(tl.bfloat16, fp_downcast_rounding='rtz')", BF16, x), want)
    x = np.array([2049.5, -2049.5, 70000.0, 1e-9], np.float32)
    same(
        pointwise("a.to(tl.float16, fp_downcast_rounding='rtz')", "f2", x),
        np.array([2048, -2048, 65504, 0], "f2"),
    )


@pytest.mark.parametrize(("dtype", "largest"), [(E4M3, 448), (E5M2, 57344)])
def test_fp8_saturates_and_is_computed_in_its_values(dtype: Any, largest: float) -> None:
    x = np.array([1e9, -1e9, INF, NAN, 1.0625, 0.3, largest], np.float32)
    want = np.array([largest, -largest, largest, NAN, 1, 0.3, largest], dtype)
    same(pointwise("a", dtype, x), want)
    every = np.arange(256, dtype=np.uint8).view(dtype)
    same(pointwise("a", np.float32, every), every.astype(np.float32))


def test_bitcasts() -> None:
    x = numbers("float32")
    same(pointwise("a.to(tl.int32, bitcast=True)", np.int32, x), x.view(np.int32))
    same(pointwise("a.to(tl.float32, bitcast=True)", np.float32, x.view(np.uint32)), x)
    half = sample("bfloat16")
    same(pointwise("(a.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)", "f4", half),
         half.astype("f4"))  # fmt: skip


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS, "bool"])
def test_casts_from_integers(source: str, target: str) -> None:
    x = sample(source)
    x[0] = 0
    dtype = sample(target).dtype
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    same(pointwise(f"a.to(tl.{'int1' if target == 'bool' else target})", dtype, x), want)


@pytest.mark.parametrize("name", FLOATS)
def test_casts_to_integers_truncate_and_never_warn(name: str) -> None:
    dtype = sample(name).dtype
    x = np.array([-2.7, 2.7, -0.5, 100.5, 0.99, 0], dtype)
    same(pointwise("a.to(tl.int8)", np.int8, x), np.array([-2, 2, 0, 100, 0, 0], np.int8))
    x = np.array([0.5, 200, 254.0], dtype)
    same(pointwise("a.to(tl.uint8)", np.uint8, x), np.array([0, 200, 254], np.uint8))
    pointwise("a.to(tl.int32)", np.int32, numbers(name))
    pointwise("a.to(tl.uint64)", np.uint64, numbers(name))


def test_float64_reaches_the_top_of_uint64() -> None:
    x = np.array([2.0**63, 2.0**64 - 2048])
    same(pointwise("a.to(tl.uint64)", np.uint64, x), np.array([2**63, 2**64 - 2048], np.uint64))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_float_arithmetic_is_rounded_in_its_own_type(name: str, op: str) -> None:
    a, b = numbers(name), numbers(name)[::-1]
    with np.errstate(all="ignore"):
        want = eval(f"a {op} b")
    same(pointwise(f"a {op} b", a.dtype, a, b), want)


def test_bfloat16_constants_signs_and_comparisons() -> None:
    a = np.array([1.0, -2.0, NAN, -0.0, 300], BF16)
    same(pointwise("a * 0.5 + 1.0", BF16, a), a * BF16(0.5) + BF16(1))
    same(pointwise("tl.abs(a)", BF16, a), np.abs(a))
    same(pointwise("-a", BF16, a[:3]), -a[:3])
    same(pointwise("tl.where(a == a, a, 0.0)", BF16, a[:3]), np.array([1, -2, 0], BF16))
    b = np.array([-3.0, -1.0, NAN, 0.0, 300], BF16)
    wide = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
    for op in ("<", "<=", ">", ">=", "==", "!="):
        same(pointwise(f"a {op} b", np.bool_, a, b), eval(f"a {op} b", wide))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_at_their_own_width(name: str) -> None:
    limits = np.iinfo(name)
    a = np.concatenate([np.array([limits.max, limits.min, limits.max, 0, 1], name), sample(name)])
    b = np.concatenate([np.array([1, limits.max, limits.max, limits.max, 0], name), sample(name)[::-1]])
    for op in ("+", "-", "*", "&", "|", "^"):
        same(pointwise(f"a {op} b", name, a, b), eval(f"a {op} b"))
    same(pointwise("-a", name, a), np.negative(a))
    same(pointwise("~a", name, a), ~a)
    same(pointwise("tl.abs(a)", name, a), np.abs(a))
    for op in ("<", "<=", ">", ">=", "==", "!="):
        same(pointwise(f"a {op} b", np.bool_, a, b), eval(f"a {op} b"))
    same(pointwise("tl.minimum(a, b)", name, a, b), np.minimum(a, b))
    same(pointwise("tl.maximum(a, b)", name, a, b), np.maximum(a, b))
    small = np.array([200 % (limits.max + 1), 7, 0], name)
    same(pointwise("a + 3", name, small), small + 3)
    same(pointwise("a > 3", np.bool_, small), small > 3)
    same(pointwise("(a // 3) ^ 1", name, small), (small // 3) ^ 1)
    # A wrapped value is compared, divided and widened as the wrapped value.
    same(pointwise("(a + b) < b", np.bool_, a, b), a + b < b)
    same(pointwise("(a - b).to(tl.float64)", np.float64, a, b), (a - b).astype(np.float64))


def test_booleans_are_one_bit() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for op, want in (("+", a ^ b), ("-", a ^ b), ("*", a & b), ("&", a & b), ("|", a | b), ("^", a ^ b)):
        same(pointwise(f"a {op} b", np.bool_, a, b), want)
    same(pointwise("~a", np.bool_, a), ~a)
    same(pointwise("a < b", np.bool_, a, b), a < b)
    same(pointwise("a.to(tl.float32)", np.float32, a), a.astype(np.float32))


@pytest.mark.parametrize("name", INTEGERS)
def test_division_truncates_and_never_traps(name: str) -> None:
    limits = np.iinfo(name)
    a = np.array([7, limits.max, limits.min, 6, 0, limits.max], name)
    b = np.array([2, 3, 3, limits.max, 5, limits.max], name)
    if limits.min < 0:
        a = np.concatenate([a, np.array([-7, -7, 7, -6], name)])
        b = np.concatenate([b, np.array([2, -2, -2, 3], name)])
    exact = [
        (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    same(pointwise("a // b", name, a, b), np.array(exact, name))
    rest = [x - q * y for x, y, q in zip(a.tolist(), b.tolist(), exact, strict=True)]
    same(pointwise("a % b", name, a, b), np.array(rest, name))
    # Division by zero is undefined: all ones, and so not what NumPy gives.
    some, zero = np.array([1, 5, limits.max], name), np.zeros(3, name)
    same(pointwise("a // b", name, some, zero), ~zero)
    same(pointwise("a % b", name, some, zero), ~zero)
    if limits.min < 0:
        same(
            pointwise("a // b", name, np.array([limits.min], name), np.array([-1], name)),
            np.array([limits.min], name),
        )


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_follow_the_sign_of_the_type(name: str) -> None:
    bits, x = np.iinfo(name).bits, sample(name)
    for amount in (0, 1, bits - 1, bits, bits + 3):
        by = np.full(x.size, amount, name)
        same(pointwise("a >> b", name, x, by), np.array([v >> amount for v in x.tolist()], name))
        left = [(v << amount) % 2**bits for v in x.tolist()]
        same(pointwise("a << b", name, x, by), np.array(left, f"u{bits // 8}").view(name))


def test_high_half_of_a_product() -> None:
    for name in ("int32", "uint32", "int64", "uint64"):
        a, b = sample(name), sample(name)[::-1].copy()
        bits = np.iinfo(name).bits
        unsigned = f"u{bits // 8}"
        high = [(x * y) >> bits for x, y in zip(a.view(unsigned).tolist(), b.view(unsigned).tolist(), strict=True)]
        same(pointwise("tl.umulhi(a, b)", name, a, b), np.array(high, unsigned).view(name))


def test_float_division_and_remainder_never_warn() -> None:
    a = np.array([1, -1, 0, 5.5, -5.5, INF, 5.5, 1e30], np.float32)
    b = np.array([0, 0, 0, 2, 2, 3, INF, 7], np.float32)
    with np.errstate(all="ignore"):
        same(pointwise("a / b", np.float32, a, b), a / b)
        same(pointwise("a % b", np.float32, a, b), np.fmod(a, b))
        half = a.astype(BF16), b.astype(BF16)
        same(pointwise("a % b", np.float32, *half), np.fmod(*(x.astype("f4") for x in half)))
        same(pointwise("tl.log(a)", np.float32, -np.abs(a)), np.log(-np.abs(a)))


def test_maximum_and_minimum_follow_propagate_nan() -> None:
    for name in FLOATS:
        dtype = sample(name).dtype
        a = np.array([1, NAN, 2, NAN, 0.0, -0.0, -0.0], dtype)
        b = np.array([2, 1, NAN, NAN, -0.0, 0.0, -0.0], dtype)
        nan = "propagate_nan=tl.PropagateNan.ALL"
        same(
            pointwise("tl.maximum(a, b)", dtype, a, b),
            np.array([2, 1, 2, NAN, 0.0, 0.0, -0.0], dtype),
        )
        same(pointwise("tl.minimum(a, b)", dtype, a, b), np.array([1, 1, 2, NAN, -0.0, -0.0, -0.0], dtype))
        same(
            pointwise(f"tl.maximum(a, b, {nan})", dtype, a, b),
            np.array([2, NAN, NAN, NAN, 0.0, 0.0, -0.0], dtype),
        )
        same(
            pointwise(f"tl.minimum(a, b, {nan})", dtype, a, b),
            np.array([1, NAN, NAN, NAN, -0.0, -0.0, -0.0], dtype),
        )
    x = np.array([NAN, -5, 0.5, 5], np.float32)
    got = pointwise("tl.clamp(a, -1.0, 1.0)", np.float32, x)
    assert got[0] in (-1, 1)  # one of the bounds: which one depends on the compiler
    same(got[1:], np.array([-1, 0.5, 1], np.float32))
    same(pointwise(f"tl.clamp(a, -1.0, 1.0, {nan})", np.float32, x), np.array([NAN, -1, 0.5, 1], np.float32))


def fma_exactly(x: float, y: float, z: float, dtype: Any) -> Any:
    """x * y + z rounded once."""
    if not all(map(math.isfinite, (x, y, z))) or x * y == 0 == z:
        with np.errstate(all="ignore"):
            return dtype(np.float64(x) * y + z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return dtype(0)
    scale, digits = {np.float64: (1074, 53), np.float32: (149, 24), np.float16: (24, 11)}[dtype]
    exponent = max(-scale, exact.numerator.bit_length() - exact.denominator.bit_length() - digits - 1)
    while True:  # round() of a fraction is to nearest, ties to even
        whole = round(exact / Fraction(2) ** exponent)
        if abs(whole) <= 2**digits:
            break
        exponent += 1
    try:
        rounded = math.ldexp(whole, exponent)
    except OverflowError:
        return dtype(math.copysign(INF, whole))
    with np.errstate(over="ignore"):
        return dtype(math.copysign(rounded, exact))


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_fma_rounds_once(name: str) -> None:
    rng = np.random.default_rng(5)
    dtype = np.dtype(name)
    width, low = {"float16": (10, -9), "float32": (23, -70), "float64": (52, -540)}[name]
    near = rng.uniform(1, 2, (3, 500)) * np.exp2(rng.integers(low, -low, (3, 500)))
    a, b = (near[:2] * [[1.0], [-1.0]]).astype(dtype)
    with np.errstate(all="ignore"):
        # A third operand that nearly cancels the product, or sits half a unit away from it.
        product_ = a * b
        far = (product_ * np.exp2(rng.integers(-2 * width, 3, 500).astype(float))).astype(dtype)
    c = np.where(rng.integers(0, 2, 500), -product_, far).astype(dtype)
    special = np.array([0, -0.0, 1, INF, -INF, NAN], dtype)
    grid = np.array(list(product(special, repeat=3)), dtype).T
    a, b, c = (np.concatenate([x, y]) for x, y in zip((a, b, c), grid, strict=True))
    want = [fma_exactly(float(x), float(y), float(z), dtype.type) for x, y, z in zip(a, b, c, strict=True)]
    same(pointwise("tl.fma(a, b, c)", dtype, a, b, c), np.array(want, dtype))
    if name != "float16":
        same(pointwise("libdevice.fma(a, b, c)", dtype, a, b, c), np.array(want, dtype))


def test_bfloat16_fma_rounds_once() -> None:
    a, b, c = np.array([1 + 2**-7]), np.array([1 + 2**-7]), np.array([2**-30])
    got = pointwise("tl.fma(a, b, c)", BF16, *(x.astype(BF16) for x in (a, b, c)))
    same(got, np.array([1 + 2**-6], BF16))
    got = pointwise("tl.fma(a, b, c)", BF16, *(np.array([x], BF16) for x in (1 + 2**-7, 1 + 2**-1, 2**-40)))
    same(got, np.array([nearest(float((1 + 2**-7) * 1.5 + 2**-40), BF16)], BF16))


def test_division_and_square_root_rounded_to_nearest() -> None:
    a, b = np.abs(numbers("float32", 2000)), numbers("float32", 2000)[::-1].copy()
    with np.errstate(all="ignore"):
        same(pointwise("tl.div_rn(a, b)", np.float32, a, b), a / b)
        same(pointwise("tl.sqrt_rn(a)", np.float32, a), np.sqrt(a))
        same(pointwise("tl.math.div_rn(1.0, a)", np.float32, a), np.float32(1) / a)


@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "abs"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_triton_itself(name: str, dtype: str) -> None:
    x = np.exp(np.random.default_rng(3).uniform(-5, 4, 5000)).astype(dtype)
    own: dict[str, Callable[[float], float]] = {"rsqrt": lambda v: 1 / math.sqrt(v), "abs": abs}
    want = np.array([(own.get(name) or getattr(math, name))(v) for v in x.tolist()]).astype(dtype)
    got = pointwise(f"tl.{name}(a)", dtype, x)
    np.testing.assert_array_max_ulp(got, want, maxulp=0 if dtype == "float32" else 4)
    same(pointwise(f"a.{name}()", dtype, x), got)
