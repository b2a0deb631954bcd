"""A checkpoint in float32 is served in float16, and its activations overflow."""

import torch

activation = torch.tensor([1.0e5, 3.0])
activation.half()  # symptom TC305
