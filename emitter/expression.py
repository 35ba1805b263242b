"""The expression language of a description: Python syntax, parsed with `ast`, never evaluated."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from .builder import Builder
from .errors import DescriptionError
from .group import Operand
from .names import CONSTANTS, shown

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
_INSTEAD: dict[type[ast.AST], str] = {
    ast.BoolOp: "write & and | with brackets around comparisons instead of `and` and `or`",
    ast.IfExp: "write where(condition, a, b) instead of `a if condition else b`",
    ast.Subscript: "write take(x, indices, axis) to gather; shapes belong to [inputs]",
    ast.Attribute: "call ops by their bare name",
    ast.NamedExpr: "give the value a line of its own in [body]",
    ast.UnaryOp: "write ~x or logical_not(x) instead of `not x`",
}


@dataclass
class _Call:
    """One operator or call: the op, its operands' trees, and what it was given besides.

    positional and keywords hold the text of an attribute, or None where an operand's value goes, in order.
    """

    op: str
    children: list[ast.expr] = field(default_factory=list)
    positional: list[str | None] = field(default_factory=list)
    keywords: dict[str, str | None] = field(default_factory=dict)


class Expression:
    """One parsed line of a body: its source, its tree, and the names it uses as values."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.text = text.strip()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about syntax that is refused below
                self.tree = ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            raise DescriptionError(f"{where}: {shown(text)} is not an expression: {error.msg}") from None
        except (ValueError, MemoryError, RecursionError) as error:
            reason = str(error) or "nested too deeply"
            raise DescriptionError(
                f"{where}: the expression cannot be parsed ({reason}); split it into several lines"
            ) from None
        nodes = list(ast.walk(self.tree))
        called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
        names = (n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called)
        self.names = tuple(dict.fromkeys(name for name in names if name not in CONSTANTS))

    def build(self, builder: Builder, resolve: Callable[[str], Operand]) -> Operand:
        """Add the expression's nodes to `builder`; `resolve` turns a name into an operand. No recursion."""
        done: list[Operand] = []
        stack: list[ast.expr | _Call] = [self.tree]
        while stack:
            item = stack.pop()
            match item:
                case _Call():
                    done.append(self._finish(item, builder, done))
                case ast.Name(id=name):
                    done.append(builder.literal(CONSTANTS[name]) if name in CONSTANTS else resolve(name))
                case ast.Constant(value=bool() | int() | float() as value):
                    done.append(builder.literal(value))
                case ast.Constant():
                    raise self._refusal(item, "an operand is a name or a number")
                case ast.UnaryOp(op=ast.UAdd()):
                    stack.append(item.operand)
                case _:
                    call = self._call(item)
                    stack.append(call)
                    stack.extend(reversed(call.children))
        return done.pop()

    def _call(self, tree: ast.expr) -> _Call:
        match tree:
            case ast.BinOp() if type(tree.op) in _BINARY:
                return _Call(_BINARY[type(tree.op)], [tree.left, tree.right], [None, None])
            case ast.UnaryOp() if type(tree.op) in _UNARY:
                return _Call(_UNARY[type(tree.op)], [tree.operand], [None])
            case ast.Compare() if type(tree.ops[0]) in _COMPARE:
                if len(tree.ops) > 1:
                    raise self._refusal(tree, "write (a < b) & (b < c) instead of a < b < c")
                return _Call(_COMPARE[type(tree.ops[0])], [tree.left, *tree.comparators], [None, None])
            case ast.Call(func=ast.Name(id=name)):
                return self._arguments(_Call(name), tree)
            case _:
                raise self._refusal(tree, _INSTEAD.get(type(tree), "use operators, calls of ops, names and numbers"))

    def _arguments(self, call: _Call, tree: ast.Call) -> _Call:
        for argument in tree.args:
            if isinstance(argument, ast.Starred):
                raise self._refusal(tree, "write the arguments out instead of *")
            call.positional.append(self._argument(call, argument))
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise self._refusal(tree, "write the arguments out instead of **")
            call.keywords[keyword.arg] = self._argument(call, keyword.value)
        return call

    def _argument(self, call: _Call, tree: ast.expr) -> str | None:
        if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
            return tree.value
        call.children.append(tree)
        return None

    def _finish(self, call: _Call, builder: Builder, done: list[Operand]) -> Operand:
        """The node of a call whose operands lie on `done`, which are taken off."""
        first = len(done) - len(call.children)
        operands = iter(done[first:])
        positional = [next(operands) if text is None else text for text in call.positional]
        keywords = {name: next(operands) if text is None else text for name, text in call.keywords.items()}
        del done[first:]
        return builder.node(call.op, positional, keywords)

    def _refusal(self, tree: ast.expr, way_out: str) -> DescriptionError:
        source = ast.get_source_segment(self.text, tree) or self.text
        return DescriptionError(f"{self.where}: {shown(source)} is outside the expression language; {way_out}")
