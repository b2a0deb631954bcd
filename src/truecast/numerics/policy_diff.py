"""Where two policies differ, as lines a person reads: settings, rules, and the autocast lists they name.

Imports its own package. What they decide differently about a program's nodes is diff.py's.
"""

from __future__ import annotations

from dataclasses import fields

from truecast.numerics import autocast
from truecast.numerics.numerics import Numerics, Rule

_TOLD_APART_ELSEWHERE = ("name", "note", "rules")


def policy_diff(a: Numerics, b: Numerics) -> str:
    """The differences of `a` and `b`, one line each; a sentence if there are none."""
    lines = [f"numerics: {a.name} and {b.name}", *_settings(a, b), *_rules(a, b)]
    if len(lines) == 1:
        lines = [f"numerics: {a.name} and {b.name} have the same settings and rules"]
    if a.autocast == b.autocast:
        return "\n".join([*lines, f"autocast: both use the list of {a.autocast}"])
    return "\n".join([*lines, autocast.diff_text(a.autocast, b.autocast)])


def _settings(a: Numerics, b: Numerics) -> list[str]:
    names = [field.name for field in fields(Numerics) if field.name not in _TOLD_APART_ELSEWHERE]
    return [
        f"  {name}: {_plain(getattr(a, name))} in {a.name}, {_plain(getattr(b, name))} in {b.name}"
        for name in names
        if getattr(a, name) != getattr(b, name)
    ]


def _plain(setting: object) -> str:
    if isinstance(setting, tuple):
        return ", ".join(f"{program} held as {device}" for program, device in setting) or "none"
    return str(setting)


def _rules(a: Numerics, b: Numerics) -> list[str]:
    lines = _only(a, b) + _only(b, a)
    shared = [rule for rule in a.rules if rule in b.rules]
    if shared != [rule for rule in b.rules if rule in a.rules]:
        lines.append("  rules that both have stand in another order, and the first one that matches decides")
    return lines


def _only(one: Numerics, other: Numerics) -> list[str]:
    missing: list[Rule] = [rule for rule in one.rules if rule not in other.rules]
    return [f"  rules only in {one.name}:", *(f"    {rule}" for rule in missing)] if missing else []
