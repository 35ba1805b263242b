"""Analysis: which loops a group runs over, what each value depends on, and where each access lands.

Every value is placed: its dims are mapped to axes of the iteration space. A node used under two mappings
(once aligned to the output, once to the indices of a gather, say) is two placed values. Adjacent axes that
every access walks together become one loop; the last loop is the inner one, all others are rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .group import Dim, DimSize, Literal, Node, Ref, ScalarSpec, TensorSpec
from .layout import CONTIGUOUS, Layout
from .verify import Verified

Axes = tuple[int | None, ...]
Key = tuple[str, Axes]


@dataclass(frozen=True)
class Loop:
    """A run of adjacent axes of the iteration space, walked as one."""

    axes: tuple[int, ...]
    dims: tuple[Dim, ...]

    @property
    def size(self) -> int | None:
        """Its extent where all its dims are integers."""
        product = 1
        for dim in self.dims:
            if isinstance(dim, str):
                return None
            product *= dim
        return product


@dataclass(frozen=True)
class Step:
    """One term of an offset: coordinate along a loop or a gathered index, over these dims of the tensor."""

    tensor_axes: tuple[int, ...]
    dims: tuple[Dim, ...]
    loop: int | None
    gathered: Key | DimSize | Literal | None = None


@dataclass(frozen=True)
class Access:
    """Where one load or store lands: outermost step first."""

    tensor: str
    steps: tuple[Step, ...]
    layout: Layout


@dataclass(frozen=True)
class Placed:
    """A value under one mapping. `loops` are the loops it depends on; access is set for tensor inputs."""

    key: Key
    item: TensorSpec | ScalarSpec | Node
    operands: tuple[Key | DimSize | Literal, ...]
    loops: frozenset[int]
    access: Access | None = None


@dataclass(frozen=True)
class Analysis:
    """What emission needs to know of a group under given layouts.

    values: each after its operands. stores: an access and the value's key for each output.
    """

    verified: Verified
    loops: tuple[Loop, ...]
    values: tuple[Placed, ...]
    stores: tuple[tuple[str, Key, Access], ...]


Gather = tuple[str, Axes, int, Key | DimSize | Literal]


@dataclass
class _Placement:
    verified: Verified
    order: list[Key] = field(default_factory=list)
    operands: dict[Key, tuple[Key | DimSize | Literal, ...]] = field(default_factory=dict)
    gathers: dict[Key, Gather] = field(default_factory=dict)


def analyse(verified: Verified, layouts: Mapping[str, Layout]) -> Analysis:
    """Place every value, fuse axes into loops and resolve every access."""
    placement = _place(verified)
    space = verified.space
    axes_of: dict[str, Axes] = {o: _trailing(verified.types[o].shape, space) for o in verified.group.outputs}
    walks = _walks(placement, axes_of, layouts)
    loops = _fuse(space, walks, _indexed(placement))
    return _resolve(placement, loops, axes_of, layouts)


def _trailing(shape: tuple[Dim, ...], space: tuple[Dim, ...]) -> Axes:
    """Dims aligned to the last axes of the space; a dim of size 1 follows no axis."""
    first = len(space) - len(shape)
    return tuple(None if dim == 1 else first + k for k, dim in enumerate(shape))


def _place(verified: Verified) -> _Placement:
    group, types = verified.group, verified.types
    placement = _Placement(verified)
    stack: list[tuple[Key, bool]] = [
        ((o, _trailing(types[o].shape, verified.space)), False) for o in reversed(group.outputs)
    ]
    done: set[Key] = set()
    while stack:
        key, leaving = stack.pop()
        if leaving:
            placement.order.append(key)
            continue
        if key in done:
            continue
        done.add(key)
        stack.append((key, True))
        operands = _operand_keys(placement, key)
        placement.operands[key] = operands
        stack.extend((o, False) for o in reversed(operands) if isinstance(o, tuple) and o not in done)
    return _ordered(placement)


def _ordered(placement: _Placement) -> _Placement:
    """Inputs first, in the description's order; nodes in the order in which the description lists them."""
    group = placement.verified.group
    rank = {item.name: n for n, item in enumerate((*group.inputs, *group.nodes))}
    placement.order = sorted(placement.operands, key=lambda key: rank[key[0]])
    return placement


def _operand_keys(placement: _Placement, key: Key) -> tuple[Key | DimSize | Literal, ...]:
    name, axes = key
    item = placement.verified.group.by_name[name]
    types = placement.verified.types
    if not isinstance(item, Node):
        return ()
    if item.op == "take":
        source, indices = item.operands
        assert isinstance(source, Ref)
        shape = types[source.name].shape
        axis = int(item.attribute("axis")) % len(shape)
        taken = len(types[indices.name].shape) if isinstance(indices, Ref) else 0
        index_axes = axes[axis : axis + taken]
        inner = axes[axis + taken :]
        index = (indices.name, index_axes) if isinstance(indices, Ref) else indices
        placement.gathers[key] = (source.name, (*axes[:axis], None, *inner), axis, index)
        return (index,)
    keys: list[Key | DimSize | Literal] = []
    for operand in item.operands:
        if isinstance(operand, Ref):
            shape = types[operand.name].shape
            aligned = axes[len(axes) - len(shape) :]
            keys.append((operand.name, tuple(None if d == 1 else a for d, a in zip(shape, aligned, strict=True))))
        else:
            keys.append(operand)
    return tuple(keys)


def _indexed(placement: _Placement) -> set[int]:
    """Axes whose coordinate is a value of its own: they stay loops of their own."""
    found: set[int] = set()
    for name, axes in placement.order:
        item = placement.verified.group.by_name[name]
        if isinstance(item, Node) and item.op == "index":
            found |= {a for a in axes if a is not None}
    return found


Walk = tuple[Axes, bool]


def _walks(placement: _Placement, outputs: Mapping[str, Axes], layouts: Mapping[str, Layout]) -> list[Walk]:
    """The axes each access walks, one per tensor dim, and whether its memory is contiguous."""
    walks: list[Walk] = []
    group = placement.verified.group
    for name, axes in placement.order:
        if isinstance(group.by_name[name], TensorSpec):
            walks.append((axes, layouts.get(name, CONTIGUOUS).contiguous))
    for source, axes, *_ in placement.gathers.values():
        walks.append((axes, layouts.get(source, CONTIGUOUS).contiguous))
    for name, axes in outputs.items():
        walks.append((axes, layouts.get(name, CONTIGUOUS).contiguous))
    return walks


def _fuse(space: tuple[Dim, ...], walks: list[Walk], indexed: set[int]) -> tuple[Loop, ...]:
    """Join axis a to a + 1 where every access walks both, one right after the other, or neither."""
    axes = [a for a, dim in enumerate(space) if dim != 1]
    runs: list[list[int]] = []
    for axis in axes:
        if runs and not {runs[-1][-1], axis} & indexed and _together(runs[-1][-1], axis, walks):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return tuple(Loop(tuple(run), tuple(space[a] for a in run)) for run in runs)


def _together(a: int, b: int, walks: list[Walk]) -> bool:
    for axes, contiguous in walks:
        if (a in axes) != (b in axes):
            return False
        if a in axes:
            between = [x for x in axes[axes.index(a) + 1 : axes.index(b)] if x is not None]
            ordered = axes.index(a) < axes.index(b)
            if not contiguous or not ordered or between or axes.index(b) - axes.index(a) > 1:
                return False
    return True


def _resolve(
    placement: _Placement, loops: tuple[Loop, ...], outputs: Mapping[str, Axes], layouts: Mapping[str, Layout]
) -> Analysis:
    verified = placement.verified
    group = verified.group
    loop_of = {axis: n for n, loop in enumerate(loops) for axis in loop.axes}
    depends: dict[Key, frozenset[int]] = {}
    values: list[Placed] = []

    def access(tensor: str, axes: Axes, gathered: tuple[int, Key | DimSize | Literal] | None = None) -> Access:
        shape = verified.types[tensor].shape
        return Access(tensor, _steps(shape, axes, loop_of, gathered), layouts.get(tensor, CONTIGUOUS))

    for key in placement.order:
        name, axes = key
        item = group.by_name[name]
        operands = placement.operands[key]
        own = frozenset(loop_of[a] for a in axes if a is not None and a in loop_of)
        where = None
        if isinstance(item, TensorSpec):
            where = access(name, axes)
        elif key in placement.gathers:
            source, source_axes, axis, index = placement.gathers[key]
            where = access(source, source_axes, (axis, index))
        elif isinstance(item, Node) and item.op != "index":
            own = frozenset().union(*(depends[o] for o in operands if isinstance(o, tuple)))
        depends[key] = own
        values.append(Placed(key, item, operands, own, where))
    stores = tuple((o, (o, axes), access(o, axes)) for o, axes in outputs.items())
    return Analysis(verified, loops, tuple(values), stores)


def _steps(
    shape: tuple[Dim, ...], axes: Axes, loop_of: Mapping[int, int], gathered: tuple[int, Key | DimSize | Literal] | None
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for position, (dim, axis) in enumerate(zip(shape, axes, strict=True)):
        if gathered is not None and position == gathered[0]:
            steps.append(Step((position,), (dim,), None, gathered[1]))
        elif axis is not None and axis in loop_of:
            loop = loop_of[axis]
            if steps and steps[-1].loop == loop:
                last = steps.pop()
                steps.append(Step((*last.tensor_axes, position), (*last.dims, dim), loop))
            else:
                steps.append(Step((position,), (dim,), loop))
    return tuple(steps)
