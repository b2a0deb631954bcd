"""Environment variables as Numerics: where a program names no policy, and only there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecast import settings
from truecast.errors import UsageError
from truecast.numerics.environment import default_policy, mappings, neuron_rules, target
from truecast.numerics.numerics import Numerics
from truecast.numerics.scope import numerics, policy, set_numerics
from truecast.runtime import doctor

VARIABLES = ("TRUECAST_NUMERICS", "PJRT_DEVICE", "XLA_USE_BF16", "XLA_DOWNCAST_BF16", "NEURON_CC_FLAGS")


@pytest.fixture(autouse=True)
def _none_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_without_any_the_policy_is_cpus() -> None:
    assert default_policy() == Numerics.preset("cpu") and target() == "cpu"
    assert [said.meaning for said in mappings()] == ["not set"] * 5


@pytest.mark.parametrize(
    ("device", "name"), (("CPU", "cpu"), ("TPU", "tpu"), ("CUDA", "cuda"), ("GPU", "cuda"), ("neuron", "neuron"))
)
def test_pjrt_device_names_target_and_policy(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", device)
    assert (target(), default_policy()) == (name, Numerics.preset(name))
    monkeypatch.setenv("TRUECAST_NUMERICS", "eager")
    assert (target(), default_policy()) == (name, Numerics.preset("eager"))


@pytest.mark.parametrize(
    ("variable", "preset"),
    (("XLA_USE_BF16", "legacy-xla-bf16"), ("XLA_DOWNCAST_BF16", "legacy-xla-downcast-bf16")),
)
def test_n11_the_legacy_modes_map_storage(variable: str, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    legacy = Numerics.preset(preset)
    assert default_policy() == legacy
    monkeypatch.setenv("TRUECAST_NUMERICS", "neuron")
    mixed = default_policy()
    assert (mixed.name, mixed.rules) == (f"neuron+{variable}", Numerics.preset("neuron").rules)
    assert (mixed.storage, mixed.on_mismatch) == (legacy.storage, "cast")
    monkeypatch.setenv(variable, "0")
    assert default_policy() == Numerics.preset("neuron")


def test_use_bf16_comes_before_downcast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_USE_BF16", "true")
    monkeypatch.setenv("XLA_DOWNCAST_BF16", "1")
    assert default_policy() == Numerics.preset("legacy-xla-bf16")
    said = {m.variable: m.meaning for m in mappings()}
    assert said["XLA_USE_BF16"] == "law N11: float32 is held as bfloat16, float64 is held as bfloat16"
    assert said["XLA_DOWNCAST_BF16"] == "nothing: XLA_USE_BF16 decides"


def settings_of(flags: str) -> list[tuple[str, ...]]:
    return [(r.kind, r.dtype, r.compute, r.accumulate, r.algorithm) for r in neuron_rules(flags)]


MATMULT = "contraction|convolution|attention"
SUMS = "reduction|scan|normalization|pooling|loss|indexing"


@pytest.mark.parametrize(
    ("flags", "rules"),
    (
        ("", []),
        ("--auto-cast none", []),
        ("--enable-mixed-precision-accumulation", []),
        ("--model-type transformer -O1", []),
        ("--auto-cast=matmult", [(MATMULT, "float32", "same", "float32", "bf16_bf16_f32")]),
        ("--auto-cast matmult --auto-cast-type tf32", [(MATMULT, "float32", "same", "float32", "tf32_tf32_f32")]),
        ("--auto-cast matmult --auto-cast-type fp16", [(MATMULT, "float32", "float16", "float32", "")]),
        (
            "--auto-cast all",
            [(MATMULT, "float32", "same", "float32", "bf16_bf16_f32"), ("", "float32", "bfloat16", "float32", "")],
        ),
        (
            "--auto-cast=all --auto-cast-type=fp16",
            [(MATMULT, "float32", "float16", "float32", ""), ("", "float32", "float16", "float32", "")],
        ),
        ("--auto-cast all --auto-cast-type tf32", [(MATMULT, "float32", "same", "float32", "tf32_tf32_f32")]),
        ("--disable-mixed-precision-accumulation", [(SUMS, "narrow", "same", "same", "")]),
        ("--disable-mixed-precision-accumulation --enable-mixed-precision-accumulation", []),
    ),
)
def test_neuron_flags(flags: str, rules: list[tuple[str, ...]]) -> None:
    assert settings_of(flags) == rules


def test_neuron_flags_hold_where_the_target_is_neuron(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_CC_FLAGS", "--auto-cast matmult")
    assert default_policy() == Numerics.preset("cpu")
    assert mappings()[-1].meaning == "nothing: the policy's target is 'cpu', not 'neuron'"
    monkeypatch.setenv("TRUECAST_NUMERICS", "neuron")
    flagged = default_policy()
    assert flagged.name == "neuron+NEURON_CC_FLAGS"
    assert flagged.rules == (*neuron_rules("--auto-cast matmult"), *Numerics.preset("neuron").rules)
    assert mappings()[-1].meaning == (
        "contraction|convolution|attention on float32: compute = same, accumulate = float32, rounding = compiler, "
        "algorithm = bf16_bf16_f32"
    )


@given(
    cast=st.sampled_from(["", "--auto-cast none", "--auto-cast=matmult", "--auto-cast all"]),
    kind=st.sampled_from(["", "--auto-cast-type bf16", "--auto-cast-type=fp16"]),
    accumulation=st.sampled_from(["", "--disable-mixed-precision-accumulation"]),
    others=st.lists(st.sampled_from(["--model-type=unet", "-O2", "--target trn1", "--verbose 35"]), max_size=3),
    seed=st.integers(0, 99),
)
def test_the_order_of_the_flags_and_other_flags_mean_nothing(
    cast: str, kind: str, accumulation: str, others: list[str], seed: int
) -> None:
    numeric = [flag for flag in (cast, kind, accumulation) if flag]
    mixed = [*numeric, *others]
    random.Random(seed).shuffle(mixed)
    assert neuron_rules(" ".join(mixed)) == neuron_rules(" ".join(numeric))


@given(
    device=st.sampled_from(["", "CPU", "TPU", "NEURON"]),
    legacy=st.sampled_from(["", "1"]),
    flags=st.sampled_from(["", "--auto-cast all"]),
    named=st.sampled_from(["", "eager", "neuron"]),
    explicit=st.sampled_from(["cpu", "neuron", "tpu", "torch_xla-2.9"]),
)
def test_an_explicit_policy_always_wins(device: str, legacy: str, flags: str, named: str, explicit: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in zip(VARIABLES, (named, device, legacy, legacy, flags), strict=True):
            patch.setenv(variable, value)
        expected = Numerics.preset(explicit)
        assert policy(explicit) == expected
        with numerics(explicit):
            assert policy() == expected
        set_numerics(explicit)
        try:
            assert policy() == expected
        finally:
            set_numerics(None)


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    (
        ("PJRT_DEVICE", "IPU", "unknown PJRT_DEVICE 'IPU'\n  help: one of CPU, TPU, CUDA, GPU, NEURON"),
        ("XLA_USE_BF16", "maybe", 'XLA_USE_BF16 has an unknown value\n  values: maybe\n  help: "1" or "0"'),
        (
            "NEURON_CC_FLAGS",
            "--auto-cast-type int8",
            "NEURON_CC_FLAGS: --auto-cast-type can't be 'int8'\n  help: it is bf16, fp16 or tf32",
        ),
        (
            "NEURON_CC_FLAGS",
            "--auto-cast",
            "NEURON_CC_FLAGS: --auto-cast can't be ''\n  help: it is none, matmult or all",
        ),
        (
            "NEURON_CC_FLAGS",
            "'",
            "NEURON_CC_FLAGS can't be read\n  values: '\n  why: No closing quotation",
        ),
    ),
)
def test_what_can_not_be_followed_is_an_error(
    variable: str, value: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    if variable == "NEURON_CC_FLAGS":
        monkeypatch.setenv("TRUECAST_NUMERICS", "neuron")
    with pytest.raises(UsageError) as refused:
        default_policy()
    assert str(refused.value) == text
    (check,) = (check for check in doctor._environment() if check.subject == variable)
    assert check.state == "wrong" and check.detail.startswith(f"{value}: ")


def test_the_doctor_prints_each_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_DOWNCAST_BF16", "1")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert [(c.subject, c.state, c.detail) for c in doctor._environment()] == [
        ("TRUECAST_NUMERICS", "absent", "not set"),
        ("PJRT_DEVICE", "ok", "CPU: programs run on target 'cpu', and the policy is 'cpu'"),
        ("XLA_USE_BF16", "absent", "not set"),
        ("XLA_DOWNCAST_BF16", "ok", "1: law N11: float32 is held as bfloat16, float64 is held as float32"),
        ("NEURON_CC_FLAGS", "absent", "not set"),
    ]


def test_programs_are_kept_where_a_script_says(tmp_path: Path) -> None:
    before = settings.cache_directory()
    try:
        settings.keep_programs_in(tmp_path)
        assert settings.cache_directory() == tmp_path
    finally:
        settings.keep_programs_in(None)
    assert settings.cache_directory() == before
