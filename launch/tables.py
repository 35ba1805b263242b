"""The tables that `kernelpress ops` and `kernelpress env` print."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emitter.ops import OpDef


def _table(*rows: Sequence[str]) -> str:
    """Columns of text, the first row their titles."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    print(json.dumps(document, indent=2))


def run_ops(options: argparse.Namespace) -> int:
    """`kernelpress ops`: all ops, or one (by name or symbol) in detail."""
    from emitter.ops import OPS, op

    if options.name is None:
        rows = [(d.call, d.symbol or "", _bound(d), d.doc) for d in OPS.values()]
        if options.json:
            print_json([_op_document(d) for d in OPS.values()])
        else:
            print(_table(("op", "symbol", "bound", "meaning"), *rows))
        return 0
    symbols = {d.symbol: d for d in OPS.values() if len(d.parameters) == 2}
    definition = symbols.get(options.name) or op(options.name)
    if options.json:
        print_json(_op_document(definition))
        return 0
    print(f"{definition.call}\n  {definition.doc}\n\nbound: {_bound(definition)}")
    if definition.symbol:
        print(f"symbol: {definition.symbol}")
    for attribute in definition.attributes:
        values = " or ".join(attribute.choices) or ("an integer" if attribute.kind == "int" else "a dtype")
        print(f"{attribute.name}: {values}" + ("" if attribute.default is None else f"; default {attribute.default}"))
    print("\n" + _table(("operands", "result"), *_results(definition).items()))
    return 0


def _bound(definition: OpDef) -> str:
    """How far a kernel's result may be from the exact one."""
    if definition.ulp is None:
        return "IEEE" if {"f32", "f64"} & {*_results(definition).values()} else "exact"
    wide = "" if definition.ulp_f64 is None else f" (f64: {definition.ulp_f64:g})"
    floor = f" + {definition.floor:.3g}" if definition.floor else ""
    return f"{definition.ulp:g} ulp{wide}{floor}"


def _results(definition: OpDef) -> dict[str, str]:
    """The result's dtype by that of the operands; of these, conditions are bool and indices i64."""
    from emitter.dtypes import BOOL, DTYPES, I64
    from emitter.errors import DTypeMismatch

    if definition.name in ("cast", "index"):
        return {"any": "the dtype given"} if definition.name == "cast" else {"none": I64.name}
    samples = {a.name: 0 if a.default is None else a.default for a in definition.attributes}
    attributes = definition.bind_attributes(samples, "ops")
    fixed = {"cond": BOOL, "indices": I64}
    results = {}
    for dtype in DTYPES:
        with contextlib.suppress(DTypeMismatch):
            operands = [fixed.get(name, dtype) for name in definition.parameters]
            results[dtype.name] = definition.signature(operands, attributes).result.name
    return results


def _op_document(definition: OpDef) -> dict[str, Any]:
    from emitter.dtypes import F64

    names = ("name", "call", "symbol", "doc", "ulp")
    more = {"ulp_f64": definition.bound(F64), "floor": definition.floor, "dtypes": _results(definition)}
    return {name: getattr(definition, name) for name in names} | more


def run_env(options: argparse.Namespace) -> int:
    """`kernelpress env`: what each variable means, its default, and what is set."""
    from .environment import VARIABLES

    rows = []
    for variable in VARIABLES:
        patterns = variable.name.split(", ")
        now = {n: v for n, v in sorted(os.environ.items()) if any(fnmatchcase(n, p) for p in patterns)}
        rows.append({**vars(variable), "set": now})
    if options.json:
        print_json(rows)
        return 0
    for row in rows:
        shown = ", ".join(f"{n}={v}" for n, v in row["set"].items()) or "not set"
        print(f"{row['name']}\n  {row['meaning']}\n  default: {row['default']}\n  now: {shown}")
    return 0
