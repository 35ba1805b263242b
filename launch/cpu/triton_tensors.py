"""Tensors of interpreted kernels: `tl.tensor` with its methods bound to the interpreter, and no compiler around it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import TensorHandle as Handle

from .triton_repairs import Builder


class Block(tl.block_type):  # type: ignore[misc]
    """A block type, made once for each dtype and shape: upstream makes some for every operation, at a cost."""

    def __init__(self, dtype: Any, sizes: tuple[int, ...]) -> None:
        super().__init__(dtype, list(sizes))
        example = tl.tensor(None, tl.block_type(dtype, list(sizes)))
        self.sizes, self.tensor_shape, self.tensor_numel = sizes, example.shape, example.numel

    def with_element_ty(self, scalar_ty: Any) -> Any:
        return block_type(scalar_ty, self.sizes)

    def to_ir(self, builder: Any) -> Any:
        return self


_BLOCK_TYPES: dict[tuple[str, tuple[int, ...]], Block] = {}


def block_type(dtype: Any, sizes: tuple[int, ...]) -> Block:
    """The type of blocks of a dtype and shape."""
    found = _BLOCK_TYPES.get((dtype.name, sizes))
    if found is None:
        plain = tl.pointer_type(dtype.element_ty) if dtype.is_ptr() else dtype
        found = _BLOCK_TYPES[dtype.name, sizes] = Block(plain, sizes)
    return found


class Semantic(TritonSemantic):  # type: ignore[misc]
    """Triton's type rules over `Builder`."""

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if isinstance(left, Block) and isinstance(right, Block) and left.sizes == right.sizes:
            return lhs, rhs
        return super().broadcast_impl_value(lhs, rhs)


SEMANTIC: Any = Semantic(Builder())


def unwrap(value: Any) -> Any:
    """A compile-time value without its `tl.constexpr`."""
    return value.value if isinstance(value, tl.constexpr) else value


def bind(function: Callable[..., Any]) -> Callable[..., Any]:
    """A builtin of `triton.language` that needs no compiler around it."""

    def bound(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = SEMANTIC  # which upstream's own calls bring along
        return adopt(function(*args, **kwargs))

    return bound


def adopt(result: Any) -> Any:
    """Give tensors that upstream's functions made their bound methods."""
    if isinstance(result, (tuple, list)):
        for part in result:
            adopt(part)
    elif type(result) in _BOUND:
        result.__class__ = _BOUND[type(result)]
    return result


def _bound_members(cls: Any) -> dict[str, Any]:
    return {name: bind(member) for name, member in inspect.getmembers(cls, inspect.isfunction) if _is_builtin(member)}


def _is_builtin(member: Any) -> bool:
    return core.is_builtin(member) or "_semantic" in inspect.signature(member).parameters


def _init(self: Any, handle: Any, dtype: Any) -> None:
    if dtype.is_block():
        dtype = dtype if isinstance(dtype, Block) else block_type(dtype.element_ty, tuple(dtype.shape))
        self.shape, self.numel = dtype.tensor_shape, dtype.tensor_numel
    else:
        self.shape, self.numel = _SCALAR.shape, _SCALAR.numel
    self.handle, self.type, self.dtype = handle, dtype, dtype.scalar


def _transposed(self: Any) -> Any:
    return SEMANTIC.permute(self, (1, 0))


_SCALAR: Any = tl.tensor(None, tl.int32)
Tensor: Any = type("Tensor", (tl.tensor,), _bound_members(tl.tensor) | {"__init__": _init, "T": property(_transposed)})
SEMANTIC.tensor = Tensor
_DESCRIPTORS = (core.tensor_descriptor_base, core.tensor_descriptor)
_BOUND: dict[type, Any] = {cls: type(cls.__name__, (cls,), _bound_members(cls)) for cls in _DESCRIPTORS}
_BOUND[tl.tensor] = Tensor


def block(data: Any, dtype: Any) -> Any:
    """A tensor of the array's shape."""
    return Tensor(Handle(data, dtype), block_type(dtype, data.shape))


def scalar(data: Any, dtype: Any) -> Any:
    """A scalar, which the interpreter holds as an array of shape (1,)."""
    return Tensor(Handle(data, dtype), dtype)
