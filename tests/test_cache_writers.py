"""Many writers of the code cache at once, and killed ones."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cache_samples import KEY, artifact, entry, filled, heals, start

from launch import private_files
from launch.artifact import Artifact
from launch.cache import Cache

pytestmark = pytest.mark.filterwarnings("error::launch.errors.CacheWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return filled(tmp_path)


WORKER = """
import sys, time
from dataclasses import replace
from pathlib import Path
from tests.cache_samples import KEY, artifact
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
from tests.cache_samples import KEY, artifact
from launch import cache, private_files
def write_file(path, content):
    private_files.write_file(path, content)
    if path.name == sys.argv[2]:
        print("written", flush=True)
        time.sleep(60)
cache.write_file = write_file
cache.Cache(Path(sys.argv[1])).get_or_compile(KEY, artifact)
"""


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
