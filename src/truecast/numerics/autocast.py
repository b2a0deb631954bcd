"""The autocast lists of each device type, as data (law N10): which operation takes which precision inside
torch.autocast.

Imports the leaves only. Names are ATen's, without namespace; "conv2d.padding" is one overload, "conv2d" the default
one. Sources: `cuda` and `privateuse1`: ATen/autocast_mode.h, macros AT_FORALL_*; `cpu`: the dispatcher's registrations;
both of the torch this is tested with (tests/laws/test_n10_autocast.py compares them). `xla`: torch_xla v2.9.0,
torch_xla/csrc/autocast_mode.cpp. `tpu`: torch_tpu 0.2.0, csrc/eager/amp_policies.cc. `neuron`: xla's, since
torch-neuronx runs on torch_xla's device type and none of its own was found (unverified).
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from truecast.errors import NumericsError

Policy = Literal["lower_precision", "float32", "float32_dtype", "promote", "banned"]
# lower_precision: floating operands are cast to autocast's dtype. float32: they are cast to float32.
# float32_dtype: the `dtype` argument becomes float32 unless it is given. promote: they are cast to the widest of them.
# banned: raises for lower-precision operands.

_GENERIC_LOWER = """
    _convolution _convolution.deprecated _scaled_dot_product_flash_attention _thnn_fused_gru_cell
    _thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution einsum gru_cell linalg_multi_dot
    linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
"""

_GENERIC_FLOAT32 = """
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss
    cosine_similarity dist erfinv exp expm1 frobenius_norm.dim group_norm hinge_embedding_loss huber_loss kl_div
    l1_loss layer_norm log log10 log1p log2 logsumexp margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss native_layer_norm nll_loss nll_loss2d nuclear_norm nuclear_norm.dim pdist
    poisson_nll_loss pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor reciprocal renorm rms_norm rsqrt sinh
    smooth_l1_loss soft_margin_loss softplus tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
"""

_GENERIC_FLOAT32_DTYPE = """
    cumprod cumsum linalg_matrix_norm linalg_matrix_norm.str_ord linalg_vector_norm log_softmax.int norm.Scalar
    norm.ScalarOpt_dim prod prod.dim_int softmax.int sum sum.dim_IntList
"""

_GENERIC_PROMOTE = """
    addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot
"""

_CPU_LOWER = """
    _addmm_activation _convolution.deprecated _native_multi_head_attention addbmm addmm baddbmm bmm conv1d
    conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input linalg_vecdot linear matmul mkldnn_rnn_layer mm prelu scaled_dot_product_attention
"""

_CPU_FLOAT32 = """
    _grid_sampler_2d_cpu_fallback _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d
    binary_cross_entropy binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve
    cosine_embedding_loss cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor fake_quantize_per_tensor_affine
    fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn
    fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d
    grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky linalg_cholesky_ex
    linalg_cond linalg_cond.p_str linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank
    linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.tol_tensor
    linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve
    margin_ranking_loss max_pool3d max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss
    multilabel_margin_loss_forward nanquantile nanquantile.scalar nll_loss nll_loss2d orgqr ormqr pinverse
    poisson_nll_loss polar prod prod.dim_int qr quantile quantile.scalar reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss stft stft.center svd
    trace triangular_solve triplet_margin_loss view_as_complex
"""

_CPU_PROMOTE = """
    cat index_copy stack
"""

_XLA_LOWER = """
    addbmm addmm baddbmm bmm conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_tbc
    conv_transpose1d conv_transpose2d.input conv_transpose3d.input einsum linear matmul max_pool2d mm prelu relu
"""

_XLA_FLOAT32 = """
    _softmax batch_norm binary_cross_entropy binary_cross_entropy_with_logits cdist cholesky cholesky_inverse
    cholesky_solve cosine_embedding_loss cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor
    hinge_embedding_loss inverse kl_div l1_loss linalg_inv_ex linalg_svd log_softmax.Dimname log_softmax.int
    margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward
    nll_loss nll_loss2d pow.Tensor_Scalar prod prod.dim_Dimname prod.dim_int qr reflection_pad1d
    reflection_pad2d replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss
    softmax.Dimname softmax.int svd trace triangular_solve triplet_margin_loss
"""

_XLA_PROMOTE = """
    cat index_copy index_copy.dimname stack
"""

_TPU_LOWER = """
    _addmm_activation _convolution _convolution.deprecated _native_multi_head_attention
    _scaled_dot_product_flash_attention _thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul
    conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_tbc conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input convolution einsum gru_cell linalg_multi_dot linalg_vecdot
    linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
"""

_TPU_FLOAT32 = """
    _grid_sampler_2d_cpu_fallback _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d
    binary_cross_entropy binary_cross_entropy_with_logits cdist cholesky_inverse cholesky_solve
    cosine_embedding_loss cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor fake_quantize_per_tensor_affine
    fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn
    fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d
    grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky linalg_cholesky_ex
    linalg_cond linalg_cond.p_str linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank
    linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.tol_tensor
    linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve
    margin_ranking_loss max_pool3d max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss
    multilabel_margin_loss_forward nanquantile nanquantile.scalar nll_loss nll_loss2d orgqr ormqr pinverse
    poisson_nll_loss polar quantile quantile.scalar reflection_pad1d reflection_pad2d replication_pad1d
    replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss stft stft.center svd trace
    triangular_solve triplet_margin_loss view_as_complex
"""


def _list(**by_policy: str) -> Mapping[str, Policy]:
    """The policy of each operation. Raises ValueError if an operation stands under two policies."""
    table: dict[str, Policy] = {}
    for policy, names in by_policy.items():
        for name in names.split():
            if name in table:
                raise ValueError(f"autocast: {name!r} is {table[name]} and {policy}")
            table[name] = policy  # type: ignore[assignment]
    return table


_GENERIC = {
    "lower_precision": _GENERIC_LOWER,
    "float32": _GENERIC_FLOAT32,
    "float32_dtype": _GENERIC_FLOAT32_DTYPE,
    "promote": _GENERIC_PROMOTE,
}
_XLA = _list(lower_precision=_XLA_LOWER, float32=_XLA_FLOAT32, promote=_XLA_PROMOTE)

LISTS: Mapping[str, Mapping[str, Policy]] = {
    "cpu": _list(lower_precision=_CPU_LOWER, float32=_CPU_FLOAT32, promote=_CPU_PROMOTE),
    "cuda": _list(
        **_GENERIC | {"lower_precision": _GENERIC_LOWER + "cudnn_convolution cudnn_convolution_transpose"},
        banned="binary_cross_entropy",
    ),
    "privateuse1": _list(**_GENERIC),
    "xla": _XLA,
    "tpu": _list(lower_precision=_TPU_LOWER, float32=_TPU_FLOAT32, float32_dtype="prod prod.dim_int"),
    "neuron": _XLA,
}
DEVICE_TYPES = tuple(LISTS)


def policy(device_type: str, op: str) -> Policy | None:
    """What the list of `device_type` says of an overload ("aten.conv2d.default"); None if it is left alone.

    Raises NumericsError for an unknown device type.
    """
    namespace, name, variant = op.split(".")
    if namespace != "aten":
        return None
    return lists(device_type).get(name if variant == "default" else f"{name}.{variant}")


def lists(device_type: str) -> Mapping[str, Policy]:
    """The policy of each operation on the list of `device_type`. Raises NumericsError with the nearest name."""
    if device_type in LISTS:
        return LISTS[device_type]
    near = difflib.get_close_matches(device_type, LISTS, n=1)
    raise NumericsError(
        f"no autocast list for device type {device_type!r}",
        values=f"device types: {', '.join(LISTS)}",
        help=f"did you mean {near[0]!r}?" if near else None,
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """One operation that two lists treat differently; None where a list leaves it alone."""

    op: str
    a: Policy | None
    b: Policy | None


def diff(a: str, b: str) -> tuple[Difference, ...]:
    """Where the lists of two device types differ, by operation name. Raises NumericsError for an unknown one."""
    first, second = lists(a), lists(b)
    return tuple(
        Difference(op, first.get(op), second.get(op))
        for op in sorted(first.keys() | second.keys())
        if first.get(op) != second.get(op)
    )


def diff_text(a: str, b: str) -> str:
    """`diff(a, b)` as lines a person reads, grouped by what changes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for d in diff(a, b):
        groups.setdefault((d.a or "left alone", d.b or "left alone"), []).append(d.op)
    if not groups:
        return f"autocast: {a} and {b} agree on all {len(LISTS[a])} operations"
    lines = [f"autocast: {a} and {b} differ on {sum(map(len, groups.values()))} operations"]
    for (left, right), names in sorted(groups.items()):
        lines.append(f"  {a}: {left}; {b}: {right} ({len(names)})")
        lines.append(
            textwrap.fill(" ".join(names), 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        )
    return "\n".join(lines)
