"""Which operations demand something of their operands' contents other than bounds of indices: probabilities, divisors,
lengths, counts; in the words of PyTorch 2.13's CPU kernels. And what they demand of Python numbers.

How contents are checked is checks.py's affair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from truecast.capture.device import bounds
from truecast.capture.device.checks import Call, Check, Look, NumberCheck, within
from truecast.capture.device.values import Lazy, ScalarSlot, Spec

Checks = list[Check | NumberCheck]

_ASSERTED = " to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"  # noqa: E501
_PROBABILITY = f"Expected p_in >= 0 && p_in <= 1{_ASSERTED}"
_STD = "normal expects all elements of std >= 0.0"
_NOT_BETWEEN = "all elements of {} should be between 0 and 1"

# Operands whose every element lies between two numbers: by operation, (operand, low, high, words).
RANGES: dict[str, tuple[tuple[str, float | None, float | None, str], ...]] = {
    "aten.bernoulli.default": (("self", 0, 1, _PROBABILITY),),
    "aten.bernoulli.Tensor": (("p", 0, 1, _PROBABILITY),),
    "aten.binary_cross_entropy.default": (
        ("self", 0, 1, _NOT_BETWEEN.format("input")),
        ("target", 0, 1, _NOT_BETWEEN.format("target")),
    ),
    "aten.poisson.default": (("self", 0, None, "invalid Poisson rate, expected rate to be non-negative"),),
    "aten.normal.Tensor_Tensor": (("std", 0, None, _STD),),
    "aten.normal.float_Tensor": (("std", 0, None, _STD),),
    "aten.repeat_interleave.Tensor": (("repeats", 0, None, "repeats can not be negative"),),
}


def checks_of(spec: Spec) -> tuple[Check | NumberCheck, ...]:
    """What a call demands of its operands' contents and of its numbers; nothing for most.

    Raises what PyTorch raises where a number that is part of the Spec is refused.
    """
    found: Checks = []
    operation = spec.op.rpartition(".")[0]
    if operation in bounds.ROWS or operation in bounds.LISTS:
        found += bounds.checks_of(Call(spec))
    for operand, low, high, words in RANGES.get(spec.op, ()):
        position = Call(spec).tensor(operand)
        if position is not None:
            found.append(within(position, low, high, _error(words)))
    demand = DEMANDS.get(operation)
    if demand is not None:
        found += demand(Call(spec))
    return tuple(found)


def _error(words: str, kind: type[Exception] = RuntimeError) -> Callable[[Any], Exception]:
    return lambda number: kind(words)


def _unless(holds: Callable[..., bool], words: str) -> Callable[..., Exception | None]:
    return lambda *numbers: None if holds(*numbers) else RuntimeError(words)


# ---- numbers -------------------------------------------------------------------------------------------------


def _probability(call: Call) -> Checks:
    p = call.given.get("p")
    if isinstance(p, float | int) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return []


def _dropout(call: Call) -> Checks:
    p = call.given["p"]
    if type(p) is ScalarSlot:  # one that may change is between 0 and 1
        return []
    if call.given.get("train") is not False and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p:g}")
    return []


def _uniform(call: Call) -> Checks:
    low, high = call.given.get("from", 0.0), call.given.get("to", 1.0)
    if type(low) is ScalarSlot:  # those that may change are in order
        return []
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    return []


def _random(call: Call) -> Checks:
    low, high = call.given.get("from", 0), call.given.get("to")
    if high is not None and low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return []


def _divisor(call: Call) -> Checks:
    """Integers are not divided by zero."""
    (result,) = call.outputs
    if result is None or 0 in result.shape or result.dtype.is_floating_point or result.dtype.is_complex:
        return []
    words = "ZeroDivisionError"
    other = call.given["other"]
    position = call.tensor("other")
    if position is not None:
        has_zero = _unless(lambda found: not found, words)
        return [Check("zero", (position,), lambda look, x: [look.any(look.equal(x, 0))], has_zero)]
    if type(other) is ScalarSlot:
        return [NumberCheck(other.index, _unless(lambda number: number != 0, words))]
    if isinstance(other, bool | int) and other == 0:
        raise RuntimeError(words)
    return []


def _power(call: Call) -> Checks:
    """Integers have no negative powers, unless the power is a tensor."""
    exponent = call.given["exponent"]
    (result,) = call.outputs
    if result is None or result.dtype.is_floating_point or result.dtype.is_complex or not call.op.endswith("_Scalar"):
        return []
    words = "Integers to negative integer powers are not allowed."
    if type(exponent) is ScalarSlot:
        return [NumberCheck(exponent.index, _unless(lambda number: number >= 0, words))]
    if not isinstance(exponent, complex) and exponent < 0:
        raise RuntimeError(words)
    return []


# ---- contents ------------------------------------------------------------------------------------------------


def _multinomial(call: Call) -> Checks:
    position = call.tensor("self")
    if position is None:
        return []
    one_at_a_time = call.given.get("replacement") and call.given["num_samples"] > 1

    def look(look: Look, x: Lazy) -> list[Lazy]:
        return [look.least(x), look.greatest(x), look.least(look.totals(x))]

    def verdict(least: float, greatest: float, sum_of_row: float) -> Exception | None:
        if not (least >= 0 and greatest < math.inf):
            if not one_at_a_time:
                return RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
            entry = "infinity or NaN" if greatest == math.inf and least >= 0 else "< 0"
            sign = "= " if entry.startswith("inf") else ""
            return RuntimeError(f"invalid multinomial distribution (encountering probability entry {sign}{entry})")
        return None if sum_of_row > 0 else RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")

    return [Check("multinomial", (position,), look, verdict)]


def _masked_scatter(call: Call) -> Checks:
    mask = call.tensor("mask")
    (result,) = call.outputs
    assert result is not None
    wanted, there = math.prod(result.shape), math.prod(call.shape("source"))
    if mask is None or wanted <= there:
        return []
    copies = wanted // math.prod(call.shape("mask"))

    enough = _unless(lambda ones: ones * copies <= there, "Number of elements of source < number of ones in mask")
    return [Check("total", (mask,), lambda look, x: [look.total(x)], enough)]


def _segments(call: Call) -> Checks:
    axis = call.given.get("axis", 0)
    lengths, offsets = call.tensor("lengths"), call.tensor("offsets")
    if lengths is not None and not call.given.get("unsafe"):
        extent = call.shape("data")[axis]
        words = "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."  # noqa: E501

        def look(look: Look, x: Lazy) -> list[Lazy]:
            totals = look.totals(x)
            return [look.least(totals), look.greatest(totals)]

        return [
            within(lengths, 0, None, _error("lengths contains negative value!")),
            Check("totals", (lengths,), look, _unless(lambda least, greatest: least == greatest == extent, words)),
        ]
    if lengths is None and offsets is not None and call.shape("offsets")[-1] > 1:
        count = call.shape("offsets")[-1]

        def steps(look: Look, x: Lazy) -> list[Lazy]:
            return [look.least(look.difference(look.part(x, 1, count), look.part(x, 0, count - 1)))]

        forward = _unless(lambda least: least >= 0, f"Expected segment_length >= 0{_ASSERTED}")
        return [Check("steps", (offsets,), steps, forward)]
    return []


def _bags(call: Call) -> Checks:
    offsets = call.tensor("offsets")
    if offsets is None:
        return []
    length = math.prod(call.shape("indices"))

    def ends(look: Look, x: Lazy) -> list[Lazy]:
        return [look.at(x, 0), look.at(x, x.shape[0] - 1)]

    def verdict(first: int, last: int) -> Exception | None:
        if first != 0:
            return RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {first}\n[ torch.LongTensor{{}} ]"
            )
        words = f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of {last}"
        return RuntimeError(words) if last > length else None

    return [
        Check("ends", (offsets,), ends, verdict),
        within(offsets, 0, length, _error("index out of range in self", IndexError)),
    ]


_CTC = " (while checking arguments for ctc_loss_allocate_outputs)"


def _ctc(call: Call) -> Checks:
    """Lengths in a list are numbers of the Spec; those in a tensor are contents."""
    time, targets = call.shape("log_probs")[0], call.shape("targets")

    def of_inputs(least: int, greatest: int) -> Exception | None:
        if least < 0:
            return RuntimeError(f"Expected input_lengths to have value at least 0, but got value {least}{_CTC}")
        words = f"Expected input_lengths to have value at most {time}, but got value {greatest}{_CTC}"
        return RuntimeError(words) if greatest > time else None

    def of_targets(least: int, greatest: int, total: int) -> Exception | None:
        if least < 0:
            return RuntimeError(f"Expected target_lengths to have value at least 0, but got value {least}{_CTC}")
        wanted = f"{total} at dimension 0" if len(targets) == 1 else f"at least {greatest} at dimension 1"
        if total == targets[0] if len(targets) == 1 else greatest <= targets[1]:
            return None
        return RuntimeError(
            f"Expected tensor to have size {wanted}, but got size {targets[-1]} for argument #2 'targets'{_CTC}"
        )

    def look(look: Look, x: Lazy) -> list[Lazy]:
        return [look.least(x), look.greatest(x), look.total(x)]

    found: Checks = []
    verdicts: tuple[tuple[str, Callable[..., Exception | None]], ...] = (
        ("target_lengths", of_targets),
        ("input_lengths", lambda least, greatest, total: of_inputs(least, greatest)),
    )
    for name, verdict in verdicts:
        lengths, position = call.given[name], call.tensor(name)
        if position is not None:
            found.append(Check("lengths", (position,), look, verdict))
        elif isinstance(lengths, tuple) and lengths:
            error = verdict(min(lengths), max(lengths), sum(lengths))
            if error is not None:
                raise error
    return found


def _histogram(call: Call, words: str) -> Checks:
    """Where no range is given it is that of the elements."""
    position = call.tensor("self")
    given = (call.given.get("min", 0), call.given.get("max", 0)) if "histc" in call.op else call.given.get("range")
    if position is None or (given and given[0] != given[1]):
        return []

    def look(look: Look, x: Lazy) -> list[Lazy]:
        return [look.least(x), look.greatest(x)]

    def verdict(least: float, greatest: float) -> Exception | None:
        if math.isfinite(least) and math.isfinite(greatest):
            return None
        return RuntimeError(words.format(f"{least:g}", f"{greatest:g}"))

    return [Check("range", (position,), look, verdict)]


def _singular_values(call: Call, matrix: str) -> Checks:
    """There are none of a matrix with a nan."""
    position = call.tensor(matrix)
    if position is None or call.given.get("hermitian"):
        return []
    batch = call.shape(matrix)[:-2]

    def look(look: Look, x: Lazy) -> list[Lazy]:
        count = look.totals(look.totals(look.isnan(x)))
        found = look.differ(count, 0)
        first = look.emit("aten.argmax.default", (count if not batch else look.number(found),), (), torch.int64, ())
        return [look.any(found), first]

    def verdict(found: bool, first: int) -> Exception | None:
        where = f"(Batch element {first}): " if batch else ""
        words = "The algorithm failed to converge because the input matrix contained non-finite values."
        return torch.linalg.LinAlgError(f"linalg.svd: {where}{words}") if found else None

    return [Check("nan", (position,), look, verdict)]


def _finite(call: Call) -> Checks:
    position = call.tensor("self")
    if position is None:
        return []

    def look(look: Look, x: Lazy) -> list[Lazy]:
        return [look.any(look.isnan(look.difference(x, x)))]  # 0 for each finite number and nan for all others

    words = "torch.linalg.eig: input tensor should not contain infs or NaNs."
    return [Check("finite", (position,), look, _unless(lambda found: not found, words))]


def _repeats(call: Call) -> Checks:
    position, size = call.tensor("repeats"), call.given.get("output_size")
    if position is None or size is None:
        return []
    fits = _unless(lambda total: total == size, "allocated size does not match required size")
    return [Check("total", (position,), lambda look, x: [look.total(x)], fits)]


DEMANDS: dict[str, Callable[[Call], Checks]] = {
    "aten.bernoulli": _probability,
    "aten.native_dropout": _dropout,
    "aten.uniform": _uniform,
    "aten.random": _random,
    "aten.div": _divisor,
    "aten.floor_divide": _divisor,
    "aten.remainder": _divisor,
    "aten.fmod": _divisor,
    "aten.pow": _power,
    "aten.multinomial": _multinomial,
    "aten.masked_scatter": _masked_scatter,
    "aten._segment_reduce": _segments,
    "aten.segment_reduce": _segments,
    "aten._embedding_bag": _bags,
    "aten._embedding_bag_forward_only": _bags,
    "aten._ctc_loss": _ctc,
    "aten.histc": partial(_histogram, words="torch.histc: range of [{}, {}] is not finite"),
    "aten.histogram": partial(_histogram, words="torch.histogramdd: dimension 0's range [{}, {}] is not finite"),
    "aten._linalg_svd": partial(_singular_values, matrix="A"),
    "aten.linalg_pinv": partial(_singular_values, matrix="self"),
    "aten.linalg_eig": _finite,
    "aten.repeat_interleave": _repeats,
}
