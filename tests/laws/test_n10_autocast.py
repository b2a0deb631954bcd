"""Law N10: the autocast lists are data, and they are those of the torch that is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from truecast.numerics import autocast
from truecast.ops.schema import schema

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"


def macro(name: str) -> set[str]:
    """The operations that a macro AT_FORALL_<name> of the installed header lists, as "name" or "name.overload"."""
    match = re.search(rf"#define AT_FORALL_{name}\(_\)((?:.*\\\n)*.*\n)", HEADER.read_text())
    assert match is not None, f"{HEADER} has no AT_FORALL_{name}"
    return {".".join(part.strip() for part in entry.split(",")) for entry in re.findall(r"_\(([\w, ]+)\)", match[1])}


def appended() -> set[str]:
    """The operations that take a dtype appended: the header spells them out with both signatures."""
    return set(re.findall(r'^ +"(norm\.\w+)", +\\$', HEADER.read_text(), re.MULTILINE))


def registered(key: str) -> set[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::") for name in names}


def of_policy(device_type: str, policy: str) -> set[str]:
    return {op for op, found in autocast.LISTS[device_type].items() if found == policy}


@pytest.mark.parametrize("device_type", ("privateuse1", "cuda"))
def test_n10_the_generic_lists_are_the_headers(device_type: str) -> None:
    extra = {"cudnn_convolution", "cudnn_convolution_transpose"} if device_type == "cuda" else set()
    assert of_policy(device_type, "lower_precision") == macro("LOWER_PRECISION_FP") | extra
    assert of_policy(device_type, "float32") == macro("FP32")
    assert of_policy(device_type, "float32_dtype") == macro("FP32_SET_OPT_DTYPE") | appended()
    assert of_policy(device_type, "promote") == macro("PROMOTE")
    assert len(macro("FP32")) > 40 and appended() == {"norm.Scalar", "norm.ScalarOpt_dim"}


@pytest.mark.parametrize(("device_type", "key"), (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")))
def test_n10_each_list_is_what_the_dispatcher_knows(device_type: str, key: str) -> None:
    assert set(autocast.LISTS[device_type]) == registered(key)


def test_n10_the_cpu_policies_are_those_that_torch_follows() -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = {
            "lower_precision": {torch.mm(x, w).dtype, torch.nn.functional.linear(x, w).dtype},
            "float32": {
                torch.nn.functional.mse_loss(x.bfloat16(), w.bfloat16()).dtype,
                torch.trace(x.bfloat16()).dtype,
            },
            "promote": {torch.cat([x.bfloat16(), w]).dtype},
        }
    assert made == {"lower_precision": {torch.bfloat16}, "float32": {torch.float32}, "promote": {torch.float32}}
    cpu = autocast.LISTS["cpu"]
    assert [cpu[op] for op in ("mm", "linear", "mse_loss", "trace", "cat")] == [
        *("lower_precision", "lower_precision", "float32", "float32", "promote")
    ]


def test_n10_xla_has_the_published_numbers_and_neuron_follows_it() -> None:
    counts = [len(of_policy("xla", policy)) for policy in ("lower_precision", "float32", "promote")]
    assert counts == [21, 45, 4], "torch_xla v2.9.0 torch_xla/csrc/autocast_mode.cpp"
    assert autocast.LISTS["neuron"] == autocast.LISTS["xla"]
    assert "scaled_dot_product_attention" not in autocast.LISTS["xla"]
    assert len(of_policy("tpu", "lower_precision")) == 37 and len(of_policy("tpu", "float32")) == 96


@pytest.mark.parametrize("device_type", ("cpu", "cuda", "privateuse1"))
def test_n10_every_name_is_an_overload_of_this_torch(device_type: str) -> None:
    for op in autocast.LISTS[device_type]:
        assert schema(f"aten.{op}" if "." in op else f"aten.{op}.default")


def test_n10_an_overload_finds_its_policy() -> None:
    assert autocast.policy("cuda", "aten.mm.default") == "lower_precision"
    assert autocast.policy("cuda", "aten.pow.Tensor_Scalar") == "float32"
    assert autocast.policy("cuda", "aten.binary_cross_entropy.default") == "banned"
    assert autocast.policy("cuda", "aten.mm.out") is None
    assert autocast.policy("cuda", "prims.mul.default") is None
    assert autocast.policy("xla", "aten.layer_norm.default") is None


def test_n10_the_difference_of_two_lists() -> None:
    found = {d.op: (d.a, d.b) for d in autocast.diff("cuda", "xla")}
    assert found["scaled_dot_product_attention"] == ("lower_precision", None)
    assert found["layer_norm"] == ("float32", None)
    assert found["relu"] == (None, "lower_precision")
    assert found["binary_cross_entropy"] == ("banned", "float32")
    assert found["softmax.int"] == ("float32_dtype", "float32")
    assert "mm" not in found
    mirrored = {d.op: (d.b, d.a) for d in autocast.diff("xla", "cuda")}
    assert mirrored == found
    assert autocast.diff("xla", "neuron") == ()


def test_n10_the_difference_in_words() -> None:
    text = autocast.diff_text("cuda", "xla")
    lines = text.splitlines()
    assert lines[0] == f"autocast: cuda and xla differ on {len(autocast.diff('cuda', 'xla'))} operations"
    assert "  cuda: float32; xla: lower_precision (" not in text
    assert "  cuda: left alone; xla: promote (4)" in lines
    assert (
        lines[lines.index("  cuda: left alone; xla: promote (4)") + 1] == "    cat index_copy index_copy.dimname stack"
    )
    assert autocast.diff_text("xla", "neuron") == "autocast: xla and neuron agree on all 70 operations"


def test_n10_an_operation_stands_under_one_policy() -> None:
    with pytest.raises(ValueError, match="'mm' is lower_precision and promote"):
        autocast._list(lower_precision="mm", promote="mm cat")
