"""Compiling for real, with no GPU: Triton to cubin and to AMD code, CUDA C through NVRTC."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_samples import CUDA_WIDE, ROOT, SCALED, SCALED_CUDA, SM90, TRITON, WIDE

from emitter import dtypes
from emitter.dtypes import DTYPES, DType
from emitter.source import Instance, KernelSource, ParamSpec
from launch.artifact import Artifact, resources
from launch.compile_cuda import compile_cuda
from launch.compile_triton import compile_triton, signature, triton_key
from launch.targets import Target

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

    @pytest.mark.parametrize("text", ["hip:gfx90a", "hip:gfx90a:sramecc+:xnack-", "hip:gfx942", "hip:gfx1100"])
    def test_amd(self, text: str) -> None:
        target = Target.parse(text)
        made = compile_triton(SCALED, WIDE, target)
        assert (made.entry, made.kind, made.num_warps, made.scratch) == ("scaled", "hsaco", 4, 2)
        assert made.binary.startswith(b"\x7fELF")
        assert list(made.levels) == ["ttir", "ttgir", "llir", "amdgcn"]
        assert re.search(rf'\.amdgcn_target "\S+-{target.processor}"', made.levels["amdgcn"])
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
        text = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"
        text += "@triton.jit\ndef one(x, out_ptr):\n    tl.store(out_ptr, libdevice.exp(libdevice.rsqrt(x)))\n"
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
from tests.kernel_samples import *
from launch.compile_triton import compile_triton, triton_key
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
