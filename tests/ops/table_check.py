"""Runs the ops table against PyTorch eager: `python -m tests.ops.table_check` prints what moved.

Four parts, each over dtypes and operand forms: `promotion` (every elementwise row, operands n-d, 0-dim and
Python scalars), `contracts` (every row with a contract: the exception's type and words), `casts` (what law N12's
casts make of a refused call), `samples` (PyTorch's OpInfo samples, forward and backward: the dtypes of every
result of every operation that they dispatch). A new torch release shows
here what it changed. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.ops.calls import CALLS, THROUGH, made, open_operands
from tests.ops.nodes import node_of
from truecast import dtypes, ops
from truecast.dtypes import DType
from truecast.errors import ContractError
from truecast.numerics.mismatch import casts_for
from truecast.ops import contracts
from truecast.ops.operands import result_dtypes
from truecast.ops.schema import bind, overload, schema

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
)
CONTRACT_DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.complex64,
)
SCALARS = (True, 2, 1.5, 1.5j)

# What eager refuses that is no dtype contract, by the words of its message: the table leaves it to the lowering.
_OUTSIDE = (
    r"not implemented for",  # no CPU kernel for the dtype: another device may have one
    r"not yet implemented for complex|is not supported for complex|does not support complex",
    r"operator, (on|with) (a|two) bool tensors?",  # subtraction and negation of masks
    r"Bool(ean)? inputs not supported|on an unsigned type with negative",
    r"Integer division with addcdiv",
    r"value cannot be converted to type|Converting complex Scalar to non-complex",  # one value's affair
    r"doesn't handle types other than float and double",  # lstsq has no 16-bit kernel
    r"norm\(\): input dtype should be",  # dist of two integral tensors: about their promotion, not about one
    r"itensor_view_from_dense|could not create a primitive",  # oneDNN meets a dtype that it does not know
    r"Unsupported input type encountered for isin",
    r"shape of the mask \[",  # a boolean position is a mask: another call
    r"scaled_dot_product_attention_flash_attention: Expected data type",
)
OUTSIDE = re.compile("|".join(_OUTSIDE))

# A convolution's own words where oneDNN is not used (dtype, CPU features, size): see ops/contract_rows.py.
_CONVOLUTION_WORDS = re.compile(r"expected scalar type \w+ but found \w+|Input type .* and weight type .*")


@dataclass(frozen=True)
class Difference:
    op: str
    operands: str
    table: str
    eager: str

    def __str__(self) -> str:
        return f"{self.op}({self.operands})\n    table: {self.table}\n    eager: {self.eager}"


def differences(op: str, args: Sequence[Any], eager: tuple[str, Sequence[Any]] | None = None) -> Iterator[Difference]:
    """Where the table and eager disagree about the call `op(*args)`; eager may be asked through another call."""
    row = ops.lookup(op)
    assert row is not None, op
    name, arguments = eager or (op, args)
    named = args[-1] if args and isinstance(args[-1], dict) else {}
    node = node_of(op, args[:-1] if named else args, named)
    violation = contracts.check(node, row)
    described = _described(args)
    try:
        results = overload(name)(*(arguments[:-1] if named else arguments), **named)
    except Exception as error:  # whatever eager raises is the datum
        message = str(error).splitlines()[0]
        told = f"{type(error).__name__}: {message}"
        if violation is None:
            if not (isinstance(error, NotImplementedError) or OUTSIDE.search(message)):
                yield Difference(op, described, "accepts", told)
            return
        expected = f"{violation.exception.__name__}: {violation.message}"
        if told != expected and not (isinstance(error, NotImplementedError) or _same_refusal(op, expected, message)):
            yield Difference(op, described, expected, told)
        return
    got = [r.dtype for r in _tensors(results)]
    if violation is not None:
        yield Difference(op, described, f"{violation.exception.__name__}: {violation.message}", f"gives {_names(got)}")
    elif row.kind not in ("composite", "query"):
        predicted = [dtypes.torch_dtype(d) for d in result_dtypes(node, row)][: len(got)]
        if predicted != got:
            yield Difference(op, described, f"gives {_names(predicted)}", f"gives {_names(got)}")


def _same_refusal(op: str, expected: str, message: str) -> bool:
    if "conv" in op and _CONVOLUTION_WORDS.search(expected) and _CONVOLUTION_WORDS.search(message):
        return True
    return OUTSIDE.search(message) is not None


def _tensors(results: Any) -> list[torch.Tensor]:
    leaves = results if isinstance(results, list | tuple) else [results]
    return [
        t
        for leaf in leaves
        for t in (leaf if isinstance(leaf, list | tuple) else [leaf])
        if isinstance(t, torch.Tensor)
    ]


def _names(dtype_list: Iterable[torch.dtype]) -> str:
    return ", ".join(str(d).removeprefix("torch.") for d in dtype_list)


def _described(args: Any) -> str:
    def one(argument: Any) -> str:
        if isinstance(argument, torch.Tensor):
            return f"{_names([argument.dtype])}{list(argument.shape) if argument.ndim else '[]'}"
        if isinstance(argument, list | tuple):
            return f"[{', '.join(map(one, argument))}]"
        return repr(argument)

    return ", ".join(map(one, args))


# -- promotion ---------------------------------------------------------------------------------------------------


def elementwise_overloads() -> list[str]:
    """Every overload of an elementwise row whose required arguments are tensors and scalars alone."""
    found = []
    for name in ops.table():
        row = ops.table()[name]
        if row.kind != "elementwise":
            continue
        base, _, variant = name.partition(".")
        packet = getattr(torch.ops.aten, base)
        for candidate in [variant] if variant else packet.overloads():
            op = f"aten.{base}.{candidate}"
            described = schema(op)
            required = [p.cls for p in described.parameters if not p.has_default]
            fits = "tensor" in required and set(required) <= {"tensor", "scalar"}
            if fits and described.is_functional and ops.lookup(op) is row and not _is_composite(op):
                found.append(op)
    return sorted(set(found))


def _is_composite(op: str) -> bool:
    name = overload(op).name()
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


_PASSED = ("aten.clamp.Tensor:min", "aten.clamp.default:min")  # optional operands without which there is no call


def promotion_calls(op: str) -> Iterator[list[Any]]:
    """The calls of an elementwise overload: each dtype, each pair of dtypes, each form of each operand.

    A third operand is like the second.
    """
    required = [p for p in schema(op).parameters if not p.has_default or f"{op}:{p.name}" in _PASSED]
    places = [[(d, f) for d in DTYPES for f in ((2,), ())] if p.cls == "tensor" else list(SCALARS) for p in required]
    for first, second in itertools.product(places[0], places[1] if len(places) > 1 else [None]):
        rest = [second if p.cls == "tensor" and isinstance(second, tuple) else 1.5 for p in required[2:]]
        chosen = [first, second, *rest][: len(places)]
        yield [torch.ones(c[1], dtype=c[0]) if isinstance(c, tuple) else c for c in chosen]


def check_promotion(sample: random.Random | None = None, per_op: int = 0) -> Iterator[Difference]:
    for op in elementwise_overloads():
        calls = list(promotion_calls(op))
        for args in sample.sample(calls, min(per_op, len(calls))) if sample else calls:
            yield from differences(op, args)


# -- contracts ---------------------------------------------------------------------------------------------------


def contract_calls(label: str) -> Iterator[list[Any]]:
    """The calls of CALLS: all operands alike, and one operand unlike the others, at each place."""
    template = CALLS[label]
    count = len(list(open_operands(template)))
    chosen: dict[tuple[torch.dtype, ...], None] = {}
    for base, other in itertools.product(CONTRACT_DTYPES, repeat=2):
        for place in range(count):
            chosen[tuple(other if k == place else base for k in range(count))] = None
    for combination in chosen:
        yield made(template, combination)


def check_contracts(sample: random.Random | None = None, per_op: int = 0) -> Iterator[Difference]:
    for label in CALLS:
        calls = list(contract_calls(label))
        op = label.partition("/")[0]
        through = THROUGH.get(op)
        for args in sample.sample(calls, min(per_op, len(calls))) if sample else calls:
            eager = (f"aten.{through[0]}", args[: through[1]]) if through else None
            if _is_in_place(op):
                args = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
            yield from differences(f"aten.{op}", args, eager)


def _is_in_place(op: str) -> bool:
    return not schema(f"aten.{op}").is_functional


def check_casts(sample: random.Random | None = None, per_op: int = 0) -> Iterator[Difference]:
    """Where the casts of on_mismatch = "cast" (law N12) don't make eager accept a call that it refuses."""
    for label in CALLS:
        op = f"aten.{label.partition('/')[0]}"
        row = ops.lookup(op)
        assert row is not None, op
        calls = list(contract_calls(label))
        for args in sample.sample(calls, min(per_op, len(calls))) if sample else calls:
            named = args[-1] if isinstance(args[-1], dict) else {}
            node = node_of(op, args[:-1] if named else args, named)
            violation = contracts.check(node, row)
            if violation is None or not violation.casts:
                continue
            try:
                casts = casts_for(node, row, "cast")
            except ContractError:  # another demand remains, which no cast meets
                continue
            bound = bind(op, tuple(args[:-1] if named else args), tuple(named.items()))
            accepted = [_cast(argument, dict(casts).get(name)) for name, argument in bound.items()]
            keywords = {p.name for p in schema(op).parameters if p.keyword_only}
            positional = [a for name, a in zip(bound, accepted, strict=True) if name not in keywords]
            keyword = {name: a for name, a in zip(bound, accepted, strict=True) if name in keywords}
            try:
                overload(op)(*positional, **keyword)
            except Exception as error:  # whatever eager raises is the datum
                message = str(error).splitlines()[0]
                if not (isinstance(error, NotImplementedError) or OUTSIDE.search(message)):
                    done = ", ".join(f"{name} to {dtype}" for name, dtype in casts)
                    yield Difference(op, _described(args), f"casts {done}", f"{type(error).__name__}: {message}")


def _cast(argument: Any, dtype: DType | None) -> Any:
    if isinstance(argument, torch.Tensor):
        return argument if dtype is None else argument.to(dtypes.torch_dtype(dtype))
    return [_cast(a, dtype) for a in argument] if isinstance(argument, list | tuple) else argument


# -- samples -----------------------------------------------------------------------------------------------------


class _Recorder(TorchDispatchMode):
    """Compares the dtypes of what every dispatched operation returns with the table's prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Difference] = {}
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        op = str(function)
        name = f"{function.namespace}.{op.removeprefix('aten.')}"
        row = ops.lookup(name)
        if row is None or row.kind in ("composite", "query"):
            return results
        try:
            node = node_of(name, args, kwargs)
        except KeyError:  # a dtype that truecast does not know
            return results
        self.seen[name] += 1
        got = [r.dtype for r in _tensors(results)]
        predicted = [dtypes.torch_dtype(d) for d in result_dtypes(node, row)]
        if len(predicted) == 1 and len(got) > 1:  # a list of tensors
            predicted *= len(got)
        if predicted[: len(got)] != got:
            self.found.setdefault(
                name, Difference(name, _described(args), f"gives {_names(predicted)}", f"gives {_names(got)}")
            )
        return results


def check_samples(limit: int = 4) -> tuple[list[Difference], int]:
    """Differences over OpInfo's first `limit` samples of each operation and dtype, and how many overloads ran."""
    from torch.testing._internal.common_methods_invocations import op_db

    recorder = _Recorder()
    for info in op_db:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
            if dtype not in info.dtypes or info.name.startswith("jiterator"):
                continue
            backward = dtype is torch.float32 and info.supports_autograd
            samples = info.sample_inputs("cpu", dtype, requires_grad=backward)
            for sample in itertools.islice(samples, limit):
                _run(recorder, info, sample, backward)
    return list(recorder.found.values()), len(recorder.seen)


def _run(recorder: _Recorder, info: Any, sample: Any, backward: bool) -> None:
    try:
        with recorder:
            results = info(sample.input, *sample.args, **sample.kwargs)
            differentiable = [t for t in _tensors(results) if t.requires_grad and not t.is_complex()]
            if backward and differentiable:
                torch.autograd.backward([t.sum() for t in differentiable])
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, AttributeError):
        return  # eager's own refusals of a sample are not the table's affair


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", default=["promotion", "contracts", "casts", "samples"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    total = 0
    for part in arguments.part:
        if part == "samples":
            found, ran = check_samples()
            print(f"samples: {ran} overloads ran")
        else:
            checks = {"promotion": check_promotion, "contracts": check_contracts, "casts": check_casts}
            found = list(checks[part]())
        for op, group in itertools.groupby(found, key=lambda d: d.op):
            listed = list(group)
            print(f"{part}: {op}: {len(listed)} calls differ, the first:")
            print(f"  {listed[0]}")
        print(f"{part}: {len(found)} differences, torch {torch.__version__}")
        total += len(found)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
