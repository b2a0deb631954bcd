"""Normalizations: softmax, layer, group, batch and RMS norm, with their backwards. Imports the vocabulary only."""

from truecast.ops.table import rows

_MOMENTS = "the mean and the squared deviations"
_GRADIENTS = "the gradient's sums"
_STATISTICS = "weight|bias|running_mean|input"
_PARAMETER_GRADIENTS = "input weight|input weight|input"
_BATCH_NORM = f"input {_STATISTICS} {_STATISTICS}"

ROWS = (
    *rows(
        "_softmax _log_softmax _safe_softmax", "normalization", numeric="self", accumulates="the exponentials along dim"
    ),
    *rows(
        "_softmax_backward_data _log_softmax_backward_data",
        "normalization",
        numeric="grad_output output",
        accumulates="the gradient along dim",
    ),
    *rows(
        "native_layer_norm",
        "normalization",
        numeric="input weight bias",
        accumulates=_MOMENTS,
        returns="input weight|input weight|input",
    ),
    *rows(
        "native_layer_norm_backward",
        "normalization",
        numeric="grad_out input mean rstd weight bias",
        accumulates=_GRADIENTS,
        returns=_PARAMETER_GRADIENTS,
    ),
    *rows(
        "native_group_norm",
        "normalization",
        numeric="input weight bias",
        accumulates=_MOMENTS,
        returns="input weight|input weight|input",
    ),
    *rows(
        "native_group_norm_backward",
        "normalization",
        numeric="grad_out input mean rstd weight",
        accumulates=_GRADIENTS,
        returns=_PARAMETER_GRADIENTS,
    ),
    *rows(
        "_fused_rms_norm",
        "normalization",
        numeric="input weight",
        accumulates="the squares along the last dims",
        returns="input opmath",
    ),
    *rows("_fused_rms_norm_backward", "normalization", numeric="grad_out input rstd weight", accumulates=_GRADIENTS),
    *rows(
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training",
        "normalization",
        numeric="input weight bias running_mean running_var",
        accumulates=_MOMENTS,
        returns=_BATCH_NORM,
    ),
    *rows(
        "_native_batch_norm_legit_functional",
        "normalization",
        numeric="input weight bias running_mean running_var",
        accumulates=_MOMENTS,
        returns=f"{_BATCH_NORM} running_mean running_var",
        numbers={"momentum": "any"},
    ),
    *rows(  # the fourth result is what cuDNN keeps for the backward
        "_batch_norm_with_update _batch_norm_no_update cudnn_batch_norm",
        "normalization",
        numeric="input weight bias running_mean running_var",
        accumulates=_MOMENTS,
        returns=f"{_BATCH_NORM} uint8",
    ),
    *rows(
        "_batch_norm_with_update_functional",
        "normalization",
        numeric="input weight bias running_mean running_var",
        accumulates=_MOMENTS,
        returns=f"{_BATCH_NORM} uint8 running_mean running_var",
    ),
    *rows(
        "native_batch_norm_backward",
        "normalization",
        numeric="grad_out input weight running_mean running_var save_mean save_invstd",
        accumulates=_GRADIENTS,
        returns=_PARAMETER_GRADIENTS,
    ),
    *rows(
        "batch_norm_backward",
        "normalization",
        numeric="grad_out input weight running_mean running_var save_mean save_var",
        accumulates=_GRADIENTS,
        returns=_PARAMETER_GRADIENTS,
    ),
    *rows(
        "_weight_norm_interface",
        "normalization",
        numeric="v g",
        accumulates="the squares along the other dims",
        returns="v opmath",
    ),
    *rows(
        "_weight_norm_interface_backward",
        "normalization",
        numeric="grad_w saved_v saved_g saved_norms",
        accumulates=_GRADIENTS,
    ),
)
