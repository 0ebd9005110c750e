"""The recorded graph: a `Node` for each op call, a `Leaf` for each tensor that wants a gradient.

Nodes refer only to the nodes of their inputs, never to tensors or to their consumers. So no cycle
exists, and reference counting alone frees a graph.
"""

import math
import threading
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, count
from typing import Any, NamedTuple
from weakref import ref

from .._thread_state import make_lock, thread
from ..backends import backend_of

# Orders fall: the newest node has the smallest, so that a min-heap yields nodes newest first. A
# node is newer than its inputs, so creation order is a topological order.
_orders = count(-1, -1)
next_order = _orders.__next__


class Node:
    """One recorded op call.

    order: the position in creation order (newer is smaller), taken before the call read its inputs.
    plan: the op's rules for the inputs that want a cotangent.
    parents: those inputs' nodes or leaves, in the plan's order.
    saved: what the rules need, in the plan's order; None once freed.
    shape, dtype: the output's; tuples of them if there are several outputs.
    watch: a `Watch`, or None if nobody asked for one.
    """

    __slots__ = ("order", "plan", "parents", "saved", "shape", "dtype", "watch")

    @property
    def name(self):
        return self.plan.op.name

    @property
    def next_functions(self):
        return self.parents

    def __repr__(self):
        return f"<{self.name} node, shape {self.shape}>"


def make_node(plan, parents, saved, out, order=None):
    """A new `Node` for the raw result ``out``, an array or a tuple of arrays.

    order: taken before the inputs were read; by default the newest.
    """
    node = Node()
    node.order = next_order() if order is None else order
    node.plan = plan
    node.parents = parents
    node.saved = saved
    node.watch = None
    if type(out) is tuple:
        plan.mark_special()
        node.shape = tuple([array.shape for array in out])
        node.dtype = tuple([array.dtype for array in out])
    else:
        node.shape = out.shape
        node.dtype = out.dtype
    return node


class Leaf:
    """Represents, in the graph, a tensor that keeps its gradient.

    owner: a weak reference to that tensor, which holds the gradient. A gradient that was
        recorded under create_graph leads back to this leaf, and a strong reference would
        close a cycle.
    watch: a `Watch`, or None if nobody asked for one.
    """

    __slots__ = ("order", "shape", "dtype", "owner", "watch", "__weakref__")
    name = "leaf"
    next_functions = parents = ()

    def __init__(self, tensor):
        self.order = next_order()
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.owner = ref(tensor)
        self.watch = None

    def __repr__(self):
        return f"<leaf, shape {self.shape}>"


class Watch:
    """What programs have asked to be told of a node.

    leaf: the `Leaf` that collects the gradient of a result whose `retain_grad` was called, or None.
    hooks: from numbers to the functions to call with the gradient.
    accumulated: from numbers to the functions to call with a leaf's tensor once ``.grad`` is set.
    listener: the `Listener` that a backward pass tells of a leaf's gradient, or None.
    label: a name for people to read, or None.
    """

    __slots__ = ("leaf", "hooks", "accumulated", "listener", "label")

    def __init__(self):
        self.leaf = self.listener = self.label = None
        self.hooks, self.accumulated = {}, {}


def watched(node):
    """The node's `Watch`; makes one if there is none."""
    if node.watch is None:
        node.watch = Watch()
    return node.watch


class Listener:
    """Base class of objects that a backward pass tells of each gradient that is complete.

    A pass tells a listener of a leaf's gradient as soon as that cannot change any more, and then
    goes on. Under ``create_graph`` it calls `started` at its beginning, but `arrived` of all leaves
    only at its end. It calls the hooks of `Watch.accumulated` only when all gradients are set.
    """

    count = 0  # how many leaves have had a listener; if none, passes do not look for listeners
    # `compile` looks at these: an object whose attributes decide what the listener does, and the
    # tensors whose gradients the listener reads or sets.
    mode: Any = None
    tensors: Sequence[Any] = ()

    def listen(self, leaf: Leaf) -> None:
        """Follow this leaf, in place of the listener that it had before."""
        watched(leaf).listener = self
        Listener.count += 1

    def started(self, leaves: list[Leaf], create_graph: bool) -> None:
        """A backward pass begins through a graph that contains these of its leaves."""

    def arrived(self, leaf: Leaf) -> None:
        """The ``.grad`` of the leaf's tensor is complete."""

    def ended(self) -> None:
        """All gradients of the pass are set."""

    def failed(self) -> None:
        """The pass has raised an error."""


class Range(NamedTuple):
    """A range of addresses, ``place``, or None if the library hides it.

    last_write: a list with the order number of the last write to it, at first None.
    is_traced: whether `_Writes.place` has made it for a traced array.
    """

    place: tuple[int, int] | None
    last_write: list[Any]
    is_traced: bool


class _Writes:
    """Which memory was overwritten in place, and when.

    A sweep compares each node's order with `last`, which is one integer comparison, and checks the
    saved values only of nodes that are older than the last write.

    last: the order number of the last write.
    lock: what a thread holds while it sets that.
    """

    __slots__ = ("last", "lock", "_last_writes", "_index", "_owners")

    def __init__(self):
        self.last = 0
        self.lock = make_lock(threading.Lock)
        self._last_writes = {}  # by range of addresses, see `Range`
        self._index = None, [], [], []  # see `_sorted`
        self._owners = {}  # weak references to the arrays whose memory these ranges are

    def place(self, array):
        """The `Range` of an array, for `note`.

        If the library has an object that is freed with the memory, this also frees the range.
        """
        backend = backend_of[type(array)]
        if (place := backend.address_range(array)) is None:
            return Range(None, [None], backend.is_recorder)
        last_write = self._last_writes.setdefault(place, [None])
        if (owner := backend.memory_owner(array)) is not None:
            self._owners[place] = ref(owner, partial(self._forget, place))
        return Range(place, last_write, backend.is_recorder)

    def _forget(self, place, owner):
        if self._owners.get(place) is owner:
            del self._owners[place]
            self._last_writes.pop(place, None)
            self._index = None, [], [], []

    def note(self, ranges):
        """Record a write to these ranges.

        The writer calls this before the write, so that no interrupt can come between the two, and
        once more after it, because another thread may have read the memory meanwhile.
        """
        if thread.recorder is not None:
            thread.recorder.check_ranges(ranges)
        self.stamp([x.last_write for x in ranges])

    def stamp(self, last_writes):
        """`note`, for the ranges that have these lists."""
        with self.lock:
            order = next_order()
            for last_write in last_writes:
                last_write[0] = order
            self.last = order

    def overwritten(self, array, since, until=-math.inf):
        """Whether the last write to memory of ``array`` lies between two order numbers."""
        from bisect import bisect_left  # here, since few programs look for writes

        backend = backend_of.get(type(array))
        place = None if backend is None else backend.address_range(array)
        if place is None or place[0] == place[1]:
            return False
        start, stop = place
        lows, highest, ranges = self._sorted()
        for i in range(bisect_left(lows, stop) - 1, -1, -1):
            if highest[i] <= start:
                return False
            (_, high), order = ranges[i]
            if start < high and until < order < since:
                return True
        return False

    def _sorted(self):
        """The written ranges, sorted by their lowest addresses.

        Returns these lowest addresses; for each range, the highest address of it and of all before
        it; and pairs of a range and the order number of its last write.
        """
        last, *found = self._index
        if last != self.last:
            last = self.last
            writes = self._last_writes.copy().items()
            ranges = sorted([(place, order) for place, (order,) in writes if order is not None])
            lows = [low for (low, _), _ in ranges]
            highest = list(accumulate([high for (_, high), _ in ranges], max))
            self._index = last, *found = last, lows, highest, ranges
        return found


writes = _Writes()
