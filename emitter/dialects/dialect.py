"""`Dialect`: how one backend spells types, constants, conversions and ops.

A dialect turns typed operands into the text of one expression. Its table has a row for each op and in the row
a spelling for each class of type; what is not in the table is not supported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from ..dtypes import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, U8, U64, DType, promote
from ..errors import UnsupportedOp
from ..group import Attributes
from .expr import ATOM, UNARY, Constant, Expr, Number, bracket, convert_number, decide

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT = {F16: (BOOL, I8, U8, F8E4M3, F8E5M2), BF16: (BOOL, I8, U8, F8E4M3, F8E5M2), F8E4M3: (BOOL,), F8E5M2: (BOOL,)}
"""Which types a float narrower than f32 holds without rounding."""
_SHIFTS = {"shift_left": "<<", "shift_right": ">>"}


@dataclass(frozen=True)
class Infix:
    """`a + b`."""

    symbol: str


@dataclass(frozen=True)
class Prefix:
    """`-a`."""

    symbol: str


@dataclass(frozen=True)
class Call:
    """`function(a, b)`."""

    function: str


@dataclass(frozen=True)
class Select:
    """One of two values by a condition, in the dialect's own form."""


@dataclass(frozen=True)
class Same:
    """The operand itself: there is nothing to do."""


Spelling = Infix | Prefix | Call | Select | Same


@dataclass(frozen=True)
class Row:
    """The spellings of one op by the class of type it computes in; None is unsupported.

    narrow: for integers of fewer than 32 bits, where they are not spelled like the others of their kind.
    """

    f32: Spelling | None = None
    f64: Spelling | None = None
    int: Spelling | None = None
    uint: Spelling | None = None
    narrow: Spelling | None = None
    bool: Spelling | None = None

    def spelling(self, dtype: DType) -> Spelling | None:
        """How the op is spelled where it computes in `dtype`."""
        if dtype.is_float:
            return self.f64 if dtype is F64 else self.f32
        if dtype is BOOL:
            return self.bool
        if dtype.bits < 32 and self.narrow is not None:
            return self.narrow
        return self.int if dtype.kind == "int" else self.uint


def floats(f32: Spelling, f64: Spelling | None = None) -> Row:
    """An op that computes in floats only; integers are converted first."""
    return Row(f32=f32, f64=f64 or f32)


def everywhere(spelling: Spelling, bool: Spelling | None = None) -> Row:
    """An op spelled alike for all numbers."""
    return Row(spelling, spelling, spelling, spelling, bool=bool)


@dataclass(frozen=True)
class Dialect(ABC):
    """One backend's language. `table` maps an op's name (gelu's tanh form is `gelu_tanh`) to its spellings."""

    name: str
    table: Mapping[str, Row]

    precedence: ClassVar[Mapping[str, int]]
    value_types: ClassVar[Mapping[str, str]]
    storage_types: ClassVar[Mapping[str, str]]

    @property
    def functions(self) -> frozenset[str]:
        """The functions that the table's spellings call."""
        spellings = (getattr(row, field.name) for row in self.table.values() for field in fields(row))
        return frozenset(s.function for s in spellings if isinstance(s, Call))

    # Types

    def value_type(self, dtype: DType) -> str:
        """The type that values of `dtype` are held in: float for f16, bf16 and fp8."""
        return self.value_types[dtype.compute.name]

    def storage_type(self, dtype: DType) -> str:
        """The type of an element of `dtype` in memory."""
        return self.storage_types.get(dtype.name) or self.value_types[dtype.name]

    @abstractmethod
    def widen(self, expr: Expr, dtype: DType) -> Expr:
        """An element of `dtype`, as it lies in memory, as a value."""

    @abstractmethod
    def narrow(self, expr: Expr, dtype: DType) -> Expr:
        """A value of `dtype` as it lies in memory; a float is rounded once, to nearest even."""

    # Constants

    @abstractmethod
    def literal(self, value: Number, dtype: DType) -> Constant:
        """A constant of type `dtype`, exact: a float narrower than f32 is an f32.

        An integer out of range is clamped to the type's limits in the text, which is what a bound of clip
        wants; comparisons go by its real value.
        """

    @abstractmethod
    def bound(self, expr: Expr) -> Expr:
        """The form in which a statement binds the expression to a name: a constant fixes its type."""

    @abstractmethod
    def beside(self, constant: Constant) -> Expr:
        """The short form of a constant beside an operand of its type."""

    # Conversions

    def convert(self, expr: Expr, source: DType, target: DType) -> Expr:
        """A value of `source` as one that is held as `target` is; to a float narrower than f32 it is not rounded."""
        source, target = source.compute, target.compute
        if source is target:
            return expr
        if isinstance(expr, Constant):
            return self.literal(convert_number(expr.value, source, target), target)
        if target is BOOL:
            return self.infix("!=", expr, self.literal(0, source))
        if source.is_float and target.is_integer:
            return self.saturate(expr, target)
        return self.number(expr, target)

    def cast(self, expr: Expr, source: DType, target: DType) -> Expr:
        """The op `cast`: rounded to `target`; float to integer saturates with NaN to 0, integers wrap."""
        if source is target or source in _EXACT.get(target, (source,)):
            return self.convert(expr, source, target)
        wide = source if source is F64 else F32
        return self.rounded(self.bound(self.convert(expr, source, wide)), wide, target)

    @abstractmethod
    def number(self, expr: Expr, target: DType) -> Expr:
        """A numeric conversion that needs no care; integers wrap."""

    @abstractmethod
    def saturate(self, expr: Expr, target: DType) -> Expr:
        """Float to integer."""

    @abstractmethod
    def rounded(self, expr: Expr, source: DType, target: DType) -> Expr:
        """A value of `source`, F32 or F64, rounded once to the narrower float `target`, and held as f32."""

    # Ops

    def supports(
        self, op: str, operand_types: Sequence[DType], result_type: DType, attributes: Attributes = ()
    ) -> bool:
        """Whether `apply` spells the op for these types."""
        if op == "cast" or op in COMPARISONS:
            return True
        op = {"relu": "maximum", "clip": "maximum"}.get(op, op)
        return self._spelling(op, _computed(op, operand_types, result_type)[-1], attributes) is not None

    def apply(
        self,
        op: str,
        args: Sequence[Expr],
        operand_types: Sequence[DType],
        result_type: DType,
        attributes: Attributes = (),
    ) -> Expr:
        """The op's value in `result_type`.

        operand_types: what the args are; each is converted to the type the op computes in. Raises
        UnsupportedOp where the table has no spelling.
        """
        if op == "cast":
            return self.cast(args[0], operand_types[0], result_type)
        if op in COMPARISONS:
            return self._compare(COMPARISONS[op], args, operand_types)
        types = _computed(op, operand_types, result_type)
        operands = [self.convert(a, t, c) for a, t, c in zip(args, operand_types, types, strict=True)]
        dtype = types[-1]
        if op == "relu":
            return self._same_type("maximum", operands[0], self.literal(0, dtype), dtype)
        if op == "clip":
            x, low, high = operands
            return self._same_type("minimum", self._same_type("maximum", x, low, dtype), high, dtype)
        spelling = self._spelling(op, dtype, attributes)
        if spelling is None:
            given = ", ".join(map(str, operand_types))
            raise UnsupportedOp(
                f"{self.name} has no spelling of {op}({given}) computed in {dtype}; "
                f"cast the operands to a type that it computes in"
            )
        return self._shortcut(op, operands, dtype) or self.spell(spelling, operands, dtype)

    def _same_type(self, op: str, a: Expr, b: Expr, dtype: DType) -> Expr:
        return self.apply(op, (a, b), (dtype, dtype), dtype)

    def _spelling(self, op: str, dtype: DType, attributes: Attributes) -> Spelling | None:
        form = dict(attributes).get("approximate", "none")
        row = self.table.get(op if form == "none" else f"{op}_{form}")
        return None if row is None else row.spelling(dtype)

    def _shortcut(self, op: str, operands: Sequence[Expr], dtype: DType) -> Expr | None:
        """What the op is where a constant operand makes it something simpler with the same result."""
        x, last = operands[0], operands[-1]
        if not isinstance(last, Constant) or isinstance(x, Constant):
            return None
        if op in _SHIFTS and 0 <= last.value < dtype.bits:
            return self.spell(Infix(_SHIFTS[op]), operands, dtype)
        if op == "pow" and last.value in (2, 3):
            square = self._same_type("mul", x, x, dtype)
            return square if last.value == 2 else self._same_type("mul", square, x, dtype)
        return None

    def _compare(self, symbol: str, args: Sequence[Expr], types: Sequence[DType]) -> Expr:
        (a, b), (left, right) = args, types
        if isinstance(a, Constant) and not isinstance(b, Constant):
            a, b, left, right, symbol = b, a, right, left, _MIRRORED[symbol]
        if isinstance(b, Constant) and b.dtype.is_integer and left.is_integer:
            decided = decide(symbol, int(b.value), b.dtype)
            if decided is not None:
                return self.literal(decided, BOOL)
        common = promote(left, right)
        if common is F64 and left.is_integer and right.is_integer:
            # u64 beside a signed type: no integer type holds both, and f64 would round them.
            if left is U64:
                a, b, left, right, symbol = b, a, right, left, _MIRRORED[symbol]
            order = self.call("compare_mixed", self.convert(a, left, I64), b)
            return self.infix(symbol, order, self.literal(0, I32))
        return self.infix(symbol, self.convert(a, left, common), self.convert(b, right, common))

    # Text

    def spell(self, spelling: Spelling, operands: Sequence[Expr], dtype: DType) -> Expr:
        """The spelling with its operands, which have the type `dtype` (of a select, but for the first)."""
        match spelling:
            case Same():
                return operands[0]
            case Call(function):
                return self.call(function, *operands)
            case Select():
                return self.select(*operands)
            case Prefix(symbol):
                return self.own_width(self.prefix(symbol, operands[0]), dtype)
            case Infix(symbol):
                return self.own_width(self.infix(symbol, *operands), dtype)

    @abstractmethod
    def select(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        """a where condition, else b."""

    @abstractmethod
    def call(self, function: str, *args: Expr) -> Expr:
        """A function's result."""

    def own_width(self, expr: Expr, dtype: DType) -> Expr:
        """An operator's result at the width of its operands' type."""
        return expr

    def infix(self, symbol: str, a: Expr, b: Expr) -> Expr:
        """`a symbol b` of operands of one type, with the brackets that grouping from the left needs."""
        if isinstance(b, Constant):
            a, b = self.bound(a), self.beside(b)
        elif isinstance(a, Constant):
            a = self.beside(a)
        level = self.precedence[symbol]
        # Python would chain a comparison of a comparison.
        least = level + (symbol in _MIRRORED)
        return Expr(f"{bracket(a, least)} {symbol} {bracket(b, level + 1)}", level)

    def prefix(self, symbol: str, a: Expr) -> Expr:
        """`-a`."""
        a = self.bound(a)
        doubled = a.text.startswith(symbol)
        return Expr(f"{symbol}{bracket(a, ATOM if doubled else UNARY)}", UNARY)


def _computed(op: str, operand_types: Sequence[DType], result_type: DType) -> tuple[DType, ...]:
    """The type that each operand is converted to; the last is the one the op computes in."""
    if op == "where":
        return (BOOL, result_type.compute, result_type.compute)
    if op.startswith("logical_"):
        return (BOOL,) * len(operand_types)
    if op in ("isnan", "isinf", "isfinite"):
        x = operand_types[0].compute
        return (x if x.is_float else F32,)
    return (result_type.compute,) * len(operand_types)
