"""Finding and rendering templates: the checkout's `templates/` folder, or the copy inside an installed wheel."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jinja2

from .errors import TemplateError

_SPLICE = re.compile(r"^( *)\{\{ \*(\w+) \}\}$", re.MULTILINE)


@cache
def template_folder() -> Path:
    """The folder that holds `triton/`, `cuda/` and `host/`."""
    package = Path(__file__).resolve().parent
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / "triton").is_dir():
            return folder
    raise TemplateError(f"no templates beside or inside {package.name}/; reinstall kernelpress")


@cache
def template_text(path: str) -> str:
    """The text of one template or prelude."""
    try:
        return (template_folder() / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TemplateError(f"{path} is missing from the templates; reinstall kernelpress") from None


def template_source(path: str) -> str:
    """The template as Jinja reads it: a line `{{ *name }}` stands for all lines of `name`, each at its indent."""
    return _SPLICE.sub(r'{% for line in \2 %}\1{{ line }}{{ "\\n" }}{% endfor %}', template_text(path))


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(template_source),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(path: str, context: object) -> str:
    """The template at `path` filled from `context` (a dataclass whose fields are the template's names)."""
    try:
        return _environment().get_template(path).render(vars(context))
    except TemplateError:
        raise
    except Exception as error:
        raise TemplateError(_explain(path, error)) from error


def _explain(path: str, error: Exception) -> str:
    """The error with the template line it rose from and five lines on either side."""
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while line is None and trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith("<template>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    message = f"template {path}: {error}"
    if line is None:
        return message
    lines = template_text(path).splitlines()
    around = range(max(0, line - 6), min(len(lines), line + 5))
    shown = [f"{'>' if n == line - 1 else ' '} {n + 1:4} {lines[n]}" for n in around]
    return "\n".join([f"{message} (line {line})", *shown])
