"""A head is to compute in float32, but a rule before that one decides: the setting is read and has no effect."""
# elsewhere TC605

import torch

import truecast as tc

policy = tc.Numerics.preset("cpu").with_rule(op="aten.addmm.*", accumulate="float32", compute="float32", note="head")
tc.set_numerics(policy.with_rule(kind="contraction", accumulate="float64", compute="float64", note="all products"))
torch.nn.Sequential(torch.nn.Linear(4, 4))(torch.ones(2, 4))
