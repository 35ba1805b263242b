"""Compile an emitted CUDA C kernel to a cubin through NVRTC, with no GPU and no include path."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from typing import Any

from emitter.source import Instance, KernelSource

from .artifact import Artifact, CacheKey
from .errors import BadTarget, CompileError, MissingLibrary
from .targets import Target

_DEFAULTS = {"--std": "c++17", "--fmad": "false"}
_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_INSTALL = "pip install 'kernelpress[cuda13]' (cuda12 for a CUDA 12 driver)"


def cuda_key(source: KernelSource, instance: Instance, target: Target) -> CacheKey:
    """What the binary of `compile_cuda` with these arguments depends on."""
    return CacheKey.of(source, instance, target, _options(source, target).items(), _identity())


def compile_cuda(source: KernelSource, instance: Instance, target: Target) -> Artifact:
    """Compile one instance of a CUDA C kernel for a cuda target; the artifact's levels are `ptx` and `sass`.

    Raises CompileError with NVRTC's log and the source line, BadTarget for another kind of target,
    MissingLibrary when CuPy or NVRTC is not installed.
    """
    options = [f"{name}={value}" if value else name for name, value in _options(source, target).items()]
    nvrtc = _nvrtc()
    name = _name(source, instance)
    file = f"{source.entry}.cu"
    program = nvrtc.createProgram(source.device, file, (), ())
    try:
        nvrtc.addNameExpression(program, name)
        try:
            nvrtc.compileProgram(program, tuple(options))
        except nvrtc.NVRTCError as error:
            raise _explain(source, target, file, nvrtc.getProgramLog(program) or str(error)) from error
        entry = nvrtc.getLoweredName(program, name)
        ptx = nvrtc.getPTX(program)
        binary = nvrtc.getCUBIN(program) + b"\0"  # CuPy takes a cubin for text and cuts its last byte off
    finally:
        nvrtc.destroyProgram(program)
    return Artifact(
        backend="cuda",
        target=target,
        entry=entry,
        binary=binary,
        kind="cubin",
        num_warps=0,
        shared=0,
        scratch=0,
        texts={"ptx": ptx.decode("utf-8")},
    )


def _options(source: KernelSource, target: Target) -> dict[str, str]:
    """Every option given to NVRTC: ours, then the source's; a flag has an empty value."""
    if target.kind != "cuda":
        raise BadTarget(f"kernel {source.entry!r}: NVRTC compiles for cuda targets, not for {target}")
    return {"-arch": target.processor} | _DEFAULTS | dict(source.options)


def _name(source: KernelSource, instance: Instance) -> str:
    """NVRTC's name expression of the instance; a kernel that is no template has only its plain name."""
    template = rf"\btemplate\s*<[^<>]*>\s*__global__\b[^{{}};]*\b{re.escape(source.entry)}\s*\("
    return source.cuda_name(instance) if re.search(template, source.device) else source.entry


def _nvrtc() -> Any:
    """CuPy's binding of NVRTC, which finds the library in the wheels or the system."""
    try:
        from cupy.cuda import nvrtc
    except ImportError as error:
        raise MissingLibrary("CuPy", "compiling CUDA C", _INSTALL) from error
    try:
        nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        install = f"{_INSTALL}, or the wheel {_WHEELS[0]}; loading it said: {error}"
        raise MissingLibrary("NVRTC", "compiling CUDA C", install) from error
    return nvrtc


@functools.cache
def _identity() -> str:
    """NVRTC's version; the library tells only the first two parts, so a wheel adds its own."""
    major, minor = _nvrtc().getVersion()
    wheels = []
    for name in _WHEELS:
        try:
            wheels.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return " ".join([f"nvrtc {major}.{minor}", *wheels])


def _explain(source: KernelSource, target: Target, file: str, log: str) -> CompileError:
    found = re.search(rf"^{re.escape(file)}\((\d+)\): (?:catastrophic )?error", log, re.MULTILINE)
    if found is None:
        return CompileError(source.entry, str(target), log)
    line = int(found.group(1))
    lines = source.device.splitlines()
    return CompileError(source.entry, str(target), log, line, lines[line - 1] if line <= len(lines) else "")
