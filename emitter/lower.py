"""Lowering: nodes whose meaning another op states better are rewritten before evaluation and emission."""

from __future__ import annotations

from .group import FusionGroup, Literal, Node, Operand, Ref
from .ops import OPS
from .ops.rewrites import Argument, Call, Term, rewrite
from .verify import Verified, operand_types, verify


def lower(verified: Verified) -> Verified:
    """The group with every rewrite of `ops.rewrites` applied; names of the nodes stay."""
    group = verified.group
    nodes: list[Node] = []
    taken = set(group.by_name) | set(group.dims)
    changed = False
    for node in group.nodes:
        term = rewrite(OPS[node.op], operand_types(node, verified.types), node.attributes)
        if term is None:
            nodes.append(node)
            continue
        changed = True
        if isinstance(term, Call):
            operands = tuple(_operand(t, node, nodes, taken) for t in term.operands)
            nodes.append(Node(node.name, term.op, operands, term.attributes, node.named))
        else:
            nodes.append(Node(node.name, "copy", (_operand(term, node, nodes, taken),), named=node.named))
    if not changed:
        return verified
    return verify(FusionGroup(group.name, group.inputs, tuple(nodes), group.outputs))


def _operand(term: Term, node: Node, nodes: list[Node], taken: set[str]) -> Operand:
    """`term` as an operand; a call becomes a node of its own, once where it occurs twice."""
    if isinstance(term, Argument):
        return node.operands[term.position]
    if not isinstance(term, Call):
        return Literal.of(term)
    operands = tuple(_operand(t, node, nodes, taken) for t in term.operands)
    for earlier in reversed(nodes):
        if not earlier.name.startswith(f"{node.name}_"):
            break
        if (earlier.op, earlier.operands, earlier.attributes) == (term.op, operands, term.attributes):
            return Ref(earlier.name)
    number = 1
    while f"{node.name}_{number}" in taken:
        number += 1
    name = f"{node.name}_{number}"
    taken.add(name)
    nodes.append(Node(name, term.op, operands, term.attributes, named=False))
    return Ref(name)
