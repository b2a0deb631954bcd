"""Compiled programs on disk, by the executable's key: written at once or not at all, read only if they are ours.

Imports settings and errors; knows nothing of XLA. An entry is bytes that will run as machine code, so a
key file of this user's authenticates it: what is truncated, foreign, altered, or from another format is a
miss, and the next store replaces it.

Entry, little-endian: magic "TRUECAST", u16 format, u16 zero, u32 length of the name, u64 length of the
payload, the name (the executable's key, so that an entry moved to another file name is foreign), a
32-byte keyed BLAKE2b of all of these and of the payload, the payload.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

_MAGIC = b"TRUECAST"
_FORMAT = 1
_HEADER = struct.Struct("<8sHHIQ")
_MAC_BYTES = 32
_KEY_BYTES = 32
_KEY_FILE = "key"
_LOCK_FILE = "lock"
_SUFFIX = ".exe"
_TEMPORARY = ".writing-"
_SPARED = 16  # an eviction leaves a 16th of the limit free,
_UNSEEN = 8  # and a process fills an 8th of the room that it found before it looks again


@dataclass
class Counts:
    """What the cache did since the process began."""

    hits: int = 0
    misses: int = 0
    rejected: int = 0  # entries found, but not ours or not whole
    stored: int = 0
    evicted: int = 0
    failed: int = 0  # stores that the file system refused


@dataclass
class DiskCache:
    """A directory of compiled programs, at most `limit` bytes of them; the least recently used go first.

    To look at thousands of entries takes longer than to write one, so a process does it at its first store and again
    when it has filled a part of the room that it found. Of more than 8 processes that write at once the last ones can
    exceed the limit until they look.

    No method raises for what the file system does: a cache that can't be read or written costs a
    compilation, never the run. `trouble` says what went wrong last, in words.
    """

    directory: Path
    limit: int
    counts: Counts = field(default_factory=Counts)
    trouble: str = ""
    _unseen: int = 0  # bytes that may still be written before the directory is looked at

    def load(self, name: str) -> bytes | None:
        """The payload stored under `name`; None if there is none that is whole and ours."""
        path = self._path(name)
        try:
            key = self._key(create=False)
            entry = path.read_bytes()
        except FileNotFoundError:
            self.counts.misses += 1
            return None
        except OSError as error:
            self._missed(f"can't read {path}: {error.strerror or error}")
            return None
        payload = _open(entry, name, key)
        if payload is None:
            self.counts.rejected += 1
            self._missed(f"{path} is truncated, altered or not written by this user's truecast")
            return None
        with contextlib.suppress(OSError):  # the time of last use; a read-only directory keeps the old one
            os.utime(path)
        self.counts.hits += 1
        return payload

    def store(self, name: str, payload: bytes) -> bool:
        """Writes an entry, replacing what was there; whether it could be written."""
        try:
            self._prepare()
            entry = _seal(payload, name, self._key(create=True))
            _write(self._path(name), entry)
        except OSError as error:
            self.trouble = f"can't write to {self.directory}: {error.strerror or error}"
            self.counts.failed += 1
            return False
        self.counts.stored += 1
        self._unseen -= len(entry)
        if self._unseen <= 0:
            self._evict(keep=self._path(name))
        return True

    def refuse(self, name: str, trouble: str) -> None:
        """Takes back the hit of an entry that turned out to be unusable, and removes it."""
        self.counts.hits -= 1
        self.counts.rejected += 1
        self._missed(trouble)
        self.remove(name)

    def remove(self, name: str) -> None:
        """Removes an entry, if there is one."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def entries(self) -> list[tuple[Path, os.stat_result]]:
        """Every entry with its status, the least recently used first."""
        found = []
        with contextlib.suppress(OSError):
            for path in self.directory.glob(f"*{_SUFFIX}"):
                with contextlib.suppress(FileNotFoundError):  # another process evicted it meanwhile
                    found.append((path, path.stat()))
        return sorted(found, key=lambda item: item[1].st_mtime_ns)

    @property
    def size(self) -> int:
        """Bytes held by entries."""
        return sum(status.st_size for _, status in self.entries())

    def _missed(self, trouble: str) -> None:
        self.trouble = trouble
        self.counts.misses += 1

    def _path(self, name: str) -> Path:
        assert name.isalnum(), name
        return self.directory / f"{name}{_SUFFIX}"

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid"):
            status = self.directory.stat()
            if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(0, "others may write to it, and it would hold machine code")

    def _key(self, *, create: bool) -> bytes:
        path = self.directory / _KEY_FILE
        try:
            return _read_key(path)
        except FileNotFoundError:
            if not create:
                raise
        # The file appears whole: of two processes that create it at once, the first one's link wins.
        with _temporary(self.directory, os.urandom(_KEY_BYTES)) as temporary, contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        return _read_key(path)

    def _evict(self, keep: Path) -> None:
        self._sweep()
        entries = self.entries()
        excess = sum(status.st_size for _, status in entries) - self.limit
        self._unseen = max(-excess, self.limit // _SPARED) // _UNSEEN
        if excess <= 0:
            return
        excess += self.limit // _SPARED
        try:
            with FileLock(self.directory / _LOCK_FILE, timeout=0):
                for path, status in entries:
                    if excess <= 0:
                        break
                    if path != keep:
                        path.unlink(missing_ok=True)
                        self.counts.evicted += 1
                        excess -= status.st_size
        except (Timeout, OSError) as error:  # another process evicts at this moment, or may write and we may not
            self.trouble = f"can't make room in {self.directory}: {error}"

    def _sweep(self) -> None:
        """Removes what processes left that were killed while they wrote, an hour ago or longer."""
        with contextlib.suppress(OSError):
            for path in self.directory.glob(f"{_TEMPORARY}*"):
                if path.stat().st_mtime < time.time() - 3600:
                    path.unlink(missing_ok=True)


def _seal(payload: bytes, name: str, key: bytes) -> bytes:
    encoded = name.encode()
    head = _HEADER.pack(_MAGIC, _FORMAT, 0, len(encoded), len(payload)) + encoded
    return head + _mac(key, head, payload) + payload


def _open(entry: bytes, name: str, key: bytes) -> bytes | None:
    encoded = name.encode()
    start = _HEADER.size + len(encoded)
    head, mac, payload = entry[:start], entry[start : start + _MAC_BYTES], entry[start + _MAC_BYTES :]
    if head != _HEADER.pack(_MAGIC, _FORMAT, 0, len(encoded), len(payload)) + encoded:
        return None
    return payload if hmac.compare_digest(mac, _mac(key, head, payload)) else None


def _mac(key: bytes, head: bytes, payload: bytes) -> bytes:
    digest = hashlib.blake2b(head, key=key, digest_size=_MAC_BYTES)
    digest.update(payload)
    return digest.digest()


def _read_key(path: Path) -> bytes:
    """The key. A file that isn't this user's secret, or is no key at all, is removed: FileNotFoundError."""
    status = path.stat()
    key = path.read_bytes()
    secret = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    if not secret or len(key) != _KEY_BYTES:
        path.unlink()
        raise FileNotFoundError(path)
    return key


def _write(path: Path, content: bytes) -> None:
    with _temporary(path.parent, content) as temporary:
        os.replace(temporary, path)


@contextlib.contextmanager
def _temporary(directory: Path, content: bytes) -> Iterator[Path]:
    """A complete file of mode 0600 in `directory`, gone afterwards unless it was moved."""
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=_TEMPORARY)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
