"""A reduction of many bfloat16 numbers, for a backend that adds them in bfloat16."""

import torch

import truecast as tc

tc.set_numerics("torch_xla-2.9")
partials = torch.ones(4096, 4, dtype=torch.bfloat16)
partials.sum(dim=0)  # symptom TC307
