"""Shapes and axes; joining, splitting, choosing and arranging elements."""

import math
from operator import index

from .._arguments import is_floating, leaves_in, require
from .._tensor import Tensor
from ..backends import SCALARS
from ..backends.numpy import library as numpy
from ..ops.manipulation import sliced
from ._creation import array
from ._table import enter, enter_functions, of_numpy
from ._tensors import along, axes_in, axes_of, constant, flat, gg, is_true, tensor, tensors


def reshape(a, /, shape, order="C", *, copy=None):
    a = tensor(a)
    if _in_columns(order, a):
        return _reversed(gg.reshape(_reversed(a), _lengths(shape)[::-1]))
    return gg.reshape(a, shape, copy=copy)


def _in_columns(order, a):
    """Whether ``order`` asks for Fortran's order of the elements of ``a``."""
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A' or 'K', not {order!r}")
    return order == "F" and a.ndim > 0


def _lengths(shape):
    return tuple(map(index, shape)) if numpy.iterable(shape) else (index(shape),)


def _reversed(a):
    return gg.permute_dims(a, tuple(range(a.ndim))[::-1])


def transpose(a, axes=None):
    a = tensor(a)
    return _reversed(a) if axes is None else gg.permute_dims(a, axes_in(axes, a.ndim))


def _at_least(ndim, args):
    """Arrays with at least so many axes; with three, a vector becomes the middle one."""
    found = []
    for x in tensors(*args):
        after = (1,) * (ndim == 3 and x.ndim in (1, 2))
        before = (1,) * (ndim - x.ndim - len(after))
        found.append(gg.reshape(x, (*before, *x.shape, *after)))
    return found


def _one_or_all(arrays):
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


enter({
    "atleast_1d": lambda *args: _one_or_all(_at_least(1, args)),
    "atleast_2d": lambda *args: _one_or_all(_at_least(2, args)),
    "atleast_3d": lambda *args: _one_or_all(_at_least(3, args)),
    "append": lambda arr, values, axis=None: concatenate([arr, values], axis),
    "broadcast_arrays": lambda *args: gg.broadcast_arrays(*tensors(*args)),
    "broadcast_to": lambda array, shape: gg.broadcast_to(array, shape),
    "copy": lambda a: array(a),
    "diagflat": lambda v, k=0: diag(flat(v), k),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: tensor(a).diagonal(offset, axis1, axis2),
    "expand_dims": lambda a, axis: gg.expand_dims(a, axes_of(axis)),
    "extract": lambda condition, arr: compress(*map(flat, tensors(condition, arr))),
    "flip": lambda m, axis=None: gg.flip(m, axis=axis),
    "fliplr": lambda m: gg.flip(m, axis=1),
    "flipud": lambda m: gg.flip(m, axis=0),
    "roll": lambda a, shift, axis=None: gg.roll(a, axes_of(shift), axis=axes_of(axis)),
    "dsplit": lambda ary, indices_or_sections: _split(ary, indices_or_sections, 2, "dsplit"),
    "hsplit": lambda ary, indices_or_sections: _split(ary, indices_or_sections, int(ary.ndim > 1)),
    "split": lambda ary, indices_or_sections, axis=0: _split(ary, indices_or_sections, axis),
    "vsplit": lambda ary, indices_or_sections: _split(ary, indices_or_sections, 0, "vsplit"),
    # The shape (0, 1, ...) becomes the order of the axes.
    "rollaxis": lambda a, axis, start=0: gg.permute_dims(
        a, numpy.rollaxis(numpy.empty(range(a.ndim)), axis, start).shape
    ),
    "squeeze": lambda a, axis=None: tensor(a).squeeze(axis),
    "swapaxes": lambda a, axis1, axis2: tensor(a).swapaxes(axis1, axis2),
    "tile": lambda A, reps: gg.tile(A, _lengths(reps)),
    "tril": lambda m, k=0: gg.tril(_as_matrices(m), k=k),
    "triu": lambda m, k=0: gg.triu(_as_matrices(m), k=k),
    "moveaxis": lambda a, source, destination: gg.moveaxis(a, axes_of(source), axes_of(destination))
})  # fmt: skip
enter({
    "dstack": lambda tup: concatenate(_at_least(3, tup), axis=2),
    "vstack": lambda tup, *, dtype=None: concatenate(_at_least(2, tup), dtype=dtype),
}, of_sequence=True)  # fmt: skip


def ravel(a, order="C"):
    a = tensor(a)
    return flat(_reversed(a) if _in_columns(order, a) else a)


def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    return gg.sum(tensor(a).diagonal(offset, axis1, axis2), axis=-1, dtype=dtype)


def delete(arr, obj, axis=None):
    arr, axis = along(tensor(arr), axis)
    obj = obj.tolist() if isinstance(obj, Tensor) else obj
    return _taken(arr, numpy.delete(numpy.arange(arr.shape[axis]), obj), axis)


@of_numpy(of_sequence=True)
def hstack(tup, *, dtype=None):
    arrays = _at_least(1, tup)
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1, dtype=dtype)


def meshgrid(*args, copy=True, sparse=False, indexing="xy"):
    vectors = [flat(x) for x in tensors(*args)]
    if not sparse:
        return gg.meshgrid(*vectors, indexing=indexing)
    places = list(range(len(vectors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    others = [tuple([i for i in places if i != place]) for place in places]
    return tuple([gg.expand_dims(x, axes) for x, axes in zip(vectors, others, strict=True)])


def rot90(m, k=1, axes=(0, 1)):
    first, second = axes
    for _ in range(k % 4):
        m = gg.moveaxis(gg.flip(m, axis=second), (first, second), (second, first))
    return m


def repeat(a, repeats, axis=None):
    if isinstance(repeats, (list, tuple)):
        a, repeats = tensors(a, repeats)
    return gg.repeat(tensor(a), repeats, axis=axis)


def resize(a, new_shape):
    shape = _lengths(new_shape)
    require(min(shape, default=0) >= 0, "resize: lengths must be at least 0", shape)
    size, a = math.prod(shape), flat(a)
    elements = gg.tile(a, (-(-size // a.size),)) if a.size else gg.pad(a, (0, size))
    return gg.reshape(elements[:size], shape)


# Joining


@of_numpy(of_sequence=True)
def concatenate(arrays, axis=0, *, dtype=None):
    result = gg.concat(tensors(*arrays), axis=axis)
    return result if dtype is None else gg.astype(result, dtype)


@of_numpy(of_sequence=True)
def stack(arrays, axis=0, *, dtype=None):
    result = gg.stack(tensors(*arrays), axis=axis)
    return result if dtype is None else gg.astype(result, dtype)


@of_numpy(of_sequence=True)
def column_stack(tup):
    return concatenate([gg.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors(*tup)], axis=1)


@of_numpy(of_sequence=True)
def block(arrays):
    depth, level = 0, arrays
    while isinstance(level, list):
        depth, level = depth + 1, level[0]
    leaves = tensors(*leaves_in(arrays))
    ndim = max([depth, *[x.ndim for x in leaves]])
    like = leaves[0]

    def assembled(level, axis):
        if not isinstance(level, list):
            if axis != ndim or isinstance(level, tuple):
                raise ValueError("block: takes lists, all nested equally deep")
            x = tensor(level, like)
            return gg.reshape(x, (1,) * (ndim - x.ndim) + x.shape)
        return gg.concat([assembled(x, axis + 1) for x in level], axis=axis)

    return assembled(arrays, ndim - depth)


def insert(arr, obj, values, axis=None):
    arr, values = tensors(arr, values)
    arr, axis = along(arr, axis)
    n = arr.shape[axis]
    places = numpy.arange(n)[obj] if isinstance(obj, slice) else numpy.asarray(obj)
    if places.ndim:
        count = numpy.flatnonzero(places).size if places.dtype == bool else places.size
    else:  # all values go there
        values = gg.reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
        values = gg.moveaxis(values, 0, axis)
        count = values.shape[axis]
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    values = gg.astype(gg.broadcast_to(values, shape), arr.dtype)
    order = numpy.insert(numpy.arange(n), places, n + numpy.arange(count))
    return _taken(gg.concat([arr, values], axis=axis), order, axis)


def _taken(x, places, axis):
    """``x`` at host integers ``places`` along an axis."""
    return gg.take(x, constant(places, x), axis=axis)


def trim_zeros(filt, trim="fb", axis=None):
    require(trim.lower() in ("f", "b", "fb", "bf"), "trim must be 'f', 'b' or 'fb'", trim)
    used = gg.nonzero(filt)
    for i in axes_in(axis, filt.ndim):
        places = used[i].tolist()
        start = min(places, default=0) if "f" in trim.lower() else 0
        stop = max(places, default=-1) + 1 if "b" in trim.lower() or not places else None
        filt = sliced(filt, i, start, stop)
    return filt


# Splitting


def _split(ary, indices_or_sections, axis, name=None):
    least = {"dsplit": 3, "vsplit": 2}.get(name, 0)
    if ary.ndim < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
    is_number = not numpy.iterable(indices_or_sections)
    places = indices_or_sections if is_number else tuple(indices_or_sections)
    return list(gg.split(ary, places, axis))


def array_split(ary, indices_or_sections, axis=0):
    if not numpy.iterable(indices_or_sections):
        count = index(indices_or_sections)
        if count < 1:
            raise ValueError("number sections must be larger than 0.")
        # The first pieces are longer by one.
        length, longer = divmod(ary.shape[axis], count)
        indices_or_sections = [i * length + min(i, longer) for i in range(1, count)]
    # Positions need not ascend, other than those of `split`.
    bounds = zip([0, *indices_or_sections], [*indices_or_sections, None], strict=True)
    return [sliced(ary, axis, start, stop) for start, stop in bounds]


# Diagonals and triangles


def _as_matrices(m):
    """NumPy takes a vector for the rows of a square matrix."""
    return gg.broadcast_to(m, m.shape * 2) if m.ndim == 1 else m


def diag(v, k=0):
    if v.ndim == 2:
        return gg.linalg.diagonal(v, offset=k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    # Shifted by k, so that the element of each row stands in its column.
    own = constant(numpy.eye(v.shape[0] + abs(k), k=k, dtype=bool), v)
    columns = gg.pad(v, (max(k, 0), max(-k, 0)))
    return gg.where(own, columns, gg.zeros_like(columns))


def vander(x, N=None, increasing=False):
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = x.shape[0] if N is None else N
    x = x if is_floating(x) else gg.astype(x, gg.int64)
    powers = [x**i if i else gg.ones_like(x) for i in range(n)]
    if not powers:
        return gg.reshape(x[:0], (x.shape[0], 0))
    return gg.stack(powers if increasing else powers[::-1], axis=1)


def pad(array, pad_width, mode="constant", **kwargs):
    modes = ("constant", "edge", "reflect", "symmetric", "wrap")
    even = kwargs.pop("reflect_type", "even") == "even"
    if mode not in modes or not even or kwargs.keys() - {"constant_values"}:
        given = [repr(mode), *kwargs] if even else [repr(mode), "reflect_type='odd'"]
        raise TypeError(
            f"numpy.pad: with Tensors the mode is one of {', '.join(modes)}, and the only options "
            f"are constant_values and reflect_type='even', not {' with '.join(given)}; call it on "
            f"x.detach().numpy() for a result without gradient"
        )
    values = kwargs.get("constant_values", 0.0)
    if isinstance(pad_width, dict):
        axes = {axis % array.ndim: width for axis, width in pad_width.items()}
        pad_width = [numpy.broadcast_to(axes.get(axis, 0), 2) for axis in range(array.ndim)]
    pairs = numpy.broadcast_to(pad_width, (array.ndim, 2)).tolist()
    if not numpy.iterable(values):
        return gg.pad(array, pairs, mode, constant_values=values)
    ends = numpy.broadcast_to(values, (array.ndim, 2)).tolist()
    # One axis after the other, because the corners have the values of the last axis.
    for axis in range(array.ndim):
        for end in (0, 1):
            widths = [[0, 0] for _ in pairs]
            widths[axis][end] = pairs[axis][end]
            array = gg.pad(array, widths, constant_values=ends[axis][end])
    return array


# Choosing


def where(condition, x=None, y=None, /):
    if x is None and y is None:
        return gg.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    condition, x, y = _operands(condition, x, y)
    if type(condition) in SCALARS:
        condition = tensor(condition, next(v for v in (x, y) if isinstance(v, Tensor)))
    return gg.where(condition if condition.dtype is gg.bool else is_true(condition), x, y)


def _operands(*values):
    """The values as Tensors, except Python's numbers, which are weak and stay as they are."""
    like = next((x for x in values if isinstance(x, Tensor)), None)
    return [x if type(x) in SCALARS else tensor(x, like) for x in values]


@of_numpy(of_sequence=True)
def select(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    result, *operands = _operands(default, *condlist, *choicelist)
    pairs = zip(operands[: len(condlist)], operands[len(condlist) :], strict=True)
    for condition, choice in reversed([*pairs]):
        result = gg.where(is_true(condition), choice, result)
    return result


@of_numpy(of_sequence=True)
def piecewise(x, condlist, funclist, *args, **kw):
    conditions = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"with {len(conditions)} condition(s), give as many functions or one more")
    result = gg.zeros_like(x)
    if len(functions) > len(conditions):
        result = _piece(functions.pop(), x, args, kw)
    for condition, function in zip(conditions, functions, strict=True):
        result = gg.where(is_true(tensor(condition, x)), _piece(function, x, args, kw), result)
    return gg.astype(gg.broadcast_to(result, x.shape), x.dtype)


def _piece(function, x, args, keywords):
    return function(x, *args, **keywords) if callable(function) else tensor(function, x)


def choose(a, choices):
    a, *choices = gg.broadcast_arrays(*tensors(a, *choices))
    # Negative numbers would count from the last choice; numbers beyond it are an error.
    places = gg.expand_dims(gg.astype(gg.where(a < 0, len(choices), a), gg.int64), 0)
    return gg.take_along_axis(gg.stack(choices), places, axis=0)[0, ...]


def take(a, indices, axis=None):
    a, indices = tensors(a, indices)
    a, axis = along(a, axis)
    taken = gg.take(a, flat(indices), axis=axis)
    return gg.reshape(taken, a.shape[:axis] + indices.shape + a.shape[axis + 1 :])


def take_along_axis(arr, indices, axis=-1):
    arr, axis = along(arr, axis)
    return gg.take_along_axis(arr, indices, axis=axis)


def compress(condition, a, axis=None):
    condition, a = tensors(condition, a)
    a, axis = along(a, axis)
    return gg.take(a, gg.nonzero(condition)[0], axis=axis)


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    arr, axis = along(tensor(arr), axis)
    rest = (*arr.shape[:axis], *arr.shape[axis + 1 :])
    require(all(rest), "apply_along_axis: the other axes must have positive lengths", rest)
    columns = gg.reshape(gg.moveaxis(arr, axis, -1), (math.prod(rest), arr.shape[axis]))
    results = gg.stack([tensor(func1d(row, *args, **kwargs)) for row in gg.unstack(columns)])
    shape = results.shape[1:]
    results = gg.reshape(results, (*rest, *shape))
    places = tuple(range(len(rest), results.ndim))
    return gg.moveaxis(results, places, tuple(range(axis, axis + len(shape))))


def apply_over_axes(func, a, axes):
    for axis in _lengths(axes):
        result = func(a, axis)
        a = result if result.ndim == a.ndim else gg.expand_dims(result, axis)
    return a


@of_numpy("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x, window_shape, axis=None):
    x, size = tensor(x), _lengths(window_shape)
    axes = axes_in(axis, x.ndim)
    if len(axes) != len(size):
        raise ValueError(f"window_shape {size} must have a length for each of the axes {axes}")
    if not size:
        return x
    if min(size) < 1:
        raise ValueError(f"the lengths of windows of Tensors must be at least 1, not {size}")
    last, moved = tuple(range(-len(size), 0)), tuple(range(x.ndim - len(size), x.ndim))
    windows = gg.sliding_windows(gg.moveaxis(x, axes, last), size=size)
    return gg.moveaxis(gg.moveaxis(windows, last, moved), moved, axes)


enter_functions(globals())
