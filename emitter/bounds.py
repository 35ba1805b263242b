"""How far a kernel may be from NumPy: a bound on |kernel - exact value| for every element of every output.

Bounds follow the values through the group: each op spreads its operands' bounds and adds its own rounding, as the op
table states it. So the tolerance of a group is derived, never chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtypes import DType
from .group import DimSize, FusionGroup, Literal, Node
from .lower import lower
from .numerics import Array, index
from .op_bounds import PICKS_A_ZERO, Bounded, bounded_op, constant, converted, known
from .ops import OPS
from .ops.evaluate import held, load, store
from .reference import bind_sizes, reference
from .verify import Verified, verify

__all__ = ["Bounded", "evaluate", "within"]


def evaluate(group: FusionGroup, *arguments: Any) -> list[Bounded]:
    """The exact value of each output, and how far a kernel may be from it.

    arguments: NumPy arrays and numbers in the order of the group's inputs, as for `reference`. Raises the errors of
    `emitter.errors`.
    """
    verified = lower(verify(group))
    if _same_bits(verified):
        return _reference(group, arguments)
    sizes = bind_sizes(group, arguments)
    results: dict[str, Bounded] = {}
    for item, argument in zip(group.inputs, arguments, strict=True):
        results[item.name] = known(np.asarray(argument, item.dtype.numpy), item.dtype)

    def shape(dims: tuple[str | int, ...]) -> tuple[int, ...]:
        return tuple(sizes[d] if isinstance(d, str) else d for d in dims)

    def node_value(node: Node) -> Bounded:
        if node.op == "index":
            value = index(shape(verified.types[node.name].shape), 0)
            return Bounded(value, np.zeros(value.shape))
        signature = verified.signatures[node.name]
        operands = []
        for operand, dtype in zip(node.operands, signature.operands, strict=True):
            if isinstance(operand, Literal):
                operands.append(constant(operand.value, dtype))
            elif isinstance(operand, DimSize):
                size = np.asarray(shape((operand.dim,))[0]).astype(held(dtype, "exact"))
                operands.append(Bounded(size, np.zeros(())))
            else:
                operands.append(converted(results[operand.name], verified.types[operand.name].dtype, dtype))
        return bounded_op(OPS[node.op], operands, signature, node.attributes)

    for node in verified.group.nodes:
        results[node.name] = node_value(node)
    found = []
    for output in group.outputs:
        target = shape(verified.types[output].shape)
        value, err = results[output].value, results[output].err
        found.append(Bounded(np.broadcast_to(value, target), np.broadcast_to(err, target)))
    return found


def _same_bits(verified: Verified) -> bool:
    """Whether kernels give NumPy's bits: every op is IEEE, and none leaves the sign of a zero open."""
    floats = [node for node in verified.group.nodes if verified.signatures[node.name].result.is_float]
    return all(OPS[node.op].ulp is None and node.op not in PICKS_A_ZERO for node in floats)


def _reference(group: FusionGroup, arguments: Sequence[Any]) -> list[Bounded]:
    """The outputs as NumPy computes them in the compute types."""
    results = reference(group, *arguments, mode="compute")
    types = verify(group).types
    found = []
    for output, result in zip(group.outputs, results if isinstance(results, tuple) else (results,), strict=True):
        value = load(result, types[output].dtype, "exact")
        found.append(Bounded(value, np.zeros(value.shape), same_bits=True))
    return found


def within(got: Array, bounded: Bounded, dtype: DType) -> Array:
    """Mask: elements of a kernel's output, stored as `dtype`, that the bound and that rounding allow."""
    value, err = bounded.value, bounded.err
    if bounded.same_bits:
        return same_bits(got, store(value, dtype))
    if dtype.kind == "bool":
        return np.asarray((got == value) | (err > 0))
    if dtype.is_integer:
        distance = abs(got.astype(np.float64) - value.astype(np.float64))
        return np.asarray((got == value) | ((err > 0) & (distance <= err * (1 + 2**-20))))
    with np.errstate(all="ignore"):
        found = got.astype(np.float64)
        low, high = (store(v, dtype).astype(np.float64) for v in (value - err, value + err))
        # f8e4m3 has no inf: an end that overflows is NaN there, and so is a kernel's result beyond it.
        above, below = found >= low, found <= high
        inside = np.where(np.isnan(low), np.isnan(found) | below, above & np.where(np.isnan(high), True, below))
        inside |= np.isnan(high) & np.isnan(found)
        inside = np.where(np.isnan(value), np.isnan(found), inside)
    return np.asarray(inside | np.isinf(err))


def same_bits(got: Array, want: Array) -> Array:
    """Mask: elements with the same bits, and NaN where NaN is."""
    bits = f"u{got.itemsize}"
    same = np.asarray(got.view(bits) == want.view(bits))
    if got.dtype.kind in "iub":
        return same
    with np.errstate(invalid="ignore"):
        return np.asarray(same | ((got != got) & (want != want)))
