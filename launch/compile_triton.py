"""Compile an emitted Triton kernel to a binary, with no GPU, no torch and nothing left on disk.

Triton's stages are run here one after another, as `triton.compile` does, but without its cache: that one
hashes the whole Triton installation first, and keeps its results in the user's home.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import re
import traceback
from pathlib import Path
from typing import Any

from emitter.source import Instance, KernelSource, ParamSpec

from .artifact import Artifact, BinaryKind, CacheKey
from .environment import INTERPRET, triton_interprets
from .errors import BadTarget, CompileError, MissingLibrary
from .module import execute
from .targets import Target

INDEX = "INDEX"
"""The kernel argument that takes the index type, where a kernel has it."""

_POINTERS = {
    "bool": "i1",
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "fp32",
    "f64": "fp64",
    "f8e4m3": "u8",
    "f8e5m2": "u8",
}
_DEFAULTS = {"enable_fp_fusion": False, "enable_reflect_ftz": False}
_NO_EFFECT = {
    "always_compile", "store_binary_only", "override", "dump_ir", "use_ir_loc", "front_end_debugging",
    "cuobjdump", "nvdisasm", "libcuda_path", "libhip_path",
}  # fmt: skip
"""Settings of what is not used here: `triton.compile`, its cache, disassembling, launching."""


def triton_key(source: KernelSource, instance: Instance, target: Target) -> CacheKey:
    """What the binary of `compile_triton` with these arguments depends on."""
    backend = _backend(source, target)
    options = [(name, str(value)) for name, value in _options(source, target, backend).items()]
    return CacheKey.of(source, instance, target, options, _identity())


def compile_triton(source: KernelSource, instance: Instance, target: Target) -> Artifact:
    """Compile one instance of a Triton kernel for a cuda or hip target.

    Raises CompileError with the compiler's message and the source line, BadTarget for a CPU target,
    MissingLibrary when Triton is not installed.
    """
    backend = _backend(source, target)
    options = _options(source, target, backend)
    try:
        return _compile(source, instance, target, backend, options)
    except CompileError:
        raise
    except Exception as error:  # whatever Triton's stages raise, the kernel does not compile
        raise _explain(source, target, error) from error


def signature(params: tuple[ParamSpec, ...], instance: Instance) -> dict[str, str]:
    """Triton's type of each parameter: *fp16, *i1 (bool), *u8 (fp8 too), i32 or i64 for sizes and strides.

    A bool scalar is "u1": one byte in the launch. Narrow float scalars arrive as fp32.
    """
    return {param.name: _type(param, instance) for param in params}


def _type(param: ParamSpec, instance: Instance) -> str:
    dtype = param.dtype
    if dtype is None:
        return instance.index
    if param.kind == "pointer":
        return "*" + _POINTERS.get(dtype.name, dtype.name)
    return "u1" if dtype.kind == "bool" else _POINTERS.get(dtype.compute.name, dtype.compute.name)


def _compile(
    source: KernelSource, instance: Instance, target: Target, backend: Any, options: dict[str, object]
) -> Artifact:
    from triton._C.libtriton import ir
    from triton.compiler import ASTSource

    fn = _kernel(source, target)
    types, constexprs = _arguments(source, instance, target, fn)
    attributes = {
        (i,): [["tt.divisibility", 16]] for i, p in enumerate(source.params) if p.divisible and instance.vector > 1
    }
    tree = ASTSource(fn, types, constexprs, attributes)
    parsed = backend.parse_options(dict(options))

    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, tree.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    metadata: dict[str, Any] = dict(vars(parsed), target=backend.target)
    module: Any = tree.make_ir(
        backend.target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context
    )
    texts = {}
    for level, stage in stages.items():
        module = stage(module, metadata)
        if not isinstance(module, bytes):
            texts[level] = str(module)
    kind: BinaryKind = "cubin" if target.kind == "cuda" else "hsaco"
    entry = metadata["name"]
    count = _ptx_parameters(texts["ptx"], entry) if kind == "cubin" else _amd_parameters(texts["amdgcn"])
    return Artifact(
        backend="triton",
        target=target,
        entry=entry,
        binary=module,
        kind=kind,
        num_warps=metadata["num_warps"],
        shared=metadata["shared"],
        scratch=count - len(source.params),
        texts=texts,
    )


def _kernel(source: KernelSource, target: Target) -> Any:
    """The jitted kernel function of the device text."""
    if triton_interprets():
        reason = f"{INTERPRET} is set, and then Triton only interprets: unset it before starting Python"
        raise CompileError(source.entry, str(target), reason)
    fn = execute(source.device, source.entry).get(source.entry)
    if fn is None:
        raise CompileError(source.entry, str(target), f"the device text defines no function {source.entry!r}")
    return fn


def _arguments(
    source: KernelSource, instance: Instance, target: Target, fn: Any
) -> tuple[dict[str, str], dict[str, Any]]:
    """Types of all arguments in order, and the values of the compile-time ones."""
    import triton.language as tl

    values = dict(zip(source.tile_names, instance.tile, strict=True))
    if INDEX in fn.arg_names:
        values = {INDEX: tl.int32 if instance.index == "i32" else tl.int64} | values
    types = signature(source.params, instance) | dict.fromkeys(values, "constexpr")
    if len(types) != len(fn.arg_names) or set(types) != set(fn.arg_names):
        reason = f"the kernel takes ({', '.join(fn.arg_names)}), its description gives ({', '.join(types)})"
        raise CompileError(source.entry, str(target), reason)
    if list(fn.arg_names[: len(source.params)]) != [p.name for p in source.params]:
        reason = f"the kernel takes ({', '.join(fn.arg_names)}), but is launched with ({', '.join(types)})"
        raise CompileError(source.entry, str(target), reason)
    return types, values


def _backend(source: KernelSource, target: Target) -> Any:
    """Triton's compiler for a target."""
    if target.kind == "cpu":
        raise BadTarget(f"kernel {source.entry!r}: Triton compiles for cuda and hip targets, not for {target}")
    try:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import make_backend
    except ImportError as error:
        install = "pip install 'kernelpress[cuda13]' (cuda12 for a CUDA 12 driver), or pip install triton"
        raise MissingLibrary("Triton", f"compiling for {target}", install) from error
    arch: int | str = target.capability if target.kind == "cuda" else target.processor
    return make_backend(GPUTarget(target.kind, arch, target.warp_size))


def _options(source: KernelSource, target: Target, backend: Any) -> dict[str, object]:
    """Every option given to Triton: ours, then the source's. With the architecture no variable changes it."""
    from triton import knobs

    known = set(backend.parse_options({"enable_fp_fusion": False}).__dataclass_fields__)
    arch = f"sm{target.capability}" if target.kind == "cuda" else target.processor
    given: dict[str, object] = {"num_warps": source.num_warps, "num_stages": source.num_stages, "arch": arch}
    given |= {name: value for name, value in _DEFAULTS.items() if name in known}
    if "ptx_options" in known:
        given["ptx_options"] = knobs.nvidia.ptxas_options or ""
    for name, text in source.options:
        if name not in known:
            reason = f"this version of Triton has no option {name!r} there; it has {', '.join(sorted(known))}"
            raise CompileError(source.entry, str(target), reason)
        given[name] = _value(text)
    return given


def _value(text: str) -> object:
    """An option's value: a Python literal, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _identity() -> str:
    """Triton's version, and each of its settings that is not at its default and may change a binary."""
    import triton
    from triton import knobs
    from triton._C.libtriton import get_cache_invalidating_env_vars

    defaults: dict[str, str] = {}
    changed: dict[str, str] = {}
    for group in (knobs.compilation, knobs.language, knobs.nvidia, knobs.amd):
        for name, knob in group.knob_descriptors.items():
            defaults[knob.key] = _text(getattr(knob, "default", None))
            if name in _NO_EFFECT:
                continue
            tool = isinstance(knob, knobs.env_nvidia_tool)  # reading one runs it, so only its variable is read
            value = _text(os.environ.get(knob.key) if tool else getattr(group, name))
            if value != defaults[knob.key]:
                changed[knob.key] = value
    for name, value in get_cache_invalidating_env_vars().items():
        if name not in defaults and value != "false":
            changed[name] = _text(value)
    if knobs.compilation.instrumentation_mode:
        changed["TRITON_INSTRUMENTATION_MODE"] = knobs.compilation.instrumentation_mode
    hook = knobs.runtime.add_stages_inspection_hook
    if hook is not None:
        changed["stages hook"] = f"{hook.__module__}.{hook.__qualname__}"
    return " ".join([f"triton {triton.__version__}", *(f"{name}={value}" for name, value in sorted(changed.items()))])


def _text(value: object) -> str:
    """A setting as text: a file stands for its contents, so that where it lies does not matter."""
    if isinstance(value, str) and Path(value).is_file():
        return _file_hash(value)
    return str(value)


@functools.cache
def _file_hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _ptx_parameters(ptx: str, entry: str) -> int:
    """How many parameters the entry takes: Triton adds scratch pointers after the kernel's own."""
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    return found.group(1).count(".param") if found else 0


def _amd_parameters(assembly: str) -> int:
    """The same from AMD's metadata, without the hidden ones, which the driver fills."""
    return len(re.findall(r"^\s*(?:- )?\.value_kind:\s+(?!hidden_)", assembly, re.MULTILINE))


def _explain(source: KernelSource, target: Target, error: Exception) -> CompileError:
    """The innermost message of Triton's chain of errors, with the line of the device text it is about."""
    from triton.compiler import CompilationError

    chain: list[BaseException] = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    last = chain[-1]
    stages = [e for e in chain if isinstance(e, CompilationError)]
    reason = (stages and last is stages[-1] and last.error_message) or f"{type(last).__name__}: {last}"
    line = _line(source, last)
    for stage in stages:
        # Triton counts from the function's own first line, and keeps the function's text.
        before, function, _ = source.device.partition(stage.src or "")
        if function and hasattr(stage.node, "lineno"):
            line = before.count("\n") + stage.node.lineno
    lines = source.device.splitlines()
    text = lines[line - 1] if line is not None and line <= len(lines) else ""
    return CompileError(source.entry, str(target), reason, line, text)


def _line(source: KernelSource, error: BaseException) -> int | None:
    """The line of the device text at which executing it as a module failed."""
    if isinstance(error, SyntaxError):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame.lineno for frame in frames if frame.filename.startswith(f"<kernelpress {source.entry} ")]
    return inside[-1] if inside else None
