"""What compiling returns (`Artifact`), what that depends on (`CacheKey`), and what a binary takes."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from emitter.source import Backend, Instance, KernelSource

from .errors import MissingLibrary
from .targets import Target

BinaryKind = Literal["cubin", "hsaco", "so"]

SCHEMA = 1
"""Counted up when equal keys come to mean another binary, launched in another way, say."""


@dataclass(frozen=True)
class CacheKey:
    """Everything that would change the binary, and nothing else: no path, time, id or order of a hash table.

    `device` is the whole text that the compiler sees. The parts of the prelude that a kernel uses are copied
    into it, and it is compiled with no include path, so a changed helper changes the text: there is no
    prelude hash beside it. The host text is not here, because it is not compiled.
    """

    schema: int
    """Version of this list and of how a binary is launched."""
    backend: Backend
    """Which compiler: the same text may be valid in both."""
    entry: str
    """The kernel function that is compiled."""
    device: str
    """The full device text."""
    params: tuple[tuple[str, str, str, bool], ...]
    """Name, kind, dtype and divisibility of each parameter: Triton's signature comes from them."""
    index: str
    """Width of sizes, strides and offsets in this instance."""
    vector: int
    """Elements per access in this instance; more than 1 turns the divisibility on."""
    tile: tuple[int, ...]
    """Block sizes of this instance, for `tile_names`."""
    tile_names: tuple[str, ...]
    """The kernel arguments that take the block sizes."""
    options: tuple[tuple[str, str], ...]
    """Every option given to the compiler, by name: warps, stages, contraction, flags."""
    target: str
    """The full architecture, with its suffix and features."""
    compiler: str
    """Name and version of the compiler, with each setting of its own that is not at its default."""

    @staticmethod
    def of(
        source: KernelSource,
        instance: Instance,
        target: Target,
        options: Iterable[tuple[str, str]],
        compiler: str,
    ) -> CacheKey:
        """The key of one instance of `source`, compiled for `target` with `options` by `compiler`."""
        return CacheKey(
            schema=SCHEMA,
            backend=source.backend,
            entry=source.entry,
            device=source.device,
            params=tuple((p.name, p.kind, p.dtype.name if p.dtype else "", p.divisible) for p in source.params),
            index=instance.index,
            vector=instance.vector,
            tile=instance.tile,
            tile_names=source.tile_names,
            options=tuple(sorted(options)),
            target=str(target),
            compiler=compiler,
        )

    @cached_property
    def digest(self) -> str:
        """sha256 of the fields as canonical JSON, in hex."""
        return hashlib.sha256(canonical(asdict(self))).hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with sorted names, no spaces and ASCII only, so that equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


@dataclass(frozen=True)
class Artifact:
    """One compiled kernel.

    entry: the symbol to look up in `binary`. num_warps: warps that a block must have, 0 where the launch
    decides (CUDA C). shared: bytes of dynamic shared memory that a launch must give. scratch: pointer
    parameters after the kernel's own, to be passed as null. texts: the compiler's levels by name, as text.
    """

    backend: Backend
    target: Target
    entry: str
    binary: bytes
    kind: BinaryKind
    num_warps: int
    shared: int
    scratch: int
    texts: Mapping[str, str]

    @cached_property
    def levels(self) -> Mapping[str, str]:
        """Level name to text: `texts`, and for a cubin `sass`, disassembled when it is first asked for."""
        return _Levels(self)


@dataclass(frozen=True)
class Resources:
    """What one thread or block of a kernel takes.

    registers: of a thread (AMD: vector registers). spills: loads and stores of thread-local memory in the
    code (AMD: spilled registers). shared: bytes of a block, static and dynamic. stack: bytes of a thread.
    """

    registers: int
    spills: int
    shared: int
    stack: int


def resources(artifact: Artifact) -> Resources:
    """The resource usage of a cubin (read by cuobjdump and nvdisasm) or an hsaco.

    Raises MissingLibrary when the CUDA tools are not there, ValueError for a shared object, which has none.
    """
    if artifact.kind == "so":
        raise ValueError(f"{artifact.entry}: resources are those of a GPU binary; a host emulation has none")
    if artifact.kind == "hsaco":
        text = artifact.texts["amdgcn"]
        vector, spilled, group, private = (
            int(re.findall(rf"^\s*\.{name}:\s+(\d+)", text, re.MULTILINE)[-1])
            for name in (
                "vgpr_count",
                "vgpr_spill_count",
                "group_segment_fixed_size",
                "private_segment_fixed_size",
            )
        )
        return Resources(vector, spilled, group, private)
    usage = _run_tool("cuobjdump", ["-res-usage"], artifact.binary)
    found = re.search(rf"Function {re.escape(artifact.entry)}:\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", usage)
    if found is None:
        raise ValueError(f"{artifact.entry}: cuobjdump does not list it; it printed:\n{usage}")
    registers, stack, shared, local = map(int, found.groups())
    stack += local
    # Without a stack there is nothing to load or store; disassembling takes most of a second.
    spills = len(re.findall(r"\b(?:STL|LDL)\b", artifact.levels["sass"])) if stack else 0
    return Resources(registers, spills, shared + artifact.shared, stack)


class _Levels(Mapping[str, str]):
    """The texts of an artifact, and the disassembly of its cubin where the tool for it is installed."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._sass: str | None = None

    def __getitem__(self, name: str) -> str:
        if name != "sass" or self._artifact.kind != "cubin":
            return self._artifact.texts[name]
        if self._sass is None:
            self._sass = _run_tool("nvdisasm", ["-c"], self._artifact.binary)
        return self._sass

    def __iter__(self) -> Iterator[str]:
        yield from self._artifact.texts
        if self._artifact.kind == "cubin" and _tool("nvdisasm") is not None:
            yield "sass"

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _tool(name: str) -> Path | None:
    """A CUDA binary tool of the Triton wheel; Triton itself is not imported."""
    spec = importlib.util.find_spec("triton")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, "backends", "nvidia", "bin", name)
        if path.is_file():
            return path
    return None


def _run_tool(name: str, options: list[str], binary: bytes) -> str:
    tool = _tool(name)
    if tool is None:
        raise MissingLibrary(name, "looking into a cubin", "it comes with Triton, pip install 'kernelpress[cuda13]'")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(binary)
        done = subprocess.run([tool, *options, path], capture_output=True, check=False, encoding="utf-8", timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
