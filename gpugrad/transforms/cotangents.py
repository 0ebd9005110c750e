"""Tangents and cotangents as a user's function sees them, and as they go through the graph."""

from typing import Any, NamedTuple

from .._arguments import is_complex, require
from .._batched import behind, levels_of, physical
from .._tensor import Tensor
from ..autograd.call import wrap
from ..backends import SCALARS, backend_of
from ..ops.manipulation import broadcast_to, permute_dims
from .trees import as_tensor, flatten, shown


class Like(NamedTuple):
    """What a tangent or cotangent must have in common with its tensor."""

    shape: tuple[int, ...]
    dtype: Any
    device: str
    backend: Any


def like(x):
    return Like(x.shape, x.dtype, x.device, backend_of[type(x._like)])


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
