"""Reading a description: TOML text or a file to a verified `FusionGroup`, and back."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

from .builder import Builder
from .dtypes import dtype
from .errors import (
    CyclicGroup,
    DescriptionError,
    DuplicateName,
    UndefinedOutput,
    UnknownDim,
    UnknownName,
    UnusedInput,
)
from .expression import Expression
from .group import Dim, DimSize, FusionGroup, Literal, Node, Operand, Ref, ScalarSpec, TensorSpec
from .names import check_name
from .printer import node_text
from .verify import verify

_TYPE = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*(?:\[(.*)\])?\s*")
_TABLES = {"name", "outputs", "inputs", "body"}


def read(path: str | Path) -> FusionGroup:
    """The group described by the TOML file at `path`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{path} is not UTF-8 text: {error}") from None
    return parse(text, where=path.name)


def parse(text: str, where: str = "description") -> FusionGroup:
    """The group described by TOML `text`; `where` names it in errors."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DescriptionError(f"{where} is not TOML: {error}") from None
    unknown = sorted(set(document) - _TABLES)
    if unknown:
        raise DescriptionError(f"{where}: unknown key {unknown[0]!r}; a description has {', '.join(sorted(_TABLES))}")
    name, inputs, body, outputs = (document.get(k) for k in ("name", "inputs", "body", "outputs"))
    if not isinstance(name, str):
        raise DescriptionError(f"{where}: expected name = \"...\", got {name!r}")
    check_name(name, "group")
    if not _is_table_of_text(inputs):
        raise DescriptionError(f"{where}: expected a table [inputs] of name = \"type\" lines")
    if not _is_table_of_text(body):
        raise DescriptionError(f"{where}: expected a table [body] of name = \"expression\" lines")
    if not isinstance(outputs, list) or not outputs or not all(isinstance(o, str) for o in outputs):
        raise DescriptionError(f"{where}: expected outputs = [\"...\"], a list of names, got {outputs!r}")
    specs = [parse_type(i, t) for i, t in inputs.items()]
    return assemble(name, specs, _body(name, specs, body, outputs), outputs)


def parse_type(name: str, text: str) -> TensorSpec | ScalarSpec:
    """The spec of input `name` with an HLO-style type: `f16[M, N]`, `f32[]` (0-d tensor) or `f32` (scalar)."""
    check_name(name, "input")
    match = _TYPE.fullmatch(text)
    if match is None:
        raise DescriptionError(f"input {name}: {ascii(text)} is not a type such as f16[M, N], f32[] or f32")
    element = dtype(match[1])
    if match[2] is None:
        return ScalarSpec(name, element)
    parts = [p.strip() for p in match[2].split(",")] if match[2].strip() else []
    return TensorSpec(name, element, tuple(_dim(name, p) for p in parts))


def assemble(
    name: str, inputs: list[TensorSpec | ScalarSpec], nodes: list[Node], outputs: list[str]
) -> FusionGroup:
    """A verified group, its nodes those the outputs need."""
    group = FusionGroup(name, tuple(inputs), tuple(nodes), tuple(outputs))
    verify(group)
    return group


def to_toml(group: FusionGroup) -> str:
    """The description of `group` as TOML text; reading it gives an equal group."""
    lines = [f'name = "{group.name}"', f"outputs = [{', '.join(_quoted(o) for o in group.outputs)}]", "", "[inputs]"]
    lines += [f'{i.name} = "{i}"' for i in group.inputs]
    lines += ["", "[body]"]
    lines += [f"{n.name} = {_quoted(node_text(n))}" for n in group.nodes]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_table_of_text(table: object) -> bool:
    return isinstance(table, dict) and all(isinstance(v, str) for v in table.values())


def _dim(tensor: str, text: str) -> Dim:
    if re.fullmatch(r"[0-9]+", text):
        size = int(text)
        if size >= 2**63:
            raise UnknownDim(f"input {tensor}: the size {text} does not fit 64 bits")
        return size
    try:
        return check_name(text, "dim")
    except DescriptionError as error:
        raise UnknownDim(f"input {tensor}: {ascii(text)} is neither a size nor a dim symbol: {error}") from None


def _body(
    group: str, inputs: list[TensorSpec | ScalarSpec], body: dict[str, str], outputs: list[str]
) -> list[Node]:
    """The body's nodes in an order in which each uses only earlier ones; lines may stand in any order."""
    specs = {i.name: i for i in inputs}
    dims = {d for i in inputs if isinstance(i, TensorSpec) for d in i.shape if isinstance(d, str)}
    for name in (*specs, *body):
        if name in dims:
            raise DuplicateName(f"group {group}: {name} is both a dim and a value; rename one")
    for name in body:
        check_name(name, "value")
        if name in specs:
            raise DuplicateName(f"group {group}: {name} is both an input and a value; rename one")
    expressions = {name: Expression(f"group {group}, {name}", text) for name, text in body.items()}
    builder = Builder(f"group {group}", [*specs, *body, *dims])
    for output in outputs:
        if output not in body:
            what = "is an input; give it a line in [body]" if output in specs else "has no line in [body]"
            raise UndefinedOutput(f"group {group}: output {output} {what}")

    def resolve(name: str) -> Operand:
        if name in specs or name in body:
            return Ref(name)
        if name in dims:
            return DimSize(name)
        known = ", ".join((*specs, *body, *sorted(dims)))
        raise UnknownName(f"{builder.where}: {name} is no input, value or dim; known are {known}")

    order = _ordered(group, expressions)
    needed = _reachable(expressions, outputs)
    for name in order:
        if name not in needed:
            raise UnusedInput(f"group {group}: value {name} is used by no output; remove its line or list it in outputs")
        builder.where = f"group {group}, {name}"
        value = expressions[name].build(builder, resolve)
        last = builder.nodes[-1] if builder.nodes else None
        if last is not None and not last.named and value == Ref(last.name):
            builder.nodes[-1] = replace(last, name=name, named=True)
        elif isinstance(value, Literal | DimSize):
            raise DescriptionError(f"group {group}: {name} is the constant {body[name]!r}; write it where it is used")
        else:
            builder.nodes.append(Node(name, "copy", (value,)))
    return builder.nodes


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
                for used in reversed(expressions[name].names()):
                    if state.get(used) == "open":
                        path = [n for n, left in stack if left]
                        cycle = " -> ".join([*path[path.index(used) :], used])
                        raise CyclicGroup(f"group {group}: {used} depends on itself: {cycle}")
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
            stack.extend(expressions[name].names())
    return seen
