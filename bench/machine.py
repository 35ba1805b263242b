"""What a run took place on and with."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import emitter

PACKAGES = ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc", "numpy")


def machine(torch: Any) -> dict[str, str]:
    """The GPU, its driver and the host."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": str(properties.name),
        "multiprocessors": str(properties.multi_processor_count),
        "L2": f"{properties.L2_cache_size / 2**20:.0f} MiB",
        "driver": _driver(),
        "host": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
    }


def l2_bytes(torch: Any) -> int:
    """Size of the GPU's L2 cache."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def _driver() -> str:
    """The driver's version, as far as nvidia-smi tells."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        return "unknown"
    done = subprocess.run(query, capture_output=True, check=False, encoding="utf-8")
    return done.stdout.strip().partition("\n")[0] or "unknown"


def _processor() -> str:
    """The host's processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(also: Sequence[str] = ()) -> dict[str, str]:
    """Versions of kernelpress, Python and the packages that take part."""
    found = {"kernelpress": emitter.__version__, "python": platform.python_version()}
    for name in (*PACKAGES, *also):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def command(arguments: Sequence[str]) -> str:
    """The command line, without where the numbers were written to."""
    words: list[str] = []
    skip = False
    for word in arguments:
        if not skip and word != "--json" and not word.startswith("--json="):
            words.append(f"'{word}'" if " " in word else word)
        skip = word == "--json"
    return " ".join(["python -m bench.pointwise", *words])
