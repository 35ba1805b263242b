"""The preludes: device helpers in named blocks, of which a kernel's text gets only those it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from .templates import template_text

_MARKER = re.compile(r"^(?:#|//) --- (.+)$")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PYTHON_TALK = re.compile(r"\"{3}.*?\"{3}|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*", re.DOTALL)
_CPP_TALK = re.compile(r"\"[^\"\n]*\"|//[^\n]*")
"""Comments and strings, which mention a helper without using it."""
_ASSIGNED = re.compile(r"\b(\w+) = ")


@dataclass(frozen=True)
class Block:
    """One block: the names it defines and its text without the marker line."""

    names: tuple[str, ...]
    text: str


@cache
def blocks(path: str) -> tuple[Block, ...]:
    """The blocks of the prelude at `path` below the templates folder, in file order."""
    found: list[tuple[tuple[str, ...], list[str]]] = []
    for line in template_text(path).splitlines():
        marker = _MARKER.match(line)
        if marker:
            found.append((tuple(n.strip() for n in marker[1].split(",")), []))
        elif found:
            found[-1][1].append(line)
    return tuple(Block(names, "\n".join(lines).strip("\n")) for names, lines in found)


@cache
def defined(path: str) -> dict[str, int]:
    """Every name the prelude defines, with its block's number."""
    return {name: number for number, block in enumerate(blocks(path)) for name in block.names}


@cache
def _uses(path: str, number: int) -> frozenset[int]:
    block = blocks(path)[number]
    return frozenset(words_in(block.text, path)) - {number}


def words_in(text: str, path: str) -> set[int]:
    """Numbers of the blocks that `text` uses: named outside comments and strings, and not as a variable of its own."""
    names = defined(path)
    code = (_PYTHON_TALK if path.endswith(".py") else _CPP_TALK).sub("", text)
    return {names[w] for w in set(_WORD.findall(code)) - set(_ASSIGNED.findall(code)) if w in names}


def needed(path: str, texts: Iterable[str]) -> list[str]:
    """Texts of the blocks that `texts` use, directly or through one another, in file order."""
    open_blocks: set[int] = set()
    for text in texts:
        open_blocks |= words_in(text, path)
    closed: set[int] = set()
    while open_blocks:
        number = open_blocks.pop()
        closed.add(number)
        open_blocks |= _uses(path, number) - closed
    return [blocks(path)[n].text for n in sorted(closed)]
