"""CUDA C on the CPU: launches, barriers, shared memory, faults, arguments."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from launch.cpu import compiler
from launch.cpu.compiler import HostCompiler, host_compiler
from launch.cpu.cuda import (
    BlockFault,
    CpuModule,
    DivergentBarrier,
    KernelFault,
    SharedMemoryOverrun,
    build_cpu,
    compile_cpu,
    load_cpu,
)
from launch.cpu.memory import guarded, outside_written, poisoned
from launch.errors import CompileError, MissingLibrary

PLAIN = r"""
template <typename Index, int VEC>
__global__ void __launch_bounds__(256)
add(const float* __restrict__ a, const float* __restrict__ b, float* c, Index n) {
    const Index first = (Index(blockIdx.x) * blockDim.x + threadIdx.x) * VEC;
    for (int i = 0; i < VEC; ++i)
        if (first + i < n) c[first + i] = a[first + i] + b[first + i];
}

__global__ void copy_unmasked(const float* x, float* y) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}

__global__ void divide(const int* a, const int* b, int* c) {
    c[threadIdx.x] = a[threadIdx.x] / b[threadIdx.x];
}

__global__ void scale(const float* x, float* y, float by) { y[threadIdx.x] = x[threadIdx.x] * by; }

template <typename T>
__global__ void echo(T value, T* out) { *out = value; }

__global__ void
echo_all(bool a, signed char b, double c, unsigned short d, float e, long long f, void* g, char* out) {
    memcpy(out, &a, 1), memcpy(out + 1, &b, 1), memcpy(out + 2, &c, 8), memcpy(out + 10, &d, 2);
    memcpy(out + 12, &e, 4), memcpy(out + 16, &f, 8), memcpy(out + 24, &g, 8);
}

__global__ void coordinates(unsigned* out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    out[i] = i;
}

// A value comes from the thread before, and no barrier says that it is there by then.
__global__ void shift_unsynchronised(const float* x, float* y) {
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = row[threadIdx.x == 0 ? 0 : threadIdx.x - 1];
}

__global__ void uninitialised(float* y) {
    __shared__ float row[32];
    y[blockIdx.x] = row[blockIdx.x];
    row[blockIdx.x] = row[blockIdx.x + 1] = 1;
}

__global__ void spin(volatile int* flag) { while (*flag == 0) {} }

__global__ void intrinsics(const float* x, int* i, unsigned long long* u, float* f) {
    for (int k = 0; k < 6; ++k) i[k] = __float2int_rn(x[k]);
    for (int k = 0; k < 6; ++k) i[6 + k] = int(__float2uint_rz(x[k]));
    i[12] = __clz(1), i[13] = __ffs(8), i[14] = __popc(255u), i[15] = min(-1, 1), i[16] = __clz(0);
    i[17] = __dp4a(0x01ff7f80, 0x02020202, 10), i[18] = __mulhi(-2, 3), i[19] = max(3, -4);
    u[0] = __umul64hi(~0ull, ~0ull), u[1] = __brev(1u), u[2] = __byte_perm(0x33221100u, 0x77665544u, 0x7604u);
    u[3] = min(-1, 7u), u[4] = __float_as_uint(1.0f), u[5] = __funnelshift_l(0x80000001u, 2u, 4);
    f[0] = fmaxf(x[5], 1.0f), f[1] = rsqrtf(4.0f), f[2] = __fdividef(1.0f, 4.0f), f[3] = exp2f(-149.0f);
    f[4] = exp(0.0f), f[5] = __saturatef(x[5]), f[6] = fmaf(3.0f, 4.0f, 5.0f), f[7] = isnan(x[5]) ? 1 : 0;
}

__global__ void atomics(int* i, unsigned* u, float* f) {
    atomicAdd(i, 1), atomicMax(i + 1, int(threadIdx.x)), atomicMin(i + 2, -int(threadIdx.x));
    atomicAdd(u, threadIdx.x), atomicInc(u + 1, 9u), atomicCAS(u + 2, threadIdx.x, threadIdx.x + 1);
    atomicAdd(f, 0.5f), atomicExch(f + 1, 2.0f);
}
"""
ECHOED = {
    "bool": np.bool_, "signed char": np.int8, "short": np.int16, "int": np.int32, "long long": np.int64,
    "unsigned char": np.uint8, "unsigned short": np.uint16, "unsigned int": np.uint32,
    "unsigned long long": np.uint64,
    "float": np.float32, "double": np.float64,
}  # fmt: skip
PLAIN_NAMES = [
    *("add<int, 4>", "add<long long, 1>", "copy_unmasked", "divide", "scale", "echo_all", "coordinates"),
    *("shift_unsynchronised", "uninitialised", "spin", "intrinsics", "atomics"),
    *(f"echo<{name}>" for name in ECHOED),
]

FIBERS = r"""
template <int TILE>
__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    __shared__ float tile[TILE][TILE + 1];
    int n = blockIdx.x * TILE + threadIdx.x, m = blockIdx.y * TILE + threadIdx.y;
    if (m < M && n < N) tile[threadIdx.y][threadIdx.x] = x[m * N + n];
    __syncthreads();
    n = blockIdx.x * TILE + threadIdx.y, m = blockIdx.y * TILE + threadIdx.x;
    if (m < M && n < N) y[n * M + m] = tile[threadIdx.x][threadIdx.y];
}

__global__ void row_sums(const float* __restrict__ x, float* __restrict__ y, int N) {
    __shared__ float partial[32];
    float sum = 0;
    for (int n = threadIdx.x; n < N; n += blockDim.x) sum += x[blockIdx.x * N + n];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
        if (threadIdx.x == 0) y[blockIdx.x] = sum;
    }
}

__global__ void shuffles(const int* x, int* y, long long* wide, int width) {
    const int t = threadIdx.x, T = blockDim.x;
    y[t] = __shfl_sync(~0u, x[t], t * 7, width);
    y[T + t] = __shfl_up_sync(~0u, x[t], 3, width);
    y[2 * T + t] = __shfl_down_sync(~0u, x[t], 3, width);
    y[3 * T + t] = __shfl_xor_sync(~0u, x[t], 5, width);
    y[4 * T + t] = __ballot_sync(~0u, x[t] & 1);
    y[5 * T + t] = __any_sync(~0u, t == 7) * 2 + __all_sync(~0u, t < T);
    y[6 * T + t] = __syncthreads_count(x[t] & 1);
    y[7 * T + t] = __syncthreads_or(t == 7) * 2 + __syncthreads_and(t != 7);
    wide[t] = __shfl_sync(~0u, (long long)x[t] << 40, 1);
}

// Halves of each warp go their own way, then meet.
__global__ void half_warps(int* y) {
    const int t = threadIdx.x;
    int sum = t;
    if (t % 32 < 16) {
        for (int by = 8; by > 0; by /= 2) sum += __shfl_xor_sync(0x0000ffffu, sum, by);
    } else {
        sum += __shfl_xor_sync(0xffff0000u, sum, 1);
    }
    __syncwarp();
    y[t] = __shfl_sync(~0u, sum, 0);
}

__global__ void early_exit(int* y) {
    const int t = threadIdx.x;
    if (t >= 20) return;
    y[t] = __shfl_sync(~0u, t, t + 10);
}

__global__ void reverse_row(const float* x, float* y) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    float* row = reinterpret_cast<float*>(shared_memory);
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

__global__ void barrier_in_branch(float* y) {
    if (threadIdx.x < 16) __syncthreads();
    y[threadIdx.x] = 1;
}

__global__ void two_barriers() {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void barrier_and_shuffle(int* y) {
    if (threadIdx.x % 32 == 5)
        __syncthreads();
    else
        y[threadIdx.x] = __shfl_sync(~0u, 1, 0);
}

__global__ void wrong_mask(int* y) { y[threadIdx.x] = __shfl_sync(0xfffeu, 1, 0); }

__global__ void fault_behind_barrier(const float* x, float* y) {
    const unsigned i = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();
    y[i] = x[i];
}

__device__ __noinline__ float deep(volatile float* above, int n) {
    volatile float here[64];
    here[n & 63] = above[0] + 1;
    return n == 0 ? here[0] : deep(here, n - 1) + here[n & 63];
}

__global__ void deep_stack(float* y, int n) {
    volatile float start[1] = {0};
    __syncthreads();
    y[threadIdx.x] = deep(start, n);
}
"""
FIBER_NAMES = [
    *("transpose<8>", "row_sums", "shuffles", "half_warps", "early_exit", "reverse_row", "barrier_in_branch"),
    *("two_barriers", "barrier_and_shuffle", "wrong_mask", "fault_behind_barrier", "deep_stack"),
]


@pytest.fixture(scope="module")
def plain_binary() -> bytes:
    return build_cpu(PLAIN, PLAIN_NAMES)


@pytest.fixture(scope="module")
def plain(plain_binary: bytes) -> CpuModule:
    return load_cpu(plain_binary, PLAIN_NAMES)


@pytest.fixture(scope="module")
def fibers() -> CpuModule:
    return compile_cpu(FIBERS, FIBER_NAMES)


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def arange(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


# --- Launching.


@pytest.mark.parametrize(
    ("instance", "index", "vector"), [("add<int, 4>", np.int32, 4), ("add<long long, 1>", np.int64, 1)]
)
@pytest.mark.parametrize("n", [1, 255, 1001])
@pytest.mark.parametrize("reverse", [False, True])
def test_vector_add(plain: CpuModule, instance: str, index: type, vector: int, n: int, reverse: bool) -> None:
    a, b, c = guarded(arange(n)), guarded(arange(n) * 2), poisoned(n, np.float32)
    add = plain.function(instance, reverse=reverse)
    add((-(-n // (64 * vector)), 1, 1), (64, 1, 1), (address(a), address(b), address(c), index(n)), None)
    np.testing.assert_array_equal(c, a + b)
    assert not outside_written(c)


def test_every_thread_runs_once(plain: CpuModule) -> None:
    out = poisoned(5 * 3 * 2 * 4 * 3 * 2, np.uint32)
    plain.function("coordinates")((5, 3, 2), (4, 3, 2), (address(out),))
    np.testing.assert_array_equal(out, np.arange(out.size))


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (13, 30)])
@pytest.mark.parametrize("reverse", [False, True])
def test_transposition_through_shared_memory(fibers: CpuModule, shape: tuple[int, int], reverse: bool) -> None:
    M, N = shape
    x, y = guarded(arange(M * N).reshape(M, N)), poisoned((N, M), np.float32)
    transpose = fibers.function("transpose<8>", reverse=reverse)
    transpose((-(-N // 8), -(-M // 8), 1), (8, 8, 1), (address(x), address(y), np.int32(M), np.int32(N)))
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_reduction_with_shuffles(fibers: CpuModule, threads: int) -> None:
    x, y = guarded(arange(3 * 700).reshape(3, 700)), poisoned(3, np.float32)
    fibers.function("row_sums")((3, 1, 1), (threads, 1, 1), (address(x), address(y), np.int32(700)))
    np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.parametrize("width", [32, 8])
def test_shuffles_and_votes(fibers: CpuModule, width: int) -> None:
    T = 64
    x = np.random.default_rng(0).integers(-1000, 1000, T, dtype=np.int32)
    y, wide = poisoned((8, T), np.int32), poisoned(T, np.int64)
    fibers.function("shuffles")((1, 1, 1), (T, 1, 1), (address(x), address(y), address(wide), np.int32(width)))
    t = np.arange(T)
    first, last = t // width * width, t // width * width + width - 1
    odd = (x & 1).reshape(2, 32).astype(np.uint64)
    np.testing.assert_array_equal(y[0], x[first + t * 7 % width])
    np.testing.assert_array_equal(y[1], x[np.where(t - 3 < first, t, t - 3)])
    np.testing.assert_array_equal(y[2], x[np.where(t + 3 > last, t, t + 3)])
    np.testing.assert_array_equal(y[3], x[np.where((t ^ 5) > last, t, t ^ 5)])
    np.testing.assert_array_equal(
        y[4].view(np.uint32), np.repeat((odd << np.arange(32, dtype=np.uint64)).sum(1, dtype=np.uint64), 32)
    )
    np.testing.assert_array_equal(y[5], np.where(t < 32, 3, 1))
    np.testing.assert_array_equal(y[6], np.full(T, (x & 1).sum()))
    np.testing.assert_array_equal(y[7], np.full(T, 2))
    np.testing.assert_array_equal(wide, x[t // 32 * 32 + 1].astype(np.int64) << 40)


@pytest.mark.parametrize("reverse", [False, True])
def test_parts_of_warps(fibers: CpuModule, reverse: bool) -> None:
    y = poisoned(64, np.int32)
    fibers.function("half_warps", reverse=reverse)((1, 1, 1), (64, 1, 1), (address(y),))
    np.testing.assert_array_equal(y, np.repeat([sum(range(16)), sum(range(32, 48))], 32))


@pytest.mark.parametrize("reverse", [False, True])
def test_lanes_that_left_are_not_waited_for(fibers: CpuModule, reverse: bool) -> None:
    y = poisoned(20, np.int32)
    fibers.function("early_exit", reverse=reverse)((1, 1, 1), (48, 1, 1), (address(y),))
    np.testing.assert_array_equal(y, [*range(10, 20), *[-1] * 10])


def test_concurrent_launches(fibers: CpuModule, plain: CpuModule) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            x = guarded(np.random.default_rng(seed).integers(0, 99, (16, 40)).astype(np.float32))
            y, quotients = poisoned((40, 16), np.float32), poisoned(1, np.int32)
            one, zero = np.ones(1, np.int32), np.zeros(1, np.int32)
            for _ in range(20):
                args = (address(x), address(y), np.int32(16), np.int32(40))
                fibers.function("transpose<8>")((5, 2, 1), (8, 8, 1), args)
                np.testing.assert_array_equal(y, x.T)
                with pytest.raises(KernelFault, match="division"):
                    plain.function("divide")((1, 1, 1), (1, 1, 1), (address(one), address(zero), address(quotients)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_modules_with_the_same_names_stay_apart() -> None:
    text = "template <int N> __global__ void f(int* y) {{ __shared__ int s[N]; s[N - 1] = {}; *y = s[N - 1]; }}"
    modules = [compile_cpu(text.format(value), ["f<40>"]) for value in (1, 2)]
    for value, module in [*enumerate(modules, 1), *enumerate(modules, 1)]:
        y = poisoned(1, np.int32)
        module.function("f<40>")((1, 1, 1), (1, 1, 1), (address(y),))
        assert y[0] == value


# --- Shared memory and order.


def test_reverse_order_shows_a_missing_barrier(plain: CpuModule) -> None:
    x, y = arange(64), poisoned(64, np.float32)
    args = (address(x), address(y))
    want = x[np.maximum(np.arange(64) - 1, 0)]
    plain.function("shift_unsynchronised")((1, 1, 1), (64, 1, 1), args)
    np.testing.assert_array_equal(y, want)
    plain.function("shift_unsynchronised", reverse=True)((1, 1, 1), (64, 1, 1), args)
    assert np.isnan(y[1:]).all()


def test_shared_memory_is_poisoned_before_each_block(plain: CpuModule) -> None:
    y = np.zeros(20, np.float32)
    plain.function("uninitialised")((20, 1, 1), (1, 1, 1), (address(y),))
    assert np.isnan(y).all()


def test_dynamic_shared_memory(fibers: CpuModule) -> None:
    x, y = arange(256), poisoned(256, np.float32)
    launch = ((1, 1, 1), (256, 1, 1), (address(x), address(y)))
    fibers.function("reverse_row", shared_bytes=1024)(*launch)
    np.testing.assert_array_equal(y, x[::-1])
    with pytest.raises(SharedMemoryOverrun, match=r"block \(0, 0, 0\): wrote byte 1000 .* of 1000 bytes"):
        fibers.function("reverse_row", shared_bytes=1000)(*launch)
    with pytest.raises(ValueError, match="expected 0 to 232448"):
        fibers.function("reverse_row", shared_bytes=300_000)


def test_dynamic_shared_memory_needs_its_one_name() -> None:
    text = "__global__ void f() { extern __shared__ float mine[]; mine[0] = 1; }"
    with pytest.raises(CompileError, match="called 'mine': expected `shared_memory`"):
        build_cpu(text, ["f"])


# --- Divergence.


def line_of(text: str, needle: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if needle in line)


@pytest.mark.parametrize("reverse", [False, True])
def test_barrier_that_some_threads_miss(fibers: CpuModule, reverse: bool) -> None:
    y = np.zeros(32, np.float32)
    with pytest.raises(DivergentBarrier) as caught:
        fibers.function("barrier_in_branch", reverse=reverse)((2, 1, 1), (32, 1, 1), (address(y),))
    line = line_of(FIBERS, "if (threadIdx.x < 16) __syncthreads")
    assert caught.value.block == ((1, 0, 0) if reverse else (0, 0, 0))
    assert caught.value.thread is not None
    assert caught.value.thread[0] >= 16
    assert f"has left the kernel while thread ({15 if reverse else 0}, 0, 0)" in str(caught.value)
    assert f"__syncthreads (line {line})" in str(caught.value)


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ("two_barriers", "waits at __syncthreads .* waits at __syncthreads"),
        (
            "barrier_and_shuffle",
            r"thread \(5, 0, 0\): waits at __syncthreads .*while thread .* waits at a warp shuffle",
        ),
        ("wrong_mask", r"thread \(0, 0, 0\): is at a warp shuffle .*leaves out its own lane"),
    ],
)
def test_divergence(fibers: CpuModule, instance: str, message: str) -> None:
    y = np.zeros(64, np.int32)
    args = () if instance == "two_barriers" else (address(y),)
    with pytest.raises(DivergentBarrier, match=message):
        fibers.function(instance)((1, 1, 1), (64, 1, 1), args)


# --- Faults.


def test_read_past_the_end(plain: CpuModule) -> None:
    x, y = guarded(arange(100)), poisoned(128, np.float32)
    with pytest.raises(KernelFault) as caught:
        plain.function("copy_unmasked")((4, 1, 1), (32, 1, 1), (address(x), address(y)))
    fault = caught.value
    assert isinstance(fault, BlockFault)
    assert (fault.kernel, fault.block, fault.thread) == ("copy_unmasked", (3, 0, 0), (4, 0, 0))
    assert fault.address == address(x) + 400
    assert "argument 0 + 400 bytes" in str(fault)
    np.testing.assert_array_equal(y[:100], x)


def test_fault_in_a_fiber_and_launch_after_it(fibers: CpuModule) -> None:
    x, y = guarded(arange(64)), poisoned(64, np.float32)
    kernel = fibers.function("fault_behind_barrier")
    with pytest.raises(BlockFault, match=r"block \(0, 0, 0\), thread \(0, 2, 0\): .*argument 0 \+ 256 bytes"):
        kernel((1, 1, 1), (32, 3, 1), (address(x), address(y)))
    kernel((1, 1, 1), (64, 1, 1), (address(x), address(y)))
    np.testing.assert_array_equal(y, x)


def test_stack_overflow(fibers: CpuModule) -> None:
    y = poisoned(4, np.float32)
    fibers.function("deep_stack")((1, 1, 1), (4, 1, 1), (address(y), np.int32(50)))
    with pytest.raises(BlockFault, match="stack overflow"):
        fibers.function("deep_stack")((1, 1, 1), (4, 1, 1), (address(y), np.int32(10_000_000)))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="only x86 traps integer division by zero")
@pytest.mark.parametrize(("a", "b"), [(1, 0), (-(2**31), -1)])
def test_integer_division(plain: CpuModule, a: int, b: int) -> None:
    x, d, y = np.full(3, 7, np.int32), np.full(3, 2, np.int32), poisoned(3, np.int32)
    x[2], d[2] = a, b
    with pytest.raises(BlockFault, match=r"divide, block \(0, 0, 0\), thread \(2, 0, 0\): integer division by zero"):
        plain.function("divide")((1, 1, 1), (3, 1, 1), (address(x), address(d), address(y)))


@pytest.mark.parametrize(
    "body",
    [
        "int t[4] = {}; for (int i = 0; i <= n; ++i) t[i] = i; *y = t[n & 3];",
        "*(int*)((char*)y + n % 4 + 1) = 1;",
    ],
)
def test_sanitizer(body: str) -> None:
    module = compile_cpu(f"__global__ void f(int* y, int n) {{ {body} }}", ["f"], sanitize=True)
    y = poisoned(64, np.int32)
    with pytest.raises(BlockFault, match="trapped"):
        module.function("f")((1, 1, 1), (1, 1, 1), (address(y), np.int32(4)))


SUBPROCESS = """
import ctypes, faulthandler, sys, threading, time
from pathlib import Path
import numpy as np
from launch.cpu.cuda import KernelFault, load_cpu

faulthandler.enable()
module = load_cpu(Path(sys.argv[1]).read_bytes(), ["divide", "spin"])
x = np.zeros(1, np.int32)
p = int(x.ctypes.data)
if sys.argv[2] == "after":
    try:
        module.function("divide")((1, 1, 1), (1, 1, 1), (p, p, p))
    except KernelFault:
        print("caught", flush=True)
else:
    spin = module.function("spin")
    threading.Thread(target=spin, args=((1, 1, 1), (1, 1, 1), (p,)), daemon=True).start()
    time.sleep(0.1)
    print("caught", flush=True)
ctypes.string_at(0)
"""


@pytest.mark.parametrize("when", ["after", "during"])
def test_other_faults_are_not_touched(plain_binary: bytes, tmp_path: Path, when: str) -> None:
    """A fault of Python itself reaches the handler from before, after a launch and beside one."""
    (tmp_path / "module").write_bytes(plain_binary)
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", SUBPROCESS, str(tmp_path / "module"), when]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode < 0
    assert done.stdout == ("caught\n" if platform.machine() in ("x86_64", "AMD64") or when == "during" else "")
    assert "Fatal Python error: Segmentation fault" in done.stderr


# --- Arithmetic.

FLUSH_BITS = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""Where fenv_t holds the control word, and the bits that flush subnormals."""


@pytest.mark.skipif(
    platform.machine() not in FLUSH_BITS or sys.platform != "linux", reason="the layout of fenv_t is unknown"
)
def test_subnormals_are_kept_and_the_callers_mode_restored(plain: CpuModule) -> None:
    libm = ctypes.CDLL("libm.so.6")
    offset, bits = FLUSH_BITS[platform.machine()]
    saved, flushing, after = (ctypes.create_string_buffer(64) for _ in range(3))
    x, y = np.array([1e-40, 2.0**-126], np.float32), poisoned(2, np.float32)
    want = x * np.float32(0.5)
    assert want.all()
    args = (address(x), address(y), np.float32(0.5))
    libm.fegetenv(saved)
    ctypes.memmove(flushing, saved, 64)
    word = ctypes.c_uint.from_buffer(flushing, offset)
    word.value |= bits
    libm.fesetenv(flushing)
    try:
        plain.function("scale")((1, 1, 1), (2, 1, 1), args)
        libm.fegetenv(after)
    finally:
        libm.fesetenv(saved)
    assert ctypes.c_uint.from_buffer(after, offset).value & bits == bits
    np.testing.assert_array_equal(y, want)
    plain.function("scale")((1, 1, 1), (2, 1, 1), args)
    libm.fegetenv(after)
    assert ctypes.c_uint.from_buffer(after, offset).value & bits == 0
    np.testing.assert_array_equal(x * np.float32(0.5), want)


def test_intrinsics(plain: CpuModule) -> None:
    x = np.array([2.5, -3.5, 3e9, -3e9, -np.inf, np.nan], np.float32)
    i, u, f = poisoned(20, np.int32), poisoned(6, np.uint64), poisoned(8, np.float32)
    plain.function("intrinsics")((1, 1, 1), (1, 1, 1), tuple(address(a) for a in (x, i, u, f)))
    assert i[:6].tolist() == [2, -4, 2**31 - 1, -(2**31), -(2**31), 0]
    assert i[6:12].view(np.uint32).tolist() == [2, 0, 3_000_000_000, 0, 0, 0]
    assert i[12:].tolist() == [31, 4, 8, -1, 32, 10 + 2 * (1 - 1 + 127 - 128), -1, 3]
    assert u.tolist() == [2**64 - 2, 2**31, 0x77660044, 7, 0x3F800000, 0x28]
    assert f.tolist() == [1.0, 0.5, 0.25, 2.0**-149, 1.0, 0.0, 17.0, 1.0]


def test_atomics(plain: CpuModule) -> None:
    i, u, f = np.zeros(3, np.int32), np.zeros(3, np.uint32), np.zeros(2, np.float32)
    plain.function("atomics")((2, 1, 1), (64, 1, 1), (address(i), address(u), address(f)))
    assert i.tolist() == [128, 63, -63]
    assert u.tolist() == [2 * sum(range(64)), 128 % 10, 64]
    assert f.tolist() == [64.0, 2.0]


# --- Arguments.


def extremes(dtype: Any) -> list[np.generic]:
    if dtype is np.bool_:
        return [np.bool_(False), np.bool_(True)]
    if issubclass(dtype, np.integer):
        limits = np.iinfo(dtype)
        return [dtype(limits.min), dtype(limits.max), dtype(limits.max // 2 + 1), dtype(1)]
    edges = np.finfo(dtype)
    return [dtype(value) for value in (-0.0, 1 / 3, edges.max, edges.smallest_subnormal, np.nan)]


@pytest.mark.parametrize("name", ECHOED)
def test_scalars_arrive_unchanged(plain: CpuModule, name: str) -> None:
    for value in extremes(ECHOED[name]):
        out = poisoned((), ECHOED[name])
        plain.function(f"echo<{name}>")((1, 1, 1), (1, 1, 1), (value, address(out)))
        assert out.tobytes() == value.tobytes(), value


def test_scalars_of_mixed_widths(plain: CpuModule) -> None:
    out = poisoned(32, np.uint8)
    narrow = (np.bool_(True), np.int8(-3), np.float64(0.1), np.uint16(65535))
    values = (*narrow, np.float32(-0.0), np.int64(-(2**63)), 2**64 - 1)
    plain.function("echo_all")((1, 1, 1), (1, 1, 1), (*values, address(out)))
    parts = [v.to_bytes(8, "little") if isinstance(v, int) else v.tobytes() for v in values]
    assert out.tobytes() == b"".join(parts)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((0, 0), "takes 3 arguments, got 2"),
        ((0, 0, np.float64(1)), "argument 2 is .*float64.*expected a NumPy float of 4 bytes"),
        ((0, 0, np.int32(1)), "argument 2 .*expected a NumPy float of 4 bytes"),
        ((0, 0, 1.0), "argument 2 is 1.0 .float.: expected a NumPy float of 4 bytes"),
        ((np.int64(0), 0, np.float32(1)), "argument 0 .*expected a pointer"),
        (
            (True, 0, np.float32(1)),
            "argument 0 is True .bool.: expected a pointer .an int address. of 8 bytes",
        ),
    ],
)
def test_arguments_that_do_not_fit(plain: CpuModule, args: tuple[int | np.generic, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plain.function("scale")((1, 1, 1), (1, 1, 1), args)


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((0, 1, 1), (1, 1, 1), "the grid is"),
        ((1, 65536, 1), (1, 1, 1), "the grid is"),
        ((1, 1, 1), (1, 1, 65), "the block is"),
        ((1, 1, 1), (64, 32, 1), "2048 threads"),
    ],
)
def test_launches_that_no_gpu_takes(
    plain: CpuModule, grid: tuple[int, int, int], block: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plain.function("coordinates")(grid, block, (0,))


# --- Compiling and loading.


def test_compile_error_shows_the_source() -> None:
    text = "__global__ void f(int* y) {\n    int a = 1;\n    *y = a + missing;\n}\n"
    with pytest.raises(CompileError) as caught:
        build_cpu(text, ["f"])
    assert caught.value.line == 3
    assert "missing" in caught.value.reason
    assert ">    3 |     *y = a + missing;" in caught.value.reason
    assert "     2 |     int a = 1;" in caught.value.reason


def test_text_must_bring_what_it_uses() -> None:
    """As with NVRTC, nothing of the C++ library is there."""
    with pytest.raises(CompileError, match="uint32_t"):
        build_cpu("__global__ void f(uint32_t* y) {}", ["f"])


@pytest.mark.parametrize("instance", ["f<", "f; int g", "f(1)", "", "f<1> || 1"])
def test_instances_are_names(instance: str) -> None:
    with pytest.raises(ValueError, match="no kernel instance"):
        build_cpu("__global__ void f() {}", [instance])


def test_unknown_instance(plain: CpuModule, plain_binary: bytes) -> None:
    with pytest.raises(KeyError, match="add<int, 2>"):
        plain.function("add<int, 2>")
    with pytest.raises(KeyError, match="add<int, 2>"):
        load_cpu(plain_binary, ["add<int, 2>"])


def test_damaged_module() -> None:
    with pytest.raises(OSError, match=r"short|invalid"):
        load_cpu(b"no shared object", [])


def test_builds_are_reproducible_and_leave_nothing(tmp_path: Path) -> None:
    text = "__global__ void f(int* y) { *y = 1; }"
    binaries = {build_cpu(text, ["f"], folder=tmp_path) for _ in range(2)}
    assert len(binaries) == 1
    load_cpu(binaries.pop(), ["f"], folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_host_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    found = host_compiler()
    assert isinstance(found, HostCompiler)
    assert found.version in found.identity
    if found.kind != "zig":
        monkeypatch.setenv("CXX", f"{found.path} -pipe")
        assert host_compiler().command == (found.path, "-pipe")
        assert host_compiler().identity != found.identity
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingLibrary, match=r"no-such-compiler.*CXX.*running CUDA C on the CPU needs it"):
        host_compiler()


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    compiler._host_compiler.cache_clear()
    try:
        with pytest.raises(MissingLibrary, match=r"a C\+\+ compiler.*is not installed.*pip install ziglang"):
            host_compiler()
    finally:
        compiler._host_compiler.cache_clear()
