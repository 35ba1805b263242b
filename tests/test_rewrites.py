"""Rewrites against NumPy: comparisons decided by value, open clip bounds, constant powers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from run_op import run, undisturbed

from emitter.dtypes import (
    F32,
    I8,
    I16,
    U8,
    U32,
    dtype,
)
from emitter.errors import LiteralOverflow
from emitter.numerics import Array
from emitter.ops import op
from emitter.ops.rewrites import Argument, Call, Term, rewrite


@pytest.fixture(autouse=True)
def watch() -> Iterator[None]:
    with undisturbed():
        yield


def evaluate_term(term: Term, values: list[Array]) -> Array | bool | int | float:
    if isinstance(term, Argument):
        return values[term.position]
    if isinstance(term, Call):
        operands = [evaluate_term(o, values) for o in term.operands]
        return run(term.op, *operands, **dict(term.attributes))  # type: ignore[arg-type]
    return term


def rewritten(name: str, *args: Array | bool | int | float) -> Array:
    term = rewrite(op(name), [dtype(a.dtype) if isinstance(a, np.ndarray) else a for a in args])
    assert term is not None, (name, args)
    return np.asarray(evaluate_term(term, list(args)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_any_integer_are_numpys(name: str) -> None:
    function = op(name).numpy
    assert function is not None
    for kind in ("i1", "u1", "i4", "u4", "i8", "u8"):
        limits = np.iinfo(kind)
        x = np.array([limits.min, limits.max, 0, 1], kind)
        for value in (limits.min - 1, limits.max + 1, -(2**70), 2**70):
            assert np.array_equal(rewritten(name, x, value), function(x, value))
            assert np.array_equal(rewritten(name, value, x), function(value, x))
        assert rewrite(op(name), (dtype(x.dtype), int(limits.max))) is None
    assert np.array_equal(rewritten(name, np.array([True, False]), 2**70), function(np.zeros(2), 1))


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_signed_with_unsigned_comparisons_are_exact(name: str) -> None:
    function = op(name).numpy
    assert function is not None
    signed = np.array([-(2**63), -1, 0, 1, 2**62 + 1, 2**63 - 1], np.int64)
    unsigned = np.array([0, 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    for x, y in (
        (signed[:, None], unsigned),
        (unsigned[:, None], signed),
        (np.array([-1, 5], "i1"), unsigned[:2]),
    ):
        assert np.array_equal(rewritten(name, x, y), function(x, y))
        assert np.array_equal(run(name, x, y), function(x, y))


def test_clip_bounds_nothing_can_reach_stay_open() -> None:
    x = np.array([0, 7, 255], np.uint8)
    assert list(rewritten("clip", x, -5, 300)) == [0, 7, 255]
    assert list(rewritten("clip", x, 5, 300)) == [5, 7, 255]
    assert rewrite(op("clip"), (U8, 0, 255)) is None
    for low, high in ((300, 400), (-5, -3)):
        with pytest.raises(LiteralOverflow):
            op("clip").signature((U8, low, high))


def test_constant_powers_are_numpys_fast_paths() -> None:
    x = np.array([np.inf, -np.inf, -0.0, 2.25, -1, np.nan, 1e30, 1e-30], "f")
    with np.errstate(all="ignore"):
        for exponent in (2, 2.0, 0.5, -1, 1):
            assert np.array_equal(rewritten("pow", x, exponent), x**exponent, equal_nan=True)
        for exponent in (3, 4):
            assert np.allclose(rewritten("pow", x, exponent), x**exponent, rtol=1e-6, equal_nan=True)
        assert np.array_equal(rewritten("pow", 2, x), np.exp2(x.astype("d")).astype("f"), equal_nan=True)
    i8 = np.array([-128, 3, 100], np.int8)
    for power in (1, 2, 3, 4):
        assert np.array_equal(rewritten("pow", i8, power), i8**power)
    assert rewritten("pow", i8, 2.0).dtype == np.float64
    assert rewritten("pow", np.array([True]), 2).dtype == np.int64
    for kept in ((I8, -1), (F32, 2.5), (F32, F32), (F32, 0), (2, I8), (F32, True)):
        assert rewrite(op("pow"), kept) is None


def test_other_ops_stay() -> None:
    assert rewrite(op("add"), (U32, 1)) is None
    assert rewrite(op("lt"), (F32, 2**70)) is None
    assert rewrite(op("lt"), (I16, U8)) is None
