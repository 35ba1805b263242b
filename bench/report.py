"""Results as tables: plain ones at the end of a run, and a Markdown page made from a run's JSON file.

    python -m bench.report RESULT.json            # writes bench/results/<benchmark>-<gpu>.md
    python -m bench.report RESULT.json -o FILE

Needs nothing but the file: no GPU, no library.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

RESULTS = Path(__file__).with_name("results")
KERNELPRESS = ("triton", "cuda")
BEST = 6
LONGEST_REMARK = 300


class Numbers(TypedDict):
    """Median with 10th and 90th percentile of some samples."""

    median: float
    p10: float
    p90: float
    samples: int


class Row(TypedDict):
    """One contender of one group. Times are of a call, in microseconds; `of_copy` is the copy's time over its own.

    failure: why there are no times. error: norm of the error on the sampled rows over the result's. first_ms: the
    first call, with emission and compilation. starved: samples in which the GPU waited for the host.
    """

    name: str
    failure: NotRequired[str]
    us: NotRequired[Numbers]
    of_copy: NotRequired[Numbers]
    error: NotRequired[float]
    first_ms: NotRequired[float]
    starved: NotRequired[int]
    schedule: NotRequired[str]
    instance: NotRequired[str]
    registers: NotRequired[int]
    spills: NotRequired[int]
    shared: NotRequired[int]
    stack: NotRequired[int]


class Group(TypedDict):
    """All contenders of one group. bytes: least bytes moved. sets: of buffers. calls: in one sample."""

    name: str
    label: str
    bytes: int
    sets: int
    calls: int
    rows: list[Row]


class HostCall(TypedDict):
    """Host time of one call, in microseconds."""

    name: str
    us: Numbers


class Sweep(TypedDict):
    """Schedules of one backend on one group, the copy among the rows."""

    label: str
    backend: str
    rows: list[Row]


class Result(TypedDict):
    """A whole run. seconds: from start to end, with everything."""

    benchmark: str
    command: str
    date: str
    seconds: float
    rounds: int
    machine: dict[str, str]
    versions: dict[str, str]
    groups: list[Group]
    call_label: str
    calls: list[HostCall]
    sweeps: list[Sweep]


class Table(TypedDict):
    """A title, a header and cells; the first columns, `texts` of them, are words."""

    title: str
    texts: int
    header: list[str]
    cells: list[list[str]]


def tables(result: Result) -> list[Table]:
    """Every table of a result, the shortest summary first; empty ones are left out."""
    found = [_summary(result), _kernels(result), _calls(result), _peers(result), *map(_sweep, result["sweeps"])]
    return [t for t in found if t["cells"]]


def failures(result: Result) -> list[str]:
    """One line for each contender that gave no times."""
    return [f"{label}: {r['name']}: {r['failure']}" for label, r in _rows(result) if "failure" in r]


def remarks(result: Result) -> list[str]:
    """The failures, and one line for each contender whose times are not the GPU's alone; each on one short line."""
    lines = [f"FAILED {' '.join(line.split())}"[:LONGEST_REMARK] for line in failures(result)]
    for label, row in _rows(result):
        if "starved" in row:
            lines.append(f"{label}: {row['name']}: the GPU waited for the host in {row['starved']} samples")
    return lines


def _rows(result: Result) -> list[tuple[str, Row]]:
    lists = [(g["label"], g["rows"]) for g in result["groups"]]
    lists += [(f"{s['label']} {s['backend']}", s["rows"]) for s in result["sweeps"]]
    return [(label, row) for label, rows in lists for row in rows]


def _summary(result: Result) -> Table:
    names = list(dict.fromkeys(r["name"] for g in result["groups"] for r in g["rows"] if r["name"] != "copy"))
    cells = []
    for group in result["groups"]:
        rows = {r["name"]: r for r in group["rows"]}
        copy = rows["copy"]["us"]["median"]
        line = [group["name"], group["label"], f"{copy:.1f}", f"{group['bytes'] / copy / 1e6:.2f}"]
        cells.append(line + [_of_copy(rows.get(name)) for name in names])
    title = "Speed as a fraction of a copy of the same bytes (1 is the copy's own)"
    return Table(title=title, texts=2, header=["case", "group", "copy us", "TB/s", *names], cells=cells)


def _of_copy(row: Row | None) -> str:
    if row is None:
        return "-"
    return "FAILED" if "failure" in row else f"{row['of_copy']['median']:.3f}"


def _kernels(result: Result) -> Table:
    """kernelpress's kernels, with what they take of the machine."""
    cells = []
    for group in result["groups"]:
        for row in group["rows"]:
            if row["name"] in KERNELPRESS and "us" in row:
                cells.append([group["name"], row["name"], *_timed(row), *_resources(row), f"{row['first_ms']:.0f}"])
    header = ["case", "backend", *_TIMED, *_RESOURCES, "first ms"]
    return Table(title="kernelpress kernels", texts=2, header=header, cells=cells)


_TIMED = ["of copy", "p10", "p90", "us", "p10", "p90"]
_RESOURCES = ["regs", "spills", "smem", "instance"]


def _timed(row: Row) -> list[str]:
    ratio, us = row["of_copy"], row["us"]
    cells = [f"{ratio['median']:.3f}", f"{ratio['p10']:.3f}", f"{ratio['p90']:.3f}"]
    return [*cells, f"{us['median']:.1f}", f"{us['p10']:.1f}", f"{us['p90']:.1f}"]


def _resources(row: Row) -> list[str]:
    numbers = [row.get("registers"), row.get("spills"), row.get("shared")]
    return [*("?" if n is None else str(n) for n in numbers), row.get("instance", "?")]


def _peers(result: Result) -> Table:
    cells = []
    for group in result["groups"]:
        for row in group["rows"]:
            if row["name"] not in KERNELPRESS and "us" in row:
                error = f"{row['error']:.0e}" if "error" in row else "-"
                first = f"{row['first_ms']:.0f}" if "first_ms" in row else "-"
                cells.append([group["name"], row["name"], *_timed(row), error, first])
    header = ["case", "library", *_TIMED, "error", "first ms"]
    return Table(title="Beside them", texts=2, header=header, cells=cells)


def _calls(result: Result) -> Table:
    cells = [
        [c["name"], f"{c['us']['median']:.1f}", f"{c['us']['p10']:.1f}", f"{c['us']['p90']:.1f}"]
        for c in result["calls"]
    ]
    title = f"Host time of one call, us ({result['call_label']})"
    return Table(title=title, texts=1, header=["call", "us", "p10", "p90"], cells=cells)


def _sweep(sweep: Sweep) -> Table:
    """The best schedules, and the one chosen by default wherever it stands."""
    timed = [r for r in sweep["rows"] if "us" in r and r["name"] != "copy"]
    ranked = sorted(timed, key=lambda r: -r["of_copy"]["median"])
    cells = [
        [str(place), row["name"], *_timed(row), *_resources(row)]
        for place, row in enumerate(ranked, start=1)
        if place <= BEST or row["name"].startswith("default")
    ]
    title = f"Best of {len(timed)} schedules, {sweep['label']}, {sweep['backend']}"
    return Table(title=title, texts=2, header=["#", "schedule", *_TIMED, *_RESOURCES], cells=cells)


def plain(table: Table) -> str:
    """A table for a terminal."""
    lines = [table["header"], *table["cells"]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = table["texts"]
    printed = [table["title"]]
    for line in lines:
        cells = [c.ljust(w) if n < texts else c.rjust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True))]
        printed.append("  " + "  ".join(cells).rstrip())
    return "\n".join(printed)


def markdown(result: Result) -> str:
    """The page: where, with what and how it was measured, then every table."""
    lines = [f"# {result['benchmark'].capitalize()} kernels on {result['machine']['gpu']}", ""]
    lines += [f"Measured {result['date']} in {result['seconds']:.0f} s by", "", f"    {result['command']}", ""]
    facts = {**result["machine"], **result["versions"]}
    lines += _markdown_table(["", ""], [[name, value] for name, value in facts.items()], 2)
    lines += [
        "",
        f"Medians of {result['rounds']} rounds, with 10th and 90th percentile; bench/README.md has the method.",
    ]
    for table in tables(result):
        lines += ["", f"## {table['title']}", "", *_markdown_table(table["header"], table["cells"], table["texts"])]
    if found := remarks(result):
        lines += ["", "## Remarks", "", *(f"- {line}" for line in found)]
    return "\n".join(lines) + "\n"


def _markdown_table(header: Sequence[str], cells: Sequence[Sequence[str]], texts: int) -> list[str]:
    rule = ["---" if n < texts else "---:" for n in range(len(header))]
    return [f"| {' | '.join(c.replace('|', '/') for c in line)} |" for line in (header, rule, *cells)]


def page_name(result: Result) -> str:
    """`pointwise-nvidia-h200.md`."""
    gpu = re.sub(r"[^a-z0-9]+", "-", result["machine"]["gpu"].lower()).strip("-")
    return f"{result['benchmark']}-{gpu}.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description="A Markdown page from a JSON result")
    parser.add_argument("json", type=Path, metavar="RESULT.json")
    parser.add_argument("-o", "--output", type=Path, help="the page; by default in bench/results/, named after the GPU")
    options = parser.parse_args(arguments)
    result: Result = json.loads(options.json.read_text(encoding="utf-8"))
    page = options.output or RESULTS / page_name(result)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(markdown(result), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
