"""How a contraction or convolution forms its products (law N5): the one place that picks operand types.

Rules reach it through Context.dot and Context.convolve. An algorithm's rounding is written out here with
`reduce_precision` and plain one-pass products instead of left to a dot attribute: measured with jaxlib 0.10.2,
XLA:CPU takes the attribute bf16_bf16_f32 on float32 operands and silently computes a full float32 dot, and
refuses tf32_tf32_f32. Written out, it means the same on every target, and a compiler can't drop it (convert
pairs may be elided under xla_allow_excess_precision, `reduce_precision` never).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from truecast import dtypes
from truecast.lowering import cpu_products
from truecast.numerics.algorithms import Algorithm, algorithm

Array: TypeAlias = jax.Array
Product = Callable[[Array, Array, Any], Array]

# Which pairs of parts (0 the highest) are multiplied, smallest products first, so that the sum loses least.
# Part i is 2^-8 of part i - 1: x3 leaves out the product below 2^-16, x6 those below 2^-24.
_PAIRS: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((0, 0),),
    3: ((0, 1), (1, 0), (0, 0)),
    6: ((0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0)),
}


def dot(
    lhs: Array,
    rhs: Array,
    dimension_numbers: Any,
    accumulate: Any,
    algorithm_name: str,
    permutations: cpu_products.Permutations | None = None,
) -> Array:
    """lax.dot_general under a named algorithm, in `accumulate`. permutations: None where it isn't XLA:CPU's to do."""

    def product(a: Array, b: Array, accumulator: Any) -> Array:
        if permutations is not None:
            contract, batch = dimension_numbers
            return cpu_products.dot(a, b, contract, batch, accumulator, permutations)
        return lax.dot_general(
            a, b, dimension_numbers, precision=lax.Precision.HIGHEST, preferred_element_type=accumulator
        )

    return multiply(lhs, rhs, product, accumulate, algorithm_name)


def convolve(lhs: Array, rhs: Array, accumulate: Any, algorithm_name: str, **window: Any) -> Array:
    """lax.conv_general_dilated under a named algorithm, in `accumulate`."""

    def product(a: Array, b: Array, accumulator: Any) -> Array:
        return lax.conv_general_dilated(
            a, b, precision=lax.Precision.HIGHEST, preferred_element_type=accumulator, **window
        )

    return multiply(lhs, rhs, product, accumulate, algorithm_name)


def multiply(lhs: Array, rhs: Array, product: Product, accumulate: Any, algorithm_name: str) -> Array:
    """The bilinear `product` of both operands, formed as the algorithm says (as they are for ""), in `accumulate`.

    Precision.HIGHEST above makes "as they are" true: a TPU's default for float32 is one bfloat16 pass, which is
    the algorithm bf16_bf16_f32 and has to be asked for by that name. Algorithms are about real floating operands;
    integers and complex numbers have one way to multiply.
    """
    if not algorithm_name or not jnp.issubdtype(lhs.dtype, jnp.floating):
        return product(lhs, rhs, accumulate)
    chosen = algorithm(algorithm_name)
    accumulator = dtypes.numpy_dtype(chosen.accumulate)
    if chosen.passes == 1:
        total = product(as_operand(lhs, chosen), as_operand(rhs, chosen), accumulator)
        return lax.convert_element_type(total, accumulate)
    pairs = _PAIRS[chosen.passes]
    count = 1 + max(i for i, _ in pairs)
    left, right = bfloat16_parts(lhs, count), bfloat16_parts(rhs, count)
    terms = [product(left[i], right[j], accumulator) for i, j in pairs]
    low = terms[0]
    for term in terms[1:-1]:
        low = low + term
    # An infinite operand makes the low products inf * 0 = NaN; the highest product alone knows what is right there.
    low = lax.select(low != low, jnp.zeros_like(low), low)
    return lax.convert_element_type(low + terms[-1], accumulate)


def as_operand(x: Array, chosen: Algorithm) -> Array:
    """x rounded to a one-pass algorithm's operand type. TF32 is float32 with 10 stored mantissa bits."""
    if chosen.operand == "tf32":
        return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=10)
    dtype = jnp.dtype(chosen.operand)
    if jnp.finfo(dtype).bits < jnp.finfo(x.dtype).bits:
        info = jnp.finfo(dtype)
        x = lax.reduce_precision(x, exponent_bits=info.nexp, mantissa_bits=info.nmant)
    return lax.convert_element_type(x, dtype)


def bfloat16_parts(x: Array, count: int) -> list[Array]:
    """bfloat16 arrays whose sum is x to 8 bits each, the highest first. An infinity stays in the first part alone:
    inf - inf in the second would make every product NaN."""
    parts = []
    rest = x
    for _ in range(count):
        part = lax.reduce_precision(rest, exponent_bits=8, mantissa_bits=7)
        parts.append(lax.convert_element_type(part, jnp.bfloat16))
        rest = lax.select(lax.is_finite(part), rest - part, jnp.zeros_like(rest))
    return parts
