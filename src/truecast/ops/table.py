"""The vocabulary of the ops table: what an ATen operation means for dtypes, as data.

Imports the leaves only. The rows stand in the family files beside this one; `ops.lookup` finds them.
A row says nothing of how an operation is computed (lowering/) nor in which precision (numerics/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "elementwise",  # one output element from one element of each (broadcast) operand
    "reduction",  # many to one along dims: sum, mean, amax, argmax, var
    "scan",  # cumsum, cumprod, logcumsumexp
    "contraction",  # products summed along an axis: mm, bmm, dot
    "convolution",
    "normalization",  # softmax, layer_norm, batch_norm and their backwards
    "attention",
    "pooling",  # pooling and resampling
    "loss",
    "movement",  # no arithmetic: views, cat, pad, where, flip
    "indexing",  # gather, scatter, index, embedding; may accumulate at duplicate indices
    "sorting",  # sort, topk, unique
    "random",
    "creation",  # full, arange, empty
    "cast",  # _to_copy and its like: the user's own conversions
    "linalg",
    "optimizer",  # fused optimizer steps
    "composite",  # means whatever its decomposition means
    "query",  # answers a question about a tensor, makes none: sym_size, item
]

Promotion = Literal[
    "none",  # operands keep their own dtypes; the result follows the first operand
    "promote",  # PyTorch's result_type of the numeric operands
    "int_to_float",  # as promote; bool and integral become the default floating dtype
    "promote_to_bool",  # as promote for the comparison, the result is bool
    "sum",  # as none; bool and integral become int64
    "complex_to_real",  # as none; a complex operand gives its real dtype
]


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
    """

    names: tuple[str, ...]
    kind: Kind
    promotion: Promotion = "none"
    numeric: tuple[str, ...] | None = None
    accumulates: str = ""
    contract: Contract | None = None


def rows(
    names: str,
    kind: Kind,
    promotion: Promotion = "none",
    *,
    numeric: str | None = None,
    accumulates: str = "",
    contract: Contract | None = None,
) -> Iterator[Op]:
    """A row shared by the space-separated `names`; `numeric` is space-separated as well."""
    yield Op(
        tuple(names.split()),
        kind,
        promotion,
        None if numeric is None else tuple(numeric.split()),
        accumulates,
        contract,
    )
