"""What becomes of one bfloat16 multiply: its StableHLO for each target, under that target's policy.

torch_xla 2.9 multiplies in float32 and rounds ("opmath"), 2.10 and TPUs in bfloat16. Run it with
`python examples/opmath.py`.
"""

from __future__ import annotations

import torch

import truecast as tc
from truecast.numerics.targets import TARGETS

VERSIONS = ("torch_xla-2.9", "torch_xla-2.10")


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * b


def main() -> None:
    a = torch.ones(4, dtype=torch.bfloat16)
    for policy in (*TARGETS, *VERSIONS):
        target = policy if policy in TARGETS else "cpu"
        program = tc.lower(multiply, a, a, numerics=policy, target=target)
        (decision,) = program.plan.decisions
        print(f"One bfloat16 multiply for {target} under {policy}: computed in {decision.compute}")
        print("\n".join(line for line in program.stablehlo.splitlines() if "stablehlo." in line) + "\n")


if __name__ == "__main__":
    main()
