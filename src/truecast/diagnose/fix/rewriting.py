"""A cast put behind an expression of the user's source, with all else in the file kept as it is, byte for byte.

Works on the syntax tree (LibCST), so that an expression over several lines, in a decorator, a comprehension or a chain
of calls is wrapped as what it is, and in the file's own encoding, indentation and line ends.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from truecast.diagnose.finding import Span

# What `.method` binds to as a whole without brackets around.
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set)


@dataclass(frozen=True)
class Parsed:
    """A file's syntax tree. expressions: by span. targets: those that are assigned to or unpacked, which can't be cast.
    torch: what the file calls torch; "" if it doesn't import it."""

    module: cst.Module
    expressions: Mapping[Span, cst.BaseExpression]
    targets: frozenset[Span]
    torch: str
    _edited: dict[tuple[tuple[Span, str], ...], list[str]] = field(default_factory=dict, repr=False, compare=False)

    def can_cast(self, span: Span) -> bool:
        """Whether an expression of exactly this span stands there whose value can be cast."""
        return span in self.expressions and span not in self.targets

    def with_casts(self, casts: Mapping[Span, str], adding_imports: bool = True) -> bytes:
        """The file with `.method` put behind the expression at each span."""
        named = {span: self._named(method) for span, method in casts.items()}
        changed = self.module.visit(_Wrapping({id(self.expressions[span]): m for span, m in named.items()}))
        if adding_imports and not self.torch and any("torch." in method for method in named.values()):
            changed = _importing_torch(changed)
        return changed.bytes

    def lines(self, casts: Mapping[Span, str]) -> list[str]:
        """The lines of the file with these casts, numbered as before. One cause may be met at every layer."""
        key = tuple(casts.items())
        if key not in self._edited:
            changed = self.with_casts(casts, adding_imports=False)
            self._edited[key] = changed.decode(self.module.encoding).splitlines()
        return self._edited[key]

    def _named(self, method: str) -> str:
        return method.replace("torch.", f"{self.torch}.") if self.torch else method


def _importing_torch(module: cst.Module) -> cst.Module:
    from libcst.codemod import CodemodContext  # half a second to load, and rarely needed
    from libcst.codemod.visitors import AddImportsVisitor

    context = CodemodContext()
    AddImportsVisitor.add_needed_import(context, "torch")
    return AddImportsVisitor(context).transform_module(module)


class _Wrapping(cst.CSTTransformer):
    def __init__(self, methods: Mapping[int, str]) -> None:
        super().__init__()
        self._methods = methods

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        updated = super().on_leave(original_node, updated_node)
        method = self._methods.get(id(original_node))
        if method is None or not isinstance(updated, cst.BaseExpression):
            return updated
        return _cast(updated, method)  # type: ignore[return-value]  # an expression for an expression


def _cast(node: cst.BaseExpression, method: str) -> cst.BaseExpression:
    call = cst.parse_expression(method)
    assert isinstance(call, cst.Call) and isinstance(call.func, cst.Name), "a method is a call: to(torch.float32)"
    if not isinstance(node, _ATOMS) and not node.lpar:
        node = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return call.with_changes(func=cst.Attribute(node, call.func))


def is_the_users(file: str) -> bool:
    """Whether a file is the program's own to change: not one of an installed package."""
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


def parsed(file: str) -> Parsed | None:
    """The syntax tree of a file; None for one that can't be read, doesn't parse, or wouldn't be kept byte for byte."""
    try:
        text = Path(file).read_bytes()
    except OSError:
        return None
    return _parsed(text)


@functools.lru_cache(maxsize=16)
def _parsed(text: bytes) -> Parsed | None:
    try:
        module = cst.parse_module(text)
    except (cst.ParserSyntaxError, UnicodeDecodeError, LookupError):
        return None
    if module.bytes != text:
        return None
    expressions: dict[Span, cst.BaseExpression] = {}
    targets: set[Span] = set()
    torch = ""
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    for node, position in positions.items():
        if isinstance(node, cst.BaseExpression):
            expressions[_span(position)] = node
        elif isinstance(node, cst.ImportAlias) and node.evaluated_name == "torch":
            torch = node.evaluated_alias or "torch"
        targets |= {_span(positions[target]) for target in _targets(node)}
    return Parsed(module, expressions, frozenset(targets), torch)


def _span(position: CodeRange) -> Span:
    return position.start.line, position.start.column + 1, position.end.line, position.end.column + 1


def _targets(node: cst.CSTNode) -> Iterable[cst.BaseExpression]:
    """The expressions of a statement that are written to, or whose value is taken apart."""
    match node:
        case cst.Assign(targets=targets, value=value):
            yield from (target.target for target in targets)
            if any(isinstance(target.target, cst.Tuple | cst.List) for target in targets):
                yield value
        case cst.AugAssign(target=target) | cst.AnnAssign(target=target) | cst.NamedExpr(target=target):
            yield target
        case cst.For(target=target, iter=iterated) | cst.CompFor(target=target, iter=iterated):
            yield from (target, iterated)
        case cst.StarredElement(value=value):
            yield value
        case cst.Del(target=target):
            yield target
        case cst.AsName(name=name):
            yield name


def assigned(file: str, span: Span) -> Span | None:
    """The span of the value that the assignment at `span` (the statement or its target) writes; None elsewhere."""
    known = parsed(file)
    if known is None:
        return None
    positions = {id(node): at for at, node in known.expressions.items()}
    found: list[Span] = []

    class Assignments(cst.CSTVisitor):
        def visit_Assign(self, node: cst.Assign) -> None:
            value, target = positions.get(id(node.value)), positions.get(id(node.targets[-1].target))
            if value is not None and target is not None and span in (target, (*target[:2], *value[2:])):
                found.append(value)

    known.module.visit(Assignments())
    return found[0] if found else None
