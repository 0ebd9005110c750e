"""The recorded graph: a `Node` for each op call, a `Leaf` for each tensor that wants a gradient.

Nodes point to their inputs' nodes only, never to tensors or to their
consumers, so that no cycle exists and reference counting alone frees a graph.
"""

import threading
from itertools import count
from weakref import WeakSet, ref

# Orders fall: the newest node has the smallest, so that a min-heap yields
# nodes newest first, and creation order is a topological order.
_orders = count(-1, -1)
next_order = _orders.__next__


class Node:
    """One recorded op call.

    order: position in creation order (newer is smaller).
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


def make_node(plan, parents, saved, out):
    """A new `Node` for the raw result ``out``, an array or a tuple of arrays."""
    node = Node()
    node.order = next_order()
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
    """Represents, in the graph, a tensor whose gradient is to be kept.

    owner: a weak reference to that tensor, which holds the gradient. A gradient that was
        recorded under create_graph leads back to this leaf, and a strong reference would
        close a cycle.
    watch: a `Watch`, or None if nobody asked for one.
    written: for each buffer of the tensor that was overwritten in place, by the buffer's
        identity, the order of the last time. An older node may have saved a buffer that the
        tensor no longer has.
    """

    __slots__ = ("order", "shape", "dtype", "owner", "written", "watch", "__weakref__")
    name = "leaf"
    next_functions = parents = ()

    def __init__(self, tensor):
        self.order = next_order()
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.owner = ref(tensor)
        self.written = {}
        self.watch = None

    def __repr__(self):
        return f"<leaf, shape {self.shape}>"


class Watch:
    """What a user asked to see of a node, besides the gradient of a leaf.

    leaf: the `Leaf` that collects a result's gradient if `retain_grad` was called, or None.
    hooks: the functions to call with the gradient, by their numbers.
    accumulated: the functions to call with a leaf's tensor once its ``.grad`` is set, by their
        numbers.
    label: a name for people to read, or None.
    """

    __slots__ = ("leaf", "hooks", "accumulated", "label")

    def __init__(self):
        self.leaf = None
        self.hooks = {}
        self.accumulated = {}
        self.label = None


def watched(node):
    """The node's `Watch`, which is made if there is none yet."""
    if node.watch is None:
        node.watch = Watch()
    return node.watch


class _Writes:
    """The leaves whose buffers were overwritten in place, and when that last happened.

    A sweep compares each node's order with `last` (one integer comparison), and checks the
    saved values only of nodes that are older than the last write.
    """

    def __init__(self):
        self.last = 0
        self.lock = threading.Lock()
        self.leaves = WeakSet()

    def note(self, leaves_and_buffers):
        """Record that these buffers, each in a pair with its leaf, are overwritten now."""
        with self.lock:
            self.last = order = next_order()
            for leaf, buffer in leaves_and_buffers:
                if not leaf.written:
                    self.leaves.add(leaf)
                leaf.written[buffer] = order

    def after(self, order):
        """Identities of the buffers overwritten since ``order``, of those that have one."""
        with self.lock:
            return {
                buffer
                for leaf in self.leaves
                for buffer, last in leaf.written.items()
                if last < order and buffer is not None
            }


writes = _Writes()
