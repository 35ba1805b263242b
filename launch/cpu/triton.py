"""Run emitted Triton kernels on the CPU: Triton's interpreter over NumPy memory, with no torch and no GPU.

A module is executed without TRITON_INTERPRET, so that its functions can be compiled too, and one of its kernels is
interpreted from the same source text:

    namespace = execute(source.device, "bias_gelu")
    kernel = interpret(namespace, "bias_gelu", ["*fp16", "*fp16", "*fp16", "i32", "i32"], constexprs)
    kernel(grid, block, args, None, extents)

What interpreting does not notice: a loop that changes a variable's type, shared memory beyond the limit, races between
programs. It has no inline assembly, `tl.map_elementwise`, or arguments that are tensor descriptors.
"""

from __future__ import annotations

import inspect
import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.jit import JITFunction

from .triton_language import Interpreted
from .triton_memory import CURRENT, Launch, ParameterPointer
from .triton_syntax import HELPERS
from .triton_tensors import scalar
from .triton_types import held, narrow

Extent = tuple[int, int]


@dataclass(frozen=True)
class Parameter:
    """One run-time parameter of a kernel: its name and its Triton type."""

    name: str
    type: Any

    def tensor(self, value: Any, pointer: int) -> Any:
        """The argument as the kernel sees it; `pointer` counts the pointer parameters before this one."""
        if self.type.is_ptr():
            dtype = ParameterPointer(self.type.element_ty, pointer)
            return scalar(np.array([int(value)], np.uint64), dtype)
        return scalar(narrow(np.asarray(value).reshape(1), self.type), self.type)


@dataclass(frozen=True)
class InterpretedKernel:
    """A kernel with its compile-time arguments fixed; calling it runs the grid, one program after another.

    Calls may run in several threads at once, beside compilations too; atomics are not atomic between them.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    constexprs: Mapping[str, Any]

    def __call__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        stream: None = None,
        extents: Sequence[Extent | None] | None = None,
    ) -> None:
        """Run every program of `grid`; `block` and `stream` mean nothing here.

        args: addresses (int) and NumPy scalars, in the order of the run-time parameters.
        extents: for each pointer parameter the byte addresses [low, high) it may touch, or None for no check.
        Raises `KernelFault` for an access outside them. Whatever a kernel raises has a note naming the program and
        the line of the kernel.
        """
        if len(args) != len(self.parameters):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments, got {len(args)}")
        pointers = [(p.name, int(arg)) for p, arg in zip(self.parameters, args, strict=True) if p.type.is_ptr()]
        ranges = [None] * len(pointers) if extents is None else list(extents)
        if len(ranges) != len(pointers):
            raise TypeError(f"{self.name} has {len(pointers)} pointer parameters, got {len(ranges)} extents")
        order = itertools.accumulate((p.type.is_ptr() for p in self.parameters), initial=0)
        tensors = {p.name: p.tensor(arg, i) for p, arg, i in zip(self.parameters, args, order, strict=False)}
        where = tuple((name, address, extent) for (name, address), extent in zip(pointers, ranges, strict=True))
        launch = Launch(self.name, grid, where)
        token = CURRENT.set(launch)
        try:
            with np.errstate(all="ignore"):
                for z, y, x in itertools.product(*map(range, reversed(grid))):
                    launch.program = (x, y, z)
                    self.function(**tensors, **self.constexprs)
        except Exception as error:
            error.add_note(f"in kernel {self.name}, program {launch.program}{_kernel_line(error.__traceback__)}")
            raise
        finally:
            CURRENT.reset(token)


def interpret(
    namespace: Mapping[str, Any], entry: str, types: Sequence[str], constexprs: Mapping[str, Any]
) -> InterpretedKernel:
    """The kernel `entry` of an executed Triton module, to be run by the interpreter.

    types: Triton's signature strings of the run-time parameters, in order ("*fp16", "i32", "fp32", ...).
    constexprs: values of the others by name: ints, and dtypes such as `tl.int64`.
    Raises ValueError when `entry` is no `@triton.jit` function or the parameters do not match its signature.
    """
    function = namespace.get(entry)
    if not isinstance(function, JITFunction):
        raise ValueError(
            f"{entry}: expected a @triton.jit function, got {type(function).__name__}; "
            f"execute the module with TRITON_INTERPRET unset"
        )
    names = list(inspect.signature(function.fn).parameters)
    unknown = sorted(constexprs.keys() - set(names))
    runtime = [name for name in names if name not in constexprs]
    if unknown or len(runtime) != len(types):
        raise ValueError(
            f"{entry}({', '.join(names)}): expected types for {', '.join(runtime)}, got {', '.join(types)}"
            + (f"; no parameter is called {', '.join(unknown)}" if unknown else "")
        )
    parameters = tuple(Parameter(name, _type(entry, name, text)) for name, text in zip(runtime, types, strict=True))
    return InterpretedKernel(entry, Interpreted(function, {}), parameters, dict(constexprs))


def _type(entry: str, name: str, text: str) -> Any:
    try:
        dtype = tl.str_to_ty(text, None)
        held(dtype)
    except (KeyError, ValueError, AttributeError, NotImplementedError) as error:
        raise ValueError(f"{entry}: parameter {name} has type {text!r}, which the interpreter does not take") from error
    return dtype


def _kernel_line(trace: TracebackType | None) -> str:
    """The innermost line of the module's own functions."""
    lines = [
        summary
        for (frame, _), summary in zip(traceback.walk_tb(trace), traceback.extract_tb(trace), strict=True)
        if HELPERS.keys() <= frame.f_globals.keys() and "site-packages" not in summary.filename
    ]
    return f", line {lines[-1].lineno}: {lines[-1].line}" if lines else ""
