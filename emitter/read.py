"""Reading a description: TOML text or a file to a verified `FusionGroup`, and back."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from .builder import Builder
from .dtypes import DTYPES, dtype
from .errors import (
    CyclicGroup,
    DescriptionError,
    DuplicateName,
    UndefinedOutput,
    UnknownDim,
    UnknownDType,
    UnknownName,
    UnusedInput,
)
from .expression import Expression
from .group import Dim, DimSize, FusionGroup, Literal, Node, Operand, Ref, ScalarSpec, TensorSpec
from .names import check_name, shown
from .printer import Printer
from .verify import verify

_TYPE = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_KEYS = ("name", "outputs", "inputs", "body")


def read(path: str | Path) -> FusionGroup:
    """The group described by the TOML file at `path`. Raises OSError, and the errors of `emitter.errors`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path.name} is not UTF-8 text: {error}") from None
    return parse(text, where=path.name)


def parse(text: str, where: str = "description") -> FusionGroup:
    """The group described by TOML `text`; `where` names it in errors."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DescriptionError(f"{where} is not TOML: {error}") from None
    unknown = [key for key in document if key not in _KEYS]
    if unknown:
        raise DescriptionError(f"{where}: unknown key {shown(unknown[0])}; a description has {', '.join(_KEYS)}")
    name, outputs = document.get("name"), document.get("outputs")
    if not isinstance(name, str):
        raise DescriptionError(f'{where}: expected name = "...", got {shown(name)}')
    check_name(name, "group")
    if not isinstance(outputs, list) or not outputs or not all(isinstance(o, str) for o in outputs):
        raise DescriptionError(f'{where}: expected outputs = ["..."], a list of names, got {shown(outputs)}')
    inputs = _lines(document.get("inputs", {}), where, "inputs", "type")
    body = _lines(document.get("body"), where, "body", "expression")
    return assemble(name, *_described(name, inputs, body, outputs), outputs)


def _lines(table: object, where: str, title: str, what: str) -> dict[str, str]:
    """A table of the document, all of whose values are text."""
    if not isinstance(table, dict):
        raise DescriptionError(f'{where}: expected a table [{title}] of lines name = "{what}", got {shown(table)}')
    for key, value in table.items():
        if not isinstance(value, str):
            got = f"{type(value).__name__} {shown(value)}"
            raise DescriptionError(f'{where}: [{title}] {shown(key)}: expected "{what}" in quotes, got {got}')
    return table


def parse_type(name: str, text: str) -> TensorSpec | ScalarSpec:
    """The spec of input `name` with an HLO-style type: `f16[M, N]`, `f32[]` (0-d tensor) or `f32` (scalar)."""
    check_name(name, "input")
    match = _TYPE.fullmatch(text)
    if match is None:
        raise DescriptionError(f"input {name}: {shown(text)} is not a type such as f16[M, N], f32[] or f32")
    try:
        element = dtype(match[1])
    except UnknownDType as error:
        raise UnknownDType(f"input {name}: {error}") from None
    if match[2] is None:
        return ScalarSpec(name, element)
    parts = [p.strip() for p in match[2].split(",")] if match[2].strip() else []
    return TensorSpec(name, element, tuple(_dim(name, p) for p in parts))


def assemble(name: str, inputs: list[TensorSpec | ScalarSpec], nodes: list[Node], outputs: list[str]) -> FusionGroup:
    """A verified group, its nodes those the outputs need."""
    group = FusionGroup(name, tuple(inputs), tuple(nodes), tuple(outputs))
    verify(group)
    return group


def to_toml(group: FusionGroup) -> str:
    """The description of `group` as TOML text; reading it gives an equal group."""
    lines = [f'name = "{group.name}"', f"outputs = [{', '.join(_quoted(o) for o in group.outputs)}]", "", "[inputs]"]
    lines += [f'{i.name} = "{i}"' for i in group.inputs]
    lines += ["", "[body]"]
    lines += [f"{name} = {_quoted(text)}" for name, text in Printer(group).lines]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dim(tensor: str, text: str) -> Dim:
    if re.fullmatch(r"[0-9]{1,19}", text) and int(text) < 2**63:
        return int(text)
    if text.isidentifier():
        return check_name(text, "dim")
    raise UnknownDim(
        f"input {tensor}: {shown(text)} is no dim; expected a size below 2**63 or a symbol such as N, "
        "separated by commas"
    )


def _described(
    group: str, inputs: dict[str, str], body: dict[str, str], outputs: list[str]
) -> tuple[list[TensorSpec | ScalarSpec], list[Node]]:
    """Inputs and nodes, the nodes in an order in which each uses only earlier ones; lines may stand in any order."""
    specs = [parse_type(name, text) for name, text in inputs.items()]
    dims = list(dict.fromkeys(d for i in specs if isinstance(i, TensorSpec) for d in i.shape if isinstance(d, str)))
    for name in body:
        check_name(name, "value")
        if name in inputs:
            raise DuplicateName(f"group {group}: {name} is both an input and a value; rename one")
    for name in (*inputs, *body):
        if name in dims:
            raise DuplicateName(f"group {group}: {name} is both a dim and a value; rename one")
    for output in outputs:
        if output not in body:
            what = "is an input; give it a line in [body]" if output in inputs else "has no line in [body]"
            raise UndefinedOutput(f"group {group}: output {shown(output)} {what}")
    expressions = {name: Expression(f"group {group}, {name}", text) for name, text in body.items()}
    order = _ordered(group, expressions)
    needed = _reachable(expressions, outputs)
    unused = [name for name in body if name not in needed]
    if unused:
        way_out = "remove its line or list it in outputs"
        raise UnusedInput(f"group {group}: value {unused[0]} is used by no output; {way_out}")
    return specs, _nodes(group, expressions, order, [*inputs, *body], dims)


def _nodes(
    group: str, expressions: dict[str, Expression], order: list[str], values: list[str], dims: list[str]
) -> list[Node]:
    builder = Builder(f"group {group}", [*values, *dims])
    sizes, known = frozenset(dims), frozenset(values)

    def resolve(name: str) -> Operand:
        if name in sizes:
            return DimSize(name)
        if name in known:
            return Ref(name)
        raise UnknownName(f"{builder.where}: {name} is no input, value or dim; {_meant(name, [*values, *dims])}")

    for name in order:
        builder.where = f"group {group}, {name}"
        value = expressions[name].build(builder, resolve)
        last = builder.nodes[-1] if builder.nodes else None
        if last is not None and not last.named and value == Ref(last.name):
            builder.nodes[-1] = replace(last, name=name, named=True)
        elif isinstance(value, Literal | DimSize):
            text = shown(expressions[name].text)
            raise DescriptionError(f"{builder.where} is the constant {text}; write it where it is used")
        else:
            builder.nodes.append(Node(name, "copy", (value,)))
    return builder.nodes


def _meant(name: str, known: list[str]) -> str:
    """The way out for an unknown name."""
    if any(name in (d.name, d.numpy.name) for d in DTYPES):
        return f"put a dtype in quotes: cast(x, '{name}')"
    near = get_close_matches(name, known, n=1)
    return f"use {near[0]}" if near else f"known are {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"


def _ordered(group: str, expressions: dict[str, Expression]) -> list[str]:
    """Names of the body, each after those it uses; `CyclicGroup` shows the cycle."""
    state: dict[str, str] = {}
    order: list[str] = []
    for root in expressions:
        stack = [(root, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                state[name] = "done"
                order.append(name)
            elif name not in state:
                state[name] = "open"
                stack.append((name, True))
                for used in reversed(expressions[name].names):
                    if state.get(used) == "open":
                        path = [n for n, left in stack if left]
                        cycle = " -> ".join([*path[path.index(used) :], used])
                        raise CyclicGroup(f"group {group}: {used} depends on itself: {cycle}; break the cycle")
                    if used in expressions and used not in state:
                        stack.append((used, False))
    return order


def _reachable(expressions: dict[str, Expression], outputs: list[str]) -> set[str]:
    seen: set[str] = set()
    stack = list(outputs)
    while stack:
        name = stack.pop()
        if name in expressions and name not in seen:
            seen.add(name)
            stack.extend(expressions[name].names)
    return seen
