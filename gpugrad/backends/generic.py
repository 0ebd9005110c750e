"""Any other library that speaks the array API standard, array-api-strict and PyTorch among them."""

import math
from types import ModuleType

import array_api_compat
import numpy as np

from .base import Backend
from .numpy import Random
from .numpy import backend as host


class GenericBackend(Backend):
    """Made from the first array of a library that turns up; see `registry.adopt`."""

    def __init__(self, standard, array_type):
        self.name = standard.__name__.removeprefix("array_api_compat.")
        self.array_types = (array_type,)
        self.xp = ModuleType(f"gpugrad.backends.generic.{self.name}")
        vars(self.xp).update(
            {n: getattr(standard, n) for n in dir(standard) if not n.startswith("__")}
        )
        self.standard = standard
        info = standard.__array_namespace_info__()
        self.devices = {_name(device): device for device in info.devices()}
        self.host_device = info.default_device()
        self.xp.astype = self._astype
        self.xp.scatter_add = self._scatter_add
        self.xp.setitem = self.setitem
        self.xp.last_written = self.last_written
        self.xp.one_hot = self._one_hot

    @classmethod
    def of(cls, array):
        return cls(array_api_compat.array_namespace(array), type(array))

    def device(self, array):
        return _name(array_api_compat.device(array))

    def has_device(self, device):
        return device in self.devices

    def to_device(self, array, device):
        return array_api_compat.to_device(array, self.devices[device])

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if dtype is not None:
            dtype = self.dtype(dtype)
        device = self.devices.get(device, device)
        return self.xp.asarray(data, dtype=dtype, device=device, copy=copy)

    def to_numpy(self, array):
        return np.asarray(array_api_compat.to_device(array, self.host_device))

    def dtype(self, dtype):
        return getattr(self.xp, dtype.name) if isinstance(dtype, np.dtype) else dtype

    def is_floating(self, dtype):
        return self.xp.isdtype(dtype, ("real floating", "complex floating"))

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        if like is not None:
            device = array_api_compat.device(like)
        device = self.devices.get(device, device)
        return getattr(self.xp, name)(*args, dtype=dtype, device=device, **keywords)

    def buffer(self, array):
        if hasattr(array, "untyped_storage"):  # PyTorch
            return array.untyped_storage().data_ptr()
        return host.buffer(self.to_numpy(array))

    def generator(self, seed, device):
        return HostRandom(self, seed, device)

    def _astype(self, x, dtype, /, *, copy=True, device=None):
        return self.standard.astype(x, self.dtype(dtype), copy=copy)

    def _scatter_add(self, values, /, shape, key):
        xp = self.xp
        out = self.zeros(shape, values.dtype, values)
        keys = key if isinstance(key, tuple) else (key,)
        if not any(type(k) in self.array_types for k in keys):
            out[key] = values
            return out
        # Number the elements; then round k adds the k-th occurrence of each
        # wanted number, so that no assignment repeats an index.
        device = array_api_compat.device(values)
        size = math.prod(shape)
        wanted = xp.reshape(xp.arange(size, device=device), shape)[key]
        values = xp.reshape(xp.broadcast_to(values, wanted.shape), (-1,))
        wanted = xp.reshape(wanted, (-1,))
        total = xp.zeros((size,), dtype=values.dtype, device=device)
        while wanted.shape[0]:
            first = xp.unique_all(wanted).indices
            places = xp.take(wanted, first)
            total[places] = xp.take(total, places) + xp.take(values, first)
            rest = xp.ones(wanted.shape, dtype=xp.bool, device=device)
            rest[first] = False
            wanted, values = wanted[rest], values[rest]
        return xp.reshape(total, shape)

    def _one_hot(self, labels, /, n):
        xp = self.xp
        if bool(xp.any((labels < 0) | (labels >= n))):
            raise IndexError(f"labels must be from 0 to {n - 1}")
        return xp.expand_dims(labels, axis=-1) == xp.arange(
            n, dtype=labels.dtype, device=array_api_compat.device(labels)
        )


def _name(device):
    """A device as text: ``device1`` for array-api-strict's ``Device('device1')``."""
    text = str(device)
    return text.split("'")[1] if "'" in text else text


class HostRandom:
    """Random arrays made on the host and handed over."""

    def __init__(self, backend, seed, device):
        self.host = Random(seed)
        self.backend = backend
        self.device = device

    def __getattr__(self, name):
        draw = getattr(self.host, name)
        return lambda *args: self.backend.asarray(draw(*args), device=self.device)
