"""What a check found, as a table or as a document for machines, and its progress on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from .check import Failure, Report, Result
from .check_cases import Case, Tensor

SHOWN_FAILURES = 3
"""Failures of each backend that the table explains."""

SHOWN_LINES = 12
"""Lines of a compiler's message that it quotes."""


@dataclass(frozen=True)
class Repeat:
    """The command that shows a failure again. group: the path given; static, schedule: the options given."""

    group: str
    static: Sequence[tuple[str, int]] = ()
    schedule: Sequence[tuple[str, int]] = ()

    def command(self, report: Report, result: Result, failure: Failure) -> str:
        words = ["kernelpress", "check", self.group, "--backend", result.backend]
        for option, pairs in (("--static", self.static), ("--schedule", self.schedule)):
            words += [word for name, value in pairs for word in (option, f"{name}={value}")]
        if failure.case is None:
            return shlex.join([*words, "--cases", "0", "--target", str(failure.target)])
        seed, number = str(report.seed), str(failure.case.number)
        return shlex.join([*words, "--device", report.device, "--seed", seed, "--case", number])


def progress_on(stream: TextIO) -> Callable[[str], None]:
    """Shows the latest stage ("" for none): on a terminal by one line that changes, elsewhere a line for each kind."""
    terminal = stream.isatty()
    last = ""

    def show(stage: str) -> None:
        nonlocal last
        if terminal:
            print(f"\r\x1b[K{stage}", end="", file=stream, flush=True)
            return
        kind = "running cases" if stage.startswith("case ") else stage
        if kind not in ("", last):
            print(kind, file=stream, flush=True)
        last = kind

    return show


def report_text(report: Report, repeat: Repeat) -> str:
    """The table of a check, with its first failures explained."""
    rows = [("backend", "cases", "elements", "worst error", "failures", "compiled")]
    for result in report.results:
        numbers = (str(result.cases), str(result.elements), _worst(result), str(len(result.failures)))
        rows.append((result.backend, *numbers, _compiled(result)))
    parts = [f"{report.group.name} on the {'GPU' if report.device == 'cuda' else 'CPU'}, seed {report.seed}"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    parts.append("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))
    for result in report.results:
        parts += [_explained(result, f, repeat.command(report, result, f)) for f in result.failures[:SHOWN_FAILURES]]
        more = len(result.failures) - SHOWN_FAILURES
        if more > 0:
            parts.append(f"{result.backend}: {more} more failures")
    return "\n\n".join(parts)


def report_document(report: Report, repeat: Repeat) -> dict[str, Any]:
    """The whole check, for JSON."""
    return {
        "group": report.group.name,
        "fingerprint": report.group.fingerprint,
        "device": report.device,
        "seed": report.seed,
        "ok": report.ok,
        "backends": [
            {
                "backend": r.backend,
                "cases": r.cases,
                "elements": r.elements,
                "worst_fraction_of_bound": r.worst,
                "bit_for_bit": r.same_bits,
                "compiled": r.compiled,
                "not_compiled": r.missing,
                "failures": [_failure_document(f, repeat.command(report, r, f)) for f in r.failures],
            }
            for r in report.results
        ],
    }


def _worst(result: Result) -> str:
    if not result.elements:
        return "-"
    return "bit for bit" if result.same_bits else f"{result.worst:.2f} of the bound"


def _compiled(result: Result) -> str:
    done = [f"{target} ({count})" for target, count in result.compiled.items()]
    done += [f"{f.target} FAILED" for f in result.failures if f.target is not None]
    return ", ".join(done + [f"not for {target}: {why}" for target, why in result.missing.items()]) or "-"


def _explained(result: Result, failure: Failure, repeat: str) -> str:
    place = f" for {failure.target}" if failure.case is None else f", case {failure.case.number}"
    message = failure.message.rstrip().splitlines()
    lines = [f"FAILED {result.backend}{place}: {message[0]}", *(f"  {line}" for line in message[1:SHOWN_LINES])]
    if failure.wrong is not None:
        wrong = failure.wrong
        lines.append(f"  first at {wrong.index}: got {wrong.got}, want {wrong.want}, bound {wrong.bound}")
    if failure.case is not None:
        lines += [f"  {name}: {text}" for name, text in _call_lines(failure.case)]
    return "\n".join([*lines, f"  repeat: {repeat}"])


def _call_lines(case: Case) -> list[tuple[str, str]]:
    lines = [(name, str(given) if isinstance(given, Tensor) else repr(given)) for name, given in case.inputs.items()]
    if case.outputs is None:
        return [*lines, ("out", "allocated by the call")]
    return lines + [(f"out {name}", str(tensor)) for name, tensor in case.outputs.items()]


def _failure_document(failure: Failure, repeat: str) -> dict[str, Any]:
    document: dict[str, Any] = {"message": failure.message, "repeat": repeat}
    if failure.target is not None:
        document["target"] = failure.target
    if failure.case is not None:
        document["case"] = failure.case.number
        document["inputs"] = {name: _given(given) for name, given in failure.case.inputs.items()}
        outputs = failure.case.outputs
        document["outputs"] = None if outputs is None else {name: _given(t) for name, t in outputs.items()}
    if failure.wrong is not None:
        document["wrong"] = vars(failure.wrong)
    return document


def _given(given: Any) -> dict[str, Any]:
    """A tensor's place in memory, or a number as text, as JSON knows neither inf nor NaN."""
    if not isinstance(given, Tensor):
        return {"value": repr(given)}
    shape = list(given.array.shape)
    return {"shape": shape, "strides": list(given.strides), "layout": given.layout, "align": given.align}
