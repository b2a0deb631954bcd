"""Why a sample that differs from eager does, where the difference stays: docs/status.md prints the reason beside it.

By operator, or by operator and column. An elementwise operator or a reduction may not stand here: there a wrong
value is a bug.
"""

from __future__ import annotations

REASONS: dict[str, str] = {
    "nn.TransformerEncoder bfloat16": "in the second layer one input of the ReLU is -0.008 in float64 (their mean "
    "size is 0.58); with eager's roundings it is -0.003, with ours 0.005, and its gradient is another one",
    "nn.GRU bfloat16": "two hidden units: root mean square errors of 0.4 to 1.7 % of each result, a rounding or two of "
    "bfloat16; eager's are 1.3 to 3 times smaller in this sample",
    "nn.functional.linear_cross_entropy.chunked_none bfloat16": "PyTorch's own function accumulates in float32 on the "
    "CPU and in bfloat16 on every other device, unless acc_policy says otherwise",
    "optim.LBFGS float32": "with a rate of 0.001 it divides differences that are all rounding: eager's own result "
    "moves by up to 0.56 when its start is rounded otherwise by half a unit in the last place",
    "grid_sampler_3d gradient": "float32 sums of 88 products that cancel, in another order: 1 element of 3,400 is out "
    "of bounds; the root mean square error against float64 is eager's (8.36e-6, eager 8.38e-6)",
}


def reason(operator: str, column: str) -> str:
    return REASONS.get(f"{operator} {column}") or REASONS.get(operator) or "not explained yet"
