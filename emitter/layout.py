"""How a tensor lies in memory, as far as emitted code depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import BadSchedule


@dataclass(frozen=True)
class Layout:
    """`contiguous` (C order), or strides as run-time arguments with at most one axis known to have stride 1.

    unit_axis counts from the front; None with `contiguous=False` means that no stride is known.
    """

    contiguous: bool = True
    unit_axis: int | None = None

    @classmethod
    def parse(cls, text: str, rank: int) -> Layout:
        """`contiguous`, `strided`, or `unit:AXIS` (that axis has stride 1; negative counts from the end)."""
        if text == "contiguous":
            return CONTIGUOUS
        if text == "strided":
            return STRIDED
        kind, _, axis = text.partition(":")
        if kind == "unit" and axis.lstrip("-").isdigit() and -rank <= int(axis) < rank:
            return cls(False, int(axis) % rank)
        raise BadSchedule(
            f"layout {text!r}: expected contiguous, strided, or unit:AXIS with an axis of a tensor of rank {rank}"
        )

    def __str__(self) -> str:
        if self.contiguous:
            return "contiguous"
        return "strided" if self.unit_axis is None else f"unit:{self.unit_axis}"


CONTIGUOUS = Layout()
STRIDED = Layout(contiguous=False)
Layouts = Mapping[str, Layout]


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """The layout class of an array with these sizes and strides (in elements)."""
    expected = 1
    contiguous = True
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return CONTIGUOUS
        if size != 1:
            contiguous &= stride == expected
            expected *= size
    if contiguous:
        return CONTIGUOUS
    unit = [axis for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)) if stride == 1 and size > 1]
    return Layout(False, unit[-1]) if unit else STRIDED
