"""Cells, the places where a function finds its state, and guards, which compare their contents.

A guard is a triple ``(place, value, how)``. It holds as long as the place has the value that it had
when the function was recorded. If ``how`` is "same", the place is a `Cell` and the value what it
contains. Otherwise the place is an object, and ``how`` says which property of it is compared: which
keys a dict "lacks", or one of the properties in `content_of`. A program sorts its guards by kind
into rows (`rows_of`), so that a short loop checks all guards of one kind.
"""

import abc
import decimal
import fractions
import operator
import struct
import types
import uuid
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import NoneType
from typing import Any

from .._tensor import Tensor
from ..autograd.graph import Leaf
from ..backends import backend_of, namespace_of
from ..nn.module import Module, Parameter
from .libraries import is_own, module_of

# `same` compares values of these types, but not of subclasses, which may have attributes.
SIMPLE = (bool, int, float, complex, str, bytes, type(None), range, slice, types.EllipsisType)
# What reading a place raises if the place no longer exists.
ABSENT = (AttributeError, KeyError, IndexError, TypeError, ValueError)
READ_ONLY = types.MappingProxyType, partial  # containers whose places cannot be set
_BY_TEXT = frozenset({decimal.Decimal, fractions.Fraction, uuid.UUID})
_EQUAL = frozenset({*SIMPLE, *_BY_TEXT})
array_of = operator.attrgetter("array")


@dataclass(slots=True, eq=False)
class Cell:
    """A place that holds a value.

    kind: "item" of a container, "attr" of an object, or "class" for an attribute in the
        ``__dict__`` of a class.
    """

    kind: str
    container: Any
    key: Any

    @property
    def id(self):
        return self.kind, id(self.container), self.key

    def get(self):
        return self.getter()()

    def getter(self):
        return partial(_ACCESS[self.kind][0], self.container, self.key)

    def set(self, value):
        self.setter()(value)

    def setter(self):
        """A function that sets the value without the program's methods; these change more cells."""
        kind, put = type(self.container), _ACCESS[self.kind][1]
        if issubclass(kind, type):
            put = type.__setattr__
        elif put is object.__setattr__ is kind.__setattr__:
            put = setattr  # in half the time
        elif self.kind == "item" and is_own(module_of(kind)):
            put = next((x.__setitem__ for x in (dict, list, deque) if issubclass(kind, x)), put)
        return partial(put, self.container, self.key)

    def is_slot(self):
        """Whether setting the value does no more than put it into a slot of the object."""
        kind = type(self.container)
        is_plain = self.kind == "attr" and kind.__setattr__ is object.__setattr__
        return is_plain and type(getattr(kind, self.key, None)) is types.MemberDescriptorType

    def add(self, number):
        """Add to a number as ``+=`` does: no thread and no signal handler comes in between."""
        if self.kind == "item":
            self.container[self.key] += number
        else:  # all of it in one instruction of Python's
            place = (self.container,), (self.key,)
            [*map(setattr, *place, map(operator.add, map(getattr, *place), (number,)))]

    def __str__(self):
        if type(self.container) is types.CellType:
            return "a variable of the enclosing function"
        return f"{self.key!r} of a {type(self.container).__name__}"


def _item(container, key):
    """An item, or KeyError, without the `__missing__` of a dict."""
    if type(container) is not dict and _may_insert(container) and key not in container:
        raise KeyError(key)
    return container[key]


def _exact_item(place):
    return Exactly(_item(*place))


def _may_insert(container):
    """Whether to look up an item that is not there may insert it, as a defaultdict does."""
    kind = type(container)
    return kind is types.MappingProxyType or hasattr(kind, "__missing__")


_ACCESS = {
    "item": (_item, operator.setitem),
    "attr": (getattr, object.__setattr__),
    "class": (lambda kind, name: vars(kind)[name], type.__setattr__),
}


def same(x, y):
    """Whether a program cannot tell two values apart.

    Numbers are compared by type and bits: nan is the same as nan, but 0.0 is neither the same as
    -0.0 nor as 0. An object that may change or have attributes is only the same as itself.
    """
    if x is y:
        return True
    kind = type(x)
    if kind is not type(y):
        return False
    if kind is float or kind is complex:
        return struct.pack("dd", x.real, x.imag) == struct.pack("dd", y.real, y.imag)
    if kind is range or kind is slice:  # ranges of the same numbers may have other ends
        return same((x.start, x.stop, x.step), (y.start, y.stop, y.step))
    if kind is tuple or kind is frozenset:
        return keys_of(x) == keys_of(y)
    if kind in _BY_TEXT:
        return repr(x) == repr(y)
    if kind in _EQUAL:
        return x == y
    return is_compared(kind) and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def is_compared(kind):
    """Whether `same` compares the values of this type rather than their identity."""
    return kind in _EQUAL or (kind in backend_of and kind not in namespace_of)


def can_vary(value):
    """Whether a hyper-parameter is a number or a tuple of numbers, which a program reads anew."""
    if isinstance(value, tuple):
        return all(map(can_vary, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Exactly:
    """Wraps a value, so that ``==`` compares it by `same`."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Exactly and same(self.value, other.value)


def keys_of(x):
    """The keys of a dict, or the items of a tuple or a set, in order, to be compared exactly."""
    keys = [*x]  # copied in one step, since another thread may add keys meanwhile
    return keys if {str}.issuperset(map(type, keys)) else [*map(Exactly, keys)]


def _content_of(x):
    """Everything that a function may see of a raw array."""
    layout = x.shape, x.dtype, getattr(x, "strides", None)
    is_writable = getattr(getattr(x, "flags", None), "writeable", None)
    return *layout, is_writable, backend_of[type(x)].to_numpy(x).tobytes()


def _is_missing(cell):
    try:
        cell.get()
    except ABSENT:
        return True
    return False


def _members(module):
    """The attributes of a module that are modules or parameters, or lists or dicts of such."""
    found = []
    for name, x in vars(module).items():
        items = x.values() if type(x) is dict else x if type(x) is list else ()
        if isinstance(next(iter(items), x), (Module, Parameter)):
            found.append((name, id(x)))
    return found


def _is_int(cell):
    return type(cell.get()) is int


content_of = {
    "array": _content_of,
    "keys": keys_of,
    "len": len,
    "members": _members,
    "names": list,  # of attributes, in their order
    "missing": _is_missing,
    "int": _is_int,
    # The number of calls of `register` of any abstract class, on which `isinstance` depends.
    "registrations": lambda _: abc.get_cache_token(),
}


def rows_of(guards):
    """The guards, sorted into the lists that `all_hold` takes."""
    contents, items, attributes = [], [], []
    for place, value, how in guards:
        if how == "lacks":
            contents.append((place.keys().isdisjoint, value, True))
        elif how != "same":
            contents.append((content_of[how], place, value))
        elif place.kind == "attr":
            attributes.append((place.container, place.key, value))
        else:
            x = vars(place.container) if place.kind == "class" else place.container
            if place.kind == "item" and _may_insert(x):
                contents.append((_exact_item, (x, place.key), Exactly(value)))
            else:
                items.append((x, place.key, value))
    return contents, items, attributes


def all_hold(rows):
    """Whether all guards in these rows hold; raises one of `ABSENT` if a place no longer exists."""
    contents, items, attributes = rows
    for content, x, value in contents:
        if content(x) != value:
            return False
    for x, key, value in items:
        if x[key] is not value and not same(x[key], value):
            return False
    for x, name, value in attributes:
        now = getattr(x, name)
        if now is not value and not same(now, value):
            return False
    return True


def hold(guards):
    """Whether all of these guards hold."""
    try:
        return all_hold(rows_of(guards))
    except ABSENT:
        return False


def leaf_rows(leaves):
    """What `leaves_hold` compares for leaves with these rows; see `signature_of`."""
    alone = [i for i, (kind, _) in enumerate(leaves) if kind in ("tensor", "container")]
    tensors = [(i, *value) for i, (kind, value) in enumerate(leaves) if kind == "tensor"]
    others = [(i, *row) for i, row in enumerate(leaves) if row[0] in ("static", "same")]
    return alone, tensors, others


def leaves_hold(leaves, rows, apart, holders):
    """Whether a program that was recorded for the leaves with these rows can take these ones.

    rows: see `leaf_rows`.
    apart: the ids of the tensors of the state, and of its containers. No argument may be one of
        them, nor the gradient of one of the ``holders``, nor may a Tensor or a container be passed
        twice where the recording had two.
    """
    alone, tensors, others = rows
    ids = {id(leaves[i]) for i in alone}
    if len(ids) < len(alone) or not ids.isdisjoint(apart):
        return False
    if holders and not ids.isdisjoint([id(x.grad) for x in holders]):
        return False
    for i, cls, node_kind, has_grad in tensors:
        x = leaves[i]
        if type(x) is not cls or type(x.node) is not node_kind:
            return False
        if node_kind is Leaf and (x.node.watch is not None or (x.grad is not None) is not has_grad):
            return False
    for i, kind, value in others:
        if not same(leaves[i], value.value) if kind == "static" else leaves[i] is not leaves[value]:
            return False
    return True


def itself(x):
    return x


def inputs_hold(regs, rows, kind, device_of):
    """Put the input arrays into their registers; returns whether they have the expected layouts.

    rows: tuples ``(get, holder, at, shape, dtype, strides, device)``. ``get(regs[holder])`` returns
        the array, and ``regs[at]`` is its register. Strides and device are not compared if None.
    kind: the type that all arrays must have.
    """
    for get, holder, at, shape, dtype, strides, device in rows:
        regs[at] = x = get(regs[holder])
        if type(x) is not kind or x.shape != shape or (x.dtype is not dtype and x.dtype != dtype):
            return False
        if strides is not None and x.strides != strides:
            return False
        if device is not None and device_of(x) != device:
            return False
    return True


def tensors_hold(tensors, states):
    """Whether tensors and the state of optimizers still have the arrays that a program is bound to.

    tensors: tuples ``(tensor, node, leaf, watch, has_grad, array)``. ``leaf`` is the node again if
        its ``watch`` is to be compared; ``array`` is None if the program itself replaces it.
    states: tuples of a `ParameterState`, its arrays, and a state that must have the same counts.
    """
    for x, node, leaf, watch, has_grad, array in tensors:
        if (
            x.node is not node
            or (leaf is not None and leaf.watch is not watch)
            or (x._grad is not None) is not has_grad
            or (array is not None and x.array is not array)
        ):
            return False
    for state, values, first in states:
        if state.values is not values:
            return False
        # Usually they are one object, since a program gives one tuple to all of these states.
        if state.counts is not first.counts and state.counts != first.counts:
            return False
    return True


def argument_places(rows, apart, holders, inputs, outside, addresses, registers):
    """What `leaves_hold` and `inputs_hold` do, as rows of `visiting` in C; None if it cannot.

    outside, addresses: the registers of arrays that must not lie in those at these addresses.
    """
    alone, tensors, others = rows
    kinds = {i: cls for i, cls, _, _ in tensors}
    has_node = any(kind is not NoneType for _, _, kind, _ in tensors)
    if has_node or holders or len(alone) > 16:
        return None
    found = [("type", i, None, cls) for i, cls in kinds.items()]
    found += [("field", i, Tensor.node, None) for i in kinds]
    found += [("apart", i, None, apart) for i in alone]
    found += [("differs", i, None, j) for i, j in combinations(alone, 2)]
    found += [("is", i, None, value.value) for i, kind, value in others if kind == "static"]
    found += [("equals", i, None, first) for i, kind, first in others if kind == "same"]
    for get, holder, at, *layout, device in inputs:
        cls = kinds.get(holder) or type(registers[holder])
        is_known = get is itself or (get is array_of and getattr(cls, "array", 0) is Tensor.array)
        if not is_known or device is not None or layout[-1] is None:
            return None
        if get is array_of and holder not in kinds:
            found.append(("type", holder, None, cls))
        found.append(("load", holder, Tensor.array if get is array_of else None, at))
        found.append(("layout", at, None, layout))
    return [*found, *[("outside", at, None, addresses) for at in outside]]


def places_of(rows, tensors, states):
    """What `all_hold` and `tensors_hold` compare, as rows of `visiting` in C, and the rest.

    The rest are rows for `all_hold`, or None if there are none.
    """
    contents, items, attributes = rows
    found, rest = [("item", *row) for row in items], []
    found += [("attribute", *row) for row in attributes]
    for content, x, value in contents:
        if content is len:
            found.append(("length", x, None, value))
        elif type(x) is dict and content in (list, keys_of) and Exactly not in map(type, value):
            found.append(("names", x, None, value))
        else:
            rest.append((content, x, value))
    for x, node, leaf, watch, has_grad, array in tensors:
        found += ("slot", x, "node", node), ("other" if has_grad else "slot", x, "_grad", None)
        if leaf is not None:
            found.append(("slot", leaf, "watch", watch))
        if array is not None:
            found.append(("slot", x, "array", array))
    for state, values, first in states:
        found += ("slot", state, "values", values), ("same", state, "counts", first)
    return found, (rest, [], []) if rest else None
