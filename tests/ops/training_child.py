"""The device sweep's second worker: PyTorch's databases of modules and optimizers on the pjrt device, beside the CPU.

A module's sample is its output and the gradients of its inputs and parameters, in training and in evaluation mode; an
optimizer's is what its parameters are after three steps. Speaks as tests.ops.child says.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

import truecast as tc
from tests.ops.child import serve
from tests.ops.judge import as_near, judge
from tests.ops.samples import module_inputs, optimizer_inputs, training_table
from truecast.errors import TruecastError

Run = Callable[[str], list[torch.Tensor]]

# Their values are drawn in training mode: shapes and dtypes are compared.
_RANDOM = ("Dropout", "RReLU", "FractionalMaxPool")


def outcomes(info: Any, column: str, limit: int) -> Iterator[tuple[str, str]]:
    """(outcome, detail) for each sample of a module or an optimizer in one dtype."""
    dtype = getattr(torch, column)
    runs = _optimizer_runs(info, dtype) if hasattr(info, "optim_cls") else _module_runs(info, dtype)
    for index, (run, values) in enumerate(runs):
        if limit and index >= limit:
            break
        try:
            want = run("cpu")
        except Exception:  # the CPU itself refuses it
            continue
        yield _outcome(run, want, values)


def _outcome(run: Run, want: list[torch.Tensor], values: bool) -> tuple[str, str]:
    try:
        got = [t.cpu() for t in run("pjrt")]
    except TruecastError as error:
        return "unsupported", error.what.splitlines()[0][:160]
    except Exception as error:
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
        return "error", f"{type(error).__name__}: {first}"
    outcome = judge(got, want, values=values)
    if outcome[0] == "wrong value" and values and len(got) == len(want):
        exact = _exact(run)
        if exact is not None and len(exact) == len(want) and as_near(got, want, exact):
            outcome = ("pass", "")
    return outcome


def _exact(run: Run) -> list[torch.Tensor] | None:
    try:
        return run("exact")
    except (RuntimeError, NotImplementedError, TypeError):
        return None


def _moved(tree: Any, device: str) -> Any:
    """A copy of the tensors on a device; "exact" is the CPU in float64."""

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        floating = leaf.is_floating_point() and device == "exact"
        there = leaf.detach().to(
            "cpu" if device == "exact" else device, torch.float64 if floating else leaf.dtype, copy=True
        )
        return there.requires_grad_(leaf.requires_grad)

    return pytree.tree_map(move, tree)


def _module_runs(info: Any, dtype: torch.dtype) -> Iterator[tuple[Run, bool]]:
    for training in (True, False):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = module_inputs(info, dtype, training)
        for entry in inputs:
            if entry.forward_input is None:
                continue
            torch.manual_seed(0)
            made = entry.constructor_input
            module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
            drawn = training and any(name in info.name for name in _RANDOM)
            yield _module_run(module, entry.forward_input.args, entry.forward_input.kwargs), not drawn


def _module_run(module: torch.nn.Module, args: Any, kwargs: Any) -> Run:
    def run(device: str) -> list[torch.Tensor]:
        there = copy.deepcopy(module)
        there = there.double() if device == "exact" else there.to(device)
        moved_args, moved_kwargs = _moved((args, kwargs), device)
        torch.manual_seed(0)
        result = there(*moved_args, **moved_kwargs)
        outputs = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        given = [t for t in pytree.tree_leaves((moved_args, moved_kwargs)) if isinstance(t, torch.Tensor)]
        wanted = [t for t in (*given, *there.parameters()) if t.requires_grad]
        summed = [o for o in outputs if o.requires_grad]
        gradients = (
            torch.autograd.grad(summed, wanted, list(map(_weights, summed)), allow_unused=True) if summed else ()
        )
        return [t.detach() for t in (*outputs, *gradients, *there.buffers()) if t is not None]

    return run


def _weights(output: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.arange(output.numel())).reshape(output.shape).to(output.dtype).to(output.device)


def _optimizer_runs(info: Any, dtype: torch.dtype) -> Iterator[tuple[Run, bool]]:
    for kwargs in optimizer_inputs(info):
        yield _optimizer_run(info.optim_cls, kwargs, dtype), True


def _optimizer_run(optimizer_class: Any, kwargs: dict[str, Any], dtype: torch.dtype) -> Run:
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        shapes = [(4, 6), (6,)] if optimizer_class.__name__ != "Muon" else [(4, 6), (6, 4)]
        starts = [torch.randn(shape).to(dtype) for shape in shapes]
        gradients = [[torch.randn(shape).to(dtype) for shape in shapes] for _ in range(3)]
        parameters = [torch.nn.Parameter(t) for t in _moved(starts, device)]
        optimizer = optimizer_class(parameters, **_moved(copy.deepcopy(kwargs), device))
        for row in gradients:

            def closure(row: list[torch.Tensor] = row) -> torch.Tensor:
                """The gradient and the value of sum(g p + p^2 / 20)."""
                loss = torch.zeros((), device=parameters[0].device)
                for parameter, gradient in zip(parameters, _moved(row, device), strict=True):
                    held = parameter.detach()
                    parameter.grad = gradient + 0.1 * held
                    loss = loss + (gradient * held + 0.05 * held.square()).float().sum()
                return loss

            closure()
            optimizer.step(closure) if optimizer_class.__name__ == "LBFGS" else optimizer.step()
        return [p.detach() for p in parameters]

    return run


if __name__ == "__main__":
    tc.device()
    tc.set_numerics("eager")
    serve(training_table(), outcomes, sys.argv[1].split(","), int(sys.argv[2]))
