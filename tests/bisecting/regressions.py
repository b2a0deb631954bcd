"""Synthetic regressions: a model of six layers in float32, and policies that differ in harmless ways and in one to
three harmful ones, each of which a rule was planted for."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from truecast.numerics.numerics import Numerics, Rule

GOOD = Numerics("good")

# Wider arithmetic in places: it changes results by a few 1e-8, and is no regression.
HARMLESS = (
    Rule(op="aten._softmax.*", compute="float64", accumulate="float64"),
    Rule(op="aten.mul.Tensor", module="layers.*", compute="float64"),
    Rule(op="aten.add.*", module="layers.[024]", compute="float64"),
    Rule(kind="reduction", module="layers.[135]", accumulate="float64"),
)

# Narrower arithmetic: each by itself changes results by 1e-5 or more.
HARMFUL = (
    Rule(op="aten.silu.*", module="layers.3", compute="bfloat16"),
    Rule(op="aten.silu.*", compute="float16"),
    Rule(op="aten.mul.Tensor", module="layers.1", compute="bfloat16"),
    Rule(op="aten.mul.Tensor", compute="bfloat16"),
    Rule(op="aten._softmax.*", module="layers.[25]", accumulate="bfloat16"),
    Rule(op="aten.mean.*", module="layers.0", accumulate="bfloat16"),
    Rule(op="aten.mean.*", accumulate="bfloat16"),
    Rule(op="aten.rsqrt.*", module="layers.[0-2]", compute="bfloat16"),
    Rule(op="aten.add.*", module="layers.5", compute="bfloat16"),
    Rule(op="aten.pow.*", compute="float16"),
    Rule(op="aten.addmm.*", module="layers.4.up", algorithm="bf16_bf16_f32"),
    Rule(op="aten.addmm.*", module="head", algorithm="bf16_bf16_f32"),
)
BOUND = 2e-6  # all the harmless changes together stay below half of it


class Layer(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(1 + torch.randn(width) / 10)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale
        gate = torch.nn.functional.silu(self.up(normal))
        return x + self.down(torch.softmax(gate, -1) * gate * 10)


class Model(torch.nn.Module):
    def __init__(self, width: int = 16, layers: int = 6) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def model() -> tuple[Model, torch.Tensor]:
    """The model and its input, the same at each call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Model(), torch.randn(4, 16)


@dataclass(frozen=True)
class Regression:
    """bad: the policy with the planted rules, harmless ones among them and behind them."""

    bad: Numerics
    planted: tuple[Rule, ...]


def regression(number: int) -> Regression:
    """The synthetic regression of that number: one to three harmful rules, no two for one operation, in any order."""
    chance = random.Random(number)
    planted: list[Rule] = []
    for rule in chance.sample(HARMFUL, len(HARMFUL)):
        if len(planted) <= number % 3 and all(rule.op != other.op for other in planted):
            planted.append(rule)
    harmless = chance.sample(HARMLESS, len(HARMLESS))
    return Regression(Numerics("bad", rules=(*planted[: 1 + number % 3], *harmless)), tuple(planted[: 1 + number % 3]))
