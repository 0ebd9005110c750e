"""The backward sweep: cotangents carried from outputs to leaves, newest node first.

A complex gradient is PyTorch's, dL/dx + i dL/dy for z = x + iy: the steepest ascent of a real L.
The sweep carries its conjugate, which is JAX's gradient. So the chain rule and every VJP are those
for real numbers. The sweep conjugates at both ends.
"""

import math
import sys
import threading
from contextlib import nullcontext
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter, iadd
from typing import Any

from .._foreign_names import explains_arguments
from .._thread_state import thread
from ..backends import add_note, backend_of, describe
from ..backends.registry import sweep_context
from . import call, implementation
from .graph import Leaf, Listener, writes
from .mode import enable_grad, no_grad, rules_on_tensors
from .variables import is_open

_accumulating = threading.RLock()  # so that a signal handler may go backward too


def backward(output, gradient, retain_graph, create_graph, inputs):
    """Add the cotangents that reach leaves to their ``.grad``; see `Tensor.backward`."""
    roots = _roots("backward", [output], [gradient], create_graph)
    targets = None
    if inputs is not None:
        if not inputs:
            raise ValueError("backward: inputs is empty; leave it out to reach all leaves")
        targets = {_target("backward", x) for x in inputs}
        for x in inputs:
            if not x.is_leaf:
                raise ValueError(
                    f"backward: inputs must be leaves, but one of shape {x.shape} is the result of "
                    f"{x.grad_fn.name}; use gpugrad.autograd.grad"
                )
    retain_graph = create_graph if retain_graph is None else retain_graph
    last_uses = (Listener.count and _last_uses([node for node, _ in roots], targets)) or None
    set_gradients = _set_gradients_with_listeners if last_uses else _set_gradients
    set_gradients(roots, targets, retain_graph, create_graph, gradient is not None, last_uses)


def _set_gradients(roots, targets, retain_graph, create_graph, guard, due):
    """Sweep, and add the cotangents that arrive to the ``.grad`` of their leaves."""
    arrived = sweep(roots, targets, retain_graph, create_graph, guard=guard, due=due)
    roots.clear()
    if thread.recorder is not None:
        thread.recorder.check_leaves(arrived)
    awaited = []  # leaves with hooks; the caller calls those of leaves that have a listener
    for leaf in [*arrived]:
        _accumulate(leaf, [conjugate(arrived.pop(leaf))], create_graph)
        if (watch := leaf.watch) is not None:
            if watch.listener is not None:
                watch.listener.arrived(leaf)
            elif watch.accumulated:
                awaited.append(leaf)
    _call_accumulated(awaited, create_graph)


def _set_gradients_with_listeners(roots, targets, retain_graph, create_graph, guard, last_uses):
    """As `_set_gradients`, and tell the listeners of the leaves in ``last_uses``."""
    leaves_of, due = {}, {}
    for leaf, node in last_uses.items():
        leaves_of.setdefault(leaf.watch.listener, []).append(leaf)
        due.setdefault(node, []).append(leaf)
    try:
        for listener, leaves in leaves_of.items():
            listener.started(leaves, create_graph)
        due = None if create_graph else due
        _set_gradients(roots, targets, retain_graph, create_graph, guard, due)
        for listener in leaves_of:
            listener.ended()
        _call_accumulated([leaf for leaf in last_uses if leaf.watch.accumulated], create_graph)
    except BaseException:
        for listener in leaves_of:
            listener.failed()
        raise


def _last_uses(roots, targets):
    """For each leaf with a listener, its oldest consumer, which a sweep visits last.

    The leaf's cotangent is complete once that node has been handled.

    targets: the leaves to find; None for all.
    """
    found, stack = set(), list(roots)
    last = {node: node for node in roots if type(node) is Leaf and _has_listener(node)}
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        for parent in node.parents:
            if type(parent) is not Leaf:
                stack.append(parent)
            elif _has_listener(parent) and (parent not in last or last[parent].order < node.order):
                last[parent] = node
    return {x: node for x, node in last.items() if targets is None or x in targets}


def _has_listener(leaf):
    return leaf.watch is not None and leaf.watch.listener is not None


def _call_accumulated(leaves, create_graph):
    for leaf in leaves:
        if (tensor := leaf.owner()) is not None:
            with enable_grad() if create_graph else no_grad():
                for hook in tuple(leaf.watch.accumulated.values()):
                    hook(tensor)


@explains_arguments
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, allow_unused: bool | None = None, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of ``outputs`` with respect to ``inputs``, as a tuple; no ``.grad`` changes.

    Only the part of the graph between them is swept. ``inputs`` may be leaves or
    results; each gradient has its input's shape, dtype and device.

    outputs, inputs: a Tensor or a sequence of them.
    grad_outputs: cotangents of ``outputs``; None (for all, or for one) means 1 and needs an
        output of a single element.
    retain_graph: keep what the graph saved; by default as ``create_graph``.
    create_graph: make the gradients differentiable themselves.
    allow_unused: return None for an input that the outputs do not depend on, instead of raising.
    materialize_grads: return zeros for such an input.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads gives zeros, so leave out allow_unused=False")
    if isinstance(outputs, call.Tensor):
        outputs = [outputs]
        if grad_outputs is not None and not isinstance(grad_outputs, (list, tuple)):
            grad_outputs = [grad_outputs]
    outputs = list(outputs)
    inputs = [inputs] if isinstance(inputs, call.Tensor) else list(inputs)
    roots = _roots("grad", outputs, grad_outputs, create_graph)
    targets = [_target("grad", x) for x in inputs]
    retain_graph = create_graph if retain_graph is None else retain_graph
    arrived = sweep(roots, set(targets), retain_graph, create_graph, guard=grad_outputs is not None)
    for target in arrived:
        arrived[target] = conjugate(arrived[target])
    results = []
    for i, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        if target in arrived:
            if create_graph:
                # Two inputs may share one Tensor, and a `+=` on it would change both.
                results.append(call.wrap(arrived[target].array, arrived[target].node))
            else:
                # An input that is listed twice gets two arrays.
                last = target not in targets[i + 1 :]
                holder = [arrived.pop(target) if last else arrived[target]]
                results.append(call.wrap(own(holder), None))
        elif materialize_grads or allow_unused:
            results.append(call.namespace.zeros_like(x.detach()) if materialize_grads else None)
        else:
            raise ValueError(
                f"grad: the outputs do not depend on input {i}, of shape {x.shape}; "
                f"pass allow_unused=True to get None for it"
            )
    return tuple(results)


def _target(name, x):
    if not isinstance(x, call.Tensor) or x.node is None:
        raise ValueError(f"{name}: an input does not require grad: {describe(x)}")
    return x.node


def _roots(name, outputs, gradients, create_graph):
    """The nodes to start from with their cotangents, raw ones unless ``create_graph``."""
    gradients = [None] * len(outputs) if gradients is None else list(gradients)
    if len(gradients) != len(outputs):
        raise ValueError(f"{name}: {len(outputs)} outputs but {len(gradients)} gradients")
    roots = []
    for y, gradient in zip(outputs, gradients, strict=True):
        if type(y) in call.overriding:
            y.backward()  # says what to do instead
        if isinstance(y, call.Tensor) and not backend_of[type(y.array)].is_floating(y.dtype):
            raise ValueError(
                f"{name}: a result of integers or bools ({describe(y)}), such as argmax's or "
                f"a comparison's, has no gradient"
            )
        if not isinstance(y, call.Tensor) or y.node is None:
            raise ValueError(
                f"{name}: the tensor has no graph ({describe(y)}): nothing it was computed "
                f"from requires grad, or it was computed under no_grad; make the tensors whose "
                f"gradients you want with requires_grad=True"
            )
        if gradient is None:
            backend, array = backend_of[type(y.array)], y.array
            if backend.is_complex(array.dtype) or math.prod(array.shape) != 1:
                raise ValueError(
                    f"{name}: a tensor that is not one real number ({describe(y)}) needs a "
                    f"gradient of its shape; or make it one number first, such as its sum() or "
                    f"mean(), or real(z) if it is complex"
                )
            ones = backend.create("ones", array.shape, dtype=array.dtype, like=array)
            gradient = call.wrap(ones, None)
        else:
            if not isinstance(gradient, call.Tensor):
                gradient = call.namespace.asarray(gradient, dtype=y.dtype, device=y.device)
            libraries = {backend_of[type(x.array)].real for x in (gradient, y)}
            is_there = len(libraries) == 1 and gradient.device == y.device
            if gradient.shape != y.shape or not is_there:
                raise ValueError(
                    f"{name}: the gradient ({describe(gradient)}) must have the shape and device "
                    f"of the tensor ({describe(y)})"
                )
            if gradient.dtype != y.dtype:
                gradient = call.namespace.astype(gradient, y.dtype)
        roots.append((y.node, conjugate(gradient if create_graph else gradient.array)))
    return roots


def conjugate(g):
    """The complex conjugate of a raw array or Tensor; ``g`` itself if it is real."""
    raw = not isinstance(g, call.Tensor)
    backend = backend_of[type(g if raw else g._like)]
    if not backend.is_complex(g.dtype):
        return g
    with enable_grad():
        return (backend.xp if raw else call.namespace).conj(g)


def sweep(
    roots, targets, retain_graph, create_graph, *, guard, tensors=False, connected=True,
    needed=None, piece=False, due=None,
):  # fmt: skip
    """Cotangents of the targets, or of all leaves and watched nodes if targets is None.

    They are raw arrays. Under ``create_graph`` they are Tensors with a graph; if only
    ``tensors`` is set, they are Tensors without one.

    The newest node that has a cotangent goes first: its consumers are newer still, so that all
    of them have been handled. One such node, `following`, is kept outside the heap, so that
    chains, which make up most graphs, need neither the heap nor the dict.

    Upstream of an op that discards elements, or everywhere if the given cotangents may
    contain zeros (``guard``), elementwise ops run their guarded rules: zero times an infinite
    slope is then 0 instead of nan, at the cost of a search for nan.

    A node may belong to a region, such as the call of a compiled function. The region may handle
    all of its nodes at once, if no hook, target or freed node is among them.

    connected: whether ``create_graph`` also records how the cotangents depend on the values that
        the graph kept, and not only how they depend on the given cotangents.
    needed: the first result of `leading_to`, if the caller has it already.
    piece: whether the graph is a `Piece`, which ends at the targets. The values of ``needed`` then
        say which nodes another sweep goes through too; only that sweep calls their hooks.
    due: for some nodes, the leaves whose cotangents are complete once that node has been handled.
        The sweep sets their ``.grad`` and tells their listeners at once, and leaves them out of
        its result.
    """
    if targets is not None and needed is None:
        needed, _ = leading_to([node for node, _ in roots], targets)
    tensors = tensors or create_graph
    pending = _Pending(tensors)
    waiting, heap = pending.cotangents, pending.heap
    arrived, following, following_g = {}, None, None
    instrumented = bool(implementation.instruments)

    for node, g in roots:
        if needed is None or node in needed:
            if node in waiting and not tensors:  # no rule has entered the device yet
                with backend_of[type(g)].scope(g):
                    pending.put(node, g)
            else:
                pending.put(node, g)
    # Rules on raw arrays record nothing; those on Tensors must, under no_grad too.
    with sweep_context(), rules_on_tensors(create_graph) if tensors else nullcontext():
        while True:
            if following is None:
                if not heap:
                    return arrived
                node = heappop(heap)[1]
                g = waiting.pop(node)
            elif heap and heap[0][0] < following.order:
                node = heapreplace(heap, (following.order, following))[1]
                waiting[following] = following_g
                g = waiting.pop(node)
                following = None
            else:
                node = following
                g = following_g
                following = None

            watch = node.watch
            if watch is not None and watch.hooks and not (piece and needed[node]):
                g = _hooked(node, g)
            if targets is None:
                if type(node) is Leaf:
                    arrived[node] = g
                    continue
                if watch is not None and watch.leaf is not None:
                    arrived[watch.leaf] = g
            elif node in targets:
                arrived[node] = g
                if piece or type(node) is Leaf or needed.keys().isdisjoint(node.parents):
                    continue

            plan = node.plan
            if instrumented:
                plan = implementation.current(plan)
            elif plan.region is not None and not (tensors or piece or due):
                done = plan.region.sweep(node, g, pending, targets, needed, guard, retain_graph)
                if done is not None:
                    guard = done
                    continue
            if saved := node.saved:
                if node.order > writes.last:
                    check_unchanged(node)
                if not retain_graph:
                    node.saved = None
            elif saved is None:
                raise RuntimeError(
                    f"backward through {plan.op.name} a second time: the graph has freed the "
                    f"values that it kept; pass retain_graph=True to the first backward"
                )
            if tensors:
                plan = plan.on_tensors
                xp = call.namespace
                saved = saved and call.rewrap(node, saved, connected)
            else:
                xp = plan.xp
            parents = node.parents
            i = -1
            try:
                if plan.special:
                    if plan.output is not None:
                        pending.put_output(node, g)
                        continue
                    if type(g) is list and plan.op.materialize:
                        g = filled(g, node.shape, node.dtype)
                    if plan.joint is not None:
                        g = plan.joint(xp, g, saved)
                    if plan.op.discards:
                        guard = True
                for rule in plan.guarded if guard else plan.rules:
                    i += 1
                    parent = parents[i]
                    if needed is not None and parent not in needed:
                        continue
                    c = rule(xp, g, saved)
                    if c is None:
                        continue
                    if c.shape != parent.shape or c.dtype is not parent.dtype:
                        c = fit(xp, c, parent.shape, parent.dtype, plan.op)
                    if parent is following:
                        following_g = pending.add(parent, following_g, c)
                    elif following is None and parent not in waiting:
                        following = parent
                        following_g = c
                    else:
                        pending.put(parent, c)
            except Exception as error:
                add_note(error, f"in backward through {plan.op.name}")
                raise
            # Release this node's values before the next rule allocates memory.
            g = c = saved = None
            if due is not None and node in due:
                for leaf in due[node]:
                    if leaf is following:
                        holder, following, following_g = [following_g], None, None
                    elif leaf in waiting:
                        holder = [pending.take(leaf)]
                    else:
                        continue
                    _set_early(leaf, holder)


def _set_early(leaf, holder):
    """Add the cotangent in ``holder`` to a leaf's gradient, and tell its listener at once."""
    watch = leaf.watch
    if watch.hooks:
        holder[0] = _hooked(leaf, holder[0])
    holder[0] = conjugate(holder[0])
    if thread.recorder is not None:
        thread.recorder.check_leaves([leaf])
    _accumulate(leaf, holder, False)
    watch.listener.arrived(leaf)


class _Pending:
    """The cotangents of nodes whose consumers have not all been handled yet.

    cotangents: the sum so far for each node or leaf; a list for a node with several outputs.
    heap: these nodes with their orders, the newest first.
    tried: the regions that were asked to handle their nodes, by their orders.
    """

    __slots__ = ("cotangents", "heap", "tried", "_tensors", "_owned")

    def __init__(self, tensors):
        self.cotangents, self.heap, self.tried = {}, [], set()
        self._tensors = tensors
        self._owned = set()  # nodes whose sum was made here, so that it can be added to in place

    def put(self, node, c):
        """Add a cotangent to the node's sum so far."""
        cotangents = self.cotangents
        if node in cotangents:
            cotangents[node] = self.add(node, cotangents[node], c)
        else:
            cotangents[node] = c
            heappush(self.heap, (node.order, node))

    def set(self, node, c):
        """Replace the node's sum so far by ``c``."""
        if node in self.cotangents:
            self.cotangents[node] = c
            self._owned.discard(node)
        else:
            self.put(node, c)

    def add(self, node, total, c):
        """The sum of a node's cotangents so far, ``total``, and another one."""
        if self._tensors or node not in self._owned:
            self._owned.add(node)
            return total + c
        return iadd(total, c)

    def take(self, node):
        """Remove a node, and return the sum of its cotangents."""
        self.heap.remove((node.order, node))
        heapify(self.heap)
        return self.cotangents.pop(node)

    def put_output(self, node, g):
        """Put the cotangent of one of an op's several outputs into the list of all of them."""
        (parent,) = node.parents
        if parent not in self.cotangents:
            self.put(parent, [None] * len(parent.shape))
        outputs = self.cotangents[parent]
        i = node.plan.output
        # Under create_graph, an output that a rule used has another node for that use.
        outputs[i] = g if outputs[i] is None else outputs[i] + g


def leading_to(roots, targets):
    """The nodes on paths from the roots to the targets, and whether the roots have other leaves.

    Returns a dict with the nodes as keys, the oldest first, and a bool that says whether a
    derivative of the roots by anything besides the targets may be requested. Nodes older than all
    targets are not visited: a program that differentiates at every step would visit all earlier
    steps.
    """
    found, stack = set(), list(roots)
    oldest = max([target.order for target in targets], default=-math.inf)
    has_others = False
    while stack:
        node = stack.pop()
        if node.order > oldest:
            has_others = True
        elif node not in found:
            found.add(node)
            if parents := node.parents:
                stack.extend(parents)
            elif node not in targets and is_open(node):
                has_others = True
    needed = {}
    for node in sorted(found, key=attrgetter("order"), reverse=True):
        if node in targets or not needed.keys().isdisjoint(node.parents):
            needed[node] = None
    return needed, has_others


def _hooked(node, g):
    """The cotangent that a node's hooks return for ``g``; the hooks see gradients.

    For a node with several outputs, ``g`` and the result are lists with None for outputs that
    nothing depends on.
    """
    is_list = type(g) is list
    parts = g if is_list else [g]
    raw = not any(isinstance(c, call.Tensor) for c in parts)
    gradients = [c if c is None else _gradient(c) for c in parts]
    with no_grad() if raw else nullcontext():
        for hook in tuple(node.watch.hooks.values()):
            if (replaced := hook(gradients if is_list else gradients[0])) is not None:
                replaced = replaced if is_list else [replaced]
                gradients = list(map(_replacement, replaced, gradients))
    parts = [c if c is None else conjugate(c.array if raw else c) for c in gradients]
    return parts if is_list else parts[0]


def _gradient(c):
    c = conjugate(c)
    # NumPy's 0-d results are scalars.
    return c if isinstance(c, call.Tensor) else call.wrap(backend_of[type(c)].asarray(c), None)


def _replacement(new, old):
    """The gradient ``new`` that a hook returned in place of ``old``, in its dtype."""
    if new is None or old is None:
        return old
    isdtype, kind = call.namespace.isdtype, "complex floating"
    fits = isinstance(new, call.Tensor) and (new.shape, new.device) == (old.shape, old.device)
    if not fits or (isdtype(new.dtype, kind) and not isdtype(old.dtype, kind)):
        raise ValueError(
            f"hook: it must return None or a Tensor of the gradient's shape and device, which is "
            f"real if the gradient is ({describe(old)}), not {describe(new)}"
        )
    return new.to(old.dtype)


def fit(xp, c, shape, dtype, op):
    """Sum a cotangent back to its input's ``shape`` and cast it to its ``dtype``."""
    given = tuple(c.shape)
    if given and given[1:] == shape:  # a bias of a batch
        c = xp.sum(c, axis=0, dtype=c.dtype)
    elif given != shape:
        lead = len(given) - len(shape)
        trail = given[lead:]
        fits = [n in (1, m) for n, m in zip(shape, trail, strict=False)]
        if lead < 0 or not all(fits):
            raise ValueError(
                f"{op.name}: a VJP returned a cotangent of shape {given} for an input of "
                f"shape {shape}"
            )
        stretched = [lead + i for i, (n, m) in enumerate(zip(shape, trail, strict=True)) if n != m]
        c = xp.sum(c, axis=(*range(lead), *stretched), dtype=c.dtype)
        if stretched:
            c = xp.reshape(c, shape)
    if c.dtype != dtype:
        kind = "complex floating"
        if xp.isdtype(c.dtype, kind) and not xp.isdtype(dtype, kind):
            c = xp.real(c)
        c = xp.astype(c, dtype)
    return c


def filled(values, shapes, dtypes=None):
    """The values, with zeros in place of None; their dtype is by default that of the others."""
    like = next(x for x in values if x is not None)
    dtypes = dtypes or [like.dtype] * len(values)
    parts = zip(values, shapes, dtypes, strict=True)
    return tuple([zeros(shape, dtype, like) if x is None else x for x, shape, dtype in parts])


def zeros(shape, dtype, like):
    """Zeros of the library and on the device of ``like``, as a raw array or a Tensor like it."""
    if isinstance(like, call.Tensor):
        return call.wrap(zeros(shape, dtype, like._like), None)
    return backend_of[type(like)].zeros(shape, dtype, like)


def check_unchanged(node, sweep="backward"):
    """Raise if memory that ``node`` saved was overwritten in place since."""
    for value in node.saved:
        for array in value if isinstance(value, tuple) else (value,):
            if writes.overwritten(array, node.order):
                raise RuntimeError(
                    f"{sweep} through {node.plan.op.name}: a value it saved ({describe(array)}) "
                    f"was overwritten in place since, by an optimizer step or load_state_dict; "
                    f"call {sweep} before it, or compute the forward pass again"
                )


def _accumulate(leaf, holder, create_graph):
    """Add the cotangent in ``holder`` to the ``.grad`` of the leaf's tensor."""
    if (tensor := leaf.owner()) is None:  # nobody can read its gradient any more
        return
    with _accumulating:
        old = tensor.grad
        if create_graph:
            with enable_grad():
                g = holder[0]
                tensor._grad = call.namespace.astype(g, g.dtype) if old is None else old + g
        elif old is None:
            tensor._grad = call.wrap(own(holder), None)
        else:
            g = backend_of[type(holder[0])].asarray(holder[0])
            tensor._grad = old.detach() + call.wrap(g, None)


def own(holder):
    """``holder[0]`` as an array that shares no memory: a copy unless only the list has it."""
    backend = backend_of[type(holder[0])]
    is_alone = _references(holder) == _ALONE and backend.is_unshared(holder[0])
    # NumPy's 0-d results are scalars; a leaf's gradient is an array.
    return backend.asarray(holder[0], copy=None if is_alone else True)


def _references(holder):
    return sys.getrefcount(holder[0])


_ALONE = _references([object()])
