"""Exponentials, roots, trigonometry and hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import rsqrt
from .opdef import Interval, OpDef
from .rules import UNARY_FLOAT, arithmetic

_POSITIVE = Interval(2.0**-100, 2.0**100)
_UNIT = Interval(-1.0, 1.0)


def _function(
    name: str, numpy: Callable[..., Any], doc: str, ulp: float | None, domain: Interval | None = None
) -> OpDef:
    return OpDef(name, ("x",), UNARY_FLOAT, numpy, doc, ulp, domain=(domain,) if domain else ())


EXPONENTIAL = (
    _function("exp", np.exp, "e to the power x.", 4, Interval(-80.0, 80.0)),
    _function("exp2", np.exp2, "2 to the power x.", 4, Interval(-120.0, 120.0)),
    _function("expm1", np.expm1, "exp(x) - 1, precise near 0.", 4, Interval(-80.0, 80.0)),
    _function("log", np.log, "The natural logarithm.", 4, _POSITIVE),
    _function("log2", np.log2, "The logarithm to base 2.", 4, _POSITIVE),
    _function("log1p", np.log1p, "log(1 + x), precise near 0.", 4, Interval(-0.99, 2.0**100)),
    _function("sqrt", np.sqrt, "The square root.", None, Interval(0.0)),
    _function("rsqrt", rsqrt, "1 / sqrt(x).", 4, _POSITIVE),
)

TRIGONOMETRY = (
    _function("sin", np.sin, "The sine of x in radians.", 4, Interval(-100.0, 100.0)),
    _function("cos", np.cos, "The cosine of x in radians.", 4, Interval(-100.0, 100.0)),
    _function("tan", np.tan, "The tangent of x in radians.", 6, Interval(-1.5, 1.5)),
    _function("asin", np.arcsin, "The inverse of sin, in [-pi/2, pi/2].", 4, _UNIT),
    _function("acos", np.arccos, "The inverse of cos, in [0, pi].", 4, _UNIT),
    _function("atan", np.arctan, "The inverse of tan, in [-pi/2, pi/2].", 4),
    OpDef(
        "atan2",
        ("y", "x"),
        arithmetic(np.arctan2),
        np.arctan2,
        "The angle of the point (x, y), in [-pi, pi].",
        ulp=6,
        continuous=False,
    ),
    _function("sinh", np.sinh, "The hyperbolic sine.", 6, Interval(-80.0, 80.0)),
    _function("cosh", np.cosh, "The hyperbolic cosine.", 6, Interval(-80.0, 80.0)),
    _function("tanh", np.tanh, "The hyperbolic tangent.", 8),
    _function("asinh", np.arcsinh, "The inverse of sinh.", 6),
    _function("acosh", np.arccosh, "The inverse of cosh.", 6, Interval(1.0, 2.0**100)),
    _function("atanh", np.arctanh, "The inverse of tanh.", 6, Interval(-0.99, 0.99)),
)
