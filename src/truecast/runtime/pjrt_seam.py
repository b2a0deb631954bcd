"""The private parts of jax and jaxlib that truecast uses, all of them, and nothing else.

Held to jax and jaxlib >= 0.10.2, < 0.11 (pyproject.toml); tests/unit/test_pjrt_seam.py holds every function
here down on the installed version. Each exists because the public interface has no equivalent:

    load, Loaded.serialize    an executable as bytes without pickle, and back
    Loaded.execute            300 arguments in and 100 results out in 0.3 ms, without jax.Array's Python checks
    memory                    jax.stages.Compiled has it, but not for an executable from its bytes
    alias, hand_over          a DLPack capsule in 2 us; jax.dlpack.from_dlpack takes 30 us (jnp.asarray)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import backend as jax_backend
from jaxlib import _jax
from jaxlib.cpu import _lapack

ArrayList = list[Any]
# PJRT's error for anything wrong with an executable's bytes or a compilation.
RuntimeFault = jax.errors.JaxRuntimeError


class Loaded:
    """An executable on one device."""

    __slots__ = ("_executable", "execute", "outputs")

    def __init__(self, executable: Any) -> None:
        self._executable = executable
        # list of single-device arrays in, in parameter order -> list of arrays out. It returns before the
        # results are ready. It checks buffer sizes, never dtypes, shapes or layouts: callers do.
        self.execute = executable.execute

    def serialize(self) -> bytes:
        return bytes(self._executable.serialize())

    @property
    def hlo(self) -> str:
        """The optimized HLO, with metadata."""
        return "\n".join(module.to_string() for module in self._executable.hlo_modules())


@dataclass(frozen=True)
class Memory:
    """The bytes that a run of an executable takes: arguments, results, the results that lie in donated arguments, and
    the working memory."""

    arguments: int
    results: int
    shared: int
    temporary: int

    @property
    def total(self) -> int:
        return self.arguments + self.results - self.shared + self.temporary


def memory(loaded: Loaded) -> Memory:
    """What XLA's compiler says of the executable."""
    found = loaded._executable.get_compiled_memory_stats()
    return Memory(
        found.argument_size_in_bytes,
        found.output_size_in_bytes,
        found.alias_size_in_bytes,
        found.temp_size_in_bytes,
    )


def platform_client(platform: str) -> Any:
    """The PJRT client of a platform. Raises RuntimeError where there is none."""
    return jax_backend.get_backend(platform)


def loaded(compiled: jax.stages.Compiled) -> Loaded:
    """What jax compiled, without jax's Python around it."""
    return Loaded(compiled.runtime_executable())


def load(client: Any, payload: bytes, devices: Sequence[Any]) -> Loaded:
    """An executable from its bytes. Raises RuntimeFault if the client can't read them.

    The bytes hold machine code: hand it only what has been authenticated.
    """
    if b"lapack_" in payload:
        # XLA:CPU calls LAPACK through pointers that jax fills in when it lowers such a call; null until then.
        _lapack.initialize()
    return Loaded(client.deserialize_executable(payload, tuple(devices), None))


def alias(capsule: Any, device: Any) -> Any:
    """The array that shares a DLPack capsule's memory. The memory must be dense, row-major and aligned to 64 bytes:
    XLA:CPU's code loads it as aligned vectors, and jaxlib copies silently where it isn't."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None, None)


def hand_over(array: Any) -> Any:
    """A DLPack capsule of an array's memory, which keeps the memory alive. Waits until the array is computed."""
    return _jax.buffer_to_dlpack_managed_tensor(array, stream=None)
