"""Nodes as text, in the language of descriptions."""

from __future__ import annotations

from collections import Counter

from .group import DimSize, FusionGroup, Literal, Node, Operand, Ref
from .ops import OPS

_ATOM, _POWER, _UNARY = 14, 13, 12
_PRECEDENCE = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 5),
    "|": 6,
    "^": 7,
    "&": 8,
    **dict.fromkeys(("<<", ">>"), 9),
    **dict.fromkeys(("+", "-"), 10),
    **dict.fromkeys(("*", "/", "//", "%"), 11),
    "**": _POWER,
}
"""Python's; higher binds tighter."""
_WIDTH = 60

Text = tuple[str, int]
"""An expression and how tightly its outermost operator binds."""


class Printer:
    """A group's nodes as a description writes them: a value with no name and a single user stands where it is used.

    lines: name and expression of each node that has a line of its own.
    """

    def __init__(self, group: FusionGroup) -> None:
        uses = Counter(o.name for n in group.nodes for o in n.operands if isinstance(o, Ref))
        self._texts: dict[str, Text] = {}
        self._inlined: dict[str, Text] = {}
        self.lines: list[tuple[str, str]] = []
        for node in group.nodes:
            text = _node(node, self._inlined)
            self._texts[node.name] = text
            single = uses[node.name] == 1 and node.name not in group.outputs
            if not node.named and single and len(text[0]) <= _WIDTH:
                self._inlined[node.name] = text
            else:
                self.lines.append((node.name, text[0]))

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str:
        """The expression of the node called `name`: `x * scale + b`."""
        return self._texts[name][0]


def operand_text(operand: Operand) -> str:
    """An operand as a description writes it."""
    match operand:
        case Ref(name):
            return name
        case DimSize(dim):
            return str(dim)
        case Literal():
            return operand.text


def _node(node: Node, inlined: dict[str, Text]) -> Text:
    definition = OPS[node.op]
    operands = [_operand(o, inlined) for o in node.operands]
    if definition.symbol is None:
        return definition.text([text for text, _ in operands], node.attributes), _ATOM
    if len(operands) == 1:
        return definition.text([_bracket(operands[0], _UNARY)], node.attributes), _UNARY
    level = _PRECEDENCE[definition.symbol]
    left, right = operands
    if level == _POWER:
        texts = [_bracket(left, _ATOM), _bracket(right, _UNARY)]
    elif level == _PRECEDENCE["=="]:  # a < b < c is no comparison of a comparison
        texts = [_bracket(left, _PRECEDENCE["+"]), _bracket(right, _PRECEDENCE["+"])]
    elif level < _PRECEDENCE["+"]:  # bits: brackets that Python does not need, but readers do
        texts = [_bracket(left, level if left[1] == level else _UNARY), _bracket(right, _UNARY)]
    else:
        texts = [_bracket(left, level), _bracket(right, level + 1)]
    return definition.text(texts, node.attributes), level


def _operand(operand: Operand, inlined: dict[str, Text]) -> Text:
    if isinstance(operand, Ref) and operand.name in inlined:
        return inlined[operand.name]
    text = operand_text(operand)
    return text, _UNARY if text.startswith("-") else _ATOM


def _bracket(text: Text, least: int) -> str:
    return text[0] if text[1] >= least else f"({text[0]})"
