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
_ADAM_NUMBERS = "weight_decay kept decay1 share1 beta2 share2 step eps".split()


class Lot:
    """Arrays of one device and dtype, which one launch goes over wherever they lie.

    A table of their addresses is part of the launch: nothing is copied to be in one buffer.
    Their device must be the current one.
    """

    def __init__(self, dtype):
        self.dtype = dtype
        self.covered = covers(dtype)
        self.computed = "f8" if dtype == "float64" else "f4"
        self.apart = []  # handles last found to be of memory that no two share

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
        if handles != self.apart:
            # One after the other they would see each other's updates.
            ordered = sorted(handles, key=lambda handle: handle.addresses[0])
            if any(a.stop > b.addresses[0] for a, b in pairwise(ordered)):
                return False
            self.apart = handles
        grads = [
            g if g.flags.c_contiguous and g.dtype == self.dtype
            else cupy.ascontiguousarray(g, self.dtype)
            for g in grads
        ]  # fmt: skip
        addresses = [handle.addresses for handle in handles]
        sizes = [handle.size for handle in handles]
        _ROUTINES[routine](self, grads, addresses, sizes, step, *hyper)
        return True

    def norm(self, arrays, most):
        """The 2-norm of all together, and what to multiply them by for it to be at most ``most``.

        Both are 0-d, float32 for 16-bit arrays; None where it is not for the arrays.
        """
        if not self._are_dense(arrays):
            return None
        tables = [*self._tables(arrays, [()] * len(arrays), [a.size for a in arrays])]
        total = sum(blocks for _, blocks in tables)
        sums = cupy.empty(total, self.computed)
        out = cupy.empty(2, self.computed)
        start = 0
        for table, blocks in tables:
            self._kernel("squares")((blocks,), (THREADS,), (table, sums[start:]))
            start += blocks
        self._kernel("total_norm")((1,), (1024,), (sums, out, total, most))
        return out[0], out[1]

    def scale(self, arrays, factor):
        """Multiply arrays, no two of which share memory, by a 0-d one such as `norm` gives.

        False, and nothing is done, where it is not for the arrays.
        """
        if not self._are_dense(arrays):
            return False
        self._launch("scale", arrays, [()] * len(arrays), [a.size for a in arrays], factor)
        return True

    def _are_dense(self, arrays):
        return self.covered and all(a.flags.c_contiguous or a.flags.f_contiguous for a in arrays)

    def _kernel(self, name):
        return kernel("optimizers", name, self.dtype)

    def _launch(self, name, firsts, addresses, sizes, *numbers):
        run = self._kernel(name)
        for table, blocks in self._tables(firsts, addresses, sizes):
            run((blocks,), (THREADS,), (table, *numbers))

    def _tables(self, firsts, addresses, sizes):
        """A `Tensors` and its number of blocks for each launch that it takes.

        firsts: the tensors' first arrays, whose addresses are not among ``addresses``.
        """
        most = WORDS // (len(addresses[0]) + 3)
        for i in range(0, len(sizes), most):
            some = slice(i, i + most)
            blocks = [-(-size // CHUNK) for size in sizes[some]]
            ends = [*accumulate(blocks)]
            words = [
                *[a.data.ptr for a in firsts[some]],
                *chain.from_iterable(zip(*addresses[some], strict=True)),
                *sizes[some],
                0,
                *ends[:-1],
            ]
            if ends[-1]:
                table = np.zeros(1, _TENSORS)
                table["count"] = len(blocks)
                table["words"][0, : len(words)] = words
                yield table, ends[-1]


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


# The optimizers' routines, after their `apply_single`.


def _sgd(lot, grads, addresses, sizes, step, lr, momentum, dampening, weight_decay, nesterov):
    if not momentum:
        own = [one[:1] for one in addresses]
        lot._launch("sgd", grads, own, sizes, lr, weight_decay)
        return
    share = 1.0 if step == 1 else 1 - dampening
    numbers = lr, weight_decay, momentum, share, nesterov
    lot._launch("sgd_momentum", grads, addresses, sizes, *numbers)


def _adam(lot, grads, addresses, sizes, step, lr, betas, eps, weight_decay, amsgrad, decoupled):
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
    numbers = np.array(values, [(name, lot.computed) for name in _ADAM_NUMBERS])
    own = [one[: 4 if amsgrad else 3] for one in addresses]
    lot._launch("amsgrad" if amsgrad else "adam", grads, own, sizes, numbers)


_ROUTINES = {"sgd": _sgd, "adam": _adam}
