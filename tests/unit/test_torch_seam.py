"""Each private interface of PyTorch that the recorder rests on does what the seam says it does."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from truecast.capture import torch_backend, torch_export, torch_fake, torch_seam


def test_the_version_is_one_that_the_seam_was_written_for() -> None:
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    assert (2, 13) <= (major, minor) < (2, 15)


def test_a_backward_node_carries_the_number_drawn_by_its_forward_operation() -> None:
    drawn: dict[str, int] = {}
    ran: dict[str, int] = {}

    class Watch(torch_seam.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            node = torch_seam.current_autograd_node()
            if node is None:
                drawn.setdefault(func._opname, torch_seam.next_sequence_number() - 1)
            else:
                ran.setdefault(node.name(), node._sequence_nr())
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, requires_grad=True)
    with Watch():
        x.exp().sin().sum().backward()
    assert ran["SinBackward0"] == drawn["sin"] and ran["ExpBackward0"] == drawn["exp"]
    assert drawn["exp"] < drawn["sin"]
    assert torch_seam.current_autograd_node() is None


def test_a_held_storage_key_is_not_used_again() -> None:
    keys, held = set(), []
    for _ in range(200):
        tensor = torch.ones(3)
        key, reference = torch_seam.hold_storage(tensor)
        assert key == torch_seam.storage_key(tensor) == torch_seam.storage_key(tensor.view(3, 1))
        keys.add(key)
        held.append(reference)
        del tensor
    assert len(keys) == 200
    torch_seam.release_storages(held)


def test_holding_a_storage_does_not_keep_its_memory() -> None:
    class Counted(torch.Tensor):
        pass

    tensor = torch.ones(1_000_000).as_subclass(Counted)
    _, held = torch_seam.hold_storage(tensor)
    assert not torch.UntypedStorage._expired(held)
    del tensor
    gc.collect()
    assert torch.UntypedStorage._expired(held)
    torch_seam.release_storages([held])


def test_composites_are_told_from_operations() -> None:
    assert torch_seam.is_implicit_composite(torch.ops.aten.linear.default)
    assert not torch_seam.is_implicit_composite(torch.ops.aten.mm.default)
    assert torch_seam.is_overload(torch.ops.aten.mm.default)
    assert not torch_seam.is_overload(torch.ops.higher_order.cond)


def test_plain_classes_are_told_from_those_with_their_own_dispatch() -> None:
    class Renamed(torch.Tensor):
        pass

    assert torch_seam.is_plain_tensor_class(nn.Parameter)
    assert torch_seam.is_plain_tensor_class(Renamed)
    assert not torch_seam.is_plain_tensor_class(FakeTensor)


def test_hooks_surround_every_forward_and_step_and_are_removed() -> None:
    seen: list[str] = []
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with (
        torch_seam.module_hooks(lambda m, a: seen.append("in"), lambda m, a, r: seen.append("out")),
        torch_seam.optimizer_hooks(lambda *a: seen.append("step"), lambda *a: seen.append("stepped")),
    ):
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        with pytest.raises(RuntimeError):
            layer(torch.ones(1, 3))
    layer(torch.ones(1, 2))
    optimizer.step()
    assert seen == ["in", "out", "step", "stepped", "in", "out"]


def test_without_modes_no_mode_sees_an_operation() -> None:
    seen: list[str] = []

    class Watch(torch_seam.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func._opname)
            return func(*args, **(kwargs or {}))

    with Watch(), FakeTensorMode():
        with torch_seam.without_modes():
            assert type(torch.ones(2)) is torch.Tensor
        assert seen == []
        assert isinstance(torch.ones(2), FakeTensor)


def test_a_fake_tensor_like_another() -> None:
    mode = torch_fake.new_fake_mode()
    real = torch.ones(4, 3, dtype=torch.bfloat16).t().requires_grad_()
    fake = torch_fake.fake_like(real, mode)
    assert isinstance(fake, FakeTensor) and fake.is_leaf and fake.requires_grad
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
    assert torch_fake.fake_mode_of(iter([1, real, fake])) is mode


def test_what_fake_tensors_raise_for_data() -> None:
    with torch_fake.new_fake_mode() as mode, torch_fake.quiet_fake_tensors():
        fake = torch.empty(3)
        with pytest.raises(torch_fake.DATA_DEPENDENT):
            bool(fake.sum())
        with pytest.raises(torch_fake.DATA_DEPENDENT):
            fake.nonzero()
    assert fake.fake_mode is mode


def test_failures_of_fake_tensors_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        with torch_fake.new_fake_mode(), pytest.raises(RuntimeError):
            torch.empty(2, 3) @ torch.empty(2, 3)

    with caplog.at_level(logging.ERROR, "torch._subclasses.fake_tensor"):
        with torch_fake.quiet_fake_tensors():
            fail()
        assert caplog.records == []
        fail()
        assert caplog.records


def test_vendor_kernels_are_left_out_and_put_back() -> None:
    before = torch._C._get_mkldnn_enabled()
    with torch_fake.without_vendor_kernels():
        assert not torch._C._get_mkldnn_enabled()
    assert torch._C._get_mkldnn_enabled() is before


def test_dynamo_leaves_hidden_functions_alone() -> None:
    compiled: list[str] = []

    def hidden(x: torch.Tensor) -> torch.Tensor:
        return called(x)

    def called(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        compiled.append(str(graph.graph))
        return graph

    torch_export.hide_from_dynamo(hidden)
    torch.compile(hidden, backend=backend)(torch.ones(2))
    assert compiled == []
    torch.compile(called, backend=backend)(torch.ones(2))
    assert len(compiled) == 1


@pytest.mark.parametrize("driver", (None, "gelsy", "gels", "gelsd", "gelss"))
@pytest.mark.parametrize(("rows", "columns"), ((5, 3), (3, 5), (4, 4)))
def test_the_shapes_of_least_squares_are_eagers(driver: str | None, rows: int, columns: int) -> None:
    lstsq = torch.ops.aten.linalg_lstsq.default
    rule = torch_fake.fake_rule(lstsq)
    assert rule is not None
    if rows > columns and driver in ("gelsd", "gelss"):
        with pytest.raises(torch_fake.DATA_DEPENDENT), torch_fake.new_fake_mode():
            rule(torch.empty(rows, columns), torch.empty(rows, 2), driver=driver)
        return
    for batch, right in (((), (rows,)), ((2, 1), (2, 1, rows)), ((2, 1), (2, 3, rows, 2)), ((2,), (2, rows, 1))):
        a, b = torch.randn(*batch, rows, columns, dtype=torch.complex64), torch.randn(right, dtype=torch.complex64)
        made = [(t.shape, t.dtype) for t in rule(a, b, driver=driver)]
        assert made == [(t.shape, t.dtype) for t in lstsq(a, b, driver=driver)], (batch, right)


def test_the_shapes_of_ctc_are_eagers_where_lengths_are_numbers() -> None:
    ctc = torch.ops.aten._ctc_loss.default
    rule = torch_fake.fake_rule(ctc)
    assert rule is not None
    given = (torch.randn(8, 2, 5).log_softmax(2), torch.tensor([[1, 3, 2, 1], [4, 1, 0, 0]]), (8, 6), (3, 2))
    assert [(t.shape, t.dtype) for t in rule(*given)] == [(t.shape, t.dtype) for t in ctc(*given)]


@pytest.mark.parametrize("shape", [(), (5,), (3, 5)])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_the_shapes_of_a_multilabel_loss_are_eagers(shape: tuple[int, ...], reduction: int) -> None:
    loss = torch.ops.aten.multilabel_margin_loss_forward.default
    rule = torch_fake.fake_rule(loss)
    assert rule is not None
    given = (torch.ones(shape), torch.zeros(shape, dtype=torch.int64), reduction)
    with torch_fake.new_fake_mode(), torch_fake.quiet_fake_tensors():
        fake = rule(torch.empty(shape), torch.empty(shape, dtype=torch.int64), reduction)
    assert [(t.shape, t.dtype) for t in fake] == [(t.shape, t.dtype) for t in loss(*given)]


def test_why_lengths_go_into_tensors() -> None:
    given = (torch.randn(8, 2, 5).log_softmax(2), torch.tensor([[1, 3, 2], [4, 1, 0]]), (8, 6), (3, 2))
    want = torch.nn.functional.ctc_loss(*given)
    with torch_fake.lengths_in_tensors():
        torch.testing.assert_close(torch.nn.functional.ctc_loss(*given), want)


def test_the_autocast_region_that_is_active() -> None:
    assert torch_seam.autocast_region() == (None, "")
    with torch.autocast("cpu", torch.float16):
        assert torch_seam.autocast_region() == (torch.float16, "cpu")
        with torch.autocast("cpu", enabled=False):
            assert torch_seam.autocast_region() == (None, "")


def test_a_module_converts_fake_parameters_by_a_swap_that_is_told() -> None:
    told = []

    def swapped(a: torch.Tensor, b: torch.Tensor, swap: Any) -> None:
        told.append((a.dtype, b.dtype))
        swap()

    with torch_fake.swaps_told(swapped), torch_fake.new_fake_mode():
        layer = torch.nn.Linear(2, 2, bias=False).to(torch.bfloat16)
    assert told == [(torch.float32, torch.bfloat16)]
    assert layer.weight.dtype is torch.bfloat16


def test_a_rebuilt_parameter_is_one() -> None:
    made = torch_backend.rebuild_parameter(torch.ones(2), False, {})
    assert isinstance(made, nn.Parameter) and not made.requires_grad


def test_a_rebuilt_tensor_is_where_it_was() -> None:
    made = torch_backend.rebuild_from_cpu(torch.ones(2), torch.float64, "meta", True)
    assert (made.device.type, made.dtype, made.requires_grad) == ("meta", torch.float64, True)


def test_an_overload_by_others_without_autograd() -> None:
    assert torch_backend.composite_explicit(torch.ops.aten.relu.default) is None
    x = torch.ones(2, requires_grad=True)
    made = torch_backend.composite_explicit(torch.ops.aten.zeros_like.default)(x)
    assert made.tolist() == [0.0, 0.0] and not made.requires_grad


class _Wrapper(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        raise AssertionError(func)


def test_a_wrapper_is_made_of_what_its_arguments_say_by_position() -> None:
    device = torch.device("meta")
    made = torch_backend.new_wrapper(_Wrapper, (2, 3), (1, 4), 5, None, torch.bfloat16, torch.strided, device)
    assert type(made) is _Wrapper and made.shape == (2, 3) and made.stride() == (1, 4) and made.storage_offset() == 5
    assert made.dtype is torch.bfloat16 and made.device.type == "meta" and made.layout is torch.strided
    made = torch_backend.new_wrapper(_Wrapper, (2, 3), None, None, None, torch.int8, torch.strided, device)
    assert made.stride() == (3, 1) and made.storage_offset() == 0 and made.dtype is torch.int8
