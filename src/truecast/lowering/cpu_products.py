"""Products of matrices in the form that XLA:CPU has a fast kernel for. How they are formed is products.py's affair.

Measured with jaxlib 0.10.2, one core, 1024 x 512 x 8192 (4.3e9 products): XLA's YNN kernel takes 48 ms in bfloat16
and 85 in float32, the way around it 120 to 150 and 100. It takes row-major operands whose left one is summed along
its last axis. A transpose of StableHLO becomes a change of layout: in bfloat16 both operands are then converted to
float32, even where the transpose could be part of the product. So transposes are made part of it here, and a left
operand that is summed along its first axis is moved in memory, or the product is formed the other way round,
whichever moves fewer elements. Sums are the same ones, in another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

Array: TypeAlias = jax.Array
Axes = tuple[Sequence[int], Sequence[int]]
_SMALLEST = 1 << 18  # products; below, moving operands about is not worth an instruction
_DTYPES = (jnp.dtype("bfloat16"), jnp.dtype("float32"))


class Permutations:
    """Which arrays of a program being lowered are permutations of which others."""

    def __init__(self) -> None:
        self._sources: dict[int, tuple[Array, Array, tuple[int, ...]]] = {}  # the array is kept, so that its id is too

    def note(self, array: Array, source: Array, order: Sequence[int]) -> None:
        """`array` is lax.transpose(source, order)."""
        if array is not source:
            self._sources[id(array)] = array, source, tuple(order)

    def undo(self, array: Array, leading: int) -> tuple[Array, tuple[int, ...]]:
        """An array and an order such that `array` is its transpose, the first `leading` axes in place."""
        order = tuple(range(array.ndim))
        while (known := self._sources.get(id(array))) is not None:
            _, source, inner = known
            outer = tuple(inner[axis] for axis in order)
            if outer[:leading] != tuple(range(leading)):
                break
            array, order = source, outer
        return array, order

    def is_permuted(self, array: Array) -> bool:
        return id(array) in self._sources


def dot(lhs: Array, rhs: Array, contract: Axes, batch: Axes, accumulate: object, permutations: Permutations) -> Array:
    """As lax.dot_general(lhs, rhs, (contract, batch)) in `accumulate`."""
    if not _is_covered(lhs, rhs, contract, batch):
        return _product(lhs, rhs, (contract, batch), accumulate)
    leading = len(batch[0])
    a, a_axis = _row_major(lhs, contract[0][0], leading, permutations)
    b, b_axis = _row_major(rhs, contract[1][0], leading, permutations)
    last = leading + 1
    leads = (tuple(range(leading)),) * 2
    summed = lhs.shape[contract[0][0]]
    result = (lhs.size // summed) * (rhs.size // summed) // math.prod(lhs.shape[:leading])
    turned = result + (0 if b_axis == last else b.size)
    if a_axis == last:
        return _product(a, b, (((last,), (b_axis,)), leads), accumulate)
    if a.size <= turned:
        return _product(_moved(a, leading), b, (((last,), (b_axis,)), leads), accumulate)
    left = b if b_axis == last else _moved(b, leading)
    product = _product(left, a, (((last,), (a_axis,)), leads), accumulate)
    return _swapped(lax.optimization_barrier(product), leading)  # XLA would turn the product back otherwise


def _is_covered(lhs: Array, rhs: Array, contract: Axes, batch: Axes) -> bool:
    """One summed axis, one free one, batches in front, in a dtype that the kernel has; and large."""
    leading = tuple(range(len(batch[0])))
    regular = (
        lhs.ndim == rhs.ndim == len(leading) + 2
        and tuple(batch[0]) == tuple(batch[1]) == leading
        and len(contract[0]) == 1
        and lhs.dtype == rhs.dtype
        and lhs.dtype in _DTYPES
    )
    if not regular or not lhs.size or not rhs.size:
        return False
    count = lhs.size * rhs.size // math.prod(rhs.shape[: len(leading)]) // rhs.shape[contract[1][0]]
    return count >= _SMALLEST


def _row_major(array: Array, axis: int, leading: int, permutations: Permutations) -> tuple[Array, int]:
    """The operand as it lies in memory, and its summed axis there."""
    source, order = permutations.undo(array, leading)
    if permutations.is_permuted(source):  # batches that don't lie in front
        source = _in_memory(source)
    return source, order[axis]


def _moved(array: Array, leading: int) -> Array:
    return _in_memory(_swapped(array, leading))


def _swapped(array: Array, leading: int) -> Array:
    return lax.transpose(array, (*range(leading), leading + 1, leading))


def _in_memory(array: Array) -> Array:
    """The array, its elements moved to where its axes say: after a reshape XLA knows of no other layout, and doesn't
    look through the barrier."""
    return lax.reshape(lax.optimization_barrier(lax.reshape(array, (array.size,))), array.shape)


def _product(lhs: Array, rhs: Array, dimension_numbers: tuple[Axes, Axes], accumulate: object) -> Array:
    return lax.dot_general(
        lhs, rhs, dimension_numbers, precision=lax.Precision.HIGHEST, preferred_element_type=accumulate
    )
