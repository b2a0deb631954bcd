"""The text form of a Graph: reads well, parses back to an equal Graph, and says where it is wrong."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecast import dtypes
from truecast.dtypes import bfloat16, float32, int64
from truecast.errors import GraphError
from truecast.graph import Graph, Input, Node, Output, Token, Value
from truecast.graph_text import parse, render, short_names
from truecast.sites import Site


def every_form() -> Graph:
    """A graph with each kind of line, literal and source once."""
    net, loss = "/home/me/net.py", "/home/me/lib/loss.py"
    weight, x = Value("weight", bfloat16, (4, 8)), Value("x", bfloat16, (2, 8))
    rate, state = Value("lr", dtypes.float64, (), scalar=True), Value("odd name", float32, (2,))
    t, h = Value("t", bfloat16, (8, 4)), Value("h", bfloat16, (2, 4))
    v, i = Value("v", float32, (2,)), Value("i", int64, (2,))
    every = Value("every", float32, ())
    last = Value("last", float32, (2,))
    nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
    literals = (
        None,
        True,
        False,
        3,
        -3,
        0.1,
        -0.0,
        1e-300,
        1e16,
        float("inf"),
        -float("inf"),
        float("nan"),
        nan,
        complex(-0.0, float("nan")),
        "",
        'it\'s\n"a" line\\',
        "None",
        float32,
        Token("torch.strided"),
        Token("cuda:0"),
        (),
        (1,),
        ((1, 2), (x, ())),
    )
    nodes = (
        Node("aten.t.default", (weight,), (), (t,), Site(net, 7, 16, 7, 28, "Mlp.forward", "proj")),
        Node("aten.mm.default", (x, t), (), (h,), Site(net, 7, 16, 9, 4, "Mlp.forward", "proj", "backward")),
        Node("aten.max.dim", (h, -1), (("keepdim", False),), (v, i), Site(net, 8, 0, 8, 0, "<lambda>")),
        Node("aten.topk.default", (h, 1), (), (None, Value("j", int64, (2, 1))), Site(loss, 3, 1, 3, 5)),
        Node("prims.every.form", literals, (("alpha", literals[-1]), ("beta", v)), (every,), Site(loss, 3, 0, 0, 0)),
        Node("aten._assert.default", (), (("message", "%x"),), (), Site(phase="optimizer")),
        Node("aten.clone.default", (state,), (), (last,)),
    )
    inputs = (
        Input(weight, "parameter", "proj.weight"),
        Input(x),
        Input(rate, "scalar", "lr"),
        Input(state, "buffer", "a b"),
    )
    outputs = (Output(v), Output(None), Output(last, "mutation", "odd name"), Output(x))
    return Graph("every form", inputs, nodes, outputs).verify()


def test_every_form_reads_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    golden("every_form.graph", render(every_form()))


def test_every_form_parses_back() -> None:
    graph = every_form()
    assert parse(render(graph)) == graph
    assert Graph.parse(str(graph)) == graph


def test_without_sites_nothing_of_the_source_shows() -> None:
    text = render(every_form(), sites=False)
    assert "@" not in text and "net.py" not in text
    assert all(node.site == Site() for node in parse(text).nodes)


# ------------------------------------------------------------------------------------ the round-trip law

texts = st.text(st.characters(), max_size=6)  # lone surrogates, controls and line separators included
floats = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]) | st.floats()
all_dtypes = st.sampled_from(list(dtypes.BY_NAME.values()))
literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    floats,
    st.builds(complex, floats, floats),
    texts,
    all_dtypes,
    texts.map(Token),
)
sites = st.builds(
    Site,
    file=texts,
    line=st.integers(0, 9),
    column=st.integers(0, 3),
    end_line=st.integers(0, 9),
    end_column=st.integers(0, 3),
    function=texts,
    module=texts,
    phase=st.sampled_from(["forward", "backward", "optimizer"]),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = iter(draw(st.lists(texts, unique=True, min_size=1, max_size=12)))
    shapes = st.lists(st.integers(0, 2**40), max_size=3).map(tuple)
    defined: list[Value] = []

    def define(scalar: bool = False) -> Value | None:
        name = next(names, None)
        if name is None:
            return None
        value = Value(name, draw(all_dtypes), () if scalar else draw(shapes), scalar)
        pending.append(value)
        return value

    pending: list[Value] = defined
    inputs = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["input", "parameter", "buffer", "constant", "scalar"]))
        value = define(scalar=kind == "scalar")
        if value is not None:
            inputs.append(Input(value, kind, draw(texts)))
    nodes = []
    for _ in range(draw(st.integers(0, 4))):
        leaf = literals | st.sampled_from(defined) if defined else literals
        argument = st.recursive(leaf, lambda a: st.lists(a, max_size=3).map(tuple), max_leaves=5)
        args = tuple(draw(st.lists(argument, max_size=3)))
        kwargs = tuple(draw(st.dictionaries(st.sampled_from(["alpha", "dim", "keepdim"]), argument)).items())
        pending = []
        outputs = tuple(define() if draw(st.booleans()) else None for _ in range(draw(st.integers(0, 2))))
        defined = defined + pending
        op = draw(st.sampled_from(["aten.add.Tensor", "prims.f32.f32", "_quantized.x_y.default2"]))
        nodes.append(Node(op, args, kwargs, outputs, draw(sites)))
    values = st.none() | st.sampled_from(defined) if defined else st.none()
    results = [Output(v) for v in draw(st.lists(values, max_size=3))]
    mutations = [Output(e.value, "mutation", e.value.name) for e in inputs if draw(st.booleans())]
    return Graph(draw(texts), tuple(inputs), tuple(nodes), tuple(draw(st.permutations(results + mutations))))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_graph_parses_back_from_its_text(graph: Graph) -> None:
    text = render(graph.verify())
    assert parse(text) == graph
    assert render(parse(text)) == text
    assert len(text.splitlines()) == text.count("\n")  # nothing in a name breaks a line


@settings(max_examples=100, deadline=None)
@given(graphs(), st.data())
def test_a_damaged_text_gives_a_graph_error_or_a_graph(graph: Graph, data: st.DataObject) -> None:
    text = render(graph)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    damaged = text[:start] + data.draw(st.text("%[](),:=@'\"#_ \n1ax.\\", max_size=3)) + text[end:]
    try:
        parse(damaged).verify()
    except GraphError as error:
        assert error.where is not None


# ------------------------------------------------------------------------------------------ error texts

SOUND = "graph g\nfile n.py = '/n.py'\n%x: float32[2] = input x\n"
NODE = "%y: float32[2] = aten.relu.default(%x)"
ERRORS = [
    ("", "expected 'graph NAME': the text is empty", "1:1"),
    ("\n\n%x: float32[2] = input\n", "expected 'graph NAME' on the first line", "3:1"),
    ("graph\n", "expected 'graph NAME' on the first line", "1:1"),
    ("graph a b\n", "expected 'graph NAME' on the first line", "1:1"),
    (SOUND + "x: float32[2] = input", "expected a value, %NAME: dtype[shape]", "4:1"),
    (SOUND + "%y float32[2] = input", "expected a value, %NAME: dtype[shape]", "4:1"),
    (SOUND + "%y: float33[2] = input", "expected a dtype, not 'float33'", "4:5"),
    (SOUND + "%y: float32[2,] = input", "expected extents separated by single commas, not '2,'", "4:13"),
    (SOUND + "%y: float32[2,-1] = input", "expected a value, %NAME: dtype[shape]", "4:1"),
    (SOUND + "%x: float32[2] = input", "G1: %x is defined twice", "4:1"),
    (SOUND + "%y: float32[2] input", "expected '='", "4:16"),
    (
        SOUND + "%y: float32[2] = inputt y",
        "expected namespace.name.overload(arguments), or an input kind (input, parameter, buffer, constant, scalar)",
        "4:18",
    ),
    (SOUND + "%y: float32[2], _ = input", "expected an operation, namespace.name.overload(arguments)", "4:21"),
    (SOUND + NODE[:-1], "expected ',' or ')'", "4:38"),
    (SOUND + NODE.replace("%x", "%z"), "G2: %z is not defined on a line before this one", "4:36"),
    (SOUND + NODE.replace("%x", "%y"), "G2: %y is used before it is defined", "4:36"),
    (SOUND + NODE.replace("%x", "%x, %"), "expected an argument: %NAME, a literal or [arguments]", "4:40"),
    (SOUND + NODE.replace("%x", "%x %x"), "expected ',' or ')'", "4:39"),
    (SOUND + NODE.replace("%x", "[1 2]"), "expected ',' or ']'", "4:39"),
    (SOUND + NODE.replace("%x", "[1, 2"), "expected ',' or ']'", "4:41"),
    (SOUND + NODE.replace("%x", "a=1, %x"), "expected keyword=argument: positional arguments come first", "4:41"),
    (SOUND + NODE.replace("%x", "true"), "expected None, True, False, inf, nan or a dtype, not 'true'", "4:36"),
    (SOUND + NODE.replace("%x", "complex(1, 2)"), "expected a float: complex(real, imaginary)", "4:44"),
    (SOUND + NODE.replace("%x", "complex(1.0)"), "expected ','", "4:47"),
    (SOUND + NODE.replace("%x", r"'\x'"), r"expected a string as Python writes it; \x is no escape", "4:36"),
    (SOUND + NODE.replace("%x", "'a"), "expected an argument: %NAME, a literal or [arguments]", "4:36"),
    (
        SOUND + NODE + " at n.py:7",
        "expected the end of the line or a source, @ FILE:LINE:COLUMN-END in FUNCTION of MODULE (PHASE)",
        "4:40",
    ),
    (SOUND + NODE + " @ m.py:7", "no 'file' line gives the path of 'm.py'", "4:42"),
    (SOUND + NODE + " @ n.py:7 (sideways)", "expected a phase (forward, backward, optimizer), not 'sideways'", "4:50"),
    (SOUND + NODE + "\nfile m.py = '/m.py'", "expected a node: files come before nodes", "5:1"),
    (SOUND + NODE + "\n%z: float32[] = input", "expected a node: inputs come before nodes", "5:1"),
    (SOUND + "file n.py = '/m.py'", "the file 'n.py' is given twice", "4:6"),
    (SOUND + "file m.py '/m.py'", "expected a short name, '=' and a quoted path", "4:6"),
    (SOUND + "return x", "expected 'return %NAME', 'return None' or 'mutation %INPUT <- %NAME'", "4:1"),
    (SOUND + "return %y", "G2: %y is not defined on a line before this one", "4:9"),
    (SOUND + "mutation %y <- %x", "G2: %y is not defined on a line before this one", "4:11"),
    (
        SOUND + "return %x\n" + NODE,
        "expected 'return' or 'mutation': inputs and nodes come before outputs",
        "5:1",
    ),
]


@pytest.mark.parametrize(("text", "what", "where"), ERRORS)
def test_an_error_says_what_was_expected_and_where(text: str, what: str, where: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse(text, "saved.graph")
    line = text.split("\n")[int(where.split(":")[0]) - 1].strip()
    values = f"\n  values: {line}" if line else ""
    help = f"\n  help: one of {', '.join(dtypes.BY_NAME)}" if "a dtype, not 'float33'" in what else ""
    assert str(caught.value) == f"{what}\n  --> saved.graph:{where}{values}{help}"


def test_a_text_that_breaks_an_invariant_is_refused() -> None:
    with pytest.raises(GraphError, match="G5: a mutation writes int64"):
        parse("graph g\n%x: float32[] = input\n%i: int64[] = input\nmutation %x <- %i\n")


def test_blank_lines_and_carriage_returns_are_accepted() -> None:
    assert parse(SOUND.replace("\n", "\r\n\r\n")) == parse(SOUND)


def test_short_names_are_the_shortest_unique_endings() -> None:
    paths = ["/a/net.py", "/b/net.py", "/b/loss.py", "net.py", "<stdin>", "", "/b/loss.py", "/", "a/"]
    assert short_names(paths) == {
        "/a/net.py": "a/net.py",
        "/b/net.py": "b/net.py",
        "/b/loss.py": "loss.py",
        "net.py": "net.py",
        "<stdin>": "<stdin>",
        "/": "/",
        "a/": "a/",
    }


def test_a_large_graph_prints_and_parses_in_seconds() -> None:
    values = [Value(f"v{i}", float32, (8, 16)) for i in range(10_001)]
    nodes = tuple(
        Node("aten.add.Tensor", (values[i], values[i], (1, 2.5)), (("alpha", 2),), (values[i + 1],), site)
        for i in range(10_000)
        for site in [Site("/home/me/net.py", i + 1, 5, i + 1, 20, "forward", f"layers.{i}")]
    )
    graph = Graph("large", (Input(values[0]),), nodes, (Output(values[-1]),))
    started = time.process_time()
    assert parse(render(graph)) == graph
    assert time.process_time() - started < 4  # measured 0.5 s; a quadratic step takes minutes
