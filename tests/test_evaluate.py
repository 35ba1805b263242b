"""What each op means: the known bad cases, both modes, and constants."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from run_op import run, undisturbed

from emitter.dtypes import (
    BOOL,
    F16,
    F32,
    F64,
    U8,
)
from emitter.errors import LiteralOverflow
from emitter.ops import op
from emitter.ops.evaluate import Mode, cast, evaluate_op, held, literal, load


@pytest.fixture(autouse=True)
def watch() -> Iterator[None]:
    with undisturbed():
        yield


# Meaning, by known bad case


@pytest.mark.parametrize("kind", ["i1", "i4", "i8"])
def test_floor_division_a01(kind: str) -> None:
    x, d = np.array([-7, -7, 7, -6, -1, 0], kind), np.array([2, -2, -2, 3, 2, -5], kind)
    assert list(run("floor_div", x, d)) == [-4, 3, -4, -2, -1, 0]
    assert list(run("mod", x, d)) == [1, -1, -1, 0, 1, 0]
    low = np.iinfo(kind).min
    assert list(run("floor_div", np.array([low, 5, -5, 0], kind), np.array([-1, 0, 0, 0], kind))) == [
        low,
        0,
        0,
        0,
    ]
    assert list(run("mod", np.array([low, 5, -5, 0], kind), np.array([-1, 0, 0, 0], kind))) == [0, 0, 0, 0]
    assert list(run("floor_div", np.array([low, 5], kind), -1)) == [low, -5]


def test_narrow_arithmetic_a03() -> None:
    u8 = np.array([7, 200, 0], np.uint8)
    assert list(run("neg", u8)) == [249, 56, 0]
    assert list(run("abs", np.array([-128], np.int8))) == [-128]
    assert not run("lt", run("neg", np.array([6], np.uint8)), 4)[0]
    assert run("sub", np.array([3], np.uint8), 5)[0] == 254
    assert run("lt", np.array([3], np.uint32), 0xFFFFFFFF)[0]
    assert list(run("add", np.array([True, True]), np.array([True, False]))) == [True, True]
    assert list(run("mul", np.array([True, True]), np.array([True, False]))) == [True, False]
    assert list(run("cast", run("add", np.array([True]), np.array([True])), dtype="i32")) == [1]
    thousand = np.array([1000, -1000, 1000], np.int64)
    assert list(run("shift_right", thousand, 64)) == [0, -1, 0]
    assert list(run("shift_left", thousand, 64)) == [0, 0, 0]
    assert list(run("shift_left", thousand, -1)) == [0, 0, 0]
    assert list(run("shift_right", thousand, -1)) == [0, -1, 0]
    assert run("shift_right", np.array([1], np.int32), 32)[0] == 0
    u32 = np.array([0x80000000, 0xDEADBEEF], np.uint32)
    assert list(run("shift_right", u32, np.array([1, 4], np.uint32))) == [0x40000000, 0x0DEADBEE]


def test_casts_a04() -> None:
    assert list(run("cast", np.array([np.inf, 510, -200, np.nan], "f"), dtype="i8")) == [127, 127, -128, 0]
    assert list(run("cast", np.array([-2.0, -1, 0, 1], "f"), dtype="u8")) == [0, 0, 0, 1]
    assert list(run("cast", np.array([0.0, -0.0, np.nan, 0.5], "f"), dtype="bool")) == [
        False,
        False,
        True,
        True,
    ]
    assert list(run("cast", np.array([300, -1], np.int32), dtype="u8")) == [44, 255]
    assert list(run("cast", np.array([True, False]), dtype="f16")) == [1, 0]
    e4m3 = run("cast", np.array([449.0, 465.0, np.inf], "f"), dtype="f8e4m3").astype("f")
    assert e4m3[0] == 448
    assert np.isnan(e4m3[1:]).all()
    assert list(run("cast", np.array([61440.0, 57344.0], "f"), dtype="f8e5m2").astype("f")) == [np.inf, 57344]


@pytest.mark.parametrize("mode", ["exact", "compute"])
def test_a_cast_rounds_to_its_type_and_nothing_else_does_a17(mode: Mode) -> None:
    a, b = (load(np.array([v], np.float16), F16, mode) for v in (2048, 1))
    signature = op("add").signature((F16, F16))
    total = evaluate_op(op("add"), (a, b), signature, (), mode)
    assert total[0] == 2049
    rounded = cast(total, F16, F16, mode)
    assert rounded[0] == 2048
    assert rounded.dtype == held(F16, mode)


def test_modes_differ_in_rounding_only() -> None:
    x, y = np.array([1e8], "f"), np.array([1.0], "f")
    signature = op("add").signature((F32, F32))
    for mode, want in (("exact", 1e8 + 1), ("compute", 1e8)):
        args = [load(v, F32, mode) for v in (x, y)]  # type: ignore[arg-type]
        assert evaluate_op(op("add"), args, signature, (), mode)[0] == want  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_div", "mod", "maximum", "minimum"])
def test_ieee_ops_equal_numpy_in_the_compute_type(name: str) -> None:
    rng = np.random.default_rng(7)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 1.0, -2.5], "f")
    x = np.concatenate([np.repeat(special, 9), rng.standard_normal(500).astype("f") * 1e3])
    y = np.concatenate([np.tile(special, 9), rng.standard_normal(500).astype("f")])
    with np.errstate(all="ignore"):
        want = op(name).numpy(x, y)  # type: ignore[misc]
        half = op(name).numpy(x.astype("e").astype("f"), y.astype("e").astype("f"))  # type: ignore[misc]
        xe, ye = x.astype("e"), y.astype("e")
        half = half.astype("e")
    assert np.array_equal(run(name, x, y), want, equal_nan=True)
    assert np.array_equal(run(name, xe, ye), half, equal_nan=True)


def test_subnormals_are_kept() -> None:
    assert run("exp2", np.array([-126, -127, -149, -150], "f")).tolist() == [
        1.1754943508222875e-38, 5.877471754111438e-39, 1.401298464324817e-45, 0.0,
    ]  # fmt: skip
    assert run("add", np.array([1e-40], "f"), 0)[0] == np.float32(1e-40)


def test_nan_goes_through() -> None:
    nan, one = np.array([np.nan], "f"), np.array([1.0], "f")
    for name in ("maximum", "minimum"):
        assert np.isnan(run(name, nan, one))
        assert np.isnan(run(name, one, nan))
    for bounds in ((nan, 0, 1), (one, nan, 1), (one, 0, np.nan)):
        assert np.isnan(run("clip", *bounds))
    assert np.isnan(run("relu", nan))
    assert np.isnan(run("sign", nan))


def test_rounding_ops() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 2.7], "f")
    assert list(run("round", x)) == [0, 2, 2, 0, -2, 3]
    assert list(run("trunc", x)) == [0, 1, 2, 0, -2, 2]
    big = np.array([2**53 + 1, -(2**63)], np.int64)
    for name in ("round", "floor", "ceil", "trunc"):
        assert np.array_equal(run(name, big), big)
    assert run("round", np.array([True])).dtype == np.float16


def test_integer_ops_numpy_refuses() -> None:
    x = np.array([2, 1, -1, -1, 0], np.int32)
    assert list(run("pow", x, np.array([-1, -7, -2, -3, -1], np.int32))) == [0, 1, 1, -1, 0]
    assert list(run("pow", np.array([True, False]), np.array([False, True]))) == [1, 0]
    assert run("div", np.array([7], np.int32), 2)[0] == 3.5
    assert list(run("isfinite", np.array([1], np.int8))) == [True]
    assert list(run("isnan", np.array([1], np.uint64))) == [False]


@pytest.mark.parametrize("name", ["gelu", "silu", "sigmoid", "softplus", "mish", "tanh", "erf"])
def test_activations_a13_in_narrow_types(name: str) -> None:
    x = np.array([-5e4, -200, -50, -13.24, -5, 0, 11, 20, 200, 1e4])
    for kind in (np.float16, np.float32, ml_dtypes.bfloat16):
        assert np.isfinite(run(name, x.astype(kind)).astype("f")).all()


def test_compute_mode_rounds_inexact_results_once() -> None:
    x = np.linspace(-8, 8, 101, dtype="f")
    for name in ("exp", "tanh", "gelu", "silu", "erf"):
        want = run(name, x.astype(np.float64), mode="exact").astype("f")
        assert np.array_equal(run(name, x), want)


# Constants


def test_constants_are_rounded_to_the_compute_type() -> None:
    modes: tuple[Mode, Mode] = ("exact", "compute")
    for mode in modes:
        assert run("eq", np.array([0.1], "f"), 0.1, mode=mode)[0]
        assert float(literal(0.1, F16, mode)) == float(np.float32(0.1))
        assert float(literal(0.1, F64, mode)) == 0.1
        assert np.isinf(literal(1e300, F32, mode))
        assert literal(300, BOOL, mode).item() is True
        assert literal(2, F16, mode).dtype == held(F16, mode)
    with pytest.raises(LiteralOverflow, match="does not fit any float"):
        literal(10**400, F32, "exact")
    with pytest.raises(LiteralOverflow, match=r"300 does not fit u8 \(0 to 255\)"):
        literal(300, U8, "exact")
