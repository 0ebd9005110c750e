"""Shape, dtype and device: the same values, differently laid out."""

import math
from functools import lru_cache
from operator import index
from typing import Any

from ..autograd import sweep
from ..autograd.operation import composite, op
from ..backends import as_shape, backend_of, is_on, transfer
from ..batched import equally, shifted
from ..tensor import Tensor


def _axes(axis, ndim):
    """The positions that an axis or a tuple of axes names, from 0 up; IndexError, ValueError."""
    given = tuple(map(index, axis)) if isinstance(axis, tuple) else (index(axis),)
    positions = tuple([a + ndim if a < 0 else a for a in given])
    if any(not 0 <= a < ndim for a in positions):
        raise IndexError(f"axis {axis} is out of range for {ndim} axes")
    if len({*positions}) < len(positions):
        raise ValueError(f"axis {axis} names one twice")
    return positions


def over_axis(call, batched, x, axis, **static):
    """The batching rule of what goes over an axis, several, or all of them (None)."""
    return call(x, axis=shifted(call.op, axis, len(x.shape) - 1), **static)


def as_they_are(call, batched, x, **static):
    """The batching rule of what minds neither shape nor axes."""
    return call(x, **static)


def examples_of_matrices(call, batched, x, **static):
    """The batching rule of what goes over the last two axes."""
    if len(x.shape) < 3:
        raise ValueError(f"{call.op.name}: x needs 2 axes, but its shape is {x.shape[1:]}")
    return call(x, **static)


def _matrices(x):
    """``x``, if it has the two axes of a matrix; else ValueError."""
    if len(x.shape) < 2:
        raise ValueError(f"x needs 2 axes, but its shape is {x.shape}")
    return x


def _tangent_itself(xp, t):
    return t  # the sweep gives it the result's shape and dtype


@op
def reshape(xp, x, /, shape, *, copy=None):
    """The elements in row-major order in another ``shape``; one -1 in it is inferred."""
    return xp.reshape(x, shape if isinstance(shape, tuple) else as_shape(shape), copy=copy)


reshape.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape))
reshape.jvp(x=_tangent_itself)


def _reshape_of_batch(call, batched, x, shape, copy):
    shape = as_shape(shape)
    rest = math.prod(shape)
    if -1 in shape and rest:
        known = math.prod(x.shape[1:]) // -rest
        shape = tuple([known if n == -1 else n for n in shape])
    return call(x, (x.shape[0], *shape), copy=copy)


reshape.vmap(_reshape_of_batch)


@op
def permute_dims(xp, x, /, axes):
    """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""
    return xp.permute_dims(x, tuple(axes))


def _permute_dims_vjp(xp, g, axes):
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return xp.permute_dims(g, tuple(inverse))


permute_dims.vjp(x=_permute_dims_vjp)
permute_dims.jvp(x=lambda xp, t, axes: xp.permute_dims(t, tuple(axes)))
permute_dims.vmap(
    lambda call, batched, x, axes: call(x, (0, *shifted(call.op, tuple(axes), len(x.shape) - 1)))
)


@op
def moveaxis(xp, x, /, source, destination):
    """The axes at ``source``, an int or a tuple, moved to ``destination``; the others in order."""
    return xp.permute_dims(x, _moved(len(x.shape), source, destination))


@lru_cache(256)
def _moved(ndim, source, destination):
    """For each axis of the result the one it was."""
    source, destination = _axes(source, ndim), _axes(destination, ndim)
    axes = [a for a in range(ndim) if a not in source]
    for to, a in sorted(zip(destination, source, strict=True)):
        axes.insert(to, a)
    return tuple(axes)


moveaxis.vjp(
    x=lambda xp, g, source, destination: xp.permute_dims(
        g, _moved(len(g.shape), destination, source)
    )
)
moveaxis.jvp(
    x=lambda xp, t, source, destination: xp.permute_dims(
        t, _moved(len(t.shape), source, destination)
    )
)


def _moveaxis_of_batch(call, batched, x, source, destination):
    ndim = len(x.shape) - 1
    return call(x, shifted(call.op, source, ndim), shifted(call.op, destination, ndim))


moveaxis.vmap(_moveaxis_of_batch)


@op
def flip(xp, x, /, *, axis=None):
    """In reverse order along an axis, several (a tuple), or all (None)."""
    return xp.flip(x, axis=axis)


flip.vjp(x=lambda xp, g, axis: xp.flip(g, axis=axis))
flip.jvp(x=lambda xp, t, axis: xp.flip(t, axis=axis))
flip.vmap(over_axis)


@op
def roll(xp, x, /, shift, axis=None):
    """Shifted by ``shift`` places towards larger indices, the last elements coming first.

    With a tuple of axes ``shift`` is an int for all or a tuple; without axes the elements are
    shifted in row-major order.
    """
    return xp.roll(x, shift, axis=axis)


def _roll_vjp(xp, g, shift, axis):
    back = tuple([-s for s in shift]) if isinstance(shift, tuple) else -shift
    return xp.roll(g, back, axis=axis)


roll.vjp(x=_roll_vjp)
roll.jvp(x=lambda xp, t, shift, axis: xp.roll(t, shift, axis=axis))


def _roll_of_batch(call, batched, x, shift, axis):
    if axis is None:
        flat = reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        return reshape(call(flat, shift, axis=1), x.shape)
    return call(x, shift, axis=shifted(call.op, axis, len(x.shape) - 1))


roll.vmap(_roll_of_batch)


@op
def broadcast_to(xp, x, /, shape):
    """``x`` repeated along new leading axes and along axes of length 1."""
    return xp.broadcast_to(x, as_shape(shape))


broadcast_to.vjp(x=lambda xp, g: g)  # the sweep sums it back
broadcast_to.jvp(x=_tangent_itself)


def _broadcast_to_of_batch(call, batched, x, shape):
    size, *own = x.shape
    shape = as_shape(shape)
    return call(reshape(x, (size, *[1] * (len(shape) - len(own)), *own)), (size, *shape))


broadcast_to.vmap(_broadcast_to_of_batch)


def broadcast_shapes(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The shape that arrays of these shapes broadcast to; lengths not known (None) stay so.

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
    """The arrays, each broadcast to the shape of all of them together."""
    shape = broadcast_shapes(*[getattr(x, "shape", ()) for x in arrays])
    return tuple([broadcast_to(x, shape) for x in arrays])


@composite
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinates of a grid from those along its axes: for each array one of the grid's shape.

    indexing: with ``"ij"`` array i runs along axis i, with ``"xy"`` the first two are swapped.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    axes = list(range(len(arrays)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    lengths = [0] * len(axes)
    for axis, x in zip(axes, arrays, strict=True):
        lengths[axis] = math.prod(x.shape)
    shape = tuple(lengths)
    return tuple([_along_axis(x, shape, axis) for axis, x in zip(axes, arrays, strict=True)])


@op
def _along_axis(xp, x, /, shape, axis):
    """The elements along an axis of ``shape``, repeated along the others."""
    return xp.broadcast_to(xp.reshape(x, (-1,) + (1,) * (len(shape) - axis - 1)), shape)


def _along_axis_vjp(xp, g, x_shape, axis):
    others = tuple([i for i in range(len(g.shape)) if i != axis])
    return xp.reshape(xp.sum(g, axis=others, dtype=g.dtype), x_shape)


_along_axis.vjp(x=_along_axis_vjp)


def _along_axis_of_batch(call, batched, x, shape, axis):
    size = x.shape[0]
    line = [1] * len(shape)
    line[axis] = math.prod(x.shape[1:])
    return broadcast_to(reshape(x, (size, *line)), (size, *shape))


_along_axis.vmap(_along_axis_of_batch)


@op
def squeeze(xp, x, /, axis):
    """Without the axes named, which must have length 1."""
    return xp.squeeze(x, axis=axis)


squeeze.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape))
squeeze.jvp(x=_tangent_itself)
squeeze.vmap(over_axis)


@op
def expand_dims(xp, x, /, axis):
    """With an axis of length 1 at position ``axis`` of the result, or at each one of a tuple."""
    ndim = len(x.shape) + (len(axis) if isinstance(axis, tuple) else 1)
    new = _axes(axis, ndim)
    lengths = iter(x.shape)
    return xp.reshape(x, tuple([1 if a in new else next(lengths) for a in range(ndim)]))


expand_dims.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape))
expand_dims.jvp(x=_tangent_itself)


def _expand_dims_of_batch(call, batched, x, axis):
    more = len(axis) if isinstance(axis, tuple) else 1
    return call(x, shifted(call.op, axis, len(x.shape) - 1 + more))


expand_dims.vmap(_expand_dims_of_batch)


@op
def concat(xp, *arrays, axis=0):
    """The arrays of a sequence joined along an existing axis; flattened first if it is None."""
    return xp.concat(arrays, axis=axis)


def _concat_vjp(xp, g, arrays_shape, axis):
    pieces, start = [], 0
    for shape in arrays_shape:
        if axis is None:
            length = math.prod(shape)
            pieces.append(xp.reshape(g[start : start + length], shape))
        else:
            length = shape[axis]
            key = [slice(None)] * len(shape)
            key[axis] = slice(start, start + length)
            pieces.append(g[tuple(key)])
        start += length
    return pieces


def _filled(ts, shapes):
    like = next(t for t in ts if t is not None)
    return [
        sweep.zeros(shape, like.dtype, like) if t is None else t
        for t, shape in zip(ts, shapes, strict=True)
    ]


concat.vjp(arrays=_concat_vjp)
concat.jvp(
    arrays=lambda xp, ts, arrays_shape, axis: xp.concat(_filled(ts, arrays_shape), axis=axis)
)


def _concat_of_batch(call, batched, *arrays, axis):
    arrays = equally(batched, arrays)
    if axis is None:
        arrays, axis = [reshape(x, (x.shape[0], math.prod(x.shape[1:]))) for x in arrays], 0
    return call(arrays, axis=shifted(call.op, axis, len(arrays[0].shape) - 1))


concat.vmap(_concat_of_batch)


@op
def stack(xp, *arrays, axis=0):
    """The arrays of a sequence, of one shape, joined along a new axis."""
    return xp.stack(arrays, axis=axis)


def _stack_vjp(xp, g, arrays_shape, axis):
    ndim = len(arrays_shape[0]) + 1
    key = [slice(None)] * ndim
    pieces = []
    for i in range(len(arrays_shape)):
        key[axis] = i
        pieces.append(g[tuple(key)])
    return pieces


stack.vjp(arrays=_stack_vjp)
stack.jvp(arrays=lambda xp, ts, arrays_shape, axis: xp.stack(_filled(ts, arrays_shape), axis=axis))


def _stack_of_batch(call, batched, *arrays, axis):
    arrays = equally(batched, arrays)
    return call(arrays, axis=shifted(call.op, axis, len(arrays[0].shape)))


stack.vmap(_stack_of_batch)


@op(discards=True)
def unstack(xp, x, /, *, axis=0):
    """The slices along an axis as a tuple of arrays."""
    return tuple(xp.unstack(x, axis=axis))


unstack.vjp(x=lambda xp, g, axis: xp.stack(g, axis=axis))
unstack.vmap(over_axis)


@op(integer=("repeats",), discards=True)
def repeat(xp, x, repeats, /, axis=None):
    """Each element ``repeats`` times in a row along an axis; without one, of the flattened array.

    repeats: an int, or an array of integers (n,), one for each place along the axis.
    """
    return xp.repeat(x, repeats, axis=axis)


def _repeat_vjp(xp, g, x_shape, repeats, axis):
    shape, axis = ((math.prod(x_shape),), 0) if axis is None else (x_shape, axis)
    (axis,) = _axes(axis, len(shape))
    before, n, after = shape[:axis], shape[axis], shape[axis + 1 :]
    if isinstance(repeats, int) or math.prod(repeats.shape) == 1:
        g = xp.reshape(g, (*before, n, g.shape[axis] // max(n, 1), *after))
        return xp.reshape(xp.sum(g, axis=axis + 1, dtype=g.dtype), x_shape)
    places = xp.cumulative_sum(xp.ones_like(xp.astype(repeats, xp.int64)), axis=0) - 1
    origins = xp.reshape(
        xp.repeat(places, repeats), (*(1 for _ in before), -1, *(1 for _ in after))
    )
    return xp.reshape(xp.add_along_axis(g, origins, shape, axis), x_shape)


repeat.vjp(x=_repeat_vjp)
repeat.jvp(x=lambda xp, t, repeats, axis: xp.repeat(t, repeats, axis=axis))


def _repeat_of_batch(call, batched, x, repeats, axis):
    if batched[1]:
        return NotImplemented
    if axis is None:
        x, axis = reshape(x, (x.shape[0], math.prod(x.shape[1:]))), 0
    return call(x, repeats, axis=shifted(call.op, axis, len(x.shape) - 1))


repeat.vmap(_repeat_of_batch)


@op
def tile(xp, x, /, repetitions):
    """The whole array ``repetitions[i]`` times along axis i; the shorter of shape and
    repetitions has ones in front."""
    return xp.tile(x, as_shape(repetitions))


def _tile_vjp(xp, g, x_shape, repetitions):
    repetitions = as_shape(repetitions)
    ndim = max(len(x_shape), len(repetitions))
    shape = (1,) * (ndim - len(x_shape)) + x_shape
    counts = (1,) * (ndim - len(repetitions)) + repetitions
    g = xp.reshape(g, tuple([n for pair in zip(counts, shape, strict=True) for n in pair]))
    return xp.reshape(xp.sum(g, axis=tuple(range(0, 2 * ndim, 2)), dtype=g.dtype), x_shape)


tile.vjp(x=_tile_vjp)
tile.jvp(x=lambda xp, t, repetitions: xp.tile(t, as_shape(repetitions)))


def _tile_of_batch(call, batched, x, repetitions):
    size, *shape = x.shape
    repetitions = as_shape(repetitions)
    more = len(repetitions) - len(shape)
    x = reshape(x, (size, *[1] * more, *shape))
    return call(x, (1, *[1] * -more, *repetitions))


tile.vmap(_tile_of_batch)


@op(discards=True)
def tril(xp, x, /, *, k=0):
    """Matrices (..., m, n) with zeros above diagonal ``k``, counted upwards from the main one."""
    return xp.tril(_matrices(x), k=k)


tril.vjp(x=lambda xp, g, k: xp.tril(g, k=k))
tril.jvp(x=lambda xp, t, k: xp.tril(t, k=k))
tril.vmap(examples_of_matrices)


@op(discards=True)
def triu(xp, x, /, *, k=0):
    """Matrices (..., m, n) with zeros below diagonal ``k``, counted upwards from the main one."""
    return xp.triu(_matrices(x), k=k)


triu.vjp(x=lambda xp, g, k: xp.triu(g, k=k))
triu.jvp(x=lambda xp, t, k: xp.triu(t, k=k))
triu.vmap(examples_of_matrices)


@composite
def astype(x: Any, /, dtype: Any, *, copy: bool = True, device: str | None = None) -> Any:
    """The values in another dtype, and on another device if one is named.

    The gradient is cast back; to integers there is none. Of complex numbers only ``real``,
    ``imag`` or ``abs`` make real ones: casting them raises TypeError, except to bool.

    copy: False to get ``x`` itself where it is of that dtype and there already.
    """
    if device is not None:
        moved = x if is_on(getattr(x, "_like", x), device) else to_device(x, device)
        copy = copy and moved is x
        x = moved
    if not copy and isinstance(x, Tensor) and x.dtype == backend_of[type(x._like)].dtype(dtype):
        return x
    return _astype(x, dtype, copy=copy)


def target_dtype(array, dtype):
    """``dtype`` as the library of a raw array has it; TypeError if a cast would lose parts."""
    backend = backend_of[type(array)]
    dtype = backend.dtype(dtype)
    real = "integral", "real floating"
    if backend.is_complex(array.dtype) and backend.xp.isdtype(dtype, real):
        raise TypeError(
            f"{array.dtype} to {dtype} would drop the imaginary part; "
            f"use real(x), imag(x) or abs(x)"
        )
    return dtype


@op
def _astype(xp, x, /, dtype, *, copy):
    return xp.astype(x, target_dtype(x, dtype), copy=copy)


_astype.vjp(x=lambda xp, g: g)  # the sweep casts it back
_astype.jvp(x=_tangent_itself)
_astype.vmap(as_they_are)


@op
def to_device(xp, x, /, device):
    """The values on another device, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""
    return transfer(x, device)


to_device.vjp(x=lambda xp, g, x_device: xp.to_device(g, x_device))
to_device.vmap(as_they_are)
