"""libdevice on the CPU: NumPy functions under the names of `triton.language.extra.libdevice`.

Every function is evaluated in f64 and rounded once to its operands' type, so f32 results are right to the last
bit but for rare ties, and at least as accurate as the device's own. Nothing here knows Triton.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Row:
    """One function: its meaning on float arrays, what it returns, and the types libdevice has it for.

    own_type: `function` takes operands of any of the types as they are, instead of f64.
    """

    function: Callable[..., Array]
    arity: int = 1
    result: Literal["operand", "bool", "i32"] = "operand"
    types: tuple[str, ...] = ("fp32", "fp64")
    own_type: bool = False

    def __call__(self, *operands: Array) -> Array:
        """The result for operands of one float type; boolean where `result` is not "operand"."""
        if self.own_type:
            return self.function(*operands)
        return evaluate(self.function, *operands)


def evaluate(function: Callable[..., Array], *operands: Array) -> Array:
    """`function` in f64, rounded to the type of the first operand."""
    wide = function(*(operand.astype(np.float64) for operand in operands))
    return wide.astype(operands[0].dtype)


def round_to_odd(x: Array) -> NDArray[np.float32]:
    """f64 to f32, inexact results taking the neighbour with an odd last bit.

    Rounding that to a narrower type gives what rounding `x` to it directly would.
    """
    nearest: NDArray[np.float32] = x.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32) - (np.abs(back) > np.abs(x)).astype(np.uint32)
    odd: NDArray[np.float32] = (bits | (back != x).astype(np.uint32)).view(np.float32)
    return odd


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and its rounding error, which is exact (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _add_to_odd(a: Array, b: Array) -> NDArray[np.float64]:
    """a + b in f64, rounded to odd; NaN and infinity as they come."""
    total, error = _two_sum(a, b)
    bits = total.view(np.int64)
    move = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    return (bits + np.where(move, np.where(away, 1, -1), 0)).view(np.float64)


def fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z rounded once, for float16, float32 and float64.

    Below f64 the product is exact in f64 and the sum is rounded to odd there, which the final rounding cannot see.
    In f64: Boldo and Melquiond's scheme where no step can overflow or lose bits, exact fractions elsewhere.
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype != np.float64:
        return fma_to_odd(x, y, z).astype(x.dtype)
    ex, ey, ez = (np.frexp(operand)[1] for operand in (x, y, z))
    middle = np.max(np.abs([ex, ey, ez, ex + ey]), axis=0) < 900
    plain = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
    safe, rest = plain & middle & (z != 0), plain & ~(middle & (z != 0))
    result = x * y + z
    result[safe] = _fma_scheme(x[safe], y[safe], z[safe])
    result[rest] = [_fma_exact(*row) for row in zip(x[rest].tolist(), y[rest].tolist(), z[rest].tolist(), strict=True)]
    return result


def fma_to_odd(x: Array, y: Array, z: Array) -> NDArray[np.float64]:
    """x * y + z of operands no wider than f32, in f64, rounded to odd."""
    return _add_to_odd(np.multiply(x, y, dtype=np.float64), z.astype(np.float64))


def _fma_scheme(x: Array, y: Array, z: Array) -> Array:
    high, low = x * y, _product_error(x, y)
    upper, lower = _two_sum(z, low)
    total, rest = _two_sum(high, upper)
    result: Array = total + _add_to_odd(rest, lower)
    return result


def _product_error(x: Array, y: Array) -> Array:
    """x * y minus its rounded value, which is exact (Dekker, halves by Veltkamp)."""
    x_high, y_high = ((v * 134217729.0) - ((v * 134217729.0) - v) for v in (x, y))
    x_low, y_low = x - x_high, y - y_high
    error: Array = ((x_high * y_high - x * y) + x_high * y_low + x_low * y_high) + x_low * y_low
    return error


def _fma_exact(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z
    try:
        rounded = abs(exact.numerator) / exact.denominator
    except OverflowError:
        rounded = math.inf
    return rounded if exact > 0 else -rounded


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), np.copysign(whole, x))


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """`function` of Python floats over an array: for what NumPy lacks."""
    return np.vectorize(function, otypes=[np.float64])


def _one(*names: str, f: Callable[..., Array]) -> dict[str, Row]:
    return {name: Row(f) for name in names}


def _two(*names: str, f: Callable[..., Array]) -> dict[str, Row]:
    return {name: Row(f, arity=2) for name in names}


def _fast(arity: int = 1, **functions: Callable[..., Array]) -> dict[str, Row]:
    return {f"fast_{name}f": Row(f, arity, types=("fp32",)) for name, f in functions.items()}


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


def exp10(x: Array) -> Array:
    """10 ** x."""
    return np.power(10.0, x)


erf = _each(math.erf)
erfc = _each(math.erfc)

FUNCTIONS: Mapping[str, Row] = {
    **_one("abs", f=np.abs),
    **_one("floor", f=np.floor),
    **_one("ceil", f=np.ceil),
    **_one("trunc", f=np.trunc),
    **_one("rint", "nearbyint", f=np.rint),
    **_one("round", f=_round_half_away),
    **_one("exp", f=np.exp),
    **_one("exp2", f=np.exp2),
    **_one("exp10", f=exp10),
    **_one("expm1", f=np.expm1),
    **_one("log", f=np.log),
    **_one("log2", f=np.log2),
    **_one("log10", f=np.log10),
    **_one("log1p", f=np.log1p),
    **_one("sqrt", "sqrt_rn", f=np.sqrt),
    **_one("rsqrt", f=rsqrt),
    **_one("cbrt", f=np.cbrt),
    **_one("rcp_rn", f=np.reciprocal),
    **_one("sin", f=np.sin),
    **_one("cos", f=np.cos),
    **_one("tan", f=np.tan),
    **_one("asin", f=np.arcsin),
    **_one("acos", f=np.arccos),
    **_one("atan", f=np.arctan),
    **_one("sinh", f=np.sinh),
    **_one("cosh", f=np.cosh),
    **_one("tanh", f=np.tanh),
    **_one("asinh", f=np.arcsinh),
    **_one("acosh", f=np.arccosh),
    **_one("atanh", f=np.arctanh),
    **_one("erf", f=erf),
    **_one("erfc", f=erfc),
    **_two("add_rn", f=np.add),
    **_two("sub_rn", f=np.subtract),
    **_two("mul_rn", f=np.multiply),
    **_two("div_rn", f=np.divide),
    **_two("pow", f=np.power),
    **_two("atan2", f=np.arctan2),
    **_two("fmod", f=np.fmod),
    **_two("copysign", f=np.copysign),
    **_two("hypot", f=np.hypot),
    **_two("fdim", f=lambda x, y: np.where(x <= y, 0.0, x - y)),
    **_fast(exp=np.exp, exp10=exp10, log=np.log, log2=np.log2, log10=np.log10),
    **_fast(sin=np.sin, cos=np.cos, tan=np.tan),
    **_fast(2, divide=np.divide, pow=np.power),
    "rsqrt_rn": Row(rsqrt, types=("fp32",)),
    "isnan": Row(np.isnan, result="bool", own_type=True),
    "isinf": Row(np.isinf, result="bool", own_type=True),
    "finitef": Row(np.isfinite, result="bool", types=("fp32",), own_type=True),
    "isfinited": Row(np.isfinite, result="bool", types=("fp64",), own_type=True),
    "signbit": Row(np.signbit, result="i32", own_type=True),
    "fma": Row(fma, arity=3, own_type=True),
    "fma_rn": Row(fma, arity=3, own_type=True),
}
