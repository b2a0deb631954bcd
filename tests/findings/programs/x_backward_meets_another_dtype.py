"""A custom backward returns a gradient in another dtype than the product before it takes."""

import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return (x @ weight).float()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient.to(x.dtype) @ weight.t(), x.t() @ gradient  # symptom TC101


x = torch.ones(2, 4, dtype=torch.bfloat16, requires_grad=True)
weight = torch.ones(4, 4, dtype=torch.bfloat16, requires_grad=True)
Scale.apply(x, weight).sum().backward()
