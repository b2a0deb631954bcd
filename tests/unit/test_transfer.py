"""Tensors cross to the device and back bit for bit: shared where they can be, by a counted copy where not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.twin import to_numpy
from truecast import dtypes
from truecast.errors import UnsupportedError, UsageError
from truecast.runtime.client import client
from truecast.runtime.transfer import Transfers, to_device, to_torch

CPU = client("cpu")
DTYPES = [d for d in dtypes.BY_NAME.values() if d is not dtypes.complex32]


def sample(dtype: dtypes.DType, *shape: int) -> torch.Tensor:
    if dtype.category == "complex":
        return torch.randn(shape, dtype=dtypes.torch_dtype(dtype))
    return (torch.randn(shape, dtype=torch.float64) * 3).abs().to(dtypes.torch_dtype(dtype))


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 7)], ids=str)
def test_every_dtype_goes_there_and_back(dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    tensor, transfers = sample(dtype, *shape), Transfers()
    array = to_device(tensor, dtype, CPU, transfers)
    assert array.dtype == dtypes.numpy_dtype(dtype)
    assert array.shape == shape
    back = to_torch(array, dtype, CPU, transfers)
    assert back.dtype == tensor.dtype
    assert bits(back) == bits(tensor)
    assert (transfers.shared, transfers.copied) == (2, 0)


def test_sharing_is_sharing() -> None:
    tensor = torch.zeros(16)
    array = to_device(tensor, dtypes.float32, CPU, Transfers())
    assert array.unsafe_buffer_pointer() == tensor.data_ptr()
    tensor.fill_(7.0)
    assert np.asarray(array).tolist() == [7.0] * 16


def test_a_shared_array_keeps_the_memory() -> None:
    array = to_device(torch.full((1024,), 3.0), dtypes.float32, CPU, Transfers())
    torch.full((1024,), 5.0)  # would take the freed memory
    assert np.asarray(array).tolist() == [3.0] * 1024


def test_a_result_owns_its_memory() -> None:
    tensor = to_torch(
        to_device(torch.full((1024,), 3.0), dtypes.float32, CPU, Transfers()), dtypes.float32, CPU, Transfers()
    )
    torch.full((1024,), 5.0)
    tensor.add_(1)
    assert tensor.tolist() == [4.0] * 1024


VIEWS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "transposed": (lambda: torch.randn(4, 6).t(), "not contiguous"),
    "strided": (lambda: torch.randn(20)[::2], "not contiguous"),
    "expanded": (lambda: torch.randn(4, 1).expand(4, 5), "not contiguous"),
    "channels last": (lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "not contiguous"),
    "unaligned": (lambda: torch.randn(65)[1:], "not aligned to 64 bytes"),
    "conjugate": (lambda: torch.randn(6, dtype=torch.complex64).conj(), "conjugate view"),
    "negative view": (lambda: torch._neg_view(torch.randn(6)), "negative view"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_arrives_as_what_it_shows(name: str) -> None:
    make, reason = VIEWS[name]
    tensor, transfers = make(), Transfers()
    dtype = dtypes.of(tensor.dtype)
    array = to_device(tensor, dtype, CPU, transfers)
    np.testing.assert_array_equal(np.asarray(array), to_numpy(tensor))
    assert transfers.reasons == ({reason: 1} if reason else {})
    assert transfers.copied_bytes == (tensor.nbytes if reason else 0)


def test_a_parameter_crosses_without_its_gradient() -> None:
    parameter, transfers = torch.nn.Parameter(torch.randn(4)), Transfers()
    np.testing.assert_array_equal(
        np.asarray(to_device(parameter, dtypes.float32, CPU, transfers)), parameter.detach().numpy()
    )
    assert transfers.shared == 1


def test_an_aligned_slice_is_shared() -> None:
    transfers = Transfers()
    to_device(torch.randn(64)[16:], dtypes.float32, CPU, transfers)
    assert (transfers.shared, transfers.copied) == (1, 0)


def test_a_storage_map_copies_both_ways() -> None:
    """Law N11: float32 held as bfloat16; `.dtype` still says float32."""
    transfers = Transfers()
    tensor = torch.tensor([1.0, 1.0 + 2**-9, 3.0])
    array = to_device(tensor, dtypes.bfloat16, CPU, transfers)
    assert str(array.dtype) == "bfloat16"
    back = to_torch(array, dtypes.float32, CPU, transfers)
    assert back.dtype is torch.float32
    assert back.tolist() == [1.0, 1.0, 3.0]
    assert transfers.reasons == {"held as bfloat16": 2}


def test_special_values_and_payloads_survive() -> None:
    """Law N7: NaN payloads, signed zeros, infinities and subnormals are bits like any other."""
    patterns = torch.arange(0, 1 << 16, dtype=torch.int32).to(torch.uint16)
    for dtype in (dtypes.bfloat16, dtypes.float16):
        tensor = patterns.view(dtypes.torch_dtype(dtype))
        back = to_torch(to_device(tensor, dtype, CPU, Transfers()), dtype, CPU, Transfers())
        assert torch.equal(back.view(torch.uint16), patterns)


def test_a_sparse_tensor_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        to_device(torch.eye(3).to_sparse(), dtypes.float32, CPU, Transfers())
    assert str(caught.value) == (
        "a torch.sparse_coo tensor can't go to a device\n"
        "  why: XLA has dense arrays only\n"
        "  help: convert it with .to_dense()"
    )


def test_a_fake_tensor_is_refused() -> None:
    with FakeTensorMode():
        fake = torch.empty(3)
    with pytest.raises(UsageError) as caught:
        to_device(fake, dtypes.float32, CPU, Transfers())
    assert str(caught.value) == (
        "a fake tensor has no contents to compute with\n"
        "  help: a program can be lowered, saved and looked at with fake tensors; to run it, give it real ones"
    )
