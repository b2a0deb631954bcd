"""Programs recorded as Graphs compute what they compute, say where each operation is, and are left as they were."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from tests.interpret import call
from truecast.capture.captured import Captured
from truecast.capture.recorder import recording, trace
from truecast.errors import CaptureError, UnsupportedError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x)).relu()
        for block in self.blocks:
            x = block(x)
        return x


def tensors_of(*arguments: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


def mutations(captured: Captured, outputs: list[Any]) -> dict[str, torch.Tensor]:
    paths = {i.value.name: i.path for i in captured.graph.inputs}
    pairs = zip(captured.graph.outputs, outputs, strict=True)
    return {paths[o.target]: t for o, t in pairs if o.kind == "mutation"}


def check(program: Callable[..., Any], *args: Any, **kwargs: Any) -> Captured:
    """Records the program, runs the Graph, and compares with the program itself."""
    captured = trace(program, args, kwargs)
    outputs = call(captured, tensors_of(args, kwargs))
    expected = pytree.tree_leaves(program(*args, **kwargs))
    for result, want in zip(captured.results, expected, strict=True):
        if isinstance(result, int):
            torch.testing.assert_close(outputs[result], want.detach())
        else:
            assert result == ("constant", want)
    return captured


# -- what is recorded ------------------------------------------------------------------------------------------


def test_a_module_has_its_parameters_buffers_and_argument_as_inputs() -> None:
    captured = trace(Net(), (torch.randn(5, 4),))
    inputs = {i.path: (i.kind, i.value.name, str(i.value)) for i in captured.graph.inputs}
    assert inputs["first.weight"] == ("parameter", "first_weight", "float32[8,4]")
    assert inputs["norm.running_mean"] == ("buffer", "norm_running_mean", "float32[8]")
    assert inputs["x"] == ("input", "x", "float32[5,4]")
    kinds = [i.kind for i in captured.graph.inputs]
    assert kinds == sorted(kinds, key=["parameter", "buffer", "constant", "scalar", "input"].index)
    assert set(captured.bound) == {i.value.name for i in captured.graph.inputs if i.kind != "input"}
    assert captured.arguments == ("x",) and captured.results == (0,)


def test_batch_norm_writes_its_statistics_as_mutations() -> None:
    model, x = Net(), torch.randn(5, 4)
    captured = trace(model, (x,))
    written = mutations(captured, call(captured, [x]))
    model(x)
    assert set(written) == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    for path, tensor in written.items():
        torch.testing.assert_close(tensor, model.get_buffer(path))
    model.eval()
    assert mutations(check(model, x), call(trace(model, (x,)), [x])) == {}


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: torch.autograd.grad((x @ w).sin().sum(), [x, w]),
        lambda x, w: torch.func.grad(lambda v: (x @ v).tanh().sum())(w),
        lambda x, w: torch.func.vmap(lambda row: row @ w)(x),
        lambda x, w: torch.autograd.grad(torch.autograd.grad((x @ w).pow(3).sum(), w, create_graph=True)[0].sum(), x),
        lambda x, w: torch.func.jvp(lambda v: (v @ w).exp(), (x,), (torch.ones_like(x),)),
    ],
)
def test_derivatives_inside_the_program_are_part_of_its_graph(program: Callable[..., Any]) -> None:
    check(program, torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True))


def test_what_backward_leaves_in_grad_is_a_result_with_the_parameters_name() -> None:
    model, x = Net(), torch.randn(5, 4, requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    captured = trace(step, (x,))
    outputs = call(captured, [x])
    assert all(p.grad is None for p in model.parameters()) and x.grad is None
    step(x)
    assert set(captured.gradients) == {"x", *(n for n, _ in model.named_parameters())}
    for path, index in captured.gradients.items():
        want = x.grad if path == "x" else model.get_parameter(path).grad
        torch.testing.assert_close(outputs[index], want)


def test_a_gradient_that_is_added_to_is_a_buffer_and_a_mutation() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 3)
    layer(x).sum().backward()
    before = layer.weight.grad

    def step(x: torch.Tensor) -> None:
        layer(x).square().sum().backward()

    captured = trace(step, (x,))
    assert layer.weight.grad is before and captured.gradients == {}
    written = mutations(captured, call(captured, [x]))
    step(x)
    torch.testing.assert_close(written["weight.grad"], layer.weight.grad)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    ],
)
def test_a_training_step_with_its_optimizer(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    def make(model: nn.Module) -> tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]:
        rule = optimizer(model.parameters())

        def step(x: torch.Tensor) -> torch.Tensor:
            rule.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            rule.step()
            return loss

        return model, step

    layer = nn.Linear(4, 3)
    (_, recorded), (twin, really) = make(copy.deepcopy(layer)), make(layer)
    x = torch.randn(5, 4)
    for _ in range(2):  # the state is new in the first step, and there in the second
        captured = trace(recorded, (x,))
        written = mutations(captured, call(captured, [x]))
        really(x)
        recorded(x)
        for path, parameter in twin.named_parameters():
            torch.testing.assert_close(written[path], parameter.detach())
    assert any(path.startswith("weight.") for path in written)
    assert {n.site.phase for n in captured.graph.nodes} == {"forward", "backward", "optimizer"}


def test_numbers_are_baked_in_and_results_keep_their_structure() -> None:
    def program(x: torch.Tensor, scale: float, *, mask: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {"y": x * scale, "n": 3, "pair": (mask["m"] + 1, None)}

    captured = check(program, torch.ones(2), 2.5, mask={"m": torch.zeros(2)})
    assert [i.path for i in captured.graph.inputs] == ["x", "mask['m']"]
    assert captured.arguments == ("x", None, "mask__m")
    assert captured.results == (0, ("constant", 3), 1, ("constant", None))


def test_tensors_from_outside_are_constants_and_numbers_made_inside_are_literals() -> None:
    table = torch.arange(4.0)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * table + torch.tensor(2.0) + torch.tensor([1.0, 2.0, 3.0, 4.0])

    captured = check(program, torch.randn(4))
    constants = {i.value.name: captured.bound[i.value.name] for i in captured.graph.inputs if i.kind == "constant"}
    assert sorted(t.tolist() for t in constants.values()) == [[0, 1, 2, 3], [1, 2, 3, 4]]
    assert [n.args for n in captured.graph.nodes if n.op == "aten.full.default"] == [((), 2.0)]


def test_a_buffer_that_is_replaced_is_a_mutation() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = x
            self.mean = 0.9 * self.mean + 0.1 * x
            return self.mean * 2

    module, x = Mean(), torch.ones(3)
    before = module.mean
    captured = trace(module, (x,))
    assert module.mean is before and module.calls == 0 and not hasattr(module, "last")
    torch.testing.assert_close(mutations(captured, call(captured, [x]))["mean"], torch.full((3,), 0.1))


def test_real_and_fake_recording_give_one_graph() -> None:
    model, x = Net(), torch.randn(5, 4)
    fake, real = trace(model, (x,)), trace(copy.deepcopy(model), (x,), fake=False)
    assert str(fake.graph) == str(real.graph)


def test_a_model_made_of_fake_tensors_needs_no_memory() -> None:
    with FakeTensorMode():
        model, x = nn.Linear(100_000, 100_000), torch.empty(2, 100_000)
    captured = trace(model, (x,))
    assert [n.op for n in captured.graph.nodes] == ["aten.t.default", "aten.addmm.default"]


def test_operations_that_autograd_would_split_are_split_in_inference_mode_too() -> None:
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.inference_mode():
        captured = trace(lambda x: layer(x).reshape(-1), (x,))
    assert [n.op for n in captured.graph.nodes] == ["aten.t.default", "aten.addmm.default", "aten.view.default"]


def test_autocast_shows_as_casts() -> None:
    layer = nn.Linear(4, 3)

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x)

    captured = check(program, torch.randn(2, 4))
    assert [n.op for n in captured.graph.nodes].count("aten._to_copy.default") == 3


def test_recurrent_layers_are_recorded_as_their_arithmetic() -> None:
    layer = nn.LSTM(3, 4)
    captured = check(lambda x: layer(x)[0], torch.randn(5, 2, 3))
    assert not any("mkldnn" in n.op for n in captured.graph.nodes)


def test_random_operations_draw_what_eager_draws() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        noise = torch.empty_like(x).uniform_(-1, 1).add_(torch.randn(4))
        return F.dropout(x, 0.5), noise, torch.bernoulli(x), F.dropout1d(x, 0.5)

    x = torch.rand(8, 4)
    captured = trace(program, (x,))
    torch.manual_seed(7)
    got = call(captured, [x])
    torch.manual_seed(7)
    for index, want in zip(captured.results, program(x), strict=True):
        torch.testing.assert_close(got[index], want, rtol=0, atol=0)


def test_grouped_products_of_any_floating_dtype() -> None:
    offsets = torch.tensor([8, 16], dtype=torch.int32)
    check(lambda a, b: F.grouped_mm(a, b, offs=offsets), torch.randn(16, 8), torch.randn(2, 8, 16))


def test_a_parameter_passed_as_argument_is_an_input() -> None:
    weight, x = nn.Parameter(torch.randn(3)), torch.randn(3)

    def program(w: torch.Tensor, x: torch.Tensor) -> None:
        (w * x).sum().backward()

    captured = trace(program, (weight, x))
    assert [(i.kind, i.path) for i in captured.graph.inputs] == [("input", "w"), ("input", "x")]
    assert weight.grad is None
    torch.testing.assert_close(call(captured, [weight.detach(), x])[captured.gradients["w"]], x)


def test_one_tensor_passed_twice_is_two_inputs() -> None:
    x = torch.randn(3)
    captured = trace(lambda a, b: a - b, (x, x))
    assert captured.arguments == ("a", "b")
    torch.testing.assert_close(call(captured, [x, x + 1])[0], torch.full((3,), -1.0))


def test_compiled_code_is_recorded_as_the_operations_it_runs() -> None:
    compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
    with recording() as tape:
        compiled(torch.ones(3))
    assert [n.op for n in tape.graph.nodes][-2:] == ["aten.sin.default", "aten.add.Tensor"]


def test_recordings_nest() -> None:
    with recording() as outer:
        x = torch.ones(3)
        with recording() as inner:
            x.mul_(2)
    assert [n.op for n in inner.graph.nodes] == ["aten.mul.Tensor"]
    assert [n.op for n in outer.graph.nodes] == ["aten.ones.default", "aten.mul.Tensor"]


def test_a_long_program_is_recorded_without_recursion() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(4, 3)
        for i in range(sys.getrecursionlimit()):
            y[i % 4] = x
        return y

    with torch.no_grad():
        captured = trace(program, (torch.ones(3),))
    assert len(captured.graph.nodes) > sys.getrecursionlimit()


# -- where it is ------------------------------------------------------------------------------------------------


def test_each_operation_has_its_expression_module_and_phase() -> None:
    model, x = Net(), torch.randn(5, 4)
    target = torch.randn(5, 3)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x) * 2, target)
        loss.backward()
        return loss

    graph = trace(step, (x,)).graph
    found = {(n.op.split(".")[1], n.site.phase, n.site.expression, n.site.module) for n in graph.nodes}
    assert ("addmm", "forward", "self.first(x)", "first") in found
    assert ("mm", "backward", "self.first(x)", "first") in found
    assert ("relu", "forward", "self.norm(self.first(x)).relu()", "") in found
    assert ("threshold_backward", "backward", "self.norm(self.first(x)).relu()", "") in found
    assert ("addmm", "forward", "block(x)", "blocks.1") in found
    assert ("mul", "forward", "model(x) * 2", "") in found
    assert ("mul", "backward", "model(x) * 2", "") in found
    assert ("mse_loss_backward", "backward", "F.mse_loss(model(x) * 2, target)", "") in found


def test_a_custom_backward_has_its_own_lines() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient + gradient

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(Double.apply(x).sum(), x)[0]

    graph = trace(program, (torch.ones(3, requires_grad=True),)).graph
    (node,) = [n for n in graph.nodes if n.op == "aten.add.Tensor"]
    assert (node.site.expression, node.site.phase) == ("gradient + gradient", "backward")


def test_a_recomputed_forward_counts_as_backward() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(3, 3)

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(checkpoint(lambda v: layer(v).exp(), x, use_reentrant=False).sum(), x)[0]

    graph = trace(program, (torch.ones(2, 3, requires_grad=True),)).graph
    phases = [n.site.phase for n in graph.nodes if n.op == "aten.exp.default"]
    assert phases == ["forward", "backward"]


# -- a block of a script ----------------------------------------------------------------------------------------


def test_a_block_is_recorded_while_it_really_runs() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, before = torch.randn(4, 3), model.weight.detach().clone()
    with recording() as tape:
        for _ in range(2):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        inside = len(tape.graph.nodes)
    graph = tape.graph.verify()
    assert not torch.equal(model.weight, before)
    assert len(graph.nodes) == inside
    assert [(i.kind, i.path) for i in graph.inputs] == [
        ("parameter", "weight"),
        ("parameter", "bias"),
        ("input", "input"),
    ]
    assert {o.target for o in graph.outputs if o.kind == "mutation"} == {"weight", "bias"}
    assert any(o.value is not None and o.value.name.startswith("mean") for o in graph.outputs if o.kind == "result")
    model(x)
    assert len(tape.graph.nodes) == inside


def test_a_block_keeps_no_batch_alive() -> None:
    layer, batches = nn.Linear(3, 2), []
    with recording() as tape, torch.no_grad():
        for _ in range(3):
            x = torch.from_numpy(numpy.ones((4, 3), dtype=numpy.float32))
            batches.append(weakref.ref(x))
            layer(x)
        del x
        assert [b() for b in batches] == [None] * 3
    assert [i.path for i in tape.graph.inputs if i.kind == "input"] == ["input", "input_2", "input_3"]


def test_a_block_says_where_contents_were_read_and_splits_lists() -> None:
    with recording() as tape:
        x, y = torch._foreach_add([torch.ones(2), torch.ones(3)], 1)
        if x.sum() > y.sum().item():
            raise AssertionError
    assert [s.expression for s in tape.reads] == ["y.sum().item()", "x.sum() > y.sum().item()"]
    assert [n.op for n in tape.graph.nodes if "foreach" in n.op] == []


def test_two_models_in_a_block_have_names_of_their_own() -> None:
    teacher, student = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
    with recording() as tape:
        teacher(torch.ones(1, 2)) - student(torch.ones(1, 2))
    paths = [i.path for i in tape.graph.inputs if i.kind == "parameter"]
    assert paths == ["0.weight", "0.bias", "Sequential.0.weight", "Sequential.0.bias"]


def test_an_operation_that_fails_in_a_block_names_its_line() -> None:
    with pytest.raises(RuntimeError) as caught, recording():
        torch.ones(2, 3) @ torch.ones(2, 3)
    (note,) = caught.value.__notes__
    assert note.startswith(f"at {__file__}:") and note.endswith(": torch.ones(2, 3) @ torch.ones(2, 3)")


def test_a_block_may_be_left_by_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), recording() as tape:
        torch.ones(2) + 1
        raise ZeroDivisionError
    assert [n.op for n in tape.graph.nodes] == ["aten.ones.default", "aten.add.Tensor"]


# -- dtype contracts --------------------------------------------------------------------------------------------


def mixed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (4,)) @ weight


def test_a_broken_contract_raises_what_pytorch_raises() -> None:
    x, weight = torch.randn(2, 4), torch.randn(4, 3).bfloat16()
    with pytest.raises(RuntimeError) as eager:
        mixed(x, weight)
    with pytest.raises(RuntimeError) as caught:
        trace(mixed, (x, weight))
    assert (type(caught.value), str(caught.value)) == (type(eager.value), str(eager.value))
    assert caught.value.__notes__[0].endswith(": F.layer_norm(x, (4,)) @ weight")


def test_a_broken_contract_is_typed_as_after_a_cast_or_kept_on_demand() -> None:
    x, weight = torch.randn(2, 4), torch.randn(4, 3).bfloat16()
    cast = trace(mixed, (x, weight), on_violation="cast").graph
    kept = trace(mixed, (x, weight), on_violation="keep").graph
    for graph, result in ((cast, "bfloat16"), (kept, "float32")):
        (node,) = [n for n in graph.nodes if n.op == "aten.mm.default"]
        assert len(graph.nodes) == 2, "the casts are the Plan's to show, not the Graph's"
        assert [v.dtype.name for v in node.inputs] == ["float32", "bfloat16"]
        assert [v.dtype.name for v in node.outputs if v] == [result]


@pytest.mark.parametrize(
    ("program", "shapes", "op"),
    [
        (lambda x, w, b: F.conv2d(x, w, b), [(1, 3, 8, 8), (4, 3, 3, 3), (4,)], "convolution"),
        (lambda x, w, b: F.linear(x, w, b), [(2, 3), (4, 3), (4,)], "addmm"),
        (lambda x, w, b: F.layer_norm(x, (3,), w, b), [(2, 3), (3,), (3,)], "native_layer_norm"),
        (lambda x, w, b: torch.baddbmm(b, x, w), [(2, 3, 4), (2, 4, 5), (2, 3, 5)], "baddbmm"),
    ],
)
def test_what_an_operation_returns_follows_the_weight_where_demands_share_an_operand(
    program: Any, shapes: Any, op: str
) -> None:
    x, weight, bias = (torch.randn(shape) for shape in shapes)
    graph = trace(program, (x.double(), weight.bfloat16(), bias.double()), on_violation="cast").graph
    (node,) = [n for n in graph.nodes if n.op == f"aten.{op}.default"]
    assert sorted(v.dtype.name for v in node.inputs) == ["bfloat16", "float64", "float64"]
    assert node.outputs[0] is not None and node.outputs[0].dtype.name == "bfloat16"
    assert not [n for n in graph.nodes if n.op == "aten._to_copy.default"]


# -- what can't be recorded -------------------------------------------------------------------------------------


def branch(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x
    return -x


def test_a_branch_on_data_is_one_error_with_its_line() -> None:
    line = branch.__code__.co_firstlineno + 1
    with pytest.raises(CaptureError) as caught:
        trace(branch, (torch.ones(2),))
    assert str(caught.value) == (
        "branch asks for the contents of a tensor\n"
        f"  --> test_recorder.py:{line}:8\n"
        "  values: aten._local_scalar_dense.default\n"
        "  why: it is recorded without data, so that one Graph serves all inputs; a branch, a Python number or a shape "
        "that depends on the data has no place in it\n"
        "  help: choose with torch.where, keep the number as a tensor, or mask to a fixed shape; "
        "for an optimizer's step count, fused=True (or capturable=True)"
    )


def test_a_shape_that_depends_on_data_is_an_error() -> None:
    with pytest.raises(CaptureError, match=r"asks for the contents of a tensor\n  --> test_recorder.py:\d+:\d+"):
        trace(lambda x: x[x > 0], (torch.ones(2),))


def test_a_size_that_is_a_symbol_is_an_error() -> None:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv())
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    x = mode.from_tensor(torch.randn(4, 3), symbolic_context=dynamic)
    with pytest.raises(CaptureError) as caught:
        trace(lambda x: x + 1, (x,))
    assert caught.value.what == "a size that is not known while recording"
    assert caught.value.values is not None and caught.value.values.startswith("a tensor of shape [s")


def test_an_object_as_result_is_an_error() -> None:
    class Answer:
        pass

    with pytest.raises(CaptureError) as caught:
        trace(lambda x: Answer(), (torch.ones(2),))
    assert str(caught.value) == (
        "<lambda> returns a Answer\n"
        "  why: a result is a tensor, a number, a string, or a nest of lists, tuples and dicts of them\n"
        "  help: return the tensors in it (for a transformers model: use_cache=False), or register the class with "
        "torch.utils._pytree.register_pytree_node"
    )


def test_a_sparse_tensor_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match=r"a result of layout torch\.sparse_coo"):
        trace(lambda x: x.to_sparse(), (torch.ones(2),))


def test_a_sparse_tensor_is_refused_as_an_operand_and_may_be_detached() -> None:
    sparse, dense = torch.eye(3).to_sparse().requires_grad_(), torch.randn(3, 2)
    with recording() as tape:
        sparse.detach()  # what saving it for backward does, where an exception would end the process
    assert tape.graph.nodes == ()
    with pytest.raises(UnsupportedError, match=r"a tensor of layout torch\.sparse_coo"), recording():
        torch.sparse.mm(sparse, dense)


def test_a_higher_order_operation_is_an_error() -> None:
    with pytest.raises(CaptureError) as caught:
        trace(lambda x: torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)), (torch.ones(2),))
    assert caught.value.what.endswith("takes functions as arguments")


def test_nothing_fake_is_left_behind_after_an_error() -> None:
    model = Net()

    def step(x: torch.Tensor) -> float:
        model(x).sum().backward()
        return float(model.first.weight.grad.sum())  # type: ignore[union-attr]

    before = {n: t.clone() for n, t in model.state_dict().items()}
    with pytest.raises(CaptureError):
        trace(step, (torch.randn(5, 4),))
    assert all(p.grad is None for p in model.parameters())
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
