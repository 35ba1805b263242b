"""The code cache's contract: keys, what comes back, and what damage does."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path

import pytest
from cache_samples import CHANGED, KEY, artifact, compile_nothing, entry, filled, heals, python

from launch import cache as cache_module
from launch import private_files
from launch.artifact import Artifact, CacheKey, canonical
from launch.cache import Cache
from launch.targets import Target

pytestmark = pytest.mark.filterwarnings("error::launch.errors.CacheWarning")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return filled(tmp_path)


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
            one.digest != replace(one, entry="a,b", compiler="").digest != replace(one, entry="b", compiler="a").digest
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
    def test_whole_meta_that_says_something_else(self, stored: Path, where: tuple[str, ...], value: object) -> None:
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
