"""The words of the errors about policies, one entry each: what, where, values, why, help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from truecast import dtypes
from truecast.errors import NumericsError, TargetError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.numerics import autocast
from truecast.numerics.algorithms import require
from truecast.numerics.numerics import Numerics, Rule
from truecast.numerics.plan import resolve
from truecast.sites import Site

PRESETS = "cpu, cuda, eager, legacy-xla-bf16, legacy-xla-downcast-bf16, neuron, torch_xla-2.10, torch_xla-2.9, tpu"
RULE_HAS = "op, kind, dtype, target, module, source, compute, accumulate, rounding, algorithm, note"
POLICY_HAS = "name, target, storage, autocast, on_mismatch, subnormals, note"
COMPUTE = (
    "same, opmath, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64, "
    "complex32, complex64, complex128"
)
KINDS = (
    "elementwise, reduction, scan, contraction, convolution, normalization, attention, pooling, loss, movement, "
    "indexing, sorting, random, creation, cast, linalg, optimizer, composite, foreign, query"
)
DTYPES = ", ".join(dtypes.BY_NAME)
STORABLE = COMPUTE.removeprefix("same, opmath, ")

TEXTS = {
    "unknown preset in extends": (
        'extends = "neurom"\n',
        f"""unknown preset 'neurom'
  --> p.toml:1:1
  values: presets: {PRESETS}
  help: did you mean 'neuron'? a policy of your own is given by its path""",
    ),
    "unknown key of a rule": (
        'name = "p"\n\n[[rule]]\nop = "aten.mul.*"\n  comput = "same"\n',
        f"""a rule has no 'comput'
  --> p.toml:5:3
  values: a rule has: {RULE_HAS}
  help: did you mean 'compute'?""",
    ),
    "unknown key of the policy": (
        'name = "p"\ntargets = "tpu"\n',
        f"""a policy has no 'targets'
  --> p.toml:2:1
  values: a policy has: {POLICY_HAS}, extends, rule
  help: did you mean 'target'?""",
    ),
    "unknown value of a setting": (
        'name = "p"\n[[rule]]\ncompute = "floaat32"\n',
        f"""compute can't be 'floaat32'
  --> p.toml:3:1
  values: compute is one of {COMPUTE}
  help: did you mean 'float32'?""",
    ),
    "unknown value among several": (
        'name = "p"\n[[rule]]\ndtype = "bfloat16|fp16"\ncompute = "same"\n',
        f"""dtype can't be 'fp16'
  --> p.toml:3:1
  values: dtype is one of narrow, floating, complex, integral, bool, {DTYPES} (several joined by |)
  help: did you mean 'float16'?""",
    ),
    "unknown rounding": (
        'name = "p"\n[[rule]]\nrounding = "regions"\n',
        """rounding can't be 'regions'
  --> p.toml:3:1
  values: rounding is one of op, region, compiler
  help: did you mean 'region'?""",
    ),
    "unknown algorithm": (
        'name = "p"\n[[rule]]\nalgorithm = "bf16x3"\n',
        """algorithm can't be 'bf16x3'
  --> p.toml:3:1
  values: algorithm is one of """
        + "bf16_bf16_f32, bf16_bf16_f32_x3, bf16_bf16_f32_x6, tf32_tf32_f32, f16_f16_f32, f32_f32_f32, f64_f64_f64",
    ),
    "unknown target": (
        'name = "p"\ntarget = "gpu"\n',
        """target can't be 'gpu'
  --> p.toml:2:1
  values: target is one of cpu, cuda, tpu, neuron
  help: did you mean 'cuda'?""",
    ),
    "a number where text belongs": (
        'name = "p"\n[[rule]]\ncompute = 32\n',
        """compute must be text
  --> p.toml:3:1
  values: compute = 32 (int)
  help: put it in quotes: compute = "same\"""",
    ),
    "an empty value": (
        'name = "p"\n[[rule]]\nop = ""\ncompute = "same"\n',
        """op must not be empty
  --> p.toml:3:1
  values: op = \"\"""",
    ),
    "a rule without a setting": (
        'name = "p"\n\n\n[[rule]]\nop = "aten.mul.*"\n',
        """a rule without a setting
  --> p.toml:4:1
  values: keys: aten.mul.*; settings: none of compute, accumulate, rounding, algorithm
  why: it would match and decide nothing
  help: give it one, for example compute = 'opmath'""",
    ),
    "one bracket instead of two": (
        'name = "p"\n[rule]\ncompute = "same"\n',
        """rule must be an array of tables
  --> p.toml:2:1
  values: rule is a dict
  help: write [[rule]], with two brackets, above each rule""",
    ),
    "no name": (
        'target = "tpu"\n',
        """a policy without a name
  --> p.toml
  help: give it one in the first line: name = "mine\"""",
    ),
    "storage of an unknown dtype": (
        'name = "p"\n[storage]\nfloat32 = "bfloat"\n',
        f"""storage can't map 'bfloat'
  --> p.toml:3:1
  values: storage maps floating and complex dtypes: {STORABLE}
  help: did you mean 'bfloat16'?""",
    ),
    "storage across categories": (
        'name = "p"\n[storage]\nfloat64 = "bfloat16"\nfloat32 = "complex64"\n',
        """storage can't map float32 to complex64
  --> p.toml:4:1
  why: a dtype is held as one other dtype of its own category (law N11)""",
    ),
    "storage that is no table": (
        'name = "p"\nstorage = "bfloat16"\n',
        """storage must be a table
  --> p.toml:2:1
  values: storage = 'bfloat16'
  help: write [storage], and below it one line a dtype: float32 = "bfloat16\"""",
    ),
    "malformed TOML": (
        'name = "p"\n[[rule]]\nop = aten.mul\n',
        """not a TOML text
  --> p.toml:3:6
  values: op = aten.mul
  why: Invalid value
  help: a setting is written key = "value", a rule begins with [[rule]]""",
    ),
    "malformed TOML at its end": (
        'name = "p"\nnote = """never closed',
        """not a TOML text
  --> p.toml:2:23
  values: note = \"\"\"never closed
  why: Unterminated string
  help: a setting is written key = "value", a rule begins with [[rule]]""",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_policy_that_is_wrong_says_where_and_what_to_do(case: str) -> None:
    text, words = TEXTS[case]
    with pytest.raises(NumericsError) as error:
        Numerics.from_toml(text, "p.toml")
    assert str(error.value) == words


CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "unknown preset": (
        lambda: Numerics.preset("torch_xla-2.8"),
        f"""unknown preset 'torch_xla-2.8'
  values: presets: {PRESETS}
  help: did you mean 'torch_xla-2.9'? a policy of your own is given by its path""",
    ),
    "a preset unlike any other": (
        lambda: Numerics.preset("?"),
        f"""unknown preset '?'
  values: presets: {PRESETS}
  help: a policy of your own is given by its path""",
    ),
    "a file that is not there": (
        lambda: Numerics.load("/nowhere/p.toml"),
        f"""can't read policy file '/nowhere/p.toml'
  why: No such file or directory
  help: a preset is given by its name alone: {PRESETS}""",
    ),
    "an unknown key given in Python": (
        lambda: Numerics("p").with_rule(comput="same"),
        f"""a rule has no 'comput'
  values: a rule has: {RULE_HAS}
  help: did you mean 'compute'?""",
    ),
    "a wrong value given in Python": (
        lambda: Rule(kind="reductions", compute="same"),
        f"""kind can't be 'reductions'
  values: kind is one of {KINDS} (several joined by |)
  help: did you mean 'reduction'?""",
    ),
    "an autocast list that is not there": (
        lambda: autocast.diff("cuda", "xpu"),
        """no autocast list for device type 'xpu'
  values: device types: cpu, cuda, privateuse1, xla, tpu, neuron
  help: did you mean 'tpu'?""",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_call_says_what_to_do(case: str) -> None:
    call, words = CALLS[case]
    with pytest.raises(NumericsError) as error:
        call()
    assert str(error.value) == words


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(NumericsError) as error:
        Numerics.load(path)
    assert str(error.value) == (
        f"policy file '{path}' is not UTF-8\n  values: byte 8 is 0xff\n  help: a policy is a TOML text"
    )


def test_a_target_that_cannot_do_an_algorithm() -> None:
    with pytest.raises(TargetError) as error:
        require("tf32_tf32_f32", "tpu")
    assert str(error.value) == (
        "target 'tpu' can't do algorithm 'tf32_tf32_f32'\n"
        "  values: tpu can do: bf16_bf16_f32, bf16_bf16_f32_x3, bf16_bf16_f32_x6, f32_f32_f32\n"
        "  why: it has no TF32 multiplier; a contraction never falls back silently (law N5)\n"
        "  help: say algorithm = 'f32_f32_f32' in the rule"
    )


def test_a_target_that_cannot_preserve_subnormals() -> None:
    a = Value("a", dtypes.float32, (2,))
    graph = Graph("g", (Input(a),), (), (Output(a),)).verify()
    with pytest.raises(TargetError) as error:
        resolve(graph, Numerics("p", subnormals="preserve"))
    assert str(error.value) == (
        "target 'cpu' can't preserve subnormals\n"
        "  values: policy 'p': subnormals = preserve, target = cpu\n"
        "  why: measured with jaxlib 0.10.2: XLA:CPU runs with float32, bfloat16 and float64 subnormals flushed, and "
        "has no option against it; float16 keeps its own, being computed in float32\n"
        '  help: say subnormals = "target" for what it does, or "flush" for the same on every target'
    )
    assert resolve(graph, Numerics("p", target="cuda", subnormals="preserve")).decisions == ()


def test_a_plan_that_asks_too_much_names_the_rule_and_the_source_line() -> None:
    a, b, c = (Value(name, dtypes.float32, (2, 2)) for name in "abc")
    node = Node("aten.mm.default", (a, b), (), (c,), Site("/x/model.py", 7, 5))
    graph = Graph("g", (Input(a), Input(b)), (node,), (Output(c),)).verify()
    policy = Numerics.from_toml('name = "p"\ntarget = "tpu"\n[[rule]]\nalgorithm = "tf32_tf32_f32"\n', "dir/p.toml")
    with pytest.raises(TargetError) as error:
        resolve(graph, policy)
    assert str(error.value).splitlines()[:2] == [
        "target 'tpu' can't do algorithm 'tf32_tf32_f32'",
        "  --> p.toml:3, for aten.mm.default at model.py:7:5",
    ]


def test_values_nested_too_deeply() -> None:
    with pytest.raises(NumericsError) as caught:
        Numerics.from_toml("a = " + "[" * 5000 + "]" * 5000, "deep.toml")
    assert str(caught.value) == "values nested too deeply\n  --> deep.toml\n  why: a policy has none"


def test_a_path_that_can_be_none() -> None:
    with pytest.raises(NumericsError) as caught:
        Numerics.load("a\0.toml")
    assert str(caught.value) == "can't read policy file 'a\\x00.toml'\n  why: embedded null byte"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_bytes(b'\xef\xbb\xbfname = "marked"\n')
    assert Numerics.load(tmp_path / "marked.toml").name == "marked"
