"""A function run once with variables for inputs, its graph kept to be swept."""

from inspect import signature
from typing import Any, NamedTuple

from ..autograd.graph import Node
from ..autograd.mode import enable_grad
from ..autograd.sweep import leading_to
from ..autograd.variables import close, variable
from ..backends import describe
from ..batched import behind, levels_of, lifted, physical
from ..dtypes import isdtype
from ..ops.manipulation import moveaxis
from ..tensor import Tensor
from .trees import as_tensor, flatten, names, unflatten


class Like(NamedTuple):
    """What a tangent or cotangent must be like."""

    shape: tuple[int, ...]
    dtype: Any
    device: str


def like(x):
    return Like(x.shape, x.dtype, x.device)


class Inputs:
    """The leaves of some trees, as variables.

    levels: of `vmap`, of which every variable has an axis.
    """

    def __init__(self, transform, trees, labels, levels):
        self.structures, self.names, self.variables, leaves = [], [], [], []
        for tree, label in zip(trees, labels, strict=True):
            found, structure = flatten(tree)
            self.structures.append(structure)
            self.names += names(structure, label)
            leaves += found
        self.levels = tuple(levels)
        for x, name in zip(leaves, self.names, strict=True):
            x = as_tensor(x, f"{transform}: argument {name}")
            if not is_floating(x):
                raise TypeError(
                    f"{transform}: argument {name} is {x.dtype}, but only floating ones have "
                    f"derivatives; use astype, or choose others to differentiate by"
                )
            self.variables.append(variable(lifted(x, self.levels)))

    def __del__(self):
        for x in self.variables:
            close(x)

    @property
    def nodes(self):
        return [x.node for x in self.variables]

    def trees(self, leaves):
        """The trees of the inputs' structures with these leaves."""
        trees, start = [], 0
        for structure in self.structures:
            stop = start + structure.num_leaves
            trees.append(unflatten(structure, leaves[start:stop]))
            start = stop
        return trees


class Outputs:
    """The leaves of a function's result, and what they depend on besides the variables.

    recorded: whether derivatives are to be recorded: something else in the graph may be
        differentiated by later, and recording was on where the transform was called.
    """

    def __init__(self, transform, tree, inputs, enabled):
        leaves, self.structure = flatten(tree)
        self.names = names(self.structure, "the result")
        self.leaves = [
            as_tensor(x, f"{transform}: {name}") for x, name in zip(leaves, self.names, strict=True)
        ]
        nodes = [y.node for y in self.leaves if type(y.node) is Node]
        needed, more = leading_to(nodes, set(inputs.nodes))
        # None where a leaf does not depend on the variables.
        self.nodes = [y.node if y.node in needed else None for y in self.leaves]
        self.recorded = enabled and more

    def tree(self, leaves):
        return unflatten(self.structure, leaves)

    def result(self):
        """The function's result; without the variables where nobody can ask for them."""
        if self.recorded:
            return self.tree(self.leaves)
        return self.tree([y.detach() for y in self.leaves])


def call_recorded(transform, f, args, kwargs, has_aux):
    """The result of ``f`` and its auxiliary one, None without ``has_aux``."""
    with enable_grad():
        result = f(*args, **kwargs)
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"{transform}: with has_aux f must return a pair (result, aux), not a "
            f"{type(result).__name__}"
        )
    return result


def apart(tree, inputs, enabled):
    """An auxiliary result, its tensors without the variables where nobody can ask for them."""
    leaves, structure = flatten(tree)
    targets = set(inputs.nodes)

    def released(x):
        if not isinstance(x, Tensor) or x.node is None:
            return x
        if enabled and leading_to([x.node], targets)[1]:
            return x
        return x.detach()

    return unflatten(structure, [released(x) for x in leaves])


def is_floating(x):
    return isdtype(x.dtype, ("real floating", "complex floating"))


def is_complex(x):
    return isdtype(x.dtype, "complex floating")


# Tangents and cotangents meet the graph behind all levels of vmap that were there when it was
# recorded. Levels entered since are not in the graph: to a sweep these are a batch of tangents.


def inward(t, levels):
    """A tangent or cotangent as the graph's nodes have it."""
    newer = [level for level in levels_of(t) if level not in levels]
    t = physical(lifted(t, (*levels, *newer)))
    first = tuple(range(len(newer)))
    if levels and newer:
        t = moveaxis(t, tuple([len(levels) + i for i in first]), first)
    return behind(t, newer)


def outward(t, levels):
    """Back from there."""
    newer = levels_of(t)
    t = physical(t)
    if levels and newer:
        first = tuple(range(len(newer)))
        t = moveaxis(t, first, tuple([len(levels) + i for i in first]))
    return behind(t, (*levels, *newer))


def checked(transform, what, leaves, structure, expected, expected_structure, labels):
    """Leaves of tangents or cotangents as Tensors, each like what is expected; None for integers'.

    expected: `Like`s.
    """
    if not same(structure, expected_structure):
        raise ValueError(
            f"{transform}: the {what} must have the structure {expected_structure}, not {structure}"
        )
    result = []
    for t, x, label in zip(leaves, expected, labels, strict=True):
        if not is_floating(x):
            result.append(None)
            continue
        t = as_tensor(t, f"{transform}: the {what} of {label}")
        if t.shape != x.shape:
            raise ValueError(
                f"{transform}: the {what} of {label} must have its shape {x.shape}, not {t.shape}"
            )
        if is_complex(t) and not is_complex(x):
            raise TypeError(
                f"{transform}: the {what} of {label} must be real as that is, not {t.dtype}"
            )
        result.append(t.to(x.device).to(x.dtype) if t.dtype != x.dtype else t)
    return result


def same(structure1, structure2):
    return structure1 == structure2 or structure2 == structure1


def arguments(transform, f, argnums):
    """A function from positional and keyword arguments to those that ``argnums`` chooses.

    It returns their values, their labels, and a function that puts other values in their place.
    """
    single = isinstance(argnums, (int, str))
    chosen = (argnums,) if single else tuple(argnums)
    try:
        parameters = list(signature(f).parameters)
    except (TypeError, ValueError):
        parameters = []
    if not chosen or not all(isinstance(a, (int, str)) for a in chosen):
        raise TypeError(
            f"{transform}: argnums must be an int or a parameter's name, or a tuple of these, "
            f"not {argnums!r}"
        )

    def places(args, kwargs):
        for a in chosen:
            if isinstance(a, str):
                if a in kwargs:
                    yield a, a
                    continue
                if a not in parameters or parameters.index(a) >= len(args):
                    raise TypeError(
                        f"{transform}: argnums names {a!r}, but no such argument is given"
                    )
                yield parameters.index(a), a
            else:
                i = a + len(args) if a < 0 else a
                if not 0 <= i < len(args):
                    raise TypeError(
                        f"{transform}: argnums is {a}, but {len(args)} positional arguments are "
                        f"given; arguments passed by name are chosen by name"
                    )
                yield i, parameters[i] if i < len(parameters) else f"args[{i}]"

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


def callable_or_error(transform, f):
    if not callable(f):
        raise TypeError(f"{transform}: f must be a function, not {describe(f)}")
