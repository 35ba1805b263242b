"""What each command does. Results go to standard output, messages to standard error; True means that all is well."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import emitter
from emitter.dtypes import DTYPES, F32, F64
from emitter.errors import BadSchedule, DTypeMismatch
from emitter.ops import OPS, OpDef, op
from emitter.schedule import Backend, Schedule

from .environment import VARIABLES
from .targets import Target

if TYPE_CHECKING:
    from .check import Report

_TARGETS: dict[Backend, tuple[str, ...]] = {"triton": ("cuda:90", "hip:gfx942"), "cuda": ("cuda:90",)}


def emit(arguments: Namespace) -> bool:
    """Write the source of a group, or print it."""
    group = emitter.read(arguments.group)
    backends = _backends(arguments)
    choices: dict[str, Any] = {"layouts": dict(arguments.layout), "static": dict(arguments.static)}
    choices["schedule"] = _schedule(arguments, group, choices)
    if arguments.output == "-":
        files = dict(file for backend in backends for file in emitter.emit(group, backend, **choices).files)
        print(json.dumps(files, indent=2) if arguments.json else "\n\n".join(map(str.rstrip, files.values())))
        return True
    paths = emitter.write(group, arguments.output, backends, **choices)
    if arguments.json:
        print(json.dumps({"group": group.name, "fingerprint": group.fingerprint, "files": [str(p) for p in paths]}))
    else:
        print("\n".join(map(str, paths)))
    return True


def check(arguments: Namespace) -> bool:
    """Check a group's kernels here and now."""
    from .check import check as check_group

    group = emitter.read(arguments.group)
    static = dict(arguments.static)
    schedule = _schedule(arguments, group, {"static": static})
    numbers = range(arguments.cases) if arguments.case is None else [arguments.case]
    reports = []
    progress = _Progress()
    for backend in _backends(arguments):
        targets = [Target.parse(t) for t in arguments.target or _TARGETS[backend]]
        if backend == "cuda":
            targets = [t for t in targets if t.kind == "cuda"]
        reports.append(
            check_group(
                group,
                backend,
                device=arguments.device,
                cases=numbers,
                seed=arguments.seed,
                targets=targets,
                schedule=schedule,
                static=static,
                progress=progress,
            )
        )
    progress.finish()
    if arguments.json:
        print(json.dumps({"group": group.name, "seed": arguments.seed, "backends": [asdict(r) for r in reports]}))
    else:
        print(_table(group.name, reports))
    for report in reports:
        for failure in report.failures:
            print(f"\n{report.backend}: {failure.what}", file=sys.stderr)
            if failure.case is not None:
                print(failure.call, file=sys.stderr)
                print(f"again: {_again(arguments, report, failure.case)}", file=sys.stderr)
    return not any(report.failures for report in reports)


def ops(arguments: Namespace) -> bool:
    """The op table."""
    shown = list(OPS.values()) if arguments.name is None else [op(arguments.name)]
    if arguments.json:
        print(json.dumps([_op_row(definition) for definition in shown], indent=2))
    elif arguments.name is None:
        width = max(len(definition.call) for definition in shown)
        for definition in shown:
            print(f"{definition.call:<{width}}  {_error(definition):<9}  {definition.doc}")
    else:
        (definition,) = shown
        print(f"{definition.call}\n  {definition.doc}\n  error   {_error(definition)}")
        for dtype, result in _op_row(definition)["results"].items():
            print(f"  {dtype:<6}  gives {result}")
    return True


def env(arguments: Namespace) -> bool:
    """Every environment variable that is read, with its value."""
    rows = [asdict(v) | {"value": os.environ.get(v.name)} for v in VARIABLES]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return True
    for row in rows:
        now = f"now {row['value']}" if row["value"] else f"default: {row['default']}"
        print(f"{row['name']}\n  {row['meaning']}\n  {now}")
    return True


def _backends(arguments: Namespace) -> tuple[Backend, ...]:
    return emitter.BACKENDS if arguments.backend == "both" else (arguments.backend,)


def _schedule(arguments: Namespace, group: emitter.FusionGroup, choices: dict[str, Any]) -> Schedule | None:
    """The chosen schedule with the given fields in their place; None where none is given."""
    if not arguments.schedule:
        return None
    given = dict(arguments.schedule)
    chosen = emitter.emit(group, **choices).schedule
    for name in given:
        if name not in asdict(chosen):
            raise BadSchedule(f"--schedule {name}: expected one of {', '.join(asdict(chosen))}")
    return replace(chosen, **given)


def _error(definition: OpDef) -> str:
    """The error bound in ulp, or that there is none."""
    if definition.ulp is None:
        return "exact"
    f32, f64 = definition.bound(F32), definition.bound(F64)
    return f"{f32:g} ulp" if f32 == f64 else f"{f32:g}/{f64:g} ulp"


def _op_row(definition: OpDef) -> dict[str, Any]:
    results = {}
    count = len(definition.parameters)
    for dtype in DTYPES if definition.name not in ("cast", "index", "take") else ():
        operands: list[Any] = [dtype] * count
        if definition.name == "where":
            operands[0] = next(d for d in DTYPES if d.name == "bool")
        try:
            results[dtype.name] = definition.signature(operands, definition.bind_attributes({}, "")).result.name
        except DTypeMismatch:
            continue
    return {
        "name": definition.name,
        "call": definition.call,
        "symbol": definition.symbol,
        "doc": definition.doc,
        "ulp": {"f32": definition.bound(F32), "f64": definition.bound(F64)},
        "floor": definition.floor,
        "results": results,
    }


def _table(name: str, reports: list[Report]) -> str:
    lines = [f"{name}: {'FAILED' if any(r.failures for r in reports) else 'all as NumPy has it'}"]
    for report in reports:
        worst = f"worst error {report.worst:.2f} of its bound" if report.worst else "exact but for the last rounding"
        where = "GPU" if report.device == "cuda" else "CPU"
        lines.append(
            f"  {report.backend:<7} {report.cases} cases on the {where}, {report.elements} elements, {worst}, "
            f"{len(report.failures)} failures"
        )
        compiled = ", ".join(f"{count} for {target}" for target, count in report.compiled.items())
        if compiled:
            lines.append(f"  {'':<7} instances compiled: {compiled}")
        if report.missing:
            lines.append(f"  {'':<7} not compiled: {report.missing}")
    return "\n".join(lines)


def _again(arguments: Namespace, report: Report, case: int) -> str:
    """The command that repeats one case."""
    words = ["kernelpress check", arguments.group, f"--backend {report.backend} --device {report.device}"]
    words += [f"--static {dim}={size}" for dim, size in arguments.static]
    words += [f"--schedule {field}={value}" for field, value in arguments.schedule]
    return " ".join([*words, f"--seed {arguments.seed} --case {case}"])


class _Progress:
    """What is being done, on standard error: one line that changes on a terminal, else a line a stage."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.stage = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        if self.live:
            print(f"\r\033[K{what}: {done}/{of}", end="", file=sys.stderr, flush=True)
        elif what != self.stage:
            print(f"{what}: {of} ...", file=sys.stderr)
        self.stage = what

    def finish(self) -> None:
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
