"""What can go wrong between a source and a running kernel, one class per mistake."""

from __future__ import annotations

from emitter.errors import KernelpressError


class BadTarget(KernelpressError, ValueError):
    """A target that does not exist, or that a backend cannot compile for."""


class MissingLibrary(KernelpressError, ImportError):
    """A library or tool that a step needs is not installed; the message has the command that installs it."""

    def __init__(self, what: str, needed_for: str, install: str) -> None:
        super().__init__(f"{what} is not installed, and {needed_for} needs it: {install}")


class CompileError(KernelpressError, RuntimeError):
    """A compiler refused a kernel, or produced what cannot be launched.

    kernel: the entry name. target: the target as text. reason: the compiler's own message.
    line: the line of the device text (from 1) and `text` that line, where the compiler names one.
    """

    def __init__(self, kernel: str, target: str, reason: str, line: int | None = None, text: str = "") -> None:
        self.kernel = kernel
        self.target = target
        self.reason = reason
        self.line = line
        self.text = text
        where = f"\n  line {line}: {text.strip()}" if line is not None else ""
        super().__init__(f"kernel {kernel!r} does not compile for {target}:{where}\n{reason.rstrip()}")

    def __reduce__(self) -> tuple[type[CompileError], tuple[str, str, str, int | None, str]]:
        return type(self), (self.kernel, self.target, self.reason, self.line, self.text)


class CacheWarning(UserWarning):
    """The code cache on disk is not used, or an entry in it is ignored."""
