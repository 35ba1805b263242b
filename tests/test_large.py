"""Tensors too large for 32-bit offsets: the 64-bit instance is chosen and right, and just below the limit it is not.

On the CPU the memory is reserved and not used: only the pages of the few elements that are touched exist.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from device_arrays import Arrays
from launches import Launches, Runner, described, recording

import emitter
from emitter.statements import INDEX_LIMIT
from launch import Cache
from launch.cpu.memory import Pages

GIB = 2**30
ADD = described("x: i8[M, N]; b: i8[N]", {"y": "x + b"})
GATHER = described("x: i8[V]; k: i64[N]", {"y": "take(x, k, 0)"})
ROWS = described("x: i8[V, 4]; k: i32[N]", {"y": "take(x, k, 0)"})


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, cache: Cache) -> Runner:
    return Runner(request.param, device, arrays, cache)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    return recording(monkeypatch)


def reserve(run: Runner, size: int) -> Any:
    """So many zero bytes on the device; on the CPU they take memory only once they are written."""
    if run.device == "cpu":
        return np.frombuffer(Pages(size).buffer, np.int8)[:size]
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    if free < size + 4 * GIB:
        pytest.skip(f"needs {(size + 4 * GIB) / GIB:.0f} GiB of GPU memory, {free / GIB:.0f} are free")
    return cupy.zeros(size, cupy.int8)


def on_device(run: Runner, array: np.ndarray) -> Any:
    return run.arrays.place(array).array


def strided(run: Runner, memory: Any, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0) -> Any:
    if run.device == "cpu":
        return np.ndarray(shape, np.int8, memory, first, strides)
    import cupy

    return cupy.ndarray(shape, cupy.int8, memory.data + first, strides)


def largest(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The largest distance between two elements."""
    return sum((size - 1) * abs(stride) for size, stride in zip(shape, strides, strict=True))


@pytest.mark.parametrize("row", [GIB + 8, -GIB - 8, INDEX_LIMIT // 2 - 2, GIB // 2 + 7, 64])
@pytest.mark.parametrize("output", [False, True])
def test_strides_beyond_32_bits(run: Runner, launches: Launches, row: int, output: bool) -> None:
    shape, strides = (3, 4), (row, 1)
    reach = largest(shape, strides) + 1
    memory = reserve(run, reach)
    far = strided(run, memory, shape, strides, 2 * -row if row < 0 else 0)
    near = np.arange(12, dtype=np.int8).reshape(shape)
    b = np.array([10, 20, 30, 40], np.int8)
    kernel = run.load(ADD)
    if output:
        kernel(on_device(run, near), on_device(run, b), out=far)
        got = run.numpy(far)
    else:
        for m in range(3):
            far[m] = on_device(run, near[m].copy())
        got = run.numpy(kernel(far, on_device(run, b)))
    assert got.tolist() == (near + b).tolist()
    (instance,) = launches.instances
    assert instance.index == ("i64" if reach >= INDEX_LIMIT else "i32")
    assert reach < 2**31 or instance.index == "i64"
    width = np.int64 if instance.index == "i64" else np.int32
    assert {type(a) for kind in ("size", "stride") for a in launches.last.argument(kind)} == {width}


def test_the_limit_itself(run: Runner, launches: Launches) -> None:
    """One element more, and offsets are 64-bit."""
    kernel = run.load(ADD)
    b = on_device(run, np.ones(1, np.int8))
    for row, index in ((INDEX_LIMIT - 2, "i32"), (INDEX_LIMIT - 1, "i64")):
        launches.clear()
        memory = reserve(run, row + 1)
        memory[row] = 5
        assert run.numpy(kernel(strided(run, memory, (2, 1), (row, 1)), b)).tolist() == [[1], [6]]
        assert launches.last.instance.index == index


@pytest.mark.parametrize("entries", [1000, INDEX_LIMIT - 1, INDEX_LIMIT, 2**31 + 100])
def test_gathers_from_a_large_table(run: Runner, launches: Launches, entries: int) -> None:
    table = reserve(run, entries)
    places = [0, 1, entries // 2, entries - 1]
    for n, place in enumerate(places):
        table[place] = n + 1
    k = np.array([*places, -1, -entries, entries, -entries - 1, 2**40, 2**31 + entries], np.int64)
    got = run.numpy(run.load(GATHER)(table, on_device(run, k)))
    assert got.tolist() == [1, 2, 3, 4, 4, 1, 0, 0, 0, 0]
    assert launches.last.instance.index == ("i64" if entries >= INDEX_LIMIT else "i32")


def test_gathered_rows_beyond_32_bits(run: Runner, launches: Launches) -> None:
    """The table has fewer rows than 2**31, and more bytes: the row's offset is 64-bit though its index is i32."""
    rows = 2**29 + 3
    table = reserve(run, 4 * rows).reshape(rows, 4)
    for n, row in enumerate((0, rows // 2, rows - 1)):
        table[row] = n + 1
    got = run.numpy(run.load(ROWS)(table, on_device(run, np.array([rows - 1, rows // 2, 0, -1, rows], np.int32))))
    assert got.tolist() == [[3] * 4, [2] * 4, [1] * 4, [3] * 4, [0] * 4]
    assert launches.last.instance.index == "i64"


@pytest.mark.parametrize("shape", [(2**31 + 4099,), (3, 2**30 + 17), (2**30 + 17, 3), (INDEX_LIMIT - 3,)])
def test_contiguous_tensors_of_more_than_2_31_elements(
    run: Runner, launches: Launches, device: str, shape: tuple[int, ...]
) -> None:
    if device != "cuda":
        pytest.skip("needs a GPU: every element is computed")
    import cupy

    x = reserve(run, math.prod(shape)).reshape(shape)
    flat = x.reshape(-1)
    flat[::1021] = 7
    flat[-1] = 9
    dims = ", ".join("MN"[: len(shape)])
    group = described(f"x: i8[{dims}]; s: i8[{dims[-1]}]", {"y": "x * 3 + s"})
    s = cupy.ones(shape[-1], cupy.int8)
    y = run.load(group)(x, s)
    step = 2**28
    for start in range(0, flat.size, step):
        assert bool((y.reshape(-1)[start : start + step] == flat[start : start + step] * 3 + 1).all())
    assert launches.last.instance.index == ("i64" if flat.size >= INDEX_LIMIT else "i32")
    del x, y, flat
    cupy.get_default_memory_pool().free_all_blocks()
