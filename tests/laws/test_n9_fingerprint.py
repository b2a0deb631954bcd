"""Law N9: the fingerprint covers Graph, Plan, target, device topology and library versions, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Token, Value
from truecast.lowering import fingerprint as fingerprints
from truecast.lowering.calling import of_graph
from truecast.lowering.fingerprint import fingerprint
from truecast.lowering.program import Program
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve
from truecast.runtime import executable as executables
from truecast.runtime.backend import Runtime
from truecast.runtime.cache import DiskCache
from truecast.runtime.client import client
from truecast.runtime.executable import Executables, compile_options, executable_key
from truecast.sites import Site

EAGER = Numerics("eager")
X = Value("x", dtypes.bfloat16, (4, 8))
W = Value("w", dtypes.bfloat16, (8, 4))


def chain(scale: object = 2.0, dtype: dtypes.DType = dtypes.bfloat16, line: int = 1) -> Graph:
    """mul, mm, sum: one node of each kind of decision."""
    x, w = replace(X, dtype=dtype), replace(W, dtype=dtype)
    mul, mm, total = Value("mul", dtype, (4, 8)), Value("mm", dtype, (4, 4)), Value("sum", dtype, (4,))
    site = Site("train.py", line, 5, line, 9, "step")
    return Graph(
        "step",
        (Input(x), Input(w, "parameter", "fc.weight")),
        (
            Node("aten.mul.Tensor", (x, scale), (), (mul,), site),
            Node("aten.mm.default", (mul, w), (), (mm,), site),
            Node("aten.sum.dim_IntList", (mm, (1,)), (), (total,), site),
        ),
        (Output(total),),
    ).verify()


BASE = resolve(chain(), EAGER)


def with_decision(**changes: object) -> Plan:
    return replace(BASE, decisions=(replace(BASE.decisions[0], **changes), *BASE.decisions[1:]))


def with_node(**changes: object) -> Plan:
    graph = BASE.graph
    return replace(BASE, graph=replace(graph, nodes=(replace(graph.nodes[0], **changes), *graph.nodes[1:])))


DIFFERENT: dict[str, Callable[[], Plan]] = {
    "the scalar's value": lambda: resolve(chain(3.0), EAGER),
    "the scalar's type": lambda: resolve(chain(2), EAGER),
    "True instead of 1": lambda: replace(BASE, graph=chain(True)),
    "the sign of zero": lambda: replace(BASE, graph=chain(-0.0)),
    "a dtype": lambda: resolve(chain(dtype=dtypes.float16), EAGER),
    "an operation": lambda: with_node(op="aten.add.Tensor"),
    "an argument": lambda: with_node(args=(X, X)),
    "a keyword": lambda: with_node(kwargs=(("alpha", 1),)),
    "compute": lambda: with_decision(compute=dtypes.bfloat16),
    "accumulate": lambda: with_decision(accumulate=dtypes.bfloat16),
    "rounding": lambda: with_decision(rounding="compiler"),
    "algorithm": lambda: with_decision(algorithm="bf16x3"),
    "region": lambda: with_decision(region=1),
    "casts": lambda: with_decision(casts=(("other", dtypes.float32),)),
    "storage": lambda: replace(BASE, numerics=replace(EAGER, storage=(("float32", "bfloat16"),))),
    "subnormals": lambda: replace(BASE, numerics=replace(EAGER, subnormals="flush")),
    "an input's kind": lambda: replace(BASE, graph=replace(BASE.graph, inputs=(Input(X), Input(W)))),
    "an output more": lambda: replace(BASE, graph=replace(BASE.graph, outputs=(*BASE.graph.outputs, Output(X)))),
    "a mutation": lambda: replace(BASE, graph=replace(BASE.graph, outputs=(Output(X, "mutation", "x"),))),
}
EQUAL: dict[str, Callable[[], Plan]] = {
    "the same again": lambda: resolve(chain(), EAGER),
    "another source line": lambda: resolve(chain(line=99), EAGER),
    "another reason": lambda: with_decision(why="because", rule=None),
    "another name of the policy": lambda: resolve(chain(), replace(EAGER, name="mine", note="notes")),
    "another path of a parameter": lambda: replace(
        BASE, graph=replace(BASE.graph, inputs=(Input(X), Input(W, "parameter", "other.weight")))
    ),
}


@pytest.mark.parametrize("change", DIFFERENT)
def test_n9_it_changes_with(change: str) -> None:
    assert fingerprint(DIFFERENT[change](), "cpu") != fingerprint(BASE, "cpu")


@pytest.mark.parametrize("change", EQUAL)
def test_n9_it_does_not_change_with(change: str) -> None:
    assert fingerprint(EQUAL[change](), "cpu") == fingerprint(BASE, "cpu")


def test_n9_all_of_them_are_different() -> None:
    prints = [fingerprint(make(), "cpu") for make in DIFFERENT.values()]
    assert len(set(prints)) == len(prints)


def test_n9_every_decision_field_is_covered_or_named_here() -> None:
    words_only = {"rule", "why", "decided_by"}
    covered = {"compute", "accumulate", "rounding", "algorithm", "region", "casts"}
    assert set(type(BASE.decisions[0]).__dataclass_fields__) == covered | words_only


def test_n9_literals_do_not_run_into_each_other() -> None:
    pairs = [("a", Token("a")), (("a", "b"), ("a,b",)), ((1, (2,)), ((1, 2),)), ("None", None), (dtypes.int8, "int8")]
    for one, other in pairs:
        assert fingerprint(with_node(args=(X, one)), "cpu") != fingerprint(with_node(args=(X, other)), "cpu")


@pytest.mark.parametrize("target", ["cuda", "tpu", "neuron"])
def test_n9_it_changes_with_the_target(target: str) -> None:
    assert fingerprint(BASE, target) != fingerprint(BASE, "cpu")


@pytest.mark.parametrize("package", [0, 1, 2])
def test_n9_it_changes_with_each_version(package: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(BASE, "cpu")
    versions = list(fingerprints.versions())
    versions[package] = (versions[package][0], "99.0")
    monkeypatch.setattr(fingerprints, "versions", lambda: tuple(versions))
    assert fingerprint(BASE, "cpu") != before


def test_n9_it_changes_with_an_edited_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(BASE, "cpu")
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self.name == "elementwise.py"))
    monkeypatch.setattr(fingerprints, "rules_digest", fingerprints.rules_digest.__wrapped__)
    assert fingerprint(BASE, "cpu") != before


def program(plan: Plan, runtime: Runtime | None = None) -> Program:
    return Program(plan.graph, plan, "cpu", runtime or Runtime(Executables(None)), of_graph(plan.graph))


def test_n9_an_executables_key_adds_device_options_and_donation(monkeypatch: pytest.MonkeyPatch) -> None:
    base, cpu = program(BASE), client("cpu")
    keys = {executable_key(base, (), cpu), executable_key(base, ("x",), cpu)}
    other_device = replace(cpu)
    other_device.__dict__["topology"] = cpu.topology + " cores=64"
    keys.add(executable_key(base, (), other_device))
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    keys.add(executable_key(base, (), cpu))
    monkeypatch.setattr(executables, "compile_options", lambda plan: {"xla_allow_excess_precision": True})
    keys.add(executable_key(base, (), cpu))
    assert len(keys) == 5


def test_n9_the_cpus_topology_names_processor_and_cores() -> None:
    words = client("cpu").topology
    assert "cores=" in words and "devices=" in words


def test_n9_a_changed_precision_never_meets_a_stale_executable(tmp_path: Path) -> None:
    """What torch_xla does with set_mat_mul_precision: same graph, other precision, the cached executable is reused."""
    graph = chain()
    runtime = Runtime(Executables(DiskCache(tmp_path, 1 << 30)))
    coarse = Numerics("coarse").with_rule(kind="contraction|reduction", compute="same", accumulate="same")
    arguments = (torch.randn(4, 8).bfloat16(), torch.randn(8, 4).bfloat16())
    plans = [resolve(graph, n) for n in (EAGER, coarse, EAGER)]
    origins = [runtime.executables.get(program(plan, runtime)).origin for plan in plans]
    assert origins == ["compiled", "compiled", "memory"]
    again = Runtime(Executables(DiskCache(tmp_path, 1 << 30)))
    assert [again.executables.get(program(plan, again)).origin for plan in plans] == ["disk", "disk", "memory"]
    alone = Runtime(Executables(None))
    for plan in plans:
        fresh = alone.compile(program(plan, alone), ())(*arguments)
        assert torch.equal(again.compile(program(plan, again), ())(*arguments)[0], fresh[0])


def test_n9_excess_precision_is_allowed_only_where_every_rounding_is_the_compilers() -> None:
    left_to_compiler = replace(BASE, decisions=tuple(replace(d, rounding="compiler") for d in BASE.decisions))
    assert compile_options(left_to_compiler) == {"xla_allow_excess_precision": True}
    assert compile_options(BASE) == {"xla_allow_excess_precision": False}
    assert compile_options(with_decision(rounding="compiler")) == {"xla_allow_excess_precision": False}
