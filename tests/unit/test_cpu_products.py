"""Products of matrices as XLA:CPU gets them: transposes are part of the product, and what it computes is the same."""

from __future__ import annotations

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

import truecast as tc
from truecast.lowering import cpu_products
from truecast.lowering.cpu_products import Permutations, dot

EXTENTS = {"b": 3, "m": 80, "k": 64, "n": 96}


def operand(axes, order, dtype, seed):
    """An array of the axes, as a transpose with `order` of another: the array, and what is known of it."""
    shape = [EXTENTS[axes[i]] for i in np.argsort(order)]
    source = jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)
    return lax.transpose(source, order), source


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("left", "right"), list(itertools.product(("mk", "km", "bmk", "bkm"), ("kn", "nk", "bkn", "bnk")))
)
def test_products_are_those_of_dot_general(left, right, dtype, monkeypatch):
    if ("b" in left) != ("b" in right):
        pytest.skip("batches are of both operands")
    monkeypatch.setattr(cpu_products, "_SMALLEST", 1)
    lead = 1 if "b" in left else 0
    contract = ((left.index("k"),), (right.index("k"),))
    batch = (tuple(range(lead)),) * 2
    for order in itertools.permutations(range(lead + 2)):
        known = Permutations()
        a, source = operand(left, order, dtype, 0)
        known.note(a, source, order)
        b, source = operand(right, order, dtype, 1)
        known.note(b, source, order)
        got = dot(a, b, contract, batch, jnp.float32, known)
        expected = lax.dot_general(
            *(x.astype("float64") if jax.config.jax_enable_x64 else x for x in (a, b)), (contract, batch),
            precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32,
        )  # fmt: skip
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)  # 64 products, summed in another order


def test_a_permutation_of_a_permutation_is_undone():
    known = Permutations()
    x = jnp.zeros((2, 3, 4))
    y = lax.transpose(x, (0, 2, 1))
    known.note(y, x, (0, 2, 1))
    z = lax.transpose(y, (0, 2, 1))
    known.note(z, y, (0, 2, 1))
    assert known.undo(z, 1) == (x, (0, 1, 2))
    turned = lax.transpose(x, (1, 0, 2))
    known.note(turned, x, (1, 0, 2))
    assert known.undo(turned, 1) == (turned, (0, 1, 2))  # the batch does not lie in front
    assert known.undo(turned, 0) == (x, (1, 0, 2))


def products(program, *tensors, target="cpu"):
    """The summed axes and the operands' dtype of each product in a program's StableHLO."""
    text = tc.lower(program, *tensors, target=target).stablehlo
    return re.findall(r"dot_general .*?contracting_dims = \[(\d)\] x \[(\d)\].*?tensor<\d+x\d+x(\w+)>", text)


def test_a_layer_and_its_gradients_are_in_the_fast_form_on_the_cpu_only():
    x, w = (torch.randn(s, dtype=torch.bfloat16) for s in ((128, 64), (256, 64)))

    def step(x, w):
        w = w.detach().requires_grad_()
        torch.nn.functional.linear(x, w).square().sum().backward()
        return w.grad

    plain = [("1", "0", "bf16"), ("1", "0", "bf16")]
    assert products(step, x, w) == [("1", "1", "bf16"), ("1", "0", "bf16")]
    assert products(step, x, w, target="tpu") == plain
    assert products(step, x[:4], w[:8]) == plain  # moving operands about would cost more


def test_xla_keeps_the_operands_in_bfloat16():
    x, w = (torch.randn(s, dtype=torch.bfloat16) for s in ((128, 64), (256, 64)))
    for program, *tensors in ((lambda x, w: x @ w.t(), x, w), (lambda g, x: g.t() @ x, x[:, :32], x)):
        assert not re.search(r" f32\[\S* convert\(", tc.lower(program, *tensors).optimized_hlo)
