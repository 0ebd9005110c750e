"""`vmap`: a function of one example, called once for all."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from .._typing import P, R
from ..batched import BatchedTensor, batched, entered, examples
from ..ops.manipulation import moveaxis
from ..tensor import Tensor
from .recording import callable_or_error, counted, misplaced, parameters
from .trees import as_tensor, flatten, grouped, names, spread, unflatten


def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """A function of one example made one of many: ``f`` is called once, its ops do all.

    in_axes: along which axis of the arguments the examples lie, or None for an argument that
        all share. An int or None for all positional arguments, or a tuple with an element for
        each, which may be nested as the argument is, or stop above several leaves.
        Arguments given by name have their examples along axis 0.
    out_axes: likewise where the results get theirs; None for a result that is the same for all.

    Inside, a tensor has the shape of one example, and no values that a program could look at:
    branches on them become `where`. A random number is drawn for each example. Ops run their
    rule for a batch; one that has none (a user's, if not elementwise) once for each example.
    Calls of vmap nest, and go into and around all other transforms. What ``f`` changes in place
    must be its own: a tensor from outside would be of a vmap that has ended afterwards.

    Raises ValueError for axes that do not fit the arguments, or differ in length, naming them.

    >>> import gpugrad as gg
    >>> x = gg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> gg.vmap(lambda row: row @ row)(x)
    tensor([ 5., 25.])
    """
    callable_or_error("vmap", f)
    if in_axes is not None and not isinstance(in_axes, (int, tuple, list)):
        raise TypeError(
            f"vmap: in_axes must be an int, None, or a tuple with an element for each positional "
            f"argument, not {misplaced('vmap', in_axes)}"
        )
    label, _ = parameters(f)

    @wraps(f, updated=())
    def mapped(*args, **kwargs):
        inputs = _Mapped()
        for i, (x, axes) in enumerate(zip(args, _for_each(in_axes, args), strict=True)):
            inputs.add(x, axes, label(i))
        for name, x in kwargs.items():
            inputs.add(x, 0, name, _BY_NAME)
        with entered(inputs.size()) as level:
            values = inputs.examples(level)
            n = len(args)
            result = f(*values[:n], **dict(zip(kwargs, values[n:], strict=True)))
            leaves, structure = flatten(result, none_is_leaf=True)
            axes = spread(out_axes, result, ("vmap: out_axes", "the result"))
            outer = [
                _out(y, axis, level, _Name(structure, "the result", i))
                for i, (y, axis) in enumerate(zip(leaves, axes, strict=True))
            ]
        return unflatten(structure, outer)

    return mapped


_BY_NAME = (
    "arguments given by name have their examples along axis 0; bind what all share beforehand, "
    "by functools.partial"
)


def _for_each(in_axes, args):
    """The elements of ``in_axes``, one for each positional argument."""
    if in_axes is None or isinstance(in_axes, int):
        return (in_axes,) * len(args)
    if len(in_axes) != len(args):
        raise ValueError(
            f"vmap: in_axes {in_axes!r} has {counted(len(in_axes), 'element')}, but the call has "
            f"{counted(len(args), 'positional argument')}"
        )
    return in_axes


class _Name(NamedTuple):
    """What a leaf is called, found when an error is shown: it takes a while."""

    structure: Any
    label: str
    place: int

    def __str__(self):
        return names(self.structure, self.label)[self.place]

    def __format__(self, spec):
        return str(self)


class _Mapped:
    """The leaves of the arguments, the examples of those that are mapped along their first axis.

    lengths: how many examples there are, by the name of a leaf that has as many.
    """

    def __init__(self):
        self.leaves, self.mapped, self.structures, self.lengths = [], [], [], {}

    def add(self, tree, axes, label, hint="give None in in_axes for what all examples share"):
        leaves, structure = flatten(tree, none_is_leaf=True)
        self.structures.append(structure)
        axes = spread(axes, tree, ("vmap: in_axes", f"argument {label}"))
        for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
            if x is None:
                axis = None
            if axis is not None:
                x = self._front(x, axis, _Name(structure, label, i), hint)
            self.leaves.append(x)
            self.mapped.append(axis is not None)

    def _front(self, x, axis, name, hint):
        if type(axis) is not int:
            raise TypeError(f"vmap: the axis of {name} must be an int or None, not {axis!r}")
        if type(x) is not Tensor:
            x = as_tensor(x, f"vmap: argument {name} ({hint})")
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(
                f"vmap: argument {name} has shape {x.shape} and no axis {axis}; {hint}"
            )
        self.lengths.setdefault(x.shape[axis], name)
        return moveaxis(x, axis, 0) if axis else x

    def size(self):
        if not self.lengths:
            raise ValueError("vmap: in_axes maps no argument; at least one must have an axis")
        if len(self.lengths) > 1:
            listed = ", ".join(f"{n} in {name}" for n, name in self.lengths.items())
            raise ValueError(f"vmap: the axes that in_axes names have different lengths: {listed}")
        return next(iter(self.lengths))

    def examples(self, level):
        """The arguments as one example sees them."""
        leaves = [
            batched(x, level) if b else x for x, b in zip(self.leaves, self.mapped, strict=True)
        ]
        return grouped(self.structures, leaves)


def _out(y, axis, level, name):
    if y is None:
        return None
    if type(y) is not BatchedTensor or y.level is not level:
        y = as_tensor(y, f"vmap: {name}")
    if axis is None:
        if getattr(y, "level", None) is level:
            raise ValueError(
                f"vmap: out_axes is None for {name}, but it differs between examples; give an axis"
            )
        return y
    if type(axis) is not int:
        raise TypeError(f"vmap: out_axes for {name} must be an int or None, not {axis!r}")
    y = examples(y, level)
    if not -y.ndim <= axis < y.ndim:
        raise ValueError(
            f"vmap: out_axes is {axis} for {name}, which with the axis of examples has {y.ndim} "
            f"axes"
        )
    return moveaxis(y, 0, axis) if axis else y
