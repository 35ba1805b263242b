"""The NumPy table in place of libdevice, through interpreted kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from triton.language.extra import libdevice as portable_libdevice
from triton.language.extra.cuda import libdevice as nvidia_libdevice
from triton_cases import INF, NAN, pointwise, run, same

from launch.cpu.libdevice import FUNCTIONS

# The interpreter promises silence: no NumPy warning leaves it.
pytestmark = pytest.mark.filterwarnings("error")


def reference(name: str) -> Callable[..., float]:
    """What a libdevice name means, in Python floats."""
    plain = name.removeprefix("fast_").removesuffix("f") if name.startswith("fast_") else name.removesuffix("_rn")
    own: dict[str, Callable[..., float]] = {
        "abs": abs, "rint": lambda x: float(round(x)), "nearbyint": lambda x: float(round(x)),
        "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "exp10": lambda x: 10.0**x,
        "rsqrt": lambda x: 1 / math.sqrt(x), "rcp": lambda x: 1 / x, "divide": lambda x, y: x / y,
        "div": lambda x, y: x / y, "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "fdim": lambda x, y: max(x - y, 0.0), "finitef": math.isfinite, "isfinited": math.isfinite,
        "signbit": lambda x: math.copysign(1, x) < 0,
        "fma": lambda x, y, z: float(Fraction(x) * Fraction(y) + Fraction(z)),
    }  # fmt: skip
    return own.get(plain) or getattr(math, plain)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_libdevice_function(name: str) -> None:
    row = FUNCTIONS[name]
    low, high = {"acosh": (1.0, 4.0), "atanh": (-0.9, 0.9), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0)}.get(
        name, (0.01, 3.0)
    )
    for dtype in ({"fp32": "float32", "fp64": "float64"}[t] for t in row.types):
        x = [np.random.default_rng(i).uniform(low, high, 100).astype(dtype) for i in range(row.arity)]
        want = np.array([reference(name)(*(float(v) for v in values)) for values in zip(*x, strict=True)])
        target = {"operand": dtype, "bool": "bool", "i32": "int32"}[row.result]
        got = pointwise(f"libdevice.{name}({', '.join('abc'[: row.arity])})", target, *x)
        if row.result == "operand":
            np.testing.assert_array_max_ulp(got, want.astype(dtype), maxulp=0 if dtype == "float32" else 4)
        else:
            np.testing.assert_array_equal(got, want)


def test_libdevice_has_only_names_that_triton_has() -> None:
    assert FUNCTIONS.keys() <= vars(nvidia_libdevice).keys() & vars(portable_libdevice).keys()


def test_libdevice_special_values() -> None:
    x = np.array([NAN, INF, -INF, -0.0, 1.5], np.float32)
    same(pointwise("libdevice.isnan(a)", np.bool_, x), np.isnan(x))
    same(pointwise("libdevice.isinf(a)", np.bool_, x), np.isinf(x))
    same(pointwise("libdevice.finitef(a)", np.bool_, x), np.isfinite(x))
    want = np.array([NAN, 1, -1, -0.0, math.tanh(1.5)], np.float32)
    same(pointwise("libdevice.tanh(a)", np.float32, x), want)
    same(pointwise("libdevice.erf(a)", np.float32, x), np.array([NAN, 1, -1, -0.0, math.erf(1.5)], np.float32))
    half = np.array([0.49999999999999994, -2.5, 2.5, -0.2])
    same(pointwise("libdevice.round(a)", np.float64, half), np.array([0.0, -3, 3, -0.0]))
    same(pointwise("libdevice.copysign(a, -1.0)", np.float32, x), np.copysign(x, np.float32(-1)))
    same(pointwise("libdevice.pow(a, 2.0)", np.float32, x), np.power(x, np.float32(2)))


def test_libdevice_imported_by_name() -> None:
    text = """
from triton.language.extra.libdevice import tanh
from triton.language.extra.cuda import libdevice as nvidia

@triton.jit
def kernel(x_ptr, y_ptr):
    tl.store(y_ptr, nvidia.exp(tanh(tl.load(x_ptr))))
"""
    x, y = np.array([0.5], np.float32), np.zeros(1, np.float32)
    run(text, x, y)
    assert y[0] == np.float32(math.exp(np.float32(math.tanh(0.5))))
    assert portable_libdevice.tanh(1.0) is None  # upstream's own stub is untouched


def test_libdevice_errors() -> None:
    with pytest.raises(TypeError, match=r"libdevice\.tanh takes fp32 or fp64, got fp16"):
        pointwise("libdevice.tanh(a)", np.float16, np.ones(1, np.float16))
    with pytest.raises(NotImplementedError, match=r"libdevice\.j0 has no NumPy definition"):
        pointwise("libdevice.j0(a)", np.float32, np.ones(1, np.float32))
    with pytest.raises(TypeError, match=r"libdevice\.pow takes 2 operands, got 1"):
        pointwise("libdevice.pow(a)", np.float32, np.ones(1, np.float32))
