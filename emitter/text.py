"""Small text layout: comments in one column, long argument lists over several lines."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 110
DEEPEST = 12
"""How far a template indents statements, at most."""


def commented(lines: Sequence[tuple[str, str]], mark: str) -> list[str]:
    """Lines of code with their comments in one column, or behind the code or above it where they are too long."""
    most = WIDTH - DEEPEST
    beside = [code for code, comment in lines if comment and len(f"{code}  {mark} {comment}") <= most]
    column = max((len(code) for code in beside if len(code) <= 56), default=0)
    result = []
    for code, comment in lines:
        aligned, close = f"{code:<{column}}  {mark} {comment}", f"{code}  {mark} {comment}"
        if not comment:
            result.append(code)
        elif len(close) <= most:
            result.append(aligned if len(aligned) <= most else close)
        else:
            result += [f"{mark} {comment}", code]
    return result


def arguments(items: Sequence[str], before: int, indent: str) -> str:
    """`a, b, c`; one line when it fits behind `before` characters, else lines of their own at `indent`."""
    line = ", ".join(items)
    if before + len(line) + 4 <= WIDTH:
        return line
    lines: list[str] = []
    for item in items:
        if lines and len(indent) + len(lines[-1]) + len(item) + 3 <= WIDTH:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{item},")
    lines[-1] = lines[-1].rstrip(",")
    return "\n" + "\n".join(indent + line for line in lines) + "\n"


def wrapped(head: str, items: Sequence[str], tail: str, indent: int, separator: str = ",") -> list[str]:
    """`head(items)tail` as lines that stand `indent` deep: one where it fits, else the items on lines of their own."""
    glue = f"{separator} " if separator == "," else f" {separator} "
    line = f"{head}({glue.join(items)}){tail}"
    if indent + len(line) <= WIDTH:
        return [line]
    rows: list[str] = []
    for item in items:
        if rows and indent + 4 + len(rows[-1]) + len(glue) + len(item) + 1 <= WIDTH:
            rows[-1] += glue + item
        else:
            rows.append(item)
    if separator == ",":
        inner = [f"    {row}," for row in rows[:-1]] + [f"    {rows[-1]}"]
    else:
        inner = [f"    {rows[0]}"] + [f"    {separator} {row}" for row in rows[1:]]
    return [f"{head}(", *inner, f"){tail}"]


def strings(names: Sequence[str]) -> str:
    """A tuple of strings, as Python source."""
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"({quoted}{',' if len(names) == 1 else ''})"
