"""NumPy definitions that NumPy lacks: casts alike on every machine, functions that never overflow to NaN.

Functions of real values take and return float64; kernels are held to them within the bound in ulp that
the op table states. None of them warns: callers hold `np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dtypes import BF16, F8E4M3, F8E5M2, DType

Array = NDArray[Any]

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


# Rounding and casts


def round_to(x: Array, dtype: DType) -> Array:
    """`x` in the storage type of `dtype`, rounded once, half to even; for integers and bool NumPy's astype.

    Overflow gives inf, in f8e4m3 (which has none) NaN. An integer that f32 cannot hold goes to bf16
    and fp8 through f32, as ml_dtypes does.
    """
    if dtype not in (BF16, F8E4M3, F8E5M2) or x.dtype.kind not in "iuf":
        return x.astype(dtype.numpy, copy=False)
    return (_to_odd(x) if x.dtype == np.float64 else x.astype(np.float32)).astype(dtype.numpy)


def _to_odd(x: Array) -> Array:
    """float64 to float32, inexact values to the neighbour with an odd last bit.

    ml_dtypes rounds float64 to float32 first, and so twice; from an odd last bit the second rounding
    still sees on which side of a tie the value lay.
    """
    near = x.astype(np.float32)
    even = (near.view(np.uint32) & 1) == 0
    other = np.nextafter(near, np.where(x > near, np.float32(np.inf), np.float32(-np.inf)))
    return np.where((near != x) & ~np.isnan(x) & even, other, near)


def saturate(x: Array, dtype: DType) -> Array:
    """Float to integer: toward zero, clamped to the limits of `dtype`, NaN to 0."""
    low, high = dtype.limits
    x = x.astype(np.float64)
    above, below = x >= float(high + 1), x <= float(low)
    inside = ~(above | below | np.isnan(x))
    result = np.trunc(np.where(inside, x, 0.0)).astype(dtype.numpy)
    result = np.where(above, dtype.numpy.type(high), result)
    return np.where(below, dtype.numpy.type(low), result)


# Arithmetic


def power(x: Array, y: Array) -> Array:
    """NumPy's power; an integer to a negative power, which NumPy refuses, is 0 unless the base is 1 or -1."""
    if x.dtype.kind == "f" or y.dtype.kind == "u":
        return np.asarray(np.power(x, y))
    one = x.dtype.type(1)
    sign = np.where((x == -1) & (y & 1 == 1), -one, one)
    inverse = np.where((x == 1) | (x == -1), sign, x.dtype.type(0))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def unless_integer(function: np.ufunc, x: Array) -> Array:
    """A rounding function of floats; integers and bool are whole already."""
    return np.asarray(function(x)) if x.dtype.kind == "f" else x


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return np.asarray(1.0 / np.sqrt(x))


# Activations


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_erf(x), dtype=np.float64)


def erfc(x: Array) -> Array:
    """1 - erf(x), with full relative precision for large x."""
    return np.asarray(_erfc(x), dtype=np.float64)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), with full relative precision on both sides."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1.0 + small))


def relu(x: Array) -> Array:
    """maximum(x, 0): NaN stays NaN."""
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def gelu(x: Array, approximate: str = "none") -> Array:
    """x times the normal distribution function, or its tanh form."""
    if approximate == "tanh":
        # 0.5 * (1 + tanh(u)) is sigmoid(2u), which does not cancel for negative x.
        return np.asarray(x * sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return np.asarray(0.5 * x * erfc(-x / math.sqrt(2.0)))


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return np.asarray(x * sigmoid(x))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def mish(x: Array) -> Array:
    """x * tanh(softplus(x))."""
    # tanh(log(1 + e)) is n / (n + 2) with n = e * (e + 2); past 40 it is 1 in float64.
    e = np.exp(np.minimum(x, 40.0))
    n = e * (e + 2.0)
    return np.asarray(x * (n / (n + 2.0)))


# Indices


def index(shape: Sequence[int], axis: int) -> Array:
    """i64 array of `shape`: each element's coordinate along `axis`."""
    axis = range(len(shape))[axis]
    line = np.arange(shape[axis], dtype=np.int64)
    return np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), tuple(shape))


def take(x: Array, indices: Array, axis: int) -> Array:
    """Gather along `axis`: a negative index counts from the end, one out of range yields 0 (False)."""
    axis = range(x.ndim)[axis]
    size = x.shape[axis]
    valid = (indices >= -size) & (indices < size)
    if size == 0:
        return np.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    safe = np.where(valid, indices, 0).astype(np.int64)
    taken = np.take(x, safe, axis=axis)
    shown = valid.reshape((1,) * axis + valid.shape + (1,) * (x.ndim - axis - 1))
    return np.where(shown, taken, x.dtype.type(0))
