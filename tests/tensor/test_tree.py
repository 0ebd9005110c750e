"""`gpugrad.tree`: nested containers as one value."""

from collections import namedtuple
from dataclasses import dataclass, field

import pytest

import gpugrad as gg
from gpugrad import tree

Pair = namedtuple("Pair", "first second")


@dataclass
class Layer:
    weight: object
    name: str = field(default="", metadata={"static": True})


NESTED = {"b": Layer(1.0, "last"), "a": [2.0, (3.0, None), Pair(4.0, 5.0)]}


def test_flatten_and_unflatten():
    leaves, structure = tree.flatten(NESTED)
    assert leaves == [2.0, 3.0, 4.0, 5.0, 1.0] == tree.leaves(NESTED)
    assert structure == tree.structure(NESTED) != tree.structure({**NESTED, "b": Layer(1.0, "x")})
    again = tree.unflatten(structure, leaves)
    assert again == NESTED
    assert type(again["a"][2]) is Pair
    with pytest.raises(ValueError, match=r"unflatten: .* has 5 leaves, but 4 were given"):
        tree.unflatten(structure, leaves[1:])


@pytest.mark.parametrize("x", [1.0, gg.ones(2)])
def test_a_leaf_is_a_tree(x):
    leaves, structure = tree.flatten(x)
    assert leaves[0] is x
    assert tree.unflatten(structure, [3.0]) == 3.0
    assert structure == tree.structure(2.0) != tree.structure([2.0])
    with pytest.raises(ValueError, match="1 leaves, but 0 were given"):
        tree.unflatten(structure, [])


def test_map():
    expected = {"b": Layer(10.0, "last"), "a": [20.0, (30.0, None), Pair(40.0, 50.0)]}
    assert tree.map(lambda x: 10 * x, NESTED) == expected
    found = tree.map(lambda x, y, z: (x + y) * z, [1, {"a": 2}], [3, {"a": 4}], [5, {"a": 6}])
    assert found == [20, {"a": 36}]
    with pytest.raises(ValueError, match=r"trees differ: one is \[\*, \*\], another \[\*\]"):
        tree.map(max, [1, 2], [3])


def test_reduce():
    assert tree.reduce(lambda x, y: x - y, NESTED) == 2 - 3 - 4 - 5 - 1
    assert tree.reduce(max, {}, 7) == 7
    with pytest.raises(TypeError, match="empty"):
        tree.reduce(max, {})


def test_a_step_of_gradient_descent():
    parameters = {"w": gg.tensor([1.0, 2.0]), "b": gg.tensor(3.0)}
    gradients = gg.grad(lambda p: (p["w"] ** 2).sum() * p["b"])(parameters)
    new = tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
    assert new["w"].tolist() == pytest.approx([0.4, 0.8])
    assert new["b"].item() == pytest.approx(2.5)
    norm = tree.reduce(lambda total, g: total + (g**2).sum(), gradients, 0.0)
    assert norm.item() == pytest.approx(36 + 144 + 25)
