"""The cache of compiled programs: what is whole and ours is loaded, anything else is a miss, never an error."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecast.runtime.cache import DiskCache

NAME = "0123abcd" * 8
OTHER = "fedc9876" * 8
PAYLOAD = bytes(range(256)) * 5


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", limit=1 << 20)


def entry_of(cache: DiskCache, name: str = NAME) -> Path:
    return cache.directory / f"{name}.exe"


def test_what_was_stored_is_loaded(cache: DiskCache) -> None:
    assert cache.load(NAME) is None
    assert cache.store(NAME, PAYLOAD)
    assert cache.load(NAME) == PAYLOAD
    assert (cache.counts.hits, cache.counts.misses, cache.counts.stored) == (1, 1, 1)
    assert DiskCache(cache.directory, 1 << 20).load(NAME) == PAYLOAD, "another process reads it too"


def test_an_empty_payload_is_a_payload(cache: DiskCache) -> None:
    cache.store(NAME, b"")
    assert cache.load(NAME) == b""


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_one_changed_bit_anywhere_is_a_miss(tmp_path_factory: pytest.TempPathFactory, position: int, bit: int) -> None:
    cache = DiskCache(tmp_path_factory.mktemp("cache"), limit=1 << 20)
    cache.store(NAME, PAYLOAD)
    content = bytearray(entry_of(cache).read_bytes())
    content[position % len(content)] ^= 1 << bit
    entry_of(cache).write_bytes(content)
    assert cache.load(NAME) is None
    assert cache.counts.rejected == 1
    cache.store(NAME, PAYLOAD)
    assert cache.load(NAME) == PAYLOAD, "the next store replaces it"


@pytest.mark.parametrize("length", [0, 1, 8, 23, 24, 80, 119, 120, 500, -1])
def test_a_truncated_entry_is_a_miss(cache: DiskCache, length: int) -> None:
    cache.store(NAME, PAYLOAD)
    entry_of(cache).write_bytes(entry_of(cache).read_bytes()[:length])
    assert cache.load(NAME) is None
    assert "truncated, altered or not written by this user's truecast" in cache.trouble


def test_an_entry_under_another_name_is_a_miss(cache: DiskCache) -> None:
    cache.store(NAME, PAYLOAD)
    os.rename(entry_of(cache), entry_of(cache, OTHER))
    assert cache.load(OTHER) is None
    assert cache.counts.rejected == 1


def test_an_entry_of_another_cache_is_a_miss(cache: DiskCache, tmp_path: Path) -> None:
    foreign = DiskCache(tmp_path / "foreign", limit=1 << 20)
    foreign.store(NAME, PAYLOAD)
    cache.store(OTHER, PAYLOAD)
    entry_of(cache).write_bytes(entry_of(foreign).read_bytes())
    assert cache.load(NAME) is None


def test_the_key_is_this_users_secret(cache: DiskCache) -> None:
    cache.store(NAME, PAYLOAD)
    key = cache.directory / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32


@pytest.mark.parametrize("spoil", [lambda k: k.chmod(0o644), lambda k: k.write_bytes(b"short")], ids=["open", "short"])
def test_a_key_that_others_could_know_is_replaced(cache: DiskCache, spoil: object) -> None:
    cache.store(NAME, PAYLOAD)
    key = cache.directory / "key"
    before = key.read_bytes()
    spoil(key)  # type: ignore[operator]
    assert cache.load(NAME) is None
    cache.store(NAME, PAYLOAD)
    assert cache.load(NAME) == PAYLOAD
    assert key.read_bytes() != before
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_directory_that_others_may_write_holds_nothing(cache: DiskCache) -> None:
    cache.directory.mkdir()
    cache.directory.chmod(0o777)
    assert not cache.store(NAME, PAYLOAD)
    assert "others may write to it" in cache.trouble
    assert list(cache.directory.iterdir()) == []


def test_a_directory_that_cannot_be_made_costs_nothing_but_the_entry(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache", limit=1 << 20)
    assert cache.load(NAME) is None
    assert not cache.store(NAME, PAYLOAD)
    assert cache.counts.failed == 1
    assert cache.trouble.startswith("can't write to ")


def test_a_failed_write_leaves_no_file(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(OTHER, PAYLOAD)
    before = sorted(cache.directory.iterdir())

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert not cache.store(NAME, PAYLOAD)
    assert sorted(cache.directory.iterdir()) == before
    assert cache.trouble == f"can't write to {cache.directory}: No space left on device"


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=4 * (len(PAYLOAD) + 400))
    names = [f"{i:064x}" for i in range(4)]
    for age, name in enumerate(names):
        cache.store(name, PAYLOAD)
        os.utime(entry_of(cache, name), (age, age))
    assert cache.load(names[0]) == PAYLOAD  # now the most recently used
    cache.store(NAME, PAYLOAD)
    assert cache.counts.evicted == 1
    assert [cache.load(n) is not None for n in (*names, NAME)] == [True, False, True, True, True]
    assert cache.size <= cache.limit


def test_the_directory_is_not_looked_at_for_every_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, looked, entries = DiskCache(tmp_path, limit=50_000), [], DiskCache.entries
    monkeypatch.setattr(DiskCache, "entries", lambda self: looked.append(0) or entries(self))
    for index in range(600):  # about twice what has room
        cache.store(f"{index:064x}", b"")
    assert cache.counts.stored == 600 and 2 <= len(looked) <= 300
    assert cache.limit * 0.9 < cache.size <= cache.limit
    assert cache.load(f"{599:064x}") == b"" and cache.load(f"{0:064x}") is None


def test_an_entry_larger_than_the_bound_is_kept_alone(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=10)
    cache.store(OTHER, PAYLOAD)
    cache.store(NAME, PAYLOAD)
    assert cache.load(NAME) == PAYLOAD
    assert cache.load(OTHER) is None


def test_what_a_killed_writer_left_is_swept_after_an_hour(cache: DiskCache) -> None:
    cache.store(OTHER, PAYLOAD)
    old, new = cache.directory / ".writing-old", cache.directory / ".writing-new"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (1, 1))
    DiskCache(cache.directory, cache.limit).store(NAME, PAYLOAD)  # a process looks around at its first store
    assert not old.exists()
    assert new.exists()


def _write_many(directory: Path, worker: int) -> None:
    cache = DiskCache(directory, limit=20 * len(PAYLOAD))
    for i in range(60):
        name = f"{i % 12:064x}"
        assert cache.store(name, PAYLOAD + bytes([i % 12])), cache.trouble
        loaded = cache.load(name)
        assert loaded is None or loaded == PAYLOAD + bytes([i % 12])
    assert cache.counts.rejected == 0, cache.trouble


def test_processes_may_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(tmp_path / "cache", i)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert not list((tmp_path / "cache").glob(".writing-*"))
