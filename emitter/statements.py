"""From placed values to statements: expressions in one dialect, with a comment that says which node each is."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from .analysis import Key, Placed
from .dialects import ATOM, Dialect, Expr
from .dtypes import BOOL, I32, I64, DType
from .errors import UnsupportedOp
from .group import DimSize, FusionGroup, Literal, Node, ScalarSpec
from .plan import Plan
from .printer import Printer

INDEX_LIMIT = 2**30
"""The host code takes 32-bit indices only while every size and offset stays below this."""

_I32_LIMIT = 2**31


@dataclass(frozen=True)
class _Plain:
    """Arithmetic that index values keep their type in."""

    sign: str
    number: Callable[[int, int], int]


_PLAIN = {"add": _Plain("+", operator.add), "sub": _Plain("-", operator.sub), "mul": _Plain("*", operator.mul)}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_INLINE_WIDTH = 48


@dataclass(frozen=True)
class Statement:
    """`target = expression`, and the comment that names the node. `index` marks values of the index type."""

    key: Key
    target: str
    text: str
    comment: str
    loops: frozenset[int]
    dtype: DType
    index: bool = False


@dataclass(frozen=True)
class Held:
    """A value in text: its expression, the dtype it is held in, and of index arithmetic the range it stays in."""

    expr: Expr
    dtype: DType
    span: tuple[int, int] | None = None


class Speller:
    """Spells a group's values in one dialect.

    load: gives the expression that reads a tensor or gathers from it. element: how a value computed per
    element is referred to (`x[v]` in CUDA C, `x` in Triton). coordinate: a loop's index as a value.
    """

    def __init__(
        self,
        plan: Plan,
        dialect: Dialect,
        original: FusionGroup,
        element: Callable[[Placed, str], str],
        coordinate: Callable[[int], str],
    ) -> None:
        self.plan = plan
        self.dialect = dialect
        self.original = original
        self.element = element
        self.coordinate = coordinate
        self.held: dict[Key, Held] = {}
        self.types = plan.analysis.verified.types
        self._original, self._lowered = Printer(original), Printer(plan.analysis.verified.group)
        self._stored = {key for _, key, _ in plan.analysis.stores}
        self._users: dict[Key, list[Placed]] = {}
        for placed in plan.analysis.values:
            for operand in placed.operands:
                if isinstance(operand, tuple):
                    self._users.setdefault(operand, []).append(placed)

    def loaded(self, placed: Placed) -> None:
        """Note that a tensor's or scalar's value now has its name."""
        name = self.plan.values[placed.key]
        dtype = self.types[placed.key[0]].dtype
        text = name if isinstance(placed.item, ScalarSpec) else self.element(placed, name)
        self.held[placed.key] = Held(Expr(text), dtype.compute)

    def compute(self, placed: Placed) -> Statement | None:
        """The statement of a node, or None where its text goes into the statement of its only user."""
        node = placed.item
        assert isinstance(node, Node)
        held = self._expression(placed, node)
        if self._inlined(placed, node, held):
            self.held[placed.key] = held
            return None
        name = self.plan.values[placed.key]
        target = self.element(placed, name)
        self.held[placed.key] = Held(Expr(target), held.dtype, held.span)
        return Statement(
            placed.key,
            target,
            self.dialect.bound(held.expr).text,
            self.comment(node, held.expr.text),
            placed.loops,
            held.dtype,
            held.span is not None,
        )

    def stored(self, key: Key) -> Expr:
        """A value as it goes to memory, in the dtype of the description (not yet narrowed)."""
        held = self.held[key]
        dtype = self.types[key[0]].dtype
        return self._convert(held, dtype.compute)

    def gather_index(self, operand: Key | DimSize | Literal) -> Expr:
        """The indices of a gather, in their own dtype."""
        held = self._operand(operand, I64)
        return self.dialect.bound(held.expr)

    def _inlined(self, placed: Placed, node: Node, held: Held) -> bool:
        users = self._users.get(placed.key, [])
        if node.op == "index" and placed.key not in self._stored:
            return True
        if node.named or placed.key in self._stored or len(users) != 1:
            return False
        user = users[0]
        plain = isinstance(user.item, Node) and user.item.op not in ("isnan", "isinf", "isfinite", "take")
        cheap = user.loops == placed.loops or held.span is not None
        return plain and cheap and len(held.expr.text) <= _INLINE_WIDTH

    def _expression(self, placed: Placed, node: Node) -> Held:
        result = self.types[node.name].dtype
        if node.op == "index":
            if not placed.loops:
                return self._known(0)
            (loop,) = placed.loops
            text = self.coordinate(loop)
            precedence = self.dialect.precedence["+"] if "+" in text else ATOM
            return Held(Expr(text, precedence), I64, (0, INDEX_LIMIT - 1))
        signature = self.plan.analysis.verified.signatures[node.name]
        pairs = zip(placed.operands, signature.operands, strict=True)
        operands = [self._operand(o, s) for o, s in pairs]
        if node.op == "copy" or (node.op == "cast" and self._rounded_by_the_store(placed, operands[0])):
            return operands[0]
        narrow = self._index_arithmetic(node, operands)
        if narrow is not None:
            return narrow
        exprs = [self._widened(o) for o in operands]
        types = [o.dtype for o in operands]
        try:
            expr = self.dialect.apply(node.op, exprs, types, result, node.attributes)
        except UnsupportedOp as error:
            raise UnsupportedOp(f"group {self.original.name}, node {node.name}: {error}") from None
        return Held(expr, result.compute)

    def _rounded_by_the_store(self, placed: Placed, operand: Held) -> bool:
        """Whether a cast to a narrow float is what its store does, and nothing else uses the value."""
        dtype = self.types[placed.key[0]].dtype
        alone = placed.key in self._stored and placed.key not in self._users
        return alone and dtype.compute is not dtype and dtype.is_float and operand.dtype is dtype.compute

    def _operand(self, operand: Key | DimSize | Literal, wanted: DType) -> Held:
        if isinstance(operand, tuple):
            return self.held[operand]
        if isinstance(operand, DimSize) and isinstance(operand.dim, str):
            return Held(Expr(self.plan.count((operand.dim,))), I64, (0, INDEX_LIMIT - 1))
        value = operand.dim if isinstance(operand, DimSize) else operand.value
        assert not isinstance(value, str)
        if isinstance(value, int) and wanted is I64 and _fits_32((value, value)):
            return self._known(value)
        return Held(self.dialect.literal(value, wanted.compute), wanted.compute)

    def _known(self, value: int) -> Held:
        """An index value that is a number in the text."""
        return Held(self.dialect.literal(value, I32), I32, (value, value))

    def _widened(self, held: Held) -> Expr:
        """An index value as the i64 that it is for everything but index arithmetic."""
        if held.span is None:
            return held.expr
        if held.dtype is I32:
            return self.dialect.convert(held.expr, I32, I64)
        return self.dialect.number(held.expr, I64)

    def _convert(self, held: Held, dtype: DType) -> Expr:
        return self.dialect.convert(self._widened(held), I64 if held.span is not None else held.dtype, dtype)

    def _index_arithmetic(self, node: Node, operands: list[Held]) -> Held | None:
        """Sums, products and comparisons of indices that 32 bits hold, left at the index type's width."""
        if node.op in _COMPARISONS:
            if any(_is_index(o) for o in operands) and all(map(_held_in_32, operands)):
                types = [I32 if o.span is not None else o.dtype for o in operands]
                exprs = [o.expr for o in operands]
                return Held(self.dialect.apply(node.op, exprs, types, BOOL), BOOL)
            return None
        a, b = (o.span for o in operands) if len(operands) == 2 else (None, None)
        if node.op not in _PLAIN or a is None or b is None:
            return None
        ends = [_PLAIN[node.op].number(x, y) for x in a for y in b]
        span = min(ends), max(ends)
        if not _fits_32(span):
            return None
        if span[0] == span[1]:
            return self._known(span[0])
        return Held(self.dialect.infix(_PLAIN[node.op].sign, operands[0].expr, operands[1].expr), I64, span)

    def comment(self, node: Node, text: str) -> str:
        """`f16[M, N]`, with the node's own text in front where the code reads differently."""
        kind = self.types[node.name]
        said = (self._original if node.name in self._original else self._lowered).text(node.name)
        return str(kind) if said == text.replace("[v]", "") else f"{said}: {kind}"


def _fits_32(span: tuple[int, int]) -> bool:
    return span[0] >= -_I32_LIMIT and span[1] < _I32_LIMIT


def _is_index(held: Held) -> bool:
    return held.span is not None and held.dtype is I64


def _held_in_32(held: Held) -> bool:
    if held.span is not None:
        return _fits_32(held.span)
    return held.dtype.kind == "bool" or (held.dtype.is_integer and held.dtype.bits <= 32 and held.dtype.name != "u32")
