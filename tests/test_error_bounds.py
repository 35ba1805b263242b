"""The error bounds of property tests: f32 evaluation stays inside them, and they know what is undecided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emitter.bounds import within
from emitter.dtypes import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, DType
from emitter.errors import DTypeMismatch
from emitter.numerics import Array
from emitter.op_bounds import Bounded, bounded_op, constant, converted, known
from emitter.ops import OPS, op
from emitter.ops.evaluate import convert, evaluate_op, load, store

FLOATS = (F16, BF16, F32, F64, F8E4M3, F8E5M2)
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 6e4, -3e38)
ELEMENTWISE = sorted(set(OPS) - {"index", "take", "cast"})


def bound(name: str, *args: tuple[float, float], dtype: DType = F32) -> tuple[float, float]:
    """The bounded result of one op of (value, err) pairs."""
    boxes = [Bounded(np.array(float(v)), np.array(float(e))) for v, e in args]
    got = bounded_op(op(name), boxes, op(name).signature([dtype] * len(args)))
    return float(got.value), float(got.err)


def draw(dtype: DType, seed: int, low: float, high: float) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, 64).astype(bool)
    if dtype.is_integer:
        return rng.integers(*dtype.limits, 64, dtype=dtype.numpy.type, endpoint=True)
    low, high = max(low, -300.0), min(high, 300.0)
    values = np.concatenate([rng.uniform(low, high, 54), np.clip(SPECIAL, low, high)])
    return store(values, dtype)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_one_op_in_the_compute_type_is_inside(name: str) -> None:
    definition = op(name)
    attributes = definition.bind_attributes({}, "test")
    for dtype in (*FLOATS, I32, BOOL):
        operands = [BOOL if p == "cond" else dtype for p in definition.parameters]
        try:
            signature = definition.signature(operands, attributes)
        except DTypeMismatch:
            continue
        arrays = [draw(d, i, definition.interval(i).low, definition.interval(i).high) for i, d in enumerate(operands)]
        args = [
            convert(load(a, d, "compute"), d, t, "compute")
            for a, d, t in zip(arrays, operands, signature.operands, strict=True)
        ]
        got = store(evaluate_op(definition, args, signature, attributes, "compute"), signature.result)
        boxes = [converted(known(a, d), d, t) for a, d, t in zip(arrays, operands, signature.operands, strict=True)]
        bounds = bounded_op(definition, boxes, signature, attributes)
        assert within(got, bounds, signature.result).all(), dtype
        assert definition.ulp is not None or not bounds.err[arrays[0] != 0].any()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_chains_in_the_compute_type_are_inside(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 1000))
    values: list[tuple[DType, Array, Bounded]] = []
    for i, dtype in enumerate((F32, F16, data.draw(st.sampled_from([F64, BF16, I8, I64])), BOOL)):
        array = draw(dtype, seed + i, -4.0, 4.0)
        values.append((dtype, load(array, dtype, "compute"), known(array, dtype)))
    for _ in range(data.draw(st.integers(1, 8))):
        name = data.draw(st.sampled_from([*ELEMENTWISE, "cast"]))
        definition = op(name)
        target = data.draw(st.sampled_from(["f16", "f32", "i8", "bool"]))
        attributes = definition.bind_attributes({"dtype": target} if name == "cast" else {}, "test")
        picked = [data.draw(st.sampled_from(values)) for _ in definition.parameters]
        if name == "where":
            picked[0] = data.draw(st.sampled_from([v for v in values if v[0] is BOOL]))
        try:
            signature = definition.signature([p[0] for p in picked], attributes)
        except DTypeMismatch:
            continue
        args = [convert(a, d, t, "compute") for (d, a, _), t in zip(picked, signature.operands, strict=True)]
        boxes = [converted(b, d, t) for (d, _, b), t in zip(picked, signature.operands, strict=True)]
        got = evaluate_op(definition, args, signature, attributes, "compute")
        if definition.ulp is not None and signature.result.is_float:
            # A kernel may be this far off; the reference itself was rounded by half an ulp.
            off = data.draw(st.floats(-1, 1)) * (definition.ulp - 0.5)
            with np.errstate(all="ignore"):
                got = np.where(np.isfinite(got), got + np.spacing(got) * got.dtype.type(int(off)), got)
        bounds = bounded_op(definition, boxes, signature, attributes)
        inside = within(store(got, signature.result), bounds, signature.result)
        assert inside.all(), (name, [p[0] for p in picked], [b.value[~inside][:1] for b in boxes])
        values.append((signature.result, got, bounds))


def test_ieee_ops_of_known_operands_are_known() -> None:
    assert bound("add", (1e8, 0), (1, 0)) == (1e8, 0)
    assert bound("mul", (3e38, 0), (10, 0)) == (np.inf, 0)
    value, err = bound("div", (0, 0), (0, 0))
    assert np.isnan(value)
    assert err == 0


def test_other_ops_state_their_ulps() -> None:
    value, err = bound("exp", (0, 0))
    assert value == 1
    assert err == pytest.approx(op("exp").ulp * 2.0**-23, rel=1e-3)  # type: ignore[operator]
    assert bound("exp", (89, 0)) == (np.inf, 0)
    assert bound("exp", (88.722839, 0))[1] == np.inf
    assert bound("exp", (-200, 0))[1] > 0


def test_undecided_results_are_open() -> None:
    assert bound("lt", (1, 0.1), (1.05, 0.1)) == (1, 1)
    assert bound("lt", (1, 0.1), (1.3, 0.1)) == (1, 0)
    assert bound("eq", (1, 0.1), (1.05, 0.1)) == (0, 1)
    assert bound("eq", (1, 0), (1, 0)) == (1, 0)
    assert bound("floor", (0.99, 0.1))[1] >= 1
    assert bound("floor", (0.5, 0.1)) == (0, 0)
    assert bound("sqrt", (0.0, 1e-9))[1] == np.inf
    assert bound("div", (1, 0), (0.1, 0.2))[1] == np.inf
    assert bound("mod", (3.999, 0.01), (2, 0))[1] >= 2
    assert bound("mod", (3.5, 0.01), (2, 0))[1] < 0.011
    assert bound("sin", (1, 7))[1] >= 2
    assert bound("tan", (1.57, 0.01))[1] == np.inf
    assert bound("atan2", (0, 1e-3), (-1, 0))[1] > 6
    assert bound("atan2", (0, 1e-3), (0, 1e-3))[1] > 6
    assert bound("pow", (0, 1e-3), (-1, 0))[1] == np.inf
    assert bound("pow", (-2, 0), (0.99999, 1e-3))[1] == np.inf
    assert bound("mul", (3.4e38, 1e37), (1, 0))[1] == np.inf
    assert bound("maximum", (0.0, 0), (-0.0, 0))[1] > 0
    assert bound("add", (1, np.inf), (1, 0))[1] == np.inf
    assert bound("isnan", (1, np.inf))[1] == 1


def test_where_and_casts_cover_both_outcomes() -> None:
    signature = op("where").signature((BOOL, F32, F32))
    cond = Bounded(np.array([True, True, False]), np.array([0.0, 1.0, 1.0]))
    a, b = known(np.array([1, 1, 1], "f"), F32), known(np.array([5, 5, np.nan], "f"), F32)
    got = bounded_op(op("where"), (cond, a, b), signature)
    assert list(got.err) == [0, 4, np.inf]
    to_int = op("cast").bind_attributes({"dtype": "i8"}, "test")
    x = Bounded(np.array([1.99, 1.5, 500.0]), np.array([0.1, 0.1, 0.1]))
    got = bounded_op(op("cast"), (x,), op("cast").signature((F32,), to_int), to_int)
    assert list(got.value) == [1, 1, 127]
    assert list(got.err) == [1, 0, 0]
    assert within(np.array([2, 1, 127], np.int8), got, I8).all()
    assert not within(np.array([3, 2, 126], np.int8), got, I8).any()
    total = bounded_op(op("add"), (got, constant(1, I8)), op("add").signature((I8, 1)))
    assert list(total.err) == [np.inf, 0, 0]
    truth = converted(x, F32, BOOL)
    assert not truth.err.any()
    assert converted(Bounded(np.array(0.05), np.array(0.1)), F32, BOOL).err == 1


def test_take_moves_bounds_along() -> None:
    attributes = op("take").bind_attributes({"axis": 0}, "test")
    signature = op("take").signature((F32, I64), attributes)
    x = Bounded(np.array([1.0, 2.0]), np.array([0.0, 0.5]))
    got = bounded_op(op("take"), (x, known(np.array([1, 0, 7]), I64)), signature, attributes)
    assert list(got.value) == [2, 1, 0]
    assert list(got.err) == [0.5, 0, 0]


def test_within_includes_the_store() -> None:
    third = Bounded(np.array([1 / 3, 1 / 3, 1 / 3]), np.array([1e-8, 1e-8, 1e-8]))
    near = np.float16(1 / 3)
    got = np.array([near, np.nextafter(near, np.float16(1)), np.nextafter(near, np.float16(0))])
    assert list(within(got, third, F16)) == [True, False, False]
    edge = Bounded(np.array([464.0, 464.0, 464.0, np.nan, 1.0]), np.array([1.0, 1.0, 1.0, 0.0, np.inf]))
    stored = np.array([448, np.nan, 416, np.nan, 7], "f").astype(F8E4M3.numpy)
    assert list(within(stored, edge, F8E4M3)) == [True, True, False, True, True]
    assert list(within(np.array([1.0], "f"), Bounded(np.array([np.nan]), np.zeros(1)), F32)) == [False]
