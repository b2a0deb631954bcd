"""One valid call for each operation with a dtype contract: shapes and literals, the dtypes left open.

`n(shape)` stands for a tensor whose dtype the table check chooses, `i(shape)` for int64 positions, all 0,
`m(shape)` for a boolean mask, `like(k, shape)` for a tensor of the k-th open one's dtype, `same(k)` for that
dtype itself; a dict at the end holds keyword arguments; the rest is passed as it is. What follows
"/" tells two calls of one operation apart.
THROUGH names the operation that eager is asked with, where users meet a kernel's contract at a composite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch


@dataclass(frozen=True)
class Operand:
    """A tensor to be made; `dtype` is None where the check chooses it."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Like:
    """A tensor of the dtype of the k-th open operand."""

    operand: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class SameDtype:
    operand: int


def n(*shape: int) -> Operand:
    return Operand(shape)


def i(*shape: int) -> Operand:
    return Operand(shape, torch.int64)


def m(*shape: int) -> Operand:
    return Operand(shape, torch.bool)


def like(operand: int, *shape: int) -> Like:
    return Like(operand, shape)


def same(operand: int) -> SameDtype:
    return SameDtype(operand)


Form = Literal["dimensioned", "zero_dim"]


def open_operands(arguments: Any) -> Iterator[Operand]:
    """The operands whose dtype is open, in order."""
    if isinstance(arguments, Operand):
        if arguments.dtype is None:
            yield arguments
    elif isinstance(arguments, dict):
        yield from open_operands(list(arguments.values()))
    elif isinstance(arguments, list | tuple):
        for argument in arguments:
            yield from open_operands(argument)


def made(arguments: Sequence[Any], dtypes: Sequence[torch.dtype]) -> list[Any]:
    """The arguments with a tensor of ones (zeros for positions) in each operand's place."""
    remaining = iter(dtypes)

    def one(argument: Any) -> Any:
        if isinstance(argument, Operand):
            if argument.dtype is torch.int64:
                return torch.zeros(argument.shape, dtype=torch.int64)
            return torch.ones(argument.shape, dtype=argument.dtype or next(remaining))
        if isinstance(argument, Like):
            return torch.ones(argument.shape, dtype=dtypes[argument.operand])
        if isinstance(argument, SameDtype):
            return dtypes[argument.operand]
        if isinstance(argument, dict):
            return {name: one(a) for name, a in argument.items()}
        return [one(a) for a in argument] if isinstance(argument, list) else argument

    return [one(a) for a in arguments]


_STEP = {"lr": 0.1, "weight_decay": 0.0, "maximize": False}
_ADAM = {**_STEP, "beta1": 0.9, "beta2": 0.9, "eps": 1e-8, "amsgrad": False}
_SGD = {**_STEP, "momentum": 0.9, "dampening": 0.0, "nesterov": False, "is_first_step": True}
_ADAGRAD = {**_STEP, "lr_decay": 0.0, "eps": 1e-8}
_CONVOLUTION = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)

CALLS: dict[str, tuple[Any, ...]] = {
    "mm.default": (n(2, 3), n(3, 4)),
    "bmm.default": (n(2, 2, 3), n(2, 3, 4)),
    "mv.default": (n(2, 3), n(3)),
    "dot.default": (n(3), n(3)),
    "vdot.default": (n(3), n(3)),
    "addmm.default": (n(4), n(2, 3), n(3, 4)),
    "addmv.default": (n(2), n(2, 3), n(3)),
    "addr.default": (n(2, 3), n(2), n(3)),
    "baddbmm.default": (n(2, 2, 4), n(2, 2, 3), n(2, 3, 4)),
    "addbmm.default": (n(2, 4), n(2, 2, 3), n(2, 3, 4)),
    "linear.default": (n(2, 3), n(4, 3), n(4)),
    "matmul.default": (n(2, 3), n(3, 4)),
    "_cdist_forward.default": (n(2, 3), n(4, 3), 2.0, None),
    "convolution.default": (n(2, 16, 32, 32), n(16, 16, 3, 3), n(16), *_CONVOLUTION),
    "conv2d.default": (n(2, 16, 32, 32), n(16, 16, 3, 3), n(16)),
    "native_layer_norm.default": (n(2, 3), [3], n(3), n(3), 1e-5),
    "native_layer_norm_backward.default": (
        n(2, 3),
        n(2, 3),
        [3],
        like(1, 2, 1),
        like(1, 2, 1),
        like(1, 3),
        like(1, 3),
        [True, True, True],
    ),
    "native_group_norm.default": (n(2, 4, 3), n(4), n(4), 2, 4, 3, 2, 1e-5),
    "native_group_norm_backward.default": (
        n(2, 4, 3),
        n(2, 4, 3),
        like(1, 2, 2),
        like(1, 2, 2),
        like(1, 4),
        2,
        4,
        3,
        2,
        [True, True, True],
    ),
    "_fused_rms_norm.default": (n(2, 3), [3], n(3), 1e-5),
    "native_batch_norm.default": (n(2, 3, 4), n(3), n(3), n(3), n(3), True, 0.1, 1e-5),
    "_native_batch_norm_legit.default": (n(2, 3, 4), n(3), n(3), n(3), n(3), True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training.default": (n(2, 3, 4), n(3), n(3), n(3), n(3), 0.1, 1e-5),
    "native_batch_norm_backward.default": (
        n(2, 3, 4),
        n(2, 3, 4),
        like(1, 3),
        like(1, 3),
        like(1, 3),
        like(1, 3),
        like(1, 3),
        True,
        1e-5,
        [True, True, True],
    ),
    "_softmax_backward_data.default": (n(2, 3), n(2, 3), 1, same(0)),
    "_scaled_dot_product_flash_attention_for_cpu.default": (n(1, 2, 4, 8), n(1, 2, 4, 8), n(1, 2, 4, 8)),
    "scaled_dot_product_attention.default": (n(1, 2, 4, 8), n(1, 2, 4, 8), n(1, 2, 4, 8)),
    "scaled_dot_product_attention.default/mask": (
        n(1, 2, 4, 8),
        like(0, 1, 2, 4, 8),
        like(0, 1, 2, 4, 8),
        n(4, 4),
    ),
    "_scaled_dot_product_flash_attention_for_cpu.default/mask": (
        n(1, 2, 4, 8),
        like(0, 1, 2, 4, 8),
        like(0, 1, 2, 4, 8),
        0.0,
        False,
        {"attn_mask": n(1, 2, 4, 4)},
    ),
    "index_put.default": (n(4, 3), [i(2)], n(2, 3)),
    "index_copy.default": (n(4, 3), 0, i(2), n(2, 3)),
    "index_add.default": (n(4, 3), 0, i(2), n(2, 3)),
    "index_reduce.default": (n(4, 3), 0, i(2), n(2, 3), "amax"),
    "index_fill.int_Tensor": (n(4, 3), 0, i(2), n()),
    "scatter.src": (n(4, 3), 0, i(2, 3), n(2, 3)),
    "scatter.value": (n(4, 3), 0, i(2, 3), 1.5),
    "scatter_add.default": (n(4, 3), 0, i(2, 3), n(2, 3)),
    "scatter_reduce.two": (n(4, 3), 0, i(2, 3), n(2, 3), "sum"),
    "masked_scatter.default": (n(4, 3), m(4, 3), n(12)),
    "masked_fill.Tensor": (n(4, 3), m(4, 3), n()),
    "masked_fill.Scalar": (n(4, 3), m(4, 3), 1.5),
    "put.default": (n(4, 3), i(2), n(2)),
    "slice_scatter.default": (n(4, 3), n(2, 3), 0, 0, 2),
    "select_scatter.default": (n(4, 3), n(3), 0, 0),
    "diagonal_scatter.default": (n(3, 3), n(3)),
    "lerp.Tensor": (n(3), n(3), n(3)),
    "lerp.Tensor/0-dim weight": (n(3), like(0, 3), n()),
    "lerp.Scalar": (n(3), n(3), 0.5),
    "addcmul.default": (n(3), n(3), n(3)),
    "addcdiv.default": (n(3), n(3), n(3)),
    "where.self": (m(3), n(3), n(3)),
    "cat.default": ([n(3), n(3)],),
    "stack.default": ([n(3), n(3)],),
    "complex.default": (n(3), n(3)),
    "polar.default": (n(3), n(3)),
    "heaviside.default": (n(3), n(3)),
    "fmod.Tensor": (n(3), n(3)),
    "nextafter.default": (n(3), n(3)),
    "logaddexp.default": (n(3), n(3)),
    "hypot.default": (n(3), n(3)),
    "gcd.default": (n(3), n(3)),
    "bitwise_and.Tensor": (n(3), n(3)),
    "bitwise_left_shift.Tensor": (n(3), n(3)),
    "_prelu_kernel.default": (n(2, 3), n(1, 1)),
    "prelu.default": (n(2, 3), n(1)),
    "mse_loss.default": (n(3), n(3)),
    "mse_loss_backward.default": (n(), n(3), n(3), 1),
    "huber_loss.default": (n(3), n(3)),
    "smooth_l1_loss.default": (n(3), n(3)),
    "smooth_l1_loss_backward.default": (n(), n(3), n(3), 1, 1.0),
    "huber_loss_backward.default": (n(), n(3), n(3), 1, 1.0),
    "soft_margin_loss.default": (n(3), n(3)),
    "binary_cross_entropy.default": (n(3), n(3)),
    "binary_cross_entropy_with_logits.default": (n(3), n(3)),
    "binary_cross_entropy_backward.default": (n(3), n(3), n(3)),
    "nll_loss_forward.default": (n(2, 3), i(2), n(3), 1, -100),
    "nll_loss_backward.default": (n(), n(2, 3), i(2), n(3), 1, -100, n()),
    "cross_entropy_loss.default": (n(2, 3), i(2), n(3)),
    "grid_sampler_2d.default": (n(1, 2, 4, 4), n(1, 3, 3, 2), 0, 0, False),
    "dist.default": (n(3), n(3)),
    "linalg_cross.default": (n(3), n(3)),
    "_linalg_solve_ex.default": (n(3, 3), n(3, 3)),
    "searchsorted.Tensor": (n(4), n(3)),
    "bucketize.Tensor": (n(3), n(4)),
    "isin.Tensor_Tensor": (n(3), n(3)),
    "max_pool2d_with_indices_backward.default": (
        n(1, 2, 2, 2),
        n(1, 2, 4, 4),
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        False,
        i(1, 2, 2, 2),
    ),
    "avg_pool2d_backward.default": (n(1, 2, 2, 2), n(1, 2, 4, 4), [2, 2], [2, 2], [0, 0], False, True, None),
    "embedding.default": (n(4, 3), n(2)),
    "embedding_dense_backward.default": (n(2, 3), n(2), 4, -1, False),
    "gather.default": (n(4, 3), 0, n(2, 3)),
    "index_select.default": (n(4, 3), 0, n(2)),
    "take.default": (n(4, 3), n(2)),
    "index.Tensor": (n(4, 3), [n(2)]),
    "masked_select.default": (n(4, 3), n(4, 3)),
    "cumsum.default": (n(3), 0),
    "mean.default": (n(3),),
    "var.correction": (n(3),),
    "logsumexp.default": (n(3), [0]),
    "_softmax.default": (n(3), 0, False),
    "multinomial.default": (n(3), 2),
    "bernoulli.default": (n(3),),
    "native_dropout.default": (n(3), 0.5, True),
    "add.Tensor": (n(3), n(3)),
    "add_.Tensor": (n(3), n(3)),
    "mul_.Tensor": (n(3), n(3)),
    "div_.Tensor": (n(3), n(3)),
    "sub_.Tensor": (n(3), n(3)),
    "pow_.Tensor": (n(3), n(3)),
    "addcmul_.default": (n(3), n(3), n(3)),
    "addmm_.default": (n(2, 4), n(2, 3), n(3, 4)),
    "exp_.default": (n(3),),
    "clamp_.Tensor": (n(3), n(3)),
    "copy_.default": (n(3), n(3)),
    "masked_fill_.Scalar": (n(3), m(3), 1.5),
    "index_put_.default": (n(4, 3), [i(2)], n(2, 3)),
    "eq_.Tensor": (n(3), n(3)),
    "addbmm_.default": (n(2, 4), n(2, 2, 3), n(2, 3, 4)),
    "_log_softmax_backward_data.default": (n(2, 3), n(2, 3), 1, same(0)),
    "_weight_norm_interface.default": (n(2, 3), n(2, 1)),
    "nll_loss2d_forward.default": (n(2, 3, 2, 2), i(2, 2, 2), n(3), 1, -100),
    "grid_sampler_3d.default": (n(1, 2, 4, 4, 4), n(1, 3, 3, 3, 3), 0, 0, False),
    "grid_sampler_2d_backward.default": (n(1, 2, 3, 3), n(1, 2, 4, 4), n(1, 3, 3, 2), 0, 0, False, [True, True]),
    "max_pool3d_with_indices_backward.default": (
        n(1, 2, 2, 2, 2),
        n(1, 2, 4, 4, 4),
        [2, 2, 2],
        [2, 2, 2],
        [0, 0, 0],
        [1, 1, 1],
        False,
        i(1, 2, 2, 2, 2),
    ),
    "avg_pool3d_backward.default": (
        n(1, 2, 2, 2, 2),
        n(1, 2, 4, 4, 4),
        [2, 2, 2],
        [2, 2, 2],
        [0, 0, 0],
        False,
        True,
        None,
    ),
    "_adaptive_avg_pool2d_backward.default": (n(1, 2, 2, 2), n(1, 2, 4, 4)),
    "_adaptive_avg_pool3d_backward.default": (n(1, 2, 2, 2, 2), n(1, 2, 4, 4, 4)),
    "adaptive_max_pool2d_backward.default": (n(1, 2, 2, 2), n(1, 2, 4, 4), i(1, 2, 2, 2)),
    "_unsafe_masked_index_put_accumulate.default": (n(4), m(2), [i(2)], n(2)),
    "_embedding_bag.default": (n(4, 3), i(2), i(1), False, 0, False, n(2)),
    "rrelu_with_noise.default": (n(2, 3), n(2, 3), 0.1, 0.3, True),
    "nll_loss2d_backward.default": (n(), n(2, 3, 2, 2), i(2, 2, 2), n(3), 1, -100, n()),
    "multi_margin_loss_backward.default": (n(), n(2, 3), i(2), 1, 1.0),
    "multilabel_margin_loss_backward.default": (n(), n(2, 3), i(2, 3), 1, like(1, 2, 3)),
    "adaptive_max_pool3d_backward.default": (n(1, 2, 2, 2, 2), n(1, 2, 4, 4, 4), i(1, 2, 2, 2, 2)),
    "fractional_max_pool2d.default": (n(1, 2, 4, 4), [2, 2], [2, 2], n(1, 2, 2)),
    "fractional_max_pool3d.default": (n(1, 2, 4, 4, 4), [2, 2, 2], [2, 2, 2], n(1, 2, 3)),
    "fractional_max_pool2d_backward.default": (n(1, 2, 2, 2), n(1, 2, 4, 4), [2, 2], [2, 2], i(1, 2, 2, 2)),
    "fractional_max_pool3d_backward.default": (
        n(1, 2, 2, 2, 2),
        n(1, 2, 4, 4, 4),
        [2, 2, 2],
        [2, 2, 2],
        i(1, 2, 2, 2, 2),
    ),
    "reflection_pad1d_backward.default": (n(1, 2, 6), n(1, 2, 4), [1, 1]),
    "replication_pad1d_backward.default": (n(1, 2, 6), n(1, 2, 4), [1, 1]),
    "replication_pad2d_backward.default": (n(1, 2, 6, 6), n(1, 2, 4, 4), [1, 1, 1, 1]),
    "grid_sampler_3d_backward.default": (
        n(1, 2, 3, 3, 3),
        n(1, 2, 4, 4, 4),
        n(1, 3, 3, 3, 3),
        0,
        0,
        False,
        [True, True],
    ),
    "triangular_solve.default": (n(3, 3), n(3, 3)),
    "linalg_ldl_solve.default": (n(3, 3), Operand((3,), torch.int32), n(3, 3)),
    "linalg_householder_product.default": (n(3, 3), n(3)),
    "ormqr.default": (n(3, 3), n(3), n(3, 3)),
    "linalg_lstsq.default": (n(3, 3), n(3, 3)),
    "native_batch_norm_backward.default/parameters": (
        n(2, 3, 4),
        like(0, 2, 3, 4),
        n(3),
        like(1, 3),
        like(1, 3),
        like(1, 3),
        like(1, 3),
        True,
        1e-5,
        [True, True, True],
    ),
    "glu_backward.default": (n(2, 2), n(2, 4), -1),
    "_unsafe_index.Tensor": (n(4, 3), [n(2)]),
    "scatter.reduce": (n(4, 3), 0, i(2, 3), n(2, 3), {"reduce": "add"}),
    "scatter.value_reduce": (n(4, 3), 0, n(2, 3), 1.5, {"reduce": "add"}),
    "bincount.default": (i(3), n(3)),
    "_fused_adam_.default": ([n(3)], [n(3)], [n(3)], [n(3)], [], [like(0)], _ADAM),
    "_fused_adamw_.default": ([n(3)], [n(3)], [n(3)], [n(3)], [], [like(0)], _ADAM),
    "_fused_sgd_.default": ([n(3)], [n(3)], [n(3)], _SGD),
    "_fused_adagrad_.default": ([n(3)], [n(3)], [n(3)], [like(0)], _ADAGRAD),
    "linalg_lu_solve.default": (n(3, 3), Operand((3,), torch.int32), n(3, 3)),
    "cholesky_solve.default": (n(3, 3), n(3, 3)),
    "linalg_vector_norm.default": (n(3),),
    "std.correction": (n(3),),
    "_unsafe_index_put.default": (n(4, 3), [i(2)], n(2, 3)),
}

THROUGH = {"convolution.default": ("conv2d.default", 3)}  # and how many arguments that takes
