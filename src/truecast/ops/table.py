"""The vocabulary of the ops table: what an ATen operation means for dtypes, as data.

Imports the leaves only. The rows stand in the family files beside this one; `ops.lookup` finds them.
A row says nothing of how an operation is computed (lowering/) nor in which precision (numerics/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "elementwise",  # one output element from one element of each (broadcast) numeric operand
    "reduction",  # many to one along dims: sum, mean, amax, argmax, var
    "scan",  # running reductions: cumsum, cumprod, logcumsumexp, cummax
    "contraction",  # products summed along an axis: mm, bmm, dot, cdist
    "convolution",
    "normalization",  # softmax, layer_norm, batch_norm, and their backwards
    "attention",
    "pooling",  # pooling and resampling
    "loss",
    "movement",  # no arithmetic: views, cat, pad, where, flip
    "indexing",  # gather, scatter, index, embedding; may accumulate at duplicate indices
    "sorting",  # sort, topk, unique
    "random",  # draws bits (law N8)
    "creation",  # full, arange, empty
    "cast",  # the user's own conversions: _to_copy, copy
    "linalg",  # factorizations, solvers and Fourier transforms
    "optimizer",  # fused optimizer steps over lists of tensors
    "composite",  # means what its decomposition means; capture replaces it, nothing below capture sees it
    "query",  # answers a question about a tensor and makes none: sym_size, item
]

Promotion = Literal[
    "none",  # no promotion: the result follows the numeric tensor operands, which agree or mix as the op allows
    "promote",  # PyTorch's result_type of the numeric operands
    "int_to_float",  # as promote; bool and integral become the default floating dtype; with rounding_mode, as promote
    "promote_to_bool",  # as promote for the comparison; the result is bool
    "sum",  # as none; bool and integral become int64
    "complex_to_real",  # as none; a complex operand gives its real dtype
]

# What one returned tensor's dtype is, where it isn't the promoted dtype ("result"):
#   bool, int32, int64, uint8   that dtype
#   real, complex               the promoted dtype's component dtype, or the complex dtype made of it
#   an argument's name          that argument's dtype (of its first tensor, for a list)
RETURN_DTYPES = frozenset(("result", "bool", "int32", "int64", "uint8", "real", "complex"))


@dataclass(frozen=True, slots=True)
class Contract:
    """Which operands must have one dtype, and what PyTorch raises when they don't.

    `agree` names schema arguments. `exception` is the built-in's name. `message` is PyTorch's wording with
    {0}, {1} for the differing dtypes in the style of `style`: "scalar" prints Float / BFloat16 (c10's
    names), "torch" prints torch.float32, "short" prints float / c10::BFloat16 (C++ type names).
    """

    agree: tuple[str, ...]
    message: str
    exception: str = "RuntimeError"
    style: Literal["scalar", "torch", "short"] = "scalar"


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `names` are ATen names without namespace: "add" stands for every functional overload of
    aten::add (and its in-place and out forms); "add.Tensor" for that one, and wins over "add".

    numeric: schema arguments that take part in promotion and are converted to the compute dtype;
        None means every Tensor (list) and Scalar argument.
    accumulates: what it sums, in words, if it accumulates (law N4); "" otherwise.
    returns: the dtype of each returned tensor as RETURN_DTYPES describes; () means "result" for all of them.
    """

    names: tuple[str, ...]
    kind: Kind
    promotion: Promotion = "none"
    numeric: tuple[str, ...] | None = None
    accumulates: str = ""
    contract: Contract | None = None
    returns: tuple[str, ...] = ()


def rows(
    names: str,
    kind: Kind,
    promotion: Promotion = "none",
    *,
    numeric: str | None = None,
    accumulates: str = "",
    contract: Contract | None = None,
    returns: str = "",
) -> Iterator[Op]:
    """A row shared by the space-separated `names`; `numeric` and `returns` are space-separated as well."""
    yield Op(
        tuple(names.split()),
        kind,
        promotion,
        None if numeric is None else tuple(numeric.split()),
        accumulates,
        contract,
        tuple(returns.split()),
    )
