"""The functions of torch_xla's C++ module that scripts call: those that show the pending program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from truecast.api.device import pending
from truecast.compat.missing import attribute_of

if TYPE_CHECKING:
    from truecast.lowering.program import Program

__getattr__ = attribute_of(__name__)


def _get_xla_tensors_text(tensors: Sequence[torch.Tensor]) -> str:
    """The Graph that computes the tensors from what is on the device, one operation a line."""
    return str(pending(tensors))


def _get_xla_tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """The HLO of the program that computes the tensors, before XLA optimizes it."""
    return str(_program(tensors).lower().as_text(dialect="hlo"))


def _get_stablehlo(
    tensors: Sequence[torch.Tensor], device: object = None, devices: object = None, emit_bytecode: bool = False
) -> bytes:
    """The StableHLO of the program that computes the tensors; without any, of all that is pending."""
    if emit_bytecode:
        raise NotImplementedError("StableHLO bytecode is not provided; the text is: emit_bytecode=False")
    return _program(tensors).stablehlo.encode()


def _program(tensors: Sequence[torch.Tensor]) -> Program:
    from truecast.api.programs import lower  # loads jax, which observing a script does not need

    return lower(pending(tensors))


def _xla_get_default_device() -> str:
    """The one device there is."""
    return "xla:0"
