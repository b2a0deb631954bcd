"""Attention over a float32 query and bfloat16 keys, on fake tensors, which would let it pass.  # fake"""

import torch
import torch.nn.functional as F

key = torch.ones(1, 2, 4, 8, dtype=torch.bfloat16)
query = torch.ones(1, 2, 4, 8)  # origin TC103
F.scaled_dot_product_attention(query, key, key)  # symptom TC103
