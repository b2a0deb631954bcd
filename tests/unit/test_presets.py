"""The presets: each line has a source, none contradicts itself, and each does what its backend is known to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.lowered import arithmetic, chain, stablehlo
from truecast import dtypes, ops
from truecast.graph import Graph, Value
from truecast.numerics.matching import Matcher, covers, matches_glob
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve
from truecast.numerics.policy_text import preset_names
from truecast.sites import UNKNOWN

# A note cites an address, a file, a measurement or a choice, or says that the fact is not established.
SOURCES = (
    "http",
    ".com/",
    ".org/",
    ".dev/",
    ".cpp",
    ".h",
    ".cc",
    ".py",
    ".rst",
    "arXiv",
    "measured",
    "choice",
    "unverified",
)


@pytest.mark.parametrize("name", preset_names())
def test_it_reads_and_its_text_form_reads_back(name: str) -> None:
    policy = Numerics.preset(name)
    assert policy.name == name
    assert policy.note
    assert Numerics.from_toml(str(policy)) == policy


@pytest.mark.parametrize("name", preset_names())
def test_each_rule_has_its_source(name: str) -> None:
    for rule in Numerics.preset(name).rules:
        assert any(source in rule.note for source in SOURCES), f"{rule} cites nothing: {rule.note!r}"


@pytest.mark.parametrize("name", preset_names())
def test_its_rules_settle_every_operation(name: str) -> None:
    last = Numerics.preset(name).rules[-1]
    assert not any((last.op, last.kind, last.dtype, last.target, last.module, last.source))
    assert set(last.settings) >= {"compute", "accumulate", "rounding"}


@pytest.mark.parametrize("name", preset_names())
def test_no_rule_of_it_is_always_too_late(name: str) -> None:
    rules = Numerics.preset(name).rules
    for index, rule in enumerate(rules):
        for before in rules[:index]:
            assert not (covers(before, rule) and set(rule.settings) <= set(before.settings)), f"{before} hides {rule}"


@pytest.mark.parametrize("name", preset_names())
def test_its_globs_name_operations_that_exist(name: str) -> None:
    known = {f"aten.{row}" if "." in row else f"aten.{row}.default" for row in ops.table()}
    for rule in Numerics.preset(name).rules:
        for glob in filter(None, rule.op.split("|")):
            stem = glob.removesuffix("Tensor") + "default" if glob.endswith(".Tensor") else glob
            assert any(matches_glob(op, stem) for op in known), f"{glob} matches no operation"


def product(dtype: dtypes.DType = dtypes.bfloat16, op: str = "aten.mul.Tensor") -> Graph:
    inputs = {name: Value(name, dtype, (4, 8)) for name in "ab"}
    return chain((op, ("a", "b")), inputs=inputs, outputs=("v0",))


OPMATH = ["convert f32", "convert f32", "multiply f32", "convert bf16"]
NATIVE = ["multiply bf16"]
MULTIPLY = {
    "neuron": OPMATH,
    "tpu": NATIVE,
    "torch_xla-2.9": OPMATH,
    "torch_xla-2.10": NATIVE,
    "cpu": OPMATH,
    "legacy-xla-bf16": NATIVE,
}


@pytest.mark.parametrize("name", MULTIPLY)
def test_the_stablehlo_of_one_bfloat16_multiply(name: str) -> None:
    assert arithmetic(stablehlo(product(), Numerics.preset(name))) == MULTIPLY[name]


@pytest.mark.parametrize("name", ("neuron", "tpu", "torch_xla-2.9", "torch_xla-2.10"))
def test_the_stablehlo_of_one_bfloat16_add_has_no_converts(name: str) -> None:
    # torch_xla sets opmath for aten::mul.Tensor alone: measured with 2.9.0.
    found = arithmetic(stablehlo(product(op="aten.add.Tensor"), Numerics.preset(name)))
    assert "add bf16" in found and not any("f32" in step for step in found)


@pytest.mark.parametrize(
    ("name", "dtype", "algorithm"),
    (
        ("tpu", dtypes.float32, "bf16_bf16_f32"),
        ("tpu", dtypes.bfloat16, "bf16_bf16_f32"),
        ("cuda", dtypes.float32, "f32_f32_f32"),
        ("cuda", dtypes.bfloat16, "bf16_bf16_f32"),
        ("cuda", dtypes.float16, "f16_f16_f32"),
        ("cuda", dtypes.float64, ""),
        ("cpu", dtypes.float32, ""),
        ("torch_xla-2.9", dtypes.float32, ""),
    ),
)
def test_how_a_matmul_forms_its_products(name: str, dtype: dtypes.DType, algorithm: str) -> None:
    inputs = {n: Value(n, dtype, (4, 4)) for n in "ab"}
    graph = chain(("aten.mm.default", ("a", "b")), inputs=inputs, outputs=("v0",))
    (decision,) = resolve(graph, Numerics.preset(name)).decisions
    assert decision.algorithm == algorithm
    assert decision.accumulate is (dtypes.float64 if dtype is dtypes.float64 else dtypes.float32)


def test_torch_xla_on_a_tpu_multiplies_float32_in_one_bfloat16_pass() -> None:
    inputs = {n: Value(n, dtypes.float32, (4, 4)) for n in "ab"}
    graph = chain(("aten.mm.default", ("a", "b")), inputs=inputs, outputs=("v0",))
    policy = Numerics.preset("torch_xla-2.9").with_settings(target="tpu")
    assert resolve(graph, policy).decisions[0].algorithm == "bf16_bf16_f32"


# How many of 4096 ones eager's own kernel counts in bfloat16: 256 where it adds into the 16-bit result.
COUNT = 4096
ONES = torch.ones(COUNT, dtype=torch.bfloat16)
ZEROS = torch.zeros(COUNT, dtype=torch.long)
ONE = torch.zeros(1, dtype=torch.bfloat16)


def _embedding_bag_gradient() -> torch.Tensor:
    weight = torch.ones(1, 4, dtype=torch.bfloat16, requires_grad=True)
    torch.nn.functional.embedding_bag(ZEROS.view(1, -1), weight, mode="sum").sum().backward()
    assert weight.grad is not None
    return weight.grad


def _histogram() -> torch.Tensor:
    """With two threads each counts its own half: 512."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.histc(ONES, 1, 0, 2)
    finally:
        torch.set_num_threads(threads)


KERNELS: dict[str, Callable[[], torch.Tensor]] = {
    "aten.index_put.default": lambda: ONE.index_put((ZEROS,), ONES, accumulate=True),
    "aten.embedding_dense_backward.default": lambda: torch.ops.aten.embedding_dense_backward(
        ONES.view(-1, 1), ZEROS, 1, -1, False
    ),
    "aten.max_pool2d_with_indices_backward.default": lambda: torch.ops.aten.max_pool2d_with_indices_backward(
        *(ONES.view(1, 1, 1, -1), torch.ones(1, 1, 1, 2 * COUNT - 1, dtype=torch.bfloat16), [1, COUNT], [1, 1]),
        *([0, 0], [1, 1], False, torch.full((1, 1, 1, COUNT), COUNT - 1)),
    ).max(),
    "aten.grid_sampler_2d_backward.default": lambda: torch.ops.aten.grid_sampler_2d_backward(
        *(ONES.view(1, 1, 64, 64), ONES[:1].view(1, 1, 1, 1), torch.zeros(1, 64, 64, 2, dtype=torch.bfloat16)),
        *(0, 0, False, [True, False]),
    )[0],
    "aten.col2im.default": lambda: torch.ops.aten.col2im(
        ONES.expand(1, 512, COUNT)[:, :, :512], [1, 1023], [1, 512], [1, 1], [0, 0], [1, 1]
    )[0, 0, 0, 511],
    "aten.unfold_backward.default": lambda: torch.ops.aten.unfold_backward(
        torch.ones(512, 512, dtype=torch.bfloat16), [1023], 0, 512, 1
    )[511],
    "aten.segment_reduce.default": lambda: torch.segment_reduce(ONES, "sum", lengths=torch.tensor([COUNT])),
    "aten.avg_pool2d_backward.default": lambda: torch.ops.aten.avg_pool2d_backward(
        *(ONES.view(1, 1, 1, -1), torch.ones(1, 1, 1, 2 * COUNT - 1, dtype=torch.bfloat16), [1, COUNT], [1, 1]),
        *([0, 0], False, True, 1),
    ).max(),
    "aten.replication_pad1d_backward.default": lambda: torch.ops.aten.replication_pad1d_backward(
        ONES.view(1, 1, -1), ONES[:1].view(1, 1, 1), [COUNT - 1, 0]
    ),
    "aten.replication_pad2d_backward.default": lambda: torch.ops.aten.replication_pad2d_backward(
        ONES.view(1, 1, 1, -1), ONES[:1].view(1, 1, 1, 1), [COUNT - 1, 0, 0, 0]
    ),
    "aten.histc.default": _histogram,
    "aten.put.default": lambda: ONE.put(ZEROS, ONES, accumulate=True),
    "aten._embedding_bag_dense_backward.default": _embedding_bag_gradient,
    "aten.scatter_add.default": lambda: ONE.scatter_add(0, ZEROS, ONES),
    "aten.sum.default": ONES.sum,
    "aten.cumsum.default": lambda: ONES.cumsum(0)[-1],
    "aten.mm.default": lambda: ONES.view(1, -1) @ ONES.view(-1, 1),
    "aten.convolution.default": lambda: torch.conv1d(ONES.view(1, -1, 1), ONES.view(1, -1, 1)),
    "aten._adaptive_avg_pool2d.default": lambda: (
        torch.nn.functional.adaptive_avg_pool2d(ONES.view(1, 1, 64, 64), 1) * COUNT
    ),
    "aten.upsample_nearest2d_backward.default": lambda: torch.ops.aten.upsample_nearest2d_backward(
        ONES.view(1, 1, 64, 64), [64, 64], [1, 1, 1, 1]
    ),
}


@pytest.mark.parametrize("op", KERNELS)
def test_eager_accumulates_as_its_kernels_are_measured_to(op: str) -> None:
    measured = float(KERNELS[op]().float().flatten()[-1])
    narrow = measured == 256
    assert narrow or measured in (512, COUNT), f"{op} counted {measured}"
    row = ops.lookup(op)
    assert row is not None
    policy = Numerics.preset("eager")
    outcome = Matcher(policy).outcome(op, row, dtypes.bfloat16, ("accumulate",), UNKNOWN)
    said = policy.rules[dict(outcome.winners)["accumulate"]].accumulate
    assert said == ("same" if narrow else "opmath")
