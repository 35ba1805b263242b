"""What emission returns: `KernelSource`, with the parameters, instances and grid that both halves share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .dtypes import DType
from .schedule import Backend as Backend
from .schedule import Schedule

ParamKind = Literal["pointer", "size", "stride", "scalar"]
IndexType = Literal["i32", "i64"]


@dataclass(frozen=True)
class ParamSpec:
    """One kernel parameter, in launch order. The list drives signature, host wrapper, packing and checks.

    `dtype` is the element type of a pointer and the value type of a scalar; sizes and strides (in elements)
    have none: they are as wide as the instance's index type. `divisible` says that the aligned instances
    rely on it being a multiple of 16 (bytes for a pointer, elements otherwise).
    """

    name: str
    kind: ParamKind
    dtype: DType | None = None
    divisible: bool = False


@dataclass(frozen=True)
class Instance:
    """One compilation of a kernel text, chosen by the host code at each launch.

    index: width of sizes, strides and offsets. vector: elements per access; more than 1 means that every
    pointer is 16-byte aligned and every `divisible` size and stride a multiple. tile: the Triton block
    sizes, outermost first; CUDA C takes its block from the launch and has none.
    """

    index: IndexType
    vector: int
    tile: tuple[int, ...] = ()


@dataclass(frozen=True)
class GridExpr:
    """The launch grid: the product of ceil(size / tile) over `factors`, the programs or blocks of one launch."""

    factors: tuple[tuple[str, str], ...]

    def python(self) -> str:
        """The expression in Python, over the host code's names."""
        return " * ".join(f"-(-{size} // {tile})" for size, tile in self.factors) or "1"

    def evaluate(self, names: Mapping[str, int]) -> int:
        """The number of blocks for given sizes and tiles."""
        blocks = 1
        for size, tile in self.factors:
            blocks *= -(-names[size] // names[tile])
        return blocks


@dataclass(frozen=True)
class KernelSource:
    """Both halves of one kernel, as text.

    device: the kernel with the helpers it uses (Triton: a Python module; CUDA C: a translation unit).
    host: Python that checks, allocates, packs and launches; in the Triton file it stands below the device code.
    entry: the kernel function's name. tile_names: Triton's block size constants, as in `Instance.tile`.
    instances: every compilation the host code may ask for. options: compiler options beside the defaults.
    files: name and text of each file on disk.
    """

    backend: Backend
    name: str
    entry: str
    device: str
    host: str
    params: tuple[ParamSpec, ...]
    tile_names: tuple[str, ...]
    grid: GridExpr
    instances: tuple[Instance, ...]
    schedule: Schedule
    options: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]

    @property
    def num_warps(self) -> int:
        """Warps of a block; of CUDA C the schedule's threads."""
        return self.schedule.num_warps if self.backend == "triton" else self.schedule.threads // 32

    @property
    def num_stages(self) -> int:
        """Triton's software pipelining depth."""
        return self.schedule.num_stages

    def write(self, folder: str | Path) -> list[Path]:
        """Write this backend's files into `folder` (made when missing); returns their paths."""
        return write_files(folder, self.files)

    def cuda_name(self, instance: Instance) -> str:
        """The template instance of the CUDA C kernel, as NVRTC's name expression."""
        index = "int" if instance.index == "i32" else "long long"
        return f"{self.entry}<{index}, {instance.vector}>"


def write_files(folder: str | Path, files: Iterable[tuple[str, str]]) -> list[Path]:
    """Write texts by file name into `folder` (made when missing), each file whole or not at all; the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in files:
        path, whole = folder / name, folder / f".{name}.{os.getpid()}"
        try:
            whole.write_text(text, encoding="utf-8", newline="\n")
            whole.replace(path)
        finally:
            whole.unlink(missing_ok=True)
        paths.append(path)
    return paths
