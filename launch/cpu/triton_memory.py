"""Memory of an interpreted kernel: which launch is in progress, and what its programs may touch."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as native
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder
from triton.runtime.interpreter import TensorHandle as Handle

from .faults import KernelFault
from .libdevice import Array
from .memory import POISON
from .triton_types import held, narrow, unsigned, values


@dataclass
class Launch:
    """A launch in progress: what program runs, and where each parameter points.

    parameters: name, address and memory range [low, high) of each pointer parameter; no range, no check.
    """

    kernel: str
    grid: tuple[int, int, int]
    parameters: tuple[tuple[str, int, tuple[int, int] | None], ...]
    program: tuple[int, int, int] = (0, 0, 0)


CURRENT: ContextVar[Launch] = ContextVar("CURRENT")


class ParameterPointer(tl.pointer_type):  # type: ignore[misc]
    """The type of a pointer derived from one kernel parameter; upstream hands it from handle to handle."""

    def __init__(self, element: Any, parameter: int) -> None:
        super().__init__(element)
        self.parameter = parameter


class Memory(InterpreterBuilder):  # type: ignore[misc]
    """The interpreter's operations on pointers.

    Every unmasked lane is checked against the memory of the parameter that its pointer comes from. A masked-off lane
    with no `other` is undefined on a GPU: here it reads poison, so that nothing relies on it.
    """

    @property
    def grid_dim(self) -> tuple[int, int, int]:
        """Programs of the launch in progress, by axis."""
        return CURRENT.get().grid

    @property
    def grid_idx(self) -> tuple[int, int, int]:
        """The program in progress."""
        return CURRENT.get().program

    def create_bitcast(self, src: Any, dst_type: Any) -> Any:
        dtype = dst_type.scalar
        if dtype.is_ptr():
            parameter = getattr(src.dtype, "parameter", None)
            element = dtype.element_ty
            dtype = tl.pointer_type(element) if parameter is None else ParameterPointer(element, parameter)
        return Handle(src.data.view(held(dtype)), dtype)

    create_ptr_to_int = create_bitcast

    def create_select(self, cond: Any, lhs: Any, rhs: Any) -> Any:
        dtype = lhs.dtype.scalar
        if dtype.is_ptr() and getattr(lhs.dtype, "parameter", None) != getattr(rhs.dtype, "parameter", None):
            dtype = tl.pointer_type(dtype.element_ty)
        return Handle(np.where(cond.data, lhs.data, rhs.data), dtype)

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *policy: Any, **named_policy: Any) -> Any:
        dtype = ptrs.get_element_ty()
        lanes = _lanes(ptrs, mask)
        _check(ptrs, lanes, "load from")
        fill = _undefined(ptrs.data.shape, dtype) if other is None else other.data
        return Handle(native.load(ptrs.data, lanes, fill, held(dtype)), dtype)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *policy: Any) -> None:
        lanes = _lanes(ptrs, mask)
        _check(ptrs, lanes, "store to")
        native.store(ptrs.data, value.data, lanes)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        _check(ptr, np.ones(ptr.data.shape, np.bool_), "atomic on")
        bits = np.dtype(f"i{val.data.dtype.itemsize}")
        old = native.atomic_cas(ptr.data, cmp.data.view(bits), val.data.view(bits), self.ir_sem_to_interpreter_sem[sem])
        return Handle(old.view(val.data.dtype), val.dtype.scalar)

    def create_atomic_rmw(self, rmw_op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        lanes = _lanes(ptr, mask)
        _check(ptr, lanes, "atomic on")
        dtype, data = val.dtype.scalar, val.data
        if rmw_op == ir.ATOMIC_OP.FADD and dtype.is_bf16():
            return Handle(_add_bf16(ptr.data, data, lanes), dtype)
        if rmw_op in (ir.ATOMIC_OP.UMAX, ir.ATOMIC_OP.UMIN):
            data = unsigned(data)
        elif rmw_op == ir.ATOMIC_OP.XCHG:
            data = data.view(f"i{data.dtype.itemsize}")
        operation, order = self.ir_rmw_op_to_interpreter_rmw_op[rmw_op], self.ir_sem_to_interpreter_sem[sem]
        old = native.atomic_rmw(operation, ptr.data, data, lanes, order)
        return Handle(old.view(val.data.dtype), dtype)


def element_size(ptrs: Any) -> int:
    """Bytes of the elements that pointers point to; a boolean takes one."""
    return int(max(1, ptrs.get_element_ty().primitive_bitwidth // 8))


def _lanes(ptrs: Any, mask: Any) -> Array:
    """The unmasked lanes; upstream's descriptors give the mask as an array in 3.6 and as a handle in 3.9."""
    data: Array = mask if isinstance(mask, np.ndarray) else mask.data
    return data if data.shape == ptrs.data.shape else np.broadcast_to(data, ptrs.data.shape)


def _undefined(shape: tuple[int, ...], dtype: Any) -> Array:
    return np.full((*shape, held(dtype).itemsize), POISON, np.uint8).view(held(dtype)).reshape(shape)


def _add_bf16(addresses: Array, data: Array, lanes: Array) -> Array:
    """One lane after another, since lanes may share an address."""
    old, one = data.copy(), np.ones(1, np.bool_)
    for lane in zip(*np.nonzero(lanes), strict=True):
        where, addend = addresses[lane].reshape(1), data[lane].reshape(1)
        before = native.load(where, one, addend, held(tl.bfloat16))
        total = values(Handle(before, tl.bfloat16)) + values(Handle(addend, tl.bfloat16))
        native.store(where, narrow(total, tl.bfloat16), one)
        old[lane] = before[0]
    return old


def _check(ptrs: Any, lanes: Array, access: str) -> None:
    """Raise `KernelFault` unless every unmasked lane lies in the memory of the pointer's parameter."""
    parameters = CURRENT.get().parameters
    own = getattr(ptrs.dtype.scalar, "parameter", None)
    allowed = parameters if own is None else parameters[own : own + 1]
    ranges = [extent for _, _, extent in allowed if extent is not None]
    addresses = ptrs.data if lanes.all() else ptrs.data[lanes]
    if not ranges or len(ranges) != len(allowed) or addresses.size == 0:
        return
    size = element_size(ptrs)
    first, end = int(addresses.min()), int(addresses.max()) + size
    if any(low <= first and end <= high for low, high in ranges):
        return
    inside = np.zeros(addresses.shape, np.bool_)
    for low, high in ranges:
        inside |= (addresses >= low) & (addresses + np.uint64(size) <= high)
    if not inside.all():
        raise _fault(access, own, addresses[~inside], addresses.size, size)


def _fault(access: str, own: int | None, outside: Array, lanes: int, size: int) -> KernelFault:
    launch, address = CURRENT.get(), int(outside[0])
    # A pointer of no known origin is told from the parameter that points nearest to it.
    indices = range(len(launch.parameters)) if own is None else (own,)
    name, base, extent = min((launch.parameters[i] for i in indices), key=lambda p: abs(p[1] - address))
    low, high = extent or (base, base)
    offset = address - base
    return KernelFault(
        f"{launch.kernel}, program {launch.program}: {access} {name} at byte {offset} (element {offset // size}), "
        f"outside its memory, bytes {low - base} to {high - base}; {outside.size} of {lanes} lanes; "
        f"mask the access or correct the offset"
    )
