"""The checks: one file a finding (contracts.py: a family), each with a function that yields findings about a Flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from truecast.diagnose.checks import (
    autocast_backward,
    cached_cast,
    contracts,
    discrete_decision,
    float64_leak,
    large_integers,
    migrated_range,
    migrated_refusal,
    migrated_widening,
    narrow_angles,
    narrow_parameters,
    out_of_range,
    reinterpreted_bits,
    repeated_cast,
    round_trip,
    standing_average,
    undone_cast,
    unused_cast,
    widened_span,
)
from truecast.diagnose.finding import Finding, grouped
from truecast.diagnose.flow import Flow
from truecast.diagnose.migration import Migration
from truecast.sites import Site

Check = Callable[[Flow], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    contracts.check,
    widened_span.check,
    float64_leak.check,
    round_trip.check,
    repeated_cast.check,
    undone_cast.check,
    narrow_angles.check,
    large_integers.check,
    discrete_decision.check,
    out_of_range.check,
    reinterpreted_bits.check,
    autocast_backward.check,
    cached_cast.check,
    narrow_parameters.check,
    standing_average.check,
    unused_cast.check,
)


def run(flow: Flow) -> tuple[Finding, ...]:
    """Every finding about what was recorded, one per cause.

    A remark about a cause that has an error or a warning is left out.
    """
    found = grouped([finding for check in CHECKS for finding in check(flow)])
    told = {site for f in found if f.severity != "info" for site in _origins(f)}
    return tuple(f for f in found if f.severity != "info" or not told.intersection(_origins(f)))


def run_migration(migration: Migration) -> tuple[Finding, ...]:
    """What moving away from a global downcast changes, and every refusal; other findings are `run`'s."""
    refusals = list(migrated_refusal.check(migration))
    told = frozenset((site.file, site.line) for finding in refusals for site in _origins(finding))
    return grouped([*refusals, *migrated_widening.check(migration, told), *migrated_range.check(migration)])


def _origins(finding: Finding) -> list[Site]:
    return [place.site for place in finding.places if place.role == "origin"]
