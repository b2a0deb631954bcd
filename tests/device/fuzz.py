"""Random programs of views, writes, indexing and arithmetic on tensors that share memory, on the device and on the CPU.

    python -m tests.device.fuzz --programs 10000 --seed 0

A program is a list of steps, a step is five numbers: what to do, on which tensors, with which arguments. After it every
tensor must be exactly what it is on the CPU, and a step that the CPU refuses must be refused with the same exception.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

import truecast as tc
from tests.device.beside import DEVICE

Step = tuple[int, int, int, int, int]
_READS = 54  # a step of this kind and above, of 60, reads a tensor before it does what it does
_MOST = 24  # tensors alive at once; the oldest goes


def _dim(t: torch.Tensor, a: int) -> int:
    return a % max(t.dim(), 1)


def _rows(t: torch.Tensor, a: int, b: int) -> torch.Tensor:
    extent = t.shape[0] if t.dim() else 1
    return torch.tensor([a % extent, (a + b) % extent, -1 - b % extent], device=t.device)


VIEWS: list[Callable[[torch.Tensor, int, int], Any]] = [
    lambda t, a, b: t.transpose(_dim(t, a), _dim(t, b)),
    lambda t, a, b: t.select(_dim(t, a), b % t.shape[_dim(t, a)]),
    lambda t, a, b: t[a % 3 :: 1 + b % 2],
    lambda t, a, b: t[..., b % 2 : 3],
    lambda t, a, b: t.unsqueeze(a % (t.dim() + 1)),
    lambda t, a, b: t.squeeze(),
    lambda t, a, b: t.view(-1),
    lambda t, a, b: t.reshape(-1, 2),
    lambda t, a, b: t.diagonal(a % 2),
    lambda t, a, b: t.chunk(2, _dim(t, a))[b % 2],
    lambda t, a, b: t.unbind(_dim(t, a))[b % 2],
    lambda t, a, b: t.expand(2, *t.shape),
    lambda t, a, b: t.as_strided((2, 2), (1, 2), b % 2),
    lambda t, a, b: t.unfold(_dim(t, a), 2, 2),
    lambda t, a, b: t.movedim(0, -1),
    lambda t, a, b: t.detach(),
    lambda t, a, b: t.permute(*reversed(range(t.dim()))),
    lambda t, a, b: t.narrow(0, a % 2, 1),
]
WRITES: list[Callable[[torch.Tensor, torch.Tensor, int, int], Any]] = [
    lambda t, o, a, b: t.add_(a),
    lambda t, o, a, b: t.add_(o),
    lambda t, o, a, b: t.sub_(o, alpha=a),
    lambda t, o, a, b: t.mul_(0.5 * a),
    lambda t, o, a, b: t.copy_(o),
    lambda t, o, a, b: t.fill_(a),
    lambda t, o, a, b: t.zero_(),
    lambda t, o, a, b: t.neg_(),
    lambda t, o, a, b: t.clamp_(-a, b),
    lambda t, o, a, b: t.t_() if a % 2 else t.unsqueeze_(0),
    lambda t, o, a, b: t.masked_fill_(t > b, a),
    lambda t, o, a, b: torch.add(t, a, out=t),
]
ASSIGNMENTS: list[Callable[[torch.Tensor, torch.Tensor, int, int], Any]] = [
    lambda t, o, a, b: t.__setitem__(a % 4, b),
    lambda t, o, a, b: t.__setitem__(slice(a % 2, 3), o),
    lambda t, o, a, b: t.__setitem__((..., slice(0, 1 + b % 2)), a),
    lambda t, o, a, b: t.__setitem__(t > a, b),
    lambda t, o, a, b: t.__setitem__(t < b, t[t < b] + a),
    lambda t, o, a, b: t.__setitem__(_rows(t, a, b), b),
    lambda t, o, a, b: t.__setitem__(torch.tensor([b % 4]), a),
    lambda t, o, a, b: t.index_add_(0, _rows(t, a, b)[:1], t[:1] * 2),
    lambda t, o, a, b: t.index_fill_(0, _rows(t, a, b), a),
    lambda t, o, a, b: t.index_put_((_rows(t, a, b),), torch.ones((), dtype=t.dtype, device=t.device), accumulate=True),
]
MAKERS: list[Callable[[torch.Tensor, torch.Tensor, int, int], Any]] = [
    lambda t, o, a, b: t + o,
    lambda t, o, a, b: t * a,
    lambda t, o, a, b: t - 0.5 * b,
    lambda t, o, a, b: t.clone(),
    lambda t, o, a, b: t[t > a],
    lambda t, o, a, b: t[_rows(t, a, b)],
    lambda t, o, a, b: torch.where(t > o, t, a),
    lambda t, o, a, b: t.to(torch.int64 if a % 2 else torch.float32),
    lambda t, o, a, b: torch.cat([t, t], 0),
    lambda t, o, a, b: t.sum(_dim(t, a), dtype=torch.int64) if not t.is_floating_point() else t.amax(_dim(t, a)),
    lambda t, o, a, b: t.contiguous(),
]


class Twins:
    """The tensors of one program, on the device and on the CPU."""

    def __init__(self) -> None:
        whole = torch.arange(12.0).view(3, 4) - 5
        self.here = [whole, torch.arange(8).view(2, 4), torch.ones(3, 4)]
        self.there = [t.to(DEVICE) for t in self.here]

    def step(self, kind: int, i: int, j: int, a: int, b: int) -> None:
        if kind >= _READS:  # what is pending runs, and only this value and whole memories are kept
            self.there[i % len(self.there)].cpu()
        functions = (VIEWS, WRITES, ASSIGNMENTS, MAKERS)[kind % 4]
        function: Any = functions[(a * 7 + b * 3 + j) % len(functions)]

        def run(tensors: list[torch.Tensor]) -> Any:
            t, o = tensors[i % len(tensors)], tensors[j % len(tensors)]
            if tensors is self.here and kind % 4 in (1, 2) and o is not t:
                o = o.clone()  # operands that overlap in part: the CPU refuses some, and reads others half written
            return function(t, a, b) if kind % 4 == 0 else function(t, o, a, b)

        target = self.here[i % len(self.here)]
        if kind % 4 in (1, 2) and any(s == 0 and n > 1 for s, n in zip(target.stride(), target.shape, strict=True)):
            return  # the CPU refuses some writes to expanded tensors, and leaves others undefined
        expected, refusal = _outcome(run, self.here)
        got, refused = _outcome(run, self.there)
        assert type(refused) is type(refusal), f"on the CPU {refusal!r}, on the device {refused!r}"
        if kind % 4 in (0, 3) and refusal is None and 0 < expected.numel() <= 64:
            self.here.append(expected)
            self.there.append(got)
            if len(self.here) > _MOST:
                del self.here[0], self.there[0]

    def compare(self) -> None:
        for got, expected in zip(self.there, self.here, strict=True):
            a, b = (got.dtype, got.shape, _steps(got)), (expected.dtype, expected.shape, _steps(expected))
            assert a == b, f"on the CPU {b}, on the device {a}"
            assert torch.equal(got.cpu(), expected), f"on the CPU {expected}, on the device {got}"


def _steps(t: torch.Tensor) -> list[int]:
    """The strides of dimensions with more than one element. Of others they say nothing, and PyTorch's fake kernels,
    which name them on the device, don't always give the CPU's."""
    return [stride for stride, extent in zip(t.stride(), t.shape, strict=True) if extent > 1]


def _outcome(run: Callable[[list[torch.Tensor]], Any], tensors: list[torch.Tensor]) -> tuple[Any, Exception | None]:
    before = [(t, t.shape) for t in tensors]
    try:
        return run(tensors), None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        assert all(t.shape == shape for t, shape in before)
        return None, error


def run(steps: Sequence[Step]) -> None:
    twins = Twins()
    for step in steps:
        twins.step(*step)
    twins.compare()


def program(source: random.Random) -> list[Step]:
    return [tuple(source.randrange(60) for _ in range(5)) for _ in range(source.randrange(4, 16))]  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program: a run in parts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wrong = 0
    with tc.numerics("eager"):
        for number in range(options.first, options.first + options.programs):
            if number % 500 == 0:
                print(f"from program {number} on", flush=True)
            steps = program(random.Random(f"{options.seed} {number}"))
            try:
                run(steps)
            except Exception as error:
                wrong += 1
                print(
                    f"program {number}: {type(error).__name__}: {' '.join(str(error).split())}\n  {steps}", flush=True
                )
    print(f"{options.programs - wrong} of {options.programs} programs give what the CPU gives")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
