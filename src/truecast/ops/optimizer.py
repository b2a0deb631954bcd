"""Fused optimizer steps. Imports the table's vocabulary only.

The lists of tensors are numeric; lr and the other hyperparameters are Python numbers or 0-dim tensors and stay
as they are (law N6). `_foreach_*` operations aren't here: one of them means its single-tensor form, once per
list element, and capture writes it out (composite.py).
"""

from truecast.ops.table import Range, rows

_ADAM = "self grads exp_avgs exp_avg_sqs max_exp_avg_sqs"
_RATE: dict[str, Range] = {"lr": "any"}

ROWS = (
    *rows(
        "_fused_adam _fused_adamw",
        "optimizer",
        numeric="self grads exp_avgs exp_avg_sqs max_exp_avg_sqs",
        numbers=_RATE,
    ),
    *rows("_fused_sgd", "optimizer", numeric="self grads momentum_buffer_list", numbers=_RATE),
    *rows("_fused_adagrad", "optimizer", numeric="self grads state_sums", numbers=_RATE),
    *rows("_amp_foreach_non_finite_check_and_unscale", "optimizer", numeric="self"),
    *rows("_amp_update_scale", "optimizer", numeric="self"),
)
