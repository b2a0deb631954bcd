"""`truecast run`: what a script's end looks like, word for word, and the exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from truecast.cli import run
from truecast.numerics.scope import in_force

EXAMPLES = Path(__file__).parents[2] / "examples"


def ends(
    capfd: pytest.CaptureFixture[str], folder: Path, text: str, *options: str, arguments: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    script = folder / "script.py"
    script.write_text(text)
    code = run(["run", *options, str(script), *arguments])
    out, err = capfd.readouterr()
    return code, out, err.replace(str(script.resolve()), "script.py").replace(str(script), "script.py")


def test_a_script_runs_as_with_python(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = 'import sys\nif __name__ == "__main__":\n    print(sys.argv[1:], __file__[-9:])\n'
    code, out, err = ends(capfd, tmp_path, text, arguments=("a", "--lr", "3"))
    assert (code, out, err) == (0, "['a', '--lr', '3'] script.py\n", "")


@pytest.mark.parametrize(
    ("end", "code", "said"), (("0", 0, ""), ("3", 3, ""), ("None", 0, ""), ("'all is lost'", 1, "all is lost\n"))
)
def test_the_exit_code_is_the_scripts(
    end: str, code: int, said: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert ends(capfd, tmp_path, f"raise SystemExit({end})\n") == (code, "", said)


def test_an_exception_is_printed_from_the_scripts_lines_on(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ends(capfd, tmp_path, "def f():\n    return 1 / 0\n\n\nf()\n") == (
        1,
        "",
        "Traceback (most recent call last):\n"
        '  File "script.py", line 5, in <module>\n'
        "    f()\n"
        '  File "script.py", line 2, in f\n'
        "    return 1 / 0\n"
        "           ~~^~~\n"
        "ZeroDivisionError: division by zero\n",
    )


def test_wrong_use_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ends(capfd, tmp_path, "x = (\n") == (
        2,
        "",
        "truecast: the script is not valid Python (script.py:1:5); values: SyntaxError: '(' was never closed\n",
    )
    code, _, err = ends(capfd, tmp_path, "print(1)\n", "--numerics", "nueron")
    assert code == 2 and err.startswith("truecast: unknown preset 'nueron'; values: ") and err.count("\n") == 1
    assert run(["run", str(tmp_path / "gone.py")]) == 2
    assert capfd.readouterr().err == f"truecast: there is no such script ({tmp_path / 'gone.py'})\n"


def test_the_policy_holds_while_the_script_runs(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "import threading\nimport truecast as tc\nfrom truecast.numerics.scope import policy\n"
    text += "t = threading.Thread(target=lambda: print(policy().name))\nt.start()\nt.join()\n"
    assert ends(capfd, tmp_path, text, "--numerics", "neuron")[1] == "neuron\n"
    assert in_force() is None


def test_the_device_is_there_without_asking_for_it(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "import torch\nprint(torch.ones(2, device='pjrt') + 1)\n"
    assert ends(capfd, tmp_path, text)[:2] == (0, "tensor([2., 2.], device='pjrt:0')\n")


def test_the_story_of_the_noise_level(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(EXAMPLES / "flow_matching.py")]) == 1
    out, err = capfd.readouterr()
    lines = err.splitlines()
    files = [line for line in lines if line.startswith("  File")]
    assert out == "" and not any("/truecast/capture/" in line for line in files) and "conv.py" in files[-1]
    assert lines[-4:] == [
        "RuntimeError: Input type (float) and bias type (c10::BFloat16) should be the same",
        "in flow_matching.py:42:19, in VideoTransformer.forward",
        "float32 comes from flow_matching.py:51:13, in blend: mul(float32[2,1,1,1,1], bfloat16[2,4,3,8,8]) -> float32",
        "    (1 - sigma) * latents",
    ]
