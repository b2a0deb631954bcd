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
    "foreign",  # a function of another framework (JAX), which computes in the dtypes that it says itself
    "query",  # answers a question about a tensor and makes none: sym_size, item
]

Promotion = Literal[
    "none",  # the tensor operands' promotion (mostly they agree, see the contract); scalars take no part
    "first",  # the result and every numeric operand take the first numeric operand's dtype: writes into a tensor
    "promote",  # PyTorch's result_type of the numeric operands
    "int_to_float",  # as promote; bool and integral become the default floating dtype; with rounding_mode, as promote
    "promote_to_bool",  # as promote for the comparison; the result is bool
    "sum",  # as none; bool and integral become int64
    "complex_to_real",  # as none; a complex operand gives its real dtype
]

# One returned tensor's dtype, where it isn't "result" (what the promotion says, or an explicit dtype argument):
#   bool, int32, int64, uint8   that dtype, or an explicit dtype argument
#   default                     torch.get_default_dtype(), or an explicit dtype argument
#   literal                     what the number in fill_value (or start, end, step) suggests, or an explicit dtype
#   counts                      int64 without weights, float32 for float32 weights, else float64 (bincount)
#   real, complex               derived from the promoted dtype: its component, its complex counterpart
#   opmath                      the opmath type of the first numeric operand
#   an argument's name          that argument's dtype; "weight|input" is weight's where it is given, else input's
RETURN_DTYPES = frozenset(
    ("result", "bool", "int32", "int64", "uint8", "default", "literal", "counts", "real", "complex", "opmath")
)


# Which values of a Python number one program computes with alike (Op.numbers); another value is part of the program.
Range = Literal[
    "any",  # all of them
    "nonzero",  # 0 means something else: the operand that it multiplies is ignored, NaNs included
    "positive",  # 0 means something else, or PyTorch refuses it, as it does those below
    "not_negative",  # PyTorch refuses others
    "chance",  # 0 to 1: PyTorch refuses others
    "inside",  # between 0 and 1; 0 and 1 mean something else, and PyTorch refuses others
    "end",  # that of an interval whose ends are in order and within every floating dtype: PyTorch refuses others
    "held",  # what the first operand's dtype holds: PyTorch refuses others
]

Demand = Literal[
    "same",  # the operands have one dtype, or one in `allowed`
    "allowed",  # the one operand's dtype is in `allowed`
    "parameters",  # the parameters have the input's dtype, or the input is float16 or bfloat16 and they are float32
]


@dataclass(frozen=True, slots=True)
class Contract:
    """One demand on operand dtypes, and what PyTorch raises on the CPU where it isn't met.

    operands: schema arguments, in PyTorch's order of checking; those that are None don't count.
    message: PyTorch's wording. A field names an operand and a spelling of its dtype: "{self.scalar}" prints
        Float, "{self.cpp}" float or c10::BFloat16, "{self.tensor}" torch.FloatTensor or CPUBFloat16Type;
        "{found.scalar}" is the operand that breaks the demand. "" stands for "expected scalar type .. but found ..".
    exception: the built-in's name.
    allowed: dtypes, or categories of dtypes.
    zero_dim, empty: whether a 0-dim operand, and one without elements, must meet the demand as well.
    follow: the operand whose dtype the others are cast to where the policy says so (law N12); "" for the first.
    given, absent: operands that must (must not) be given for this demand to apply.
    """

    operands: tuple[str, ...]
    message: str = ""
    exception: str = "RuntimeError"
    demand: Demand = "same"
    allowed: tuple[str, ...] = ()
    zero_dim: bool = True
    empty: bool = True
    follow: str = ""
    given: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `names` are ATen names without namespace: "add" stands for every functional overload of
    aten::add (and its in-place and out forms); "add.Tensor" for that one, and wins over "add".

    numeric: schema arguments that take part in promotion and are converted to the compute dtype;
        None means every Tensor (list) and Scalar argument.
    accumulates: what it sums, in words, if it accumulates (law N4); "" otherwise.
    contracts: demands on the operands' dtypes, in PyTorch's order of checking.
    returns: the dtype of each returned tensor as RETURN_DTYPES describes; () means "result" for all of them.
    numbers: Python numbers that are computed with besides the numeric arguments, each with the range in which it may
        change from call to call without another program (law N6). Elementwise rows need none: their numbers all may.
    exact: defined by the bits of the promoted dtype (nextafter), so that no policy may compute it in another.
    """

    names: tuple[str, ...]
    kind: Kind
    promotion: Promotion = "none"
    numeric: tuple[str, ...] | None = None
    accumulates: str = ""
    contracts: tuple[Contract, ...] = ()
    returns: tuple[str, ...] = ()
    numbers: tuple[tuple[str, Range], ...] = ()
    exact: bool = False


def rows(
    names: str,
    kind: Kind,
    promotion: Promotion = "none",
    *,
    numeric: str | None = None,
    accumulates: str = "",
    contracts: tuple[Contract, ...] = (),
    returns: str = "",
    numbers: dict[str, Range] | None = None,
    exact: bool = False,
) -> Iterator[Op]:
    """A row shared by the space-separated `names`; `numeric` and `returns` are space-separated as well."""
    yield Op(
        tuple(names.split()),
        kind,
        promotion,
        None if numeric is None else tuple(numeric.split()),
        accumulates,
        contracts,
        tuple(returns.split()),
        tuple((numbers or {}).items()),
        exact,
    )
