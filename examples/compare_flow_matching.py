"""Runs flow_matching.py as it is, where it crashes, and in four ways that pass, and holds the losses beside each other.

Each run is a command that can be typed. Run it with `python examples/compare_flow_matching.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = HERE / "flow_matching.py"

# What is done about the float32 blend: environment, options of `truecast run`, arguments of the script.
AS_IT_IS: tuple[dict[str, str], list[str], list[str]] = ({}, [], [])
WAYS = {
    "a policy that casts": ({}, ["--numerics", str(HERE / "follow_weights.toml")], []),
    "torch.autocast('xla')": ({}, [], ["--autocast"]),
    "XLA_USE_BF16=1": ({"XLA_USE_BF16": "1"}, [], []),
    "one cast": ({}, [], ["--cast"]),
}


def command(way: tuple[dict[str, str], list[str], list[str]]) -> str:
    environment, options, arguments = way
    words = [f"{name}={value}" for name, value in environment.items()]
    relative = [os.path.relpath(word, HERE.parent) if word.startswith(str(HERE)) else word for word in options]
    return " ".join([*words, "truecast run", *relative, f"examples/{SCRIPT.name}", *arguments])


def run(way: tuple[dict[str, str], list[str], list[str]]) -> subprocess.CompletedProcess[str]:
    environment, options, arguments = way
    program = [sys.executable, "-c", "from truecast.cli import main; main()", "run", *options, str(SCRIPT), *arguments]
    return subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True)


def losses(done: subprocess.CompletedProcess[str]) -> list[float]:
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(number) for number in re.findall(r"loss ([\d.]+)", done.stdout)]


def main() -> None:
    with ThreadPoolExecutor(2) as pool:
        crashed, *passed = pool.map(run, [AS_IT_IS, *WAYS.values()])
    print(f"$ {command(AS_IT_IS)}\n")
    print(crashed.stderr.rstrip())
    print(f"\nexit code {crashed.returncode}\n")
    curves = {name: losses(done) for name, done in zip(WAYS, passed, strict=True)}
    for name, way in WAYS.items():
        print(f"{name:<24}$ {command(way)}")
    print("\nloss    " + "".join(f"{name:>24}" for name in curves))
    for step in range(len(curves["one cast"])):
        print(f"step {step}  " + "".join(f"{curve[step]:24.4f}" for curve in curves.values()))
    reference = curves["one cast"]
    apart = {name: max(abs(a - b) for a, b in zip(curve, reference, strict=True)) for name, curve in curves.items()}
    print("\nfurthest from the one cast: " + ", ".join(f"{name} {most:.4f}" for name, most in apart.items()))
    print(
        "XLA_USE_BF16 holds every float32 as bfloat16, sums included: they stop growing where a term is under half of\n"
        "their last bit, and the mean of 1536 squares comes out wrong, here as with torch_xla (law N11)."
    )


if __name__ == "__main__":
    main()
