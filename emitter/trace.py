"""Tracing: a Python function over `Value`s becomes the same `FusionGroup` that a TOML description gives."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import NoReturn

import numpy as np

from .builder import Builder
from .dtypes import dtype
from .errors import DescriptionError, DuplicateName
from .group import DimSize, FusionGroup, Node, Operand, Ref, ScalarSpec, TensorSpec
from .names import check_name, is_name, shown
from .ops import OPS
from .read import assemble, parse_type


@dataclass(eq=False)
class _Trace:
    """One function being traced. frame: its frame once an op was recorded, kept for its local variables."""

    builder: Builder
    code: CodeType
    frame: FrameType | None = None

    def find_frame(self) -> None:
        """Look among the callers for the traced function."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        self.frame = frame

    def variables(self) -> dict[str, str]:
        """Which local variable holds which node."""
        found: dict[str, str] = {}
        for variable, value in (self.frame.f_locals if self.frame else {}).items():
            own = isinstance(value, Value) and value.trace is self
            if own and isinstance(value.operand, Ref) and is_name(variable):
                found[variable] = value.operand.name
        return found


_current: ContextVar[_Trace | None] = ContextVar("kernelpress_trace", default=None)


def _both(op_name: str) -> tuple[Callable[[Value, object], Value], Callable[[Value, object], Value]]:
    """The methods of a binary operator: with the value on its left, and on its right."""

    def left(self: Value, other: object) -> Value:
        return call(op_name, self, other)

    def right(self: Value, other: object) -> Value:
        return call(op_name, other, self)

    return left, right


def _unary(op_name: str) -> Callable[[Value], Value]:
    def method(self: Value) -> Value:
        return call(op_name, self)

    return method


class Value:
    """A traced value: an input, a node or a dim's size. Operators and emitter's functions record nodes."""

    __array_ufunc__ = None  # NumPy arrays and scalars leave the operators to this class

    def __init__(
        self, operand: Operand, trace: _Trace | None = None, shape: tuple[Value | int, ...] | None = None
    ) -> None:
        self.operand = operand
        self.trace = trace
        self._shape = shape

    @property
    def shape(self) -> tuple[Value | int, ...]:
        """The dims of an input tensor, usable as values."""
        if self._shape is None:
            raise DescriptionError("only an input tensor has a shape while it is traced; use emitter.dim('N')")
        return self._shape

    def __bool__(self) -> NoReturn:
        raise DescriptionError(
            "a traced value has no truth value while the function is traced; use emitter.where(condition, a, b), "
            "and & | ~ instead of and, or, not"
        )

    def __iter__(self) -> NoReturn:
        raise DescriptionError("a traced value cannot be iterated over; ops work on whole tensors")

    def __getitem__(self, key: object) -> NoReturn:
        raise DescriptionError("a traced value cannot be indexed; emitter.take(x, indices, axis) gathers")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise DescriptionError("a traced value is no array; use emitter's functions, such as emitter.exp, not NumPy's")

    __hash__ = object.__hash__

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("div")
    __floordiv__, __rfloordiv__ = _both("floor_div")
    __mod__, __rmod__ = _both("mod")
    __pow__, __rpow__ = _both("pow")
    __and__, __rand__ = _both("bit_and")
    __or__, __ror__ = _both("bit_or")
    __xor__, __rxor__ = _both("bit_xor")
    __lshift__, __rlshift__ = _both("shift_left")
    __rshift__, __rrshift__ = _both("shift_right")

    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("bit_not")

    def __pos__(self) -> Value:
        return self

    __eq__ = _both("eq")[0]  # type: ignore[assignment]
    __ne__ = _both("ne")[0]  # type: ignore[assignment]
    __lt__ = _both("lt")[0]
    __le__ = _both("le")[0]
    __gt__ = _both("gt")[0]
    __ge__ = _both("ge")[0]


def call(op_name: str, *arguments: object, **keywords: object) -> Value:
    """Record one op of the function being traced."""
    trace = _current.get()
    if trace is None:
        raise DescriptionError(
            f"emitter.{op_name}() records an op, so it works only inside a function decorated with @emitter.group"
        )
    if trace.frame is None:
        trace.find_frame()
    parameters = OPS[op_name].parameters
    positional = [_argument(trace, a, position < len(parameters)) for position, a in enumerate(arguments)]
    by_name = {key: _argument(trace, a, key in parameters) for key, a in keywords.items()}
    return Value(trace.builder.node(op_name, positional, by_name), trace)


def dim(name: str) -> Value:
    """The size of a dim symbol as a value."""
    return Value(DimSize(check_name(name, "dim")))


def _argument(trace: _Trace, value: object, is_operand: bool) -> object:
    """An argument as the builder takes it. NumPy's scalars keep their dtype, Python's are weak."""
    if isinstance(value, Value):
        if value.trace not in (None, trace):
            raise DescriptionError(f"{trace.builder.where}: a value of another traced function; pass it as an input")
        return value.operand
    if is_operand and isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        return trace.builder.node("cast", [trace.builder.literal(value.item())], {"dtype": dtype(value.dtype).name})
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return trace.builder.literal(value)
    return value


def group(function: Callable[..., object]) -> FusionGroup:
    """Trace `function` into a verified group named after it.

    Parameters are annotated with types as in a description (`x: "f16[M, N]"`, `scale: "f32"`). Outputs are
    what it returns: a value, a tuple, or a dict by name; an output takes the name of the local variable that
    holds it, else `y` (`y0`, `y1`, ... of several). Raises the errors of `emitter.errors`.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType):
        raise DescriptionError(f"emitter.group traces a Python function written with def, got {shown(function)}")
    name = check_name(function.__name__, "group")
    specs = [_spec(name, p) for p in inspect.signature(function).parameters.values()]
    dims = {d for s in specs if isinstance(s, TensorSpec) for d in s.shape if isinstance(d, str)}
    trace = _Trace(Builder(f"group {name}", [*(s.name for s in specs), *dims]), code)
    bound = inspect.signature(function).bind(**{s.name: _input(trace, s) for s in specs})
    token = _current.set(trace)
    try:
        returned = function(*bound.args, **bound.kwargs)
    finally:
        _current.reset(token)
    taken = {s.name for s in specs} | dims
    variables = {v: node for v, node in trace.variables().items() if v not in taken}
    trace.frame = None
    return _assemble(name, specs, trace.builder, variables, _results(trace, returned, variables, taken), taken)


def _spec(group_name: str, parameter: inspect.Parameter) -> TensorSpec | ScalarSpec:
    where = f"group {group_name}: parameter {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise DescriptionError(f"{where}: a group has a fixed number of inputs; write them out instead of {parameter}")
    if parameter.default is not parameter.empty:
        raise DescriptionError(f"{where} has a default, which a kernel cannot have; remove it or use a constant")
    text = parameter.annotation
    if isinstance(text, str) and text[:1] in "'\"":  # quoted twice under `from __future__ import annotations`
        try:
            text = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            text = None
    if not isinstance(text, str):
        raise DescriptionError(f'{where} needs a type, such as {parameter.name}: "f16[M, N]"')
    return parse_type(parameter.name, text)


def _input(trace: _Trace, spec: TensorSpec | ScalarSpec) -> Value:
    shape = None
    if isinstance(spec, TensorSpec):
        shape = tuple(Value(DimSize(d)) if isinstance(d, str) else d for d in spec.shape)
    return Value(Ref(spec.name), trace, shape)


def _results(trace: _Trace, returned: object, variables: Mapping[str, str], taken: set[str]) -> list[tuple[str, str]]:
    """Pairs of output name and the input or node that it is."""
    by_node = {node: variable for variable, node in variables.items()}
    several = isinstance(returned, tuple | list)
    values = list(returned) if isinstance(returned, tuple | list) else [returned]
    named = list(returned.items()) if isinstance(returned, dict) else [(None, v) for v in values]
    results: list[tuple[str, str]] = []
    used = set(taken)
    for position, (given, value) in enumerate(named):
        wanted = f"y{position}" if several else "y"
        if not isinstance(value, Value) or value.trace is not trace or not isinstance(value.operand, Ref):
            label = f"output {shown(given) if given is not None else wanted}"
            raise DescriptionError(f"{trace.builder.where}: {label} must be a traced tensor, got {shown(value)}")
        if given is not None:
            output = check_name(str(given), "output")
            if output in taken:
                raise DuplicateName(f"{trace.builder.where}: {output} is an output and an input or dim; rename one")
        else:
            variable = by_node.get(value.operand.name, wanted)
            output = _free(wanted if variable in used else variable, used)
        results.append((output, value.operand.name))
    if not results:
        raise DescriptionError(f"{trace.builder.where}: it returns no output; return a value, a tuple or a dict")
    return results


def _assemble(
    name: str,
    specs: list[TensorSpec | ScalarSpec],
    builder: Builder,
    variables: Mapping[str, str],
    results: list[tuple[str, str]],
    taken: set[str],
) -> FusionGroup:
    """Rename nodes after outputs and local variables, drop what no output needs."""
    nodes = {n.name for n in builder.nodes}
    names: dict[str, str] = {}
    taken = {*taken, *(output for output, _ in results)}
    for wanted, node in results:
        if node in nodes:
            names.setdefault(node, wanted)
    for wanted, node in variables.items():
        if node not in names and wanted not in taken:
            names[node] = wanted
            taken.add(wanted)
    named = set(names)
    for n in builder.nodes:
        if n.name not in named:
            names[n.name] = _free(n.name, taken)
    final = [
        replace(
            n,
            name=names[n.name],
            named=n.name in named,
            operands=tuple(Ref(names.get(o.name, o.name)) if isinstance(o, Ref) else o for o in n.operands),
        )
        for n in builder.nodes
    ]
    for output, node in results:
        current = names.get(node, node)
        if current != output:  # an input, or a value returned twice
            final.append(Node(output, "copy", (Ref(current),)))
    outputs = [output for output, _ in results]
    kept = {n.name for n in FusionGroup(name, tuple(specs), tuple(final), tuple(outputs)).needed()}
    return assemble(name, specs, [n for n in final if n.name in kept], outputs)


def _free(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
