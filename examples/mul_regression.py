"""The story of a lowering change that every test let pass: torch_xla 2.10 no longer computes `mul` in float32.

    python examples/mul_regression.py            # a Llama and a Mixtral of 8 layers, then BERT: some minutes
    python examples/mul_regression.py --small    # a Llama of 2 layers

One product of two bfloat16 numbers that is computed in float32 and rounded has the same bits as a bfloat16 product,
and XLA's CPU compiler makes one of both: no test of values there can tell the versions apart, and `compare` finds the
same bits under the presets as they are. Two things differ. The lowered programs do: `audit` counts mul's converts,
`gate` fails. And so does what a target may keep in float32 where it fuses a chain of operations: on one that computes
elementwise ones and sums in float32 inside a kernel (law N3's regions), `compare` and `bisect` show what the converts
did.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForPreTraining,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

import truecast as tc
from truecast.lowering.program import Program
from truecast.report.audit import AuditReport
from truecast.testing import assert_no_worse

OLD, NEW = "torch_xla-2.9", "torch_xla-2.10"
MUL = {OLD: "opmath", NEW: "same"}


def fused(name: str) -> tc.Numerics:
    """A preset on a target that fuses: what is elementwise computes in float32 and is rounded where a kernel ends, sums
    are held in float32; `mul` computes in what the preset's lowering asks for."""
    return (
        tc.Numerics.preset(name)
        .with_rule(kind="elementwise", dtype="narrow", compute="opmath", rounding="region")
        .with_rule(dtype="narrow", accumulate="float32")
        .with_rule(op="aten.mul.Tensor", dtype="narrow", compute=MUL[name], rounding="region")
        .with_settings(name=f"{name}-fused")
    )


class Logits(nn.Module):
    """A language model as a function of its tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens).logits


def sizes(layers: int, width: int) -> dict[str, int | bool]:
    return {
        **{"vocab_size": 256, "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "use_cache": False},
    }


def llama(layers: int, width: int) -> nn.Module:
    return with_outliers(LlamaForCausalLM(LlamaConfig(**sizes(layers, width))))


def mixtral(layers: int, width: int) -> nn.Module:
    config = MixtralConfig(**sizes(layers, width), num_local_experts=4, num_experts_per_tok=2)
    return with_outliers(MixtralForCausalLM(config))


@torch.no_grad()
def with_outliers(model: nn.Module) -> nn.Module:
    """The residual stream of trained models has a few channels tens of times larger than the others, from the embedding
    on, whose norm weights are small in return."""
    for name, weight in model.named_parameters():
        if name.endswith("embed_tokens.weight"):
            weight[:, :3] *= 30
        elif name.endswith("norm.weight"):
            weight.mul_(1 + torch.randn_like(weight) / 5)
            weight[:3] /= 10
    return Logits(model.to(torch.bfloat16))


def show_audit(model: nn.Module, tokens: torch.Tensor) -> None:
    programs = {name: tc.lower(model, tokens, numerics=name) for name in (OLD, NEW)}
    old, new = (tc.audit(program) for program in programs.values())
    print("\naudit: the converts of one mul, by line\n")
    for line, count, before, after in mul_converts(programs[OLD], old, new):
        print(f"  {before:g} -> {after:g}  {line}  ({count} operations)")
    for name in ("converts", "converts.bytes"):
        print(f"  {name:14} {old.counts()[name]:8} -> {new.counts()[name]}")


def mul_converts(program: Program, old: AuditReport, new: AuditReport) -> list[tuple[str, int, float, float]]:
    """Each source line whose `mul` converts another number of times, how many there are, and the converts of each."""
    count = Counter((n.site.file, n.site.line) for n in program.graph.nodes if n.op == "aten.mul.Tensor")
    found = []
    for change in old.diff(new).changes:
        if change.kind == "convert" and change.op == "aten.mul.Tensor":
            number = count[change.file, change.line]
            line = f"{Path(change.file).name}:{change.line}"
            found.append((line, number, change.before / number, change.after / number))
    return found


def show_drift(model: nn.Module, tokens: torch.Tensor) -> None:
    same = tc.compare(model, tokens, a=OLD, b=NEW).measured
    print("\ncompare: the presets as they are, each product rounded where it is used:")
    print(f"  {sum(bool(node.differing) for node in same.nodes)} of {len(same.nodes)} values differ")
    drift = tc.compare(model, tokens, a=fused(OLD), b=fused(NEW)).measured
    print("\ncompare: on a target that fuses, error as a multiple of honest rounding, by layer\n")
    for module in drift.modules():
        if module.module.endswith((".self_attn", ".mlp")):
            a, b = module.output.ratios
            print(f"  {module.module.removeprefix('model.model.'):20} {a or 0:6.3f} -> {b or 0:6.3f}")
    parting = drift.first_parting
    if parting is not None:
        print(f"  first differing: {parting.op} at {parting.site}")


def show_gate(model: nn.Module, tokens: torch.Tensor) -> None:
    print("\ngate:\n")
    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder) / "gate.toml"
        assert_no_worse(baseline, model, tokens, numerics=OLD, reference="none", update=True)
        try:
            assert_no_worse(baseline, model, tokens, numerics=NEW, reference="none")
        except AssertionError as failure:
            print(str(failure).strip())


class BertAdam:
    """Adam without bias correction, as BERT was pre-trained with; its states have the parameters' dtype."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.states = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    @torch.no_grad()
    def step(self) -> None:
        for parameter, mean, square in self.states:
            if parameter.grad is not None:
                mean.mul_(0.9).add_(parameter.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
                parameter.mul_(1 - 1e-6).sub_(mean / (square.sqrt() + 1e-6) * 1e-4)
                parameter.grad = None


def show_bert(layers: int, width: int, runs: int) -> None:
    """The other side of the story: what the converts cost in training, in processor time, which other work on the
    machine leaves alone."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1024, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=4 * width
    )
    model = BertForPreTraining(config).to(torch.bfloat16)
    optimizer = BertAdam(list(model.parameters()))
    tokens = torch.randint(0, 1024, (4, 64))

    def step(tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        loss = model(input_ids=tokens, labels=tokens, next_sentence_label=following).loss
        loss.backward()
        optimizer.step()
        return loss

    arguments = (tokens, torch.tensor([0, 1, 0, 1]))
    programs = {name: tc.lower(step, *arguments, numerics=name) for name in (OLD, NEW)}
    compiled = {name: program.compile() for name, program in programs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(runs):
        for name, call in compiled.items():
            started = time.process_time()
            call(*arguments)
            seconds[name].append(time.process_time() - started)
    print(f"\nBERT, a pre-training step of {layers} layers of width {width}, with its optimizer\n")
    for name, program in programs.items():
        counts = tc.audit(program).counts()
        median = statistics.median(seconds[name])
        print(
            f"  {name:15} {counts['converts']:5} converts, {counts['converts.bytes'] / 1e6:8.1f} MB through them, "
            f"{1e3 * median:8.2f} ms of processor time a step"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    layers, width = (2, 32) if small else (8, 64)
    for make in (llama,) if small else (llama, mixtral):
        torch.manual_seed(0)
        model, tokens = make(layers, width), torch.randint(0, 256, (1, 8 if small else 32))
        print(f"\n=== {make.__name__}, {layers} layers, bfloat16, {OLD} -> {NEW}")
        show_audit(model, tokens)
        show_drift(model, tokens)
        print("\nbisect: on a target that fuses\n")
        print(tc.bisect(model, tokens, good=fused(OLD), bad=fused(NEW)))
        show_gate(model, tokens)
    show_bert(1, 32, 3) if small else show_bert(4, 256, 15)


if __name__ == "__main__":
    main()
