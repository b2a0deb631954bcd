"""The public names: lazy, few, and composed as they say; which policy is in force; torch.compile's backend."""

from __future__ import annotations

import copy
import importlib.metadata
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import truecast as tc
from truecast.errors import NumericsError, UsageError
from truecast.runtime import executable
from truecast.runtime.backend import runtime

X = torch.randn(4, 8)


def product(x: torch.Tensor) -> torch.Tensor:
    return x * x


def multiply_dtype(numerics: str | None = None) -> str:
    """The dtype in which a bfloat16 product is computed."""
    return str(tc.lower(product, X.bfloat16(), numerics=numerics).plan.decisions[0].compute)


# --- names ----------------------------------------------------------------------------------------------------


def test_there_are_at_most_17_names_and_each_is_there() -> None:
    assert len(tc.__all__) <= 17
    assert all(getattr(tc, name) is not None for name in tc.__all__)
    assert set(tc.__all__) <= set(dir(tc))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'truecast' has no attribute 'lowr'"):
        _ = tc.lowr  # type: ignore[attr-defined]


@pytest.mark.parametrize("first", ["truecast.capture", "truecast.numerics.plan", "truecast"])
def test_packages_that_are_functions_stay_so_whatever_was_imported_first(first: str) -> None:
    program = (
        f"import {first}, truecast as tc\n"
        "with tc.numerics('tpu') as n: assert n.name == 'tpu'\n"
        "assert callable(tc.capture)\n"
        "import truecast.numerics.plan\n"
        "assert tc.numerics.plan.Plan\n"
        "with tc.numerics('cpu'): pass\n"
        "import sys; assert 'torch' not in sys.modules and 'jax' not in sys.modules\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_capture_plan_lower_compose() -> None:
    graph = tc.capture(product, X)
    plan = tc.plan(graph, "tpu")
    program = tc.lower(product, X, numerics="tpu")
    assert program.graph.nodes[0].op == graph.nodes[0].op == "aten.mul.Tensor"
    assert program.plan.decisions == plan.decisions
    assert tc.lower(graph, numerics="tpu").fingerprint == program.fingerprint


def test_a_graph_takes_no_arguments() -> None:
    with pytest.raises(UsageError) as caught:
        tc.lower(tc.capture(product, X), X)
    assert str(caught.value) == "a Graph is lowered by itself, without arguments"


def test_an_unknown_target() -> None:
    with pytest.raises(UsageError) as caught:
        tc.lower(product, X, target="gpu")
    assert str(caught.value) == "unknown target 'gpu'\n  help: one of cpu, cuda, tpu, neuron"


# --- the policy in force ------------------------------------------------------------------------------------


def test_an_explicit_policy_wins_over_the_scope_over_the_set_one_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert multiply_dtype() == "float32", "cpu, the default"
    monkeypatch.setenv("TRUECAST_NUMERICS", "tpu")
    assert multiply_dtype() == "bfloat16"
    try:
        tc.set_numerics("neuron")
        assert multiply_dtype() == "float32"
        with tc.numerics("tpu"):
            assert multiply_dtype() == "bfloat16"
            with tc.numerics("neuron"):
                assert multiply_dtype() == "float32"
                assert multiply_dtype("tpu") == "bfloat16"
            assert multiply_dtype() == "bfloat16"
        assert multiply_dtype() == "float32"
    finally:
        tc.set_numerics(None)
    assert multiply_dtype() == "bfloat16"


def test_a_scope_ends_with_an_exception() -> None:
    with pytest.raises(RuntimeError), tc.numerics("tpu"):
        raise RuntimeError
    assert multiply_dtype() == "float32"


def test_a_scope_is_its_threads_own() -> None:
    seen: list[str] = []
    with tc.numerics("tpu"):
        thread = threading.Thread(target=lambda: seen.append(multiply_dtype()))
        thread.start()
        thread.join()
    assert seen == ["float32"]


def test_a_policy_is_a_name_a_path_or_a_numerics(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    mine = tc.Numerics("mine").with_rule(kind="elementwise", compute="same")
    path.write_text(mine.to_toml())
    for named in (mine, path, str(path)):
        with tc.numerics(named) as chosen:
            assert chosen == mine
            assert multiply_dtype() == "bfloat16"


def test_an_unknown_policy_changes_nothing() -> None:
    with pytest.raises(NumericsError, match="did you mean 'neuron'"):
        tc.set_numerics("nueron")
    with pytest.raises(NumericsError, match="did you mean 'neuron'"), tc.numerics("nueron"):
        pass
    assert multiply_dtype() == "float32"


# --- the cache ----------------------------------------------------------------------------------------------


def test_the_second_process_lowers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable on disk is used without tracing or lowering, whatever the program."""
    monkeypatch.setenv("TRUECAST_CACHE", str(tmp_path))
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
    first = tc.lower(net, X).compile()
    assert first.executable.origin == "compiled"
    from truecast.runtime import backend

    backend._runtime.cache_clear()  # as a new process starts: nothing in memory
    monkeypatch.setattr(executable, "_compile", lambda *_: pytest.fail("lowered and compiled again"))
    again = tc.lower(net, X).compile()
    assert again.executable.origin == "disk"
    assert torch.equal(again(X), first(X))
    assert tc.lower(net, X).compile().executable.origin == "memory"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:100], lambda b: b"x" * len(b)])
def test_a_damaged_entry_is_compiled_again_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: object
) -> None:
    from truecast.runtime import backend

    monkeypatch.setenv("TRUECAST_CACHE", str(tmp_path))
    expected = tc.lower(product, X).compile()(X)
    (entry,) = tmp_path.glob("*.exe")
    entry.write_bytes(damage(entry.read_bytes()))  # type: ignore[operator]
    for origin in ("compiled", "disk"):
        backend._runtime.cache_clear()
        compiled = tc.lower(product, X).compile()
        assert compiled.executable.origin == origin
        assert torch.equal(compiled(X), expected)
    backend._runtime.cache_clear()


def test_an_entry_that_pjrt_refuses_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from truecast.runtime import backend

    monkeypatch.setenv("TRUECAST_CACHE", str(tmp_path))
    key = tc.lower(product, X).compile().executable.key
    disk = runtime().executables.disk
    assert disk is not None
    disk.store(key, b"authentic, but no executable")
    backend._runtime.cache_clear()
    assert tc.lower(product, X).compile().executable.origin == "compiled"
    assert "the PJRT client refused an entry" in runtime().executables.disk.trouble  # type: ignore[union-attr]


def test_off_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TRUECAST_CACHE", "off")
    assert tc.lower(product, X).compile().executable.origin == "compiled"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="XDG names POSIX's directories")
def test_the_platforms_own_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from truecast import settings

    monkeypatch.delenv("TRUECAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform.startswith("linux"):
        assert settings.cache_directory() == tmp_path / "truecast"


def test_a_cache_that_can_not_be_written_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRUECAST_CACHE", str(tmp_path / "file" / "cache"))
    compiled = tc.lower(product, X).compile()
    assert compiled.executable.origin == "compiled"
    assert torch.equal(compiled(X), X * X)


def test_a_size_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUECAST_CACHE_SIZE", "4GB")
    with pytest.raises(UsageError) as caught:
        tc.lower(product, X)
    assert str(caught.value) == (
        "TRUECAST_CACHE_SIZE is not a number of bytes\n"
        "  values: TRUECAST_CACHE_SIZE='4GB'\n"
        "  help: a whole number, for example 4294967296 for 4 GiB"
    )


def test_a_call_with_300_arguments_costs_well_under_a_millisecond_over_execution() -> None:
    arguments = [torch.randn(8) for _ in range(300)]
    compiled = tc.lower(tc.capture(lambda *xs: xs[0] + xs[299], *arguments)).compile()

    def best(call: object) -> float:
        times = []
        for _ in range(60):
            start = time.perf_counter()
            call()  # type: ignore[operator]
            times.append(time.perf_counter() - start)
        return min(times)

    arrays = compiled._arrays(arguments)
    execution = best(lambda: compiled.executable.loaded.execute(arrays)[0].block_until_ready())
    assert best(lambda: compiled(*arguments)) - execution < 0.7e-3


# --- torch.compile ------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def test_the_entry_point_is_registered() -> None:
    points = importlib.metadata.entry_points(group="torch_dynamo_backends")
    assert {p.name: p.value for p in points}["truecast"] == "truecast.api.programs:dynamo_backend"


@pytest.mark.usefixtures("fresh_dynamo")
def test_torch_compile_trains_as_eager_does() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    theirs = copy.deepcopy(ours)
    target = torch.randint(0, 4, (4,))
    compiled = torch.compile(ours, backend="truecast", options={"numerics": "eager"})
    optimizers = [torch.optim.SGD(m.parameters(), 0.5) for m in (ours, theirs)]
    for _ in range(3):
        losses = [nn.functional.cross_entropy(m(X), target) for m in (compiled, theirs)]
        assert torch.allclose(*losses, atol=1e-6)
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.usefixtures("fresh_dynamo")
def test_torch_compile_follows_the_policy_in_force_at_each_call() -> None:
    """Law N9, where torch.compile would reuse what it has: 1.0078125**2 needs 15 bits, so rounding between shows."""
    x = torch.full((4,), 1.0078125).bfloat16()
    compiled = torch.compile(lambda x: x * x - 1.015625, backend="truecast")
    region = tc.Numerics("region").with_rule(kind="elementwise", compute="opmath", rounding="region")
    rounded = tc.Numerics("rounded").with_rule(kind="elementwise", compute="opmath", rounding="op")
    for policy, expected in ((rounded, 0.0), (region, 2.0**-14), (rounded, 0.0)):
        with tc.numerics(policy):
            assert compiled(x).tolist() == [expected] * 4


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numeric": "tpu"}, "unknown option 'numeric' of the truecast backend\n  help: it takes 'numerics'"),
        ({"numerics": "nueron"}, "did you mean 'neuron'"),
    ],
)
def test_torch_compile_refuses_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match="backend='truecast' raised") as caught:
        torch.compile(lambda x: x + 1, backend="truecast", options=options)(X)
    assert message in str(caught.value)
