"""Finding and rendering templates: the checkout's `templates/` folder, or the copy inside an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from .errors import TemplateError


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
    return (template_folder() / path).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text),
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
    except jinja2.TemplateError as error:
        raise TemplateError(_explain(path, error)) from error


def _explain(path: str, error: jinja2.TemplateError) -> str:
    """The error with the template line it rose from and five lines around it."""
    name, line = path, getattr(error, "lineno", None)
    trace = error.__traceback__
    while line is None and trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith("<template>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    message = f"template {name}: {error}"
    if line is None:
        return message
    lines = template_text(path).splitlines()
    shown = range(max(0, line - 6), min(len(lines), line + 5))
    return "\n".join([f"{message} (line {line})", *(f"{'>' if n == line - 1 else ' '} {n + 1:4} {lines[n]}" for n in shown)])
