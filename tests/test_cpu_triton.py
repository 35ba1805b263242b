"""Interpreting Triton kernels: parameters, memory safety, sources, and the process around them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_cases import BF16, COPY, FLOATS, HEADER, NAN, TYPES, module, pointwise, run, same, sample

from launch.cpu.faults import KernelFault
from launch.cpu.triton import interpret
from launch.module import execute

# The interpreter promises silence: no NumPy warning leaves it.
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_copied_bit_for_bit(name: str) -> None:
    x = sample(name)
    y = np.zeros_like(x)
    run(COPY, x, y, np.int32(x.size), grid=(3, 1, 1), BLOCK=128)
    np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))


def test_misaligned_addresses() -> None:
    buffer = np.zeros(8 * 16 + 1, np.uint8)
    x = buffer[1:].view(np.float64)
    x[:] = np.arange(16)
    y = np.zeros(16)
    run(COPY, x, y, np.int32(16), BLOCK=16)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("name", TYPES)
def test_scalar_parameters_of_every_type(name: str) -> None:
    text = """
@triton.jit
def fill(y_ptr, value):
    tl.store(y_ptr, value)
"""
    y = np.zeros(1, sample(name).dtype)
    value = np.bool_(True) if name == "bool" else y.dtype.type(3.25 if "float" in name else 100)
    run(text, y, value)
    assert y[0] == value


def test_a_narrow_float_parameter_arrives_as_float32() -> None:
    namespace = module("\n@triton.jit\ndef fill(y_ptr, value):\n    tl.store(y_ptr, value)\n")
    y = np.zeros(1, BF16)
    interpret(namespace, "fill", ["*bf16", "bf16"], {})((1, 1, 1), (1, 1, 1), (y.ctypes.data, np.float32(1.01)))
    assert y[0] == BF16(1.01)


ACCESS = """
@triton.jit
def access(x_ptr, y_ptr, N, LOAD: tl.constexpr, STORE: tl.constexpr, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + LOAD, mask=i < N)
    tl.store(y_ptr + i + STORE, x, mask=i < N)
    tl.atomic_add(y_ptr + i + ATOMIC, x, mask=i < N)
"""


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        (
            (1, 0, 0),
            r"load from x_ptr at byte 16 \(element 4\), outside its memory, bytes 0 to 16; 1 of 4 lanes",
        ),
        ((-2, 0, 0), r"load from x_ptr at byte -8 \(element -2\), .*; 2 of 4 lanes"),
        ((0, 3, 0), r"store to y_ptr at byte 16 \(element 4\), .*; 3 of 4 lanes"),
        ((0, 0, 4), r"atomic on y_ptr at byte 16 \(element 4\), .*; 4 of 4 lanes"),
    ],
)
def test_access_outside_the_parameter_is_a_fault(offsets: tuple[int, int, int], message: str) -> None:
    # Both arrays lie in one buffer: leaving x for y, or y for x, is a fault of the pointer's own parameter.
    buffer = np.ones(16, np.float32)
    x, y = buffer[4:8], buffer[8:12]
    shifted: Any = dict(zip(("LOAD", "STORE", "ATOMIC"), offsets, strict=True))
    with pytest.raises(KernelFault, match=r"^access, program \(0, 0, 0\): " + message) as caught:
        run(ACCESS, x, y, np.int32(4), **shifted, BLOCK=8)
    line = {0: "x = tl.load", 1: "tl.store", 2: "tl.atomic_add"}[next(i for i in range(3) if offsets[i])]
    assert any("in kernel access, program (0, 0, 0), line" in n and line in n for n in caught.value.__notes__)
    run(ACCESS, x, y, np.int32(4), LOAD=0, STORE=0, ATOMIC=0, BLOCK=8)
    run(ACCESS, x, y, np.int32(0), LOAD=10**6, STORE=10**6, ATOMIC=10**6, BLOCK=8)
    run(ACCESS, x, y, np.int32(4), LOAD=1, STORE=-1, ATOMIC=1, BLOCK=4, checked=False)


def test_pointers_of_mixed_origin_may_touch_either_parameter() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, SHIFT: tl.constexpr):
    i = tl.arange(0, 4)
    either = tl.where(i < 2, x_ptr + i, y_ptr + i) + SHIFT
    tl.store(z_ptr + i, tl.load(either).to(tl.int32, bitcast=True))
"""
    buffer = np.arange(64, dtype=np.float32)
    x, y, z = buffer[8:12], buffer[20:24], np.zeros(4, np.int32)
    run(text, x, y, z, SHIFT=0)
    same(z.view(np.float32), np.array([8, 9, 22, 23], np.float32))
    with pytest.raises(KernelFault, match="load from y_ptr at byte 16"):
        run(text, x, y, z, SHIFT=1)


def test_lanes_masked_off_without_a_value_are_poisoned() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < N), 0))
    tl.store(y_ptr + 1, tl.sum(tl.load(x_ptr + i, mask=i < N, other=0), 0))
    tl.store(y_ptr + 2, tl.load(x_ptr, mask=N < 0, other=0))
"""
    for name in FLOATS:
        y = np.zeros(3, sample(name).dtype)
        run(text, np.ones(3, y.dtype), y, np.int32(3), BLOCK=4)
        same(y, np.array([NAN, 3, 0], y.dtype))
    y = np.zeros(3, np.int32)
    run(text, np.ones(3, np.int32), y, np.int32(3), BLOCK=4)
    assert y.tolist() == [3 - 1, 3, 0]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "float64", "int32", "uint32", "int64", "uint64"])
def test_atomics(name: str) -> None:
    text = """
@triton.jit
def kernel(i_ptr, v_ptr, add_ptr, max_ptr, old_ptr, N, EXTREME: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(i_ptr + i, mask=i < N, other=0)
    v = tl.load(v_ptr + i, mask=i < N)
    tl.store(old_ptr + i, tl.atomic_add(add_ptr + at, v, mask=i < N), mask=i < N)
    if EXTREME:
        tl.atomic_max(max_ptr + at, v, mask=i < N)
        tl.atomic_min(max_ptr + 4 + at, v, mask=i < N)
"""
    rng = np.random.default_rng(6)
    dtype = sample(name).dtype
    at = rng.integers(0, 4, 13).astype(np.int32)
    low = 0 if name.startswith("u") else -20
    v = rng.integers(low, 20, 13).astype(dtype)
    if name.startswith("u"):
        v[0] = np.iinfo(name).max - 3
    total, old, running = np.zeros(4, dtype), np.zeros(13, dtype), np.zeros(4, dtype)
    extremes = np.ones(8, dtype)
    run(text, at, v, total, extremes, old, np.int32(13), EXTREME=dtype.itemsize > 2, BLOCK=16)
    for k, (where, value) in enumerate(zip(at, v, strict=True)):
        assert old[k] == running[where]
        with np.errstate(over="ignore"):
            running[where] += value
    same(total, running)
    if dtype.itemsize > 2:
        want = [max([1, *v[at == k]]) for k in range(4)] + [min([1, *v[at == k]]) for k in range(4)]
        same(extremes, np.array(want, dtype))


def test_compare_and_swap_and_exchange() -> None:
    text = """
@triton.jit
def kernel(x_ptr, old_ptr, SHIFT: tl.constexpr):
    tl.store(old_ptr, tl.atomic_cas(x_ptr + SHIFT, 5, 7))
    tl.store(old_ptr + 1, tl.atomic_cas(x_ptr, 5, 9))
    tl.store(old_ptr + 2, tl.atomic_xchg(x_ptr, 11))
"""
    for dtype in (np.int32, np.uint32):
        x, old = np.array([5], dtype), np.zeros(3, dtype)
        run(text, x, old, SHIFT=0)
        assert (x[0], old.tolist()) == (11, [5, 7, 7])
    with pytest.raises(KernelFault, match="atomic on x_ptr at byte 4 "):
        run(text, x, old, SHIFT=1)


def test_pointers_as_integers() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, shift):
    i = tl.arange(0, 2)
    address = (x_ptr + i).to(tl.uint64) + shift.to(tl.uint64) * 4
    tl.store(y_ptr + i, tl.load(address.to(tl.pointer_type(tl.float32))))
"""
    x, y = np.arange(4, dtype=np.float32), np.zeros(2, np.float32)
    run(text, x, y, np.int32(2))
    assert y.tolist() == [2, 3]
    with pytest.raises(KernelFault, match=r"load from [xy]_ptr"):
        run(text, x, y, np.int32(400))


def test_tensor_descriptors() -> None:
    text = """
@triton.jit
def kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    for m in range(0, M, BLOCK):
        for n in range(0, N, BLOCK):
            y.store([m, n], x.load([m, n]) * 2)
"""
    buffer = np.zeros(2 * 12 * 20 + 8, np.float32)
    start = -buffer.ctypes.data % 16 // 4
    x, y = buffer[start : start + 240].reshape(12, 20), buffer[start + 240 : start + 480].reshape(12, 20)
    x[:] = np.arange(240).reshape(12, 20)
    run(text, x, y, np.int32(12), np.int32(20), BLOCK=8)
    same(y, x * 2)


def test_interpret_refuses_what_does_not_fit() -> None:
    namespace = module(COPY)
    with pytest.raises(
        ValueError, match=r"copy\(x_ptr, y_ptr, N, BLOCK\): expected types for x_ptr, y_ptr, N, got \*fp32"
    ):
        interpret(namespace, "copy", ["*fp32"], {"BLOCK": 4})
    with pytest.raises(ValueError, match="no parameter is called TILE"):
        interpret(namespace, "copy", ["*fp32", "*fp32", "i32"], {"BLOCK": 4, "TILE": 4})
    with pytest.raises(ValueError, match=r"parameter N has type 'int'"):
        interpret(namespace, "copy", ["*fp32", "*fp32", "int"], {"BLOCK": 4})
    with pytest.raises(ValueError, match=r"missing: expected a @triton.jit function, got NoneType"):
        interpret(namespace, "missing", [], {})
    kernel = interpret(namespace, "copy", ["*fp32", "*fp32", "i32"], {"BLOCK": 4})
    with pytest.raises(TypeError, match="copy takes 3 arguments, got 1"):
        kernel((1, 1, 1), (1, 1, 1), (0,))
    with pytest.raises(TypeError, match="copy has 2 pointer parameters, got 1 extents"):
        kernel((1, 1, 1), (1, 1, 1), (0, 0, np.int32(0)), None, [(0, 1)])


def test_a_module_without_a_file_keeps_its_source() -> None:
    assert "tl.load(x_ptr + i, mask=i < N)" in inspect.getsource(module(COPY)["copy"].fn)
    with pytest.raises(ZeroDivisionError) as caught:
        pointwise("a * (1 // 0)", np.float32, np.ones(1, np.float32))
    assert "tl.store(y_ptr + i, a * (1 // 0), mask=i < N)" in caught.value.__notes__[-1]
    assert any(entry.name == "pointwise" and "(1 // 0)" in str(entry.statement) for entry in caught.traceback)


ROWS = """
@triton.jit
def gate(x):
    return libdevice.tanh(x) * tl.sigmoid(x)

@triton.jit
def rows(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(tl.cdiv(N, BLOCK)):
        total += gate(tl.load(x_ptr + k * BLOCK + i, mask=k * BLOCK + i < N, other=0.0))
    tl.store(y_ptr + tl.program_id(0), tl.sum(total, 0))
"""


def compiled() -> str:
    source = ASTSource(
        module(ROWS)["rows"],
        signature={"x_ptr": "*fp32", "y_ptr": "*fp32", "N": "i32", "BLOCK": "constexpr"},
        constexprs={(3,): 4},
    )
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": False})
    return str(kernel.asm["ptx"])


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton compiles again for each test, instead of reading its cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")


def surface() -> dict[tuple[str, str], int]:
    parts = {
        "tl": tl,
        "core": tl.core,
        "math": tl.math,
        "standard": tl.standard,
        "tensor": tl.tensor,
        "dtype": tl.dtype,
    }
    return {(name, key): id(value) for name, part in parts.items() for key, value in vars(part).items()}


def test_kernels_compile_before_between_during_and_after(empty_cache: None) -> None:
    before, text = surface(), compiled()
    failures: list[BaseException] = []

    def compile_again() -> None:
        try:
            assert compiled() == text
        except BaseException as error:
            failures.append(error)

    x, y = np.linspace(-3, 3, 10, dtype=np.float32), np.zeros(1, np.float32)
    want = np.sum(np.tanh(x) / (1 + np.exp(-x)))
    thread = threading.Thread(target=compile_again)
    thread.start()
    while thread.is_alive():
        run(ROWS, x, y, np.int32(10), BLOCK=4)
        np.testing.assert_allclose(y[0], want, rtol=1e-6)
        thread.join(0.02)  # lets the compiler have the interpreter lock
    assert not failures
    with pytest.raises(KernelFault):
        run(ROWS, x, y, np.int32(11), BLOCK=4)
    assert compiled() == text
    assert surface() == before
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        module(ROWS)["gate"](1.0)


def test_launches_in_several_threads() -> None:
    outputs = [np.zeros(300, np.int64) for _ in range(4)]
    text = """
@triton.jit
def kernel(y_ptr, value):
    tl.store(y_ptr + tl.program_id(0), value + tl.num_programs(0))
"""
    threads = [
        threading.Thread(target=run, args=(text, y, np.int32(k)), kwargs={"grid": (200 + k, 1, 1)})
        for k, y in enumerate(outputs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, y in enumerate(outputs):
        assert y.tolist() == [200 + 2 * k] * (200 + k) + [0] * (100 - k)


def test_neither_torch_nor_the_interpret_variable() -> None:
    program = f"""
import os, sys
import numpy as np
from launch.cpu.triton import interpret
from launch.module import execute
x = np.arange(4, dtype=np.float32)
kernel = interpret(execute({HEADER + COPY!r}, "copy"), "copy", ["*fp32", "*fp32", "i32"], dict(BLOCK=4))
kernel((1, 1, 1), (1, 1, 1), (x.ctypes.data, x.ctypes.data, np.int32(4)))
print("torch" in sys.modules, "TRITON_INTERPRET" in os.environ)
"""
    root = Path(inspect.getfile(execute)).parents[1]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


def test_a_module_executed_for_upstreams_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    namespace = execute(HEADER + COPY, "interpreted")
    with pytest.raises(ValueError, match="got InterpretedFunction; execute the module with TRITON_INTERPRET unset"):
        interpret(namespace, "copy", ["*fp32", "*fp32", "i32"], {"BLOCK": 4})
