"""Pointwise kernels on a GPU, beside a copy of the same bytes and other libraries. bench/README.md has the method.

    python -m bench.pointwise [--quick] [--groups NAME ...] [--peers NAME ...] [--json FILE]
    python -m bench.pointwise --sweep [--groups NAME ...]

Runs from the top of a checkout.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import emitter
import launch
from emitter.schedule import Backend, Schedule
from launch.errors import MissingLibrary

from . import report
from .contenders import (
    COPY,
    PEERS,
    Buffers,
    Contender,
    copier,
    default_schedule,
    import_torch,
    kernelpress,
    make_buffers,
    peer_builders,
    verify,
)
from .groups import CASES, LAUNCH_CASE, SWEPT, Case
from .machine import command, l2_bytes, machine, versions
from .measure import EventTimer, Statistics, buffer_sets, call_times, calls_in_sample, interleave, paired_ratio
from .report import Group, HostCall, Numbers, Result, Row, Sweep

ROUNDS, QUICK_ROUNDS, SWEEP_ROUNDS = 80, 20, 24
CALL_ROUNDS, CALLS = 15, 200
WARM_UP_SECONDS = 0.3

TRITON_GRID = {"tile": (1024, 2048, 4096, 8192), "columns": (256, 512, 1024, 2048), "num_warps": (4, 8)}
CUDA_GRID = {"vector": (4, 8, 16), "threads": (128, 256, 512), "rows": (1, 2, 4, 8)}

Builder = Callable[[], Contender]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status is 1 when a contender failed or gave a wrong result."""
    options = parse(arguments)
    started = time.perf_counter()
    torch = import_torch()
    cases = chosen_cases(options)
    result = Result(
        benchmark="pointwise",
        command=command(sys.argv[1:] if arguments is None else arguments),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        seconds=0.0,
        rounds=SWEEP_ROUNDS if options.sweep else QUICK_ROUNDS if options.quick else ROUNDS,
        machine=machine(torch),
        versions=versions(["jax"] if "xla" in options.peers else []),
        groups=[],
        call_label="",
        calls=[],
        sweeps=[],
    )
    for case in cases:
        if options.sweep:
            result["sweeps"] += [sweep(torch, case, backend, result["rounds"]) for backend in options.backends]
        else:
            measure(torch, case, options, result)
        release(torch)
        result["seconds"] = time.perf_counter() - started
        print(f"{case.name}: {result['seconds']:.0f} s so far", flush=True)
        if options.json:  # after every case, so that a run that is cut short leaves what it has
            options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print_result(result)
    return 1 if report.failures(result) else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options; `schedule` as a dict of changes."""
    parser = argparse.ArgumentParser(prog="python -m bench.pointwise", description="Measure pointwise kernels on a GPU")
    names = [case.name for case in CASES]
    parser.add_argument("--groups", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--backends", type=_backends, default=emitter.BACKENDS, help="triton,cuda (the default)")
    parser.add_argument(
        "--peers", nargs="*", choices=PEERS, default=PEERS[:-1], metavar="NAME",
        help=f"libraries beside them, of {', '.join(map(repr, PEERS))}; all but xla by default",
    )  # fmt: skip
    parser.add_argument(
        "--schedule", nargs="+", type=_change, default=[], metavar="FIELD=VALUE",
        help=f"changes to the schedule chosen by default, of {', '.join(f.name for f in fields(Schedule))}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help=f"fewer rounds; only {', '.join(SWEPT)} and {LAUNCH_CASE}")
    parser.add_argument("--sweep", action="store_true", help=f"try many schedules, on {', '.join(SWEPT)} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    options = parser.parse_args(arguments)
    options.schedule = dict(options.schedule)
    if options.sweep and options.schedule:
        parser.error("--sweep tries schedules of its own: leave out --schedule")
    return options


def _backends(text: str) -> tuple[Backend, ...]:
    asked = text.split(",")
    if unknown := [name for name in asked if name not in emitter.BACKENDS]:
        raise argparse.ArgumentTypeError(f"no backend {unknown[0]!r}: expected some of {', '.join(emitter.BACKENDS)}")
    return tuple(backend for backend in emitter.BACKENDS if backend in asked)


def _change(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    known = [f.name for f in fields(Schedule)]
    if name not in known or not value.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: expected FIELD=VALUE, a number for one of {', '.join(known)}")
    return name, int(value)


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """The cases to run, in the order of `CASES`."""
    short = [*SWEPT] if options.sweep else [*SWEPT, LAUNCH_CASE] if options.quick else [c.name for c in CASES]
    names = options.groups or short
    return [case for case in CASES if case.name in names]


def measure(torch: Any, case: Case, options: argparse.Namespace, result: Result) -> None:
    """Measure every contender of one case; the host's time of a call too where the case is the small one."""
    sets = buffer_sets(case.bytes, l2_bytes(torch))
    buffers = make_buffers(torch, case, sets)
    builders: dict[str, Builder] = {
        backend: partial(kernelpress, torch, case, buffers, backend, options.schedule) for backend in options.backends
    }
    builders |= {name: build for name, build in peer_builders(torch, case, buffers) if name in options.peers}
    copy = copier(torch, case, sets)
    contenders, rows = prepare(torch, case, buffers[0], builders)
    time_all(torch, case, copy, contenders, rows, result["rounds"])
    result["groups"].append(
        Group(
            name=case.name,
            label=case.label,
            bytes=case.bytes,
            sets=sets,
            calls=calls_in_sample(case.bytes),
            rows=list(rows.values()),
        )
    )
    if case.name == LAUNCH_CASE:
        result["call_label"] = case.label
        result["calls"] = host_calls(torch, buffers[0], contenders)


def prepare(
    torch: Any, case: Case, first: Buffers, builders: Mapping[str, Builder]
) -> tuple[dict[str, Contender], dict[str, Row]]:
    """Build each contender, run it once on a poisoned output and check what it computes; its row says how that went."""
    contenders: dict[str, Contender] = {}
    rows: dict[str, Row] = {}
    for name, build in builders.items():
        row = rows[name] = Row(name=name)
        first.out.fill_(float("nan"))
        torch.cuda.synchronize()
        start = time.perf_counter()
        try:
            contender = build()
            value = contender.call(0)
            torch.cuda.synchronize()
            row["first_ms"] = (time.perf_counter() - start) * 1e3
            row["error"] = verify(torch, case, first, value, strict=contender.strict)
        except Exception as error:  # one that cannot run here must not take the others' results with it
            row["failure"] = f"{type(error).__name__}: {error}"
            print(f"FAILED {case.label}: {name}: {row['failure']}", file=sys.stderr, flush=True)
            continue
        contenders[name] = contender
    return contenders, rows


def time_all(
    torch: Any, case: Case, copy: Contender, contenders: Mapping[str, Contender], rows: dict[str, Row], rounds: int
) -> None:
    """Sample the copy and all contenders in turn and fill in their rows, the copy's first."""
    everyone = {COPY: copy, **contenders}
    warm_up(torch, copy)
    timed = {name: (c.timer, c.call) for name, c in everyone.items()}
    samples = interleave(timed, rounds, calls_in_sample(case.bytes), len(copy.arguments))
    others = dict(rows)
    rows.clear()
    rows[COPY] = Row(name=COPY)
    rows |= others
    for name, contender in everyone.items():
        row = rows[name]
        row["us"] = numbers(Statistics.of(samples[name]))
        row["of_copy"] = numbers(paired_ratio(samples[COPY], samples[name]))
        if isinstance(contender.timer, EventTimer) and contender.timer.starved:
            row["starved"] = contender.timer.starved
        describe(row, contender)


def describe(row: Row, contender: Contender) -> None:
    """What a kernelpress kernel is and takes: schedule, instance, registers, spills, shared memory."""
    if contender.recorder is None or contender.schedule is None:
        return
    schedule = contender.schedule
    row["schedule"] = " ".join(f"{f.name}={getattr(schedule, f.name)}" for f in fields(schedule))
    key, artifact = contender.recorder.compiled[-1]
    shape = f"tile={'x'.join(map(str, key.tile))}" if key.tile else f"vec={key.vector}"
    row["instance"] = f"{key.index},{shape}" + (",unaligned" if key.vector == 1 else "")
    try:
        taken = launch.resources(artifact)
    except MissingLibrary as error:  # the times stand without them
        print(f"{contender.name}: {error}", file=sys.stderr, flush=True)
        return
    row["registers"], row["spills"] = taken.registers, taken.spills
    row["shared"], row["stack"] = taken.shared, taken.stack


def host_calls(torch: Any, first: Buffers, contenders: Mapping[str, Contender]) -> list[HostCall]:
    """Host time of a call of each contender, of kernelpress with and without `out=`, and of torch.add(out=)."""
    functions: dict[str, Callable[[], Any]] = {}
    for name, contender in contenders.items():
        if contender.recorder is None:
            functions[name] = contender.bare()
        else:
            functions[f"kernelpress {name}, out="] = contender.bare()
            functions[f"kernelpress {name}"] = contender.bare(out=False)
    functions["torch.add(out=)"] = lambda: torch.add(*first.arguments, out=first.out)
    samples = call_times(functions, torch.cuda.synchronize, CALL_ROUNDS, CALLS)
    return [HostCall(name=n, us=numbers(Statistics.of(v))) for n, v in samples.items()]


def numbers(statistics: Statistics) -> Numbers:
    """Statistics as the report has them."""
    return Numbers(median=statistics.median, p10=statistics.p10, p90=statistics.p90, samples=statistics.samples)


def sweep(torch: Any, case: Case, backend: Backend, rounds: int) -> Sweep:
    """Time many schedules of one backend on one case, the default one among them."""
    sets = buffer_sets(case.bytes, l2_bytes(torch))
    buffers = make_buffers(torch, case, sets)
    default = default_schedule(case, backend)
    builders: dict[str, Builder] = {}
    for changes in variants(backend, default):
        text = " ".join(f"{name}={value}" for name, value in changes.items())
        is_default = all(getattr(default, name) == value for name, value in changes.items())
        name = f"default {text}" if is_default else text
        builders[name] = partial(kernelpress, torch, case, buffers, backend, changes, name)
    copy = copier(torch, case, sets)
    contenders, rows = prepare(torch, case, buffers[0], builders)
    time_all(torch, case, copy, contenders, rows, rounds)
    return Sweep(label=case.label, backend=backend, rows=list(rows.values()))


def variants(backend: Backend, default: Schedule) -> Iterator[dict[str, int]]:
    """The schedules of a sweep as changes to the default: the grid, and the default itself first."""
    grid = TRITON_GRID if backend == "triton" else CUDA_GRID
    yield (first := {name: getattr(default, name) for name in grid})
    for values in itertools.product(*grid.values()):
        changes = dict(zip(grid, values, strict=True))
        if changes != first and changes.get("columns", 0) <= changes.get("tile", 0):
            yield changes


def warm_up(torch: Any, copy: Contender) -> None:
    """Keep the GPU busy for a while, so that its clocks have risen."""
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        copy.call(0)
        torch.cuda.synchronize()


def release(torch: Any) -> None:
    """Give back the memory of a finished case."""
    gc.collect()
    torch.cuda.empty_cache()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def print_result(result: Result) -> None:
    """All tables, the summary last."""
    for table in reversed(report.tables(result)):
        print(f"\n{report.plain(table)}")
    for line in report.remarks(result):
        print(f"! {line}")
    where = ", ".join(f"{k} {v}" for k, v in {**result["machine"], **result["versions"]}.items())
    print(f"\n{where}; {result['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
