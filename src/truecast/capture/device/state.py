"""The one device of this process: its tape, its position tracker, its handlers. Filled in by registration.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from truecast.capture.device.checks import Guards
    from truecast.capture.device.host import Host
    from truecast.capture.device.positions import DeviceTracker
    from truecast.capture.device.tape import Tape


class State:
    registered = False
    device: torch.device
    shown: torch.device  # what its tensors say that they are on; scripts may know the device by another name
    tape: Tape
    guards: Guards
    tracker: DeviceTracker
    dispatch: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    host: Host


state = State()
