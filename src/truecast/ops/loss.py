"""Losses and their backwards. Imports the table's vocabulary only."""

from truecast.ops.table import rows

_MEAN = "the elements' losses"

ROWS = (
    *rows("mse_loss", "loss", "promote", numeric="self target", accumulates=_MEAN),
    *rows(
        "smooth_l1_loss",
        "loss",
        "promote",
        numeric="self target",
        accumulates=_MEAN,
        numbers={"beta": "positive"},
    ),
    *rows("soft_margin_loss", "loss", "int_to_float", numeric="self target", accumulates=_MEAN, returns="self"),
    *rows(
        "huber_loss",
        "loss",
        "promote",
        numeric="self target",
        accumulates=_MEAN,
        returns="self",
        numbers={"delta": "positive"},
    ),
    *rows(
        "binary_cross_entropy",
        "loss",
        numeric="self target weight",
        accumulates=_MEAN,
    ),
    *rows(
        "binary_cross_entropy_with_logits",
        "loss",
        "promote",
        numeric="self target weight pos_weight",
        accumulates=_MEAN,
        returns="target",
    ),
    *rows("nll_loss_forward nll_loss2d_forward", "loss", numeric="self weight", accumulates=_MEAN, returns="self self"),
    *rows("multi_margin_loss", "loss", numeric="self weight", accumulates=_MEAN),
    *rows("multilabel_margin_loss_forward", "loss", numeric="self", accumulates=_MEAN),
    *rows(
        "mse_loss_backward",
        "loss",
        "promote",
        numeric="grad_output self target",
        returns="self",
    ),
    *rows(
        "smooth_l1_loss_backward",
        "loss",
        "promote",
        numeric="grad_output self target",
        returns="self",
        numbers={"beta": "positive"},
    ),
    *rows("huber_loss_backward", "loss", numeric="grad_output self target", numbers={"delta": "positive"}),
    *rows("soft_margin_loss_backward", "loss", "promote", numeric="grad_output self target"),
    *rows("binary_cross_entropy_backward", "loss", numeric="grad_output self target weight"),
    *rows("nll_loss_backward nll_loss2d_backward", "loss", numeric="grad_output self weight total_weight"),
    *rows("multi_margin_loss_backward", "loss", numeric="grad_output self weight"),
    *rows("multilabel_margin_loss_backward", "loss", numeric="grad_output self is_target"),
    *rows("_ctc_loss", "loss", numeric="log_probs", accumulates="the alignments' probabilities"),
    *rows(
        "_ctc_loss_backward",
        "loss",
        numeric="grad log_probs neg_log_likelihood log_alpha",
        accumulates="the alignments' probabilities",
    ),
)
