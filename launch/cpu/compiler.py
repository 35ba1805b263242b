"""The C++ compiler of this machine, and device text compiled with it into a shared object for the CPU."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from launch.environment import host_compiler_name
from launch.errors import CompileError, MissingLibrary

HEADERS = Path(__file__).parent
_KERNEL_FILE = "cuda_kernel.cu"
_NEEDED_FOR = "running CUDA C on the CPU"
_SHOWN = 3  # source lines on either side of an error

_USES_FIBERS = re.compile(r"\b__sync(?:threads|warp)|\b__\w+_sync\b")
_USES_DYNAMIC_SHARED = re.compile(r"\bextern\s+__shared__\s[^;\[]*?(\w+)\s*\[\s*\]")
_ERROR_LINE = re.compile(rf"^(?:.*/)?{re.escape(_KERNEL_FILE)}:(\d+)(?::\d+)?: (?:fatal )?error: ", re.MULTILINE)
_INSTANCE = re.compile(r"[A-Za-z_]\w*(?:::\w+)*(?:<[\w\s:,<>*-]+>)?")


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler: its command line's first words, its family, and its version as it prints it.

    machine: the target it compiles for. features: instruction sets of this CPU that generated code uses.
    """

    command: tuple[str, ...]
    kind: Literal["gcc", "clang", "zig"]
    version: str
    machine: str
    features: tuple[str, ...]

    @property
    def path(self) -> str:
        """The program that is run."""
        return self.command[0]

    @property
    def identity(self) -> str:
        """For cache keys: all that decides the binary beside the text and the options of `build_cpu`."""
        parts = (self.kind, self.version, self.machine, *self.command[1:], *self.features, _headers_hash())
        return "; ".join(parts)

    def flags(self, *, sanitize: bool, optimize: int) -> list[str]:
        """Options that turn the kernel's translation unit into a shared object with GPU-like arithmetic."""
        flags = [
            *("-std=c++17", f"-O{optimize}", "-shared", "-fPIC", "-fvisibility=hidden"),
            *("-fno-exceptions", "-fno-rtti", "-g0"),
            # As on the GPU: nothing contracted, integers wrap, vectors alias elements.
            *("-ffp-contract=off", "-fno-math-errno", "-fwrapv", "-fno-strict-aliasing"),
            # The header's long jumps leave fiber stacks, which checked ones refuse.
            *("-U_FORTIFY_SOURCE", "-fstack-clash-protection", "-w"),
            *(f"-m{feature}" for feature in self.features),
        ]
        if self.kind == "gcc":
            flags += ["-fmax-errors=5", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never"]
        else:
            flags += ["-ferror-limit=5", "-fno-caret-diagnostics", "-fno-color-diagnostics", "-nostdlib++"]
        if self.kind == "zig" and not sanitize:
            flags.append("-fno-sanitize=undefined")  # on by default there
        if sanitize:
            flags += ["-fsanitize=bounds,alignment,null", "-fsanitize-undefined-trap-on-error"]
        if sys.platform == "linux":
            flags.append("-Wl,-z,defs")
        return flags


def host_compiler() -> HostCompiler:
    """The C++ compiler here: what `CXX` names, else g++, clang++ or c++, else that of the package ziglang.

    Raises MissingLibrary when there is none, or the system is not POSIX.
    """
    return _host_compiler(host_compiler_name())


@functools.cache
def _host_compiler(chosen: str) -> HostCompiler:
    if os.name != "posix":
        raise MissingLibrary("a POSIX system", _NEEDED_FOR, "use Linux, macOS or WSL, or the Triton backend")
    if chosen:
        command = shlex.split(chosen)
        if shutil.which(command[0]) is None:
            missing = f"{command[0]!r}, which the environment variable CXX names,"
            raise MissingLibrary(missing, _NEEDED_FOR, "install it or unset CXX")
        return _inspect(command)
    for name in ("g++", "clang++", "c++"):
        path = shutil.which(name)
        if path is not None:
            return _inspect([path])
    if importlib.util.find_spec("ziglang") is not None:
        return _inspect([sys.executable, "-m", "ziglang", "c++"])
    way_out = "install g++, set CXX, or pip install ziglang"
    raise MissingLibrary("a C++ compiler (g++, clang++ or c++)", _NEEDED_FOR, way_out)


def _inspect(command: list[str]) -> HostCompiler:
    version = _ask(command, "--version")
    kind: Literal["gcc", "clang", "zig"] = "clang" if "clang" in version else "gcc"
    if "ziglang" in command or Path(command[0]).name == "zig":
        kind = "zig"
        version = f"zig {_ask([*command[:-1], 'version'])}, {version}"
    return HostCompiler(tuple(command), kind, version, _ask(command, "-dumpmachine"), _cpu_features())


def _ask(command: list[str], *question: str) -> str:
    """The first line of what a compiler prints about itself."""
    done = _run([*command, *question])
    if done.returncode != 0 or not done.stdout.strip():
        asked = shlex.join([*command, *question])
        raise MissingLibrary("a working C++ compiler", _NEEDED_FOR, f"`{asked}` said {done.stderr.strip()!r}")
    return done.stdout.splitlines()[0].strip()


def _run(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a compiler in `folder`, with messages in the language that is parsed here."""
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _cpu_features() -> tuple[str, ...]:
    """What this CPU has of the instructions for half conversions and fused multiplication."""
    cpuinfo = Path("/proc/cpuinfo")
    if platform.machine().lower() not in ("x86_64", "amd64") or not cpuinfo.exists():
        return ()
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)
    present = set(flags.group(1).split()) if flags else set()
    return tuple(feature for feature in ("f16c", "fma") if feature in present)


@functools.cache
def _headers_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(HEADERS.glob("cuda_cpu*.h")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build_cpu(
    device_text: str,
    instances: Sequence[str],
    *,
    sanitize: bool = False,
    optimize: int = 1,
    folder: Path | None = None,
    compiler: HostCompiler | None = None,
) -> bytes:
    """Compile CUDA C for this CPU; returns the shared object's bytes.

    device_text: a translation unit with no includes, as NVRTC takes it.
    instances: the kernels to export, as C++ template-ids (`"bias_gelu<int, 8>"`) or plain names.
    sanitize: accesses outside of static arrays, misaligned ones and those through null pointers trap.
    optimize: 0 to 3; 0 keeps every load where the text has it.
    folder: where temporary files go (default: the system's place). compiler: default `host_compiler()`.

    Raises CompileError, with the source lines around the error, and MissingLibrary when there is no compiler.
    """
    compiler = host_compiler() if compiler is None else compiler
    for instance in instances:
        if not _INSTANCE.fullmatch(instance):
            raise ValueError(f"{instance!r} is no kernel instance: expected a name, or one like 'f<int, 8>'")
    kernel = instances[0].split("<")[0] if instances else "no instances"
    for name in _USES_DYNAMIC_SHARED.findall(device_text):
        if name != "shared_memory":
            reason = f"the dynamic shared memory is called {name!r}: expected `shared_memory`"
            raise CompileError(kernel, "the CPU", reason)
    flags = compiler.flags(sanitize=sanitize, optimize=optimize)
    if _USES_FIBERS.search(device_text):
        flags.append("-DCUDA_CPU_FIBERS")
    if _USES_DYNAMIC_SHARED.search(device_text):
        flags.append("-DCUDA_CPU_DYNAMIC_SHARED")
    with tempfile.TemporaryDirectory(prefix="kernelpress-", dir=folder) as work:
        Path(work, _KERNEL_FILE).write_text(device_text, encoding="utf-8")
        Path(work, "module.cpp").write_text(_module_text(instances), encoding="utf-8")
        command = [*compiler.command, *flags, f"-I{HEADERS}", "-include", "cuda_cpu.h"]
        command += ["module.cpp", "-o", "module.so", "-lm"]
        done = _run(command, work)
        if done.returncode != 0:
            raise _compile_error(kernel, compiler, device_text, done.stderr.strip())
        return Path(work, "module.so").read_bytes()


def _module_text(instances: Sequence[str]) -> str:
    """The translation unit: the text as it is, what runs it, and the table of its instances."""
    rows = "\n".join(f'    cuda_cpu::exported<&{name}>("{name}"),' for name in instances)
    return (
        f'#include "{_KERNEL_FILE}"\n'
        '#include "cuda_cpu_launch.h"\n'
        f"static constexpr cuda_cpu::Export exports[] = {{\n{rows}\n}};\n"
        'extern "C" __attribute__((visibility("default")))\n'
        "const cuda_cpu::Module kernelpress_module = cuda_cpu::module_of(exports);\n"
    )


def _compile_error(kernel: str, compiler: HostCompiler, device_text: str, message: str) -> CompileError:
    target = f"the CPU by {compiler.version}"
    found = _ERROR_LINE.search(message)
    lines = device_text.splitlines()
    if found is None or int(found.group(1)) > len(lines):
        return CompileError(kernel, target, message)
    line = int(found.group(1))
    shown = range(max(1, line - _SHOWN), min(len(lines), line + _SHOWN) + 1)
    around = "\n".join(f"{'>' if n == line else ' '}{n:5d} | {lines[n - 1]}" for n in shown)
    return CompileError(kernel, target, f"{message}\n{around}", line, lines[line - 1])
