"""Arrays that show a kernel's stray accesses: they end at a page that cannot be touched, amid poison.

The pages come from mmap and are protected by mprotect. Where a system has no mprotect (Windows), arrays get
a page of poison on either side instead: a stray read gives NaN and `outside_written` finds a stray write,
but neither faults.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from typing import Any, Literal

import numpy as np

POISON = 0xFF
"""Every byte of poison: NaN in each float type that kernels take, -1 or the greatest value in integers."""

PAGE = mmap.PAGESIZE
Side = Literal["start", "end"]

_NO_ACCESS, _READ_ONLY = 0, 1  # PROT_NONE and PROT_READ, on every POSIX system


def _find_mprotect() -> Any:
    if os.name != "posix":
        return None
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


_mprotect = _find_mprotect()


class Pages:
    """Zeroed private memory of `length` bytes, rounded up to whole pages; freed with the last array on it.

    `buffer` is what arrays are made on, `address` where it begins.
    """

    def __init__(self, length: int) -> None:
        self.length = -(-length // PAGE) * PAGE
        if os.name == "posix":
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
            self.buffer = mmap.mmap(-1, self.length, flags=flags)
        else:
            self.buffer = mmap.mmap(-1, self.length)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))

    def forbid(self, offset: int, length: int) -> None:
        """Let any access to these bytes (whole pages) fault, where the system can."""
        self._protect(offset, length, _NO_ACCESS)

    def make_read_only(self, offset: int, length: int) -> None:
        """Let writes to these bytes (whole pages) fault, where the system can."""
        self._protect(offset, length, _READ_ONLY)

    def _protect(self, offset: int, length: int, access: int) -> None:
        if _mprotect is not None and _mprotect(self.address + offset, length, access) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot protect {length} bytes at {self.address + offset:#x}: {os.strerror(code)}")


def guarded(array: np.ndarray, *, align: int = 16, side: Side = "end", read_only: bool = False) -> np.ndarray:
    """A copy of `array` beside a guard page, with its dtype, shape and strides, negative and zero ones too.

    side: which end of the array abuts the guard page; beyond its other end, a later page is guarded too.
    The gaps between elements, and what lies between the array and the guard pages, are poison.
    align: where element 0 lies. A power of two from 16 to the page size: at a multiple of it. Below 16: that
    many bytes behind a multiple of 16, so `align=array.itemsize` misaligns the array by one element. Where
    the alignment leaves a gap before the guard page (less than max(16, align) bytes), the gap is poison.
    read_only: writes to the copy fault.

    Raises ValueError for another `align`. The memory is freed with the last view of the result.
    """
    low, high = _extent(array.shape, array.strides, array.itemsize)
    copy, pages = _place(array.shape, array.dtype, array.strides, low, high, align, side)
    copy[...] = array
    if read_only:
        pages.make_read_only(PAGE, pages.length - 2 * PAGE)
        copy.flags.writeable = False
    return copy


def poisoned(
    shape: int | tuple[int, ...], dtype: np.dtype | type, *, align: int = 16, side: Side = "end"
) -> np.ndarray:
    """A contiguous array full of poison beside a guard page: an output. `align`, `side`: as for `guarded`."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = np.dtype(dtype)
    strides = tuple(math.prod(max(n, 1) for n in shape[i + 1 :]) * dtype.itemsize for i in range(len(shape)))
    low, high = _extent(shape, strides, dtype.itemsize)
    return _place(shape, dtype, strides, low, high, align, side)[0]


def outside_written(array: np.ndarray) -> bool:
    """Whether poison around or between the elements of an array from `guarded` or `poisoned` has changed.

    Writes that no guard page catches show here: into gaps, and into the bytes that the alignment leaves free.
    """
    memory = np.frombuffer(array.base, np.uint8)  # type: ignore[arg-type]
    if _mprotect is not None:
        memory = memory[PAGE:-PAGE]  # the guard pages cannot have changed, nor be read
    outside = np.ones(memory.size, np.bool_)
    first = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    inside = np.ndarray((*array.shape, array.itemsize), np.bool_, outside, first, (*array.strides, 1))
    inside[...] = False
    return bool(np.any(memory[outside] != POISON))


def _extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes that the elements take, from and to, counted from element 0."""
    if 0 in shape:
        return 0, 0
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + itemsize


def _place(
    shape: tuple[int, ...],
    dtype: np.dtype,
    strides: tuple[int, ...],
    low: int,
    high: int,
    align: int,
    side: Side,
) -> tuple[np.ndarray, Pages]:
    if not 1 <= align <= PAGE or align & (align - 1):
        raise ValueError(f"align is {align}: expected a power of two from 1 to {PAGE}")
    modulus, remainder = max(align, 16), align % 16
    pages = Pages(high - low + modulus + 2 * PAGE)
    body = np.frombuffer(pages.buffer, np.uint8)
    body.fill(POISON)
    # Page boundaries are multiples of every modulus, so offsets stand for addresses.
    if side == "end":
        first = pages.length - PAGE - high
        first -= (first - remainder) % modulus
    else:
        first = PAGE - low
        first += (remainder - first) % modulus
    pages.forbid(0, PAGE)
    pages.forbid(pages.length - PAGE, PAGE)
    return np.ndarray(shape, dtype, pages.buffer, first, strides), pages
