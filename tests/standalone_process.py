"""Run generated files by themselves: a process of its own, in which kernelpress and torch cannot be imported.

    python -I standalone_process.py import FOLDER           import every Python file below FOLDER
    python -I standalone_process.py record FOLDER CALLS     launch with a fake CuPy that records, on any machine
    python -I standalone_process.py run FOLDER ARRAYS       launch on this machine's GPU

Prints one JSON document. `record` compiles for real, for sm_90. `run` takes inputs from ARRAYS, an .npz file, and
puts the results of both backends beside it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

BLOCKED = {"emitter", "launch", "torch", "jinja2"}


class Blocker:
    """Makes the blocked packages look as if they were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def load(path: Path) -> ModuleType:
    """Import one file, as a project that has taken it over would."""
    spec = importlib.util.spec_from_file_location(f"vendored_{path.stem}_{len(sys.modules)}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def import_all(folder: Path) -> dict[str, Any]:
    files = sorted(folder.rglob("*.py"))
    for path in files:
        module = load(path)
        assert callable(module.launch) and callable(module.build) and module.__doc__
    return {"files": len(files), "imported": [m for m in ("cupy", *BLOCKED) if m in sys.modules]}


# --- A CuPy that computes nothing


class FakeFunction:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, symbol: str, calls: list[Any]) -> None:
        self.symbol = symbol
        self.calls = calls

    def __call__(self, grid: Any, block: Any, arguments: Any, shared: int, stream: Any) -> None:
        shown = [[type(a).__name__, float(a)] if not isinstance(a, int) else ["pointer", a] for a in arguments]
        call = {"symbol": self.symbol, "grid": grid, "block": block, "arguments": shown}
        self.calls.append({**call, "shared": shared, "stream": stream.ptr})


def fake_cupy(calls: list[Any], loads: list[int]) -> ModuleType:
    """A module with the parts of CuPy that generated code uses; its arrays are NumPy arrays with a device."""
    import numpy as np

    class Array:
        """What a launch looks at in a CuPy array, told of a NumPy array."""

        def __init__(self, held: Any) -> None:
            self.dtype, self.shape, self.strides = held.dtype, held.shape, held.strides
            self.itemsize, self.flags = held.itemsize, held.flags
            self.data = SimpleNamespace(ptr=held.ctypes.data, device_id=0)
            self.held = held

    class Module:
        def load(self, binary: bytes) -> None:
            assert binary[:4] == b"\x7fELF", "no cubin"
            self.binary = binary
            loads.append(len(binary))

        def get_function(self, symbol: str) -> FakeFunction:
            assert symbol.encode() in self.binary, f"{symbol} is not in the cubin"
            return FakeFunction(symbol, calls)

    class Device(contextlib.nullcontext[None]):
        compute_capability = "90"

    class Arrays(ModuleType):
        def __init__(self) -> None:
            super().__init__("cupy")
            self.cuda: Any = ModuleType("cupy.cuda")
            self.ndarray = Array

        def empty(self, shape: Any, dtype: Any) -> Any:
            return Array(np.empty(shape, dtype))

    cupy = Arrays()
    cupy.cuda.Device = Device
    cupy.cuda.runtime = SimpleNamespace(getDevice=lambda: 0)
    cupy.cuda.function = SimpleNamespace(Module=Module)
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=7, is_capturing=lambda: False)
    return cupy


def record(folder: Path, calls_file: Path) -> dict[str, Any]:
    """Each call of the document `calls_file`: what it launched, or what it raised."""
    import cupy as real
    import numpy as np

    calls: list[Any] = []
    loads: list[int] = []
    fake: Any = fake_cupy(calls, loads)
    fake.cuda.nvrtc = real.cuda.nvrtc
    fake.cuda.nvrtc.getVersion()  # finds its library, by the real CuPy's help
    sys.modules |= {"cupy": fake, "cupy.cuda": fake.cuda}
    results = []
    modules: dict[str, ModuleType] = {}
    for request in json.loads(calls_file.read_text(encoding="utf-8")):
        arrays: list[Any] = []
        for dtype, shape, kind in request["arrays"]:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            buffer = np.zeros(size + 128, np.uint8)
            at = -buffer.ctypes.data % 64 + (2 if kind == "unaligned" else 0)
            flat = buffer[at : at + size].view(dtype)
            array = flat.reshape(shape[::-1]).T if kind == "transposed" else flat.reshape(shape)
            arrays.append(array if kind == "numpy" else fake.ndarray(array))
        out = None if request["out"] is None else arrays[request["out"]]
        inputs = arrays if out is None else arrays[: request["out"]]
        module = modules.setdefault(request["file"], load(folder / request["file"]))
        calls.clear()
        loads.clear()
        try:
            result = module.launch(*inputs, *request["scalars"], out=out)
        except (TypeError, ValueError) as error:
            results.append({"raised": type(error).__name__, "message": str(error), "calls": list(calls)})
            continue
        first = result[0] if isinstance(result, tuple) else result
        entry = {"calls": list(calls), "loads": len(loads), "is_out": first is out}
        entry |= {
            "pointers": [a.data.ptr for a in inputs],
            "result": [first.data.ptr, str(first.dtype), first.shape],
        }
        results.append(entry)
    return {"results": results}


def run(folder: Path, arrays_file: Path) -> dict[str, Any]:
    import cupy
    import numpy as np

    with np.load(arrays_file) as loaded:
        inputs = [cupy.asarray(loaded[name]) if loaded[name].ndim else loaded[name][()] for name in loaded.files]
    results = {}
    for file in ("cuda_launch.py", "triton_kernel.py"):
        module = load(folder / file)
        result = module.launch(*inputs)
        again = module.launch(*inputs)
        for k, (one, two) in enumerate(
            zip(*(r if isinstance(r, tuple) else (r,) for r in (result, again)), strict=True)
        ):
            assert bool((one == two).all()), "two launches differ"
            results[f"{Path(file).stem}_{k}"] = cupy.asnumpy(one)
    np.savez(arrays_file.with_name("results.npz"), **results)
    return {"results": sorted(results), "imported": [m for m in BLOCKED if m in sys.modules]}


def main(command: str, folder: str, *more: str) -> None:
    sys.meta_path.insert(0, Blocker())
    for name in BLOCKED:
        assert name not in sys.modules
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
            raise AssertionError(f"{name} can be imported")
    action = {"import": import_all, "record": record, "run": run}[command]
    print(json.dumps(action(Path(folder), *map(Path, more))))


if __name__ == "__main__":
    main(*sys.argv[1:])
