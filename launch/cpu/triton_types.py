"""How Triton's element types are held in NumPy: bf16 and fp8 as their bits, integers in the signed type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .libdevice import Array, round_to_odd

NARROW_FLOATS = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
}
_LARGEST = {"fp8e5": 57344.0, "fp8e4nv": 448.0, "fp8e5b16": 57344.0, "fp8e4b8": 240.0}
_HELD = {name: np.dtype(f"u{storage.itemsize}") for name, storage in NARROW_FLOATS.items()} | {
    "int1": np.dtype(np.bool_),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
    **{f"{sign}int{8 * size}": np.dtype(f"i{size}") for sign in ("", "u") for size in (1, 2, 4, 8)},
}
_UNSIGNED = {np.dtype(f"i{size}"): np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_ADDRESS = np.dtype(np.uint64)


def held(dtype: Any) -> np.dtype[Any]:
    """The NumPy type that holds a Triton scalar or pointer; KeyError for one the interpreter does not know."""
    return _ADDRESS if dtype.is_ptr() else _HELD[dtype.name]


def unsigned(data: Array) -> Array:
    """Integers read as unsigned; anything else as it is."""
    return data.view(_UNSIGNED.get(data.dtype, data.dtype))


def values(handle: Any) -> Array:
    """What a handle's bits mean: f32 for bf16 and fp8, else the array itself."""
    data: Array = handle.data
    storage = NARROW_FLOATS.get(handle.dtype.scalar.name)
    return data if storage is None else data.view(storage).astype(np.float32)


def narrow(data: Array, dtype: Any) -> Array:
    """Numbers as a Triton type holds them, rounded once to nearest even; fp8 saturates, as on NVIDIA."""
    storage = NARROW_FLOATS.get(dtype.name)
    if storage is None:
        return data.astype(held(dtype), copy=False)
    if data.dtype != np.float32:
        data = round_to_odd(data.astype(np.float64))
    if dtype.name in _LARGEST:
        data = np.clip(data, -_LARGEST[dtype.name], _LARGEST[dtype.name])
    return data.astype(storage).view(held(dtype))
