"""Hypothesis strategies for calls of groups.

`calls()` gives a verified group, sizes of its dims, arguments with their memory layouts, and the choices of emission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from group_strategies import Draw, groups
from hypothesis import settings
from hypothesis import strategies as st
from memory_layouts import laid_out, values

from emitter.group import FusionGroup, Ref, ScalarSpec, TensorSpec
from emitter.schedule import Schedule
from emitter.verify import Shape, Verified, verify

SIZES = (2, 1, 3, 0, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025)
"""Sizes of dims: few, and around the widths of vectors and tiles."""
MOST_ELEMENTS = 6000


def examples(count: int) -> settings:
    """So many examples in the `ci` profile, and in others in proportion."""
    return settings(max_examples=max(1, count * settings().max_examples // 100))


@dataclass(frozen=True)
class Call:
    """A group and one call of it. Arrays have the strides to be used; `aligns` as for `Arrays.place`, by argument.

    outs: templates of the `out=` arrays, whose contents mean nothing; None where outputs are allocated.
    """

    group: FusionGroup
    sizes: Mapping[str, int]
    arguments: tuple[Any, ...]
    aligns: tuple[int, ...]
    outs: tuple[np.ndarray, ...] | None
    schedule: Schedule | None
    static: Mapping[str, int]

    @cached_property
    def verified(self) -> Verified:
        return verify(self.group)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.sizes[d] if isinstance(d, str) else d for d in self.verified.types[name].shape)


@st.composite
def calls(draw: Draw, exact: bool = False, layouts: bool = True) -> Call:
    """A group and a call. exact: only ops that kernels compute bit for bit, with the sign of every zero decided."""
    group = draw(groups(exact))
    verified = verify(group)
    sizes = draw(dim_sizes(group))
    rows = _taken_axes(verified, sizes)

    def shape(dims: Shape) -> tuple[int, ...]:
        return tuple(sizes[d] if isinstance(d, str) else d for d in dims)

    arguments: list[Any] = []
    for item in group.inputs:
        if isinstance(item, ScalarSpec):
            arguments.append(draw(values(item.dtype, ())).item())
            continue
        array = draw(values(item.dtype, shape(item.shape), rows.get(item.name)))
        arguments.append(draw(laid_out(array)) if layouts else array)
    aligns = tuple(
        draw(st.sampled_from((16, i.dtype.itemsize))) if layouts and isinstance(i, TensorSpec) else 16
        for i in group.inputs
    )
    outs = None
    if draw(st.booleans()):
        templates = [np.zeros(shape(verified.types[o].shape), verified.types[o].dtype.numpy) for o in group.outputs]
        outs = tuple(draw(laid_out(t, repeats=False)) if layouts else t for t in templates)
    pinned = draw(st.sets(st.sampled_from(group.dims), max_size=2)) if group.dims and draw(st.booleans()) else set()
    # Of several outputs, an axis that is always empty leaves those without it to a group of their own.
    static = {d: sizes[d] for d in sorted(pinned) if sizes[d] or len(group.outputs) == 1}
    return Call(group, sizes, tuple(arguments), aligns, outs, draw(schedules()), static)


def _taken_axes(verified: Verified, sizes: Mapping[str, int]) -> dict[str, int]:
    """Inputs that are indices of a gather, and the size of the axis they index."""
    found = {}
    for node in verified.group.nodes:
        if node.op == "take" and isinstance(node.operands[1], Ref):
            source = node.operands[0]
            assert isinstance(source, Ref)
            dims = verified.types[source.name].shape
            dim = dims[int(node.attribute("axis")) % len(dims)]
            found[node.operands[1].name] = sizes[dim] if isinstance(dim, str) else dim
    return found


@st.composite
def schedules(draw: Draw) -> Schedule | None:
    """The chosen schedule, or small tiles, so that small arrays take several of them."""
    if draw(st.booleans()):
        return None
    tile = draw(st.sampled_from((4096, 256, 64)))
    return Schedule(
        tile=tile,
        columns=draw(st.sampled_from((16, 64, tile))),
        num_warps=draw(st.sampled_from((4, 8))),
        vector=draw(st.sampled_from((1, 2, 4, 8, 16))),
        threads=draw(st.sampled_from((32, 64, 256))),
        rows=draw(st.integers(1, 5)),
    )


@st.composite
def dim_sizes(draw: Draw, group: FusionGroup, most: int = MOST_ELEMENTS) -> dict[str, int]:
    """A size for each dim, such that no tensor and no output has more than `most` elements."""
    spaces = [t.shape for t in group.tensors] + [verify(group).space]
    sizes: dict[str, int] = {}
    for dim in group.dims:
        largest = most
        for shape in spaces:
            count = 1
            for d in shape:
                count *= 1 if d == dim else sizes.get(d, 1) if isinstance(d, str) else d
            power = shape.count(dim)
            if power:
                largest = min(largest, int((most / max(count, 1)) ** (1 / power)))
        sizes[dim] = draw(st.sampled_from([s for s in SIZES if s <= max(largest, 1)]))
    return sizes
