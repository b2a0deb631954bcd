"""A linear layer patched in as a custom Function, which autocast knows nothing of."""

import torch


class PatchedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()  # origin TC404

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient.float() @ weight, gradient.float().t() @ x


weight = torch.ones(4, 4, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    y = PatchedLinear.apply(torch.ones(2, 4), weight)  # symptom TC404
y.float().sum().backward()
