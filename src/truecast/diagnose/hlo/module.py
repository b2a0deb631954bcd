"""What is kept of a program's text: the instructions that matter to precision, and who calls what.

Operations bear StableHLO's names, with HLO's hyphens as underscores and both products as "dot".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from truecast.diagnose.hlo.types import TensorType
from truecast.dtypes import DType

CONVERTS = frozenset(("convert", "stochastic_convert"))
ROUNDINGS = frozenset(("reduce_precision",))
CONTRACTIONS = frozenset(("dot", "convolution", "ragged_dot", "scaled_dot"))
CUSTOM_CALLS = frozenset(("custom_call", "custom_call_start"))
# Operations that combine many elements with a computation that they name or hold.
REDUCTIONS = frozenset(
    ("reduce", "reduce_window", "scatter", "select_and_scatter", "all_reduce", "all_reduce_start", "reduce_scatter")
)
# Operations that sum in the element type of their operand, without naming a computation.
SUMS = frozenset(("batch_norm_training", "batch_norm_grad"))
KEPT = CONVERTS | ROUNDINGS | CONTRACTIONS | CUSTOM_CALLS | REDUCTIONS | SUMS

# Combining with one of these rounds each partial result; a maximum or a selection does not.
ROUNDING_COMBINERS = frozenset(("add", "multiply", "subtract"))

MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be read. Lines and columns count from 1."""

    line: int
    column: int
    what: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.what}"


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the text says about where an instruction comes from; "" and 0 for what it does not say."""

    op_name: str = ""
    op_type: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""


@dataclass(slots=True, eq=False)
class Instruction:
    """text_line: the line it begins on. operands: None where the type is not in the text. computation: the name of
    the one it stands in. reference: what the text says of its origin, for `Module.metadata`. called: the computations
    that it names or holds. detail: algorithm and precision of a contraction, a custom call's target, the format that a
    reduce_precision rounds to."""

    text_line: int
    operation: str
    results: tuple[TensorType, ...]
    operands: tuple[TensorType | None, ...]
    computation: str
    reference: str = ""
    called: tuple[str, ...] = ()
    detail: str = ""


FlowKind = Literal["parameter", "element", "tuple", "through", "sum", "call"]


@dataclass(slots=True)
class Flow:
    """One step of the values' way through a computation, kept where a loop may carry a sum.

    kind: a parameter (index: which); an element of a tuple (index: which); a tuple; a value handed on; a sum; the
    result of a call of `callee`. narrow: the 16-bit dtype that the step rounds to, if it does.
    """

    kind: FlowKind
    operands: tuple[str, ...] = ()
    index: int = 0
    callee: str = ""
    narrow: DType | None = None


@dataclass(slots=True)
class Loop:
    """A while: its body, and the tuple that it carries."""

    text_line: int
    computation: str
    body: str
    carried: tuple[TensorType, ...]
    reference: str


@dataclass(slots=True)
class Computation:
    """A computation, function or region. combines: whether it adds or multiplies floating values; narrowest: the
    narrowest floating dtype that it rounds to, None for none. flow, results: the values' way (see Flow), in order."""

    name: str
    is_entry: bool = False
    combines: bool = False
    narrowest: DType | None = None
    flow: dict[str, Flow] = field(default_factory=dict)
    results: tuple[str, ...] = ()

    def saw(self, operation: str, dtype: DType) -> None:
        """Notes what an instruction that is no parameter computes."""
        if not dtype.is_inexact:
            return
        if operation in ROUNDING_COMBINERS:
            self.combines = True
        if self.narrowest is None or dtype.mantissa_bits < self.narrowest.mantissa_bits:
            self.narrowest = dtype


@dataclass(slots=True)
class Module:
    """language: "HLO" or "StableHLO". instructions: how many there are; kept: those of KEPT; doubles: each instruction
    with a float64 result, however it is computed. callers: for each computation, (calling computation, reference)."""

    language: str
    name: str = ""
    instructions: int = 0
    kept: list[Instruction] = field(default_factory=list)
    doubles: list[Instruction] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    computations: dict[str, Computation] = field(default_factory=dict)
    callers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unread_lines: int = 0
    has_metadata: bool = False
    metadata: Callable[[str], Metadata] = field(default=lambda reference: Metadata(), repr=False)

    def unread(self, line: int, column: int, what: str) -> None:
        """Notes a line that could not be read; the first MOST_PROBLEMS are told apart, the others counted."""
        self.unread_lines += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(line, column, what))

    def call(self, callee: str, computation: str, reference: str) -> None:
        """Notes that an instruction of `computation` calls `callee`."""
        self.callers.setdefault(callee, []).append((computation, reference))
