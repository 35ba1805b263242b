"""Building a group node by node: what the TOML reader and the tracer share."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from .errors import BadAttribute, DescriptionError
from .group import Attributes, Literal, Node, Operand, Ref
from .ops import OpDef, op

Number = bool | int | float
_FOLDABLE: dict[str, Callable[..., Number]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_div": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "bit_or": operator.or_,
    "bit_and": operator.and_,
    "bit_xor": operator.xor,
}


class Builder:
    """Collects nodes. A value without a name of its own is named after its op: `add`, `add_2`."""

    def __init__(self, where: str, taken: Sequence[str]) -> None:
        self.where = where
        self.nodes: list[Node] = []
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def node(self, op_name: str, arguments: Sequence[Operand], keywords: dict[str, object]) -> Operand:
        """Add one node and return a reference to it; ops of constants alone are computed here, as Python would."""
        definition = op(op_name)
        operands, attributes = self._bind(definition, arguments, keywords)
        if operands and all(isinstance(o, Literal) for o in operands):
            return self._fold(definition, operands)
        name = self._fresh(definition.name)
        self.nodes.append(Node(name, definition.name, operands, attributes, named=False))
        return Ref(name)

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
        self, definition: OpDef, arguments: Sequence[Operand], keywords: dict[str, object]
    ) -> tuple[tuple[Operand, ...], Attributes]:
        """Sort call arguments into operands and attributes, the way Python binds a call."""
        slots = (*definition.parameters, *(a.name for a in definition.attributes))
        call = f"{self.where}: {definition.name}({', '.join(slots)})"
        if len(arguments) > len(slots):
            raise BadAttribute(f"{call} takes at most {len(slots)} arguments, got {len(arguments)}")
        bound: dict[str, object] = dict(zip(slots, arguments, strict=False))
        for key, value in keywords.items():
            if key not in slots:
                raise BadAttribute(f"{call} has no argument {key!r}")
            if key in bound:
                raise BadAttribute(f"{call} got {key!r} twice")
            bound[key] = value
        missing = [p for p in definition.parameters if p not in bound]
        if missing:
            raise BadAttribute(f"{call} is missing {', '.join(missing)}")
        operands: list[Operand] = []
        for parameter in definition.parameters:
            value = bound.pop(parameter)
            if not isinstance(value, Operand):
                raise DescriptionError(
                    f"{call}: {parameter} must be a tensor, scalar, dim or number, got {type(value).__name__} {value!r}"
                )
            operands.append(value)
        given = {key: v.value if isinstance(v, Literal) else v for key, v in bound.items()}
        return tuple(operands), definition.bind_attributes(given, self.where)

    def _fold(self, definition: OpDef, operands: tuple[Operand, ...]) -> Literal:
        values = [o.value for o in operands if isinstance(o, Literal)]
        shown = ", ".join(map(repr, values))
        fold = _FOLDABLE.get(definition.name)
        if fold is None:
            raise DescriptionError(
                f"{self.where}: {definition.name}({shown}) has no tensor, scalar or dim among its operands; write its value"
            )
        try:
            result = fold(*values)
        except (ArithmeticError, TypeError) as error:
            raise DescriptionError(f"{self.where}: {definition.name}({shown}) cannot be computed: {error}") from None
        if isinstance(result, float) and math.isinf(result) and not any(math.isinf(v) for v in values):
            raise DescriptionError(f"{self.where}: {definition.name}({shown}) overflows")
        return Literal.of(result)
