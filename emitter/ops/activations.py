"""Activation functions, defined by formulas that neither overflow nor cancel.

Where such a function is x times a vanishing factor (gelu, silu, mish), -inf gives NaN, as the product does.
"""

from __future__ import annotations

from .. import numerics
from .opdef import Attribute, OpDef
from .rules import NOT_BOOL, UNARY_FLOAT

# In the far negative tail the rounding of an exponent near -88 (gelu: of x * x / 2) counts so many times.
_TAIL = 72
_SQUARED_TAIL = 256
_SQUARED_TAIL_F64 = 2048
_FLOOR = 2.0**-119

ACTIVATIONS = (
    OpDef("erf", ("x",), UNARY_FLOAT, numerics.erf, "The error function.", ulp=8),
    OpDef("sigmoid", ("x",), UNARY_FLOAT, numerics.sigmoid, "1 / (1 + exp(-x)).", ulp=_TAIL, floor=_FLOOR),
    OpDef("relu", ("x",), NOT_BOOL, numerics.relu, "maximum(x, 0)."),
    OpDef(
        "gelu",
        ("x",),
        UNARY_FLOAT,
        numerics.gelu,
        "x times the normal distribution function of x, or its tanh form.",
        ulp=_SQUARED_TAIL,
        ulp_f64=_SQUARED_TAIL_F64,
        floor=_FLOOR,
        attributes=(Attribute("approximate", "choice", "none", ("none", "tanh")),),
    ),
    OpDef("silu", ("x",), UNARY_FLOAT, numerics.silu, "x * sigmoid(x).", ulp=_TAIL, floor=_FLOOR),
    OpDef("softplus", ("x",), UNARY_FLOAT, numerics.softplus, "log(1 + exp(x)).", ulp=_TAIL),
    OpDef("mish", ("x",), UNARY_FLOAT, numerics.mish, "x * tanh(softplus(x)).", ulp=_TAIL, floor=_FLOOR),
)
