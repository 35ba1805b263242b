"""Triton kernels through the interpreter on the CPU: types, arithmetic, control flow, memory safety, isolation."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from launch.cpu.faults import KernelFault
from launch.cpu.libdevice import FUNCTIONS
from launch.cpu.triton import execute, interpret

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")
compiler: Any = import_module("triton.compiler")
GPUTarget: Any = import_module("triton.backends.compiler").GPUTarget
portable_libdevice: Any = import_module("triton.language.extra.libdevice")
nvidia_libdevice: Any = import_module("triton.language.extra.cuda.libdevice")

# The interpreter promises silence: no NumPy warning leaves it.
pytestmark = pytest.mark.filterwarnings("error")

HEADER = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

LANES: tl.constexpr = 8

"""
TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
INTEGERS = [name for name in TYPES if "int" in name]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
NAN, INF = math.nan, math.inf


@cache
def module(text: str) -> dict[str, Any]:
    return execute(HEADER + text, "case")


def run(
    text: str, *args: Any, grid: tuple[int, int, int] = (1, 1, 1), checked: bool = True, **constexprs: Any
) -> None:
    """Run the last function of `text`; arrays become pointers with their memory as extent."""
    namespace = module(text)
    entry = [name for name, value in namespace.items() if isinstance(value, triton.JITFunction)][-1]
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    types = [("*" if isinstance(arg, np.ndarray) else "") + TYPES[arg.dtype.name] for arg in args]
    kernel = interpret(namespace, entry, types, constexprs)
    values = tuple(arg.ctypes.data if isinstance(arg, np.ndarray) else arg for arg in args)
    extents = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    kernel(grid, (128, 1, 1), values, None, extents if checked else None)


def pointwise(expression: str, dtype: Any, *inputs: Any) -> np.ndarray[Any, Any]:
    """`expression` over a, b, c (loaded from one-dimensional arrays), as an array of `dtype`."""
    names = "abc"[: len(inputs)]
    loads = "\n".join(f"    {n} = tl.load({n}_ptr + i, mask=i < N)" for n in names)
    text = f"""
@triton.jit
def pointwise({", ".join(f"{n}_ptr" for n in names)}, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
{loads}
    tl.store(y_ptr + i, {expression}, mask=i < N)
"""
    arrays = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*inputs)]
    y = np.zeros(arrays[0].size, dtype)
    run(text, *arrays, y, np.int32(y.size), BLOCK=triton.next_power_of_2(y.size))
    return y


def same(got: Any, want: Any) -> None:
    """Equal bit for bit, any NaN being equal to any other."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    with np.errstate(invalid="ignore"):
        nan = want != want
        np.testing.assert_array_equal(got != got, nan)
    bits = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[~nan], want.view(bits)[~nan])


def sample(name: str, size: int = 257) -> np.ndarray[Any, Any]:
    """Random bits of a type."""
    rng = np.random.default_rng(list(name.encode()))
    dtype = np.dtype(BF16 if name == "bfloat16" else getattr(ml_dtypes, name, None) or name)
    if name == "bool":
        return rng.integers(0, 2, size).astype(bool)
    return rng.integers(0, 256, size * dtype.itemsize, np.uint8).view(dtype)


def numbers(name: str, size: int = 257) -> np.ndarray[Any, Any]:
    """Random numbers of all magnitudes, with the special ones."""
    special = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, 3.0])
    return np.concatenate([special.astype(sample(name).dtype), sample(name, size)])


# --- types -----------------------------------------------------------------------------------------------------------

COPY = """
@triton.jit
def copy(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < N), mask=i < N)
"""


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_copied_bit_for_bit(name: str) -> None:
    x = sample(name)
    y = np.zeros_like(x)
    run(COPY, x, y, np.int32(x.size), grid=(3, 1, 1), BLOCK=128)
    np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))


def test_misaligned_addresses() -> None:
    buffer = np.zeros(8 * 16 + 1, np.uint8)
    x = buffer[1:].view(np.float64)
    x[:] = np.arange(16)
    y = np.zeros(16)
    run(COPY, x, y, np.int32(16), BLOCK=16)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("name", TYPES)
def test_scalar_parameters_of_every_type(name: str) -> None:
    text = """
@triton.jit
def fill(y_ptr, value):
    tl.store(y_ptr, value)
"""
    y = np.zeros(1, sample(name).dtype)
    value = np.bool_(True) if name == "bool" else y.dtype.type(3.25 if "float" in name else 100)
    run(text, y, value)
    assert y[0] == value


def test_a_narrow_float_parameter_arrives_as_float32() -> None:
    namespace = module("\n@triton.jit\ndef fill(y_ptr, value):\n    tl.store(y_ptr, value)\n")
    y = np.zeros(1, BF16)
    interpret(namespace, "fill", ["*bf16", "bf16"], {})(
        (1, 1, 1), (1, 1, 1), (y.ctypes.data, np.float32(1.01))
    )
    assert y[0] == BF16(1.01)


@pytest.mark.parametrize("source", [*FLOATS, "float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("target", FLOATS)
def test_casts_between_floats_round_to_nearest_even(source: str, target: str) -> None:
    x = numbers(source)
    dtype = sample(target).dtype
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
        if source == "float64" and target == "bfloat16":
            want = np.array([nearest(v, BF16) for v in x.tolist()], BF16)
    same(pointwise("a", dtype, x), want)


def nearest(value: float, dtype: Any) -> Any:
    """`value` rounded once to `dtype`, by looking at the neighbours of its double rounding."""
    near = dtype(value)
    if not math.isfinite(value) or not np.isfinite(near):
        return near
    around = np.array([near]).view(np.uint16)[0] + np.array([-1, 0, 1])
    candidates = around.astype(np.uint16).view(dtype)
    finite = [c for c in candidates if np.isfinite(c)]
    return min(
        finite,
        key=lambda c: (abs(Fraction(float(c)) - Fraction(value)), int(np.array(c).view(np.uint16)) & 1),
    )


def test_float64_is_rounded_to_bfloat16_once() -> None:
    x = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, -1 - 2**-8 - 2**-40])
    same(pointwise("a", BF16, x), np.array([1 + 2**-7, 1, -1 - 2**-7], BF16))


def test_rounding_toward_zero() -> None:
    x = np.array([1 + 2**-7 * 0.9, -1 - 2**-7 * 0.9, 3.4e38, -3.4e38, INF, NAN], np.float32)
    want = np.array([1, -1, 3.3895314e38, -3.3895314e38, INF, NAN], BF16)
    same(pointwise("a.to(tl.bfloat16, fp_downcast_rounding='rtz')", BF16, x), want)
    x = np.array([2049.5, -2049.5, 70000.0, 1e-9], np.float32)
    same(
        pointwise("a.to(tl.float16, fp_downcast_rounding='rtz')", "f2", x),
        np.array([2048, -2048, 65504, 0], "f2"),
    )


@pytest.mark.parametrize(("dtype", "largest"), [(E4M3, 448), (E5M2, 57344)])
def test_fp8_saturates_and_is_computed_in_its_values(dtype: Any, largest: float) -> None:
    x = np.array([1e9, -1e9, INF, NAN, 1.0625, 0.3, largest], np.float32)
    want = np.array([largest, -largest, largest, NAN, 1, 0.3, largest], dtype)
    same(pointwise("a", dtype, x), want)
    every = np.arange(256, dtype=np.uint8).view(dtype)
    same(pointwise("a", np.float32, every), every.astype(np.float32))


def test_bitcasts() -> None:
    x = numbers("float32")
    same(pointwise("a.to(tl.int32, bitcast=True)", np.int32, x), x.view(np.int32))
    same(pointwise("a.to(tl.float32, bitcast=True)", np.float32, x.view(np.uint32)), x)
    half = sample("bfloat16")
    same(pointwise("(a.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)", "f4", half),
         half.astype("f4"))  # fmt: skip


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS, "bool"])
def test_casts_from_integers(source: str, target: str) -> None:
    x = sample(source)
    x[0] = 0
    dtype = sample(target).dtype
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    same(pointwise(f"a.to(tl.{'int1' if target == 'bool' else target})", dtype, x), want)


@pytest.mark.parametrize("name", FLOATS)
def test_casts_to_integers_truncate_and_never_warn(name: str) -> None:
    dtype = sample(name).dtype
    x = np.array([-2.7, 2.7, -0.5, 100.5, 0.99, 0], dtype)
    same(pointwise("a.to(tl.int8)", np.int8, x), np.array([-2, 2, 0, 100, 0, 0], np.int8))
    same(pointwise("a.to(tl.uint8)", np.uint8, np.array([0.5, 200, 254.9], dtype)), np.array([0, 200, 254 + (name == "bfloat16")], np.uint8))  # fmt: skip
    pointwise("a.to(tl.int32)", np.int32, numbers(name))
    pointwise("a.to(tl.uint64)", np.uint64, numbers(name))


def test_float64_reaches_the_top_of_uint64() -> None:
    same(pointwise("a.to(tl.uint64)", np.uint64, np.array([2.0**63, 2.0**64 - 2048])), np.array([2**63, 2**64 - 2048], np.uint64))  # fmt: skip


# --- arithmetic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_float_arithmetic_is_rounded_in_its_own_type(name: str, op: str) -> None:
    a, b = numbers(name), numbers(name)[::-1]
    with np.errstate(all="ignore"):
        want = eval(f"a {op} b")
    same(pointwise(f"a {op} b", a.dtype, a, b), want)


def test_bfloat16_constants_and_comparisons() -> None:
    a = np.array([1.0, -2.0, NAN, -0.0, 300], BF16)
    same(pointwise("a * 0.5 + 1.0", BF16, a), a * BF16(0.5) + BF16(1))
    same(pointwise("a < 0.0", np.bool_, a), np.array([False, True, False, False, False]))
    same(pointwise("tl.abs(a)", BF16, a), np.abs(a))
    same(
        pointwise("tl.where(a == a, -a, 0.0)", BF16, np.array([1.0, -2.0, NAN], BF16)),
        np.array([-1, 2, 0], BF16),
    )


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_at_their_own_width(name: str) -> None:
    limits = np.iinfo(name)
    a = np.concatenate([np.array([limits.max, limits.min, limits.max, 0, 1], name), sample(name)])
    b = np.concatenate([np.array([1, limits.max, limits.max, limits.max, 0], name), sample(name)[::-1]])
    for op in ("+", "-", "*", "&", "|", "^"):
        same(pointwise(f"a {op} b", name, a, b), eval(f"a {op} b"))
    same(pointwise("-a", name, a), np.negative(a))
    same(pointwise("~a", name, a), ~a)
    same(pointwise("tl.abs(a)", name, a), np.abs(a))
    for op in ("<", "<=", ">", ">=", "==", "!="):
        same(pointwise(f"a {op} b", np.bool_, a, b), eval(f"a {op} b"))
    same(pointwise("tl.minimum(a, b)", name, a, b), np.minimum(a, b))
    same(pointwise("tl.maximum(a, b)", name, a, b), np.maximum(a, b))
    # A wrapped value is compared, divided and widened as the wrapped value.
    same(pointwise("(a + b) < b", np.bool_, a, b), a + b < b)
    same(pointwise("(a - b).to(tl.float64)", np.float64, a, b), (a - b).astype(np.float64))


def test_booleans_are_one_bit() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for op, want in (("+", a ^ b), ("-", a ^ b), ("*", a & b), ("&", a & b), ("|", a | b), ("^", a ^ b)):
        same(pointwise(f"a {op} b", np.bool_, a, b), want)
    same(pointwise("~a", np.bool_, a), ~a)
    same(pointwise("a < b", np.bool_, a, b), a < b)
    same(pointwise("a.to(tl.float32)", np.float32, a), a.astype(np.float32))


@pytest.mark.parametrize("name", INTEGERS)
def test_division_truncates_and_never_traps(name: str) -> None:
    limits = np.iinfo(name)
    a = np.array([7, limits.max, limits.min, 6, 0, limits.max], name)
    b = np.array([2, 3, 3, limits.max, 5, limits.max], name)
    if limits.min < 0:
        a = np.concatenate([a, np.array([-7, -7, 7, -6], name)])
        b = np.concatenate([b, np.array([2, -2, -2, 3], name)])
    exact = [
        (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    same(pointwise("a // b", name, a, b), np.array(exact, name))
    same(pointwise("a % b", name, a, b), np.array([x - q * y for x, y, q in zip(a.tolist(), b.tolist(), exact, strict=True)], name))  # fmt: skip
    # Division by zero is undefined: all ones, and so not what NumPy gives.
    some, zero = np.array([1, 5, limits.max], name), np.zeros(3, name)
    same(pointwise("a // b", name, some, zero), ~zero)
    same(pointwise("a % b", name, some, zero), ~zero)
    if limits.min < 0:
        same(
            pointwise("a // b", name, np.array([limits.min], name), np.array([-1], name)),
            np.array([limits.min], name),
        )


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_follow_the_sign_of_the_type(name: str) -> None:
    bits, x = np.iinfo(name).bits, sample(name)
    for amount in (0, 1, bits - 1, bits, bits + 3):
        by = np.full(x.size, amount, name)
        same(pointwise("a >> b", name, x, by), np.array([v >> amount for v in x.tolist()], name))
        left = [(v << amount) % 2**bits for v in x.tolist()]
        same(pointwise("a << b", name, x, by), np.array(left, f"u{bits // 8}").view(name))


def test_high_half_of_a_product() -> None:
    for name in ("int32", "uint32", "int64", "uint64"):
        a, b = sample(name), sample(name)[::-1].copy()
        bits = np.iinfo(name).bits
        unsigned = f"u{bits // 8}"
        high = [
            (x * y) >> bits for x, y in zip(a.view(unsigned).tolist(), b.view(unsigned).tolist(), strict=True)
        ]
        same(pointwise("tl.umulhi(a, b)", name, a, b), np.array(high, unsigned).view(name))


def test_float_division_and_remainder_never_warn() -> None:
    a = np.array([1, -1, 0, 5.5, -5.5, INF, 5.5, 1e30], np.float32)
    b = np.array([0, 0, 0, 2, 2, 3, INF, 7], np.float32)
    with np.errstate(all="ignore"):
        same(pointwise("a / b", np.float32, a, b), a / b)
        same(pointwise("a % b", np.float32, a, b), np.fmod(a, b))
        same(pointwise("(a.to(tl.bfloat16) % b.to(tl.bfloat16))", BF16, a, b), np.fmod(a.astype(BF16).astype("f4"), b).astype(BF16))  # fmt: skip
        same(pointwise("tl.log(a)", np.float32, -np.abs(a)), np.log(-np.abs(a)))


def test_maximum_and_minimum_follow_propagate_nan() -> None:
    for name in FLOATS:
        dtype = sample(name).dtype
        a = np.array([1, NAN, 2, NAN, 0.0, -0.0, -0.0], dtype)
        b = np.array([2, 1, NAN, NAN, -0.0, 0.0, -0.0], dtype)
        nan = "propagate_nan=tl.PropagateNan.ALL"
        same(
            pointwise("tl.maximum(a, b)", dtype, a, b),
            np.array([2, 1, 2, NAN, 0.0, 0.0, -0.0], dtype),
        )
        same(pointwise("tl.minimum(a, b)", dtype, a, b), np.array([1, 1, 2, NAN, -0.0, -0.0, -0.0], dtype))
        same(
            pointwise(f"tl.maximum(a, b, {nan})", dtype, a, b),
            np.array([2, NAN, NAN, NAN, 0.0, 0.0, -0.0], dtype),
        )
        same(
            pointwise(f"tl.minimum(a, b, {nan})", dtype, a, b),
            np.array([1, NAN, NAN, NAN, -0.0, -0.0, -0.0], dtype),
        )
    x = np.array([NAN, -5, 0.5, 5], np.float32)
    same(pointwise("tl.clamp(a, -1.0, 1.0)", np.float32, x[1:]), np.array([-1, 0.5, 1], np.float32))
    same(pointwise(f"tl.clamp(a, -1.0, 1.0, {nan})", np.float32, x), np.array([NAN, -1, 0.5, 1], np.float32))


def fma_exactly(x: float, y: float, z: float, dtype: Any) -> Any:
    """x * y + z rounded once."""
    if not all(map(math.isfinite, (x, y, z))) or x * y == 0 == z:
        with np.errstate(all="ignore"):
            return dtype(np.float64(x) * y + z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return dtype(0)
    scale, digits = {np.float64: (1074, 53), np.float32: (149, 24), np.float16: (24, 11)}[dtype]
    exponent = max(-scale, exact.numerator.bit_length() - exact.denominator.bit_length() - digits - 1)
    while True:  # round() of a fraction is to nearest, ties to even
        whole = round(exact / Fraction(2) ** exponent)
        if abs(whole) <= 2**digits:
            break
        exponent += 1
    try:
        rounded = math.ldexp(whole, exponent)
    except OverflowError:
        return dtype(math.copysign(INF, whole))
    with np.errstate(over="ignore"):
        return dtype(math.copysign(rounded, exact))


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_fma_rounds_once(name: str) -> None:
    rng = np.random.default_rng(5)
    dtype = np.dtype(name)
    width, low = {"float16": (10, -9), "float32": (23, -70), "float64": (52, -540)}[name]
    near = rng.uniform(1, 2, (3, 500)) * np.exp2(rng.integers(low, -low, (3, 500)))
    a, b = (near[:2] * [[1.0], [-1.0]]).astype(dtype)
    with np.errstate(all="ignore"):
        # A third operand that nearly cancels the product, or sits half a unit away from it.
        product_ = a * b
        far = (product_ * np.exp2(rng.integers(-2 * width, 3, 500).astype(float))).astype(dtype)
    c = np.where(rng.integers(0, 2, 500), -product_, far).astype(dtype)
    special = np.array([0, -0.0, 1, INF, -INF, NAN], dtype)
    grid = np.array(list(product(special, repeat=3)), dtype).T
    a, b, c = (np.concatenate([x, y]) for x, y in zip((a, b, c), grid, strict=True))
    want = [fma_exactly(float(x), float(y), float(z), dtype.type) for x, y, z in zip(a, b, c, strict=True)]
    same(pointwise("tl.fma(a, b, c)", dtype, a, b, c), np.array(want, dtype))
    if name != "float16":
        same(pointwise("libdevice.fma(a, b, c)", dtype, a, b, c), np.array(want, dtype))


def test_bfloat16_fma_rounds_once() -> None:
    a, b, c = np.array([1 + 2**-7]), np.array([1 + 2**-7]), np.array([2**-30])
    got = pointwise("tl.fma(a, b, c)", BF16, *(x.astype(BF16) for x in (a, b, c)))
    same(got, np.array([1 + 2**-6], BF16))
    got = pointwise("tl.fma(a, b, c)", BF16, *(np.array([x], BF16) for x in (1 + 2**-7, 1 + 2**-1, 2**-40)))
    same(got, np.array([nearest(float((1 + 2**-7) * 1.5 + 2**-40), BF16)], BF16))


def test_division_and_square_root_rounded_to_nearest() -> None:
    a, b = np.abs(numbers("float32", 2000)), numbers("float32", 2000)[::-1].copy()
    with np.errstate(all="ignore"):
        same(pointwise("tl.div_rn(a, b)", np.float32, a, b), a / b)
        same(pointwise("tl.sqrt_rn(a)", np.float32, a), np.sqrt(a))
        same(pointwise("tl.math.div_rn(1.0, a)", np.float32, a), np.float32(1) / a)


@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "abs"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_triton_itself(name: str, dtype: str) -> None:
    x = np.random.default_rng(3).uniform(0.01, 20, 300).astype(dtype)
    own: dict[str, Callable[[float], float]] = {"rsqrt": lambda v: 1 / math.sqrt(v), "abs": abs}
    want = np.array([(own.get(name) or getattr(math, name))(v) for v in x.tolist()]).astype(dtype)
    np.testing.assert_array_max_ulp(
        pointwise(f"tl.{name}(a)", dtype, x), want, maxulp=0 if dtype == "float32" else 4
    )
    assert pointwise(f"a.{name}()", dtype, x).tolist() == pointwise(f"tl.{name}(a)", dtype, x).tolist()


# --- libdevice -------------------------------------------------------------------------------------------------------


def reference(name: str) -> Callable[..., float]:
    """What a libdevice name means, in Python floats."""
    plain = (
        name.removeprefix("fast_").removesuffix("f") if name.startswith("fast_") else name.removesuffix("_rn")
    )
    own: dict[str, Callable[..., float]] = {
        "abs": abs, "rint": lambda x: float(round(x)), "nearbyint": lambda x: float(round(x)),
        "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "exp10": lambda x: 10.0**x,
        "rsqrt": lambda x: 1 / math.sqrt(x), "rcp": lambda x: 1 / x, "divide": lambda x, y: x / y,
        "div": lambda x, y: x / y, "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "fdim": lambda x, y: max(x - y, 0.0), "finitef": math.isfinite, "isfinited": math.isfinite,
        "signbit": lambda x: math.copysign(1, x) < 0, "fma": lambda x, y, z: float(Fraction(x) * Fraction(y) + Fraction(z)),
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
    same(
        pointwise("libdevice.erf(a)", np.float32, x), np.array([NAN, 1, -1, -0.0, math.erf(1.5)], np.float32)
    )
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


# --- reductions, scans, dot ------------------------------------------------------------------------------------------


def reduced(
    expression: str, x: np.ndarray[Any, Any], dtype: Any, shape: tuple[int, ...], helpers: str = ""
) -> Any:
    """`expression` over a two-dimensional block x, as an array of `shape`."""
    text = f"""{helpers}
@triton.jit
def kernel(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, Y: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    y = {expression}
    tl.store(y_ptr + tl.arange(0, Y), tl.reshape(y, [Y]) if Y > 1 else y)
"""
    y = np.zeros(shape, dtype)
    run(text, x, y, M=x.shape[0], N=x.shape[1], Y=y.size)
    return y


def test_sums() -> None:
    x = np.random.default_rng(1).integers(-50, 50, (8, 16))
    for name in (*FLOATS, "int8", "int32", "int64"):
        block = x.astype(sample(name).dtype)
        out = {"int8": np.dtype("int32")}.get(name, block.dtype)
        same(reduced("tl.sum(x, 1)", block, out, (8,)), x.sum(1).astype(out))
        same(reduced("x.sum(0)", block, out, (16,)), x.sum(0).astype(out))
    same(reduced("tl.sum(x)", x.astype("f4"), np.float32, ()), np.float32(x.sum()))
    same(
        reduced("tl.sum(x, 1, keep_dims=True)", x.astype("f4"), np.float32, (8, 1)),
        x.sum(1, keepdims=True).astype("f4"),
    )
    same(
        reduced("tl.sum(tl.sum(x, keep_dims=True), 1)", x.astype("f8"), np.float64, (1,)),
        np.array([x.sum()], "f8"),
    )
    same(reduced("tl.xor_sum(x, 0)", x, np.int64, (16,)), np.bitwise_xor.reduce(x, 0))


def test_extremes_and_their_ties() -> None:
    x = np.array([[3, 1, 3, 3], [2, 2, 2, 2]], np.int32)
    same(reduced("tl.argmax(x, 1)", x, np.int32, (2,)), np.array([0, 0], np.int32))
    same(reduced("tl.argmin(x, 1)", x, np.int32, (2,)), np.array([1, 0], np.int32))
    same(reduced("tl.argmax(x, 0)", x, np.int32, (4,)), np.array([0, 1, 0, 0], np.int32))
    same(reduced("tl.max(x, 1)", x.astype(np.uint8) + 200, np.int32, (2,)), np.array([203, 202], np.int32))
    half = np.array([[-1, -2, -3, -1], [4, 5, 6, -6]], BF16)
    same(reduced("tl.max(x, 1)", half, np.float32, (2,)), np.array([-1, 6], np.float32))
    same(reduced("tl.argmin(x, 1)", half, np.int32, (2,)), np.array([2, 3], np.int32))


FIRST_NAN = """
@triton.jit
def later(a, i, b, j):
    swap = (b != b) & (a == a) | (b > a) & (a == a) | ((b == a) | (a != a) & (b != b)) & (j < i)
    return tl.where(swap, b, a), tl.where(swap, j, i)

@triton.jit
def nan_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)

@triton.jit
def best(x, N: tl.constexpr):
    return tl.reduce((x, tl.broadcast_to(tl.arange(0, N)[None, :], x.shape)), 1, later)

@triton.jit
def take(pair, K: tl.constexpr):
    first, second = pair
    return first if K == 0 else second
"""


def test_reductions_with_nan_do_what_their_combine_function_says() -> None:
    x = np.array([[1, NAN, 3, NAN], [4, 9, 9, 1], [NAN] * 4, [-0.0, 0.0, -1, -2]], np.float32)
    # tl.max ignores NaN, as the instruction does; propagate_nan and an explicit rule make NaN win.
    same(reduced("tl.max(x, 1)", x, np.float32, (4,)), np.array([3, 9, NAN, 0.0], np.float32))
    same(reduced("tl.min(x, 1)", x, np.float32, (4,)), np.array([1, 1, NAN, -2], np.float32))
    same(
        reduced("tl.reduce(x, 1, nan_max)", x, np.float32, (4,), FIRST_NAN),
        np.array([NAN, 9, NAN, 0.0], np.float32),
    )
    same(reduced("take(best(x, N), 1)", x, np.int32, (4,), FIRST_NAN), np.array([1, 1, 0, 0], np.int32))
    same(
        reduced("take(best(x, N), 0)", x, np.float32, (4,), FIRST_NAN),
        np.array([NAN, 9, NAN, -0.0], np.float32),
    )


def test_reduction_checks_the_combine_function() -> None:
    helper = "\n@triton.jit\ndef wide(a, b):\n    return (a + b).to(tl.float64)\n"
    with pytest.raises(TypeError, match=r"returns \(fp64\), expected \(fp32\)"):
        reduced("tl.reduce(x, 1, wide)", np.ones((2, 4), "f4"), np.float64, (2,), helper)


RECURRENCE = """
@triton.jit
def compose(a, b, c, d):
    return a * c, b * c + d

@triton.jit
def recurrence(x, REVERSE: tl.constexpr):
    _, y = tl.associative_scan((x, x + 1), 1, compose, reverse=REVERSE)
    return y
"""


def test_scans() -> None:
    x = np.random.default_rng(2).integers(-3, 4, (4, 8))
    same(reduced("tl.cumsum(x, 1)", x.astype("f4"), np.float32, (4, 8)), x.cumsum(1).astype("f4"))
    same(reduced("tl.cumsum(x, 0)", x, np.int64, (4, 8)), x.cumsum(0))
    reverse = x[:, ::-1].cumsum(1)[:, ::-1]
    same(reduced("tl.cumsum(x, 1, reverse=True)", x, np.int64, (4, 8)), reverse)
    same(reduced("tl.cumprod(x, 1)", x.astype("i4"), np.int32, (4, 8)), x.cumprod(1).astype("i4"))
    for flip in (1, -1):
        want, state = np.zeros_like(x), np.zeros(4, np.int64)
        for k in range(8):
            state = state * x[:, ::flip][:, k] + x[:, ::flip][:, k] + 1
            want[:, ::flip][:, k] = state
        got = reduced(f"recurrence(x, {flip < 0})", x, np.int64, (4, 8), RECURRENCE)
        same(got, want)


DOT = """
@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, K, PRECISION: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=ACC)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + (k + i)[None, :], mask=(k + i)[None, :] < K, other=0.0)
        b = tl.load(b_ptr + (k + i)[:, None] * BLOCK + i[None, :], mask=(k + i)[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc)
"""


@pytest.mark.parametrize("name", [*FLOATS, "float8_e5m2", "float8_e4m3fn", "int8"])
def test_dot_accumulates_in_a_wide_type_over_a_run_time_k(name: str) -> None:
    rng = np.random.default_rng(4)
    acc = {"float64": "float64", "int8": "int32"}.get(name, "float32")
    n = 32 if sample(name).dtype.itemsize == 1 else 16
    a, b = (rng.integers(-8, 8, shape).astype(sample(name).dtype) for shape in ((n, 40), (40, n)))
    c = np.zeros((n, n), acc)
    run(DOT, a, b, c, np.int32(40), PRECISION="ieee", ACC=getattr(tl, acc), BLOCK=n)
    same(c, a.astype(acc) @ b.astype(acc))


def test_dot_in_tf32_drops_the_low_bits() -> None:
    a, b = np.eye(16, dtype=np.float32) * np.float32(1 + 2**-10 - 2**-13), np.eye(16, dtype=np.float32)
    c = np.zeros((16, 16), np.float32)
    run(DOT, a, b, c, np.int32(16), PRECISION="tf32", ACC=tl.float32, BLOCK=16)
    same(c, b)
    run(DOT, a, b, c, np.int32(16), PRECISION="ieee", ACC=tl.float32, BLOCK=16)
    same(c, a)


def test_dot_is_refused_where_the_compiler_refuses_it() -> None:
    a, c = np.ones((16, 16), np.int8), np.zeros((16, 16), np.int32)
    with pytest.raises(AssertionError, match="K >= 32"):
        run(DOT, a, a, c, np.int32(16), PRECISION="ieee", ACC=tl.int32, BLOCK=16)


def test_shapes_change() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    same(reduced("x.T", x, np.float32, (8, 4)), x.T.copy())
    same(reduced("tl.trans(tl.reshape(x, [2, 2, 8]), 2, 0, 1)", x, np.float32, (8, 2, 2)), x.reshape(2, 2, 8).transpose(2, 0, 1).copy())  # fmt: skip
    same(reduced("tl.join(x, x + 1)", x, np.float32, (4, 8, 2)), np.stack([x, x + 1], -1))
    same(
        reduced("take(tl.split(tl.reshape(x, [4, 4, 2])), 1)", x, np.float32, (4, 4), FIRST_NAN),
        x[:, 1::2].copy(),
    )
    same(reduced("tl.flip(x, 1)", x, np.float32, (4, 8)), x[:, ::-1].copy())
    same(reduced("tl.sort(x, 1, descending=True)", x, np.float32, (4, 8)), x[:, ::-1].copy())
    same(
        reduced("tl.gather(x, (x * 0).to(tl.int32) + 3, 1)", x, np.float32, (4, 8)),
        np.repeat(x[:, 3:4], 8, 1),
    )
    counts = reduced("tl.histogram(tl.reshape(x.to(tl.int32), [32]), 16)", x % 20, np.int32, (16,))
    same(counts, np.bincount((x % 20).astype(int).ravel(), minlength=20)[:16].astype(np.int32))
    softmax = np.exp(x - x.max(1, keepdims=True))
    got = reduced("tl.softmax(x.T).T", x, np.float32, (4, 8))
    np.testing.assert_allclose(got, softmax / softmax.sum(1, keepdims=True), rtol=1e-6)


# --- control flow and functions --------------------------------------------------------------------------------------


def test_loops() -> None:
    text = """
@triton.jit
def kernel(y_ptr, start, stop, step, BLOCK: tl.constexpr):
    total = 0
    for k in range(start, stop, step):
        total += k
    tl.store(y_ptr, total)
    for k in tl.range(0, stop, num_stages=2):
        tl.store(y_ptr + 1, k)
    for k in range(BLOCK, 0, -1):
        tl.store(y_ptr + 2, k)
    for k in tl.static_range(0, BLOCK, 2):
        tl.store(y_ptr + 3 + k, BLOCK - k)
    left = stop
    while left > 5:
        left -= 3
    tl.store(y_ptr + 7, left)
    tl.store(y_ptr + 8, 1 if stop > start else 0)
"""
    y = np.zeros(9, np.int64)
    run(text, y, np.int32(2), np.int32(11), np.int32(4), BLOCK=4)
    assert y.tolist() == [2 + 6 + 10, 10, 1, 4, 0, 2, 0, 5, 1]
    y[:] = 0
    run(text, y, np.int64(3), np.int64(3), np.int64(4), BLOCK=4)
    assert y.tolist() == [0, 2, 1, 4, 0, 2, 0, 3, 0]


def test_induction_variables_have_the_type_of_their_bounds() -> None:
    text = """
@triton.jit
def kernel(y_ptr, start, stop, INDEX: tl.constexpr):
    for k in range(start.to(INDEX), stop.to(INDEX)):
        tl.store(y_ptr, k * 2)
"""
    y = np.zeros(1, np.int64)
    large = np.int32(2**30 + 5)
    run(text, y, large - np.int32(1), large, INDEX=tl.int64)
    assert y[0] == 2**31 + 8
    run(text, y, large - np.int32(1), large, INDEX=tl.int32)
    assert y[0] == 2**31 + 8 - 2**32


HELPERS = """
@triton.jit
def between(x, low, high=3.0):
    return x >= low and x <= high

@triton.jit
def outside(x, low):
    return x < low or not between(x, low) or False

@triton.jit
def sign_of(x):
    if tl.sum((x < 0).to(tl.int32), 0) > 0:
        return -1.0
    return 1.0

@triton.jit
def scaled(x, FACTOR: tl.constexpr = 2):
    tl.static_assert(FACTOR % 2 == 0, "FACTOR must be even")
    half: tl.constexpr = FACTOR // 2
    if half > 1:
        return x * half, x
    else:
        return x, x * LANES

@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.multiple_of(tl.arange(0, BLOCK), 8)
    x = tl.load(x_ptr + i)
    tl.device_assert(x == x, "NaN")
    tl.store(y_ptr + i, between(x, 1.0).to(tl.float32))
    tl.store(y_ptr + BLOCK + i, outside(x, 1.0).to(tl.float32))
    a, b = scaled(x)
    c, d = scaled(x, FACTOR=4)
    tl.store(y_ptr + 2 * BLOCK + i, b + c)
    tl.store(y_ptr + 3 * BLOCK, sign_of(x) * min(N, 7) * max(BLOCK, 2) * tl.cdiv(N, 4))
    tl.store(y_ptr + 3 * BLOCK + 1, x_ptr.dtype.element_ty == tl.float32)
"""


def test_helpers_logic_and_compile_time_values() -> None:
    x = np.array([0, 1, 2, 4], np.float32)
    y = np.zeros(16, np.float32)
    run(HELPERS, x, y, np.int32(9), BLOCK=4)
    assert y.tolist() == [0, 1, 1, 0, 1, 0, 0, 1, *(x * 8 + x * 2).tolist(), 7 * 4 * 3, 1, 0, 0]


def test_constructs_that_do_not_compile_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"chained comparison '0 < a < 1'"):
        pointwise("0 < a < 1", np.bool_, np.ones(4, np.float32))
    with pytest.raises(ValueError, match=r"a block of shape \[4\] is no condition"):
        pointwise("1 if a > 0 else 2", np.int32, np.ones(4, np.float32))
    with pytest.raises(AssertionError, match="FACTOR must be even"):
        reduced("scaled(x, 3)", np.ones((2, 2), "f4"), np.float32, (2, 2), HELPERS)
    with pytest.raises(AssertionError, match="NaN"):
        run(HELPERS, np.array([1, NAN], np.float32), np.zeros(8, np.float32), np.int32(2), BLOCK=2)
    with pytest.raises(TypeError, match="compile-time bounds"):
        run(
            "\n@triton.jit\ndef kernel(y_ptr, n):\n    for i in tl.static_range(n):\n        pass\n",
            np.zeros(1),
            np.int32(2),
        )


def test_programs_and_their_numbers() -> None:
    text = """
@triton.jit
def kernel(y_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(y_ptr + at, at + 1)
"""
    y = np.zeros((4, 3, 2), np.int64)
    run(text, y, grid=(2, 3, 4))
    assert y.ravel().tolist() == list(range(1, 25))
    run(text, y[:0], grid=(0, 1, 1))


# --- memory ----------------------------------------------------------------------------------------------------------

ACCESS = """
@triton.jit
def access(x_ptr, y_ptr, N, LOAD: tl.constexpr, STORE: tl.constexpr, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + LOAD, mask=i < N)
    tl.store(y_ptr + i + STORE, x, mask=i < N)
    tl.atomic_add(y_ptr + i + ATOMIC, x, mask=i < N)
"""


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        (
            (1, 0, 0),
            r"load from x_ptr at byte 16 \(element 4\), outside its memory, bytes 0 to 16; 1 of 4 lanes",
        ),
        ((-2, 0, 0), r"load from x_ptr at byte -8 \(element -2\), .*; 2 of 4 lanes"),
        ((0, 3, 0), r"store to y_ptr at byte 16 \(element 4\), .*; 3 of 4 lanes"),
        ((0, 0, 4), r"atomic on y_ptr at byte 16 \(element 4\), .*; 4 of 4 lanes"),
    ],
)
def test_access_outside_the_parameter_is_a_fault(offsets: tuple[int, int, int], message: str) -> None:
    # Both arrays lie in one buffer: leaving x for y, or y for x, is a fault of the pointer's own parameter.
    buffer = np.ones(16, np.float32)
    x, y = buffer[4:8], buffer[8:12]
    with pytest.raises(KernelFault, match=r"^access, program \(0, 0, 0\): " + message) as caught:
        run(
            ACCESS, x, y, np.int32(4), **dict(zip(("LOAD", "STORE", "ATOMIC"), offsets, strict=True)), BLOCK=8
        )
    line = {0: "x = tl.load", 1: "tl.store", 2: "tl.atomic_add"}[next(i for i in range(3) if offsets[i])]
    assert any("in kernel access, program (0, 0, 0), line" in n and line in n for n in caught.value.__notes__)
    run(ACCESS, x, y, np.int32(4), LOAD=0, STORE=0, ATOMIC=0, BLOCK=8)
    run(ACCESS, x, y, np.int32(0), LOAD=10**6, STORE=10**6, ATOMIC=10**6, BLOCK=8)
    run(ACCESS, x, y, np.int32(4), LOAD=1, STORE=-1, ATOMIC=1, BLOCK=4, checked=False)


def test_pointers_of_mixed_origin_may_touch_either_parameter() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, SHIFT: tl.constexpr):
    i = tl.arange(0, 4)
    either = tl.where(i < 2, x_ptr + i, y_ptr + i) + SHIFT
    tl.store(z_ptr + i, tl.load(either).to(tl.int32, bitcast=True))
"""
    buffer = np.arange(64, dtype=np.float32)
    x, y, z = buffer[8:12], buffer[20:24], np.zeros(4, np.int32)
    run(text, x, y, z, SHIFT=0)
    same(z.view(np.float32), np.array([8, 9, 22, 23], np.float32))
    with pytest.raises(KernelFault, match="load from y_ptr at byte 16"):
        run(text, x, y, z, SHIFT=1)


def test_lanes_masked_off_without_a_value_are_poisoned() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < N), 0))
    tl.store(y_ptr + 1, tl.sum(tl.load(x_ptr + i, mask=i < N, other=0), 0))
    tl.store(y_ptr + 2, tl.load(x_ptr, mask=N < 0, other=0))
"""
    for name in FLOATS:
        y = np.zeros(3, sample(name).dtype)
        run(text, np.ones(3, y.dtype), y, np.int32(3), BLOCK=4)
        same(y, np.array([NAN, 3, 0], y.dtype))
    y = np.zeros(3, np.int32)
    run(text, np.ones(3, np.int32), y, np.int32(3), BLOCK=4)
    assert y.tolist() == [3 + 0x5A5A5A5A, 3, 0]


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "float32", "float64", "int32", "uint32", "int64", "uint64"]
)
def test_atomics(name: str) -> None:
    text = """
@triton.jit
def kernel(i_ptr, v_ptr, add_ptr, max_ptr, old_ptr, N, EXTREME: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(i_ptr + i, mask=i < N, other=0)
    v = tl.load(v_ptr + i, mask=i < N)
    tl.store(old_ptr + i, tl.atomic_add(add_ptr + at, v, mask=i < N), mask=i < N)
    if EXTREME:
        tl.atomic_max(max_ptr + at, v, mask=i < N)
        tl.atomic_min(max_ptr + 4 + at, v, mask=i < N)
"""
    rng = np.random.default_rng(6)
    dtype = sample(name).dtype
    at = rng.integers(0, 4, 13).astype(np.int32)
    low = 0 if name.startswith("u") else -20
    v = rng.integers(low, 20, 13).astype(dtype)
    if name.startswith("u"):
        v[0] = np.iinfo(name).max - 3
    total, old, running = np.zeros(4, dtype), np.zeros(13, dtype), np.zeros(4, dtype)
    extremes = np.ones(8, dtype)
    run(text, at, v, total, extremes, old, np.int32(13), EXTREME=dtype.itemsize > 2, BLOCK=16)
    for k, (where, value) in enumerate(zip(at, v, strict=True)):
        assert old[k] == running[where]
        with np.errstate(over="ignore"):
            running[where] += value
    same(total, running)
    if dtype.itemsize > 2:
        want = [max([1, *v[at == k]]) for k in range(4)] + [min([1, *v[at == k]]) for k in range(4)]
        same(extremes, np.array(want, dtype))


def test_compare_and_swap_and_exchange() -> None:
    text = """
@triton.jit
def kernel(x_ptr, old_ptr):
    tl.store(old_ptr, tl.atomic_cas(x_ptr, 5, 7))
    tl.store(old_ptr + 1, tl.atomic_cas(x_ptr, 5, 9))
    tl.store(old_ptr + 2, tl.atomic_xchg(x_ptr, 11))
"""
    for dtype in (np.int32, np.uint32):
        x, old = np.array([5], dtype), np.zeros(3, dtype)
        run(text, x, old)
        assert (x[0], old.tolist()) == (11, [5, 7, 7])


def test_tensor_descriptors() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    for m in range(0, M, BLOCK):
        for n in range(0, N, BLOCK):
            y.store([m, n], x.load([m, n]) * 2)
"""
    buffer = np.zeros(2 * 12 * 20 + 8, np.float32)
    start = -buffer.ctypes.data % 16 // 4
    x, y = buffer[start : start + 240].reshape(12, 20), buffer[start + 240 : start + 480].reshape(12, 20)
    x[:] = np.arange(240).reshape(12, 20)
    run(text, x, y, np.int32(12), np.int32(20), BLOCK=8)
    same(y, x * 2)


# --- the module around a kernel --------------------------------------------------------------------------------------


def test_interpret_refuses_what_does_not_fit() -> None:
    namespace = module(COPY)
    with pytest.raises(
        ValueError, match=r"copy\(x_ptr, y_ptr, N, BLOCK\): expected types for x_ptr, y_ptr, N, got \*fp32"
    ):
        interpret(namespace, "copy", ["*fp32"], {"BLOCK": 4})
    with pytest.raises(ValueError, match="no parameter is called TILE"):
        interpret(namespace, "copy", ["*fp32", "*fp32", "i32"], {"BLOCK": 4, "TILE": 4})
    with pytest.raises(ValueError, match=r"parameter N has type 'int'"):
        interpret(namespace, "copy", ["*fp32", "*fp32", "int"], {"BLOCK": 4})
    with pytest.raises(ValueError, match=r"missing: expected a @triton.jit function, got NoneType"):
        interpret(namespace, "missing", [], {})
    kernel = interpret(namespace, "copy", ["*fp32", "*fp32", "i32"], {"BLOCK": 4})
    with pytest.raises(TypeError, match="copy takes 3 arguments, got 1"):
        kernel((1, 1, 1), (1, 1, 1), (0,))
    with pytest.raises(TypeError, match="copy has 2 pointer parameters, got 1 extents"):
        kernel((1, 1, 1), (1, 1, 1), (0, 0, np.int32(0)), None, [(0, 1)])


def test_a_module_without_a_file_keeps_its_source() -> None:
    namespace = module(HELPERS)
    assert "return x >= low and x <= high" in inspect.getsource(namespace["between"].fn)
    with pytest.raises(ZeroDivisionError) as caught:
        pointwise("a * (1 // 0)", np.float32, np.ones(1, np.float32))
    assert "tl.store(y_ptr + i, a * (1 // 0), mask=i < N)" in caught.value.__notes__[-1]
    assert any(entry.name == "pointwise" and "(1 // 0)" in str(entry.statement) for entry in caught.traceback)


ROWS = """
@triton.jit
def gate(x):
    return libdevice.tanh(x) * tl.sigmoid(x)

@triton.jit
def rows(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(tl.cdiv(N, BLOCK)):
        total += gate(tl.load(x_ptr + k * BLOCK + i, mask=k * BLOCK + i < N, other=0.0))
    tl.store(y_ptr + tl.program_id(0), tl.sum(total, 0))
"""


def compiled() -> str:
    source = compiler.ASTSource(
        module(ROWS)["rows"],
        signature={"x_ptr": "*fp32", "y_ptr": "*fp32", "N": "i32", "BLOCK": "constexpr"},
        constexprs={(3,): 4},
    )
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": False})
    return str(kernel.asm["ptx"])


@pytest.fixture
def empty_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Triton compiles again for each test, instead of reading its cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    yield


def surface() -> dict[tuple[str, str], int]:
    parts = {
        "tl": tl,
        "core": tl.core,
        "math": tl.math,
        "standard": tl.standard,
        "tensor": tl.tensor,
        "dtype": tl.dtype,
    }
    return {(name, key): id(value) for name, part in parts.items() for key, value in vars(part).items()}


def test_kernels_compile_before_between_during_and_after(empty_cache: None) -> None:
    before, text = surface(), compiled()
    failures: list[BaseException] = []

    def compile_again() -> None:
        try:
            assert compiled() == text
        except BaseException as error:
            failures.append(error)

    x, y = np.linspace(-3, 3, 10, dtype=np.float32), np.zeros(1, np.float32)
    want = np.sum(np.tanh(x) / (1 + np.exp(-x)))
    thread = threading.Thread(target=compile_again)
    thread.start()
    while thread.is_alive():
        run(ROWS, x, y, np.int32(10), BLOCK=4)
        np.testing.assert_allclose(y[0], want, rtol=1e-6)
    thread.join()
    assert not failures
    with pytest.raises(KernelFault):
        run(ROWS, x, y, np.int32(11), BLOCK=4)
    assert compiled() == text
    assert surface() == before
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        module(ROWS)["gate"](1.0)


def test_launches_in_several_threads() -> None:
    outputs = [np.zeros(300, np.int64) for _ in range(4)]
    text = """
@triton.jit
def kernel(y_ptr, value):
    tl.store(y_ptr + tl.program_id(0), value + tl.num_programs(0))
"""
    threads = [
        threading.Thread(target=run, args=(text, y, np.int32(k)), kwargs={"grid": (200 + k, 1, 1)})
        for k, y in enumerate(outputs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, y in enumerate(outputs):
        assert y.tolist() == [200 + 2 * k] * (200 + k) + [0] * (100 - k)


def test_neither_torch_nor_the_interpret_variable() -> None:
    program = f"""
import os, sys
import numpy as np
from launch.cpu.triton import execute, interpret
x = np.arange(4, dtype=np.float32)
kernel = interpret(execute({HEADER + COPY!r}, "copy"), "copy", ["*fp32", "*fp32", "i32"], dict(BLOCK=4))
kernel((1, 1, 1), (1, 1, 1), (x.ctypes.data, x.ctypes.data, np.int32(4)))
print("torch" in sys.modules, "TRITON_INTERPRET" in os.environ)
"""
    root = Path(inspect.getfile(execute)).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "False"]


def test_a_module_executed_for_upstreams_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    namespace = execute(HEADER + COPY, "interpreted")
    with pytest.raises(
        ValueError, match="got InterpretedFunction; execute the module with TRITON_INTERPRET unset"
    ):
        interpret(namespace, "copy", ["*fp32", "*fp32", "i32"], {"BLOCK": 4})
