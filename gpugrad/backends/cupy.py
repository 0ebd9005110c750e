"""CuPy: CUDA devices. Imported when one is asked for.

What CuPy or array-api-compat's namespace for it lack or get wrong is mended here.
"""

from contextlib import contextmanager
from functools import cache, cached_property, wraps
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np

from .base import Backend
from .bfloat16 import finfo, is_bfloat16, isdtype, result_type
from .numpy import float32, number_dtype
from .registry import parse_device
from .special import of_cupy

try:
    import cupy
except ModuleNotFoundError as error:
    raise RuntimeError(
        "CUDA needs CuPy, which is not installed; "
        "pip install cupy-cuda13x for CUDA 13 or cupy-cuda12x for CUDA 12"
    ) from error
except ImportError as error:
    raise RuntimeError(f"CuPy is installed but does not load: {error}") from error

from array_api_compat import cupy as standard
from cupy.cuda.memory import PooledMemory

from . import cupy_batches, cupy_devices, cupy_standard, kernels
from .cupy_linalg import linalg
from .cupy_products import mend
from .kernels.optimizers import multi_tensor_updater

xp: Any = ModuleType("gpugrad.backends.cupy.xp", "CuPy's namespace as ops use it.")
vars(xp).update({n: getattr(standard, n) for n in dir(standard) if not n.startswith("__")})
xp.linalg = linalg
for _namespace in (xp, linalg):
    mend(_namespace)


def _device_of(values):
    """The device of the first array among them; None if there is none."""
    for x in values:
        if type(x) is cupy.ndarray:
            return x.device
    return None


def _check_one_device(values):
    """A kernel of our own takes addresses as they are, and CuPy's may read another device's
    memory in silence."""
    devices = {x.data.device_id for x in values if type(x) is cupy.ndarray}
    if len(devices) > 1:
        raise ValueError(f"arrays are on devices {' and '.join(map(str, sorted(devices)))}")


def _enter(values):
    for x in values if isinstance(values, (tuple, list)) else (values,):
        if type(x) is cupy.ndarray:
            if x.data.device_id != cupy.cuda.runtime.getDevice():
                x.device.use()
            return


def _cuda():
    return cupy.cuda.runtime.runtimeGetVersion() // 1000


@cache
def _compute():
    try:
        cupy.arange(2).sum().item()
    except Exception as error:  # CUDA's, its compiler's, or a missing library's
        raise RuntimeError(
            f"CuPy finds a CUDA device but cannot use it: {error}; where the CUDA Toolkit is not "
            f"installed, add it with pip install 'cupy-cuda{_cuda()}x[ctk]'"
        ) from error


class CuPy(Backend):
    name = "cupy"
    xp = xp
    in_single = False
    array_types = (cupy.ndarray,)
    twins = kernels.twins

    @cached_property
    def several_devices(self):
        """Whether there are: else no array's device ever has to be entered."""
        try:
            return self.device_count() > 1
        except RuntimeError:
            return False

    def check_device(self, device):
        """RuntimeError with CUDA's own words unless ``device`` is there."""
        index = parse_device(device)[1] or 0
        count = self.device_count()
        if index >= count:
            found = f"{count}, from cuda:0" if count else "none"
            raise RuntimeError(f"device cuda:{index} is not there: CUDA finds {found}")

    def check_works(self):
        """RuntimeError that says why unless the current device computes."""
        self.check_device("cuda")
        _compute()

    def device_count(self):
        """How many devices CUDA finds; RuntimeError with its own words if it does not work."""
        try:
            return cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            reason = f"{error}{cupy_devices.driver_problem()}"
            raise RuntimeError(f"CuPy is installed but finds no CUDA device: {reason}") from error

    def device(self, array):
        return f"cuda:{array.device.id}"

    def has_device(self, device):
        if not device.startswith("cuda"):
            return False
        self.check_device(device)
        return True

    def _scope(self, device):
        _, index = parse_device(device or "cuda")
        return cupy.cuda.Device(index)

    def scope(self, array):
        return array.device

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if type(data) is cupy.ndarray and dtype is None and device is None and not copy:
            return data
        if isinstance(data, cupy.ndarray):
            if device is not None:
                data = self.to_device(data, device)
            device = self.device(data)
        with self._scope(device):
            return cupy.array(data, dtype=dtype, copy=copy)

    def from_interface(self, x):
        """The memory of an object that has ``__cuda_array_interface__`` as an array.

        CuPy waits for the stream that it names, as the protocol asks.
        """
        with cupy_devices.scope(cupy_devices.of_pointer(x.__cuda_array_interface__["data"][0])):
            return cupy.array(x, copy=None)

    def to_device(self, array, device):
        source, target = array.device, self._scope(device)
        if source == target:
            return array
        with cupy_devices.ordered(source.id, target.id), target:
            return array.copy("A")  # for where strides have gaps, CuPy must be told an order

    def explain(self, error, devices):
        numbers = [parse_device(name)[1] for name in devices if name.startswith("cuda")]
        return cupy_devices.meaning(error, next((n for n in numbers if n is not None), None))

    def bring(self, batches, device):
        for first in batches:
            batches = chain([first], batches)
            if all(type(array) is cupy.ndarray for array, _ in first):  # nothing is on the host
                yield from super().bring(batches, device)
            else:
                yield from cupy_batches.bring(batches, self._scope(device))

    def to_numpy(self, array):
        with array.device:  # whose current stream has the work to wait for
            return cupy.asnumpy(array)

    def dtype(self, dtype):
        return number_dtype(dtype)

    def is_floating(self, dtype):
        return dtype.kind in "fc" or is_bfloat16(dtype)

    def is_complex(self, dtype):
        return dtype.kind == "c"

    def on_device(self, forward, of_one):
        @wraps(forward)
        def run(xp, *arrays, **static):
            if xp is self.xp:
                if of_one:
                    _check_one_device(arrays)
                device = _device_of(arrays)
                if device is not None and device.id != cupy.cuda.runtime.getDevice():
                    with device:
                        return forward(xp, *arrays, **static)
            return forward(xp, *arrays, **static)

        return run

    def on_devices(self, rule):
        def run(xp, g, saved):
            if xp is not self.xp:
                return rule(xp, g, saved)
            _enter(g)
            c = rule(xp, g, saved)
            _enter(c)
            return c

        return run

    @contextmanager
    def sweeping(self):
        before = cupy.cuda.runtime.getDevice()
        try:
            yield
        finally:
            cupy.cuda.runtime.setDevice(before)

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        with self._scope(device) if like is None else like.device:
            return getattr(xp, name)(*args, dtype=dtype, **keywords)

    def special(self, name):
        return of_cupy(name)

    def buffer(self, array):
        memory = array.data.mem
        return memory.ptr or memory  # the address of every empty array is 0

    def buffer_size(self, array):
        return array.data.mem.size

    def synchronize(self, array):
        with array.device:
            cupy.cuda.get_current_stream().synchronize()

    def multi_tensor_updater(self, array):
        return multi_tensor_updater(array.device.id, array.dtype)

    def is_unshared(self, array):
        return array.base is None and isinstance(array.data.mem, PooledMemory)

    def generator(self, seed, device):
        return kernels.random.Random(seed, self._scope(device))

    def dropout_mask(self, x, /, *, shape, p, key):
        return kernels.random.dropout_mask(shape, p, key)

    def setitem(self, x, value, key):
        with x.device:
            if not _may_repeat(key):
                out = x.copy()
                out[key] = value
                return out
            # Which of the values at a repeated index `out[key] = value` leaves is undefined.
            positions = _positions(x, key)
            shape = x[key].shape
            values = cupy.asarray(value, dtype=x.dtype)
            values = values.reshape(values.shape[max(values.ndim - len(shape), 0) :])
            values = cupy.broadcast_to(values, shape).ravel()
            if not values.size:
                return x.copy()
            return cupy.where(positions < 0, x, values[positions])

    def last_written(self, x, key):
        with x.device:
            count = cupy.arange(x[key].size).reshape(x[key].shape)
            return _positions(x, key)[key] == count


def _scatter_add(values, /, shape, key):
    with values.device:
        if values.dtype.kind == "c":  # atomic additions are of real numbers
            out = cupy.empty(shape, values.dtype)
            out.real = _scatter_add(values.real, shape, key)
            out.imag = _scatter_add(values.imag, shape, key)
            return out
        if values.dtype.char in _HALVES and _may_repeat(key):
            return _scatter_add(values.astype(float32), shape, key).astype(values.dtype)
        out = cupy.zeros(shape, values.dtype)
        if _may_repeat(key):
            cupy.add.at(out, key, values)
        else:
            out[key] = values
        return out


# Of these CuPy sums float16 in itself, has no `where` of bfloat16, and makes float64 of its var.
_HALVES = "eE"  # NumPy's characters for both


def _sum(x, /, *, axis=None, dtype=None, keepdims=False):
    if x.dtype.char == "e" and (dtype is None or dtype == x.dtype):
        return cupy.sum(x, axis, float32, keepdims=keepdims).astype(x.dtype)
    return standard.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _in_single(function):
    """The function, of halves computed in float32."""

    @wraps(function)
    def call(x, /, **options):
        if x.dtype.char not in _HALVES or options.get("dtype") is not None:
            return function(x, **options)
        return function(x.astype(float32), **options).astype(x.dtype)

    return call


def _where(condition, x1, x2, /):
    kinds = {getattr(x.dtype, "char", None) for x in (x1, x2) if isinstance(x, cupy.ndarray)}
    if kinds != {"E"}:
        return cupy.where(condition, x1, x2)
    dtype = (x1 if isinstance(x1, cupy.ndarray) else x2).dtype
    return cupy.where(condition, _bits(x1, dtype), _bits(x2, dtype)).view(dtype)


def _bits(x, dtype):
    if not isinstance(x, cupy.ndarray):
        x = np.asarray(x).astype(dtype)[()]
    return x.view(np.uint16)


def _one_hot(labels, /, n):
    with labels.device:
        return labels[..., None] == cupy.arange(n)


def _positions(x, key):
    """For each element of ``x`` the last position in ``x[key]`` that is it, or -1."""
    count = cupy.arange(1, x[key].size + 1, dtype=cupy.uint64).reshape(x[key].shape)
    positions = cupy.zeros(x.shape, cupy.uint64)  # the widest integers that CuPy has `at` for
    cupy.maximum.at(positions, key, count)
    return positions.astype(cupy.int64) - 1


def _may_repeat(key):
    keys = key if type(key) is tuple else (key,)
    return any(isinstance(k, cupy.ndarray) and k.dtype.kind != "b" for k in keys)


def _unpoison(c, g, /):
    out = kernels.unpoison(c, g)
    if out is not NotImplemented:
        return out
    return _where(cupy.isnan(c) & (g == 0), c.dtype.type(0), c)


def _there(function):
    """The function of an array, run on its device: for what is called outside of ops too."""

    @wraps(function)
    def call(x, /, *args, **options):
        if x.data.device_id == cupy.cuda.runtime.getDevice():
            return function(x, *args, **options)
        with x.device:
            return function(x, *args, **options)

    return call


@_there
def _conj(x, /):
    return cupy.conj(x) if x.dtype.kind == "c" else x


backend = CuPy()
for _function in (_scatter_add, _one_hot, _unpoison, _conj, _sum, _where):
    setattr(xp, _function.__name__[1:], _function)
for _name in ("cumulative_prod", "cumulative_sum", "prod", "std", "var"):
    setattr(xp, _name, _in_single(getattr(xp, _name)))
for _function in cupy_standard.mended:
    setattr(xp, _function.__name__, _function)
vars(xp).update(
    astype=_there(xp.astype),
    finfo=finfo(xp.finfo),
    isdtype=isdtype(xp.isdtype),
    result_type=result_type(xp.result_type),
)
