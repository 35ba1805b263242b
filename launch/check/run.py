"""Running drawn cases on one backend, comparing with the error bound, and compiling every instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emitter.bounds import Bounded, evaluate, within
from emitter.group import FusionGroup, TensorSpec
from emitter.schedule import Backend, Schedule

from ..errors import CompileError, MissingLibrary
from ..kernel import Kernel, load
from ..targets import Target
from .inputs import Array, Case, draw
from .memory import on_host, place

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many."""


@dataclass(frozen=True)
class Failure:
    """What went wrong. case: its number; None for a compilation."""

    case: int | None
    what: str
    call: str = ""


@dataclass
class Report:
    """What was checked on one backend.

    elements: how many were compared. worst: the greatest error beyond the output's own rounding, as a fraction of its
    bound. compiled: instances by target. missing: why nothing was compiled, where so.
    """

    backend: Backend
    device: str
    cases: int = 0
    elements: int = 0
    worst: float = 0.0
    compiled: dict[str, int] = field(default_factory=dict)
    missing: str = ""
    failures: list[Failure] = field(default_factory=list)


def check(
    group: FusionGroup,
    backend: Backend,
    *,
    device: Any = "auto",
    cases: Sequence[int] = range(40),
    seed: int = 0,
    targets: Sequence[Target] = (),
    schedule: Schedule | None = None,
    static: Mapping[str, int] | None = None,
    progress: Progress = lambda what, done, of: None,
) -> Report:
    """Run the numbered cases of a seed and compile every instance for the targets.

    A case's inputs lie beside guard pages and its outputs amid poison. Each element must be inside the bound that
    `emitter.bounds` derives. Stops at the first case that fails. Raises the errors of `load`.
    """
    kernel = load(group, backend, device=device, schedule=schedule, static=static)
    report = Report(backend, kernel.device)
    for done, number in enumerate(cases):
        progress(f"{backend} on the {'GPU' if kernel.device == 'cuda' else 'CPU'}", done, len(cases))
        case = draw(group, seed, number, static)
        failure = _run(kernel, case, report)
        report.cases += 1
        if failure:
            report.failures.append(Failure(number, failure, described(group, case)))
            break
    _compile(kernel, targets, report, progress)
    return report


def _run(kernel: Kernel, case: Case, report: Report) -> str:
    """Run one case and add it to the report; what is wrong, "" for nothing."""
    group = kernel.group
    placed = {
        item.name: place(argument, kernel.device, align)
        for item, argument, align in zip(group.inputs, case.arguments, case.aligns, strict=True)
        if isinstance(item, TensorSpec)
    }
    arguments = [
        placed[i.name].array if i.name in placed else a for i, a in zip(group.inputs, case.arguments, strict=True)
    ]
    outs = None if case.outs is None else [place(o, kernel.device, contents=False) for o in case.outs]
    given = None if outs is None else tuple(o.array for o in outs)
    try:
        returned = kernel(*arguments, out=given[0] if given and len(given) == 1 else given)
    except Exception as error:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        return f"{type(error).__name__}: {error}{notes}"
    if outs is None:
        results = [on_host(a) for a in (returned if isinstance(returned, tuple) else (returned,))]
    else:
        results = [o.contents() for o in outs]
        for name, out in zip(group.outputs, outs, strict=True):
            if out.outside_written():
                return f"output {name}: bytes outside the array were written"
    for item, argument in zip(group.inputs, case.arguments, strict=True):
        if item.name in placed and not _same_bits(placed[item.name].contents(), argument):
            return f"input {item.name} was written"
    limits = evaluate(group, *case.arguments)
    for name, got, limit in zip(group.outputs, results, limits, strict=True):
        wrong = _compare(kernel, name, got, limit, report)
        if wrong:
            return wrong
    return ""


def _compare(kernel: Kernel, name: str, got: Array, limit: Bounded, report: Report) -> str:
    dtype = kernel.types[name].dtype
    if got.shape != limit.value.shape or got.dtype != dtype.numpy:
        return f"output {name}: expected {dtype}{limit.value.shape}, got {got.dtype}{got.shape}"
    report.elements += got.size
    wrong = ~within(got, limit, dtype)
    if wrong.any():
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        return (
            f"output {name}{list(place)}: got {got[place]}, expected {limit.value[place]} +- {limit.err[place]:.3g} "
            f"({np.count_nonzero(wrong)} of {wrong.size} elements are wrong)"
        )
    if dtype.is_float:
        report.worst = max(report.worst, _fraction(got, limit))
    return ""


def _fraction(got: Array, limit: Bounded) -> float:
    """The greatest error beyond the last rounding, as a fraction of its bound."""
    with np.errstate(all="ignore"):
        rounding = np.abs(np.spacing(got)).astype(np.float64) / 2
        fraction = (np.abs(got.astype(np.float64) - limit.value) - rounding) / limit.err
    known = np.isfinite(fraction)
    return min(1.0, max(0.0, float(fraction[known].max()))) if known.any() else 0.0


def _same_bits(a: Array, b: Array) -> bool:
    bits = np.dtype(f"u{a.itemsize}")
    return bool(np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)))


def _compile(kernel: Kernel, targets: Sequence[Target], report: Report, progress: Progress) -> None:
    instances = kernel.source.instances
    for target in targets:
        for done, instance in enumerate(instances):
            progress(f"{kernel.backend} compiled for {target}", done, len(instances))
            try:
                kernel.artifact(instance, target)
            except MissingLibrary as error:
                report.missing = str(error)
                return
            except CompileError as error:
                report.failures.append(Failure(None, f"{instance}: {error}"))
                return
            report.compiled[str(target)] = report.compiled.get(str(target), 0) + 1


def described(group: FusionGroup, case: Case) -> str:
    """Sizes, and how each argument lies."""
    lines = [", ".join(f"{dim} = {size}" for dim, size in case.sizes.items()) or "no dims"]
    for item, argument, align in zip(group.inputs, case.arguments, case.aligns, strict=True):
        if isinstance(item, TensorSpec):
            where = "at a multiple of 16" if align == 16 else f"{align} bytes past one"
            lines.append(f"{item.name}: shape {argument.shape}, strides {argument.strides} bytes, {where}")
        else:
            lines.append(f"{item.name} = {argument!r}")
    if case.outs is not None:
        lines += [f"out {n}: strides {o.strides} bytes" for n, o in zip(group.outputs, case.outs, strict=True)]
    return "\n".join(lines)
