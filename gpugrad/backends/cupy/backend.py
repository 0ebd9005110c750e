"""The CuPy backend: transfers, memory and random numbers of arrays on CUDA devices."""

import sys
from collections import deque
from functools import cache, cached_property, wraps

import cupy
import cupyx
import numpy as np
from cupy.cuda.memory import MemoryAsync, PooledMemory
from cupy.cuda.pinned_memory import is_memory_pinned

from ..base import Backend, address_range
from ..registry import parse_device
from ..special import cupy_function
from . import convolution, graphs, kernels
from . import devices as cuda_devices
from .batches import transfer_batches
from .kernels.optimizers import multi_tensor_updater
from .kernels.reductions import add_rows
from .linalg import in_one_stack
from .namespace import last_positions, may_repeat, xp


def _device_of(values):
    """The device of the first array among ``values``; None if there is no array."""
    for x in values:
        if type(x) is cupy.ndarray:
            return x.device
    return None


def _check_one_device(values):
    """Raise ValueError if the arrays are on different devices.

    gpugrad's kernels do not check addresses, and CuPy's may silently read another device's memory.
    """
    devices = {x.data.device_id for x in values if type(x) is cupy.ndarray}
    if len(devices) > 1:
        raise ValueError(f"arrays are on devices {' and '.join(map(str, sorted(devices)))}")


def _enter_device_of(values):
    device = _device_of(values if isinstance(values, (tuple, list)) else (values,))
    if device is not None and device.id != cupy.cuda.runtime.getDevice():
        device.use()


# The latest targets of `read_later`. They are kept because the device may still copy to one that
# the program has already dropped.
_copied_to: deque = deque(maxlen=100)


def _references(holder):
    return sys.getrefcount(holder[0])


_ALONE = _references([object()])


@cache
def _compute():
    try:
        cupy.arange(2).sum().item()
    except Exception as error:  # from CUDA, its compiler or a missing library
        version = cupy.cuda.runtime.runtimeGetVersion() // 1000
        raise RuntimeError(
            f"CuPy finds a CUDA device but cannot use it: {error}; if the CUDA Toolkit is not "
            f"installed, add it with pip install 'cupy-cuda{version}x[ctk]'"
        ) from error


class CuPy(Backend):
    name = "cupy"
    in_single = False
    array_types = (cupy.ndarray,)
    devices = cuda_devices  # the module of functions that take a device's number
    windows, convolutions, graphs = kernels.windows, convolution, graphs
    special, report = staticmethod(cupy_function), staticmethod(cuda_devices.report)

    @cached_property
    def several_devices(self):
        """Whether there are several devices; with one, arrays' devices need not be entered."""
        try:
            return self.device_count() > 1
        except RuntimeError:
            return False

    def check_device(self, device):
        """Raise RuntimeError unless ``device`` exists."""
        index = parse_device(device)[1] or 0
        count = self.device_count()
        if index >= count:
            found = f"{count}, from cuda:0" if count else "none"
            raise RuntimeError(f"device cuda:{index} does not exist: CUDA finds {found}")

    def check_works(self):
        """Raise RuntimeError that says why unless the current device can compute."""
        self.check_device("cuda")
        _compute()

    def device_count(self):
        """How many devices CUDA finds; RuntimeError with CUDA's own words if it does not work."""
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

    def device_scope(self, device):
        """A context in which ``device``, such as "cuda:1", or else the current one is current."""
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
            if copy and (dtype is None or dtype == data.dtype) and not data.flags.c_contiguous:
                with data.device:
                    return kernels.copy(data)
        with self.device_scope(device):
            # CuPy would copy pinned memory later, when the program may already have written to it.
            waits = type(data) is np.ndarray and is_memory_pinned(data.ctypes.data)
            return cupy.array(data, dtype=dtype, copy=copy, blocking=waits)

    def from_interface(self, x):
        """An array that shares the memory of an object with ``__cuda_array_interface__``.

        CuPy waits for the stream that the object names, as the protocol requires.
        """
        pointer = x.__cuda_array_interface__["data"][0]
        with cupy.cuda.device.from_pointer(pointer) if pointer else cupy.cuda.Device():
            return cupy.array(x, copy=None)

    def to_device(self, array, device):
        source, target = array.device, self.device_scope(device)
        if source == target:
            return array
        cuda_devices.wait(target.id, source.id)
        with target:
            out = array.copy("A")  # CuPy needs this order where strides have gaps
        cuda_devices.wait(source.id, target.id)  # later work may write into memory freed by then
        return out

    def explain(self, error, devices):
        numbers = [parse_device(name)[1] for name in devices if name.startswith("cuda")]
        return cuda_devices.explain(error, next((n for n in numbers if n is not None), None))

    def transfer_batches(self, batches, device):
        return transfer_batches(batches, self.device_scope(device))

    def to_numpy(self, array):
        with array.device:  # CuPy waits for the current stream, which must be this device's
            return cupy.asnumpy(array)

    def on_device(self, forward, one_device):
        @wraps(forward)
        def run(xp, *arrays, **static):
            if one_device:
                _check_one_device(arrays)
            device = _device_of(arrays)
            if device is not None and device.id != cupy.cuda.runtime.getDevice():
                with device:
                    return forward(xp, *arrays, **static)
            return forward(xp, *arrays, **static)

        return run

    def on_devices(self, rule):
        def run(xp, g, saved):
            _enter_device_of(g)
            c = rule(xp, g, saved)
            _enter_device_of(c)
            return c

        return run

    @property
    def sweep_context(self):
        # At its end a `Device` makes that device current that was current at its start.
        return cupy.cuda.Device if self.several_devices else None

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        with self.device_scope(device) if like is None else like.device:
            return getattr(self.xp, name)(*args, dtype=dtype, **keywords)

    def solve_triangular(self, a, b, *, lower, unit_diagonal):
        from cupyx.scipy.linalg import solve_triangular

        a, b = in_one_stack(a, b)
        return solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal) if b.size else b

    def buffer(self, array):
        memory = array.data.mem
        return memory.ptr or memory  # the address of every empty array is 0

    def address_range(self, array):
        return address_range(array.data.ptr, array.shape, array.strides, array.itemsize)

    def buffer_size(self, array):
        return array.data.mem.size

    def synchronize(self, array):
        with array.device:
            cupy.cuda.get_current_stream().synchronize()

    def read_later(self, array):
        with array.device:
            host = cupyx.empty_pinned(array.shape, array.dtype)
            array.get(out=host, blocking=False)
            event = cupy.cuda.Event(block=True, disable_timing=True)
            cupy.cuda.get_current_stream().record(event)
        _copied_to.append(host)

        device = array.device

        def read():
            with device:
                event.synchronize()
            return host.item()

        return read

    def multi_tensor_updater(self, array):
        return multi_tensor_updater(array.device.id, array.dtype)

    def guard(self, rule):
        zero_discarded_nans = self.xp.zero_discarded_nans

        def guarded(xp, g, saved):
            # A rule may return g, a value that the graph keeps, or a view of one.
            holder = [rule(xp, g, saved)]
            if _references(holder) == _ALONE and self.is_unshared(holder[0]):
                c = kernels.zero_discarded_nans(holder[0], g, in_place=True)
                if c is not NotImplemented:
                    return c
            return zero_discarded_nans(holder[0], g)

        return guarded

    def blend(self, arrays, others, a, shares):
        with arrays[0].device:
            return kernels.blend(arrays, others, a, shares)

    def is_unshared(self, array):
        return array.base is None and isinstance(array.data.mem, (PooledMemory, MemoryAsync))

    def collectives(self, array, group):
        from .collectives import Collectives  # which few programs need

        return Collectives(array.device, group)

    def generator(self, seed, device):
        return kernels.random.Random(seed, self.device_scope(device))

    def dropout_mask(self, x, /, *, shape, p, key, start=0):
        return kernels.random.dropout_mask(shape, p, key, start)

    def add_along_axis(self, values, indices, /, shape, axis):
        axis %= len(shape)
        n = indices.shape[axis]
        if indices.size != n or values.shape != (*shape[:axis], n, *shape[axis + 1 :]):
            return super().add_along_axis(values, indices, shape, axis)
        # The same indices for all other axes, as in the gradient of `take`.
        indices = indices.reshape(n)
        if not kernels.covers(values.dtype):
            return self.xp.scatter_add(values, shape, (*[slice(None)] * axis, indices))
        with values.device:
            if not axis:
                return add_rows(values, indices, shape[0])
            added = add_rows(cupy.moveaxis(values, axis, 0), indices, shape[axis])
            return cupy.moveaxis(added, 0, axis)

    def setitem(self, x, value, key):
        with x.device:
            if not may_repeat(key):
                out = x.copy()
                out[key] = value
                return out
            # With repeated indices, CuPy does not define which value `out[key] = value` leaves.
            positions = last_positions(x, key)
            shape = x[key].shape
            values = cupy.asarray(value, dtype=x.dtype)
            values = values.reshape(values.shape[max(values.ndim - len(shape), 0) :])
            values = cupy.broadcast_to(values, shape).ravel()
            return cupy.where(positions < 0, x, values[positions]) if values.size else x.copy()

    def last_written(self, x, key):
        with x.device:
            part = x[key]
            return last_positions(x, key)[key] == cupy.arange(part.size).reshape(part.shape)


backend = CuPy(xp)
