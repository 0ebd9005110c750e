"""New arrays: NumPy's own, or Tensors if the values are Tensors or a device is given."""

import math
from functools import partial, update_wrapper
from inspect import getdoc

from .._arguments import mapped
from .._creation import holds_tensor
from ..backends.numpy import library as numpy
from ._table import FUNCTIONS, enter, lookup, of_numpy, public
from ._tensors import constant, floating, gg, operands, tensor, tensors

# Functions that take a parameter ``device``, also where NumPy's have none.
ON_DEVICES = """
    arange array asanyarray asarray empty empty_like eye full full_like identity linspace ones
    ones_like zeros zeros_like fft.fftfreq fft.rfftfreq
""".split()


def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None, **others):
    """NumPy's function; a Tensor with the graph of all if there are Tensors in nested sequences.

    k Tensors ``(m, n)`` in a list give ``(k, m, n)``, and each gets its part of the gradient.
    Python numbers beside them do not widen their dtype, and NumPy's numbers count with theirs. The
    result is a copy, unless ``copy`` is None or False. ``ndmin`` puts axes of length 1 in front.
    ``order``, ``subok`` and further keywords, such as ``ndmax``, are for arrays without Tensors.
    Raises ValueError for Tensors of different shapes.
    """
    if others or not holds_tensor(object):
        keywords = {"order": order, "subok": subok, "ndmin": ndmin, "like": like} | others
        return numpy.array(object, dtype, copy=copy, **keywords)
    result = gg.asarray(_with_arrays(object), dtype=dtype, copy=copy)
    missing = ndmin - result.ndim
    return gg.reshape(result, (1,) * missing + result.shape) if missing > 0 else result


def _with_arrays(x):
    """Nested sequences in which NumPy's numbers are arrays, which keep their dtype."""
    return mapped(lambda y: numpy.asarray(y) if isinstance(y, numpy.generic) else y, x)


def asarray(a, dtype=None, order=None, *, copy=None, like=None):
    """NumPy's function; a Tensor with the graph of all if there are Tensors in nested sequences.

    A Tensor is returned as it is, unless ``dtype`` or ``copy`` asks for a new one. In lists,
    Tensors are joined as `array` says. ``order`` is for arrays without Tensors.
    """
    if holds_tensor(a):
        return gg.asarray(_with_arrays(a), dtype=dtype, copy=copy)
    return numpy.asarray(a, dtype, order, copy=copy, like=like)


def asanyarray(a, dtype=None, order=None, **keywords):
    """NumPy's function, which keeps the class of a matrix or masked array; `asarray` of Tensors."""
    return (asarray if holds_tensor(a) else numpy.asanyarray)(a, dtype, order, **keywords)


def ascontiguousarray(a, dtype=None, *, like=None):
    """NumPy's function; of Tensors `asarray`, with the shape ``(1,)`` in place of ``()``."""
    if holds_tensor(a):
        return array(a, dtype, copy=None, ndmin=1)
    return numpy.ascontiguousarray(a, dtype, like=like)


def full(shape, fill_value, dtype=None, order="C", *, like=None):
    """``fill_value``, which broadcasts, in a shape, an int or a tuple; a Tensor if it is one.

    The gradient goes to the value, as the sum over the elements that repeat it. The dtype is that
    of the value, unless ``dtype`` is given. ``order`` is for arrays without Tensors.
    """
    if holds_tensor(fill_value):
        value = tensor(fill_value)
        shape = shape if isinstance(shape, tuple) else numpy.empty(shape).shape
        return gg.asarray(gg.broadcast_to(value, shape), dtype=dtype, copy=True)
    return numpy.full(shape, fill_value, dtype, order, like=like)


def vectorize(pyfunc=None, *args, **keywords):
    """What NumPy's class makes, except that it refuses Tensors, whose graph would be lost.

    ``vectorize(f)(x, y)`` calls ``f`` with the elements of arrays that broadcast, and makes an
    array of the results; other arguments are those of NumPy's class, and with these alone it is a
    decorator. A call with a Tensor raises TypeError. Call ``f`` with whole Tensors, with ``where``
    in place of ``if``, or use `gpugrad.vmap`.
    """
    if pyfunc is None:
        return partial(vectorize, **keywords)
    mapped = numpy.vectorize(pyfunc, *args, **keywords)

    def of_arrays(*args, **keywords):
        if any(map(holds_tensor, [*args, *keywords.values()])):
            raise TypeError(
                f"vectorize: {pyfunc.__name__} would get single numbers without a graph; call it "
                "on whole Tensors, with where for if, or use gpugrad.vmap"
            )
        return mapped(*args, **keywords)

    return update_wrapper(of_arrays, pyfunc)


# NumPy does not hand over calls of these functions.
MAKERS = {
    "array": array, "asanyarray": asanyarray, "asarray": asarray,
    "ascontiguousarray": ascontiguousarray, "full": full, "vectorize": vectorize,
}  # fmt: skip


def on_device(name, function):
    """A maker of arrays with a parameter ``device``, given which it makes a Tensor there."""

    def maker(*args, device=None, **keywords):
        result = function(*args, **keywords)
        return result if device is None else gg.asarray(result, device=device)

    maker.__name__ = maker.__qualname__ = name.rpartition(".")[2]
    more = 'device: given one, ``"cpu"`` too, the result is a Tensor.'
    maker.__doc__ = f"{getdoc(function)}\n\n{more}"
    return maker


def _like(name):
    def own(a, dtype=None, *, shape=None, device=None):
        a = tensor(a)
        if shape is None:
            return getattr(gg, f"{name}_like")(a, dtype=dtype, device=device)
        return gg.asarray(constant(getattr(numpy, name)(shape), a, dtype or a.dtype), device=device)

    return own


enter({f"{name}_like": _like(name) for name in ("ones", "zeros")})


@of_numpy()
def empty_like(prototype, dtype=None, *, shape=None, device=None):
    return _like("empty")(prototype, dtype, shape=shape, device=device)


@of_numpy()
def full_like(a, fill_value, dtype=None, *, shape=None, device=None):
    a, value = tensors(a, fill_value)
    value = gg.asarray(value, dtype=dtype or a.dtype, device=device)
    return gg.asarray(gg.broadcast_to(value, a.shape if shape is None else shape), copy=True)


@of_numpy()
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    start, stop = map(floating, operands(start, stop))
    result = gg.moveaxis(gg.linspace(start, stop, num, endpoint=endpoint), 0, axis)
    rounded = gg.floor(result) if numpy.issubdtype(dtype, numpy.integer) else result
    result = result if dtype is None else gg.astype(rounded, dtype)
    intervals = num - 1 if endpoint else num
    step = (stop - start) * (1 / intervals if intervals > 0 else math.nan)
    return (result, step) if retstep else result


@of_numpy()
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    result = gg.pow(base, FUNCTIONS["linspace"](start, stop, num, endpoint, axis=axis))
    return result if dtype is None else gg.astype(result, dtype)


@of_numpy()
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = map(floating, operands(start, stop))
    sign = gg.sign(start)
    logs = [gg.log10(x / sign) for x in (start, stop)]
    result = gg.pow(10.0, gg.linspace(*logs, num, endpoint=endpoint)) * sign
    # Rounding must not change the ends.
    place = constant(numpy.arange(num).reshape(-1, *[1] * (result.ndim - 1)), result)
    result = gg.where(place == (num - 1 if endpoint else num), stop, result)
    result = gg.moveaxis(gg.where(place == 0, start, result), 0, axis)
    return result if dtype is None else gg.astype(result, dtype)


def maker_of(name):
    """The maker of arrays of this name, for `gpugrad.numpy`."""
    function = MAKERS.get(name) or (public(name) if name in FUNCTIONS else lookup(name))
    return on_device(name, function) if name in ON_DEVICES else function
