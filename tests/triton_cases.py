"""Kernels as test data for the interpreter: run a text, a pointwise expression, or an expression over a block."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import triton

from launch.cpu.triton import interpret
from launch.module import execute

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


def run(text: str, *args: Any, grid: tuple[int, int, int] = (1, 1, 1), checked: bool = True, **constexprs: Any) -> None:
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


def reduced(expression: str, x: np.ndarray[Any, Any], dtype: Any, shape: tuple[int, ...], helpers: str = "") -> Any:
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


COPY = """
@triton.jit
def copy(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < N), mask=i < N)
"""
