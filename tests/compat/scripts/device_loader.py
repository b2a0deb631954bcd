"""Batches through MpDeviceLoader, in the function that xmp.spawn starts, with closures at the end of a step."""

import sys

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def report(step, loss):
    print(f"loss {loss.item():.6f}", flush=True)


def _mp_fn(index, name):
    torch.manual_seed(8 + index)
    device = torch.device(name) if name else torch_xla.device()
    dataset = TensorDataset(torch.randn(24, 10), torch.randint(0, 4, (24,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Linear(10, 20), nn.Hardswish(), nn.Linear(20, 4)).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    assert xr.world_size() == 1 and xm.get_xla_supported_devices()[0] == "xla:0"
    if device.type == "xla":
        loader = pl.MpDeviceLoader(loader, device)
    for _ in range(2):
        for step, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            xm.optimizer_step(optimizer)
            xm.add_step_closure(report, args=(step, loss))
            if device.type == "cpu":
                torch_xla.sync()
        torch_xla.sync()


if __name__ == "__main__":
    xmp.spawn(_mp_fn, args=(sys.argv[1] if len(sys.argv) > 1 else "",), nprocs=1)
