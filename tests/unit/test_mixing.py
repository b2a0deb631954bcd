"""What lies between two policies: no changes is one of them, all changes the other, and rules can say any set."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truecast as tc
from truecast.graph import Graph
from truecast.lowering.fingerprint import fingerprint
from truecast.numerics.diff import diff
from truecast.numerics.mixing import Change, Mixture, explicit_rounding, mixture, promotion
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
        self.norm = torch.nn.LayerNorm(4, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = x * torch.softmax(self.linear(self.norm(x)), -1) * 3
        return (gated + x.double().mean(-1, keepdim=True)).bfloat16()


@functools.cache
def graph() -> Graph:
    program = torch.nn.Sequential(Layer(), Layer(), Layer())
    return tc.capture(lambda x: program(x), torch.ones(2, 4, dtype=torch.bfloat16))


PAIRS = [("cpu", "neuron"), ("torch_xla-2.9", "torch_xla-2.10"), ("eager", "tpu"), ("cuda", "legacy-xla-bf16")]


def mixed(good: str, bad: str) -> Mixture:
    return mixture(graph(), Numerics.preset(good), Numerics.preset(bad))


def same(a: Plan, b: Plan) -> bool:
    return fingerprint(a, "cpu") == fingerprint(b, "cpu")


@pytest.mark.parametrize(("good", "bad"), PAIRS)
def test_the_ends_of_a_mixture_are_the_two_policies(good: str, bad: str) -> None:
    between = mixed(good, bad)
    everything = range(len(between.changes))
    assert between.changes
    assert same(between.plan(()), resolve(graph(), Numerics.preset(good)))
    assert same(between.plan(everything), resolve(graph(), Numerics.preset(bad)))
    for left_out in everything:  # each change matters by itself
        assert not same(between.plan(set(everything) - {left_out}), resolve(graph(), Numerics.preset(bad)))


def test_what_a_policy_says_of_the_whole_program_is_one_change() -> None:
    between = mixed("cpu", "neuron")
    assert between.changes[0] == Change(-1, ("storage",))
    assert dict(between.plan([0]).numerics.storage) == {"float64": "float32"}
    assert between.plan(range(1, len(between.changes))).numerics.storage == ()
    assert all(change.node >= 0 for change in mixed("torch_xla-2.9", "torch_xla-2.10").changes)


def test_a_storage_map_for_dtypes_that_the_program_has_not_is_no_change() -> None:
    narrow = tc.capture(lambda x: x * x, torch.ones(2, dtype=torch.bfloat16))
    cpu = Numerics.preset("cpu")
    assert mixture(narrow, cpu, cpu.with_settings(storage=(("float64", "float32"),))).changes == ()


def test_two_rules_that_meet_in_one_node_are_two_changes() -> None:
    bad = Numerics("bad").with_rule(op="aten._softmax.*", compute="float64").with_rule(accumulate="bfloat16")
    changes = mixture(graph(), Numerics("good"), bad).changes
    softmax = [c for c in changes if graph().nodes[c.node].op.startswith("aten._softmax")]
    assert [c.fields for c in softmax] == [("compute",), ("accumulate",)] * 3
    assert [c.b for c in softmax[:2]] == [bad.rules[1], bad.rules[0]]


def test_regions_are_found_anew_for_a_mixture() -> None:
    good = Numerics("good").with_rule(compute="opmath", rounding="region")
    chain = tc.capture(lambda x: x * x * x * x, torch.ones(2, dtype=torch.bfloat16))
    between = mixture(chain, good, good.with_rule(op="aten.mul.*", compute="same"))
    assert [d.region for d in between.plan(()).decisions] == [1, 1, 1]
    assert [d.region for d in between.plan([1]).decisions] == [0, 0, 0]
    assert [d.region for d in between.plan([2]).decisions] == [1, 1, 0]


@pytest.mark.parametrize(("good", "bad"), PAIRS)
@given(data=st.data())
@settings(max_examples=15)
def test_rules_promote_exactly_the_changes_that_they_are_made_for(good: str, bad: str, data: st.DataObject) -> None:
    between = mixed(good, bad)
    everything = frozenset(range(len(between.changes)))
    whole = {i for i in everything if between.changes[i].node < 0}
    # A rule says it of all nodes of one operation, line and module: take them together.
    labels = {i: (graph().nodes[c.node].op, graph().nodes[c.node].site.module) for i, c in enumerate(between.changes)}
    chosen = data.draw(st.sets(st.sampled_from(sorted({labels[i] for i in everything - whole}))))
    promoted = frozenset(i for i in everything - whole if labels[i] in chosen)
    promoted |= data.draw(st.sets(st.sampled_from(sorted(whole)))) if whole else frozenset()
    policy = promotion(graph(), between.a, between.b, [between.changes[i] for i in sorted(promoted)])
    read = Numerics.from_toml(policy.to_toml())
    assert not diff(resolve(graph(), read), between.plan(everything - promoted))


def test_explicit_rounding_takes_the_place_of_what_is_left_to_the_compiler_only() -> None:
    policy = Numerics("p").with_rule(rounding="compiler").with_rule(op="aten.mul.*", rounding="op")
    assert [rule.rounding for rule in explicit_rounding(policy, "region").rules] == ["op", "region"]
    assert explicit_rounding(policy, "compiler") == policy
