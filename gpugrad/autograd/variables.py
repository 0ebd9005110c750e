"""Variables: tensors to differentiate by, each with a node of its own.

Derivatives are asked for by node. One that no other call has seen cannot be taken for
another's, however functions that differentiate are nested.
"""

from ..backends import namespace_of
from . import call
from .graph import Leaf, Node, next_order
from .operation import elementwise


@elementwise
def _variable(xp, x):
    return x


_variable.vjp(x=lambda xp, g: g)


def variable(x):
    """A tensor of the array of ``x`` whose node leads to that of ``x``, if there is one."""
    if type(x) is call.BatchedTensor:
        return x.of(variable(x.payload))
    node = Node()
    node.order = next_order()
    joined = x.node is not None
    node.plan = _variable.op.hot_plans[joined] or _variable.op.hot_plan(joined)
    node.parents = (x.node,) if joined else ()
    node.saved = ()
    node.xp = namespace_of[type(x.array)]
    node.shape = x.array.shape
    node.dtype = x.array.dtype
    node.watch = None
    return call.wrap(x.array, node)


def is_variable(x):
    """Whether ``x`` is a variable that leads nowhere."""
    node = getattr(x, "node", None)
    return type(node) is Node and node.plan.op is _variable.op and not node.parents


def is_open(node):
    """Whether derivatives may be asked for by ``node``: a leaf, or a variable not closed."""
    return not node.parents and (type(node) is Leaf or node.xp is not None)


def close(x):
    """Say that nobody will ask for derivatives by the variable ``x`` any more."""
    node = x.node
    if not node.parents:
        node.xp = None
