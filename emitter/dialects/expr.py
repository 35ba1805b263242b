"""Expressions as text with a precedence, and the constants among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..dtypes import BOOL, F32, F64, DType

Number = bool | int | float

SELECT, UNARY, ATOM = 1, 12, 14
"""Precedence of C's `a ? b : c`, of prefix operators and C casts, and of names, calls and literals."""

PYTHON_PRECEDENCE = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 5),
    "|": 6,
    "^": 7,
    "&": 8,
    **dict.fromkeys(("<<", ">>"), 9),
    **dict.fromkeys(("+", "-"), 10),
    **dict.fromkeys(("*", "/", "//", "%"), 11),
}
"""Python's infix operators; higher binds tighter. All of them group from the left."""

C_PRECEDENCE = {
    "||": 2,
    "&&": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    **dict.fromkeys(("==", "!="), 7),
    **dict.fromkeys(("<", "<=", ">", ">="), 8),
    **dict.fromkeys(("<<", ">>"), 9),
    **dict.fromkeys(("+", "-"), 10),
    **dict.fromkeys(("*", "/", "%"), 11),
}
"""C's: there `&`, `^` and `|` bind looser than comparisons."""


@dataclass(frozen=True)
class Expr:
    """The text of one expression, and how tightly its outermost operator binds."""

    text: str
    precedence: int = ATOM

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Constant(Expr):
    """A constant. `text` has the type `dtype` by itself; `value` is what the description says, never clamped."""

    value: Number = 0
    dtype: DType = F32

    @property
    def clamped(self) -> Number:
        """The value as `dtype` holds it: an integer out of range is moved to the limit, a float is a float."""
        if self.dtype is BOOL:
            return bool(self.value)
        if self.dtype.is_float:
            return float(self.value) if self.dtype is F64 else _single(self.value)
        low, high = self.dtype.limits
        return min(max(int(self.value), low), high)


def bracket(expr: Expr, least: int) -> str:
    """The text as an operand of something that binds with precedence `least`."""
    return expr.text if expr.precedence >= least else f"({expr.text})"


def decimal(value: float, dtype: DType) -> str:
    """The shortest decimal of a finite value that `dtype` reads back, also where it is read as f64 first."""
    if dtype is F64:
        return repr(value)
    short = repr(float(str(np.float32(value))))
    return short if _single(float(short)) == value else repr(value)


def _single(value: Number) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def convert_number(value: Number, source: DType, target: DType) -> Number:
    """What converting `value` of type `source` gives in `target`: NaN to 0, saturating; integers wrap."""
    if target is BOOL:
        return bool(value != 0)
    if target.is_float:
        return _single(value) if source.compute is F32 else float(value)
    low, high = target.limits
    if not source.is_float:
        return (int(value) - low) % (high - low + 1) + low
    if math.isnan(value):
        return 0
    return high if value >= high else low if value <= low else int(value)


def decide(symbol: str, value: int, dtype: DType) -> bool | None:
    """What `x symbol value` is for every integer x of `dtype`, where value lies outside its range, else None."""
    low, high = dtype.limits
    if low <= value <= high:
        return None
    return symbol in (("!=", "<", "<=") if value > high else ("!=", ">", ">="))
