"""What a person may hand to a public function by mistake: one clear error each, never one from deep inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import truecast as tc
from truecast.errors import CaptureError, TruecastError, UnsupportedError, UsageError
from truecast.graph import Graph

X = torch.ones(3)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: tc.lower(None), "a NoneType can't be called"),  # type: ignore[arg-type]
        (lambda: tc.capture("script.py"), "a str can't be called"),  # type: ignore[operator]
        (lambda: tc.plan("mlp.graph"), "a str is no Graph"),  # type: ignore[arg-type]
        (lambda: tc.lower(torch.sin, X, numerics=3), "a int is no policy"),  # type: ignore[arg-type]
        (lambda: tc.set_numerics(5), "a int is no policy"),  # type: ignore[arg-type]
        (lambda: tc.Numerics.preset(3), "unknown preset 3"),  # type: ignore[arg-type]
        (lambda: Graph.parse(None), "a Graph's text is a string, not a NoneType"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type(call: Callable[[], Any], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.what == what


def test_weights_that_are_no_tensors(tmp_path: Path) -> None:
    tc.lower(torch.nn.Linear(3, 3), X).save(tmp_path / "program")
    for weights in ([X], {"bias": 3}):
        with pytest.raises(UsageError, match="weights is no mapping from names to tensors"):
            tc.load(tmp_path / "program", weights=weights)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float8_e8m0fnu, torch.qint8])
def test_a_dtype_that_truecast_lacks(dtype: torch.dtype) -> None:
    def convert(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, dtype) if dtype is torch.qint8 else x.to(dtype)

    with pytest.raises(UnsupportedError, match=rf"^a tensor of dtype {dtype}"):
        tc.capture(convert, X)


def test_complex32_is_captured_but_not_lowered() -> None:
    half = torch.ones(3, dtype=torch.complex32)
    assert tc.capture(torch.clone, half).inputs[0].value.dtype.name == "complex32"
    with pytest.raises(UnsupportedError) as caught:
        _ = tc.lower(torch.clone, half).stablehlo
    assert caught.value.what == "the program takes complex32, which XLA does not have"


def test_a_nested_tensor() -> None:
    with pytest.raises(UnsupportedError, match=r"^a nested tensor of layout torch.strided, dtype torch.float32"):
        tc.capture(torch.sin, torch.nested.nested_tensor([X, X[:2]]))


def test_contents_asked_for_as_an_array() -> None:
    with pytest.raises(CaptureError, match="asks for the contents of a tensor"):
        tc.capture(lambda x: x.numpy(), X)


def test_a_tensor_without_contents_can_be_lowered_but_not_run() -> None:
    compiled = tc.lower(torch.sin, X.to("meta")).compile()
    with pytest.raises(UsageError, match="a tensor on the meta device has no contents to compute with"):
        compiled(X.to("meta"))


def test_a_scripted_module_is_as_it_was_afterwards() -> None:
    module = torch.jit.script(torch.nn.Linear(3, 2))
    compiled = tc.lower(module, X, numerics="eager").compile()
    torch.testing.assert_close(compiled(X), module(X).detach())
    assert {name for name, _ in module.named_parameters()} == {"weight", "bias"}


def test_a_write_through_a_view_whose_elements_share_memory() -> None:
    """Eager adds to an element as often as the view holds it, in an order of its own."""

    def add(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x.as_strided((2, 2), (1, 1)).add_(1)
        return x

    with pytest.raises(UnsupportedError, match=r"^a write through aten.as_strided.default"):
        tc.capture(add, torch.zeros(4))


def test_a_write_through_a_view_whose_elements_are_apart() -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x.as_strided((2, 2), (1, 2)).add_(1)
        return x

    compiled = tc.lower(add, torch.zeros(5)).compile()
    assert compiled(torch.zeros(5)).tolist() == [1, 1, 1, 1, 0]


# --- arguments that share memory, of a program that was lowered without ------------------------------------------


def write(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return b * 2


SHARED = """\
the compiled program 'write' writes to memory that two of its arguments share
  values: 'a', which it writes, and 'b'
  why: it was lowered with independent tensors: the write would be seen through one only
  help: pass copies, or lower a program that takes one tensor and makes the views itself"""


def test_a_written_argument_that_overlaps_another() -> None:
    compiled = tc.lower(write, torch.zeros(4), torch.zeros(4)).compile()
    memory = torch.zeros(6)
    for a, b in ((memory[:4], memory[:4]), (memory[:4], memory[2:])):
        with pytest.raises(UsageError) as caught:
            compiled(a, b)
        assert str(caught.value) == SHARED
    assert memory.tolist() == [0] * 6


def test_written_arguments_side_by_side_in_one_memory() -> None:
    compiled = tc.lower(write, torch.zeros(4), torch.zeros(4)).compile()
    memory = torch.zeros(8)
    assert compiled(memory[:4], memory[4:]).tolist() == [0] * 4
    assert memory.tolist() == [1] * 4 + [0] * 4


def test_an_argument_that_is_a_written_weight() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)  # type: ignore[operator]
            return x * 2

    module = Counter()
    compiled = tc.lower(module, X).compile()
    with pytest.raises(TruecastError, match="'count', which it writes, and 'x'"):
        compiled(module.count)


def test_what_is_only_read_may_be_shared() -> None:
    compiled = tc.lower(torch.add, X, X.clone()).compile()
    assert compiled(X, X).tolist() == [2, 2, 2]
