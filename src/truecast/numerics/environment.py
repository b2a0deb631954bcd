"""What environment variables say about numerics: the policy that holds where a program names none.

The one place where PJRT_DEVICE, XLA_USE_BF16, XLA_DOWNCAST_BF16, NEURON_CC_FLAGS and TRUECAST_NUMERICS become Numerics
(settings.py reads them). A policy that a program or a command line names is taken as it is: none of them changes it.
Imports its own package, settings and the leaves.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from truecast import settings
from truecast.errors import TruecastError, UsageError
from truecast.numerics.numerics import Numerics, Rule

# What PJRT_DEVICE names: the target, and the policy where nothing else names one.
_DEVICES = {"CPU": "cpu", "TPU": "tpu", "CUDA": "cuda", "GPU": "cuda", "NEURON": "neuron"}
_STORAGE = {"XLA_USE_BF16": "legacy-xla-bf16", "XLA_DOWNCAST_BF16": "legacy-xla-downcast-bf16"}
_SOURCE = "aws-neuron-sdk, about-neuron/appnotes/neuronx-cc/neuronx-cc-training-mixed-precision.rst"


def named_policy(text: str, is_path: bool = False) -> Numerics:
    """The policy of that name or path: a path where it is said to be one, ends in .toml or contains a separator."""
    is_path = is_path or text.endswith(".toml") or "/" in text or "\\" in text
    return Numerics.load(text) if is_path else Numerics.preset(text)


def target() -> str:
    """The target that PJRT_DEVICE names; "cpu" where it is not set. Raises UsageError for an unknown device."""
    named = settings.pjrt_device()
    if named and named not in _DEVICES:
        raise UsageError(f"unknown PJRT_DEVICE {named!r}", help=f"one of {', '.join(_DEVICES)}")
    return _DEVICES[named] if named else "cpu"


def default_policy() -> Numerics:
    """The policy that holds where a program names none."""
    text = settings.named_numerics()
    base = named_policy(text) if text else Numerics.preset(target())
    return _refined(base, bool(text), _storage_mode(), settings.neuron_compiler_flags())


def names_policy() -> bool:
    """Whether a variable says which policy holds, or changes the one that does."""
    return bool(settings.named_numerics() or settings.pjrt_device() or _storage_mode())


def _storage_mode() -> str:
    """The variable that maps storage, XLA_USE_BF16 before the other as in torch_xla; "" for none."""
    return next((variable for variable in _STORAGE if settings.is_set(variable)), "")


@functools.cache
def _refined(base: Numerics, is_named: bool, storage_mode: str, neuron_flags: str) -> Numerics:
    if storage_mode:
        legacy = Numerics.preset(_STORAGE[storage_mode])
        if not is_named and base.target == "cpu":
            base = legacy
        else:
            name = f"{base.name}+{storage_mode}"
            base = replace(base, name=name, storage=legacy.storage, on_mismatch=legacy.on_mismatch)
    if base.target == "neuron" and (rules := neuron_rules(neuron_flags)):
        base = replace(base, name=f"{base.name}+NEURON_CC_FLAGS", rules=(*rules, *base.rules))
    return base


# ---- neuronx-cc's flags


def neuron_rules(flags: str) -> tuple[Rule, ...]:
    """The rules that neuronx-cc's flags put before a policy's own. Raises UsageError for a value it doesn't take."""
    said = dict(_numeric_flags(flags))
    cast, kind = said.get("--auto-cast", "none"), said.get("--auto-cast-type", "bf16")
    _require("--auto-cast", cast, ("none", "matmult", "all"))
    _require("--auto-cast-type", kind, ("bf16", "fp16", "tf32"))
    rules: list[Rule] = []
    if said.get("mixed-precision-accumulation") == "disable":
        rules.append(
            Rule(
                kind="reduction|scan|normalization|pooling|loss|indexing",
                dtype="narrow",
                compute="same",
                accumulate="same",
                rounding="compiler",
                note="--disable-mixed-precision-accumulation; which operators it reaches: unverified",
            )
        )
    if cast != "none":
        rules.append(_matmult_rule(kind))
    if cast == "all" and kind != "tf32":  # TF32 is a type of the matmult engine's only
        rules.append(
            Rule(
                dtype="float32",
                compute={"bf16": "bfloat16", "fp16": "float16"}[kind],
                accumulate="float32",
                rounding="compiler",
                note=f"--auto-cast all --auto-cast-type {kind}: every FP32 operation ({_SOURCE})",
            )
        )
    return tuple(rules)


def _matmult_rule(kind: str) -> Rule:
    products = {"bf16": "bf16_bf16_f32", "tf32": "tf32_tf32_f32", "fp16": ""}[kind]
    return Rule(
        kind="contraction|convolution|attention",
        dtype="float32",
        compute="same" if products else "float16",
        accumulate="float32",
        algorithm=products,
        rounding="compiler",
        note=f"--auto-cast matmult --auto-cast-type {kind}: FP32 operands of the matmult engine ({_SOURCE})",
    )


def _numeric_flags(flags: str) -> Iterator[tuple[str, str]]:
    """The flags that say something about precision, each with its value; the others are the compiler's affair."""
    try:
        words = iter(shlex.split(flags))
    except ValueError as error:
        raise UsageError("NEURON_CC_FLAGS can't be read", values=flags, why=str(error)) from error
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("--auto-cast", "--auto-cast-type"):
            yield name, value if equals else next(words, "")
        elif name in ("--enable-mixed-precision-accumulation", "--disable-mixed-precision-accumulation"):
            yield "mixed-precision-accumulation", name.split("-")[2]


def _require(flag: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(
            f"NEURON_CC_FLAGS: {flag} can't be {value!r}", help=f"it is {', '.join(choices[:-1])} or {choices[-1]}"
        )


# ---- in words


@dataclass(frozen=True)
class Mapping:
    """What one variable says. value: "" where it is not set; trouble: why it can't be followed, "" if it can."""

    variable: str
    value: str
    meaning: str
    trouble: str = ""


def mappings() -> tuple[Mapping, ...]:
    """Each variable that decides about numerics, and what comes of it."""
    return tuple(
        _mapping(variable, settings.text_of(variable), meaning)
        for variable, meaning in (
            ("TRUECAST_NUMERICS", lambda: f"the policy is {named_policy(settings.named_numerics()).name!r}"),
            ("PJRT_DEVICE", _device_in_words),
            ("XLA_USE_BF16", lambda: _storage_in_words("XLA_USE_BF16")),
            ("XLA_DOWNCAST_BF16", lambda: _storage_in_words("XLA_DOWNCAST_BF16")),
            ("NEURON_CC_FLAGS", _flags_in_words),
        )
    )


def _mapping(variable: str, value: str, meaning: Callable[[], str]) -> Mapping:
    if not value:
        return Mapping(variable, "", "not set")
    try:
        return Mapping(variable, value, meaning())
    except TruecastError as error:
        return Mapping(variable, value, error.what, error.help or error.values or "")


def _device_in_words() -> str:
    where = f"programs run on target {target()!r}"
    return where if settings.named_numerics() else f"{where}, and the policy is {target()!r}"


def _storage_in_words(variable: str) -> str:
    mode = _storage_mode()
    if mode != variable:
        return f"nothing: {mode} decides" if mode else "nothing: it is off"
    held = Numerics.preset(_STORAGE[variable]).storage
    return "law N11: " + ", ".join(f"{program} is held as {kept}" for program, kept in held)


def _flags_in_words() -> str:
    rules = neuron_rules(settings.neuron_compiler_flags())
    if not rules:
        return "nothing about precision that is not neuronx-cc's default"
    in_force = default_policy().target
    if in_force != "neuron":
        return f"nothing: the policy's target is {in_force!r}, not 'neuron'"
    return "; ".join(str(rule) for rule in rules)
