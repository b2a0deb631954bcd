"""A module of HLO or StableHLO -> the rows of its audit. What belongs to which operation is asked of an `Origins`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from truecast.diagnose.audit.result import Asked, Audit, Row, grouped
from truecast.diagnose.hlo.loops import narrow_sums
from truecast.diagnose.hlo.module import (
    CONTRACTIONS,
    CONVERTS,
    CUSTOM_CALLS,
    MOST_PROBLEMS,
    REDUCTIONS,
    ROUNDINGS,
    SUMS,
    Instruction,
    Metadata,
    Module,
)
from truecast.diagnose.hlo.types import ELEMENTS, TensorType
from truecast.dtypes import DType

# A call into a library that multiplies: oneDNN, cuBLAS, cuDNN, Eigen and whatever calls itself so.
_PRODUCT_CALLS = ("matmul", "gemm", "conv", "dot", "attention", "fmha", "dnn")
# Operations that hold or hand on values: a float64 in them was counted where it was made.
_NO_MAKERS = frozenset(
    "tuple get_tuple_element call fusion while conditional case if copy bitcast return func.call call".split()
)
# The last part of an op_name that is a cast in the traced program.
_CASTS = frozenset(
    ("convert_element_type", "_to_copy", "to", "astype", "type_as", "convert", "cast", "reduce_precision")
)
_NAMESPACES = ("aten__", "xla__", "prims__")  # as torch_xla spells aten::mul
_DEEPEST = 16  # callers of callers that are asked for metadata


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from. asked, rule, why: who asked for it, where it is a convert."""

    op: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""
    asked: Asked = ""
    rule: str = ""
    why: str = ""
    node: str = ""


class Origins(Protocol):
    """Who knows where instructions come from: their metadata alone, or a Program with its Graph and Plan.

    own: what the instruction's own metadata say; inherited: those of what calls it, where it has none.
    """

    def of(self, instruction: Instruction, own: Metadata, inherited: Metadata) -> Origin: ...


class MetadataOrigins:
    """What foreign text says of itself."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def of(self, instruction: Instruction, own: Metadata, inherited: Metadata) -> Origin:
        asked, why = self._asked(own) if instruction.operation in CONVERTS | ROUNDINGS else ("", "")
        place = own if own.file else inherited
        return Origin(_op(own) or _op(inherited), place.file, place.line, place.column, place.function, asked, "", why)

    def _asked(self, own: Metadata) -> tuple[Asked, str]:
        if not self.module.has_metadata:
            return "unknown", ""
        last = _op(own)
        if last == "xla.cast":
            return "unknown", "torch_xla's own casts bear the same name"
        if not (own.op_name or own.file):
            return "nobody", "it has no metadata: the compiler's own"
        if last.split(".")[-1] in _CASTS or last.split(".")[1:2] == ["_to_copy"]:
            return "program", ""
        return "nobody", f"it belongs to {last}, which is no cast"


def audited(modules: Sequence[Module], title: str) -> Audit:
    """The audit of modules by their metadata."""
    return summed(modules, title, [row for module in modules for row in events(module, MetadataOrigins(module))])


def summed(modules: Sequence[Module], title: str, rows: Iterable[Row]) -> Audit:
    """The Audit of these events of these modules."""
    products = sum(i.operation in CONTRACTIONS or _is_product_call(i) for module in modules for i in module.kept)
    return Audit(
        title,
        modules[0].language,
        sum(module.instructions for module in modules),
        products,
        grouped(rows),
        tuple(problem for module in modules for problem in module.problems)[:MOST_PROBLEMS],
        sum(module.unread_lines for module in modules),
    )


def events(module: Module, origins: Origins) -> Iterator[Row]:
    """A row with count 1 for each event, in the order of the text."""
    places = _Places(module, origins)
    for instruction in module.kept:
        for row in _rows(instruction, module):
            yield places.at(row, instruction)
    for loop, position, narrow in narrow_sums(module):
        carried = loop.carried[position]
        event = Row("accumulation", "while", carried.dtype.name, carried.dtype.name, accumulate=narrow.name)
        at = Instruction(loop.text_line, "while", (carried,), (), loop.computation, loop.reference)
        why = "a loop adds to a 16-bit value that it carries"
        yield places.at(replace(event, nbytes=carried.nbytes, why=why), at)
    for instruction in module.doubles:
        computation = module.computations.get(instruction.computation)
        is_argument = instruction.operation == "parameter" and (computation is None or not computation.is_entry)
        if instruction.operation not in _NO_MAKERS and not is_argument:
            first = instruction.results[0]
            nbytes = sum(result.nbytes for result in instruction.results)
            yield places.at(Row("float64", "", "", first.dtype.name, nbytes=nbytes), instruction)


def _rows(instruction: Instruction, module: Module) -> Iterator[Row]:
    """The events of one instruction, without their place."""
    operation, results, operands = instruction.operation, instruction.results, instruction.operands
    if not results:
        return
    first, result = (operands[0] if operands else None), results[0]
    if operation in CONVERTS and first is not None:
        nbytes = first.nbytes + result.nbytes
        yield Row("convert", operation, first.dtype.name, result.dtype.name, nbytes=nbytes)
    elif operation in ROUNDINGS and first is not None:
        yield Row("rounding", operation, first.dtype.name, instruction.detail, nbytes=result.nbytes)
    elif operation in CONTRACTIONS or _is_product_call(instruction):
        yield from _product(instruction, operands, result)
    elif operation in REDUCTIONS or operation in SUMS:
        narrow = _narrow_sum(instruction, module, first)
        if narrow is not None:
            source = first.dtype.name if first is not None else ""
            yield Row(
                "accumulation",
                operation,
                source,
                result.dtype.name,
                accumulate=narrow.name,
                nbytes=sum(r.nbytes for r in results),
                why="each partial sum is rounded to 16 bits",
            )


def _product(instruction: Instruction, operands: tuple[TensorType | None, ...], result: TensorType) -> Iterator[Row]:
    """A product is reduced if a factor, the result, or what the algorithm makes of them is narrower than float32."""
    factors = [o.dtype for o in operands[:2] if o is not None]
    algorithm = _algorithm(instruction.detail)
    held = algorithm[-1] if algorithm else None if instruction.operation in CUSTOM_CALLS else result.dtype
    if not any(d.is_inexact and d.mantissa_bits < 23 for d in (*factors, result.dtype, *algorithm)):
        return
    source = " x ".join(d.name for d in factors)
    accumulate = held.name if held is not None else ""
    row = Row("contraction", instruction.operation, source, result.dtype.name, accumulate=accumulate)
    yield replace(row, nbytes=result.nbytes, why=instruction.detail)
    if held is not None and held.is_narrow:
        why = "its type says so; what the unit adds in is the backend's" if not algorithm else instruction.detail
        yield replace(row, kind="accumulation", nbytes=result.nbytes, why=why)


def _algorithm(detail: str) -> tuple[DType, ...]:
    """The dtypes in `algorithm=dot_bf16_bf16_f32_x3`: both factors' and the accumulator's."""
    _, found, rest = detail.partition("algorithm=dot_")
    words = rest.split(",")[0].split("_") if found else []
    named = [ELEMENTS[word] for word in words if word in ELEMENTS]
    return (named[0], named[0], named[-1]) if named else ()


def _narrow_sum(instruction: Instruction, module: Module, first: TensorType | None) -> DType | None:
    """The 16-bit dtype that a reduction's partial sums are rounded to; None if they are not."""
    if instruction.operation in SUMS:
        return first.dtype if first is not None and first.dtype.is_narrow else None
    for name in instruction.called:
        computation = module.computations.get(name)
        if computation is not None and computation.combines:
            narrowest = computation.narrowest
            if narrowest is not None and narrowest.is_narrow:
                return narrowest
    return None


def _is_product_call(instruction: Instruction) -> bool:
    target = instruction.detail.lower()
    return instruction.operation in CUSTOM_CALLS and any(word in target for word in _PRODUCT_CALLS)


def _op(metadata: Metadata) -> str:
    """The framework's operation: torch_xla's type ("aten__mul"), or the last part of the path that jax gives."""
    name = metadata.op_type or metadata.op_name.rstrip("/:").rpartition("/")[2]
    return name.replace("__", ".", 1) if name.startswith(_NAMESPACES) else name


class _Places:
    """Puts rows where their instructions come from; works out each distinct reference once."""

    def __init__(self, module: Module, origins: Origins) -> None:
        self.module, self.origins = module, origins
        self.known: dict[str, Metadata] = {}
        self.above: dict[str, Metadata] = {}

    def at(self, row: Row, instruction: Instruction) -> Row:
        own = self.metadata(instruction.reference)
        origin = self.origins.of(instruction, own, self.inherited(instruction.computation))
        is_decided = row.kind != "float64"  # a rule decides what is converted and summed, not that a value is float64
        return Row(
            row.kind,
            row.operation,
            row.source,
            row.result,
            origin.op or instruction.operation,
            origin.file,
            origin.line,
            origin.column,
            origin.function,
            row.accumulate,
            asked=origin.asked if row.kind in ("convert", "rounding") else "",
            rule=origin.rule if is_decided else "",
            why=(origin.why if is_decided else "") or row.why,
            nbytes=row.nbytes,
            nodes=(origin.node,) if origin.node else (),
            text_lines=(instruction.text_line,),
        )

    def metadata(self, reference: str) -> Metadata:
        if reference not in self.known:
            self.known[reference] = self.module.metadata(reference)
        return self.known[reference]

    def inherited(self, computation: str) -> Metadata:
        """The metadata of the instruction that calls a computation, or of what calls that."""
        if computation not in self.above:
            self.above[computation] = self._climb(computation)
        return self.above[computation]

    def _climb(self, computation: str) -> Metadata:
        for _ in range(_DEEPEST):
            callers = self.module.callers.get(computation, [])
            for _, reference in callers:
                found = self.metadata(reference)
                if found.op_name or found.file:
                    return found
            if not callers:
                break
            computation = callers[0][0]
        return Metadata()
