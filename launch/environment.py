"""Every environment variable that kernelpress reads, in one table, with one accessor each."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Variable:
    """One variable: what it means and what holds when it is unset or empty."""

    name: str
    meaning: str
    default: str


CACHE_DIR = "KERNELPRESS_CACHE_DIR"
XDG_CACHE_HOME = "XDG_CACHE_HOME"
LOCALAPPDATA = "LOCALAPPDATA"
INTERPRET = "TRITON_INTERPRET"
CXX = "CXX"

VARIABLES: tuple[Variable, ...] = (
    Variable(CACHE_DIR, "folder of the code cache", "kernelpress in the user's cache folder"),
    Variable(XDG_CACHE_HOME, "the user's cache folder, if an absolute path (Linux)", "~/.cache"),
    Variable(LOCALAPPDATA, "the user's cache folder (Windows)", "~/AppData/Local"),
    Variable(CXX, "the C++ compiler that runs CUDA C on the CPU", "g++, clang++, c++ or the package ziglang's"),
    Variable("HOME", "where ~ is", "the user's entry in the password database"),
    Variable(
        INTERPRET,
        "must be unset: it stops Triton from compiling; kernelpress runs on the CPU without it",
        "unset",
    ),
    Variable(
        "TRITON_*, PTXAS_OPTIONS, DISABLE_*, AMDGCN_*, LLVM_*, MLIR_*",
        "Triton's own; those that can change a binary are part of the cache key",
        "Triton's defaults",
    ),
)


def cache_folder() -> Path | None:
    """Where the code cache belongs; None when nothing is set and the user has no home folder.

    A home that is the root of the file system, as containers give to unknown users, counts as none.
    """
    chosen = os.environ.get(CACHE_DIR)
    if chosen:
        with contextlib.suppress(RuntimeError):  # nobody knows what ~ is
            return Path(chosen).expanduser().absolute()
        return Path(chosen).absolute()
    base = _user_cache()
    return None if base is None else base / "kernelpress"


def home() -> Path:
    """The user's home folder; "~" itself when nobody knows it."""
    try:
        return Path("~").expanduser()
    except RuntimeError:
        return Path("~")


def host_compiler_name() -> str:
    """What CXX names; "" for nothing."""
    return os.environ.get(CXX, "")


def triton_interprets() -> bool:
    """Whether the environment asks Triton to interpret, which prevents compiling in this process."""
    return os.environ.get(INTERPRET, "").lower() in ("1", "true", "on", "yes", "y")


def _user_cache() -> Path | None:
    if sys.platform == "win32":
        local = os.environ.get(LOCALAPPDATA)
        if local:
            return Path(local)
        return _below_home("AppData", "Local")
    if sys.platform == "darwin":
        return _below_home("Library", "Caches")
    chosen = os.environ.get(XDG_CACHE_HOME)
    if chosen and Path(chosen).is_absolute():
        return Path(chosen)
    return _below_home(".cache")


def _below_home(*names: str) -> Path | None:
    top = home()
    if not top.is_absolute() or top == Path(top.anchor):
        return None
    return top.joinpath(*names)
