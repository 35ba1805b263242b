"""Building a group node by node: what the TOML reader and the tracer share."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from .errors import BadAttribute, DescriptionError, LiteralOverflow, UnknownOp
from .group import Attributes, Literal, Node, Operand, Ref
from .names import shown
from .ops import OpDef, op

Number = bool | int | float

_FOLDABLE: dict[str, Callable[..., object]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_div": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "bit_or": operator.or_,
    "bit_and": operator.and_,
    "bit_xor": operator.xor,
    "bit_not": operator.invert,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""A constant on the left of a comparison moves to the right, as Python's own reflected operators have it."""
_EXPLOSIVE = {"pow", "shift_left"}
_MOST_BITS = 1023
"""An integer of more bits fits no float."""


class Builder:
    """Collects nodes. A value without a name of its own is named after its op: `add`, `add_2`."""

    def __init__(self, where: str, taken: Sequence[str]) -> None:
        self.where = where
        self.nodes: list[Node] = []
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def node(self, op_name: str, arguments: Sequence[object], keywords: Mapping[str, object]) -> Operand:
        """Add one node and return a reference to it; ops of constants alone are computed here, as Python would."""
        try:
            definition = op(op_name)
        except UnknownOp as error:
            raise UnknownOp(f"{self.where}: {error}") from None
        operands, attributes = self._bind(definition, arguments, keywords)
        values = [o.value for o in operands if isinstance(o, Literal)]
        if operands and len(values) == len(operands) and definition.name != "cast":
            return self._fold(definition, values)
        if definition.name in _MIRRORED and isinstance(operands[0], Literal):
            definition, operands = op(_MIRRORED[definition.name]), operands[::-1]
        name = self._fresh(definition.name)
        self.nodes.append(Node(name, definition.name, operands, attributes, named=False))
        return Ref(name)

    def literal(self, value: Number) -> Literal:
        """A Python constant as an operand. Raises LiteralOverflow where no dtype could hold it."""
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise LiteralOverflow(f"{self.where}: an integer of {value.bit_length()} bits fits no dtype; write inf")
        return Literal.of(value)

    def _fresh(self, stem: str) -> str:
        number = self._numbers.get(stem, 0)
        while True:
            number += 1
            name = stem if number == 1 else f"{stem}_{number}"
            if name not in self._taken:
                break
        self._numbers[stem] = number
        self._taken.add(name)
        return name

    def _bind(
        self, definition: OpDef, arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> tuple[tuple[Operand, ...], Attributes]:
        """Sort call arguments into operands and attributes, the way Python binds a call."""
        slots = (*definition.parameters, *(a.name for a in definition.attributes))
        call = f"{self.where}: {definition.name}({', '.join(slots)})"
        if len(arguments) > len(slots):
            raise BadAttribute(f"{call} takes at most {len(slots)} arguments, got {len(arguments)}")
        bound: dict[str, object] = dict(zip(slots, arguments, strict=False))
        for key, value in keywords.items():
            if key not in slots:
                raise BadAttribute(f"{call} has no argument {shown(key)}")
            if key in bound:
                raise BadAttribute(f"{call} got {key} twice")
            bound[key] = value
        missing = [p for p in definition.parameters if p not in bound]
        if missing:
            raise BadAttribute(f"{call} is missing {', '.join(missing)}")
        operands: list[Operand] = []
        for parameter in definition.parameters:
            value = bound.pop(parameter)
            if not isinstance(value, Operand):
                raise DescriptionError(
                    f"{call}: {parameter} must be a tensor, scalar, dim or number, "
                    f"got {type(value).__name__} {shown(value)}; an array is an input of its own"
                )
            operands.append(value)
        given = {key: v.value if isinstance(v, Literal) else v for key, v in bound.items()}
        return tuple(operands), definition.bind_attributes(given, self.where)

    def _fold(self, definition: OpDef, values: Sequence[Number]) -> Literal:
        call = f"{self.where}: {definition.name}({', '.join(map(repr, values))})"
        fold = _FOLDABLE.get(definition.name)
        if fold is None:
            raise DescriptionError(f"{call} has no tensor, scalar or dim among its operands; write its value")
        if definition.name in _EXPLOSIVE and isinstance(values[1], int) and values[1] > _MOST_BITS:
            raise DescriptionError(f"{call} overflows")
        try:
            result = fold(*values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise DescriptionError(f"{call} cannot be computed: {error}") from None
        if not isinstance(result, Number):
            raise DescriptionError(f"{call} is {result}, not a real number")
        if isinstance(result, float) and math.isinf(result) and math.inf not in map(abs, values):
            raise DescriptionError(f"{call} overflows")
        return self.literal(result)
