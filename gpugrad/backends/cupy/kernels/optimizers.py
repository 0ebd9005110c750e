"""Updates and clipping of many tensors by one launch: `MultiTensorUpdater`."""

from functools import cache, cached_property, lru_cache

import cupy
import numpy as np
from cupy.cuda.function import CPointer

from .loader import accumulator, covers, kernel, tables

CHUNK = 2048  # elements of a block, as in the source
THREADS = 256

_NUMBERS = 8  # the most that a kernel takes


class MultiTensorUpdater:
    """Updates or clips many tensors of one device and dtype together.

    A launch takes a table of the tensors' sizes and addresses among its arguments, so they may
    lie anywhere and nothing is copied into one buffer. If there are more tensors than a table
    has room for, there are several launches.

    device: the number of the device.
    """

    def __init__(self, device, dtype):
        self.device, self.dtype, self.computed = device, dtype, accumulator(dtype)

    def entry(self, arrays):
        """What a table says of a parameter and its state; None if they cannot be in one."""
        if not covers(self.dtype) or not all(a.flags.c_contiguous for a in arrays):
            return None
        gradient = 0  # its address is filled in at each update
        addresses = [gradient, *[a.data.ptr for a in arrays]]
        return np.array([arrays[0].size, *addresses], np.int64).tobytes()

    def update(self, entries, grads, name, numbers, skip=None):
        """Run an optimizer's kernel on parameters.

        entries: from `entry`, of each parameter and its state.
        grads: their gradients.
        name, numbers: the kernel's name, and the floats that it takes as a struct after the table,
            or an array with them, which the kernel reads.
        skip: a 0-d float32 array; if it is not 0, nothing is changed.

        Returns whether it was done. It is not if two parameters share memory, since neither
        would see the other's update.
        """
        launches = _launches(b"".join(entries), len(entries), self.dtype.itemsize)
        if launches is None:
            return False
        run = kernel("optimizers", name, self.dtype)
        at = numbers if type(numbers) is cupy.ndarray else None
        if at is None:
            launches.numbers[: len(numbers)] = numbers
        with cupy.cuda.Device(self.device):
            skip = self._zero if skip is None else skip
            grads = [
                g if g.flags.c_contiguous and g.dtype is self.dtype
                else cupy.ascontiguousarray(g, self.dtype)
                for g in grads
            ]  # fmt: skip
            addresses = [g.data.ptr for g in grads]
            for table in launches.tables:
                table.first_arrays[:] = addresses[table.some]
                run((table.blocks,), (THREADS,), (table.argument, launches.argument, at, skip))
        return True

    @cached_property
    def _zero(self):
        """For the usual step, which is not skipped; the current device must be this one's."""
        return cupy.zeros((), np.float32)

    def scale(self, arrays, factor, found=None):
        """Multiply arrays, no two of which share memory, by a 0-d array such as `norm` returns.

        found: a 0-d float32 array that becomes 1 if an element is not finite; ``factor`` must be
            float32 then, too.

        Returns whether it was done. It is not if the arrays cannot be in a table.
        """
        if (tables := self._tables(arrays)) is None:
            return False
        name, more = ("scale", ()) if found is None else ("unscale", (found,))
        run = kernel("optimizers", name, self.dtype)
        with cupy.cuda.Device(self.device):
            for table in tables:
                run((table.blocks,), (THREADS,), (table.argument, factor, *more))
        return True

    def norm(self, arrays, most):
        """The 2-norm of all arrays together, and the factor that reduces it to at most ``most``.

        Both are 0-d, float32 for 16-bit arrays. Returns None if the arrays cannot be in a table.
        """
        if (tables := self._tables(arrays)) is None:
            return None
        with cupy.cuda.Device(self.device):
            total = sum(table.blocks for table in tables)
            sums, out = cupy.empty(total, self.computed), cupy.empty(2, self.computed)
            run = kernel("optimizers", "squares", self.dtype)
            start = 0
            for table in tables:
                run((table.blocks,), (THREADS,), (table.argument, sums[start:]))
                start += table.blocks
            kernel("optimizers", "total_norm", self.dtype)((1,), (1024,), (sums, out, total, most))
            return out[0], out[1]

    def _tables(self, arrays):
        """The `_Table` of each launch over arrays; None if they cannot be in one."""
        orders = [a.flags for a in arrays]
        if not (covers(self.dtype) and all(x.c_contiguous or x.f_contiguous for x in orders)):
            return None
        entries = np.array([(a.size, a.data.ptr) for a in arrays], np.int64)
        return _launches(entries.tobytes(), len(arrays), self.dtype.itemsize).tables


multi_tensor_updater = cache(MultiTensorUpdater)


class _Table:
    """The table of one launch, see `loader.tables`.

    some: the slice of the tensors that it is for.
    blocks: the number of blocks.
    first_arrays: the addresses of the tensors' first arrays, which may be changed between launches.
    argument: what the kernel is given for it.
    """

    def __init__(self, some, table, blocks):
        self.some, self.blocks = some, blocks
        n = int(table["count"][0])
        self.first_arrays = table["words"][0, 2 * n : 3 * n]
        self.argument = CPointer(table.ctypes.data)  # `first_arrays` keeps that memory alive


class _Launches:
    """The tables of all launches over some tensors, and the numbers that go with them.

    CuPy would read the ``__array_interface__`` of NumPy arrays at every launch, which takes longer
    than the rest of the launch.
    """

    def __init__(self, tables, dtype):
        self.tables = tables
        self.numbers = np.zeros(_NUMBERS, dtype)
        self.argument = CPointer(self.numbers.ctypes.data)


@lru_cache(maxsize=100)
def _launches(entries, count, itemsize):
    """Make the `_Launches` over ``count`` tensors, or return None if two parameters share memory.

    entries: of each tensor its size and the addresses of its arrays, as bytes. If there are
        several arrays, the first is a gradient and the second a parameter.
    """
    sizes, *addresses = np.frombuffer(entries, np.int64).reshape(count, -1).T
    if len(addresses) > 1:
        order = addresses[1].argsort()
        starts = addresses[1][order]
        stops = starts + sizes[order] * itemsize
        if (stops[:-1] > starts[1:]).any():
            return None
    found = tables(-(-sizes // CHUNK), sizes, *addresses)
    return _Launches([_Table(*one) for one in found if one[2]], "f8" if itemsize == 8 else "f4")
