"""The user's source around a site: the expression an operand stands for, and the line that a cast would make of it."""

from __future__ import annotations

import ast
import functools
import linecache

from truecast.diagnose.finding import Cast, Edit, Span
from truecast.sites import Site


def short(text: str, limit: int = 40) -> str:
    """Source text on one line, cut in the middle of nothing: whole, or its beginning with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


@functools.lru_cache(maxsize=256)
def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _expression(site: Site) -> tuple[str, ast.expr, list[ast.AST]] | None:
    """The file's text, the innermost expression of exactly this span, and its ancestors from the outermost on."""
    if not site.file or not site.column or not site.end_column:
        return None
    source = "".join(linecache.getlines(site.file))
    tree = _tree(source)
    if tree is None:
        return None
    start, end = _in_bytes(site.file, site.line, site.column), _in_bytes(site.file, site.end_line, site.end_column)
    path = _find(tree, (site.line, start, site.end_line, end), [])
    return (source, path[-1], path[:-1]) if path and isinstance(path[-1], ast.expr) else None


def _in_bytes(file: str, line: int, column: int) -> int:
    """A column as ast counts it: from 0, in bytes of UTF-8."""
    return len(linecache.getline(file, line)[: column - 1].encode())


def _in_characters(file: str, line: int, offset: int) -> int:
    return len(linecache.getline(file, line).encode()[:offset].decode(errors="replace")) + 1


def _find(node: ast.AST, span: Span, above: list[ast.AST]) -> list[ast.AST] | None:
    if _span(node) == span and isinstance(node, ast.expr):
        return [*above, node]
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None or last is None or first <= span[0] <= last:
            found = _find(child, span, [*above, node])
            if found is not None:
                return found
    return None


def _span(node: ast.AST) -> Span | None:
    if not hasattr(node, "lineno"):
        return None
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def is_statement(site: Site) -> bool:
    """Whether the expression at `site` is a statement of its own, so that nothing is done with its value."""
    found = _expression(site)
    return found is not None and bool(found[2]) and isinstance(found[2][-1], ast.Expr)


def operand_texts(site: Site, function: str = "") -> list[str]:
    """The source of the operands of the expression at `site`, in order: both sides of a binary operator; the object
    and the arguments of a call of a method; the arguments of a call. [] if the source does not show them.

    function: the public function that ran there; `model.proj(x)` is no call of `proj` on `model` where it is linear.
    """
    found = _expression(site)
    parts = [] if found is None else _operands(found[1], function)
    return [ast.get_source_segment(found[0], part) or "" for part in parts] if found is not None else []


def _operands(node: ast.expr, function: str) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if not isinstance(node, ast.Call):
        return []
    if not isinstance(node.func, ast.Attribute) or _is_module_name(node.func.value):
        return list(node.args)
    is_method = not function or node.func.attr.strip("_") == function.strip("_")
    return [node.func.value, *node.args] if is_method else list(node.args)


def _is_module_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):  # torch.nn.functional
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "nn", "np", "functional", "self")


def one_name(text: str) -> str:
    """The only variable in an expression ("sigma" in "(1 - sigma)"); the expression itself if there are several."""
    tree = _tree(text.strip())
    if tree is None:
        return text
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    calls = any(isinstance(n, ast.Call | ast.Attribute | ast.Subscript) for n in ast.walk(tree))
    return next(iter(names)) if len(names) == 1 and not calls else text


def wrapped(site: Site, method: str) -> Edit | None:
    """The lines at `site` with `.method` applied to the whole arithmetic expression that `site` is part of."""
    found = _expression(site)
    if found is None:
        return None
    _, node, above = found
    while above and isinstance(above[-1], ast.BinOp | ast.UnaryOp):
        node, above = above.pop(), above  # type: ignore[assignment]
    return with_cast(Cast(site.file, _characters(site.file, node), method))


def operand_span(site: Site, index: int, function: str = "") -> Span | None:
    """Where operand number `index` of the expression at `site` stands."""
    found = _expression(site)
    operands = [] if found is None else _operands(found[1], function)
    return _characters(site.file, operands[index]) if index < len(operands) else None


def _characters(file: str, node: ast.expr) -> Span:
    assert node.end_lineno is not None and node.end_col_offset is not None, "a parsed expression has an end"
    start = _in_characters(file, node.lineno, node.col_offset)
    return node.lineno, start, node.end_lineno, _in_characters(file, node.end_lineno, node.end_col_offset)


def with_cast(cast: Cast) -> Edit | None:
    """The lines that `cast` changes, as they would read; None where nothing stands there that can be cast."""
    from truecast.diagnose.fix.rewriting import parsed  # LibCST: half a second, for who has something to mend

    known = parsed(cast.file)
    if known is None or not known.can_cast(cast.span):
        return None
    first, _, last, _ = cast.span
    return Edit(cast.file, first, "\n".join(known.lines({cast.span: cast.method})[first - 1 : last]), cast)


def is_readable(site: Site) -> bool:
    """Whether the source line at `site` can be shown."""
    return bool(site.file and site.text)
