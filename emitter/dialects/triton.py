"""The Triton dialect. Helpers that it calls by a plain name stand in templates/triton/prelude.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I32, DType
from .dialect import Call, Dialect, Infix, Prefix, Row, Same, Select, everywhere, floats
from .expr import ATOM, PYTHON_PRECEDENCE, UNARY, Constant, Expr, Number, bracket, decimal

_FP8 = (F8E4M3, F8E5M2)
_LEAST_NORMAL = 2.0**-126


def _library(name: str) -> Row:
    return floats(Call(f"libdevice.{name}"))


def _helper(name: str) -> Row:
    """A composite whose f32 and f64 forms choose different instructions."""
    return floats(Call(name), Call(f"{name}_f64"))


def _rounding(function: str) -> Row:
    return Row(f32=Call(function), f64=Call(function), int=Same(), uint=Same(), bool=Same())


TABLE: dict[str, Row] = {
    # Arithmetic. In Triton 3.6 `-x` is 0 - x, which loses the sign of zero; `/` on f32 is not rounded to nearest.
    "add": everywhere(Infix("+"), bool=Infix("|")),
    "sub": everywhere(Infix("-")),
    "mul": everywhere(Infix("*"), bool=Infix("&")),
    "div": floats(Call("tl.div_rn"), Infix("/")),
    "floor_div": Row(Call("floor_div_float"), Call("floor_div_float"), Call("floor_div"), Call("floor_div")),
    "mod": Row(Call("floor_mod_float"), Call("floor_mod_float"), Call("floor_mod"), Call("floor_mod")),
    "pow": Row(Call("libdevice.pow"), Call("libdevice.pow"), Call("int_pow"), Call("int_pow")),
    "neg": Row(Call("negate"), Call("negate"), Prefix("-"), Prefix("-")),
    "abs": Row(Call("tl.abs"), Call("tl.abs"), Call("tl.abs"), Same(), bool=Same()),
    "sign": everywhere(Call("sign")),
    "floor": _rounding("tl.floor"),
    "ceil": _rounding("tl.ceil"),
    "round": _rounding("libdevice.nearbyint"),
    "trunc": _rounding("libdevice.trunc"),
    "maximum": everywhere(Call("maximum"), bool=Infix("|")),
    "minimum": everywhere(Call("minimum"), bool=Infix("&")),
    # Bits
    "bit_and": Row(int=Infix("&"), uint=Infix("&"), bool=Infix("&")),
    "bit_or": Row(int=Infix("|"), uint=Infix("|"), bool=Infix("|")),
    "bit_xor": Row(int=Infix("^"), uint=Infix("^"), bool=Infix("^")),
    "bit_not": Row(int=Prefix("~"), uint=Prefix("~"), bool=Prefix("~")),
    "shift_left": Row(int=Call("shift_left"), uint=Call("shift_left")),
    "shift_right": Row(int=Call("shift_right"), uint=Call("shift_right")),
    # Logic
    "logical_and": Row(bool=Infix("&")),
    "logical_or": Row(bool=Infix("|")),
    "logical_xor": Row(bool=Infix("^")),
    "logical_not": Row(bool=Prefix("~")),
    "where": everywhere(Select(), bool=Select()),
    "copy": everywhere(Same(), bool=Same()),
    # Exponentials and trigonometry
    "exp": _library("exp"),
    "exp2": _library("exp2"),
    "expm1": _library("expm1"),
    "log": _library("log"),
    "log2": _library("log2"),
    "log1p": _library("log1p"),
    "sqrt": floats(Call("tl.sqrt_rn"), Call("tl.sqrt")),
    "rsqrt": _library("rsqrt"),
    "sin": _library("sin"),
    "cos": _library("cos"),
    "tan": _library("tan"),
    "asin": _library("asin"),
    "acos": _library("acos"),
    "atan": _library("atan"),
    "atan2": _library("atan2"),
    "sinh": _library("sinh"),
    "cosh": _library("cosh"),
    "tanh": _library("tanh"),
    "asinh": _library("asinh"),
    "acosh": _library("acosh"),
    "atanh": _library("atanh"),
    # Activations
    "erf": _library("erf"),
    "sigmoid": _helper("sigmoid"),
    "gelu": _helper("gelu"),
    "gelu_tanh": _helper("gelu_tanh"),
    "silu": _helper("silu"),
    "softplus": _helper("softplus"),
    "mish": _helper("mish"),
    # Tests
    "isnan": floats(Call("is_nan")),
    "isinf": floats(Call("is_inf")),
    "isfinite": floats(Call("is_finite")),
}


@dataclass(frozen=True)
class TritonDialect(Dialect):
    """Triton 3.6 to 3.9: values are tensors; Python's numbers become constants only where a type demands it."""

    precedence = PYTHON_PRECEDENCE
    value_types: ClassVar[dict[str, str]] = {
        "f32": "tl.float32",
        "f64": "tl.float64",
        "bool": "tl.int1",
        **{f"i{bits}": f"tl.int{bits}" for bits in (8, 16, 32, 64)},
        **{f"u{bits}": f"tl.uint{bits}" for bits in (8, 16, 32, 64)},
    }
    storage_types: ClassVar[dict[str, str]] = {
        "f16": "tl.float16",
        "bf16": "tl.bfloat16",
        "f8e4m3": "tl.uint8",
        "f8e5m2": "tl.uint8",
    }

    def widen(self, expr: Expr, dtype: DType) -> Expr:
        if dtype in _FP8:
            return self.call(f"decode_{dtype}", expr)
        return expr if dtype.compute is dtype else self.number(expr, F32)

    def narrow(self, expr: Expr, dtype: DType) -> Expr:
        if dtype in _FP8:
            return self.call(f"encode_{dtype}", self.bound(expr))
        return expr if dtype.compute is dtype else self._to(self.bound(expr), self.storage_type(dtype))

    def literal(self, value: Number, dtype: DType) -> Constant:
        dtype = dtype.compute
        plain = Constant(_python(value, dtype), ATOM, value, dtype)
        held = plain.clamped
        # By itself Triton takes a number for an i1, an i32, or an f32 if it is normal there; f64 would be rounded.
        plain_f32 = dtype is F32 and not 0.0 < abs(held) < _LEAST_NORMAL and not _is_minus_zero(held)
        if dtype in (BOOL, I32) or plain_f32:
            return Constant(plain.text, UNARY if plain.text.startswith("-") else ATOM, value, dtype)
        full = self._full(plain)
        return Constant(full.text, full.precedence, value, dtype)

    def bound(self, expr: Expr) -> Expr:
        return self._full(expr) if isinstance(expr, Constant) else expr

    def beside(self, constant: Constant) -> Expr:
        if _is_minus_zero(constant.clamped):
            return self._full(constant)
        text = _python(constant.value, constant.dtype)
        return Expr(text, UNARY if text.startswith("-") else ATOM)

    def _full(self, constant: Constant) -> Expr:
        """A scalar tensor; -0.0 by a product, since Triton 3.6 takes every number equal to 0 for +0."""
        held = constant.clamped
        minus_zero = _is_minus_zero(held)
        text = "0.0" if minus_zero else _python(constant.value, constant.dtype)
        full = f"tl.full((), {text}, {self.value_type(constant.dtype)})"
        return Expr(f"{full} * -1.0", self.precedence["*"]) if minus_zero else Expr(full)

    def number(self, expr: Expr, target: DType) -> Expr:
        return self._to(expr, self.value_type(target))

    def saturate(self, expr: Expr, target: DType) -> Expr:
        return self.call("saturate", expr, Expr(self.value_type(target)))

    def rounded(self, expr: Expr, source: DType, target: DType) -> Expr:
        if target in (F16, BF16):
            return self._to(self._to(expr, self.storage_type(target)), self.value_type(F32))
        near = self.call("round_to_odd", expr) if source is F64 else expr
        return self.call(f"decode_{target}", self.call(f"encode_{target}", near))

    def select(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        if isinstance(b, Constant):
            a, b = self.bound(a), self.beside(b)
        elif isinstance(a, Constant):
            a = self.beside(a)
        return Expr(f"tl.where({condition}, {a}, {b})")

    def call(self, function: str, *args: Expr) -> Expr:
        # A helper takes its type from its first operand.
        first = args[0] if "." in function else self.bound(args[0])
        return Expr(f"{function}({', '.join(map(str, (first, *args[1:])))})")

    def _shortcut(self, op: str, operands: Sequence[Expr], dtype: DType) -> Expr | None:
        divisor = operands[-1]
        if op == "div" and dtype is F32 and isinstance(divisor, Constant) and _has_exact_reciprocal(divisor.clamped):
            # Division rounded to nearest takes 29 instructions; this product is equal to it.
            return self.infix("*", operands[0], self.literal(1.0 / divisor.clamped, dtype))
        return super()._shortcut(op, operands, dtype)

    def _to(self, expr: Expr, dtype: str) -> Expr:
        return Expr(f"{bracket(expr, ATOM)}.to({dtype})")


def _python(value: Number, dtype: DType) -> str:
    held = Constant("", value=value, dtype=dtype).clamped
    if isinstance(held, float):
        return f'float("{held}")' if not math.isfinite(held) else decimal(held, dtype)
    return str(held)


def _is_minus_zero(value: Number) -> bool:
    return isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0


def _has_exact_reciprocal(value: Number) -> bool:
    return abs(math.frexp(value)[0]) == 0.5 and 2.0**-120 < abs(value) < 2.0**120


TRITON = TritonDialect("triton", TABLE)
