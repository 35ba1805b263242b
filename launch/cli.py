"""The command line: `kernelpress emit | check | ops | env`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import NoReturn

from emitter import KernelpressError, Schedule, __version__

from . import commands

OK, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: fine; a check failed; bad usage, description, file or missing library; Ctrl-C."""

_EPILOG = "exit codes: 0 fine, 1 a check failed, 2 bad usage or description, or a missing file or library"


class _Parser(argparse.ArgumentParser):
    """Errors in one line, as everywhere else."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(UNUSABLE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as done:  # --help, --version, bad usage
        return int(done.code or 0)
    try:
        passed: bool = arguments.run(arguments)
        sys.stdout.flush()
    except KernelpressError as error:
        return _refuse(str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
            return OK
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK if passed else FAILED


def _refuse(message: str) -> int:
    print(f"kernelpress: error: {message}", file=sys.stderr)
    return UNUSABLE


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = _Parser(
        prog="kernelpress", description="Fused tensor ops as Triton and CUDA C, source you own.", epilog=_EPILOG
    )
    top.add_argument("--version", action="version", version=f"kernelpress {__version__}")
    several = top.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_emit(several)
    _add_check(several)

    ops = _command(several, "ops", commands.ops, "the op table, or one op in detail", "kernelpress ops gelu")
    ops.add_argument("name", nargs="?", metavar="NAME", help="an op")

    _command(several, "env", commands.env, "every environment variable that is read", "kernelpress env --json")
    return top


def _command(
    several: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], bool],
    summary: str,
    example: str,
) -> _Parser:
    command = several.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    command.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return command


def _add_emit(several: argparse._SubParsersAction[_Parser]) -> None:
    emit = _command(
        several,
        "emit",
        commands.emit,
        "write device and host source to FOLDER/<group>/",
        "kernelpress emit examples/bias_gelu.toml -o out --layout x=unit:0 --static N=4096",
    )
    _add_group(emit)
    emit.add_argument("-o", "--output", default="out", metavar="FOLDER", help="where to; - prints (default: out)")
    emit.add_argument(
        "--layout",
        action="append",
        default=[],
        type=_pair("TENSOR=LAYOUT"),
        metavar="TENSOR=LAYOUT",
        help="strides of a tensor: contiguous, strided, or unit:AXIS (stride 1 along that axis); repeatable",
    )


def _add_check(several: argparse._SubParsersAction[_Parser]) -> None:
    check = _command(
        several,
        "check",
        commands.check,
        "run random shapes, layouts, values and masks against NumPy, and compile every instance",
        "kernelpress check examples/bias_gelu.toml --backend cuda --target cuda:80 --cases 200",
    )
    _add_group(check)
    check.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run (default: auto)")
    check.add_argument("--cases", type=_count, default=40, metavar="N", help="random calls a backend (default: 40)")
    check.add_argument("--seed", type=_count, default=0, metavar="S", help="what they are drawn from (default: 0)")
    check.add_argument("--case", type=_count, metavar="K", help="only this case of the seed")
    check.add_argument(
        "--target",
        action="append",
        metavar="TARGET",
        help="what to compile for, as in cuda:80 or hip:gfx942; repeatable (default: cuda:90, Triton also hip:gfx942)",
    )


def _add_group(command: argparse.ArgumentParser) -> None:
    """What emit and check share: the description and the choices of emission."""
    tunables = ", ".join(field.name for field in fields(Schedule))
    command.add_argument("group", metavar="GROUP.toml", help="a description")
    command.add_argument("--backend", choices=("both", "triton", "cuda"), default="both", help="default: both")
    command.add_argument(
        "--static",
        action="append",
        default=[],
        type=_pair("DIM=SIZE", int),
        metavar="DIM=SIZE",
        help="fix a dim in the source; repeatable",
    )
    command.add_argument(
        "--schedule",
        action="append",
        default=[],
        type=_pair("FIELD=VALUE", int),
        metavar="FIELD=VALUE",
        help=f"a tunable other than chosen: {tunables}; repeatable",
    )


def _pair(form: str, value: Callable[[str], object] = str) -> Callable[[str], tuple[str, object]]:
    def parse(text: str) -> tuple[str, object]:
        name, equals, rest = text.partition("=")
        try:
            if not (name and equals and rest):
                raise ValueError
            return name, value(rest)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {form}, got {text!r}") from None

    return parse


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
