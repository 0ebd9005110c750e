"""Runs a function once on variables and keeps its graph for forward and reverse sweeps."""

import math
import numbers
from functools import cached_property, wraps
from sys import is_finalizing

from .._arguments import is_complex, is_floating
from .._batched import BatchedTensor, active_levels, check_open, levels_of, lifted
from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.mode import enable_grad, is_grad_enabled
from ..autograd.sweep import leading_to
from ..autograd.variables import close, is_open, variable
from ..backends import backend_of, describe, namespace_of
from .arguments import arguments, callable_or_error, pair
from .cotangents import like
from .trees import LEAF, as_tensor, flatten, flatten_each, grouped, map_tensors, names, unflatten


class Inputs:
    """The leaves of some trees, as variables.

    labels: the names of the trees in errors.
    levels: the `vmap` levels, by default the active ones. Every variable has an axis for each.
    """

    def __init__(self, transform, trees, labels=None, levels=None):
        self.variables = []
        leaves, self.structures = flatten_each(trees)
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

    def released(self, xs):
        """The tensors, detached where they depend only on these variables.

        No program can ask for derivatives by the variables any more.
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
        self.leaves, self.structure = flatten(tree)
        self.aux, self.enabled = aux, enabled
        for i, y in enumerate(self.leaves):
            if type(y) is not Tensor:
                if not isinstance(y, Tensor):
                    raise TypeError(self._no_tensor(transform, self.names[i], y))
                check_open(f"{transform}: {self.names[i]}", *levels_of(y))
        nodes = [y.node for y in self.leaves if y.node is not None]
        self.needed, has_others = leading_to(nodes, set(inputs.nodes))
        # None where a leaf does not depend on the variables.
        self.nodes = [y.node if y.node in self.needed else None for y in self.leaves]
        self.recorded = enabled and has_others
        self.released = inputs.released

    def options(self, given, retain):
        """The options of a sweep with these tangents or cotangents, by name.

        It takes Tensors if it records, or if they have vmap levels; else it takes raw arrays.
        """
        connected = any(t.node is not None for t in given)
        create_graph = is_grad_enabled() and (self.recorded or connected)
        return {
            "retain_graph": retain or create_graph,
            "create_graph": create_graph,
            "tensors": create_graph or any(type(t) is BatchedTensor for t in given),
            "connected": self.recorded,
            "needed": self.needed,
        }

    @cached_property
    def names(self):
        return names(self.structure, "the result")

    def _no_tensor(self, transform, name, y):
        if (what := without_graph(y)) is None:
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
    args, kwargs = put(inputs.trees([fresh(x) for x in inputs.variables]))  # f may change them
    with enable_grad():
        result = f(*args, **kwargs)
    aux = []
    if has_aux:
        result, *aux = pair(result, f"{transform}: with has_aux f must return a pair (result, aux)")
    return Outputs(transform, result, aux, inputs, enabled)


def of_arguments(transform, f, argnums, has_aux, derivative):
    """A function of the arguments of ``f`` that records ``f`` and returns a derivative of it.

    derivative: a function of the `Inputs`, the `Outputs`, and a function that puts a list with an
        array for each variable into the structure of the arguments that ``argnums`` chooses.
    """
    callable_or_error(transform, f)
    choose, single = arguments(transform, f, argnums)

    @wraps(f, updated=())
    def wrapped(*args, **kwargs):
        values, labels, put = choose(args, kwargs)
        inputs = Inputs(transform, values, labels)

        def by_argument(leaves):
            trees = inputs.trees(leaves)
            return trees[0] if single else tuple(trees)

        return derivative(inputs, record(transform, f, inputs, has_aux, put), by_argument)

    return wrapped


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


def is_recordable(x):
    """Whether a leaf of a result can have a cotangent."""
    return isinstance(x, Tensor) and is_floating(x)


def without_graph(x):
    """Describe a number or an array given in place of a tensor; None for other values."""
    kind = type(x)
    for array_type in list(namespace_of):
        if isinstance(x, array_type):  # also a subclass
            return f"an array of {backend_of[array_type].name} ({describe(x)}), which has no graph"
    if kind in backend_of or isinstance(x, numbers.Number):
        library = "NumPy" if kind.__module__ == "numpy" else "Python"
        return f"the {library} number {x} ({kind.__name__}), which has no graph"
    return None


def check_levels(transform, inputs):
    """Raise RuntimeError if the graph belongs to a `vmap` that has ended."""
    if not all(level.open for level in inputs.levels):
        raise RuntimeError(
            f"{transform}: its derivative was made inside a vmap that has ended, and can be "
            f"called only there"
        )
