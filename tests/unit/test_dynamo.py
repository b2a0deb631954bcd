"""torch.compile -> Graphs of the forward and the backward pass, run here by PyTorch eager instead of XLA."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from tests.interpret import call
from truecast.capture import dynamo
from truecast.capture.captured import Captured
from truecast.capture.export import from_fx
from truecast.errors import CaptureError
from truecast.graph import Graph


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Compiled:
    """A program through torch.compile; `captured` is what the backend was asked to compile, in order."""

    def __init__(self, program: Any, **options: Any) -> None:
        self.captured: list[Captured] = []
        self.program = torch.compile(
            program, backend=functools.partial(dynamo.backend, compile=self.compile), **options
        )

    def compile(self, captured: Captured) -> Any:
        self.captured.append(captured)
        return functools.partial(call, captured)

    def __call__(self, *args: Any) -> Any:
        return self.program(*args)

    @property
    def graphs(self) -> dict[str, Graph]:
        return {captured.graph.name: captured.graph for captured in self.captured}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4)])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.norm(self.conv(x))).mean((2, 3))
        for layer in self.layers:
            h = F.dropout(layer(h), 0.5)
        q = h.unsqueeze(1).unsqueeze(1)
        h = h + F.scaled_dot_product_attention(q, q, q)[:, 0, 0]
        return F.cross_entropy(h, y)


BATCH = (torch.linspace(-1, 1, 2 * 3 * 36).reshape(2, 3, 6, 6), torch.tensor([1, 2]))


def ops(graph: Graph) -> list[str]:
    return [node.op.split(".")[1] for node in graph.nodes]


def test_training_gives_eagers_loss_gradients_and_buffers() -> None:
    model = Net().train()
    twin = copy.deepcopy(model)
    compiled = Compiled(model)
    for step in range(2):
        torch.manual_seed(step)
        loss = compiled(*BATCH)
        loss.backward()
        torch.manual_seed(step)
        expected = twin(*BATCH)
        expected.backward()
        torch.testing.assert_close(loss, expected)
    for (name, got), (_, want) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, msg=name)
    for (name, got), (_, want) in zip(model.named_buffers(), twin.named_buffers(), strict=True):
        torch.testing.assert_close(got, want, msg=name)
    assert [c.graph.name for c in compiled.captured] == ["forward", "backward"]


def test_operations_stay_what_the_ops_table_knows() -> None:
    compiled = Compiled(Net().train())
    compiled(*BATCH).backward()
    forward, backward = ops(compiled.graphs["forward"]), ops(compiled.graphs["backward"])
    assert {"convolution", "native_dropout", "native_layer_norm", "_log_softmax", "addmm"} <= set(forward)
    assert {"convolution_backward", "native_layer_norm_backward", "_log_softmax_backward_data"} <= set(backward)
    assert any("scaled_dot_product" in op for op in forward) and any("scaled_dot_product" in op for op in backward)
    assert "detach" not in forward + backward and "alias" not in forward + backward
    assert "native_dropout" not in backward  # nothing is computed twice


def test_inputs_keep_their_kinds_and_paths() -> None:
    compiled = Compiled(Net().train())
    compiled(*BATCH).backward()
    inputs = {entry.path: entry.kind for entry in compiled.graphs["forward"].inputs}
    assert inputs == {
        "conv.weight": "parameter",
        "conv.bias": "parameter",
        "norm.weight": "parameter",
        "norm.bias": "parameter",
        "layers.0.weight": "parameter",
        "layers.0.bias": "parameter",
        "layers.1.weight": "parameter",
        "layers.1.bias": "parameter",
        "norm.running_mean": "buffer",
        "norm.running_var": "buffer",
        "norm.num_batches_tracked": "buffer",
        "x": "input",
        "y": "input",
    }
    backward = {entry.path: entry.kind for entry in compiled.graphs["backward"].inputs}
    assert backward["conv.weight"] == "parameter" and backward["tangents_1"] == "input"


def test_forward_and_backward_nodes_have_their_sources() -> None:
    compiled = Compiled(Net().train())
    compiled(*BATCH).backward()

    def where(graph: Graph, op: str) -> tuple[Any, ...]:
        site = next(n.site for n in graph.nodes if n.op.split(".")[1] == op)
        return site.expression, site.function, site.module, site.phase

    forward, backward = compiled.graphs["forward"], compiled.graphs["backward"]
    assert where(forward, "convolution") == ("self.conv(x)", "Net.forward", "conv", "forward")
    assert where(backward, "convolution_backward") == ("self.conv(x)", "Net.forward", "conv", "backward")
    assert where(forward, "native_layer_norm") == ("layer(h)", "Net.forward", "layers.1", "forward")
    assert where(backward, "native_layer_norm_backward") == ("layer(h)", "Net.forward", "layers.1", "backward")
    assert where(backward, "nll_loss_backward") == ("F.cross_entropy(h, y)", "Net.forward", "", "backward")
    assert {n.site.file for graph in (forward, backward) for n in graph.nodes} == {__file__}


def test_inference_is_one_graph() -> None:
    model = Net().eval()
    compiled = Compiled(model)
    with torch.no_grad():
        got = compiled(*BATCH)
        torch.manual_seed(0)
        compiled.captured.clear()
        got, _ = compiled(*BATCH), torch.manual_seed(0)
        torch.testing.assert_close(got, model(*BATCH))
    assert compiled.captured == []


@pytest.mark.parametrize("dynamic", [None, True])
def test_each_batch_size_is_compiled_for_itself(dynamic: bool | None) -> None:
    model = nn.Linear(4, 2)
    compiled = Compiled(model, dynamic=dynamic)
    for size in (2, 3, 5, 3):
        x = torch.arange(4.0 * size).reshape(size, 4)
        torch.testing.assert_close(compiled(x), model(x))
    shapes = [next(e.value.shape for e in c.graph.inputs if e.kind == "input") for c in compiled.captured]
    assert shapes == [(2, 4), (3, 4), (5, 4)]


def test_numbers_and_unused_results_go_through() -> None:
    def program(x: torch.Tensor, scale: float, flag: bool) -> Any:
        return {"y": x * scale if flag else x, "n": 3, "none": None, "again": x}

    compiled = Compiled(program)
    x = torch.ones(3)
    got = compiled(x, 2.5, True)
    assert got["n"] == 3 and got["none"] is None and got["again"] is x
    assert got["y"].tolist() == [2.5] * 3


def test_arguments_that_are_written_are_written() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x[0].mul_(3)
        return x + 1

    compiled = Compiled(program)
    x = torch.ones(2, 2)
    assert compiled(x).tolist() == [[4.0, 4.0], [2.0, 2.0]]
    assert x.tolist() == [[3.0, 3.0], [1.0, 1.0]]


def test_a_graph_break_gives_two_graphs_that_work() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    compiled = Compiled(program)
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    assert [ops(c.graph) for c in compiled.captured] == [["mul"], ["add"]]


def test_the_list_of_arguments_is_emptied_before_the_program_runs() -> None:
    left: list[int] = []
    arguments = [torch.ones(2), torch.full((2,), 3.0)]

    def compile(captured: Captured) -> Any:
        def run(tensors: list[torch.Tensor]) -> Any:
            left.append(len(arguments))  # what the caller still holds of its activations
            return call(captured, tensors)

        return run

    captured = from_fx(make_fx(lambda x, y: x + y)(*arguments))
    boxed = dynamo._boxed(captured, compile)
    assert boxed._boxed_call
    assert boxed(arguments)[0].tolist() == [4.0, 4.0]
    assert left == [0]


def test_a_backward_node_is_where_its_forward_operation_is() -> None:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * w * w).sum()

    compiled = Compiled(product)
    compiled(torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)).backward()
    backward = compiled.graphs["backward"]
    muls = [node.site.expression for node in backward.nodes if node.op == "aten.mul.Tensor"]
    assert muls == ["x * w * w", "x * w * w", "x * w", "x * w"]


def branching(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def test_a_higher_order_operation_is_refused_with_its_line() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        Compiled(branching)(torch.ones(3))
    error = caught.value.inner_exception
    assert isinstance(error, CaptureError)
    assert error.what == "the higher-order operation torch.ops.higher_order.cond"
    line = branching.__code__.co_firstlineno + 1
    assert str(error.where).startswith(f"test_dynamo.py:{line}") and str(error.where).endswith(" in branching")
    assert error.what in str(caught.value)


MLP = """\
import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 2)

    def forward(self, x, sigma):
        x = (1 - sigma) * x + sigma
        h = F.dropout(F.gelu(self.up(x)), 0.1)
        return self.down(
            h
        ).square().mean()
"""


def test_the_graphs_of_a_training_step_read_as_the_golden_files_say(tmp_path: Path, golden: Any) -> None:
    path = tmp_path / "mlp.py"
    path.write_text(MLP)
    namespace: dict[str, Any] = {}
    exec(compile(MLP, str(path), "exec"), namespace)
    compiled = Compiled(namespace["Mlp"]().bfloat16())
    compiled(torch.ones(3, 4).bfloat16(), torch.ones(3, 1).bfloat16()).backward()
    for name, graph in compiled.graphs.items():
        assert Graph.parse(str(graph)) == graph
        golden(f"mlp.{name}.graph", str(graph).replace(str(tmp_path), ""))


@pytest.mark.parametrize(
    ("source", "role"),
    [
        ("L['self']._modules['net']._modules['0']._parameters['weight']", ("parameter", "net.0.weight")),
        ("L['self']._buffers['mean']", ("buffer", "mean")),
        ("L['model']._modules['fc']._parameters['bias']", ("parameter", "fc.bias")),
        ("L['batch']['tokens'][0]", ("input", "batch.tokens.0")),
        ("G['scale']", ("input", "scale")),
        ("L['x']", ("input", "x")),
    ],
)
def test_roles_are_read_from_how_the_program_reaches_its_tensors(source: str, role: tuple[str, str]) -> None:
    assert dynamo._role(source) == role
