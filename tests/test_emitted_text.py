"""Emitted text: as golden files, and what must hold of every file and every template.

`python tests/test_emitted_text.py` writes the golden files anew; read the difference before committing it.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import pytest
from descriptions import BIAS_GELU, CHOICES

import emitter
from emitter import errors, prelude, templates
from emitter.read import parse
from emitter.templates import template_folder, template_source
from emitter.verify import verify
from launch.build import build_artifact
from launch.cache import Cache
from launch.targets import Target

TESTS = Path(__file__).parent
GOLDEN = {
    "bias_gelu.triton.py": ("triton", "bias_gelu"),
    "bias_gelu.cuda.cu": ("cuda", "bias_gelu"),
    "bias_gelu_transposed.cuda.cu": ("cuda", "bias_gelu_transposed"),
}
"""Device text, one for each template."""

TEMPLATES = sorted(p.relative_to(template_folder()).as_posix() for p in template_folder().rglob("*.jinja"))
EMISSIONS = [(choice, backend) for choice in CHOICES for backend in emitter.BACKENDS]


def emitted(choice: str, backend: str) -> emitter.KernelSource:
    text, keywords = CHOICES[choice]
    return emitter.emit(parse(text), backend, **keywords)  # type: ignore[arg-type]


def files() -> Iterator[tuple[str, str]]:
    for choice, backend in EMISSIONS:
        for name, text in emitted(choice, backend).files:
            yield f"{choice}/{name}", text


FILES = dict(files())


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_file(name: str) -> None:
    backend, choice = GOLDEN[name]
    want = (TESTS / "golden" / name).read_text(encoding="utf-8")
    assert emitted(choice, backend).device == want, "if this is meant: python tests/test_emitted_text.py"


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_tidy(name: str) -> None:
    text = FILES[name]
    assert text.isascii() and "\t" not in text and "\r" not in text
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert not re.search(r" $", text, re.MULTILINE), "space at the end of a line"
    assert "\n\n\n\n" not in text and (name.endswith(".py") or "\n\n\n" not in text)
    assert [line for line in text.splitlines() if len(line) > 130] == []
    assert not re.search(r"\{[{#]|\{%[^0-9]|%\}|#\}|Undefined|<class |<function |object at ", text)
    kernel = text[text.rindex("@triton.jit") :] if "@triton.jit" in text else text
    assert not re.search(r"\b(tmp|xnumel|in_ptr|out_ptr|buf)\d*\b", kernel)


@pytest.mark.parametrize("name", FILES)
def test_no_file_says_when_or_where_it_was_made(name: str) -> None:
    text = FILES[name]
    assert not re.search(r"\b20\d\d-\d\d|\d\d:\d\d|/(?:home|root|tmp|usr|work|Users)/|0x[0-9a-f]{12}", text)
    assert str(Path.cwd()) not in text
    first, second = text.splitlines()[:2]
    mark = "#" if name.endswith(".py") else "//"
    group, template = r"[0-9a-f]{12}", r"(triton|cuda)/pointwise(_tiled)?"
    assert re.fullmatch(
        rf"{mark} kernelpress {emitter.__version__} \| group \w+ {group} \| template {template} \| .*", first
    )
    assert second.startswith(f"{mark} Reproduce: kernelpress emit group.toml --backend ")


def test_the_banner_names_every_choice() -> None:
    source = emitter.emit(
        parse(BIAS_GELU),
        "cuda",
        schedule=emitter.Schedule(threads=512),
        layouts={"x": "unit:0", "b": "strided"},
        static={"M": 64},
    )
    command = source.device.splitlines()[1]
    for choice in ("--layout b=strided", "--layout x=unit:0", "--static M=64", "--schedule threads=512"):
        assert choice in command


def test_python_files_pass_the_linter(tmp_path: Path) -> None:
    for name, text in FILES.items():
        if name.endswith(".py"):
            (tmp_path / name.replace("/", "_")).write_text(text, encoding="utf-8")
    rules, ignored = "--select=E4,E7,E9,F,W,B,UP,PIE", "--ignore=B905"  # zip of what is equally long by then
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--output-format=concise", rules, ignored]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("choice", "backend"), EMISSIONS)
def test_every_named_value_says_which_node_it_is(choice: str, backend: str) -> None:
    text, keywords = CHOICES[choice]
    group = emitter.emit.__globals__["pin"](parse(text), keywords.get("static", {}))
    types = verify(group).types
    lines = emitted(choice, backend).device.splitlines()
    mark = "#" if backend == "triton" else "//"
    for node in group.nodes:
        if not node.named:
            continue
        target = re.compile(
            rf"(?:\w+ )*{node.name}(?:\[v\])? = |load\(.*, {node.name}\);|load_strided\(.*, {node.name}\);"
        )
        found = [n for n, line in enumerate(lines) if target.match(line.strip())]
        assert found, f"{node.name} is assigned nowhere"
        comments = [f"{lines[n - 1]} {lines[n]}" for n in found]
        assert any(f"{mark} " in c and f"{types[node.name]}" in c for c in comments), comments


def test_both_languages_name_the_same_values_in_the_same_order() -> None:
    for choice, (text, _) in CHOICES.items():
        group = parse(text)
        wanted = [n.name for n in group.nodes if n.named] + [i.name for i in group.inputs]
        orders = []
        for backend in emitter.BACKENDS:
            source = emitted(choice, backend)
            kernel = source.device[source.device.index(f" {source.entry}(") :]
            places = {name: re.search(rf"\b{name}(?:\[v\])? = ", kernel) for name in wanted}
            orders.append([p.name for p in source.params if p.kind != "stride"])
            assert all(name in kernel for name in wanted), (choice, places)
        assert orders[0] == orders[1]


@pytest.mark.parametrize(("choice", "backend"), EMISSIONS)
def test_only_helpers_that_are_used_stand_in_a_file(choice: str, backend: str) -> None:
    device = emitted(choice, backend).device
    path = "triton/prelude.py" if backend == "triton" else "cuda/prelude.cuh"
    present = [block for block in prelude.blocks(path) if block.text in device]
    for block in present:
        rest = device.replace(block.text, "")
        assert any(re.search(rf"\b{name}\b", rest) for name in block.names), block.names


def test_a_comment_or_a_variable_of_a_helpers_name_does_not_pull_it_in() -> None:
    path = "cuda/prelude.cuh"
    assert prelude.words_in("y = x;  // gelu(x): sign", path) == set()
    assert prelude.words_in('asm("cvt.rn.bf16.f32 %0");', path) == set()
    assert prelude.words_in("const int sign = x; y = sign;", path) == set()
    assert len(prelude.words_in("y = sign(x) + gelu(x);", path)) == 2
    assert prelude.words_in('"""gelu(x)"""\ny = x  # sign(x)', "triton/prelude.py") == set()


# --- Templates


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Any]]:
    """Every context that the choices render each template with."""
    seen: dict[str, list[Any]] = {}
    module = sys.modules["emitter.emit"]
    real = templates.render

    def recording(path: str, context: object) -> str:
        seen.setdefault(path, []).append(context)
        return real(path, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "render", recording)
        for choice, backend in EMISSIONS:
            emitted(choice, backend)
    return seen


def inputs_of(path: str) -> set[str]:
    return jinja2.meta.find_undeclared_variables(jinja2.Environment().parse(template_source(path)))


def test_every_template_is_rendered_from_a_dataclass(rendered: dict[str, list[Any]]) -> None:
    assert sorted(rendered) == TEMPLATES
    for contexts in rendered.values():
        assert all(is_dataclass(c) for c in contexts)


def test_template_inputs_are_the_fields_of_their_contexts(rendered: dict[str, list[Any]]) -> None:
    """Templates that share a context use all of its fields between them."""
    used: dict[type, set[str]] = {}
    for path, contexts in rendered.items():
        for kind in {type(c) for c in contexts}:
            names = {f.name for f in fields(kind)}
            assert inputs_of(path) <= names, f"{path} uses {inputs_of(path) - names}, which {kind.__name__} lacks"
            used.setdefault(kind, set()).update(inputs_of(path))
    for kind, names in used.items():
        assert {f.name for f in fields(kind)} == names, f"{kind.__name__} has fields that no template uses"


@pytest.mark.parametrize("path", TEMPLATES)
def test_a_template_is_mostly_target_code(path: str) -> None:
    lines = (template_folder() / path).read_text(encoding="utf-8").splitlines()
    control = [line for line in lines if line.lstrip().startswith("{%")]
    assert len(control) <= len(lines) / 4, f"{len(control)} control lines of {len(lines)}"
    assert all(line.startswith("{%") and line.endswith("%}") for line in control), "a control line stands alone"


@pytest.mark.parametrize("path", sorted(Path(emitter.__file__).parent.rglob("*.py")), ids=lambda p: p.name)
def test_no_template_text_in_python(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    with_docs = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    bodies = [n.body for n in with_docs]
    docs = {id(s.value) for body in bodies for s in body if isinstance(s, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            text = node.value
            assert "{%" not in text.replace("{% for line in", "").replace("{% endfor %}", ""), text
            assert "\n" not in text.strip() or not re.search(r"[=;(){}]", text), f"{path.name}:{node.lineno}: {text}"


def in_a_folder(folder: Path, patch: pytest.MonkeyPatch, text: str) -> None:
    """Put a template of that text, called t.jinja, in the place of all others."""
    (folder / "t.jinja").write_text(text, encoding="utf-8")
    patch.setattr(templates, "template_folder", lambda: folder)
    templates.template_text.cache_clear()
    templates._environment.cache_clear()


@pytest.fixture
def fresh_templates() -> Iterator[None]:
    yield
    templates.template_text.cache_clear()
    templates._environment.cache_clear()


class Context:
    def __init__(self, **names: object) -> None:
        vars(self).update(names)


@pytest.mark.usefixtures("fresh_templates")
@pytest.mark.parametrize(
    ("line", "names", "message"),
    [
        ("value is {{ missing }}", {}, "'missing' is undefined"),
        ("{% for x in number %}{{ x }}{% endfor %}", {"number": 3}, "'int' object is not iterable"),
        ("{% if %}", {}, "Expected an expression"),
        ("    {{ *lines }}", {}, "'lines' is undefined"),
    ],
)
def test_a_template_error_shows_template_line_and_surroundings(
    line: str, names: dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"line {n}\n" for n in range(1, 12)) + line + "\n" + "".join(f"line {n}\n" for n in range(13, 30))
    in_a_folder(tmp_path, monkeypatch, text)
    with pytest.raises(errors.TemplateError) as caught:
        templates.render("t.jinja", Context(**names))
    shown = str(caught.value).splitlines()
    assert shown[0].startswith("template t.jinja: ") and message in shown[0] and shown[0].endswith("(line 12)")
    assert f">   12 {line}" in shown
    assert shown[1] == "     7 line 7" and shown[-1] == "    17 line 17"


@pytest.mark.usefixtures("fresh_templates")
def test_a_missing_template_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_folder(tmp_path, monkeypatch, "")
    with pytest.raises(errors.TemplateError, match=r"other\.jinja is missing from the templates"):
        templates.render("other.jinja", Context())


@pytest.mark.usefixtures("fresh_templates")
def test_a_splice_gives_each_line_its_indent_and_nothing_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_folder(tmp_path, monkeypatch, "{\n    {{ *several }}\n    {{ *empty }}\n}\n")
    assert templates.render("t.jinja", Context(several=("a;", "{{ b }}"), empty=())) == "{\n    a;\n    {{ b }}\n}\n"


# --- The same bytes everywhere


PRINTS = """
import hashlib, emitter
from descriptions import CHOICES
for name, (text, keywords) in CHOICES.items():
    group = emitter.parse(text)
    for backend in emitter.BACKENDS:
        files = emitter.emit(group, backend, **keywords).files
        print(name, backend, group.fingerprint, hashlib.sha256(repr(files).encode()).hexdigest())
"""


def test_the_same_bytes_in_every_process() -> None:
    here = []
    for choice, backend in EMISSIONS:
        digest = hashlib.sha256(repr(emitted(choice, backend).files).encode()).hexdigest()
        here.append(f"{choice} {backend} {parse(CHOICES[choice][0]).fingerprint} {digest}")
    for seed in ("0", "1", "4242"):
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", PRINTS]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.splitlines() == here


def test_write_gives_the_same_folder_twice(tmp_path: Path) -> None:
    group = parse(BIAS_GELU)
    for folder in ("one", "two"):
        emitter.write(group, tmp_path / folder)
    names = ["cuda_kernel.cu", "cuda_launch.py", "group.toml", "manifest.json", "triton_kernel.py"]
    assert sorted(p.name for p in (tmp_path / "one" / "bias_gelu").iterdir()) == names
    for name in names:
        one, two = (tmp_path / folder / "bias_gelu" / name for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
        assert one.read_bytes().isascii() and b"\r" not in one.read_bytes()
    assert emitter.read(tmp_path / "one" / "bias_gelu" / "group.toml") == group


# --- Both widths of the index compile for real, with fixed sizes too


@pytest.mark.parametrize("choice", CHOICES)
def test_cuda_compiles_for_both_index_types(choice: str, cache: Cache) -> None:
    pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
    source = emitted(choice, "cuda")
    usual = {instance.index: instance for instance in reversed(source.instances)}
    for instance in usual.values():
        assert build_artifact(cache, source, instance, Target("cuda", "90")).binary


@pytest.mark.parametrize("choice", ["causal", "causal_static", "embedding_static", "column", "mixed"])
def test_triton_compiles_with_64_bit_indices(choice: str, cache: Cache) -> None:
    pytest.importorskip("triton", reason="Triton is an extra")
    source = emitted(choice, "triton")
    instance = next(i for i in source.instances if i.index == "i64")
    assert build_artifact(cache, source, instance, Target("cuda", "90")).binary


def write_golden() -> None:
    (TESTS / "golden").mkdir(exist_ok=True)
    for name, (backend, choice) in GOLDEN.items():
        path = TESTS / "golden" / name
        path.write_text(emitted(choice, backend).device, encoding="utf-8", newline="\n")
        print(f"wrote {path}")


if __name__ == "__main__":
    write_golden()
