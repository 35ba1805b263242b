"""Cases of a check: sizes, values and memory layouts, drawn from a seed and the case's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from emitter.analysis import analyse
from emitter.dtypes import DType
from emitter.group import ScalarSpec
from emitter.verify import Verified

from .cpu.memory import Side

USUAL_ELEMENTS, MOST_ELEMENTS = 2**16, 2**19
"""The largest tensor of most cases, and of a few."""

LAYOUTS = ("contiguous", "contiguous", "transposed", "sliced", "padded rows", "reversed", "broadcast")
KINDS = ("ordinary", "small", "any bits", "special", "mixed")


@dataclass(frozen=True)
class Tensor:
    """One tensor of a case.

    array: its elements, with the strides to be used. layout: what these are called. align: element 0 lies at a multiple
    of 16 bytes, or where it is below 16, so many bytes behind one. side: the end that abuts a guard page on the CPU.
    """

    array: np.ndarray
    layout: str
    align: int
    side: Side

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def __str__(self) -> str:
        aligned = "" if self.align == 16 else f", {self.align} bytes off 16-byte alignment"
        return f"shape {self.array.shape}, {self.layout}, strides {self.strides}{aligned}"


@dataclass(frozen=True)
class Case:
    """One call of a group. inputs: tensors and numbers, in order. outputs: None where the call allocates them."""

    number: int
    inputs: Mapping[str, Tensor | Any]
    outputs: Mapping[str, Tensor] | None

    @cached_property
    def arguments(self) -> list[Any]:
        """The inputs as NumPy takes them."""
        return [given.array if isinstance(given, Tensor) else given for given in self.inputs.values()]


def draw_case(verified: Verified, seed: int, number: int) -> Case:
    """Case `number` of `seed`: the same on every machine. `verified` is the group with static dims pinned."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
    group = verified.group
    most = MOST_ELEMENTS if rng.random() < 1 / 16 else USUAL_ELEMENTS
    sizes = _sizes(rng, verified, most)
    indexed = _indexed(verified, sizes)
    strided = rng.random() < 0.6
    inputs: dict[str, Any] = {}
    for item in group.inputs:
        if isinstance(item, ScalarSpec):
            inputs[item.name] = _values(rng, item.dtype, ()).item()
            continue
        shape = _shape(item.shape, sizes)
        limit = indexed.get(item.name)
        values = _values(rng, item.dtype, shape) if limit is None else _indices(rng, item.dtype, shape, limit)
        inputs[item.name] = _placed(rng, values, strided, LAYOUTS)
    outputs = None
    if rng.random() < 0.7:
        types = {name: verified.types[name] for name in group.outputs}
        outputs = {
            name: _placed(rng, np.zeros(_shape(t.shape, sizes), t.dtype.numpy), strided, LAYOUTS[:-1])
            for name, t in types.items()
        }
    return Case(number, inputs, outputs)


def _shape(dims: Sequence[str | int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[d] if isinstance(d, str) else d for d in dims)


def _sizes(rng: np.random.Generator, verified: Verified, most: int) -> dict[str, int]:
    """A size for each dim, such that no tensor has more than `most` elements where a size decides it."""
    spaces = [t.shape for t in verified.group.tensors] + [verified.space]
    dims = verified.group.dims
    empty = dims[rng.integers(len(dims))] if dims and rng.random() < 1 / 12 else None
    sizes: dict[str, int] = {}
    for drawn_before, position in enumerate(rng.permutation(len(dims))):
        dim = dims[position]
        largest = most
        for shape in spaces:
            if power := shape.count(dim):
                others = [sizes.get(d, 1) if isinstance(d, str) else d for d in shape if d != dim]
                held = int(np.prod([max(size, 1) for size in others], dtype=np.int64))
                largest = min(largest, int((most / held) ** (1 / power)))
        left = len(dims) - drawn_before
        if rng.random() < 0.8:  # else this dim may leave nothing for those after it
            largest = int(largest ** (2 / (left + 1)))
        full = left == 1 and most == MOST_ELEMENTS
        drawn = int(largest * (1 - rng.random() / 4)) if full else _size(rng, max(largest, 1))
        sizes[dim] = 0 if dim == empty else drawn
    return sizes


def _size(rng: np.random.Generator, largest: int) -> int:
    """1, a power of two or its neighbour (as vectors and tiles end there), or anything up to `largest`."""
    kind = rng.random()
    if kind < 0.1:
        return 1
    if kind < 0.6:
        near = (1 << int(rng.integers(0, largest.bit_length()))) + int(rng.integers(-1, 2))
        return min(max(near, 1), largest)
    return int(float(largest) ** float(rng.random()))


def _indexed(verified: Verified, sizes: Mapping[str, int]) -> dict[str, int]:
    """Inputs that are the indices of a gather, and the size of the axis they index."""
    found = {}
    for value in analyse(verified, {}).values:
        for step in value.access.steps if value.access else ():
            if isinstance(step.gathered, tuple):
                (found[step.gathered[0]],) = _shape(step.dims, sizes)
    return found


def _indices(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], size: int) -> np.ndarray:
    """Mostly positions in an axis of this size, counted from either end; some just or far outside."""
    low, high = dtype.limits
    near = rng.integers(max(low, -size - 1), min(high, size + 1), shape, dtype=np.int64, endpoint=True)
    return np.asarray(np.where(rng.random(shape) < 0.9, near.astype(dtype.numpy), _any_bits(rng, dtype, shape)))


def _values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind == "bool":
        return _mask(rng, shape)
    return _of_kind(KINDS[rng.integers(len(KINDS))], rng, dtype, shape)


def _mask(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """All true, all false, a single lane, or coin tosses."""
    kind = rng.integers(4)
    mask = np.full(shape, kind == 0)
    if kind == 1 and mask.size:
        mask.reshape(-1)[rng.integers(mask.size)] = True
    return np.asarray(rng.random(shape) < 0.5) if kind == 2 else mask


def _of_kind(kind: str, rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "ordinary" and dtype.is_float:
        return np.asarray(rng.normal(scale=4, size=shape)).astype(dtype.numpy)
    if kind in ("ordinary", "small"):
        numbers = rng.integers(0 if dtype.kind == "uint" else -8, 9, shape)
        return np.asarray(numbers / 2 if dtype.is_float else numbers).astype(dtype.numpy)
    if kind == "any bits":
        return _any_bits(rng, dtype, shape)
    if kind == "special":
        return np.asarray(rng.choice(special_values(dtype), shape), dtype.numpy)
    parts = [_of_kind(k, rng, dtype, shape).view(f"u{dtype.itemsize}") for k in KINDS[:-1]]
    return np.asarray(np.choose(rng.integers(0, len(parts), shape), parts)).view(dtype.numpy)


def _any_bits(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize) - 1, shape, unsigned.type, endpoint=True)
    return np.asarray(bits).view(dtype.numpy)


def special_values(dtype: DType) -> np.ndarray:
    """Where code goes wrong: limits, zeros of both signs, subnormals, infinities, NaN, ties, edges of exp."""
    if dtype.is_integer:
        low, high = dtype.limits
        return np.array([low, low + 1, high, high - 1, 0, 1, 2, high // 2] + [-1] * (low < 0), dtype.numpy)
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    tiny, least, most = (float(v) for v in (info.smallest_normal, info.smallest_subnormal, info.max))
    finite = [0.0, least, tiny - least, tiny, most, 1.0, 1.0 + float(info.eps), 0.5, 1.5, 2.5, 88.5, 100.0, 710.0]
    both = np.array([*finite, 2.0**24 + 2, 2.0**31, 2.0**63, 65520.0, np.inf, np.nan], np.float64)
    with np.errstate(all="ignore"):
        return np.concatenate([both, -both]).astype(dtype.numpy)


def _placed(rng: np.random.Generator, values: np.ndarray, strided: bool, layouts: Sequence[str]) -> Tensor:
    layout = layouts[int(rng.integers(len(layouts)))]
    align = values.itemsize if values.itemsize < 16 and rng.random() < 0.3 else 16
    side: Side = "start" if rng.random() < 0.3 else "end"
    if not strided or values.ndim == 0 or values.size == 0 or layout == "contiguous":
        return Tensor(values, "contiguous", align, side)
    order = [*range(values.ndim)]
    steps = [1] * values.ndim
    axis = int(rng.integers(values.ndim))
    padding = 0
    if layout == "transposed":
        order = [int(a) for a in rng.permutation(values.ndim)]
    elif layout == "sliced":
        steps[axis] = int(rng.integers(2, 4))
    elif layout == "reversed":
        steps[axis] = -1
    elif layout == "broadcast":
        steps[axis] = 0
    else:
        padding = int(rng.integers(1, 18))
    laid = _with_strides(values, order, steps, padding)
    return Tensor(laid, "contiguous" if laid.flags.c_contiguous else layout, align, side)


def _with_strides(values: np.ndarray, order: Sequence[int], steps: Sequence[int], padding: int) -> np.ndarray:
    """The values in memory whose axes lie in `order`, each with a step (0: the first repeats), and padded rows."""
    sizes = [1 if step == 0 else size * abs(step) for size, step in zip(values.shape, steps, strict=True)]
    memory = np.zeros([sizes[axis] + padding * (axis == order[-1]) for axis in order], values.dtype)
    view = memory.transpose(np.argsort(order))
    view = view[tuple(slice(size) for size in sizes)][tuple(slice(None, None, step or None) for step in steps)]
    view[...] = values[tuple(slice(0, 1) if step == 0 else slice(None) for step in steps)]
    return np.broadcast_to(view, values.shape)
