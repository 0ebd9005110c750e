"""The forward sweep: tangents carried from inputs to outputs, oldest node first.

It goes through the same graph as the backward sweep and uses the values that the graph keeps for
that one. The VJP of an elementwise op also gives the tangent of the result, since its Jacobian is
diagonal. The VJP of any other op maps a cotangent ``g`` linearly to a cotangent of an input. To
transpose it, the sweep records the rule at ``g`` = 0 and sweeps backward through that recording.
"""

import math
from collections import Counter
from contextlib import nullcontext

from ..backends import add_note
from ..backends.registry import sweep_context
from . import call, implementation
from .graph import writes
from .mode import enable_grad, rules_on_tensors
from .sweep import check_unchanged, fit, leading_to, sweep, zeros
from .variables import variable


def forward_sweep(
    tangents, outputs, retain_graph, create_graph, tensors=False, connected=True, needed=None
):
    """Tangents of the output nodes, as a dict; outputs whose tangent is 0 are left out.

    tangents: for each starting node a tangent with the node's shape and dtype: raw arrays, or
        Tensors under ``create_graph`` or if ``tensors``.
    connected, needed: as for `sweep`.
    """
    tensors = tensors or create_graph
    connected = connected and create_graph
    tangents = dict(tangents)
    if needed is None:
        needed, _ = leading_to(outputs, tangents)
    uses = Counter([*outputs, *(p for x in needed if x not in tangents for p in x.parents)])
    with sweep_context(), rules_on_tensors(create_graph) if tensors else nullcontext():
        for node in needed:
            if node in tangents:
                continue
            if node.saved and node.order > writes.last:
                check_unchanged(node, "forward mode")
            given = []
            for parent in node.parents:
                given.append(tangents.get(parent))
                uses[parent] = left = uses[parent] - 1
                if not left:
                    tangents.pop(parent, None)
            try:
                t = _pushed(node, given, create_graph, tensors, connected)
            except Exception as error:
                add_note(error, f"in forward mode through {node.plan.op.name}")
                raise
            if not retain_graph:
                node.saved = node.saved and None
            if t is not None:
                tangents[node] = t
            given = t = None
    return {node: tangents[node] for node in outputs if node in tangents}


def _pushed(node, given, create_graph, tensors, connected):
    """The tangent of a node's result, or None for 0; a list if there are several outputs."""
    plan = node.plan
    if implementation.instruments:
        plan = implementation.current(plan)
    if plan.output is not None:
        return given[0][plan.output] if given[0] is not None else None
    if all(t is None for t in given):
        return None
    if (saved := node.saved) is None:
        raise RuntimeError(f"the graph has freed the values that it kept for {plan.op.name}")
    if tensors:
        plan = plan.on_tensors
    xp = call.namespace if tensors else plan.xp
    if isinstance(node.dtype, tuple):
        return _transposed(node, given, create_graph, tensors, connected)
    values = call.rewrap(node, saved, connected) if tensors and saved else saved
    if plan.gathered is not None:
        given = [t if t is None else _spread(xp, t, t.shape, node.dtype) for t in given]
        ts = [given[plan.position[i]] if want else None for i, want in enumerate(plan.wanted)]
        return _spread(xp, plan.gathered(xp, ts, values), node.shape, node.dtype, last=True)
    total = None
    for i, (rule, t) in enumerate(zip(plan.tangents, given, strict=True)):
        if rule is None or t is None:
            continue
        given[i] = None
        t = _spread(xp, t, node.shape if plan.op.elementwise else t.shape, node.dtype)
        t = rule(xp, t, values)
        t = _spread(xp, t, node.shape, node.dtype, last=True)
        total = t if total is None else total + t
    if any(t is not None for t in given):
        t = _transposed(node, given, create_graph, tensors, connected)
        total = t if total is None else total + t
    return total


def _spread(xp, t, shape, dtype, last=False):
    """``t`` in this shape and dtype; complex numbers become real only if ``last``."""
    if t.dtype != dtype:
        loses = xp.isdtype(t.dtype, "complex floating") and xp.isdtype(dtype, "real floating")
        if loses and last:
            t = xp.real(t)
        if last or not loses:
            t = xp.astype(t, dtype)
    if t.shape == shape:
        return t
    same = math.prod(t.shape) == math.prod(shape)
    return xp.reshape(t, shape) if same else xp.broadcast_to(t, shape)


def _transposed(node, given, create_graph, tensors, connected):
    """The result's tangent for the inputs' tangents ``given`` (None for 0), by transposing."""
    plan = node.plan.on_tensors
    like = next(t for t in given if t is not None)
    is_tuple = isinstance(node.dtype, tuple)
    shapes, dtypes = (node.shape, node.dtype) if is_tuple else ([node.shape], [node.dtype])
    with enable_grad():
        saved = node.saved and call.rewrap(node, node.saved, connected)
        zero = [zeros(*of, like) for of in zip(shapes, dtypes, strict=True)]
        cotangents = [variable(x if tensors else call.wrap(x, None)) for x in zero]
        g = tuple(cotangents) if is_tuple else cotangents[0]
        xp = call.namespace
        if plan.joint is not None:
            g = plan.joint(xp, g, saved)
        roots = []
        for rule, parent, t in zip(plan.rules, node.parents, given, strict=True):
            if t is None:
                continue
            c = rule(xp, g, saved)
            if c is not None and c.node is not None:
                c = fit(xp, c, parent.shape, parent.dtype, plan.op)
                roots.append((c.node, t))
    targets = [x.node for x in cotangents]
    arrived = sweep(roots, set(targets), create_graph, create_graph, guard=True, tensors=tensors)
    results = [arrived.get(target) for target in targets]
    return results if is_tuple else results[0]
