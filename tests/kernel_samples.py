"""One small kernel in both languages, as emission would describe it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import emitter.source
from emitter import dtypes
from emitter.schedule import Schedule
from emitter.source import GridExpr, Instance, KernelSource, ParamSpec
from launch.targets import Target

ROOT = Path(emitter.source.__file__).parents[1]

TRITON = """
import triton
import triton.language as tl


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def scaled(x_ptr, y_ptr, M, N, scale, INDEX: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    m = (pid // columns).to(INDEX) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = (pid % columns).to(INDEX) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (m < M) & (n < N)
    x = tl.load(x_ptr + m * N + n, mask=inside).to(tl.float32)
    y = doubled(x) * scale + x
    tl.store(y_ptr + m * N + n, y.to(tl.float16), mask=inside)
"""

CUDA = """
struct f16 {
    unsigned short bits;
};

template <typename Index, int VEC>
__global__ void __launch_bounds__(256) scaled(
    const float* __restrict__ x_ptr, float* __restrict__ y_ptr, Index M, Index N, float scale) {
    const Index i = (Index(blockIdx.x) * blockDim.x + threadIdx.x) * VEC;
    for (int j = 0; j < VEC; ++j) {
        if (i + j < M * N) y_ptr[i + j] = x_ptr[i + j] * scale + x_ptr[i + j];
    }
}
"""

PARAMS = (
    ParamSpec("x_ptr", "pointer", dtypes.F16, divisible=True),
    ParamSpec("y_ptr", "pointer", dtypes.F16, divisible=True),
    ParamSpec("M", "size"),
    ParamSpec("N", "size", divisible=True),
    ParamSpec("scale", "scalar", dtypes.F16),
)
SCALED = KernelSource(
    backend="triton",
    name="scaled",
    entry="scaled",
    device=TRITON,
    host="",
    params=PARAMS,
    grid=GridExpr((("M", "BLOCK_M"), ("N", "BLOCK_N"))),
    instances=(),
    schedule=Schedule(num_warps=4, num_stages=3),
    tile_names=("BLOCK_M", "BLOCK_N"),
    options=(),
    files=(),
)
SCALED_CUDA = replace(SCALED, backend="cuda", device=CUDA, tile_names=())
WIDE = Instance("i32", 8, (4, 256))
CUDA_WIDE = Instance("i32", 4)
SM90 = Target.parse("cuda:90")
