"""Targets: what is accepted, what is told about them, and that detection never overrides an explicit one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from launch.errors import BadTarget
from launch.targets import Target, current_target

ACCEPTED = [
    ("cuda:75", "sm_75", 32),
    ("cuda:90", "sm_90", 32),
    ("cuda:90a", "sm_90a", 32),
    ("cuda:120f", "sm_120f", 32),
    ("hip:gfx90a", "gfx90a", 64),
    ("hip:gfx942", "gfx942", 64),
    ("hip:gfx90a:sramecc+:xnack-", "gfx90a", 64),
    ("hip:gfx1100", "gfx1100", 32),
    ("cpu:x86_64", "x86_64", 32),
]
REFUSED = ["", "cuda", "cuda:", "cuda:sm_90", "cuda:9", "cuda:9.0", "cuda:90A", "cuda:90 ", "cuda:٩٠"]
REFUSED += ["hip:942", "hip:gfx", "hip:gfx942:fast", "cpu:", "cpu:../x", "rocm:gfx942", "CUDA:90", "90"]


@pytest.mark.parametrize(("text", "processor", "warp_size"), ACCEPTED)
def test_accepted(text: str, processor: str, warp_size: int) -> None:
    target = Target.parse(text)
    assert str(target) == text
    assert Target.parse(target) is target
    assert (target.processor, target.warp_size) == (processor, warp_size)


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(BadTarget, match=r"cuda:90a.*hip:gfx942.*cpu:x86_64") as caught:
        Target.parse(text)
    assert repr(text) in str(caught.value)


def test_constructing_checks_too() -> None:
    with pytest.raises(BadTarget, match="cuda:sm_90"):
        Target("cuda", "sm_90")


def test_equality_and_hash() -> None:
    texts = [text for text, _, _ in ACCEPTED] + ["cuda:121"]
    assert len({Target.parse(text) for text in texts + texts}) == len(texts)
    assert Target("cuda", "90") == Target.parse("cuda:90") != Target.parse("cuda:90a")


def test_capability_is_cudas() -> None:
    assert Target.parse("cuda:90a").capability == 90
    with pytest.raises(BadTarget, match="hip:gfx942 has no compute capability"):
        _ = Target.parse("hip:gfx942").capability


def test_cpu_alone_is_this_machine() -> None:
    assert Target.parse("cpu") == Target.host()
    assert Target.parse(str(Target.host())) == Target.host()


@pytest.mark.parametrize(
    ("machine", "maxsize", "arch"),
    [("AMD64", 2**63 - 1, "x86_64"), ("arm64", 2**63 - 1, "aarch64"), ("x86_64", 2**31 - 1, "x86_64-32")],
)
def test_host_names(monkeypatch: pytest.MonkeyPatch, machine: str, maxsize: int, arch: str) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(sys, "maxsize", maxsize)
    assert Target.host() == Target("cpu", arch)


class _CUDARuntimeError(RuntimeError):
    pass


def _pretend(monkeypatch: pytest.MonkeyPatch, count: int | Exception, properties: dict[str, Any], hip: bool) -> None:
    """Install a CuPy whose runtime sees `count` GPUs, or fails to look."""

    def count_devices() -> int:
        if isinstance(count, Exception):
            raise count
        return count

    runtime = SimpleNamespace(
        CUDARuntimeError=_CUDARuntimeError,
        getDeviceCount=count_devices,
        getDevice=lambda: 0,
        getDeviceProperties=lambda device: properties,
        is_hip=hip,
    )
    cuda = ModuleType("cupy.cuda")
    cuda.__dict__["runtime"] = runtime
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)


def test_the_gpu_that_cupy_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, 1, {"major": 12, "minor": 1}, hip=False)
    assert current_target() == Target("cuda", "121")
    _pretend(monkeypatch, 1, {"gcnArchName": b"gfx90a:sramecc+:xnack-"}, hip=True)
    assert current_target() == Target("hip", "gfx90a:sramecc+:xnack-")


@pytest.mark.parametrize("count", [0, _CUDARuntimeError("no driver")])
def test_no_usable_gpu_is_the_cpu(monkeypatch: pytest.MonkeyPatch, count: int | Exception) -> None:
    _pretend(monkeypatch, count, {}, hip=False)
    assert current_target() == Target.host()


def test_no_cupy_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    assert current_target() == Target.host()


def test_an_explicit_target_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, AssertionError("must not look"), {}, hip=False)
    assert current_target("cuda:80") == Target("cuda", "80")
    assert current_target(Target("hip", "gfx942")) == Target("hip", "gfx942")
    assert current_target("cpu") == Target.host()
