"""Scores are rounded to bfloat16 before a threshold chooses among them."""

import torch

scores = torch.linspace(0.4, 0.6, 9)[[4, 1, 7, 2]]
kept = scores.to(torch.bfloat16) > 0.501  # origin TC304  # symptom TC304
