"""Known bad surroundings, each in a process of its own: locales, odd paths, missing tools, no torch (by case id)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launches import described

import emitter

GROUP = described("x: f32[N]; w: f32[N]", {"y": "x * w"})

SCRIPT = """
import json, locale, sys
sys.modules["torch"] = None
before = [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()]
import numpy as np
import emitter, launch
from pathlib import Path

report = {}
group = emitter.parse(sys.argv[1])
folder = Path.home() / "out"
report["files"] = [path.name for path in emitter.write(group, folder)]
report["ascii"] = all(path.read_bytes().isascii() for path in folder.rglob("*") if path.is_file())
x = np.arange(5, dtype=np.float32)
for backend in emitter.BACKENDS:
    try:
        kernel = launch.load(group, backend, device="cpu")
        report[backend] = kernel(x, x).tolist()
    except launch.errors.MissingLibrary as error:
        report[backend] = str(error)
    try:
        artifact = kernel.artifact(target=launch.Target.parse("cuda:80"))
        report[backend + " artifact"] = [str(artifact.target), artifact.binary[:4] == b"\\x7fELF"]
    except launch.errors.MissingLibrary as error:
        report[backend + " artifact"] = str(error)
report["locale"] = before == [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()]
report["imported"] = [m for m in ("torch",) if sys.modules.get(m)]
print(json.dumps(report))
"""


def report_of(home: Path, **environment: str) -> dict[str, Any]:
    """What the script prints in that home folder; the code cache lies in it."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_PATH")}
    chosen = {"HOME": str(home), "KERNELPRESS_CACHE_DIR": str(home / "cäche dir"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, emitter.to_toml(GROUP)],
        env=kept | chosen | environment,
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def abroad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A home with a name beyond ASCII, in the C locale."""
    home = tmp_path_factory.mktemp("home") / "Tëst 测"
    yield report_of(home, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert list((home / "cäche dir").glob("v1/*/*/*/meta.json"))


def test_paths_and_locales_beyond_ascii(abroad: dict[str, Any]) -> None:
    """D05."""
    assert abroad["triton"] == abroad["cuda"] == [0, 1, 4, 9, 16]
    assert abroad["ascii"] and abroad["locale"]
    assert len(abroad["files"]) == 5


def test_compiling_ahead_of_time_with_no_gpu(abroad: dict[str, Any]) -> None:
    """E02: for the target that was asked for."""
    assert abroad["triton artifact"] == abroad["cuda artifact"] == ["cuda:80", True]


def test_no_torch(abroad: dict[str, Any]) -> None:
    """E03: blocked, and not missed."""
    assert abroad["imported"] == []


def test_no_host_compiler(tmp_path: Path) -> None:
    """E02: emission, Triton and cross-compilation work; what is missing is named with the way out."""
    report = report_of(tmp_path / "home", PATH=str(tmp_path))
    assert report["triton"] == [0, 1, 4, 9, 16]
    assert report["triton artifact"] == report["cuda artifact"] == ["cuda:80", True]
    if isinstance(report["cuda"], str):  # else the package ziglang is there
        assert "C++ compiler" in report["cuda"] and "install g++" in report["cuda"]
    assert len(report["files"]) == 5
