"""The main job in one go: describe a group, emit it in both languages, run both, compare with NumPy."""

import time
from pathlib import Path

import numpy as np

import emitter
import launch


@emitter.group
def bias_gelu(x: "f16[M, N]", b: "f16[N]"):
    h = x + b
    y = emitter.gelu(h, approximate="tanh")
    return y


def main() -> None:
    described = emitter.read(Path(__file__).with_name("bias_gelu.toml"))
    assert described == bias_gelu, "the TOML text and the traced function are the same group"
    print("group       y[M, N] = gelu(x[M, N] + b[N], approximate='tanh') in f16, traced and read from TOML: equal")

    begin = time.perf_counter()
    paths = emitter.write(bias_gelu, "out")
    print(f"emitted     {', '.join(p.name for p in paths)} in {(time.perf_counter() - begin) * 1e3:.0f} ms")

    random = np.random.default_rng(0)
    x = random.normal(size=(300, 1000)).astype(np.float16)
    b = random.normal(size=1000).astype(np.float16)
    want = emitter.reference(bias_gelu, x, b)
    for backend in emitter.BACKENDS:
        kernel = launch.load(bias_gelu, backend)
        begin = time.perf_counter()
        if kernel.device == "cuda":
            import cupy

            got = cupy.asnumpy(kernel(cupy.asarray(x), cupy.asarray(b)))
        else:
            got = kernel(x, b)
        elapsed = time.perf_counter() - begin
        places = np.abs(got.view(np.int16).astype(int) - want.view(np.int16).astype(int)).max()
        equal = (got == want).mean()
        verdict = "equals NumPy" if places <= 1 else "DIFFERS FROM NUMPY"
        print(
            f"{backend:<11} on the {'GPU' if kernel.device == 'cuda' else 'CPU'}: {verdict} to the last place "
            f"({equal:.2%} of {got.size} elements bit for bit), first call {elapsed:.2f} s"
        )
        if places > 1:
            raise SystemExit(1)
    print(f"source      {paths[0].parent}/: triton_kernel.py | cuda_kernel.cu with cuda_launch.py")


if __name__ == "__main__":
    main()
