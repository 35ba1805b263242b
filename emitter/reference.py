"""The NumPy definition of a whole group."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DescriptionError
from .group import Dim, DimSize, FusionGroup, Literal, Node, TensorSpec
from .lower import lower
from .numerics import index
from .ops import OPS
from .ops.evaluate import Mode, convert, evaluate_op, held, literal, load, store
from .verify import Verified, verify

Array = Any


def reference(group: FusionGroup, *arguments: Array, mode: Mode = "exact") -> Array:
    """What `group` computes, by NumPy, from arrays and scalars in the order of its inputs.

    mode "exact": floats in float64 throughout, rounded once at each output (and at casts). "compute": every op
    rounded to the type kernels compute in, which kernels equal bit for bit where all ops are exact.
    Returns an array, or a tuple of several outputs. Raises ValueError for arguments that do not match.
    """
    verified = lower(verify(group))
    sizes = bind_sizes(group, arguments)
    values: dict[str, Array] = {}
    for item, argument in zip(group.inputs, arguments, strict=True):
        array = np.asarray(argument, item.dtype.numpy)
        values[item.name] = load(array, item.dtype, mode)
    for node in verified.group.nodes:
        values[node.name] = _evaluate(verified, node, values, sizes, mode)
    results = []
    for output in group.outputs:
        kind = verified.types[output]
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in kind.shape)
        results.append(store(np.broadcast_to(values[output], shape), kind.dtype))
    return results[0] if len(results) == 1 else tuple(results)


def bind_sizes(group: FusionGroup, arguments: tuple[Array, ...]) -> dict[str, int]:
    """The size of each dim symbol, from the arguments' shapes."""
    if len(arguments) != len(group.inputs):
        names = ", ".join(i.name for i in group.inputs)
        wanted = f"{len(group.inputs)} arguments ({names})"
        raise DescriptionError(f"group {group.name}: expected {wanted}, got {len(arguments)}")
    sizes: dict[str, int] = {}
    for item, argument in zip(group.inputs, arguments, strict=True):
        expected = item.shape if isinstance(item, TensorSpec) else ()
        shape = np.shape(argument)
        if len(shape) != len(expected):
            raise DescriptionError(f"group {group.name}: {item.name} is {item}, got shape {shape}")
        for dim, size in zip(expected, shape, strict=True):
            if (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) != size:
                raise DescriptionError(f"group {group.name}: {item.name} is {item}, got shape {shape}")
    return sizes


def _evaluate(verified: Verified, node: Node, values: dict[str, Array], sizes: dict[str, int], mode: Mode) -> Array:
    if node.op == "index":
        shape = verified.types[node.name].shape  # from its axis on: (N, 1, 1)
        return index([_size(d, sizes) for d in shape], 0)
    signature = verified.signatures[node.name]
    operands = []
    for operand, dtype in zip(node.operands, signature.operands, strict=True):
        if isinstance(operand, Literal):
            operands.append(literal(operand.value, dtype, mode))
        elif isinstance(operand, DimSize):
            operands.append(np.asarray(_size(operand.dim, sizes)).astype(held(dtype, mode)))
        else:
            operands.append(convert(values[operand.name], verified.types[operand.name].dtype, dtype, mode))
    return evaluate_op(OPS[node.op], operands, signature, node.attributes, mode)


def _size(dim: Dim, sizes: dict[str, int]) -> int:
    return sizes[dim] if isinstance(dim, str) else dim
