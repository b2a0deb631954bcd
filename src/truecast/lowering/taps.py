"""Linear maps along one axis in which each output is a weighted sum of a few inputs: adaptive averages, resampling.

A table says, for each output, which inputs and with which weights. It is made with NumPy while lowering, since it
depends on shapes alone; the backward is the same map with the table turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from truecast.lowering.context import Array, Context


@dataclass(frozen=True)
class Taps:
    """index, weight, valid: [outputs, taps]. Where a tap isn't valid, its index is 0 and its weight is 0.
    inputs: the extent of the input axis."""

    index: np.ndarray[Any, Any]
    weight: np.ndarray[Any, Any]
    valid: np.ndarray[Any, Any]
    inputs: int

    @staticmethod
    def of(rows: Sequence[Sequence[tuple[int, float]]], inputs: int) -> Taps:
        """From (input, weight) pairs per output."""
        taps = max((len(row) for row in rows), default=0)
        index = np.zeros((len(rows), taps), np.int64)
        weight = np.zeros((len(rows), taps))
        valid = np.zeros((len(rows), taps), bool)
        for output, row in enumerate(rows):
            for tap, (i, w) in enumerate(row):
                index[output, tap], weight[output, tap], valid[output, tap] = i, w, True
        return Taps(index, weight, valid, inputs)

    def turned(self) -> Taps:
        """The transposed map: what each input receives from the outputs it took part in."""
        rows: list[list[tuple[int, float]]] = [[] for _ in range(self.inputs)]
        for output, tap in zip(*np.nonzero(self.valid), strict=True):
            rows[self.index[output, tap]].append((int(output), float(self.weight[output, tap])))
        return Taps.of(rows, len(self.index))

    def apply(self, ctx: Context, x: Array, axis: int) -> Array:
        """x with `axis` mapped; multiplied in x's dtype, summed in `accumulate` (law N4)."""
        outputs, taps = self.index.shape
        if taps == 0:
            shape = (*x.shape[:axis], outputs, *x.shape[axis + 1 :])
            return jnp.broadcast_to(ctx.constant(0, x), shape)
        taken = jnp.take(x, jnp.asarray(self.index.reshape(-1)), axis=axis)
        taken = taken.reshape(*x.shape[:axis], outputs, taps, *x.shape[axis + 1 :])
        fitted = [outputs, taps] + [1] * (x.ndim - axis - 1)
        if not (self.weight[self.valid] == 1).all():
            taken = taken * jnp.asarray(self.weight.astype(x.dtype)).reshape(fitted)
        if taps == 1 and self.valid.all():
            return taken.reshape(*x.shape[:axis], outputs, *x.shape[axis + 1 :])
        if not self.valid.all():  # not by a zero weight alone: 0 * inf is NaN, and eager never reads that element
            taken = jnp.where(self.valid.reshape(fitted), taken, ctx.constant(0, taken))
        return ctx.sum(taken, (axis + 1,))
