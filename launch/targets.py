"""Targets: what a kernel is compiled for. None of them needs a GPU on this machine."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass
from typing import Literal, get_args

from .errors import BadTarget

TargetKind = Literal["cuda", "hip", "cpu"]

_KINDS: tuple[str, ...] = get_args(TargetKind)
_ARCH = {
    "cuda": r"[1-9]\d{1,2}[af]?",
    "hip": r"gfx[1-9][0-9a-f]{2,3}(:(sramecc|xnack)[+-])*",
    "cpu": r"[a-z0-9_]+(-32)?",
}
_ACCEPTED = (
    "expected cuda:<compute capability without the dot> (cuda:80, cuda:90, cuda:90a, cuda:120), "
    "hip:<processor> (hip:gfx90a, hip:gfx942, hip:gfx1100) or cpu:<machine> (cpu:x86_64, cpu:aarch64)"
)
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Target:
    """A kind of device and its architecture, as in "cuda:90", "hip:gfx942", "cpu:x86_64".

    A CPU target names the machine that the kernels' host emulation is compiled for. Raises BadTarget.
    """

    kind: TargetKind
    arch: str

    def __post_init__(self) -> None:
        if self.kind not in _KINDS or not re.fullmatch(_ARCH[self.kind], self.arch, re.ASCII):
            raise BadTarget(f"unknown target '{self.kind}:{self.arch}': {_ACCEPTED}")

    def __str__(self) -> str:
        return f"{self.kind}:{self.arch}"

    @staticmethod
    def parse(text: str | Target) -> Target:
        """The target written as "kind:arch"; "cpu" alone is this machine's."""
        if isinstance(text, Target):
            return text
        if text == "cpu":
            return Target.host()
        kind, _, arch = text.partition(":")
        for known in get_args(TargetKind):
            if kind == known and arch:
                return Target(known, arch)
        raise BadTarget(f"unknown target {text!r}: {_ACCEPTED}")

    @staticmethod
    def host() -> Target:
        """The CPU target of this machine, told apart by machine and pointer width."""
        machine = platform.machine().lower()
        width = "" if sys.maxsize > 2**32 else "-32"
        return Target("cpu", _MACHINES.get(machine, machine) + width)

    @property
    def warp_size(self) -> int:
        """Threads that run in step; the host emulation follows CUDA."""
        return 64 if self.kind == "hip" and not self.arch.startswith("gfx1") else 32

    @property
    def processor(self) -> str:
        """The architecture as the compilers spell it, without its features: "90a" is "sm_90a"."""
        return f"sm_{self.arch}" if self.kind == "cuda" else self.arch.partition(":")[0]

    @property
    def capability(self) -> int:
        """The compute capability of a CUDA target as one number: 90 for "cuda:90a"."""
        if self.kind != "cuda":
            raise BadTarget(f"target {self} has no compute capability: expected a cuda target")
        return int(self.arch.rstrip("af"))


def current_target(explicit: str | Target | None = None) -> Target:
    """The target to compile for on this machine.

    An explicit one is taken as it is, without looking at the machine. Otherwise CuPy says which GPU is
    current; with no CuPy or no usable GPU it is the CPU.
    """
    if explicit is not None:
        return Target.parse(explicit)
    try:
        from cupy.cuda import runtime
    except ImportError:
        return Target.host()
    try:
        if runtime.getDeviceCount() == 0:
            return Target.host()
        properties = runtime.getDeviceProperties(runtime.getDevice())
    except runtime.CUDARuntimeError:
        return Target.host()
    if runtime.is_hip:
        return Target("hip", properties["gcnArchName"].decode("ascii"))
    return Target("cuda", f"{properties['major']}{properties['minor']}")
