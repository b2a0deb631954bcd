"""The environment variables that truecast reads, all of them, and when: at each question, never at import.

A leaf: imports nothing of truecast, torch or jax. Nothing else in truecast reads `os.environ`.

    TRUECAST_CACHE       where compiled programs are kept; "off" keeps none on disk
    TRUECAST_CACHE_SIZE  the most bytes the directory may hold (default 4 GiB)
    NO_COLOR, TERM=dumb  no colours
    TRUECAST_NUMERICS    the policy where the program names none: a preset's name or a TOML file's path
    TRUECAST_FALLBACK    "error" forbids that the CPU runs what the pjrt device has no lowering for
    TRUECAST_EAGER       "1": the pjrt device runs each operation at once, for debugging
    TRUECAST_MEMORY      "release": memory that the pjrt device gives back goes to the system, not to the next program

What others' programs are set up with, and what numerics/environment.py makes of it:

    PJRT_DEVICE          the target: CPU (default), TPU, CUDA, NEURON
    XLA_USE_BF16, XLA_DOWNCAST_BF16    torch_xla's storage maps (law N11)
    NEURON_CC_FLAGS      neuronx-cc's --auto-cast, --auto-cast-type, --enable/--disable-mixed-precision-accumulation
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from truecast.errors import UsageError

_DEFAULT_CACHE_BYTES = 4 << 30
_kept_in: Path | None = None


def cache_directory() -> Path | None:
    """The directory of compiled programs; None where TRUECAST_CACHE=off."""
    if _kept_in is not None:
        return _kept_in
    named = os.environ.get("TRUECAST_CACHE", "")
    if named.lower() == "off":
        return None
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "truecast"


def keep_programs_in(directory: str | Path | None) -> None:
    """Compiled programs go to `directory` from now on, whatever TRUECAST_CACHE says; None restores it."""
    global _kept_in
    _kept_in = None if directory is None else Path(directory).expanduser()


def cache_limit() -> int:
    """The most bytes that the directory of compiled programs may hold."""
    text = os.environ.get("TRUECAST_CACHE_SIZE", "")
    if not text:
        return _DEFAULT_CACHE_BYTES
    if not text.isdecimal():
        raise UsageError(
            "TRUECAST_CACHE_SIZE is not a number of bytes",
            values=f"TRUECAST_CACHE_SIZE={text!r}",
            help="a whole number, for example 4294967296 for 4 GiB",
        )
    return int(text)


def named_numerics() -> str:
    """The name or path in TRUECAST_NUMERICS: the policy where the program names none; "" where it is not set."""
    return text_of("TRUECAST_NUMERICS")


def pjrt_device() -> str:
    """The kind of device in PJRT_DEVICE, in capitals; "" where it is not set."""
    return text_of("PJRT_DEVICE").upper()


def neuron_compiler_flags() -> str:
    """NEURON_CC_FLAGS."""
    return text_of("NEURON_CC_FLAGS")


def text_of(variable: str) -> str:
    """What a variable says; "" where it is not set."""
    return os.environ.get(variable, "").strip()


def is_set(variable: str) -> bool:
    """Whether one of torch_xla's switches is on. Raises UsageError for what is neither on nor off."""
    value = text_of(variable).lower()
    if value not in ("", "0", "false", "1", "true"):
        raise UsageError(f"{variable} has an unknown value", values=value, help='"1" or "0"')
    return value in ("1", "true")


def no_color() -> bool:
    """Whether output is to be plain (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def compiler_environment() -> str:
    """What changes how XLA compiles besides what truecast passes to it: part of an executable's key (law N9)."""
    return os.environ.get("XLA_FLAGS", "")


def fallback() -> str:
    """Whether the CPU may run what the device can't: "cpu" (default) or "error" (TRUECAST_FALLBACK)."""
    value = os.environ.get("TRUECAST_FALLBACK", "cpu").lower()
    if value not in ("cpu", "error"):
        raise UsageError("TRUECAST_FALLBACK has an unknown value", values=value, help='"cpu" or "error"')
    return value


def eager() -> bool:
    """Whether the pjrt device runs each operation at once (TRUECAST_EAGER=1)."""
    value = os.environ.get("TRUECAST_EAGER", "0")
    if value not in ("0", "1"):
        raise UsageError("TRUECAST_EAGER has an unknown value", values=value, help='"0" or "1"')
    return value == "1"


def keeps_memory() -> bool:
    """Whether memory that the pjrt device gives back stays with the process (not with TRUECAST_MEMORY=release)."""
    value = os.environ.get("TRUECAST_MEMORY", "keep")
    if value not in ("keep", "release"):
        raise UsageError("TRUECAST_MEMORY has an unknown value", values=value, help='"keep" or "release"')
    return value == "keep"
