"""kernelpress launch: emitted source to running kernels, on a GPU or on the CPU.

kernel = launch.load("examples/bias_gelu.toml", backend="cuda")
y = kernel(x, b)
"""

from __future__ import annotations

from .artifact import Artifact, CacheKey, Resources, resources
from .cache import Cache
from .kernel import Kernel, load
from .targets import Target

__all__ = ["Artifact", "Cache", "CacheKey", "Kernel", "Resources", "Target", "load", "resources"]
