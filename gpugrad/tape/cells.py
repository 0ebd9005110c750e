"""Cells: the places that hold what a function reads and changes, and the guards of what they hold.

A guard says that a place still has what it had when a function was recorded. The guards of a
program are rows of a few kinds, and a loop over the rows of a kind checks them.
"""

import types

from .._tensor import Tensor
from ..autograd.graph import Leaf
from ..backends import backend_of


class Cell:
    """A place that holds a value.

    kind: "item" of a container, "attr" of an object, "class" for an attribute in the ``__dict__``
        of a class, or "cell" of a closure.
    """

    __slots__ = ("kind", "container", "key")

    def __init__(self, kind, container, key=None):
        self.kind = kind
        self.container = container
        self.key = key

    def get(self):
        if self.kind == "item":
            return self.container[self.key]
        if self.kind == "cell":
            return self.container.cell_contents
        if self.kind == "class":
            return vars(self.container)[self.key]
        return getattr(self.container, self.key)

    def set(self, value):
        if self.kind == "item":
            self.container[self.key] = value
        elif self.kind == "cell":
            self.container.cell_contents = value
        elif self.kind == "class":
            setattr(self.container, self.key, value)
        else:
            object.__setattr__(self.container, self.key, value)

    def is_fixed(self):
        """Whether nothing else can be put into it."""
        return self.kind == "item" and isinstance(self.container, (tuple, types.MappingProxyType))

    def holds(self, value, how):
        try:
            now = self.get()
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            return how == "missing"
        return same(now, value) if how == "equal" else how == "is" and now is value

    def __str__(self):
        if self.kind == "item":
            return f"{self.key!r} of a {type(self.container).__name__}"
        if self.kind == "cell":
            return "a variable of the enclosing function"
        if self.kind == "class":
            return f"{self.container.__name__}.{self.key}"
        return f"{type(self.container).__name__}.{self.key}"


def same(x, y):
    """Whether two simple values are equal and of one type; nan equals itself, and 0 not -0."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return x.hex() == y.hex()
    if isinstance(x, complex):
        return same(x.real, y.real) and same(x.imag, y.imag)
    if isinstance(x, (range, slice)):  # ranges of the same numbers may have other ends
        parts = ("start", "stop", "step")
        return all(same(getattr(x, name), getattr(y, name)) for name in parts)
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, (set, frozenset)):
        return len(x) == len(y) and content_of["set"](x) == content_of["set"](y)
    if isinstance(x, dict):
        return keys_of(x) == keys_of(y) and all(map(same, x.values(), y.values()))
    try:
        if getattr(x, "shape", None) == ():  # a scalar of NumPy
            return x.dtype == y.dtype and x.tobytes() == y.tobytes()
        return bool(x == y)
    except Exception:  # noqa: BLE001  arrays and the like
        return False


class _Exactly:
    """A simple value that equals those of its type alone, such as a key of a dict."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return same(self.value, other.value)


def _exact(x):
    if isinstance(x, Tensor):
        return id(x)
    return x if type(x) is str else _Exactly(x)


def keys_of(x):
    """The keys of a dict in their order, each with its type: ``1.0`` is not ``1``."""
    return [*map(_exact, x)]


def _items_of(x):
    """The items of a set in their order, in which the function may go through them."""
    return [*map(_exact, x)]


def _values_of(x):
    return [*x.values()]


def _bytes_of(x):
    return backend_of[type(x)].to_numpy(x).tobytes()


content_of = {
    "bytes": _bytes_of, "keys": keys_of, "len": len, "type": type, "set": _items_of, "values": _values_of,
}  # fmt: skip
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")


def rows_of(guards):
    """The guards of a `Reach` as the lists of rows that `all_hold` takes."""
    in_dicts, elsewhere, equal, cells, attributes = [], [], [], [], []
    functions, lengths, others, rest = {}, [], [], []
    for place, value, how in guards:
        if how == "len":
            lengths.append((place, value))
        elif how == "lacks":
            others.append((value.isdisjoint, place, True))
        elif how == "missing":
            rest.append((place, value, how))
        elif how in content_of:
            others.append((content_of[how], place, value))
        elif how == "equal" and not (value is None or value is True or value is False):
            equal.append((place.get, value))
        elif place.kind == "item" and type(place.container) is dict:
            in_dicts.append((place.container, place.key, value))
        elif place.kind == "item":
            elsewhere.append((place.container, place.key, value))
        elif place.kind == "class":
            elsewhere.append((vars(place.container), place.key, value))
        elif place.kind == "cell":
            cells.append((place.container, value))
        elif type(place.container) is types.FunctionType and place.key in _OF_FUNCTIONS:
            functions.setdefault(id(place.container), (place.container, {}))[1][place.key] = value
        else:
            attributes.append((place.container, place.key, value))
    whole = []
    for function, values in functions.values():
        if len(values) == len(_OF_FUNCTIONS):
            whole.append((function, *[values[name] for name in _OF_FUNCTIONS]))
        else:
            attributes += [(function, name, value) for name, value in values.items()]
    return in_dicts, elsewhere, equal, cells, whole, attributes, lengths, others, rest


def all_hold(rows):
    """Whether all these guards hold; places that are gone raise errors."""
    in_dicts, elsewhere, equal, cells, functions, attributes, lengths, others, rest = rows
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
    for content, x, value in others:
        if content(x) != value:
            return False
    return not rest or all(place.holds(value, how) for place, value, how in rest)


def leaves_hold(leaves, tensors, statics, apart):
    """Whether the leaves of the arguments are what a program is for.

    tensors: tuples of the position of a Tensor, its type, the type of its node, and whether it has
        a gradient if that is a leaf.
    statics: triples of a position, the value of what is no array, and whether it must be that
        object rather than an equal one.
    apart: the ids of tensors of the state that the program changes, which these Tensors are not.
    """
    for i, kind, node_kind, has_grad in tensors:
        x = leaves[i]
        if type(x) is not kind or type(x.node) is not node_kind or (apart and id(x) in apart):
            return False
        if node_kind is Leaf and (x.node.watch is not None or (x.grad is not None) is not has_grad):
            return False
    for i, value, is_identical in statics:
        x = leaves[i]
        if x is not value and (is_identical or not same(x, value)):
            return False
    return True


def are_no_gradients(leaves, tensors, holders):
    """Whether none of the tensors, given as for `leaves_hold`, is a gradient of the holders."""
    gradients = {id(x.grad) for x in holders}
    return not any(id(leaves[i]) in gradients for i, *_ in tensors)


def layouts_hold(regs, kind, rows):
    """Whether arrays are of this type, with shapes, dtypes and strides that the rows give.

    rows: tuples of an array's position in ``regs``, its shape, dtype, and strides, which may be
        None.
    """
    for at, shape, dtype, strides in rows:
        x = regs[at]
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
