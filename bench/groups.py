"""The measured groups: each a description at one size, with the same computation for every library beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import emitter
from emitter.dtypes import DType
from emitter.group import Dim, FusionGroup, TensorSpec
from emitter.verify import verify

Array = Any
Module = Any


@dataclass(frozen=True)
class CupyPeer:
    """A computation of two arrays for CuPy: a function of the module and the arrays, and an elementwise loop body."""

    fused: Callable[..., Array]
    inputs: str
    operation: str


@dataclass(frozen=True)
class Case:
    """One group at one size.

    name: what `--groups` calls it. sizes: of the group's dims. torch: the computation as PyTorch code, from torch
    and the arguments in order; in float64 it is also the reference. xla: the same from jax and the arrays.
    scalars: values of scalar inputs. transposed: inputs passed as the transposed view of a contiguous array (xla is
    given that array itself). read: of tensors read in part, the dims that count the elements. index_dim: what integers
    index; they are drawn without repetition.
    """

    name: str
    group: FusionGroup
    sizes: Mapping[str, int]
    torch: Callable[..., Array]
    xla: Callable[..., Array]
    cupy: CupyPeer | None = None
    scalars: Mapping[str, float] = field(default_factory=dict)
    transposed: frozenset[str] = frozenset()
    read: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    index_dim: str = ""

    def shape(self, dims: tuple[Dim, ...]) -> tuple[int, ...]:
        """Dims as sizes."""
        return tuple(self.sizes[d] if isinstance(d, str) else d for d in dims)

    @property
    def output(self) -> tuple[DType, tuple[Dim, ...]]:
        """dtype and dims of the single output."""
        kind = verify(self.group).types[self.group.outputs[0]]
        return kind.dtype, kind.shape

    @property
    def label(self) -> str:
        """`bias_gelu bf16 16384x8192`: the dtype and size of the output."""
        dtype, dims = self.output
        return f"{self.group.name} {dtype} {'x'.join(map(str, self.shape(dims)))}"

    @property
    def bytes(self) -> int:
        """The least bytes the group can move: each element that it needs read once, each output written once."""
        dtype, written = self.output
        total = math.prod(self.shape(written)) * dtype.itemsize
        for tensor in self.group.tensors:
            dims = self.read.get(tensor.name, tensor.shape)
            total += math.prod(self.shape(dims)) * tensor.dtype.itemsize
        return total

    def follows_rows(self, tensor: TensorSpec) -> bool:
        """Whether a row of the output needs only the same row of this input."""
        return bool(tensor.shape) and tensor.shape[0] == self.output[1][0]


def _cupy_gelu(cupy: Module, x: Array, b: Array) -> Array:
    h = x + b
    return 0.5 * h * (1.0 + cupy.tanh(0.7978845608028654 * (h + 0.044715 * h * h * h)))


_CUPY_GELU = CupyPeer(
    _cupy_gelu,
    "T x, T b",
    "const float h = float(x) + float(b);"
    "y = 0.5f * h * (1.0f + tanhf(0.7978845608028654f * (h + 0.044715f * h * h * h)))",
)


def bias_gelu(name: str, dtype: str, rows: int, columns: int) -> Case:
    """gelu(x[M, N] + b[N]), tanh form."""
    return Case(
        name,
        _group("bias_gelu", {"x": f"{dtype}[M, N]", "b": f"{dtype}[N]"}, "gelu(x + b, approximate='tanh')"),
        {"M": rows, "N": columns},
        torch=lambda torch, x, b: torch.nn.functional.gelu(x + b, approximate="tanh"),
        xla=lambda jax, x, b: jax.nn.gelu(x + b, approximate=True),
        cupy=None if dtype == "bf16" else _CUPY_GELU,
    )


def swiglu(rows: int, columns: int) -> Case:
    """silu(gate[M, N]) * up[M, N]."""
    return Case(
        "swiglu",
        _group("swiglu", {"gate": "bf16[M, N]", "up": "bf16[M, N]"}, "silu(gate) * up"),
        {"M": rows, "N": columns},
        torch=lambda torch, gate, up: torch.nn.functional.silu(gate) * up,
        xla=lambda jax, gate, up: jax.nn.silu(gate) * up,
    )


def masked_scale(rows: int, columns: int) -> Case:
    """where(mask[M, N], x[M, N] * s, -inf)."""
    return Case(
        "masked_scale",
        _group("masked_scale", {"mask": "bool[M, N]", "x": "bf16[M, N]", "s": "bf16"}, "where(mask, x * s, -inf)"),
        {"M": rows, "N": columns},
        torch=lambda torch, mask, x, s: torch.where(mask, x * s, -math.inf),
        xla=lambda jax, mask, x, s: jax.numpy.where(mask, x * s, -math.inf),
        scalars={"s": 0.125},
    )


def add_transposed(size: int) -> Case:
    """x[M, N] + y[M, N] where y is the transposed view of a contiguous array."""
    return Case(
        "add_transposed",
        _group("add_transposed", {"x": "bf16[M, N]", "y": "bf16[M, N]"}, "x + y", output="z"),
        {"M": size, "N": size},
        torch=lambda torch, x, y: x + y,
        xla=lambda jax, x, y: x + y.T,
        transposed=frozenset({"y"}),
    )


def embedding(table_rows: int, columns: int, indices: int) -> Case:
    """Rows of table[V, D] at indices[T], none of them twice."""
    return Case(
        "embedding",
        _group("embedding", {"table": "bf16[V, D]", "indices": "i64[T]"}, "take(table, indices, axis=0)"),
        {"V": table_rows, "D": columns, "T": indices},
        torch=lambda torch, table, indices: torch.nn.functional.embedding(indices, table),
        xla=lambda jax, table, indices: jax.numpy.take(table, indices, axis=0),
        read={"table": ("T", "D")},
        index_dim="V",
    )


def _group(name: str, inputs: Mapping[str, str], body: str, output: str = "y") -> FusionGroup:
    lines = [f'{key} = "{kind}"' for key, kind in inputs.items()]
    text = "\n".join(
        [f'name = "{name}"', f'outputs = ["{output}"]', "[inputs]", *lines, "[body]", f'{output} = "{body}"']
    )
    return emitter.parse(text, where=name)


CASES: tuple[Case, ...] = (
    bias_gelu("bias_gelu_bf16", "bf16", 16384, 8192),
    bias_gelu("bias_gelu_f32", "f32", 16384, 4096),
    swiglu(16384, 11008),
    masked_scale(16384, 8192),
    add_transposed(16384),
    bias_gelu("bias_gelu_odd", "bf16", 16384, 8191),
    embedding(131072, 4096, 32768),
    bias_gelu("small", "f16", 256, 1024),
)
SWEPT = ("bias_gelu_bf16", "bias_gelu_f32")
"""The cases that `--sweep` and `--quick` take when none are named."""
LAUNCH_CASE = "small"
"""The case so small that a call's cost is the host's."""
