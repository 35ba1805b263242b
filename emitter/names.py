"""Which names a description may use, and which identifiers they become in generated source."""

from __future__ import annotations

import builtins
import keyword
import re

from .errors import UnsafeName

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST = 64


def check_name(name: str, what: str) -> str:
    """Return `name` when it can stand in generated source, else raise `UnsafeName` saying why.

    Names are ASCII identifiers of at most 64 characters that start with a letter and hold no double
    underscore (reserved in C++); Python's keywords cannot be written in an expression.
    """
    if len(name) > _LONGEST:
        problem = f"is {len(name)} characters long, at most {_LONGEST} are allowed"
    elif not _IDENTIFIER.fullmatch(name) or "__" in name:
        problem = "is not a letter followed by letters, digits and single underscores (ASCII)"
    elif keyword.iskeyword(name):
        problem = "is a Python keyword, so no expression can mention it"
    else:
        return name
    raise UnsafeName(f"the {what} name {ascii(name)[:80]} {problem}; rename it")


_PYTHON = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "tl", "triton", "np", "cupy", "torch"}
_CPP = set(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast restrict return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize dim3 half f16 bf16
    f8e4m3 f8e5m2 asinf INFINITY NAN NULL assert printf std cuda nvcuda uint4 float4 int2 int4 linux unix y0 y1 yn j0 j1
    jn gamma signgam""".split()
)


class Namer:
    """Hands out identifiers: the wanted one when it is free, else with an underscore and a number behind it."""

    def __init__(self, reserved: set[str]) -> None:
        self._taken = _PYTHON | _CPP | reserved

    def name(self, wanted: str) -> str:
        """A free identifier as near to `wanted` as possible; it is taken from now on."""
        candidate, number = wanted, 1
        while candidate in self._taken:
            candidate = f"{wanted}_" if number == 1 else f"{wanted}_{number}"
            number += 1
        self._taken.add(candidate)
        return candidate
