"""The benchmark, all but the timing itself: its groups, its statistics, its rounds, its tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import emitter
import launch
from bench import measure, pointwise, report
from bench.contenders import Buffers, Contender, Recorder, default_schedule, sampled_rows
from bench.groups import CASES, LAUNCH_CASE, SWEPT, Case
from bench.machine import command
from bench.measure import EventTimer, Statistics, WrongResult, check
from bench.report import Group, HostCall, Numbers, Result, Row, Sweep
from emitter.group import ScalarSpec
from emitter.schedule import Backend
from launch.build import build_artifact

SM_90 = launch.Target("cuda", "90")
SMALL = {"M": 12, "N": 24, "V": 40, "D": 24, "T": 12}
KERNELS = [c for c in CASES if c.name != "bias_gelu_odd"]  # the odd one is the first again, at another size


def _gelu(x: Any, b: Any) -> Any:
    h = x + b
    return 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))


NUMPY: dict[str, Callable[..., Any]] = {
    "bias_gelu": _gelu,
    "swiglu": lambda gate, up: gate / (1 + np.exp(-gate)) * up,
    "masked_scale": lambda mask, x, s: np.where(mask, x * s, -np.inf),
    "add_transposed": lambda x, y: x + y,
    "embedding": lambda table, indices: table[indices],
}


def small(case: Case) -> Case:
    sizes = {d: 23 if case.name == "bias_gelu_odd" and d == "N" else SMALL[d] for d in case.sizes}
    return replace(case, sizes=sizes)


def arguments(case: Case) -> list[Any]:
    rng = np.random.default_rng(7)
    made: list[Any] = []
    for item in case.group.inputs:
        if isinstance(item, ScalarSpec):
            made.append(case.scalars[item.name])
            continue
        flip = item.name in case.transposed
        shape = case.shape(item.shape[::-1] if flip else item.shape)
        if item.dtype.is_float:
            array = rng.standard_normal(shape).astype(item.dtype.numpy)
        elif item.dtype.kind == "bool":
            array = rng.random(shape) < 0.5
        else:
            array = rng.permutation(case.sizes[case.index_dim])[: shape[0]].astype(item.dtype.numpy)
        made.append(array.T if flip else array)
    return made


def wide(value: Any) -> Any:
    """Floats as float64; flags, indices and numbers as they are."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind not in "bi" else value


# The groups


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernels_compute_the_group(case: Case, backend: Backend) -> None:
    case = small(case)
    inputs = arguments(case)
    kernel = launch.load(case.group, backend, device="cpu", cache=launch.Cache(None))
    want = NUMPY[case.group.name](*map(wide, inputs))
    dtype, dims = case.output
    out = np.full(case.shape(dims), np.nan, dtype.numpy)
    kernel(*inputs, out=out)
    check(out.astype(np.float64), want, dtype.name, strict=True)


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("case", KERNELS, ids=lambda c: c.name)
def test_kernels_compile_for_the_gpu_and_spill_nothing(case: Case, backend: Backend) -> None:
    recorder = Recorder()
    layouts = dict.fromkeys(case.transposed, "unit:0")
    source = emitter.emit(case.group, backend, layouts=layouts)
    build_artifact(recorder, source, source.instances[0], SM_90)
    row = Row(name=backend)
    schedule = default_schedule(case, backend)
    pointwise.describe(row, contender(backend, [], recorder=recorder, schedule=schedule))
    assert row["spills"] == 0
    assert 0 < row["registers"] <= 64
    assert row["instance"].startswith("i32,")
    assert f"num_warps={schedule.num_warps}" in row["schedule"]


@pytest.mark.parametrize(
    ("name", "label", "size"),
    [
        ("bias_gelu_bf16", "bias_gelu bf16 16384x8192", 2 * (2 * 16384 * 8192 + 8192)),
        ("bias_gelu_f32", "bias_gelu f32 16384x4096", 4 * (2 * 16384 * 4096 + 4096)),
        ("swiglu", "swiglu bf16 16384x11008", 2 * 3 * 16384 * 11008),
        ("masked_scale", "masked_scale bf16 16384x8192", (1 + 2 + 2) * 16384 * 8192),
        ("add_transposed", "add_transposed bf16 16384x16384", 2 * 3 * 16384 * 16384),
        ("bias_gelu_odd", "bias_gelu bf16 16384x8191", 2 * (2 * 16384 * 8191 + 8191)),
        ("embedding", "embedding bf16 32768x4096", 2 * 2 * 32768 * 4096 + 8 * 32768),
        ("small", "bias_gelu f16 256x1024", 2 * (2 * 256 * 1024 + 1024)),
    ],
)
def test_least_bytes(name: str, label: str, size: int) -> None:
    case = next(c for c in CASES if c.name == name)
    assert (case.label, case.bytes) == (label, size)


def test_every_case_is_counted_above() -> None:
    assert len({c.name for c in CASES}) == len(CASES) == 8
    assert {*SWEPT, LAUNCH_CASE} <= {c.name for c in CASES}


# Statistics and the check


def test_statistics() -> None:
    assert Statistics.of([float(v) for v in range(11)]) == Statistics(5.0, 1.0, 9.0, 11)
    assert Statistics.of([4.0]) == Statistics(4.0, 4.0, 4.0, 1)
    with pytest.raises(ValueError, match="no samples"):
        Statistics.of([])


def test_ratio_is_taken_round_by_round() -> None:
    assert measure.paired_ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]) == Statistics(0.5, 0.5, 0.5, 3)
    with pytest.raises(ValueError, match="shorter"):
        measure.paired_ratio([1.0, 2.0], [1.0])


def test_buffers_exceed_the_cache_twice() -> None:
    for size in (1, 1000, 10**6, 6 * 10**7, 5 * 10**8):
        sets = measure.buffer_sets(size, 60 * 10**6)
        assert sets >= 2
        assert (sets - 1) * size >= 2 * 60 * 10**6 or sets == 2


def test_samples_are_a_few_calls() -> None:
    assert [measure.calls_in_sample(b) for b in (10**6, 536_887_296, 1_610_612_736, 10**10)] == [16, 4, 2, 2]


def test_check_takes_one_rounding_and_no_more() -> None:
    want = np.linspace(-4, 4, 64).reshape(4, 16)
    near = want.astype(np.float16).astype(np.float64)
    assert 0 < check(near, want, "f16", strict=True) < 1e-3
    near[2, 3] *= 1 + 2.0**-9
    with pytest.raises(WrongResult, match=r"element \[2, 3\]"):
        check(near, want, "f16", strict=True)
    assert check(near, want, "f16", strict=False) < 1e-3
    with pytest.raises(WrongResult, match="norm"):
        check(near + 0.1, want, "f16", strict=False)


def test_check_refuses_what_was_never_written() -> None:
    want = np.ones((2, 2))
    with pytest.raises(WrongResult, match="1 elements are NaN"):
        check(np.array([[1, np.nan], [1, 1]]), want, "f32", strict=False)
    with pytest.raises(WrongResult, match="shape"):
        check(np.ones((2, 3)), want, "f32", strict=False)


def test_check_compares_infinities() -> None:
    want = np.array([[1.0, -np.inf]])
    assert check(want, want, "bf16", strict=True) == 0
    for got in ([[1.0, np.inf]], [[1.0, -1e38]], [[-np.inf, -np.inf]]):
        with pytest.raises(WrongResult, match="infinities"):
            check(np.array(got), want, "bf16", strict=True)


@pytest.mark.parametrize("rows", [1, 5, 64, 65, 16384])
def test_sampled_rows(rows: int) -> None:
    found = sampled_rows(rows)
    assert found == sorted(set(found))
    assert (found[0], found[-1], len(found)) == (0, rows - 1, min(rows, 64))


# Rounds


class Script:
    """A timer that gives the next of some numbers, and notes who asked."""

    def __init__(self, log: list[tuple[str, list[int]]], name: str, times: Sequence[float]) -> None:
        self.log, self.name, self.times = log, name, iter(times)

    def sample(self, call: measure.Call, slots: Sequence[int]) -> float:
        self.log.append((self.name, list(slots)))
        return next(self.times)


def contender(name: str, times: Sequence[float], **fields: Any) -> Contender:
    return Contender(name, Script([], name, times), lambda: None, [(), ()], [{}, {}], **fields)


def test_rounds_interleave_and_rotate() -> None:
    log: list[tuple[str, list[int]]] = []
    timers = {n: (Script(log, n, [9, 9, *t]), print) for n, t in {"a": [1, 2, 3], "b": [4, 5, 6]}.items()}
    samples = measure.interleave(timers, rounds=3, calls=2, sets=3)
    assert samples == {"a": [1, 2, 3], "b": [4, 5, 6]}
    assert "".join(name for name, _ in log) == "abbaabbaab"
    assert [slots for name, slots in log if name == "a"] == [[0, 1], [2, 0], [1, 2], [0, 1], [2, 0]]


def test_calls_are_timed_without_waiting() -> None:
    log: list[str] = []
    samples = measure.call_times({"f": lambda: log.append("f")}, lambda: log.append("|"), rounds=2, calls=3)
    assert "".join(log) == "|fff|" * 4
    assert len(samples["f"]) == 2


class Queue:
    """What EventTimer uses of torch: a GPU that starts at once when the head start is too short."""

    def __init__(self, needed_us: float) -> None:
        queue = self
        self.slept = 0.0

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None: ...

            def synchronize(self) -> None: ...

            def query(self) -> bool:
                return queue.slept < needed_us

            def elapsed_time(self, end: Event) -> float:
                return 0.5

        self.cuda = SimpleNamespace(Event=Event, _sleep=self.sleep)

    def sleep(self, cycles: int) -> None:
        self.slept = cycles / 2000


def test_event_timer_gives_the_host_a_head_start() -> None:
    calls: list[int] = []
    timer = EventTimer(Queue(needed_us=700))
    assert timer.sample(calls.append, [0, 1]) == 250
    assert calls == [0, 1] * 3  # 200 and 400 us were too short
    assert (timer.head_start_us, timer.starved) == (800, 0)
    hopeless = EventTimer(Queue(needed_us=math.inf))
    assert hopeless.sample(calls.append, [0]) == 500
    assert hopeless.starved == 1


def test_rows_are_filled_in_with_the_copy_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "WARM_UP_SECONDS", 0)
    rows = {"eager": Row(name="eager"), "cuda": Row(name="cuda", failure="WrongResult: no")}
    copy, eager = contender("copy", [9, 9, 2, 3, 4]), contender("eager", [9, 9, 4, 6, 8])
    pointwise.time_all(None, CASES[0], copy, {"eager": eager}, rows, 3)
    assert list(rows) == ["copy", "eager", "cuda"]
    assert rows["copy"]["of_copy"]["median"] == 1
    assert rows["eager"]["us"]["median"] == 6
    assert rows["eager"]["of_copy"] == Numbers(median=0.5, p10=0.5, p90=0.5, samples=3)
    assert "us" not in rows["cuda"]


def test_a_failing_contender_is_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def build() -> Contender:
        raise RuntimeError("no such library")

    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    first = Buffers((), (), SimpleNamespace(fill_=lambda value: None))
    contenders, rows = pointwise.prepare(torch, CASES[0], first, {"xla": build})
    assert contenders == {}
    assert rows == {"xla": Row(name="xla", failure="RuntimeError: no such library")}
    assert "FAILED bias_gelu bf16 16384x8192: xla: RuntimeError" in capsys.readouterr().err


# The command line


def test_choices() -> None:
    def names(*words: str) -> list[str]:
        return [c.name for c in pointwise.chosen_cases(pointwise.parse(words))]

    assert names() == [c.name for c in CASES]
    assert names("--quick") == [*SWEPT, LAUNCH_CASE]
    assert names("--sweep") == [*SWEPT]
    assert names("--quick", "--groups", "swiglu") == ["swiglu"]
    options = pointwise.parse(["--schedule", "rows=8", "num_warps=4", "--backends", "cuda,triton", "--peers"])
    assert options.schedule == {"rows": 8, "num_warps": 4}
    assert options.backends == ("triton", "cuda")
    assert options.peers == []
    assert "xla" not in pointwise.parse([]).peers


@pytest.mark.parametrize(
    "words",
    [["--schedule", "warps=4"], ["--schedule", "rows=x"], ["--backends", "hip"], ["--sweep", "--schedule", "rows=1"]],
)
def test_bad_options(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pointwise.parse(words)
    assert "error" in capsys.readouterr().err


def test_the_recorded_command_has_no_place() -> None:
    words = ["--json", "/some/where.json", "--peers", "cupy fuse", "--quick"]
    assert command(words) == "python -m bench.pointwise --peers 'cupy fuse' --quick"
    assert command(["--json=x", "--sweep"]) == "python -m bench.pointwise --sweep"


@pytest.mark.parametrize("backend", emitter.BACKENDS)
@pytest.mark.parametrize("name", SWEPT)
def test_sweeps_try_valid_schedules_once(backend: Backend, name: str) -> None:
    default = default_schedule(next(c for c in CASES if c.name == name), backend)
    found = list(pointwise.variants(backend, default))
    schedules = [replace(default, **changes) for changes in found]
    assert schedules[0] == default
    assert len(set(schedules)) == len(found) <= 40


# Tables


def fake_numbers(median: float) -> Numbers:
    return Numbers(median=median, p10=median * 0.9, p90=median * 1.1, samples=80)


def fake_row(name: str, us: float, of_copy: float, **more: Any) -> Row:
    fields: dict[str, Any] = {"name": name, "us": fake_numbers(us), "of_copy": fake_numbers(of_copy), **more}
    return fields  # type: ignore[return-value]


@pytest.fixture
def result() -> Iterator[Result]:
    kernel = {"first_ms": 512.3, "error": 2e-3, "registers": 32, "spills": 0, "shared": 5120, "instance": "i32,vec=8"}
    rows = [
        fake_row("copy", 125.0, 1.0),
        fake_row("triton", 130.0, 0.9615, **kernel),
        fake_row("cuda", 250.0, 0.5, first_ms=100.0, error=1e-3),
        fake_row("compile", 180.0, 0.694, first_ms=1500.0, error=3e-3, starved=4),
        Row(name="eager", failure="WrongResult: line one\n  line | two"),
    ]
    group = Group(name="first", label="bias_gelu bf16 4x8", bytes=500_000_000, sets=2, calls=4, rows=rows)
    other = Group(
        name="second", label="swiglu bf16 4x8", bytes=10**9, sets=2, calls=2, rows=[fake_row("copy", 250, 1.0)]
    )
    variants = [fake_row(f"rows={n}", 100.0 + n, 1 / (100 + n), **kernel) for n in range(9)]
    variants.append(fake_row("default rows=99", 300.0, 0.001, **kernel))
    yield Result(
        benchmark="pointwise",
        command="python -m bench.pointwise",
        date="2026-01-02",
        seconds=61.7,
        rounds=80,
        machine={"gpu": "NVIDIA H200", "driver": "580.1"},
        versions={"torch": "2.11.0"},
        groups=[group, other],
        call_label="bias_gelu f16 256x1024",
        calls=[HostCall(name="torch.add(out=)", us=fake_numbers(5.0))],
        sweeps=[Sweep(label="bias_gelu f32 4x8", backend="cuda", rows=[fake_row("copy", 9.0, 1.0), *variants])],
    )


def test_plain_tables(result: Result) -> None:
    summary, kernels, calls, peers, sweep = map(report.plain, report.tables(result))
    lines = summary.splitlines()
    assert lines[1].split() == ["case", "group", "copy", "us", "TB/s", "triton", "cuda", "compile", "eager"]
    assert lines[2].split() == [
        "first",
        "bias_gelu",
        "bf16",
        "4x8",
        "125.0",
        "4.00",
        "0.962",
        "0.500",
        "0.694",
        "FAILED",
    ]
    assert lines[3].split() == ["second", "swiglu", "bf16", "4x8", "250.0", "4.00", "-", "-", "-", "-"]
    assert len({len(line) for line in lines[1:]}) == 1
    assert kernels.splitlines()[2].split()[8:] == ["32", "0", "5120", "i32,vec=8", "512"]
    assert kernels.splitlines()[3].split()[8:] == ["?", "?", "?", "?", "100"]
    assert "torch.add(out=)  5.0  4.5  5.5" in calls
    assert [line.split()[1] for line in peers.splitlines()[2:]] == ["copy", "compile", "copy"]
    assert [line.split()[0] for line in sweep.splitlines()[2:]] == ["1", "2", "3", "4", "5", "6", "10"]
    assert "default rows=99" in sweep.splitlines()[-1]


def test_the_run_ends_with_the_summary(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    pointwise.print_result(result)
    printed = capsys.readouterr().out
    assert printed.index("Beside them") < printed.index("kernelpress kernels") < printed.index("Speed as a fraction")
    assert "! FAILED bias_gelu bf16 4x8: eager: WrongResult: line one line | two" in printed
    assert "! bias_gelu bf16 4x8: compile: the GPU waited for the host in 4 samples" in printed
    assert printed.endswith("\ngpu NVIDIA H200, driver 580.1, torch 2.11.0; 62 s\n")


def test_a_page_is_made_from_the_file(result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "result.json", tmp_path / "new" / "page.md"
    file.write_text(json.dumps(result), encoding="utf-8")
    report.main([str(file), "-o", str(page)])
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Pointwise kernels on NVIDIA H200\n\nMeasured 2026-01-02 in 62 s by\n")
    for line in (
        "    python -m bench.pointwise",
        "| driver | 580.1 |",
        "| torch | 2.11.0 |",
        "| case | group | copy us | TB/s | triton | cuda | compile | eager |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| first | bias_gelu bf16 4x8 | 125.0 | 4.00 | 0.962 | 0.500 | 0.694 | FAILED |",
        "## Best of 10 schedules, bias_gelu f32 4x8, cuda",
    ):
        assert line in text.splitlines()
    assert report.page_name(result) == "pointwise-nvidia-h200.md"


def test_a_page_without_failures_has_no_remarks(result: Result) -> None:
    result["groups"] = result["groups"][1:]
    assert "Remarks" not in report.markdown(result)
    result["groups"] = []
    assert "## Speed" not in report.markdown(result)
