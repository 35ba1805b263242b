"""The op table: every op by its canonical name."""

from __future__ import annotations

from difflib import get_close_matches

from ..errors import UnknownOp
from .activations import ACTIVATIONS
from .arithmetic import ARITHMETIC
from .functions import EXPONENTIAL, TRIGONOMETRY
from .logic import BITS, COMPARISON, LOGIC, SELECT, TESTS
from .opdef import Attribute, Interval, Number, OpDef, OperandType, Signature
from .structural import STRUCTURAL

__all__ = ["ALIASES", "OPS", "Attribute", "Interval", "Number", "OpDef", "OperandType", "Signature", "op"]

_FAMILIES = (
    ARITHMETIC,
    BITS,
    LOGIC,
    COMPARISON,
    SELECT,
    EXPONENTIAL,
    TRIGONOMETRY,
    ACTIVATIONS,
    TESTS,
    STRUCTURAL,
)

OPS: dict[str, OpDef] = {definition.name: definition for family in _FAMILIES for definition in family}

ALIASES: dict[str, str] = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "around": "round",
    "astype": "cast",
    "bitwise_and": "bit_and",
    "bitwise_left_shift": "shift_left",
    "bitwise_not": "bit_not",
    "bitwise_or": "bit_or",
    "bitwise_right_shift": "shift_right",
    "bitwise_xor": "bit_xor",
    "clamp": "clip",
    "divide": "div",
    "equal": "eq",
    "expit": "sigmoid",
    "fabs": "abs",
    "fix": "trunc",
    "floor_divide": "floor_div",
    "gather": "take",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "bit_not",
    "left_shift": "shift_left",
    "less": "lt",
    "less_equal": "le",
    "logistic": "sigmoid",
    "max": "maximum",
    "min": "minimum",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "remainder": "mod",
    "right_shift": "shift_right",
    "rint": "round",
    "sgn": "sign",
    "subtract": "sub",
    "swish": "silu",
    "true_divide": "div",
}
"""What NumPy, torch and others call the same op, for the hint that `op` gives."""


def op(name: str) -> OpDef:
    """The op called `name`, or UnknownOp with the name that was probably meant."""
    if name in OPS:
        return OPS[name]
    near = [ALIASES[name]] if name in ALIASES else get_close_matches(name, OPS, n=1)
    way_out = f"use {OPS[near[0]].call}" if near else f"known ops: {' '.join(sorted(OPS))}"
    raise UnknownOp(f"unknown op {name!r}: {way_out}")
