"""Ops that change shape, order, dtype or device, and keep the values."""

import math
from functools import lru_cache
from operator import index
from typing import Any

from .._arguments import axis_of, one_of, whole
from .._batched import equally, shifted
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from ..autograd.operation import composite, op
from ..autograd.sweep import filled
from ..backends import as_shape, backend_of, is_on, transfer
from .by_name import library_function


def normalized_axes(axis, ndim):
    """The axis or axes as a tuple of non-negative ints. Raises IndexError or ValueError."""
    given = tuple(map(index, axis)) if isinstance(axis, tuple) else (index(axis),)
    positions = tuple([a + ndim if a < 0 else a for a in given])
    if any(not 0 <= a < ndim for a in positions):
        raise IndexError(f"axis {axis} is out of range for {ndim} axes")
    if len({*positions}) < len(positions):
        raise ValueError(f"axis {axis} names an axis twice")
    return positions


def sliced(x, axis, *bounds):
    """``x[start:stop]`` along an axis; with one bound, ``x[:stop]``."""
    # The array API standard does not define slices that reach beyond the ends.
    part = slice(*slice(*bounds).indices(x.shape[axis]))
    return x[(slice(None),) * (axis % len(x.shape)) + (part, ...)]


def vmap_over_axis(call, batched, *inputs, axis, **static):
    """Batching rule for ops along one axis, several, or all (None)."""
    axis = shifted(call.op, axis, len(inputs[0].shape) - batched[0])
    return call(*equally(batched, inputs), axis=axis, **static)


def vmap_unchanged(call, batched, *inputs, **static):
    """Batching rule for ops that ignore the first axes of their inputs."""
    return call(*equally(batched, inputs), **static)


def vmap_matrices(call, batched, x, **static):
    """Batching rule for ops on the last two axes."""
    if len(x.shape) < 3:
        raise ValueError(f"x needs at least 2 axes, not shape {x.shape[1:]}")
    return call(x, **static)


def _require_matrices(x):
    """Return ``x``; raise ValueError unless it has at least two axes."""
    if len(x.shape) < 2:
        raise ValueError(f"x needs at least 2 axes, not shape {x.shape}")
    return x


def _same_tangent(xp, t):
    return t  # the forward sweep gives it the shape and dtype of the result


@op
def reshape(xp, x, /, shape, *, copy=None):
    """The elements, in row-major order, with another ``shape``; one length of -1 is inferred."""
    return xp.reshape(x, shape if isinstance(shape, tuple) else as_shape(shape), copy=copy)


reshape.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape)).jvp(x=_same_tangent)


def _reshape_vmap(call, batched, x, shape, copy):
    shape = as_shape(shape)
    rest = math.prod(shape)
    if -1 in shape and rest:
        inferred = math.prod(x.shape[1:]) // -rest
        shape = tuple([inferred if n == -1 else n for n in shape])
    return call(x, (x.shape[0], *shape), copy=copy)


reshape.vmap(_reshape_vmap)


@op
def permute_dims(xp, x, /, axes):
    """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""
    return xp.permute_dims(x, tuple(axes))


def _permute_dims_vjp(xp, g, axes):
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return xp.permute_dims(g, tuple(inverse))


permute_dims.vjp(x=_permute_dims_vjp).jvp("x").vmap(
    lambda call, batched, x, axes: call(x, (0, *shifted(call.op, tuple(axes), len(x.shape) - 1)))
)


@op
def moveaxis(xp, x, /, source, destination):
    """The axes at ``source``, an int or a tuple, moved to ``destination``; others stay in order."""
    return xp.permute_dims(x, _moved_axes(len(x.shape), source, destination))


@lru_cache(256)
def _moved_axes(ndim, source, destination):
    """For each axis of the result, its position before the move."""
    source, destination = normalized_axes(source, ndim), normalized_axes(destination, ndim)
    axes = [a for a in range(ndim) if a not in source]
    for to, a in sorted(zip(destination, source, strict=True)):
        axes.insert(to, a)
    return tuple(axes)


def _moveaxis_vjp(xp, g, source, destination):
    return xp.permute_dims(g, _moved_axes(len(g.shape), destination, source))


def _moveaxis_vmap(call, batched, x, source, destination):
    ndim = len(x.shape) - 1
    return call(x, shifted(call.op, source, ndim), shifted(call.op, destination, ndim))


moveaxis.vjp(x=_moveaxis_vjp).jvp("x").vmap(_moveaxis_vmap)


@library_function(vmap=vmap_over_axis)
def flip(x, /, *, axis=None):
    """The elements in reverse order along one axis, several (a tuple) or all (None)."""


flip.vjp(x=lambda xp, g, axis: xp.flip(g, axis=axis)).jvp("x")


@op
def roll(xp, x, /, shift, axis=None):
    """The elements shifted by ``shift`` places towards larger indices; the last ones wrap around.

    For a tuple of axes, ``shift`` is a tuple, or an int that applies to all of them. Without
    axes, the elements are shifted in row-major order. Several shifts along one axis add up.
    """
    return xp.roll(x, _along_axes(shift, axis), axis=axis)


def _along_axes(shift, axis):
    several = isinstance(shift, tuple) and not isinstance(axis, tuple)
    return sum(shift) if several else shift


def _roll_vjp(xp, g, shift, axis):
    shift = _along_axes(shift, axis)
    back = tuple([-s for s in shift]) if isinstance(shift, tuple) else -shift
    return xp.roll(g, back, axis=axis)


def _roll_vmap(call, batched, x, shift, axis):
    if axis is None:
        flat = reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        return reshape(call(flat, shift, axis=1), x.shape)
    return call(x, shift, axis=shifted(call.op, axis, len(x.shape) - 1))


roll.vjp(x=_roll_vjp).jvp("x").vmap(_roll_vmap)


@op
def broadcast_to(xp, x, /, shape):
    """``x`` repeated along new leading axes and along axes of length 1."""
    return xp.broadcast_to(x, as_shape(shape))


def _broadcast_to_vmap(call, batched, x, shape):
    size, *own = x.shape
    shape = as_shape(shape)
    return call(reshape(x, (size, *[1] * (len(shape) - len(own)), *own)), (size, *shape))


# The sweep sums g to the shape of x.
broadcast_to.vjp(x=lambda xp, g: g).jvp(x=_same_tangent).vmap(_broadcast_to_vmap)


def broadcast_shapes(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The shape that arrays of these shapes broadcast to; an unknown length (None) stays unknown.

    Raises ValueError for shapes that do not broadcast.
    """
    result: list[int | None] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i, n in enumerate(shape, len(result) - len(shape)):
            if result[i] == 1:
                result[i] = n
            elif n is None:
                result[i] = None
            elif n not in (1, result[i]) and result[i] is not None:
                raise ValueError(
                    f"broadcast_shapes: {', '.join(map(str, shapes))} do not broadcast"
                )
    return tuple(result)


@composite
def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """The arrays, all broadcast to their common shape."""
    shape = broadcast_shapes(*[getattr(x, "shape", ()) for x in arrays])
    return tuple([broadcast_to(x, shape) for x in arrays])


@composite
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinates of the points of a grid, given those along each axis: one array per input.

    indexing: with ``"ij"``, array i runs along axis i; with ``"xy"``, the first two are swapped.
    """
    one_of("meshgrid: indexing", indexing, ("xy", "ij"))
    axes = list(range(len(arrays)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    shapes = [(-1, *[1] * (len(axes) - axis - 1)) for axis in axes]
    return broadcast_arrays(*map(reshape, arrays, shapes))


@library_function(vmap=vmap_over_axis)
def squeeze(x, /, axis):
    """``x`` without the given axis or axes, which must have length 1."""


squeeze.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape)).jvp(x=_same_tangent)


@op
def expand_dims(xp, x, /, axis):
    """``x`` with a new axis of length 1 at position ``axis`` of the result, an int or a tuple."""
    ndim = len(x.shape) + (len(axis) if isinstance(axis, tuple) else 1)
    new = normalized_axes(axis, ndim)
    lengths = iter(x.shape)
    return xp.reshape(x, tuple([1 if a in new else next(lengths) for a in range(ndim)]))


expand_dims.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape)).jvp(x=_same_tangent)


def _expand_dims_vmap(call, batched, x, axis):
    more = len(axis) if isinstance(axis, tuple) else 1
    return call(x, shifted(call.op, axis, len(x.shape) - 1 + more))


expand_dims.vmap(_expand_dims_vmap)


@op
def concat(xp, *arrays, axis=0):
    """The arrays of a sequence joined along an existing axis; None flattens the arrays first."""
    return xp.concat(arrays, axis=axis)


def _concat_vjp(xp, g, arrays_shape, axis):
    pieces, start = [], 0
    for shape in arrays_shape:
        stop = start + (math.prod(shape) if axis is None else shape[axis])
        if axis is None:
            pieces.append(xp.reshape(g[start:stop], shape))
        else:
            pieces.append(g[(slice(None),) * (axis % len(shape)) + (slice(start, stop), ...)])
        start = stop
    return pieces


concat.vjp(arrays=_concat_vjp)
concat.jvp(arrays=lambda xp, ts, arrays_shape, axis: xp.concat(filled(ts, arrays_shape), axis=axis))


def _concat_vmap(call, batched, *arrays, axis):
    arrays = equally(batched, arrays)
    if axis is None:
        arrays, axis = [reshape(x, (x.shape[0], math.prod(x.shape[1:]))) for x in arrays], 0
    return call(arrays, axis=shifted(call.op, axis, len(arrays[0].shape) - 1))


concat.vmap(_concat_vmap)


@op
def stack(xp, *arrays, axis=0):
    """The arrays of a sequence, all of the same shape, joined along a new axis."""
    return xp.stack(arrays, axis=axis)


# The shapes are for the rule for tangents.
stack.vjp(arrays=lambda xp, g, arrays_shape, axis: xp.unstack(g, axis=axis))
stack.jvp(arrays=lambda xp, ts, arrays_shape, axis: xp.stack(filled(ts, arrays_shape), axis=axis))


def _stack_vmap(call, batched, *arrays, axis):
    arrays = equally(batched, arrays)
    return call(arrays, axis=shifted(call.op, axis, len(arrays[0].shape)))


stack.vmap(_stack_vmap)


@library_function(discards=True, vmap=vmap_over_axis)
def unstack(x, /, *, axis=0):
    """The slices along an axis, as a tuple of arrays."""


unstack.vjp(x=lambda xp, g, axis: xp.stack(g, axis=axis))


@op(discards=True, vmap=vmap_over_axis)
def split(xp, x, /, indices_or_sections, axis=0):
    """Pieces of ``x`` along ``axis``, as a tuple.

    indices_or_sections: the number of pieces, all of the same length; or the ascending positions
        at which to split, so that ``(2, 5)`` gives ``x[:2]``, ``x[2:5]`` and ``x[5:]``.

    This is NumPy's function. PyTorch's of this name takes lengths: its ``split(x, 3)``, pieces of
    length 3, is ``split(x, range(3, n, 3))``. See also `chunk`. Raises ValueError if the pieces
    would not have the same length, or overlap.
    """
    n = x.shape[normalized_axes(axis, len(x.shape))[0]]
    if isinstance(indices_or_sections, (tuple, list, range)):
        stops = [min(i + n if i < 0 else i, n) for i in map(index, indices_or_sections)]
        if sorted(stops) != stops or min(stops, default=0) < 0:
            raise ValueError(
                f"the positions {indices_or_sections} must ascend within an axis of {n}"
            )
    else:
        count = index(indices_or_sections)
        if count < 1 or n % count:
            raise ValueError(
                f"an axis of length {n} does not split into {count} pieces of the same length; "
                f"use chunk, or give positions"
            )
        stops = list(range(n // count, n, n // count)) if n else [0] * (count - 1)
    before = (slice(None),) * (axis % len(x.shape))
    bounds = zip([0, *stops], [*stops, n], strict=True)
    return tuple([x[(*before, slice(start, stop), ...)] for start, stop in bounds])


split.vjp(x=lambda xp, g, axis: xp.concat(g, axis=axis))


@composite
@explains_arguments
def chunk(x, /, chunks, axis=0):
    """At most ``chunks`` pieces of ``x`` along ``axis``, as a tuple; the last one may be shorter.

    As in PyTorch, all others have the length of the axis over ``chunks``, rounded up, so that
    there may be fewer. `split` gives pieces of the same length, or between positions.
    """
    chunks = whole("chunk: chunks", chunks, 1)
    n = x.shape[axis_of("chunk", axis, len(x.shape))]
    step = max(-(-n // chunks), 1)
    return split(x, range(step, n, step), axis)


@op(integer=("repeats",), discards=True)
def repeat(xp, x, repeats, /, axis=None):
    """Each element ``repeats`` times in a row along ``axis``; None flattens the array first.

    repeats: an int, or an array of integers (n,), one for each position along the axis.
    """
    if not hasattr(repeats, "dtype"):
        repeats = index(repeats)
    return xp.repeat(x, repeats, axis=axis)


def _repeat_vjp(xp, g, x_shape, repeats, axis):
    shape, axis = ((math.prod(x_shape),), 0) if axis is None else (x_shape, axis)
    (axis,) = normalized_axes(axis, len(shape))
    before, n, after = shape[:axis], shape[axis], shape[axis + 1 :]
    if isinstance(repeats, int) or math.prod(repeats.shape) == 1:
        g = xp.reshape(g, (*before, n, g.shape[axis] // max(n, 1), *after))
        return xp.reshape(xp.sum(g, axis=axis + 1), x_shape)
    places = xp.cumulative_sum(xp.ones_like(xp.astype(repeats, xp.int64)), axis=0) - 1
    origins = xp.reshape(xp.repeat(places, repeats), (*[1] * len(before), -1, *[1] * len(after)))
    return xp.reshape(xp.add_along_axis(g, origins, shape, axis), x_shape)


def _repeat_vmap(call, batched, x, repeats, axis):
    if batched[1]:
        return NotImplemented
    if axis is None:
        x, axis = reshape(x, (x.shape[0], math.prod(x.shape[1:]))), 0
    return call(x, repeats, axis=shifted(call.op, axis, len(x.shape) - 1))


repeat.vjp(x=_repeat_vjp).jvp("x").vmap(_repeat_vmap)


@composite
def tile(x, /, repetitions):
    """The whole array repeated ``repetitions[i]`` times along axis i; the shorter of ``x.shape``
    and ``repetitions`` is extended by ones in front."""
    counts, shape = as_shape(repetitions), tuple(x.shape)
    ndim = max(len(counts), len(shape))
    counts, shape = ((1,) * (ndim - len(ns)) + ns for ns in (counts, shape))
    pairs = [n for pair in zip(counts, shape, strict=True) for n in pair]
    once = reshape(x, tuple([n for length in shape for n in (1, length)]))
    whole = tuple([k * n for k, n in zip(counts, shape, strict=True)])
    return reshape(broadcast_to(once, tuple(pairs)), whole)


@op(discards=True, vmap=vmap_matrices)
def tril(xp, x, /, *, k=0):
    """Matrices (..., m, n) with zeros above the diagonal ``k`` places above the main diagonal."""
    return xp.tril(_require_matrices(x), k=k)


tril.vjp(x=lambda xp, g, k: xp.tril(g, k=k)).jvp("x")


@op(discards=True, vmap=vmap_matrices)
def triu(xp, x, /, *, k=0):
    """Matrices (..., m, n) with zeros below the diagonal ``k`` places above the main diagonal."""
    return xp.triu(_require_matrices(x), k=k)


triu.vjp(x=lambda xp, g, k: xp.triu(g, k=k)).jvp("x")


@composite
def astype(x: Any, /, dtype: Any, *, copy: bool = True, device: str | None = None) -> Any:
    """The values in another dtype, and on another device if one is given.

    The gradient is cast back; an integer result carries none. Casting complex numbers to real
    ones raises TypeError, except to bool: use ``real``, ``imag`` or ``abs``.

    copy: False to return ``x`` itself if it already has that dtype and device.
    """
    if not isinstance(x, Tensor) and type(x) in backend_of:
        x = backend_of[type(x)].asarray(x)  # a number of NumPy's, which its functions take
    if device is not None:
        moved = x if is_on(getattr(x, "_like", x), device) else to_device(x, device)
        copy = copy and moved is x
        x = moved
    if not copy and isinstance(x, Tensor) and x.dtype == backend_of[type(x._like)].dtype(dtype):
        return x
    return _astype(x, dtype, copy=copy)


def target_dtype(array, dtype):
    """``dtype`` as the raw array's library has it. Raises TypeError for complex to real."""
    backend = backend_of[type(array)]
    dtype = backend.dtype(dtype)
    real = "integral", "real floating"
    if backend.is_complex(array.dtype) and backend.xp.isdtype(dtype, real):
        raise TypeError(
            f"{array.dtype} to {dtype} would drop the imaginary part; "
            f"use real(x), imag(x) or abs(x)"
        )
    return dtype


@op(vmap=vmap_unchanged)
def _astype(xp, x, /, dtype, *, copy):
    return xp.astype(x, target_dtype(x, dtype), copy=copy)


_astype.vjp(x=lambda xp, g: g).jvp(x=_same_tangent)  # the sweep casts g to the dtype of x


@op(vmap=vmap_unchanged)
def to_device(xp, x, /, device):
    """The values on another device, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""
    return transfer(x, device)


to_device.vjp(x=lambda xp, g, x_device: xp.to_device(g, x_device))
