"""The sweep's worker: reads operator names from stdin, writes one JSON record a line, `{"done": true}` after each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

import truecast as tc
from tests.ops.child import serve
from tests.ops.judge import judge
from tests.ops.samples import Call, calls, full_name, is_random, operators, supports, with_gradients
from truecast.errors import CaptureError, UnsupportedError


def outcomes(info: Any, column: str, limit: int) -> Iterator[tuple[str, str]]:
    """(outcome, detail) for each sample of an operator in one column of the report."""
    gradient = column == "gradient"
    dtype = torch.float32 if gradient else getattr(torch, column)
    if not supports(info, dtype, gradient=gradient):
        return
    batch = [with_gradients(c) if gradient else c for c in calls(info, dtype, gradient=gradient, limit=limit)]
    batch = [c for c in batch if _eager_accepts(c)]
    try:
        yield from _run(batch, full_name(info))
    except Exception:  # some sample of the batch: each by itself then says which, and how
        for call in batch:
            yield from _run_alone(call, full_name(info))


def _eager_accepts(call: Call) -> bool:
    """OpInfo has samples that the installed torch refuses itself; they are no sample of ours."""
    try:
        call.run(*_copied(call))
    except Exception:
        return False
    return True


def _copied(call: Call) -> tuple[Any, Any]:
    """The arguments, copied: some operators write to their inputs."""

    def copy(leaf: Any) -> Any:
        return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(copy, (call.arguments, call.keywords))


def _run_alone(call: Call, name: str) -> Iterator[tuple[str, str]]:
    try:
        yield from _run([call], name)
    except UnsupportedError as error:
        yield "unsupported", error.what
    except CaptureError as error:
        yield "unsupported", error.what.splitlines()[0][:160]
    except Exception as error:
        yield (
            "error",
            f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}",
        )


def _run(batch: list[Call], name: str) -> list[tuple[str, str]]:
    if not batch:
        return []
    given = [_copied(call) for call in batch]

    def function(samples: list[Any]) -> list[tuple[torch.Tensor, ...]]:
        return [call.run(*sample) for call, sample in zip(batch, samples, strict=True)]

    program = tc.lower(function, given, numerics="eager")
    got = program.compile()([_copied(call) for call in batch])
    found = []
    for call, results in zip(batch, got, strict=True):
        want = call.run(*_copied(call))
        values = not is_random(name, call)
        outcome = judge(results, want, values=values)
        if outcome[0] == "wrong value" and values:
            outcome = judge(results, want, _exact(call))
        found.append(outcome)
    return found


def _exact(call: Call) -> tuple[torch.Tensor, ...] | None:
    """The call's results in float64; None for an operator that has no float64 form."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            wide = torch.complex128 if leaf.is_complex() else torch.float64
            return leaf.detach().to(wide).requires_grad_(leaf.requires_grad)
        return torch.float64 if leaf in (torch.float16, torch.bfloat16, torch.float32) else leaf

    try:
        return call.run(*pytree.tree_map(widen, _copied(call)))
    except (RuntimeError, NotImplementedError, TypeError):
        return None


if __name__ == "__main__":
    serve(operators(), outcomes, sys.argv[1].split(","), int(sys.argv[2]))
