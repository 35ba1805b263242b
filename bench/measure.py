"""How things are measured: timers, interleaved rounds, statistics, and the check that comes before any of it.

A timer's sample is a mean over a few calls, each on another set of buffers, in microseconds. All contenders of a
group are sampled in turn, round after round, so that a drift of the clocks meets them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Call = Callable[[int], Any]
"""Runs once on the buffer set of that number, without waiting for the result."""

SETTLING_ROUNDS = 2
HEAD_START_US = (200.0, 5000.0)
_CYCLES_PER_US = 2000
_RELATIVE = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 1e-5}
_NORM = {"bf16": 1e-2, "f16": 5e-3, "f32": 1e-5}
_ROUNDING_SLACK = 1.05
_ABSOLUTE = 1e-7


class WrongResult(Exception):
    """A contender computed something else than the group."""


@dataclass(frozen=True)
class Statistics:
    """Median, 10th and 90th percentile of some samples."""

    median: float
    p10: float
    p90: float
    samples: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistics:
        """Percentiles interpolate linearly. Raises ValueError for no values."""
        if not values:
            raise ValueError("statistics of no samples")
        p10, median, p90 = (float(v) for v in np.percentile(values, (10, 50, 90)))
        return cls(median, p10, p90, len(values))


def paired_ratio(reference: Sequence[float], values: Sequence[float]) -> Statistics:
    """Statistics of reference / value, round by round: 1 is as fast as the reference, less is slower."""
    return Statistics.of([r / v for r, v in zip(reference, values, strict=True)])


class Timer(Protocol):
    """Takes one sample."""

    def sample(self, call: Call, slots: Sequence[int]) -> float:
        """Mean microseconds of a call, over one call for each of the buffer sets `slots`."""
        ...


class EventTimer:
    """Times what runs on torch's current stream, by events around calls that were all queued beforehand.

    The GPU is held back by a spinning kernel while the host queues, so the host's own cost is not in the result. One
    timer for each contender: it learns how long a head start its calls need. `starved` counts samples that could not
    be queued in time even with the longest.
    """

    def __init__(self, torch: Any) -> None:
        self.cuda = torch.cuda
        self.head_start_us, self.longest = HEAD_START_US
        self.starved = 0

    def sample(self, call: Call, slots: Sequence[int]) -> float:
        while True:
            start, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
            self.cuda._sleep(int(self.head_start_us * _CYCLES_PER_US))
            start.record()
            for slot in slots:
                call(slot)
            end.record()
            late = bool(start.query())
            end.synchronize()
            if not late or self.head_start_us >= self.longest:
                self.starved += late
                return float(start.elapsed_time(end)) * 1000 / len(slots)
            self.head_start_us *= 2


class WallTimer:
    """Times many calls by the host's clock, for a library whose streams torch's events do not see."""

    REPEATS = 16

    def __init__(self, torch: Any, finish: Callable[[], None]) -> None:
        self.torch = torch
        self.finish = finish

    def sample(self, call: Call, slots: Sequence[int]) -> float:
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(self.REPEATS):
            for slot in slots:
                call(slot)
        self.finish()
        return (time.perf_counter() - start) * 1e6 / (self.REPEATS * len(slots))


def interleave(
    contenders: Mapping[str, tuple[Timer, Call]], rounds: int, calls: int, sets: int
) -> dict[str, list[float]]:
    """Samples of each contender: one a round, in an order that turns by one place every round.

    calls: in a sample. sets: of buffers; each contender goes through them in order, over all its samples. The first
    two rounds are not kept.
    """
    names = list(contenders)
    samples: dict[str, list[float]] = {name: [] for name in names}
    next_slot = dict.fromkeys(names, 0)
    for number in range(SETTLING_ROUNDS + rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            timer, call = contenders[name]
            slots = [(next_slot[name] + k) % sets for k in range(calls)]
            next_slot[name] = (slots[-1] + 1) % sets
            took = timer.sample(call, slots)
            if number >= SETTLING_ROUNDS:
                samples[name].append(took)
    return samples


def call_times(
    functions: Mapping[str, Callable[[], Any]], synchronize: Callable[[], None], rounds: int, calls: int
) -> dict[str, list[float]]:
    """Host microseconds of one call of each function: the mean of `calls` calls in a row, with nothing waited for.

    `synchronize` empties the queues between samples; one sample must fit into them (1024 launches on CUDA).
    """
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(SETTLING_ROUNDS + rounds):
        for name, function in functions.items():
            synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                function()
            took = (time.perf_counter() - start) * 1e6 / calls
            synchronize()
            if number >= SETTLING_ROUNDS:
                samples[name].append(took)
    return samples


def buffer_sets(bytes_moved: int, cache_bytes: int) -> int:
    """How many sets of buffers a call must go through so that they exceed the L2 cache twice; at least two."""
    return max(2, -(-2 * cache_bytes // bytes_moved) + 1)


def calls_in_sample(bytes_moved: int) -> int:
    """Calls of one sample: about half a millisecond at 4 TB/s, from 2 to 16."""
    return min(16, max(2, round(500 * 4e6 / bytes_moved)))


def check(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64], dtype: str, *, strict: bool) -> float:
    """Hold some rows of a result to the same rows computed in float64; returns the error's norm over theirs.

    strict: every element within one rounding to `dtype` (bf16, f16), or 1e-5 (f32). Otherwise only the norm counts,
    for libraries that round in between too. Raises WrongResult.
    """
    if got.shape != want.shape:
        raise WrongResult(f"shape {got.shape}, expected {want.shape}")
    if np.isnan(got).any():
        raise WrongResult(f"{int(np.isnan(got).sum())} elements are NaN, or were never written")
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite]) or not np.isfinite(got[finite]).all():
        raise WrongResult("infinities are not where they should be")
    error = np.abs(np.where(finite, got, 0) - np.where(finite, want, 0))
    size = np.abs(np.where(finite, want, 0))
    if strict:
        past = error - (size * _RELATIVE[dtype] * _ROUNDING_SLACK + _ABSOLUTE)
        worst = np.unravel_index(int(past.argmax()), past.shape)
        if past[worst] > 0:
            place = ", ".join(map(str, worst))
            raise WrongResult(f"element [{place}] of the sampled rows is {got[worst]}, expected {want[worst]}")
    norm = float(np.linalg.norm(error) / (np.linalg.norm(size) or 1.0))
    if norm > _NORM[dtype]:
        raise WrongResult(f"the error's norm is {norm:.2e} of the result's, expected at most {_NORM[dtype]:.0e}")
    return norm
