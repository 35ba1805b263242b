"""Reductions, scans, dot, shapes, control flow and helper functions of interpreted Triton kernels."""

from __future__ import annotations

import numpy as np
import pytest
import triton.language as tl
from triton_cases import BF16, FLOATS, NAN, pointwise, reduced, run, same, sample

# The interpreter promises silence: no NumPy warning leaves it.
pytestmark = pytest.mark.filterwarnings("error")


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


def test_the_item_of_a_block() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr):
    item = tl.load(x_ptr + tl.arange(0, 1)).item()
    tl.store(y_ptr, tl.where(item > 2, item, tl.load(x_ptr + 1)))
"""
    for dtype in (np.uint32, np.uint8, np.float16):
        x, y = np.array([200, 1], dtype), np.array([0, 7], dtype)
        run(text, x, y)
        assert y.tolist() == [200, 7]


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
    turned = x.reshape(2, 2, 8).transpose(2, 0, 1).copy()
    same(reduced("tl.trans(tl.reshape(x, [2, 2, 8]), 2, 0, 1)", x, np.float32, (8, 2, 2)), turned)
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
