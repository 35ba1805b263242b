"""The wheel: what is in it, and that it works where no checkout is; and which packages `emitter` needs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import jinja2
import markupsafe
import ml_dtypes
import numpy as np
import pytest

import emitter
from emitter.templates import template_folder

ROOT = Path(__file__).parent.parent
NEEDED = {"emitter", "jinja2", "markupsafe", "ml_dtypes", "numpy"}


def run(command: Sequence[object], cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    if importlib.util.find_spec("hatchling") is not None:
        command.append("--no-build-isolation")  # else pip fetches hatchling
    run([*command, ROOT], folder)
    (built,) = folder.glob("kernelpress-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel and its dependencies, and without the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = folder / scripts / "python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel], folder)
    packages = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip())
    places = {Path(m.__file__).parent.parent for m in (jinja2, markupsafe, ml_dtypes, np)}
    (packages / "dependencies.pth").write_text("".join(f"{place}\n" for place in sorted(places)), encoding="utf-8")
    return python


def test_the_wheel_holds_the_packages_and_the_templates_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    assert {n.split("/")[0] for n in names} == {"emitter", "launch", f"kernelpress-{emitter.__version__}.dist-info"}
    folder = template_folder()
    templates = {f"emitter/templates/{p.relative_to(folder).as_posix()}" for p in folder.rglob("*.*") if p.is_file()}
    assert templates <= set(names)
    headers = {f"launch/cpu/{p.name}" for p in (ROOT / "launch" / "cpu").glob("*.h")}
    assert headers and headers <= set(names)
    modules = {p.relative_to(ROOT).as_posix() for name in ("emitter", "launch") for p in (ROOT / name).rglob("*.py")}
    assert modules <= set(names)
    assert "License-Expression: Apache-2.0" in metadata
    required = {line.split()[1].split(">")[0] for line in metadata.splitlines() if line.startswith("Requires-Dist")}
    assert {"jinja2", "ml-dtypes", "numpy"} <= {r.replace("_", "-") for r in required}


def test_the_installed_package_emits_from_its_own_templates(python: Path, tmp_path: Path) -> None:
    script = """
import emitter, sys
from emitter.templates import template_folder
group = emitter.read(sys.argv[1])
paths = emitter.write(group, "out")
print(emitter.__file__)
print(template_folder())
print(*sorted(p.name for p in paths))
print(*[m for m in ("triton", "cupy", "torch", "launch") if m in sys.modules], "none")
"""
    lines = run([python, "-c", script, ROOT / "examples" / "bias_gelu.toml"], tmp_path).splitlines()
    package, templates = Path(lines[0]).parent, Path(lines[1])
    assert ROOT not in package.parents and templates == package / "templates"
    assert lines[2].split() == ["cuda_kernel.cu", "cuda_launch.py", "group.toml", "manifest.json", "triton_kernel.py"]
    assert lines[3].strip() == "none", "emitter imports no GPU library"
    here = emitter.write(emitter.read(ROOT / "examples" / "bias_gelu.toml"), tmp_path / "here")
    for path in here:
        assert path.read_bytes() == (tmp_path / "out" / "bias_gelu" / path.name).read_bytes()


def test_the_installed_command_emits(python: Path, tmp_path: Path) -> None:
    command = python.with_name("kernelpress")
    run([command, "emit", ROOT / "examples" / "bias_gelu.toml", "-o", "out"], tmp_path)
    written = sorted(p.name for p in (tmp_path / "out" / "bias_gelu").iterdir())
    assert written == ["cuda_kernel.cu", "cuda_launch.py", "group.toml", "manifest.json", "triton_kernel.py"]
    assert "emit" in run([command, "--help"], tmp_path)


def test_the_emitter_needs_three_packages(tmp_path: Path) -> None:
    script = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first not in sys.stdlib_module_names and first not in {sorted(NEEDED)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
import emitter
group = emitter.read(sys.argv[1])
for backend in emitter.BACKENDS:
    assert group.name in emitter.emit(group, backend).device
x, b = np.ones((2, 3), np.float16), np.ones(3, np.float16)
assert emitter.reference(group, x, b).shape == (2, 3)
foreign = {{m.partition(".")[0] for m in sys.modules}} - set(sys.stdlib_module_names) - {{"__main__"}}
print(*sorted(m for m in foreign if not m.startswith("_")))
"""
    path = ["-I", "-c", script, ROOT / "examples" / "bias_gelu.toml"]
    assert set(run([sys.executable, *path], tmp_path).split()) <= NEEDED | {"cython_runtime", "sitecustomize"}


def test_the_checkout_uses_its_own_templates() -> None:
    assert template_folder() == ROOT / "templates"
    assert Path(sysconfig.get_path("purelib")) not in Path(emitter.__file__).parents
