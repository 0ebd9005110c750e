"""Runs a function once on variables and keeps its graph for forward and reverse sweeps."""

import math
import numbers
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, NamedTuple

from .._arguments import is_complex, is_floating, require
from .._batched import BatchedTensor, behind, check_open, levels_of, lifted, physical
from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.mode import enable_grad, is_grad_enabled
from ..autograd.sweep import leading_to
from ..autograd.variables import close, is_open, variable
from ..backends import SCALARS, backend_of, describe, namespace_of
from ..ops.manipulation import permute_dims
from .trees import LEAF, as_tensor, flatten, grouped, map_tensors, names, shown, unflatten


class Like(NamedTuple):
    """The shape, dtype, device and backend that a tangent or cotangent must have."""

    shape: tuple[int, ...]
    dtype: Any
    device: str
    backend: Any


def like(x):
    return Like(x.shape, x.dtype, x.device, backend_of[type(x._like)])


class Inputs:
    """The leaves of some trees, as variables.

    levels: the `vmap` levels; every variable has an axis for each.
    """

    def __init__(self, transform, trees, labels, levels):
        self.structures, self.variables, leaves = [], [], []
        for tree in trees:
            found, structure = flatten(tree)
            self.structures.append(structure)
            leaves += found
        self.labels = labels
        self.levels = tuple(levels)
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
        """The name of each leaf, computed only for errors because it is slow."""
        pairs = zip(self.structures, self.labels, strict=True)
        return [name for structure, label in pairs for name in names(structure, label)]

    @cached_property
    def likes(self):
        return [like(x) for x in self.variables]

    # `close` is bound as a default: at interpreter exit a module's names vanish before its objects.
    def close(self, close=close):
        """Close the variables: only the graph recorded so far can be differentiated by them."""
        for x in self.variables:
            close(x)

    __del__ = close

    @property
    def nodes(self):
        return [x.node for x in self.variables]

    def given(self):
        """The trees of variables to call the function with, as new objects it may change."""
        return self.trees([fresh(x) for x in self.variables])

    def released(self, xs):
        """Tensors, detached if they depend only on these variables, which nobody uses any more."""
        targets = set(self.nodes)
        oldest = max([node.order for node in targets], default=-math.inf)
        nowhere = set()  # nodes known to depend only on the variables

        def leads_on(node):
            found, stack = set(), [node]
            while stack:
                node = stack.pop()
                if node in found or node in nowhere:
                    continue
                found.add(node)
                if node not in targets and (node.order > oldest or is_open(node)):
                    return True
                stack.extend(node.parents)
            nowhere.update(found)
            return False

        return [x if x.node is None or leads_on(x.node) else x.detach() for x in xs]

    def trees(self, leaves):
        """Trees with the inputs' structures and these leaves."""
        return grouped(self.structures, leaves)


class Outputs:
    """The leaves of a function's result, and whether they depend on more than the variables.

    Raises TypeError for a leaf that is not a Tensor: it has no graph, and its derivative would be 0
    in silence.

    enabled: whether recording was on where the transform was called.
    recorded: whether to record the derivatives: recording was on, and the result also depends
        on something else that may be differentiated by later.
    """

    def __init__(self, transform, tree, inputs, enabled):
        leaves, self.structure = flatten(tree)
        self.leaves = leaves
        for i, y in enumerate(leaves):
            if type(y) is not Tensor:
                if not isinstance(y, Tensor):
                    raise TypeError(self._no_tensor(transform, self.names[i], y))
                check_open(f"{transform}: {self.names[i]}", *levels_of(y))
        nodes = [y.node for y in self.leaves if y.node is not None]
        self.needed, more = leading_to(nodes, set(inputs.nodes))
        # None where a leaf does not depend on the variables.
        self.nodes = [y.node if y.node in self.needed else None for y in self.leaves]
        self.enabled = enabled
        self.recorded = enabled and more
        self.released = inputs.released

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

    def detach_aux(self, aux):
        """The auxiliary result, its tensors detached where they depend only on the variables."""
        return map_tensors(lambda x: self.released([x])[0] if self.enabled else x.detach(), aux)


def record(transform, f, inputs, has_aux, put=lambda values: (values, {})):
    """Call ``f`` with the variables of ``inputs``; returns its `Outputs` and auxiliary result.

    The auxiliary result is None without ``has_aux``.

    put: turns the values of ``inputs`` into positional and keyword arguments.
    """
    enabled = is_grad_enabled()
    args, kwargs = put(inputs.given())
    with enable_grad():
        result = f(*args, **kwargs)
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            length = f" of {len(result)}" if isinstance(result, tuple) else ""
            raise TypeError(
                f"{transform}: with has_aux f must return a pair (result, aux), not a "
                f"{type(result).__name__}{length}"
            )
        result, aux = result
    return Outputs(transform, result, inputs, enabled), aux


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


# Nodes of the graph hide the vmap levels that were active when it was recorded, and tangents and
# cotangents must do the same. Levels entered later are not in the graph: a sweep treats them as
# a batch of tangents or cotangents.


def inward(t, levels):
    """A tangent or cotangent in the form that the graph's nodes use."""
    newer = [level for level in levels_of(t) if level not in levels]
    every = (*levels, *newer)
    return behind(reordered(physical(lifted(t, every)), every, (*newer, *levels)), newer)


def outward(t, levels):
    """The inverse of `inward`: it restores the axes of the vmap levels."""
    newer = levels_of(t)
    t = reordered(physical(t), (*newer, *levels), (*levels, *newer))
    return behind(t, (*levels, *newer))


def reordered(x, levels, wanted):
    """``x``, whose first axes are those of ``levels``, with these axes reordered to ``wanted``."""
    if len(levels) < 2:
        return x
    axes = [levels.index(level) for level in wanted]
    if axes == sorted(axes):
        return x
    return permute_dims(x, (*axes, *range(len(axes), x.ndim)))


def checked(transform, what, leaves, structure, expected, expected_structure, of):
    """Leaves of tangents or cotangents as Tensors that match ``expected``, or None for 0.

    what: the words for errors that precede the name of a leaf, such as ``"cotangent of"``.
    expected: a `Like` for each leaf.
    of: the `Inputs` or `Outputs` that the leaves belong to.
    """
    if not same(structure, expected_structure):
        raise ValueError(
            f"{transform}: the {what.split()[0]} must have the structure "
            f"{shown(expected_structure)}, not {shown(structure)}; * is an array"
        )
    result = []
    for i, (t, x) in enumerate(zip(leaves, expected, strict=True)):
        if t is None or not x.backend.is_floating(x.dtype):
            t = None
        elif type(t) is not Tensor or like(t) != x:
            t = fitted(t, x, f"{transform}: the {what} {of.names[i]}")
        result.append(t)
    return result


def fitted(t, x, name):
    """A tangent or cotangent as a Tensor with the dtype of `Like` x; raises unless it fits."""
    is_real = not x.backend.is_complex(x.dtype)
    if type(t) in SCALARS and not (type(t) is complex and is_real):
        t = wrap(x.backend.asarray(t, dtype=x.dtype, device=x.device), None)
    t = as_tensor(t, name)
    require(t.shape == x.shape, f"{name} must have its shape {x.shape}", t.shape)
    if is_real and is_complex(t):
        raise TypeError(f"{name} must be real as that is, not {t.dtype}")
    backend, expected = backend_of[type(t._like)].real, x.backend.real
    if backend is not expected or t.device != x.device:
        raise ValueError(
            f"{name} must be an array of {expected.name} on {x.device} as that is, not of "
            f"{backend.name} on {t.device}"
        )
    return t.to(x.dtype)


def same(structure1, structure2):
    return structure1 == structure2 or structure2 == structure1


def check_levels(transform, inputs):
    """Raise RuntimeError if the graph belongs to a `vmap` that has ended."""
    if not all(level.open for level in inputs.levels):
        raise RuntimeError(
            f"{transform}: its derivative was made inside a vmap that has ended, and can be "
            f"called only there"
        )


def arguments(transform, f, argnums):
    """A function that picks the arguments chosen by ``argnums``, and whether it is only one.

    The function takes positional and keyword arguments, and returns the chosen values, their
    labels, and a function that puts other values in their place.
    """
    single = not isinstance(argnums, (tuple, list))
    chosen = (argnums,) if single else tuple(argnums)
    if not chosen or not all(type(a) in (int, str) for a in chosen):
        raise TypeError(
            f"{transform}: argnums must be an int or a parameter's name, or a tuple of these, "
            f"not {misplaced(transform, argnums)}"
        )
    label, place_of = parameters(f)

    def places(args, kwargs):
        for a in chosen:
            if type(a) is str:
                place = a if a in kwargs else place_of.get(a, len(args))
                if type(place) is int and place >= len(args):
                    given = ", ".join([*map(label, range(len(args))), *kwargs]) or "none"
                    raise TypeError(
                        f"{transform}: argnums names {a!r}, but the arguments given are: {given}"
                    )
                yield place, a
            else:
                i = a + len(args) if a < 0 else a
                if not 0 <= i < len(args):
                    raise TypeError(
                        f"{transform}: argnums is {a}, but the call has "
                        f"{counted(len(args), 'positional argument')}; arguments passed by name "
                        f"are chosen by name"
                    )
                yield i, label(i)

    def choose(args, kwargs):
        found = list(places(args, kwargs))
        where = [place for place, _ in found]
        if len({*where}) < len(where):
            raise ValueError(f"{transform}: argnums {argnums!r} chooses an argument twice")
        values = [kwargs[p] if isinstance(p, str) else args[p] for p in where]

        def put(new):
            new_args, new_kwargs = list(args), dict(kwargs)
            for place, value in zip(where, new, strict=True):
                if isinstance(place, str):
                    new_kwargs[place] = value
                else:
                    new_args[place] = value
            return new_args, new_kwargs

        return values, [name for _, name in found], put

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


def labels_of(primals):
    return [f"primals[{i}]" for i in range(len(primals))]


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
