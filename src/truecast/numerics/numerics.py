"""The policy: an ordered, frozen list of rules and a few settings.

Imports the leaves, graph and ops. A rule has keys (what it matches) and settings (what it does). For each
setting, the first rule that matches a node and has that setting decides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

Rounding = Literal["op", "region", "compiler"]
OnMismatch = Literal["error", "cast"]
Subnormals = Literal["preserve", "flush"]
KEYS = ("op", "kind", "dtype", "target", "module", "source")
SETTINGS = ("compute", "accumulate", "rounding", "algorithm")
ROUNDINGS: tuple[str, ...] = get_args(Rounding)


@dataclass(frozen=True, slots=True)
class Rule:
    """Keys, all of which must match ("" matches anything), and settings ("" leaves it to a later rule).

    op: a glob over overload names ("aten.mul.*"); kind: a kind of the ops table, or several joined by "|";
    dtype: the promoted dtype of the numeric operands, several joined by "|", or a group: "narrow" (floats
    of 16 bits or fewer), "floating", "complex", "integral"; target: a target's name; module: a glob over module paths;
    source: a glob over "file.py:line" (base name) or "file.py".

    compute, accumulate: "same" (the promoted dtype), "opmath" (float32 for 16 bits and fewer), or a dtype's
    name; rounding: law N3; algorithm: a contraction's, see `algorithms.py` (law N5).
    note: where the fact comes from, with the word "unverified" where it is not established.
    """

    op: str = ""
    kind: str = ""
    dtype: str = ""
    target: str = ""
    module: str = ""
    source: str = ""
    compute: str = ""
    accumulate: str = ""
    rounding: str = ""
    algorithm: str = ""
    note: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Numerics:
    """A policy. `rules` in order; `target` is the kind of device it is lowered for ("cpu", "cuda", "tpu", "neuron").

    storage: pairs (dtype of the program, dtype held on the device), law N11; autocast: whose autocast list
    applies (law N10); on_mismatch: law N12; subnormals: whether 16- and 32-bit subnormals survive.
    """

    name: str
    target: str = "cpu"
    rules: tuple[Rule, ...] = ()
    storage: tuple[tuple[str, str], ...] = ()
    autocast: str = "cpu"
    on_mismatch: OnMismatch = "error"
    subnormals: Subnormals = "preserve"
    note: str = field(default="", compare=False)

    def with_rule(self, **keys_and_settings: str) -> Numerics:
        """The same policy with one more rule, which comes first."""
        return replace(self, rules=(Rule(**keys_and_settings), *self.rules))

    def storage_map(self) -> Mapping[str, str]:
        return dict(self.storage)
