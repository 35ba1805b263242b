"""What emitted files say of themselves: the banner, the summary, the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields

from .group import FusionGroup
from .layout import Layout
from .plan import Plan
from .printer import Printer
from .schedule import Backend, Schedule
from .source import KernelSource
from .verify import Verified
from .version import VERSION

_SUMMARY_WIDTH = 100


def banner(
    group: FusionGroup,
    backend: Backend,
    schedule: Schedule,
    default: Schedule,
    plan: Plan,
    layouts: Mapping[str, Layout],
    static: Mapping[str, int],
) -> tuple[str, str]:
    """The two lines that open every file: what made it and from what, and the command that makes it again."""
    command = [f"kernelpress emit group.toml --backend {backend}"]
    command += [f"--layout {name}={layout}" for name, layout in sorted(layouts.items())]
    command += [f"--static {dim}={size}" for dim, size in sorted(static.items())]
    for field in fields(schedule):
        value = getattr(schedule, field.name)
        if value != getattr(default, field.name):
            command.append(f"--schedule {field.name}={value}")
    first = (
        f"kernelpress {VERSION} | group {group.name} {group.fingerprint[:12]} | template {backend}/pointwise | "
        f"{schedule.text(backend, plan.rows is None)}"
    )
    return first, f"Reproduce: {' '.join(command)}"


def summary(group: FusionGroup, verified: Verified) -> str:
    """The computation in one line: outputs with types, and the nodes where they are few."""
    results = ", ".join(f"{o}: {verified.types[o]}" for o in group.outputs)
    given = ", ".join(f"{i.name}: {i}" for i in group.inputs)
    body = "; ".join(f"{name} = {text}" for name, text in Printer(group).lines)
    forms = (f"{group.name}({given}) -> {results}. {body}.", f"{group.name}: {body}.", f"{group.name} -> {results}.")
    for text in forms:
        if len(text) <= _SUMMARY_WIDTH:
            return text
    return f"The fused group {group.name}: {len(group.nodes)} nodes, {len(group.outputs)} outputs."


def manifest(group: FusionGroup, sources: list[KernelSource]) -> str:
    """manifest.json: inputs, outputs, and each kernel's entry, files, grid and parameters."""
    kernels = {
        source.backend: {
            "entry": source.entry,
            "files": [name for name, _ in source.files],
            "grid": source.grid.python(),
            "num_warps": source.num_warps,
            "parameters": [
                {"name": p.name, "kind": p.kind, "dtype": p.dtype.name if p.dtype else "index"} for p in source.params
            ],
        }
        for source in sources
    }
    document = {
        "generator": f"kernelpress {VERSION}",
        "group": group.name,
        "fingerprint": group.fingerprint,
        "inputs": {i.name: str(i) for i in group.inputs},
        "outputs": list(group.outputs),
        "kernels": kernels,
    }
    return json.dumps(document, indent=2) + "\n"
