"""The code cache's contract: keys, damage, trust, places, and many writers at once."""

from __future__ import annotations

import errno
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import emitter.source
from launch import cache as cache_module
from launch import private_files
from launch.artifact import Artifact, CacheKey, canonical
from launch.cache import Cache
from launch.environment import VARIABLES, cache_folder
from launch.errors import CacheWarning
from launch.targets import Target

ROOT = Path(emitter.source.__file__).parents[1]
NOBODY = 65534

KEY = CacheKey(
    schema=1,
    backend="cuda",
    entry="bias_gelu",
    device="// größer als ASCII\n__global__ void bias_gelu() {}\n",
    params=(("x_ptr", "pointer", "f16", True), ("N", "size", "", False)),
    index="i32",
    vector=8,
    tile=(4, 256),
    tile_names=("BLOCK_M", "BLOCK_N"),
    options=(("--fmad", "false"), ("--std", "c++17")),
    target="cuda:90",
    compiler="nvrtc 13.5",
)
CHANGED: dict[str, Any] = {
    "schema": 2,
    "backend": "triton",
    "entry": "gelu_bias",
    "device": KEY.device.replace("{}", "{ }"),
    "params": (("x_ptr", "pointer", "bf16", True), ("N", "size", "", False)),
    "index": "i64",
    "vector": 1,
    "tile": (8, 256),
    "tile_names": ("BLOCK_N", "BLOCK_M"),
    "options": (("--fmad", "true"), ("--std", "c++17")),
    "target": "cuda:90a",
    "compiler": "nvrtc 12.8",
}


def artifact(key: CacheKey = KEY, filling: bytes = b"\x7fELF\x00\xff") -> Artifact:
    return Artifact(
        backend=key.backend,
        target=Target.parse(key.target),
        entry="_Z9bias_geluv",
        binary=filling * 100,
        kind="cubin",
        num_warps=4,
        shared=1024,
        scratch=2,
        texts={"ptx": "// ptx, größer\r\n.entry", "ttir": "module {}"},
    )


def entry(folder: Path, key: CacheKey = KEY) -> Path:
    return folder / "v1" / key.backend / key.digest[:2] / key.digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def stored(folder: Path) -> Path:
    """A cache folder that holds the artifact of KEY."""
    Cache(folder).put(KEY, artifact())
    return folder


@contextmanager
def one_warning(*parts: str) -> Iterator[None]:
    """Exactly one warning comes, names each part, and says how to choose another folder."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(w.message) for w in caught if issubclass(w.category, CacheWarning)]
    assert len(texts) == 1, texts
    assert all(part in texts[0] for part in (*parts, "KERNELPRESS_CACHE_DIR")), texts


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """What is not expected to warn must not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        yield


def heals(folder: Path) -> None:
    """The entry of KEY is a miss; one compilation repairs it for every later process."""
    assert Cache(folder).get(KEY) is None
    assert Cache(folder).get_or_compile(KEY, artifact) == artifact()
    assert Cache(folder).get(KEY) == artifact()
    assert [p.name for p in entry(folder).parent.iterdir()] == [KEY.digest]


def compile_nothing() -> Artifact:
    raise AssertionError("must not compile")


class TestKey:
    def test_every_field_is_varied_here(self) -> None:
        assert set(CHANGED) == {field.name for field in fields(CacheKey)}

    def test_every_field_changes_the_digest(self) -> None:
        keys = [KEY, *(replace(KEY, **{name: value}) for name, value in CHANGED.items())]
        assert len({key.digest for key in keys}) == len(keys)

    def test_digest_is_hex(self) -> None:
        assert len(KEY.digest) == 64
        assert set(KEY.digest) <= set("0123456789abcdef")

    def test_fields_do_not_run_into_each_other(self) -> None:
        one = replace(KEY, entry="a", compiler="b")
        assert (
            one.digest
            != replace(one, entry="a,b", compiler="").digest
            != replace(one, entry="b", compiler="a").digest
        )

    def test_two_fresh_processes_agree(self) -> None:
        program = f"from launch.artifact import CacheKey; print({KEY!r}.digest)"
        digests = {
            python(program, PYTHONHASHSEED=seed, LC_ALL=locale).stdout.strip()
            for seed, locale in (("1", "C"), ("2", "C.UTF-8"))
        }
        assert digests == {KEY.digest}


class TestStored:
    def test_comes_back_equal(self, stored: Path) -> None:
        assert Cache(stored).get(KEY) == artifact()
        assert Cache(stored).get_or_compile(KEY, compile_nothing) == artifact()

    def test_files_and_their_modes(self, folder: Path) -> None:
        for umask in (0o000, 0o777):
            before = os.umask(umask)
            try:
                Cache(folder / f"above{umask}" / "cache").put(KEY, artifact())
            finally:
                os.umask(before)
        names = {p.name for p in entry(folder / "above0" / "cache").iterdir()}
        assert names == {"source", "binary", "ptx", "ttir", "meta.json"}
        for path in [folder, *folder.rglob("*")]:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path

    def test_meta_names_every_key_field(self, stored: Path) -> None:
        meta = json.loads((entry(stored) / "meta.json").read_bytes())
        assert set(meta["key"]) | {"device"} == {field.name for field in fields(CacheKey)}
        assert (entry(stored) / "source").read_text(encoding="utf-8") == KEY.device

    def test_other_keys_miss(self, stored: Path) -> None:
        for name, value in CHANGED.items():
            assert Cache(stored).get(replace(KEY, **{name: value})) is None

    def test_absent_is_a_miss_and_makes_nothing(self, folder: Path) -> None:
        assert Cache(folder).get(KEY) is None
        assert not folder.exists()

    def test_memory_stands_above_the_folder(self, stored: Path) -> None:
        cache = Cache(stored)
        assert cache.get(KEY) == artifact()
        private_files.remove(stored)
        assert cache.get(KEY) is cache.get(KEY) is not None

    def test_memory_only(self) -> None:
        cache = Cache(None)
        assert cache.get(KEY) is None
        assert cache.get_or_compile(KEY, artifact) == artifact() == cache.get(KEY)

    def test_lookup_lists_nothing(self, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def listed(*_: object) -> None:
            raise AssertionError("a lookup must cost the same in a large cache")

        monkeypatch.setattr(os, "listdir", listed)
        monkeypatch.setattr(os, "scandir", listed)
        assert Cache(stored).get(KEY) == artifact()
        assert Cache(stored).get(replace(KEY, entry="other")) is None

    def test_failures_are_not_stored(self, folder: Path) -> None:
        cache = Cache(folder)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no such instruction"):
                cache.get_or_compile(KEY, lambda: fail("no such instruction"))
        assert cache.get(KEY) is None
        assert cache.get_or_compile(KEY, artifact) == artifact()

    def test_an_artifact_of_another_target_is_a_mistake(self, folder: Path) -> None:
        with pytest.raises(ValueError, match="cuda:80"):
            Cache(folder).put(KEY, replace(artifact(), target=Target("cuda", "80")))


def fail(message: str) -> Artifact:
    raise RuntimeError(message)


FILES = ["source", "binary", "ptx", "ttir", "meta.json"]


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("keep", [0, 0.5, 0.999])
    def test_cut_off(self, stored: Path, name: str, keep: float) -> None:
        path = entry(stored) / name
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])
        heals(stored)

    @pytest.mark.parametrize("name", ["source", "binary", "ptx", "meta.json"])
    def test_any_flipped_bit(self, stored: Path, name: str) -> None:
        path = entry(stored) / name
        content = bytearray(path.read_bytes())
        for position in range(0, len(content), max(1, len(content) // 100)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << (position % 8)
            path.write_bytes(damaged)
            assert Cache(stored).get(KEY) is None, position
        heals(stored)

    @pytest.mark.parametrize("name", FILES)
    def test_missing_file(self, stored: Path, name: str) -> None:
        (entry(stored) / name).unlink()
        heals(stored)

    @pytest.mark.parametrize("meta", [b"", b"[]", b"null", b"{}", b"\xff", b'{"sha256": 1}', b"[" * 100_000])
    def test_meta_of_another_shape(self, stored: Path, meta: bytes) -> None:
        (entry(stored) / "meta.json").write_bytes(meta)
        heals(stored)

    @pytest.mark.parametrize(
        ("where", "value"),
        [
            (("format",), 2),
            (("key", "schema"), 2),
            (("key", "target"), "cuda:80"),
            (("key", "compiler"), "nvrtc 12.4"),
            (("artifact", "more"), 1),
            (("levels",), ["sass"]),
            (("files",), {}),
        ],
    )
    def test_whole_meta_that_says_something_else(
        self, stored: Path, where: tuple[str, ...], value: object
    ) -> None:
        path = entry(stored) / "meta.json"
        meta = json.loads(path.read_bytes())
        del meta["sha256"]
        inner = meta
        for name in where[:-1]:
            inner = inner[name]
        inner[where[-1]] = value
        meta["sha256"] = cache_module._sha256(canonical(meta))
        path.write_bytes(canonical(meta))
        heals(stored)

    @pytest.mark.parametrize("field", ["target", "device", "options"])
    def test_swapped_entries(self, stored: Path, field: str) -> None:
        other = replace(KEY, **{field: CHANGED[field]})
        Cache(stored).put(other, artifact(other))
        a, b, aside = entry(stored), entry(stored, other), stored / "aside"
        for source, destination in ((a, aside), (b, a), (aside, b)):
            source.rename(destination)
        assert Cache(stored).get(KEY) is None
        assert Cache(stored).get(other) is None
        heals(stored)

    def test_an_empty_folder_or_a_file_in_the_place_of_an_entry(self, stored: Path) -> None:
        private_files.remove(entry(stored))
        entry(stored).mkdir(mode=0o700)
        heals(stored)


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
from tests.test_cache import KEY, artifact
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
        assert {"KERNELPRESS_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME", "TRITON_INTERPRET"} <= set(
            names
        )
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
        os.chmod(above, 0o755)
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


def python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


WORKER = """
import sys, time
from dataclasses import replace
from pathlib import Path
from tests.test_cache import KEY, artifact
from launch.cache import Cache
keys = [replace(KEY, entry=f"entry{i}") for i in range(4)]
cache = Cache(Path(sys.argv[1]))
compiled = 0
def build():
    global compiled
    compiled += 1
    time.sleep(0.05)
    return artifact()
print("ready", flush=True)
sys.stdin.readline()
for key in keys:
    assert cache.get_or_compile(key, build) == artifact()
print(compiled, flush=True)
"""

KILLED = """
import sys, time
from pathlib import Path
from tests.test_cache import KEY, artifact
from launch import cache, private_files
def write_file(path, content):
    private_files.write_file(path, content)
    if path.name == sys.argv[2]:
        print("written", flush=True)
        time.sleep(60)
cache.write_file = write_file
cache.Cache(Path(sys.argv[1])).get_or_compile(KEY, artifact)
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


class TestManyAtOnce:
    def test_eight_processes_four_groups(self, folder: Path) -> None:
        workers = [start(WORKER, str(folder)) for _ in range(8)]
        compiled = 0
        try:
            for worker in workers:
                assert worker.stdout is not None
                assert worker.stdout.readline() == "ready\n"
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write("\n")
                worker.stdin.flush()
            for worker in workers:
                output, _ = worker.communicate(timeout=60)
                assert worker.returncode == 0
                compiled += int(output)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        assert compiled == 4  # the lock saved the other 28
        keys = [replace(KEY, entry=f"entry{i}") for i in range(4)]
        assert all(Cache(folder).get(key) == artifact() for key in keys)
        left = {p.name for p in folder.glob("v1/cuda/*/*")}
        assert left == {key.digest for key in keys}

    @pytest.mark.parametrize("after", ["ptx", "binary", "meta.json"])
    def test_killed_writer(self, folder: Path, after: str) -> None:
        worker = start(KILLED, str(folder), after)
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "written\n"
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        (left,) = entry(folder).parent.iterdir()
        assert left.name.startswith(".new-")
        heals(folder)

    def test_old_leftovers_of_other_machines_are_swept(self, stored: Path) -> None:
        shard = entry(stored).parent
        fresh, old = shard / f".new-00000000-1-{'0' * 16}", shard / f".new-00000000-1-{'1' * 16}"
        for path in (fresh, old):
            path.mkdir()
            (path / "binary").write_bytes(b"half")
        os.utime(old, (time.time() - 7200,) * 2)
        Cache(stored).put(KEY, artifact())
        assert {p.name for p in shard.iterdir()} == {KEY.digest, fresh.name}

    def test_two_threads_compile_once(self, folder: Path) -> None:
        for place in (folder, None):
            cache = Cache(place)
            compiled: list[int] = []
            barrier = threading.Barrier(2)

            def build(compiled: list[int] = compiled) -> Artifact:
                compiled.append(1)
                time.sleep(0.05)
                return artifact()

            def work(cache: Cache = cache, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                assert cache.get_or_compile(KEY, build) == artifact()

            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert compiled == [1]

    def test_without_a_lock_all_is_right(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_locks(descriptor: int) -> bool:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(private_files, "_try_lock", no_locks)
        assert Cache(folder).get_or_compile(KEY, artifact) == artifact()
        assert Cache(folder).get(KEY) == artifact()

    def test_a_lock_held_for_ever_only_delays(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(private_files, "_LOCK_SECONDS", 0.05)
        with private_files.locked([folder, entry(folder).parent]):
            assert Cache(folder).get_or_compile(KEY, artifact) == artifact()

    def test_the_second_writer_keeps_the_first_ones_entry(self, stored: Path) -> None:
        before = (entry(stored) / "meta.json").stat().st_ino
        Cache(stored).put(KEY, artifact(filling=b"other"))
        assert (entry(stored) / "meta.json").stat().st_ino == before
        assert Cache(stored).get(KEY) == artifact()
        assert [p.name for p in entry(stored).parent.iterdir()] == [KEY.digest]
