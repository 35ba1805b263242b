"""Kernels around single expressions of a dialect: run on the CPU in both languages, and compiled for real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from emitter.dialects import CUDA, TRITON, Dialect, Expr
from emitter.dtypes import DType
from emitter.prelude import needed
from emitter.schedule import Schedule
from emitter.source import Backend, GridExpr, Instance, KernelSource, ParamSpec
from launch.artifact import Artifact
from launch.compile_cuda import compile_cuda
from launch.compile_triton import compile_triton, signature
from launch.cpu.cuda import CpuModule, compile_cpu
from launch.cpu.triton import interpret
from launch.module import execute
from launch.targets import Target

BACKENDS: tuple[Backend, ...] = ("triton", "cuda")
PRELUDES = {"triton": "triton/prelude.py", "cuda": "cuda/prelude.cuh"}
Array = np.ndarray[Any, Any]
Write = Callable[[Dialect, Sequence[Expr]], Expr]

_TRITON_HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice
"""
_NAMES = "abcd"


@dataclass(frozen=True)
class Case:
    """One expression of operands a, b, ..., as elements of arrays; `write` gives its text in a dialect."""

    name: str
    operands: tuple[DType, ...]
    result: DType
    write: Write

    @property
    def kernel(self) -> str:
        """The kernel's name, which no helper has."""
        return f"case_{self.name}"

    def lines(self, dialect: Dialect) -> tuple[str, str]:
        """The value, and the value as it is stored."""
        value = self.write(dialect, [Expr(n) for n in _NAMES[: len(self.operands)]])
        return dialect.bound(value).text, dialect.narrow(Expr("y"), self.result).text


class Kernels:
    """Cases as kernels, built together once in each language."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = {case.name: case for case in cases}

    def only(self, dtypes: Iterable[DType]) -> Kernels:
        """The cases of these types alone."""
        chosen = set(dtypes)
        return Kernels(c for c in self.cases.values() if chosen.issuperset((*c.operands, c.result)))

    def run(self, backend: Backend, name: str, *operands: Array) -> Array:
        """The case's results, element by element, in the storage type of its result."""
        case = self.cases[name]
        arrays = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*operands)]
        assert tuple(x.dtype for x in arrays) == tuple(t.numpy for t in case.operands)
        y = np.zeros(arrays[0].shape, case.result.numpy)
        args: tuple[int | np.generic, ...] = (*(x.ctypes.data for x in (*arrays, y)), np.int32(y.size))
        if backend == "cuda":
            self._cpu_module.function(case.kernel)((16, 1, 1), (64, 1, 1), args)
        else:
            block = 1 << max(y.size - 1, 1).bit_length()
            types = list(signature(_params(case), _INSTANCE).values())
            kernel = interpret(self._triton_module, case.kernel, types, {"BLOCK": block})
            kernel(
                (1, 1, 1), (128, 1, 1), args, None, [(x.ctypes.data, x.ctypes.data + x.nbytes) for x in (*arrays, y)]
            )
        return y

    def compile(self, target: Target) -> Artifact:
        """One kernel with every case in it, compiled for a GPU: Triton for cuda and hip targets."""
        params, triton_lines, _ = self._together
        names = ", ".join(p.name for p in params)
        body = "\n    ".join(triton_lines)
        kernel = f"@triton.jit\ndef together({names}, BLOCK: tl.constexpr):\n    {body}\n"
        return compile_text("triton", _with_helpers("triton", [kernel]), target, params)

    def compile_cuda(self, target: Target) -> Artifact:
        """One kernel with every case in it, compiled by NVRTC."""
        params, _, cuda_lines = self._together
        body = "\n    ".join(cuda_lines)
        kernel = f"__global__ void together({', '.join(map(_cuda_parameter, params))}) {{\n    {body}\n}}\n"
        return compile_text("cuda", _with_helpers("cuda", [kernel]), target, params)

    @cached_property
    def _cpu_module(self) -> CpuModule:
        text = _with_helpers("cuda", [_cuda_kernel(case) for case in self.cases.values()])
        return compile_cpu(text, [case.kernel for case in self.cases.values()])

    @cached_property
    def _triton_module(self) -> dict[str, Any]:
        return execute(_with_helpers("triton", [_triton_kernel(case) for case in self.cases.values()]), "expressions")

    @cached_property
    def _together(self) -> tuple[tuple[ParamSpec, ...], list[str], list[str]]:
        """Parameters and statements of one kernel for all cases; each stores to a place of its own."""
        types = {t for case in self.cases.values() for t in (*case.operands, case.result)}
        params = tuple(ParamSpec(f"{t}_{n}_ptr", "pointer", t) for t in sorted(types, key=str) for n in "xy")
        triton_lines = ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"]
        cuda_lines = ["const int i = blockIdx.x * blockDim.x + threadIdx.x;"]
        for number, case in enumerate(self.cases.values()):
            loads = [(n, t, f"{t}_x_ptr") for n, t in zip(_NAMES, case.operands, strict=False)]
            for n, t, pointer in loads:
                shift = f" + {_NAMES.index(n)} * N" if n != "a" else ""
                read = Expr(f"tl.load({pointer} + i{shift}, mask=i < N)")
                triton_lines.append(f"{n} = {TRITON.widen(read, t)}")
            value, stored = case.lines(TRITON)
            triton_lines += [f"y = {value}", f"tl.store({case.result}_y_ptr + {number} * N + i, {stored}, mask=i < N)"]
            reads = [f"const {CUDA.value_type(t)} {n} = {p}[i + {_NAMES.index(n)} * N];" for n, t, p in loads]
            value, stored = case.lines(CUDA)
            cuda_lines += [
                f"{{ {' '.join(reads)} const {CUDA.value_type(case.result)} y = {value};",
                f"  {case.result}_y_ptr[{number} * N + i] = {stored}; }}",
            ]
        return (*params, ParamSpec("N", "size")), triton_lines, cuda_lines


_INSTANCE = Instance("i32", 1)


def _params(case: Case) -> tuple[ParamSpec, ...]:
    pointers = [(f"{n}_ptr", t) for n, t in zip(_NAMES, case.operands, strict=False)] + [("y_ptr", case.result)]
    return (*(ParamSpec(n, "pointer", t) for n, t in pointers), ParamSpec("N", "size"))


def _triton_kernel(case: Case) -> str:
    value, stored = case.lines(TRITON)
    names = ", ".join(p.name for p in _params(case))
    lines = [f"@triton.jit\ndef {case.kernel}({names}, BLOCK: tl.constexpr):", "i = tl.arange(0, BLOCK)"]
    for n, t in zip(_NAMES, case.operands, strict=False):
        lines.append(f"{n} = {TRITON.widen(Expr(f'tl.load({n}_ptr + i, mask=i < N)'), t)}")
    return "\n    ".join([*lines, f"y = {value}", f"tl.store(y_ptr + i, {stored}, mask=i < N)\n"])


def _cuda_kernel(case: Case) -> str:
    value, stored = case.lines(CUDA)
    reads = [f"const {CUDA.value_type(t)} {n} = {n}_ptr[i];" for n, t in zip(_NAMES, case.operands, strict=False)]
    lines = [
        f"__global__ void {case.kernel}({', '.join(map(_cuda_parameter, _params(case)))}) {{",
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) {",
        *reads,
        f"const {CUDA.value_type(case.result)} y = {value};",
        f"y_ptr[i] = {stored};",
    ]
    return "\n    ".join(lines) + "\n    }\n}\n"


def _cuda_parameter(param: ParamSpec) -> str:
    if param.dtype is None:
        return f"int {param.name}"
    const = "" if param.name.endswith("y_ptr") else "const "
    return f"{const}{CUDA.storage_type(param.dtype)}* {param.name}"


def _with_helpers(backend: Backend, kernels: Sequence[str]) -> str:
    header = [_TRITON_HEADER] if backend == "triton" else []
    return "\n\n".join([*header, *needed(PRELUDES[backend], kernels), *kernels])


def compile_text(backend: Backend, device: str, target: Target, params: tuple[ParamSpec, ...] = ()) -> Artifact:
    """The kernel `together` of a text, compiled for a GPU; its parameters count for Triton only."""
    source = replace(_EMPTY, backend=backend, device=device, params=params)
    if backend == "cuda":
        return compile_cuda(source, _INSTANCE, target)
    return compile_triton(replace(source, tile_names=("BLOCK",)), Instance("i32", 1, (128,)), target)


_EMPTY = KernelSource(
    backend="triton",
    name="together",
    entry="together",
    device="",
    host="",
    params=(),
    grid=GridExpr(()),
    instances=(),
    schedule=Schedule(num_warps=4, num_stages=1),
    tile_names=(),
    options=(),
    files=(),
)
