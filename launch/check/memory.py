"""Arrays amid poison, on the CPU or on a GPU, that show what a kernel wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cpu.memory import POISON, guarded, outside_written

Array = np.ndarray[Any, Any]
_MARGIN = 256
"""Bytes of poison on either side of an array on a GPU."""


@dataclass(frozen=True)
class OnCpu:
    """A NumPy array that ends at a guard page."""

    array: Array

    def contents(self) -> Array:
        return self.array

    def outside_written(self) -> bool:
        return outside_written(self.array)


@dataclass(frozen=True)
class OnGpu:
    """A CuPy array inside a larger block of bytes. first: where element 0 lies in it."""

    array: Any
    memory: Any
    like: Array
    first: int

    def contents(self) -> Array:
        return _elements(self.memory.get(), self.like, self.first)

    def outside_written(self) -> bool:
        around = self.memory.get()
        fill(_elements(around, self.like, self.first))
        return bool(np.any(around != POISON))


def place(like: Array, device: str, align: int = 16, contents: bool = True) -> OnCpu | OnGpu:
    """An array of the shape, dtype and strides of `like`, `align` bytes past a multiple of 16 (16: at one).

    contents: its elements too, and on the CPU a write to it faults; else all bytes are poison.
    """
    if device == "cpu":
        copy = guarded(like, align=align, read_only=contents)
        if not contents:
            fill(copy)
        return OnCpu(copy)
    return _on_gpu(like, align, contents)


def _on_gpu(like: Array, align: int, contents: bool) -> OnGpu:
    import cupy

    steps = [(n - 1) * stride for n, stride in zip(like.shape, like.strides, strict=True)] if like.size else []
    low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + like.itemsize
    first = _MARGIN + (-low + 15) // 16 * 16 + align % 16
    host = np.full((first + high + _MARGIN) // 16 * 16, POISON, np.uint8)
    if contents:
        _elements(host, like, first)[...] = like
    memory = cupy.asarray(host)
    # CuPy makes no fp8 arrays, but views bytes as such.
    bits = cupy.ndarray(like.shape, np.dtype(f"u{like.itemsize}"), memory.data + first, like.strides)
    return OnGpu(bits.view(like.dtype), memory, like, first)


def on_host(array: Any) -> Array:
    """A kernel's result as a NumPy array."""
    if isinstance(array, np.ndarray):
        return array
    return np.asarray(array.view(np.dtype(f"u{array.dtype.itemsize}")).get()).view(array.dtype)


def fill(array: Array) -> None:
    """Poison in every byte of its elements."""
    array.view(np.dtype(f"u{array.itemsize}"))[...] = int.from_bytes(bytes([POISON]) * array.itemsize, "little")


def _elements(memory: Array, like: Array, first: int) -> Array:
    return np.ndarray(like.shape, like.dtype, memory, first, like.strides)
