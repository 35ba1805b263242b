"""Arrays of all strides, shapes and alignments: right to the bit, read where they lie, nothing launched for nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from device_arrays import Arrays
from group_calls import assert_same_bits
from launches import Launches, Runner, address, described, recording
from memory_layouts import any_bits, view_with

import emitter
from emitter.dtypes import DTYPES, dtype
from launch import Cache

View = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, cache: Cache) -> Runner:
    return Runner(request.param, device, arrays, cache)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    return recording(monkeypatch)


def numbers(kind: str, *shape: int) -> np.ndarray:
    """Any bits, so that a wrong element shows."""
    return any_bits(np.random.default_rng([*kind.encode(), *shape]), dtype(kind), shape)


def like(array: np.ndarray, order: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    """`array` in memory of another order and steps."""
    return view_with(array, order, list(steps))


VIEWS: dict[str, View] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: like(x, (1, 0), (1, 1)),
    "columns apart": lambda x: like(x, (0, 1), (1, 2)),
    "rows apart": lambda x: like(x, (0, 1), (3, 1)),
    "reversed": lambda x: like(x, (0, 1), (-1, -1)),
    "rows reversed": lambda x: like(x, (0, 1), (-1, 1)),
    "transposed, reversed, apart": lambda x: like(x, (1, 0), (-2, 3)),
    "one row": lambda x: like(x, (0, 1), (0, 1)),
    "one column": lambda x: like(x, (0, 1), (1, 0)),
    "one element": lambda x: like(x, (0, 1), (0, 0)),
}
KINDS = ("f32", "f16", "i8", "f64", "bool")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_any_view_equals_it(run: Runner, kind: str, view: str) -> None:
    """A22 a to e, B07: of every item size, aligned and off by one element; `out=` strided too."""
    group = described(f"x: {kind}[M, N]", {"y": "copy(x)"})
    for shape in ((5, 7), (33, 64)):
        x = VIEWS[view](numbers(kind, *shape))
        for align in (16, x.itemsize):
            (y,) = run(group, x, aligns=(align,))
            assert_same_bits(y, np.ascontiguousarray(x), "the copy")
    template = np.zeros((33, 64), x.dtype)
    for out in ("transposed", "columns apart", "reversed"):
        (y,) = run(group, x, outs=[VIEWS[out](template)])
        assert_same_bits(y, np.ascontiguousarray(x), f"the copy to out: {out}")


def test_vectors_of_known_case(run: Runner) -> None:
    """A22 a, b, c, d, f with the values that a wrong stride gets wrong."""
    group = described("x: f32[N]", {"y": "x + 0.0"})
    plane = described("x: f32[M, N]", {"y": "x + 0.0"})
    (y,) = run(plane, np.array([[1, 3], [2, 4]], np.float32).T)
    assert y.ravel().tolist() == [1, 2, 3, 4]
    (y,) = run(plane, np.arange(10, dtype=np.float32).reshape(2, 5)[:, :4])
    assert y.ravel()[6] == 7
    for x, want in (
        (np.flip(np.arange(4, dtype=np.float32)), [3, 2, 1, 0]),
        (np.arange(10, dtype=np.float32)[::-3], [9, 6, 3, 0]),
        (np.arange(12, dtype=np.float32)[5:], [5, 6, 7, 8, 9, 10, 11]),
        (np.broadcast_to(np.ones(1, np.float32), (1000,)), [1] * 1000),
    ):
        (y,) = run(group, x)
        assert y.tolist() == want


@pytest.mark.parametrize("rank", [3, 4, 5, 6])
def test_permuted_axes_of_every_rank(run: Runner, rank: int) -> None:
    """A22 g: drawn orders, steps of every sign, an axis of size 1 with an arbitrary stride."""
    dims = ", ".join("ABCDEF"[:rank])
    group = described(f"x: i16[{dims}]; s: i8[{dims}]", {"y": "x + s", "z": "s * 2"})
    shape = (2, 3, 1, 4, 2, 3)[:rank]
    rng = np.random.default_rng(rank)
    for _ in range(3):
        orders = [tuple(rng.permutation(rank).tolist()) for _ in range(2)]
        x = like(numbers("i16", *shape), orders[0], tuple(rng.choice((1, 2, -1), rank).tolist()))
        s = like(numbers("i8", *shape), orders[1], tuple(rng.choice((1, 1, 0), rank).tolist()))
        strides = list(x.strides)
        strides[2] = 0x1000 * x.itemsize
        run.checked(group, np.lib.stride_tricks.as_strided(x, shape, strides), s)


def test_different_item_sizes_and_views_in_one_kernel(run: Runner) -> None:
    group = described(
        "a: i8[M, N]; b: i64[M, N]; c: bool[N]; d: f16[M, 1]",
        {"y": "where(c, a + b, b - a)", "z": "d * 2.0 + cast(a, 'f16')", "w": "a > 0"},
    )
    a, b, c, d = numbers("i8", 9, 40), numbers("i64", 9, 40), numbers("bool", 40), np.ones((9, 1), np.float16)
    pairs = [("transposed", "reversed"), ("columns apart", "one row"), ("one column", "transposed")]
    for first, second in pairs:
        run.checked(group, VIEWS[first](a), VIEWS[second](b), c[::-1], d[::-1], aligns=(1, 8, 1, 2))
    outs = [np.zeros((40, 9), np.int64).T, np.zeros((18, 40), np.float16)[::2], np.zeros((9, 40), bool)[:, ::-1]]
    run.checked(group, VIEWS["transposed"](a), b, c, d, outs=outs)


@pytest.mark.parametrize("view", VIEWS)
def test_the_kernel_reads_the_callers_memory(run: Runner, launches: Launches, view: str) -> None:
    """Nothing is copied: the pointers launched with are the arguments' own, and the outputs'."""
    group = described("x: f32[M, N]; b: f32[N]", {"y": "x * b", "z": "x > b"})
    x, b = VIEWS[view](numbers("f32", 6, 20)), numbers("f32", 20)
    library = run.arrays
    placed = [library.place(x), library.place(b[::-1])]
    results = run.load(group)(*(p.array for p in placed))
    assert launches.last.argument("pointer") == [address(a) for a in (*(p.array for p in placed), *results)]
    outs = [library.output(np.zeros((20, 6), np.float32).T), library.output(np.zeros((6, 20), bool))]
    returned = run.load(group)(*(p.array for p in placed), out=tuple(o.array for o in outs))
    assert all(r is o.array for r, o in zip(returned, outs, strict=True))
    assert launches.last.argument("pointer") == [address(p.array) for p in (*placed, *outs)]


def test_aligned_then_off_by_one_then_odd_by_one_kernel(run: Runner, launches: Launches) -> None:
    """B07: the instance is chosen at each launch, so that no vector is read where none lies."""
    group = described("x: f16[M, N]; b: f16[N]", {"y": "x * b"})
    kernel = run.load(group)
    for size, align, aligned in (
        (1024, 16, True),
        (1024, 2, False),
        (1023, 16, False),
        (1024, 8, False),
        (32, 16, True),
    ):
        x, b = np.arange(3 * size).reshape(3, size).astype(np.float16), np.full(size, 2, np.float16)
        placed = [run.arrays.place(x, align=align), run.arrays.place(b)]
        assert_same_bits(run.numpy(kernel(*(p.array for p in placed))), x + x, "twice")
        assert (launches.last.instance.vector > 1) == aligned
    assert len({i.vector for i in launches.instances}) == 2


def test_slices_that_no_vector_fits(run: Runner, device: str) -> None:
    """B07: 8-byte offset, 2-byte offset, odd rows; an address between elements is refused."""
    copy = described("x: f32[N]", {"y": "copy(x)"})
    flat = np.arange(1026, dtype=np.float32)[2:]
    (y,) = run(copy, flat, aligns=(8,))
    assert y.tolist() == flat.tolist() and y.sum(dtype=np.float64) == 525824
    (y,) = run(described("x: f16[N]", {"y": "copy(x)"}), np.arange(1027).astype(np.float16)[1:], aligns=(2,))
    assert y.tolist() == np.arange(1, 1027).astype(np.float16).tolist()
    run.checked(described("x: f16[M, N]; b: f16[N]", {"y": "x + b"}), numbers("f16", 3, 1185), numbers("f16", 1185))
    if device == "cpu":
        x = np.zeros(16, np.uint8)[1:13].view(np.float32)
        with pytest.raises(ValueError, match="x: its address is no multiple of the 4-byte element"):
            run.load(copy)(x)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (0, 0), (1, 0)])
def test_no_elements_no_launch(run: Runner, launches: Launches, shape: tuple[int, ...]) -> None:
    """A24: nothing is even compiled."""
    dims = ", ".join("ABC"[: len(shape)])
    group = described(f"x: f32[{dims}]; b: f32[]", {"y": "x + b", "z": "x > b"})
    b = np.asarray(1.0, np.float32)
    for x in (np.zeros(shape, np.float32), np.zeros((*shape[:-1], 2 * shape[-1] or 4), np.float32)[..., :0:2]):
        if x.shape != shape:
            continue
        y, z = run.load(group)(*run.on_device(x, b))
        assert (run.numpy(y).shape, run.numpy(z).shape) == (shape, shape)
        assert (run.numpy(y).dtype, run.numpy(z).dtype) == (np.float32, np.bool_)
    assert launches.built == launches.calls == []


def test_an_output_without_the_empty_axis_is_computed(run: Runner, launches: Launches) -> None:
    group = described("x: f32[M, N]; b: f32[N]", {"y": "x + row", "row": "b * 2.0", "mask": "row > 1.0"})
    x, b = np.zeros((0, 5), np.float32), np.arange(5, dtype=np.float32)
    y, row, mask = run(group, x, b)
    assert y.shape == (0, 5)
    assert row.tolist() == [0, 2, 4, 6, 8]
    assert mask.tolist() == [False, True, True, True, True]
    outs = [np.zeros((0, 5), np.float32), np.zeros(10, np.float32)[::2], np.zeros(5, bool)]
    y, row, mask = run(group, x, b, outs=outs)
    assert row.tolist() == [0, 2, 4, 6, 8]
    launches.clear()
    _, row, _ = run(group, np.zeros((4, 0), np.float32), b[:0])
    assert row.shape == (0,) and launches.calls == []


def test_an_output_without_the_empty_axis_gathers_over_an_axis_of_the_space(run: Runner) -> None:
    """The axis that is picked from keeps its size, and so does the number that a dim is."""
    group = described("t: f32[A, M, 1, 1]; x: f32[A, M, K]", {"y": "x + 1.0", "first": "take(t, 1, 1) + M"})
    table = np.arange(12, dtype=np.float32).reshape(3, 4, 1, 1)
    _, first = run(group, table, np.zeros((3, 4, 0), np.float32))
    assert first.ravel().tolist() == [5, 9, 13]
    _, first = run(group, table[:, :0], np.zeros((3, 0, 0), np.float32))
    assert first.ravel().tolist() == [0, 0, 0]


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize(("inner", "vectors"), [((5, 3), False), ((4, 4), True)])
def test_a_gather_from_rows_of_odd_length_takes_no_vectors(
    inner: tuple[int, int], vectors: bool, pinned: bool, run: Runner, launches: Launches
) -> None:
    """B07: a flat kernel whose loads start at a multiple of the row."""
    group = described("t: f16[N, K, L]; i: i32[]", {"y": "take(t, i, 0)"})
    table = np.arange(64 * inner[0] * inner[1], dtype=np.float32).astype(np.float16).reshape(64, *inner)
    kernel = run.load(group, static=dict(zip("KL", inner, strict=True)) if pinned else None)
    for at in (0, 3, -1):
        y = kernel(*run.on_device(table, np.asarray(at, np.int32)))
        assert_same_bits(run.numpy(y), table[at], f"row {at}")
    assert {instance.vector > 1 for instance in launches.instances} == {vectors}


def test_no_dims_and_size_one(run: Runner) -> None:
    """A24: 0-d with itself, and beside axes of size 1."""
    (y,) = run.checked(described("x: f32[]", {"y": "x + x"}), np.asarray(3.5, np.float32))
    assert y.shape == () and y == 7
    group = described("x: f32[]; o: f32[A, 1, C]", {"y": "x + o", "z": "x * 2.0"})
    y, z = run.checked(group, np.asarray(3.5, np.float32), np.ones((2, 1, 3), np.float32))
    assert y.shape == (2, 1, 3) and z.shape == () and y.ravel().tolist() == [4.5] * 6
    for shape in ((1,), (1, 1), (1, 1, 1, 1, 1, 1)):
        dims = ", ".join("ABCDEF"[: len(shape)])
        x = np.lib.stride_tricks.as_strided(numbers("i32", 64), shape, (12,) * len(shape))
        run.checked(described(f"x: i32[{dims}]", {"y": "x - 1"}), x)


def test_outputs_of_every_dtype_and_several_shapes(run: Runner) -> None:
    body = {f"y_{d}": f"cast(x, '{d}')" for d in DTYPES} | {"row": "cast(b, 'u8')", "one": "cast(c, 'f64')"}
    group = described("x: i8[M, N]; b: f32[N]; c: f16[M, 1]", body)
    x, b, c = numbers("i8", 7, 33), np.arange(33, dtype=np.float32), np.ones((7, 1), np.float16)
    results = run.checked(group, x, b, c)
    assert [r.shape for r in results[-3:]] == [(7, 33), (33,), (7, 1)]


def test_every_order_of_three_axes_with_a_broadcast_row(run: Runner) -> None:
    group = described("x: f32[A, B, C]; r: f32[C]; p: f32[B, 1]", {"y": "x * r + p"})
    x, r, p = (np.ascontiguousarray(numbers("i8", *s), np.float32) for s in ((3, 5, 17), (17,), (5, 1)))
    for order in itertools.permutations(range(3)):
        run.checked(group, like(x, order, (1, 1, 1)), r, p)
