"""What `truecast explain` prints and how it ends, word for word; the JSON report by its schema."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import truecast as tc
from truecast import cli
from truecast.report.text import summary
from truecast.testing import assert_dtype_clean

ROOT = Path(__file__).parents[2]
BLEND = """\
import torch

conv = torch.nn.Conv2d(4, 8, 2, dtype=torch.bfloat16)
latents = torch.ones(1, 4, 4, 4, dtype=torch.bfloat16)
s = torch.full((1, 1, 1, 1), 0.5)
for _ in range(2):
    noisy = (1 - s) * latents
    conv(noisy)
"""
BLEND_REPORT = """\
error[TC101]: a float32 activation meets a bfloat16 weight
  --> train.py:8:5   (forward, 2 times)
      8 |     conv(noisy)
        |     ^^^^^^^^^^^ input float32[1,4,4,4], weight bfloat16[8,4,2,2], bias bfloat16[8]
  origin: train.py:7:13
      7 |     noisy = (1 - s) * latents
        |             ^^^^^^^^^^^^^^^^^ float32[1,1,1,1] * bfloat16[1,4,4,4] -> float32
        |              `s` is a 4-dim float32 tensor (train.py:5:5); a 0-dim tensor or a Python number would not promote
  why: PyTorch promotes two dimensioned tensors to the wider dtype (law N1); convolution demands equal dtypes
  help: round to bfloat16 once, where the arithmetic with the float32 tensor ends
      7 |     noisy = ((1 - s) * latents).to(latents.dtype)

1 error in 14 operations
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ends(capsys: pytest.CaptureFixture[str], script: str | bytes, *arguments: str) -> tuple[int, str, str]:
    Path("train.py").write_bytes(script if isinstance(script, bytes) else script.encode())
    code = cli.run(["explain", "train.py", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_refused_convolution_word_for_word(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, BLEND) == (1, BLEND_REPORT, "")


def test_fake_tensors_find_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, BLEND, "--fake")
    assert code == 1
    assert out.splitlines()[:-1] == BLEND_REPORT.splitlines()[:-1]


def test_a_narrow_terminal_wraps(here: Path) -> None:
    Path("train.py").write_text(BLEND)
    with tc.recording() as tape:
        exec(compile(BLEND, str(here / "train.py"), "exec"), {})
    text = tape.explain().render(width=60)
    prose = [line for line in text.splitlines() if line.startswith(("  why", "  help", "        "))]
    assert max(map(len, prose)) <= 60
    assert "\x1b[" not in text
    assert "\x1b[1;31merror[TC101]\x1b[0m" in tape.explain().render(color=True)


ASKS = "train.py stopped at train.py:2:7: the program asks for the contents of a tensor"
CLEAN = "import torch\nx = torch.ones(2) + 1\n"
RAISES = "import torch\nx = torch.ones(2)\nraise ValueError('no data')\n"


@pytest.mark.parametrize(
    ("script", "arguments", "code", "last", "message"),
    [
        (CLEAN, (), 0, "nothing found in 2 operations", ""),
        (BLEND, ("--fail-on", "never"), 0, "1 error in 14 operations", ""),
        (BLEND, ("--ignore", "TC1"), 0, "nothing found in 14 operations", ""),
        (BLEND, ("--select", "TC2"), 0, "nothing found in 14 operations", ""),
        (
            RAISES,
            (),
            2,
            "nothing found in 1 operation; train.py raised ValueError at train.py:3: no data",
            "train.py raised ValueError at train.py:3: no data",
        ),
        ("import sys\nsys.exit(0)\n", (), 0, "nothing found in 0 operations", ""),
        (
            "import sys\nsys.exit(3)\n",
            (),
            2,
            "nothing found in 0 operations; train.py ended with exit(3)",
            "train.py ended with exit(3)",
        ),
        (
            "x = = 1\n",
            (),
            2,
            "",
            "the script is not valid Python (train.py:1:5); values: SyntaxError: invalid syntax",
        ),
        (
            b"x = '\xff'\n",
            (),
            2,
            "",
            "the script is not valid Python (train.py:1); values: SyntaxError: byte 0xff is not utf-8, and no other "
            "encoding is declared",
        ),
        (CLEAN, ("--select", "TC9"), 2, "", "no code begins with 'TC9'; values: there are CODES"),
        (
            "import torch\nprint(torch.ones(2).sum().item())\n",
            ("--fake",),
            2,
            "nothing found in 2 operations; " + ASKS,
            ASKS,
        ),
    ],
)
def test_how_it_ends(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    script: str | bytes,
    arguments: tuple[str, ...],
    code: int,
    last: str,
    message: str,
) -> None:
    from truecast.cli.explain import codes

    ended, out, err = ends(capsys, script, *arguments)
    assert (ended, err) == (code, f"truecast: {message}\n".replace("CODES", ", ".join(codes())) if message else "")
    assert out.splitlines()[-1:] == ([last] if last else [])


def test_no_such_script(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "none.py"]) == 2
    assert capsys.readouterr().err == "truecast: there is no such script (none.py)\n"
    assert cli.run(["explain"]) == 2
    assert capsys.readouterr().err == "truecast: a script or --code is needed; help: truecast explain train.py\n"


def test_a_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "--code", "TC101"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "codes" / "TC101.md").read_text()
    assert cli.run(["explain", "--code", "TC999"]) == 2
    assert capsys.readouterr().err.startswith("truecast: there is no finding 'TC999'; values: there are TC101, ")


def test_the_script_gets_its_arguments(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import sys\nprint(sys.argv, __name__)\n"
    _, out, _ = ends(capsys, script, "--epochs", "3", "data")
    assert out.splitlines()[0] == "['train.py', '--epochs', '3', 'data'] __main__"
    _, out, _ = ends(capsys, script, "--", "--fake")
    assert out.splitlines()[0] == "['train.py', '--fake'] __main__"


def test_code_without_source(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = "layer(torch.ones(2, 4))"
    script = f"import torch\nlayer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)\nexec({inner!r})\n"
    code, out, _ = ends(capsys, script)
    assert code == 1
    assert out.splitlines()[1] == "  --> <string>:1:1 (its source can't be read)   (forward)"
    assert out.splitlines()[2] == "        | input float32[2,4], weight bfloat16[4,4]"


def test_a_script_that_forks_reports_once(here: Path) -> None:
    script = "import os, torch\nx = torch.ones(2) + 1\nif os.fork() > 0:\n    os.wait()\n"
    Path("train.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-c", "from truecast.cli import main; main()", "explain", "train.py"],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "nothing found in 2 operations\n"), done.stderr


KEYS = {
    "code": str,
    "family": str,
    "severity": str,
    "message": str,
    "count": int,
    "sites": list,
    "why": str,
    "help": str,
}
SITE = {"role": str, "file": str, "line": int, "column": int, "end_column": int, "text": str}
FAMILIES = {"contracts", "widening", "narrowing", "autocast", "state", "effective", "migration"}


def validate(document: object) -> None:
    """Raises AssertionError unless `document` is a report of schema 1."""
    assert isinstance(document, dict) and document["schema"] == 1
    assert set(document) == {"schema", "findings", "summary"}
    for finding in document["findings"]:
        assert {k: type(finding[k]) for k in KEYS} == KEYS
        assert set(finding) - set(KEYS) <= {"edit"}
        assert re.fullmatch(r"TC\d\d\d", finding["code"])
        assert finding["family"] in FAMILIES and finding["severity"] in ("error", "warning", "info")
        assert finding["count"] >= 1 and finding["sites"][0]["role"] == "symptom"
        for site in finding["sites"]:
            assert {k: type(site[k]) for k in SITE} == SITE
            assert site["role"] in ("origin", "symptom", "related")
    counts = {s: sum(f["severity"] == s for f in document["findings"]) for s in ("error", "warning", "info")}
    assert {s: document["summary"][s] for s in counts} == counts


def test_json_is_of_schema_1(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends(capsys, BLEND, "--json", "report.json")
    document = json.loads(Path("report.json").read_text())
    validate(document)
    (finding,) = document["findings"]
    assert (finding["code"], finding["family"], finding["count"]) == ("TC101", "contracts", 2)
    assert [(s["role"], s["line"], s["column"], s["end_column"]) for s in finding["sites"]] == [
        ("symptom", 8, 5, 16),
        ("origin", 7, 13, 30),
    ]
    with pytest.raises(AssertionError):
        validate({**document, "schema": 2})


def test_sarif_names_lines_and_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends(capsys, BLEND, "--sarif", "report.sarif")
    log = json.loads(Path("report.sarif").read_text())
    (run,) = log["runs"]
    (result,) = run["results"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["TC101"]
    assert (result["ruleId"], result["level"], result["occurrenceCount"]) == ("TC101", "error", 2)
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "train.py"},
        "region": {"startLine": 8, "startColumn": 5, "endLine": 8, "endColumn": 16},
    }
    assert [r["physicalLocation"]["region"]["startLine"] for r in result["relatedLocations"]] == [7]


def test_a_comment_sets_a_finding_aside(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = "nothing found in 14 operations, 1 set aside"
    for line in ("conv(noisy)", "noisy = (1 - s) * latents"):
        for codes in ("TC101", "TC1", "TC2, TC101"):
            script = BLEND.replace(line, f"{line}  # truecast: ignore[{codes}] a test")
            assert ends(capsys, script) == (0, f"{last}\n", "")
    assert ends(capsys, BLEND.replace("conv(noisy)", "conv(noisy)  # truecast: ignore[TC2] no"))[0] == 1
    assert ends(capsys, BLEND.replace("conv(noisy)", "conv(noisy)  # truecast: ignore[] no"))[0] == 1


def test_a_baseline_knows_findings_wherever_they_move(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, BLEND, "--write-baseline", "known.json")[0] == 1
    code, out, _ = ends(capsys, "# a line more\n" + BLEND, "--baseline", "known.json")
    assert (code, out) == (0, "nothing found in 14 operations, 1 set aside\n")
    other = BLEND + "torch.nn.Linear(2, 2, dtype=torch.float16)(torch.ones(2))\n"
    code, out, _ = ends(capsys, other, "--baseline", "known.json")
    assert code == 1 and out.endswith("1 error in 23 operations, 1 set aside\n")
    for text in ("{}", '{"baseline": 1}', '{"baseline": 1, "findings": [1]}', "[" * 100_000):
        Path("known.json").write_text(text)
        assert ends(capsys, BLEND, "--baseline", "known.json")[2].startswith(
            "truecast: this is no baseline file (known.json); "
        )


def test_assert_dtype_clean() -> None:
    layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
    assert_dtype_clean(layer, torch.ones(2, 4, dtype=torch.bfloat16))
    with pytest.raises(AssertionError, match=r"error\[TC101\]: a float32 activation meets a bfloat16 weight"):
        assert_dtype_clean(layer, torch.ones(2, 4))
    assert_dtype_clean(layer, torch.ones(2, 4), ignore=["TC1"])
    with pytest.raises(AssertionError, match="the program stopped: RuntimeError"):
        assert_dtype_clean(layer, torch.ones(2, 5, dtype=torch.bfloat16))


pytest_plugins = ["pytester"]


def test_the_fixture_fails_a_test_with_the_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch

        def test_layer(assert_dtype_clean):
            assert_dtype_clean(torch.nn.Linear(4, 4, dtype=torch.bfloat16), torch.ones(2, 4))
        """
    )
    result = pytester.runpytest_inprocess()  # the entry point that an installation registers loads the plugin
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*error*TC101*: a float32 activation meets a bfloat16 weight*"])


def test_the_summary_counts() -> None:
    assert summary((), 1, "") == "nothing found in 1 operation"
    assert summary((), 2, "the program stopped") == "nothing found in 2 operations; the program stopped"


def test_the_example_has_one_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, (ROOT / "examples" / "flow_matching.py").read_text(), "--fail-on", "warning")
    assert code == 1
    assert re.findall(r"^(?:error|warning)\[.*?\]", out, re.MULTILINE) == ["error[TC101]", "warning[TC501]"]
    assert "51 |     noisy = ((1 - sigma) * latents + sigma * noise).to(latents.dtype)" in out


def test_explaining_does_not_load_what_it_does_not_need() -> None:
    loaded = "print(any(m in sys.modules for m in ('jax', 'libcst', 'truecast.report.html')))"
    program = f"import sys, truecast as tc\nwith tc.recording() as t: pass\nt.explain()\n{loaded}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
