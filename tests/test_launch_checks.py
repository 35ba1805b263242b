"""What generated host code refuses: each error names the argument, what was expected and what came; nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from device_arrays import Arrays, poison
from launches import Launches, Runner, described, recording

import emitter
from launch import Cache

GROUP = described(
    "x: f32[M, N]; b: f16[N]; k: i8; s: f32; h: f16; m: bf16[M, 1]",
    {"y": "x * b + k + s + h + m", "positive": "y > 0"},
)


@pytest.fixture(params=emitter.BACKENDS)
def run(request: pytest.FixtureRequest, device: str, arrays: Arrays, cache: Cache) -> Runner:
    return Runner(request.param, device, arrays, cache)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    return recording(monkeypatch)


def host_arguments() -> dict[str, Any]:
    """Arguments that are right, as NumPy arrays."""
    return {
        "x": np.ones((4, 8), np.float32),
        "b": np.ones(8, np.float16),
        "k": 1,
        "s": 0.5,
        "h": 2.0,
        "m": np.ones((4, 1), ml_dtypes.bfloat16),
    }


def placed(run: Runner, arguments: dict[str, Any]) -> list[Any]:
    """The arguments with every NumPy array on the device."""
    library = run.arrays.serving([a.dtype for a in arguments.values() if isinstance(a, np.ndarray)])
    return [library.place(a).array if isinstance(a, np.ndarray) else a for a in arguments.values()]


def refused(
    run: Runner, launches: Launches, arguments: list[Any], error: type[Exception], *words: str, **how: Any
) -> None:
    """The call raises that error, whose message has all the words, and nothing was built or launched."""
    with pytest.raises(error) as caught:
        run.load(GROUP)(*arguments, **how)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {str(caught.value)!r}"
    assert launches.built == launches.calls == []


def test_right_arguments_run(run: Runner) -> None:
    y, positive = run.load(GROUP)(*placed(run, host_arguments()))
    assert run.numpy(y).tolist() == [[5.5] * 8] * 4
    assert run.numpy(positive).all()


WRONG_ARRAYS: dict[str, tuple[str, Any, type[Exception], tuple[str, ...]]] = {
    "f64 for f32": ("x", np.ones((4, 8)), TypeError, ("x: ", "float32", "float64")),
    "i32 for f32": ("x", np.ones((4, 8), np.int32), TypeError, ("x: ", "float32", "int32")),
    "u16 for bf16": ("m", np.ones((4, 1), np.uint16), TypeError, ("m: ", "bfloat16", "uint16")),
    "f16 for bf16": ("m", np.ones((4, 1), np.float16), TypeError, ("m: ", "bfloat16", "float16")),
    "too few dims": ("x", np.ones(8, np.float32), ValueError, ("x: ", "2 dims", "(8,)")),
    "too many dims": ("b", np.ones((1, 8), np.float16), ValueError, ("b: ", "1 dims", "(1, 8)")),
    "no dims": ("b", np.ones((), np.float16), ValueError, ("b: ", "1 dims", "()")),
    "another N": ("b", np.ones(9, np.float16), ValueError, ("b: ", "[N]", "(8,)", "(9,)")),
    "N of 1": ("b", np.ones(1, np.float16), ValueError, ("b: ", "[N]", "(8,)", "(1,)")),
    "no N": ("b", np.ones(0, np.float16), ValueError, ("b: ", "[N]", "(8,)", "(0,)")),
    "another M": ("m", np.ones((3, 1), ml_dtypes.bfloat16), ValueError, ("m: ", "[M, 1]", "(4, 1)", "(3, 1)")),
    "not 1": ("m", np.ones((4, 8), ml_dtypes.bfloat16), ValueError, ("m: ", "[M, 1]", "(4, 1)", "(4, 8)")),
}


@pytest.mark.parametrize("case", WRONG_ARRAYS)
def test_wrong_arrays(run: Runner, launches: Launches, case: str) -> None:
    """B02."""
    name, wrong, error, words = WRONG_ARRAYS[case]
    arguments = host_arguments() | {name: wrong}
    outs = tuple(run.arrays.serving([ml_dtypes.bfloat16]).output(np.zeros((4, 8), t)) for t in (np.float32, bool))
    refused(run, launches, placed(run, arguments), error, *words)
    refused(run, launches, placed(run, arguments), error, *words, out=tuple(o.array for o in outs))
    for out in outs:
        assert (out.numpy().view(f"u{out.numpy().itemsize}") & 0xFF == 0xFF).all(), "an output was written"


@pytest.mark.parametrize(
    "what", [[[1.0] * 8] * 4, None, 1.0, "text", np.float32(1), object(), (1, 2), memoryview(b"abcd")]
)
def test_what_is_no_array(run: Runner, launches: Launches, what: Any) -> None:
    """B02."""
    arguments = placed(run, host_arguments())
    arguments[0] = what
    refused(run, launches, arguments, TypeError, "x: ", type(what).__name__)


def test_arrays_of_the_other_device(run: Runner, launches: Launches, device: str) -> None:
    """B02: a NumPy array where a GPU array is needed, and a foreign one where NumPy's is."""
    arguments = placed(run, host_arguments())
    if device == "cuda":
        arguments[1] = np.ones(8, np.float16)
        refused(run, launches, arguments, TypeError, "b: ", "GPU", "numpy.ndarray")
        return

    class OnGpu:
        dtype, shape, itemsize = "torch.float16", (8,), 2

        def data_ptr(self) -> int:
            return 1024

        def stride(self) -> tuple[int, ...]:
            return (1,)

        def get_device(self) -> int:
            return 0

        def is_contiguous(self) -> bool:
            return True

    arguments[1] = OnGpu()
    refused(run, launches, arguments, TypeError, "b: ", "CPU", "OnGpu")


def test_byte_order(run: Runner, launches: Launches, device: str) -> None:
    """B02: refused, with the way out."""
    if device == "cuda":
        pytest.skip("GPU libraries have native byte order only")
    arguments = list(host_arguments().values())
    arguments[0] = arguments[0].astype(">f4")
    refused(run, launches, arguments, TypeError, "x: ", "native byte order", ">f4", "astype('float32')")


@pytest.mark.parametrize("count", [0, 1, 2, 5, 7])
def test_count_of_arguments(run: Runner, launches: Launches, count: int) -> None:
    """B02."""
    arguments = [*placed(run, host_arguments()), 1][:count]
    refused(run, launches, arguments, TypeError)


SCALARS: list[tuple[str, Any, type[Exception], tuple[str, ...]]] = [
    ("k", 128, OverflowError, ("k: ", "128", "int8", "-128 to 127")),
    ("k", -129, OverflowError, ("k: ", "-129", "int8")),
    ("k", 2**70, OverflowError, ("k: ", "int8")),
    ("k", 1.0, TypeError, ("k: ", "integer", "int8", "1.0")),
    ("k", np.float32(1), TypeError, ("k: ", "integer", "int8")),
    ("k", "1", TypeError, ("k: ", "number", "str")),
    ("k", None, TypeError, ("k: ", "number", "NoneType")),
    ("s", "1", TypeError, ("s: ", "number", "float32", "str")),
    ("s", 1j, TypeError, ("s: ", "number", "complex")),
    ("s", [1.0], TypeError, ("s: ", "number", "list")),
    ("s", np.ones(1, np.float32), TypeError, ("s: ", "number", "ndarray")),
    ("h", np.ones((), np.float32), TypeError, ("h: ", "number", "float16", "ndarray")),
]


@pytest.mark.parametrize(("name", "value", "error", "words"), SCALARS)
def test_scalars(
    run: Runner, launches: Launches, name: str, value: Any, error: type[Exception], words: tuple[str, ...]
) -> None:
    arguments = dict(zip(host_arguments(), placed(run, host_arguments()), strict=True)) | {name: value}
    refused(run, launches, list(arguments.values()), error, *words)


def outputs(run: Runner) -> list[Any]:
    """Two right outputs, full of poison."""
    library = run.arrays.serving([ml_dtypes.bfloat16])
    return [library.output(np.zeros((4, 8), t)).array for t in (np.float32, bool)]


Wrong = Callable[[list[Any], Runner], Any]


def other(shape: tuple[int, ...], kind: Any) -> Wrong:
    return lambda outs, run: (
        run.arrays.serving([ml_dtypes.bfloat16]).output(np.zeros(shape, kind)).array,
        outs[1],
    )


OUTS: dict[str, tuple[Wrong, type[Exception], tuple[str, ...]]] = {
    "shape": (other((4, 9), np.float32), ValueError, ("y: ", "[M, N]", "(4, 8)", "(4, 9)")),
    "rank": (other((32,), np.float32), ValueError, ("y: ", "2 dims", "(32,)")),
    "dtype": (other((4, 8), np.float16), TypeError, ("y: ", "float32", "float16")),
    "one array": (lambda outs, run: outs[0], TypeError, ("out: ", "2 arrays", "y, positive")),
    "one of two": (lambda outs, run: (outs[0],), TypeError, ("out: ", "2 arrays")),
    "three of two": (lambda outs, run: (*outs, outs[0]), TypeError, ("out: ", "2 arrays")),
    "a list for an array": (lambda outs, run: ([0.0] * 8, outs[1]), TypeError, ("y: ", "list")),
    "swapped": (lambda outs, run: (outs[1], outs[0]), TypeError, ("y: ", "float32", "bool")),
}


@pytest.mark.parametrize("case", OUTS)
def test_outputs_that_do_not_fit(run: Runner, launches: Launches, case: str) -> None:
    """B02."""
    wrong, error, words = OUTS[case]
    refused(run, launches, placed(run, host_arguments()), error, *words, out=wrong(outputs(run), run))


def test_outputs_that_cannot_be_written(run: Runner, launches: Launches, device: str) -> None:
    """B02: read-only, and with elements on top of each other."""
    arguments = placed(run, host_arguments())
    y, positive = outputs(run)
    if device == "cpu":
        y.flags.writeable = False
        refused(run, launches, arguments, ValueError, "y: ", "read-only", out=(y, positive))
        y = np.broadcast_to(np.zeros((4, 1), np.float32), (4, 8))
        y.flags.writeable = True
    else:
        library = run.arrays.serving([ml_dtypes.bfloat16])
        y = library.output(np.broadcast_to(np.zeros((4, 1), np.float32), (4, 8))).array
    refused(run, launches, arguments, ValueError, "y: ", "overlap", "stride 0", out=(y, positive))


SAME = described("x: f32[N]; w: f32[N]", {"y": "x + w", "z": "x * w"})


def memory(run: Runner, count: int) -> Any:
    """So many f32 on the device, all 3."""
    return run.arrays.place(np.full(count, 3, np.float32)).array


def test_an_output_may_be_an_input_itself_and_no_other_view_of_it(run: Runner, launches: Launches) -> None:
    kernel = run.load(SAME)
    whole, other_input, free = memory(run, 100), memory(run, 64), memory(run, 64)
    x = whole[:64]
    for start in (1, 16, 36, 63):
        if start + 64 <= 100:
            with pytest.raises(ValueError, match="y: the output's memory overlaps x"):
                kernel(x, other_input, out=(whole[start : start + 64], free))
    with pytest.raises(ValueError, match="overlaps x"):
        kernel(whole[:50], memory(run, 50), out=(whole[0:100:2], memory(run, 50)))
    with pytest.raises(ValueError, match="z: the output's memory overlaps w"):
        kernel(other_input, x, out=(free, whole[30:94]))
    assert launches.calls == []
    assert (run.numpy(whole) == 3).all()
    y, z = kernel(x, other_input, out=(x, free))
    assert y is x and (run.numpy(whole)[:64] == 6).all() and (run.numpy(whole)[64:] == 3).all()
    assert (run.numpy(z) == 9).all()
    kernel(whole[:36], memory(run, 36), out=(whole[36:72], memory(run, 36)))  # beside the input, apart from it
    assert (run.numpy(whole)[:36] == 6).all() and (run.numpy(whole)[36:72] == 9).all()


def test_outputs_may_not_overlap_each_other(run: Runner, launches: Launches) -> None:
    kernel = run.load(SAME)
    whole = memory(run, 128)
    for y, z in ((whole[:64], whole[:64]), (whole[:64], whole[63:127]), (whole[40:104], whole[:64])):
        with pytest.raises(ValueError, match="the output's memory overlaps"):
            kernel(memory(run, 64), memory(run, 64), out=(y, z))
    assert launches.built == launches.calls == []
    assert (run.numpy(whole) == 3).all()
    y, z = kernel(memory(run, 64), memory(run, 64), out=(whole[:64], whole[64:]))
    assert (run.numpy(whole)[:64] == 6).all() and (run.numpy(whole)[64:] == 9).all()


def test_in_place_only_where_every_element_is_read_where_it_is_written(run: Runner, launches: Launches) -> None:
    """Shifted, transposed and gathered reads of the same memory are refused."""
    square = described("x: f32[M, M]; b: f32[M]", {"y": "x + b"})
    x = run.arrays.place(np.full((8, 8), 3, np.float32)).array
    with pytest.raises(ValueError, match="y: the output's memory overlaps x"):
        run.load(square)(x, memory(run, 8), out=x.T)
    with pytest.raises(ValueError, match="y: the output's memory overlaps b"):
        run.load(square)(x, x[0], out=x)
    gather = described("x: f32[V]; k: i32[V]", {"y": "take(x, k, 0)"})
    table, k = memory(run, 8), run.arrays.place(np.arange(8, dtype=np.int32)[::-1].copy()).array
    with pytest.raises(ValueError, match="y: the output's memory overlaps x"):
        run.load(gather)(table, k, out=table)
    assert launches.calls == []
    run.load(square)(x, memory(run, 8), out=x)
    assert (run.numpy(x) == 6).all()


def test_poison_is_what_the_tests_above_take_it_for() -> None:
    array = np.zeros((4, 8), np.float32)
    poison(array)
    assert (array.view("u4") & 0xFF == 0xFF).all()
