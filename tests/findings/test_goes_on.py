"""After an operation that refuses its operands' dtypes, explain casts, goes on, and reports the following ones too:
forward and backward, on real and on fake tensors, inside and outside of autocast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import truecast as tc
from truecast.report.report import Report

BF16 = torch.bfloat16
Layer = Callable[[torch.Tensor], torch.Tensor]


def attended(x: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(x, x.to(BF16), x.to(BF16))


def multihead(x: torch.Tensor) -> torch.Tensor:
    return nn.MultiheadAttention(4, 2, batch_first=True, dtype=BF16)(x, x, x)[0]


def recurrent(module: type[nn.RNNBase]) -> Callable[[], Layer]:
    return lambda: lambda x: module(4, 4, dtype=BF16)(x)[0]


# The first refusals that a layer with 16-bit parameters makes of a float32 input of this shape.
REFUSING: dict[str, tuple[Callable[[], Layer], tuple[int, ...], list[str]]] = {
    "linear": (lambda: nn.Linear(4, 4, dtype=BF16), (2, 4), ["TC101"]),
    "conv1d": (lambda: nn.Conv1d(4, 4, 2, dtype=BF16), (2, 4, 8), ["TC101"]),
    "conv2d": (lambda: nn.Conv2d(4, 4, 2, dtype=BF16), (2, 4, 8, 8), ["TC101"]),
    "conv2d same": (lambda: nn.Conv2d(4, 4, 3, padding="same", dtype=BF16), (2, 4, 8, 8), ["TC101"]),
    "conv3d": (lambda: nn.Conv3d(4, 4, 2, dtype=BF16), (2, 4, 4, 4, 4), ["TC101"]),
    "conv_transpose1d": (lambda: nn.ConvTranspose1d(4, 4, 2, dtype=BF16), (2, 4, 8), ["TC101"]),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 4, 2, dtype=BF16), (2, 4, 8, 8), ["TC101"]),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(4, 4, 2, dtype=BF16), (2, 4, 4, 4, 4), ["TC101"]),
    "layer_norm": (lambda: nn.LayerNorm(4, dtype=BF16), (2, 4), ["TC102"]),
    "layer_norm of float64": (lambda: nn.LayerNorm(4, dtype=torch.float64), (2, 4), ["TC102"]),
    "group_norm": (lambda: nn.GroupNorm(2, 4, dtype=BF16), (2, 4, 8), ["TC102"]),
    "batch_norm": (lambda: nn.BatchNorm2d(4, dtype=BF16), (2, 4, 8, 8), ["TC102"]),
    "batch_norm in evaluation": (lambda: nn.BatchNorm2d(4, dtype=BF16).eval(), (2, 4, 8, 8), ["TC102"]),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, affine=True, dtype=BF16), (2, 4, 8, 8), ["TC102"]),
    "attention": (lambda: attended, (2, 2, 3, 4), ["TC103"]),
    "multi-head attention": (lambda: multihead, (2, 3, 4), ["TC101"]),
    "an encoder": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dtype=BF16),
        (2, 3, 4),
        ["TC101", "TC102"],
    ),
    "lstm": (recurrent(nn.LSTM), (2, 3, 4), ["TC101"]),
    "gru": (recurrent(nn.GRU), (2, 3, 4), ["TC101"]),
    "prelu": (lambda: nn.PReLU(dtype=BF16), (2, 4), ["TC105"]),
}


def explained(program: Callable[[], object], fake: bool) -> Report:
    with tc.recording(fake=fake) as tape:
        program()
    return tape.explain()


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
@pytest.mark.parametrize("name", REFUSING)
def test_the_next_refusal_is_found_too(name: str, fake: bool) -> None:
    make, shape, first = REFUSING[name]
    gradients: list[torch.Tensor | None] = []

    def program() -> None:
        x = torch.ones(shape, requires_grad=True)
        y = make()(x)
        nn.Linear(y.shape[-1], 2, dtype=torch.float16)(y).float().sum().backward()
        gradients.append(x.grad)

    codes = [f.code for f in explained(program, fake).at_least("error")]
    assert codes == [*first, "TC101"]
    (gradient,) = gradients
    assert gradient is not None and gradient.dtype == torch.float32


NORMS = [name for name in REFUSING if "norm" in name]


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
@pytest.mark.parametrize("name", NORMS)
def test_norms_refuse_inside_autocast(name: str, fake: bool) -> None:
    make, shape, first = REFUSING[name]

    def program() -> None:
        with torch.autocast("cpu", BF16):
            x = make()(torch.ones(shape))
            y = nn.LayerNorm(x.shape[-1], dtype=torch.float64)(x)
        y.float().sum().backward()

    codes = [f.code for f in explained(program, fake).at_least("error")]
    assert codes == [*first] * (2 if "float64" not in name else 1)


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
def test_autocast_does_not_convert_float64(fake: bool) -> None:
    def program() -> None:
        with torch.autocast("cpu", BF16):
            y = nn.Conv2d(4, 4, 2, dtype=torch.float64)(torch.ones(1, 4, 4, 4))
            z = F.conv2d(torch.ones(1, 4, 4, 4), torch.ones(4, 4, 2, 2, dtype=BF16), torch.ones(4).double())
        nn.LayerNorm(3, dtype=BF16)(y.float() + z.float()).sum().backward()

    errors = explained(program, fake).at_least("error")
    assert [f.code for f in errors] == ["TC101", "TC101", "TC102"]
    assert errors[0].message == "a float32 activation meets a float64 weight"


def test_a_recurrent_layer_in_the_words_of_a_product() -> None:
    (finding,) = explained(lambda: nn.LSTM(4, 4, dtype=BF16)(torch.ones(2, 3, 4)), fake=False).findings
    assert finding.message == "a float32 activation meets a bfloat16 weight"
    assert finding.places[0].text == "input float32[2,3,4], weight bfloat16[16,4]"
    assert finding.why == "`ones` makes float32; lstm demands equal dtypes"


def test_an_error_of_another_kind_is_the_programs_own() -> None:
    with pytest.raises(RuntimeError, match=r"input.size\(-1\) must be equal to input_size"):
        explained(lambda: nn.LSTM(4, 4, dtype=BF16)(torch.ones(2, 3, 5)), fake=False)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        explained(lambda: nn.Linear(4, 4, dtype=BF16)(torch.ones(2, 5)), fake=False)
