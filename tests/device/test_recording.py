"""`tc.recording` and `tc.explain` observe tensors of the pjrt device as they do any other device's."""

from __future__ import annotations

import torch
from torch.nn import functional

import truecast as tc
from tests.device.beside import DEVICE


def blended(device):
    """A float32 schedule of two dimensions meets a bfloat16 weight; views are written, and all is differentiated."""
    sigma = torch.rand(1, 1, device=device)
    latents = torch.randn(2, 3, device=device).bfloat16()
    weight = torch.randn(4, 3, device=device).bfloat16().requires_grad_()
    with tc.recording() as tape:
        noisy = (1 - sigma) * latents
        out = functional.linear(noisy, weight)
        out.t()[0].add_(1)
        out.sum().backward()
    assert weight.grad.dtype is torch.bfloat16
    return tape


def test_the_device_is_recorded_forward_and_backward():
    recorded = {(node.op, node.site.phase) for node in blended(DEVICE).graph.nodes}
    assert {("aten.mm.default", "forward"), ("aten.mm.default", "backward")} <= recorded
    assert {("aten.select_scatter.default", "forward"), ("aten.rsub.Scalar", "forward")} <= recorded


def test_a_recording_on_the_device_has_the_cpus_findings():
    def found(device):
        report = blended(device).explain()
        return [(f.code, f.message, [(p.role, p.site.line, p.text) for p in f.places]) for f in report.findings]

    assert found(DEVICE) == found("cpu")
    assert [code for code, _, _ in found(DEVICE)] == ["TC101"]
