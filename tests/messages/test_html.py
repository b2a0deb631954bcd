"""The HTML report: what it says, that it needs nothing from outside, and that it works in a real browser.

The browser tests run where a Chromium or Chrome is on PATH.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import truecast as tc
from tests.unit.test_page import Outline
from truecast import cli
from truecast.report.report import Report

SCRIPT = """\
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4, dtype=torch.bfloat16)
        self.proj = torch.nn.Linear(4, 4, dtype=torch.bfloat16)

    def forward(self, x):
        return self.proj(self.norm(x))


model = torch.nn.Sequential(*(Block() for _ in range(6)))
x = torch.ones(2, 4, dtype=torch.bfloat16)
scale = {"</script>": torch.full((2, 1), 0.5)}  # <b>"quoted" & 'bold'</b>
model(model(x) * scale["</script>"])
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    with tc.recording() as tape:
        exec(compile(SCRIPT, str(tmp_path / "train.py"), "exec"), {"__name__": "__main__"})
    return tape.explain()


def test_it_says_what_the_terminal_says(report: Report) -> None:
    (finding,) = report.findings
    text = report.to_html("truecast explain train.py")
    outline = Outline(text)
    assert outline.text["title"] == "truecast explain train.py"
    assert outline.text["strong"].startswith("1 error in ")
    for said in (finding.message, finding.why, finding.help, finding.places[0].text, finding.places[1].note):
        assert said in " ".join(outline.text.values())
    assert [a["id"] for t, a in outline.elements if t == "article"] == ["finding-1"]
    assert "^^^^^^^^^^^^^^^^" in outline.text["span"]
    assert '+ model((model(x) * scale["</script>"]).to(torch.bfloat16))' in outline.text["span"]


def test_what_the_source_says_is_text(report: Report) -> None:
    text = report.to_html()
    assert "<b>" not in text and "&lt;b&gt;" in text
    assert text.count("</script>") == 2  # the data's and the picture's
    data = json.loads(re.search(r'id="flow-data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert [phase["phase"] for phase in data["phases"]] == ["forward"]
    assert [box["name"] for box in data["phases"][0]["boxes"]][:2] == ["program", "0"]


def test_it_asks_for_nothing(report: Report) -> None:
    outline = Outline(report.to_html())
    links = [a["href"] for _, a in outline.elements if "href" in a]
    assert links and all(str(link).startswith("#") for link in links)
    assert all("src" not in attributes for _, attributes in outline.elements)


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\ntorch.ones(2) + 1\n")
    assert cli.run(["explain", "train.py", "--html", "report.html"]) == 0
    assert "<h1>truecast explain train.py</h1>" in Path("report.html").read_text()


def test_a_migration_has_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\nx = torch.ones(4)\ny = x * 2\n")
    with tc.recording() as tape:
        exec(compile(path.read_text(), str(path), "exec"), {})
    outline = Outline(tape.explain(migrate="xla-use-bf16").to_html())
    assert "What computes otherwise than under XLA_USE_BF16=1" in outline.text["h2"]
    assert "y = x * 2" in outline.text["code"] and "bfloat16" in outline.text["td"]


def test_without_a_flow_there_is_no_picture() -> None:
    text = Report((), 3).to_html()
    assert "<svg" not in text and "<script" not in text and "nothing found in 3 operations" in text


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
ACTIONS = """\
const said = {}, rows = () => [...document.querySelectorAll("[data-box]")];
const row = (name) => rows().find((r) => r.getAttribute("aria-label") === name);
const click = (e) => e.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const box = () => document.getElementById("flow-svg").getAttribute("viewBox").split(" ").map(Number);
said.first = rows().map((r) => r.getAttribute("aria-label"));
said.marks = [...document.querySelectorAll(".mark")].map((m) => m.getAttribute("href"));
said.edges = document.querySelectorAll("[data-source]").length;
said.changing = document.querySelectorAll(".edge.changes").length;
click(row("program"));
said.closed = rows().map((r) => r.getAttribute("aria-label"));
said.details = document.getElementById("flow-details").textContent;
row("program").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
said.opened = rows().length;
const before = box();
document.getElementById("flow-in").click();
said.zoomed = box()[2] / before[2];
const svg = document.getElementById("flow-svg"), frame = svg.getBoundingClientRect();
const wheel = { deltaY: 1, ctrlKey: true, clientX: frame.left, clientY: frame.top, bubbles: true, cancelable: true };
const corner = box();
svg.dispatchEvent(new WheelEvent("wheel", wheel));
said.wheeled = [box()[2] / corner[2], box()[0] - corner[0]];
const still = box();
svg.dispatchEvent(new PointerEvent("pointerdown", { clientX: 300, clientY: 300, bubbles: true }));
window.dispatchEvent(new PointerEvent("pointermove", { clientX: 340, clientY: 300 }));
window.dispatchEvent(new PointerEvent("pointerup", {}));
said.dragged = box()[0] < still[0] && box()[1] === still[1];
click(row("program"));
said.afterDrag = rows().length;
document.getElementById("flow-close").click();
document.querySelector("[data-shows]").click();
said.shown = document.querySelector(".row.chosen").getAttribute("aria-label");
said.requests = performance.getEntriesByType("resource").length;
document.body.innerHTML = "";
document.body.append(Object.assign(document.createElement("pre"), { id: "said", textContent: JSON.stringify(said) }));
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on PATH")
def test_it_works_in_a_browser(report: Report, tmp_path: Path) -> None:
    errors = "<script>window.onerror = (m) => { document.title = 'failed: ' + m; };</script>"
    text = report.to_html().replace("<style>", f"{errors}<style>", 1)
    path = tmp_path / "report.html"
    path.write_text(text.replace("</body>", f"<script>{ACTIONS}</script></body>"), "utf-8")
    assert BROWSER is not None
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--window-size=1200,1000", "--virtual-time-budget=2000", "--dump-dom", path.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "<title>truecast explain</title>" in done.stdout, done.stdout[:500]
    said = json.loads(re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)[1].replace("&amp;", "&"))  # type: ignore[index]
    first = ["program", "0", "0.norm", "0.proj", "1", "1.norm", "1.proj"]
    assert said["first"] == first
    assert said["marks"] == ["#finding-1", "#finding-1"]
    assert (said["edges"], said["changing"]) == (7, 2)
    assert said["closed"] == ["program"] and said["opened"] == len(first)
    assert said["details"].startswith("program ") and "bfloat16" in said["details"]
    assert said["zoomed"] == pytest.approx(0.8)
    assert said["wheeled"] == [pytest.approx(1.15), pytest.approx(0.0)]
    assert said["dragged"] is True and said["afterDrag"] == len(first)
    assert said["shown"] == "0.norm"
    assert said["requests"] == 0
