"""Operations whose results depend on how an operand lies in memory, which a Graph does not say.

ATen factors the transpose of a real matrix for its determinant where that saves a copy, and returns that factor for
the backward, which asks for the strides again. In a Graph every matrix counts as contiguous.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast.capture.aliasing import Emit

FACTORED_BY_STRIDES = frozenset(("aten._linalg_det.default", "aten._linalg_slogdet.default"))


def as_if_contiguous(emit: Emit[Any], matrix: torch.Tensor, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a determinant with which a contiguous matrix gives what this one gives: a determinant is that of
    the transpose as well, and the factor of the transpose's transpose is the one that the backward expects."""
    if matrix.is_complex() or matrix.is_contiguous():
        return args
    value, *rest = args
    rows, columns = value.shape[-2:]
    shape = (*value.shape[:-2], columns, rows)
    return (emit("aten.transpose.int", (value, -2, -1), (), value.dtype, shape), *rest)
