"""What a lowering rule may ask for: its node, its dtypes, and the few operations in which precision is
decided (sums, products, convolutions, random bits). They are here so that no rule decides it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import jax
import numpy as np
from jax import lax

from truecast import dtypes
from truecast.dtypes import DType
from truecast.errors import UnsupportedError
from truecast.graph import Node, Value
from truecast.lowering import accumulation, products
from truecast.lowering.cpu_products import Permutations
from truecast.lowering.division import divided
from truecast.numerics.plan import Decision

Array: TypeAlias = jax.Array


def is_number(number: Any, value: int) -> bool:
    """Whether `number` is a Python number that is part of the program, and is `value`."""
    return isinstance(number, bool | int | float | complex) and number == value


class Context:
    """One node being lowered.

    compute: the dtype of every numeric operand the rule receives, and of what it computes; None where there is
        no arithmetic. accumulate: the dtype of sums (== compute where the decision has none).
    outputs: the node's output Values; shape and dtype: those of the first one, as the device holds it.
    key: the node's own random key (law N8); only a node that draws random bits has one.
    permutations: known of the whole program, where it is lowered for XLA:CPU.
    """

    def __init__(
        self,
        node: Node,
        decision: Decision,
        storage: dict[DType, DType],
        key: Array | None,
        permutations: Permutations | None = None,
    ) -> None:
        self.node, self.decision, self._permutations = node, decision, permutations
        self._storage, self._key = storage, key
        self.outputs: tuple[Value | None, ...] = node.outputs
        self.compute: Any = None if decision.compute is None else dtypes.numpy_dtype(decision.compute)
        self.accumulate: Any = self.compute if decision.accumulate is None else dtypes.numpy_dtype(decision.accumulate)

    @property
    def key(self) -> Array:
        assert self._key is not None, f"{self.node.op} draws random bits, but ops.operands.draws_random_bits denies it"
        return self._key

    @property
    def wanted(self) -> tuple[bool, ...]:
        """Which results the Graph has. It says more than an output_mask: eager returns some that are masked."""
        return tuple(value is not None for value in self.outputs)

    @property
    def first(self) -> Value:
        return next(v for v in self.outputs if v is not None)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.first.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.held(self.first)

    def held(self, value: Value) -> np.dtype[Any]:
        """The dtype in which the device holds `value` (law N11)."""
        return dtypes.numpy_dtype(self._storage.get(value.dtype, value.dtype))

    def constant(self, number: complex | float | int | bool, like: Array) -> Array:
        """A 0-dim array of `like`'s dtype; a Python scalar is rounded once (law N6)."""
        return lax.full((), number, like.dtype)

    def fill(self, number: complex | float | int | bool, like: Array) -> Array:
        """An array of `like`'s shape and dtype, filled with one number."""
        return lax.full(like.shape, number, like.dtype)

    def stored(self, value: Array | complex | float | int | bool, into: Array) -> Array:
        """`value` as PyTorch writes it into a tensor (masked_fill, index_put, a view's scatter): in its dtype."""
        if isinstance(value, bool | int | float | complex):
            return self.constant(value, into)
        return lax.convert_element_type(value, into.dtype)

    def broadcast(self, operand: Array | complex | float | int | bool, like: Array) -> Array:
        """A scalar operand, array or number, with `like`'s shape (and dtype, for a number: law N6)."""
        if isinstance(operand, bool | int | float | complex):
            return self.fill(operand, like)
        return operand if operand.shape == like.shape else lax.broadcast(operand, like.shape)

    def sum(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        """The sum along `axes`, held in `accumulate` (law N4), returned in x's dtype."""
        total = accumulation.total(x, axes, self.accumulate, self.decision.rounding)
        if keepdims:
            total = lax.expand_dims(total, tuple(axes))
        return lax.convert_element_type(total, x.dtype)

    @property
    def add(self) -> Callable[[Array, Array], Array]:
        """Addition of two arrays in the accumulate dtype (law N4)."""
        return accumulation.adder(self.accumulate, self.decision.rounding)

    def product(self, x: Array, axes: Sequence[int]) -> Array:
        """The product along `axes`, held in `accumulate` (law N4), returned in x's dtype."""
        total = accumulation.product(x, axes, self.accumulate, self.decision.rounding)
        return lax.convert_element_type(total, x.dtype)

    def running_sum(self, x: Array, axis: int) -> Array:
        """The running sum along `axis`, held in `accumulate` (law N4), returned in x's dtype."""
        return lax.convert_element_type(
            accumulation.running_total(x, axis, self.accumulate, self.decision.rounding), x.dtype
        )

    def running_product(self, x: Array, axis: int) -> Array:
        """The running product along `axis`, held in `accumulate` (law N4), returned in x's dtype."""
        return lax.convert_element_type(
            accumulation.running_product(x, axis, self.accumulate, self.decision.rounding), x.dtype
        )

    def mean(self, x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
        """The mean along `axes`: summed and divided in `accumulate` (law N4), returned in x's dtype."""
        count = math.prod(x.shape[axis] for axis in axes)
        total = self.sum(self.accumulated(x), axes, keepdims)
        return lax.convert_element_type(divided(total, self.fill(count, total)), x.dtype)

    def dot(
        self,
        a: Array,
        b: Array,
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Array:
        """The contraction of a and b, returned in `accumulate` (laws N4, N5)."""
        return products.dot(a, b, (contract, batch), self.accumulate, self.decision.algorithm, self._permutations)

    def permuted(self, x: Array, order: Sequence[int]) -> Array:
        """lax.transpose(x, order), which a `dot` may undo."""
        result = lax.transpose(x, order)
        if self._permutations is not None:
            self._permutations.note(result, x, order)
        return result

    def convolve(self, lhs: Array, rhs: Array, **window: Any) -> Array:
        """lax.conv_general_dilated(lhs, rhs, **window), returned in `accumulate` (laws N4, N5)."""
        return products.convolve(lhs, rhs, self.accumulate, self.decision.algorithm, **window)

    def computed(self, x: Array) -> Array:
        """x in the compute dtype: an intermediate that becomes the operand of a product."""
        return lax.convert_element_type(x, self.compute)

    def scalar(self, number: Any, like: Array) -> Array:
        """A Python number, or the 0-dim array of one that changes from call to call (law N6), in `like`'s dtype."""
        if isinstance(number, jax.Array):
            return lax.convert_element_type(number, like.dtype)
        return self.constant(number, like)

    def number(self, number: Any, like: Array) -> Array:
        """A number of the schema's that isn't numeric (table.Op), or the 0-dim array of one that changes from call to
        call, in `like`'s dtype: rounded once (law N6)."""
        return self.scalar(self.ready(number, like.dtype), like)

    def ready(self, number: Any, dtype: np.dtype[Any]) -> Any:
        """A number, or the array of one, that rounds once when it is converted to `dtype` (law N6): XLA converts
        float64 to 16 bits by way of float32, which rounds twice."""
        narrow = dtypes.of(dtype)
        if isinstance(number, jax.Array) and number.dtype == np.float64 and narrow.is_floating and narrow.is_narrow:
            return lax.reduce_precision(number, dtypes.float64.exponent_bits, narrow.mantissa_bits)
        return number

    def accumulated(self, x: Array) -> Array:
        """x in the accumulate dtype: what is added to a `dot` before it is rounded (a bias)."""
        return lax.convert_element_type(x, self.accumulate)

    def unsupported(self, what: str, help: str = "") -> NoReturn:
        raise UnsupportedError(
            f"{self.node.op} {what}",
            where=self.node.site,
            values=", ".join(map(str, self.node.inputs)),
            why="its lowering rule does not cover this form",
            help=help or None,
        )
