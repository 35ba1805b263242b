"""A key, an artifact for it and the tools that the cache tests share; imported by their child processes too."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import emitter.source
from launch.artifact import Artifact, CacheKey
from launch.cache import Cache
from launch.errors import CacheWarning
from launch.targets import Target

ROOT = Path(emitter.source.__file__).parents[1]

KEY = CacheKey(
    schema=1,
    backend="cuda",
    entry="bias_gelu",
    device="// größer als ASCII\n__global__ void bias_gelu() {}\n",
    params=(("x_ptr", "pointer", "f16", True), ("N", "size", "", False)),
    index="i32",
    vector=8,
    tile=(4, 256),
    tile_names=("BLOCK_M", "BLOCK_N"),
    options=(("--fmad", "false"), ("--std", "c++17")),
    target="cuda:90",
    compiler="nvrtc 13.5",
)
CHANGED: dict[str, Any] = {
    "schema": 2,
    "backend": "triton",
    "entry": "gelu_bias",
    "device": KEY.device.replace("{}", "{ }"),
    "params": (("x_ptr", "pointer", "bf16", True), ("N", "size", "", False)),
    "index": "i64",
    "vector": 1,
    "tile": (8, 256),
    "tile_names": ("BLOCK_N", "BLOCK_M"),
    "options": (("--fmad", "true"), ("--std", "c++17")),
    "target": "cuda:90a",
    "compiler": "nvrtc 12.8",
}


def artifact(key: CacheKey = KEY, filling: bytes = b"\x7fELF\x00\xff") -> Artifact:
    return Artifact(
        backend=key.backend,
        target=Target.parse(key.target),
        entry="_Z9bias_geluv",
        binary=filling * 100,
        kind="cubin",
        num_warps=4,
        shared=1024,
        scratch=2,
        texts={"ptx": "// ptx, größer\r\n.entry", "ttir": "module {}"},
    )


def entry(folder: Path, key: CacheKey = KEY) -> Path:
    return folder / "v1" / key.backend / key.digest[:2] / key.digest


def filled(tmp_path: Path) -> Path:
    """A cache folder that holds the artifact of KEY."""
    Cache(tmp_path / "cache").put(KEY, artifact())
    return tmp_path / "cache"


@contextmanager
def one_warning(*parts: str) -> Iterator[None]:
    """Exactly one warning comes, names each part, and says how to choose another folder."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(w.message) for w in caught if issubclass(w.category, CacheWarning)]
    assert len(texts) == 1, texts
    assert all(part in texts[0] for part in (*parts, "KERNELPRESS_CACHE_DIR")), texts


def heals(folder: Path) -> None:
    """The entry of KEY is a miss; one compilation repairs it for every later process."""
    assert Cache(folder).get(KEY) is None
    assert Cache(folder).get_or_compile(KEY, artifact) == artifact()
    assert Cache(folder).get(KEY) == artifact()
    assert [p.name for p in entry(folder).parent.iterdir()] == [KEY.digest]


def compile_nothing() -> Artifact:
    raise AssertionError("must not compile")


def python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
