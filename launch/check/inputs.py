"""One random call of a group: sizes, values, strides and alignment, all from a seed and the case's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from emitter.dtypes import DType
from emitter.group import Dim, FusionGroup, Node, Ref, TensorSpec
from emitter.verify import Verified, verify

Array = np.ndarray[Any, Any]

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 33, 64, 65, 127, 129, 255, 257, 1023, 1024, 1025, 2048, 4099, 70001)
"""Sizes of dims: around the widths of vectors and tiles."""
ELEMENTS = 2**15
MANY_ELEMENTS = 2**18
"""Most elements of an array in a usual case, and in every eighth."""


@dataclass(frozen=True)
class Case:
    """One call. arguments: NumPy arrays, whose strides count, and numbers. aligns: bytes past a multiple of 16, or 16.

    outs: arrays whose shapes and strides the outputs get; None lets the kernel allocate them.
    """

    number: int
    sizes: Mapping[str, int]
    arguments: tuple[Any, ...]
    aligns: tuple[int, ...]
    outs: tuple[Array, ...] | None


def draw(group: FusionGroup, seed: int, number: int, static: Mapping[str, int] | None = None) -> Case:
    """Case `number` of a seed; `static` fixes sizes of dims."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
    verified = verify(group)
    sizes = _sizes(rng, verified, MANY_ELEMENTS if number % 8 == 7 else ELEMENTS, static or {})
    taken = _taken_axes(verified, sizes)
    strided = number % 2 == 1
    arguments: list[Any] = []
    aligns = []
    for item in group.inputs:
        if not isinstance(item, TensorSpec):
            arguments.append(_values(rng, item.dtype, ()).item())
            aligns.append(16)
            continue
        shape = _shape(item.shape, sizes)
        if item.name in taken:
            array = _indices(rng, item.dtype, shape, taken[item.name])
        else:
            array = _values(rng, item.dtype, shape)
        arguments.append(_laid_out(rng, array) if strided else array)
        aligns.append(int(rng.choice((16, item.dtype.itemsize))))
    types = [verified.types[o] for o in group.outputs]
    outs = [np.zeros(_shape(t.shape, sizes), t.dtype.numpy) for t in types]
    if strided:
        outs = [_laid_out(rng, out, repeats=False) for out in outs]
    return Case(number, sizes, tuple(arguments), tuple(aligns), tuple(outs) if rng.random() < 0.7 else None)


def _shape(dims: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[d] if isinstance(d, str) else d for d in dims)


def _sizes(rng: np.random.Generator, verified: Verified, most: int, static: Mapping[str, int]) -> dict[str, int]:
    """A size for each dim, such that no tensor and no output has more than `most` elements."""
    shapes = [t.shape for t in verified.group.tensors] + [verified.space]
    sizes = dict(static)
    for position in rng.permutation(len(verified.group.dims)):
        dim = verified.group.dims[position]
        if dim in sizes:
            continue
        room = most
        for shape in shapes:
            power = shape.count(dim)
            others = [d if isinstance(d, int) else sizes.get(d, 1) for d in shape if d != dim]
            if power:
                room = min(room, int((most / max(1, int(np.prod(others)))) ** (1 / power)))
        fitting = [s for s in SIZES if s <= max(room, 1)]
        # An empty axis leaves little to check, so it is drawn one time in twelve.
        sizes[dim] = 0 if rng.random() < 1 / 12 else int(rng.choice(fitting[1:]))
    return sizes


def _taken_axes(verified: Verified, sizes: Mapping[str, int]) -> dict[str, int]:
    """Inputs that are indices of a gather, and the size of the axis they index."""
    found = {}
    for node in verified.group.nodes:
        if isinstance(node, Node) and node.op == "take":
            source, indices = node.operands
            if isinstance(source, Ref) and isinstance(indices, Ref):
                dims = verified.types[source.name].shape
                (found[indices.name],) = _shape([dims[int(node.attribute("axis")) % len(dims)]], sizes)
    return found


def _indices(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], size: int) -> Array:
    """Positions in an axis, from both ends; one in ten anywhere at all."""
    low, high = dtype.limits
    near = rng.integers(max(low, -size - 1), min(high, size + 1), shape, endpoint=True)
    return np.where(rng.random(shape) < 0.9, near, _any_bits(rng, dtype, shape)).astype(dtype.numpy)


def _values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype.kind == "bool":
        return _mask(rng, shape)
    kind = rng.choice(("usual", "usual", "special", "any bits"))
    if kind == "special":
        return rng.choice(_special(dtype), shape).astype(dtype.numpy)
    if kind == "any bits":
        return _any_bits(rng, dtype, shape)
    if dtype.is_float:
        return rng.normal(scale=rng.choice((0.1, 1.0, 4.0)), size=shape).astype(dtype.numpy)
    return rng.integers(0 if dtype.kind == "uint" else -8, 100, shape).astype(dtype.numpy)


def _mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """All true, all false, a single element, or half of them."""
    kind = rng.choice(("true", "false", "single", "half", "half"))
    if kind == "half":
        return np.asarray(rng.random(shape) < 0.5)
    mask = np.full(shape, kind == "true")
    if kind == "single" and mask.size:
        mask[tuple(int(rng.integers(n)) for n in shape)] = True
    return mask


def _any_bits(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize) - 1, shape, unsigned, endpoint=True)
    return np.asarray(bits, unsigned).view(dtype.numpy)


def _special(dtype: DType) -> Array:
    """Limits, zeros of both signs, subnormals, infinities, NaN, ties."""
    if dtype.is_integer:
        low, high = dtype.limits
        return np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 7, high // 2], dtype.numpy)
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    limits = [float(v) for v in (info.smallest_subnormal, info.smallest_normal, info.max, 1 + info.eps)]
    numbers = np.array([0.0, *limits, 0.5, 1.0, 1.5, 2.5, 3.0, 88.5, 100.0, 2.0**31, np.inf, np.nan])
    with np.errstate(over="ignore"):
        return np.concatenate([numbers, -numbers]).astype(dtype.numpy)


def _laid_out(rng: np.random.Generator, array: Array, repeats: bool = True) -> Array:
    """A view with the same shape and elements whose strides are drawn; with `repeats` also strides of 0."""
    if array.ndim == 0 or array.size == 0:
        return array
    kinds = ("contiguous", "transposed", "sliced", "reversed", *(("repeated",) if repeats else ()))
    kind = rng.choice(kinds)
    if kind == "transposed":
        order = rng.permutation(array.ndim)
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    if kind == "repeated":
        axis = int(rng.integers(array.ndim))
        return np.broadcast_to(array.take([0], axis), array.shape)
    if kind == "contiguous":
        return array
    steps = [int(rng.choice((1, 2, 3) if kind == "sliced" else (1, -1))) for _ in range(array.ndim)]
    base = np.zeros([n * abs(step) for n, step in zip(array.shape, steps, strict=True)], array.dtype)
    view = base[tuple(slice(None, None, step) for step in steps)]
    view[...] = array
    return view
