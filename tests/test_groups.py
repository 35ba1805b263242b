"""Whole random groups: both backends against NumPy, in every layout, on guarded memory, and really compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from device_arrays import Arrays
from group_calls import assert_same_bits, assert_within, described, run
from hypothesis import given, note
from hypothesis import strategies as st
from strategies import Call, calls, examples

import emitter
from emitter.bounds import evaluate
from emitter.layout import Layout, layout_of
from emitter.schedule import Backend
from launch import Cache, Target
from launch.build import build_artifact

TARGETS: dict[Backend, tuple[str, ...]] = {
    "triton": ("cuda:80", "cuda:90", "hip:gfx942"),
    "cuda": ("cuda:80", "cuda:90"),
}
Count = Callable[[str], None]


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@examples(50)
@given(call=calls(exact=True))
def test_exact_groups_equal_numpy_bit_for_bit(
    call: Call, backend: Backend, arrays: Arrays, device: str, cache: Cache, count: Count
) -> None:
    note(described(call))
    want = emitter.reference(call.group, *call.arguments, mode="compute")
    got = run(call, backend, arrays, device, cache)
    for name, result, expected in zip(
        call.group.outputs, got, want if isinstance(want, tuple) else (want,), strict=True
    ):
        assert_same_bits(result, expected, f"output {name}")
    count(f"{backend} run on {device}, exact groups")


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@examples(50)
@given(call=calls())
def test_groups_stay_inside_their_error_bound(
    call: Call, backend: Backend, arrays: Arrays, device: str, cache: Cache, count: Count
) -> None:
    note(described(call))
    limits = evaluate(call.group, *call.arguments)
    got = run(call, backend, arrays, device, cache)
    for name, result, limit in zip(call.group.outputs, got, limits, strict=True):
        assert_within(result, limit, name, call)
    count(f"{backend} run on {device}, groups of any ops")


def emitted(call: Call, backend: Backend) -> emitter.KernelSource:
    """The source for the call's layouts and choices."""
    tensors = [a for a in call.arguments if hasattr(a, "strides")]
    names = [t.name for t in call.group.tensors]
    if call.outs is not None:
        tensors += call.outs
        names += call.group.outputs
    layouts: dict[str, Layout | str] = {
        name: layout_of(a.shape, tuple(s // a.itemsize for s in a.strides))
        for name, a in zip(names, tensors, strict=True)
    }
    return emitter.emit(call.group, backend, schedule=call.schedule, static=call.static, layouts=layouts)


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@examples(16)
@given(call=calls(), choice=st.integers(0, 63))
def test_groups_compile_for_every_kind_of_gpu(
    call: Call, backend: Backend, choice: int, cache: Cache, count: Count
) -> None:
    note(described(call))
    source = emitted(call, backend)
    instance = source.instances[choice % len(source.instances)]
    for target in TARGETS[backend]:
        artifact = build_artifact(cache, source, instance, Target.parse(target))
        assert artifact.binary
        count(f"{backend} compiled for {target}")


@examples(60)
@given(call=calls())
def test_text_is_a_function_of_the_description(call: Call, count: Count) -> None:
    note(described(call))
    again = emitter.parse(emitter.to_toml(call.group))
    assert again == call.group
    assert again.fingerprint == call.group.fingerprint
    for backend in emitter.BACKENDS:
        first, second = emitted(call, backend), emitted(call, backend)
        assert first == second
        for _, text in first.files:
            assert text.isascii()
            assert text.endswith("\n")
            assert not any(line != line.rstrip() for line in text.splitlines())
    count("emitted twice")


def chain(length: int) -> emitter.FusionGroup:
    """A chain of named and unnamed sums and products."""
    body = ["a0 = 'x + 1.0'"]
    body += [f"a{n} = '{'(' * (n % 3)}a{n - 1}{' * x)' * (n % 3)} + y'" for n in range(1, length)]
    lines = [
        "name = 'chain'",
        f"outputs = ['a{length - 1}']",
        "[inputs]",
        "x = 'f32[N]'",
        "y = 'f32[N]'",
        "[body]",
        *body,
    ]
    return emitter.parse("\n".join(lines))


def doublings(length: int) -> emitter.FusionGroup:
    """Each value is used twice by the next: a tree of 2 ** length leaves."""
    body = ["a0 = 'x + x'", *(f"a{n} = 'a{n - 1} + a{n - 1}'" for n in range(1, length))]
    return emitter.parse("\n".join([f"name = 'd'\noutputs = ['a{length - 1}']\n[inputs]\nx = 'f32[N]'\n[body]", *body]))


def cost(work: Callable[[], object]) -> int:
    """Python function calls made by `work`."""
    total = 0

    def observe(frame: FrameType, event: str, argument: object) -> None:
        nonlocal total
        total += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(observe)
    try:
        work()
    finally:
        sys.setprofile(previous)
    return total


@pytest.mark.parametrize("backend", emitter.BACKENDS)
def test_emission_of_a_long_chain_is_linear(backend: Backend) -> None:
    short, long = chain(2500), chain(5000)
    assert len(long.nodes) > 5000

    def emit(group: emitter.FusionGroup) -> Callable[[], object]:
        return lambda: emitter.emit(group, backend)

    sizes = [len(emitter.emit(group, backend).device) for group in (short, long)]  # also fills every cache
    assert cost(emit(long)) < 2.1 * cost(emit(short))
    assert sizes[1] < 2.1 * sizes[0]
    assert cost(lambda: emitter.to_toml(long)) < 2.1 * cost(lambda: emitter.to_toml(short))


@pytest.mark.parametrize("backend", emitter.BACKENDS)
def test_values_used_twice_are_written_once(backend: Backend, device: str, arrays: Arrays, cache: Cache) -> None:
    import numpy as np

    import launch

    sizes = [len(emitter.emit(doublings(n), backend).device) for n in (15, 30)]
    assert sizes[1] < 2.1 * sizes[0]
    assert cost(lambda: emitter.emit(doublings(30), backend)) < 2.1 * cost(lambda: emitter.emit(doublings(15), backend))
    x = np.arange(5, dtype=np.float32)
    kernel = launch.load(doublings(30), backend, device=device, cache=cache)
    got = arrays.to_numpy(kernel(arrays.place(x).array))
    assert_same_bits(got, np.asarray(x * np.float32(2**30)), "doublings")
