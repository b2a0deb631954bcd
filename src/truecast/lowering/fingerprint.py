"""The name of a lowered program: equal for programs that must compile to the same thing, else different (law N9).

Covers the Graph without its sites, what the Plan decides about each node, the storage map, the target, the
versions of truecast, jax and jaxlib, and truecast's own lowering rules as they stand in its files, so that who
edits a rule does not meet what the old one compiled to. Why a decision was taken (its rule, its words) and where a node
stands in the source change nothing that is computed, and are left out. What only a device knows (its
topology, its driver) the runtime adds for an executable's key.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from truecast.graph import Argument, Graph, Value
from truecast.numerics.plan import Decision, Plan


@functools.cache
def versions() -> tuple[tuple[str, str], ...]:
    """The packages that decide what a program compiles to, each with its version."""
    return tuple((name, metadata.version(name)) for name in ("truecast", "jax", "jaxlib"))


@functools.cache
def rules_digest() -> str:
    """A digest of the files that decide what a Graph and a Plan are lowered to."""
    root = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted([*root.glob("lowering/*.py"), *root.glob("ops/*.py"), root / "dtypes.py"]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(plan: Plan, target: str, seed_per_draw: bool = False) -> str:
    """64 hexadecimal digits. seed_per_draw: as in lowering.program.Program."""
    digest = hashlib.blake2b(digest_size=32)
    for line in (*_lines(plan, target), *(["seed per draw"] if seed_per_draw else [])):
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _lines(plan: Plan, target: str) -> Iterator[str]:
    numerics = plan.numerics
    yield f"truecast program {versions()} {rules_digest()} target={target!r}"
    yield f"storage={sorted(numerics.storage)} subnormals={numerics.subnormals} policy-target={numerics.target!r}"
    yield from _graph(plan.graph)
    for decision in plan.decisions:
        yield _decision(decision)


def _graph(graph: Graph) -> Iterator[str]:
    for entry in graph.inputs:
        yield f"input {entry.kind} {_definition(entry.value)}"
    for node in graph.nodes:
        arguments = ",".join(map(_argument, node.args))
        named = ",".join(f"{name}={_argument(argument)}" for name, argument in node.kwargs)
        outputs = ",".join("-" if value is None else _definition(value) for value in node.outputs)
        yield f"{outputs} = {node.op}({arguments};{named})"
    for output in graph.outputs:
        yield f"output {output.kind} {'-' if output.value is None else output.value.name!r} {output.target!r}"


def _definition(value: Value) -> str:
    return f"{value.name!r}:{value.dtype}{value.shape}{'s' if value.scalar else ''}"


def _argument(argument: Argument) -> str:
    # A use is its definition's name (invariant G2). repr tells 1 from 1.0 and True, and 0.0 from -0.0.
    if isinstance(argument, Value):
        return f"%{argument.name!r}"
    if isinstance(argument, tuple):
        return f"({','.join(map(_argument, argument))})"
    return repr(argument)


def _decision(decision: Decision) -> str:
    casts = ",".join(f"{name}:{dtype}" for name, dtype in decision.casts)
    return (
        f"{decision.compute} {decision.accumulate} {decision.rounding} {decision.algorithm!r} {decision.region} {casts}"
    )
