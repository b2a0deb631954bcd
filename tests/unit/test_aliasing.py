"""Views and in-place writes become functional nodes that compute what eager computes, in any order and nesting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpret import interpret
from truecast.capture.aliasing import Alias, Step, read, write
from truecast.capture.recorder import trace
from truecast.dtypes import float32
from truecast.errors import CaptureError, UnsupportedError
from truecast.graph import Value

Program = list[tuple[int, int, int, int]]


def _pick(tensors: list[torch.Tensor], index: int) -> torch.Tensor:
    return tensors[index % len(tensors)]


def _has_own_elements(t: torch.Tensor) -> bool:
    """No two elements share memory: what PyTorch demands of a tensor that is written."""
    return all(n <= 1 or s > 0 for n, s in zip(t.shape, t.stride(), strict=True))


VIEWS: list[Callable[[torch.Tensor, int, int], Any]] = [
    lambda t, a, b: t.t() if t.dim() <= 2 else t.transpose(a % t.dim(), b % t.dim()),
    lambda t, a, b: t.transpose(a % t.dim(), b % t.dim()) if t.dim() else t.unsqueeze(0),
    lambda t, a, b: t.select(a % t.dim(), b % t.shape[a % t.dim()]) if t.dim() and t.numel() else t.detach(),
    lambda t, a, b: t[a % 3 :: 1 + b % 2] if t.dim() else t.alias() if hasattr(t, "alias") else t.detach(),
    lambda t, a, b: t.unsqueeze(a % (t.dim() + 1)),
    lambda t, a, b: t.squeeze(),
    lambda t, a, b: t.view(-1) if t.is_contiguous() else t.permute(*reversed(range(t.dim()))),
    lambda t, a, b: t.view(t.shape[0], -1, t.shape[1] // 2) if _halves(t) else t.detach(),
    lambda t, a, b: t.diagonal(a % 2) if t.dim() == 2 and t.shape[1] > 1 else t.detach(),
    lambda t, a, b: t.split(1 + a % 2, dim=b % t.dim()) if t.dim() and t.numel() else t.detach(),
    lambda t, a, b: t.unbind(a % t.dim()) if t.dim() and t.numel() else t.detach(),
    lambda t, a, b: t.expand(2, *t.shape),
    lambda t, a, b: t.as_strided((2, 2), (1, 2)) if t.numel() >= 6 and t.is_contiguous() else t.detach(),
    lambda t, a, b: t.movedim(0, -1) if t.dim() else t,
]


def _halves(t: torch.Tensor) -> bool:
    return t.dim() == 2 and t.is_contiguous() and t.shape[1] > 0 and t.shape[1] % 2 == 0


def _widest(t: torch.Tensor) -> torch.dtype:
    """A dtype that differs from the tensor's, and that PyTorch lets a 0-dim operand of a write have."""
    return torch.float64 if t.is_floating_point() else torch.int64


WRITES: list[Callable[[torch.Tensor, torch.Tensor, int], Any]] = [
    lambda t, o, a: t.add_(a),
    lambda t, o, a: t.mul_(1.5 if t.is_floating_point() else 2),
    lambda t, o, a: t.fill_(a),
    lambda t, o, a: t.zero_(),
    lambda t, o, a: t.copy_(o.sum().remainder(7)),
    lambda t, o, a: t.sub_(o.sum().remainder(5).to(_widest(t))),
    lambda t, o, a: t.masked_fill_(t > 2, a),
    lambda t, o, a: t.clamp_(max=a),
    lambda t, o, a: t.lt_(a),
    lambda t, o, a: (
        t.index_put_((torch.tensor([0]),), o.sum().remainder(3).to(t.dtype)) if t.dim() and t.numel() else t
    ),
    lambda t, o, a: t.index_fill_(0, torch.tensor([0]), a) if t.dim() and t.numel() else t,
    lambda t, o, a: torch.add(t, a, out=t),
    lambda t, o, a: t.unsqueeze_(0) if t.dim() < 4 else t,
    lambda t, o, a: t.t_() if t.dim() == 2 else t,
    lambda t, o, a: t.copy_(o) if t.shape == o.shape else t,
]


def run_program(program: Program, x: torch.Tensor) -> list[torch.Tensor]:
    tensors = [x, x.clone(), torch.arange(6).view(2, 3)]
    for kind, choice, a, b in program:
        t = _pick(tensors, a)
        if kind == 0:
            made = VIEWS[choice % len(VIEWS)](t, a, b)
            tensors += made if isinstance(made, tuple | list) else [made]
        elif kind == 1:
            if _has_own_elements(t):
                WRITES[choice % len(WRITES)](t, _pick(tensors, b), a)
        else:
            tensors.append(t + b)
    return tensors


def check(program: Callable[[torch.Tensor], Any], x: torch.Tensor) -> None:
    captured = trace(program, (x.clone(),))
    eager_x = x.clone()
    expected = list(program(eager_x))
    inputs = [captured.bound.get(i.value.name, x) for i in captured.graph.inputs]
    outputs = interpret(captured.graph, inputs)
    for result, want in zip(captured.results, expected, strict=True):
        torch.testing.assert_close(outputs[result], want, rtol=0, atol=0, check_stride=False)
    written = {o.target: t for o, t in zip(captured.graph.outputs, outputs, strict=True) if o.kind == "mutation"}
    after = written.get("x", x)
    torch.testing.assert_close(after, _as_input(eager_x, x), rtol=0, atol=0, check_stride=False)


def _as_input(after: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """The memory of the argument, which the program may have turned or unsqueezed in place."""
    return after.as_strided(before.shape, before.stride())


step = st.tuples(st.integers(0, 2), st.integers(0, 14), st.integers(0, 20), st.integers(0, 20))


@settings(max_examples=60, deadline=None)
@given(st.lists(step, max_size=10))
def test_programs_of_views_and_writes_compute_what_eager_computes(program: Program) -> None:
    check(lambda x: run_program(program, x), torch.arange(12.0).view(3, 4))


@pytest.mark.parametrize("choice", range(len(VIEWS)))
def test_each_view_is_written_through_and_read_again(choice: int) -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        made = VIEWS[choice](x, 1, 1)
        views = list(made) if isinstance(made, tuple | list) else [made]
        if not _has_own_elements(views[0]):
            return [*views, x]
        other = VIEWS[choice](x, 1, 1)  # a second view of the same memory sees the write
        views[0].mul_(3)
        x.add_(1)
        return [*views, x, *(other if isinstance(other, tuple | list) else [other])]

    check(program, torch.arange(24.0).view(4, 6))


def test_complex_and_bitcast_views_are_written_through() -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        z = torch.view_as_complex(x.view(3, 2, 2))
        z.mul_(2j)
        torch.view_as_real(z).add_(1)
        bits = x.view(torch.int32)
        bits[0, 0] = 0
        z.real.add_(5)
        return [x, z, bits]

    check(program, torch.arange(12.0).view(3, 4))


def test_an_out_argument_takes_the_results_dtype_and_shape() -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        resized, wide = torch.empty(0), torch.zeros(3, 4, dtype=torch.float64)
        torch.mul(x, 2, out=resized)
        torch.add(x, 1, out=wide[:, :])
        values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(x, 1, out=(values, indices))
        return [resized, wide, values, indices]

    check(program, torch.arange(12.0).view(3, 4))


def test_memory_that_is_dense_but_not_contiguous_is_seen_in_its_own_order() -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        turned = x.t() + 1  # keeps the order of memory: 4 x 3 with strides (1, 4)
        window = turned.as_strided((2, 2), (1, 3))
        window.zero_()
        turned[1].mul_(2)
        return [turned, window]

    check(program, torch.arange(12.0).view(3, 4))


def test_memory_with_gaps_is_an_input_like_any_but_for_as_strided() -> None:
    x = torch.arange(12.0).view(3, 4)[:, ::2]
    captured = trace(lambda x: x.mul_(2).t() + 1, (x,))
    got = interpret(captured.graph, [x])
    torch.testing.assert_close(got[0], (x * 2).t() + 1)
    with pytest.raises(UnsupportedError, match=r"as_strided on memory with gaps\n  --> test_aliasing.py:\d+:\d+"):
        trace(lambda x: x.as_strided((2,), (1,)), (x,))


def test_data_given_to_another_tensor_is_followed() -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y, flat = torch.zeros(2, 2), x.view(-1).clone()
        y.data = flat[4:8].view(2, 2)
        y.mul_(10)
        parameter = torch.nn.Parameter(flat)
        return [y, flat, parameter.detach() + 1]

    check(program, torch.arange(12.0).view(3, 4))


def test_a_long_chain_of_views_needs_no_recursion() -> None:
    count = 0

    def emit(op: str, args: Any, kwargs: Any, dtype: Any, shape: Any) -> Value:
        nonlocal count
        count += 1
        return Value(f"v{count}", dtype, shape)

    root = last = Alias(Value("x", float32, (2, 3)))
    for i in range(5000):
        shape = (3, 2) if i % 2 == 0 else (2, 3)
        last = last.view(Step("aten.t.default"), Value(f"t{i}", float32, shape))
    write(last, Value("new", float32, (2, 3)), emit)
    assert count == 5000 and root.value.name == "v5000"
    write(root, Value("newer", float32, (2, 3)), emit)
    assert read(last, emit).name == "v10000"


def test_a_write_through_overlapping_windows_is_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.unfold(0, 2, 1).add_(1)
        return x

    with pytest.raises((UnsupportedError, RuntimeError)) as caught:
        trace(program, (torch.arange(5.0),))
    assert "a write through aten.unfold.default" in str(caught.value)


def test_a_write_to_memory_that_two_arguments_share_is_refused() -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a[2:] + b

    x = torch.arange(6.0)
    with pytest.raises(CaptureError) as caught:
        trace(program, (x, x[2:]))
    assert str(caught.value) == (
        "a write to memory that two inputs share\n"
        "  values: %a and %b\n"
        "  why: a Graph's inputs are independent of one another, so the write would be seen through one only\n"
        "  help: pass one tensor and take views of it inside, or pass copies"
    )


def test_reads_replay_only_what_was_written_since() -> None:
    emitted: list[str] = []

    def emit(op: str, args: Any, kwargs: Any, dtype: Any, shape: Any) -> Value:
        emitted.append(op)
        return Value(f"v{len(emitted)}", dtype, shape)

    root = Alias(Value("x", float32, (2, 3)))
    row = root.view(Step("aten.select.int", (0, 0)), Value("row", float32, (3,)))
    turned = root.view(Step("aten.t.default"), Value("turned", float32, (3, 2)))
    assert read(row, emit).name == "row" and emitted == []
    write(row, Value("new", float32, (3,)), emit)
    assert emitted == ["aten.select_scatter.default"]
    assert read(row, emit).name == "new" and read(root, emit).name == "v1"
    assert read(turned, emit).name == "v2" and emitted[1:] == ["aten.t.default"]
    assert read(turned, emit).name == "v2" and len(emitted) == 2
