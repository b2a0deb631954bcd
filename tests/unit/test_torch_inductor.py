"""Which graphs torch.compile's default backend leaves to the device, and what it rests on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from truecast.capture import torch_inductor

WAYS: list[dict[str, Any]] = [
    {},
    {"backend": "inductor"},
    {"mode": "default"},
    {"mode": "max-autotune"},
    {"mode": "reduce-overhead"},
    {"mode": "max-autotune-no-cudagraphs"},
    {"options": {"max_autotune": True}},
    {"dynamic": True, "fullgraph": True},
]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.GraphModule]:
    """The graphs that reach inductor; "meta" stands for the device."""
    graphs: list[torch.fx.GraphModule] = []

    def inductor(self: Any, module: torch.fx.GraphModule, inputs: Any, **named: Any) -> torch.fx.GraphModule:
        graphs.append(module)
        return module

    monkeypatch.setattr(torch._TorchCompileInductorWrapper, "__call__", inductor)
    torch_inductor.leave_to_the_device("meta")
    torch._dynamo.reset()
    return graphs


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_form_of_the_default_backend_asks_where_tensors_are(
    way: dict[str, Any], given: list[torch.fx.GraphModule]
) -> None:
    compiled = torch.compile(lambda x: x * 2, **way)
    assert compiled(torch.ones(2, device="meta")).device.type == "meta"
    assert given == []
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert len(given) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.ones(2, device="meta").shape[0],
        lambda x: (x, torch.arange(3, device="meta").split(1)),
        lambda x: x.to("meta"),
    ],
    ids=["inside", "made", "moved"],
)
def test_a_tensor_of_the_device_anywhere_in_the_graph(function: Any, given: list[torch.fx.GraphModule]) -> None:
    torch.compile(function)(torch.ones(2))
    assert given == []
