"""torch.Generator(device="pjrt"): random numbers on the device are drawn from generators of the CPU (law N8), so it is
one of those, and says that it is on the device.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast.capture import torch_backend
from truecast.capture.device.state import state


class PjrtGenerator(torch_backend.PlainGenerator):
    """What an operation gets of it is the CPU's generator behind it."""

    def __new__(cls) -> PjrtGenerator:
        return super().__new__(cls, device="cpu")

    @property
    def device(self) -> torch.device:
        return state.shown

    def clone_state(self) -> PjrtGenerator:
        """A generator of its own in the same state."""
        return PjrtGenerator().set_state(self.get_state())

    def __deepcopy__(self, memo: dict[int, Any]) -> PjrtGenerator:
        return self.clone_state()

    def __reduce__(self) -> Any:
        return _of_state, (self.get_state(),)


def _of_state(drawn: torch.Tensor) -> PjrtGenerator:
    return PjrtGenerator().set_state(drawn)
