"""The private interface of PyTorch's autograd engine does what capture/torch_autograd.py rests on.

Whether its stream guards still ask the device for its type, tests/device/test_backward_errors.py tells: errors in
backward passes end the process, or are lost, where that changes.
"""

from __future__ import annotations

import threading

import torch


def test_both_ways_into_the_engine_go_through_one_function() -> None:
    seen = []
    x = torch.ones(2, requires_grad=True)
    real = torch.autograd._engine_run_backward

    def run(*args: object, **kwargs: object) -> object:
        seen.append(threading.current_thread())
        return real(*args, **kwargs)

    torch.autograd._engine_run_backward = run
    try:
        (x * 2).sum().backward()
        torch.autograd.grad((x * 2).sum(), x)
    finally:
        torch.autograd._engine_run_backward = real
    assert seen == [threading.current_thread()] * 2
