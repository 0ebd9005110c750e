"""Drawings of the graph, and labels in them."""

import copy
import gc
import os
import pickle
import re

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn
from gpugrad._tensor import _labels


def labelled(x, label):
    x.label = label
    return x


def leaf(values, label=None, **keywords):
    return labelled(gg.tensor(values, requires_grad=True, **keywords), label)


def boxes(drawing):
    """Return the texts in the boxes as lists of lines, read back from the DOT text."""
    found = []
    for text in re.findall(r'^    n\d+ \[label="((?:[^"\\]|\\.)*)"', drawing.dot, re.MULTILINE):
        lines = re.split(r"\\n", text.replace("\\\\", "\0"))
        found.append([line.replace('\\"', '"').replace("\0", "\\") for line in lines])
    return found


def names(drawing):
    return [lines[0] for lines in boxes(drawing)]


def arrows(drawing):
    """Return the arrows as pairs of first lines of the boxes at both ends."""
    found, pairs = names(drawing), re.findall(r"^    n(\d+) -> n(\d+)", drawing.dot, re.MULTILINE)
    return sorted((found[int(i)], found[int(j)]) for i, j in pairs)


# Labels


def test_a_label_is_set_and_removed():
    for x in (gg.ones(2), leaf([1.0]), leaf([1.0]) * 2):
        for label in None, "x", None:
            x.label = label
            assert (x.label, "label='x'" in repr(x)) == (label, label == "x")
        with pytest.raises(TypeError, match="label: must be a str or None, not a int"):
            x.label = 3


def test_a_label_belongs_to_the_object_not_to_equal_ones():
    gc.collect()
    before = len(_labels)
    x, y = labelled(gg.ones(2), "x"), labelled(labelled(gg.ones(2), "another"), "y")
    assert (x.label, y.label, x.detach().label) == ("x", "y", None)
    del x, y
    assert all(gg.ones(2).label is None for _ in range(100))
    assert len(_labels) == before


def test_a_label_stays_with_a_tensor_that_is_changed_and_with_copies():
    x = labelled(gg.ones(2), "x")
    x += 1
    x.requires_grad_()
    for same in (x, copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert same.label == "x"
    y = labelled(x * 2, "y")
    y += x
    y[0] = 0.0
    assert y.label == "y"
    assert any("y = setitem" in lines for lines in boxes(gg.draw(y)))
    model = nn.Linear(2, 2)
    model.weight.label = "w"
    assert model.to(gg.float64).weight.label == "w"


# Boxes


def test_names_values_and_gradients():
    w, b = leaf([[1.0, 2.0]], "w"), leaf([0.5], "b", dtype=gg.float64)
    y = labelled(w.mT * 3 + b.to(gg.float32), "y")
    loss = y.sum()
    loss.backward(retain_graph=True)
    assert boxes(gg.draw(loss)) == [
        ["sum", "()", "10"], ["y = add", "(2, 1)", "[[3.5],", "[6.5]]"],
        ["multiply", "x2=3", "(2, 1)"], ["astype", "(1,)"], ["matrix_transpose", "(2, 1)"],
        ["b", "(1,) float64", "[0.5]", "grad [2]"], ["w", "(1, 2)", "[[1, 2]]", "grad [[3, 3]]"],
    ]  # fmt: skip
    assert arrows(gg.draw(loss)) == [
        ("astype", "y = add"), ("b", "astype"), ("matrix_transpose", "multiply"),
        ("multiply", "y = add"), ("w", "matrix_transpose"), ("y = add", "sum"),
    ]  # fmt: skip


def test_values_that_the_graph_keeps(library):
    x = leaf([0.0])
    (y,) = boxes(gg.draw((x.exp() * x.cos()).sum(), max_values=1))[2:3]
    assert y == ["exp", "(1,)", "[1]"]
    z = x.exp().exp()
    z.sum().backward()  # frees them
    assert boxes(gg.draw(z.sum()))[1:3] == [["exp", "(1,)"], ["exp", "(1,)"]]
    x = library.tensor(np.array([1.0, 2.0]), requires_grad=True)
    assert boxes(gg.draw(x * x))[0] == ["multiply", "(2,) float64", "[1, 4]"]


def test_a_label_outlives_its_tensor():
    y = labelled(leaf([2.0]) * 3, "forgotten")
    y.retain_grad()
    z = y.sum()
    z.backward(retain_graph=True)
    assert boxes(gg.draw(y))[0] == ["forgotten = multiply", "x2=3", "(1,)", "[6]", "grad [1]"]
    del y
    assert boxes(gg.draw(z))[1][:3] == ["forgotten = multiply", "x2=3", "(1,)"]


def test_several_outputs_of_an_op_and_of_the_drawing():
    x = leaf([[2.0, 1.0], [1.0, 3.0]], "x")
    drawing = gg.draw([*gg.linalg.eigh(x)])
    assert names(drawing) == ["linalg.eigh[0]", "linalg.eigh[1]", "linalg.eigh", "x"]
    assert arrows(drawing)[0] == ("linalg.eigh", "linalg.eigh[0]")
    assert names(gg.draw(gg.concat([x, x])))[0] == "concat"


def test_names_of_a_model():
    model = nn.MLP(2, [3, 1])
    y = model(gg.ones((1, 2)))
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= {*names(gg.draw(y, names=model))}
    assert "W" in names(gg.draw(y, names={"W": labelled(model[0].weight, "label")}))


def test_long_graphs_are_cut_and_shared_parts_drawn_once():
    x = leaf(1.0, "x")
    for _ in range(60):  # 2 ** 60 paths
        x = x + x
    assert len(boxes(gg.draw(x))) == 61
    x = leaf(1.0, "x")
    for _ in range(20_000):
        x = x * 1.0
    drawing = gg.draw(x, max_nodes=10)
    assert names(drawing) == ["multiply"] * 10 + ["... 19991 more"]
    assert arrows(drawing)[0] == ("... 19991 more", "multiply")
    assert '["... 19991 more"]:::more' in drawing.mermaid
    assert len(boxes(gg.draw(leaf(1.0) * 2, max_nodes=1))) == 2


@pytest.mark.parametrize("output, options, kind, message", [
    (gg.ones(2), {}, ValueError, "output 0 has no graph"),
    ([leaf(1.0), 2.0], {}, ValueError, "output 1 is a float"),
    (gg.nn.MLP(2, [1]), {}, ValueError, "output 0 is a MLP"),
    ([], {}, ValueError, "no tensor given"),
    (leaf(1.0), {"names": ["x"]}, TypeError, "names must be a module .* not a list"),
    (leaf(1.0), {"names": {"W": 3}}, TypeError, "names must be .*'W' is a int"),
    (leaf(1.0), {"direction": "up"}, ValueError, "direction must be 'TB', 'BT'"),
    (leaf(1.0), {"max_nodes": 0}, ValueError, "max_nodes must be an int of at least 1"),
    (leaf(1.0), {"max_values": None}, ValueError, "max_values must be an int of at least 0"),
])  # fmt: skip
def test_what_cannot_be_drawn(output, options, kind, message):
    with pytest.raises(kind, match=f"draw: {message}"):
        gg.draw(output, **options)


# Text


# Unescaped, each would end the label, or be markup, Markdown, a directive, mathematics or an icon.
@pytest.mark.parametrize("label", [
    'say "hi"', "<b>bold</b> & more", "#1; #quot;", "end", "1. step", "- item", "`code`",
    "**b** __init__ w_1 _x_", "style: x#1;", "%%{init}%%", "back\\slash \\n", "two\nlines",
    "fa:fa-car", "$$x^2$$", "[x](http://a.b)", "{{}} | pipe", "ünï 数",
])  # fmt: skip
def test_any_label_is_shown_as_text(label):
    x = leaf(1.0, label)
    drawing, lines = gg.draw(x * 2), label.split("\n")
    assert boxes(drawing)[1][: len(lines)] == lines
    (text,) = re.findall(r'^    n1\("(.*)<br>\(\)<br>1"\):::leaf$', drawing.mermaid, re.MULTILINE)
    # Only numeric character references and harmless characters are left.
    bare = re.sub(r"#\d+;|<br>", "", text)
    assert not set(bare) & set("#\"&<>`*$%{}|\\:;'~^@!?")
    assert not re.match(r"[-+*>]\s|\d+\.\s", bare)
    shown = re.sub(r"#(\d+);", lambda m: chr(int(m[1])), text.replace("<br>", "\n"))
    assert shown.replace("\u200b", "") == label


def test_text():
    """`draw` has an example of text for Mermaid."""
    x = leaf(3.0, "x")
    assert gg.draw(x * 2, direction="LR").mermaid.startswith("flowchart LR\n")
    text = gg.draw(x * 2).dot
    assert text.startswith("digraph {\n    rankdir=TB\n")
    assert '    n0 [label="multiply\\nx2=2\\n()\\n6", fillcolor=' in text
    assert text.endswith("    n1 -> n0\n}")


@pytest.fixture
def drawing():
    return gg.draw(leaf(3.0, "x") * 2)


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_by_graphviz(drawing, tmp_path, monkeypatch):
    """The program ``dot`` is one that reports its arguments."""
    program = tmp_path / "dot"
    program.write_text('#!/bin/sh\necho "<svg>$*"\nwhile read -r line; do echo "$line"; done\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert re.match(r"(?s)<svg>.*-Tsvg.*digraph \{", drawing.svg())
    for suffix in ("svg", "png", "pdf"):
        drawing.save(tmp_path / f"graph.{suffix}")
        assert f"-T{suffix}" in (tmp_path / f"graph.{suffix}").read_text()
    bundle = drawing._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"image/svg+xml": drawing.svg(), "text/plain": repr(drawing)}
    assert repr(drawing).startswith("<drawing of 2 nodes and 1 arrows")


def test_text_needs_nothing(drawing, tmp_path):
    markdown = f"```mermaid\n{drawing.mermaid}\n```"
    texts = {"dot": drawing.dot, "gv": drawing.dot, "mmd": drawing.mermaid, "MD": markdown}
    for suffix, text in texts.items():
        path = tmp_path / f"graph.{suffix}"
        drawing.save(str(path))
        assert path.read_text() == f"{text}\n"
    for name in ("graph", "graph.gif"):
        with pytest.raises(ValueError, match=r"save: the suffix must be \.dot, .* not '"):
            drawing.save(tmp_path / name)


def test_without_the_program(drawing, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="dot, which is not on the PATH: install it"):
        drawing.save(tmp_path / "graph.png")
    assert not (tmp_path / "graph.png").exists()
    kinds = "text/vnd.mermaid", "text/plain"
    assert drawing._repr_mimebundle_() == dict.fromkeys(kinds, drawing.mermaid)
