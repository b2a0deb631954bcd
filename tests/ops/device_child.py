"""The device sweep's worker: OpInfo samples on the pjrt device, beside eager on the CPU.

Each sample counts once as it is, once with non-contiguous tensors, and where the operator has them once in place and
once with `out=`. One run tells both columns: a sample that had the CPU run a part of it, for want of a lowering, is one
that `TRUECAST_FALLBACK=error` refuses there. Speaks as tests.ops.child says.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

import truecast as tc
from tests.ops.child import Outcome, serve
from tests.ops.judge import judge
from tests.ops.samples import ON_CPU, Call, calls, full_name, interleaved, is_random, operators, supports
from truecast.errors import TruecastError

TOGETHER = 64  # samples that run as one program: to compile one costs as much as some ten samples in it


@dataclass(frozen=True)
class Variant:
    """One form in which a sample is run: what it does to the call, and to its arguments on the device."""

    name: str
    call: Call
    strided: bool = False
    on_cpu: tuple[int, ...] = ()

    def run(self, device: str) -> tuple[torch.Tensor, ...]:
        """The results, with the tensors that the call wrote to behind them where it is in place."""
        given = (self.call.arguments, self.call.keywords)
        arguments, keywords = placed(given, device, self.strided, self.on_cpu)
        if any(isinstance(leaf, torch.Tensor | torch.device) for leaf in pytree.tree_leaves((arguments, keywords))):
            return self.call.run(arguments, keywords)
        with torch.device(device):  # nothing else says where the result is to be
            return self.call.run(arguments, keywords)


Entry = tuple[Variant, tuple[torch.Tensor, ...]]  # and what eager makes of it


def placed(tree: Any, device: str, strided: bool, on_cpu: tuple[int, ...]) -> Any:
    """A copy of the arguments on a device; devices named among them are that one. on_cpu: the positions of those that
    every device's operator wants on the CPU."""

    def place(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if strided and leaf.dim():  # the same values in every second place of a larger memory
                return interleaved(leaf.detach()).to(device)[..., 0]
            return leaf.detach().to(device, copy=True)
        return torch.device(device) if isinstance(leaf, torch.device) or leaf == "cpu" else leaf

    arguments, keywords = pytree.tree_map(place, tree)
    for index in on_cpu:
        arguments = (*arguments[:index], tree[0][index], *arguments[index + 1 :])
    if "device" in keywords:
        keywords = {**keywords, "device": torch.device(device)}
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
    if info.supports_out:
        arguments, keywords = placed((call.arguments, call.keywords), "cpu", False, on_cpu)
        results = info.op(*arguments, **keywords)  # whose dtypes and shapes those of `out` are, filled with ones
        out = pytree.tree_map(lambda t: torch.ones_like(t) if isinstance(t, torch.Tensor) else t, results)
        keywords = {**call.keywords, "out": out}
        yield Variant("out", Call(_into_out(info.op), call.arguments, keywords, _twice(call.determined)))


def _in_place(method: Callable[..., Any]) -> Callable[..., Any]:
    def function(input: Any, *arguments: Any, **keywords: Any) -> Any:
        return method(input, *arguments, **keywords), input

    return function


def _into_out(operator: Callable[..., Any]) -> Callable[..., Any]:
    def function(*arguments: Any, out: Any, **keywords: Any) -> Any:
        returned = operator(*arguments, **keywords, out=out)
        return out, returned

    return function


def _twice(determined: Callable[..., Any]) -> Callable[..., Any]:
    """For what was written to `out` and for what was returned."""

    def function(results: tuple[Any, Any], *arguments: Any, out: Any, **keywords: Any) -> Any:
        return tuple(determined(result, *arguments, **keywords) for result in results)

    return function


def outcomes(info: Any, column: str, limit: int) -> Iterator[Outcome]:
    """One for each form of each sample of an operator in one column of the report."""
    dtype = getattr(torch, column)
    if not supports(info, dtype, gradient=False):
        return
    name = full_name(info)
    entries = accepted(info, calls(info, dtype, gradient=False, limit=limit))
    while batch := list(itertools.islice(entries, TOGETHER)):
        try:
            yield from _judged(batch, name)
        except Exception:  # of some sample, when they ran: each by itself then says which, and how
            for entry in batch:
                try:
                    yield from _judged([entry], name)
                except Exception as error:
                    yield _failure(error, entry[0])


def accepted(info: Any, samples: Iterator[Call]) -> Iterator[Entry]:
    """The forms of the samples that eager itself takes, with what it makes of them."""
    for call in samples:
        forms = variants(info, call)
        while True:
            try:
                variant = next(forms)
                torch.manual_seed(0)
                yield variant, variant.run("cpu")
            except StopIteration:
                break
            except Exception:  # eager refuses the sample in this form: it is none of ours
                continue


def _judged(batch: list[Entry], name: str) -> list[Outcome]:
    torch.manual_seed(0)
    found: list[Outcome | None] = []
    fallbacks: list[str] = []
    results: list[tuple[torch.Tensor, ...]] = []
    for variant, _ in batch:
        before = tc.metrics().fallbacks
        failure, result = None, ()
        try:
            result = variant.run("pjrt")
        except Exception as error:
            failure = _failure(error, variant)
        after = tc.metrics().fallbacks
        fallbacks.append(", ".join(op for op, count in after.items() if count > before.get(op, 0)))
        found.append(failure)
        results.append(result)
    copies = [[t.clone() for t in result] for result in results]  # a view is then read in the program of all
    tc.sync()
    for index, ((variant, want), result) in enumerate(zip(batch, results, strict=True)):
        outcome = found[index]
        if outcome is None:
            outcome = _compared(variant, [t.cpu() for t in copies[index]], want, not is_random(name, variant.call))
            if outcome.outcome == "pass" and any(t.device.type != "pjrt" for t in result):
                outcome = Outcome("wrong value", "a result is not on the device")
        found[index] = outcome._replace(fallback=fallbacks[index])
    return [outcome for outcome in found if outcome is not None]


def _compared(variant: Variant, got: list[torch.Tensor], want: tuple[torch.Tensor, ...], values: bool) -> Outcome:
    outcome, detail = judge(got, want, values=values)
    if outcome == "wrong value" and values:
        outcome, detail = judge(got, want, _exact(variant))
    return Outcome(outcome, f"{variant.name}: {detail}".removeprefix(": ") if detail else "")


def _failure(error: Exception, variant: Variant) -> Outcome:
    if isinstance(error, TruecastError):
        return Outcome("unsupported", error.what.splitlines()[0][:160])
    first = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
    if "TRUECAST_FALLBACK" in str(error):
        return Outcome("unsupported", first)
    return Outcome("error", f"{variant.name} {type(error).__name__}: {first}".strip())


def _exact(variant: Variant) -> tuple[torch.Tensor, ...] | None:
    """The results in float64; None for an operator that has no float64 form."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.detach().to(torch.float64)
        return torch.float64 if leaf in (torch.bfloat16, torch.float32) else leaf

    arguments, keywords = pytree.tree_map(widen, (variant.call.arguments, variant.call.keywords))
    try:
        return replace(variant, call=replace(variant.call, arguments=arguments, keywords=keywords)).run("cpu")
    except (RuntimeError, NotImplementedError, TypeError):
        return None


if __name__ == "__main__":
    tc.device()
    tc.set_numerics("eager")
    serve(operators(), outcomes, sys.argv[1].split(","), int(sys.argv[2]))
