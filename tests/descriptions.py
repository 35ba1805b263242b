"""Descriptions that the tests of reading, naming and emitted text share, each for one thing to handle."""

from __future__ import annotations

from pathlib import Path

from emitter.layout import STRIDED, Layout

EXAMPLES = Path(__file__).parent.parent / "examples"

BIAS_GELU = (EXAMPLES / "bias_gelu.toml").read_text(encoding="utf-8")

BROADCAST = """
name = "broadcast"
outputs = ["y"]
[inputs]
x = "bf16[B, H, S, D]"
scale = "f32[H, 1, 1]"
position = "f32[S, D]"
[body]
y = "x * scale + position"
"""

CAUSAL = """
name = "causal"
outputs = ["y"]
[inputs]
scores = "f16[B, S, T]"
scale = "f32"
[body]
y = "where(index(-1) <= index(-2) + (T - S), scores * scale, -inf)"
"""

EMBEDDING = """
name = "embedding"
outputs = ["y"]
[inputs]
table = "f16[V, D]"
ids = "i64[T]"
position = "f16[T, D]"
[body]
y = "take(table, ids, 0) + position"
"""

COLUMN = """
name = "column"
outputs = ["y"]
[inputs]
x = "f32[N, 4]"
k = "i32[]"
[body]
y = "take(x, k, 1)"
"""

MIXED = """
name = "mixed"
outputs = ["y"]
[inputs]
q = "i8[M, N]"
zero = "u8[N]"
s = "f32[N]"
keep = "bool[M, N]"
k = "i64[M, 1]"
[body]
d = "(cast(q, 'i32') - cast(zero, 'i32')) * s"
y = "where(keep, d, 0.0) + k"
"""

FP8 = """
name = "fp8"
outputs = ["y"]
[inputs]
x = "f8e4m3[M, N]"
w = "f8e5m2[N]"
[body]
t = "x * w"
y = "cast(t, 'f8e4m3')"
"""

SEVERAL = """
name = "several"
outputs = ["y", "positive", "row"]
[inputs]
x = "f32[M, N]"
b = "f32[M, 1]"
[body]
row = "b * 2.0"
y = "x + row"
positive = "y > 0"
"""

ZERO_D = """
name = "zero_d"
outputs = ["y"]
[inputs]
x = "f32[]"
a = "f16"
[body]
y = "x * a + 1.0"
"""

ALL = {
    "bias_gelu": BIAS_GELU,
    "broadcast": BROADCAST,
    "causal": CAUSAL,
    "embedding": EMBEDDING,
    "column": COLUMN,
    "mixed": MIXED,
    "fp8": FP8,
    "several": SEVERAL,
    "zero_d": ZERO_D,
}

CHOICES: dict[str, tuple[str, dict[str, dict[str, Layout | int]]]] = {
    **{name: (text, {}) for name, text in ALL.items()},
    "bias_gelu_static": (BIAS_GELU, {"static": {"N": 4096}}),
    "bias_gelu_strided": (BIAS_GELU, {"layouts": {"x": STRIDED, "y": Layout(False, 0)}}),
    "bias_gelu_transposed": (BIAS_GELU, {"layouts": {"x": Layout(False, 0)}}),
    "bias_gelu_transposed_static": (BIAS_GELU, {"layouts": {"x": Layout(False, 0)}, "static": {"N": 64}}),
    "causal_static": (CAUSAL, {"static": {"S": 8, "T": 8}}),
    "broadcast_static": (BROADCAST, {"static": {"H": 3, "S": 8, "D": 8}}),
    "embedding_static": (EMBEDDING, {"static": {"V": 100, "D": 64}}),
}
"""Descriptions with keywords of `emitter.emit`."""
