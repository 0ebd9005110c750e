"""Nested containers of tensors, such as the parameters of a function, taken as one value.

A tree is a leaf, or a dict, list, tuple, named tuple or dataclass of trees, as the transforms take
them; dicts are gone through in the order of their sorted keys, an OrderedDict in its own order.
None is a tree without leaves. Fields of dataclasses with ``metadata={"static": True}`` belong to
the structure. A dataclass is made again from its fields, without a call of ``__post_init__``, so
what that adds to the object is lost: write properties, or fields.
"""

import functools as _functools
from collections.abc import Callable, Sequence
from typing import Any

from .transforms import trees as _trees

__all__ = ["flatten", "leaves", "map", "reduce", "structure", "unflatten"]
__dir__ = __all__.copy


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree and its structure, from which `unflatten` makes the tree again.

    >>> import gpugrad
    >>> leaves, structure = gpugrad.tree.flatten({"b": 3.0, "w": [1.0, 2.0]})
    >>> leaves
    [3.0, 1.0, 2.0]
    >>> gpugrad.tree.unflatten(structure, [30.0, 10.0, 20.0])
    {'b': 30.0, 'w': [10.0, 20.0]}
    """
    return _trees.flatten(tree)


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree with this structure and these leaves; ValueError if there are too many or few."""
    if structure.num_leaves != len(leaves):
        needed = f"has {structure.num_leaves} leaves, but {len(leaves)} were given"
        raise ValueError(f"unflatten: the structure {_trees.shown(structure)} {needed}")
    return _trees.unflatten(structure, leaves)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order."""
    return _trees.flatten(tree)[0]


def structure(tree: Any) -> Any:
    """The structure of a tree, which equals that of trees nested in the same way."""
    return _trees.flatten(tree)[1]


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with ``function(leaf, *leaves)`` in place of each leaf.

    others: trees of the same structure, whose leaves are the further arguments.

    Raises ValueError if a tree has another structure.

    >>> import gpugrad
    >>> parameters = {"b": gpugrad.tensor(1.0), "w": gpugrad.ones(2)}
    >>> gradients = gpugrad.grad(lambda p: (p["w"] * p["b"]).sum())(parameters)
    >>> gpugrad.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
    {'b': tensor(0.8), 'w': tensor([0.9, 0.9])}
    """
    first, nesting = _trees.flatten(tree)
    columns = [first]
    for other in others:
        found, its_nesting = _trees.flatten(other)
        if its_nesting != nesting:
            shown = f"{_trees.shown(nesting)}, another {_trees.shown(its_nesting)}"
            raise ValueError(f"map: the trees differ: one is {shown}")
        columns.append(found)
    return _trees.unflatten(nesting, [function(*row) for row in zip(*columns, strict=True)])


def reduce(function: Callable[[Any, Any], Any], tree: Any, *initial: Any) -> Any:
    """``function(so_far, leaf)`` from the first leaf to the last, as `functools.reduce`.

    initial: what to begin with, before the first leaf; a tree without leaves needs it.

    >>> import gpugrad
    >>> gpugrad.tree.reduce(lambda total, x: total + x, {"a": 1.0, "b": [2.0, 3.0]}, 0.0)
    6.0
    """
    return _functools.reduce(function, leaves(tree), *initial)
