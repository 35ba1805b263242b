"""Triton's interpreter, repaired: `Builder` computes what a compiled kernel would.

Upstream's `InterpreterBuilder` (3.6 to 3.9) maps each IR operation to NumPy. Here the operations where that gives
another result than the GPU, or a warning, are replaced:

- bf16 and fp8 are computed in their values and rounded to nearest even;
- integers have no sign of their own, as in the IR: they wrap at their width, and each operation reads them as signed
  or unsigned. Division by zero, and its remainder, is undefined: all ones, as an H200 mostly gives;
- minimum and maximum follow `propagate_nan`, and -0 < +0; fma rounds once; functions are evaluated in f64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import min_dot_size
from triton.runtime.interpreter import InterpreterOptions
from triton.runtime.interpreter import TensorHandle as Handle

from .libdevice import Array, evaluate, fma, fma_to_odd, rsqrt
from .triton_memory import Memory
from .triton_types import NARROW_FLOATS, held, narrow, unsigned, values


def _floats(function: Callable[..., Array]) -> Callable[..., Any]:
    def method(self: Any, *operands: Any) -> Any:
        dtype = operands[0].dtype.scalar
        return Handle(narrow(function(*map(values, operands)), dtype), dtype)

    return method


def _accurate(function: Callable[..., Array]) -> Callable[..., Any]:
    return _floats(lambda x: evaluate(function, x))


def _float_test(function: Callable[..., Array]) -> Callable[..., Any]:
    return lambda self, lhs, rhs: Handle(function(values(lhs), values(rhs)), tl.int1)


def _integers(function: Callable[..., Array], sign: bool = True) -> Callable[..., Any]:
    def method(self: Any, *operands: Any) -> Any:
        first = operands[0].data
        if first.dtype == np.bool_:  # one bit, which wraps as any integer does
            result = (function(*(operand.data.view(np.uint8) for operand in operands)) & 1).astype(np.bool_)
        else:
            result = function(*(operand.data if sign else unsigned(operand.data) for operand in operands))
        return Handle(result.view(first.dtype), operands[0].dtype.scalar)

    return method


def _unsigned_test(function: Callable[..., Array]) -> Callable[..., Any]:
    return lambda self, lhs, rhs: Handle(function(unsigned(lhs.data), unsigned(rhs.data)), tl.int1)


def _quotient(a: Array, b: Array) -> Array:
    """Rounded toward zero."""
    floor = np.floor_divide(a, b)
    inexact = (a - floor * b != 0) & ((a < 0) != (b < 0))
    return np.where(b == 0, ~b, floor + inexact.astype(a.dtype))


def _remainder(a: Array, b: Array) -> Array:
    """With the sign of the dividend."""
    return np.where(b == 0, ~b, np.fmod(a, b))


def _high_product(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    product = a.astype(object) * b.astype(object) if bits == 64 else a.astype(np.uint64) * b
    return (product >> bits).astype(a.dtype)


def _signed_zero(extreme: Callable[..., Array], zero: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: np.where((a == 0) & (b == 0), zero(a, b), extreme(a, b))


_MINIMA = {nan: _signed_zero(f, lambda a, b: -(-a - b)) for nan, f in ((True, np.minimum), (False, np.fmin))}
_MAXIMA = {nan: _signed_zero(f, np.add) for nan, f in ((True, np.maximum), (False, np.fmax))}


class Builder(Memory):
    """The interpreter's operations; it has no state, so all launches share one."""

    def __init__(self) -> None:
        super().__init__()
        self.options = InterpreterOptions(debug=True, sanitize_overflow=False)
        self.codegen_fns["min_dot_size"] = min_dot_size(GPUTarget("cuda", 90, 32))

    create_fadd, create_fsub, create_fmul = _floats(np.add), _floats(np.subtract), _floats(np.multiply)
    create_fneg = _floats(np.negative)
    create_minimumf, create_minnumf = _floats(_MINIMA[True]), _floats(_MINIMA[False])
    create_maximumf, create_maxnumf = _floats(_MAXIMA[True]), _floats(_MAXIMA[False])
    create_fcmpOLT, create_fcmpOGT = _float_test(np.less), _float_test(np.greater)
    create_fcmpOLE, create_fcmpOGE = _float_test(np.less_equal), _float_test(np.greater_equal)
    create_fcmpOEQ, create_fcmpUNE = _float_test(np.equal), _float_test(np.not_equal)
    create_exp, create_exp2 = _accurate(np.exp), _accurate(np.exp2)
    create_log, create_log2 = _accurate(np.log), _accurate(np.log2)
    create_sin, create_cos, create_rsqrt = _accurate(np.sin), _accurate(np.cos), _accurate(rsqrt)

    create_add, create_sub = _integers(np.add), _integers(np.subtract)
    create_sdiv, create_udiv = _integers(_quotient), _integers(_quotient, sign=False)
    create_srem, create_urem = _integers(_remainder), _integers(_remainder, sign=False)
    create_lshr, create_umulhi = _integers(np.right_shift, sign=False), _integers(_high_product, sign=False)
    create_minui, create_maxui = _integers(np.minimum, sign=False), _integers(np.maximum, sign=False)
    create_icmpULT, create_icmpUGT = _unsigned_test(np.less), _unsigned_test(np.greater)
    create_icmpULE, create_icmpUGE = _unsigned_test(np.less_equal), _unsigned_test(np.greater_equal)

    def get_bf16(self, value: float) -> Any:
        """A bf16 constant, which 3.6 lacks."""
        return Handle(narrow(np.array([value], np.float32), tl.bfloat16), tl.bfloat16)

    def get_uint8(self, value: int) -> Any:
        return Handle(np.array([value], np.uint8).view(np.int8), tl.uint8)

    def get_uint16(self, value: int) -> Any:
        return Handle(np.array([value], np.uint16).view(np.int16), tl.uint16)

    def get_uint32(self, value: int) -> Any:
        return Handle(np.array([value], np.uint32).view(np.int32), tl.uint32)

    def get_uint64(self, value: int) -> Any:
        return Handle(np.array([value], np.uint64).view(np.int64), tl.uint64)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        """Between floats, and from a signed integer or to one, where out of range is undefined but no warning."""
        return Handle(narrow(values(src), dst_type.scalar), dst_type.scalar)

    def create_ui_to_fp(self, src: Any, dst_type: Any) -> Any:
        return Handle(narrow(unsigned(src.data), dst_type.scalar), dst_type.scalar)

    def create_fp_to_ui(self, src: Any, dst_type: Any) -> Any:
        bits = held(dst_type.scalar)
        return Handle(values(src).astype(f"u{bits.itemsize}").view(bits), dst_type.scalar)

    def create_int_cast(self, src: Any, dst_type: Any, is_signed: bool) -> Any:
        data = src.data if is_signed else unsigned(src.data)
        return Handle(data.astype(held(dst_type.scalar)), dst_type.scalar)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        dtype = dst_type.scalar
        result = narrow(values(src), dtype)
        if rounding_mode == ir.ROUNDING_MODE.RTZ:
            bits = result.view(f"u{result.dtype.itemsize}")
            rounded, exact = (np.abs(values(handle).astype(np.float64)) for handle in (Handle(result, dtype), src))
            result = (bits - (rounded > exact)).view(result.dtype)
        return Handle(result, dtype)

    def create_clampf(self, arg: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
        nan = propagate_nans == tl.PropagateNan.ALL
        return _floats(lambda x, a, b: _MINIMA[nan](_MAXIMA[nan](x, a), b))(self, arg, low, high)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        dtype = z.dtype.scalar
        function = fma_to_odd if dtype.name in NARROW_FLOATS else fma
        return Handle(narrow(function(values(x), values(y), values(z)), dtype), dtype)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, *rest: Any) -> Any:
        dtype = d.dtype.scalar
        kind = np.dtype(np.float32) if dtype.is_floating() and dtype.primitive_bitwidth < 64 else d.data.dtype
        x, y = values(a).astype(kind), values(b).astype(kind)
        if input_precision == ir.INPUT_PRECISION.TF32 and a.dtype.scalar.is_fp32():
            x, y = ((v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for v in (x, y))
        return Handle(narrow(np.matmul(x, y) + values(d).astype(kind), dtype), dtype)

    def create_histogram(self, data: Any, bins: int, mask: Any = None) -> Any:
        counted = (data.data >= 0) & (data.data < bins) & (True if mask is None else mask.data)
        return Handle(np.bincount(data.data[counted], minlength=bins).astype(np.int32), tl.int32)

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        return Handle(np.full(ret_ty.shape, arg.data.reshape(-1)[0]), arg.dtype.scalar)

    def create_unsplat(self, arg: Any) -> Any:
        return Handle(arg.data.reshape(-1)[:1], arg.dtype.scalar)
