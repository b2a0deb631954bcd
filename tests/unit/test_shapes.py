"""A remembered result has the shape, strides, dtype and device that the operation gives, and memory of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from truecast.capture import torch_fake, torch_seam
from truecast.capture.shapes import Shapes

aten = torch.ops.aten


def described(result: Any) -> list[Any]:
    leaves = result if isinstance(result, list | tuple) else [result]
    return [(t.shape, t.stride(), t.dtype, t.device, t.layout) for t in leaves]


@pytest.mark.parametrize(
    ("func", "shapes", "rest"),
    [
        (aten.add.Tensor, [(3, 4), (4,)], ()),
        (aten.add.Tensor, [(3, 4)], (1,)),
        (aten.add.Tensor, [(3, 4)], (1.5,)),
        (aten.mm.default, [(3, 4), (4, 5)], ()),
        (aten.native_layer_norm.default, [(3, 4)], ([4], None, None, 1e-5)),
        (aten.sum.dim_IntList, [(3, 4)], ([0], True)),
        (aten.max.dim, [(3, 4)], (1,)),
    ],
)
def test_remembered_results_are_like_the_first(func: Any, shapes: list[Any], rest: Any) -> None:
    with torch_fake.new_fake_mode() as mode:
        known = Shapes(mode)
        args = (*(torch.empty(s) for s in shapes), *rest)
        first, second, third = (known.run(func, args, {}) for _ in range(3))
        assert described(first) == described(second) == described(func(*args))
        assert type(first) is type(second)
        memory = [torch_seam.storage_key(t) for r in (first, second, third) for t in torch_seam.tensors_in(r)]
        assert len(set(memory)) == len(memory)


def test_numbers_of_other_types_strides_and_dtypes_are_told_apart() -> None:
    with torch_fake.new_fake_mode() as mode:
        known = Shapes(mode)
        integers = torch.empty(3, 4, dtype=torch.int64)
        for other in (1, 1.0, True, 1.0, 1):
            assert known.run(aten.add.Tensor, (integers, other), {}).dtype == (integers + other).dtype
        floats = torch.empty(3, 4)
        for tensor in (floats, floats.bfloat16(), torch.empty(4, 3).t()):
            got, want = known.run(aten.exp.default, (tensor,), {}), tensor.exp()
            assert described(got) == described(want)


def test_the_default_dtype_is_part_of_the_question() -> None:
    with torch_fake.new_fake_mode() as mode:
        known, integers = Shapes(mode), torch.empty(3, dtype=torch.int64)
        assert known.run(aten.exp.default, (integers,), {}).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert known.run(aten.exp.default, (integers,), {}).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


def test_tensors_of_known_contents_keep_them() -> None:
    with torch_fake.new_fake_mode() as mode:
        known, one = Shapes(mode), torch.tensor(1)
        known.run(aten.add.Tensor, (torch.empty((), dtype=torch.int64), 1), {})  # remembered, of unknown contents
        for _ in range(3):
            one = known.run(aten.add.Tensor, (one, 1), {})
        assert int(one) == 4


def test_a_result_in_its_arguments_memory_is_not_remembered() -> None:
    with torch_fake.new_fake_mode() as mode:
        known, x = Shapes(mode), torch.empty(3, 4)
        for _ in range(2):
            assert torch_seam.storage_key(known.run(aten.view.default, (x, [12]), {})) == torch_seam.storage_key(x)
