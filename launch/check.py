"""`check`: random calls of a group held to the error bounds of the op table, and its kernels compiled for targets."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from emitter.bounds import Bounded, evaluate, same_bits, within
from emitter.dtypes import DType
from emitter.emit import pin
from emitter.group import FusionGroup
from emitter.numerics import Array
from emitter.ops.evaluate import store
from emitter.schedule import Backend, Schedule
from emitter.verify import Verified, verify

from .build import key_for
from .check_cases import Case, Tensor, draw_case
from .check_memory import Memory, memory_of
from .errors import BadTarget, CompileError, MissingLibrary
from .kernel import Device, Kernel, load
from .targets import Target

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Wrong:
    """Elements of one output that are out of bounds. index: of the first of `count`, whose values follow."""

    output: str
    count: int
    index: tuple[int, ...]
    got: str
    want: str
    bound: str


@dataclass(frozen=True)
class Failure:
    """What a backend got wrong: in a case, or (case None) compiling for a target."""

    message: str
    case: Case | None = None
    wrong: Wrong | None = None
    target: str | None = None


@dataclass
class Result:
    """What was seen of one backend.

    elements: of outputs that were compared. worst: the greatest error as a fraction of its bound, over
    elements that are right. same_bits: whether every element equals the exact value rounded to the
    output's type. compiled: targets, and how many instances were compiled for each. missing: targets that could not
    be compiled for, and which library that takes.
    """

    backend: Backend
    cases: int = 0
    elements: int = 0
    worst: float = 0.0
    same_bits: bool = True
    compiled: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """One check. device: where the cases ran."""

    group: FusionGroup
    device: str
    seed: int
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        return not any(result.failures for result in self.results)


def targets_of(
    backends: Sequence[Backend], chosen: Sequence[str] | None, usual: bool = True
) -> dict[Backend, list[Target]]:
    """What each backend compiles for: the chosen targets, or the usual ones. hip is Triton's alone.

    Raises BadTarget for a target that none of the backends compiles for.
    """
    texts = chosen if chosen is not None else ["cuda:90", "hip:gfx942"] if usual else []
    targets = [Target.parse(text) for text in dict.fromkeys(texts)]
    found = {b: [t for t in targets if t.kind == "cuda" or (t.kind == "hip" and b == "triton")] for b in backends}
    for target in targets:
        if chosen is not None and not any(target in taken for taken in found.values()):
            expected = "a cuda or hip target" if "triton" in backends else "a cuda target with backend cuda"
            raise BadTarget(f"target {target}: expected {expected}")
    return found


def check(
    group: FusionGroup,
    targets: Mapping[Backend, Sequence[Target]],
    *,
    device: Device = "auto",
    seed: int = 0,
    cases: Sequence[int] = range(40),
    schedule: Schedule | None = None,
    static: Mapping[str, int] | None = None,
    progress: Progress = lambda _: None,
) -> Report:
    """Run the numbered cases of `seed` on each backend in `targets`, then compile every instance for its targets.

    What kernels get wrong is in the report. Raises the errors of `launch.load`, and BadTarget, before anything runs.
    """
    verified = verify(pin(group, static or {}))
    kernels = {b: load(group, b, device=device, schedule=schedule, static=static) for b in targets}
    results = {b: Result(b) for b in targets}
    for backend, target in _pairs(targets):
        try:
            key_for(kernels[backend].source, kernels[backend].source.instances[0], target)
        except MissingLibrary as error:
            results[backend].missing[str(target)] = str(error)
    where = {kernel.device for kernel in kernels.values()}.pop()
    memory = memory_of(where)
    for done, number in enumerate(cases):
        progress(f"case {done + 1} of {len(cases)} on the {'GPU' if where == 'cuda' else 'CPU'}")
        with np.errstate(all="ignore"):
            case = draw_case(verified, seed, number)
            limits = evaluate(verified.group, *case.arguments)
        for backend, kernel in kernels.items():
            results[backend].cases += 1
            _run(kernel, verified, case, limits, memory, results[backend])
    for backend, target in _pairs(targets):
        if str(target) not in results[backend].missing:
            progress(f"compiling {backend} for {target}")
            _compile(kernels[backend], target, results[backend])
    return Report(group, where, seed, tuple(results.values()))


def _pairs(targets: Mapping[Backend, Sequence[Target]]) -> Iterator[tuple[Backend, Target]]:
    return ((backend, target) for backend, chosen in targets.items() for target in chosen)


def _compile(kernel: Kernel, target: Target, result: Result) -> None:
    for instance in kernel.source.instances:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # where Triton prints what a compiler refuses
                kernel.artifact(instance, target)
        except MissingLibrary as error:
            result.missing[str(target)] = str(error)
            return
        except CompileError as error:
            result.failures.append(Failure(f"{instance} does not compile: {error}", target=str(target)))
            return
    result.compiled[str(target)] = len(kernel.source.instances)


def _run(kernel: Kernel, verified: Verified, case: Case, limits: list[Bounded], memory: Memory, result: Result) -> None:
    """One case on one backend, into `result`."""
    try:
        arrays = _call(kernel, case, memory)
    except MissingLibrary:
        raise
    except _Stray as error:
        result.failures.append(Failure(str(error), case))
        return
    except Exception as error:  # faults, and refusals of what the host code must take
        notes = [str(error), *getattr(error, "__notes__", ())]
        result.failures.append(Failure(f"{type(error).__name__}: {'; '.join(notes)}", case))
        return
    for name, got, bounded in zip(verified.group.outputs, arrays, limits, strict=True):
        dtype = verified.types[name].dtype
        if (got.dtype, got.shape) != (dtype.numpy, bounded.value.shape):
            message = f"output {name} is {got.dtype}{got.shape}, not {dtype.numpy}{bounded.value.shape}"
            result.failures.append(Failure(message, case))
            continue
        result.elements += got.size
        right = within(got, bounded, dtype)
        if not np.all(right):
            wrong = _first_wrong(name, got, bounded, ~right)
            message = f"output {name} is out of bounds in {wrong.count} of {got.size} elements"
            result.failures.append(Failure(message, case, wrong))
        fractions = _fractions(got, bounded, dtype)[right]
        result.worst = max(result.worst, float(np.max(fractions, initial=0.0)))
        result.same_bits &= bool(np.all(same_bits(got, store(bounded.value, dtype))))


class _Stray(Exception):
    """A write where none belongs."""


def _call(kernel: Kernel, case: Case, memory: Memory) -> list[np.ndarray]:
    """The outputs of one call. Raises _Stray, and whatever the kernel raises."""
    placed = {name: memory.input(given) for name, given in case.inputs.items() if isinstance(given, Tensor)}
    arguments = [placed[name].array if name in placed else given for name, given in case.inputs.items()]
    outputs = None if case.outputs is None else {n: memory.output(t) for n, t in case.outputs.items()}
    if outputs is None:
        returned = kernel(*arguments)
    else:
        arrays = tuple(o.array for o in outputs.values())
        returned = kernel(*arguments, out=arrays if len(arrays) > 1 else arrays[0])
    several = returned if isinstance(returned, tuple) else (returned,)
    for name, place in placed.items():
        given = case.inputs[name]
        if place.outside_written() or place.numpy().tobytes() != given.array.tobytes():
            raise _Stray(f"input {name}, or memory around it, was written")
    if outputs is None:
        return [memory.to_numpy(array) for array in several]
    for (name, output), array in zip(outputs.items(), several, strict=True):
        if array is not output.array:
            raise _Stray(f"output {name}: what comes back is not the array given as out=")
        if output.outside_written():
            raise _Stray(f"memory around or between the elements of output {name} was written")
    return [output.numpy() for output in outputs.values()]


def _first_wrong(name: str, got: np.ndarray, bounded: Bounded, wrong: Array) -> Wrong:
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    count = int(np.count_nonzero(wrong))
    return Wrong(name, count, index, str(got[index]), str(bounded.value[index]), str(bounded.err[index]))


def _fractions(got: np.ndarray, bounded: Bounded, dtype: DType) -> Array:
    """Errors as fractions of their bounds. Where the output is narrower than what kernels compute in, what its own
    rounding may explain is no error."""
    with np.errstate(all="ignore"):
        distance = abs(got.astype(np.float64) - bounded.value.astype(np.float64))
        if dtype.compute is not dtype:
            distance = np.maximum(distance - np.spacing(abs(got)).astype(np.float64) / 2, 0.0)
        fractions = np.where(distance == 0, 0.0, distance / bounded.err)
    return np.where(np.isfinite(fractions), fractions, 0.0)
