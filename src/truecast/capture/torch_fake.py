"""The part of the seam to PyTorch's private interfaces that is about fake tensors (torch >= 2.13, < 2.15): what a
program is recorded with where there is no memory, and what they refuse. tests/unit/test_torch_seam.py holds them down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

from truecast.capture.torch_seam import without_modes

__all__ = ["FakeTensor", "FakeTensorMode"]


def fake_mode_of(tensors: Iterator[Any]) -> FakeTensorMode | None:
    """The mode of the first fake tensor among `tensors`."""
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    return None


@contextmanager
def swaps_told(swapped: Callable[[torch.Tensor, torch.Tensor, Callable[[], None]], None]) -> Iterator[None]:
    """Calls `swapped(a, b, swap)` in place of every `torch.utils.swap_tensors(a, b)`, by which a module converts fake
    parameters, and which refuses tensors with weak references; `swap` does it."""
    real = torch.utils.swap_tensors

    def swap_tensors(a: torch.Tensor, b: torch.Tensor) -> None:
        for tensor in (a, b):
            _forget_conversion(tensor)
        swapped(a, b, lambda: real(a, b))

    with patch.object(torch.utils, "swap_tensors", swap_tensors):
        yield


def _forget_conversion(tensor: torch.Tensor) -> None:
    """A fake mode remembers, by weak reference, what it made of each tensor that it met."""
    if isinstance(tensor, FakeTensor):
        made = tensor.fake_mode.fake_tensor_converter.meta_converter.tensor_memo
        for key in [key for key, value in made.items() if value is tensor]:
            del made[key]


def is_data_dependent(error: BaseException) -> bool:
    """Whether PyTorch gave up because a value or a size depends on a tensor's contents."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, GuardOnDataDependentSymNode | DataDependentOutputException | DynamicOutputShapeException)


def new_fake_mode() -> FakeTensorMode:
    """Fake tensors with static shapes; a result whose shape depends on data raises."""
    return FakeTensorMode(allow_non_fake_inputs=False, static_shapes=True)


def fake_like(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A fake leaf tensor of the same dtype, shape, strides, device and requires_grad, in memory of its own."""
    with without_modes(), mode:
        fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return fake.requires_grad_(tensor.requires_grad)


def reads_memory(error: BaseException) -> bool:
    """Whether an operation, or `.numpy()`, tried to read the memory that a fake tensor does not have."""
    words = ("its data is not allocated yet", ".numpy() is not supported for tensor subclasses")
    return isinstance(error, RuntimeError) and any(w in str(error) for w in words)


def unsupported_by_fake_tensors() -> tuple[type[Exception], ...]:
    """What a fake tensor raises for an operation that it can't run."""
    from torch._subclasses.fake_tensor import UnsupportedFakeTensorException, UnsupportedOperatorException

    return (UnsupportedFakeTensorException, UnsupportedOperatorException)


def fake_rule(func: Any) -> Callable[..., Any] | None:
    """What to run on fake tensors in place of an operation whose meta function is stricter than the operation, or
    that has none although its results' shapes don't depend on contents, or need not."""
    aten = torch.ops.aten
    rules: dict[Any, Callable[..., Any]] = {
        aten._grouped_mm.default: _fake_grouped_mm,
        aten._ctc_loss.default: _fake_ctc_loss,
        aten._ctc_loss.Tensor: _fake_ctc_loss,
        aten.linalg_lstsq.default: _fake_lstsq,
        aten.multilabel_margin_loss_forward.default: _fake_multilabel_margin_loss,
    }
    return rules.get(func)


def _fake_grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> torch.Tensor:
    """The meta function knows CUDA's kernel only, which takes bfloat16; the CPU's takes any floating dtype."""
    if a.dim() == 2:
        shape = (offs.shape[0], a.shape[0], b.shape[1]) if b.dim() == 2 else (a.shape[0], b.shape[2])
    else:
        shape = (a.shape[1], b.shape[1]) if b.dim() == 2 else (a.shape[0], a.shape[1], b.shape[2])
    return a.new_empty(shape, dtype=out_dtype or a.dtype)


def _fake_multilabel_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    """The meta function gives one row's loss a dimension that no kernel gives it."""
    loss, is_target = torch.ops.aten.multilabel_margin_loss_forward.default(self, target, reduction)
    return (loss if self.dim() > 1 else loss.new_empty(())), is_target


def _fake_ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> Any:
    """The loss, and log alpha, which only the backward reads: a position for each label and around it. Lengths in a
    tensor are not known; no target is longer than `targets`."""
    longest = targets.shape[-1] if isinstance(target_lengths, torch.Tensor) else max(target_lengths, default=0)
    time, batch, _ = log_probs.shape
    return log_probs.new_empty((batch,)), log_probs.new_empty((batch, time, 2 * longest + 1))


def _fake_lstsq(a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """Solution, residuals, rank, singular values, each empty where its driver leaves it out. The drivers that find
    the rank return residuals only if it is full."""
    rows, columns = a.shape[-2:]
    driver = driver or "gelsy"
    spectral, vector = driver in ("gelsd", "gelss"), b.shape == a.shape[:-1]
    if (rows > columns and spectral) or (b.dim() < a.dim() and not vector):
        return torch.ops.aten.linalg_lstsq.default(a, b, rcond, driver=driver)  # refuses in PyTorch's words
    right = b.unsqueeze(-1) if vector else b
    batch = torch.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    solution = a.new_empty((*batch, columns) if vector else (*batch, columns, right.shape[-1]))
    real = a.dtype.to_real()
    residuals = a.new_empty((*batch, right.shape[-1]) if rows > columns and driver == "gels" else (0,), dtype=real)
    rank = a.new_empty((0,) if driver == "gels" else a.shape[:-2], dtype=torch.int64)
    return solution, residuals, rank, a.new_empty((*a.shape[:-2], min(rows, columns)) if spectral else (0,), dtype=real)


@contextmanager
def quiet_fake_tensors() -> Iterator[None]:
    """An operation that fails on fake tensors raises, and is not logged with a traceback besides."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def without_vendor_kernels() -> Iterator[None]:
    """PyTorch takes no operation that stands for one vendor's library (mkldnn_rnn_layer for an LSTM)."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@contextmanager
def lengths_in_tensors() -> Iterator[None]:
    """torch.ctc_loss gets its lengths as tensors: to average a loss with lengths in a tuple, PyTorch writes them to
    memory that a fake tensor does not have."""
    original = torch.ctc_loss

    def ctc_loss(
        log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any, **named: Any
    ) -> Any:
        lengths = [x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in (input_lengths, target_lengths)]
        return original(log_probs, targets, *lengths, *rest, **named)

    with patch.object(torch, "ctc_loss", ctc_loss):
        yield


# What fake kernels raise where shapes or values depend on contents.
DATA_DEPENDENT: tuple[type[Exception], ...] = (DynamicOutputShapeException, DataDependentOutputException)
