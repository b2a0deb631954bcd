"""The picture of the dtype flow: modules that do the same become one box, and its size is bounded."""

from __future__ import annotations

from truecast import dtypes
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.graph import Graph, Input, Node, Value
from truecast.report.module_flow import Box, Picture, pictures
from truecast.sites import Phase, Site

FLOAT32, BFLOAT16 = dtypes.float32, dtypes.bfloat16


def chain(modules: list[str], wide: str = "", phase: Phase = "forward") -> Graph:
    """A bfloat16 value that passes one operation in each module; the one in `wide` makes float32 of it, the next
    bfloat16 again."""
    value = Value("x", BFLOAT16, (4,))
    inputs, nodes = (Input(value, "input", "x"),), []
    for number, module in enumerate(modules):
        result = Value(f"v{number}", FLOAT32 if module == wide else BFLOAT16, (4,))
        site = Site("train.py", number + 1, 1, number + 1, 2, "f", module, phase)
        nodes.append(Node("aten.neg.default", (value,), (), (result,), site))
        value = result
    return Graph("chain", inputs, tuple(nodes), ())


def picture(graph: Graph, findings: tuple[Finding, ...] = (), most: int = 400) -> Picture:
    (found,) = pictures(Flow(graph), findings, most)
    return found


def names(found: Picture) -> list[tuple[str, int, int]]:
    return [(box.name, box.stands_for, box.operations) for box in found.boxes]


LAYERS = [f"layers.{i}.{part}" for i in range(80) for part in ("attention", "mlp")]


def test_layers_that_do_the_same_are_one_box() -> None:
    found = picture(chain(LAYERS))
    assert names(found) == [
        ("program", 1, 0),
        ("layers", 1, 0),
        ("0–79", 80, 0),
        ("attention", 80, 80),
        ("mlp", 80, 80),
    ]
    edges = {
        (found.boxes[e.source].name if e.source >= 0 else "inputs", found.boxes[e.target].name): e.times
        for e in found.edges
    }
    assert edges == {("inputs", "attention"): 1, ("attention", "mlp"): 80, ("mlp", "attention"): 79}
    assert {e.nbytes for e in found.edges} == {8, 640, 632}


def test_a_layer_with_another_dtype_keeps_its_own_box() -> None:
    found = picture(chain(LAYERS, wide="layers.40.mlp"))
    assert [n for n, _, _ in names(found) if "–" in n or n.isdecimal()] == ["0–39", "40", "41", "42–79"]
    (widened,) = [box for box in found.boxes if box.path == "layers.40.mlp"]
    assert [(c.before, c.after, c.where, c.times) for c in widened.changes] == [
        ("bfloat16", "float32", "train.py:82:1", 1)
    ]
    assert [(e.dtype, e.becomes) for e in found.edges if found.boxes[e.target].path == "layers.40.mlp"] == [
        ("bfloat16", "float32")
    ]


def test_a_layer_with_a_finding_keeps_its_own_box() -> None:
    site = Site("train.py", 1, 1, 1, 2, "f", "layers.40.mlp", "forward")
    finding = Finding("TC101", "error", "", (Place("symptom", site),), "", "")
    found = picture(chain(LAYERS), (finding,))
    assert [n for n, _, _ in names(found) if "–" in n or n.isdecimal()] == ["0–39", "40", "41–79"]
    assert [box.path for box in found.boxes if box.findings] == ["layers.40.mlp"]


def operations(boxes: tuple[Box, ...]) -> int:
    return sum(box.operations for box in boxes)


def test_a_large_tree_is_bounded_and_loses_nothing() -> None:
    deep = [f"a{i}.b{j}.c{k}" for i in range(9) for j in range(9) for k in range(9)]
    for most in (40, 150, 800):
        found = picture(chain(deep), most=most)
        assert len(found.boxes) <= most + 1
        assert operations(found.boxes) == len(deep)
        assert found.left_out == 1 + 9 + 81 + 729 - len(found.boxes)
        assert all(box.parent < number for number, box in enumerate(found.boxes))


def test_many_siblings_become_one_box_with_the_findings_last() -> None:
    flat = [f"block{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(100)]
    site = Site("train.py", 1, 1, 1, 2, "f", flat[90], "forward")
    found = picture(chain(flat), (Finding("TC101", "error", "", (Place("symptom", site),), "", ""),), most=40)
    assert len(found.boxes) == 11 and operations(found.boxes) == 100
    assert [box.name for box in found.boxes if box.findings] == [flat[90]]
    assert found.boxes[-1].name == "91 more" and found.boxes[-1].stands_for == 91


def test_phases_have_pictures_of_their_own() -> None:
    forward, backward = chain(["a"]), chain(["b"], phase="backward")
    assert [p.phase for p in pictures(Flow(forward), ())] == ["forward"]
    both = Graph("both", forward.inputs, (*forward.nodes, *(n for n in renamed(backward))), ())
    assert [(p.phase, [b.path for b in p.boxes]) for p in pictures(Flow(both), ())] == [
        ("forward", ["", "a"]),
        ("backward", ["", "b"]),
    ]


def renamed(graph: Graph) -> list[Node]:
    return [Node(n.op, n.args, n.kwargs, (Value("w", BFLOAT16, (4,)),), n.site) for n in graph.nodes]
