"""Any other library that implements the array API standard, such as array-api-strict."""

import math
import sys

import array_api_compat
import numpy as np

from .base import COMPLEX_TRANSFORMS, REAL_TRANSFORMS, Backend, copy_of
from .dtypes import bfloat16, is_bfloat16, number_dtype
from .numpy import backend as host
from .numpy.namespace import check_labels

_FULL_READ_ONLY = 0x11C  # PyBUF_FULL_RO, which `inspect` has from Python 3.12 on


class GenericBackend(Backend):
    """The backend of a library, made from the library's first array; see `registry.adopt`."""

    # The functions of the namespace for which there are methods, with an underscore in front.
    _replaced = "astype broadcast_arrays conj isin one_hot scatter_add zero_discarded_nans"

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
        xp = copy_of(standard, f"gpugrad.backends.{self.name}.xp")
        vars(xp).update({name: getattr(self, f"_{name}") for name in self._replaced.split()})
        for name in ("cumulative_prod", "cumulative_sum", "prod", "sum"):
            setattr(xp, name, self._with_dtype(name))
        if hasattr(standard, "linalg"):
            xp.linalg = copy_of(standard.linalg, f"{xp.__name__}.linalg")
        if hasattr(standard, "fft"):
            xp.fft = copy_of(standard.fft, f"{xp.__name__}.fft")
            for name in COMPLEX_TRANSFORMS + REAL_TRANSFORMS:
                setattr(xp.fft, name, self._transform(name))
        return xp

    def device(self, array):
        return _name(array_api_compat.device(array))

    def has_device(self, device):
        return device in self.devices

    def to_device(self, array, device):
        return array_api_compat.to_device(array, self.devices[device])

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        # Other libraries cannot read arrays in NumPy's bfloat16.
        if isinstance(data, np.ndarray) and is_bfloat16(data.dtype):
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
        """NumPy's or SciPy's function, applied to this library's CPU arrays."""
        function = getattr(host.xp.special, name)

        def call(*args):
            like = next(a for a in args if type(a) in self.array_types)
            if like.__dlpack_device__()[0] != 1:  # kDLCPU in DLPack's header
                raise RuntimeError(
                    f"{self.name} has no function {name}, which this needs, and SciPy's takes CPU "
                    f"arrays; move the inputs there with .to('cpu')"
                )
            device = self._common_device(args)
            args = [self.to_numpy(a) if type(a) in self.array_types else a for a in args]
            out = function(*args)
            if not any(hasattr(a, "dtype") and a.dtype.kind == "f" for a in args):
                # SciPy returns float64 for integers; not every device has it.
                out = np.asarray(out, np.float32)
            return self.asarray(out, device=device)

        return call

    def _common_device(self, args):
        """The device of the arrays among ``args``. `autograd.call` rewords the error."""
        devices = {self.device(a) for a in args if type(a) in self.array_types}
        if len(devices) > 1:
            raise ValueError(f"inputs are on different devices, {' and '.join(sorted(devices))}")
        return devices.pop()

    def buffer(self, array):
        return self._of_memory(host.buffer, array)

    def address_range(self, array):
        return self._of_memory(host.address_range, array)

    def memory_owner(self, array):
        return self._of_memory(host.memory_owner, array)

    def buffer_size(self, array):
        found = self._of_memory(host.buffer_size, array)
        return self.nbytes(array) if found is None else found

    def _of_memory(self, function, array):
        """What a function of NumPy's backend returns for the array's memory, or None."""
        shared = self._numpy_view(array)
        return None if shared is None else function(shared)

    def _numpy_view(self, array):
        """A NumPy array that shares the array's memory; None if NumPy cannot read it."""
        try:
            if array.__dlpack_device__()[0] != 1:  # kDLCPU in DLPack's header
                return None
            # From Python 3.12 on, a class that wraps an array may export that array's buffer.
            # `numpy.asarray` prefers the buffer, and its result does not tell whose memory it is.
            if sys.version_info >= (3, 12) and hasattr(array, "__buffer__"):
                with array.__buffer__(_FULL_READ_ONLY) as buffer:
                    owner = buffer.obj
                    layout = buffer.shape, buffer.strides
                    if type(owner) is np.ndarray and (owner.shape, owner.strides) == layout:
                        return owner
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
        """The transform ``name``, which then takes real input and float16, computed in float32."""
        transform = getattr(self.standard.fft, name)

        def transformed(x, /, **options):
            xp = self.xp
            if x.dtype == getattr(xp, "float16", None):
                x = self._astype(x, xp.float32)
            if name in COMPLEX_TRANSFORMS and xp.isdtype(x.dtype, "real floating"):
                x = self._astype(x, xp.result_type(x.dtype, xp.complex64))
            return transform(x, **options)

        return transformed

    def setitem(self, x, value, key):
        if not self._has_integer_array(key):
            if type(value) in self.array_types:
                value = self._astype(value, x.dtype, copy=False)
            else:
                value = self.asarray(value, dtype=x.dtype, device=self.device(x))
            return super().setitem(x, value, key)
        places, values = self._selected(x, x.shape, key), self.to_numpy(x).ravel()
        value = self.to_numpy(value) if type(value) in self.array_types else value
        found = host.setitem(values, value, (places,))
        return self.asarray(found.reshape(tuple(x.shape)), device=self.device(x))

    def last_written(self, x, key):
        found = host.last_written(self.to_numpy(x).ravel(), (self._selected(x, x.shape, key),))
        return self.asarray(found, device=self.device(x))

    def _scatter_add(self, values, /, shape, key):
        if not self._has_integer_array(key):
            out = self.zeros(shape, values.dtype, values)
            out[key] = values
            return out
        places = self._selected(values, shape, key)
        found = host.xp.scatter_add(self.to_numpy(values), (math.prod(shape),), (places,))
        return self.asarray(found.reshape(shape), device=self.device(values))

    def _selected(self, like, shape, key):
        """The places of the elements that a key selects in the flattened array, on the host."""
        numbers = self.xp.arange(math.prod(shape), device=array_api_compat.device(like))
        return self.to_numpy(self.xp.reshape(numbers, tuple(shape))[key])

    def _has_integer_array(self, key):
        """Whether a key has None or integer arrays, whose elements may repeat.

        The standard can read with such a key, but not assign. NumPy can.
        """
        keys = key if isinstance(key, tuple) else (key,)
        return any(
            k is None or (type(k) in self.array_types and self.xp.isdtype(k.dtype, "integral"))
            for k in keys
        )

    def _with_dtype(self, name):
        """The function ``name``, which then takes any library's dtype."""
        function = getattr(self.standard, name)

        def with_dtype(x, /, *, dtype=None, **options):
            return function(x, dtype=None if dtype is None else self.dtype(dtype), **options)

        return with_dtype

    def _isin(self, x1, x2, /, *, invert=False):
        out = self.standard.isin(x1, x2)  # array-api-strict 2.6 has no ``invert``
        return ~out if invert else out

    def _broadcast_arrays(self, *arrays):
        # array-api-strict's moves all arrays to the device of the first.
        shape = np.broadcast_shapes(*[tuple(a.shape) for a in arrays])
        return tuple([self.standard.broadcast_to(a, shape) for a in arrays])

    def _astype(self, x, dtype, /, *, copy=True, device=None):
        return self.standard.astype(x, self.dtype(dtype), copy=copy)

    def _one_hot(self, labels, /, n):
        xp = self.xp
        check_labels(self.to_numpy(labels), n)
        labels = xp.astype(labels, xp.int64, copy=False)  # small integer types may not hold n
        positions = xp.arange(n, device=array_api_compat.device(labels))
        return xp.expand_dims(labels, axis=-1) == positions


def _name(device):
    """A device's name: ``device1`` for array-api-strict's ``Device('device1')``."""
    text = str(device)
    return text.split("'")[1] if "'" in text else text


class HostRandom:
    """Random arrays that NumPy makes and the library then copies to its device."""

    def __init__(self, backend, seed, device):
        self.host = host.generator(seed, None)
        self.backend, self.device = backend, device
        self.get_state, self.set_state = self.host.get_state, self.host.set_state

    def __getattr__(self, name):
        draw = getattr(self.host, name)
        return lambda *args: self.backend.asarray(draw(*args), device=self.device)


def backend_for(array):
    """The backend of the library that an array belongs to."""
    return GenericBackend(array_api_compat.array_namespace(array), type(array))
