"""CuPy's functions, with CuPy's signatures, carried out by NumPy."""

import functools

import numpy as np

from ._array import arrays_in, computed, from_interface, lent, ndarray, on_current, unwrapped, wrap
from ._capture import refuse, spoil
from ._reads import note
from ._wrapping import of_class, through
from .cuda.device import Device, current_device
from .cuda.memory import pool
from .cuda.pinned_memory import is_memory_pinned
from .cuda.stream import get_current_stream

_kernel = through(np)
_view = through(np, view=True)
_waiting = through(np, reads=lambda given: True)
_waiting_for_counts = through(np, reads=lambda given: isinstance(given["repeats"], ndarray))


def _summing(function):
    """Return a reduction that sums bfloat16 in float32, like CuPy and unlike NumPy."""
    reduce = _kernel(function)

    @functools.wraps(function)
    def call(a, axis=None, dtype=None, out=None, keepdims=False):
        if a.dtype.name != "bfloat16" or dtype not in (None, a.dtype):
            return reduce(a, axis, dtype, out, keepdims)
        return reduce(a, axis, np.float32, out, keepdims).astype(a.dtype)

    return call


def _joining(join):
    """Make a function that joins arrays copy a table from the host, as CuPy's does for many."""
    join = _kernel(join)

    @functools.wraps(join)
    def call(tup, *args, **options):
        total = np.sum([x.nbytes for x in tup])
        if len(tup) > 8 and len({x.dtype for x in tup}) == 1 and total < len(tup) << 21:
            refuse("a copy from the host")
        return join(tup, *args, **options)

    return call


# Creation

late: list = []  # the pinned arrays that a GPU would have copied later: a record


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    obj = from_interface(obj)
    if isinstance(obj, ndarray):
        dtype = obj.dtype if dtype is None else dtype
        if obj.device != current_device():
            return obj.copy(order)._astype(dtype, order, copy=None)
        return obj._astype(dtype, order, copy)
    on_current(arrays_in(obj))
    values = obj if isinstance(obj, np.ndarray) else unwrapped(obj)
    refuse("a copy from the host")
    if blocking:
        note("array")
    elif isinstance(values, np.ndarray) and is_memory_pinned(values.ctypes.data):
        late.append(values)
    return wrap(np.array(values, dtype=dtype, order=order, ndmin=ndmin), [])


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return array(a, dtype, copy, order or "K")


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get() if isinstance(a, ndarray) else np.asarray(a, order=order)


def get_default_memory_pool():
    return pool


def from_dlpack(array, *, device=None, copy=None):
    if device is not None:
        raise NotImplementedError("from_dlpack() does not support device yet.")
    kind, number = array.__dlpack_device__()
    if kind != 2:
        raise TypeError("CPU arrays cannot be directly imported to CuPy.")
    with Device(number):
        stream = get_current_stream().ptr or 1
        shared = array.__dlpack__(stream=stream, max_version=(1, 0), copy=copy).array
        return lent(shared._values, shared.device, shared)


def ascontiguousarray(a, dtype=None):
    on_current([a])
    values = a._values
    return computed("ascontiguousarray", lambda: np.ascontiguousarray(values, dtype), [a], [a])


def arange(start, stop=None, step=1, dtype=None):
    np.dtype(dtype or float).type(step)  # rejects a negative step of unsigned integers
    return computed("arange", lambda: np.arange(start, stop, step, dtype))


def empty(shape, dtype=float, order="C"):
    out = np.empty(shape, dtype, order)
    spoil(out)  # so that reading it is noticed
    return wrap(out, [])


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    options = num, endpoint, retstep, dtype, axis
    return computed("linspace", lambda: np.linspace(float(start), float(stop), *options))


def reshape(a, newshape, order="C", *, copy=None):
    return a.reshape(newshape, order=order)


@_waiting_for_counts
def repeat(a, repeats, axis=None): ...


def where(condition, x=None, y=None):
    """Choose by a condition, which is asked for a method that only arrays have."""
    return _where(condition.astype("?", copy=False), x, y)


_where = _kernel(where)


def take(a, indices, axis=None, out=None):
    on_current([a, indices])
    own, places = a._values, unwrapped(indices)
    return computed("take", lambda: np.take(own, places, axis, mode="wrap"), indices, gathers=True)


def take_along_axis(a, indices, axis):
    on_current([a, indices])
    own, places, n = a._values, indices._values, a.shape[axis] or 1
    return computed(
        "take_along_axis", lambda: np.take_along_axis(own, places % n, axis), indices, gathers=True
    )


def matmul(
    *args, axes=None, axis=None, keepdims=False, casting="same_kind", dtype=None, signature=None,
    order="K", out=None,
):  # fmt: skip
    on_current(args)
    for x in args:
        if not isinstance(x, ndarray):
            raise TypeError(f"Unsupported type {type(x)}")
    refuse("a call of cuBLAS")
    return wrap(np.matmul(*map(unwrapped, args), dtype=dtype), [])


def real(val):
    return val.real


def imag(val):
    return val.imag


class _Joins:
    """Functions that join arrays."""

    def concatenate(tup, axis=0, out=None, *, dtype=None, casting="same_kind"): ...
    def stack(tup, axis=0, out=None, *, dtype=None, casting="same_kind"): ...


class _Sums:
    """Reductions that sum or multiply."""

    def mean(a, axis=None, dtype=None, out=None, keepdims=False): ...
    def prod(a, axis=None, dtype=None, out=None, keepdims=False): ...
    def sum(a, axis=None, dtype=None, out=None, keepdims=False): ...


class _Kernels:
    """Other functions that launch kernels."""

    def empty_like(prototype, dtype=None, order="K", subok=None, shape=None): ...
    def zeros(shape, dtype=float, order="C"): ...
    def zeros_like(a, dtype=None, order="K", subok=None, shape=None): ...
    def ones(shape, dtype=float, order="C"): ...
    def ones_like(a, dtype=None, order="K", subok=None, shape=None): ...
    def full(shape, fill_value, dtype=None, order="C"): ...
    def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None): ...
    def eye(N, M=None, k=0, dtype=float, order="C"): ...
    def ravel(a, order="C"): ...
    def roll(a, shift, axis=None): ...
    def tile(A, reps): ...
    def tril(m, k=0): ...
    def triu(m, k=0): ...
    def argmax(a, axis=None, dtype=None, out=None, keepdims=False): ...
    def argmin(a, axis=None, dtype=None, out=None, keepdims=False): ...
    def all(a, axis=None, out=None, keepdims=False): ...
    def any(a, axis=None, out=None, keepdims=False): ...
    def count_nonzero(a, axis=None): ...
    def cumsum(a, axis=None, dtype=None, out=None): ...
    def cumprod(a, axis=None, dtype=None, out=None): ...
    def max(a, axis=None, out=None, keepdims=False): ...
    def min(a, axis=None, out=None, keepdims=False): ...
    def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False): ...
    def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False): ...
    def argsort(a, axis=-1, kind=None): ...
    def sort(a, axis=-1, kind=None): ...
    def isin(element, test_elements, assume_unique=False, invert=False): ...
    def searchsorted(a, v, side="left", sorter=None): ...
    def round(a, decimals=0, out=None): ...
    def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None): ...
    def outer(a, b, out=None): ...
    def tensordot(a, b, axes=2): ...


class _Views:
    """Functions that launch none."""

    def broadcast_to(array, shape): ...
    def broadcast_arrays(*args): ...
    def diagonal(a, offset=0, axis1=0, axis2=1): ...
    def expand_dims(a, axis): ...
    def flip(a, axis=None): ...
    def moveaxis(a, source, destination): ...
    def squeeze(a, axis=None): ...
    def swapaxes(a, axis1, axis2): ...
    def transpose(a, axes=None): ...
    def finfo(dtype): ...
    def iinfo(int_type): ...
    def result_type(*arrays_and_dtypes): ...
    def isdtype(dtype, kind): ...
    def issubdtype(arg1, arg2): ...


class _Waiting:
    """Functions whose result has a shape that depends on values."""

    def nonzero(a): ...
    def unique(
        ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *,
        equal_nan=True,
    ): ...  # fmt: skip


_WRAPPERS = {_Joins: _joining, _Sums: _summing, _Kernels: _kernel, _Views: _view}
for _kind, _wrapper in (_WRAPPERS | {_Waiting: _waiting}).items():
    globals().update(of_class(_kind, _wrapper))
_own = {n for n, x in globals().items() if getattr(x, "__module__", None) == __name__}
__all__ = sorted(n for n in _own if not n.startswith("_"))
