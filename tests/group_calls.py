"""Running drawn calls on a backend, and what their results must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from device_arrays import Arrays, Placed
from strategies import Call

import emitter
import launch
from emitter.bounds import Bounded, same_bits, within
from emitter.schedule import Backend


def run(call: Call, backend: Backend, arrays: Arrays, device: str, cache: launch.Cache) -> list[np.ndarray]:
    """The outputs of one call on guarded memory, as NumPy arrays.

    Asserts that nothing but the outputs is written, that `out=` is what comes back, and that a second call amid other
    bytes gives the same.
    """
    kernel = launch.load(call.group, backend, device=device, schedule=call.schedule, static=call.static, cache=cache)
    library = arrays.serving([a.dtype for a in call.arguments if isinstance(a, np.ndarray)] + _out_dtypes(call))
    first = _Memory(call, library, read_only=True)
    results = first.launch(kernel)
    again = _Memory(call, library, read_only=False)
    for placed in again.inputs:
        placed.surround(0)
    for got, repeated in zip(results, again.launch(kernel), strict=True):
        assert_same_bits(repeated, got, "amid other bytes than before")
    return results


def _out_dtypes(call: Call) -> list[np.dtype]:
    return [call.verified.types[o].dtype.numpy for o in call.group.outputs]


class _Memory:
    """The arrays of one call on the device."""

    def __init__(self, call: Call, library: Arrays, read_only: bool) -> None:
        self.call, self.library = call, library
        self.inputs: list[Placed] = []
        self.arguments: list[Any] = []
        self.before: list[np.ndarray] = []
        for argument, align in zip(call.arguments, call.aligns, strict=True):
            if not isinstance(argument, np.ndarray):
                self.arguments.append(argument)
                continue
            placed = library.place(_walkable(argument, library), align=align, read_only=read_only)
            self.inputs.append(placed)
            self.arguments.append(placed.array)
            self.before.append(argument)
        self.outs = None if call.outs is None else [library.output(_walkable(o, library)) for o in call.outs]

    def launch(self, kernel: launch.Kernel) -> list[np.ndarray]:
        outs = None if self.outs is None else [o.array for o in self.outs]
        given = outs if outs is None or len(outs) > 1 else outs[0]
        returned = kernel(*self.arguments, out=None if given is None else tuple(given) if outs is given else given)
        several = list(returned) if isinstance(returned, tuple) else [returned]
        for placed, before in zip(self.inputs, self.before, strict=True):
            assert_same_bits(placed.numpy(), before, "an input was written")
        if self.outs is None:
            return [self.library.to_numpy(r) for r in several]
        for placed, array in zip(self.outs, several, strict=True):
            assert array is placed.array
            assert not placed.outside_written(), "bytes outside an output were written"
        return [placed.numpy() for placed in self.outs]


def _walkable(array: np.ndarray, library: Arrays) -> np.ndarray:
    """The array itself, or contiguous where the library (torch) knows no negative strides."""
    backwards = any(stride < 0 for stride in array.strides)
    return array.copy() if backwards and not library.negative_strides else array


def assert_within(got: np.ndarray, limits: Bounded, name: str, call: Call) -> None:
    """Every element lies inside its bound."""
    dtype = call.verified.types[name].dtype
    assert got.dtype == dtype.numpy
    assert got.shape == limits.value.shape
    _explain(got, limits.value, ~within(got, limits, dtype), f"output {name} is out of bounds", limits.err)


def assert_same_bits(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """Equal dtypes, shapes and bits; any NaN equals any other."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    _explain(got, want, ~same_bits(got, want), what)


def _explain(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, what: str, err: np.ndarray | None = None) -> None:
    if not np.any(wrong):
        return
    lines = [f"{what}: {np.count_nonzero(wrong)} of {wrong.size} elements"]
    for place in list(zip(*np.nonzero(wrong), strict=True))[:4] if wrong.ndim else [()]:
        allowed = "" if err is None else f" +- {err[place]}"
        lines.append(f"  at {tuple(map(int, place))}: got {got[place]!r}, expected {want[place]!r}{allowed}")
    raise AssertionError("\n".join(lines))


def described(call: Call) -> str:
    """What a failing example shows: the description, and how each argument lies."""
    lines = [emitter.to_toml(call.group), f"sizes {dict(call.sizes)}, schedule {call.schedule}, static {call.static}"]
    for item, argument, align in zip(call.group.inputs, call.arguments, call.aligns, strict=True):
        if isinstance(argument, np.ndarray):
            lines.append(f"{item.name}: shape {argument.shape}, strides {argument.strides}, align {align}")
        else:
            lines.append(f"{item.name}: {argument!r}")
    if call.outs is not None:
        lines.append(f"out: strides {[o.strides for o in call.outs]}")
    return "\n".join(lines)
