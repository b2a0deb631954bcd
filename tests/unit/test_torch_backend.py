"""Storages as torch_backend.py makes them, and what it rests on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from truecast.capture import torch_backend


class Elsewhere(torch.UntypedStorage):
    """A storage of a device of its own."""


def test_a_storage_of_a_subclass_lies_in_the_cpus_memory() -> None:
    made = torch_backend.new_storage(Elsewhere, 8)
    assert type(made) is Elsewhere and made.nbytes() == 8
    filled = torch_backend.new_storage(Elsewhere, [1, 0, 2, 0])
    seen = torch.empty(0, dtype=torch.int16).set_(filled)
    assert seen.tolist() == [1, 2]
    seen[0] = 7
    assert filled.tolist() == [7, 0, 2, 0]


def test_storages_of_one_type_of_device_are_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.UntypedStorage, "__new__", torch.UntypedStorage.__new__)  # put back afterwards
    asked: list[tuple[Any, ...]] = []

    def make(*arguments: Any) -> Elsewhere:
        asked.append(arguments)
        return torch_backend.new_storage(Elsewhere, *arguments)

    torch_backend.storages_by(make, "xla")
    for device in ("xla", "xla:0", torch.device("xla")):
        assert type(torch.UntypedStorage(6, device=device)) is Elsewhere
    assert asked == [(6,)] * 3
    for placed in ({}, {"device": "cpu"}, {"device": torch.device("cpu")}):
        made = torch.UntypedStorage(6, **placed)
        assert type(made) is torch.UntypedStorage and made.nbytes() == 6
    assert torch.UntypedStorage(2, device="meta").device.type == "meta"
    assert torch.UntypedStorage([3, 4]).tolist() == [3, 4] and torch.UntypedStorage().nbytes() == 0
    assert torch.ones(2).clone().untyped_storage().nbytes() == 8 and len(asked) == 3
