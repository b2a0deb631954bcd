"""A custom Function with custom_fwd alone: its backward leaves the region."""

import torch


class Linear(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()  # origin TC407

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = gradient.to(weight.dtype)
        return gradient @ weight, gradient.t() @ x  # symptom TC407


weight = torch.ones(4, 4, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    y = Linear.apply(torch.ones(2, 4), weight)
y.float().sum().backward()
