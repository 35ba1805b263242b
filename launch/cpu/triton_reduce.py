"""Reductions and scans of interpreted kernels: the combine function itself, over whole blocks.

Upstream calls the combine function once for each element, and puts NumPy functions in place of the known ones, with
another meaning for NaN. Here every reduction does what its combine function says, in an order like a warp's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core

from .triton_tensors import block, scalar, unwrap


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """`tl.reduce`: the first half of the axis with the second, until one is left."""
    inputs = [input] if isinstance(input, tl.tensor) else list(input)
    axis, keep_dims, rank = unwrap(axis), unwrap(keep_dims), len(inputs[0].shape)
    dtypes = [tensor.dtype for tensor in inputs]
    arrays = [tensor.handle.data.reshape(-1) if axis is None else tensor.handle.data for tensor in inputs]
    along = 0 if axis is None else core._wrap_axis(axis, rank)
    while (size := arrays[0].shape[along]) > 1:
        halves = [np.split(array, [size // 2], axis=along) for array in arrays]
        arrays = _combined(combine_fn, [half[0] for half in halves], [half[1] for half in halves], dtypes)
    if keep_dims:
        arrays = [array.reshape((1,) * rank) if axis is None else array for array in arrays]
    elif arrays[0].ndim > 1:
        arrays = [array.squeeze(along) for array in arrays]
    make = scalar if not keep_dims and (axis is None or rank == 1) else block
    results = tuple(make(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True))
    return results[0] if isinstance(input, tl.tensor) else results


def reduce_with_indices(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """What `tl.argmax` and its kin build on: the values with their indices along the axis."""
    shape = input.handle.data.shape
    column = _positions(shape, core._wrap_axis(unwrap(axis), len(shape))).astype(np.int32)
    return reduce((input, block(np.broadcast_to(column, shape), tl.int32)), axis, combine_fn, keep_dims)


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """`tl.associative_scan`, in log2(size) steps that keep the order of the operands."""
    inputs = [input] if isinstance(input, tl.tensor) else list(input)
    along = core._wrap_axis(unwrap(axis), len(inputs[0].shape))
    dtypes = [tensor.dtype for tensor in inputs]

    def flip(array: Any) -> Any:
        return np.flip(array, along) if unwrap(reverse) else array

    arrays = [flip(tensor.handle.data) for tensor in inputs]
    position, distance = _positions(arrays[0].shape, along), 1
    while distance < arrays[0].shape[along]:
        shifted = [np.roll(array, distance, along) for array in arrays]
        new = _combined(combine_fn, shifted, arrays, dtypes)
        arrays = [np.where(position < distance, old, value) for old, value in zip(arrays, new, strict=True)]
        distance *= 2
    results = tuple(block(flip(array), dtype) for array, dtype in zip(arrays, dtypes, strict=True))
    return results[0] if isinstance(input, tl.tensor) else results


def _positions(shape: tuple[int, ...], along: int) -> Any:
    return np.arange(shape[along]).reshape([-1 if i == along else 1 for i in range(len(shape))])


def _combined(combine: Callable[..., Any], left: list[Any], right: list[Any], dtypes: list[Any]) -> list[Any]:
    """The arrays of `combine` over blocks, one a dtype."""
    tensors = [block(data, dtype) for side in (left, right) for data, dtype in zip(side, dtypes, strict=True)]
    results = combine(*tensors)
    results = results if isinstance(results, (tuple, tl.tuple)) else (results,)
    if [result.dtype for result in results] != dtypes:
        got = ", ".join(str(result.dtype) for result in results)
        raise TypeError(f"the combine function returns ({got}), expected ({', '.join(map(str, dtypes))})")
    return [np.broadcast_to(result.handle.data, left[0].shape) for result in results]
