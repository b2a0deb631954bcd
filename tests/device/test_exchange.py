"""Contents that leave the device and come back: files, DLPack, loaders, random states, threads, processes."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import truecast as tc
from tests.device.beside import DEVICE, equal


def test_state_dicts_and_whole_modules_through_files():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to(DEVICE)
    model(torch.randn(5, 4, device=DEVICE))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert torch.load(file)["0.weight"].device == DEVICE
    file.seek(0)
    elsewhere = torch.load(file, map_location="cpu")
    assert elsewhere["0.weight"].device.type == "cpu"
    model.load_state_dict(elsewhere)
    whole = io.BytesIO()
    torch.save(model, whole)
    whole.seek(0)
    for other in (torch.load(whole, weights_only=False), copy.deepcopy(model)):
        assert isinstance(other[0].weight, nn.Parameter)
        equal(other[0].weight, model[0].weight.cpu())
        equal(other[1].running_mean, model[1].running_mean.cpu())


@pytest.mark.parametrize("location", ["pjrt", "pjrt:0", DEVICE, {"cpu": "pjrt"}])
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_the_cpu_are_loaded_onto_the_device(location, weights_only):
    whole = torch.arange(6.0).view(2, 3)
    saved = {
        "whole": whole,
        "row": whole[1],
        "turned": whole.t(),
        "bfloat16": torch.ones(2, dtype=torch.bfloat16),
        "channels last": torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "empty": torch.empty(0),
        "number": torch.tensor(3.0),
        "parameter": nn.Parameter(torch.ones(3)),
    }
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    loaded = torch.load(file, map_location=location, weights_only=weights_only)
    assert isinstance(loaded["parameter"], nn.Parameter)
    for tensors in (loaded, saved):
        tensors["row"].add_(1)  # what shared memory when it was saved shares it
    for name, expected in saved.items():
        equal(loaded[name], expected.detach())


def test_storages_end_no_process():
    storage = torch.UntypedStorage(8, device="pjrt")
    assert (storage.device, storage.nbytes()) == (DEVICE, 8)
    x = torch.ones(2, device=DEVICE)
    assert x.new(storage).shape == (2,)
    with pytest.raises(RuntimeError, match="invalid python storage"):
        x.untyped_storage().clone()
    with pytest.raises(NotImplementedError, match="has no storage that a pointer leads to"):
        torch.zeros(2, device=DEVICE).set_(x.untyped_storage())
    assert torch.zeros(2, device=DEVICE).set_(torch.ones(3).untyped_storage()).tolist() == [1.0] * 3
    assert torch.UntypedStorage(4).device.type == "cpu"


def test_copies():
    x = torch.zeros(3, device=DEVICE)
    copy.copy(x).add_(1)
    copy.deepcopy(x).add_(1)
    assert x.tolist() == [1.0] * 3, "copy.copy shares memory, deepcopy doesn't"
    parameter = nn.Parameter(torch.ones(3, device=DEVICE))
    parameter.label = "a name"
    other = copy.copy(parameter)
    assert isinstance(other, nn.Parameter)
    assert (other.requires_grad, other.is_leaf, other.label) == (True, True, "a name")


def test_pinned_memory():
    assert torch.ones(2).pin_memory().to(DEVICE, non_blocking=True).tolist() == [1.0, 1.0]


def test_safetensors(tmp_path):
    model = nn.Linear(4, 3).to(DEVICE)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "model")
    loaded = safetensors.torch.load_file(tmp_path / "model")
    assert torch.equal(loaded["weight"], model.weight.detach().cpu())


def test_dlpack_both_ways():
    x = torch.randn(3, 4, device=DEVICE)
    for taken in (torch.from_dlpack(x), torch.from_numpy(np.from_dlpack(x).copy())):
        assert torch.equal(taken, x.cpu())
    assert np.array_equal(np.asarray(jax.dlpack.from_dlpack(x)), x.cpu().numpy())
    assert torch.from_dlpack(jax.numpy.ones(3)).to(DEVICE).tolist() == [1.0] * 3


def test_an_upload_is_a_copy():
    x = torch.ones(64)
    y = x.to(DEVICE)
    x.zero_()
    assert y.sum().item() == 64


def test_loaders():
    for data in (torch.ones(6, 2), torch.ones(6, 2, device=DEVICE)):
        total = sum(b.to(DEVICE, non_blocking=True).sum().item() for (b,) in DataLoader(TensorDataset(data), 4))
        assert total == 12


def test_random_states_and_generators():
    def draw(**options):
        return torch.randn(4, device=DEVICE, **options)

    torch.manual_seed(0)
    first, second = draw(), draw()
    torch.manual_seed(0)
    again = draw()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    state = torch.pjrt.get_rng_state()
    a = torch.rand(4, device=DEVICE)
    torch.pjrt.set_rng_state(state)
    assert torch.equal(a, torch.rand(4, device=DEVICE))
    generator = torch.Generator().manual_seed(3)
    b = draw(generator=generator)
    assert torch.equal(b, draw(generator=generator.manual_seed(3)))
    for draws in (torch.randperm, torch.rand):
        c = draws(20, device=DEVICE, generator=generator.manual_seed(3))
        assert torch.equal(c, draws(20, device=DEVICE, generator=generator.manual_seed(3))), draws
    with torch.random.fork_rng(device_type="pjrt"):
        inside = draw()
    assert torch.equal(inside, draw())


def test_threads():
    results = {}

    def work(number):
        x = torch.full((50,), float(number), device=DEVICE)
        for _ in range(40):
            x = x + 1
            x.view(5, 10).mul_(1)
        results[number] = x.cpu()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((results[i] == i + 40).all() for i in range(4))


def test_a_fork_is_refused():
    x = torch.ones(3, device=DEVICE)
    assert x.sum().item() == 3
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            x.cpu()
            text = "no error"
        except RuntimeError as error:
            text = str(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).decode() == (
        "The pjrt device can't be used in a forked child process: the XLA client does not survive a fork. Start the "
        "process with multiprocessing.set_start_method('spawn'), or keep tensors on the CPU in workers."
    )


def test_a_program_that_ends_while_the_device_computes_ends_well():
    program = (
        "import torch, truecast as tc\n"
        "x = torch.rand(1500, 1500, device=tc.device())\n"
        "for _ in range(6):\n"
        "    x = torch.tanh(x @ x)\n"
        "    tc.sync()\n"
        "print('started')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


def test_there_is_one_device():
    with pytest.raises(tc_error()) as refused:
        tc.device(1)
    assert str(refused.value).startswith("there is one pjrt device in a process")


def tc_error():
    from truecast.errors import UsageError

    return UsageError


def test_metrics_count_what_happened():
    before = tc.metrics()
    (torch.ones(3) * 2).to(DEVICE).mul(2).cpu()
    after = tc.metrics()
    assert (after.uploads - before.uploads, after.bytes_up - before.bytes_up) == (1, 12)
    assert (after.downloads - before.downloads, after.runs - before.runs) == (1, 1)
    assert str(after).splitlines()[0].startswith("operations  ")


def test_why_recompiled_names_what_differs():
    def run(size, twice):
        x = torch.zeros(size, device=DEVICE)
        tc.sync()
        y = x.sin()
        return (y.cos() if twice else y).cpu()

    run(37, False)
    run(37, True)
    assert "aten.cos.default(float32[37])" in tc.why_recompiled(1)[0]
    run(38, True)
    assert "where the nearest program has aten.sin.default(float32[37])" in tc.why_recompiled(1)[0]


def test_generators_of_the_device():
    made = torch.Generator(device="pjrt").manual_seed(3)
    plain = torch.Generator().manual_seed(3)
    assert isinstance(made, torch.Generator) and isinstance(plain, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator) and not isinstance(3, torch.Generator)
    assert made.device == DEVICE and plain.device.type == "cpu" and made.initial_seed() == 3
    assert type(plain) is type(torch.default_generator)
    state = made.get_state()
    first = torch.randn(8, device=DEVICE, generator=made)
    assert torch.equal(first, torch.randn(8, device=DEVICE, generator=plain))
    made.set_state(state)
    copies = [copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.clone_state()]
    for generator in (made, *copies):
        assert generator.device == DEVICE
        assert torch.equal(first, torch.randn(8, device=DEVICE, generator=generator))
    x = torch.empty(8, device=DEVICE).normal_(generator=made.manual_seed(3))
    assert torch.equal(x.cpu(), torch.empty(8, device=DEVICE).normal_(generator=plain.manual_seed(3)).cpu())
    assert torch.randperm(5, device=DEVICE, generator=made).sort().values.tolist() == [0, 1, 2, 3, 4]

    class Named(torch.Generator):
        pass

    assert isinstance(Named(), Named) and not isinstance(plain, Named)
    assert torch.Generator("cpu").device.type == "cpu"
    with pytest.raises(RuntimeError):
        torch.Generator("nowhere")
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    assert compiled(torch.zeros(2, device=DEVICE)).tolist() == [1, 1]
