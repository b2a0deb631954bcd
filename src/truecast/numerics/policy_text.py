"""A policy as TOML: files, presets and the text form that parses back to an equal value.

Imports the leaves and numerics.py. TOML itself is the standard library's affair; what it lacks is where a key
stands, so `_Positions` finds the lines of tables and keys in a text that tomllib has already accepted.
"""

from __future__ import annotations

import functools
import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from truecast.errors import NumericsError
from truecast.numerics.numerics import (
    POLICY_FIELDS,
    RULE_FIELDS,
    Numerics,
    Rule,
    check,
    check_storage,
    nearest,
    unknown_name,
)

_PRESETS = resources.files("truecast.numerics") / "presets"
# What a policy file may say at its top: the policy's fields, the rules, and the preset that it starts from.
_TOP = (*POLICY_FIELDS, "extends", "rule")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a policy file; line and column count from 1, 0 is unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join(str(p) for p in (self.file, self.line, self.column) if p)


@functools.cache
def preset_names() -> tuple[str, ...]:
    """The names of the presets, sorted."""
    return tuple(sorted(f.name.removesuffix(".toml") for f in _PRESETS.iterdir() if f.name.endswith(".toml")))


@functools.cache
def preset(name: str) -> Numerics:
    """The preset of that name. Raises NumericsError with the nearest name and the list."""
    if name not in preset_names():
        near = nearest(str(name), preset_names())
        raise NumericsError(
            f"unknown preset {name!r}",
            values=f"presets: {', '.join(preset_names())}",
            help=(f"did you mean {near!r}? " if near else "") + "a policy of your own is given by its path",
        )
    return parse((_PRESETS / f"{name}.toml").read_text(encoding="utf-8"), preset_file(name))


def preset_file(name: str) -> str:
    """The `file` of a preset's rules: what tells them from the rules of a policy file."""
    return f"preset {name}"


def load(path: str | os.PathLike[str]) -> Numerics:
    """The policy in a TOML file. Raises NumericsError with file, line and column."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8-sig") as file:  # some editors put a byte order mark first
            text = file.read()
    except OSError as error:
        hint = f"a preset is given by its name alone: {', '.join(preset_names())}"
        raise NumericsError(f"can't read policy file {name!r}", why=error.strerror, help=hint) from error
    except UnicodeDecodeError as error:  # a ValueError too, so it comes first
        raise NumericsError(
            f"policy file {name!r} is not UTF-8",
            values=f"byte {error.start} is 0x{error.object[error.start]:02x}",
            help="a policy is a TOML text",
        ) from error
    except ValueError as error:
        raise NumericsError(f"can't read policy file {name!r}", why=str(error)) from error
    return parse(text, name)


def parse(text: str, file: str) -> Numerics:
    """The policy that `text` says; `file` names it in errors. Raises NumericsError with line and column."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _malformed(text, file, error) from error
    except RecursionError as error:
        raise NumericsError("values nested too deeply", where=Position(file), why="a policy has none") from error
    positions = _positions(text, file)

    def at(*keys: str | int) -> Position:
        return next((positions[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in positions), Position(file))

    for key in data:
        if key not in _TOP:
            unknown_name(key, "policy", _TOP, at(key))
    settings: dict[str, Any] = {}
    for key in POLICY_FIELDS:
        if key == "storage" or key not in data:
            continue
        check(key, data[key], at(key), required=key != "note")
        settings[key] = data[key]
    if "storage" in data:
        settings["storage"] = _storage(data["storage"], at)
    rules = tuple(_rule(table, index, file, at) for index, table in enumerate(_rule_tables(data, at)))
    if "extends" in data:
        return _extend(data["extends"], settings, rules, file, at("extends"))
    if "name" not in settings:
        raise NumericsError(
            "a policy without a name", where=Position(file), help='give it one in the first line: name = "mine"'
        )
    return Numerics(rules=rules, **settings)


def _extend(base: object, settings: dict[str, Any], rules: tuple[Rule, ...], file: str, where: Position) -> Numerics:
    """The preset `base` with other settings, and `rules` before its own."""
    check("extends", base, where, required=True)
    try:
        start = preset(str(base))
    except NumericsError as error:
        raise NumericsError(error.what, where=where, values=error.values, help=error.help) from error
    settings.setdefault("name", os.path.basename(file).removesuffix(".toml"))
    settings.setdefault("note", "")
    return replace(start, rules=(*rules, *start.rules), **settings)


def _rule_tables(data: dict[str, Any], at: Any) -> list[dict[str, Any]]:
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise NumericsError(
            "rule must be an array of tables",
            where=at("rule"),
            values=f"rule is a {type(tables).__name__}",
            help="write [[rule]], with two brackets, above each rule",
        )
    return tables


def _rule(table: dict[str, Any], index: int, file: str, at: Any) -> Rule:
    for key, value in table.items():
        where = at("rule", index, key)
        if key not in RULE_FIELDS:
            unknown_name(key, "rule", RULE_FIELDS, where)
        check(key, value, where, required=True)
    where = at("rule", index)
    try:
        return Rule(**table, line=where.line, file=file)
    except NumericsError as error:
        raise NumericsError(error.what, where=where, values=error.values, why=error.why, help=error.help) from error


def _storage(table: object, at: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict):
        raise NumericsError(
            "storage must be a table",
            where=at("storage"),
            values=f"storage = {table!r}",
            help='write [storage], and below it one line a dtype: float32 = "bfloat16"',
        )
    for program, device in table.items():
        check("storage", device, at("storage", program), required=True)
        check_storage([(program, device)], at("storage", program))
    return tuple(table.items())


def render(numerics: Numerics) -> str:
    """The TOML text of a policy; `parse` gives an equal value back."""
    lines = [f"name = {_quote(numerics.name)}"]
    for key in ("note", "target", "autocast", "on_mismatch", "subnormals"):
        if value := getattr(numerics, key):
            lines.append(f"{key} = {_quote(value)}")
    if numerics.storage:
        lines += ["", "[storage]", *(f"{program} = {_quote(device)}" for program, device in numerics.storage)]
    for rule in numerics.rules:
        lines += ["", "[[rule]]"]
        lines += [f"{key} = {_quote(value)}" for key in RULE_FIELDS if (value := getattr(rule, key))]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    # A JSON string is a TOML basic string but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def _malformed(text: str, file: str, error: tomllib.TOMLDecodeError) -> NumericsError:
    message = str(error)
    found = _AT.search(message)
    assert found is not None, f"tomllib words its errors differently: {message!r}"
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found[1] else (len(lines), len(lines[-1]) + 1)
    shown = lines[line - 1].strip() if line <= len(lines) else ""
    return NumericsError(
        "not a TOML text",
        where=Position(file, line, column),
        values=shown or None,
        why=message[: found.start()],
        help='a setting is written key = "value", a rule begins with [[rule]]',
    )


_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*(?=[.=])")
# What can hide a line's end, or look like one: strings of four kinds, and comments.
_TOKEN = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|\n', re.DOTALL)


def _positions(text: str, file: str) -> dict[tuple[str | int, ...], Position]:
    """Where each table and key of a valid TOML text stands: ("target",), ("storage", "float32"), ("rule", 0, "op")."""
    found: dict[tuple[str | int, ...], Position] = {}
    table: tuple[str | int, ...] = ()
    rules = 0
    for number, line in _statements(text):
        if header := _HEADER.match(line):
            name = header[2].strip("\"'")
            table = (name,)
            column = header.start(1) + 1
            if header[1] == "[[":
                found.setdefault(table, Position(file, number, column))
                table, rules = (name, rules), rules + 1
            found.setdefault(table, Position(file, number, column))
        elif key := _KEY.match(line):
            found.setdefault((*table, key[1].strip("\"'")), Position(file, number, key.start(1) + 1))
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a TOML text with their numbers; one that ends within a string goes up to it, and the next begins
    behind it, where no statement can begin."""
    begin, number = 0, 1
    for token in _TOKEN.finditer(text):
        if ends := token[0].count("\n"):
            yield number, text[begin : token.start()]
            begin, number = token.end(), number + ends
    yield number, text[begin:]
