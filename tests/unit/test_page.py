"""The page of HTML reports: whole, escaped, and without a reference to anything outside of it."""

from __future__ import annotations

from html.parser import HTMLParser

import jinja2
import pytest

from truecast.report.page import fragment, page, rendered

VOID = {"meta", "br", "hr", "img", "input", "link", "line"}


class Outline(HTMLParser):
    """Elements and their attributes; fails where an end tag has no start."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data


def test_a_page_is_whole() -> None:
    body = fragment("<p>{{ text }}</p>", text="1 < 2 & <script>")
    outline = Outline(page("a < b", body, style="p { color: red; }", script="const x = 1 < 2;"))
    assert outline.text["title"] == outline.text["h1"] == "a < b"
    assert outline.text["p"] == "1 < 2 & <script>"
    assert "p { color: red; }" in outline.text["style"] and "prefers-color-scheme: dark" in outline.text["style"]
    assert outline.text["script"].strip() == "const x = 1 < 2;"


def test_a_page_asks_for_nothing() -> None:
    text = page("t", "<p></p>", script="x")
    outline = Outline(text)
    assert {t for t, _ in outline.elements} & {"link", "img", "iframe", "object", "embed"} == set()
    assert all("src" not in attributes and "href" not in attributes for _, attributes in outline.elements)
    policies = [a["content"] for t, a in outline.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and str(policies[0]).startswith("default-src 'none'")
    assert "url(" not in text and "@import" not in text


def test_a_page_without_a_script_has_no_script_element() -> None:
    assert "<script" not in page("t", "")


@pytest.mark.parametrize("part", ["</script>", "</STYLE >", "<!--"])
def test_a_script_can_not_end_its_element(part: str) -> None:
    with pytest.raises(AssertionError, match="ends its own element"):
        page("t", "", script=part)
    with pytest.raises(AssertionError, match="ends its own element"):
        page("t", "", style=part)


def test_a_name_that_a_template_lacks_raises() -> None:
    with pytest.raises(jinja2.UndefinedError):
        fragment("{{ missing }}")
    with pytest.raises(jinja2.UndefinedError):
        rendered("page.html", title="t")
