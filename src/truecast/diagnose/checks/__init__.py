"""The checks: one file a finding (contracts.py: a family), each with a function that yields findings about a Flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from truecast.diagnose.checks import (
    autocast_backward,
    backward_dtype,
    cached_cast,
    changed_dtype,
    contracts,
    custom_function,
    discrete_decision,
    explicit_span,
    float64_leak,
    idle_flag,
    idle_region,
    large_integers,
    list_gap,
    migrated_range,
    migrated_refusal,
    migrated_widening,
    narrow_angles,
    narrow_parameters,
    narrow_sum,
    out_of_range,
    reinterpreted_bits,
    repeated_cast,
    round_trip,
    scaled_gradients,
    standing_average,
    undone_cast,
    unused_cast,
    unused_rule,
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
    explicit_span.check,
    narrow_sum.check,
    list_gap.check,
    custom_function.check,
    backward_dtype.check,
    scaled_gradients.check,
    changed_dtype.check,
    idle_region.check,
    idle_flag.check,
    unused_rule.check,
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
