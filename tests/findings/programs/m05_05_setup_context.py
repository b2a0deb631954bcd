"""A custom Function in the split style, for which custom_fwd has no use: forward without a context."""

import torch


class Scores(torch.autograd.Function):
    @staticmethod
    def forward(query, key):
        return query @ key.t()  # origin TC404

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        query, key = ctx.saved_tensors
        return gradient.to(key.dtype) @ key, gradient.to(query.dtype).t() @ query


query, key = torch.ones(2, 4, requires_grad=True), torch.ones(2, 4, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    scores = Scores.apply(query, key)  # symptom TC404
scores.sum(dtype=torch.float32).backward()
