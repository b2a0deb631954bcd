"""A custom Function with custom_fwd and custom_bwd computes in one dtype, forward and backward."""
# clean

import torch


class Linear(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x


weight = torch.ones(4, 4, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    y = Linear.apply(torch.ones(2, 4), weight)
y.float().sum().backward()
