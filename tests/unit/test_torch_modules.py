"""The private interfaces of PyTorch under the conversion of modules do what capture/torch_modules.py rests on."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from truecast.capture.torch_modules import exchange


def test_what_is_behind_two_tensors_is_exchanged_whoever_holds_them() -> None:
    kept, x = nn.Parameter(torch.ones(2, 2)), torch.ones(2, 2, requires_grad=True)
    kept.tag, graph, weak = "mine", x @ kept, weakref.ref(kept)  # type: ignore[attr-defined]
    made = nn.Parameter(torch.full((3,), 2.0, dtype=torch.float64), requires_grad=False)
    exchange(kept, made, ())
    assert (kept.shape, kept.dtype, kept.requires_grad, kept.tolist()) == ((3,), torch.float64, False, [2.0] * 3)
    assert (made.shape, made.dtype, made.requires_grad) == ((2, 2), torch.float32, True)
    assert weak() is kept and kept.tag == "mine" and not made.__dict__  # type: ignore[attr-defined]
    del made
    gc.collect()
    with pytest.raises(RuntimeError, match=r"call \.to\(device\) before the forward pass"):
        graph.sum().backward()
    del graph
    gc.collect()
    assert kept.tolist() == [2.0] * 3


def test_attributes_of_what_is_behind_go_with_it() -> None:
    kept, made = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    kept.place, made.place, kept.name_of_mine = 1, 2, "n"  # type: ignore[attr-defined]
    exchange(kept, made, ("place",))
    assert kept.__dict__ == {"place": 2, "name_of_mine": "n"} and made.__dict__ == {"place": 1}


def test_hooks_stay_and_can_be_removed() -> None:
    kept, ran = nn.Parameter(torch.ones(1)), []
    first = kept.register_hook(lambda g: ran.append("hook"))
    second = kept.register_post_accumulate_grad_hook(lambda p: ran.append(p is kept))
    exchange(kept, nn.Parameter(torch.ones(1)), ())
    (kept * 2).sum().backward()
    assert ran == ["hook", True]
    first.remove()
    second.remove()
    (kept * 2).sum().backward()
    assert len(ran) == 2


def test_the_dtype_of_gradients_stays() -> None:
    kept = nn.Parameter(torch.ones(1))
    kept.grad_dtype = torch.float64
    exchange(kept, nn.Parameter(torch.ones(1)), ())
    assert kept.grad_dtype is torch.float64


def test_a_weak_reference_of_cs_is_refused_and_nothing_has_changed() -> None:
    kept, made = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
    held = torch._C._WeakTensorRef(kept)  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="move the module before"):
        exchange(kept, made, ())
    assert kept.item() == 1 and not held.expired()
