"""The command line end to end: what it writes and prints, exit codes, and mistakes in one line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import emitter
import launch.cli
from emitter.ops import OPS
from launch.cli import main
from launch.environment import CACHE_DIR

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
BIAS_GELU = str(EXAMPLES / "bias_gelu.toml")


def run(code: str) -> subprocess.CompletedProcess[str]:
    """A Python process with these lines, which finds the packages here."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_emit_writes_what_the_library_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", BIAS_GELU, "-o", str(tmp_path / "cli")]) == 0
    emitter.write(emitter.read(BIAS_GELU), tmp_path / "library")
    assert files_in(tmp_path / "cli" / "bias_gelu") == files_in(tmp_path / "library" / "bias_gelu")
    out, err = capsys.readouterr()
    assert {Path(line) for line in out.splitlines()} == {*(tmp_path / "cli" / "bias_gelu").iterdir()}
    assert err == f"bias_gelu: triton and cuda, 5 files in {tmp_path / 'cli' / 'bias_gelu'}\n"


def test_emit_goes_to_out_when_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["emit", BIAS_GELU, "--backend", "cuda"]) == 0
    assert {*files_in(tmp_path / "out" / "bias_gelu")} == {
        "cuda_kernel.cu",
        "cuda_launch.py",
        "group.toml",
        "manifest.json",
    }


def test_emit_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", BIAS_GELU, "-o", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["group"] == "bias_gelu"
    assert document["fingerprint"] == emitter.read(BIAS_GELU).fingerprint
    assert document["backends"] == ["triton", "cuda"]
    assert all(Path(path).is_file() for path in document["files"])
    assert main(["emit", BIAS_GELU, "--backend", "cuda", "-o", "-", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == dict(emitter.emit(emitter.read(BIAS_GELU), "cuda").files)


def test_emit_prints_one_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["emit", BIAS_GELU, "--backend", "triton", "-o", "-"]) == 0
    assert capsys.readouterr().out == dict(emitter.emit(emitter.read(BIAS_GELU), "triton").files)["triton_kernel.py"]
    assert main(["emit", BIAS_GELU, "--backend", "cuda", "-o", "-"]) == 0
    text = capsys.readouterr().out
    for name, content in emitter.emit(emitter.read(BIAS_GELU), "cuda").files:
        assert f"==> {name} <==\n{content}" in text
    assert not [*tmp_path.iterdir()]


CHOICES = {
    "bias_gelu.toml": [
        "",
        "--layout x=strided --static N=4096 --schedule tile=512",
        "--layout y=unit:0 --layout b=strided",
    ],
    "swiglu.toml": ["", "--schedule tile=64 --schedule vector=2", "--layout gate=unit:0 --schedule rows=3"],
    "causal_mask.toml": ["--static T=128 --static S=1", "--layout scores=unit:-1 --schedule columns=64"],
    "rotary.toml": ["--layout second_turned=strided --schedule threads=64 --schedule num_warps=2"],
    "embedding.toml": ["", "--layout table=unit:0 --static D=768 --schedule num_stages=4"],
}


@pytest.mark.parametrize(("example", "options"), [(e, o) for e, several in CHOICES.items() for o in several])
@pytest.mark.parametrize("backend", emitter.BACKENDS)
def test_the_banner_reproduces_its_file(
    example: str, options: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [str(EXAMPLES / example), "--backend", backend, "-o", str(tmp_path / "first")]
    assert main(["emit", *first, *options.split()]) == 0
    (folder,) = (tmp_path / "first").iterdir()
    written = files_in(folder)
    monkeypatch.chdir(folder)
    commands = {
        re.search(rb"Reproduce: kernelpress (.*)", b)[1] for n, b in written.items() if n.endswith((".py", ".cu"))
    }  # type: ignore[index]
    (command,) = commands
    assert main([*shlex.split(command.decode()), "-o", str(tmp_path / "again")]) == 0
    assert files_in(tmp_path / "again" / folder.name) == written


def test_emit_needs_no_gpu_library(tmp_path: Path) -> None:
    arguments = ["emit", BIAS_GELU, "-o", str(tmp_path)]
    blocked = "import sys; sys.modules.update(triton=None, cupy=None, torch=None); from launch.cli import main"
    done = run(f"{blocked}; sys.exit(main({arguments!r}))")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bias_gelu" / "triton_kernel.py").is_file()


def test_the_module_runs() -> None:
    command = [sys.executable, "-m", "launch.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == f"kernelpress {emitter.__version__}\n"


MISTAKES = [
    ("", "COMMAND"),
    ("forge", "invalid choice: 'forge'"),
    ("emit", "GROUP.toml"),
    ("emit missing.toml", "missing.toml: No such file"),
    ("emit .", "Is a directory"),
    ("emit bad.toml", "bad.toml is not TOML"),
    ("emit latin.toml", "latin.toml is not UTF-8"),
    ("emit {group} -o bad.toml", "bad.toml"),
    ("emit {group} -o -", "--backend triton or --backend cuda"),
    ("emit {group} --backend opencl", "invalid choice: 'opencl'"),
    ("emit {group} --layout z=strided", "'z'"),
    ("emit {group} --layout x=diagonal", "'diagonal'"),
    ("emit {group} --layout x", "expected NAME=VALUE"),
    ("emit {group} --layout x=strided --layout x=unit:0", "gives x twice"),
    ("emit {group} --static K=4", "'K'"),
    ("emit {group} --static N=many", "expected an integer for N"),
    ("emit {group} --static N=-4", "non-negative"),
    ("emit {group} --schedule warps=4", "knows no 'warps'"),
    ("emit {group} --schedule tile=500", "power of two"),
    ("check {group} --cases -1", "at least 0"),
    ("check {group} --seed x", "at least 0"),
    ("check {group} --target vulkan:1", "vulkan:1"),
    ("check {group} --target cpu:x86_64", "expected a cuda or hip target"),
    ("check {group} --backend cuda --target hip:gfx942", "expected a cuda target"),
    ("check missing.toml", "missing.toml: No such file"),
    ("ops gleu", "gelu"),
    ("ops swish", "silu"),
    ("ops a b", "unrecognized arguments"),
]


@pytest.mark.parametrize(("line", "shown"), MISTAKES)
def test_a_mistake_is_one_line(
    line: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("name = ", encoding="utf-8")
    Path("latin.toml").write_bytes(b"# caf\xe9")
    before = {*tmp_path.rglob("*")}
    assert main(line.format(group=BIAS_GELU).split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"kernelpress: error: .+\n", err)
    assert shown in err
    assert {*tmp_path.rglob("*")} == before


def test_no_file_is_written_before_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wide.toml").write_text(
        'name = "wide"\noutputs = ["y"]\n[inputs]\nx = "f32[2, 2, 2, 2, 2, 2, 2]"\n[body]\ny = "x + 1"\n',
        encoding="utf-8",
    )
    assert main(["emit", "wide.toml"]) == 2
    assert not Path("out").exists()


def test_no_gpu_is_a_mistake(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(launch.kernel, "has_gpu", lambda: False)
    assert main(["check", BIAS_GELU, "--device", "cuda"]) == 2
    assert "a GPU is not installed" in capsys.readouterr().err


def test_help_has_examples_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out
    for command in ("emit", "check", "ops", "env"):
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        examples = re.findall(r"^  kernelpress (.*)$", text, re.MULTILINE)
        assert examples
        for example in examples:
            assert launch.cli.parser().parse_args(shlex.split(example))


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split("(")[0] for line in lines] == [*OPS]
    assert re.search(r"^add\(x, y\) +\+ +IEEE", lines[0])
    assert main(["ops", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["ulp"] for row in document} == {name: d.ulp for name, d in OPS.items()}
    assert next(row for row in document if row["name"] == "where")["dtypes"]["i8"] == "i8"


@pytest.mark.parametrize("name", OPS)
def test_each_op_in_detail(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", name]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{OPS[name].call}\n  {OPS[name].doc}\n")
    bound = re.search(r"^bound: (.*)$", text, re.MULTILINE)
    assert bound is not None
    assert bound[1] in ("IEEE", "exact") if OPS[name].ulp is None else f"{OPS[name].ulp:g} ulp" in bound[1]


def test_an_op_by_its_symbol(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "//"]) == 0
    assert capsys.readouterr().out.startswith("floor_div(x, y)")


def test_env(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(CACHE_DIR, "/somewhere")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert main(["env"]) == 0
    text = capsys.readouterr().out
    assert f"now: {CACHE_DIR}=/somewhere\n" in text
    assert "TRITON_ALWAYS_COMPILE=1" in text
    assert main(["env", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[CACHE_DIR]["set"] == {CACHE_DIR: "/somewhere"}


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(emitter, "read", interrupted)
    assert main(["emit", BIAS_GELU]) == 130


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe before the process writes")
def test_nobody_reads() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "launch.cli", "ops", "--json"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141
