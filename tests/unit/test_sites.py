"""Which frame is the user's, and the exact columns of its sub-expression."""

from __future__ import annotations

import linecache
import os
import sys
import textwrap
from types import FrameType
from typing import Any

import pytest

import truecast
from truecast.sites import UNKNOWN, Site, is_framework_file, resolve, user_frame


class Probe:
    """Operations that note the instruction that called them."""

    def __init__(self, found: list[Site]) -> None:
        self.found = found

    def note(self, *other: Any) -> Probe:
        frame = sys._getframe(1)
        self.found.append(resolve(frame.f_code, frame.f_lasti))
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __getitem__ = __call__ = note


def sites_in(source: str, file: str = "/program/train.py") -> list[Site]:
    """The sites of the operations on `p` when `source` runs; the text of a file that is none is not known."""
    source = textwrap.dedent(source)
    linecache.cache.pop(file, None)
    if not file.startswith("<"):
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    found: list[Site] = []
    exec(compile(source, file, "exec"), {"p": Probe(found), "q": Probe([])})
    return found


@pytest.mark.parametrize(
    ("source", "expressions"),
    [
        ("noisy = (1 - p) * q + 2\n", ["1 - p", "(1 - p) * q", "(1 - p) * q + 2"]),
        ("x = q + p[0](3)\n", ["p[0]", "p[0](3)"]),
        ("f = lambda a: a * 2 + 1\nf(p)\n", ["a * 2", "a * 2 + 1"]),
        ('né = "ü"; y = p * "é" + 1\n', ['p * "é"', 'p * "é" + 1']),
        ("y = [v + 1 for v in (p, p)]\n", ["v + 1", "v + 1"]),
        ("if p + 1: y = p - 1\n", ["p + 1", "p - 1"]),
    ],
)
def test_columns_underline_exactly_the_sub_expression(source: str, expressions: list[str]) -> None:
    assert [s.expression for s in sites_in(source)] == expressions


def test_an_expression_over_several_lines_ends_where_it_ends() -> None:
    (product, total) = sites_in(
        """\
        total = (
            p * 2
            + 1
        )
        """
    )
    assert (product.line, product.end_line, product.expression) == (2, 2, "p * 2")
    assert (total.line, total.column, total.end_line, total.end_column) == (2, 5, 3, 8)
    assert total.expression == "p * 2"


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "<ipython-input-3-abc>"])
def test_code_without_source_has_its_position_and_no_text(file: str) -> None:
    (site,) = sites_in("y = p * 2\n", file)
    assert (site.file, site.line, site.column, site.end_column) == (file, 1, 5, 10)
    assert site.text == "" and site.expression == ""
    assert not is_framework_file(file)


def test_code_without_columns_has_its_line() -> None:
    def function() -> None:
        return None

    code = function.__code__.replace(co_linetable=b"")
    site = resolve(code, 0)
    assert (site.line, site.column) == (code.co_firstlineno, 0)


def test_function_module_and_phase_are_kept() -> None:
    code = test_function_module_and_phase_are_kept.__code__
    site = resolve(code, 0, "layers.0", "backward")
    assert (site.function, site.module, site.phase) == (
        "test_function_module_and_phase_are_kept",
        "layers.0",
        "backward",
    )
    assert str(site).startswith(f"test_sites.py:{code.co_firstlineno}")
    assert str(UNKNOWN) == "<unknown>"


@pytest.mark.parametrize(
    ("file", "framework"),
    [
        ("/venv/lib/python3.11/site-packages/torch/nn/functional.py", True),
        ("/usr/lib/python3/dist-packages/jax/numpy.py", True),
        ("/venv/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py", False),
        ("/venv/lib/python3.11/site-packages/diffusers/models/attention.py", False),
        ("/venv/lib/python3.11/site-packages/torchvision/models/resnet.py", False),
        (os.path.join(os.path.dirname(truecast.__file__), "capture", "tape.py"), True),
        ("/home/someone/src/truecast/train.py", False),
        ("/home/someone/src/torch/train.py", False),
        ("/home/someone/project/train.py", False),
        (os.path.join(os.path.dirname(os.__file__), "contextlib.py"), True),
        ("<frozen importlib._bootstrap>", True),
        ("<string>", False),
    ],
)
def test_whose_file_it_is(file: str, framework: bool) -> None:
    assert is_framework_file(file) is framework


def test_the_innermost_user_frame_is_found_through_framework_frames() -> None:
    import contextlib

    def inner() -> FrameType | None:
        with contextlib.ExitStack() as stack:
            frames: list[FrameType | None] = []
            stack.callback(lambda: frames.append(sys._getframe(1)))
            stack.close()
            return user_frame(frames[0])

    found = inner()
    assert found is not None and found.f_code.co_name == "inner"
    assert user_frame(None) is None
