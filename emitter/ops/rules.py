"""Dtype rules: NumPy 2's own, asked of NumPy itself, and extended to bf16 and fp8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..dtypes import BF16, BOOL, F8E4M3, F8E5M2, F16, F64, I64, DType, dtype, promote
from ..group import Attributes
from .opdef import NoSignature, OperandType, Rule, Signature

NOT_NUMPYS = (BF16, F8E4M3, F8E5M2)
Asked = np.dtype | type


def strong(operand: OperandType) -> DType:
    """The dtype of an operand by itself: a Python constant is bool, i64 or f64."""
    if isinstance(operand, DType):
        return operand
    return BOOL if isinstance(operand, bool) else I64 if isinstance(operand, int) else F64


def _question(operands: Sequence[OperandType]) -> tuple[list[Asked], DType]:
    """Operands as NumPy may be asked about them, and what f16 stands for in its answer.

    Beside bf16 or fp8 every strong operand takes their common type first; where NumPy does not know that
    either, f16 is asked about in its place. Without a strong operand the constants are strong.
    """
    given = [o for o in operands if isinstance(o, DType)]
    if not given:
        return [strong(o).numpy for o in operands], F16
    asked: list[Asked] = [
        o.numpy if isinstance(o, DType) else np.dtype(bool) if isinstance(o, bool) else type(o) for o in operands
    ]
    if not any(d in NOT_NUMPYS for d in given):
        return asked, F16
    common = promote(*given)
    stand_in = F16 if common in NOT_NUMPYS else common
    asked = [stand_in.numpy if isinstance(o, DType) else a for o, a in zip(operands, asked, strict=True)]
    return asked, common if stand_in is F16 else F16


def _answer(asked: np.dtype, meaning: DType) -> DType:
    answer = dtype(asked)
    return meaning if answer is F16 else answer


def resolve_ufunc(function: np.ufunc, operands: Sequence[OperandType]) -> Signature:
    """The loop NumPy would choose for `function`."""
    asked, meaning = _question(operands)
    try:
        resolved = function.resolve_dtypes((*asked, None))
    except TypeError:
        raise NoSignature from None
    *inputs, result = (_answer(d, meaning) for d in resolved)
    return Signature(tuple(inputs), result)


def common(operands: Sequence[OperandType]) -> DType:
    """NumPy's result type, Python constants weak."""
    asked, meaning = _question(operands)
    # An instance asks for a weak type; its value has no influence.
    values = [a if isinstance(a, np.dtype) else a(0) for a in asked]
    return _answer(np.result_type(*values), meaning)


def ufunc(function: np.ufunc, accepts: str, way_out: str) -> Rule:
    """The rule of a NumPy ufunc."""
    return Rule(accepts, lambda operands, attributes: resolve_ufunc(function, operands), way_out)


def _unchanged(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    x = strong(operands[0])
    return Signature((x,), x)


def _round(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    x = strong(operands[0])
    return Signature((x,), x) if x.is_integer else resolve_ufunc(np.rint, operands)


def _not_bool(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    x = strong(operands[0])
    if x is BOOL:
        raise NoSignature
    return Signature((x,), x)


def _clip(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    x = common(operands)
    return Signature((x, x, x), x)


def _where(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    if strong(operands[0]) is not BOOL:
        raise NoSignature
    x = common(operands[1:])
    return Signature((BOOL, x, x), x)


def _cast(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    return Signature((strong(operands[0]),), dtype(str(dict(attributes)["dtype"])))


def _copy(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    return Signature((strong(operands[0]),), strong(operands[0]))


def _index(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    return Signature((), I64)


def _take(operands: Sequence[OperandType], attributes: Attributes) -> Signature:
    x, indices = map(strong, operands)
    if not indices.is_integer:
        raise NoSignature
    return Signature((x, indices), x)


_TO_INTEGER = "cast bool to an integer first"
_TO_COMMON = "cast the operands to one type first"
NUMBERS = "bool, integers or floats"

UNCHANGED = Rule(NUMBERS, _unchanged, _TO_COMMON)
ROUND = Rule(NUMBERS, _round, _TO_COMMON)
NOT_BOOL = Rule("an integer or a float", _not_bool, _TO_INTEGER)
CLIP = Rule(NUMBERS, _clip, _TO_COMMON, literals="bounds")
WHERE = Rule("a bool condition and two values", _where, "make the condition a comparison, such as cond != 0")
CAST = Rule(NUMBERS, _cast, _TO_COMMON)
COPY = Rule(NUMBERS, _copy, _TO_COMMON)
INDEX = Rule("no operand", _index, "pass the axis alone")
TAKE = Rule("a tensor and integer indices", _take, "cast the indices to i64; a bool mask selects with where")
SUBTRACT = ufunc(np.subtract, "integers or floats", f"use bit_xor for bool, or {_TO_INTEGER}")
NEGATE = ufunc(np.negative, "integers or floats", f"use bit_not for bool, or {_TO_INTEGER}")
UNARY_FLOAT = ufunc(np.exp, NUMBERS, _TO_COMMON)


def arithmetic(function: np.ufunc) -> Rule:
    """A ufunc of numbers, bool among them."""
    return ufunc(function, NUMBERS, _TO_COMMON)


def bits(function: np.ufunc) -> Rule:
    """A ufunc of integers and bool."""
    return ufunc(function, "bool or integers with a common integer type", "cast to one integer type first")


def comparison(function: np.ufunc) -> Rule:
    """A comparison, which any Python integer decides."""
    return replace(ufunc(function, NUMBERS, _TO_COMMON), literals="any")
