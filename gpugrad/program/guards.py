"""The conditions of a program: what was read while recording is still the same.

They are rows of a few kinds, and a loop over the rows of a kind checks them. Code for each of them
would take longer to compile than all else in a first call.
"""

import types

from ..autograd.graph import Leaf
from .state import items_of, keys_of, same, same_argument

_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")


def rows_of(guards):
    """The guards of a `Reach` as the lists of rows that `all_hold` takes."""
    in_dicts, elsewhere, equal, cells, attributes = [], [], [], [], []
    functions, lengths, others = {}, [], []
    for slot, value, how in guards:
        if how == "len":
            lengths.append((slot, value))
        elif how == "type":
            others.append((type, slot, value))
        elif how in ("keys", "set"):
            others.append((keys_of if how == "keys" else items_of, slot, value))
        elif how == "equal" and not (value is None or value is True or value is False):
            equal.append((slot.get, value))
        elif slot.kind == "item" and type(slot.container) is dict:
            in_dicts.append((slot.container, slot.key, value))
        elif slot.kind == "item":
            elsewhere.append((slot.container, slot.key, value))
        elif slot.kind == "class":
            elsewhere.append((vars(slot.container), slot.key, value))
        elif slot.kind == "cell":
            cells.append((slot.container, value))
        elif type(slot.container) is types.FunctionType and slot.key in _OF_FUNCTIONS:
            functions.setdefault(id(slot.container), (slot.container, {}))[1][slot.key] = value
        else:
            attributes.append((slot.container, slot.key, value))
    whole = []
    for function, values in functions.values():
        if len(values) == len(_OF_FUNCTIONS):
            whole.append((function, *[values[name] for name in _OF_FUNCTIONS]))
        else:
            attributes += [(function, name, value) for name, value in values.items()]
    return in_dicts, elsewhere, equal, cells, whole, attributes, lengths, others


def all_hold(rows):
    """Whether all these guards hold; places that are gone raise errors."""
    in_dicts, elsewhere, equal, cells, functions, attributes, lengths, others = rows
    for x, key, value in in_dicts:  # apart from other containers, for which Python is slower
        if x[key] is not value:
            return False
    for x, key, value in elsewhere:
        if x[key] is not value:
            return False
    for get, value in equal:
        now = get()
        if now is not value and not same(now, value):
            return False
    for cell, value in cells:
        if cell.cell_contents is not value:
            return False
    for f, code, defaults, named in functions:
        if (
            f.__code__ is not code
            or f.__defaults__ is not defaults
            or f.__kwdefaults__ is not named
        ):
            return False
    for x, name, value in attributes:
        if getattr(x, name) is not value:
            return False
    for x, n in lengths:
        if len(x) != n:
            return False
    return not others or all(kind(x) == value for kind, x, value in others)


def leaves_hold(leaves, tensors, statics, apart):
    """Whether the leaves of the arguments are what a program is for.

    tensors: tuples of the position of a Tensor, its type, the type of its node, and whether it has
        a gradient if that is a leaf.
    statics: pairs of a position and the value of what is no array.
    apart: the ids of tensors of the state that the program changes, which these Tensors are not.
    """
    for i, kind, node_kind, has_grad in tensors:
        x = leaves[i]
        if type(x) is not kind or type(x.node) is not node_kind or id(x) in apart:
            return False
        if node_kind is Leaf and (x.node.watch is not None or (x.grad is not None) is not has_grad):
            return False
    return not statics or all(same_argument(leaves[i], value) for i, value in statics)


def layouts_hold(arrays, kind, rows):
    """Whether all arrays are of this type, with the shapes, dtypes and strides in the rows."""
    for x, (shape, dtype, strides) in zip(arrays, rows, strict=True):
        if type(x) is not kind or x.shape != shape:
            return False
        if x.dtype is not dtype and x.dtype != dtype:
            return False
        if strides is not None and x.strides != strides:
            return False
    return True


def tensors_hold(leaves, bare, others, states):
    """Whether tensors and the state of optimizers are where they were.

    leaves, bare: tuples of a leaf, its node, that node's ``watch``, and its array. Those in
        ``leaves`` have a gradient.
    others: tuples of a Tensor that is no leaf or gets another array, its node, that node if it is
        a leaf or None, its ``watch``, whether it has no gradient, and its array or None.
    states: tuples of a `ParameterState`, its arrays, and one that must have the same numbers.
    """
    for x, node, watch, array in leaves:
        if x.array is not array or x._grad is None or x.node is not node or node.watch is not watch:
            return False
    for x, node, watch, array in bare:
        if (
            x.array is not array
            or x._grad is not None
            or x.node is not node
            or node.watch is not watch
        ):
            return False
    for x, node, leaf, watch, is_bare, array in others:
        if (
            x.node is not node
            or (leaf is not None and leaf.watch is not watch)
            or (x._grad is None) is not is_bare
            or (array is not None and x.array is not array)
        ):
            return False
    for state, values, first in states:
        if state.values is not values:
            return False
        # Programs give all of them the same objects.
        if state.step is not first.step and state.step != first.step:
            return False
        if state.numbers is not first.numbers and state.numbers != first.numbers:
            return False
    return True
