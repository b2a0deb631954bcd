"""The HTML page that every report is shown on: one self-contained file that a browser opens without a network.

The page forbids its own browser any request (Content-Security-Policy), so that nothing in a report can fetch or leak.
What comes from a program (source, names) is escaped by the templates; only what they made is taken as HTML.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Any

import jinja2
from markupsafe import Markup

_CLOSES = re.compile(r"</(style|script)|<!--", re.IGNORECASE)


def page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole HTML page with `title` as its heading.

    body: HTML, made by `rendered` or `fragment`. style, script: CSS and JavaScript of this page, beside those that
    every page has (page.css: light, dark and print; `.table` around a table keeps its header in sight, `.number` aligns
    right; `pre` with `.line-number` and `.carets`; the colours `.error`, `.warning`, `.info`, `.good`, `.faint`).
    """
    for text in (style, script):
        assert not _CLOSES.search(text), "a style or script that ends its own element"
    return rendered(
        "page.html",
        title=title,
        body=Markup(body),
        base_style=Markup(text_of("page.css")),
        style=Markup(style),
        script=Markup(script),
    )


def rendered(template: str, **values: Any) -> str:
    """The template of this name in report/templates/, with `values` escaped; an unknown name in it raises."""
    return _environment().get_template(template).render(values)


def fragment(source: str, **values: Any) -> str:
    """HTML of a template given as text, with `values` escaped: for bodies of a few lines."""
    return _environment().from_string(source).render(values)


def text_of(name: str) -> str:
    """The style or script of this name in report/templates/."""
    return (importlib.resources.files("truecast.report") / "templates" / name).read_text("utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(text_of),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
