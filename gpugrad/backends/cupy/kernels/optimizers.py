"""Updates and clipping of many arrays at once: `Lot`, which `Backend.lot` gives."""

import math
from functools import cache
from itertools import accumulate, chain, pairwise

import cupy
import numpy as np

from .loader import covers, kernel

CHUNK = 2048  # elements of a block, and words of `Tensors`, as in the source
WORDS = 448
THREADS = 256

_TENSORS = np.dtype([("count", "i8"), ("words", "i8", WORDS)])
_ADAM_NUMBERS = {
    kind: np.dtype(
        [(n, kind) for n in "weight_decay kept decay1 share1 beta2 share2 step eps".split()]
    )
    for kind in ("f4", "f8")
}


class Lot:
    """Arrays of one device and dtype, which one launch goes over wherever they lie.

    A table of their addresses is part of the launch: nothing is copied to be in one buffer.
    Their device must be the current one.
    """

    def __init__(self, dtype):
        self.dtype = dtype
        self.covered = covers(dtype)
        self.computed = "f8" if dtype == "float64" else "f4"
        self.together = {}  # handles updated together: their tables; None if two share memory
        self.clipped = None  # addresses and sizes of what was clipped last, and its tables

    def handle(self, arrays):
        """What `update` wants to know of a parameter and its state; None if it is not for them."""
        if not self.covered or not all(a.flags.c_contiguous for a in arrays):
            return None
        return Handle([a.data.ptr for a in arrays], arrays[0].size, arrays[0].nbytes)

    def update(self, routine, handles, grads, step, *hyper):
        """Run an optimizer's routine; False, and nothing is done, where it cannot be.

        handles: of the parameters and their state.
        step, hyper: as for its ``apply_single``.
        """
        tables = self._tables_of(tuple(handles))
        if tables is None:
            return False
        name, count, *numbers = ROUTINES[routine](self, step, *hyper)
        if count not in tables:
            addresses = [(0, *handle.addresses[:count]) for handle in handles]
            tables[count] = _tables(addresses, [handle.size for handle in handles])
        run = self._kernel(name)
        grads = [
            g if g.flags.c_contiguous and g.dtype is self.dtype
            else cupy.ascontiguousarray(g, self.dtype)
            for g in grads
        ]  # fmt: skip
        addresses = [g.data.ptr for g in grads]
        for some, table, blocks in tables[count]:
            here = addresses[some]
            table["words"][0, : len(here)] = here
            run((blocks,), (THREADS,), (table, *numbers))
        return True

    def _tables_of(self, handles):
        """Tables for parameters that are updated together, by the arrays of each that take part.

        They are None for memory that two share: these would not see each other's updates.
        """
        tables = self.together.get(handles, False)
        if tables is False:
            if len(self.together) >= 100:  # most of handles that are no more
                self.together.clear()
            ordered = sorted(handles, key=lambda handle: handle.addresses[0])
            shared = any(a.stop > b.addresses[0] for a, b in pairwise(ordered))
            # Another thread may clear them again.
            self.together[handles] = tables = None if shared else {}
        return tables

    def norm(self, arrays, most):
        """The 2-norm of all together, and what to multiply them by for it to be at most ``most``.

        Both are 0-d, float32 for 16-bit arrays; None where it is not for the arrays.
        """
        tables = self._tables_to_clip(arrays)
        if tables is None:
            return None
        total = sum(blocks for _, _, blocks in tables)
        sums = cupy.empty(total, self.computed)
        out = cupy.empty(2, self.computed)
        start = 0
        for _, table, blocks in tables:
            self._kernel("squares")((blocks,), (THREADS,), (table, sums[start:]))
            start += blocks
        self._kernel("total_norm")((1,), (1024,), (sums, out, total, most))
        return out[0], out[1]

    def scale(self, arrays, factor):
        """Multiply arrays, no two of which share memory, by a 0-d one such as `norm` gives.

        False, and nothing is done, where it is not for the arrays.
        """
        tables = self._tables_to_clip(arrays)
        if tables is None:
            return False
        for _, table, blocks in tables:
            self._kernel("scale")((blocks,), (THREADS,), (table, factor))
        return True

    def _tables_to_clip(self, arrays):
        if not self.covered:
            return None
        if not all(a.flags.c_contiguous or a.flags.f_contiguous for a in arrays):
            return None
        known = self.clipped
        key = [(a.data.ptr, a.size) for a in arrays]
        if known is None or known[0] != key:
            tables = _tables([(address,) for address, _ in key], [size for _, size in key])
            self.clipped = known = key, tables
        return known[1]

    def _kernel(self, name):
        return kernel("optimizers", name, self.dtype)


class Handle:
    """The addresses of a parameter and its state, the parameter's size, and where it ends."""

    __slots__ = ("addresses", "size", "stop")

    def __init__(self, addresses, size, nbytes):
        self.addresses = addresses
        self.size = size
        self.stop = addresses[0] + nbytes


@cache
def lot(device, dtype):
    """The `Lot` of a device, given by its number."""
    return Lot(dtype)


def _tables(addresses, sizes):
    """For each launch the slice of the tensors it is for, their `Tensors`, and its blocks.

    addresses: of each tensor those of its arrays.
    """
    tables = []
    most = WORDS // (len(addresses[0]) + 2)
    for i in range(0, len(sizes), most):
        some = slice(i, i + most)
        blocks = [-(-size // CHUNK) for size in sizes[some]]
        firsts = [0, *accumulate(blocks)]
        if firsts[-1]:
            table = np.zeros(1, _TENSORS)
            table["count"] = len(blocks)
            words = [*chain.from_iterable(zip(*addresses[some], strict=True)), *sizes[some]]
            words += firsts[:-1]
            table["words"][0, : len(words)] = words
            tables.append((some, table, firsts[-1]))
    return tables


# What optimizers' `apply_single` are here: the kernel's name, how many of a parameter's arrays it
# takes, itself the first, and its numbers.


def _sgd(lot, step, lr, momentum, dampening, weight_decay, nesterov):
    if not momentum:
        return "sgd", 1, lr, weight_decay
    share = 1.0 if step == 1 else 1 - dampening
    return "sgd_momentum", 2, lr, weight_decay, momentum, share, nesterov


def _adam(lot, step, lr, betas, eps, weight_decay, amsgrad, decoupled):
    beta1, beta2 = betas
    correction = math.sqrt(1 - beta2**step)
    values = (
        0.0 if decoupled else weight_decay,
        1 - lr * weight_decay if decoupled else 1.0,
        beta1 / (1 - beta1),
        1 - beta1,
        beta2,
        1 - beta2,
        lr * correction / (1 - beta1**step),
        eps * correction,
    )
    numbers = np.array(values, _ADAM_NUMBERS[lot.computed])
    return ("amsgrad", 4, numbers) if amsgrad else ("adam", 3, numbers)


ROUTINES = {"sgd": _sgd, "adam": _adam}
