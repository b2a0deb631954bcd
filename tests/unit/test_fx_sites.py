"""Sites from FX metadata: the columns of the sub-expression, and none where the traceback fits several places."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from truecast.capture.fx_sites import Frame, Places, call_of, frames, locate, module_path, site_of_traceback, torch_name
from truecast.sites import UNKNOWN, Site

SOURCE = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, sigma, noise):
        y = (1 - sigma) * x + sigma * noise
        z = self.proj(y) + self.gate(y)
        a = torch.relu(x) * 2 if x.ndim else x * 3
        b = torch.cat(
            [x, x]).add(
            1)
        return é * é - z
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return str(path)


def trace(file: str, line: int, carets: tuple[int, int] | None = None) -> str:
    text = SOURCE.split("\n")[line - 1].strip()
    marks = f"\n    {' ' * carets[0]}{'^' * (carets[1] - carets[0])}" if carets else ""
    return f'  File "{file}", line {line}, in forward\n    {text}{marks}\n'


def located(*metas: dict[str, object]) -> list[Site]:
    calls = [
        call_of(meta, str(meta.pop("op", "aten.mul.Tensor")), index, "forward") for index, meta in enumerate(metas)
    ]
    return list(locate(calls))


def test_frames_are_read_with_their_carets() -> None:
    text = (
        '  File "/a b/x.py", line 3, in forward\n    y = f(x)\n        ~^^^\n'
        '  File "y.py", line 5, in <lambda>\n    return g(x)\n'
        "Gradient addition node due to multiple use of tensor around:"
    )
    assert frames(text) == (Frame("/a b/x.py", 3, "forward", (4, 8)), Frame("y.py", 5, "<lambda>"))
    assert frames("") == ()


def test_each_operation_of_a_line_gets_its_own_columns(file: str) -> None:
    names = ["__rsub__", "mul", "mul", "add"]
    metas = [
        {"stack_trace": trace(file, 5), "torch_fn": (f"{name}_{i}", f"method.{name}")} for i, name in enumerate(names)
    ]
    sites = located(*metas)
    assert [site.expression for site in sites] == [
        "1 - sigma",
        "(1 - sigma) * x",
        "sigma * noise",
        "(1 - sigma) * x + sigma * noise",
    ]
    assert {(site.line, site.function) for site in sites} == {(5, "Net.forward")}


def test_nodes_of_one_call_share_its_columns(file: str) -> None:
    metas = [{"stack_trace": trace(file, 5), "torch_fn": (key, "method.mul")} for key in ("m1", "m1", "m2")]
    assert [site.expression for site in located(*metas)] == ["(1 - sigma) * x"] * 2 + ["sigma * noise"]


def test_no_columns_where_the_count_does_not_fit(file: str) -> None:
    (site,) = located({"stack_trace": trace(file, 5), "torch_fn": ("mul_1", "method.mul")})
    assert (site.line, site.column, site.end_column) == (5, 0, 0)
    assert site.function == "Net.forward"


def test_no_columns_on_a_line_that_branches(file: str) -> None:
    metas = [{"stack_trace": trace(file, 7), "torch_fn": (key, "method.mul")} for key in ("m1", "m2")]
    assert [site.column for site in located(*metas)] == [0, 0]
    (relu,) = located({"stack_trace": trace(file, 7), "torch_fn": ("relu_1", "builtin.relu")})
    assert relu.expression == "torch.relu(x)"


def test_a_call_into_a_module_is_found_by_the_modules_name(file: str) -> None:
    library = f"{torch.nn.__path__[0]}/modules/linear.py"
    inner = f'{trace(file, 6)}  File "{library}", line 134, in forward\n    return F.linear()\n'
    metas = [
        {
            "stack_trace": inner,
            "torch_fn": (f"linear_{name}", "builtin.linear"),
            "nn_module_stack": {"a": ("", "Net"), "b": (name, "Linear")},
        }
        for name in ("gate", "proj")
    ]
    sites = located(*metas)
    assert [site.expression for site in sites] == ["self.gate(y)", "self.proj(y)"]
    assert [site.module for site in sites] == ["gate", "proj"]


def test_carets_give_the_columns(file: str) -> None:
    (site,) = located({"stack_trace": trace(file, 5, (4, 19))})
    assert site.expression == "(1 - sigma) * x"


def test_carets_to_the_end_of_the_line_go_on_where_the_expression_does(file: str) -> None:
    (cat,) = located({"stack_trace": trace(file, 8, (4, 14)), "op": "aten.cat.default"})
    assert (cat.line, cat.column, cat.end_line, cat.end_column) == (8, 13, 9, 20)
    chain = trace(file, 5, (4, 35))  # (1 - sigma) * x and the whole sum start here
    mul, add = located(
        {"stack_trace": chain, "source_fn_stack": [("mul", "mul")]},
        {"stack_trace": chain, "source_fn_stack": [("add", "add")]},
    )
    assert mul.expression == "(1 - sigma) * x"
    assert add.expression == "(1 - sigma) * x + sigma * noise"


def test_a_backward_node_is_where_its_forward_call_was(file: str) -> None:
    places: Places = {}
    names = ["rsub_1", "mul_1", "mul_2"]
    metas = [{"stack_trace": trace(file, 5), "torch_fn": (n, f"method.{n[:-2]}")} for n in names]
    forward = list(locate([call_of(m, "aten.x.y", 0, "forward") for m in metas], places))
    backward = list(locate([call_of(m, "aten.x.y", 0, "backward") for m in reversed(metas)], places))
    assert [s.expression for s in backward] == ["sigma * noise", "(1 - sigma) * x", "1 - sigma"]
    assert {s.phase for s in backward} == {"backward"} and {s.phase for s in forward} == {"forward"}
    unknown = list(locate([call_of(m, "aten.x.y", 0, "backward") for m in reversed(metas)]))
    assert [s.column for s in unknown] == [0, 0, unknown[2].column] and unknown[2].expression == "1 - sigma"


def test_columns_count_characters_not_bytes(file: str) -> None:
    mul, sub = located(
        {"stack_trace": trace(file, 11), "torch_fn": ("mul_1", "method.mul")},
        {"stack_trace": trace(file, 11), "torch_fn": ("sub_1", "method.sub")},
    )
    assert (mul.column, mul.end_column, mul.expression) == (16, 21, "é * é")
    assert (sub.column, sub.end_column, sub.expression) == (16, 25, "é * é - z")


def test_without_source_the_line_is_all_there_is() -> None:
    (site,) = located({"stack_trace": '  File "<exec>", line 3, in forward\n    y = a * b\n'})
    assert site == Site("<exec>", 3, 0, 3, 0, "forward")


def test_without_a_traceback_the_module_is_all_there_is() -> None:
    (site,) = located({"nn_module_stack": {"a": ("", "Net"), "b": ("proj", "Linear")}})
    assert site == Site(module="proj")
    assert located({}) == [UNKNOWN]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], ""),
        ([""], ""),
        (["", "layers.0", "layers.0.mlp"], "layers.0.mlp"),
        (["L['self'].conv"], "conv"),
        (["L['self'].layers[0]", "L['self'].layers[0].mlp"], "layers.0.mlp"),
        (["L['self']._modules['net']._modules['0']"], "net.0"),
        (["L['model']"], ""),
        (["L['owner'].model", "L['owner'].model.fc"], "model.fc"),
        (["G['model']", "G['model'].fc"], "fc"),
    ],
)
def test_module_paths_are_relative_to_the_root(paths: list[str], expected: str) -> None:
    assert module_path({str(i): (path, object) for i, path in enumerate(paths)}) == expected


def test_torch_names_lose_their_owner_and_underscores() -> None:
    assert [torch_name(n) for n in ("function.__rsub__", "method_descriptor.relu_", "mul")] == ["rsub", "relu", "mul"]


def test_a_traceback_leads_to_the_innermost_user_line() -> None:
    try:
        torch.ones(2) + torch.nn.Linear(3, 3)(torch.ones(2))
    except RuntimeError:
        site = site_of_traceback(sys.exc_info()[2])
    assert site.expression == "torch.nn.Linear(3, 3)(torch.ones(2))"
    assert site.file == __file__
    assert site_of_traceback(None) is UNKNOWN
