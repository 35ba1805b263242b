"""Equivalents that are applied before a group is evaluated or emitted, so that both see the same ops.

They express what a dtype rule cannot: NumPy decides `u8 < 300` and `i64 < u64` by value, leaves a bound of
clip open that no element can reach, and computes powers with these constant exponents by simpler ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dtypes import I64, U64, DType
from ..group import Attributes
from .opdef import Number, OpDef, OperandType

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True)
class Argument:
    """The original op's operand at `position`."""

    position: int


@dataclass(frozen=True)
class Call:
    """An op of the table, applied to arguments, Python constants and other calls."""

    op: str
    operands: tuple[Term, ...]
    attributes: Attributes = ()


Term = Argument | Call | Number


def rewrite(opdef: OpDef, operands: Sequence[OperandType], attributes: Attributes = ()) -> Term | None:
    """What to write instead of the op, or None where it stays. Raises what `opdef.signature` raises."""
    types = opdef.signature(operands, attributes).operands
    if opdef.name in _MIRRORED:
        return _comparison(opdef.name, operands, types)
    if opdef.name == "clip":
        return _clip(operands, types[0])
    return _power(operands, types[0]) if opdef.name == "pow" else None


def fold_comparison(name: str, dtype: DType, value: int) -> tuple[str, int] | None:
    """The comparison of an integer `dtype` with a `value` outside its range, as one inside it; None inside.

    u8 < 300 is always true and becomes u8 >= 0; u8 == 300 is never true and becomes u8 < 0.
    """
    low, high = dtype.limits
    if low <= value <= high:
        return None
    always = name == "ne" or name in (("lt", "le") if value > high else ("gt", "ge"))
    return ("ge" if always else "lt"), low


def _comparison(name: str, operands: Sequence[OperandType], types: tuple[DType, ...]) -> Term | None:
    for position, value in enumerate(operands):
        if isinstance(value, int) and types[position].is_integer:
            seen = _MIRRORED[name] if position == 0 else name
            folded = fold_comparison(seen, types[position], value)
            if folded is None:
                continue
            return Call(folded[0], (_as(1 - position, operands, types[1 - position]), folded[1]))
    if types == (I64, U64):
        return _mixed(name, 0, operands)
    return _mixed(_MIRRORED[name], 1, operands) if types == (U64, I64) else None


def _mixed(name: str, signed: int, operands: Sequence[OperandType]) -> Term:
    """A signed operand compared with an unsigned one: by its sign first, then as u64, which holds it."""
    below = name in ("lt", "le", "ne")
    signed_value = _as(signed, operands, I64)
    as_unsigned = Call("cast", (signed_value,), (("dtype", U64.name),))
    return Call(
        "logical_or" if below else "logical_and",
        (
            Call("lt" if below else "ge", (signed_value, 0)),
            Call(name, (as_unsigned, _as(1 - signed, operands, U64))),
        ),
    )


def _clip(operands: Sequence[OperandType], dtype: DType) -> Term | None:
    if not dtype.is_integer:
        return None
    low, high = dtype.limits
    bounds: list[Term] = [Argument(1), Argument(2)]
    if isinstance(operands[1], int) and operands[1] < low:
        bounds[0] = low
    if isinstance(operands[2], int) and operands[2] > high:
        bounds[1] = high
    return None if bounds == [Argument(1), Argument(2)] else Call("clip", (Argument(0), *bounds))


def _power(operands: Sequence[OperandType], dtype: DType) -> Term | None:
    base, exponent = operands
    if not isinstance(exponent, DType):
        if isinstance(exponent, bool) or not isinstance(base, DType):
            return None
        x = _as(0, operands, dtype)
        if exponent == 1:
            return x
        if exponent == 2:
            return Call("mul", (x, x))
        if exponent == 3:
            return Call("mul", (Call("mul", (x, x)), x))
        if exponent == 4:
            square = Call("mul", (x, x))
            return Call("mul", (square, square))
        if dtype.is_float and exponent == 0.5:
            return Call("sqrt", (x,))
        return Call("div", (1.0, x)) if dtype.is_float and exponent == -1 else None
    if dtype.is_float and not isinstance(base, DType) and base == 2:
        return Call("exp2", (_as(1, operands, dtype),))
    return None


def _as(position: int, operands: Sequence[OperandType], dtype: DType) -> Term:
    """The operand in the type the op converts it to; in its own type it stays: a cast would round."""
    operand = operands[position]
    if not isinstance(operand, DType):
        return operand
    if operand is dtype:
        return Argument(position)
    return Call("cast", (Argument(position),), (("dtype", dtype.name),))
