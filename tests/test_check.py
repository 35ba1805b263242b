"""`kernelpress check`: right kernels pass, and each way of being wrong is found and shown."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emitter
from emitter.dtypes import BF16, F16, F32, F64, I8, I64
from emitter.emit import emit
from emitter.source import KernelSource
from emitter.verify import verify
from launch.check import check, targets_of
from launch.check_cases import Tensor, draw_case, special_values
from launch.cli import main
from launch.cpu.memory import PAGE
from launch.errors import CompileError, MissingLibrary
from launch.kernel import Kernel

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.toml"))
BIAS_GELU = str(next(path for path in EXAMPLES if path.stem == "bias_gelu"))
BACKENDS = emitter.BACKENDS

Alter = Callable[[Any, tuple[Any, ...]], None]


@pytest.fixture(autouse=True)
def _on_the_cpu(device: str) -> None:
    if device != "cpu":
        pytest.skip("these check kernels on the CPU; test_groups runs random calls on a GPU")


def after_each_call(monkeypatch: pytest.MonkeyPatch, alter: Alter) -> None:
    """Let `alter` change what a kernel leaves behind: its first output, and its arguments."""
    original = Kernel.__call__

    def call(self: Kernel, *arguments: Any, out: Any = None) -> Any:
        returned = original(self, *arguments, out=out)
        alter(returned[0] if isinstance(returned, tuple) else returned, arguments)
        return returned

    monkeypatch.setattr(Kernel, "__call__", call)


def misspelt(monkeypatch: pytest.MonkeyPatch, right: str, wrong: str) -> None:
    """Emit device text with `wrong` for `right`."""

    def changed(*arguments: Any, **choices: Any) -> KernelSource:
        source = emit(*arguments, **choices)
        assert right in source.device
        return replace(source, device=source.device.replace(right, wrong))

    monkeypatch.setattr(emitter, "emit", changed)


def usual_case() -> str:
    """The number of a case of bias_gelu with several tiles, into given outputs."""
    verified = verify(emitter.read(BIAS_GELU))
    drawn = (draw_case(verified, 0, number) for number in itertools.count())
    return str(next(c.number for c in drawn if c.outputs and 100 < c.inputs["x"].array.size < 5000))


def failed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What a check of that case prints when it fails."""
    assert main(["check", BIAS_GELU, "--device", "cpu", "--case", usual_case(), *options]) == 1
    return capsys.readouterr().out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_pass(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elements = dict.fromkeys(BACKENDS, 0)
    for case in map(str, range(4)):
        assert main(["check", str(path), "--device", "cpu", "--case", case, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["ok"]
        assert document["device"] == "cpu"
        for row in document["backends"]:
            assert row["cases"] == 1
            assert row["worst_fraction_of_bound"] <= 1
            assert not row["failures"]
            assert row["bit_for_bit"] or path.stem in ("bias_gelu", "rotary", "swiglu")
            elements[row["backend"]] += row["elements"]
    assert all(elements.values())


def test_both_backends_compile_all_they_may_run(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--cases", "4", "--schedule", "tile=256", "--schedule", "columns=16"]
    assert main(["check", BIAS_GELU, *options, "--json"]) == 0
    triton, cuda = json.loads(capsys.readouterr().out)["backends"]
    assert triton["compiled"] == {"cuda:90": 8, "hip:gfx942": 8}
    assert cuda["compiled"] == {"cuda:90": 4}


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", BIAS_GELU, "--device", "cpu", "--backend", "cuda", "--cases", "3", "--seed", "5"]) == 0
    out, err = capsys.readouterr()
    title, _, heads, row = out.rstrip("\n").split("\n")
    assert title == "bias_gelu on the CPU, seed 5"
    assert heads.split() == ["backend", "cases", "elements", "worst", "error", "failures", "compiled"]
    assert re.fullmatch(r"cuda +3 +\d+ +(bit for bit|[01]\.\d\d of the bound) +0 +cuda:90 \(4\)", row)
    assert err == "running cases\ncompiling cuda for cuda:90\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_element(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def alter(output: Any, _: tuple[Any, ...]) -> None:
        if output.size:
            output[output.shape[0] // 2, -1] = 77

    after_each_call(monkeypatch, alter)
    text = failed(capsys, "--backend", backend, "--seed", "0")
    assert f"FAILED {backend}, case {usual_case()}: output y is out of bounds in 1 of" in text
    assert re.search(r"first at \(\d+, \d+\): got 77\.0, want \S+, bound \S+", text)
    assert re.search(r"^  x: shape \(\d+, \d+\), [a-z ]+, strides \(", text, re.MULTILINE)
    (command,) = re.findall(r"repeat: kernelpress (.*)", text)
    assert main(shlex.split(command)) == 1
    assert capsys.readouterr().out == text


def test_many_failures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    misspelt(monkeypatch, "x[v] + b[v]", "x[v] - b[v]")
    options = ["--device", "cpu", "--backend", "cuda", "--cases", "20", "--seed", "2", "--target", "cuda:90"]
    assert main(["check", BIAS_GELU, *options]) == 1
    text = capsys.readouterr().out
    assert text.count("FAILED") == 3
    more = re.search(r"^cuda: (\d+) more failures$", text, re.MULTILINE)
    assert more is not None
    assert re.search(rf"^cuda +20 .* {int(more[1]) + 3} +cuda:90", text, re.MULTILINE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_outside(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def alter(output: Any, _: tuple[Any, ...]) -> None:
        if output.base is not None and output.size:
            elements = output.copy()
            np.frombuffer(output.base, np.uint8)[PAGE:-PAGE] = 0
            output[...] = elements

    after_each_call(monkeypatch, alter)
    assert "elements of output y was written" in failed(capsys, "--backend", backend)


def test_a_written_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def alter(_: Any, arguments: tuple[Any, ...]) -> None:
        arguments[0][...] = 0

    after_each_call(monkeypatch, alter)
    assert "ValueError: assignment destination is read-only" in failed(capsys, "--backend", "cuda")


@pytest.mark.parametrize(("backend", "right"), [("cuda", "x[v] + b[v]"), ("triton", "h = x + b ")])
def test_a_wrong_spelling(
    backend: str, right: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    misspelt(monkeypatch, right, right.replace("+", "-"))
    text = failed(capsys, "--backend", backend)
    assert "output y is out of bounds" in text


@pytest.mark.parametrize(
    ("backend", "right", "wrong"),
    [("cuda", "if (m >= M) return;", ""), ("triton", "inside = (m < M) & (n < N)", "inside = (m < M + 9) & (n < N)")],
)
def test_a_missing_mask(
    backend: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    misspelt(monkeypatch, right, wrong)
    text = failed(capsys, "--backend", backend)
    assert re.search(r"Fault: bias_gelu", text)


def test_what_does_not_compile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def artifact(self: Kernel, instance: Any, target: Any) -> Any:
        raise CompileError("bias_gelu", str(target), "error: expected a ';'", 3, "h = x")

    monkeypatch.setattr(Kernel, "artifact", artifact)
    text = failed(capsys, "--backend", "triton", "--target", "cuda:90")
    assert "cuda:90 FAILED" in text
    assert "error: expected a ';'" in text
    (command,) = re.findall(r"repeat: kernelpress (.*)", text)
    assert command.endswith("--backend triton --cases 0 --target cuda:90")
    assert main(shlex.split(command)) == 1


def test_a_missing_compiler_is_no_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def artifact(self: Kernel, instance: Any, target: Any) -> Any:
        raise MissingLibrary("NVRTC", "compiling CUDA C", "pip install it")

    monkeypatch.setattr(Kernel, "artifact", artifact)
    assert main(["check", BIAS_GELU, "--device", "cpu", "--cases", "0"]) == 0
    out = capsys.readouterr().out
    assert "not for hip:gfx942: NVRTC is not installed, and compiling CUDA C needs it: pip install it" in out


def test_failures_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    misspelt(monkeypatch, "x[v] + b[v]", "x[v] - b[v]")
    out = failed(capsys, "--backend", "cuda", "--static", "N=33", "--json")
    document = json.loads(out, parse_constant=pytest.fail)
    assert not document["ok"]
    failure = document["backends"][0]["failures"][0]
    assert failure["wrong"]["output"] == "y"
    assert failure["inputs"]["b"]["shape"] == [33]
    assert "--static N=33 --device cpu --seed 0 --case" in failure["repeat"]


def test_cases_are_a_function_of_seed_and_number() -> None:
    verified = verify(emitter.read(BIAS_GELU))
    first, again, other = (draw_case(verified, seed, 4) for seed in (1, 1, 2))
    assert str(first.inputs["x"]) == str(again.inputs["x"])
    assert first.inputs["x"].array.tobytes() == again.inputs["x"].array.tobytes()
    assert (str(first.inputs["x"]), first.inputs["x"].array.tobytes()) != (
        str(other.inputs["x"]),
        other.inputs["x"].array.tobytes(),
    )


def test_cases_cover_sizes_layouts_and_values() -> None:
    group = emitter.parse(
        'name = "g"\noutputs = ["y"]\n[inputs]\nt = "f32[V, N]"\ni = "i32[M]"\nm = "bool[M, N]"\ns = "f16"\n'
        '[body]\ny = "where(m, take(t, i, 0) * s, 0.0)"\n'
    )
    verified = verify(group)
    cases = [draw_case(verified, 0, number) for number in range(150)]
    tensors = [t for case in cases for t in case.inputs.values() if isinstance(t, Tensor)]
    layouts = {t.layout for t in tensors}
    assert layouts == {"contiguous", "transposed", "sliced", "padded rows", "reversed", "broadcast"}
    assert {t.align for t in tensors} >= {16, 4, 1}
    assert {0, 1} <= {size for t in tensors for size in t.array.shape}
    assert max(t.array.size for t in tensors) > 2**16
    assert sum(t.array.size <= 2**16 for t in tensors) > 0.8 * len(tensors)
    masks = [case.inputs["m"].array for case in cases if case.inputs["m"].array.size > 100]
    assert {(m.all(), not m.any(), m.sum() == 1) for m in masks} >= {(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)}
    inside = outside = 0
    for case in cases:
        size, indices = case.inputs["t"].array.shape[0], case.inputs["i"].array.astype(int)
        inside += int(np.sum((indices >= -size) & (indices < size)))
        outside += int(np.sum((indices < -size) | (indices >= size)))
    assert 0 < outside < inside
    assert {case.outputs is None for case in cases} == {True, False}
    floats = np.concatenate([case.inputs["t"].array.ravel()[:500] for case in cases])
    assert np.isnan(floats).any()
    assert np.isinf(floats).any()
    assert (np.signbit(floats) & (floats == 0)).any()
    assert ((abs(floats) < np.finfo("f").smallest_normal) & (floats != 0)).any()


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64, I8, I64], ids=str)
def test_special_values_hold_the_extremes(dtype: Any) -> None:
    values = special_values(dtype)
    assert values.dtype == dtype.numpy
    if dtype.is_integer:
        assert {*dtype.limits} <= {int(v) for v in values}
    else:
        assert np.isnan(values).any()
        assert np.isinf(values).any()


def test_static_sizes_hold_in_every_case() -> None:
    report = check(emitter.read(BIAS_GELU), {"cuda": []}, device="cpu", cases=range(3), static={"M": 3, "N": 40})
    assert report.ok
    assert report.results[0].elements == 3 * 3 * 40


def test_targets() -> None:
    def texts(*arguments: Any) -> dict[str, list[str]]:
        return {backend: [str(t) for t in targets] for backend, targets in targets_of(*arguments).items()}

    assert texts(BACKENDS, None) == {"triton": ["cuda:90", "hip:gfx942"], "cuda": ["cuda:90"]}
    assert texts(BACKENDS, ["hip:gfx90a"]) == {"triton": ["hip:gfx90a"], "cuda": []}
    assert texts(("cuda",), None, False) == {"cuda": []}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_zero_of_the_wrong_sign(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Sums and products equal NumPy bit for bit, and -0.0 is not 0.0."""
    path = tmp_path / "sum.toml"
    path.write_text(
        'name = "sum"\noutputs = ["y"]\n[inputs]\na = "f32[N]"\nb = "f32[N]"\n[body]\ny = "(a + b) * 0.0"\n'
    )
    command = ["check", str(path), "--backend", backend, "--device", "cpu", "--cases", "8", "--target", "cuda:90"]
    assert main(command) == 0
    assert "bit for bit" in capsys.readouterr().out

    def alter(output: Any, _: tuple[Any, ...]) -> None:
        output[output == 0] *= -1

    after_each_call(monkeypatch, alter)
    assert main(command) == 1
