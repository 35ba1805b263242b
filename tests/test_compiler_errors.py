"""What a kernel that does not compile, and a library that is not there, say."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from kernel_samples import CUDA, CUDA_WIDE, PARAMS, SCALED, SCALED_CUDA, SM90, TRITON, WIDE

from launch.artifact import resources
from launch.compile_cuda import compile_cuda
from launch.compile_triton import compile_triton, triton_key
from launch.errors import BadTarget, CompileError, MissingLibrary
from launch.targets import Target


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
        with pytest.raises(MissingLibrary, match=r"Triton is not installed.*pip install 'kernelpress\[cuda13\]'"):
            compile_triton(SCALED, WIDE, SM90)


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
        with pytest.raises(MissingLibrary, match=r"CuPy is not installed.*pip install 'kernelpress\[cuda13\]'"):
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
