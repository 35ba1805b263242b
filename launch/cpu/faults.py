"""What a kernel run on the CPU can do wrong."""

from __future__ import annotations


class KernelFault(RuntimeError):
    """A kernel touched memory outside its arguments; names kernel, program, parameter and offset."""
