"""`load` and `Kernel`: from a group to something that can be called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

import emitter
from emitter.group import FusionGroup, TensorSpec
from emitter.layout import CONTIGUOUS, Layout, layout_of
from emitter.schedule import Backend, Schedule
from emitter.source import Instance, KernelSource
from emitter.verify import verify

from .artifact import Artifact, CacheKey
from .build import build_artifact, cpu_function, key_for, loaded
from .cache import Cache
from .errors import MissingLibrary
from .module import execute
from .targets import Target, current_target

Device = Literal["auto", "cpu", "cuda"]
LEVELS_TARGET = Target("cuda", "90")
"""What `levels` shows on a machine with no GPU."""


def load(
    group: FusionGroup | str | Path,
    backend: Backend = "cuda",
    *,
    device: Device = "auto",
    schedule: Schedule | None = None,
    static: Mapping[str, int] | None = None,
    cache: Cache | None = None,
) -> Kernel:
    """Emit `group` (or the description at that path) and make it callable.

    device: "cuda" runs on the GPU that holds the arrays, "cpu" on NumPy arrays (Triton through its
    interpreter, CUDA C compiled as C++), "auto" on a GPU when there is one. schedule: tunables, chosen when
    None. static: dims fixed to a size. cache: where binaries are kept; the user's cache folder when None.
    Compiling happens at the first call with new dtypes of indices, alignment or strides, through the cache.
    Raises the errors of `emitter.errors`, BadTarget, MissingLibrary.
    """
    if not isinstance(group, FusionGroup):
        group = emitter.read(group)
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}")
    if device == "auto":
        device = "cuda" if has_gpu() else "cpu"
    elif device == "cuda" and not has_gpu():
        raise MissingLibrary("a GPU", "device='cuda'", "use device='cpu', or a machine with a driver and CuPy")
    return Kernel(group, backend, device, schedule, static, cache or Cache.default())


def has_gpu() -> bool:
    """Whether CuPy is installed and finds a GPU."""
    try:
        import cupy

        return bool(cupy.cuda.is_available())
    except ImportError:
        return False


class Kernel:
    """A loaded group: call it with arrays and scalars in the order of the group's inputs.

    Arrays that are not C-contiguous get source of their own for their strides, emitted at the first such call:
    nothing is copied. `out=` gives the arrays to write to. Calls may come from several threads.
    """

    def __init__(
        self,
        group: FusionGroup,
        backend: Backend,
        device: Literal["cpu", "cuda"],
        schedule: Schedule | None,
        static: Mapping[str, int] | None,
        cache: Cache,
    ) -> None:
        self.group = group
        self.types = verify(group).types
        self.backend = backend
        self.device = device
        self.cache = cache
        self._choices = {"schedule": schedule, "static": static}
        self._variants: dict[tuple[Layout, ...], Variant] = {}
        self._lock = threading.RLock()
        self._tensors = [n for n, item in enumerate(group.inputs) if isinstance(item, TensorSpec)]
        self._default = self._variant((CONTIGUOUS,) * (len(self._tensors) + len(group.outputs)))

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        """Run the group. Raises TypeError or ValueError, naming the argument, before anything runs."""
        arrays = [arguments[n] for n in self._tensors if n < len(arguments)]
        outs = () if out is None else out if isinstance(out, tuple | list) else (out,)
        if all(map(_is_contiguous, arrays)) and all(map(_is_contiguous, outs)):
            return self._default(*arguments, out=out)
        filled = [*map(_layout, arrays)]
        filled += [CONTIGUOUS] * (len(self._tensors) - len(filled))
        filled += [*map(_layout, outs)] if outs else [CONTIGUOUS] * len(self.group.outputs)
        return self._variant(tuple(filled))(*arguments, out=out)

    def _variant(self, layouts: tuple[Layout, ...]) -> Variant:
        with self._lock:
            if layouts not in self._variants:
                names = [self.group.inputs[n].name for n in self._tensors] + list(self.group.outputs)
                chosen = dict(zip(names, layouts, strict=False))
                source = emitter.emit(self.group, self.backend, layouts=chosen, **self._choices)  # type: ignore[arg-type]
                self._variants[layouts] = Variant(self, source)
            return self._variants[layouts]

    @property
    def source(self) -> KernelSource:
        """The source for C-contiguous arrays."""
        return self._default.source

    @property
    def schedule(self) -> Schedule:
        """The schedule in force."""
        return self.source.schedule

    @property
    def target(self) -> Target:
        """What `key` and `levels` speak of: this GPU, or on the CPU an H100-class one."""
        return current_target() if self.device == "cuda" else LEVELS_TARGET

    @property
    def key(self) -> CacheKey:
        """The cache key of the usual instance."""
        return key_for(self.source, self.source.instances[0], self.target)

    @cached_property
    def levels(self) -> Mapping[str, str]:
        """Level name (`ttir`, `ttgir`, `llir`, `ptx`, `sass`, ...) to text, of the usual instance."""
        return self.artifact().levels

    def artifact(self, instance: Instance | None = None, target: Target | None = None) -> Artifact:
        """The compiled binary of an instance, from the cache or compiled now; needs no GPU for a given target."""
        return build_artifact(self.cache, self.source, instance or self.source.instances[0], target or self.target)


class Variant:
    """One emitted source and its imported host module."""

    def __init__(self, kernel: Kernel, source: KernelSource) -> None:
        self.kernel = kernel
        self.source = source
        if source.backend == "triton" and find_spec("triton") is None:
            raise MissingLibrary("Triton", "backend='triton'", "pip install 'kernelpress[cuda13]'")
        text = f"{source.device}\n\n{source.host}" if source.backend == "triton" else source.host
        self.module = execute(text, source.name)
        if kernel.device == "cpu":
            self.module["use_arrays"](np)
            self.module["build"] = self._build_cpu
            self._empty = self.module["empty"]
            self.module["empty"] = self._noting_memory
        else:
            self.module["build"] = self._build_gpu
        self._launch: Callable[..., Any] = self.module["launch"]
        self._call = threading.local()

    def __call__(self, *arguments: Any, out: Any) -> Any:
        if self.kernel.device == "cpu":
            outs = out if isinstance(out, tuple | list) else [out]
            self._call.arrays = [a for a in (*arguments, *outs) if isinstance(a, np.ndarray)]
        return self._launch(*arguments, out=out)

    def _noting_memory(self, *arguments: Any) -> Any:
        """The host code's `empty`, which notes what memory the call may use."""
        array = self._empty(*arguments)
        self._call.arrays.append(array)
        return array

    def _build_gpu(self, index: Any, vector: int, tile: tuple[int, ...]) -> Callable[..., None]:
        instance = Instance(index, vector, tile)
        artifact = build_artifact(self.kernel.cache, self.source, instance, current_target())
        return loaded(artifact, self.module["load_binary"])

    def _build_cpu(self, index: Any, vector: int, tile: tuple[int, ...]) -> Callable[..., None]:
        instance = Instance(index, vector, tile)
        function = cpu_function(self.kernel.cache, self.source, instance, self.module)
        return partial(self._run_cpu, function) if self.source.backend == "triton" else function

    def _run_cpu(self, function: Any, grid: Any, block: Any, arguments: tuple[Any, ...], stream: Any) -> None:
        """Run the interpreter with the byte range of each pointer, so that no access leaves its array."""
        ranges: dict[int, tuple[int, int]] = {}
        for array in self._call.arrays:
            low, high = _byte_range(array)
            other = ranges.get(array.ctypes.data, (low, high))
            ranges[array.ctypes.data] = min(low, other[0]), max(high, other[1])
        pointers = [a for a, p in zip(arguments, self.source.params, strict=True) if p.kind == "pointer"]
        function(grid, block, arguments, stream, [ranges[pointer] for pointer in pointers])


def _byte_range(array: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _is_contiguous(array: Any) -> bool:
    """Whether an array is C-contiguous; also True of what is no array, which the host code then refuses."""
    if hasattr(array, "is_contiguous"):  # torch
        return bool(array.is_contiguous())
    flags = getattr(array, "flags", None)
    return True if flags is None else bool(flags.c_contiguous)


def _layout(array: Any) -> Layout:
    """The layout class of an array; contiguous for what is none, which the host code then refuses."""
    if _is_contiguous(array):
        return CONTIGUOUS
    if hasattr(array, "stride"):  # torch
        return layout_of(tuple(array.shape), tuple(array.stride()))
    itemsize = array.dtype.itemsize
    return layout_of(tuple(array.shape), tuple(s // itemsize for s in array.strides))
