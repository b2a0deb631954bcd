"""Between the device and the CPU: contents up and down, operations that only the CPU can run, text, pickles."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast import settings
from truecast.capture import torch_backend, torch_seam
from truecast.capture.device.dispatch import lazy_of, op_name, write
from truecast.capture.device.held import refuse_unheld
from truecast.capture.device.state import state
from truecast.capture.device.tape import Tape
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Lazy, Meta
from truecast.capture.functional import HIDDEN_WRITES
from truecast.errors import UnsupportedError
from truecast.ops.schema import schema


class Host:
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.process = os.getpid()
        self._warned: set[str] = set()

    def upload(self, tensor: torch.Tensor) -> PjrtTensor:
        """The CPU tensor's contents on the device, copied: later writes to the tensor don't reach them."""
        self._refuse_fork()
        if tensor.layout is not torch.strided:
            raise UnsupportedError(
                f"a {tensor.layout} tensor can't go to the pjrt device",
                why="XLA has dense arrays only",
                help="convert it with .to_dense()",
            )
        refuse_unheld(tensor.dtype, "a tensor that goes to the pjrt device has dtype", state.tracker.here().site())
        with torch_seam.without_modes():
            dense = tensor.detach().resolve_conj().resolve_neg()
            strides = tuple(dense.stride() if dense.is_contiguous() else torch.empty_like(dense).stride())
            dense = dense.contiguous()
            buffer = self.tape.upload(dense)
        self.tape.counters.uploads += 1
        self.tape.counters.bytes_up += dense.nbytes
        meta = Meta.of(tensor.dtype, tuple(tensor.shape), strides)
        lazy = Lazy(Meta.dense(meta.dtype, meta.shape), None, 0, buffer)
        return PjrtTensor.make(meta, self.tape.root(lazy, meta.layout))

    def download(self, tensor: PjrtTensor) -> torch.Tensor:
        """The contents as a CPU tensor of its own; runs what is pending."""
        self._refuse_fork()
        meta = tensor._meta
        with self.tape.lock, torch_seam.without_modes():
            buffer = self.tape.keep(lazy_of(tensor))
            found = self.tape.executor.download(buffer, meta.dtype)
            self.judge(waits=True)
            if meta.layout is not None and not meta.shares_elements:
                like = torch.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device="meta")
                strides = torch.empty_like(like).stride()
                if strides != found.stride():
                    dense = found
                    found = torch.empty_strided(meta.shape, strides, dtype=meta.dtype, device="cpu").copy_(dense)
        self.tape.counters.downloads += 1
        self.tape.counters.bytes_down += found.nbytes
        return found

    def judge(self, *, waits: bool) -> None:
        """Raises the error of contents that an operation refuses; without `waits`, only of runs before the last
        `judge`."""

        def read(lazy: Lazy) -> bool | int | float | complex:
            return self.tape.executor.download(lazy.buffer, lazy.dtype).item()

        with self.tape.lock, torch_seam.without_modes():
            state.guards.judge(read, waits=waits)

    def on_cpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], counted: bool) -> Any:
        """Runs one operation on the CPU: operands down, results up, written arguments written back.

        counted: it is there for want of a lowering, and counts as a fallback.
        """
        if counted:
            self._note_fallback(op_name(func))
        pairs: list[tuple[PjrtTensor, torch.Tensor]] = []

        def down(leaf: Any) -> Any:
            if isinstance(leaf, PjrtTensor):
                copy = self.download(leaf)
                pairs.append((leaf, copy))
                return copy
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        cpu_args, cpu_kwargs = pytree.tree_map(down, (args, kwargs))
        with torch_seam.without_modes():
            result = func(*cpu_args, **cpu_kwargs)
        changed = {id(t) for t in torch_seam.tensors_in(written_arguments(func, args, kwargs))}
        for tensor, copy in pairs:
            if id(tensor) in changed:
                self._write(tensor, copy)
        same = {id(copy): tensor for tensor, copy in pairs}

        def up(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            tensor = same.get(id(leaf))
            return self.upload(leaf) if tensor is None else tensor

        return pytree.tree_map(up, result)

    def _write(self, tensor: PjrtTensor, contents: torch.Tensor) -> None:
        made = self.upload(contents)
        if made._meta.shape != tensor._meta.shape:
            tensor.become(made)
        else:
            write(tensor, lazy_of(made))

    def _note_fallback(self, op: str) -> None:
        site = state.tracker.here().site()
        if settings.fallback() == "error":
            raise UnsupportedError(
                f"{op} has no lowering for this form, and TRUECAST_FALLBACK=error forbids the CPU",
                where=str(site),
                why="truecast lowers what its table covers",
                help="unset TRUECAST_FALLBACK to let the CPU run it, or write it with covered operations",
            )
        counts = self.tape.counters.fallbacks
        counts[op] = counts.get(op, 0) + 1
        if op not in self._warned:
            self._warned.add(op)
            warnings.warn(f"{op} runs on the CPU: truecast has no lowering for this form ({site})", stacklevel=2)

    def _refuse_fork(self) -> None:
        if os.getpid() != self.process:
            raise RuntimeError(
                "The pjrt device can't be used in a forked child process: the XLA client does not survive a fork. "
                "Start the process with multiprocessing.set_start_method('spawn'), or keep tensors on the CPU in "
                "workers."
            )

    def text(self, tensor: PjrtTensor) -> str:
        """repr() of the tensor: its contents as PyTorch prints them, and the device."""
        shown = repr(self.download(tensor.detach()))
        extra = [f"device='{state.shown}'"]
        if tensor.grad_fn is not None:
            extra.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
        elif tensor.requires_grad:
            extra.append("requires_grad=True")
        shown = f"{shown[:-1]}, {', '.join(extra)})"
        return f"Parameter containing:\n{shown}" if isinstance(tensor, torch.nn.Parameter) else shown

    def reduced(self, tensor: PjrtTensor) -> Any:
        """A pickle that plain PyTorch reads: contents, to be put on the device again, or where map_location says."""
        if isinstance(tensor, torch.nn.Parameter):
            return torch_backend.rebuild_parameter, (tensor.detach(), tensor.requires_grad, {})
        arguments = (self.download(tensor.detach()), tensor.dtype, str(state.shown), tensor.requires_grad)
        return torch_backend.rebuild_from_cpu, arguments


def written_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a call that it writes."""
    op = op_name(func)
    parameters = schema(op).parameters
    hidden = HIDDEN_WRITES[op].written if op in HIDDEN_WRITES else ()
    given = dict(zip((p.name for p in parameters), args, strict=False)) | kwargs
    return [given.get(p.name) for p in parameters if p.written or p.name in hidden]
