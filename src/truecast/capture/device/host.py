"""Between the device and the CPU: contents up and down, operations that only the CPU can run, text, pickles."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast import dtypes, settings
from truecast.capture import aliasing, torch_seam
from truecast.capture.device.dispatch import cast, emit, lazy_of, op_name
from truecast.capture.device.state import state
from truecast.capture.device.tape import Tape
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Lazy, Meta, Record, Spec
from truecast.capture.functional import is_view
from truecast.capture.position import Position
from truecast.errors import UnsupportedError

# Operations whose results have shapes that depend on values: they synchronise, as on every device.
_DATA_DEPENDENT_QUERIES = frozenset(
    ("aten.nonzero", "aten.masked_select", "aten.equal", "aten.is_nonzero", "aten.item")
)


class Host:
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.process = os.getpid()
        self._warned: set[str] = set()

    def upload(self, tensor: torch.Tensor) -> PjrtTensor:
        """The CPU tensor's contents on the device, copied: later writes to the tensor don't reach them."""
        self._refuse_fork()
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        self.tape.counters.uploads += 1
        self.tape.counters.bytes_up += tensor.nbytes
        buffer = self.tape.executor.upload(tensor)
        meta = Meta.of(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        return PjrtTensor.make(meta, self.tape.root(Lazy(meta.dtype, meta.shape, None, 0, buffer)))

    def download(self, tensor: PjrtTensor) -> torch.Tensor:
        """The contents as a CPU tensor of its own; runs what is pending."""
        self._refuse_fork()
        with self.tape.lock:
            lazy = lazy_of(tensor)
            if lazy.buffer is None:
                kept = self.tape.root(lazy)
                self.tape.run()
                del kept
            assert lazy.buffer is not None
            found = self.tape.executor.download(lazy.buffer, tensor._meta.dtype)
        self.tape.counters.downloads += 1
        self.tape.counters.bytes_down += found.nbytes
        return found

    def supports(self, spec: Spec, metas: list[Meta], numbers: tuple[Any, ...]) -> bool:
        """Whether the lowering covers this form of the operation; if not, the CPU runs it."""
        from truecast.capture.device.tape import build_graph

        operands = tuple(Lazy(m.dtype, m.shape, None) for m in metas)
        record = Record(spec, operands, numbers, Position(None, 0, "", "forward"))
        kept = [lazy for lazy in record.outputs if lazy is not None]
        graph = build_graph([record], list(operands), kept, frozenset())
        return self.tape.executor.supports(graph)

    def on_cpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs one operation on the CPU: operands down, results up, written arguments written back."""
        op = op_name(func)
        self._note_fallback(op)
        pairs: list[tuple[PjrtTensor, torch.Tensor]] = []

        def down(leaf: Any) -> Any:
            if isinstance(leaf, PjrtTensor):
                copy = self.download(leaf)
                pairs.append((leaf, copy))
                return copy
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        cpu_args, cpu_kwargs = pytree.tree_map(down, (args, kwargs))
        before = [(tensor, copy, copy._version) for tensor, copy in pairs]
        with torch_seam.without_modes():
            result = func(*cpu_args, **cpu_kwargs)
        for tensor, copy, version in before:
            if copy._version != version:
                self._write(tensor, copy)
        same = {id(copy): tensor for tensor, copy in pairs}

        def up(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            tensor = same.get(id(leaf))
            return self.upload(leaf) if tensor is None else tensor

        return pytree.tree_map(up, result)

    def _write(self, tensor: PjrtTensor, contents: torch.Tensor) -> None:
        value = lazy_of(self.upload(contents))
        assert value.shape == tensor._meta.shape, "an operation on the CPU resized an argument"
        aliasing.write(tensor._alias, value, emit)

    def _note_fallback(self, op: str) -> None:
        if op.rpartition(".")[0] in _DATA_DEPENDENT_QUERIES:
            return
        if settings.fallback() == "error":
            raise UnsupportedError(
                f"{op} has no lowering for this form, and TRUECAST_FALLBACK=error forbids the CPU",
                where=state.tracker.here().site(),
                why="truecast lowers what its table covers",
                help="unset TRUECAST_FALLBACK to let the CPU run it, or write it with covered operations",
            )
        counts = self.tape.counters.fallbacks
        counts[op] = counts.get(op, 0) + 1
        if op not in self._warned:
            self._warned.add(op)
            site = state.tracker.here().site()
            warnings.warn(f"{op} runs on the CPU: truecast has no lowering for this form ({site})", stacklevel=2)

    def _refuse_fork(self) -> None:
        if os.getpid() != self.process:
            raise RuntimeError(
                "The pjrt device can't be used in a forked child process: the XLA client does not survive a fork. "
                "Start the process with multiprocessing.set_start_method('spawn'), or keep tensors on the CPU in workers."
            )

    def text(self, tensor: PjrtTensor) -> str:
        """repr() of the tensor: its contents as PyTorch prints them, and the device."""
        shown = repr(self.download(tensor.detach()))
        extra = [f"device='{state.device}'"]
        if tensor.grad_fn is not None:
            extra.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
        elif tensor.requires_grad:
            extra.append("requires_grad=True")
        shown = f"{shown[:-1]}, {', '.join(extra)})"
        return f"Parameter containing:\n{shown}" if isinstance(tensor, torch.nn.Parameter) else shown

    def reduced(self, tensor: PjrtTensor) -> Any:
        """A pickle that plain PyTorch reads: the contents, to be put on the device again (or wherever map_location says)."""
        arguments = (self.download(tensor.detach()), tensor.dtype, str(state.device), tensor.requires_grad)
        return torch_seam.rebuild_from_cpu, arguments


def view_is_impossible(op: str) -> bool:
    return is_view(op)


__all__ = ["Host", "cast", "dtypes"]
