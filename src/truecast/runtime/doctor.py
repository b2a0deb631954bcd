"""What `truecast doctor` reports: what is installed, found, healthy or missing, and how to get what is missing.

Data only; `cli` prints it.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from truecast import settings
from truecast.errors import TargetError, TruecastError
from truecast.numerics import environment, scope
from truecast.runtime.cache import DiskCache

State = Literal["ok", "absent", "wrong"]


@dataclass(frozen=True)
class Check:
    """One line. absent: something optional that is not there; wrong: something that needs attention."""

    subject: str
    state: State
    detail: str
    help: str = ""


def examine() -> Iterator[Check]:
    """Every check, in the order it is reported."""
    packages = list(_packages())
    yield from packages
    if not any(check.state == "wrong" for check in packages):
        yield from _devices()
    yield from _cache()
    yield from _environment()
    yield _numerics()


def _packages() -> Iterator[Check]:
    yield Check("python", "ok", platform.python_version())
    yield Check("truecast", "ok", importlib.metadata.version("truecast"))
    for requirement in importlib.metadata.requires("truecast") or ():
        if ";" in requirement:  # an extra's
            continue
        match = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert match is not None, requirement
        yield _package(match[0], requirement[match.end() :].strip())


def _package(name: str, bounds: str) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "wrong", "not installed", f"pip install '{name}{bounds}'")
    if not within(version, bounds):
        return Check(name, "wrong", f"{version}, outside {bounds}", f"pip install '{name}{bounds}'")
    return Check(name, "ok", version)


def within(version: str, bounds: str) -> bool:
    """Whether a version keeps to bounds such as "<0.11,>=0.10.2"; local parts and pre-release marks do not count."""
    number = _number(version)
    for bound in filter(None, (part.strip() for part in bounds.split(","))):
        operator, limit = re.fullmatch(r"(<|>=)\s*([\d.]+)", bound).groups()  # type: ignore[union-attr]
        if (number >= _number(limit)) != (operator == ">="):
            return False
    return True


def _number(version: str) -> tuple[int, ...]:
    digits = re.match(r"\d+(\.\d+)*", version)
    assert digits is not None, version
    parts = [int(part) for part in digits[0].split(".")]
    return tuple(parts + [0] * (4 - len(parts)))


def _devices() -> Iterator[Check]:
    # Imported here: without jax, doctor must still say that jax is missing.
    from truecast.lowering.program import TARGETS
    from truecast.runtime.client import client, core_count, plugin_hint

    for target in TARGETS:
        try:
            found = client(target)
        except TargetError as error:
            yield Check(f"{target} device", "absent", error.why or "", plugin_hint(target))
            continue
        about = f"{core_count()} cores" if target == "cpu" else found.handle.platform_version.splitlines()[0]
        yield Check(f"{target} device", "ok", f"{len(found.devices)} x {found.device.device_kind}, {about}")


def _cache() -> Iterator[Check]:
    try:
        directory, limit = settings.cache_directory(), settings.cache_limit()
    except TruecastError as error:
        yield Check("cache", "wrong", error.what, error.help or "")
        return
    if directory is None:
        yield Check(
            "cache", "absent", "off: each process compiles anew", "unset TRUECAST_CACHE to keep programs on disk"
        )
        return
    cache = DiskCache(directory, limit)
    entries = cache.entries()
    size = sum(status.st_size for _, status in entries)
    count = f"{len(entries)} programs, {size / 1e6:.1f} MB of at most {limit / 1e6:.0f} MB"
    trouble = _write_trouble(cache)
    if trouble:
        yield Check("cache", "wrong", f"{directory}: {count}; {trouble}", "name another directory in TRUECAST_CACHE")
    else:
        yield Check("cache", "ok", f"{directory}: {count}")


def _write_trouble(cache: DiskCache) -> str:
    """Why programs can't be kept there; "" if one can be stored and read back."""
    name = f"doctor{os.getpid()}"
    if cache.store(name, b"probe") and cache.load(name) != b"probe":
        return "what was stored there can't be read back"
    cache.remove(name)
    return cache.trouble


def _environment() -> Iterator[Check]:
    """What each variable that decides about numerics says, and what comes of it."""
    for said in environment.mappings():
        if said.trouble:
            yield Check(said.variable, "wrong", f"{said.value}: {said.meaning}", said.trouble)
        elif said.value:
            yield Check(said.variable, "ok", f"{said.value}: {said.meaning}")
        else:
            yield Check(said.variable, "absent", said.meaning)


def _numerics() -> Check:
    try:
        chosen = scope.policy()
    except TruecastError as error:
        return Check("numerics", "wrong", error.what, error.help or "")
    return Check("numerics", "ok", f"{chosen.name}, unless a program says otherwise")
