"""Short descriptions, calls of them amid poison on either device, and a record of what was built and launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import group_calls
import numpy as np
import pytest
from device_arrays import Arrays
from strategies import Call

import emitter
import launch
import launch.kernel
from emitter.bounds import evaluate
from emitter.group import FusionGroup
from emitter.reference import bind_sizes
from emitter.source import Backend, Instance, KernelSource
from launch import Cache


def described(inputs: str, body: dict[str, str], outputs: Sequence[str] = (), name: str = "case") -> FusionGroup:
    """A group: inputs as in "x: f32[M, N]; a: f32"; every line of the body is an output unless some are named."""
    tensors = [f'{name.strip()} = "{kind.strip()}"' for name, _, kind in (i.partition(":") for i in inputs.split(";"))]
    lines = [f'{name} = "{expression}"' for name, expression in body.items()]
    listed = ", ".join(f'"{o}"' for o in outputs or body)
    return emitter.parse("\n".join([f'name = "{name}"\noutputs = [{listed}]\n[inputs]', *tensors, "[body]", *lines]))


@dataclass(frozen=True)
class Runner:
    """Runs groups by one backend, on the device under test."""

    backend: Backend
    device: str
    arrays: Arrays
    cache: Cache

    def load(self, group: FusionGroup, **choices: Any) -> launch.Kernel:
        return launch.load(group, self.backend, device=self.device, cache=self.cache, **choices)  # type: ignore[arg-type]

    def call(
        self, group: FusionGroup, *arguments: Any, outs: Sequence[np.ndarray] | None = None, aligns: Sequence[int] = ()
    ) -> Call:
        """A call of arrays whose strides stay, each `aligns` bytes behind a multiple of 16."""
        given = tuple(aligns) or (16,) * len(arguments)
        templates = None if outs is None else tuple(outs)
        return Call(group, bind_sizes(group, arguments), arguments, given, templates, None, {})

    def __call__(self, group: FusionGroup, *arguments: Any, **how: Any) -> list[np.ndarray]:
        """The outputs, from guarded memory; a stray access is an error."""
        return group_calls.run(self.call(group, *arguments, **how), self.backend, self.arrays, self.device, self.cache)

    def checked(self, group: FusionGroup, *arguments: Any, **how: Any) -> list[np.ndarray]:
        """The outputs, after comparing them with NumPy bit for bit."""
        got = self(group, *arguments, **how)
        want = emitter.reference(group, *arguments, mode="compute")
        for name, result, expected in zip(
            group.outputs, got, want if isinstance(want, tuple) else (want,), strict=True
        ):
            group_calls.assert_same_bits(result, expected, f"output {name}")
        return got

    def bounded(self, group: FusionGroup, *arguments: Any) -> list[np.ndarray]:
        """The outputs, after holding them to the error bounds of the op table."""
        call = self.call(group, *arguments)
        got = group_calls.run(call, self.backend, self.arrays, self.device, self.cache)
        for name, result, limit in zip(group.outputs, got, evaluate(group, *arguments), strict=True):
            group_calls.assert_within(result, limit, name, call)
        return got

    def on_device(self, *arrays: np.ndarray) -> list[Any]:
        """Plain copies on the device, C-contiguous."""
        library = self.arrays.serving(a.dtype for a in arrays)
        return [library.place(np.ascontiguousarray(a)).array if a.ndim else library.place(a).array for a in arrays]

    def numpy(self, array: Any) -> np.ndarray:
        return self.arrays.to_numpy(array)


def address(array: Any) -> int:
    """Where element 0 of a NumPy, CuPy or torch array lies."""
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


@dataclass(frozen=True)
class Launched:
    """One launch of a function handle."""

    source: KernelSource
    instance: Instance
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Any, ...]
    stream: int | None

    def argument(self, kind: str) -> list[Any]:
        """The arguments of one kind: pointer, size, stride or scalar."""
        return [a for a, p in zip(self.arguments, self.source.params, strict=True) if p.kind == kind]


@dataclass
class Launches:
    """What was built and what ran, in order."""

    built: list[tuple[KernelSource, Instance]] = field(default_factory=list)
    calls: list[Launched] = field(default_factory=list)

    @property
    def instances(self) -> list[Instance]:
        return [instance for _, instance in self.built]

    @property
    def last(self) -> Launched:
        return self.calls[-1]

    def clear(self) -> None:
        self.built.clear()
        self.calls.clear()

    def wrap(self, source: KernelSource, instance: Instance, function: Any) -> Any:
        """The handle, recorded as built; each of its launches is recorded before it runs."""
        self.built.append((source, instance))

        def handle(grid: Any, block: Any, arguments: Any, stream: Any, *more: Any) -> None:
            self.calls.append(Launched(source, instance, grid, block, arguments, stream))
            function(grid, block, arguments, stream, *more)

        return handle


def recording(monkeypatch: pytest.MonkeyPatch) -> Launches:
    """Record every handle that kernels build from now on, and its launches."""
    launches = Launches()
    cpu_function, build_artifact, loaded = (
        launch.kernel.cpu_function,
        launch.kernel.build_artifact,
        launch.kernel.loaded,
    )
    asked: list[tuple[KernelSource, Instance]] = []

    def on_cpu(store: Any, source: KernelSource, instance: Instance, module: Any) -> Any:
        return launches.wrap(source, instance, cpu_function(store, source, instance, module))

    def noted(store: Any, source: KernelSource, instance: Instance, target: Any) -> Any:
        asked.append((source, instance))
        return build_artifact(store, source, instance, target)

    def on_gpu(*arguments: Any) -> Any:
        return launches.wrap(*asked[-1], loaded(*arguments))

    monkeypatch.setattr(launch.kernel, "cpu_function", on_cpu)
    monkeypatch.setattr(launch.kernel, "build_artifact", noted)
    monkeypatch.setattr(launch.kernel, "loaded", on_gpu)
    return launches
