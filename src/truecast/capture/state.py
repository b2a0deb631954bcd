"""Whether what lasts from step to step keeps its dtype: parameters, buffers, and an optimizer's own tensors.

`States.seen` is called as each optimizer step begins and ends; what has another dtype than when it was last seen is a
`DtypeChange`.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from truecast import dtypes
from truecast.capture.position import Tracker
from truecast.observations import DtypeChange
from truecast.sites import Site

# By what it is, and which: ("exp_avg", "3").
_Dtypes = dict[tuple[str, str], torch.dtype]


class States:
    """changes: in the order in which they showed."""

    def __init__(self, tracker: Tracker) -> None:
        self.changes: list[DtypeChange] = []
        self._tracker = tracker
        self._last: WeakKeyDictionary[torch.optim.Optimizer | torch.nn.Module, _Dtypes] = WeakKeyDictionary()

    def seen(self, optimizer: torch.optim.Optimizer, site: Site, when: str) -> None:
        """Compares the dtypes of now with those of the last time. when: what the program did since then."""
        last = self._last.setdefault(optimizer, {})
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            path = self._tracker.tensors.get(id(parameter), ("", ""))[1] or f"parameter {number}"
            held = {"parameter": parameter, **optimizer.state.get(parameter, {})}
            for what, tensor in held.items():
                if isinstance(tensor, torch.Tensor):
                    self._compare(last, (str(what), str(number)), path, tensor.dtype, site, when)
        for module, prefix in self._tracker.roots.values():
            last = self._last.setdefault(module, {})
            for path, buffer in module.named_buffers(prefix):
                self._compare(last, ("buffer", path), path, buffer.dtype, site, when)

    def _compare(
        self, last: _Dtypes, key: tuple[str, str], path: str, dtype: torch.dtype, site: Site, when: str
    ) -> None:
        before = last.get(key, dtype)
        last[key] = dtype
        if before != dtype:
            self.changes.append(DtypeChange(key[0], path, dtypes.of(before), dtypes.of(dtype), when, site))
