"""The description: `FusionGroup` and its parts, frozen, with a canonical form and a fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from .dtypes import DType

Dim = str | int
Attributes = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True)
class TensorSpec:
    """A tensor input: `x: f16[M, N]`. Dims are symbols or integers; `()` is a 0-d tensor."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...]

    def __str__(self) -> str:
        return type_text(self.dtype, self.shape)


@dataclass(frozen=True)
class ScalarSpec:
    """A scalar parameter, passed by value: `scale: f32`."""

    name: str
    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True)
class Ref:
    """An operand that is an input or a node."""

    name: str


@dataclass(frozen=True)
class DimSize:
    """An operand that is the size of a dim."""

    dim: Dim


@dataclass(frozen=True)
class Literal:
    """A Python constant, kept as text so that inf, nan and -0.0 compare equal to themselves."""

    kind: str
    text: str

    @classmethod
    def of(cls, value: bool | int | float) -> Literal:
        return cls(type(value).__name__, repr(value))

    @property
    def value(self) -> bool | int | float:
        if self.kind == "bool":
            return self.text == "True"
        return int(self.text) if self.kind == "int" else float(self.text)


Operand = Ref | DimSize | Literal


@dataclass(frozen=True)
class Node:
    """One op in SSA form. `named` is false where the description gave the value no name of its own."""

    name: str
    op: str
    operands: tuple[Operand, ...]
    attributes: Attributes = ()
    named: bool = True

    def attribute(self, name: str) -> str | int:
        return dict(self.attributes)[name]


@dataclass(frozen=True, eq=False)
class FusionGroup:
    """A fused group: inputs, SSA nodes in an order in which each uses only earlier ones, and outputs.

    Two groups are equal when they compute the same from the same inputs: the names of group, inputs and
    outputs count, the names of values in between and the order of independent nodes do not.
    """

    name: str
    inputs: tuple[TensorSpec | ScalarSpec, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]

    @cached_property
    def by_name(self) -> dict[str, TensorSpec | ScalarSpec | Node]:
        return {item.name: item for item in (*self.inputs, *self.nodes)}

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(i for i in self.inputs if isinstance(i, TensorSpec))

    @property
    def scalars(self) -> tuple[ScalarSpec, ...]:
        return tuple(i for i in self.inputs if isinstance(i, ScalarSpec))

    @property
    def dims(self) -> tuple[str, ...]:
        """The dim symbols, in order of appearance."""
        return tuple(dict.fromkeys(d for t in self.tensors for d in t.shape if isinstance(d, str)))

    @cached_property
    def canonical(self) -> str:
        """Canonical JSON: nodes numbered in the order in which the outputs need them."""
        number: dict[str, int] = {}
        rows: list[dict[str, object]] = []
        for node in self.needed():
            operands = [
                {"node": number[o.name]} if isinstance(o, Ref) and o.name in number else _operand_json(o)
                for o in node.operands
            ]
            number[node.name] = len(rows)
            rows.append({"op": node.op, "operands": operands, "attributes": dict(node.attributes)})
        document = {
            "name": self.name,
            "inputs": [[i.name, str(i)] for i in self.inputs],
            "nodes": rows,
            "outputs": [[name, number[name]] for name in self.outputs],
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"))

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the canonical JSON, in hex."""
        return hashlib.sha256(self.canonical.encode("utf-8")).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FusionGroup) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def needed(self) -> Iterator[Node]:
        """Nodes the outputs need, each after its operands, in depth-first order."""
        opened: set[str] = set()
        stack = [(name, False) for name in reversed(self.outputs)]
        while stack:
            name, leaving = stack.pop()
            node = self.by_name[name]
            if not isinstance(node, Node):
                continue
            if leaving:
                yield node
                continue
            if name in opened:
                continue
            opened.add(name)
            stack.append((name, True))
            stack.extend((o.name, False) for o in reversed(node.operands) if isinstance(o, Ref))


def _operand_json(operand: Operand) -> dict[str, str | int]:
    if isinstance(operand, Ref):
        return {"input": operand.name}
    if isinstance(operand, DimSize):
        return {"dim": operand.dim}
    return {operand.kind: operand.text}


def type_text(dtype: DType, shape: tuple[Dim, ...]) -> str:
    """`f16[M, N]`."""
    return f"{dtype}[{', '.join(map(str, shape))}]"
