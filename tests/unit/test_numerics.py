"""Numerics as a value: what it may hold, that it is frozen, and that its text form parses back to an equal value."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecast.errors import NumericsError
from truecast.numerics.algorithms import ALGORITHMS
from truecast.numerics.autocast import DEVICE_TYPES
from truecast.numerics.numerics import ROUNDINGS, Numerics, Rule
from truecast.numerics.policy_text import parse, preset_names
from truecast.numerics.targets import TARGETS

# TOML carries every character but surrogates, which are no characters.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
SETTING = st.sampled_from(("", "same", "opmath", "float32", "bfloat16", "complex64"))
RULES = st.builds(
    Rule,
    op=TEXT,
    kind=st.sampled_from(("", "elementwise", "reduction|scan", "contraction|convolution|attention")),
    dtype=st.sampled_from(("", "narrow", "bfloat16|float16", "int64|bool", "floating|complex")),
    target=st.sampled_from(("", *TARGETS)),
    module=TEXT,
    source=TEXT,
    compute=SETTING,
    accumulate=SETTING,
    rounding=st.sampled_from(ROUNDINGS),  # never "": a rule needs a setting
    algorithm=st.sampled_from(("", *ALGORITHMS)),
    note=TEXT,
)
STORAGE = st.sampled_from(((), (("float32", "bfloat16"),), (("float64", "float32"), ("float32", "bfloat16"))))
POLICIES = st.builds(
    Numerics,
    name=TEXT.filter(bool),
    target=st.sampled_from(TARGETS),
    rules=st.lists(RULES, max_size=4).map(tuple),
    storage=STORAGE,
    autocast=st.sampled_from(DEVICE_TYPES),
    on_mismatch=st.sampled_from(("error", "cast")),
    subnormals=st.sampled_from(("target", "preserve", "flush")),
    note=TEXT,
)


@given(POLICIES)
@settings(max_examples=200, deadline=None)
def test_the_text_form_parses_back_to_an_equal_value(policy: Numerics) -> None:
    read = Numerics.from_toml(str(policy))
    assert read == policy
    assert read.note == policy.note
    assert [rule.note for rule in read.rules] == [rule.note for rule in policy.rules]
    assert str(read) == str(policy)


@given(POLICIES)
@settings(max_examples=100, deadline=None)
def test_each_rule_knows_the_line_of_its_header(policy: Numerics) -> None:
    text = str(policy)
    lines = text.split("\n")
    read = Numerics.from_toml(text)
    assert [lines[rule.line - 1] for rule in read.rules] == ["[[rule]]"] * len(policy.rules)
    assert [rule.line for rule in read.rules] == sorted({rule.line for rule in read.rules})


def test_a_header_inside_a_string_or_a_comment_is_none() -> None:
    text = '''name = "tricky"  # [[rule]]
note = """
[[rule]]
op = "not a rule"
"""
[[rule]] # the first
note = \'\'\'
[[rule]]\'\'\'
"compute" = "same"

[[ rule ]]
  rounding = "op"
'''
    policy = parse(text, "tricky.toml")
    assert [rule.line for rule in policy.rules] == [6, 11]
    with pytest.raises(NumericsError) as error:
        parse(text.replace('"op"\n', '"up"\n'), "tricky.toml")
    assert str(error.value.where) == "tricky.toml:12:3"


def test_rules_may_stand_in_an_array_of_inline_tables() -> None:
    policy = parse('name = "inline"\nrule = [\n  {op = "aten.mul.*", compute = "same"},\n]\n', "inline.toml")
    assert policy.rules == (Rule(op="aten.mul.*", compute="same"),)
    assert policy.rules[0].line == 2


def test_it_is_frozen_hashable_and_survives_pickling() -> None:
    policy = Numerics.preset("neuron")
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.name = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.rules[0].op = "other"  # type: ignore[misc]
    assert hash(policy) == hash(Numerics.from_toml(str(policy)))
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_notes_and_lines_are_no_part_of_equality() -> None:
    assert Rule(op="a", compute="same", note="x", line=3, file="f") == Rule(op="a", compute="same")
    assert Numerics("a", note="x") == Numerics("a")
    assert Numerics("a", rules=(Rule(compute="same"),)) != Numerics("a", rules=(Rule(compute="opmath"),))


def test_a_given_rule_comes_first_and_can_be_taken_away_again() -> None:
    policy = Numerics.preset("cpu")
    more = policy.with_rule(op="aten.mul.*", compute="same")
    assert more.rules == (Rule(op="aten.mul.*", compute="same"), *policy.rules)
    assert policy.rules == Numerics.preset("cpu").rules
    assert more.without_rule(more.rules[0]) == policy
    with pytest.raises(NumericsError, match="has no such rule"):
        policy.without_rule(more.rules[0])


def test_settings_can_be_replaced() -> None:
    policy = Numerics.preset("tpu").with_settings(target="cpu", on_mismatch="cast")
    assert (policy.target, policy.on_mismatch, policy.rules) == ("cpu", "cast", Numerics.preset("tpu").rules)
    with pytest.raises(NumericsError, match="a policy has no 'rounding'"):
        policy.with_settings(rounding="op")


def test_a_file_extends_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "neuron"\non_mismatch = "cast"\n\n[[rule]]\nop = "aten.add.*"\ncompute = "opmath"\n')
    policy, base = Numerics.load(path), Numerics.preset("neuron")
    assert policy.name == "mine"
    assert policy.rules == (Rule(op="aten.add.*", compute="opmath"), *base.rules)
    assert (policy.target, policy.storage, policy.autocast) == (base.target, base.storage, base.autocast)
    assert policy.on_mismatch == "cast"
    assert policy.rules[0].where == "mine.toml:4"
    assert Numerics.from_toml(str(policy)) == policy


def test_presets_are_listed() -> None:
    assert set(preset_names()) >= {
        *("eager", "cpu", "cuda", "tpu", "neuron"),
        *("torch_xla-2.9", "torch_xla-2.10", "legacy-xla-bf16"),
    }


def test_a_rule_says_what_it_matches_in_words() -> None:
    assert Rule(compute="same").matches == "every operation"
    rule = Rule(op="aten.mul.*", kind="elementwise", dtype="narrow", module="layers.*", source="a.py:3", rounding="op")
    assert rule.matches == "aten.mul.* of kind elementwise on narrow in module layers.* at a.py:3"
    assert str(rule) == "aten.mul.* of kind elementwise on narrow in module layers.* at a.py:3: rounding = op"
