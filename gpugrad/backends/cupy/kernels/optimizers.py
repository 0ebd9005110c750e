"""Updates and clipping of many tensors by one launch: `MultiTensorUpdater`."""

from functools import cache, lru_cache

import cupy
import numpy as np

from .loader import covers, kernel

CHUNK = 2048  # elements of a block, and words of `Tensors`, as in the source
WORDS = 448
THREADS = 256

_TENSORS = np.dtype([("count", "i8"), ("words", "i8", WORDS)])


@cache
def multi_tensor_updater(device, dtype):
    """The `MultiTensorUpdater` of a dtype on a device, which is given by its number."""
    return MultiTensorUpdater(device, dtype)


class MultiTensorUpdater:
    """Updates or clips many tensors of one device and dtype together.

    A launch takes a table of the tensors' sizes and addresses among its arguments, so they may
    lie anywhere and nothing is copied into one buffer. If there are more tensors than a table
    has room for, there are several launches.
    """

    def __init__(self, device, dtype):
        self.device = device
        self.dtype = dtype
        self.computed = np.dtype("f8" if dtype == "float64" else "f4")

    def entry(self, arrays):
        """What a table says of a parameter and its state; None if they cannot be in one."""
        if not covers(self.dtype) or not all(a.flags.c_contiguous for a in arrays):
            return None
        gradient = 0  # its address is filled in at each update
        addresses = [gradient, *[a.data.ptr for a in arrays]]
        return np.array([arrays[0].size, *addresses], np.int64).tobytes()

    def update(self, entries, grads, name, numbers):
        """Run an optimizer's kernel on parameters.

        entries: from `entry`, of each parameter and its state.
        grads: their gradients.
        name, numbers: the kernel's name, and the floats that it takes as a struct after the table.

        Returns whether it was done. It is not if two parameters share memory, since neither
        would see the other's update.
        """
        tables = _tables(b"".join(entries), len(entries), self.dtype.itemsize)
        if tables is None:
            return False
        run = kernel("optimizers", name, self.dtype)
        numbers = np.array((numbers,), _struct(self.computed, len(numbers)))
        with cupy.cuda.Device(self.device):
            grads = [
                g if g.flags.c_contiguous and g.dtype is self.dtype
                else cupy.ascontiguousarray(g, self.dtype)
                for g in grads
            ]  # fmt: skip
            addresses = [g.data.ptr for g in grads]
            for some, blocks, table, first_arrays in tables:
                first_arrays[:] = addresses[some]
                run((blocks,), (THREADS,), (table, numbers))
        return True

    def norm(self, arrays, most):
        """The 2-norm of all arrays together, and the factor that reduces it to at most ``most``.

        Both are 0-d, float32 for 16-bit arrays. Returns None if the arrays cannot be in a table.
        """
        tables = self._tables_to_clip(arrays)
        if tables is None:
            return None
        with cupy.cuda.Device(self.device):
            total = sum(blocks for _, blocks, _, _ in tables)
            sums = cupy.empty(total, self.computed)
            out = cupy.empty(2, self.computed)
            run = kernel("optimizers", "squares", self.dtype)
            start = 0
            for _, blocks, table, _ in tables:
                run((blocks,), (THREADS,), (table, sums[start:]))
                start += blocks
            kernel("optimizers", "total_norm", self.dtype)((1,), (1024,), (sums, out, total, most))
            return out[0], out[1]

    def scale(self, arrays, factor):
        """Multiply arrays, no two of which share memory, by a 0-d array such as `norm` returns.

        Returns whether it was done. It is not if the arrays cannot be in a table.
        """
        tables = self._tables_to_clip(arrays)
        if tables is None:
            return False
        run = kernel("optimizers", "scale", self.dtype)
        with cupy.cuda.Device(self.device):
            for _, blocks, table, _ in tables:
                run((blocks,), (THREADS,), (table, factor))
        return True

    def _tables_to_clip(self, arrays):
        if not covers(self.dtype):
            return None
        if not all(a.flags.c_contiguous or a.flags.f_contiguous for a in arrays):
            return None
        entries = np.array([(a.size, a.data.ptr) for a in arrays], np.int64)
        return _tables(entries.tobytes(), len(arrays), self.dtype.itemsize)


@cache
def _struct(dtype, n):
    return np.dtype([("numbers", dtype, n)])


@lru_cache(maxsize=100)
def _tables(entries, count, itemsize):
    """Make the tables of each launch over ``count`` tensors, or return None.

    entries: of each tensor its size and the addresses of its arrays, as bytes. If there are
        several arrays, the first is a gradient and the second a parameter.

    Returns for each launch the slice of the tensors that it is for, its number of blocks, its
    `Tensors`, and a view of the addresses of their first arrays. Returns None if two parameters
    share memory.
    """
    sizes, *addresses = np.frombuffer(entries, np.int64).reshape(count, -1).T
    if len(addresses) > 1:
        order = addresses[1].argsort()
        starts = addresses[1][order]
        stops = starts + sizes[order] * itemsize
        if (stops[:-1] > starts[1:]).any():
            return None
    tables = []
    most = WORDS // (len(addresses) + 2)
    for i in range(0, count, most):
        some = slice(i, i + most)
        blocks = -(-sizes[some] // CHUNK)
        stops = blocks.cumsum()
        if stops[-1]:
            n = len(blocks)
            rows = [stops - blocks, sizes[some], *[row[some] for row in addresses]]
            table = np.zeros(1, _TENSORS)
            table["count"] = n
            words = table["words"][0]
            words[: len(rows) * n] = np.concatenate(rows)
            tables.append((some, int(stops[-1]), table, words[2 * n : 3 * n]))
    return tables
