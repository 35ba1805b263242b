"""Arithmetic and rounding."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..numerics import Array, power, unless_integer
from .opdef import Interval, OpDef, Rule
from .rules import CLIP, NEGATE, NOT_BOOL, ROUND, SUBTRACT, UNCHANGED, arithmetic


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _rounding(name: str, rule: Rule, function: np.ufunc, doc: str) -> OpDef:
    return OpDef(name, ("x",), rule, partial(unless_integer, function), doc, continuous=False)


_XY = ("x", "y")

ARITHMETIC = (
    OpDef("add", _XY, arithmetic(np.add), np.add, "x + y; of bool: or.", symbol="+"),
    OpDef("sub", _XY, SUBTRACT, np.subtract, "x - y; integers wrap.", symbol="-"),
    OpDef("mul", _XY, arithmetic(np.multiply), np.multiply, "x * y; of bool: and.", symbol="*"),
    OpDef("div", _XY, arithmetic(np.true_divide), np.true_divide, "x / y; integers in f64.", symbol="/"),
    OpDef(
        "floor_div",
        _XY,
        arithmetic(np.floor_divide),
        np.floor_divide,
        "floor(x / y), so that x == y * (x // y) + x % y; an integer by 0 is 0, MIN by -1 is MIN.",
        symbol="//",
        continuous=False,
    ),
    OpDef(
        "mod",
        _XY,
        arithmetic(np.remainder),
        np.remainder,
        "The remainder of floor_div, with the sign of y; of integers by 0: 0.",
        symbol="%",
        continuous=False,
    ),
    OpDef(
        "pow",
        _XY,
        arithmetic(np.power),
        power,
        "x to the power y; an integer to a negative power is 0, but 1 or -1 for the bases 1 and -1.",
        ulp=8,
        symbol="**",
        domain=(Interval(2.0**-6, 2.0**6), Interval(-8.0, 8.0)),
    ),
    OpDef("neg", ("x",), NEGATE, np.negative, "-x; integers wrap.", symbol="-"),
    OpDef("abs", ("x",), arithmetic(np.absolute), np.absolute, "|x|; an integer type's MIN stays MIN."),
    OpDef("sign", ("x",), NOT_BOOL, np.sign, "-1, 0 or 1; NaN of NaN.", continuous=False),
    _rounding("floor", UNCHANGED, np.floor, "The greatest integer <= x."),
    _rounding("ceil", UNCHANGED, np.ceil, "The least integer >= x."),
    _rounding("round", ROUND, np.rint, "The nearest integer, of two the even one."),
    _rounding("trunc", UNCHANGED, np.trunc, "The integer part of x."),
    OpDef("maximum", _XY, arithmetic(np.maximum), np.maximum, "The greater; NaN if either is NaN."),
    OpDef("minimum", _XY, arithmetic(np.minimum), np.minimum, "The lesser; NaN if either is NaN."),
    OpDef("clip", ("x", "low", "high"), CLIP, _clip, "minimum(maximum(x, low), high); NaN if any is NaN."),
)
