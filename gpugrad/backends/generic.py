"""Any other library that speaks the array API standard, such as array-api-strict."""

import math
from types import ModuleType

import array_api_compat
import numpy as np

from .base import Backend
from .dtypes import bfloat16, is_bfloat16, number_dtype
from .numpy import backend as host
from .special import of_host

# Fourier transforms by what the standard lets them take.
_OF_COMPLEX = "fft", "ifft", "fftn", "ifftn", "irfft", "irfftn", "hfft"
_OF_REAL = "rfft", "rfftn", "ihfft"


class GenericBackend(Backend):
    """Made from the first array of a library that turns up; see `registry.adopt`."""

    def __init__(self, standard, array_type):
        self.name = standard.__name__.removeprefix("array_api_compat.")
        self.array_types = (array_type,)
        self.standard = standard
        info = standard.__array_namespace_info__()
        self.devices = {_name(device): device for device in info.devices()}
        self.host_device = info.default_device()
        super().__init__(self._namespace())

    def _namespace(self):
        """The library's functions as ops use them."""
        standard = self.standard
        xp = ModuleType(f"gpugrad.backends.{self.name}.xp")
        vars(xp).update({n: getattr(standard, n) for n in dir(standard) if not n.startswith("__")})
        vars(xp).update(
            astype=self._astype,
            broadcast_arrays=self._broadcast_arrays,
            conj=self._conj,
            cumulative_prod=self._with_dtype("cumulative_prod"),
            cumulative_sum=self._with_dtype("cumulative_sum"),
            isin=self._isin,
            one_hot=self._one_hot,
            prod=self._with_dtype("prod"),
            scatter_add=self._scatter_add,
            sum=self._with_dtype("sum"),
            zero_discarded_nans=self._zero_discarded_nans,
        )
        if hasattr(standard, "linalg"):
            xp.linalg = standard.linalg
        if hasattr(standard, "fft"):
            xp.fft = ModuleType(f"{xp.__name__}.fft")
            names = [n for n in dir(standard.fft) if not n.startswith("__")]
            vars(xp.fft).update({n: getattr(standard.fft, n) for n in names})
            for name in _OF_COMPLEX + _OF_REAL:
                setattr(xp.fft, name, self._transform(name))
        return xp

    def device(self, array):
        return _name(array_api_compat.device(array))

    def has_device(self, device):
        return device in self.devices

    def to_device(self, array, device):
        return array_api_compat.to_device(array, self.devices[device])

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if isinstance(data, np.ndarray) and is_bfloat16(data.dtype):  # whose memory none reads
            data, dtype = data.astype(np.float32), data.dtype if dtype is None else dtype
        if dtype is not None:
            dtype = self.dtype(dtype)
        device = self.devices.get(device, device)
        return self.xp.asarray(data, dtype=dtype, device=device, copy=copy)

    def to_numpy(self, array):
        array = array_api_compat.to_device(array, self.host_device)
        if is_bfloat16(array.dtype):
            return np.asarray(self.xp.astype(array, self.xp.float32)).astype(bfloat16())
        return np.asarray(array)

    def dtype(self, dtype):
        if isinstance(dtype, (np.dtype, type, str)):
            dtype = getattr(self.xp, number_dtype(dtype).name)
        return dtype

    def is_floating(self, dtype):
        return self.xp.isdtype(dtype, ("real floating", "complex floating"))

    def is_complex(self, dtype):
        return self.xp.isdtype(dtype, "complex floating")

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        if like is not None:
            device = array_api_compat.device(like)
        device = self.devices.get(device, device)
        return getattr(self.xp, name)(*args, dtype=dtype, device=device, **keywords)

    def special(self, name):
        return of_host(self, host.xp.special, name)

    def buffer(self, array):
        shared = self._shared(array)
        return None if shared is None else host.buffer(shared)

    def buffer_size(self, array):
        shared = self._shared(array)
        return self.nbytes(array) if shared is None else host.buffer_size(shared)

    def _shared(self, array):
        """The memory of an array as NumPy's, without a copy; None if it is not NumPy's to read."""
        try:
            if array.__dlpack_device__()[0] != 1:  # kDLCPU in DLPack's header
                return None
            return np.asarray(array, copy=False)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
            return None

    def nbytes(self, array):
        return math.prod(array.shape) * number_dtype(array.dtype).itemsize

    def generator(self, seed, device):
        return HostRandom(self, seed, device)

    def _zero_discarded_nans(self, c, g, /):
        return self.xp.where(self.xp.isnan(c) & (g == 0), self.xp.zeros_like(c), c)

    def _conj(self, x, /):
        return self.standard.conj(x) if self.is_complex(x.dtype) else x

    def _transform(self, name):
        """A Fourier transform that takes real numbers for complex ones, and float16 as float32."""
        transform = getattr(self.standard.fft, name)

        def transformed(x, /, **options):
            xp = self.xp
            if x.dtype == getattr(xp, "float16", None):
                x = self._astype(x, xp.float32)
            if name in _OF_COMPLEX and xp.isdtype(x.dtype, "real floating"):
                x = self._astype(x, xp.result_type(x.dtype, xp.complex64))
            return transform(x, **options)

        return transformed

    def setitem(self, x, value, key):
        xp = self.xp
        device = array_api_compat.device(x)
        if type(value) in self.array_types:
            value = self._astype(value, x.dtype, copy=False)
        else:
            value = xp.asarray(value, dtype=x.dtype, device=device)
        if not self._needs_numbers(key):
            out = xp.asarray(x, copy=True)
            out[key] = value
            return out
        taken = self._taken(x.shape, key, device)
        value = xp.reshape(value, value.shape[max(value.ndim - len(taken.shape), 0) :])
        value = xp.reshape(xp.broadcast_to(value, taken.shape), (-1,))
        flat = xp.reshape(x, (-1,))
        if taken.count:
            last = xp.take(value, taken.numbered(taken.stop - 1), axis=0)
            flat = xp.where(taken.stop > taken.start, last, flat)
        return xp.reshape(flat, x.shape, copy=True)

    def last_written(self, x, key):
        xp = self.xp
        device = array_api_compat.device(x)
        if not self._needs_numbers(key):
            return xp.ones(x[key].shape, dtype=xp.bool, device=device)
        taken = self._taken(x.shape, key, device)
        last = taken.numbered(xp.take(taken.stop, taken.places, axis=0) - 1)
        return xp.reshape(last == xp.arange(taken.count, device=device), taken.shape)

    def _scatter_add(self, values, /, shape, key):
        xp = self.xp
        if not self._needs_numbers(key):
            out = self.zeros(shape, values.dtype, values)
            out[key] = values
            return out
        taken = self._taken(shape, key, array_api_compat.device(values))
        values = xp.reshape(xp.broadcast_to(values, taken.shape), (-1,))
        total = self.zeros(taken.start.shape, values.dtype, values)
        # Round k adds the k-th element of each place that has so many.
        for k in range(int(xp.max(taken.stop - taken.start)) if taken.count else 0):
            kth = xp.take(values, taken.numbered(taken.start + k), axis=0)
            total = xp.where(taken.start + k < taken.stop, total + kth, total)
        return xp.reshape(total, shape)

    def _needs_numbers(self, key):
        """Whether a key has integer arrays, which may repeat, or None.

        With these the standard has no assignment, but it can read with them.
        """
        keys = key if isinstance(key, tuple) else (key,)
        return any(
            k is None or (type(k) in self.array_types and self.xp.isdtype(k.dtype, "integral"))
            for k in keys
        )

    def _taken(self, shape, key, device):
        return _Taken(self.xp, shape, key, device)

    def _with_dtype(self, name):
        """The function of this name, taking any library's ``dtype``."""
        function = getattr(self.standard, name)

        def with_dtype(x, /, *, dtype=None, **options):
            return function(x, dtype=None if dtype is None else self.dtype(dtype), **options)

        return with_dtype

    def _isin(self, x1, x2, /, *, invert=False):
        out = self.standard.isin(x1, x2)  # array-api-strict 2.6 does not invert
        return ~out if invert else out

    def _broadcast_arrays(self, *arrays):
        # array-api-strict's takes them all to the device of the first.
        shape = np.broadcast_shapes(*[tuple(a.shape) for a in arrays])
        return tuple([self.standard.broadcast_to(a, shape) for a in arrays])

    def _astype(self, x, dtype, /, *, copy=True, device=None):
        return self.standard.astype(x, self.dtype(dtype), copy=copy)

    def _one_hot(self, labels, /, n):
        xp = self.xp
        # Small integer types may not reach n.
        labels = xp.astype(labels, xp.int64, copy=False)
        if bool(xp.any((labels < 0) | (labels >= n))):
            raise IndexError(
                f"labels must be from 0 to {n - 1}, but go from {int(xp.min(labels))} "
                f"to {int(xp.max(labels))}"
            )
        positions = xp.arange(n, device=array_api_compat.device(labels))
        return xp.expand_dims(labels, axis=-1) == positions


class _Taken:
    """Which elements of an array a key takes, and how often.

    shape, count: of what it takes.
    places: flat, the place in the flattened array of each element taken.
    start, stop: for each place of the array, where in the order of places its
        elements begin and end.
    """

    def __init__(self, xp, shape, key, device):
        numbers = xp.arange(math.prod(shape), device=device)
        places = xp.reshape(numbers, shape)[key]
        self.xp = xp
        self.shape = tuple(places.shape)
        self.count = math.prod(self.shape)
        self.places = xp.reshape(places, (-1,))
        self.order = xp.argsort(self.places, stable=True)
        ordered = xp.take(self.places, self.order, axis=0)
        self.start = xp.searchsorted(ordered, numbers, side="left")
        self.stop = xp.searchsorted(ordered, numbers, side="right")

    def numbered(self, position):
        """The numbers of the elements taken that are at ``position`` in the order of places."""
        return self.xp.take(self.order, self.xp.clip(position, 0, max(self.count - 1, 0)), axis=0)


def _name(device):
    """A device as text: ``device1`` for array-api-strict's ``Device('device1')``."""
    text = str(device)
    return text.split("'")[1] if "'" in text else text


class HostRandom:
    """Random arrays made on the host and handed over."""

    def __init__(self, backend, seed, device):
        self.host = host.generator(seed, None)
        self.backend = backend
        self.device = device

        self.get_state = self.host.get_state
        self.set_state = self.host.set_state

    def __getattr__(self, name):
        draw = getattr(self.host, name)
        return lambda *args: self.backend.asarray(draw(*args), device=self.device)


def backend_for(array):
    """The backend of the library that an array is of."""
    return GenericBackend(array_api_compat.array_namespace(array), type(array))
