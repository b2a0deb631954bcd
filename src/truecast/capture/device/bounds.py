"""Which operations take an index tensor, and what its elements may be: bounds and words of PyTorch 2.13's CPU kernels.

How they are checked is checks.py's affair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from truecast.capture.device.checks import Call, Check, within


@dataclass(frozen=True, slots=True)
class Row:
    """An operation with one index tensor. of: the tensor it indexes; along: how its extent is found: "first" dimension,
    the one that `dim` names, the "last" but one ("rows"), its number of "elements", its "classes", the product of the
    argument output_size. wraps: whether negative indices count from the end. least: the first index. below: the words
    for one that is less, where they are others."""

    index: str
    of: str
    along: str
    error: type[Exception]
    words: str
    wraps: bool = False
    least: int = 0
    below: str | None = None


_OUT_OF_BOUNDS = "index {index} is out of bounds for dimension {dim} with size {size}"
_ALONG_DIM = Row("index", "self", "dim", RuntimeError, _OUT_OF_BOUNDS)
_IN_SELF = "index out of range in self"
_ELEMENTS = "out of range: tried to access index {index} on a tensor of {size} elements."
_BAG = "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {index}"
_IN_BAG = Row("indices", "weight", "first", RuntimeError, _BAG)
_CLASSES = Row("target", "self", "classes", IndexError, "Target {index} is out of bounds.")
_UNPOOLED = Row(
    "indices", "self", "output", RuntimeError, "Found an invalid max index: {index} (output volumes are of size {size})"
)
_SORTER = Row("sorter", "sorter", "last", RuntimeError, "torch.searchsorted(): sorter index out of range")
_AS_PIVOTS = "Did you properly pass the result of lu_factor?"
_SELECTED = Row("index", "self", "dim", IndexError, _IN_SELF)
_EMBEDDED = Row("indices", "weight", "first", IndexError, _IN_SELF)

ROWS: dict[str, Row] = {
    "aten.embedding": _EMBEDDED,
    "aten.embedding_renorm": Row(
        "indices",
        "self",
        "first",
        IndexError,
        "select(): index {index} out of range for tensor of size {shape} at dimension 0",
        wraps=True,
    ),
    "aten._embedding_bag": _IN_BAG,
    "aten._embedding_bag_forward_only": _IN_BAG,
    "aten.index_select": _SELECTED,
    "aten.gather": _ALONG_DIM,
    "aten.scatter": _ALONG_DIM,
    "aten.scatter_add": _ALONG_DIM,
    "aten.scatter_reduce": _ALONG_DIM,
    "aten.index_add": _ALONG_DIM,
    "aten.index_copy": Row("index", "self", "dim", IndexError, "index_copy_(): " + _OUT_OF_BOUNDS),
    "aten.index_fill": Row("index", "self", "dim", IndexError, _OUT_OF_BOUNDS, wraps=True),
    "aten.index_reduce": _SELECTED,
    "aten.take": Row("index", "self", "elements", IndexError, _ELEMENTS, wraps=True),
    "aten.put": Row("index", "self", "elements", IndexError, _ELEMENTS, wraps=True),
    "aten.multi_margin_loss": Row("target", "self", "classes", RuntimeError, "target out of range"),
    "aten.multilabel_margin_loss_forward": Row(
        "target", "self", "last", RuntimeError, "argument #2 'target' is out of range", least=-1
    ),
    "aten.nll_loss_forward": _CLASSES,
    "aten.nll_loss2d_forward": _CLASSES,
    "aten.max_unpool2d": _UNPOOLED,
    "aten.max_unpool3d": _UNPOOLED,
    "aten.searchsorted": _SORTER,
    "aten.linalg_lu_solve": Row(
        "pivots",
        "LU",
        "rows",
        RuntimeError,
        f"Pivots given to lu_solve must all be smaller or equal to LU.size(-2). {_AS_PIVOTS}",
        least=1,
        below=f"Pivots given to lu_solve must all be greater or equal to 1. {_AS_PIVOTS}",
    ),
    "aten.lu_unpack": Row(
        "LU_pivots",
        "LU_data",
        "rows",
        RuntimeError,
        f"pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.{_AS_PIVOTS}",
        least=1,
    ),
}
# A list of index tensors, one a dimension.
LISTS = frozenset(("aten.index", "aten.index_put", "aten._unsafe_index", "aten._unsafe_index_put"))
# These look at no index where there is no element to read or to write.
_LAZY = LISTS | {"aten.index_add", "aten.index_copy", "aten.index_fill"}


def checks_of(call: Call) -> list[Check]:
    """The bounds of a call's index operands; none for an operation without any.

    Raises what PyTorch raises where any index would be out of bounds.
    """
    operation = call.op.rpartition(".")[0]
    if operation in LISTS:
        return _of_lists(call)
    row = ROWS.get(operation)
    if row is None or (index := call.tensor(row.index)) is None or call.metas[index].dtype is torch.bool:
        return []
    shape = call.shape(row.of)
    dim = call.given["dim"] % max(len(shape), 1) if row.along == "dim" else 0
    size, shown = _extent(call, row, shape, dim)
    if operation in _LAZY and 0 in shape and (size or operation == "aten.index_add"):
        return []
    error, words = row.error, row.words
    if 0 in shape and row in (_SELECTED, _EMBEDDED) and operation != "aten.index_reduce":
        if not size and len(shape) > 1:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        if size:
            error, words = RuntimeError, "INDICES element is out of DATA bounds, id={index} axis_dim={size}"
    elif operation == "aten.put" and not size:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    elif operation == "aten.index_add" and len(shape) == 1:
        error, words = IndexError, _IN_SELF
    high = size - 1 + max(row.least, 0)
    low = -size if row.wraps else row.least

    def refused(index: int) -> Exception:
        said = row.below if index < low and row.below is not None else words
        return error(said.format(index=index, dim=dim, size=shown, shape=list(shape)))

    return [within(index, low, high, refused, call.given.get("ignore_index") if row.along == "classes" else None)]


def _extent(call: Call, row: Row, shape: tuple[int, ...], dim: int) -> tuple[int, Any]:
    """How many elements there are to index, and how PyTorch says that."""
    if row.along == "output":
        volume = tuple(call.given["output_size"])
        return math.prod(volume), "x".join(map(str, volume))
    if row.along == "elements" or not shape:
        size = math.prod(shape)
    elif row.along == "classes":
        size = shape[min(1, len(shape) - 1)]
    elif row.along == "last":
        size = shape[-1]
    else:
        size = shape[-2 if row.along == "rows" else dim]
    return size, size


def _of_lists(call: Call) -> list[Check]:
    shape = call.shape("self")
    numbers = [(dim, slot) for dim, slot in enumerate(call.given["indices"]) if slot is not None]
    checks = []
    for counted, (dim, slot) in enumerate(numbers):  # the kernel counts the dimensions that are indexed
        meta = call.metas[slot.index]
        if meta.dtype in (torch.bool, torch.uint8) or 0 in meta.shape:
            continue
        if not shape[dim]:
            raise IndexError("index is out of bounds for dimension with size 0")
        if 0 not in shape:
            checks.append(within(slot.index, -shape[dim], shape[dim] - 1, _refused_of_list(counted, shape[dim])))
    return checks


def _refused_of_list(counted: int, size: int) -> Any:
    return lambda index: IndexError(_OUT_OF_BOUNDS.format(index=index, dim=counted, size=size))
