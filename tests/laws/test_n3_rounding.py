"""Law N3: where results are rounded, and that no compiler may undo it.

XLA:CPU of this jaxlib keeps every convert, whatever it is allowed, so it can't show what an eliding compiler
does. `eliding` below is one: it runs a program's jaxpr with every narrowing convert left out, which is the
most that `xla_allow_excess_precision` permits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truecast as tc
from tests.twin import to_numpy
from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.lowering.emit import function_of
from truecast.lowering.program import Program

TORCH = {
    "aten.mul.Tensor": torch.mul,
    "aten.add.Tensor": torch.add,
    "aten.sub.Tensor": torch.sub,
    "aten.div.Tensor": torch.div,
}
CHAIN = ("aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor", "aten.div.Tensor", "aten.mul.Tensor")
NARROW = {"bfloat16": "bf16", "float16": "f16"}


def policy(rounding: str) -> tc.Numerics:
    return tc.Numerics(rounding).with_rule(kind="elementwise", compute="opmath", rounding=rounding)


def chain(dtype: str, operations: tuple[str, ...] = CHAIN, size: int = 512) -> Graph:
    kind = dtypes.of(dtype)
    x, y = Value("x", kind, (size,)), Value("y", kind, (size,))
    nodes, last = [], x
    for i, op in enumerate(operations):
        out = Value(f"v{i}", kind, (size,))
        nodes.append(Node(op, (last, y), (), (out,)))
        last = out
    return Graph("chain", (Input(x), Input(y)), tuple(nodes), (Output(last),)).verify()


def operands(dtype: str, size: int = 512) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    x, y = (torch.randn(size, generator=generator) for _ in range(2))
    return x.to(getattr(torch, dtype)), (y.sign() * (y.abs() + 0.5)).to(getattr(torch, dtype))


def eager(x: torch.Tensor, y: torch.Tensor, operations: tuple[str, ...] = CHAIN) -> torch.Tensor:
    """The chain in x's dtype, each result rounded to it."""
    for op in operations:
        x = TORCH[op](x, y)
    return x


def once(x: torch.Tensor, y: torch.Tensor, operations: tuple[str, ...] = CHAIN) -> torch.Tensor:
    """The chain in float32, rounded at its end."""
    return eager(x.float(), y.float(), operations).to(x.dtype)


def run(program: Program, *tensors: torch.Tensor) -> torch.Tensor:
    return program.compile()(*tensors)[0]


def eliding(program: Program, *tensors: torch.Tensor) -> np.ndarray:
    """What a compiler computes that leaves out every narrowing convert but the last."""

    def evaluate(jaxpr: Any, arguments: list[Any]) -> list[Any]:
        known: dict[Any, Any] = dict(zip(jaxpr.invars, arguments, strict=True))

        def read(variable: Any) -> Any:
            return variable.val if hasattr(variable, "val") else known[variable]

        for equation in jaxpr.eqns:
            values = [read(v) for v in equation.invars]
            assert equation.primitive.name not in ("jit", "pjit", "custom_jvp_call"), "this interpreter is flat"
            if equation.primitive.name == "convert_element_type":
                results = [values[0] if values[0].dtype == jnp.float32 else values[0].astype(jnp.float32)]
            else:
                results = equation.primitive.bind(*values, **equation.params)
                results = results if equation.primitive.multiple_results else [results]
            known.update(zip(equation.outvars, results, strict=True))
        return [np.asarray(read(v)).astype(v.aval.dtype) for v in jaxpr.outvars]

    with jax.enable_x64(True):
        closed = jax.make_jaxpr(function_of(program.plan))(*map(to_numpy, tensors))
        return evaluate(closed.jaxpr, [jnp.asarray(to_numpy(t)) for t in tensors])[0]


def same_bits(a: Any, b: Any) -> bool:
    a, b = (to_numpy(t) if isinstance(t, torch.Tensor) else t for t in (a, b))
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_n3_the_inputs_tell_the_roundings_apart() -> None:
    for dtype in NARROW:
        x, y = operands(dtype)
        assert not same_bits(eager(x, y), once(x, y))


@pytest.mark.parametrize("dtype", NARROW)
def test_n3_op_rounds_each_result_bit_for_bit(dtype: str) -> None:
    x, y = operands(dtype)
    assert same_bits(run(tc.lower(chain(dtype), numerics=policy("op")), x, y), eager(x, y))


@given(operations=st.lists(st.sampled_from(sorted(TORCH)), min_size=2, max_size=6).map(tuple))
@settings(max_examples=12, deadline=None)
def test_n3_op_equals_eager_for_any_chain(operations: tuple[str, ...]) -> None:
    for dtype in NARROW:
        x, y = operands(dtype)
        program = tc.lower(chain(dtype, operations), numerics=policy("op"))
        assert same_bits(run(program, x, y), eager(x, y, operations))


@pytest.mark.parametrize("dtype", NARROW)
def test_n3_op_survives_xlas_optimizations(dtype: str) -> None:
    """On the optimized HLO, each of the chain's results passes through its 16-bit dtype."""
    program = tc.lower(chain(dtype), numerics=policy("op"))
    narrow = NARROW[dtype]
    rounded = re.findall(rf"= {narrow}\[512\]\S* convert\(.*op_name=\"[^\"]*/(v\d+)\.aten", program.optimized_hlo)
    assert sorted(set(rounded)) == [f"v{i}" for i in range(len(CHAIN))]
    assert "xla_allow_excess_precision" not in program.stablehlo


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "product", [lambda x, y: x * y, lambda x, y: x.square(), lambda x, y: x**2], ids=["mul", "square", "pow"]
)
def test_n3_op_rounds_a_product_before_it_is_added(dtype: str, product: Callable[..., torch.Tensor]) -> None:
    """XLA:CPU would contract the two to a fused multiply-add, whatever it is told of fast math."""
    x, y, z = torch.randn(3, 4096, generator=torch.Generator().manual_seed(1), dtype=getattr(torch, dtype))

    def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return product(x, y) + z

    lowered = tc.lower(program, x, y, z, numerics=policy("op"))
    assert same_bits(lowered.compile()(x, y, z), program(x, y, z))


def test_n3_op_survives_a_compiler_that_elides_converts() -> None:
    x, y = operands("bfloat16")
    assert same_bits(eliding(tc.lower(chain("bfloat16"), numerics=policy("op")), x, y), eager(x, y))


@pytest.mark.parametrize("dtype", NARROW)
def test_n3_compiler_lets_a_compiler_elide(dtype: str) -> None:
    x, y = operands(dtype)
    program = tc.lower(chain(dtype), numerics=policy("compiler"))
    assert "reduce_precision" not in program.stablehlo
    assert program.stablehlo.count(f"-> tensor<512x{NARROW[dtype]}>") == len(CHAIN), "each convert is emitted"
    assert same_bits(eliding(program, x, y), once(x, y))


@pytest.mark.parametrize("dtype", NARROW)
def test_n3_region_rounds_once_at_its_exit(dtype: str) -> None:
    x, y = operands(dtype)
    program = tc.lower(chain(dtype), numerics=policy("region"))
    assert same_bits(run(program, x, y), once(x, y))
    assert same_bits(eliding(program, x, y), once(x, y)), "nothing is left for a compiler to choose"


@pytest.mark.parametrize("rounding", ["op", "region"])
def test_n3_xla_is_told_not_to_add_precision(rounding: str) -> None:
    from truecast.runtime.executable import compile_options

    assert compile_options(tc.lower(chain("float16"), numerics=policy(rounding)).plan) == {
        "xla_allow_excess_precision": False
    }


def test_n3_float16_subnormals_are_rounded_not_flushed() -> None:
    """Laws N3 and N7: rounding to float16 by way of reduce_precision would flush them. (XLA:CPU itself runs with
    float32's, and so bfloat16's, subnormals flushed.)"""
    x, y = torch.full((512,), 3 * 2.0**-24).half(), torch.full((512,), 0.5).half()
    want = eager(x, y, ("aten.mul.Tensor",))
    assert want[0].item() == 2.0**-23, "one and a half of the smallest round to even"
    assert same_bits(run(tc.lower(chain("float16", ("aten.mul.Tensor",)), numerics=policy("op")), x, y), want)
