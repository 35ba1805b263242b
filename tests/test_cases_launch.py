"""Known bad situations around a launch: devices, streams, limits, alignment, other libraries' arrays (by case id)."""

from __future__ import annotations

import contextlib
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from device_arrays import Arrays
from group_calls import assert_same_bits
from launches import Runner, described

import emitter
from emitter.errors import TooManyParameters
from launch import Cache, Target, resources
from launch.build import build_artifact
from launch.cpu.cuda import KernelFault, compile_cpu
from launch.module import execute

GROUP = described("x: f32[N]; w: f32[N]", {"y": "x * w"})
X = np.arange(8, dtype=np.float32)


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, cache: Cache) -> Runner:
    return Runner(request.param, device, arrays, cache)


# A driver that computes nothing: B06, B08


class FakeDriver(ModuleType):
    """The parts of CuPy that host code uses. `events`: devices made current, launches with device and stream."""

    def __init__(self) -> None:
        super().__init__("fake_cupy")
        self.current, self.events = 0, list[tuple[Any, ...]]()
        driver = self

        class Array:
            def __init__(self, held: np.ndarray, device: int) -> None:
                self.held, self.dtype, self.shape, self.strides = held, held.dtype, held.shape, held.strides
                self.itemsize, self.flags = held.itemsize, held.flags
                self.data = SimpleNamespace(ptr=held.ctypes.data, device_id=device)

        class Device:
            def __init__(self, number: int | None = None) -> None:
                self.number = driver.current if number is None else number

            def __enter__(self) -> None:
                self.before, driver.current = driver.current, self.number
                driver.events.append(("device", self.number))

            def __exit__(self, *_: object) -> None:
                driver.current = self.before
                driver.events.append(("device", self.before))

        self.ndarray = Array
        self.cuda = SimpleNamespace(
            Device=Device,
            runtime=SimpleNamespace(getDevice=lambda: driver.current),
            get_current_stream=lambda: SimpleNamespace(ptr=100 + driver.current),
        )

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.ndarray(np.empty(shape, dtype), self.current)

    def array(self, held: np.ndarray, device: int) -> Any:
        return self.ndarray(held, device)

    def build(self, *instance: Any) -> Any:
        self.events.append(("build", self.current))
        home = self.current

        def kernel(grid: Any, block: Any, arguments: Any, stream: Any) -> None:
            assert home == self.current, "a kernel of another device"
            self.events.append(("launch", self.current, stream))

        return kernel


@pytest.fixture(params=emitter.BACKENDS)
def driven(request: pytest.FixtureRequest) -> tuple[FakeDriver, Any]:
    """A driver, and the launch function of generated host code that runs on it."""
    driver = FakeDriver()
    source = emitter.emit(GROUP, request.param)
    module = execute(f"{source.device}\n\n{source.host}" if request.param == "triton" else source.host, "driven")
    module["use_arrays"](driver)
    module["build"] = driver.build
    return driver, module["launch"]


def test_a_launch_happens_on_the_arrays_device_with_its_stream(driven: tuple[FakeDriver, Any]) -> None:
    """B06, B08: kernels are kept by device, and the current device is restored."""
    driver, launch = driven
    for current, device in ((0, 1), (0, 0), (1, 0), (1, 1)):
        driver.current = current
        driver.events.clear()
        out = driver.array(X.copy(), device)
        assert launch(driver.array(X, device), driver.array(X, device), out=out) is out
        assert ("launch", device, 100 + device) in driver.events
        assert driver.current == current
        assert all(event[1] == device for event in driver.events if event[0] in ("build", "launch"))
    assert [event for event in driver.events if event[0] == "build"] == [], "built once for each device"


def test_outputs_are_allocated_on_the_inputs_device(driven: tuple[FakeDriver, Any]) -> None:
    """B06: with another device current, either the output lies beside its inputs or the call is refused."""
    driver, launch = driven
    result = launch(driver.array(X, 1), driver.array(X, 1))
    assert result.data.device_id == 1
    assert driver.current == 0


def test_arrays_on_different_devices_are_refused(driven: tuple[FakeDriver, Any]) -> None:
    """B06: naming both."""
    driver, launch = driven
    with pytest.raises(ValueError, match=r"(?s)w .*GPU 1.*x .*GPU 0"):
        launch(driver.array(X, 0), driver.array(X, 1))
    with pytest.raises(ValueError, match=r"(?s)y .*GPU 1.*x .*GPU 0"):
        launch(driver.array(X, 0), driver.array(X, 0), out=driver.array(X.copy(), 1))
    assert driver.events == []


# Real streams: B08


@pytest.fixture
def cupy(device: str) -> Any:
    if device != "cuda":
        pytest.skip("needs a GPU")
    return pytest.importorskip("cupy")


def test_work_follows_the_current_stream(run: Runner, cupy: Any) -> None:
    """B08: inputs that a long kernel of the same stream fills are seen filled."""
    kernel = run.load(GROUP)
    x, w = cupy.zeros(1 << 20, cupy.float32), cupy.ones(1 << 20, cupy.float32)
    kernel(x, w)
    big = cupy.ones((2048, 2048), cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for n in range(50):
            x.fill(-1)
            big @ big
            x.fill(n)
            y = kernel(x, w)
            assert bool((y == n).all())


@pytest.mark.parametrize("warm", [True, False])
def test_graph_capture(run: Runner, cupy: Any, warm: bool) -> None:
    """B08: a captured launch is replayed; a first call inside a capture works or raises an error."""
    kernel = run.load(GROUP)
    x, w, y = (cupy.full(256, v, cupy.float32) for v in (2, 3, 0))
    if warm:
        kernel(x, w, out=y)
        y.fill(0)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        kernel(x, w, out=y)
        graph = stream.end_capture()
        assert not bool(y.any()), "only recorded"
        for value in (6, 12):
            graph.launch()
            stream.synchronize()
            assert bool((y == value).all())
            x.fill(4)
            stream.synchronize()


def test_two_gpus(run: Runner, cupy: Any) -> None:
    """B06 with real devices."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    kernel = run.load(GROUP)
    for number in (1, 0, 1):
        with cupy.cuda.Device(number):
            x = cupy.asarray(X)
        y = kernel(x, x)
        assert y.device.id == number and cupy.cuda.Device().id == 0
        assert_same_bits(y.get(), X * X, f"on GPU {number}")


# Limits: B04, D03


def test_many_live_values(run: Runner) -> None:
    """B04: 64 terms over 16 inputs; on a GPU, a block's registers fit."""
    names = [f"a{n}" for n in range(16)]
    terms = " + ".join(f"{names[n % 16]} * {names[(n * 7 + 3) % 16]}" for n in range(64))
    group = described("; ".join(f"{n}: f32[N]" for n in names), {"y": terms, "z": " * ".join(names)})
    rng = np.random.default_rng(0)
    run.checked(group, *(rng.integers(1, 3, 1000).astype(np.float32) for _ in names))
    source = emitter.emit(group, run.backend)
    for instance in source.instances[:2]:
        used = resources(build_artifact(run.cache, source, instance, Target("cuda", "90")))
        assert used.registers * 32 * source.num_warps <= 65536


def total(count: int) -> emitter.FusionGroup:
    """The sum of so many vectors, described in short lines."""
    body = {"s1": "a0 + a1"} | {f"s{n}": f"s{n - 1} + a{n}" for n in range(2, count)}
    return described("; ".join(f"a{n}: f32[N]" for n in range(count)), body, outputs=[f"s{count - 1}"])


@pytest.mark.parametrize("count", [128, 500, 511, 512, 513, 6131])
def test_a_group_of_many_tensors_runs_or_names_the_limit(run: Runner, count: int) -> None:
    """D03."""
    group = total(count)
    if count > 500:
        with pytest.raises(TooManyParameters, match=r"case.* 4096; split"):
            run.load(group)
        return
    assert emitter.emit(group, run.backend).params[count].kind == "pointer"
    if count == 128:
        y = run.numpy(run.load(group)(*run.on_device(*[np.ones(4, np.float32)] * count)))
        assert y.tolist() == [count] * 4


@pytest.mark.parametrize("count", [40, 600])
def test_a_group_of_many_outputs_runs_or_names_the_limit(run: Runner, count: int) -> None:
    """D03."""
    group = described("x: f32[N]", {f"y{n}": f"x + {n}.0" for n in range(count)})
    if count > 500:
        with pytest.raises(TooManyParameters, match=r"case.*4096"):
            run.load(group)
        return
    results = run.checked(group, X)
    assert [float(r[0]) for r in results] == list(range(count))


# Vectors on what is aligned only: B07


@pytest.mark.parametrize("align", [16, 4])
def test_a_vector_instance_traps_on_what_its_host_code_never_gives_it(align: int, device: str) -> None:
    """B07, under the alignment sanitizer."""
    if device != "cpu":
        pytest.skip("the sanitizer watches the CPU's run")
    source = emitter.emit(GROUP, "cuda")
    name = source.cuda_name(source.instances[0])
    memory = [np.zeros(80, np.float32) for _ in range(3)]
    starts = [a[-a.ctypes.data // 4 % 4 + (align == 4) :][:64] for a in memory]
    arguments = (*(a.ctypes.data for a in starts), np.int32(64))
    handle = compile_cpu(source.device, [name], sanitize=True).function(name)
    with contextlib.nullcontext() if align == 16 else pytest.raises(KernelFault):
        handle((1, 1, 1), (source.schedule.threads, 1, 1), arguments, None)


# What a text depends on: C03


def test_another_constant_is_another_kernel(run: Runner) -> None:
    """C03: one cache, two groups that differ in a number."""
    keys = set()
    for factor in (2.0, 3.0, 2.0):
        group = described("x: f32[N]", {"y": f"x * {factor}"}, name="scale")
        assert run(group, X)[0].tolist() == (X * np.float32(factor)).tolist()
        keys.add(run.load(group).key.digest)
    assert len(keys) == 2


def test_threads_share_a_kernel(run: Runner) -> None:
    """First calls at the same time, each with its own arrays."""
    kernel = run.load(GROUP)
    results: dict[int, Any] = {}

    def work(n: int) -> None:
        x, w = run.on_device(np.full(64 + n, n, np.float32), np.full(64 + n, 2, np.float32))
        results[n] = [run.numpy(kernel(x, w)).tolist() for _ in range(3)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [[2.0 * n] * (64 + n)] * 3 for n in range(6)}


# Other libraries' arrays: E03


def test_objects_with_an_array_interface(run: Runner, cupy: Any) -> None:
    """E03: what only has `__cuda_array_interface__` is taken where it lies."""
    x = cupy.asarray(X)
    wrapped = SimpleNamespace(__cuda_array_interface__=x.__cuda_array_interface__)
    assert_same_bits(run.numpy(run.load(GROUP)(wrapped, x)), X * X, "an interface")
    assert_same_bits(run.numpy(run.load(GROUP)(x, wrapped)), X * X, "an interface")
