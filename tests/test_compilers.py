"""Compiling for real, with no GPU: Triton to cubin and to AMD code, CUDA C through NVRTC."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import emitter.source
from emitter import dtypes
from emitter.dtypes import DTYPES, DType
from emitter.schedule import Schedule
from emitter.source import GridExpr, Instance, KernelSource, ParamSpec
from launch.artifact import Artifact, CacheKey, resources
from launch.compile_cuda import compile_cuda, cuda_key
from launch.compile_triton import compile_triton, signature, triton_key
from launch.errors import BadTarget, CompileError, MissingLibrary
from launch.targets import Target

ROOT = Path(emitter.source.__file__).parents[1]

TRITON = """
import triton
import triton.language as tl


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def scaled(x_ptr, y_ptr, M, N, scale, INDEX: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    m = (pid // columns).to(INDEX) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = (pid % columns).to(INDEX) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (m < M) & (n < N)
    x = tl.load(x_ptr + m * N + n, mask=inside).to(tl.float32)
    y = doubled(x) * scale + x
    tl.store(y_ptr + m * N + n, y.to(tl.float16), mask=inside)
"""

CUDA = """
struct f16 {
    unsigned short bits;
};

template <typename Index, int VEC>
__global__ void __launch_bounds__(256) scaled(
    const float* __restrict__ x_ptr, float* __restrict__ y_ptr, Index M, Index N, float scale) {
    const Index i = (Index(blockIdx.x) * blockDim.x + threadIdx.x) * VEC;
    for (int j = 0; j < VEC; ++j) {
        if (i + j < M * N) y_ptr[i + j] = x_ptr[i + j] * scale + x_ptr[i + j];
    }
}
"""

PARAMS = (
    ParamSpec("x_ptr", "pointer", dtypes.F16, divisible=True),
    ParamSpec("y_ptr", "pointer", dtypes.F16, divisible=True),
    ParamSpec("M", "size"),
    ParamSpec("N", "size", divisible=True),
    ParamSpec("scale", "scalar", dtypes.F16),
)
SCALED = KernelSource(
    backend="triton",
    name="scaled",
    entry="scaled",
    device=TRITON,
    host="",
    params=PARAMS,
    grid=GridExpr((("M", "BLOCK_M"), ("N", "BLOCK_N"))),
    instances=(),
    schedule=Schedule(num_warps=4, num_stages=3),
    tile_names=("BLOCK_M", "BLOCK_N"),
    options=(),
    files=(),
)
SCALED_CUDA = replace(SCALED, backend="cuda", device=CUDA, tile_names=())
WIDE = Instance("i32", 8, (4, 256))
CUDA_WIDE = Instance("i32", 4)
SM90 = Target.parse("cuda:90")
PTX_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def ptx_parameters(artifact: Artifact) -> list[str]:
    """The types of the entry's parameters, in order: u64, u32, f32, ..."""
    found = re.search(rf"\.entry {artifact.entry}\(([^)]*)\)", artifact.levels["ptx"])
    assert found is not None
    return re.findall(r"\.param \.(\w+)", found.group(1))


def one_parameter(param: ParamSpec, expression: str) -> KernelSource:
    """A Triton kernel that stores something made from one parameter."""
    text = f"import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef one({param.name}, out_ptr):\n"
    text += f"    tl.store(out_ptr, {expression})\n"
    out = ParamSpec("out_ptr", "pointer", dtypes.F32)
    return replace(SCALED, entry="one", device=text, params=(param, out), tile_names=())


class TestTriton:
    @pytest.mark.parametrize("text", ["cuda:80", "cuda:90", "cuda:90a", "cuda:120"])
    def test_cubin(self, text: str) -> None:
        target = Target.parse(text)
        made = compile_triton(SCALED, WIDE, target)
        assert (made.backend, made.target, made.entry, made.kind) == ("triton", target, "scaled", "cubin")
        assert made.binary.startswith(b"\x7fELF")
        assert (made.num_warps, made.shared, made.scratch) == (4, 0, 2)
        assert list(made.levels) == ["ttir", "ttgir", "llir", "ptx", "sass"]
        assert f".target sm_{target.capability}" in made.levels["ptx"]
        assert resources(made).registers > 0

    @pytest.mark.parametrize(
        "text", ["hip:gfx90a", "hip:gfx90a:sramecc+:xnack-", "hip:gfx942", "hip:gfx1100"]
    )
    def test_amd(self, text: str) -> None:
        target = Target.parse(text)
        made = compile_triton(SCALED, WIDE, target)
        assert (made.entry, made.kind, made.num_warps, made.scratch) == ("scaled", "hsaco", 4, 2)
        assert made.binary.startswith(b"\x7fELF")
        assert list(made.levels) == ["ttir", "ttgir", "llir", "amdgcn"]
        assert f"amdgcn-amd-amdhsa--{target.processor}" in made.levels["amdgcn"]
        assert f".wavefront_size: {target.warp_size}" in made.levels["amdgcn"]
        assert resources(made).registers > 0

    def test_the_vector_instance_loads_16_bytes(self) -> None:
        wide = compile_triton(SCALED, WIDE, SM90).levels["ptx"]
        narrow = compile_triton(SCALED, replace(WIDE, vector=1), SM90).levels["ptx"]
        assert "ld.global.v4.b32" in wide
        assert "st.global.v4.b32" in wide
        assert ".v4." not in narrow

    def test_sizes_are_as_wide_as_the_index(self) -> None:
        narrow = compile_triton(SCALED, WIDE, SM90)
        wide = compile_triton(SCALED, replace(WIDE, index="i64"), SM90)
        assert ptx_parameters(narrow) == ["u64", "u64", "u32", "u32", "f32", "u64", "u64"]
        assert ptx_parameters(wide) == ["u64", "u64", "u64", "u64", "f32", "u64", "u64"]

    def test_nothing_is_contracted_unless_asked(self) -> None:
        exact = compile_triton(SCALED, WIDE, SM90)
        assert "fma" not in exact.levels["ptx"]
        assert "FFMA" not in exact.levels["sass"]
        fused = compile_triton(replace(SCALED, options=(("enable_fp_fusion", "True"),)), WIDE, SM90)
        assert "FFMA" in fused.levels["sass"]

    def test_subnormals_are_kept(self) -> None:
        text = (
            "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"
        )
        text += (
            "@triton.jit\ndef one(x, out_ptr):\n    tl.store(out_ptr, libdevice.exp(libdevice.rsqrt(x)))\n"
        )
        params = (ParamSpec("x", "scalar", dtypes.F32), ParamSpec("out_ptr", "pointer", dtypes.F32))
        source = replace(SCALED, entry="one", device=text, params=params, tile_names=())
        assert "rsqrt.approx.f32" in compile_triton(source, Instance("i32", 1), SM90).levels["ptx"]

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_every_scalar_arrives_at_the_width_it_is_passed_at(self, dtype: DType) -> None:
        source = one_parameter(ParamSpec("s", "scalar", dtype), "s.to(tl.float32)")
        kinds = ptx_parameters(compile_triton(source, Instance("i32", 1), SM90))
        held = dtype.compute
        expected = f"f{held.bits}" if held.is_float else PTX_TYPES[held.itemsize]
        assert kinds == [expected, "u64", "u64", "u64"]

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_every_element_type(self, dtype: DType) -> None:
        source = one_parameter(ParamSpec("x_ptr", "pointer", dtype), "tl.load(x_ptr).to(tl.float32)")
        loads = compile_triton(source, Instance("i32", 1), SM90).levels["ptx"]
        assert re.search(rf"ld\.global(\.\w+)*\.b{dtype.itemsize * 8} ", loads)

    def test_signature(self) -> None:
        params = [ParamSpec(d.name, "pointer", d) for d in DTYPES] + [
            ParamSpec("M", "size"),
            ParamSpec("s", "stride"),
        ]
        types = signature(tuple(params), Instance("i64", 1))
        assert " ".join(types.values()) == (
            "*fp16 *bf16 *fp32 *fp64 *i8 *i16 *i32 *i64 *u8 *u16 *u32 *u64 *i1 *u8 *u8 i64 i64"
        )

    def test_a_kernel_with_no_index_argument(self) -> None:
        device = TRITON.replace("INDEX: tl.constexpr, ", "").replace(".to(INDEX)", "")
        assert compile_triton(replace(SCALED, device=device), WIDE, SM90).scratch == 2

    def test_the_environment_does_not_choose_the_target(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = compile_triton(SCALED, WIDE, SM90)
        monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
        assert compile_triton(SCALED, WIDE, SM90) == plain

    def test_nothing_is_left_on_disk_and_nothing_big_is_imported(self, tmp_path: Path) -> None:
        program = """
import hashlib, sys
sys.modules["torch"] = None
from tests.test_compilers import *
for target in (SM90, Target.parse("hip:gfx942")):
    made = compile_triton(SCALED, WIDE, target)
    print(triton_key(SCALED, WIDE, target).digest, hashlib.sha256(made.binary).hexdigest())
assert "cupy" not in sys.modules and sys.modules["torch"] is None
"""
        reports = []
        for seed in ("1", "2"):
            home, scratch = tmp_path / f"home{seed}", tmp_path / f"tmp{seed}"
            for folder in (home, scratch):
                folder.mkdir()
            here = {
                "HOME": str(home),
                "TMPDIR": str(scratch),
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            }
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=os.environ | here,
                cwd=ROOT if seed == "1" else home,
                capture_output=True,
                encoding="utf-8",
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            assert [*home.rglob("*"), *scratch.rglob("*")] == []
            reports.append(done.stdout)
        assert reports[0] == reports[1]
        assert triton_key(SCALED, WIDE, SM90).digest in reports[0]


class TestTritonErrors:
    @pytest.mark.parametrize(
        ("old", "new", "line", "reason"),
        [
            ("tl.load(", "tl.loaf(", "tl.loaf(x_ptr", "has no attribute 'loaf'"),
            ("return x + x", "return x + missing", "return x + missing", "missing is not defined"),
            ("tl.cdiv(N, BLOCK_N)", "tl.zeros((3,), tl.int32)", "tl.zeros((3,)", "power of 2"),
            ("pid = tl.program_id(0)", "pid = = 0", "pid = = 0", "invalid syntax"),
            (
                "import triton.language as tl",
                "import triton.langwidge as tl",
                "import triton.langwidge",
                "langwidge",
            ),
        ],
    )
    def test_names_kernel_target_line_and_message(self, old: str, new: str, line: str, reason: str) -> None:
        device = TRITON.replace(old, new)
        with pytest.raises(CompileError, match=re.escape(reason)) as caught:
            compile_triton(replace(SCALED, device=device), WIDE, SM90)
        error = caught.value
        assert (error.kernel, error.target) == ("scaled", "cuda:90")
        assert error.line is not None
        assert line in error.text == device.splitlines()[error.line - 1]
        assert all(part in str(error) for part in ("'scaled'", "cuda:90", line, f"line {error.line}"))

    def test_no_such_kernel(self) -> None:
        with pytest.raises(CompileError, match="defines no function 'scaled'"):
            compile_triton(replace(SCALED, device="import triton\n"), WIDE, SM90)

    @pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2, 4)])
    def test_parameters_that_are_not_the_kernels(self, order: tuple[int, ...]) -> None:
        params = tuple(PARAMS[i] for i in order)
        with pytest.raises(CompileError, match=r"the kernel takes \(x_ptr, y_ptr, M, N, scale"):
            compile_triton(replace(SCALED, params=params), WIDE, SM90)

    def test_unknown_option(self) -> None:
        source = replace(SCALED, options=(("num_wraps", "4"),))
        with pytest.raises(CompileError, match=r"no option 'num_wraps'.*num_warps"):
            compile_triton(source, WIDE, SM90)
        with pytest.raises(CompileError, match="num_wraps"):
            triton_key(source, WIDE, SM90)

    def test_bad_warps(self) -> None:
        with pytest.raises(CompileError, match="power of 2"):
            compile_triton(replace(SCALED, options=(("num_warps", "3"),)), WIDE, SM90)

    def test_interpreting_is_in_the_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        with pytest.raises(CompileError, match=r"TRITON_INTERPRET is set.*unset"):
            compile_triton(SCALED, WIDE, SM90)

    def test_cpu_target(self) -> None:
        with pytest.raises(BadTarget, match="not for cpu:x86_64"):
            compile_triton(SCALED, WIDE, Target.parse("cpu:x86_64"))

    def test_no_triton(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "triton.backends.compiler", None)
        with pytest.raises(
            MissingLibrary, match=r"Triton is not installed.*pip install 'kernelpress\[cuda13\]'"
        ):
            compile_triton(SCALED, WIDE, SM90)


class TestCuda:
    @pytest.mark.parametrize("text", ["cuda:80", "cuda:90", "cuda:90a", "cuda:120"])
    def test_cubin(self, text: str) -> None:
        target = Target.parse(text)
        made = compile_cuda(SCALED_CUDA, CUDA_WIDE, target)
        assert (made.backend, made.target, made.kind) == ("cuda", target, "cubin")
        assert made.entry.startswith("_Z6scaledIiLi4EEv")
        assert made.binary.startswith(b"\x7fELF")
        assert (made.num_warps, made.shared, made.scratch) == (0, 0, 0)
        assert list(made.levels) == ["ptx", "sass"]
        assert f".target {target.processor}" in made.levels["ptx"]
        assert resources(made).registers > 0

    def test_instances_are_template_arguments(self) -> None:
        wide = compile_cuda(SCALED_CUDA, Instance("i64", 1), SM90)
        assert wide.entry.startswith("_Z6scaledIxLi1EEv")
        assert ptx_parameters(wide) == ["u64", "u64", "u64", "u64", "f32"]
        assert compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90).entry != wide.entry

    @pytest.mark.parametrize(("linkage", "entry"), [("", "_Z3onePfb"), ('extern "C" ', "one")])
    def test_plain_kernel_and_one_byte_bool(self, linkage: str, entry: str) -> None:
        text = linkage + "__global__ void one(float* out_ptr, bool flag) { *out_ptr = flag ? 1.f : 2.f; }"
        made = compile_cuda(replace(SCALED_CUDA, entry="one", device=text), CUDA_WIDE, SM90)
        assert made.entry == entry
        assert ptx_parameters(made) == ["u64", "u8"]

    def test_nothing_is_contracted_or_flushed_unless_asked(self) -> None:
        exact = compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90)
        assert "fma" not in exact.levels["ptx"]
        assert ".ftz" not in exact.levels["ptx"]
        asked = replace(SCALED_CUDA, options=(("--fmad", "true"), ("--ftz", "true")))
        assert "fma.rn.ftz" in compile_cuda(asked, CUDA_WIDE, SM90).levels["ptx"]

    def test_resources(self) -> None:
        text = """__global__ void one(float* out_ptr, int n) {
            __shared__ float row[256];
            float local[64];
            for (int i = 0; i < n; ++i) local[(i * n) % 64] = out_ptr[i];
            row[threadIdx.x] = local[n % 64];
            __syncthreads();
            out_ptr[threadIdx.x] = row[n % 256];
        }"""
        used = resources(
            compile_cuda(replace(SCALED_CUDA, entry="one", device=text), CUDA_WIDE, Target.parse("cuda:80"))
        )
        assert used.shared == 1024
        assert used.stack >= 256
        assert used.spills >= 2
        assert 0 < used.registers < 256

    def test_same_key_same_bytes(self) -> None:
        assert compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90) == compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90)


class TestCudaErrors:
    def test_names_kernel_target_line_and_message(self) -> None:
        device = CUDA.replace("* scale +", "* scales +")
        with pytest.raises(CompileError, match='identifier "scales" is undefined') as caught:
            compile_cuda(replace(SCALED_CUDA, device=device), CUDA_WIDE, SM90)
        error = caught.value
        assert (error.kernel, error.target) == ("scaled", "cuda:90")
        assert error.line is not None
        assert "scales" in error.text == device.splitlines()[error.line - 1]

    def test_no_include_path(self) -> None:
        with pytest.raises(CompileError, match=r"cuda_fp16\.h") as caught:
            compile_cuda(replace(SCALED_CUDA, device="#include <cuda_fp16.h>\n" + CUDA), CUDA_WIDE, SM90)
        assert caught.value.line == 1

    @pytest.mark.parametrize("option", ["-arch", "--no-such-flag"])
    def test_what_nvrtc_does_not_take(self, option: str) -> None:
        with pytest.raises(CompileError, match="nvrtc: error"):
            compile_cuda(replace(SCALED_CUDA, options=((option, "sm_12345"),)), CUDA_WIDE, SM90)

    def test_no_such_kernel(self) -> None:
        with pytest.raises(CompileError, match="undefined"):
            compile_cuda(replace(SCALED_CUDA, entry="missing"), CUDA_WIDE, SM90)

    @pytest.mark.parametrize("text", ["hip:gfx942", "cpu:x86_64"])
    def test_other_targets(self, text: str) -> None:
        with pytest.raises(BadTarget, match=f"not for {text}"):
            compile_cuda(SCALED_CUDA, CUDA_WIDE, Target.parse(text))

    def test_no_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy.cuda", None)
        with pytest.raises(
            MissingLibrary, match=r"CuPy is not installed.*pip install 'kernelpress\[cuda13\]'"
        ):
            compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90)

    def test_no_nvrtc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def get_version() -> tuple[int, int]:
            raise RuntimeError("CuPy failed to load libnvrtc.so.13")

        cuda = ModuleType("cupy.cuda")
        cuda.__dict__["nvrtc"] = SimpleNamespace(getVersion=get_version)
        monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
        with pytest.raises(MissingLibrary, match=r"NVRTC is not installed.*libnvrtc\.so\.13"):
            compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90)

    def test_no_disassembler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = compile_cuda(SCALED_CUDA, CUDA_WIDE, SM90)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert list(made.levels) == ["ptx"]
        with pytest.raises(MissingLibrary, match=r"nvdisasm is not installed.*Triton"):
            _ = made.levels["sass"]
        with pytest.raises(MissingLibrary, match="cuobjdump"):
            resources(made)


class TestKeys:
    """Each change that alters the binary gives another key, each that does not gives the same one."""

    def triton(self, instance: Instance = WIDE, target: Target = SM90, **changes: Any) -> CacheKey:
        return triton_key(replace(SCALED, **changes), instance, target)

    def test_sources_instances_and_targets_differ(self) -> None:
        keys = [
            self.triton(),
            self.triton(device=TRITON.replace("x + x", "x * 3.0")),
            self.triton(params=(replace(PARAMS[0], dtype=dtypes.BF16), *PARAMS[1:])),
            self.triton(params=(replace(PARAMS[0], divisible=False), *PARAMS[1:])),
            self.triton(schedule=Schedule(num_warps=8, num_stages=3)),
            self.triton(schedule=Schedule(num_warps=4, num_stages=4)),
            self.triton(options=(("enable_fp_fusion", "True"),)),
            self.triton(options=(("maxnreg", "64"),)),
            self.triton(replace(WIDE, index="i64")),
            self.triton(replace(WIDE, vector=1)),
            self.triton(replace(WIDE, tile=(8, 128))),
            *(self.triton(target=Target.parse(f"cuda:{arch}")) for arch in ("80", "90a", "120", "121")),
            self.triton(target=Target.parse("hip:gfx90a")),
            self.triton(target=Target.parse("hip:gfx90a:sramecc+:xnack-")),
            self.triton(target=Target.parse("hip:gfx90a:sramecc+:xnack+")),
            cuda_key(SCALED_CUDA, WIDE, SM90),
            cuda_key(replace(SCALED_CUDA, options=(("--fmad", "true"),)), WIDE, SM90),
            cuda_key(replace(SCALED_CUDA, options=(("--ftz", "true"),)), WIDE, SM90),
            cuda_key(replace(SCALED_CUDA, options=(("-lineinfo", ""),)), WIDE, SM90),
            cuda_key(replace(SCALED_CUDA, options=(("-I", "/include"),)), WIDE, SM90),
        ]
        assert len({key.digest for key in keys}) == len(keys)

    def test_what_is_not_compiled_is_not_in_the_key(self) -> None:
        changes: list[dict[str, Any]] = [
            {"host": "import numpy"},
            {"name": "other"},
            {"files": (("a", "b"),)},
            {"grid": GridExpr(())},
            {"schedule": Schedule(num_warps=4, num_stages=3, vector=4, rows=8)},
            {"options": (("enable_fp_fusion", "False"),)},
        ]
        assert {self.triton(**change).digest for change in changes} == {self.triton().digest}
        explicit = replace(SCALED_CUDA, options=(("--fmad", "false"),))
        assert cuda_key(explicit, WIDE, SM90) == cuda_key(SCALED_CUDA, WIDE, SM90)

    @pytest.mark.parametrize(
        "setting",
        [
            "DISABLE_PTXAS_OPT=1",
            "PTXAS_OPTIONS=-O1",
            "TRITON_DISABLE_LINE_INFO=1",
            "DISABLE_LLVM_OPT=1",
            "AMDGCN_USE_BUFFER_OPS=0",
            "TRITON_F32_DEFAULT=ieee",
            "TRITON_PTXAS_PATH=" + sys.executable,
            "TRITON_LIBDEVICE_PATH=" + sys.executable,
        ],
    )
    def test_settings_of_triton_that_change_a_binary(
        self, monkeypatch: pytest.MonkeyPatch, setting: str
    ) -> None:
        plain = self.triton()
        monkeypatch.setenv(*setting.split("=", 1))
        changed = self.triton()
        assert changed.digest != plain.digest
        assert setting.split("=")[0] in changed.compiler
        assert sys.executable not in changed.compiler

    @pytest.mark.parametrize(
        "setting",
        [
            "DISABLE_PTXAS_OPT=0",
            "TRITON_DISABLE_LINE_INFO=0",
            "DISABLE_LLVM_OPT=0",
            "AMDGCN_USE_BUFFER_OPS=1",
            "TRITON_CACHE_DIR=/elsewhere",
            "TRITON_ALWAYS_COMPILE=1",
            "TRITON_LIBCUDA_PATH=/elsewhere",
            "KERNELPRESS_CACHE_DIR=/elsewhere",
            "UNRELATED=1",
        ],
    )
    def test_explicit_defaults_and_unrelated_settings(
        self, monkeypatch: pytest.MonkeyPatch, setting: str
    ) -> None:
        plain = self.triton()
        monkeypatch.setenv(*setting.split("="))
        assert self.triton() == plain

    def test_settings_reach_the_binary_only_with_their_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = compile_triton(SCALED, WIDE, SM90)
        monkeypatch.setenv("PTXAS_OPTIONS", "-O0")
        assert compile_triton(SCALED, WIDE, SM90).binary != plain.binary
        monkeypatch.delenv("PTXAS_OPTIONS")
        assert compile_triton(SCALED, WIDE, SM90).binary == plain.binary

    def test_compilers_are_named_with_their_versions(self) -> None:
        assert re.fullmatch(r"triton \d+\.\d+\.\d+\S*", self.triton().compiler)
        assert re.match(r"nvrtc \d+\.\d+", cuda_key(SCALED_CUDA, WIDE, SM90).compiler)
