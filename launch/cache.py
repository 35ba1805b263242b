"""The code cache: compiled kernels by key, in memory and in a folder that is private to the user.

    v1/<backend>/<first two of the key>/<key>/{source, binary, one file a level, meta.json}

An entry is written in a temporary folder beside its place, `meta.json` last, and published by one rename.
`meta.json` holds every field of the key and the sha256 of every file, itself included.

When something is wrong: reading never fails, what does not match is a miss; writing never fails, a folder
that cannot be written or trusted gives one warning and the process goes on in memory; a failed compilation is
never stored; the lock only saves work, and nothing is wrong without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .artifact import Artifact, CacheKey, canonical
from .environment import CACHE_DIR, cache_folder, home
from .errors import CacheWarning
from .private_files import (
    Refused,
    check_folders,
    locked,
    make_folder,
    make_folders,
    read_file,
    remove,
    sweep,
    temporary_name,
    write_file,
)
from .targets import Target

FORMAT = 1
"""Version of the layout on disk; folders of another version are left alone."""


class Cache:
    """Compiled kernels by key. `folder` is made when something is first stored; None keeps all in memory."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._memory: dict[str, Artifact] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._warned: set[Path] = set()
        self._writable = folder is not None

    @staticmethod
    def default() -> Cache:
        """The user's cache: KERNELPRESS_CACHE_DIR, else kernelpress in the user's cache folder."""
        folder = cache_folder()
        cache = Cache(folder)
        if folder is None:
            cache._warn(home(), "is no home folder that a cache could be in")
        return cache

    def get(self, key: CacheKey) -> Artifact | None:
        """The artifact stored under `key`, or None. Costs the same whatever else is stored."""
        found = self._memory.get(key.digest)
        if found is None:
            found = self._read(key)
            if found is not None:
                self._memory[key.digest] = found
        return found

    def put(self, key: CacheKey, artifact: Artifact) -> None:
        """Store `artifact` under `key`, in memory and where possible on disk."""
        if (artifact.backend, str(artifact.target)) != (key.backend, key.target):
            raise ValueError(
                f"a {artifact.backend} artifact for {artifact.target} is no {key.backend} for {key.target}"
            )
        self._memory[key.digest] = artifact
        if self.folder is None or not self._writable:
            return
        try:
            self._publish(self.folder, key, artifact)
        except Refused as refused:
            self._writable = False
            self._warn(refused.path, refused.problem)
        except (OSError, ValueError) as error:
            self._writable = False
            self._warn(self.folder, f"cannot be written ({error})")

    def get_or_compile(self, key: CacheKey, compile: Callable[[], Artifact]) -> Artifact:
        """The artifact of `key`; on a miss what `compile` returns, stored.

        Threads and processes that miss one key at the same time wait for the first of them, within limits.
        What `compile` raises passes, and nothing is stored.
        """
        found = self.get(key)
        if found is not None:
            return found
        with self._lock(key):
            found = self.get(key)
            if found is None:
                found = compile()
                self.put(key, found)
            return found

    # Reading

    def _read(self, key: CacheKey) -> Artifact | None:
        if self.folder is None:
            return None
        folders = _folders(self.folder, key)
        try:
            check_folders(folders)
            return _load(folders[-1], key)
        except Refused as refused:
            self._warn(refused.path, refused.problem)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # absent, cut off, damaged, another version: all of them are a miss
        return None

    # Writing

    def _publish(self, root: Path, key: CacheKey, artifact: Artifact) -> None:
        *above, entry = _folders(root, key)
        shard = entry.parent
        make_folders(above)
        sweep(shard)
        new = temporary_name(shard)
        try:
            make_folder(new)
            _store(new, key, artifact)
            for attempts_left in (2, 1, 0):
                try:
                    new.rename(entry)
                    return
                except OSError:
                    if self._read(key) is not None:
                        return  # another process was first
                    if attempts_left == 0:
                        raise
                # What stands there is no whole entry: out of the way with it, then once more.
                aside = temporary_name(shard)
                with contextlib.suppress(FileNotFoundError):
                    entry.rename(aside)
                    remove(aside)
        finally:
            remove(new)

    # One compilation for many

    @contextlib.contextmanager
    def _lock(self, key: CacheKey) -> Iterator[None]:
        with self._locks.setdefault(key.digest, threading.Lock()):
            if self.folder is None or not self._writable:
                yield
                return
            # Keys that share the locked folder wait for each other too, which is seldom and harmless.
            with locked(_folders(self.folder, key)[:-1]):
                yield

    def _warn(self, path: Path, problem: str) -> None:
        if path in self._warned:
            return
        self._warned.add(path)
        message = f"code cache: {path} {problem}, so it is not used; {CACHE_DIR} can name another folder"
        warnings.warn(message, CacheWarning, stacklevel=2)


def _folders(root: Path, key: CacheKey) -> list[Path]:
    """The folders from the root down to the entry of a key."""
    version = root / f"v{FORMAT}"
    backend = version / key.backend
    shard = backend / key.digest[:2]
    return [root, version, backend, shard, shard / key.digest]


def _load(entry: Path, key: CacheKey) -> Artifact | None:
    """The artifact in a folder if it is whole and of this key."""
    meta = json.loads(read_file(entry / "meta.json"))
    seal = meta.pop("sha256")
    if seal != _sha256(canonical(meta)) or meta["format"] != FORMAT or meta["key"] != _key_fields(key):
        return None
    contents = {}
    for name, digest in meta["files"].items():
        contents[name] = read_file(entry / name)
        if _sha256(contents[name]) != digest:
            return None
    if contents.pop("source") != key.device.encode("utf-8"):
        return None
    binary = contents.pop("binary")
    texts = {name: contents[name].decode("utf-8") for name in meta["levels"]}
    return Artifact(
        binary=binary, target=Target.parse(key.target), backend=key.backend, texts=texts, **meta["artifact"]
    )


def _store(folder: Path, key: CacheKey, artifact: Artifact) -> None:
    """Write an entry's files, `meta.json` last."""
    files = {name: text.encode("utf-8") for name, text in artifact.texts.items()}
    if not all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in files) or {"source", "binary"} & set(files):
        raise ValueError(f"levels are stored under their names, which {', '.join(files)} cannot all be")
    files |= {"source": key.device.encode("utf-8"), "binary": artifact.binary}
    for name, content in files.items():
        write_file(folder / name, content)
    meta: dict[str, Any] = {
        "format": FORMAT,
        "key": _key_fields(key),
        "files": {name: _sha256(content) for name, content in files.items()},
        "levels": list(artifact.texts),
        "artifact": {name: getattr(artifact, name) for name in ("entry", "kind", "num_warps", "shared", "scratch")},
    }
    meta["sha256"] = _sha256(canonical(meta))
    write_file(folder / "meta.json", canonical(meta))


def _key_fields(key: CacheKey) -> Any:
    """The key as JSON gives it back; the device text stands beside it, as `source`."""
    fields = asdict(key)
    del fields["device"]
    return json.loads(canonical(fields))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
