"""How far a program's results are from the good ones, as one number; larger is worse, 0 is no difference.

NumPy only. Each takes two lists of arrays: the results' leaves, and the good results' leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truecast.errors import UsageError

Array = NDArray[Any]
Arrays = Sequence[Array]
Metric = Callable[[Arrays, Arrays], float]


def max_rel(results: Arrays, good: Arrays) -> float:
    """The largest difference of any element, relative to the largest magnitude in its array of good results.

    Elementwise relative errors say little near zero. Equal infinities and NaNs don't differ; one that only one side
    has is infinitely far.
    """
    return max(_relative(a, b) for a, b in _pairs(results, good))


def kl(results: Arrays, good: Arrays) -> float:
    """The mean divergence KL(good || result), in nats, of the distributions that the logits stand for.

    The logits: the first floating result with a last dimension of two or more.
    """
    a, b = _logits(results, good)
    log_p, log_q = _log_softmax(b), _log_softmax(a)
    with np.errstate(invalid="ignore"):  # -inf - -inf, of a logit that a mask sets aside on both sides
        terms = np.where(log_p == -np.inf, 0, np.exp(log_p) * (log_p - log_q))
    return float(np.mean(np.sum(terms, axis=-1)))


def loss(results: Arrays, good: Arrays) -> float:
    """The loss itself: the first floating result with one element."""
    del good
    found = next((a for a in results if a.size == 1 and a.dtype.kind == "f"), None)
    if found is None:
        raise UsageError("the metric loss needs a result with one element", values=_shapes(results))
    return float(found.reshape(()))


def top1(results: Arrays, good: Arrays) -> float:
    """The share of rows of the logits (see `kl`) whose largest entry is another one than in the good results."""
    a, b = _logits(results, good)
    return float(np.mean(np.argmax(a, axis=-1) != np.argmax(b, axis=-1)))


METRICS: dict[str, Metric] = {"max_rel": max_rel, "kl": kl, "loss": loss, "top1": top1}


def _pairs(results: Arrays, good: Arrays) -> list[tuple[Array, Array]]:
    pairs = [(a, b) for a, b in zip(results, good, strict=True) if b.dtype.kind in "fc" and b.size]
    if not pairs:
        raise UsageError("the metric max_rel needs a floating result", values=_shapes(results))
    return pairs


def _relative(a: Array, b: Array) -> float:
    same = (a == b) | ((a != a) & (b != b))
    if bool(np.all(same)):
        return 0.0
    finite = np.isfinite(a) & np.isfinite(b)
    if not bool(np.all(same | finite)):
        return float("inf")
    where = np.isfinite(b)
    scale = float(np.max(np.abs(b[where])))
    with np.errstate(invalid="ignore"):  # inf - inf, where they are the same
        difference = float(np.max(np.abs(np.where(same, 0, a - b))))
    return difference / scale if scale else float("inf")


def _logits(results: Arrays, good: Arrays) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    for a, b in zip(results, good, strict=True):
        if b.dtype.kind == "f" and b.ndim and b.shape[-1] > 1:
            return a.astype(np.float64), b.astype(np.float64)
    raise UsageError("this metric needs logits: a floating result with a last dimension", values=_shapes(results))


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def _shapes(results: Arrays) -> str:
    return ", ".join(f"{a.dtype}{list(a.shape)}" for a in results) or "no results"
