"""torch.export and FX -> Graph: inputs by kind, writes as mutations, sources with columns, and clear refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.interpret import call
from truecast.capture.captured import Captured
from truecast.capture.export import from_fx, trace_export
from truecast.errors import CaptureError
from truecast.graph import Graph


class Block(nn.Module):
    """A parameter, buffers that are written, a plain tensor attribute, a literal tensor, numbers in the call."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)
        self.offset = torch.arange(8.0)

    def forward(self, x: torch.Tensor, sigma: torch.Tensor, scale: float = 2.0) -> Any:
        y = (1 - sigma) * x + sigma * self.offset
        h = self.norm(self.proj(y + torch.tensor([1.0, 2.0] * 4)))
        h.relu_()
        a, b = h.split([1, 3], dim=1)
        return {"a": a * scale, "b": [b, None, 3, a]}


def ops(graph: Graph) -> list[str]:
    return [node.op.split(".")[1] for node in graph.nodes]


def by_op(captured: Captured, op: str) -> Any:
    (node,) = [node for node in captured.graph.nodes if node.op.split(".")[1] == op]
    return node


X, SIGMA = torch.linspace(-1, 1, 16).reshape(2, 8), torch.tensor([0.25])


def test_inputs_have_their_kinds_and_paths() -> None:
    captured = trace_export(Block(), (X, SIGMA), {"scale": 3.0})
    assert [(entry.kind, entry.path) for entry in captured.graph.inputs] == [
        ("parameter", "proj.weight"),
        ("parameter", "proj.bias"),
        ("parameter", "norm.weight"),
        ("parameter", "norm.bias"),
        ("buffer", "norm.running_mean"),
        ("buffer", "norm.running_var"),
        ("buffer", "norm.num_batches_tracked"),
        ("constant", "offset"),
        ("constant", "constant"),
        ("input", "x"),
        ("input", "sigma"),
    ]
    assert captured.arguments == ("x", "sigma", None)
    assert set(captured.bound) == {e.value.name for e in captured.graph.inputs if e.kind != "input"}


def test_the_call_can_be_repeated_from_what_is_captured() -> None:
    model = Block()
    captured = trace_export(model, (X, SIGMA), {"scale": 3.0})
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    outputs = call(captured, [X, SIGMA])
    assert all(torch.equal(before[name], buffer) for name, buffer in model.named_buffers())
    expected = model(X, SIGMA, scale=3.0)

    leaves = [outputs[r] if isinstance(r, int) else r[1] for r in captured.results]
    got = torch.utils._pytree.tree_unflatten(leaves, captured.out_spec)
    assert got["b"][1:3] == [None, 3]
    torch.testing.assert_close(got["a"], expected["a"])
    torch.testing.assert_close(got["b"][0], expected["b"][0])
    torch.testing.assert_close(got["b"][3], expected["b"][3])
    paths = {entry.value.name: entry.path for entry in captured.graph.inputs}
    written = {
        paths[o.target]: value for o, value in zip(captured.graph.outputs, outputs, strict=True) if o.kind == "mutation"
    }
    assert set(written) == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    for path, value in written.items():
        torch.testing.assert_close(value, model.get_buffer(path))


def test_a_decomposed_program_gives_its_writes_as_mutations_too() -> None:
    model = Block()
    program = torch.export.export(model, (X, SIGMA)).run_decompositions()
    captured = from_fx(program)
    mutations = [o for o in captured.graph.outputs if o.kind == "mutation"]
    paths = {entry.value.name: entry.path for entry in captured.graph.inputs}
    assert {paths[o.target] for o in mutations} == {
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    }
    outputs = call(captured, [X, SIGMA])
    torch.testing.assert_close(outputs[captured.results[0]], model(X, SIGMA)["a"])


def test_an_argument_that_is_written_is_a_mutation() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    captured = trace_export(program, (torch.ones(3),))
    (mutation,) = [o for o in captured.graph.outputs if o.kind == "mutation"]
    assert mutation.target == captured.arguments[0]
    assert [t.tolist() for t in call(captured, [torch.ones(3)])] == [[3.0] * 3, [2.0] * 3]


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Sources(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        y = (1 - sigma) * x + sigma * x
        for layer in self.layers:
            y = layer(y)
        z = double(y) * 3 + F.gelu(y)
        return torch.cat([z, -z[0:1]])


def test_sources_have_the_columns_of_the_sub_expression() -> None:
    graph = trace_export(Sources(), (torch.ones(2, 4), torch.ones(2, 1))).graph
    got = [(n.op.split(".")[1], n.site.expression, n.site.function, n.site.module) for n in graph.nodes]
    forward = "Sources.forward"
    assert got == [
        ("rsub", "1 - sigma", forward, ""),
        ("mul", "(1 - sigma) * x", forward, ""),
        ("mul", "sigma * x", forward, ""),
        ("add", "(1 - sigma) * x + sigma * x", forward, ""),
        ("t", "layer(y)", forward, "layers.0"),
        ("addmm", "layer(y)", forward, "layers.0"),
        ("t", "layer(y)", forward, "layers.1"),
        ("addmm", "layer(y)", forward, "layers.1"),
        ("mul", "x * 2", "double", ""),
        ("mul", "double(y) * 3", forward, ""),
        ("gelu", "F.gelu(y)", forward, ""),
        ("add", "double(y) * 3 + F.gelu(y)", forward, ""),
        ("slice", "z[0:1]", forward, ""),
        ("neg", "-z[0:1]", forward, ""),
        ("cat", "torch.cat([z, -z[0:1]])", forward, ""),
    ]
    assert {node.site.file for node in graph.nodes} == {__file__}


def test_a_program_exported_elsewhere_has_its_lines() -> None:
    graph = from_fx(torch.export.export(Sources(), (torch.ones(2, 4), torch.ones(2, 1)))).graph
    sites = {n.op.split(".")[1]: n.site for n in graph.nodes}
    assert sites["rsub"].expression == "1 - sigma"
    assert sites["cat"].expression == "torch.cat([z, -z[0:1]])"
    assert sites["addmm"].text.strip() == "y = layer(y)"
    assert sites["addmm"].function == "Sources.forward"


def test_regions_of_grad_mode_and_autocast_are_run_in_place() -> None:
    class Regions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = self.fc(x) * 2
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = self.fc(x)
            return y + z

    model = Regions()
    captured = trace_export(model, (torch.ones(2, 4),))
    assert [n.outputs[0].dtype.name for n in captured.graph.nodes if n.op == "aten.addmm.default"] == [
        "float32",
        "bfloat16",
    ]
    assert by_op(captured, "mul").site.expression == "self.fc(x) * 2"
    (got,) = call(captured, [torch.ones(2, 4)])
    torch.testing.assert_close(got, model(torch.ones(2, 4)))


# ------------------------------------------------------------------------------------------------ refusals


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


def reading(x: torch.Tensor) -> torch.Tensor:
    return x * float(x.sum())


def wrong(x: torch.Tensor) -> torch.Tensor:
    return x @ x


def refusal(function: Callable[[], object]) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        function()
    return caught.value


def test_a_branch_on_contents_names_the_line(capfd: pytest.CaptureFixture[str]) -> None:
    error = refusal(lambda: trace_export(Branching(), (torch.ones(2, 4),)))
    line = Branching.forward.__code__.co_firstlineno + 1
    assert str(error) == (
        "the program branches on a tensor's contents\n"
        f"  --> test_export.py:{line}:12 in Branching.forward\n"
        "  values: x.sum() > 0\n"
        "  why: torch.export runs it without contents (Could not guard on data-dependent expression Eq(u0, 1) "
        "(unhinted: Eq(u0, 1)).  (Size-like symbols: none))\n"
        "  help: compute both sides and choose with torch.where, or move the branch out of what is captured"
    )
    assert error.__suppress_context__
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_a_fault_of_the_program_names_the_line() -> None:
    error = refusal(lambda: trace_export(wrong, (torch.ones(2, 4),)))
    assert error.what == "the program can't be exported"
    assert str(error.where).startswith("test_export.py:") and str(error.where).endswith("in wrong")
    assert error.values == "x @ x"
    assert error.why == "RuntimeError: a and b must have same reduction dim, but got [2, 4] X [2, 4]."


def test_reading_a_number_names_the_line() -> None:
    assert refusal(lambda: trace_export(reading, (torch.ones(3),))).values == "float(x.sum())"


def selecting(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].sum()


def test_a_size_that_depends_on_contents_names_the_line() -> None:
    error = refusal(lambda: trace_export(selecting, (torch.ones(3),)))
    line = selecting.__code__.co_firstlineno + 1
    assert str(error) == (
        "the size of a result depends on a tensor's contents\n"
        f"  --> test_export.py:{line}:12 in selecting\n"
        "  values: x[x > 0]\n"
        "  why: a Graph has static shapes (aten.nonzero.default)\n"
        "  help: mask to a fixed shape (torch.where, multiplication by a mask) instead of selecting"
    )


def test_a_dtype_contract_raises_what_pytorch_raises() -> None:
    def mixed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight)

    with pytest.raises(RuntimeError, match="same dtype") as caught:
        trace_export(mixed, (torch.ones(2, 3), torch.ones(4, 3).bfloat16()))
    assert any("F.linear(x, weight)" in note for note in caught.value.__notes__)
    captured = trace_export(mixed, (torch.ones(2, 3), torch.ones(4, 3).bfloat16()), on_violation="cast")
    assert ops(captured.graph) == ["t", "mm"]
    assert [v.dtype.name for v in captured.graph.nodes[1].inputs] == ["float32", "bfloat16"]
    assert captured.graph.outputs[0].value.dtype.name == "bfloat16"


def test_a_dynamic_shape_is_refused() -> None:
    program = torch.export.export(
        Sources(),
        (torch.ones(2, 4), torch.ones(2, 1)),
        dynamic_shapes={"x": {0: torch.export.Dim("batch")}, "sigma": {0: torch.export.Dim("batch")}},
    )
    error = refusal(lambda: from_fx(program))
    assert error.what == "the input 'x' has a dynamic shape"
    assert error.help == "export without dynamic_shapes, once for each shape that is used"


def test_a_higher_order_operation_is_refused_with_its_line() -> None:
    class Cond(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    torch.compiler.reset()  # a test that ran torch.cond by itself leaves Dynamo with a skipped frame
    error = refusal(lambda: trace_export(Cond(), (torch.ones(3),)))
    assert error.what == "the higher-order operation torch.ops.higher_order.cond"
    assert error.help is not None


def test_a_graph_from_before_the_dispatcher_needs_fake_values() -> None:
    class Traced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.fc(x)).add(1) * 2

    traced = torch.fx.symbolic_trace(Traced())
    error = refusal(lambda: from_fx(traced))
    assert error.what == "the FX graph's input 'x' has no fake value"
    assert "FakeTensorProp" in str(error.help)
    next(iter(traced.graph.nodes)).meta["val"] = FakeTensorMode().from_tensor(torch.ones(2, 3))
    captured = from_fx(traced)
    assert ops(captured.graph) == ["t", "addmm", "relu", "add", "mul"]
    (got,) = call(captured, [torch.ones(2, 3)])
    torch.testing.assert_close(got, traced(torch.ones(2, 3)))


def test_a_plain_aten_graph_is_taken_with_its_constants() -> None:
    weight = torch.full((3,), 2.0)
    traced = make_fx(lambda x: x * weight + 1)(torch.ones(3))
    captured = from_fx(traced, name="plain")
    assert captured.graph.name == "plain"
    assert ops(captured.graph) == ["mul", "add"]
    assert [e.kind for e in captured.graph.inputs] == ["constant", "input"]
    assert [t.tolist() for t in call(captured, [torch.ones(3)])] == [[3.0] * 3]
