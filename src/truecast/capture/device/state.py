"""The one device of this process: its tape, its position tracker, its handlers. Filled in by registration.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from truecast.capture.device.tape import Tape
    from truecast.capture.position import Tracker


class State:
    device: torch.device
    tape: Tape
    tracker: Tracker
    dispatch: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    reader: Any
    host: Any


state = State()
