"""How much a lowered program converts, operation by operation and line by line.

Reads a Program's instructions as plain data: their StableHLO names and types, and the nodes they compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from truecast.graph import Node

# Bits of a StableHLO element type that has no number in its name.
_COMPLEX = re.compile(r"complex<f(\d+)>")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.+)>")


class InstructionLike(Protocol):
    """What is read of an instruction (lowering.instructions.Instruction)."""

    @property
    def operation(self) -> str: ...
    @property
    def types(self) -> tuple[str, ...]: ...
    @property
    def nodes(self) -> tuple[Node, ...]: ...


@dataclass(frozen=True, slots=True)
class Conversions:
    """converts: how many `convert` instructions; nbytes: of their results."""

    converts: int = 0
    nbytes: int = 0

    def __add__(self, other: Conversions) -> Conversions:
        return Conversions(self.converts + other.converts, self.nbytes + other.nbytes)


def by_node(instructions: Iterable[InstructionLike]) -> dict[str, Conversions]:
    """For each node's name what its instructions convert; one that several nodes share counts for the first, and one
    without a node under ""."""
    found: dict[str, Conversions] = {}
    for instruction in instructions:
        if instruction.operation == "stablehlo.convert":
            name = instruction.nodes[0].name if instruction.nodes else ""
            counted = Conversions(1, sum(map(nbytes, instruction.types)))
            found[name] = found.get(name, Conversions()) + counted
    return found


def total(instructions: Iterable[InstructionLike]) -> Conversions:
    """What a whole program converts."""
    return sum(by_node(instructions).values(), Conversions())


def nbytes(tensor: str) -> int:
    """The bytes of a StableHLO tensor type: "tensor<2x3xbf16>" has 12. A dtype below a byte takes one."""
    found = _TENSOR.fullmatch(tensor)
    assert found is not None, f"not a ranked tensor type: {tensor}"
    count = 1
    for extent in found[1].split("x")[:-1]:
        count *= int(extent)
    return count * max(_bits(found[2]) // 8, 1)


def _bits(element: str) -> int:
    if pair := _COMPLEX.fullmatch(element):
        return 2 * int(pair[1])
    digits = re.match(r"[a-z]+(\d+)", element)  # f32, bf16, ui8, i1, f8E4M3FN
    assert digits is not None, f"an element type without a width: {element}"
    return int(digits[1])
