"""`vmap`: a function of one example, called once for all examples."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from .._batched import BatchedTensor, batched, entered, examples
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from .._typing import P, R
from ..ops.manipulation import moveaxis
from .arguments import callable_or_error, counted, misplaced, parameters
from .trees import as_tensor, flatten, grouped, names, spread, unflatten


@explains_arguments
def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """Vectorize a function of one example: ``f`` is called once, for all examples together.

    in_axes: the axis of the arguments along which the examples lie, or None for an argument
        that all examples share. Either one int or None for all positional arguments, or a
        tuple with an element for each; an element may be nested like its argument, and may
        stop above several leaves. Keyword arguments have their examples along axis 0.
    out_axes: likewise the axis of the results along which to put the examples; None for a
        result that is the same for all.

    Inside ``f`` a tensor has the shape of one example, and its values cannot be inspected, so
    branches on values have to become `where`. Random numbers are drawn for each example
    separately. Each op runs its batching rule; an op without one (a user's op that is not
    elementwise) runs once for each example. Calls of vmap nest, and combine with all other
    transforms in either order. ``f`` may change only its own tensors in place: a tensor from
    outside would belong to this vmap after it has ended.

    Raises ValueError, naming the arguments, for axes that do not fit or differ in length.

    >>> import gpugrad as gg
    >>> x = gg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> gg.vmap(lambda row: row @ row)(x)
    tensor([ 5., 25.])
    """
    callable_or_error("vmap", f)
    is_one = in_axes is None or isinstance(in_axes, int)
    if not is_one and not isinstance(in_axes, (tuple, list)):
        raise TypeError(
            f"vmap: in_axes must be an int, None, or a tuple with an element for each positional "
            f"argument, not {misplaced('vmap', in_axes)}"
        )
    label, _ = parameters(f)

    @wraps(f, updated=())
    def mapped(*args, **kwargs):
        inputs = _Mapped()
        each = (in_axes,) * len(args) if is_one else in_axes
        if len(each) != len(args):
            raise ValueError(
                f"vmap: in_axes {each!r} has {counted(len(each), 'element')}, but the call has "
                f"{counted(len(args), 'positional argument')}"
            )
        for i, (x, axes) in enumerate(zip(args, each, strict=True)):
            inputs.add(x, axes, label(i))
        for name, x in kwargs.items():
            inputs.add(x, 0, name, _BY_NAME)
        with entered(inputs.size()) as level:
            values = inputs.examples(level)
            n = len(args)
            result = f(*values[:n], **dict(zip(kwargs, values[n:], strict=True)))
            leaves, structure = flatten(result, none_is_leaf=True)
            axes = spread(out_axes, result, ("vmap: out_axes", "the result"))
            named = [_Name(structure, "the result", i) for i in range(len(leaves))]
            outer = [_out(*of, level) for of in zip(leaves, axes, named, strict=True)]
        return unflatten(structure, outer)

    return mapped


_BY_NAME = (
    "arguments given by name have their examples along axis 0; bind what all share beforehand, "
    "by functools.partial"
)


class _Name(NamedTuple):
    """A leaf's name in errors, looked up only when one is shown, because that is slow."""

    structure: Any
    label: str
    place: int

    def __str__(self):
        return names(self.structure, self.label)[self.place]


class _Mapped:
    """The leaves of the arguments; mapped leaves have their examples along the first axis.

    lengths: from each number of examples found to the name of the first leaf that has it.
    """

    def __init__(self):
        self.leaves, self.mapped, self.structures, self.lengths = [], [], [], {}

    def add(self, tree, axes, label, hint="give None in in_axes for what all examples share"):
        leaves, structure = flatten(tree, none_is_leaf=True)
        self.structures.append(structure)
        axes = spread(axes, tree, ("vmap: in_axes", f"argument {label}"))
        for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
            is_mapped = x is not None and axis is not None
            self.mapped.append(is_mapped)
            name = _Name(structure, label, i)
            self.leaves.append(self._front(x, axis, name, hint) if is_mapped else x)

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
        pairs = zip(self.leaves, self.mapped, strict=True)
        return grouped(self.structures, [batched(x, level) if b else x for x, b in pairs])


def _out(y, axis, name, level):
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
