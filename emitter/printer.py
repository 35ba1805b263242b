"""Nodes as text, in the language of descriptions."""

from __future__ import annotations

from .group import DimSize, Literal, Node, Operand, Ref
from .ops import OPS


def node_text(node: Node) -> str:
    """The node's expression: `x + b`, `gelu(h, approximate='tanh')`, `index(-1)`."""
    return OPS[node.op].text([operand_text(o) for o in node.operands], node.attributes)


def operand_text(operand: Operand) -> str:
    """An operand as a description writes it."""
    match operand:
        case Ref(name):
            return name
        case DimSize(dim):
            return str(dim)
        case Literal():
            return operand.text
