"""The expression language of a description: Python syntax, parsed with `ast`, never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .builder import Builder
from .errors import DescriptionError
from .group import Literal, Operand

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_div",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}
_UNARY = {ast.USub: "neg", ast.Invert: "bit_not"}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}
_INSTEAD: dict[type[ast.AST], str] = {
    ast.BoolOp: "write & and | instead of `and` and `or`",
    ast.IfExp: "write where(condition, a, b) instead of `a if condition else b`",
    ast.Subscript: "write take(x, indices, axis) to gather; shapes belong to [inputs]",
    ast.Attribute: "call ops by their bare name",
    ast.NamedExpr: "give the value a line of its own in [body]",
}


class Expression:
    """One parsed line of a body: its source, its tree, and the names it mentions."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.text = text
        try:
            self.tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise DescriptionError(f"{where}: {ascii(text)} is not an expression: {error.msg}") from None
        except (ValueError, MemoryError, RecursionError) as error:
            raise DescriptionError(
                f"{where}: the expression cannot be parsed ({error or 'nested too deeply'}); split it into several lines"
            ) from None

    def names(self) -> list[str]:
        """Names the expression uses as values, in order of appearance."""
        called = {id(n.func) for n in ast.walk(self.tree) if isinstance(n, ast.Call)}
        return [n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and id(n) not in called]

    def build(self, builder: Builder, resolve: Callable[[str], Operand]) -> Operand:
        """Add the expression's nodes to `builder`; `resolve` turns a name into an operand. No recursion."""
        done: list[Operand] = []
        stack: list[ast.expr | Callable[[], None]] = [self.tree]
        while stack:
            item = stack.pop()
            if not isinstance(item, ast.expr):
                item()
            elif isinstance(item, ast.Name):
                constant = _CONSTANTS.get(item.id)
                done.append(resolve(item.id) if constant is None else Literal.of(constant))
            elif isinstance(item, ast.Constant):
                done.append(self._constant(item.value))
            else:
                children, finish = self._open(item, builder, done)
                stack.append(finish)
                stack.extend(reversed(children))
        return done.pop()

    def _constant(self, value: object) -> Operand:
        if isinstance(value, bool | int | float):
            return Literal.of(value)
        raise DescriptionError(f"{self.where}: {value!r} is not a number, so it cannot be an operand")

    def _open(
        self, tree: ast.expr, builder: Builder, done: list[Operand]
    ) -> tuple[list[ast.expr], Callable[[], None]]:
        """The sub-expressions to build first, and what to do once their operands lie on `done`."""
        keywords: dict[str, object] = {}
        names: list[str] = []
        attributes: list[object] = []
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
            name, children = _BINARY[type(tree.op)], [tree.left, tree.right]
        elif isinstance(tree, ast.UnaryOp) and type(tree.op) in _UNARY:
            name, children = _UNARY[type(tree.op)], [tree.operand]
        elif isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.UAdd):
            return [tree.operand], lambda: None
        elif isinstance(tree, ast.Compare) and type(tree.ops[0]) in _COMPARE:
            if len(tree.ops) > 1:
                raise DescriptionError(f"{self.where}: write (a < b) & (b < c) instead of a < b < c")
            name, children = _COMPARE[type(tree.ops[0])], [tree.left, tree.comparators[0]]
        elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            name, children = tree.func.id, []
            for argument in tree.args:
                if isinstance(argument, ast.Starred):
                    raise DescriptionError(f"{self.where}: {name}(*...) is not supported; write the arguments out")
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    attributes.append(argument.value)
                else:
                    children.append(argument)
            for keyword in tree.keywords:
                if keyword.arg is None:
                    raise DescriptionError(f"{self.where}: {name}(**...) is not supported; write the arguments out")
                if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
                    keywords[keyword.arg] = keyword.value.value
                else:
                    names.append(keyword.arg)
                    children.append(keyword.value)
        else:
            instead = _INSTEAD.get(type(tree), "use operators, calls of ops, names and numbers")
            if isinstance(tree, ast.UnaryOp):
                instead = "write ~x or logical_not(x) instead of `not x`"
            raise DescriptionError(f"{self.where}: {ast.unparse(tree)[:60]!r} is outside the expression language; {instead}")

        def finish() -> None:
            first = len(done) - len(children)
            operands = done[first:]
            del done[first:]
            positional = operands[: len(operands) - len(names)]
            keywords.update(zip(names, operands[len(positional) :], strict=True))
            done.append(builder.node(name, [*positional, *attributes], keywords))

        return children, finish
