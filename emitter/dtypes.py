"""Element types: HLO-style names, their NumPy dtypes, and the types kernels compute in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np

from .errors import UnknownDType

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True)
class DType:
    """One element type. `bits` is its width in memory (bool takes a byte)."""

    name: str
    numpy: np.dtype
    kind: Kind
    bits: int

    @property
    def compute(self) -> DType:
        """The type a kernel computes in: f32 for every float narrower than f32, else the type itself."""
        return F32 if self.is_float and self.bits < 32 else self

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory."""
        return max(1, self.bits // 8)

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name})"


F16 = DType("f16", np.dtype(np.float16), "float", 16)
BF16 = DType("bf16", np.dtype(ml_dtypes.bfloat16), "float", 16)
F32 = DType("f32", np.dtype(np.float32), "float", 32)
F64 = DType("f64", np.dtype(np.float64), "float", 64)
F8E4M3 = DType("f8e4m3", np.dtype(ml_dtypes.float8_e4m3fn), "float", 8)
F8E5M2 = DType("f8e5m2", np.dtype(ml_dtypes.float8_e5m2), "float", 8)
I8 = DType("i8", np.dtype(np.int8), "int", 8)
I16 = DType("i16", np.dtype(np.int16), "int", 16)
I32 = DType("i32", np.dtype(np.int32), "int", 32)
I64 = DType("i64", np.dtype(np.int64), "int", 64)
U8 = DType("u8", np.dtype(np.uint8), "uint", 8)
U16 = DType("u16", np.dtype(np.uint16), "uint", 16)
U32 = DType("u32", np.dtype(np.uint32), "uint", 32)
U64 = DType("u64", np.dtype(np.uint64), "uint", 64)
BOOL = DType("bool", np.dtype(np.bool_), "bool", 1)

DTYPES: tuple[DType, ...] = (
    F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, F8E4M3, F8E5M2,
)  # fmt: skip
_BY_NAME = {d.name: d for d in DTYPES} | {d.numpy.name: d for d in DTYPES}
_BY_NUMPY = {d.numpy: d for d in DTYPES}
_NOT_NUMPYS = (BF16, F8E4M3, F8E5M2)


def dtype(name: str | np.dtype | DType) -> DType:
    """The DType called `name`: HLO-style ("bf16") or NumPy's ("bfloat16"), or a NumPy dtype."""
    if isinstance(name, DType):
        return name
    if isinstance(name, np.dtype) and name in _BY_NUMPY:
        return _BY_NUMPY[name]
    key = name if isinstance(name, str) else np.dtype(name).name
    try:
        return _BY_NAME[key]
    except KeyError:
        known = " ".join(d.name for d in DTYPES)
        raise UnknownDType(f"unknown dtype {key!r}: expected one of {known}, or NumPy's name for it") from None


def promote(*types: DType) -> DType:
    """NumPy 2's common dtype of strong types.

    NumPy knows no bf16 and fp8; as with ml_dtypes, they combine with each other and with f16 to f32, and
    with an integer as a float of their width does where it holds the integer's width, else f64.
    """
    result = types[0]
    for other in types[1:]:
        result = _promote(result, other)
    return result


def _promote(a: DType, b: DType) -> DType:
    if a == b:
        return a
    if a not in _NOT_NUMPYS and b not in _NOT_NUMPYS:
        return dtype(np.result_type(a.numpy, b.numpy))
    if a.is_float and b.is_float:
        return F64 if F64 in (a, b) else F32
    narrow, other = (a, b) if a.is_float else (b, a)
    if other.kind == "bool" or other.bits <= 8:
        return narrow
    return F32 if other.bits <= 16 else F64
