"""kernelpress emitter: a fusion group's description to readable Triton and CUDA C, with host code.

    group = emitter.read("examples/bias_gelu.toml")
    source = emitter.emit(group, backend="triton")
    want = emitter.reference(group, x, b)

Every op of the table (`emitter.gelu`, `emitter.where`, ...) is a function for use inside `@emitter.group`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .emit import BACKENDS, emit, write
from .errors import KernelpressError, UnknownOp
from .group import FusionGroup, Node, ScalarSpec, TensorSpec
from .layout import Layout
from .ops import OPS, op
from .read import parse, read, to_toml
from .reference import reference
from .schedule import Schedule
from .source import KernelSource
from .trace import Value, call, dim, group
from .version import VERSION as __version__

__all__ = [
    "BACKENDS",
    "OPS",
    "FusionGroup",
    "KernelSource",
    "KernelpressError",
    "Layout",
    "Node",
    "ScalarSpec",
    "Schedule",
    "TensorSpec",
    "__version__",
    "dim",
    "emit",
    "group",
    "parse",
    "read",
    "reference",
    "to_toml",
    "write",
]


def __getattr__(name: str) -> Callable[..., Value]:
    if name in OPS:
        return partial(call, name)
    hint = ""
    if not name.startswith("_"):
        try:
            op(name)
        except UnknownOp as error:
            hint = f" ({error})"
    raise AttributeError(f"module 'emitter' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, *OPS]
