"""A thousand shapes are a handful of compilations, and `static=` pins what the caller asks to pin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_arrays import Arrays
from hypothesis import given
from hypothesis import strategies as st
from launches import Launches, Runner, described, recording
from strategies import examples

import emitter
from emitter.errors import UnknownDim
from launch import Cache
from launch.build import key_for
from launch.targets import Target

GROUPS = {
    "rows": described("x: f16[M, N]; b: f16[N]", {"y": "x * b + 1.0"}),
    "flat": described("x: f32[M, N]; w: f32[M, N]", {"y": "x * w"}),
    "planes": described("x: f32[A, M, N]; b: f32[M, 1]; c: f32[A, 1, N]", {"y": "x + b * c", "p": "x > b"}),
}


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, tmp_path: Path) -> Runner:
    return Runner(request.param, device, arrays, Cache(tmp_path / "cache"))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    return recording(monkeypatch)


def arguments(run: Runner, group: emitter.FusionGroup, sizes: dict[str, int]) -> tuple[list[np.ndarray], list[Any]]:
    """Small numbers in every tensor, here and on the device."""
    host = []
    for tensor in group.tensors:
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in tensor.shape)
        host.append((np.arange(np.prod(shape)) % 13).reshape(shape).astype(tensor.dtype.numpy))
    return host, run.on_device(*host)


def entries(run: Runner) -> int:
    """Complete entries of the code cache."""
    return len(list((run.cache.folder or Path()).glob("v1/*/*/*/meta.json")))


@pytest.mark.parametrize("name", GROUPS)
def test_two_hundred_shapes_build_a_handful(run: Runner, launches: Launches, name: str) -> None:
    group = GROUPS[name]
    kernel = run.load(group)
    rng = np.random.default_rng(0)
    sizes: dict[str, int] = {}
    for count in range(200):
        sizes = {"A": int(rng.integers(1, 4)), "M": int(rng.integers(1, 9)), "N": int(rng.choice((3, 40, 300, 1300)))}
        sizes["N"] = int(rng.integers(1, sizes["N"]))
        if count % 3 == 0:
            sizes["N"] = max(16, sizes["N"] // 16 * 16)
        host, given = arguments(run, group, sizes)
        got = kernel(*given)
        want = emitter.reference(group, *host, mode="compute")
        pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
        assert all((run.numpy(g) == w).all() for g, w in pairs)
    assert len(launches.calls) == 200
    built = launches.instances
    assert len(built) == len(set(built)) <= len(kernel.source.instances) // 2, "all of them have 32-bit offsets"
    assert set(built) <= set(kernel.source.instances)
    assert {i.index for i in built} == {"i32"}
    assert {source.device for source, _ in launches.built} == {kernel.source.device}
    target = Target.host() if run.device == "cpu" else kernel.target
    keys = {key_for(source, i, target).digest for source, i in launches.built if run.device == "cuda"}
    if run.device == "cuda":
        assert entries(run) == len(keys)
    else:  # Triton is interpreted there
        assert entries(run) == (len(built) if run.backend == "cuda" else 0)


def test_another_kernel_of_the_same_group_builds_nothing_anew(run: Runner, launches: Launches) -> None:
    _, given = arguments(run, GROUPS["rows"], {"M": 3, "N": 64})
    run.load(GROUPS["rows"])(*given)
    before = entries(run)
    run.load(GROUPS["rows"])(*given)
    again = Runner(run.backend, run.device, run.arrays, Cache(run.cache.folder))
    again.load(GROUPS["rows"])(*given)
    assert entries(run) == before
    assert len(launches.built) == 3 and len(set(launches.instances)) == 1


def test_layouts_are_classes_not_strides(run: Runner, launches: Launches) -> None:
    """Views of many strides share the source of their class."""
    group = GROUPS["flat"]
    kernel = run.load(group)
    sources = set()
    for size in range(2, 22):
        x = np.arange(size * 3 * 4, dtype=np.float32).reshape(size * 3, 4)[::3]
        w = np.arange(size * 4 * 2, dtype=np.float32).reshape(4, size * 2).T[::2]
        placed = [run.arrays.place(x).array, run.arrays.place(w).array]
        assert (run.numpy(kernel(*placed)) == x * w).all()
        sources.add(launches.last.source.device)
    assert len(sources) == 1
    assert len(launches.built) <= len(launches.last.source.instances)


@pytest.mark.parametrize("pins", [{"N": 64}, {"M": 3}, {"M": 3, "N": 64}, {"N": 63}])
def test_pinned_sizes_are_in_the_text_and_others_refused(run: Runner, launches: Launches, pins: dict[str, int]) -> None:
    group = GROUPS["rows"]
    kernel = run.load(group, static=pins)
    host, given = arguments(run, group, {"M": 3, "N": 64} | pins)
    assert (run.numpy(kernel(*given)) == emitter.reference(group, *host, mode="compute")).all()
    assert not {p.name for p in kernel.source.params if p.kind == "size"} & set(pins)
    count = len(launches.calls)
    for dim, size in pins.items():
        for other in (size + 1, size - 1, 1, 0):
            _, wrong = arguments(run, group, {"M": 3, "N": 64} | pins | {dim: other})
            with pytest.raises(ValueError, match=f"x: expected shape .*{size}.* got .*{other}"):
                kernel(*wrong)
    assert len(launches.calls) == count


@pytest.mark.parametrize("pins", [{}, {"M": 3}, {"M": 3, "N": 4}])
def test_pinned_sizes_are_numbers_to_every_op(run: Runner, pins: dict[str, int]) -> None:
    """Also where both languages need more than a bare literal: as a float, a bool, an integer to be cast."""
    body = {
        "least": "minimum(M, a)",
        "sum": "w * (N - M) + M // 2",
        "band": "index(-1) + (N - M) < index(-2)",
        "either": "logical_xor(M, w)",
        "size": "where(band, M, N)",
        "gap": "N - M",
        "narrow": "cast(M, 'u32')",
    }
    group = described("w: f32[M, N]; a: f64[]", body)
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    kernel = run.load(group, static=pins)
    got = kernel(*run.on_device(w, np.asarray(2.5)))
    for result, want in zip(map(run.numpy, got), emitter.reference(group, w, np.asarray(2.5)), strict=True):
        assert result.tolist() == want.tolist()
    assert kernel.artifact(target=Target("cuda", "90")).binary


def test_the_coordinate_of_a_single_axis_is_zero(run: Runner) -> None:
    body = {"at": "index(0)", "scaled": "w * at", "narrow": "cast(index(0), 'u32') ^ 1", "tested": "index(0) == 0"}
    group = described("w: f32[1, N]", body | {"either": "where(w > 1.0, index(0), w)"})
    w = np.arange(4, dtype=np.float32).reshape(1, 4)
    kernel = run.load(group)
    for result, want in zip(map(run.numpy, kernel(*run.on_device(w))), emitter.reference(group, w), strict=True):
        assert result.tolist() == want.tolist()
    assert kernel.artifact(target=Target("cuda", "90")).binary


@pytest.mark.parametrize(
    ("pins", "words"),
    [({"K": 4}, "'K'"), ({"N": -1}, "N must be"), ({"N": 1.5}, "N must be"), ({"N": "4"}, "N must be")],
)
def test_pins_that_make_no_sense(run: Runner, pins: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownDim, match=words):
        run.load(GROUPS["rows"], static=pins)


@examples(20)
@given(sizes=st.fixed_dictionaries({d: st.integers(1, 2**33) for d in "AMN"}), aligned=st.booleans())
def test_an_instance_list_is_short_and_without_repeats(sizes: dict[str, int], aligned: bool) -> None:
    """However large the shapes, a source names all instances that its host code can ask for."""
    for group in GROUPS.values():
        for backend in emitter.BACKENDS:
            pinned = {d: sizes[d] for d in group.dims} if aligned else None
            source = emitter.emit(group, backend, static=pinned)
            assert len(set(source.instances)) == len(source.instances) <= 24
