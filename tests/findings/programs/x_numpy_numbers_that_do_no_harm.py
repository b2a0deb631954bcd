"""NumPy scalars in an expression count as Python numbers: a float32 tensor stays float32."""
# clean

import numpy as np
import torch

x = torch.ones(4) * np.float64(2.0) + np.sqrt(2.0)
assert x.dtype is torch.float32
