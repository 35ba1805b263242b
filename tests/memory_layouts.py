"""Hypothesis strategies for arrays: their values, and how they lie in memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from emitter.dtypes import DType

KINDS = ("small", "any bits", "special", "mixed")


@st.composite
def values(draw: st.DrawFn, dtype: DType, shape: tuple[int, ...], indices_of: int | None = None) -> np.ndarray:
    """An array of `dtype`. indices_of: mostly positions in an axis of this size.

    Elements come from a seed and a kind of values, both drawn: small numbers, any bit pattern, special values.
    """
    kind = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if indices_of is not None:
        low, high = dtype.limits
        least, most = max(low, -indices_of - 1), min(high, indices_of + 1)
        near = rng.integers(least, most, shape, endpoint=True)
        return np.asarray(np.where(rng.random(shape) < 0.9, near, any_bits(rng, dtype, shape)), dtype.numpy)
    return of_kind(kind, rng, dtype, shape)


def of_kind(kind: str, rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Values of one of KINDS."""
    if kind == "small":
        low = 0 if dtype.kind in ("uint", "bool") else -8
        numbers = rng.integers(low, 9, shape)
        return np.asarray(numbers / 2 if dtype.is_float else numbers, dtype.numpy)
    if kind == "any bits":
        return any_bits(rng, dtype, shape)
    if kind == "special":
        return np.asarray(rng.choice(special(dtype), shape), dtype.numpy)
    one_of = rng.integers(0, 3, shape)
    parts = [of_kind(k, rng, dtype, shape) for k in KINDS[:3]]
    return np.asarray(np.choose(one_of, [p.view(f"u{p.itemsize}") for p in parts])).view(dtype.numpy)


def any_bits(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Every bit pattern is as likely as any other."""
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize) - 1, shape, np.dtype(f"u{dtype.itemsize}"), endpoint=True)
    return np.asarray(bits).view(dtype.numpy)


def special(dtype: DType) -> np.ndarray:
    """Where code goes wrong: limits, zeros of both signs, subnormals, infinities, NaN, ties."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.is_integer:
        low, high = dtype.limits
        return np.array(
            [low, low + 1, high, high - 1, 0, 1, 2, 3, high // 2, high // 3] + [-1] * (low < 0), dtype.numpy
        )
    info = ml_dtypes.finfo(dtype.numpy)
    tiny, least, most = (float(v) for v in (info.smallest_normal, info.smallest_subnormal, info.max))
    finite = [0.0, tiny, tiny - least, least, most, 1.0, 1.0 + float(info.eps), 0.5, 1.5, 2.5, 3.0, 100.0, 1e-3]
    finite += [2.0**31, 2.0**63, 2.0**24 + 2, 88.5, 710.0, 65504.0, 65520.0]
    both = np.array([*finite, np.inf, np.nan], np.float64)
    with np.errstate(all="ignore"):
        return np.concatenate([both, -both]).astype(dtype.numpy)


@st.composite
def laid_out(draw: st.DrawFn, array: np.ndarray, repeats: bool = True) -> np.ndarray:
    """A view with the shape and (but for repeats) the elements of `array`, and with drawn strides.

    repeats: axes of stride 0 are drawn too, along which the first elements repeat.
    """
    kind = draw(st.sampled_from(("contiguous", "contiguous", "transposed", "sliced", "reversed", "repeated", "mixed")))
    if kind == "contiguous" or array.ndim == 0 or array.size == 0 or (kind == "repeated" and not repeats):
        return array
    order = tuple(draw(st.permutations(range(array.ndim)))) if kind in ("transposed", "mixed") else range(array.ndim)
    steps = []
    for _ in range(array.ndim):
        choices = {"sliced": (1, 2, 3), "reversed": (1, -1), "mixed": (1, -1, 2, 16), "repeated": (1, 0)}.get(
            kind, (1,)
        )
        steps.append(draw(st.sampled_from(choices)))
    return view_with(array, order, steps)


def view_with(array: np.ndarray, order: tuple[int, ...] | range, steps: list[int]) -> np.ndarray:
    """The elements of `array` in memory whose axes lie in `order`, each with a step (0: the first repeats)."""
    sizes = [1 if step == 0 else size * abs(step) for size, step in zip(array.shape, steps, strict=True)]
    memory = np.zeros([sizes[axis] for axis in order], array.dtype)
    view = memory.transpose(np.argsort(order))
    view = view[tuple(slice(None) if step == 0 else slice(None, None, step) for step in steps)]
    repeated = tuple(slice(0, 1) if step == 0 else slice(None) for step in steps)
    view[...] = array[repeated]
    return np.broadcast_to(view, array.shape) if 0 in steps else view
