"""`@triton.jit` functions as plain Python over NumPy, and `triton.language` as they see it.

Upstream's interpreter patches `triton.language` for the whole process while a kernel runs. Here nothing is patched:
an interpreted function is a copy compiled from its source, whose globals hold stand-ins: a namespace for each module
of Triton, a bound function for each builtin, an interpreted copy of each `@triton.jit` function. So kernels can be
compiled and interpreted in one process, even at once.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core
from triton.runtime.interpreter import TensorHandle as Handle
from triton.runtime.jit import JITFunction

from . import libdevice
from .triton_reduce import associative_scan, reduce, reduce_with_indices
from .triton_syntax import HELPERS, Rewriter, hint, loop, static_assert, static_loop
from .triton_tensors import SEMANTIC, Tensor, bind, unwrap


class Interpreted:
    """An interpreted copy of a `@triton.jit` function, made at its first call.

    known: copies of the functions of its module, by id of the original.
    """

    def __init__(self, original: Any, known: dict[int, Interpreted]) -> None:
        self._original = original
        self._known = known

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The copy: same file name and line numbers, so that tracebacks show the kernel's source."""
        original = self._original.fn
        lines, start = inspect.getsourcelines(original)
        tree = Rewriter().visit(ast.parse(textwrap.dedent("".join(lines))))
        ast.increment_lineno(tree, start - 1)
        code = compile(tree, inspect.getfile(original), "exec", dont_inherit=True)
        used, names = _names(code), original.__globals__ | inspect.getclosurevars(original).nonlocals
        scope = _BUILTINS | {name: adapt(names[name], self._known) for name in used & names.keys()}
        exec(code, scope)
        function: Callable[..., Any] = scope[original.__name__]
        return function


def _names(code: Any) -> set[str]:
    nested = (constant for constant in code.co_consts if inspect.iscode(constant))
    return set(code.co_names).union(*map(_names, nested))


def adapt(value: Any, known: dict[int, Interpreted]) -> Any:
    """What an interpreted function sees in place of the global `value`."""
    if id(value) in _REPLACED:
        return _REPLACED[id(value)]
    if isinstance(value, JITFunction):
        known = _UPSTREAM if value.fn.__module__.startswith("triton.") else known
        return known.setdefault(id(value), Interpreted(value, known))
    if isinstance(value, ModuleType):
        return _namespace(value)
    if _is_libdevice(getattr(value, "__module__", None)):
        return getattr(LIBDEVICE, value.__name__)
    return bind(value) if core.is_builtin(value) else unwrap(value)


def _is_libdevice(module: str | None) -> bool:
    return module is not None and module.startswith("triton.language.extra") and module.endswith(".libdevice")


def _namespace(module: ModuleType) -> Any:
    name = module.__name__
    if _is_libdevice(name):
        return LIBDEVICE
    if name == "triton" or name.startswith("triton."):
        return _NAMESPACES.setdefault(name, Namespace(module))
    return module


class Namespace:
    """A module of Triton as interpreted functions see it; attributes are adapted when first used."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = adapt(getattr(self._module, name), _UPSTREAM)
        setattr(self, name, value)
        return value


class Libdevice:
    """`triton.language.extra.libdevice`, whose functions give None in upstream's interpreter."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = libdevice.FUNCTIONS.get(name)
        if row is None:
            raise NotImplementedError(f"libdevice.{name} has no NumPy definition; add a row to launch/cpu/libdevice.py")

        def function(*operands: Any) -> Any:
            return _call_libdevice(name, row, operands)

        setattr(self, name, function)
        return function


def _call_libdevice(name: str, row: libdevice.Row, operands: tuple[Any, ...]) -> Any:
    if len(operands) != row.arity:
        raise TypeError(f"libdevice.{name} takes {row.arity} operands, got {len(operands)}")
    tensors = [SEMANTIC.to_tensor(unwrap(operand)) for operand in operands]
    for i in range(1, len(tensors)):
        tensors[0], tensors[i] = SEMANTIC.binary_op_type_checking_impl(tensors[0], tensors[i])
    tensors[1:] = [SEMANTIC.binary_op_type_checking_impl(tensor, tensors[0])[0] for tensor in tensors[1:]]
    first = tensors[0]
    if str(first.dtype) not in row.types:
        raise TypeError(f"libdevice.{name} takes {' or '.join(row.types)}, got {first.dtype}; cast the operand")
    result = row(*(tensor.handle.data for tensor in tensors))
    dtype = {"operand": first.dtype, "bool": tl.int1, "i32": tl.int32}[row.result]
    data = result.astype(np.int32) if row.result == "i32" else result
    return Tensor(Handle(data, dtype), first.type.with_element_ty(dtype))


LIBDEVICE = Libdevice()
_UPSTREAM: dict[int, Interpreted] = {}
_NAMESPACES: dict[str, Namespace] = {}
_REPLACED = {
    id(core.reduce): reduce,
    id(core._reduce_with_indices): reduce_with_indices,
    id(core.associative_scan): associative_scan,
    id(core.range): loop,
    id(core.static_range): static_loop,
    id(core.static_assert): static_assert,
    id(core.static_print): print,
    id(core.multiple_of): hint,
    id(core.max_contiguous): hint,
    id(core.max_constancy): hint,
}
_BUILTINS: dict[str, Any] = {
    "range": loop,
    "min": bind(core.builtin_min),
    "max": bind(core.builtin_max),
    "print": bind(core.device_print),
    **HELPERS,
}


def _method(function: Interpreted) -> Callable[..., Any]:
    return lambda tensor, *args, **kwargs: function(tensor, *args, **kwargs)


Tensor.reduce, Tensor.associative_scan = reduce, associative_scan
for _name, _member in inspect.getmembers(tl.tensor, lambda member: isinstance(member, JITFunction)):
    setattr(Tensor, _name, _method(adapt(_member, _UPSTREAM)))
