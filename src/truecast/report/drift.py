"""What `compare` measured, with the ways to show it and to hold it to bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from truecast.diagnose.drift import Measurements, NodeDrift
from truecast.errors import UsageError
from truecast.report import drift_html, drift_json, drift_plot, drift_text
from truecast.sites import Site

By = Literal["module", "op", "value", "decision", "step"]


@dataclass(frozen=True)
class Breach:
    """One bound that a drift breaks: what, where, and the value that was found."""

    what: str
    where: str
    found: float

    def __str__(self) -> str:
        return f"{self.what}\n  --> {self.where}"


@dataclass(frozen=True)
class Drift:
    """measured: the numbers themselves (diagnose/drift.py), defined in docs/compare.md."""

    measured: Measurements

    def render(self, width: int = 0, color: bool = False) -> str:
        """What a person reads: the results, where A and B part, decisions, modules, operations, training."""
        return drift_text.render(self.measured, width, color)

    def table(self, by: By = "module", width: int = 0) -> str:
        """One table: by module, operation, value (in program order), decision, or training step."""
        return drift_text.table(self.measured, by, width)

    def to_json(self) -> str:
        """What a program reads: schema 1."""
        return drift_json.render(self.measured)

    def to_html(self) -> str:
        """A page with the error against depth as a picture, and every table."""
        return drift_html.render(self.measured)

    def write_png(self, path: str | Path) -> None:
        """The picture alone. Raises UsageError without matplotlib (the extra "plot")."""
        drift_plot.write(self.measured, Path(path))

    def gate(
        self,
        *,
        result_ratio: float | None = None,
        ratio: float | None = None,
        flips: float | None = None,
        parameters: float | None = None,
    ) -> tuple[Breach, ...]:
        """The bounds that B breaks, () if none.

        result_ratio, ratio: the most that the error of a result of the program, and of any value, may be as a multiple
        of the honest error. flips: the largest share of a discrete decision that may differ between A and B.
        parameters: the most that the parameters may be away after the last training step. A value that is not finite
        under B where it is finite in the reference and under A breaks every bound.
        """
        bounds = {"result_ratio": result_ratio, "ratio": ratio, "flips": flips, "parameters": parameters}
        for name, bound in bounds.items():
            if bound is not None and math.isnan(bound):
                raise UsageError(f"the bound {name} is not a number", help="nothing would ever break it")
        return tuple(self._breaches(result_ratio, ratio, flips, parameters))

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        m = self.measured
        return f"<Drift of {m.program!r}: {m.a} and {m.b} against {m.reference}, {len(m.nodes)} values>"

    def _breaches(
        self, result_ratio: float | None, ratio: float | None, flips: float | None, parameters: float | None
    ) -> Iterator[Breach]:
        m = self.measured
        for node in m.nodes:
            if node.b.strays > node.a.strays:
                what = f"{node.b.strays} elements of {node.name} ({node.op}) are not finite under {m.b} alone"
                yield Breach(what, _place(node.site), node.b.strays)
            for bound, kind in ((result_ratio, "result"), (ratio, "value")):
                if bound is not None and (kind == "value" or node.name in m.results):
                    yield from _over_ratio(node, bound, kind, m.b)
        for decision in m.decisions:
            if flips is not None and decision.between > flips:
                what = (
                    f"{decision.between:.2%} of the decision {decision.name} ({decision.op}) differ between {m.a} and "
                    f"{m.b}; at most {flips:.2%} may"
                )
                yield Breach(what, _place(decision.site), decision.between)
        if parameters is not None and m.training is not None:
            last = m.training.steps[-1].parameters_b
            if not last <= parameters:
                what = f"the parameters under {m.b} are {last:.2g} of their way off after {len(m.training.steps)} steps"
                yield Breach(f"{what}; at most {parameters:.2g} may be", m.program, last)


def _over_ratio(node: NodeDrift, bound: float, kind: str, policy: str) -> Iterator[Breach]:
    found = node.ratios[1]
    if found is None:  # the honest error is zero: any error at all is too much
        found = float("inf") if node.b.rms else 0.0
    if found > bound:
        times = "in an exact value" if found == float("inf") else f"{found:.2f} times the honest one"
        what = f"the error of the {kind} {node.name} ({node.op}) under {policy} is {times}; at most {bound:g} may be"
        yield Breach(what, _place(node.site), found)


def _place(site: Site) -> str:
    return f"{site}{f', module {site.module}' if site.module else ''}"
