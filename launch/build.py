"""Building function handles: through the cache, for a GPU or for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from emitter.source import Instance, KernelSource

from .artifact import Artifact, CacheKey
from .cache import Cache
from .compile_cuda import compile_cuda, cuda_key
from .compile_triton import compile_triton, signature, triton_key
from .cpu.compiler import build_cpu, host_compiler
from .cpu.cuda import CpuModule, load_cpu
from .targets import Target

_CPU_OPTION = ("sanitize", "alignment")
"""A misaligned vector access faults on a GPU, so on the CPU, which would let it pass, it traps."""


def key_for(source: KernelSource, instance: Instance, target: Target) -> CacheKey:
    """What the binary of this instance for this target depends on."""
    if target.kind == "cpu":
        return CacheKey.of(source, instance, target, (*source.options, _CPU_OPTION), host_compiler().identity)
    key = triton_key if source.backend == "triton" else cuda_key
    return key(source, instance, target)


def build_artifact(store: Cache, source: KernelSource, instance: Instance, target: Target) -> Artifact:
    """The artifact of one instance, from the cache or compiled now. Raises CompileError, MissingLibrary."""
    compilers = {"triton": compile_triton, "cuda": compile_cuda}
    compile = _compile_cpu if target.kind == "cpu" else compilers[source.backend]
    return store.get_or_compile(key_for(source, instance, target), lambda: compile(source, instance, target))


def loaded(artifact: Artifact, load_binary: Callable[..., Callable[..., None]]) -> Callable[..., None]:
    """The function handle of a binary on the current GPU, by the generated host module's own loader."""
    return load_binary(artifact.binary, artifact.entry, artifact.shared, artifact.scratch)


def cpu_function(store: Cache, source: KernelSource, instance: Instance, module: dict[str, Any]) -> Callable[..., None]:
    """The function handle that runs one instance on the CPU."""
    if source.backend == "triton":
        import triton.language as tl

        from .cpu.triton import interpret

        constants = {"INDEX": tl.int64 if instance.index == "i64" else tl.int32}
        constants |= dict(zip(source.tile_names, instance.tile, strict=True))
        types = list(signature(source.params, instance).values())
        return interpret(module, source.entry, types, constants)
    artifact = build_artifact(store, source, instance, Target.host())
    return _cpu_module(artifact.binary, source.cuda_name(instance)).function(source.cuda_name(instance))


@cache
def _cpu_module(binary: bytes, name: str) -> CpuModule:
    return load_cpu(binary, [name])


def _compile_cpu(source: KernelSource, instance: Instance, target: Target) -> Artifact:
    name = source.cuda_name(instance)
    return Artifact(
        backend="cuda",
        target=target,
        entry=name,
        binary=build_cpu(source.device, [name], sanitize=True),
        kind="so",
        num_warps=1,
        shared=0,
        scratch=0,
        texts={},
    )
