"""Log-probabilities from a head in bfloat16, with the logits copied to float32 for the loss."""

import torch

head = torch.nn.Linear(32, 4096, dtype=torch.bfloat16)
hidden, targets = torch.ones(128, 32, dtype=torch.bfloat16), torch.zeros(128, dtype=torch.long)
logits = head(hidden).float()  # symptom TC205
torch.nn.functional.cross_entropy(logits, targets).backward()
