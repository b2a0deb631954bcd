"""Holds down the private interfaces of torch.export and torch.compile that capture/torch_seam.py rests on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.export._trace
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import PythonKeyTracer, make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._python_dispatch import TorchDispatchMode

from truecast.capture import torch_export, torch_fake


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def program(x: torch.Tensor) -> torch.Tensor:
    return (1 - x) * x


class Wrapped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return program(x)


def stack_traces() -> list[str]:
    graph = torch.export.export(Wrapped(), (torch.ones(2),)).graph
    return [node.meta["stack_trace"] for node in graph.nodes if node.op == "call_function"]


def test_exact_stack_traces_have_the_innermost_line_and_its_columns() -> None:
    before = PythonKeyTracer._filter_traceback_frames
    with torch_export.exact_stack_traces():
        traces = stack_traces()
    line = program.__code__.co_firstlineno + 1
    for trace, marked in zip(traces, ["1 - x", "(1 - x) * x"], strict=True):
        first, source, carets = trace.rstrip("\n").split("\n")
        assert first.strip() == f'File "{__file__}", line {line}, in program'
        start = len(carets) - len(carets.lstrip())
        assert source[start : len(carets)] == marked
    assert PythonKeyTracer._filter_traceback_frames is before
    assert "in forward" in stack_traces()[0]  # and torch.export by itself keeps only frames called `forward`


def test_quiet_export_prints_nothing_and_still_raises(capfd: pytest.CaptureFixture[str]) -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    def export() -> None:
        torch.export.export(Branch(), (torch.ones(2),))

    with pytest.raises(RuntimeError), torch_export.quiet_export():
        export()
    assert capfd.readouterr().err == ""
    assert not hasattr(torch.export._trace, "print")
    with pytest.raises(RuntimeError) as caught:
        export()
    assert "def forward" in capfd.readouterr().err  # it would have printed its graph
    assert torch_fake.is_data_dependent(caught.value)
    assert not torch_fake.is_data_dependent(RuntimeError("x"))


def test_aot_autograd_gives_two_graphs_of_undecomposed_operations() -> None:
    seen: dict[str, list[Any]] = {}

    def compiler(name: str) -> Any:
        def compile(module: torch.fx.GraphModule, inputs: Any) -> Any:
            seen[name] = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
            numbers = [torch_export.program_input(n) for n in module.graph.nodes if n.op == "placeholder"]
            seen[f"{name} inputs"] = numbers
            return module.forward

        return compile

    sources: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        sources.extend(torch_export.placeholder_source(n) for n in module.graph.nodes if n.op == "placeholder")
        return torch_export.aot_autograd(module, inputs, forward=compiler("forward"), backward=compiler("backward"))

    model = nn.Sequential(nn.LayerNorm(4))
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    torch.compile(model, backend=backend)(x).sum().backward()
    assert "aten.native_layer_norm.default" in seen["forward"]
    assert "aten.native_layer_norm_backward.default" in seen["backward"]
    assert sorted(i for i in seen["forward inputs"] if i is not None) == [0, 1, 2]
    assert None in seen["backward inputs"]
    assert any(source.endswith("._parameters['weight']") for source in sources)


def test_specialise_fixes_a_symbolic_size() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    fake = mode.from_tensor(torch.ones(3, 4), symbolic_context=context)
    assert not torch_export.is_static(fake.shape[0])
    torch_export.specialise(fake)
    assert torch_export.is_static(fake.shape[0])
    assert torch_export.static_value(fake.shape[0]) == 3 and type(torch_export.static_value(fake.shape[0])) is int
    assert torch_export.static_value(4) == 4
    torch_export.specialise(2)  # a plain number is what it is


def test_higher_order_operations_have_names() -> None:
    assert torch_export.higher_order_name(torch.ops.higher_order.cond) == "cond"
    assert torch_export.higher_order_name(torch.ops.aten.add.Tensor) is None
    assert torch_export.higher_order_name(sys.exit) is None


def test_as_eager_sees_no_mode_and_no_tracing_kernels() -> None:
    seen: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def normalised(x: torch.Tensor) -> torch.Tensor:
        return torch.native_batch_norm(x, None, None, torch.zeros(2), torch.ones(2), False, 0.1, 1e-5)[0]

    from torch._dispatch.python import enable_python_dispatcher

    with enable_python_dispatcher():
        traced = [str(n.target) for n in make_fx(normalised)(torch.ones(1, 2)).graph.nodes]
        with Mode(), torch_export.as_eager(), Mode():
            normalised(torch.ones(1, 2))
    assert "aten.native_batch_norm.default" in seen
    assert seen.count("aten.native_batch_norm.default") == 1
    assert "aten._native_batch_norm_legit_no_training.default" in traced  # what as_eager is there to avoid
