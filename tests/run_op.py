"""Running one op the way a group does: load, convert, evaluate, store."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from emitter.dtypes import dtype
from emitter.numerics import Array
from emitter.ops import op
from emitter.ops.evaluate import Mode, convert, evaluate_op, literal, load, store


@contextmanager
def undisturbed() -> Iterator[None]:
    """Fails where the block warns or leaves NumPy's floating-point modes changed."""
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert np.geterr() == before


def run(name: str, *args: Array | bool | int | float, mode: Mode = "compute", **keywords: object) -> Array:
    """Evaluate one op on stored arrays and Python constants, as a group does, and store the result."""
    definition = op(name)
    attributes = definition.bind_attributes(keywords, "test")
    operands = [dtype(a.dtype) if isinstance(a, np.ndarray) else a for a in args]
    signature = definition.signature(operands, attributes)
    held_args = [
        convert(load(a, dtype(a.dtype), mode), dtype(a.dtype), target, mode)
        if isinstance(a, np.ndarray)
        else literal(a, target, mode)
        for a, target in zip(args, signature.operands, strict=True)
    ]
    return store(evaluate_op(definition, held_args, signature, attributes, mode), signature.result)
