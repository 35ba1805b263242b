"""`kernelpress check`: a group's kernels against NumPy, over random shapes, layouts, values and masks, here and now."""

from __future__ import annotations

from .run import Failure, Report, check

__all__ = ["Failure", "Report", "check"]
