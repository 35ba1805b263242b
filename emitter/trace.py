"""Tracing: a Python function over `Value`s becomes the same `FusionGroup` that a TOML description gives."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FrameType
from typing import NoReturn

from .builder import Builder
from .errors import DescriptionError
from .group import DimSize, FusionGroup, Literal, Node, Operand, Ref, ScalarSpec, TensorSpec
from .names import check_name
from .read import assemble, parse_type

_builders: list[Builder] = []


class Value:
    """A traced value: an input, a node or a dim's size. Operators and emitter's functions record nodes."""

    __array_ufunc__ = None  # NumPy arrays and scalars leave the operators to this class

    def __init__(self, operand: Operand, shape: tuple[Value | int, ...] = ()) -> None:
        self.operand = operand
        self._shape = shape

    @property
    def shape(self) -> tuple[Value | int, ...]:
        """The dims of an input tensor, usable as values."""
        return self._shape

    def __bool__(self) -> NoReturn:
        raise DescriptionError(
            "a traced value has no truth value while the function is traced; use emitter.where(condition, a, b), "
            "and & | ~ instead of and, or, not"
        )

    def __iter__(self) -> NoReturn:
        raise DescriptionError("a traced value cannot be iterated over; ops work on whole tensors")

    __hash__ = object.__hash__

    def __add__(self, other: object) -> Value:
        return call("add", self, other)

    def __radd__(self, other: object) -> Value:
        return call("add", other, self)

    def __sub__(self, other: object) -> Value:
        return call("sub", self, other)

    def __rsub__(self, other: object) -> Value:
        return call("sub", other, self)

    def __mul__(self, other: object) -> Value:
        return call("mul", self, other)

    def __rmul__(self, other: object) -> Value:
        return call("mul", other, self)

    def __truediv__(self, other: object) -> Value:
        return call("div", self, other)

    def __rtruediv__(self, other: object) -> Value:
        return call("div", other, self)

    def __floordiv__(self, other: object) -> Value:
        return call("floor_div", self, other)

    def __rfloordiv__(self, other: object) -> Value:
        return call("floor_div", other, self)

    def __mod__(self, other: object) -> Value:
        return call("mod", self, other)

    def __rmod__(self, other: object) -> Value:
        return call("mod", other, self)

    def __pow__(self, other: object) -> Value:
        return call("pow", self, other)

    def __rpow__(self, other: object) -> Value:
        return call("pow", other, self)

    def __and__(self, other: object) -> Value:
        return call("bit_and", self, other)

    def __rand__(self, other: object) -> Value:
        return call("bit_and", other, self)

    def __or__(self, other: object) -> Value:
        return call("bit_or", self, other)

    def __ror__(self, other: object) -> Value:
        return call("bit_or", other, self)

    def __xor__(self, other: object) -> Value:
        return call("bit_xor", self, other)

    def __rxor__(self, other: object) -> Value:
        return call("bit_xor", other, self)

    def __lshift__(self, other: object) -> Value:
        return call("shift_left", self, other)

    def __rlshift__(self, other: object) -> Value:
        return call("shift_left", other, self)

    def __rshift__(self, other: object) -> Value:
        return call("shift_right", self, other)

    def __rrshift__(self, other: object) -> Value:
        return call("shift_right", other, self)

    def __neg__(self) -> Value:
        return call("neg", self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return call("abs", self)

    def __invert__(self) -> Value:
        return call("bit_not", self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return call("eq", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return call("ne", self, other)

    def __lt__(self, other: object) -> Value:
        return call("lt", self, other)

    def __le__(self, other: object) -> Value:
        return call("le", self, other)

    def __gt__(self, other: object) -> Value:
        return call("gt", self, other)

    def __ge__(self, other: object) -> Value:
        return call("ge", self, other)


def call(op_name: str, *arguments: object, **keywords: object) -> Value:
    """Record one op of the function being traced."""
    if not _builders:
        raise DescriptionError(
            f"emitter.{op_name}() records an op, so it works only inside a function decorated with @emitter.group"
        )
    builder = _builders[-1]
    plain = {key: _operand(v) for key, v in keywords.items()}
    return Value(builder.node(op_name, [_operand(a) for a in arguments], plain))  # type: ignore[misc]


def dim(name: str) -> Value:
    """The size of a dim symbol as a value."""
    return Value(DimSize(check_name(name, "dim")))


def _operand(value: object) -> object:
    if isinstance(value, Value):
        return value.operand
    if isinstance(value, bool | int | float):
        return Literal.of(value)
    return value


def group(function: Callable[..., object]) -> FusionGroup:
    """Trace `function` into a verified group named after it.

    Parameters are annotated with types as in a description (`x: "f16[M, N]"`, `scale: "f32"`). Outputs are
    what it returns: a value, a tuple, or a dict by name; an output takes the name of the local variable that
    holds it, else `y` (`y0`, `y1`, ... of several). Raises the errors of `emitter.errors`.
    """
    name = check_name(function.__name__, "group")
    specs = [parse_type(p.name, _annotation(name, p)) for p in inspect.signature(function).parameters.values()]
    dims = {d for s in specs if isinstance(s, TensorSpec) for d in s.shape if isinstance(d, str)}
    builder = Builder(f"group {name}", [*(s.name for s in specs), *dims])
    arguments = [_argument(s) for s in specs]
    local_names: dict[str, str] = {}
    _builders.append(builder)
    try:
        with _watching(function.__code__, local_names):
            returned = function(*arguments)
    finally:
        _builders.pop()
    inputs = {s.name for s in specs}
    results = _results(name, returned, {v: k for k, v in local_names.items()})
    return _assemble(name, specs, builder, inputs | dims, local_names, results)


def _annotation(group_name: str, parameter: inspect.Parameter) -> str:
    text = parameter.annotation
    if isinstance(text, str) and text[:1] in "'\"":  # quoted twice under `from __future__ import annotations`
        text = ast.literal_eval(text)
    if not isinstance(text, str):
        raise DescriptionError(
            f'group {group_name}: parameter {parameter.name} needs a type, such as {parameter.name}: "f16[M, N]"'
        )
    return text


def _argument(spec: TensorSpec | ScalarSpec) -> Value:
    shape = spec.shape if isinstance(spec, TensorSpec) else ()
    return Value(Ref(spec.name), tuple(Value(DimSize(d)) if isinstance(d, str) else d for d in shape))


@contextmanager
def _watching(code: CodeType, found: dict[str, str]) -> Iterator[None]:
    """Note, when the traced function returns, which local variable holds which node."""

    def on_event(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is code:
            for variable, value in frame.f_locals.items():
                if isinstance(value, Value) and isinstance(value.operand, Ref):
                    found.setdefault(variable, value.operand.name)

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(before)


def _results(name: str, returned: object, variables: dict[str, str]) -> list[tuple[str, str]]:
    """Pairs of output name and the value that it is."""
    if isinstance(returned, dict):
        named = list(returned.items())
    else:
        several = isinstance(returned, tuple | list)
        values = list(returned) if isinstance(returned, tuple | list) else [returned]
        named = [(f"y{k}" if several else "y", v) for k, v in enumerate(values)]
        named = [
            (variables.get(v.operand.name, n) if isinstance(v, Value) and isinstance(v.operand, Ref) else n, v)
            for n, v in named
        ]
    for output, value in named:
        if not isinstance(value, Value) or not isinstance(value.operand, Ref):
            raise DescriptionError(f"group {name}: output {output} must be a traced tensor, got {value!r}")
    return [(check_name(output, "output"), value.operand.name) for output, value in named]


def _assemble(
    name: str,
    specs: list[TensorSpec | ScalarSpec],
    builder: Builder,
    taken: set[str],
    local_names: dict[str, str],
    results: list[tuple[str, str]],
) -> FusionGroup:
    """Rename nodes after outputs and local variables, drop what no output needs."""
    nodes = {n.name: n for n in builder.nodes}
    renamed: dict[str, str] = {}
    for wanted, node in [*results, *local_names.items()]:
        if node in nodes and node not in renamed and wanted not in taken:
            renamed[node] = check_name(wanted, "value")
            taken.add(wanted)
    for node in nodes:
        if node not in renamed:
            new, number = node, 1
            while new in taken:
                number += 1
                new = f"{node}_{number}"
            taken.add(new)
            if new != node:
                renamed[node] = new
    named = {renamed[node] for _, node in [*results, *((k, v) for k, v in local_names.items())] if node in renamed}
    final = [
        replace(
            n,
            name=renamed.get(n.name, n.name),
            named=renamed.get(n.name, n.name) in named,
            operands=tuple(Ref(renamed.get(o.name, o.name)) if isinstance(o, Ref) else o for o in n.operands),
        )
        for n in builder.nodes
    ]
    defined = {n.name for n in final}
    outputs = []
    for output, node in results:
        current = renamed.get(node, node)
        if current != output:  # an input, or a value returned twice
            final.append(Node(output, "copy", (Ref(current),)))
            defined.add(output)
        outputs.append(output)
    needed = FusionGroup(name, tuple(specs), tuple(final), tuple(outputs)).needed()
    kept = {n.name for n in needed}
    return assemble(name, specs, [n for n in final if n.name in kept], outputs)
