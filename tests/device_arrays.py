"""Arrays on the device under test: copies of NumPy arrays with the same strides, amid poison.

On the CPU they end at a guard page (`launch.cpu.memory`). On a GPU they are CuPy's, or torch's where CuPy lacks a
dtype, and stray writes show in the poison around them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from launch.check_memory import MARGIN, OnCpu, OnGpu, elements, extent, poison
from launch.cpu.memory import PAGE, POISON, Side, guarded


class Placed(Protocol):
    """One array on the device. `array` is what a kernel takes."""

    array: Any

    def numpy(self) -> np.ndarray:
        """Its elements now."""

    def outside_written(self) -> bool:
        """Whether a byte around or between its elements has changed."""

    def surround(self, byte: int) -> None:
        """Set every byte around and between its elements."""


class Arrays(ABC):
    """Makes arrays of one library. negative_strides: whether it knows them. module: what it allocates with."""

    negative_strides = True

    def place(self, array: np.ndarray, *, align: int = 16, side: Side = "end", read_only: bool = False) -> Placed:
        """A copy of `array`.

        align: below 16, so many bytes behind a multiple of 16. side: the end that abuts the guard page. read_only:
        writing to it faults, where the device can do that.
        """
        return self._make(array, array, align, side, read_only)

    def output(self, like: np.ndarray, *, align: int = 16, side: Side = "end") -> Placed:
        """An array with the shape and strides of `like`, every byte of it poison."""
        return self._make(like, None, align, side, False)

    def serving(self, dtypes: Iterable[np.dtype]) -> Arrays:
        """The library that has all these dtypes."""
        return self

    @abstractmethod
    def to_numpy(self, array: Any) -> np.ndarray:
        """Any array of the library as NumPy's."""

    @abstractmethod
    def _make(
        self, like: np.ndarray, contents: np.ndarray | None, align: int, side: Side, read_only: bool
    ) -> Placed: ...


def arrays_on(device: str) -> Arrays:
    """Arrays of the CPU or of the current GPU."""
    return _Cupy() if device == "cuda" else _Numpy()


class _Guarded(OnCpu):
    def surround(self, byte: int) -> None:
        contents = self.array.copy()
        np.frombuffer(self.array.base, np.uint8)[PAGE:-PAGE] = byte
        self.array[...] = contents


class _Numpy(Arrays):
    def to_numpy(self, array: Any) -> np.ndarray:
        return np.asarray(array)

    def _make(self, like: np.ndarray, contents: np.ndarray | None, align: int, side: Side, read_only: bool) -> Placed:
        made = guarded(like, align=align, side=side, read_only=read_only)
        if contents is None:
            poison(made)
        return _Guarded(made)


class _Surrounded(OnGpu):
    def surround(self, byte: int) -> None:
        contents = self.numpy().copy()
        around = np.full(self.memory.size, byte, np.uint8)
        elements(around, self.like, self.first)[...] = contents
        self.memory.set(around)


class _Cupy(Arrays):
    def serving(self, dtypes: Iterable[np.dtype]) -> Arrays:
        import cupy

        try:
            for dtype in dtypes:
                cupy.empty(0, dtype)
        except (TypeError, ValueError):
            return _Torch()
        return self

    def to_numpy(self, array: Any) -> np.ndarray:
        return np.asarray(array.get())

    def _make(self, like: np.ndarray, contents: np.ndarray | None, align: int, side: Side, read_only: bool) -> Placed:
        import cupy

        low, high = extent(like)
        first = MARGIN + (-low + 15) // 16 * 16 + (align if align < 16 else 0)
        host = np.full(first + high + MARGIN, POISON, np.uint8)
        host = host[: host.size // 16 * 16]
        if contents is not None:
            elements(host, like, first)[...] = contents
        memory = cupy.asarray(host)
        return _Surrounded(self._view(memory, like, first), memory, like, first)

    def _view(self, memory: Any, like: np.ndarray, first: int) -> Any:
        import cupy

        return cupy.ndarray(like.shape, like.dtype, memory.data + first, like.strides)


class _Torch(_Cupy):
    negative_strides = False

    def to_numpy(self, array: Any) -> np.ndarray:
        import torch

        if not isinstance(array, torch.Tensor):  # of a group that takes no tensor, outputs are CuPy's
            bits = f"u{array.dtype.itemsize}"
            return np.asarray(array.view(bits).get()).view(array.dtype)
        dtype = _numpy_dtype(str(array.dtype).removeprefix("torch."))
        raw = array.contiguous().view(getattr(torch, f"uint{8 * dtype.itemsize}"))
        return np.asarray(raw.cpu().numpy()).view(dtype)

    def _view(self, memory: Any, like: np.ndarray, first: int) -> Any:
        import torch

        flat = torch.from_dlpack(memory).view(getattr(torch, like.dtype.name))
        strides = [stride // like.itemsize for stride in like.strides]
        return flat.as_strided(like.shape, strides, first // like.itemsize)


def _numpy_dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, None) or name)
