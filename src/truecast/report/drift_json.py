"""A drift as JSON, schema 1. A number that is infinite or undefined is null."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from truecast.diagnose.drift import Decision, Error, Measurements, NodeDrift
from truecast.sites import Site

SCHEMA = 1


def render(measured: Measurements) -> str:
    """The measurements as one JSON object, indented."""
    return json.dumps(_plain(document(measured)), indent=2, ensure_ascii=False, allow_nan=False)


def document(measured: Measurements) -> dict[str, Any]:
    """The measurements as dicts and lists."""
    m = measured
    parting, growth = m.first_parting, m.growth()
    return {
        "schema": SCHEMA,
        "program": m.program,
        "a": m.a,
        "b": m.b,
        "reference": m.reference,
        "notes": list(m.notes),
        "results": [n.name for n in m.nodes if n.name in m.results],
        "first_parting": None if parting is None else parting.name,
        "growth": None if growth is None else asdict(growth),
        "values": [_node(node) for node in m.nodes],
        "modules": [
            {
                "module": module.module,
                "phase": module.phase,
                "values": module.values,
                "output": module.output.name,
                "worst": module.worst.name,
            }
            for module in m.modules()
        ],
        "operations": [
            {
                "op": op.op,
                "values": op.values,
                "error_a": op.error_a,
                "error_b": op.error_b,
                "ulps_a": op.ulps_a,
                "ulps_b": op.ulps_b,
                "ratio_a": op.ratio_a,
                "ratio_b": op.ratio_b,
                "worst": op.worst.name,
            }
            for op in m.ops()
        ],
        "decisions": [_decision(decision) for decision in m.decisions],
        "not_computed": [{"name": n.name, "op": n.op, "site": _site(n.site), "why": n.why} for n in m.not_computed],
        "training": None if m.training is None else asdict(m.training),
    }


def _node(node: NodeDrift) -> dict[str, Any]:
    ratio_a, ratio_b = node.ratios
    return {
        "name": node.name,
        "op": node.op,
        "index": node.index,
        "site": _site(node.site),
        "dtype": node.dtype.name,
        "shape": list(node.shape),
        **{run: _error(error) for run, error in (("a", node.a), ("b", node.b), ("honest", node.honest))},
        "ratio_a": ratio_a,
        "ratio_b": ratio_b,
        "differing": node.differing,
        "apart": node.apart,
    }


def _error(error: Error) -> dict[str, Any]:
    return asdict(error)


def _decision(decision: Decision) -> dict[str, Any]:
    return {**asdict(decision), "site": _site(decision.site)}


def _site(site: Site) -> dict[str, Any]:
    return {"file": site.file, "line": site.line, "column": site.column, "module": site.module, "phase": site.phase}


def _plain(item: Any) -> Any:
    """The same with null for numbers that JSON does not have."""
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_plain(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item
