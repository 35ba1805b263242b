"""The NumPy definitions that NumPy lacks, against exact arithmetic and known values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emitter import numerics
from emitter.dtypes import BF16, DTYPES, F8E4M3, F8E5M2, F16, F32, I8, I32, I64, U8, U64, DType
from emitter.numerics import Array

NARROW = (F16, BF16, F8E4M3, F8E5M2, F32)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Callers hold errstate; anything else that warns is an error."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def grid(dtype: DType) -> Array:
    """Every finite value of a narrow float type, ascending, without -0."""
    every = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}").view(dtype.numpy).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


# Rounding


@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_round_to_decides_ties_by_the_exact_value(dtype: DType) -> None:
    values = grid(dtype)
    middle = (values[:-1] + values[1:]) / 2
    down = numerics.round_to(np.nextafter(middle, -np.inf), dtype).astype(np.float64)
    up = numerics.round_to(np.nextafter(middle, np.inf), dtype).astype(np.float64)
    assert np.array_equal(down, values[:-1])
    assert np.array_equal(up, values[1:])
    tie = numerics.round_to(middle, dtype)
    assert np.all(tie.view(f"u{dtype.itemsize}") % 2 == 0)
    assert np.array_equal(numerics.round_to(values, dtype).astype(np.float64), values)


def test_round_to_rounds_once() -> None:
    # Through float32 each of these would land on a tie and go to the even side, which is 1.
    above = {F16: 1 + 2.0**-11 + 2.0**-40, BF16: 1 + 2.0**-8 + 2.0**-40, F8E4M3: 1 + 2.0**-4 + 2.0**-40}
    for dtype, value in above.items():
        assert float(numerics.round_to(np.array(value), dtype)) > 1
    below = 1 + 2.0**-7 + 2.0**-8 - 2.0**-40
    assert float(numerics.round_to(np.array(below), BF16)) == 1 + 2.0**-7


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_round_to_keeps_specials(dtype: DType) -> None:
    got = numerics.round_to(np.array([np.nan, 0.0, -0.0, 1e-300, -1e-300]), dtype).astype(np.float32)
    assert np.isnan(got[0])
    assert not got[1:].any()
    assert list(np.signbit(got[1:])) == [False, True, False, True]


def test_round_to_overflows_as_the_type_does() -> None:
    past = np.array([np.inf, -np.inf, 1e300, -1e300, 7e4, 500.0])
    assert np.array_equal(numerics.round_to(past, F16), np.array([np.inf, -np.inf, np.inf, -np.inf, np.inf, 500], "e"))
    assert list(np.isinf(numerics.round_to(past, F8E5M2).astype("f"))) == [True] * 5 + [False]
    assert np.all(np.isnan(numerics.round_to(past, F8E4M3).astype("f")))
    assert list(numerics.round_to(np.array([464.0, -464.0]), F8E4M3).astype("f")) == [448, -448]
    assert np.isnan(numerics.round_to(np.array([np.nextafter(464.0, 500)]), F8E4M3).astype("f"))[0]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_round_to_bf16_is_nearest(value: float) -> None:
    got = float(numerics.round_to(np.array(value), BF16))
    if math.isinf(got):
        assert abs(value) >= 2.0**128 - 2.0**119
        return
    bits = np.array(got, ml_dtypes.bfloat16)
    for side in (np.inf, -np.inf):
        other = float(np.nextafter(bits, np.array(side, ml_dtypes.bfloat16)))
        if math.isfinite(other):
            assert abs(Fraction(value) - Fraction(got)) <= abs(Fraction(value) - Fraction(other))


def test_integers_go_to_bf16_through_f32() -> None:
    x = np.array([0, 255, -129, 2**24 + 1, 2**31 - 1, (1 << 24) + (1 << 16) + 1], np.int64)
    assert np.array_equal(numerics.round_to(x, BF16), x.astype(np.float32).astype(ml_dtypes.bfloat16))


# Float to integer (A04)


def test_saturate_inside_truncates_toward_zero() -> None:
    assert list(numerics.saturate(np.array([-2.7, 2.7, -0.5, 127.9], np.float32), I8)) == [-2, 2, 0, 127]


def test_saturate_outside_clamps_and_nan_is_zero() -> None:
    x = np.array([np.inf, 510, -200, np.nan, -np.inf], np.float32)
    assert list(numerics.saturate(x, I8)) == [127, 127, -128, 0, -128]
    assert list(numerics.saturate(np.array([-2.0, -1, -0.5, 0, 1, 255.5, 256]), U8)) == [
        0,
        0,
        0,
        0,
        1,
        255,
        255,
    ]
    assert list(numerics.saturate(np.array([3e9, -3e9]), I32)) == [2**31 - 1, -(2**31)]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_integer], ids=str)
def test_saturate_at_the_limits(dtype: DType) -> None:
    low, high = dtype.limits
    edge = float(high + 1)
    x = np.array([edge, np.nextafter(edge, 0), np.nextafter(edge, np.inf), float(low), float(low) - 0.5, 2.0**70])
    want = [high, int(np.nextafter(edge, 0)), high, low, low, high]
    assert [int(v) for v in numerics.saturate(x, dtype)] == want
    assert numerics.saturate(x, dtype).dtype == dtype.numpy


# Powers


def test_power_of_integers_with_negative_exponent() -> None:
    x = np.array([1, -1, -1, 2, -3, 0, 127], np.int8)
    y = np.array([-5, -2, -3, -1, -1, -1, -128], np.int8)
    assert list(numerics.power(x, y)) == [1, 1, -1, 0, 0, 0, 0]
    assert list(numerics.power(np.array([2, -2, 3], np.int8), np.array([7, 3, 0], np.int8))) == [-128, -8, 1]


# Activations (A13)


def test_activations_do_not_overflow() -> None:
    x = np.array([-50, -13.24, -5, 0, 11, 20, 1e4])
    for approximate, at_5 in (("tanh", -2.2918e-7), ("none", -1.4333e-6)):
        got = numerics.gelu(x, approximate)
        assert got[2] == pytest.approx(at_5, rel=1e-4)
        assert np.allclose(got[[0, 1]], 0, atol=1e-30)
        assert list(got[3:]) == [0, pytest.approx(11), 20, 1e4]
    assert list(numerics.sigmoid(np.array([-200.0, 200]))) == [pytest.approx(1.4e-87, rel=0.02), 1]
    assert list(numerics.softplus(np.array([1000.0, -1000]))) == [1000, 0]


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "mish", "silu", "gelu", "erf", "erfc", "relu"])
def test_activations_are_nan_only_of_nan(name: str) -> None:
    function = getattr(numerics, name)
    x = np.concatenate([-np.logspace(-320, 308, 700), np.logspace(-320, 308, 700), [0.0, np.inf]])
    assert not np.isnan(function(x)).any()
    assert np.isnan(function(np.array(np.nan)))
    # A product with a vanishing factor stays a product.
    assert np.isnan(function(np.array(-np.inf))) == (name in ("mish", "silu", "gelu"))


def test_activations_keep_relative_precision_in_the_tail() -> None:
    x = np.array([-700.0, -100.0, -30.0, -1e-9])
    decimal = np.exp(x)
    assert np.allclose(numerics.softplus(x[:2]), decimal[:2], rtol=1e-14)
    assert np.allclose(numerics.sigmoid(x[:2]), decimal[:2], rtol=1e-14)
    assert np.allclose(numerics.mish(x[:2]), (x * decimal)[:2], rtol=1e-14)
    assert np.allclose(numerics.mish(np.array([0.3])), 0.3 * np.tanh(np.log1p(np.exp(0.3))), rtol=1e-14)
    assert np.allclose(numerics.gelu(np.array([1.0])), 0.8413447460685429, rtol=1e-14)
    assert np.allclose(numerics.gelu(np.array([1.0]), "tanh"), 0.8411919906082768, rtol=1e-14)


# Indices (A25)


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8"])
def test_take_wraps_negative_and_zeroes_the_rest(kind: str) -> None:
    x = np.array([10, 20, 30, 40, 50], np.float32)
    got = numerics.take(x, np.array([0, 4, 5, 127], kind), 0)
    assert list(got) == [10, 50, 0, 0]
    assert got.dtype == np.float32
    if kind[0] == "i":
        assert list(numerics.take(x, np.array([-1, -5, -6, -128], kind), 0)) == [50, 10, 0, 0]


def test_take_shapes() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    indices = np.array([[0, -1], [3, 1], [10**9, -4]], np.int64)
    for axis in (0, 1, 2, -1):
        got = numerics.take(x, indices, axis)
        size = x.shape[axis]
        want = np.take(x, np.clip(indices, -size, size - 1), axis=axis)
        at = (slice(None),) * (axis % 3)
        for position in np.ndindex(indices.shape):
            legal = -size <= indices[position] < size
            assert np.array_equal(got[(*at, *position)], want[(*at, *position)] * legal)
    assert numerics.take(x, np.zeros((0,), np.int64), 1).shape == (2, 0, 4)
    assert not numerics.take(np.zeros((2, 0)), np.array([0, -1]), 1).any()
    assert numerics.take(np.array([True]), np.array([5]), 0).dtype == bool
    assert list(numerics.take(np.array([7, 8]), np.array([2**64 - 1, 1], np.uint64), 0)) == [0, 8]


def test_index_counts_along_its_axis() -> None:
    assert np.array_equal(numerics.index((2, 3), -1), [[0, 1, 2], [0, 1, 2]])
    assert np.array_equal(numerics.index((2, 3), 0), [[0, 0, 0], [1, 1, 1]])
    assert numerics.index((0, 3), 0).shape == (0, 3)
    assert numerics.index((2,), 0).dtype == I64.numpy


def test_saturate_and_take_agree_on_u64() -> None:
    assert int(numerics.saturate(np.array(1.8446744073709550e19), U64)) == int(1.8446744073709550e19)
