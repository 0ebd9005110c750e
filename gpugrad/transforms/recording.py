"""Runs a function once on variables and keeps its graph for forward and reverse sweeps."""

import math
import numbers
from functools import cached_property
from inspect import Parameter, signature
from sys import is_finalizing
from typing import Any, NamedTuple

from .._arguments import is_complex, is_floating, require
from .._batched import BatchedTensor, active_levels, behind, check_open, levels_of, lifted, physical
from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.mode import enable_grad, is_grad_enabled
from ..autograd.sweep import leading_to
from ..autograd.variables import close, is_open, variable
from ..backends import SCALARS, backend_of, describe, namespace_of
from ..ops.manipulation import broadcast_to, permute_dims
from .trees import LEAF, as_tensor, flatten, grouped, map_tensors, names, shown, unflatten


class Like(NamedTuple):
    """What a tangent or cotangent must have in common with its tensor."""

    shape: tuple[int, ...]
    dtype: Any
    device: str
    backend: Any


def like(x):
    return Like(x.shape, x.dtype, x.device, backend_of[type(x._like)])


class Inputs:
    """The leaves of some trees, as variables.

    labels: the names of the trees in errors.
    levels: the `vmap` levels, by default the active ones. Every variable has an axis for each.
    """

    def __init__(self, transform, trees, labels=None, levels=None):
        self.structures, self.variables, leaves = [], [], []
        for tree in trees:
            found, structure = flatten(tree)
            self.structures.append(structure)
            leaves += found
        self.labels = labels or [f"primals[{i}]" for i in range(len(trees))]
        self.levels = tuple(active_levels() if levels is None else levels)
        for i, x in enumerate(leaves):
            given = x
            if type(x) is not Tensor:
                x = as_tensor(x, f"{transform}: argument {self.names[i]}")
            if not is_floating(x):
                remedy = f"write {float(given)}" if isinstance(given, int) else "use astype"
                raise TypeError(
                    f"{transform}: argument {self.names[i]} is {x.dtype}, but only floating ones "
                    f"have derivatives; {remedy}, or choose others to differentiate by"
                )
            self.variables.append(variable(lifted(x, self.levels)))

    @cached_property
    def names(self):
        """The name of each leaf; only errors ask for it, because it is slow."""
        pairs = zip(self.structures, self.labels, strict=True)
        return [name for structure, label in pairs for name in names(structure, label)]

    @cached_property
    def likes(self):
        return [like(x) for x in self.variables]

    def close(self):
        """Close the variables: only the graph recorded so far can be differentiated by them."""
        for x in self.variables:
            close(x)

    # The function is bound because at interpreter exit a module's names vanish before its objects.
    def __del__(self, is_finalizing=is_finalizing):
        if not is_finalizing():
            self.close()

    @property
    def nodes(self):
        return [x.node for x in self.variables]

    def given(self):
        """The trees of variables to call the function with: new objects, which it may change."""
        return self.trees([fresh(x) for x in self.variables])

    def released(self, xs):
        """The tensors, detached where they depend only on these variables.

        Nobody can ask for derivatives by the variables any more.
        """
        targets = set(self.nodes)
        oldest = max([node.order for node in targets], default=-math.inf)
        only_on_variables = set()  # nodes known to depend on nothing else

        def depends_on_more(node):
            found, stack = set(), [node]
            while stack:
                node = stack.pop()
                if node in found or node in only_on_variables:
                    continue
                found.add(node)
                if node not in targets and (node.order > oldest or is_open(node)):
                    return True
                stack.extend(node.parents)
            only_on_variables.update(found)
            return False

        return [x if x.node is None or depends_on_more(x.node) else x.detach() for x in xs]

    def trees(self, leaves):
        """Trees with the inputs' structures and these leaves."""
        return grouped(self.structures, leaves)


class Outputs:
    """The leaves of a function's result, and whether they depend on more than the variables.

    Raises TypeError for a leaf that is not a Tensor: it has no graph, so its derivative would
    silently be 0.

    enabled: whether recording was on where the transform was called.
    recorded: whether to record the derivatives: recording was on, and the result also depends on
        something else, by which the program may differentiate later.
    aux: a list with the auxiliary result, if the function has one.
    """

    def __init__(self, transform, tree, aux, inputs, enabled):
        leaves, self.structure = flatten(tree)
        self.leaves, self.aux = leaves, aux
        for i, y in enumerate(leaves):
            if type(y) is not Tensor:
                if not isinstance(y, Tensor):
                    raise TypeError(self._no_tensor(transform, self.names[i], y))
                check_open(f"{transform}: {self.names[i]}", *levels_of(y))
        nodes = [y.node for y in self.leaves if y.node is not None]
        self.needed, has_others = leading_to(nodes, set(inputs.nodes))
        # None where a leaf does not depend on the variables.
        self.nodes = [y.node if y.node in self.needed else None for y in self.leaves]
        self.enabled = enabled
        self.recorded = enabled and has_others
        self.released = inputs.released

    def mode(self, given):
        """Whether a sweep with these tangents or cotangents records, and whether it takes Tensors.

        Raw arrays cannot be recorded, and have no axes for vmap levels.
        """
        connected = any(t.node is not None for t in given)
        create_graph = is_grad_enabled() and (self.recorded or connected)
        return create_graph, create_graph or any(type(t) is BatchedTensor for t in given)

    @cached_property
    def names(self):
        return names(self.structure, "the result")

    def _no_tensor(self, transform, name, y):
        what = without_graph(y)
        if what is None:
            return f"{transform}: {name} must be a tensor, not {type(y).__name__}"
        text = (
            f"{transform}: {name} is {what}, so no derivative of it can be computed; return a "
            f"tensor, and do not call item(), float() or numpy() on it"
        )
        if self.structure is LEAF or transform == "hvp":
            return text
        return f"{text}; with has_aux=True, what needs no derivative can be returned as aux"

    def tree(self, leaves):
        return unflatten(self.structure, leaves)

    def result(self):
        """The function's result, detached where it depends only on the variables."""
        if self.recorded:
            return self.tree(self.released(self.leaves))
        return self.tree([y.detach() for y in self.leaves])

    def with_aux(self, *results):
        """What a transform returns: the results, and then the auxiliary result if there is one.

        Its tensors are detached where they depend only on the variables.
        """

        def detached(x):
            return self.released([x])[0] if self.enabled else x.detach()

        every = *results, *[map_tensors(detached, x) for x in self.aux]
        self.aux = []  # a function that is among the results may keep this object
        return every if len(every) > 1 else results[0]


def record(transform, f, inputs, has_aux, put=lambda values: (values, {})):
    """Call ``f`` with the variables of ``inputs``; returns its `Outputs`.

    put: a function that makes positional and keyword arguments of the values of ``inputs``.
    """
    enabled = is_grad_enabled()
    args, kwargs = put(inputs.given())
    with enable_grad():
        result = f(*args, **kwargs)
    aux = []
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            length = f" of {len(result)}" if isinstance(result, tuple) else ""
            raise TypeError(
                f"{transform}: with has_aux f must return a pair (result, aux), not a "
                f"{type(result).__name__}{length}"
            )
        result, *aux = result
    return Outputs(transform, result, aux, inputs, enabled)


def check_real(transform, inputs):
    for x, name in zip(inputs.variables, inputs.names, strict=True):
        if is_complex(x):
            raise TypeError(
                f"{transform}: argument {name} is {x.dtype}; give its real and imaginary parts "
                f"apart"
            )


def fresh(x):
    """A new object with the value and graph of ``x``; ``+=`` on it leaves ``x`` unchanged."""
    return x.of(x.payload) if type(x) is BatchedTensor else wrap(x.array, x.node)


def without_graph(x):
    """Describe a number or an array given in place of a tensor; None for other values."""
    kind = type(x)
    for known in list(namespace_of):
        if isinstance(x, known):  # also a subclass
            return f"an array of {backend_of[known].name} ({describe(x)}), which has no graph"
    if kind in backend_of or isinstance(x, numbers.Number):
        library = "NumPy" if kind.__module__ == "numpy" else "Python"
        return f"the {library} number {x} ({kind.__name__}), which has no graph"
    return None


# A node of the graph hides the vmap levels that it was recorded in: its value is a tensor with one
# axis in front for each of them. Tangents and cotangents on their way through the graph have these
# axes too. Levels that were entered later are a batch of tangents or cotangents for the sweep, and
# their axes come before. A user's function sees the axes of all levels in the order of the levels.


def inward(t, levels):
    """A tangent or cotangent in the form that a node with axes for ``levels`` uses."""
    present = levels_of(t)
    t = physical(t)
    for level in reversed(levels):
        if level not in present:
            t = broadcast_to(t, (level.size, *t.shape))
            present.insert(0, level)
    newer = [level for level in present if level not in levels]
    return behind(_reordered(t, present, [*newer, *levels]), newer)


def outward(t, levels):
    """The inverse of `inward`: the tangent or cotangent as a user's function sees it."""
    present = [*levels_of(t), *levels]
    ordered = sorted(present)
    return behind(_reordered(physical(t), present, ordered), ordered)


def _reordered(x, levels, wanted):
    """``x``, whose first axes are those of ``levels``, with these axes in the order ``wanted``."""
    if levels == wanted:
        return x
    axes = [levels.index(level) for level in wanted]
    return permute_dims(x, (*axes, *range(len(axes), x.ndim)))


def leaves_like(name, tree, structure, none_is_leaf=False):
    """The leaves of ``tree``; ValueError, which calls it ``name``, unless it has the structure."""
    leaves, given = flatten(tree, none_is_leaf)
    if given != structure:
        raise ValueError(
            f"{name} must have the structure {shown(structure)}, not {shown(given)}; * is an array"
        )
    return leaves


def checked(what, leaves, expected, of):
    """Leaves of tangents or cotangents as Tensors that match ``expected``, or None for 0.

    what: what errors say before the name of a leaf, such as ``"vjp: the cotangent of"``.
    expected: a `Like` for each leaf.
    of: an object whose ``names`` are the names of the leaves, such as `Inputs` or `Outputs`.
    """
    result = []
    for i, (t, x) in enumerate(zip(leaves, expected, strict=True)):
        if t is None or not x.backend.is_floating(x.dtype):
            t = None
        elif type(t) is not Tensor or like(t) != x:
            t = _fitted(t, x, f"{what} {of.names[i]}")
        result.append(t)
    return result


def _fitted(t, x, name):
    """A tangent or cotangent as a Tensor with the dtype of `Like` x; raises unless it fits."""
    is_real = not x.backend.is_complex(x.dtype)
    if type(t) in SCALARS and not (type(t) is complex and is_real):
        t = wrap(x.backend.asarray(t, dtype=x.dtype, device=x.device), None)
    t = as_tensor(t, name)
    require(t.shape == x.shape, f"{name} must have its shape {x.shape}", t.shape)
    if is_real and is_complex(t):
        raise TypeError(f"{name} must be real like it, not {t.dtype}")
    backend, expected = backend_of[type(t._like)].real, x.backend.real
    if backend is not expected or t.device != x.device:
        raise ValueError(
            f"{name} must be an array of {expected.name} on {x.device} like it, not of "
            f"{backend.name} on {t.device}"
        )
    return t.to(x.dtype)


def check_levels(transform, inputs):
    """Raise RuntimeError if the graph belongs to a `vmap` that has ended."""
    if not all(level.open for level in inputs.levels):
        raise RuntimeError(
            f"{transform}: its derivative was made inside a vmap that has ended, and can be "
            f"called only there"
        )


def arguments(transform, f, argnums):
    """A function that picks the arguments that ``argnums`` chooses, and whether it is only one.

    The function takes positional and keyword arguments. It returns the chosen values, their labels,
    and a function that returns all arguments with other values in place of the chosen ones.
    """
    single = not isinstance(argnums, (tuple, list))
    chosen = (argnums,) if single else tuple(argnums)
    if not chosen or not all(type(a) in (int, str) for a in chosen):
        raise TypeError(
            f"{transform}: argnums must be an int or a parameter's name, or a tuple of these, "
            f"not {misplaced(transform, argnums)}"
        )
    label, place_of = parameters(f)

    def places(given, args, kwargs):
        """Where in ``given`` each chosen argument is, and its label."""
        for a in chosen:
            if type(a) is str:
                place = a if a in kwargs else place_of.get(a)
                if place not in given:
                    listed = ", ".join([*map(label, range(len(args))), *kwargs]) or "none"
                    raise TypeError(
                        f"{transform}: argnums names {a!r}, but the arguments given are: {listed}"
                    )
                yield place, a
            else:
                place = a + len(args) if a < 0 else a
                if place not in given:
                    raise TypeError(
                        f"{transform}: argnums is {a}, but the call has "
                        f"{counted(len(args), 'positional argument')}; arguments passed by name "
                        f"are chosen by name"
                    )
                yield place, label(place)

    def choose(args, kwargs):
        given = {**dict(enumerate(args)), **kwargs}
        labels = {}
        for place, name in places(given, args, kwargs):
            if place in labels:
                raise ValueError(f"{transform}: argnums {argnums!r} chooses an argument twice")
            labels[place] = name

        def put(values):
            changed = {**given, **dict(zip(labels, values, strict=True))}
            return [changed.pop(i) for i in range(len(args))], changed

        return [given[place] for place in labels], [*labels.values()], put

    return choose, single


def parameters(f):
    """A function from the positions of ``f``'s arguments to names, and a dict from names to
    positions."""
    try:
        known = signature(f).parameters.values()
    except (TypeError, ValueError):  # a builtin may have no signature
        known = ()
    kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    positional = [p.name for p in known if p.kind in kinds]
    rest = next((p.name for p in known if p.kind is Parameter.VAR_POSITIONAL), "args")

    def label(i):
        n = len(positional)
        return positional[i] if i < n else f"{rest}[{i - n}]"

    return label, {name: i for i, name in enumerate(positional)}


def counted(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def misplaced(transform, option):
    """Describe the value given for an option, with a hint if it looks like an argument of ``f``."""
    if hasattr(option, "shape"):
        return f"{describe(option)}; the arguments of f go to what is returned: {transform}(f)(x)"
    return repr(option)


def callable_or_error(transform, f, name="f"):
    if not callable(f):
        raise TypeError(
            f"{transform}: {name} must be a function, not {describe(f)}; pass {name} itself, "
            f"not {name}(x)"
        )
