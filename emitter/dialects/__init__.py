"""The dialects: how each backend spells types, constants, conversions and ops."""

from __future__ import annotations

from ..source import Backend
from .cuda import CUDA
from .dialect import Dialect
from .expr import ATOM, Constant, Expr
from .triton import TRITON

__all__ = ["ATOM", "CUDA", "DIALECTS", "TRITON", "Constant", "Dialect", "Expr"]

DIALECTS: dict[Backend, Dialect] = {"triton": TRITON, "cuda": CUDA}
