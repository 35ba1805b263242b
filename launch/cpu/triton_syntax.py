"""Python's own syntax with the meaning that Triton's compiler gives it: rewritten to calls of the helpers here."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

import triton.language as tl

from .triton_tensors import SEMANTIC, unwrap


def loop(first: Any, second: Any = None, step: Any = 1, **hints: Any) -> Iterator[Any]:
    """`range` and `tl.range`: as compiled, the induction variable is a tensor of the bounds' common type."""
    bounds = [SEMANTIC.to_tensor(bound) for bound in ((0, first) if second is None else (first, second)) + (step,)]
    dtype = SEMANTIC.integer_promote_impl(bounds[0].dtype, bounds[1].dtype)
    dtype = SEMANTIC.integer_promote_impl(dtype, bounds[2].dtype)
    for index in builtins.range(*(SEMANTIC.cast(bound, dtype).handle.data.item() for bound in bounds)):
        yield SEMANTIC.scalar_constant(index, dtype)


def static_loop(first: Any, second: Any = None, step: Any = 1) -> range:
    """`tl.static_range`: the induction variable is an int."""
    bounds = [unwrap(bound) for bound in ((0, first) if second is None else (first, second)) + (step,)]
    if any(isinstance(bound, tl.tensor) for bound in bounds):
        raise TypeError("tl.static_range takes compile-time bounds; use range for run-time ones")
    return builtins.range(*bounds)


def static_assert(condition: Any, message: Any = "") -> None:
    """`tl.static_assert`."""
    if not unwrap(condition):
        raise AssertionError(unwrap(message))


def hint(input: Any, *_: Any) -> Any:
    """`tl.multiple_of` and its kin, which tell the compiler something and change nothing."""
    return input


def truth(value: Any) -> bool:
    """The condition of an `if`, `while` or conditional expression."""
    value = unwrap(value.condition if isinstance(value, tl.condition) else value)
    if not isinstance(value, tl.tensor):
        return bool(value)
    if value.handle.data.size > 1:
        raise ValueError(f"a block of shape {list(value.type.sizes)} is no condition; use tl.where, & and |")
    return bool(SEMANTIC.cast(value, tl.int1).handle.data.item())


def holds(value: Any) -> bool:
    """The condition of an `assert`: every lane of a block."""
    return bool(SEMANTIC.cast(value, tl.int1).handle.data.all()) if isinstance(value, tl.tensor) else bool(value)


def negation(value: Any) -> Any:
    """`not value`, lane by lane."""
    return value.__not__() if isinstance(value, tl.tensor) else not value


def conjunction(*operands: Callable[[], Any]) -> Any:
    """`a and b`, lane by lane; a compile-time operand decides at once or has no part in it."""
    return _logical(operands, False, "logical_and")


def disjunction(*operands: Callable[[], Any]) -> Any:
    """`a or b`, lane by lane."""
    return _logical(operands, True, "logical_or")


def _logical(operands: tuple[Callable[[], Any], ...], decides: bool, method: str) -> Any:
    result = value = None
    for operand in operands:
        value = unwrap(operand())
        if isinstance(value, tl.tensor):
            result = value if result is None else getattr(result, method)(value)
        elif bool(value) is decides:
            return value
    return value if result is None else result


def assigned(value: Any) -> Any:
    """The value a name is bound to: a number becomes a scalar tensor, as when compiled."""
    if type(value) is tuple:
        return tuple(map(assigned, value))
    return SEMANTIC.to_tensor(value, False)


HELPERS = {f"__{f.__name__}": f for f in (truth, holds, negation, conjunction, disjunction, assigned)}


class Rewriter(ast.NodeTransformer):
    """Calls of the helpers in place of the syntax, in the tree of one function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list, node.returns = [], None
        for argument in node.args.args + node.args.kwonlyargs:
            argument.annotation = None
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = _call("__assigned", node.value)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._condition(node, "__truth")

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._condition(node, "__truth")

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._condition(node, "__truth")

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return self._condition(node, "__holds")

    def _condition(self, node: ast.If | ast.While | ast.IfExp | ast.Assert, helper: str) -> ast.AST:
        self.generic_visit(node)
        node.test = _call(helper, node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("__negation", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        later = [ast.copy_location(ast.Lambda(args=empty, body=value), value) for value in node.values]
        return _call("__conjunction" if isinstance(node.op, ast.And) else "__disjunction", *later)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1:
            raise NotImplementedError(f"chained comparison {ast.unparse(node)!r}: write (a < b) & (b < c)")
        return node


def _call(helper: str, *args: ast.expr) -> ast.Call:
    call = ast.Call(func=ast.Name(id=helper, ctx=ast.Load()), args=list(args), keywords=[])
    return ast.fix_missing_locations(ast.copy_location(call, args[0]))
