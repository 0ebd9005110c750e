"""CUDA devices: transfers, memory and random numbers of CuPy's arrays."""

from contextlib import contextmanager
from functools import cache, cached_property, wraps
from itertools import chain

import cupy
from cupy.cuda.memory import PooledMemory

from ..base import Backend
from ..dtypes import is_bfloat16, number_dtype
from ..registry import parse_device
from ..special import of_cupy
from . import devices as cuda_devices
from . import kernels
from .batches import bring
from .kernels.optimizers import lot
from .namespace import last_positions, may_repeat, xp


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


@contextmanager
def _on_current_device_again():
    """At the end of the block the device that is the current one now is that again."""
    before = cupy.cuda.runtime.getDevice()
    try:
        yield
    finally:
        cupy.cuda.runtime.setDevice(before)


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
    in_single = False
    array_types = (cupy.ndarray,)
    devices = cuda_devices  # functions of devices by their numbers

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
            reason = f"{error}{cuda_devices.driver_problem()}"
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
        with cuda_devices.scope(cuda_devices.of_pointer(x.__cuda_array_interface__["data"][0])):
            return cupy.array(x, copy=None)

    def to_device(self, array, device):
        source, target = array.device, self._scope(device)
        if source == target:
            return array
        with cuda_devices.ordered(source.id, target.id), target:
            return array.copy("A")  # for where strides have gaps, CuPy must be told an order

    def explain(self, error, devices):
        numbers = [parse_device(name)[1] for name in devices if name.startswith("cuda")]
        return cuda_devices.meaning(error, next((n for n in numbers if n is not None), None))

    def bring(self, batches, device):
        for first in batches:
            batches = chain([first], batches)
            if all(type(array) is cupy.ndarray for array, _ in first):  # nothing is on the host
                yield from super().bring(batches, device)
            else:
                yield from bring(batches, self._scope(device))

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
            _enter(g)
            c = rule(xp, g, saved)
            _enter(c)
            return c

        return run

    @property
    def sweep_context(self):
        return _on_current_device_again if self.several_devices else None

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        with self._scope(device) if like is None else like.device:
            return getattr(self.xp, name)(*args, dtype=dtype, **keywords)

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

    def lot(self, array):
        return lot(array.device.id, array.dtype)

    def is_unshared(self, array):
        return array.base is None and isinstance(array.data.mem, PooledMemory)

    def generator(self, seed, device):
        return kernels.random.Random(seed, self._scope(device))

    def dropout_mask(self, x, /, *, shape, p, key):
        return kernels.random.dropout_mask(shape, p, key)

    def setitem(self, x, value, key):
        with x.device:
            if not may_repeat(key):
                out = x.copy()
                out[key] = value
                return out
            # Which of the values at a repeated index `out[key] = value` leaves is undefined.
            positions = last_positions(x, key)
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
            return last_positions(x, key)[key] == count


backend = CuPy(xp)
