"""Where the code cache lies, and whom it trusts."""

from __future__ import annotations

import errno
import os
import pwd
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cache_samples import KEY, ROOT, artifact, compile_nothing, entry, filled, one_warning, python

from launch import cache as cache_module
from launch import private_files
from launch.artifact import Artifact
from launch.cache import Cache
from launch.environment import VARIABLES, cache_folder

pytestmark = pytest.mark.filterwarnings("error::launch.errors.CacheWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return filled(tmp_path)


NOBODY = 65534


class TestTrust:
    """What somebody else could have put there is not read, with one warning that names it."""

    @pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
    @pytest.mark.parametrize("mode", [0o777, 0o770])
    def test_folder_that_others_can_write(self, stored: Path, level: int, mode: int) -> None:
        path = [*reversed(entry(stored).parents[:4]), entry(stored)][level]
        path.chmod(mode)
        with one_warning(str(path), "other users"):
            cache = Cache(stored)
            assert cache.get(KEY) is None
            assert cache.get_or_compile(KEY, artifact) == artifact() == cache.get(KEY)
        if level < 4:
            assert path.stat().st_mode & 0o777 == mode
        else:
            assert Cache(stored).get(KEY) == artifact()

    def test_nothing_is_made_in_a_folder_that_others_can_write(self, folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o777)
        with one_warning(str(folder)):
            Cache(folder).get_or_compile(KEY, artifact)
        assert list(folder.iterdir()) == []

    def test_file_that_others_can_write(self, stored: Path) -> None:
        (entry(stored) / "binary").chmod(0o666)
        with one_warning(str(entry(stored) / "binary")):
            assert Cache(stored).get(KEY) is None

    def test_folder_of_another_user(self, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        someone = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: someone)
        with one_warning(str(stored), "another user"):
            cache = Cache(stored)
            assert cache.get_or_compile(KEY, artifact) == artifact() == cache.get(KEY)

    @pytest.mark.parametrize("what", ["entry", "shard", "binary", "meta.json"])
    def test_symbolic_link(self, stored: Path, tmp_path: Path, what: str) -> None:
        place = {"entry": entry(stored), "shard": entry(stored).parent}.get(what, entry(stored) / what)
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
        with one_warning(str(place), "symbolic link"):
            cache = Cache(stored)
            assert cache.get_or_compile(KEY, artifact) == artifact()
        if what != "shard":
            assert Cache(stored).get_or_compile(KEY, compile_nothing) == artifact()
        assert (tmp_path / "elsewhere").exists()

    def test_the_users_own_link_to_a_cache(self, stored: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(stored)
        assert Cache(tmp_path / "link").get(KEY) == artifact()


class TestPlaces:
    def test_the_variable_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KERNELPRESS_CACHE_DIR", str(tmp_path / "mine"))
        assert cache_folder() == Cache.default().folder == tmp_path / "mine"
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("KERNELPRESS_CACHE_DIR", "mine")
        assert cache_folder() == tmp_path / "mine"
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("KERNELPRESS_CACHE_DIR", "~/mine")
        assert cache_folder() == tmp_path / "mine"

    @pytest.mark.parametrize(
        ("platform", "variables", "expected"),
        [
            ("linux", {}, "{home}/.cache/kernelpress"),
            ("linux", {"KERNELPRESS_CACHE_DIR": ""}, "{home}/.cache/kernelpress"),
            ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/kernelpress"),
            ("linux", {"XDG_CACHE_HOME": "relative"}, "{home}/.cache/kernelpress"),
            ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "{home}/Library/Caches/kernelpress"),
            ("win32", {"LOCALAPPDATA": "/local"}, "/local/kernelpress"),
            ("win32", {}, "{home}/AppData/Local/kernelpress"),
        ],
    )
    def test_the_users_cache_folder(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        platform: str,
        variables: dict[str, str],
        expected: str,
    ) -> None:
        for name in ("KERNELPRESS_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "platform", platform)
        assert cache_folder() == Path(expected.format(home=tmp_path))

    def test_no_home_means_memory_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("KERNELPRESS_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", "/")
        with one_warning("/"):
            cache = Cache.default()
            assert cache.folder is None
            assert cache.get_or_compile(KEY, artifact) == artifact() == cache.get(KEY)

    def test_home_unset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("KERNELPRESS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        assert cache_folder() == Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache", "kernelpress")

        def no_such_user(uid: int) -> pwd.struct_passwd:
            raise KeyError(uid)

        monkeypatch.setattr(pwd, "getpwuid", no_such_user)
        assert cache_folder() is None

    @pytest.mark.parametrize("place", ["file", "file/below", "x" * 300, "x" * 300 + "/below"])
    def test_a_file_in_the_way_or_a_name_too_long(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "file").write_bytes(b"")
        with one_warning(str(tmp_path / place)):
            cache = Cache(tmp_path / place)
            assert cache.get_or_compile(KEY, artifact) == artifact() == cache.get(KEY)
            other = replace(KEY, entry="other")
            assert cache.get_or_compile(other, artifact) == artifact()

    def test_folder_without_write_permission(self) -> None:
        report = as_user_with_read_only_folder(_use_read_only_folder)
        assert report == "compiled 1, warned 1, names both True, left []"

    def test_a_filled_folder_without_write_permission_is_still_read(self) -> None:
        report = as_user_with_read_only_folder(_use_read_only_folder, filled=True)
        assert report.startswith("compiled 0, warned 0")

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
    def test_a_write_that_fails(self, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        def write_file(path: Path, content: bytes) -> None:
            if path.name == "meta.json":
                raise OSError(number, os.strerror(number), str(path))
            private_files.write_file(path, content)

        monkeypatch.setattr(cache_module, "write_file", write_file)
        with one_warning(str(folder), os.strerror(number)):
            cache = Cache(folder)
            for key in (KEY, replace(KEY, entry="other")):
                assert cache.get_or_compile(key, artifact) == artifact() == cache.get(key)
        assert [p for p in folder.rglob("*") if not p.is_dir() or p.name.startswith(".")] == []

    def test_ascii_locale_and_a_path_beyond_it(self, tmp_path: Path) -> None:
        program = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.cache_samples import KEY, artifact
from launch.cache import Cache
cache = Cache.default()
known = cache.get(KEY) is not None
assert cache.get_or_compile(KEY, artifact) == artifact()
print(known, sys.getfilesystemencoding())
"""
        place = str(tmp_path / "größer-キャッシュ")
        quiet = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONWARNINGS": "error"}
        assert python(program, KERNELPRESS_CACHE_DIR=place, **quiet).stdout.startswith("False")
        assert python(program, KERNELPRESS_CACHE_DIR=place, **quiet).stdout.startswith("True")
        assert Cache(Path(place)).get(KEY) == artifact()

    def test_the_table_documents_what_is_read(self) -> None:
        names = [variable.name for variable in VARIABLES]
        assert len(set(names)) == len(names)
        assert {"KERNELPRESS_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME", "TRITON_INTERPRET"} <= set(names)
        assert all(variable.meaning and variable.default for variable in VARIABLES)


def _use_read_only_folder(folder: Path) -> str:
    compiled: list[int] = []

    def build() -> Artifact:
        compiled.append(1)
        return artifact()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache = Cache(folder)
        for _ in range(2):
            cache.get_or_compile(KEY, build)
    texts = [str(w.message) for w in caught]
    named = all(str(folder) in text and "KERNELPRESS_CACHE_DIR" in text for text in texts)
    left = [] if compiled == [] else sorted(p.name for p in folder.iterdir())
    return f"compiled {len(compiled)}, warned {len(texts)}, names both {named}, left {left}"


def as_user_with_read_only_folder(run: Callable[[Path], str], filled: bool = False) -> str:
    """What `run` returns in a child process without root's powers, in a folder of its own with mode 0555."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        folder = Path(above, "cache")
        folder.mkdir(mode=0o700)
        if filled:
            Cache(folder).put(KEY, artifact())
        root = os.geteuid() == 0
        for path in [*folder.rglob("*"), folder]:
            if root:
                os.chown(path, NOBODY, NOBODY)
            path.chmod(0o555 if path.is_dir() else 0o444)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if root:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                report = run(folder)
            except BaseException as error:
                report = repr(error)
            os.write(writer, report.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            report = pipe.read()
        os.waitpid(child, 0)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o700)
        return report
