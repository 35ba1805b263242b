"""Generated files run by themselves: without kernelpress and torch, in any folder, with nothing but NumPy and CuPy."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from descriptions import BIAS_GELU, CAUSAL, CHOICES, EMBEDDING, SEVERAL, ZERO_D

import emitter
from emitter.read import parse

SCRIPT = Path(__file__).parent / "standalone_process.py"


def process(*arguments: object) -> dict[str, Any]:
    """What the script prints, run by an interpreter that sees neither the checkout nor the environment."""
    command = [sys.executable, "-I", str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SCRIPT.anchor)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def vendored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of several groups in a folder whose name is no identifier."""
    folder = tmp_path_factory.mktemp("my project, süß")
    for text in (BIAS_GELU, CAUSAL, EMBEDDING, SEVERAL, ZERO_D):
        emitter.write(parse(text), folder)
    return folder


def test_every_file_imports_alone_and_no_gpu_library_before_the_first_launch(tmp_path: Path) -> None:
    for choice, (text, keywords) in CHOICES.items():
        emitter.write(parse(text), tmp_path / choice, **keywords)
    report = process("import", tmp_path)
    assert report == {"files": 2 * len(CHOICES), "imported": []}


F16 = "float16"
WIDE = [(F16, (33, 64), ""), (F16, (64,), "")]
ODD = [(F16, (33, 65), ""), (F16, (65,), "")]


def call(file: str, arrays: list[Any], out: int | None = None, scalars: tuple[float, ...] = ()) -> dict[str, Any]:
    return {"file": file, "arrays": arrays, "out": out, "scalars": scalars}


REQUESTS = {
    "wide": (WIDE, None),
    "again": (WIDE, None),
    "odd": (ODD, None),
    "unaligned": ([(F16, (33, 64), "unaligned"), WIDE[1]], None),
    "out": ([*WIDE, (F16, (33, 64), "")], 2),
    "empty": ([(F16, (0, 64), ""), WIDE[1]], None),
    "dtype": ([("float32", (33, 64), ""), WIDE[1]], None),
    "rank": ([WIDE[0], (F16, (1, 64), "")], None),
    "shape": ([WIDE[0], (F16, (63,), "")], None),
    "layout": ([(F16, (33, 64), "transposed"), WIDE[1]], None),
    "place": ([WIDE[0], (F16, (64,), "numpy")], None),
}


@pytest.fixture(scope="module")
def recorded(vendored: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """What each request launched, by file and name of the request."""
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    requests: dict[tuple[str, str], dict[str, Any]] = {}
    for file in ("cuda_launch.py", "triton_kernel.py"):
        path = f"bias_gelu/{file}"
        requests |= {
            (file, name): call(path, arrays, out) for name, (arrays, out) in REQUESTS.items() if name != "overlap"
        }
        requests[file, "causal"] = call(f"causal/{file}", [(F16, (2, 3, 5), "")], scalars=(0.5,))
        requests[file, "several"] = call(f"several/{file}", [("float32", (4, 8), ""), ("float32", (4, 1), "")])
        requests[file, "zero_d"] = call(f"zero_d/{file}", [("float32", (), "")], scalars=(0.1,))
    document = tmp_path_factory.mktemp("calls") / "calls.json"
    document.write_text(json.dumps(list(requests.values())), encoding="utf-8")
    return dict(zip(requests, process("record", vendored, document)["results"], strict=True))


@pytest.mark.parametrize("name", ["wide", "odd", "unaligned", "out"])
def test_a_cuda_launch_covers_the_output_with_right_arguments(recorded: Any, name: str) -> None:
    result = recorded["cuda_launch.py", name]
    source = emitter.emit(parse(BIAS_GELU), "cuda")
    (launched,) = result["calls"]
    columns = 65 if name == "odd" else 64
    vector = source.schedule.vector if name in ("wide", "out") else 1
    assert f"Li{vector}E" in launched["symbol"] and "bias_gelu" in launched["symbol"]
    width, height, depth = launched["block"]
    assert width * height == source.schedule.threads and depth == 1
    tiles = math.ceil(33 / (height * source.schedule.rows)) * math.ceil(columns / (width * vector))
    assert launched["grid"] == [tiles, 1, 1]
    pointers = [*result["pointers"], result["result"][0]]
    assert launched["arguments"] == [*(["pointer", p] for p in pointers), ["int32", 33.0], ["int32", float(columns)]]
    assert launched["stream"] == 7 and launched["shared"] == 0
    assert result["result"][1:] == [F16, [33, columns]]
    assert result["is_out"] == (name == "out")


@pytest.mark.parametrize("name", ["wide", "odd", "unaligned", "out"])
def test_a_triton_launch_covers_the_output_with_right_arguments(recorded: Any, name: str) -> None:
    result = recorded["triton_kernel.py", name]
    source = emitter.emit(parse(BIAS_GELU), "triton")
    (launched,) = result["calls"]
    columns = 65 if name == "odd" else 64
    assert launched["symbol"] == "bias_gelu"
    assert launched["block"] == [32 * source.num_warps, 1, 1]
    width = next(w for w in source.schedule.widths() if w >= columns)
    tiles = math.ceil(33 / (source.schedule.tile // width)) * math.ceil(columns / width)
    assert launched["grid"] == [tiles, 1, 1]
    pointers = [*result["pointers"], result["result"][0]]
    own = [*(["pointer", p] for p in pointers), ["int32", 33.0], ["int32", float(columns)]]
    scratch = launched["arguments"][len(own) :]
    assert launched["arguments"][: len(own)] == own
    assert len(scratch) in (1, 2) and all(s == ["uint64", 0.0] for s in scratch)


@pytest.mark.parametrize("file", ["cuda_launch.py", "triton_kernel.py"])
def test_an_instance_is_built_once(recorded: Any, file: str) -> None:
    assert recorded[file, "wide"]["loads"] == 1
    assert recorded[file, "again"]["loads"] == 0
    assert recorded[file, "odd"]["loads"] == 1
    assert recorded[file, "empty"]["calls"] == [] and recorded[file, "empty"]["loads"] == 0


@pytest.mark.parametrize("file", ["cuda_launch.py", "triton_kernel.py"])
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("dtype", "TypeError", "x: expected dtype float16, got float32"),
        ("rank", "ValueError", "b: expected 1 dims, got shape (1, 64)"),
        ("shape", "ValueError", "b: expected shape [N] = (64,), got (63,)"),
        ("layout", "ValueError", "x: expected a C-contiguous array"),
        ("place", "TypeError", "b: expected an array on a GPU, got numpy.ndarray; use cupy.asarray(x)"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_runs(
    recorded: Any, file: str, name: str, error: str, words: str
) -> None:
    result = recorded[file, name]
    assert result["raised"] == error and words in result["message"]
    assert result["calls"] == []


@pytest.mark.parametrize("file", ["cuda_launch.py", "triton_kernel.py"])
def test_scalars_several_outputs_and_no_dims(recorded: Any, file: str) -> None:
    (launched,) = recorded[file, "causal"]["calls"]
    assert ["float32", 0.5] in launched["arguments"]
    assert recorded[file, "causal"]["result"][1:] == ["float32", [2, 3, 5]]
    (launched,) = recorded[file, "several"]["calls"]
    assert sum(kind == "pointer" for kind, _ in launched["arguments"]) == 5
    (launched,) = recorded[file, "zero_d"]["calls"]
    assert launched["grid"] == [1, 1, 1]
    assert ["float32", float(np.float32(np.float16(0.1)))] in launched["arguments"], "rounded to f16, passed as f32"


CASES = {
    "bias_gelu": (
        BIAS_GELU,
        lambda r: [r.standard_normal((33, 1000)).astype(F16), r.standard_normal(1000).astype(F16)],
    ),
    "causal": (CAUSAL, lambda r: [r.standard_normal((3, 17, 32)).astype(F16), np.float32(0.125)]),
    "embedding": (
        EMBEDDING,
        lambda r: [
            r.standard_normal((50, 64)).astype(F16),
            np.array([0, 49, -1, 50, -51, 7]),
            r.standard_normal((6, 64)).astype(F16),
        ],
    ),
    "several": (SEVERAL, lambda r: [r.standard_normal((9, 40)).astype("f4"), r.standard_normal((9, 1)).astype("f4")]),
}


@pytest.mark.parametrize("name", CASES)
def test_files_run_alone_on_a_gpu(name: str, device: str, vendored: Path, tmp_path: Path) -> None:
    if device != "cuda":
        pytest.skip("runs on a GPU: --device cuda")
    text, make = CASES[name]
    inputs = make(np.random.default_rng(0))
    np.savez(tmp_path / "arrays.npz", **{f"a{k}": a for k, a in enumerate(inputs)})
    report = process("run", vendored / name, tmp_path / "arrays.npz")
    assert report["imported"] == []
    wanted = emitter.reference(parse(text), *inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    with np.load(tmp_path / "results.npz") as results:
        for file in ("cuda_launch", "triton_kernel"):
            for k, want in enumerate(wanted):
                got = results[f"{file}_{k}"]
                assert got.dtype == want.dtype and got.shape == want.shape
                tolerance = {"rtol": 2e-3, "atol": 1e-3} if want.dtype == F16 else {"rtol": 1e-6, "atol": 1e-6}
                np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), **tolerance)
