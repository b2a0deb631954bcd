"""What the command prints and how it ends: exit codes, one line on stderr, no traceback; word for word."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from truecast import cli
from truecast.cli import output
from truecast.runtime.doctor import Check, within

SCRIPT = """\
import torch

example_inputs = (torch.ones(2, 3).bfloat16(), torch.ones(3).bfloat16())


def scale(x, y):
    return x * y


def broken(x, y):
    return x @ y[:2]


def unsupported(x, y):
    return torch.linalg.eig(x.float() @ x.float().t())


number = 3

if __name__ == "__main__":
    raise SystemExit("the script itself must not run")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    yield Path("script.py")


def ends(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_lower_prints_stablehlo(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ends(capsys, "lower", "script.py:scale", "--numerics", "neuron")
    assert (code, err) == (0, "")
    assert out.startswith("module @jit_scale")
    assert [out.count(f"stablehlo.{op} ") for op in ("convert", "multiply")] == [3, 1]
    assert ends(capsys, "lower", "script.py:scale", "--numerics", "tpu")[1].count("stablehlo.convert") == 0


def test_lower_prints_what_is_asked_for(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "lower", "script.py:scale", "--optimized")[1].startswith("HloModule jit_scale")
    assert "aten.mul.Tensor" in ends(capsys, "lower", "script.py:scale", "--locations")[1]
    assert ends(capsys, "lower", "script.py:scale", "--plan")[1].startswith("Plan of 'scale' under 'cpu'")


def test_lower_writes_files(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = ends(capsys, "lower", "script.py:scale")[1]
    assert ends(capsys, "lower", "script.py:scale", "--output", "out.mlir") == (0, "", "")
    assert Path("out.mlir").read_text() == printed
    code, out, err = ends(capsys, "lower", "script.py:scale", "--save", "scale.tc", "--target", "tpu")
    assert (code, out) == (0, "")
    assert err == "saved <Program 'scale' for tpu under cpu: 1 nodes> to scale.tc\n"
    import truecast as tc

    assert tc.load("scale.tc").target == "tpu"


@pytest.mark.parametrize(
    "inputs",
    [
        "{'x': torch.ones(2, 3), 'y': torch.ones(3)}",
        "lambda: (torch.ones(2, 3), torch.ones(3))",
        "lambda: {'x': torch.ones(2, 3), 'y': torch.ones(3)}",
    ],
)
def test_example_inputs_come_in_three_forms(script: Path, capsys: pytest.CaptureFixture[str], inputs: str) -> None:
    script.write_text(SCRIPT + f"\nexample_inputs = {inputs}\n")
    code, out, _ = ends(capsys, "lower", "script.py:scale")
    assert code == 0 and "tensor<2x3xf32>" in out


WRONG = {
    ("lower", "script.py"): "'script.py' does not name a function; help: SCRIPT:FUNCTION, for example train.py:step",
    ("lower", "none.py:f"): "there is no such script (none.py)",
    ("lower", "script.py:scael"): "script.py has no 'scael'; help: it has scale, broken, unsupported",
    ("lower", "script.py:number"): "'number' in script.py can't be called; values: it is a int",
    ("lower", "script.py:broken"): "broken in script.py can't be lowered (script.py:11); values: RuntimeError: "
    "size mismatch, got input (2x3), vec (2)",
    ("lower", "script.py:scale", "--numerics", "nueron"): "unknown preset 'nueron'; values: presets: cpu, cuda, eager, "
    "legacy-xla-bf16, legacy-xla-downcast-bf16, neuron, torch_xla-2.10, torch_xla-2.9, tpu; "
    "help: did you mean 'neuron'? a policy of your own is given by its path",
    ("lower", "script.py:scale", "--target", "gpu"): "unknown target 'gpu'; help: one of cpu, cuda, tpu, neuron",
    ("lower", "script.py:scale", "--optimized", "--target", "neuron"): "there is no neuron device here; values: "
    "devices found: cpu; why: Unknown backend neuron. Available backends are ['cpu']; help: pip install libneuronxla "
    "on a Trainium machine; a program can be lowered and saved for neuron from any machine",
    (
        "lower",
        "script.py:scale",
        "--output",
        "no/out",
    ): "can't write the output (no/out); why: No such file or directory",
    ("lower", "script.py:scale", "--save", "no/out"): "can't save the program (no/out); why: No such file or directory",
    ("numerics", "show", "missing.toml"): "can't read policy file 'missing.toml'; why: No such file or directory; "
    "help: a preset is given by its name alone: cpu, cuda, eager, legacy-xla-bf16, legacy-xla-downcast-bf16, neuron, "
    "torch_xla-2.10, torch_xla-2.9, tpu",
    ("lower",): "Missing argument 'SCRIPT:FUNCTION'.",
    ("lowr",): "No such command 'lowr'. Did you mean 'lower'?",
    ("lower", "--optimised"): "No such option: --optimised (Possible options: --optimized)",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_use_is_one_line(script: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = ends(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err == f"truecast: {WRONG[arguments]}\n"
    assert sorted(p.name for p in Path().iterdir() if p.name != "__pycache__") == ["script.py"], "nothing half-written"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\n1 / 0\n", "script.py can't be run (script.py:2); values: ZeroDivisionError: division by zero"),
        (
            "x = = 1\n",
            "script.py can't be run (script.py:1:5); values: SyntaxError: invalid syntax (script.py, line 1)",
        ),
        ("raise SystemExit(3)\n", "script.py ended before anything could be called; values: exit(3)"),
        ("", "script.py has no 'scale'; help: it has nothing to call"),
        (
            "example_inputs = 3\ndef scale(): ...\n",
            "example_inputs in script.py is a int; "
            "help: a tuple of arguments, a dict of keyword arguments, or a function that returns one of them",
        ),
        (
            "def example_inputs():\n    return 1 / 0\ndef scale(): ...\n",
            "example_inputs in script.py can't be made (script.py:2); values: ZeroDivisionError: division by zero",
        ),
    ],
    ids=["raises", "syntax", "exits", "empty", "inputs", "inputs raise"],
)
def test_a_broken_script(script: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    script.write_text(text)
    assert ends(capsys, "lower", "script.py:scale") == (2, "", f"truecast: {message}\n")


def test_a_fault_of_our_own_is_70(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from truecast.api import programs

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a rule made (3,),\nPyTorch says (4,)")

    monkeypatch.setattr(programs, "lower", fail)
    code, out, err = ends(capsys, "lower", "script.py:scale")
    assert (code, out) == (70, "")
    assert err == (
        "truecast: a fault of truecast's own: AssertionError: a rule made (3,), PyTorch says (4,); "
        "truecast --traceback shows where\n"
    )
    code, _, err = ends(capsys, "--traceback", "lower", "script.py:scale")
    assert code == 70 and "Traceback (most recent call last)" in err


def test_numerics_list_show_and_diff(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "numerics", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        *("cpu", "cuda", "eager", "legacy-xla-bf16", "legacy-xla-downcast-bf16", "neuron"),
        *("torch_xla-2.10", "torch_xla-2.9", "tpu"),
    ]
    from truecast.numerics.numerics import Numerics

    assert Numerics.from_toml(ends(capsys, "numerics", "show", "tpu")[1]) == Numerics.preset("tpu")
    code, out, _ = ends(capsys, "numerics", "diff", "torch_xla-2.9", "torch_xla-2.10")
    assert code == 0
    assert out.startswith(
        "numerics: torch_xla-2.9 and torch_xla-2.10\n  rules only in torch_xla-2.9:\n    aten.mul.Tensor"
    )
    assert out.endswith("autocast: both use the list of xla\n")
    assert ends(capsys, "numerics", "diff", "tpu", "tpu")[1] == (
        "numerics: tpu and tpu have the same settings and rules\nautocast: both use the list of tpu\n"
    )


def test_numerics_diff_compares_autocast_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """Law N10: the lists are data, and one command prints where they differ."""
    code, out, _ = ends(capsys, "numerics", "diff", "cuda", "xla")
    assert code == 0
    first, *rest = out.splitlines()
    assert first.startswith("autocast: cuda and xla differ on ")
    assert any("scaled_dot_product_attention" in line for line in rest)
    assert any("max_pool2d" in line for line in rest)


def test_doctor_says_what_is_there_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "doctor")
    assert code == 0
    words = " ".join(out.split())
    assert "ok jaxlib 0.10" in words and "ok cpu device 1 x cpu" in words and "ok cache" in words
    assert "absent neuron device" in words and "pip install libneuronxla on a Trainium machine" in words


def test_doctor_ends_with_1_if_something_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRUECAST_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("TRUECAST_NUMERICS", "nueron")
    code, out, _ = ends(capsys, "doctor")
    words = " ".join(out.split())
    assert code == 1
    assert "can't write to" in words and "name another directory in TRUECAST_CACHE" in words
    assert "wrong numerics unknown preset 'nueron'" in words


def test_doctor_works_without_jax(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from truecast.runtime import doctor

    package = doctor._package
    monkeypatch.setattr(doctor, "_package", lambda n, b: package("no-such-package" if n == "jax" else n, b))
    checks = list(doctor.examine())
    assert Check("no-such-package", "wrong", "not installed", "pip install 'no-such-package<0.11,>=0.10.2'") in checks
    assert not any("device" in check.subject for check in checks)


@pytest.mark.parametrize(
    ("version", "bounds", "inside"),
    [
        ("0.10.2", ">=0.10.2,<0.11", True),
        ("0.10.1", ">=0.10.2,<0.11", False),
        ("0.11.0", ">=0.10.2,<0.11", False),
        ("0.11.0rc1", "<0.11,>=0.10.2", False),
        ("2.13.0+cpu", ">=2.13,<2.15", True),
        ("2.2", ">=2.13", False),
        ("15.0.0", "", True),
    ],
)
def test_version_bounds(version: str, bounds: str, inside: bool) -> None:
    assert within(version, bounds) is inside


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from truecast.cli import run; code = run(['--help'])\n"
        "sys.exit(code or [m for m in ('torch', 'jax', 'numpy') if m in sys.modules] or 0)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "Print a program's StableHLO." in result.stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_colour_and_width_follow_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("TRUECAST_CACHE", "off")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = ends(capsys, "doctor")
    assert code == 0
    assert ("\x1b[32m" in out) is coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert max(map(len, plain.splitlines())) <= 40
    assert "".join(plain.split()).count("pipinstalllibneuronxla") == 1


def test_a_file_gets_no_colour(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "\x1b" not in ends(capsys, "doctor")[1]


@pytest.mark.parametrize(
    ("text", "name", "error"),
    [
        (
            b"\0\1\xff",
            "f",
            "odd.py can't be run (odd.py); values: SyntaxError: source code string cannot contain null bytes",
        ),
        (
            b"def f(x): pass",
            "f",
            "f in odd.py can't be called with its example_inputs; values: missing a required argument: 'x'; "
            "help: give odd.py example_inputs: a tuple of arguments, or a dict of keyword arguments, for f",
        ),
        (
            b"def f(): raise SystemExit(5)",
            "f",
            "f in odd.py can't be lowered (odd.py:1); values: exit(5); why: the script ended the process",
        ),
        (b"class E(BaseException): pass\nraise E('x')", "f", "odd.py can't be run (odd.py:2); values: E: x"),
        (
            b"import torch\nf = torch.nn.Linear(4, 4).bfloat16()\nexample_inputs = (torch.ones(2, 4),)",
            "f",
            "f in odd.py can't be lowered (odd.py); values: RuntimeError: mat1 and mat2 must have the same dtype, "
            "but got Float and BFloat16",
        ),
    ],
)
def test_a_script_that_goes_wrong(
    text: bytes, name: str, error: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.py").write_bytes(text)
    assert ends(capsys, "lower", f"odd.py:{name}") == (2, "", f"truecast: {error}\n")


def test_one_thing_is_printed_at_a_time(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "lower", "script.py:scale", "--optimized", "--plan") == (
        2,
        "",
        "truecast: --optimized and --plan print different things; help: ask for one of them at a time\n",
    )


def test_standard_output_that_is_full(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def echo(text: str, err: bool = False) -> None:
        if not err:
            raise OSError(28, "No space left on device")
        print(text, file=sys.stderr)

    monkeypatch.setattr("typer.echo", echo)
    error = "truecast: can't write the output (standard output); why: No space left on device\n"
    assert ends(capsys, "lower", "script.py:scale") == (2, "", error)


def test_a_closed_standard_output_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert (output.width(), output.colored()) == (0, False)
