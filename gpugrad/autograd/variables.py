"""Variables: tensors to differentiate with respect to, each with a node of its own.

A derivative is requested by node. Since every call makes new nodes, nested functions that
differentiate cannot confuse their variables.
"""

from . import call
from .graph import Leaf, Node, make_node
from .implementation import implementation_of
from .operation import elementwise


@elementwise
def _variable(xp, x):
    return x


@elementwise
def _closed(xp, x):
    return x


_variable.vjp(x=lambda xp, g: g)


def variable(x):
    """A tensor with the array of ``x`` and a new node, which leads to the node of ``x`` if any."""
    if type(x) in call.overriding:
        return x.of(variable(x.payload))
    parents = () if x.node is None else (x.node,)
    plan = implementation_of(_variable.op, type(x.array)).plan(len(parents))
    return call.wrap(x.array, make_node(plan, parents, (), x.array))


def is_variable(x):
    """Whether ``x`` is a variable whose node has no inputs."""
    node = getattr(x, "node", None)
    return type(node) is Node and node.plan.op is _variable.op and not node.parents


def is_open(node):
    """Whether a derivative by ``node`` may still be requested: a leaf, or a variable not closed."""
    return not node.parents and (type(node) is Leaf or node.plan.op is _variable.op)


def close(x):
    """Declare that no further derivative by the variable ``x`` will be requested."""
    node = x.node
    if not node.parents:
        node.plan = implementation_of(_closed.op, node.plan.implementation.kind).plan(0)
