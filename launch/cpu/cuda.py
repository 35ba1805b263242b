"""Emitted CUDA C on the CPU: built by `compiler`, loaded with ctypes, launched through function handles."""

from __future__ import annotations

import ctypes
import struct
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .compiler import HostCompiler, build_cpu, host_compiler
from .cuda_faults import BlockFault, Dim3, DivergentBarrier, Index3, Report, SharedMemoryOverrun, fault
from .faults import KernelFault
from .memory import PAGE, Pages

__all__ = [
    "BlockFault",
    "CpuFunction",
    "CpuModule",
    "DivergentBarrier",
    "HostCompiler",
    "KernelFault",
    "SharedMemoryOverrun",
    "build_cpu",
    "compile_cpu",
    "host_compiler",
    "load_cpu",
]

MAX_BLOCK_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
_ABI = 1
_ARGUMENT_BYTES = 64 * 1024
_ALTERNATE_BYTES = 64 * 1024
_FIBER_BYTES = 64
_STACK_BYTES = 128 * 1024 + PAGE


class _Launch(ctypes.Structure):
    """Mirrors `cuda_cpu::Launch` of cuda_cpu_launch.h, as the structures below do theirs."""

    _fields_ = [
        ("arguments", ctypes.c_void_p),
        ("registry", ctypes.c_void_p),
        ("fibers", ctypes.c_void_p),
        ("stacks", ctypes.c_void_p),
        ("alternate", ctypes.c_void_p),
        ("stack_bytes", ctypes.c_ulonglong),
        ("alternate_bytes", ctypes.c_ulonglong),
        ("grid", Dim3),
        ("block", Dim3),
        ("shared_bytes", ctypes.c_uint),
        ("reverse", ctypes.c_int),
        ("report", Report),
    ]


class _Parameter(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char), ("size", ctypes.c_uint)]


class _Export(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("launch", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Launch))),
        ("parameters", ctypes.POINTER(_Parameter)),
        ("count", ctypes.c_int),
    ]


class _Module(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_int),
        ("launch_bytes", ctypes.c_int),
        ("fibers", ctypes.c_int),
        ("dynamic_limit", ctypes.c_int),
        ("count", ctypes.c_int),
        ("exports", ctypes.POINTER(_Export)),
        ("prepare", ctypes.CFUNCTYPE(None)),
    ]


_registry = Pages(PAGE)  # of the launches under way in this process, whichever modules they belong to


class _ThreadMemory(threading.local):
    """Memory that launches of one Python thread use, one after another: arguments, signal stack, fibers."""

    def __init__(self) -> None:
        self.fixed = Pages(_ARGUMENT_BYTES + _ALTERNATE_BYTES + MAX_BLOCK_THREADS * _FIBER_BYTES)
        self.arguments = self.fixed.address
        self.alternate = self.arguments + _ARGUMENT_BYTES
        self.fibers = self.alternate + _ALTERNATE_BYTES
        self.stacks: Pages | None = None

    def stacks_for(self, threads: int) -> int:
        """The address of as many stacks, each with a guard page at its low end."""
        if self.stacks is None or self.stacks.length < threads * _STACK_BYTES:
            count = max(32, 1 << (threads - 1).bit_length())
            self.stacks = Pages(count * _STACK_BYTES)
            for i in range(count):
                self.stacks.forbid(i * _STACK_BYTES, PAGE)
        return self.stacks.address

    def stack_addresses(self) -> range:
        """Where the stacks are."""
        if self.stacks is None:
            return range(0)
        return range(self.stacks.address, self.stacks.address + self.stacks.length)


_memory = _ThreadMemory()


@dataclass(frozen=True)
class CpuFunction:
    """A function handle: one instance of a kernel, launched on the CPU; several threads may launch at once.

    shared_bytes: dynamic shared memory of a block.
    reverse: blocks, and the threads of a block between barriers, run last first, which shows reads that no
    barrier orders.
    """

    name: str
    shared_bytes: int
    reverse: bool
    _launch: Any
    _parameters: tuple[tuple[str, int], ...]
    _offsets: tuple[int, ...]
    _fibers: bool
    _module: CpuModule  # whose code this is

    def __call__(self, grid: Index3, block: Index3, args: Sequence[int | np.generic], stream: None = None) -> None:
        """Run the kernel; returns when it is finished.

        args: pointers as int addresses, everything else as NumPy scalars of the parameter's own type.

        Raises TypeError for arguments that do not fit the parameters, ValueError for a grid or block that no
        GPU takes, BlockFault and its subclasses for what the kernel did wrong.
        """
        if stream is not None:
            raise ValueError(f"{self.name}: the stream is {stream!r}: expected None, the CPU has no streams")
        self._check_size("grid", grid, MAX_GRID)
        self._check_size("block", block, MAX_BLOCK)
        threads = block[0] * block[1] * block[2]
        if threads > MAX_BLOCK_THREADS:
            raise ValueError(f"{self.name}: a block of {threads} threads, at most {MAX_BLOCK_THREADS} are possible")
        memory = _memory
        self._pack(args, memory)
        launch = _Launch(
            arguments=memory.arguments,
            registry=_registry.address,
            fibers=memory.fibers,
            stacks=memory.stacks_for(threads) if self._fibers else None,
            alternate=memory.alternate,
            stack_bytes=_STACK_BYTES,
            alternate_bytes=_ALTERNATE_BYTES,
            grid=grid,
            block=block,
            shared_bytes=self.shared_bytes,
            reverse=self.reverse,
        )
        if self._launch(ctypes.byref(launch)) != Report.NONE:
            stacks, stack_bytes = memory.stack_addresses(), _STACK_BYTES - PAGE
            raise fault(self.name, launch.report, args, self.shared_bytes, stacks, stack_bytes)

    def _check_size(self, what: str, size: Index3, limits: Index3) -> None:
        if len(size) != 3 or not all(1 <= n <= limit for n, limit in zip(size, limits, strict=True)):
            raise ValueError(f"{self.name}: the {what} is {size}: expected three integers from 1 to {limits}")

    def _pack(self, args: Sequence[int | np.generic], memory: _ThreadMemory) -> None:
        """Put the arguments, and before them the table of their addresses, where the kernel finds them."""
        if len(args) != len(self._parameters):
            raise TypeError(f"{self.name} takes {len(self._parameters)} arguments, got {len(args)}")
        buffer, base = memory.fixed.buffer, memory.arguments
        rows = zip(args, self._parameters, self._offsets, strict=True)
        for i, (value, (kind, size), offset) in enumerate(rows):
            if type(value) is int:
                came, data = "p", value.to_bytes(8, "little")
            elif isinstance(value, np.generic):
                came, data = _KIND_OF.get(value.dtype.kind, ""), value.tobytes()
            else:
                came, data = "", b""
            if came != kind or len(data) != size:
                what = f"{self.name}: argument {i} is {value!r} ({type(value).__name__})"
                raise TypeError(f"{what}: expected {_KINDS[kind]} of {size} bytes")
            buffer[offset : offset + size] = data
        struct.pack_into(f"{len(args)}Q", buffer, 0, *[base + offset for offset in self._offsets])


_KIND_OF = {"b": "b", "i": "i", "u": "i", "f": "f", "V": "s"}
_KINDS = {
    "p": "a pointer (an int address)",
    "b": "np.bool_",
    "i": "a NumPy integer",
    "f": "a NumPy float",
    "s": "np.void",
}


class CpuModule:
    """A loaded shared object and the kernel instances in it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        module = _Module.in_dll(library, "kernelpress_module")
        if (module.abi, module.launch_bytes) != (_ABI, ctypes.sizeof(_Launch)):
            raise ValueError(f"a CPU module of interface {module.abi}, expected {_ABI}: build it again")
        module.prepare()
        self._library = library  # keeps the code
        self._fibers = bool(module.fibers)
        self._dynamic_limit: int = module.dynamic_limit
        self._exports = {export.name.decode(): export for export in module.exports[: module.count]}

    @property
    def instances(self) -> tuple[str, ...]:
        """The names that `function` takes."""
        return tuple(self._exports)

    def function(self, instance: str, *, shared_bytes: int = 0, reverse: bool = False) -> CpuFunction:
        """The handle of one instance.

        Raises KeyError for an instance that was not built, ValueError for more dynamic shared memory than a
        block can have (none where the text declares none).
        """
        if instance not in self._exports:
            raise KeyError(f"{instance!r} is not in this module, which has {', '.join(self._exports)}")
        if not 0 <= shared_bytes <= self._dynamic_limit:
            what = f"{instance}: {shared_bytes} bytes of dynamic shared memory"
            raise ValueError(f"{what}: expected 0 to {self._dynamic_limit}")
        export = self._exports[instance]
        parameters = tuple((p.kind.decode(), p.size) for p in export.parameters[: export.count])
        offsets, end = [], 8 * len(parameters)
        for _, size in parameters:
            end = -(-end // 16) * 16
            offsets.append(end)
            end += size
        if end > _ARGUMENT_BYTES:
            raise ValueError(f"{instance}: {end} bytes of arguments, at most {_ARGUMENT_BYTES} are possible")
        return CpuFunction(
            instance, shared_bytes, reverse, export.launch, parameters, tuple(offsets), self._fibers, self
        )


def load_cpu(binary: bytes, instances: Sequence[str], *, folder: Path | None = None) -> CpuModule:
    """Load what `build_cpu` returned. `folder`: where the temporary file goes, which is gone on return.

    Raises OSError for bytes that this machine cannot load, ValueError for ones of another interface, KeyError
    when one of `instances` is not among those it was built with.
    """
    with tempfile.TemporaryDirectory(prefix="kernelpress-", dir=folder) as work:
        path = Path(work, "module.so")  # a new name each time: loading a known one would give the module from before
        path.write_bytes(binary)
        module = CpuModule(ctypes.CDLL(str(path)))
    missing = [name for name in instances if name not in module.instances]
    if missing:
        raise KeyError(f"the module has no {', '.join(missing)}: it was built with {', '.join(module.instances)}")
    return module


def compile_cpu(
    device_text: str,
    instances: Sequence[str],
    *,
    sanitize: bool = False,
    optimize: int = 1,
    folder: Path | None = None,
) -> CpuModule:
    """`build_cpu`, then `load_cpu`."""
    binary = build_cpu(device_text, instances, sanitize=sanitize, optimize=optimize, folder=folder)
    return load_cpu(binary, instances, folder=folder)
