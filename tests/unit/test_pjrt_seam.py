"""The private parts of jax and jaxlib behave as runtime/pjrt_seam.py relies on, in the installed version."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from truecast.runtime import pjrt_seam


def compiled(function: object, *specifications: jax.ShapeDtypeStruct, **options: object) -> pjrt_seam.Loaded:
    with jax.enable_x64(True):
        lowered = jax.jit(function, keep_unused=True, **options).lower(*specifications)
        return pjrt_seam.loaded(lowered.compile())


F32 = jax.ShapeDtypeStruct((1024,), jnp.float32)


def test_the_installed_versions_are_within_the_bounds() -> None:
    for name in ("jax", "jaxlib"):
        version = tuple(map(int, importlib.metadata.version(name).split(".")[:3]))
        assert (0, 10, 2) <= version < (0, 11)


def test_memory_is_what_a_run_takes() -> None:
    found = pjrt_seam.memory(compiled(lambda x, y: (x + y, jnp.sort(x)), F32, F32, donate_argnums=(0,)))
    assert (found.arguments, found.shared) == (8192, 4096)
    assert 8192 <= found.results <= 8192 + 64  # and the table of the results
    assert found.total == 8192 + found.results - 4096 + found.temporary


def test_an_executable_survives_as_bytes() -> None:
    client = pjrt_seam.platform_client("cpu")
    payload = compiled(lambda x, y: (x + y, x * y), F32, F32).serialize()
    assert type(payload) is bytes
    again = pjrt_seam.load(client, payload, client.local_devices()[:1])
    x, y = np.arange(1024, dtype=np.float32), np.full(1024, 2, np.float32)
    total, product = again.execute([jnp.asarray(x), jnp.asarray(y)])
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(product, x * y)
    assert "f32[1024]" in again.hlo and "add" in again.hlo


def test_a_factorization_survives_as_bytes_in_a_process_that_lowered_none(tmp_path: Path) -> None:
    matrix = jax.ShapeDtypeStruct((3, 3), jnp.float32)
    (tmp_path / "payload").write_bytes(compiled(jnp.linalg.cholesky, matrix).serialize())
    script = (
        "import sys, numpy as np, jax.numpy as jnp\n"
        "from truecast.runtime import pjrt_seam\n"
        "client = pjrt_seam.platform_client('cpu')\n"
        "program = pjrt_seam.load(client, open(sys.argv[1], 'rb').read(), client.local_devices()[:1])\n"
        "(factor,) = program.execute([jnp.asarray(np.diag([4.0, 9.0, 16.0]).astype('float32'))])\n"
        "print(np.diagonal(factor).tolist())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "payload"], capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stdout) == (0, "[2.0, 3.0, 4.0]\n"), ran.stderr


@pytest.mark.parametrize("payload", [b"", b"nonsense", b"\x00" * 1000])
def test_bytes_that_are_no_executable_are_a_runtime_fault(payload: bytes) -> None:
    client = pjrt_seam.platform_client("cpu")
    with pytest.raises(pjrt_seam.RuntimeFault):
        pjrt_seam.load(client, payload, client.local_devices()[:1])


def test_every_argument_and_result_has_its_own_place() -> None:
    """No result is left out because it equals another one or an argument, and none shares an argument's memory."""
    program = compiled(lambda x, unused: (x, x, x + 1, x + 1, jnp.zeros(4)), F32, F32)
    x, y = jnp.ones(1024), jnp.ones(1024)
    results = program.execute([x, y])
    assert len(results) == 5
    pointers = {r.unsafe_buffer_pointer() for r in results} | {x.unsafe_buffer_pointer()}
    assert len(pointers) == 6


def test_a_constant_result_is_fresh_at_each_call() -> None:
    program = compiled(lambda: jnp.full((64,), 3.0))
    first = from_dlpack(pjrt_seam.hand_over(program.execute([])[0].block_until_ready()))
    first.add_(1)
    second = from_dlpack(pjrt_seam.hand_over(program.execute([])[0].block_until_ready()))
    assert second.tolist() == [3.0] * 64


def test_handing_over_waits_for_the_result() -> None:
    """execute returns at once; whoever has the capsule may read, and whoever owns the arguments may write."""
    square = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
    program, x = compiled(lambda x: x @ x @ x @ x, square), jnp.ones((1024, 1024))
    result = program.execute([x])[0]
    assert not result.is_ready()
    pjrt_seam.hand_over(result)
    assert result.is_ready()


def test_a_donated_buffer_is_reused_and_gone() -> None:
    program = compiled(lambda x, y: x + y, F32, F32, donate_argnums=(0,))
    x, y = jnp.ones(1024), jnp.ones(1024)
    pointer = x.unsafe_buffer_pointer()
    (result,) = program.execute([x, y])
    assert result.unsafe_buffer_pointer() == pointer
    assert x.is_deleted()


def test_memory_that_torch_owns_is_never_overwritten_by_donation() -> None:
    program = compiled(lambda x, y: x + y, F32, F32, donate_argnums=(0,))
    device = pjrt_seam.platform_client("cpu").local_devices()[0]
    tensor = torch.ones(1024)
    (result,) = program.execute([pjrt_seam.alias(to_dlpack(tensor), device), jnp.ones(1024)])
    assert np.asarray(result).tolist() == [2.0] * 1024
    assert tensor.tolist() == [1.0] * 1024


def test_an_alias_shares_aligned_memory_and_only_that() -> None:
    device = pjrt_seam.platform_client("cpu").local_devices()[0]
    tensor = torch.arange(64.0)
    assert tensor.data_ptr() % 64 == 0
    assert pjrt_seam.alias(to_dlpack(tensor), device).unsafe_buffer_pointer() == tensor.data_ptr()
    assert pjrt_seam.alias(to_dlpack(tensor[1:]), device).unsafe_buffer_pointer() != tensor[1:].data_ptr()


def test_64_bit_dtypes_cross_without_the_process_wide_switch() -> None:
    assert not jax.config.jax_enable_x64
    device = pjrt_seam.platform_client("cpu").local_devices()[0]
    for dtype in (torch.int64, torch.float64, torch.complex128):
        array = pjrt_seam.alias(to_dlpack(torch.ones(3, dtype=dtype)), device)
        assert str(array.dtype) == str(dtype).removeprefix("torch.")


def test_an_unknown_platform_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError):
        pjrt_seam.platform_client("neuron")
