"""Checkpointing by hand: the forward ran under autocast, its recomputation in the backward pass does not."""

import torch


class Recomputed(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.run(x)
        y.backward(gradient.to(y.dtype))
        return None, x.grad


layer = torch.nn.Linear(4, 4)


def block(x):
    return layer(x)  # symptom TC407  # origin TC407


with torch.autocast("cpu", torch.bfloat16):
    y = Recomputed.apply(block, torch.ones(2, 4, requires_grad=True))
y.float().sum().backward()
