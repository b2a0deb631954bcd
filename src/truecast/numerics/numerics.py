"""The policy: an ordered, frozen list of rules and a few settings.

Imports the leaves and ops' vocabulary. A rule has keys (what it matches) and settings (what it does). Setting by
setting, the first rule that matches a node and has that setting decides it (docs/decisions/0002-first-match.md).
Both are checked where they are built, so that a policy which exists is a policy that can be resolved. Its text form
is TOML (policy_text.py) and parses back to an equal value.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NoReturn, cast, get_args

from truecast.dtypes import BY_NAME
from truecast.errors import NumericsError
from truecast.numerics.algorithms import ALGORITHMS
from truecast.numerics.autocast import DEVICE_TYPES
from truecast.numerics.targets import TARGETS, Subnormals
from truecast.ops.table import Kind

Rounding = Literal["op", "region", "compiler"]
OnMismatch = Literal["error", "cast"]
KEYS = ("op", "kind", "dtype", "target", "module", "source")
SETTINGS = ("compute", "accumulate", "rounding", "algorithm")
ROUNDINGS: tuple[str, ...] = get_args(Rounding)
GROUPS = ("narrow", "floating", "complex", "integral", "bool")
_INEXACT = tuple(d.name for d in BY_NAME.values() if d.is_inexact)
_COMPUTE = ("same", "opmath", *_INEXACT)

# What each field of a rule or of a policy may say; a field that isn't here takes any text.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": get_args(Kind),
    "dtype": (*GROUPS, *BY_NAME),
    "target": TARGETS,
    "compute": _COMPUTE,
    "accumulate": _COMPUTE,
    "rounding": ROUNDINGS,
    "algorithm": tuple(ALGORITHMS),
    "autocast": DEVICE_TYPES,
    "on_mismatch": get_args(OnMismatch),
    "subnormals": get_args(Subnormals),
}
_SEVERAL = ("kind", "dtype")  # joined by "|"


@dataclass(frozen=True, slots=True)
class Rule:
    """Keys, all of which must match ("" matches anything), and settings ("" leaves it to a later rule).

    op: a glob over overload names ("aten.mul.*"); kind: a kind of the ops table; dtype: the promoted dtype of the
    numeric operands, or a group: "narrow" (floats of 16 bits or fewer), "floating", "complex", "integral", "bool";
    of these three, several may be joined by "|". target: a target's name; module: a glob over module paths; source: a
    glob over "file.py:line" (base name) or "file.py".

    compute, accumulate: "same" (the promoted dtype), "opmath" (float32 for 16 bits and fewer), or a dtype's
    name; rounding: law N3; algorithm: a contraction's, see `algorithms.py` (law N5).
    note: where the fact comes from, with the word "unverified" where it is not established.
    file and line: where the rule was read; "" and 0 for one that was made in Python.
    Raises NumericsError for a value that no rule can have, and for a rule without a setting.
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
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in (*KEYS, *SETTINGS, "note"):
            check(name, getattr(self, name))
        if not self.settings:
            raise NumericsError(
                "a rule without a setting",
                where=self.where or None,
                values=f"keys: {self.matches}; settings: none of {', '.join(SETTINGS)}",
                why="it would match and decide nothing",
                help="give it one, for example compute = 'opmath'",
            )

    @property
    def settings(self) -> dict[str, str]:
        """What it decides: the settings it has, by name."""
        return {name: value for name in SETTINGS if (value := getattr(self, name))}

    @property
    def matches(self) -> str:
        """Its keys in words: "aten.mul.* on narrow", "every operation"."""
        what = self.op or self.kind or "every operation"
        if self.op and self.kind:
            what += f" of kind {self.kind}"
        for key, joint in (("dtype", "on"), ("target", "for"), ("module", "in module"), ("source", "at")):
            if value := getattr(self, key):
                what += f" {joint} {value}"
        return what

    @property
    def where(self) -> str:
        """The file (base name) and line it was read from; "" for a rule made in Python."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else ""

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        return f"{self.matches}: {said}" + (f"  ({self.where})" if self.where else "")


@dataclass(frozen=True)
class Numerics:
    """A policy. `rules` in order; `target` is the kind of device it is lowered for ("cpu", "cuda", "tpu", "neuron").

    storage: pairs (dtype of the program, dtype held on the device), law N11; autocast: whose autocast list
    applies (law N10); on_mismatch: law N12; subnormals: see targets.py.
    Raises NumericsError for a value that no policy can have.
    """

    name: str
    target: str = "cpu"
    rules: tuple[Rule, ...] = ()
    storage: tuple[tuple[str, str], ...] = ()
    autocast: str = "cpu"
    on_mismatch: OnMismatch = "error"
    subnormals: Subnormals = "target"
    note: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("name", "target", "autocast", "on_mismatch", "subnormals", "note"):
            check(name, getattr(self, name), required=name != "note")
        check_storage(self.storage)

    @staticmethod
    def preset(name: str) -> Numerics:
        """The preset of that name. Raises NumericsError with the nearest name and the list."""
        from truecast.numerics.policy_text import preset

        return preset(name)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Numerics:
        """The policy in a TOML file. Raises NumericsError with file, line and column."""
        from truecast.numerics.policy_text import load

        return load(path)

    @staticmethod
    def from_toml(text: str, file: str = "<text>") -> Numerics:
        """The policy that `text` says; `file` names it in errors. Raises NumericsError with line and column."""
        from truecast.numerics.policy_text import parse

        return parse(text, file)

    def to_toml(self) -> str:
        """The text form; `Numerics.from_toml` gives an equal value back."""
        from truecast.numerics.policy_text import render

        return render(self)

    def __str__(self) -> str:
        return self.to_toml()

    def with_rule(self, **keys_and_settings: str) -> Numerics:
        """The same policy with one more rule, which comes first."""
        for name in keys_and_settings:
            if name not in RULE_FIELDS:
                unknown_name(name, "rule", RULE_FIELDS)
        return replace(self, rules=(Rule(**cast(Any, keys_and_settings)), *self.rules))

    def without_rule(self, rule: Rule) -> Numerics:
        """The same policy without the rules equal to `rule`. Raises NumericsError if there is none."""
        kept = tuple(r for r in self.rules if r != rule)
        if len(kept) == len(self.rules):
            raise NumericsError(f"policy {self.name!r} has no such rule", values=str(rule))
        return replace(self, rules=kept)

    def with_settings(self, **settings: object) -> Numerics:
        """The same policy with other settings: target, storage, autocast, on_mismatch, subnormals or name."""
        for name in settings:
            if name not in POLICY_FIELDS:
                unknown_name(name, "policy", POLICY_FIELDS)
        return replace(self, **settings)  # type: ignore[arg-type]

    def storage_map(self) -> Mapping[str, str]:
        return dict(self.storage)


RULE_FIELDS = (*KEYS, *SETTINGS, "note")
POLICY_FIELDS = tuple(f.name for f in fields(Numerics) if f.name != "rules")


def check(name: str, value: object, where: object | None = None, *, required: bool = False) -> None:
    """Raises NumericsError unless the field `name` may say `value`."""
    if not isinstance(value, str):
        raise NumericsError(
            f"{name} must be text",
            where=where,
            values=f"{name} = {value!r} ({type(value).__name__})",
            help=f'put it in quotes: {name} = "{_first_choice(name)}"',
        )
    if not value:
        if required:
            raise NumericsError(f"{name} must not be empty", where=where, values=f'{name} = ""')
        return
    choices = _CHOICES.get(name)
    if choices is None:
        return
    for part in value.split("|") if name in _SEVERAL else (value,):
        if part not in choices:
            near = nearest(part, choices)
            raise NumericsError(
                f"{name} can't be {part!r}",
                where=where,
                values=f"{name} is {_listed(name, choices)}",
                help=f"did you mean {near!r}?" if near else None,
            )


def check_storage(storage: Iterable[tuple[str, str]], where: object | None = None) -> None:
    """Raises NumericsError unless `storage` maps inexact dtypes, each once, to another dtype of the same category."""
    seen: set[str] = set()
    for program, device in storage:
        for side in (program, device):
            if side not in _INEXACT:
                near = nearest(str(side), _INEXACT)
                raise NumericsError(
                    f"storage can't map {side!r}",
                    where=where,
                    values=f"storage maps floating and complex dtypes: {', '.join(_INEXACT)}",
                    help=f"did you mean {near!r}?" if near else None,
                )
        if BY_NAME[program].category != BY_NAME[device].category or program == device or program in seen:
            raise NumericsError(
                f"storage can't map {program} to {device}",
                where=where,
                why="a dtype is held as one other dtype of its own category (law N11)",
            )
        seen.add(program)


def unknown_name(name: str, owner: str, known: Iterable[str], where: object | None = None) -> NoReturn:
    """Raises NumericsError for a field that a rule or a policy does not have."""
    known = tuple(known)
    near = nearest(name, known)
    raise NumericsError(
        f"a {owner} has no {name!r}",
        where=where,
        values=f"a {owner} has: {', '.join(known)}",
        help=f"did you mean {near!r}?" if near else None,
    )


# Words that people use for others which they don't look like.
_MEANT = {
    **{"gpu": "cuda", "nvidia": "cuda", "trainium": "neuron", "inferentia": "neuron"},
    **{
        "fp64": "float64",
        "f64": "float64",
        "double": "float64",
        "fp32": "float32",
        "f32": "float32",
        "float": "float32",
    },
    **{"fp16": "float16", "f16": "float16", "half": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"},
}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` stands for or looks most like, if there is one."""
    known = tuple(known)
    if (meant := _MEANT.get(word.lower())) in known:
        return meant
    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


def _first_choice(name: str) -> str:
    return _CHOICES.get(name, ("...",))[0]


def _listed(name: str, choices: tuple[str, ...]) -> str:
    joined = " (several joined by |)" if name in _SEVERAL else ""
    return f"one of {', '.join(choices)}{joined}"
