"""Evaluating one op in NumPy, in either of two modes.

exact: floats are held in float64 and no intermediate is rounded; only a cast rounds. This is the reference.
compute: floats are held in their compute type (f32, or f64), and every op rounds there. Where an op's `ulp`
is None this is what kernels give bit for bit; elsewhere it is the exact result rounded once.
Integers and bool keep their own type in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..dtypes import F64, DType
from ..errors import LiteralOverflow
from ..group import Attributes
from ..numerics import Array, round_to, saturate
from .opdef import Number, OpDef, Signature

Mode = Literal["exact", "compute"]


def held(dtype: DType, mode: Mode) -> np.dtype:
    """The NumPy type that holds values of `dtype`."""
    return F64.numpy if dtype.is_float and mode == "exact" else dtype.compute.numpy


def load(array: Array, dtype: DType, mode: Mode) -> Array:
    """A stored array of `dtype`, held."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        return np.asarray(array).astype(held(dtype, mode))


def store(array: Array, dtype: DType) -> Array:
    """A held array of `dtype`, rounded once to its storage type."""
    with np.errstate(all="ignore"):
        return round_to(np.asarray(array), dtype)


def literal(value: Number, dtype: DType, mode: Mode) -> Array:
    """A Python constant as an operand of `dtype`, 0-d: rounded to the compute type in both modes.

    A kernel holds it there, so `x == 0.1` means the same everywhere. Raises LiteralOverflow.
    """
    if dtype.kind == "bool":
        return np.asarray(value != 0)
    if dtype.is_integer:
        low, high = dtype.limits
        if not low <= value <= high:
            raise LiteralOverflow(f"the integer {value} does not fit {dtype} ({low} to {high}); use a wider type")
        return np.asarray(value, dtype.numpy)
    try:
        number = float(value)
    except OverflowError:
        raise LiteralOverflow(f"the integer {value} does not fit any float; write it as inf, or scale it") from None
    with np.errstate(all="ignore"):
        return np.asarray(np.float64(number)).astype(dtype.compute.numpy).astype(held(dtype, mode))


def convert(array: Array, source: DType, target: DType, mode: Mode) -> Array:
    """A held operand of `source`, held as the operand type `target` of a signature; never narrows a float."""
    if source is target:
        return array
    if target.kind == "bool":
        return np.asarray(array != 0)
    with np.errstate(all="ignore"):
        return array.astype(held(target, mode))


def cast(array: Array, source: DType, target: DType, mode: Mode) -> Array:
    """An explicit cast of a held array: rounds to `target` even where the value is held in a wider type."""
    if target.kind == "bool":
        return np.asarray(array != 0)
    with np.errstate(all="ignore"):
        if target.is_integer:
            return saturate(array, target) if source.is_float else array.astype(target.numpy)
        return round_to(array, target).astype(held(target, mode))


def evaluate_op(
    opdef: OpDef,
    args: Sequence[Array],
    signature: Signature,
    attributes: Attributes = (),
    mode: Mode = "exact",
) -> Array:
    """The result of one op, held as `signature.result`, from operands held as `signature.operands`.

    `index` has no operands to take its shape from: use `numerics.index`.
    """
    if opdef.name == "cast":
        return cast(args[0], signature.operands[0], signature.result, mode)
    if opdef.numpy is None:
        raise TypeError(f"{opdef.call} has no operand that gives its shape; numerics.index takes it")
    keywords = dict(attributes)
    result_type = held(signature.result, mode)
    with np.errstate(all="ignore"):
        if opdef.ulp is not None:
            args = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in args]
        return np.asarray(opdef.numpy(*args, **keywords)).astype(result_type, copy=False)
