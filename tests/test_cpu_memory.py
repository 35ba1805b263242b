"""Guarded and poisoned arrays: their layout, what they catch, and that their memory goes away."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from launch.cpu import memory
from launch.cpu.cuda import BlockFault, CpuModule, compile_cpu
from launch.cpu.memory import PAGE, Side, guarded, outside_written, poisoned


@functools.cache
def copy_module() -> CpuModule:
    text = "__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }"
    return compile_cpu(text, ["copy"])


def arange(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


LAYOUTS: dict[str, Callable[[], np.ndarray]] = {
    "contiguous": lambda: arange(24).reshape(4, 6),
    "transposed": lambda: arange(24).reshape(4, 6).T,
    "reversed": lambda: arange(24)[::-3],
    "both reversed": lambda: arange(24).reshape(4, 6)[::-1, ::-1],
    "columns": lambda: arange(24).reshape(4, 6)[:, 1:4],
    "broadcast": lambda: np.broadcast_to(arange(5), (3, 5)),
    "windows": lambda: np.lib.stride_tricks.sliding_window_view(arange(9), 4),
    "scalar": lambda: np.array(1.5, np.float32),
    "one": lambda: arange(1),
    "empty": lambda: arange(12).reshape(3, 4)[:, :0],
    "page": lambda: arange(PAGE),
    "odd": lambda: np.arange(7, dtype=np.float16),
    "bytes": lambda: np.arange(5, dtype=np.uint8),
    "bf16": lambda: np.arange(7).astype(ml_dtypes.bfloat16),
    "fp8": lambda: np.arange(7).astype(ml_dtypes.float8_e4m3fn)[::2],
}


@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_guarded_copies(layout: str, side: Side) -> None:
    array = LAYOUTS[layout]()
    for align in (16, 64, array.itemsize):
        copy = guarded(array, align=align, side=side)
        assert (copy.dtype, copy.shape, copy.strides) == (array.dtype, array.shape, array.strides)
        np.testing.assert_array_equal(copy, array)
        assert copy.ctypes.data % max(align, 16) == align % 16
        assert not outside_written(copy)
        low, high = np.lib.array_utils.byte_bounds(copy)
        gap = -high % PAGE if side == "end" else low % PAGE
        assert gap < max(align, 16) or copy.size == 0
        pages = np.frombuffer(copy.base, np.uint8)  # type: ignore[arg-type]
        before = low - pages.ctypes.data
        if before > PAGE:
            pages[before - 1] = 0
            assert outside_written(copy)


def test_gaps_are_poison() -> None:
    copy = guarded(arange(24).reshape(4, 6)[:, 1:4])
    around = np.lib.stride_tricks.as_strided(copy, (3, 6))
    np.testing.assert_array_equal(np.isnan(around), [[False] * 3 + [True] * 3] * 3)
    around[1, 4] = 0
    assert outside_written(copy)


FLOATS = [
    np.float16,
    np.float32,
    np.float64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
]


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.bool_])
def test_poisoned(dtype: type[np.generic]) -> None:
    array = poisoned((3, 5), dtype)
    assert array.shape == (3, 5)
    assert array.dtype == np.dtype(dtype)
    assert array.flags.c_contiguous
    assert array.tobytes() == b"\xff" * array.nbytes
    if np.dtype(dtype).kind in "fV":
        assert np.isnan(array.astype(np.float64)).all()


@pytest.mark.parametrize(("side", "step"), [("end", 1), ("start", -1)])
def test_guards_and_read_only_memory_fault(side: Side, step: int) -> None:
    x, y = guarded(arange(4), side=side), guarded(arange(4), side=side, read_only=True)
    z = poisoned(4, np.float32)
    copy = copy_module().function("copy")
    with pytest.raises(BlockFault) as caught:
        copy((1, 1, 1), (4, 1, 1), (x.ctypes.data + 16 * step, z.ctypes.data))
    assert caught.value.thread == (0, 0, 0)
    with pytest.raises(BlockFault, match="argument 1"):
        copy((1, 1, 1), (1, 1, 1), (x.ctypes.data, y.ctypes.data))
    np.testing.assert_array_equal(y, arange(4))


def test_without_mprotect_there_is_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_mprotect", None)
    copy, output = guarded(arange(8)), poisoned(8, np.float32)
    before, behind = (np.lib.stride_tricks.as_strided(copy[i:], (8,), (step,)) for i, step in ((0, -4), (7, 4)))
    assert np.isnan(before[1:]).all()
    assert np.isnan(behind[1:]).all()
    np.testing.assert_array_equal(copy, arange(8))
    np.lib.stride_tricks.as_strided(output, (9,))[8] = 0
    assert outside_written(output)


@pytest.mark.parametrize("align", [0, 3, 24, 2 * PAGE])
def test_impossible_alignment(align: int) -> None:
    with pytest.raises(ValueError, match="expected a power of two"):
        guarded(arange(4), align=align)


def test_guarded_memory_is_freed() -> None:
    def mapped() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    if sys.platform != "linux":
        pytest.skip("counts mappings in /proc")
    before = mapped()
    kept = [guarded(arange(8))[2:] for _ in range(50)]
    assert mapped() > before + 50
    assert kept[0][0] == 2
    kept.clear()
    assert mapped() < before + 20
