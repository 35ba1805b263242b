"""What README.md shows is what is there: the emitted kernels, the op list, the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import emitter
from emitter.ops import OPS
from emitter.source import Backend

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Fenced code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("backend", "language"), [("triton", "python"), ("cuda", "cpp")])
def test_the_kernels_shown_are_the_kernels_emitted(backend: Backend, language: str) -> None:
    group = emitter.read(ROOT / "examples" / "bias_gelu.toml")
    assert emitter.emit(group, backend).device.endswith(blocks(language)[0])


def test_the_description_shown_is_the_example() -> None:
    shown = re.search(r"^    name = .*?(?=^\S)", README, re.DOTALL | re.MULTILINE)
    assert shown is not None
    lines = "\n".join(line[4:] for line in shown[0].splitlines())
    assert emitter.parse(lines) == emitter.read(ROOT / "examples" / "bias_gelu.toml")


def test_every_op_is_listed() -> None:
    section = README.partition("### Ops")[2].partition("### Numerics")[0]
    words = set(re.findall(r"[a-z][a-z0-9_]+", section))
    named = {name for name, definition in OPS.items() if definition.symbol is None}
    assert not named - words


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
