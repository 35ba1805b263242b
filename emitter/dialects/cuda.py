"""The CUDA C dialect. Helpers that it calls by a plain name stand in templates/cuda/prelude.cuh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import F32, F64, DType
from .dialect import Call, Dialect, Infix, Prefix, Row, Same, Select, Spelling, everywhere, floats
from .expr import ATOM, C_PRECEDENCE, SELECT, UNARY, Constant, Expr, Number, bracket, decimal

_INT_MAX = 2**31 - 1
_SUFFIXES = {"i64": "LL", "u32": "U", "u64": "ULL"}


def _library(name: str) -> Row:
    return floats(Call(f"{name}f"), Call(name))


def _helper(name: str) -> Row:
    """A composite whose f32 and f64 forms choose different instructions."""
    return floats(Call(name), Call(f"{name}_f64"))


def _wrapping(symbol: str, helper: str, bool: Spelling | None = None) -> Row:
    """C++ computes narrow integers as int and leaves the overflow of signed ones undefined: a helper wraps."""
    return Row(Infix(symbol), Infix(symbol), Call(helper), Infix(symbol), Call(helper), bool)


def _rounding(name: str) -> Row:
    return Row(Call(f"{name}f"), Call(name), Same(), Same(), bool=Same())


def _bits(symbol: str, bool: str) -> Row:
    return Row(int=Infix(symbol), uint=Infix(symbol), bool=Infix(bool))


_AND, _OR, _XOR = Infix("&&"), Infix("||"), Infix("!=")

TABLE: dict[str, Row] = {
    # Arithmetic
    "add": _wrapping("+", "wrapping_add", bool=_OR),
    "sub": _wrapping("-", "wrapping_sub"),
    "mul": _wrapping("*", "wrapping_mul", bool=_AND),
    "div": floats(Infix("/")),
    "floor_div": Row(Call("floor_div_float"), Call("floor_div_float"), Call("floor_div"), Call("floor_div")),
    "mod": Row(Call("floor_mod_float"), Call("floor_mod_float"), Call("floor_mod"), Call("floor_mod")),
    "pow": Row(Call("powf"), Call("pow"), Call("int_pow"), Call("int_pow")),
    "neg": Row(Prefix("-"), Prefix("-"), Call("wrapping_neg"), Prefix("-"), Call("wrapping_neg")),
    "abs": Row(Call("fabsf"), Call("fabs"), Call("absolute"), Same(), bool=Same()),
    "sign": everywhere(Call("sign")),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("rint"),
    "trunc": _rounding("trunc"),
    "maximum": everywhere(Call("maximum"), bool=_OR),
    "minimum": everywhere(Call("minimum"), bool=_AND),
    # Bits
    "bit_and": _bits("&", "&&"),
    "bit_or": _bits("|", "||"),
    "bit_xor": _bits("^", "!="),
    "bit_not": Row(int=Prefix("~"), uint=Prefix("~"), bool=Prefix("!")),
    "shift_left": Row(int=Call("shift_left"), uint=Call("shift_left")),
    "shift_right": Row(int=Call("shift_right"), uint=Call("shift_right")),
    # Logic
    "logical_and": Row(bool=_AND),
    "logical_or": Row(bool=_OR),
    "logical_xor": Row(bool=_XOR),
    "logical_not": Row(bool=Prefix("!")),
    "where": everywhere(Select(), bool=Select()),
    "copy": everywhere(Same(), bool=Same()),
    # Exponentials and trigonometry
    "exp": _library("exp"),
    "exp2": _library("exp2"),
    "expm1": _library("expm1"),
    "log": _library("log"),
    "log2": _library("log2"),
    "log1p": _library("log1p"),
    "sqrt": _library("sqrt"),
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
class CudaDialect(Dialect):
    """CUDA C++17 without any header: every expression has exactly the type of its value."""

    precedence = C_PRECEDENCE
    value_types: ClassVar[dict[str, str]] = {
        "f32": "float",
        "f64": "double",
        "i8": "signed char",
        "i16": "short",
        "i32": "int",
        "i64": "long long",
        "u8": "unsigned char",
        "u16": "unsigned short",
        "u32": "unsigned int",
        "u64": "unsigned long long",
        "bool": "bool",
    }
    storage_types: ClassVar[dict[str, str]] = {name: name for name in ("f16", "bf16", "f8e4m3", "f8e5m2")}

    def widen(self, expr: Expr, dtype: DType) -> Expr:
        return expr if dtype.compute is dtype else self.number(expr, F32)

    def narrow(self, expr: Expr, dtype: DType) -> Expr:
        return expr if dtype.compute is dtype else Expr(f"{dtype}({expr})")

    def literal(self, value: Number, dtype: DType) -> Constant:
        dtype = dtype.compute
        expr = _typed(Constant("", ATOM, value, dtype).clamped, dtype, self.value_type(dtype))
        return Constant(expr.text, expr.precedence, value, dtype)

    def bound(self, expr: Expr) -> Expr:
        return expr

    def beside(self, constant: Constant) -> Expr:
        held = constant.clamped
        if constant.dtype.is_integer and abs(held) <= _INT_MAX:
            return _signed(str(held))
        return constant

    def number(self, expr: Expr, target: DType) -> Expr:
        return Expr(f"({self.value_type(target)}){bracket(expr, UNARY)}", UNARY)

    def saturate(self, expr: Expr, target: DType) -> Expr:
        return Expr(f"saturate<{self.value_type(target)}>({expr})")

    def rounded(self, expr: Expr, source: DType, target: DType) -> Expr:
        near = self.call("round_to_odd", expr) if source is F64 else expr
        return self.number(self.narrow(near, target), F32)

    def select(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        return Expr(f"{bracket(condition, SELECT + 1)} ? {a} : {bracket(b, SELECT)}", SELECT)

    def call(self, function: str, *args: Expr) -> Expr:
        return Expr(f"{function}({', '.join(map(str, args))})")

    def own_width(self, expr: Expr, dtype: DType) -> Expr:
        """C++ computes narrow integers as int."""
        return self.number(expr, dtype) if dtype.is_integer and dtype.bits < 32 else expr


def _signed(text: str) -> Expr:
    return Expr(text, UNARY if text.startswith("-") else ATOM)


def _typed(held: Number, dtype: DType, value_type: str) -> Expr:
    """A number's text with the type `dtype` by itself."""
    if isinstance(held, bool):
        return Expr(str(held).lower())
    if isinstance(held, float):
        if math.isfinite(held):
            return _signed(decimal(held, dtype) + ("" if dtype is F64 else "f"))
        name = "quiet_nan" if math.isnan(held) else "infinity"
        wide = f"(double){name}" if dtype is F64 else name
        return Expr(f"-{wide}", UNARY) if held < 0 else Expr(wide, UNARY if dtype is F64 else ATOM)
    if dtype.bits < 32:
        return Expr(f"({value_type}){held}", UNARY)
    suffix = _SUFFIXES.get(dtype.name, "")
    if held == dtype.limits[0] < 0:
        # C has no negative literals: -2147483648 negates a number that int does not hold.
        return Expr(f"({held + 1}{suffix} - 1)")
    return _signed(f"{held}{suffix}")


CUDA = CudaDialect("cuda", TABLE)
