"""One call for every operation that computes: what `bench/ulp.py` measures, with shapes and literals.

An elementwise operation's call is made from its schema: every tensor of one shape, every number NUMBER unless OTHERS
says otherwise. The others are written out: `t(shape)` is a tensor of the dtype that is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from truecast import ops
from truecast.lowering import registry
from truecast.lowering import rules as _rules  # noqa: F401  (registers every rule)
from truecast.ops.schema import schema

ELEMENTS = 2048
KINDS = ("elementwise", "reduction", "scan", "contraction", "normalization")


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """name: as the table shows it. function: of the tensors of `shapes`, in order."""

    name: str
    kind: str
    shapes: tuple[tuple[int, ...], ...]
    function: Callable[..., Any]


def t(*shape: int) -> Tensor:
    return Tensor(shape)


NUMBER = 0.5
# By operation: a number for each of its scalar arguments that has no default, in order.
OTHERS: dict[str, tuple[Any, ...]] = {
    "polygamma": (1,),
    "mvlgamma": (2,),
    "threshold": (0.5, -1.0),
    "threshold_backward": (0.5,),
    "hardtanh_backward": (-1.0, 1.0),
    "elu_backward": (1.0, 1.0, 1.0, False),
    "leaky_relu_backward": (0.01, False),
    "softplus_backward": (1.0, 20.0),
    "logit_backward": (0.1,),
    "native_dropout_backward": (2.0,),
    "_masked_scale": (2.0,),
}
# Of a family of polynomials: the recurrence runs as often as the degree says, so the degree is a number.
_DEGREE = 5
# What makes no floating number of floating ones, or takes other operands than floats.
_NO_NUMBERS = frozenset(
    (
        *("eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isposinf isneginf".split()),
        *("signbit bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift gcd".split()),
        *("lcm __lshift__ __rshift__ __ilshift__ __irshift__ _conj_physical _neg_view_copy sgn".split()),
        *("complex polar nextafter frexp ldexp".split()),
        *("argmax argmin count_nonzero any all equal _is_all_true _is_any_true bincount segment_reduce".split()),
        *("_segment_reduce_backward histc _histogramdd_bin_edges _histogramdd_from_bin_cts".split()),
        *("_histogramdd_from_bin_tensors _int_mm _scaled_mm native_dropout_backward _masked_scale".split()),
    )
)
_PREFERRED = ("default", "Tensor", "self", "Tensor_Tensor", "dim_IntList", "correction", "dim", "other")

ROWS, WIDE, LONG = 64, 256, 1 << 20
_MATRIX, _COLUMN = t(ROWS, WIDE), t(ROWS, 1)
_BOTH = [True, True, True]
_LAYER = (_MATRIX, [WIDE])
_IMAGE, _CHANNELS = t(4, 8, 64), t(8)

SHAPED: dict[str, tuple[Any, ...]] = {
    "clamp.Tensor": (t(ELEMENTS), t(ELEMENTS), t(ELEMENTS)),
    "sum.dim_IntList": (_MATRIX, [1]),
    "nansum.default": (_MATRIX, [1]),
    "prod.dim_int": (_MATRIX, 1),
    "mean.dim": (_MATRIX, [1]),
    "var.correction": (_MATRIX, [1]),
    "std.correction": (_MATRIX, [1]),
    "var_mean.correction": (_MATRIX, [1]),
    "std_mean.correction": (_MATRIX, [1]),
    "norm.ScalarOpt_dim": (_MATRIX, 2, [1]),
    "linalg_vector_norm.default": (_MATRIX, 2, [1]),
    "dist.default": (t(WIDE), t(WIDE)),
    "renorm.default": (_MATRIX, 2, 0, 1.0),
    "logsumexp.default": (_MATRIX, [1]),
    "trace.default": (t(ROWS, ROWS),),
    "amax.default": (_MATRIX, [1]),
    "amin.default": (_MATRIX, [1]),
    "max.default": (_MATRIX,),
    "min.default": (_MATRIX,),
    "max.dim": (_MATRIX, 1),
    "min.dim": (_MATRIX, 1),
    "median.dim": (_MATRIX, 1),
    "nanmedian.dim": (_MATRIX, 1),
    "mode.default": (_MATRIX, 1),
    "kthvalue.default": (_MATRIX, 5, 1),
    "aminmax.default": (_MATRIX,),
    "glu.default": (_MATRIX, 1),
    "glu_backward.default": (t(ROWS, WIDE // 2), _MATRIX, 1),
    "_cdist_forward.default": (t(16, WIDE), t(16, WIDE), 2.0, None),
    "_euclidean_dist.default": (t(16, WIDE), t(16, WIDE)),
    "_pdist_forward.default": (t(16, WIDE), 2.0),
    "cumsum.default": (_MATRIX, 1),
    "cumprod.default": (_MATRIX, 1),
    "_logcumsumexp.default": (_MATRIX, 1),
    "cummax.default": (_MATRIX, 1),
    "cummin.default": (_MATRIX, 1),
    "mm.default": (_MATRIX, t(WIDE, ROWS)),
    "bmm.default": (t(4, 16, WIDE), t(4, WIDE, 16)),
    "mv.default": (_MATRIX, t(WIDE)),
    "dot.default": (t(WIDE), t(WIDE)),
    "vdot.default": (t(WIDE), t(WIDE)),
    "addmm.default": (t(ROWS), _MATRIX, t(WIDE, ROWS)),
    "addmv.default": (t(ROWS), _MATRIX, t(WIDE)),
    "addr.default": (_MATRIX, t(ROWS), t(WIDE)),
    "baddbmm.default": (t(4, 16, 16), t(4, 16, WIDE), t(4, WIDE, 16)),
    "addbmm.default": (t(16, 16), t(4, 16, WIDE), t(4, WIDE, 16)),
    "_trilinear.default": (t(16, 32), t(8, 32, 64), t(16, 64), [1, 3], [0], [1, 2], [2, 3], 1),
    "_softmax.default": (_MATRIX, 1, False),
    "_log_softmax.default": (_MATRIX, 1, False),
    "_safe_softmax.default": (_MATRIX, 1),
    "_softmax_backward_data.default": (_MATRIX, _MATRIX, 1, None),
    "_log_softmax_backward_data.default": (_MATRIX, _MATRIX, 1, None),
    "native_layer_norm.default": (*_LAYER, t(WIDE), t(WIDE), 1e-5),
    "native_layer_norm_backward.default": (_MATRIX, *_LAYER, _COLUMN, _COLUMN, t(WIDE), t(WIDE), _BOTH),
    "native_group_norm.default": (_IMAGE, _CHANNELS, _CHANNELS, 4, 8, 64, 2, 1e-5),
    "_fused_rms_norm.default": (*_LAYER, t(WIDE), 1e-5),
    "_native_batch_norm_legit.no_stats": (_IMAGE, _CHANNELS, _CHANNELS, True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training.default": (
        *(_IMAGE, _CHANNELS, _CHANNELS, _CHANNELS, _CHANNELS),
        *(0.1, 1e-5),
    ),
    "_weight_norm_interface.default": (_MATRIX, _COLUMN),
    "_cdist_backward.default": (t(16, 16), t(16, WIDE), t(16, WIDE), 2.0, t(16, 16)),
    "_pdist_backward.default": (t(120), t(16, WIDE), 2.0, t(120)),
    "native_group_norm_backward.default": (_IMAGE, _IMAGE, t(4, 2), t(4, 2), _CHANNELS, 4, 8, 64, 2, _BOTH),
    "native_batch_norm.default": (_IMAGE, _CHANNELS, _CHANNELS, None, None, True, 0.1, 1e-5),
    "native_batch_norm_backward.default": (
        *(_IMAGE, _IMAGE, _CHANNELS, None, None, _CHANNELS, _CHANNELS),
        *(True, 1e-5, _BOTH),
    ),
    "_native_batch_norm_legit_functional.default": (
        *(_IMAGE, _CHANNELS, _CHANNELS, _CHANNELS, _CHANNELS),
        *(True, 0.1, 1e-5),
    ),
    "_fused_rms_norm_backward.default": (_MATRIX, *_LAYER, _COLUMN, t(WIDE), [True, True]),
    "_weight_norm_interface_backward.default": (_MATRIX, _MATRIX, _COLUMN, _COLUMN, 0),
}
# The same over a million elements: one row, or it takes minutes.
OVER_A_MILLION: dict[str, tuple[Any, ...]] = {
    "sum.dim_IntList": (t(2, LONG), [1]),
    "mean.dim": (t(2, LONG), [1]),
    "var.correction": (t(2, LONG), [1]),
    "linalg_vector_norm.default": (t(2, LONG), 2, [1]),
    "logsumexp.default": (t(2, LONG), [1]),
    "cumsum.default": (t(2, LONG), 1),
    "dot.default": (t(LONG), t(LONG)),
    "mm.default": (t(2, LONG), t(LONG, 2)),
    "_softmax.default": (t(2, LONG), 1, False),
    "_log_softmax.default": (t(2, LONG), 1, False),
    "native_layer_norm.default": (t(2, LONG), [LONG], t(LONG), t(LONG), 1e-5),
}


def calls(only: str = "") -> Iterator[Call]:
    """Every operation of the five kinds, those whose name has `only` in it."""
    written = {name.split(".")[0] for name in SHAPED}
    for name, row in ops.table().items():
        if row.kind == "elementwise" and only in name and "." not in name and name not in _NO_NUMBERS | written:
            made = _elementwise(name)
            if made is not None:
                yield made
    yield from (_written(name, arguments) for name, arguments in SHAPED.items() if only in name)


def long_calls(only: str = "") -> Iterator[Call]:
    """Reductions, scans, contractions and normalizations over 2**20 elements."""
    yield from (_written(name, arguments) for name, arguments in OVER_A_MILLION.items() if only in name)


def without_a_call() -> list[str]:
    """The operations of the five kinds that are not measured though a rule computes them, and give numbers."""
    named = {call.name.split(".")[0] for call in calls()}
    return sorted(
        name
        for name, row in ops.table().items()
        if row.kind in KINDS and "." not in name and name not in named and name not in _NO_NUMBERS and _has_rule(name)
    )


def _elementwise(name: str) -> Call | None:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return None
    found = [o for o in packet.overloads() if registry.find(f"aten.{name}.{o}") and _is_plain(f"aten.{name}.{o}")]
    if not found:
        return None
    if "polynomial" in name:
        return _call(f"{name}.n_scalar", "elementwise", (Tensor((ELEMENTS,)), _DEGREE, {}))
    chosen = min(found, key=lambda o: _PREFERRED.index(o) if o in _PREFERRED else len(_PREFERRED))
    numbers = iter(OTHERS.get(name, ()))
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    for parameter in schema(f"aten.{name}.{chosen}").parameters:
        if parameter.has_default:
            continue
        value = Tensor((ELEMENTS,)) if parameter.cls == "tensor" else next(numbers, NUMBER)
        if parameter.keyword_only:
            keywords[parameter.name] = value
        else:
            arguments.append(value)
    return _call(f"{name}.{chosen}", "elementwise", (*arguments, keywords))


def _has_rule(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(registry.find(f"aten.{name}.{o}") for o in packet.overloads())


def _is_plain(op: str) -> bool:
    described = schema(op)
    return described.is_functional and any(p.cls == "tensor" for p in described.parameters)


def _written(name: str, arguments: tuple[Any, ...]) -> Call:
    row = ops.lookup(f"aten.{name}")
    assert row is not None, name
    return _call(name, row.kind, (*arguments, {}))


def _call(name: str, kind: str, arguments: tuple[Any, ...]) -> Call:
    *positional, keywords = arguments
    base, overload = name.split(".")
    function = getattr(getattr(torch.ops.aten, base), overload)
    shapes = tuple(a.shape for a in (*positional, *keywords.values()) if isinstance(a, Tensor))

    def run(*tensors: torch.Tensor) -> Any:
        remaining = iter(tensors)

        def put(argument: Any) -> Any:
            return next(remaining) if isinstance(argument, Tensor) else argument

        dtype = tensors[0].dtype
        given = [put(a) for a in positional]
        if base.endswith(("softmax_backward_data",)):
            given[-1] = dtype
        return function(*given, **{key: put(a) for key, a in keywords.items()})

    return Call(name, kind, shapes, run)
