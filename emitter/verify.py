"""Verification: infers every value's dtype and shape, and refuses a group that cannot mean anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .dtypes import I64, DType
from .errors import (
    BadAttribute,
    DescriptionError,
    DTypeMismatch,
    DuplicateName,
    ShapeMismatch,
    UndefinedOutput,
    UnknownDim,
    UnknownName,
    UnknownOp,
    UnusedInput,
)
from .group import Dim, DimSize, FusionGroup, Literal, Node, Operand, Ref, ScalarSpec, TensorSpec, type_text
from .names import check_name, shown
from .ops import OPS, Signature
from .printer import operand_text

Shape = tuple[Dim, ...]
MAX_RANK = 6
LONGEST_NODE = 80


@dataclass(frozen=True)
class Type:
    """dtype and shape of one value."""

    dtype: DType
    shape: Shape

    def __str__(self) -> str:
        return type_text(self.dtype, self.shape)


@dataclass(frozen=True)
class Verified:
    """A group with the types of all its values, each node's operand dtypes, and its iteration space.

    space: the broadcast shape of all outputs, which `index(axis)` counts along.
    """

    group: FusionGroup
    types: Mapping[str, Type]
    signatures: Mapping[str, Signature]
    space: Shape


def verify(group: FusionGroup) -> Verified:
    """Infer types and check the group; raises the exception class of the first mistake found."""
    _check_names(group)
    _check_inputs(group)
    _check_nodes(group)
    # index() counts along the space of the outputs, which is known only once the other shapes are: twice.
    types, signatures = _infer(group, None)
    space = _space(group, types)
    if any(n.op == "index" for n in group.nodes):
        types, signatures = _infer(group, space)
        grown = _space(group, types)
        if grown != space:
            raise ShapeMismatch(
                f"group {group.name}: index() spans {list(map(str, space))}, which no tensor's shape gives its user; "
                "combine it with a tensor of that shape"
            )
    _check_used(group)
    return Verified(group, types, signatures, space)


def broadcast(where: str, shapes: Mapping[str, Shape]) -> Shape:
    """NumPy's broadcast of named shapes; equal symbols match, a symbol never matches another or an integer but 1."""
    rank = max((len(s) for s in shapes.values()), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = {name: shape[axis] for name, shape in shapes.items() if len(shape) >= -axis and shape[axis] != 1}
        if len(set(sizes.values())) > 1:
            shown = " and ".join(f"{n} {_shape_text(shapes[n])}" for n in sizes)
            raise ShapeMismatch(
                f"{where}: {shown} do not broadcast: axis {axis} has {' and '.join(str(s) for s in sizes.values())}; "
                "sizes must be equal or 1 (use one symbol for dims that are always equal)"
            )
        result.append(next(iter(sizes.values()), 1))
    return tuple(result)


def _shape_text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _check_names(group: FusionGroup) -> None:
    """Names that are safe in source, and inputs, dims, nodes and outputs that do not collide."""
    check_name(group.name, "group")
    seen: set[str] = set()
    for item in (*group.inputs, *group.nodes):
        # Lowering hangs a number on the names of nodes.
        check_name(item.name, "value" if isinstance(item, Node) else "input", LONGEST_NODE)
        if item.name in seen:
            raise DuplicateName(f"group {group.name}: two values are called {item.name}; rename one")
        seen.add(item.name)
    for dim in group.dims:
        check_name(dim, "dim")
        if dim in seen:
            raise DuplicateName(f"group {group.name}: {dim} is both a dim and a value; rename one")
    for position, name in enumerate(group.outputs):
        if name in group.outputs[:position]:
            raise DuplicateName(f"group {group.name}: output {name} is listed twice; list it once")
        if not isinstance(group.by_name.get(name), Node):
            raise UndefinedOutput(f"group {group.name}: output {shown(name)} is defined by no node; add or remove it")
    if not group.outputs:
        raise UndefinedOutput(f"group {group.name}: it has no outputs; name at least one")


def _check_inputs(group: FusionGroup) -> None:
    for spec in group.inputs:
        if isinstance(spec, ScalarSpec) and spec.dtype.bits == 8 and spec.dtype.is_float:
            raise DTypeMismatch(
                f"group {group.name}: scalar parameter {spec.name}: {spec.dtype} is a storage type; use f32"
            )
        if isinstance(spec, TensorSpec) and len(spec.shape) > MAX_RANK:
            raise ShapeMismatch(
                f"group {group.name}: input {spec.name} has rank {len(spec.shape)}, at most {MAX_RANK} dims are "
                "supported; reshape it"
            )


def _check_nodes(group: FusionGroup) -> None:
    """Nodes as a description would have made them: known ops, attributes and operands, each defined before its use."""
    dims = set(group.dims)
    defined = {i.name for i in group.inputs}
    for node in group.nodes:
        where = f"group {group.name}, node {node.name}"
        definition = OPS.get(node.op)
        if definition is None:
            raise UnknownOp(f"{where}: unknown op {shown(node.op)}; emitter.OPS has the known ones")
        if definition.bind_attributes(dict(node.attributes), where) != node.attributes:
            raise BadAttribute(f"{where}: attributes {shown(node.attributes)} are not in {definition.call}'s own order")
        for operand in node.operands:
            _check_operand(operand, where, defined, dims)
        defined.add(node.name)


def _check_operand(operand: Operand, where: str, defined: set[str], dims: set[str]) -> None:
    match operand:
        case Ref(name) if name not in defined:
            raise UnknownName(f"{where} uses {shown(name)}, which no input and no earlier node defines; define it")
        case DimSize(str() as dim) if dim not in dims:
            known = ", ".join(sorted(dims)) or "none"
            raise UnknownDim(f"{where} uses the dim {shown(dim)}, which no input has; known dims: {known}")
        case Literal(kind, text) if not _is_number(kind, text):
            raise DescriptionError(f"{where}: {shown(text)} is no {shown(kind)} constant; make it with Literal.of")


def _is_number(kind: str, text: str) -> bool:
    try:
        return Literal.of(Literal(kind, text).value) == Literal(kind, text)
    except ValueError:
        return False


def _check_used(group: FusionGroup) -> None:
    used: set[str] = set()
    stack = list(group.outputs)
    while stack:
        name = stack.pop()
        if name in used:
            continue
        used.add(name)
        item = group.by_name[name]
        if isinstance(item, Node):
            stack.extend(o.name for o in item.operands if isinstance(o, Ref))
    for item in (*group.inputs, *group.nodes):
        if item.name not in used:
            what = "value" if isinstance(item, Node) else "input"
            raise UnusedInput(f"group {group.name}: {what} {item.name} is used by no output; remove it or use it")


def _space(group: FusionGroup, types: Mapping[str, Type]) -> Shape:
    return broadcast(
        f"group {group.name}: outputs run over one iteration space", {o: types[o].shape for o in group.outputs}
    )


def _infer(group: FusionGroup, space: Shape | None) -> tuple[dict[str, Type], dict[str, Signature]]:
    types: dict[str, Type] = {i.name: Type(i.dtype, i.shape if isinstance(i, TensorSpec) else ()) for i in group.inputs}
    signatures: dict[str, Signature] = {}
    unplaced: set[str] = set()  # what depends on index() while the space is unknown
    for node in group.nodes:
        where = f"group {group.name}, node {node.name} ({node.op})"
        above = {o.name for o in node.operands if isinstance(o, Ref)}
        if space is None and (node.op == "index" or above & unplaced):
            unplaced.add(node.name)
        operands = operand_types(node, types)
        try:
            signature = OPS[node.op].signature(operands, node.attributes)
        except DescriptionError as error:
            raise type(error)(f"{where}: {error}") from None
        signatures[node.name] = signature
        # Gathered along index(), a value has no shape yet: until it has, it broadcasts with everything.
        waits = node.op == "take" and node.name in unplaced
        shape = () if waits else _shape(group, node, where, types, space)
        types[node.name] = Type(signature.result, shape)
        if len(types[node.name].shape) > MAX_RANK:
            rank = len(types[node.name].shape)
            raise ShapeMismatch(f"{where} has rank {rank}, at most {MAX_RANK} dims are supported; reshape its operands")
    return types, signatures


def operand_types(node: Node, types: Mapping[str, Type]) -> list[DType | bool | int | float]:
    """What the dtype rules see of a node's operands: dtypes, and the values of constants."""
    strong = [types[o.name].dtype for o in node.operands if isinstance(o, Ref)]
    return [_operand_type(o, types, strong) for o in node.operands]


def _operand_type(operand: Operand, types: Mapping[str, Type], strong: list[DType]) -> DType | bool | int | float:
    match operand:
        case Ref(name):
            return types[name].dtype
        case Literal():
            return operand.value
        case DimSize():
            # A size is a Python integer beside floats; beside integers it needs its 64 bits.
            return 1 if any(d.is_float for d in strong) else I64


def _shape(group: FusionGroup, node: Node, where: str, types: Mapping[str, Type], space: Shape | None) -> Shape:
    shapes = {o.name: types[o.name].shape for o in node.operands if isinstance(o, Ref)}
    if node.op == "index":
        return _index_shape(node, where, space)
    if node.op == "take":
        return _take_shape(group, node, where, types)
    return broadcast(where, shapes)


def _axis(node: Node, where: str, rank: int) -> int:
    axis = node.attribute("axis")
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise UnknownDim(f"{where}: axis {axis} does not exist; expected {-rank} to {rank - 1} for rank {rank}")
    return axis % rank


def _index_shape(node: Node, where: str, space: Shape | None) -> Shape:
    if space is None:
        return ()
    axis = _axis(node, where, len(space))
    return (space[axis], *(1 for _ in space[axis + 1 :]))


def _take_shape(group: FusionGroup, node: Node, where: str, types: Mapping[str, Type]) -> Shape:
    source, indices = node.operands
    tensor = group.by_name[source.name] if isinstance(source, Ref) else None
    if not isinstance(tensor, TensorSpec) or not tensor.shape:
        raise BadAttribute(
            f"{where}: take reads memory, so it gathers from an input tensor of rank 1 or more, not from "
            f"{operand_text(source)}; take from the inputs first and compute after"
        )
    shape = tensor.shape
    axis = _axis(node, where, len(shape))
    taken = types[indices.name].shape if isinstance(indices, Ref) else ()
    return (*shape[:axis], *taken, *shape[axis + 1 :])
