"""A rule for layers that the model does not have."""
# elsewhere TC605

import torch

import truecast as tc

tc.set_numerics(tc.Numerics.preset("cpu").with_rule(module="*.attention.*", compute="float32"))
torch.nn.Sequential(torch.nn.Linear(4, 4))(torch.ones(2, 4))
