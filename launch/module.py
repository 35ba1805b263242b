"""Importing a generated host module from its text, with no file."""

from __future__ import annotations

import hashlib
import linecache
from typing import Any


def execute(text: str, name: str) -> dict[str, Any]:
    """Execute a module's text, with no file, and return its namespace.

    The text is entered in `linecache`, so that `inspect.getsource`, and with it `@triton.jit`, and tracebacks find it.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    file = f"<kernelpress {name} {digest}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": f"kernelpress.{name}", "__file__": file}
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    return namespace
