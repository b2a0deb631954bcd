"""Graph.verify names the broken invariant and the node: one case per rule G1..G6."""

from __future__ import annotations

import math
import struct

import pytest

from truecast.dtypes import bfloat16, float32
from truecast.errors import GraphError
from truecast.graph import Graph, Input, Node, Output, Value, map_values, values_in
from truecast.sites import Site

X = Value("x", float32, (2,))
Y = Value("y", float32, (2,))
Z = Value("z", float32, (2,))
SITE = Site("/home/me/net.py", 7, 12, 7, 20, "forward")


def graph(*nodes: Node, inputs: tuple[Input, ...] = (Input(X),), outputs: tuple[Output, ...] = ()) -> Graph:
    return Graph("g", inputs, nodes, outputs)


def relu(argument: object, *outputs: Value | None) -> Node:
    return Node("aten.relu.default", (argument,), (), outputs, SITE)


def keyword(*names: str) -> Node:
    return Node("aten.add.Tensor", (X, X), tuple((name, 1) for name in names), (Y,), SITE)


AT_Y = "node %y = aten.relu.default, net.py:7:12"
BROKEN = {
    "G1 input": (graph(inputs=(Input(X), Input(X))), "G1: %x is defined twice", "graph 'g'"),
    "G1 node": (graph(relu(X, Y), relu(X, Y)), "G1: %y is defined twice", AT_Y),
    "G2 undefined": (graph(relu(Z, Y)), "G2: %z is used before it is defined", AT_Y),
    "G2 later": (graph(relu(Z, Y), relu(X, Z)), "G2: %z is used before it is defined", AT_Y),
    "G2 own": (graph(relu(Y, Y)), "G2: %y is used before it is defined", AT_Y),
    "G2 nested": (graph(relu(((Z,),), Y)), "G2: %z is used before it is defined", AT_Y),
    "G2 type": (
        graph(relu(Value("x", bfloat16, (2,)), Y)),
        "G2: %x is used as bfloat16[2], but defined as float32[2]",
        AT_Y,
    ),
    "G3": (
        graph(Node("relu", (X,), (), (Y,), SITE)),
        "G3: 'relu' is not namespace.name.overload",
        "node %y = relu, net.py:7:12",
    ),
    "G4 list": (graph(relu([X], Y)), f"G4: an argument is a list: [{X!r}]", AT_Y),
    "G4 object": (graph(relu((float32, 1j, None, {}), Y)), "G4: an argument is a dict: {}", AT_Y),
    "G4 keyword": (
        graph(keyword("not a word")),
        "G4: 'not a word' is not a keyword, or is given twice",
        "node %y = aten.add.Tensor, net.py:7:12",
    ),
    "G4 keyword twice": (
        graph(keyword("alpha", "alpha")),
        "G4: 'alpha' is not a keyword, or is given twice",
        "node %y = aten.add.Tensor, net.py:7:12",
    ),
    "G5 output": (graph(outputs=(Output(Y),)), "G5: output %y is not defined as float32[2]", "graph 'g'"),
    "G5 target": (
        graph(relu(X, Y), outputs=(Output(X, "mutation", "y"),)),
        "G5: a mutation writes %y, which is not an input",
        "graph 'g'",
    ),
    "G5 nothing": (
        graph(outputs=(Output(None, "mutation", "x"),)),
        "G5: a mutation writes %x, which is not an input",
        "graph 'g'",
    ),
    "G5 dtype": (
        graph(relu(X, Value("y", bfloat16, (2,))), outputs=(Output(Value("y", bfloat16, (2,)), "mutation", "x"),)),
        "G5: a mutation writes bfloat16[2] to %x, which is float32[2]",
        "graph 'g'",
    ),
    "G5 result": (
        graph(outputs=(Output(X, "result", "x"),)),
        "G5: a result has the target %x; only a mutation has one",
        "graph 'g'",
    ),
    "G6 negative": (
        graph(relu(X, Value("y", float32, (-1,)))),
        "G6: %y has shape (-1,); extents are non-negative ints",
        AT_Y,
    ),
    "G6 bool": (
        graph(inputs=(Input(Value("x", float32, (True,))),)),
        "G6: %x has shape (True,); extents are non-negative ints",
        "graph 'g'",
    ),
    "G6 scalar": (
        graph(inputs=(Input(Value("x", float32, (2,), scalar=True)),)),
        "G6: %x is a scalar and has shape (2,)",
        "graph 'g'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_verify_names_the_rule_and_the_node(name: str) -> None:
    broken, what, where = BROKEN[name]
    with pytest.raises(GraphError) as caught:
        broken.verify()
    assert str(caught.value) == f"{what}\n  --> {where}"


def test_every_rule_has_a_case() -> None:
    assert {name.split()[0] for name in BROKEN} == {"G1", "G2", "G3", "G4", "G5", "G6"}


def test_verify_returns_a_sound_graph() -> None:
    sound = graph(
        Node("aten.topk.default", (X, 1), (("largest", True),), (Y, None), SITE),
        relu((X, (Y,)), Z),
        outputs=(Output(Z), Output(None), Output(Y, "mutation", "x")),
    )
    assert sound.verify() is sound


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0.0, -0.0), (complex(0.0, 0.0), complex(0.0, -0.0)), ("float32", float32), ((1,), 1)],
)
def test_nodes_with_different_literals_differ(one: object, other: object) -> None:
    assert relu(one, Y) != relu(other, Y)
    assert relu((one,), Y) != relu((other,), Y)
    assert graph(relu(one, Y)) != graph(relu(other, Y))


def test_nodes_with_the_same_nan_are_equal() -> None:
    payload = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))[0]
    assert relu(math.nan, Y) == relu(float("nan"), Y)
    assert hash(relu(math.nan, Y)) == hash(relu(float("nan"), Y))
    assert relu(math.nan, Y) != relu(payload, Y)


def test_nodes_at_different_sources_differ() -> None:
    assert Node("aten.relu.default", (X,), (), (Y,)) != relu(X, Y)


def test_dead_nodes_go_and_what_an_output_needs_stays() -> None:
    dead, live = relu(X, Y), relu(X, Z)
    g = graph(dead, live, outputs=(Output(Z),))
    assert g.without_dead_nodes().nodes == (live,)
    g = graph(dead, live, outputs=(Output(Z, "mutation", "x"), Output(None)))
    assert g.without_dead_nodes().nodes == (live,)
    chain = graph(relu(X, Y), relu((Y,), Z), outputs=(Output(Z),))
    assert chain.without_dead_nodes() == chain


def test_producers_and_consumers() -> None:
    first, second = relu(X, Y), Node("aten.add.Tensor", (Y, Y), (("alpha", X),), (Z,), SITE)
    g = graph(first, second, outputs=(Output(Z),))
    assert g.producers() == {"y": first, "z": second}
    assert g.consumers() == {"x": [first, second], "y": [second]}


def test_values_are_found_and_mapped_through_nests() -> None:
    nest = (X, (1, (Y, None)), "x")
    assert list(values_in(nest)) == [X, Y]
    assert map_values(nest, lambda v: v.name) == ("x", (1, ("y", None)), "x")
