"""Where a check puts arrays: amid poison, so that stray accesses show. On the CPU they end at a guard page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .check_cases import Tensor
from .cpu.memory import POISON, guarded, outside_written

MARGIN = 256
"""Bytes of poison on either side of an array on a GPU."""


class Placed(ABC):
    """One array on the device. `array` is what a kernel takes."""

    array: Any

    @abstractmethod
    def numpy(self) -> np.ndarray:
        """Its elements now."""

    @abstractmethod
    def outside_written(self) -> bool:
        """Whether a byte around or between its elements has changed."""


class Memory(ABC):
    """Places arrays on one device."""

    @abstractmethod
    def input(self, tensor: Tensor) -> Placed:
        """A copy with the tensor's strides and alignment; on the CPU, writing to it faults."""

    @abstractmethod
    def output(self, tensor: Tensor) -> Placed:
        """An array with the tensor's strides and alignment, every byte of it poison."""

    @abstractmethod
    def to_numpy(self, array: Any) -> np.ndarray:
        """An array that a kernel returned."""


def memory_of(device: str) -> Memory:
    """Memory of "cpu" (NumPy) or of "cuda" (CuPy on the current GPU)."""
    return _CpuMemory() if device == "cpu" else _GpuMemory()


class OnCpu(Placed):
    """A NumPy array from `guarded`."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def numpy(self) -> np.ndarray:
        return np.asarray(self.array)

    def outside_written(self) -> bool:
        return outside_written(self.array)


class _CpuMemory(Memory):
    def input(self, tensor: Tensor) -> Placed:
        return OnCpu(guarded(tensor.array, align=tensor.align, side=tensor.side, read_only=True))

    def output(self, tensor: Tensor) -> Placed:
        made = guarded(tensor.array, align=tensor.align, side=tensor.side)
        poison(made)
        return OnCpu(made)

    def to_numpy(self, array: Any) -> np.ndarray:
        return np.asarray(array)


class OnGpu(Placed):
    """`memory` holds the bytes around and of `array`; element 0 of `like` lies `first` bytes into it."""

    def __init__(self, array: Any, memory: Any, like: np.ndarray, first: int) -> None:
        self.array, self.memory, self.like, self.first = array, memory, like, first

    def numpy(self) -> np.ndarray:
        return elements(self.memory.get(), self.like, self.first)

    def outside_written(self) -> bool:
        around = self.memory.get()
        poison(elements(around, self.like, self.first))
        return bool(np.any(around != POISON))


class _GpuMemory(Memory):
    def input(self, tensor: Tensor) -> Placed:
        return self._place(tensor.array, tensor.align, True)

    def output(self, tensor: Tensor) -> Placed:
        return self._place(tensor.array, tensor.align, False)

    def to_numpy(self, array: Any) -> np.ndarray:
        bits = f"u{array.dtype.itemsize}"
        return np.asarray(array.view(bits).get()).view(array.dtype)

    def _place(self, like: np.ndarray, align: int, filled: bool) -> Placed:
        import cupy

        low, high = extent(like)
        first = MARGIN + (-low + 15) // 16 * 16 + align % 16
        host = np.full((first + high + MARGIN) // 16 * 16, POISON, np.uint8)
        if filled:
            elements(host, like, first)[...] = like
        memory = cupy.asarray(host)
        # CuPy makes no arrays of fp8, but views bytes as fp8.
        bits = cupy.ndarray(like.shape, f"u{like.itemsize}", memory.data + first, like.strides)
        return OnGpu(bits.view(like.dtype), memory, like, first)


def poison(array: np.ndarray) -> None:
    """Set every byte of every element."""
    array.view(f"u{array.itemsize}")[...] = int.from_bytes(bytes([POISON]) * array.itemsize, "little")


def extent(array: np.ndarray) -> tuple[int, int]:
    """The bytes that the elements take, counted from element 0."""
    if array.size == 0:
        return 0, array.itemsize
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + array.itemsize


def elements(memory: np.ndarray, like: np.ndarray, first: int) -> np.ndarray:
    """The view of these bytes with the shape, dtype and strides of `like`, whose element 0 lies `first` bytes in."""
    return np.ndarray(like.shape, like.dtype, memory, first, like.strides)
