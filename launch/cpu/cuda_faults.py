"""What CUDA C does wrong on the CPU: the report that a launch leaves, and the exceptions made of it."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Sequence
from typing import Any

from .faults import KernelFault

Index3 = tuple[int, int, int]

_KERNEL_SENT = 0x80  # si_code SI_KERNEL of Linux: a fault that has no address
_OPERATIONS = ("", "__syncthreads", "__syncwarp", "a warp shuffle", "a warp vote")


class BlockFault(KernelFault):
    """A kernel on the CPU was stopped: it touched memory that is not there, divided by zero, or trapped.

    kernel: the instance. block: blockIdx. thread: threadIdx, None where no one thread is to blame.
    address: the memory address touched, None where there is none.
    """

    def __init__(
        self, kernel: str, block: Index3, thread: Index3 | None, reason: str, address: int | None = None
    ) -> None:
        self.kernel = kernel
        self.block = block
        self.thread = thread
        self.reason = reason
        self.address = address
        where = f"block {block}" if thread is None else f"block {block}, thread {thread}"
        super().__init__(f"{kernel}, {where}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kernel, self.block, self.thread, self.reason, self.address)


class DivergentBarrier(BlockFault):
    """Threads of a block, or lanes of a warp, did not come to the same barrier or warp operation."""


class SharedMemoryOverrun(BlockFault):
    """A block wrote behind the dynamic shared memory of its launch."""


class Dim3(ctypes.Structure):
    """CUDA's `uint3`."""

    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

    def tuple(self) -> Index3:
        return self.x, self.y, self.z


class Report(ctypes.Structure):
    """Mirrors `cuda_cpu::Report` of cuda_cpu_launch.h."""

    NONE, FAULT, DIVERGED, OVERRUN = range(4)
    _fields_ = [
        ("kind", ctypes.c_int),
        ("signal", ctypes.c_int),
        ("code", ctypes.c_int),
        ("block", Dim3),
        ("thread", Dim3),
        ("other", Dim3),
        ("operation", ctypes.c_int * 2),
        ("line", ctypes.c_int * 2),
        ("address", ctypes.c_ulonglong),
    ]


def fault(
    kernel: str, report: Report, args: Sequence[object], shared_bytes: int, stacks: range, stack_bytes: int
) -> BlockFault:
    """The exception for a report.

    args: the launch's arguments, to say which one an address belongs to.
    shared_bytes: the launch's dynamic shared memory.
    stacks: the addresses of its fibers' stacks, of `stack_bytes` each.
    """
    block, thread = report.block.tuple(), report.thread.tuple()
    if report.kind == Report.OVERRUN:
        reason = f"wrote byte {report.address} of its dynamic shared memory of {shared_bytes} bytes"
        return SharedMemoryOverrun(kernel, block, None, reason)
    if report.kind == Report.DIVERGED:
        return DivergentBarrier(kernel, block, thread, _divergence(report))
    number = signal.Signals(report.signal)
    address: int | None = None
    if number == signal.SIGFPE:
        reason = "integer division by zero, or of the least integer by -1"
    elif number in (signal.SIGILL, signal.SIGTRAP):
        reason = "trapped: an access that the sanitizer refuses, or __trap()"
    elif report.code == _KERNEL_SENT:
        reason = "touched an address that cannot exist, or used a vector access on a misaligned one"
    elif report.address in stacks:
        address = report.address
        reason = f"stack overflow: the thread's local memory exceeds {stack_bytes} bytes"
    else:
        address = report.address
        where = _nearest(report.address, [(i, a) for i, a in enumerate(args) if type(a) is int])
        reason = f"touched memory at {address:#x}{where}, where it may not ({number.name})"
    return BlockFault(kernel, block, thread, reason, address)


def _divergence(report: Report) -> str:
    """What two threads of a block did that does not go together."""
    first, second = (
        f"{_OPERATIONS[operation]} (line {line})" if operation else ""
        for operation, line in zip(report.operation, report.line, strict=True)
    )
    if report.thread.tuple() == report.other.tuple():
        return f"is at {first}, whose mask leaves out its own lane"
    did = f"waits at {first}" if first else "has left the kernel"
    return f"{did} while thread {report.other.tuple()} waits at {second}"


def _nearest(address: int, pointers: list[tuple[int, int]]) -> str:
    """Where an address lies, seen from the nearest pointer argument below it, else from the lowest one."""
    if not pointers:
        return ""
    below = [(i, p) for i, p in pointers if p <= address]
    i, pointer = max(below, key=lambda it: it[1]) if below else min(pointers, key=lambda it: it[1])
    return f" (argument {i} {'+' if below else '-'} {abs(address - pointer)} bytes)"
