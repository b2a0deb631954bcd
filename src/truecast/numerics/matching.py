"""Which rule decides which setting of a node: first match wins, setting by setting.

Imports the leaves, ops' vocabulary and numerics.py. A graph has many nodes and few distinct ones, so everything is
memoised by what rules can tell apart: the overload, the promoted dtype, and, only where a rule asks for them, the
module path and the source line.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate

from truecast.dtypes import BY_NAME, DType
from truecast.numerics.algorithms import ALGORITHMS
from truecast.numerics.numerics import KEYS, Numerics, Rule
from truecast.ops.table import Op
from truecast.sites import Site


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules say of one class of nodes.

    matched: the indices of the rules whose keys match. winners: (setting, index of the rule that decides it) for the
    relevant settings that a rule decides. losers: (setting, index of a rule that has it, too late).
    """

    matched: tuple[int, ...]
    winners: tuple[tuple[str, int], ...]
    losers: tuple[tuple[str, int], ...]


class Matcher:
    """The rules of one policy, ready to be asked about nodes."""

    def __init__(self, numerics: Numerics) -> None:
        self.rules = numerics.rules
        self._target = numerics.target
        self._by_module = any(rule.module for rule in self.rules)
        self._by_source = any(rule.source for rule in self.rules)
        self._candidates: dict[tuple[str, DType], tuple[int, ...]] = {}
        self._outcomes: dict[tuple[object, ...], Outcome] = {}

    def outcome(self, name: str, op: Op, promoted: DType, relevant: tuple[str, ...], site: Site) -> Outcome:
        """What the rules say of an operation `name` on `promoted` at `site`, for the `relevant` settings."""
        key = (
            name,
            promoted,
            site.module if self._by_module else None,
            (site.file, site.line) if self._by_source else None,
        )
        found = self._outcomes.get(key)
        if found is None:
            matched = tuple(i for i in self._for_operation(name, op, promoted) if _at_site(self.rules[i], site))
            found = self._outcomes[key] = self._decide(matched, promoted, relevant)
        return found

    def _for_operation(self, name: str, op: Op, promoted: DType) -> tuple[int, ...]:
        key = (name, promoted)
        if key not in self._candidates:
            self._candidates[key] = tuple(
                i for i, rule in enumerate(self.rules) if _on_operation(rule, name, op, promoted, self._target)
            )
        return self._candidates[key]

    def _decide(self, matched: tuple[int, ...], promoted: DType, relevant: tuple[str, ...]) -> Outcome:
        winners: dict[str, int] = {}
        losers: list[tuple[str, int]] = []
        for index in matched:
            for setting, value in self.rules[index].settings.items():
                if setting not in relevant or (setting == "algorithm" and promoted not in ALGORITHMS[value].inputs):
                    continue
                if setting in winners:
                    losers.append((setting, index))
                else:
                    winners[setting] = index
        return Outcome(matched, tuple(winners.items()), tuple(losers))


def _on_operation(rule: Rule, name: str, op: Op, promoted: DType, target: str) -> bool:
    return (
        (not rule.op or matches_glob(name, rule.op))
        and (not rule.kind or op.kind in rule.kind.split("|"))
        and (not rule.dtype or promoted in dtypes_of(rule.dtype))
        and (not rule.target or rule.target == target)
    )


def _at_site(rule: Rule, site: Site) -> bool:
    if rule.module and not _pattern(rule.module).match(site.module):
        return False
    if not rule.source:
        return True
    base = os.path.basename(site.file)
    pattern = _pattern(rule.source)
    return bool(pattern.match(base) or pattern.match(f"{base}:{site.line}"))


@functools.lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def matches_glob(name: str, globs: str) -> bool:
    """Whether an overload's name matches one of the globs joined by "|"."""
    return any(_pattern(glob).match(name) for glob in globs.split("|"))


@functools.cache
def dtypes_of(groups: str) -> frozenset[DType]:
    """The dtypes that a rule's `dtype` key names: names and groups joined by "|"."""
    return frozenset(d for part in groups.split("|") for d in BY_NAME.values() if _in_group(d, part))


def _in_group(dtype: DType, group: str) -> bool:
    return dtype.is_narrow if group == "narrow" else group in (dtype.name, dtype.category)


def covers(general: Rule, special: Rule) -> bool:
    """Whether everything that `special` matches, `general` matches too; False where that can't be told from globs."""
    return all(_covers(key, getattr(general, key), getattr(special, key)) for key in KEYS)


def _covers(key: str, general: str, special: str) -> bool:
    if not general or general == special:
        return True
    if not special:
        return False
    if key == "dtype":
        return dtypes_of(special) <= dtypes_of(general)
    if key == "kind":
        return set(special.split("|")) <= set(general.split("|"))
    if key == "target":
        return False
    if key != "op":
        return _glob_covers(general, special)
    return all(any(_glob_covers(g, s) for g in general.split("|")) for s in special.split("|"))


def _glob_covers(general: str, special: str) -> bool:
    # A "*" of the special glob, read as a letter, can only be taken up by a "*" of the general one: sound as long as
    # the general one has no other wildcard that takes it up.
    wild = any(c in special for c in "*?[")
    return general == special or (not (wild and ("?" in general or "[" in general)) and fnmatchcase(special, general))
