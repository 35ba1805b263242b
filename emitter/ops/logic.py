"""Bits, logic, comparisons, selection and tests of floats."""

from __future__ import annotations

import numpy as np

from .opdef import OpDef
from .rules import WHERE, arithmetic, bits, comparison

_XY = ("x", "y")


def _bits(name: str, function: np.ufunc, doc: str, symbol: str, parameters: tuple[str, ...] = _XY) -> OpDef:
    return OpDef(name, parameters, bits(function), function, doc, symbol=symbol, continuous=False)


def _logical(name: str, function: np.ufunc, doc: str, parameters: tuple[str, ...] = _XY) -> OpDef:
    return OpDef(name, parameters, arithmetic(function), function, doc, continuous=False)


def _compare(name: str, function: np.ufunc, symbol: str) -> OpDef:
    doc = f"x {symbol} y; of i64 with u64, and of integers with any constant, exactly."
    return OpDef(name, _XY, comparison(function), function, doc, symbol=symbol, continuous=False)


_SHIFTED_OUT = "a count that is negative or past the width shifts everything out."

BITS = (
    _bits("bit_and", np.bitwise_and, "Bitwise and.", "&"),
    _bits("bit_or", np.bitwise_or, "Bitwise or.", "|"),
    _bits("bit_xor", np.bitwise_xor, "Bitwise exclusive or.", "^"),
    _bits("bit_not", np.invert, "Bitwise not; of bool: not.", "~", ("x",)),
    _bits("shift_left", np.left_shift, f"x << count; {_SHIFTED_OUT}", "<<", ("x", "count")),
    _bits("shift_right", np.right_shift, f"x >> count with the sign; {_SHIFTED_OUT}", ">>", ("x", "count")),
)

LOGIC = (
    _logical("logical_and", np.logical_and, "Both are true (not 0)."),
    _logical("logical_or", np.logical_or, "One or both are true (not 0)."),
    _logical("logical_xor", np.logical_xor, "Exactly one is true (not 0)."),
    _logical("logical_not", np.logical_not, "x is 0.", ("x",)),
)

COMPARISON = (
    _compare("eq", np.equal, "=="),
    _compare("ne", np.not_equal, "!="),
    _compare("lt", np.less, "<"),
    _compare("le", np.less_equal, "<="),
    _compare("gt", np.greater, ">"),
    _compare("ge", np.greater_equal, ">="),
)

SELECT = (OpDef("where", ("cond", "a", "b"), WHERE, np.where, "a where cond, else b."),)

TESTS = (
    _logical("isnan", np.isnan, "x is NaN; False for integers.", ("x",)),
    _logical("isinf", np.isinf, "x is inf or -inf; False for integers.", ("x",)),
    _logical("isfinite", np.isfinite, "x is neither inf nor NaN; True for integers.", ("x",)),
)
