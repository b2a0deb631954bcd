"""The mean of squares of an RMS norm, under a policy of the user's own that accumulates in bfloat16."""

import torch

import truecast as tc

tc.set_numerics(tc.Numerics.preset("cpu").with_rule(op="aten.mean.*", accumulate="same"))
x = torch.ones(2, 1024, dtype=torch.bfloat16)
x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)  # symptom TC307
