"""The keys of compiled kernels."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from kernel_samples import PARAMS, SCALED, SCALED_CUDA, SM90, TRITON, WIDE

from emitter import dtypes
from emitter.schedule import Schedule
from emitter.source import GridExpr, Instance
from launch.artifact import CacheKey
from launch.compile_cuda import cuda_key
from launch.compile_triton import compile_triton, triton_key
from launch.targets import Target


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
    def test_settings_of_triton_that_change_a_binary(self, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
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
    def test_explicit_defaults_and_unrelated_settings(self, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
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
