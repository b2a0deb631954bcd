"""Facts about dtypes, and PyTorch's promotion held down by a literal table and by torch itself."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import pytest
import torch

from truecast import dtypes
from truecast.dtypes import BY_NAME, DType, OperandForm, promote, result_type
from truecast.errors import UnsupportedError

# Rows and columns in this order: bool, uint8, int8, int16, int32, int64, then b bfloat16, h float16, f float32,
# d float64, H complex32, F complex64, D complex128. Written by hand from the rules, not generated.
_CODES = {
    "B": "bool",
    "u": "uint8",
    "1": "int8",
    "2": "int16",
    "4": "int32",
    "8": "int64",
    "b": "bfloat16",
    "h": "float16",
    "f": "float32",
    "d": "float64",
    "H": "complex32",
    "F": "complex64",
    "D": "complex128",
}
_GOLDEN = """
    B u 1 2 4 8 b h f d H F D
    u u 2 2 4 8 b h f d H F D
    1 2 1 2 4 8 b h f d H F D
    2 2 2 2 4 8 b h f d H F D
    4 4 4 4 4 8 b h f d H F D
    8 8 8 8 8 8 b h f d H F D
    b b b b b b b f f d F F D
    h h h h h h f h f d H F D
    f f f f f f f f f d F F D
    d d d d d d d d d d D D D
    H H H H H H F H F D H F D
    F F F F F F F F F D F F D
    D D D D D D D D D D D D D
"""
GOLDEN = {
    (row, column): _CODES[code]
    for row, line in zip(_CODES.values(), _GOLDEN.strip().splitlines(), strict=True)
    for column, code in zip(_CODES.values(), line.split(), strict=True)
}


def _outcome(function: object, *args: object) -> str:
    try:
        return str(function(*args)).removeprefix("torch.")  # type: ignore[operator]
    except RuntimeError as refusal:
        return f"RuntimeError: {refusal}"


def test_promotion_is_the_golden_table() -> None:
    assert {pair: promote(BY_NAME[pair[0]], BY_NAME[pair[1]]).name for pair in GOLDEN} == GOLDEN


def test_promotion_is_torchs_for_every_pair() -> None:
    for a, b in itertools.product(BY_NAME, repeat=2):
        expected = _outcome(torch.promote_types, getattr(torch, a), getattr(torch, b))
        assert _outcome(promote, BY_NAME[a], BY_NAME[b]) == expected, (a, b)


def test_refused_promotions_speak_torchs_words() -> None:
    with pytest.raises(RuntimeError) as refusal:
        promote(BY_NAME["float8_e4m3fn"], dtypes.float32)
    assert str(refusal.value) == (
        "Promotion for Float8 Types is not supported, attempted to promote Float8_e4m3fn and Float"
    )
    with pytest.raises(RuntimeError) as refusal:
        promote(dtypes.int64, dtypes.uint16)
    assert str(refusal.value) == (
        "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote Long and UInt16"
    )


_SCALARS = {"bool": True, "int64": 3, "float64": 1.5, "complex128": 1.5j}
_FORMS: list[tuple[str, OperandForm]] = [
    *((name, form) for form in ("dimensioned", "zero_dim") for name in BY_NAME),
    *((name, "scalar") for name in _SCALARS),
]


def _operand(name: str, form: OperandForm) -> object:
    if form == "scalar":
        return _SCALARS[name]
    return torch.empty((2,) if form == "dimensioned" else (), dtype=getattr(torch, name))


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("default", ["float32", "float64", "bfloat16", "float16"])
def test_result_type_is_torchs_for_every_pair_of_dtypes_and_forms(default: str) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default))
    try:
        made = {place: _operand(*place) for place in _FORMS}
        for a, b in itertools.product(_FORMS, repeat=2):
            expected = _outcome(torch.result_type, made[a], made[b])
            operands = [(BY_NAME[name], form) for name, form in (a, b)]
            assert _outcome(result_type, operands, BY_NAME[default]) == expected, (a, b)
    finally:
        torch.set_default_dtype(before)


def test_result_type_needs_an_operand() -> None:
    with pytest.raises(ValueError, match="at least one operand"):
        result_type([])


@pytest.mark.parametrize("dtype", BY_NAME.values(), ids=str)
def test_facts_are_torchs(dtype: DType) -> None:
    torch_dtype = dtypes.torch_dtype(dtype)
    assert dtypes.of(torch_dtype) is dtype
    assert dtype.itemsize == torch_dtype.itemsize
    assert dtype.is_floating == torch_dtype.is_floating_point
    assert (dtype.category == "complex") == torch_dtype.is_complex
    assert dtypes.real_of(dtype) is dtypes.of(torch_dtype.to_real())
    if dtype.is_inexact:
        assert dtype.exponent_bits + dtype.mantissa_bits + 1 == dtype.component_bits
    # torch.finfo gives e5m2fnuz an eps of 2^-3; two stored bits make it 2^-2.
    if dtype.is_inexact and dtype.name != "float8_e5m2fnuz":
        assert dtype.mantissa_bits == -math.log2(torch.finfo(torch_dtype).eps)


def test_complex_counterparts_are_torchs() -> None:
    for name in ("float16", "bfloat16", "float32", "float64", "complex64"):
        assert dtypes.complex_of(BY_NAME[name]) is dtypes.of(getattr(torch, name).to_complex())


def test_opmath_widens_16_bits_and_fewer() -> None:
    narrow = {d.name: dtypes.opmath(d).name for d in BY_NAME.values() if dtypes.opmath(d) is not d}
    assert narrow == {
        "float8_e4m3fn": "float32",
        "float8_e5m2": "float32",
        "float8_e4m3fnuz": "float32",
        "float8_e5m2fnuz": "float32",
        "float16": "float32",
        "bfloat16": "float32",
        "complex32": "complex64",
    }


@pytest.mark.parametrize("dtype", BY_NAME.values(), ids=str)
def test_names_are_those_of_torchs_messages(dtype: DType) -> None:
    if dtype is dtypes.float32:
        assert (dtypes.scalar_name(dtype), dtypes.cpp_name(dtype)) == ("Float", "float")
        return
    operand = torch.zeros(2, 2).to(dtypes.torch_dtype(dtype))
    with pytest.raises(RuntimeError) as refusal:
        torch.mm(operand, torch.zeros(2, 2))
    assert str(refusal.value).endswith(f"but got: {dtypes.cpp_name(dtype)} != float")
    if dtype in (dtypes.int32, dtypes.int64):
        return
    with pytest.raises(RuntimeError) as refusal:
        torch.nn.functional.embedding(operand, torch.zeros(2, 2))
    assert f"but got {dtypes.tensor_name(dtype)} instead" in str(refusal.value)


def test_a_dtype_is_one_object() -> None:
    for dtype in BY_NAME.values():
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
        assert dtypes.of(dtype) is dtypes.of(dtype.name) is dtype


@pytest.mark.parametrize(
    ("given", "name"),
    [("bf16", "bfloat16"), ("half", "float16"), ("long", "int64"), (float, "float64"), (bool, "bool")],
)
def test_other_names(given: object, name: str) -> None:
    assert dtypes.of(given).name == name


def test_an_unknown_dtype_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        dtypes.of(torch.qint8)


def test_complex32_has_no_numpy_dtype() -> None:
    with pytest.raises(UnsupportedError, match="a tensor of dtype complex32"):
        dtypes.numpy_dtype(dtypes.complex32)
    for dtype in BY_NAME.values():
        if dtype is not dtypes.complex32:
            assert dtypes.of(dtypes.numpy_dtype(dtype)) is dtype
