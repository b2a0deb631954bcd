"""The device sweep's worker: OpInfo samples on the pjrt device, beside eager on the CPU.

Each sample counts once as it is, once with non-contiguous tensors, and where the operator has them once in place and
once with `out=`. Reads operator names from stdin, writes one JSON record a line, `{"done": true}` after each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import truecast as tc
from tests.ops.child import serve
from tests.ops.judge import judge
from tests.ops.samples import ON_CPU, Call, calls, full_name, is_random, noncontiguous, operators, supports
from truecast.errors import TruecastError


@dataclass(frozen=True)
class Variant:
    """One form in which a sample is run: what it does to the call, and to its arguments on the device."""

    name: str
    call: Call
    strided: bool = False
    on_cpu: tuple[int, ...] = ()

    def run(self, device: str) -> tuple[torch.Tensor, ...]:
        """The results, with the tensors that the call wrote to behind them where it is in place."""
        arguments, keywords = placed((self.call.arguments, self.call.keywords), device, self.strided, self.on_cpu)
        return self.call.run(arguments, keywords)


def placed(tree: Any, device: str, strided: bool, on_cpu: tuple[int, ...]) -> Any:
    """A copy of the arguments on a device; devices named among them are that one. on_cpu: the positions of those that
    every device's operator wants on the CPU."""

    def place(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            there = leaf.detach().to(device, copy=True)
            return noncontiguous(there) if strided and there.dim() else there
        return torch.device(device) if isinstance(leaf, torch.device) or leaf == "cpu" else leaf

    arguments, keywords = pytree.tree_map(place, tree)
    for index in on_cpu:
        arguments = (*arguments[:index], tree[0][index], *arguments[index + 1 :])
    if "device" in keywords:
        keywords = {**keywords, "device": device}
    return arguments, keywords


def variants(info: Any, call: Call) -> Iterator[Variant]:
    on_cpu = ON_CPU.get(info.name, ())
    yield Variant("", call, on_cpu=on_cpu)
    if any(
        isinstance(leaf, torch.Tensor) and leaf.dim() for leaf in pytree.tree_leaves((call.arguments, call.keywords))
    ):
        yield Variant("non-contiguous", call, True, on_cpu)
    if info.inplace_variant is not None:
        yield Variant("in place", Call(_in_place(info.inplace_variant), call.arguments, call.keywords))
    if info.supports_out and call.function is info.op:
        yield Variant("out", Call(_into_out(info.op), call.arguments, call.keywords))


def _in_place(method: Callable[..., Any]) -> Callable[..., Any]:
    def function(input: Any, *arguments: Any, **keywords: Any) -> Any:
        return method(input, *arguments, **keywords), input

    return function


def _into_out(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The call with `out=` tensors of the results' dtypes and shapes, filled with ones."""

    def function(*arguments: Any, **keywords: Any) -> Any:
        shape = operator(*arguments, **keywords)
        out = pytree.tree_map(lambda t: torch.ones_like(t) if isinstance(t, torch.Tensor) else t, shape)
        returned = operator(*arguments, **keywords, out=out)
        return out, returned

    return function


def outcomes(info: Any, column: str, limit: int) -> Iterator[tuple[str, str]]:
    """(outcome, detail) for each sample of an operator in one column of the report."""
    dtype = getattr(torch, column)
    if not supports(info, dtype, gradient=False):
        return
    batch = []
    for call in calls(info, dtype, gradient=False, limit=limit):
        for variant in variants(info, call):
            try:
                torch.manual_seed(0)
                batch.append((variant, variant.run("cpu")))
            except Exception:  # eager itself refuses the sample in this form: it is none of ours
                continue
    name = full_name(info)
    try:
        found = _judged(batch, name)
    except Exception:  # some sample of the batch: each by itself then says which, and how
        found = [_alone(entry, name) for entry in batch]
    yield from found


def _judged(batch: list[tuple[Variant, tuple[torch.Tensor, ...]]], name: str) -> list[tuple[str, str]]:
    torch.manual_seed(0)
    results = [variant.run("pjrt") for variant, _ in batch]
    tc.sync()
    found = []
    for (variant, want), result in zip(batch, results, strict=True):
        values = not is_random(name, variant.call)
        got = [t.cpu() for t in result]
        outcome = judge(got, want, values=values)
        if outcome[0] == "wrong value" and values:
            outcome = judge(got, want, _exact(variant))
        if outcome[0] == "pass" and any(t.device.type != "pjrt" for t in result):
            outcome = ("wrong value", "a result is not on the device")
        found.append((outcome[0], f"{variant.name}: {outcome[1]}".removeprefix(": ") if outcome[1] else ""))
    return found


def _alone(entry: tuple[Variant, tuple[torch.Tensor, ...]], name: str) -> tuple[str, str]:
    try:
        return _judged([entry], name)[0]
    except TruecastError as error:
        return "unsupported", error.what.splitlines()[0][:160]
    except Exception as error:
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
        refused = "TRUECAST_FALLBACK" in str(error)
        return (
            ("unsupported", first) if refused else ("error", f"{entry[0].name} {type(error).__name__}: {first}".strip())
        )


def _exact(variant: Variant) -> tuple[torch.Tensor, ...] | None:
    """The results in float64; None for an operator that has no float64 form."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.detach().to(torch.float64)
        return torch.float64 if leaf in (torch.bfloat16, torch.float32) else leaf

    arguments, keywords = pytree.tree_map(widen, (variant.call.arguments, variant.call.keywords))
    try:
        return Variant(
            variant.name, Call(variant.call.function, arguments, keywords), variant.strided, variant.on_cpu
        ).run("cpu")
    except (RuntimeError, NotImplementedError, TypeError):
        return None


if __name__ == "__main__":
    tc.device()
    tc.set_numerics("eager")
    serve(operators(), outcomes, sys.argv[1].split(","), int(sys.argv[2]))
