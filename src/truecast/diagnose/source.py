"""The user's source around a site: the expression an operand stands for, and the line that a cast would make of it."""

from __future__ import annotations

import ast
import functools
import linecache

from truecast.diagnose.finding import Edit
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
    if not site.file or not site.column or site.end_line != site.line:
        return None
    source = "".join(linecache.getlines(site.file))
    tree = _tree(source)
    line = linecache.getline(site.file, site.line)
    if tree is None or not line.isascii():  # ast counts columns in bytes
        return None
    span = (site.line, site.column - 1, site.end_line, site.end_column - 1)
    path = _find(tree, span, [])
    return (source, path[-1], path[:-1]) if path and isinstance(path[-1], ast.expr) else None


def _find(node: ast.AST, span: tuple[int, int, int, int], above: list[ast.AST]) -> list[ast.AST] | None:
    if _span(node) == span and isinstance(node, ast.expr):
        return [*above, node]
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None or last is None or first <= span[0] <= last:
            found = _find(child, span, [*above, node])
            if found is not None:
                return found
    return None


def _span(node: ast.AST) -> tuple[int, int, int, int] | None:
    if not hasattr(node, "lineno"):
        return None
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def is_statement(site: Site) -> bool:
    """Whether the expression at `site` is a statement of its own, so that nothing is done with its value."""
    found = _expression(site)
    return found is not None and bool(found[2]) and isinstance(found[2][-1], ast.Expr)


def operand_texts(site: Site) -> list[str]:
    """The source of the operands of the expression at `site`, in order: both sides of a binary operator; the object
    and the arguments of a call of a method; the arguments of a call. [] if the source does not show them."""
    found = _expression(site)
    return [] if found is None else [ast.get_source_segment(found[0], part) or "" for part in _operands(found[1])]


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if not isinstance(node, ast.Call):
        return []
    if isinstance(node.func, ast.Attribute) and not _is_module_name(node.func.value):
        return [node.func.value, *node.args]
    return list(node.args)


def _is_module_name(node: ast.expr) -> bool:
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
    """The line at `site` with `.method` applied to the whole arithmetic expression that `site` is part of."""
    found = _expression(site)
    if found is None:
        return None
    _, node, above = found
    while above and isinstance(above[-1], ast.BinOp | ast.UnaryOp):
        node, above = above.pop(), above  # type: ignore[assignment]
    return _with_method(site, node, method)


def operand_wrapped(site: Site, index: int, method: str) -> Edit | None:
    """The line at `site` with `.method` applied to operand number `index` of its expression (`operand_texts`)."""
    found = _expression(site)
    operands = [] if found is None else _operands(found[1])
    return _with_method(site, operands[index], method) if index < len(operands) else None


def _with_method(site: Site, node: ast.expr, method: str) -> Edit | None:
    if node.lineno != node.end_lineno or node.lineno != site.line or isinstance(node, ast.Starred):
        return None
    line = linecache.getline(site.file, site.line).rstrip("\n")
    start, end = node.col_offset, node.end_col_offset
    assert end is not None, "a parsed expression has an end"
    text = line[start:end]
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        if _is_bracketed(line, start, end):
            start, end = start - 1, end + 1
            text = line[start:end]
        else:
            text = f"({text})"
    return Edit(site.file, site.line, f"{line[:start]}{text}.{method}{line[end:]}")


def _is_bracketed(line: str, start: int, end: int) -> bool:
    """Whether brackets stand right around, and aren't a call's."""
    before = line[start - 2 : start - 1]
    return line[start - 1 : start] == "(" and line[end : end + 1] == ")" and not (before.isalnum() or before in "_])")


def is_readable(site: Site) -> bool:
    """Whether the source line at `site` can be shown."""
    return bool(site.file and site.text)
