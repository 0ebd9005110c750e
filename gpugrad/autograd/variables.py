"""Variables: tensors to differentiate by, each with a node of its own.

Derivatives are asked for by node. One that no other call has seen cannot be taken for
another's, however functions that differentiate are nested.
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
    """A tensor of the array of ``x`` whose node leads to that of ``x``, if there is one."""
    if type(x) in call.overriding:
        return x.of(variable(x.payload))
    parents = () if x.node is None else (x.node,)
    plan = implementation_of(_variable.op, type(x.array)).plan(len(parents))
    return call.wrap(x.array, make_node(plan, parents, (), x.array))


def is_variable(x):
    """Whether ``x`` is a variable that leads nowhere."""
    node = getattr(x, "node", None)
    return type(node) is Node and node.plan.op is _variable.op and not node.parents


def is_open(node):
    """Whether derivatives may be asked for by ``node``: a leaf, or a variable not closed."""
    return not node.parents and (type(node) is Leaf or node.plan.op is _variable.op)


def close(x):
    """Say that nobody will ask for derivatives by the variable ``x`` any more."""
    node = x.node
    if not node.parents:
        node.plan = implementation_of(_closed.op, node.plan.implementation.kind).plan(0)
