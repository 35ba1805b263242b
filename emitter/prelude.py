"""The preludes: device helpers in named blocks, of which a kernel's text gets only those it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from .templates import template_text

_MARKER = re.compile(r"^(?:#|//) --- (.+)$")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    """Numbers of the blocks that `text` mentions."""
    names = defined(path)
    return {names[w] for w in set(_WORD.findall(text)) if w in names}


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
