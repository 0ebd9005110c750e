"""NumPy: the CPU.

NumPy's main namespace conforms to the standard from 2.0 on, so ops run on a copy
of it in which a few Python-level functions are replaced by the direct calls below.
"""

import ctypes
import sys
from types import ModuleType
from typing import Any

import numpy as np

from .base import Backend
from .registry import register

xp: Any = ModuleType("gpugrad.backends.numpy.xp", "NumPy's namespace as ops use it.")
vars(xp).update({name: value for name, value in vars(np).items() if not name.startswith("__")})


bool_ = np.dtype(np.bool)
float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = map(np.dtype, ("complex64", "complex128"))
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))


def _imported(name):
    value = getattr(np, name)
    setattr(xp, name, value)
    return value


xp.__getattr__ = _imported  # numpy.fft, which NumPy too imports when first used


def _extend(function):
    setattr(xp, function.__name__.strip("_"), function)
    return function


# numpy.sum and its like spend 1 to 3 µs in Python before the reduction.


@_extend
def _sum(x, /, *, axis=None, dtype=None, keepdims=False):
    # Bias gradients and softmax: over a long matrix, BLAS takes a third of the time or less.
    if axis is not None and _is_long(x) and (dtype is None or dtype is x.dtype):
        if axis in (0, (0,)) and x.shape[1] > 1:  # a lone column NumPy sums in pairs: exacter
            total = np.matmul(np.ones(x.shape[0], x.dtype), x)
            return total[None] if keepdims else total
        if axis in (1, -1, (1,), (-1,)) and x.shape[1] <= 64:
            total = np.matmul(x, np.ones(x.shape[1], x.dtype))
            return total[:, None] if keepdims else total
    return np.add.reduce(x, axis, dtype, None, keepdims)


def _is_long(x):
    return x.ndim == 2 and x.shape[0] >= 64 and x.dtype in (float32, float64)


@_extend
def _max(x, /, *, axis=None, keepdims=False):
    # Over short rows the columns of a copy are seven times faster: they vectorise.
    if axis in (1, -1) and _is_long(x) and x.shape[1] <= 64:
        top = np.maximum.reduce(np.ascontiguousarray(x.T), 0)
        return top[:, None] if keepdims else top
    return np.maximum.reduce(x, axis, None, None, keepdims)


@_extend
def _min(x, /, *, axis=None, keepdims=False):
    return np.minimum.reduce(x, axis, None, None, keepdims)


@_extend
def _mean(x, /, *, axis=None, keepdims=False):
    if x.dtype == float16 or not x.size or x.dtype.kind not in "fc":
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = np.add.reduce(x, axis, None, None, keepdims)
    total /= x.size // max(total.size, 1)
    return total


@_extend
def _reshape(x, /, shape, *, copy=None):
    out = x.reshape(shape)
    if copy is None or copy != np.may_share_memory(x, out):
        return out
    if copy:
        return out.copy()
    raise ValueError("these strides need a copy, but copy is False")


@_extend
def _permute_dims(x, /, axes):
    return x.transpose(axes)


@_extend
def _squeeze(x, /, axis):
    return x.squeeze(axis)


@_extend
def _unstack(x, /, *, axis=0):  # new in NumPy 2.1
    return tuple(np.moveaxis(x, axis, 0))


@_extend
def _astype(x, dtype, /, *, copy=True, device=None):
    return x.astype(dtype, copy=copy)


@_extend
def _broadcast_to(x, /, shape):
    # What numpy.broadcast_to does with a number, at an eighth of its fixed cost.
    if type(x) is not np.ndarray or x.size != 1 or x.ndim > len(shape) or -1 in shape:
        return np.broadcast_to(x, shape)
    out = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    out.flags.writeable = False
    return out


@_extend
def _matmul(x1, x2, /):
    # An outer product (batch size 1) is memory-bound, and BLAS is 4 times slower at it.
    if x1.ndim > 1 < x2.ndim and x1.shape[-1] == x2.shape[-2] == 1:
        return x1 * x2
    return np.matmul(x1, x2)


_bits_of = {float16: np.int16, float32: np.int32, float64: np.int64}


@_extend
def _where(condition, x1, x2, /):
    # numpy.where branches at every element: on a large mask without pattern, as
    # relu's is, clearing bits takes a tenth of the time.
    if (
        type(x2) is float
        and x2 == 0
        and type(x1) is np.ndarray
        and x1.size > 256
        and getattr(condition, "dtype", None) == bool_
        and x1.shape == condition.shape
        and x1.dtype in _bits_of
    ):
        bits = _bits_of[x1.dtype]
        mask = np.negative(condition.view(np.int8)).astype(bits)
        mask &= x1.view(bits)
        return mask.view(x1.dtype)
    return np.where(condition, x1, x2)


@_extend
def _scatter_add(values, /, shape, key):
    out = np.zeros(shape, values.dtype)
    if _is_basic(key):
        out[key] = values
    else:
        np.add.at(out, key, values)
    return out


def _is_basic(key):
    keys = key if type(key) is tuple else (key,)
    return all(k is None or k is ... or isinstance(k, (int, slice)) for k in keys)


@_extend
def _one_hot(labels, /, n):
    if labels.size and not (0 <= labels.min() and labels.max() < n):
        raise IndexError(
            f"labels must be from 0 to {n - 1}, but go from {labels.min()} to {labels.max()}"
        )
    return labels[..., None] == np.arange(n)


@_extend
def _unpoison(c, g, /):
    # One product finds a nan, without the warnings that a sum of infinities brings.
    flat = c.reshape(-1)
    total = np.dot(flat, flat)
    if total == total:
        return c
    return np.where(np.isnan(c) & (g == 0), np.zeros((), c.dtype), c)


@_extend
def _conj(x, /):
    return np.conjugate(x) if x.dtype.kind == "c" else x


class NumPy(Backend):
    name = "numpy"
    xp = xp
    array_types = (np.ndarray,)
    scalar_types = tuple({t for t in np.sctypeDict.values() if issubclass(t, (np.number, np.bool))})

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if dtype is copy is None and type(data) is np.ndarray:
            return data
        if isinstance(data, np.ndarray) and hasattr(data, "filled"):
            raise TypeError("a masked array lacks values; fill them first with x.filled(value)")
        return np.array(data, dtype=dtype, copy=copy, order=None if copy is None else "C")

    def to_numpy(self, array):
        return array

    def dtype(self, dtype):
        return number_dtype(dtype)

    def is_floating(self, dtype):
        return dtype.kind in "fc"

    def is_complex(self, dtype):
        return dtype.kind == "c"

    def buffer(self, array):
        while isinstance(array.base, np.ndarray):
            array = array.base
        # Not id(array): other libraries' memory may have come as several arrays.
        return array.__array_interface__["data"][0]

    def is_unshared(self, array):
        return not isinstance(array, np.ndarray) or (array.base is None and array.flags.owndata)

    def generator(self, seed, device):
        return Random(seed)


def number_dtype(dtype):
    """A dtype of any library, or a name of one, as NumPy's object; TypeError if it is not of
    numbers or bools."""
    if dtype is None:  # which NumPy takes for float64
        raise TypeError("dtype must not be None")
    try:
        result = np.dtype(dtype)
    except TypeError:
        result = np.dtype(str(dtype).split(".")[-1])  # torch.float32
    if result.kind not in "biufc":
        raise TypeError(f"dtype {result} is not of numbers or bools")
    return result


def array_of_bytes(data, dtype, shape, *, offset=0, byteorder="="):
    """An array of its own memory with the elements that lie in ``data`` from ``offset`` on."""
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder(byteorder), offset=offset)
    return array.reshape(shape).astype(dtype)


def format_array(array, prefix):
    return np.array2string(array, separator=", ", prefix=prefix, threshold=200, precision=5)


class Random:
    """Seeded random arrays on the CPU."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def uniform(self, shape, dtype):
        """Uniform in [0, 1)."""
        if dtype in (np.float32, np.float64):
            return np.asarray(self.rng.random(shape, dtype=dtype))
        # In steps that float16 holds, so that nothing is rounded up to 1.
        steps = np.floor(self.rng.random(shape, dtype=np.float32) * 2048)
        return np.asarray(steps / 2048).astype(dtype)

    def normal(self, shape, dtype):
        """Standard normal."""
        if dtype in (np.float32, np.float64):
            return np.asarray(self.rng.standard_normal(shape, dtype=dtype))
        return np.asarray(self.rng.standard_normal(shape, dtype=np.float32)).astype(dtype)

    def integers(self, low, high, shape, dtype):
        """Uniform in [low, high)."""
        return np.asarray(self.rng.integers(low, high, shape, dtype=dtype))

    def permutation(self, n):
        """The integers from 0 to n - 1 in random order."""
        return self.rng.permutation(n)


backend = NumPy()
xp.setitem = backend.setitem
xp.last_written = backend.last_written
register(backend)


def keep_freed_memory():
    """Tell glibc to keep freed blocks up to 32 MB instead of returning them to the kernel.

    A graph frees and takes the same sizes at every step; a fresh page costs
    more than the arithmetic on it.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    m_trim_threshold, m_mmap_threshold = -1, -3
    mallopt(m_mmap_threshold, 32 << 20)
    mallopt(m_trim_threshold, 1 << 30)


keep_freed_memory()
