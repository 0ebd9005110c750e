"""`vmap`: a function of one example, called once for all."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..batched import batched, entered, examples
from ..ops.manipulation import moveaxis
from .recording import callable_or_error
from .trees import as_tensor, flatten, names, spread, unflatten


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function of one example made one of many: ``f`` is called once, its ops do all.

    in_axes: along which axis of the arguments the examples lie, or None for an argument that
        all share. An int or None for all positional arguments, or a tuple with an element for
        each, which may be nested as the argument is, or stop above several leaves.
        Arguments given by name have their examples along axis 0.
    out_axes: likewise where the results get theirs; None for a result that is the same for all.

    Inside, a tensor has the shape of one example, and no values that a program could look at:
    branches on them become `where`. A random number is drawn for each example. Ops run their
    rule for a batch; one that has none (a user's, if not elementwise) once for each example.
    Calls of vmap nest, and go into and around all other transforms.

    Raises ValueError for axes that do not fit the arguments, or differ in length, naming them.

    >>> import gpugrad as gg
    >>> x = gg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> gg.vmap(lambda row: row @ row)(x)
    tensor([ 5., 25.])
    """
    callable_or_error("vmap", f)

    @wraps(f)
    def mapped(*args, **kwargs):
        leaves, structure = flatten(args, none_is_leaf=True)
        more, more_structure = flatten(kwargs, none_is_leaf=True)
        axes = spread(_for_each(in_axes, args), args, "vmap: in_axes")
        labels = names(structure, "args") + names(more_structure, "kwargs")
        axes = [*axes, *(None if x is None else 0 for x in more)]
        leaves, labels = _moved_to_front([*leaves, *more], axes, labels)
        size = _size(leaves, axes, labels)
        with entered(size) as level:
            inner = [
                x if axis is None else batched(x, level)
                for x, axis in zip(leaves, axes, strict=True)
            ]
            n = structure.num_leaves
            inner_args = unflatten(structure, inner[:n])
            result = f(*inner_args, **unflatten(more_structure, inner[n:]))
            results, out_structure = flatten(result, none_is_leaf=True)
            out = spread(out_axes, result, "vmap: out_axes")
            labels = names(out_structure, "the result")
            outer = [
                _out(y, axis, level, label)
                for y, axis, label in zip(results, out, labels, strict=True)
            ]
        return unflatten(out_structure, outer)

    return mapped


def _for_each(in_axes, args):
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            f"vmap: in_axes {in_axes!r} has {len(in_axes)} elements for {len(args)} positional "
            f"arguments"
        )
    return in_axes


def _moved_to_front(leaves, axes, labels):
    """The mapped leaves as Tensors, the examples along their first axis; and all labels."""
    moved = []
    for x, axis, label in zip(leaves, axes, labels, strict=True):
        if axis is None:
            moved.append(x)
            continue
        if type(axis) is not int:
            raise TypeError(f"vmap: the axis of {label} must be an int or None, not {axis!r}")
        x = as_tensor(x, f"vmap: {label}, which in_axes maps along axis {axis},")
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(
                f"vmap: {label} has shape {x.shape} and no axis {axis}, which in_axes names; "
                f"use None for what all examples share"
            )
        moved.append(moveaxis(x, axis, 0) if axis else x)
    return moved, labels


def _size(leaves, axes, labels):
    sizes = {
        label: x.shape[0]
        for x, axis, label in zip(leaves, axes, labels, strict=True)
        if axis is not None
    }
    if not sizes:
        raise ValueError("vmap: in_axes maps no argument; at least one must have an axis")
    if len({*sizes.values()}) > 1:
        listed = ", ".join(f"{n} along that of {label}" for label, n in sizes.items())
        raise ValueError(f"vmap: the axes that in_axes names have different lengths: {listed}")
    return next(iter(sizes.values()))


def _out(y, axis, level, label):
    if y is None:
        return None
    y = as_tensor(y, f"vmap: {label}")
    if axis is None:
        if getattr(y, "level", None) is level:
            raise ValueError(
                f"vmap: out_axes is None for {label}, but it differs between examples; give an axis"
            )
        return y
    y = examples(y, level)
    if not -y.ndim <= axis < y.ndim:
        raise ValueError(f"vmap: out_axes {axis} is no axis of {label}, of shape {y.shape}")
    return moveaxis(y, 0, axis) if axis else y
