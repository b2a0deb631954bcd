"""Small real programs with a fault each: `truecast explain` finds it, at the line marked so, and nothing else.

A program marks its lines: `# symptom TC101`, `# origin TC101`. A last line `# mended: ...` is the line that the help
proposes. A program that raises by itself says `# stops`; one that is compared with a global downcast, `--migrate NAME`;
a finding whose line isn't the program's, `# elsewhere TC605`.
"""

from __future__ import annotations

import linecache
import re
import runpy
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import truecast as tc
from truecast.diagnose.fix.files import fixes, hidden
from truecast.report.report import Report

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
CODES = sorted((Path(__file__).parents[2] / "docs" / "codes").glob("TC*.md"))


def explained(path: Path, stops: bool = False, fake: bool = False) -> Report:
    with tc.recording(fake=fake) as tape, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Exception:
            if not stops:
                raise
        else:
            assert not stops, f"{path.name} ran to its end"
        migrate = re.search(r"--migrate (\S+)", path.read_text())
        return tape.explain(migrate=migrate[1] if migrate else "")


def marked(path: Path, role: str) -> list[tuple[str, int]]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# mended")]
    return [(code, n) for n, line in enumerate(lines, 1) for code in re.findall(rf"# .*?{role} (TC\d\d\d)", line)]


def places(report: Report, role: str, name: str) -> set[tuple[str, int]]:
    return {
        (f.code, p.site.line)
        for f in report.findings
        for p in f.places
        if p.role == role and Path(p.site.file).name == name
    }


@pytest.fixture(autouse=True)
def no_policy_is_left() -> Iterator[None]:
    yield
    tc.set_numerics(None)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_a_program_gets_its_finding(path: Path) -> None:
    text = path.read_text()
    report = explained(path, stops="# stops" in text, fake="# fake" in text)
    symptoms = marked(path, "symptom") + [(code, 0) for code in re.findall(r"^# elsewhere (TC\d\d\d)", text, re.M)]
    assert symptoms or "# clean" in text, "a program says what is wrong with it, or that nothing is"
    first = [(f.code, f.places[0].site) for f in report.findings]
    found = sorted((code, site.line if Path(site.file).name == path.name else 0) for code, site in first)
    assert found == sorted(symptoms), str(report)
    assert set(marked(path, "origin")) <= places(report, "origin", path.name), str(report)
    mended = re.search(r"^# mended: (.*)$", text, re.MULTILINE)
    if mended is not None:
        edits = [f.edit.text.partition("  #")[0].strip() for f in report.findings if f.edit is not None]
        assert mended[1] in edits, str(report)


MENDED = [path for path in PROGRAMS if "# mended: " in path.read_text()]


@pytest.mark.parametrize("path", MENDED, ids=lambda p: p.stem)
def test_the_proposed_line_mends_the_program(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    report = explained(copy)
    assert report.flow is not None
    files, left = fixes(report.findings, report.flow)
    assert files and left == ()
    for file in files:
        file.path.write_bytes(file.after)
    linecache.checkcache()
    assert explained(copy).findings == ()


REFUSED = [path for path in PROGRAMS if re.search(r"symptom TC1\d\d", path.read_text())]


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.stem)
def test_fix_mends_what_it_says_and_brings_nothing_new(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    options = {"stops": "# stops" in path.read_text(), "fake": "# fake" in path.read_text()}
    report = explained(copy, **options)
    errors = [f for f in report.findings if f.severity == "error"]
    assert report.flow is not None
    files, left = fixes(errors, report.flow)
    mended = [f for file in files for f in file.mends]
    assert sorted(f.code for f in (*mended, *left)) == sorted(f.code for f in errors), "each is mended or left"
    for file in files:
        file.path.write_bytes(file.after)
    linecache.checkcache()
    found = Counter(f.code for f in explained(copy, **options).findings)
    hidden_by_refusals = Counter(f.code for f in hidden(report.flow) if f.code[2] in "46")
    expected = Counter(f.code for f in report.findings if all(f is not gone for gone in mended))
    assert expected <= found <= expected | hidden_by_refusals, "".join(file.diff() for file in files)
    assert len(left) == path.read_text().count("# no cast mends"), "a program says what no cast of its source mends"


@pytest.mark.parametrize("page", CODES, ids=lambda p: p.stem)
def test_the_example_of_a_page_gives_its_finding_and_no_other(page: Path, tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert example is not None, "a page has an example"
    script = tmp_path / "example.py"
    script.write_text(example[1])
    report = explained(script, stops=page.stem in ("TC107", "TC406"))
    wider = ["TC701"] * (page.stem == "TC703")  # a number that is finite now is computed with in a wider dtype now
    assert [f.code for f in report.findings] == [*wider, page.stem], str(report)


def test_pages_have_fixed_headings() -> None:
    for page in CODES:
        headings = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
        assert headings == ["What it reports", "Why it matters", "Example", "Fix", "When to ignore it"], page


def test_every_code_has_a_page_and_every_page_a_check() -> None:
    checks = Path(__file__).parents[2] / "src" / "truecast" / "diagnose" / "checks"
    used = {code for path in checks.glob("*.py") for code in re.findall(r'"(TC\d\d\d)"', path.read_text())}
    assert used == {page.stem for page in CODES}


def test_the_page_on_explain_tells_the_truth() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "explain.md", "exec"), {})
    listed = set(re.findall(r"TC\d\d\d", page))
    assert listed == {code.stem for code in CODES}
