"""What is measured side by side: kernelpress's kernels, a copy of the same bytes, and other libraries."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import emitter
import launch
from emitter.group import ScalarSpec
from emitter.schedule import Backend, Schedule
from launch.artifact import Artifact, CacheKey

from .groups import Case
from .measure import EventTimer, Timer, WallTimer, check

COPY = "copy"
PEERS = ("eager", "compile", "cupy fuse", "cupy elementwise", "xla")
SAMPLED_ROWS = 64
_SEED = 20260101
_SMALLEST_COPY = 32


@dataclass(frozen=True)
class Buffers:
    """One set: the arguments in the group's order, the arrays behind transposed views, and an output."""

    arguments: tuple[Any, ...]
    stored: tuple[Any, ...]
    out: Any


class Recorder(launch.Cache):
    """A cache in memory alone that remembers what was compiled through it."""

    def __init__(self) -> None:
        super().__init__(None)
        self.compiled: list[tuple[CacheKey, Artifact]] = []

    def put(self, key: CacheKey, artifact: Artifact) -> None:
        self.compiled.append((key, artifact))
        super().put(key, artifact)


@dataclass(frozen=True)
class Contender:
    """A function with the arguments of each buffer set. strict: held to one rounding, as kernelpress is."""

    name: str
    timer: Timer
    function: Callable[..., Any]
    arguments: list[tuple[Any, ...]]
    keywords: list[dict[str, Any]]
    strict: bool = False
    recorder: Recorder | None = None
    schedule: Schedule | None = None
    results: dict[int, Any] = field(default_factory=dict)

    def call(self, slot: int) -> Any:
        """Run on one set. Its result is kept until the set's next turn, so that results rotate as buffers do."""
        self.results[slot] = result = self.function(*self.arguments[slot], **self.keywords[slot])
        return result

    def bare(self, out: bool = True) -> Callable[[], Any]:
        """A call on the first set and nothing else, for timing the host."""
        return functools.partial(self.function, *self.arguments[0], **(self.keywords[0] if out else {}))


def import_torch() -> Any:
    """torch, with a GPU. Raises SystemExit where there is none."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        raise SystemExit("bench.pointwise needs PyTorch: it allocates, times and checks through it") from None
    if not torch.cuda.is_available():
        raise SystemExit("bench.pointwise measures on a GPU, and torch finds none here")
    return torch


def make_buffers(torch: Any, case: Case, sets: int, device: str = "cuda") -> list[Buffers]:
    """Random inputs and an output for each set: normal floats, fair coins, and permuted indices."""
    generator = torch.Generator(device=device).manual_seed(_SEED)
    return [_buffers(torch, case, generator, device) for _ in range(sets)]


def _buffers(torch: Any, case: Case, generator: Any, device: str) -> Buffers:
    options = {"generator": generator, "device": device}
    arguments: list[Any] = []
    stored: list[Any] = []
    for item in case.group.inputs:
        if isinstance(item, ScalarSpec):
            arguments.append(case.scalars[item.name])
            stored.append(case.scalars[item.name])
            continue
        flip = item.name in case.transposed
        shape = case.shape(item.shape[::-1] if flip else item.shape)
        if item.dtype.is_float:
            array = torch.randn(shape, dtype=getattr(torch, item.dtype.numpy.name), **options)
        elif item.dtype.kind == "bool":
            array = torch.rand(shape, **options) < 0.5
        else:
            array = torch.randperm(case.sizes[case.index_dim], **options)[: shape[0]].contiguous()
        stored.append(array)
        arguments.append(array.t() if flip else array)
    dtype, dims = case.output
    out = torch.empty(case.shape(dims), dtype=getattr(torch, dtype.numpy.name), device=device)
    return Buffers(tuple(arguments), tuple(stored), out)


def copier(torch: Any, case: Case, sets: int, device: str = "cuda") -> Contender:
    """A device-to-device copy that reads and writes as many bytes as the group, together."""
    half = max(_SMALLEST_COPY, case.bytes // 2)
    pairs = []
    for _ in range(sets):
        source = torch.randint(0, 256, (half,), dtype=torch.uint8, device=device)
        pairs.append((torch.empty_like(source), source))
    return Contender(COPY, EventTimer(torch), lambda to, source: to.copy_(source), pairs, [{}] * sets)


def default_schedule(case: Case, backend: Backend) -> Schedule:
    """What kernelpress chooses for this case, for its arrays' strides."""
    return emitter.emit(case.group, backend, layouts=dict.fromkeys(case.transposed, "unit:0")).schedule


def kernelpress(
    torch: Any, case: Case, buffers: list[Buffers], backend: Backend, changes: Mapping[str, int], name: str = ""
) -> Contender:
    """One backend's kernel, loaded afresh, given `out=`. `changes` are laid over the schedule it would choose."""
    recorder = Recorder()
    schedule = replace(default_schedule(case, backend), **changes)
    kernel = launch.load(case.group, backend, schedule=schedule if changes else None, cache=recorder)
    return Contender(
        name or backend,
        EventTimer(torch),
        kernel,
        [b.arguments for b in buffers],
        [{"out": b.out} for b in buffers],
        strict=True,
        recorder=recorder,
        schedule=schedule,
    )


def peer_builders(torch: Any, case: Case, buffers: list[Buffers]) -> Iterator[tuple[str, Callable[[], Contender]]]:
    """Name and builder of every other library that can compute this case."""

    def on_torch(name: str, function: Callable[..., Any]) -> Contender:
        return Contender(name, EventTimer(torch), function, [b.arguments for b in buffers], [{}] * len(buffers))

    yield "eager", lambda: on_torch("eager", functools.partial(case.torch, torch))
    yield "compile", lambda: on_torch("compile", _compiled(torch, case))
    if case.cupy is not None:
        yield "cupy fuse", lambda: _cupy_fuse(torch, case, buffers)
        yield "cupy elementwise", lambda: _cupy_elementwise(torch, case, buffers)
    yield "xla", lambda: _xla(torch, case, buffers)


def _compiled(torch: Any, case: Case) -> Callable[..., Any]:
    # A second shape of one function would be compiled for any shape: every case starts anew.
    torch._dynamo.reset()
    computation = case.torch

    def function(*arguments: Any) -> Any:
        return computation(torch, *arguments)

    compiled: Callable[..., Any] = torch.compile(function)
    return compiled


def _cupy_fuse(torch: Any, case: Case, buffers: list[Buffers]) -> Contender:
    import cupy

    assert case.cupy is not None
    computation = case.cupy.fused

    def function(x: Any, b: Any) -> Any:
        return computation(cupy, x, b)

    fused = cupy.fuse(function)
    arguments = [tuple(map(cupy.from_dlpack, b.arguments)) for b in buffers]
    return Contender("cupy fuse", EventTimer(torch), fused, arguments, [{}] * len(buffers))


def _cupy_elementwise(torch: Any, case: Case, buffers: list[Buffers]) -> Contender:
    import cupy

    assert case.cupy is not None
    kernel = cupy.ElementwiseKernel(case.cupy.inputs, "T y", case.cupy.operation, f"bench_{case.group.name}")
    arguments = [tuple(map(cupy.from_dlpack, (*b.arguments, b.out))) for b in buffers]
    return Contender("cupy elementwise", EventTimer(torch), kernel, arguments, [{}] * len(buffers))


def _xla(torch: Any, case: Case, buffers: list[Buffers]) -> Contender:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # by default it takes most of the GPU's memory
    jax: Any = importlib.import_module("jax")
    function = jax.jit(functools.partial(case.xla, jax))
    arguments = [tuple(jax.numpy.from_dlpack(a) if hasattr(a, "data_ptr") else a for a in b.stored) for b in buffers]
    results: dict[int, Any] = {}
    timer = WallTimer(torch, lambda: jax.block_until_ready(list(results.values())))
    return Contender("xla", timer, function, arguments, [{}] * len(buffers), results=results)


def verify(torch: Any, case: Case, buffers: Buffers, result: Any, *, strict: bool) -> float:
    """Check a result: no NaN anywhere, and some rows against the same computation in float64; the error's norm.

    Raises WrongResult.
    """
    if not hasattr(result, "data_ptr"):  # CuPy, JAX
        result = torch.from_dlpack(result)
    dtype, dims = case.output
    rows = torch.as_tensor(sampled_rows(case.shape(dims)[0]), device=result.device)
    taken = []
    for item, argument in zip(case.group.inputs, buffers.arguments, strict=True):
        if not isinstance(item, ScalarSpec):
            argument = argument[rows] if case.follows_rows(item) else argument
            argument = argument.double() if item.dtype.is_float else argument
        taken.append(argument)
    want = case.torch(torch, *taken).cpu().numpy()
    got = result[rows].double().cpu().numpy()
    if tuple(result.shape) == case.shape(dims) and bool(result.isnan().any()):
        got = np.full_like(got, np.nan)
    return check(got, want, dtype.name, strict=strict)


def sampled_rows(rows: int) -> list[int]:
    """The first and the last row, and others between them drawn at random."""
    if rows <= SAMPLED_ROWS:
        return list(range(rows))
    drawn = np.random.default_rng(_SEED).choice(np.arange(1, rows - 1), SAMPLED_ROWS - 2, replace=False)
    return [0, *sorted(int(r) for r in drawn), rows - 1]
