"""`gpugrad.tree`: nested containers as one value."""

import copy
import pickle
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
    assert tree.unflatten(structure, leaves) == NESTED
    with pytest.raises(ValueError, match=r"unflatten: .* has 5 leaves, but 4 were given"):
        tree.unflatten(structure, leaves[1:])


@pytest.mark.parametrize("x", [1.0, gg.ones(2)])
def test_a_leaf_is_a_tree(x):
    leaves, structure = tree.flatten(x)
    assert leaves[0] is x
    assert tree.unflatten(structure, [3.0]) == 3.0
    assert copy.deepcopy(structure) == structure == pickle.loads(pickle.dumps(structure))
    assert structure == tree.structure(2.0) != tree.structure([2.0])
    with pytest.raises(ValueError, match="1 leaves, but 0 were given"):
        tree.unflatten(structure, [])


def test_map_and_reduce():
    found = tree.map(lambda x, y: x * y, NESTED, tree.map(lambda x: 10, NESTED))
    assert found == {"b": Layer(10.0, "last"), "a": [20.0, (30.0, None), Pair(40.0, 50.0)]}
    assert type(found["a"][2]) is Pair
    with pytest.raises(ValueError, match=r"trees differ: one is \[\*, \*\], another \[\*\]"):
        tree.map(max, [1, 2], [3])
    assert tree.reduce(lambda x, y: x - y, NESTED) == 2 - 3 - 4 - 5 - 1
    assert tree.reduce(max, {}, 7) == 7
