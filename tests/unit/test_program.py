"""Programs: StableHLO with a way back to the source, saving and loading, compiling and calling."""

from __future__ import annotations

import gc
import json
import re
import threading
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import truecast as tc
from truecast import dtypes
from truecast.errors import TargetError, UsageError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.lowering.program import TARGETS, Program

X, Y = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))


def blend(x: torch.Tensor, y: torch.Tensor, *, scale: float = 2.0) -> dict[str, object]:
    return {"sum": x * scale + y, "pair": (x - y, "text"), "none": None}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return torch.relu(self.fc(x))


def mixed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Has loops, comparators, reducers, outlined functions and shared constants in its StableHLO."""
    probabilities = torch.softmax(x, -1)
    ordered, _ = torch.sort(torch.nn.functional.gelu(probabilities))
    return ordered.cumsum(0), torch.rand_like(x) * 2.0, x * 2.0, torch.full((3,), 2.0)


# --- the way back ---------------------------------------------------------------------------------------------


def test_every_instruction_leads_back_to_its_node_and_line() -> None:
    program = tc.lower(mixed, X)
    assert len(program.instructions) > 100
    assert [i for i in program.instructions if not i.nodes] == []
    lines = {node.site.line for i in program.instructions for node in i.nodes}
    first = mixed.__code__.co_firstlineno
    assert lines == {first + 2, first + 3, first + 4}
    computing = {n.name for i in program.instructions for n in i.nodes}
    idle = {"aten.alias.default", "aten.detach.default"}
    assert {n.name for n in program.graph.nodes if n.op not in idle} <= computing, "and every node has instructions"


def test_the_way_back_is_the_right_one() -> None:
    program = tc.lower(lambda x, y: torch.sin(x) * torch.tanh(y), X, Y)
    ops = {i.operation: {n.op for n in i.nodes} for i in program.instructions}
    assert ops["stablehlo.sine"] == {"aten.sin.default"}
    assert ops["stablehlo.tanh"] == {"aten.tanh.default"}
    assert ops["stablehlo.multiply"] == {"aten.mul.Tensor"}


def test_optimized_hlo_names_its_nodes() -> None:
    program = tc.lower(lambda x, y: torch.sin(x) * y, X, Y)
    names = re.findall(r'op_name="([^"]*/[^"]*)"', program.optimized_hlo)
    assert {node.op for name in names if (node := program.node_of(name))} == {"aten.sin.default", "aten.mul.Tensor"}


def test_a_name_that_is_no_nodes_leads_nowhere() -> None:
    program = tc.lower(torch.sin, X)
    assert program.node_of("") is None
    assert program.node_of("jit(sin)/sin") is None


# --- lowering -------------------------------------------------------------------------------------------------


def test_a_program_prints_what_it_is() -> None:
    assert repr(tc.lower(blend, X, Y, numerics="neuron", target="tpu")) == (
        "<Program 'blend' for tpu under neuron: 3 nodes>"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_any_target_from_this_host(target: str, tmp_path: Path) -> None:
    program = tc.lower(blend, X, Y, target=target)
    assert "stablehlo.add" in program.stablehlo
    program.save(tmp_path / "program")
    assert tc.load(tmp_path / "program").target == target


def test_the_text_names_no_file_and_does_not_depend_on_where_it_was_lowered() -> None:
    def elsewhere() -> Program:
        return tc.lower(blend, X, Y)

    assert elsewhere().stablehlo == tc.lower(blend, X, Y).stablehlo
    assert "loc(" not in elsewhere().stablehlo


def test_an_unread_argument_stays_an_argument() -> None:
    program = tc.lower(lambda x, y: x + 1, X, Y)
    assert "%arg1" in program.stablehlo
    assert torch.equal(program.compile()(X, Y), X + 1)


# --- calling --------------------------------------------------------------------------------------------------


def test_a_call_has_the_programs_own_shape() -> None:
    result = tc.lower(blend, X, Y, scale=3.0).compile()(X, Y, scale=3.0)
    assert list(result) == ["sum", "pair", "none"]
    assert torch.allclose(result["sum"], X * 3 + Y, atol=1e-6)
    assert torch.equal(result["pair"][0], X - Y)
    assert result["pair"][1] == "text" and result["none"] is None


def test_a_graph_is_called_with_its_inputs_in_order() -> None:
    compiled = tc.lower(tc.capture(lambda x, y: (x - y, x), X, Y)).compile()
    difference, same = compiled(X, Y)
    assert torch.equal(difference, X - Y) and torch.equal(same, X)


def test_a_module_keeps_its_weights_and_gets_its_mutations() -> None:
    net = Net()
    compiled = tc.lower(net, X).compile()
    assert net.steps.item() == 0, "lowering runs nothing"
    assert torch.allclose(compiled(X), torch.relu(net.fc(X)), atol=1e-6)
    assert net.steps.item() == 1
    with torch.no_grad():
        net.fc.weight.mul_(2)
    assert torch.allclose(compiled(X), torch.relu(net.fc(X)), atol=1e-5), "an in-place change is seen"
    net.fc.weight.data = torch.zeros(4, 8)
    assert torch.allclose(compiled(X), torch.relu(net.fc(X)), atol=1e-6), "and a change of memory"
    assert net.steps.item() == 3


def test_a_mutated_argument_gets_its_new_contents() -> None:
    def accumulate(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        return total * 2

    compiled = tc.lower(accumulate, torch.zeros(4, 8), X).compile()
    for total in (torch.ones(4, 8), torch.ones(8, 4).t(), torch.ones(40)[1:33].view(4, 8)):
        assert torch.equal(compiled(total, X), (1 + X) * 2)
        assert torch.equal(total, 1 + X)


def test_a_training_step_leaves_gradients_and_steps() -> None:
    torch.manual_seed(0)
    net, twin = nn.Linear(8, 4), nn.Linear(8, 4)
    twin.load_state_dict(net.state_dict())

    def step(model: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    compiled = tc.lower(lambda x: step(net, x), X).compile()
    assert net.weight.grad is None
    assert torch.allclose(compiled(X), step(twin, X))
    for ours, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        assert ours.grad is not None and theirs.grad is not None
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)


def test_results_are_the_callers_own() -> None:
    compiled = tc.lower(lambda x: (x, x + 1, torch.full((3,), 2.0)), X).compile()
    first = compiled(X)
    kept = [t.clone() for t in first]
    for tensor in first:
        tensor.zero_()
    assert all(torch.equal(a, b) for a, b in zip(compiled(X), kept, strict=True))
    assert X.abs().sum() > 0, "a result that is an argument is a copy of it"


def test_an_argument_changed_after_the_call_does_not_change_its_result() -> None:
    """Execution is asynchronous, and arguments share the tensor's memory: the call must wait."""
    big = torch.ones(512, 512)
    compiled = tc.lower(lambda x: (x @ x) @ (x @ x), big).compile()
    for _ in range(5):
        big.fill_(1.0)
        result = compiled(big)
        big.fill_(float("nan"))
        assert result.isfinite().all()


def test_the_last_calls_arguments_are_not_kept() -> None:
    compiled = tc.lower(lambda x, y: x + y, X, Y).compile()
    x = torch.randn(4, 8)
    for _ in range(3):
        compiled(x, x)
    gc.collect()
    freed = threading.Event()
    import weakref

    weakref.finalize(x, freed.set)
    del x
    gc.collect()
    assert freed.is_set()
    assert all(slot.kept is None for slot in compiled._slots), "what was shared with it is let go at once"


def test_threads_may_call_at_once() -> None:
    compiled = tc.lower(lambda x, y: x * 2 + y, X, Y).compile()
    wrong: list[int] = []

    def work(seed: int) -> None:
        x, y = torch.full((4, 8), float(seed)), torch.full((4, 8), float(-seed))
        for _ in range(200):
            if not torch.equal(compiled(x, y), x * 2 + y):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_random_bits_follow_torchs_seed() -> None:
    compiled = tc.lower(torch.rand_like, X).compile()
    torch.manual_seed(5)
    first, second = compiled(X), compiled(X)
    torch.manual_seed(5)
    assert torch.equal(compiled(X), first)
    assert not torch.equal(first, second)


def test_an_undefined_output_is_none() -> None:
    value, out = Value("x", dtypes.float32, (4,)), Value("y", dtypes.float32, (4,))
    node = Node("aten.mul.Tensor", (value, value), (), (out,))
    graph = Graph("holes", (Input(value),), (node,), (Output(None), Output(out), Output(None))).verify()
    first, squared, last = tc.lower(graph).compile()(torch.full((4,), 3.0))
    assert first is None and last is None
    assert squared.tolist() == [9.0] * 4


def test_a_donated_input_is_overwritten_in_place() -> None:
    graph = tc.capture(lambda x, y: x + y, X, Y)
    name = graph.inputs[0].value.name
    executable = tc.lower(graph).compile(donate=(name,)).executable
    import jax.numpy as jnp

    x, y = jnp.ones((4, 8)), jnp.ones((4, 8))
    pointer = x.unsafe_buffer_pointer()
    (total,) = executable.loaded.execute([x, y])
    assert total.unsafe_buffer_pointer() == pointer and x.is_deleted()


def test_a_donated_torch_tensor_keeps_its_contents() -> None:
    graph = tc.capture(lambda x, y: x + y, X, Y)
    compiled = tc.lower(graph).compile(donate=(graph.inputs[0].value.name,))
    x, before = X.clone(), X.clone()
    for _ in range(3):
        assert torch.equal(compiled(x, Y)[0], X + Y)
    assert torch.equal(x, before)


def test_an_input_that_is_not_there_can_not_be_donated() -> None:
    with pytest.raises(UsageError) as caught:
        tc.lower(blend, X, Y).compile(donate=("z",))
    assert str(caught.value) == "there is no input 'z' to donate\n  help: the inputs are x, y"


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda c: c(X.double(), Y),
            "the compiled program 'blend' got a wrong tensor for input 'x'\n"
            "  values: expected float32[4,8], got float64[4,8]\n"
            "  why: a compiled program has fixed dtypes and shapes\n"
            "  help: convert the argument, or lower the program again with arguments like this one",
        ),
        (
            lambda c: c(X, Y[:2]),
            "the compiled program 'blend' got a wrong tensor for input 'y'\n"
            "  values: expected float32[4,8], got float32[2,8]\n"
            "  why: a compiled program has fixed dtypes and shapes\n"
            "  help: convert the argument, or lower the program again with arguments like this one",
        ),
        (
            lambda c: c(X, 3),
            "the compiled program 'blend' got a wrong tensor for input 'y'\n"
            "  values: expected float32[4,8], got 3, which is no tensor\n"
            "  why: a compiled program has fixed dtypes and shapes\n"
            "  help: convert the argument, or lower the program again with arguments like this one",
        ),
        (
            lambda c: c(X),
            "the compiled program 'blend' was called with other arguments than it was lowered with\n"
            "  values: expected (*, *)\n"
            "     got (*)\n"
            "  why: a compiled program has one structure of arguments\n"
            "  help: call it as it was lowered, or lower it again with these arguments",
        ),
    ],
    ids=["dtype", "shape", "number", "count"],
)
def test_wrong_arguments_are_named(call: object, message: str) -> None:
    compiled = tc.lower(blend, X, Y).compile()
    with pytest.raises(UsageError) as caught:
        call(compiled)  # type: ignore[operator]
    assert str(caught.value) == message


@pytest.mark.parametrize("scale", [2.0, 3, True, None])
def test_a_baked_number_is_part_of_the_program(scale: object) -> None:
    compiled = tc.lower(blend, X, Y, scale=3.0).compile()
    with pytest.raises(UsageError) as caught:
        compiled(X, Y, scale=scale)
    assert str(caught.value) == (
        "the compiled program 'blend' was lowered with another value of argument scale\n"
        f"  values: lowered with 3.0, got {scale!r}\n"
        "  why: an argument that is no tensor is part of the compiled program\n"
        "  help: lower it again with this value, or pass it as a 0-dim tensor"
    )


def test_a_missing_device_is_a_target_error() -> None:
    with pytest.raises(TargetError) as caught:
        tc.lower(blend, X, Y, target="neuron").compile()
    assert str(caught.value) == (
        "there is no neuron device here\n"
        "  values: devices found: cpu\n"
        "  why: Unknown backend neuron. Available backends are ['cpu']\n"
        "  help: pip install libneuronxla on a Trainium machine; "
        "a program can be lowered and saved for neuron from any machine"
    )


def test_fake_weights_can_be_lowered_but_not_run() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net, x = nn.Linear(8, 4), torch.randn(4, 8)
    program = tc.lower(net, x)
    assert "stablehlo.dot_general" in program.stablehlo
    assert "dot" in program.optimized_hlo
    with pytest.raises(UsageError, match="a fake tensor has no contents to compute with"):
        program.compile()


# --- saving ---------------------------------------------------------------------------------------------------


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    net, path = Net(), tmp_path / "net.tc"
    program = tc.lower(net, X, numerics="tpu")
    program.save(path)
    loaded = tc.load(path)
    assert loaded.graph == program.graph
    assert loaded.plan.numerics == program.plan.numerics
    assert loaded.stablehlo == program.stablehlo
    assert loaded.fingerprint == program.fingerprint
    assert [node.site for node in loaded.graph.nodes] == [node.site for node in program.graph.nodes]
    compiled = loaded.compile()
    assert torch.equal(compiled(X), program.compile()(X))
    assert net.steps.item() == 1, "the loaded program has weights and buffers of its own"
    compiled(X)
    assert {e.path: compiled._calling.bound[e.value.name] for e in loaded.graph.inputs if e.kind == "buffer"}[
        "steps"
    ].item() == 2


def test_a_loaded_program_runs_as_it_was_saved_and_can_be_saved_again(tmp_path: Path) -> None:
    tc.lower(blend, X, Y, scale=3.0).save(tmp_path / "one")
    tc.load(tmp_path / "one").save(tmp_path / "two")
    result = tc.load(tmp_path / "two").compile()(X, Y, scale=3.0)
    assert torch.allclose(result["sum"], X * 3 + Y, atol=1e-6) and result["pair"][1] == "text"


def test_weights_can_be_replaced(tmp_path: Path) -> None:
    net, path = nn.Linear(8, 4), tmp_path / "net.tc"
    tc.lower(net, X).save(path)
    weight = torch.zeros(4, 8)
    result = tc.load(path, {"weight": weight}).compile()(X)
    assert torch.allclose(result, net.bias.expand(4, 4))
    with pytest.raises(UsageError) as caught:
        tc.load(path, {"weights": weight})
    assert str(caught.value) == ("the saved program has no parameter or buffer 'weights'\n  help: it has bias, weight")
    with pytest.raises(UsageError) as caught:
        tc.load(path, {"weight": weight.half()})
    assert str(caught.value) == (
        "the weight 'weight' does not fit the saved program\n  values: expected float32[4,8], got float16[4,8]"
    )


def test_a_program_without_weights_is_saved_and_needs_them(tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net, x = nn.Linear(8, 4), torch.randn(4, 8)
    tc.lower(net, x).save(tmp_path / "net.tc")
    with pytest.raises(UsageError) as caught:
        tc.load(tmp_path / "net.tc").compile()
    assert str(caught.value) == (
        "the program has no tensor for parameter 'weight'\n  help: compile it with the weights it was lowered with"
    )
    weights = {"weight": torch.ones(4, 8), "bias": torch.zeros(4)}
    assert torch.allclose(tc.load(tmp_path / "net.tc", weights).compile()(X), X.sum(1, keepdim=True).expand(4, 4))


DAMAGED = (
    "can't load the program: the file is damaged, or not a saved program\n"
    "  --> {path}\n  why: {why}\n  help: save it again"
)
NOT_ONE = "it is no file that Program.save wrote, or not all of one"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "program.tc"
    tc.lower(blend, X, Y).save(path)
    return path


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        tc.load(tmp_path / "no.tc")
    assert str(caught.value) == (
        f"can't load the program\n  --> {tmp_path / 'no.tc'}\n  why: No such file or directory"
    )


@pytest.mark.parametrize("keep", [0, 1, 100, 1000, -1])
def test_a_truncated_file(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(UsageError) as caught:
        tc.load(saved)
    assert str(caught.value) == DAMAGED.format(path=saved, why=NOT_ONE)


def test_a_foreign_file(saved: Path) -> None:
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("manifest.json", "[1, 2]")
    with pytest.raises(UsageError) as caught:
        tc.load(saved)
    assert str(caught.value) == DAMAGED.format(path=saved, why=NOT_ONE)


def rewrite(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)


@pytest.mark.parametrize("name", ["graph.txt", "numerics.toml", "program.jax", "program.stablehlo", "plan.txt"])
def test_a_replaced_member(saved: Path, name: str) -> None:
    rewrite(saved, name, b"something else")
    with pytest.raises(UsageError) as caught:
        tc.load(saved)
    assert str(caught.value) == DAMAGED.format(path=saved, why=f"{name} is not what was saved")


def test_another_format(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    rewrite(saved, "manifest.json", json.dumps({**manifest, "format": 99}).encode())
    with pytest.raises(UsageError, match="another version of truecast saved it"):
        tc.load(saved)


def test_every_flipped_byte_is_noticed_or_harmless(saved: Path) -> None:
    """Each of 60 places in the file: loading says that it is damaged, or nothing that counts was there."""
    whole, good = saved.read_bytes(), tc.load(saved)
    for position in range(0, len(whole), max(1, len(whole) // 60)):
        content = bytearray(whole)
        content[position] ^= 0xFF
        saved.write_bytes(content)
        try:
            loaded = tc.load(saved)
        except UsageError:
            continue
        assert (loaded.graph, loaded.stablehlo, loaded.fingerprint) == (good.graph, good.stablehlo, good.fingerprint)


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(UsageError) as caught:
        tc.lower(blend, X, Y).save(saved)
    assert str(caught.value) == f"can't save the program\n  --> {saved}\n  why: No space left on device"
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_what_is_no_literal_can_not_be_saved(tmp_path: Path) -> None:
    program = tc.lower(lambda x, dtype: x.to(dtype), X, torch.float16)
    with pytest.raises(UsageError) as caught:
        program.save(tmp_path / "program")
    assert str(caught.value) == (
        "can't save the program: argument 1 is a dtype\n"
        "  why: a saved program keeps numbers, strings and None beside tensors"
    )
    assert list(tmp_path.iterdir()) == []


class Pair:
    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second


def test_a_class_without_a_name_can_not_be_saved_but_runs(tmp_path: Path) -> None:
    from torch.utils import _pytree as pytree

    if Pair not in pytree.SUPPORTED_NODES:
        pytree.register_pytree_node(Pair, lambda p: ([p.first, p.second], None), lambda leaves, _: Pair(*leaves))
    program = tc.lower(lambda x: Pair(x + 1, x * 2), X)
    result = program.compile()(X)
    assert isinstance(result, Pair) and torch.equal(result.second, X * 2)
    with pytest.raises(UsageError, match="the class of its result has no name to save it under"):
        program.save(tmp_path / "program")
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_is_no_literal_can_not_be_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        tc.lower(lambda x: (x, 2j), X).save(tmp_path / "program")
    assert str(caught.value).startswith("can't save the program: result 1 is a complex")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("members", value) for value in ([], {}, None)),
        *(("weights", value) for value in (3, None, ["zz"])),
        *(("calling", value) for value in (None, {}, "x")),
        ("format", None),
        ("fingerprint", "gone"),
    ],
)
def test_a_manifest_that_lies(saved: Path, key: str, value: object) -> None:
    """The digests can be right, and a member or an entry another: never an error of Python's own."""
    with zipfile.ZipFile(saved) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest[key] = value
    if value == "gone":
        del manifest[key]
    rewrite(saved, "manifest.json", json.dumps(manifest).encode())
    with pytest.raises(UsageError, match=r"^can't load the program: "):
        tc.load(saved)


@pytest.mark.parametrize("change", [{"results": [99]}, {"arguments": ["zz"]}, {"in_spec": "[99]"}])
def test_a_calling_convention_of_another_program(saved: Path, change: dict[str, object]) -> None:
    with zipfile.ZipFile(saved) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["calling"].update(change)
    rewrite(saved, "manifest.json", json.dumps(manifest).encode())
    with pytest.raises(UsageError, match=r"^can't load the program: "):
        tc.load(saved)


def test_what_no_digest_answers_for_is_not_unpacked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip can hold a member of any size in a few bytes."""
    rewrite(saved, "bomb", b"0")
    unpacked: list[str] = []
    read = zipfile.ZipFile.read

    def noted(self: zipfile.ZipFile, name: str) -> bytes:
        unpacked.append(name)
        return read(self, name)

    monkeypatch.setattr(zipfile.ZipFile, "read", noted)
    tc.load(saved)
    assert "manifest.json" in unpacked
    assert "bomb" not in unpacked
