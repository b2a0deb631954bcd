"""Law N3, rounding = "region": roundings inside an elementwise region are dropped, and it rounds where it ends."""

from __future__ import annotations

import numpy as np
import torch

from tests.lowered import arithmetic, chain, compiled, stablehlo
from tests.twin import run, to_numpy
from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve

INPUTS = {name: Value(name, dtypes.bfloat16, (64,)) for name in "abc"}
CHAIN = chain(
    ("aten.mul.Tensor", ("a", "b")), ("aten.mul.Tensor", ("v0", "c")), ("aten.mul.Tensor", ("v1", "a")),
    inputs=INPUTS, outputs=("v2",),
)  # fmt: skip
REGION = Numerics.preset("cpu")
OP = Numerics.preset("eager")


def operands(count: int = 64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(count, generator=generator).bfloat16() for _ in "abc"]


def test_n3_a_region_is_a_float32_chain_rounded_once() -> None:
    a, b, c = operands()
    (got,) = run(CHAIN, [a, b, c], REGION)
    want = (a.float() * b.float() * c.float() * a.float()).bfloat16()
    np.testing.assert_array_equal(got, to_numpy(want))
    assert not torch.equal(want, a * b * c * a), "the data must tell one rounding from three"


def test_n3_op_rounds_after_each_operation() -> None:
    a, b, c = operands()
    (got,) = run(CHAIN, [a, b, c], OP)
    np.testing.assert_array_equal(got, to_numpy(a * b * c * a))


def test_n3_a_region_has_fewer_converts() -> None:
    def narrowings(policy: Numerics) -> int:
        return arithmetic(stablehlo(CHAIN, policy)).count("convert bf16")

    assert narrowings(REGION) == 1
    assert narrowings(OP) == 3


def test_n3_what_leaves_a_region_is_rounded_and_what_stays_is_not() -> None:
    graph = chain(
        ("aten.mul.Tensor", ("a", "b")), ("aten.mul.Tensor", ("v0", "c")), inputs=INPUTS, outputs=("v0", "v1")
    )
    a, b, c = operands()
    rounded, kept = run(graph, [a, b, c], REGION)
    np.testing.assert_array_equal(rounded, to_numpy((a.float() * b.float()).bfloat16()))
    np.testing.assert_array_equal(kept, to_numpy((a.float() * b.float() * c.float()).bfloat16()))


def test_n3_a_reduction_reads_the_rounded_value() -> None:
    total = Value("total", dtypes.float32, ())
    elementwise = chain(
        ("aten.mul.Tensor", ("a", "b")), ("aten.mul.Tensor", ("v0", "c")), inputs=INPUTS, outputs=("v1",)
    )
    product = elementwise.nodes[-1].outputs[0]
    node = Node("aten.sum.default", (product,), (("dtype", dtypes.float32),), (total,))
    graph = Graph("sum", elementwise.inputs, (*elementwise.nodes, node), (Output(total),)).verify()
    a, b, c = operands()
    (got,) = compiled(graph, REGION)(*map(to_numpy, (a, b, c)))
    wide = a.float() * b.float() * c.float()
    want, unrounded = wide.bfloat16().double().sum(), wide.double().sum()
    # 64 float32 additions of numbers below 8 err by less than 64 * 8 * 2^-24 = 3e-5; dropping the rounding by far more.
    assert abs(want - unrounded) > 3e-3, "the data must tell a rounded operand from a wide one"
    assert abs(float(got) - want) < 3e-5


def test_n3_a_cast_of_the_policys_reads_the_rounded_value() -> None:
    a, b, x = (Value(name, dtypes.float16, (64,)) for name in "abx")
    base, y = (Value(name, dtypes.bfloat16, (64,)) for name in ("base", "y"))
    nodes = (Node("aten.mul.Tensor", (a, b), (), (x,)), Node("aten.lerp.Scalar", (base, x, 0.5), (), (y,)))
    graph = Graph("g", (Input(a), Input(b), Input(base)), nodes, (Output(y),)).verify()
    policy = REGION.with_settings(on_mismatch="cast")
    assert [d.region for d in resolve(graph, policy).decisions] == [1, 1]
    assert resolve(graph, policy).decisions[1].casts == (("end", dtypes.bfloat16),)
    first, second, start = (t.float() for t in operands())
    (got,) = run(graph, [first.half(), second.half(), start.bfloat16()], policy)
    end = (first.half().float() * second.half().float()).half().bfloat16()
    np.testing.assert_array_equal(got, to_numpy(start.bfloat16().float().lerp(end.float(), 0.5).bfloat16()))


def test_n3_regions_stand_in_the_plan() -> None:
    text = resolve(CHAIN, REGION).text(120)
    assert "  regions    1 elementwise, 3 nodes in all, rounded where they end\n" in text
    assert text.count("region #1") == 1, "equal rows of one line are one row"
