"""`Schedule`: everything about a kernel that can be tuned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .dtypes import DType
from .errors import BadSchedule

Backend = Literal["triton", "cuda"]

COLUMN_STEPS = (4, 16, 64, 256)
"""Tile widths for rows shorter than the widest tile: few, so that a thousand shapes are a handful of compilations."""

SQUARE = 64
"""Rows and columns of a tile where operands are transposed against each other."""


@dataclass(frozen=True)
class Schedule:
    """The tunables of a pointwise kernel.

    tile: elements of one Triton program. columns: most columns of a 2-D tile. num_warps, num_stages: Triton's.
    vector: elements a CUDA thread takes per access. threads: of one CUDA block. rows: rows, or vectors of a
    flat run, that one CUDA thread takes.
    """

    tile: int = 4096
    columns: int = 1024
    num_warps: int = 8
    num_stages: int = 2
    vector: int = 8
    threads: int = 256
    rows: int = 4

    def __post_init__(self) -> None:
        powers = {"tile": 2**20, "columns": self.tile, "num_warps": 32, "vector": 16, "threads": 1024}
        for name, most in powers.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and 0 < value <= most and value & (value - 1) == 0):
                raise BadSchedule(f"schedule: {name} must be a power of two of at most {most}, got {value!r}")
        for name, most in {"num_stages": 8, "rows": 64}.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and 0 < value <= most):
                raise BadSchedule(f"schedule: {name} must be an integer from 1 to {most}, got {value!r}")
        if self.threads % 32:
            raise BadSchedule(f"schedule: threads must be a multiple of 32, got {self.threads}")

    def text(self, backend: Backend, flat: bool) -> str:
        """The values that count for one backend, for a file's banner."""
        if backend == "triton":
            shape = f"BLOCK={self.tile}" if flat else f"tile={self.tile} columns<={self.columns}"
            return f"{shape} num_warps={self.num_warps} num_stages={self.num_stages}"
        return f"VEC={self.vector} threads={self.threads} rows={self.rows}"

    def widths(self) -> tuple[int, ...]:
        """The columns a 2-D tile may have, ascending."""
        return (*(w for w in COLUMN_STEPS if w < self.columns), self.columns)


def choose(dtypes: Iterable[DType], flat: bool, transposed: bool) -> Schedule:
    """The heuristic schedule for tensors of these dtypes; `transposed` asks for square tiles.

    A thread's access is 16 bytes of the widest dtype, and at least 8 of the narrowest, so that a warp touches
    256 contiguous bytes of every tensor. Blocks are small: four or more a multiprocessor hide each other's latency.
    """
    sizes = [d.itemsize for d in dtypes] or [4]
    vector = min(16, max(16 // max(sizes), 8 // min(sizes)))
    if transposed:
        return Schedule(tile=SQUARE * SQUARE, columns=SQUARE, num_warps=8, vector=vector, threads=256, rows=1)
    if flat:
        return Schedule(vector=vector, threads=256, rows=1)
    return Schedule(tile=2048, columns=1024, num_warps=4, vector=vector, threads=128, rows=2)
