"""The `kernelpress` command: emit source, check it against NumPy, show the op table and the environment."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from emitter.errors import KernelpressError
from emitter.version import VERSION

from .tables import print_json, run_env, run_ops

if TYPE_CHECKING:
    from emitter import FusionGroup, Schedule
    from emitter.schedule import Backend

T = TypeVar("T")
OK, FAILED, MISTAKE, INTERRUPTED, NO_READER = 0, 1, 2, 130, 141


class UsageError(KernelpressError):
    """A command line that makes no sense."""


class _Parser(argparse.ArgumentParser):
    """Reports a mistake as all others are reported: by an exception, in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0: fine. 1: a check failed. 2: a mistake in usage or description, an unreadable file, a missing library.
    130: interrupted. 141: nobody reads standard output any more.
    """
    try:
        options = parser().parse_args(argv)
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except SystemExit as request:  # --help and --version
        return int(request.code or 0)
    except KernelpressError as error:
        return _mistake(str(error))
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except OSError as error:
        return _mistake(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _mistake(message: str) -> int:
    print(f"kernelpress: error: {' '.join(message.split())}", file=sys.stderr)
    return MISTAKE


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; each parsed line has `run`, which takes the options and returns the exit code."""
    top = _Parser(
        prog="kernelpress",
        description="Readable GPU kernels, in Triton and CUDA C, from descriptions of pointwise groups.",
        epilog="Exit codes: 0 fine, 1 a check failed, 2 bad usage, description, file or library.",
    )
    top.add_argument("--version", action="version", version=f"kernelpress {VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    emit = _command(
        commands,
        "emit",
        run_emit,
        "write device and host source",
        "kernelpress emit group.toml -o out/",
        "kernelpress emit group.toml --backend cuda --layout x=strided --static N=4096 -o -",
    )
    _add_choices(emit)
    emit.add_argument(
        "-o", "--output", default="out", metavar="FOLDER", help="write FOLDER/<group name>/ (default: out); - prints"
    )
    emit.add_argument(
        "--layout",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=LAYOUT",
        help="how a tensor lies: contiguous, strided, or unit:AXIS, whose neighbours are neighbours in memory",
    )

    check = _command(
        commands,
        "check",
        run_check,
        "random shapes, layouts and values against NumPy",
        "kernelpress check group.toml",
        "kernelpress check group.toml --backend triton --cases 500 --seed 7",
        "kernelpress check group.toml --seed 7 --case 131",
    )
    _add_choices(check)
    check.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where cases run")
    check.add_argument("--cases", type=_count, default=40, metavar="N", help="how many cases are drawn (default: 40)")
    check.add_argument("--seed", type=_count, default=0, metavar="S", help="what they are drawn from (default: 0)")
    check.add_argument("--case", type=_count, metavar="K", help="run case K alone, and compile only for given targets")
    check.add_argument(
        "--target",
        action="append",
        metavar="T",
        help="compile for T besides (default: cuda:90, and hip:gfx942 by Triton); may be repeated",
    )

    ops = _command(
        commands, "ops", run_ops, "the op table", "kernelpress ops", "kernelpress ops gelu", "kernelpress ops --json"
    )
    ops.add_argument("name", nargs="?", metavar="NAME", help="show one op in detail")
    _command(commands, "env", run_env, "every environment variable that is read", "kernelpress env --json")
    return top


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, *examples: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="\n  ".join(["examples:", *examples]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.set_defaults(run=run)
    return parser


def _add_choices(parser: argparse.ArgumentParser) -> None:
    """What `emit` and `check` have in common."""
    parser.add_argument("group", metavar="GROUP.toml", help="the description of a group")
    parser.add_argument("--backend", choices=("triton", "cuda", "both"), default="both", help="default: both")
    parser.add_argument(
        "--static", action="append", type=_size, default=[], metavar="DIM=SIZE", help="fix the size of a dim"
    )
    parser.add_argument(
        "--schedule", action="append", type=_size, default=[], metavar="FIELD=VALUE", help="a tunable, as in tile=512"
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _size(text: str) -> tuple[str, int]:
    name, value = _pair(text)
    try:
        return name, int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected an integer for {name}, got {value!r}") from None


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text!r}")
    return value


def _once(option: str, pairs: Sequence[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} gives {name} twice")
        found[name] = value
    return found


def _backends(options: argparse.Namespace) -> tuple[Backend, ...]:
    from emitter import BACKENDS

    return BACKENDS if options.backend == "both" else (options.backend,)


def _schedule(options: argparse.Namespace, group: FusionGroup, **choices: Any) -> Schedule | None:
    """The chosen schedule with the given fields; a tile narrower than its columns narrows them too."""
    from dataclasses import fields, replace

    import emitter

    given = _once("--schedule", options.schedule)
    known = [field.name for field in fields(emitter.Schedule)]
    for name in given:
        if name not in known:
            raise UsageError(f"--schedule knows no {name!r}; its fields are {', '.join(known)}")
    if not given:
        return None
    default = emitter.emit(group, _backends(options)[0], **choices).schedule
    if "tile" in given:
        given.setdefault("columns", min(default.columns, given["tile"]))
    return replace(default, **given)


def run_emit(options: argparse.Namespace) -> int:
    """`kernelpress emit`: paths, or with `-o -` the source itself, on standard output."""
    import emitter

    group = emitter.read(options.group)
    choices: dict[str, Any] = {
        "layouts": _once("--layout", options.layout),
        "static": _once("--static", options.static),
    }
    choices["schedule"] = _schedule(options, group, **choices)
    backends = _backends(options)
    if options.output == "-":
        if len(backends) > 1:
            raise UsageError("-o - prints one backend: add --backend triton or --backend cuda")
        files = emitter.emit(group, backends[0], **choices).files
        if options.json:
            print_json({"group": group.name, "backend": backends[0], "files": dict(files)})
        else:
            # Several files are told apart as `head` does.
            sys.stdout.write("\n".join(f"==> {n} <==\n{t}" if len(files) > 1 else t for n, t in files))
        return OK
    paths = emitter.write(group, options.output, backends, **choices)
    if options.json:
        document = {"group": group.name, "fingerprint": group.fingerprint, "backends": backends}
        print_json(document | {"files": [str(path) for path in paths]})
    else:
        print(*paths, sep="\n")
    print(f"{group.name}: {' and '.join(backends)}, {len(paths)} files in {paths[0].parent}", file=sys.stderr)
    return OK


def run_check(options: argparse.Namespace) -> int:
    """`kernelpress check`: a table on standard output, progress on standard error."""
    import emitter

    from .check import check, targets_of
    from .check_report import Repeat, progress_on, report_document, report_text

    group = emitter.read(options.group)
    static = _once("--static", options.static)
    schedule = _schedule(options, group, static=static)
    targets = targets_of(_backends(options), options.target, usual=options.case is None)
    show = progress_on(sys.stderr)
    try:
        report = check(
            group,
            targets,
            device=options.device,
            seed=options.seed,
            cases=range(options.cases) if options.case is None else [options.case],
            schedule=schedule,
            static=static,
            progress=show,
        )
    finally:
        show("")
    repeat = Repeat(options.group, options.static, options.schedule)
    if options.json:
        print_json(report_document(report, repeat))
    else:
        print(report_text(report, repeat))
    return OK if report.ok else FAILED


if __name__ == "__main__":
    sys.exit(main())
