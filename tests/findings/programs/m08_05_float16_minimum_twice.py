"""A mask of the dtype's own minimum, added once: finite.  # clean"""

import torch

scores = torch.zeros(2, 4, dtype=torch.float16)
mask = torch.zeros(4, dtype=torch.float16).masked_fill(torch.tensor([0, 0, 1, 1]).bool(), torch.finfo(scores.dtype).min)
(scores + mask).softmax(-1)
