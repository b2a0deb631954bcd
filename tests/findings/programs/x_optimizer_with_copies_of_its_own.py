"""An optimizer that keeps float32 copies in a list of its own and writes them into bfloat16 parameters."""
# clean

import torch


class Descent(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(list(parameters), {})
        self.copies = [p.detach().float().clone() for p in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        for p, copy in zip(self.param_groups[0]["params"], self.copies):
            copy.sub_(p.grad.float(), alpha=0.1)
            p.copy_(copy)


model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
optimizer = Descent(model.parameters())
model(torch.ones(2, 4, dtype=torch.bfloat16)).float().sum().backward()
optimizer.step()
