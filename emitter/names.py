"""Which names a description may use, and which identifiers they become in generated source."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from typing import Literal

from .errors import UnsafeName

Language = Literal["python", "cpp"]

CONSTANTS = {"inf": float("inf"), "nan": float("nan")}
"""Names that mean a number in every expression, so nothing else may bear them."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST = 64


def check_name(name: str, what: str, longest: int = _LONGEST) -> str:
    """Return `name` when it can stand in generated source, else raise `UnsafeName` saying why.

    Names are ASCII identifiers of at most 64 characters that start with a letter and hold no double
    underscore (reserved in C++); Python's keywords cannot be written in an expression, `inf` and `nan` are numbers.
    """
    if len(name) > longest:
        problem = f"is {len(name)} characters long, at most {longest} are allowed"
    elif not _IDENTIFIER.fullmatch(name) or "__" in name:
        problem = "is not a letter followed by letters, digits and single underscores (ASCII)"
    elif keyword.iskeyword(name):
        problem = "is a Python keyword, so no expression can mention it"
    elif name in CONSTANTS:
        problem = "is a number in every expression"
    else:
        return name
    raise UnsafeName(f"the {what} name {shown(name)} {problem}; rename it")


def is_name(name: str) -> bool:
    """Whether `check_name` takes it."""
    try:
        check_name(name, "")
    except UnsafeName:
        return False
    return True


def shown(text: object) -> str:
    """What a user wrote, for a message: one line of ASCII, cut where it is long."""
    escaped = ascii(text)
    return escaped if len(escaped) <= 80 else f"{escaped[:76]}..."


_CPP_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const consteval constexpr constinit const_cast continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq
"""
_CPP_MACROS = """
    linux unix major minor makedev assert errno alloca offsetof math_errhandling stdin stdout stderr NULL EOF
    NAN INFINITY BUFSIZ RAND_MAX MAXFLOAT EXIT_SUCCESS EXIT_FAILURE CLOCKS_PER_SEC
"""
_LOCAL: dict[Language, frozenset[str]] = {
    "python": frozenset(("tl", "triton", "libdevice", "np", "float", "int", "bool", "min", "max", "next", "range")),
    "cpp": frozenset((*_CPP_KEYWORDS.split(), *_CPP_MACROS.split(), "threadIdx", "blockIdx", "blockDim", "gridDim")),
}
"""What no parameter and no variable of a function may be called: the language's words, and what the text mentions."""

_MACROS = re.compile(
    r"(?:M|FP|SEEK|MATH)_\w+|HUGE_VAL\w*|SNAN\w*|[US]?(?:CHAR|SHRT|INT|LONG|LLONG)_(?:MIN|MAX|WIDTH|BIT)"
)
"""Families of macros of the C library."""

_CPP_GLOBALS = "main std cuda cuda_cpu warpSize dim3 fd_set jmp_buf timezone daylight tzname environ signgam"
_GLOBAL: dict[Language, frozenset[str]] = {
    "python": frozenset(dir(builtins)),
    "cpp": frozenset(_CPP_GLOBALS.split()),
}
"""What a kernel, which stands beside everything else in its file, may not be called either."""

_TYPES = re.compile(
    r"\w+_t|u?(?:char|short|int|long|longlong)[1-4]|(?:float|double)[1-4]|[A-Z][A-Z0-9_]+|Elf\w+|dl_\w+"
)
"""Types and constants of CUDA and of the C library, which do not look like the name of a kernel."""


class Namer:
    """Hands out identifiers of one language: the wanted one where it is free, else one as near to it as possible."""

    def __init__(self, language: Language, reserved: Iterable[str] = ()) -> None:
        self._language: Language = language
        self._taken = {*_LOCAL[language], *reserved}

    def name(self, wanted: str) -> str:
        """An identifier for a parameter or variable; it is taken from now on."""
        macro = self._language == "cpp" and _MACROS.fullmatch(wanted)
        return self._first_free(f"{wanted}_value" if macro else wanted, frozenset())

    def kernel(self, wanted: str, beside: Iterable[str] = ()) -> str:
        """An identifier for a kernel, which must differ from everything `beside` it in its file too."""
        foreign = self._language == "cpp" and (_MACROS.fullmatch(wanted) or _TYPES.fullmatch(wanted))
        return self._first_free(f"{wanted}_kernel" if foreign else wanted, _GLOBAL[self._language].union(beside))

    def _first_free(self, wanted: str, more: frozenset[str]) -> str:
        stem = re.sub("__+", "_", wanted)  # C++ keeps double underscores for itself
        candidate, number = stem, 1
        while candidate in self._taken or candidate in more:
            candidate = f"{stem}_" if number == 1 and not stem.endswith("_") else f"{stem.rstrip('_')}_{number}"
            number += 1
        self._taken.add(candidate)
        return candidate
