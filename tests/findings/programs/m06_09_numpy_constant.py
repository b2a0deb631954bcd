"""A NumPy array of constants turns float32 arithmetic into float64."""

import numpy
import torch

scale = torch.from_numpy(numpy.sqrt(numpy.arange(1, 5)))
x = torch.ones(2, 4)
x * scale  # symptom TC202
