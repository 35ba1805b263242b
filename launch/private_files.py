"""Files and folders that only the user can write: made, checked, read, published, locked and swept.

Nothing is trusted that somebody else could have put there: `Refused` says which path and why.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_LOCK_SECONDS = 60.0
_STALE_SECONDS = 3600.0
_TEMPORARY = re.compile(r"\.new-([0-9a-f]{8})-(\d+)-[0-9a-f]+")


class Refused(Exception):
    """A path that somebody else could have put there or could change."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path
        self.problem = problem


def check_folders(folders: list[Path]) -> None:
    """Refuse a chain of folders that somebody else could change; the first may be a link of the user's.

    Raises OSError where one is missing.
    """
    for folder in folders:
        _check_folder(folder, linked=folder == folders[0])


def make_folders(folders: list[Path]) -> None:
    """Make a chain of folders, and what is above it, for the user only. Raises Refused or OSError."""
    for parent in reversed(folders[0].parents):
        if not parent.exists():
            make_folder(parent)
    for folder in folders:
        if not folder.is_dir():
            make_folder(folder)
        _check_folder(folder, linked=folder == folders[0])


def make_folder(folder: Path) -> None:
    """Make a folder that only the user may enter; it may be there already."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
        folder.chmod(0o700)  # whatever the umask took away


def read_file(path: Path) -> bytes:
    """What a file of the user's holds. Raises Refused or OSError."""
    if path.is_symlink():
        raise Refused(path, "is a symbolic link")
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        _check(path, os.fstat(file.fileno()), stat.S_ISREG)
        return file.read()


def write_file(path: Path, content: bytes) -> None:
    """Write a new file that only the user may read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        if sys.platform != "win32":
            os.fchmod(file.fileno(), 0o600)  # whatever the umask took away
        file.write(content)


def temporary_name(folder: Path) -> Path:
    """A name inside `folder` that `sweep` recognises as this process's."""
    return folder / f".new-{_machine()}-{os.getpid()}-{secrets.token_hex(8)}"


def sweep(folder: Path) -> None:
    """Remove what killed writers left under temporary names: their process is gone, or it is an hour old."""
    for path in folder.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found is None:
            continue
        dead = found.group(1) == _machine() and not _alive(int(found.group(2)))
        with contextlib.suppress(OSError):
            if dead or time.time() - path.lstat().st_mtime > _STALE_SECONDS:
                remove(path)


def remove(path: Path) -> None:
    """Remove a folder or file, if it is there; of a link the link, not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def locked(folders: list[Path]) -> Iterator[None]:
    """Hold the lock of the last folder of a chain, where there is one, or go on without after a minute.

    The folder itself is locked, so no lock file stays behind.
    """
    descriptor = None
    try:
        if sys.platform != "win32":
            with contextlib.suppress(OSError, ValueError, Refused):
                make_folders(folders)
                descriptor = os.open(folders[-1], os.O_RDONLY)
                deadline = time.monotonic() + _LOCK_SECONDS
                while time.monotonic() < deadline and not _try_lock(descriptor):
                    time.sleep(0.01)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _check_folder(folder: Path, linked: bool) -> None:
    _check(folder, folder.stat() if linked else folder.lstat(), stat.S_ISDIR)


def _check(path: Path, status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    if not is_kind(status.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not the kind of file expected there"
        raise Refused(path, f"is {what}")
    if sys.platform == "win32":
        return
    if status.st_uid != os.geteuid():
        raise Refused(path, "belongs to another user")
    if status.st_mode & 0o022:
        raise Refused(path, "can be written by other users (chmod go-w)")


@functools.cache
def _machine() -> str:
    """Names the set of processes in which a process number means one process: the host and its namespace."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]


def _alive(process: int) -> bool:
    if sys.platform == "win32":
        return True  # asking would end it; age decides
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
