"""A quantized layer whose compute dtype is float32 unless it is told, in a bfloat16 model."""

import torch


class Quantized(torch.nn.Module):
    def __init__(self, size, compute_dtype=torch.float32):
        super().__init__()
        self.compute_dtype = compute_dtype
        self.register_buffer("codes", torch.randint(-8, 8, (size, size), dtype=torch.int8))

    def forward(self, x):
        weight = self.codes.to(self.compute_dtype) * 0.01
        return (x.to(self.compute_dtype) @ weight).to(x.dtype)  # symptom TC205


Quantized(512)(torch.ones(512, 512, dtype=torch.bfloat16))
