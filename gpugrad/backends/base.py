"""`Backend`: what gpugrad needs from an array library beyond its namespace."""

import math
import operator
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from types import ModuleType
from typing import Any

from .declarations import declare, has_array
from .dtypes import is_bfloat16, number_dtype
from .einsum import einsum
from .linalg import extend_linalg
from .registry import device_library, transfer
from .special import LazyFunctions
from .windows import functions as functions_of_windows

# Fourier transforms by the inputs that the standard allows.
COMPLEX_TRANSFORMS = "fft", "ifft", "fftn", "ifftn", "irfft", "irfftn", "hfft"
REAL_TRANSFORMS = "rfft", "rfftn", "ihfft"

# Methods that are also functions of the namespace.
_IN_NAMESPACE = "add_along_axis clip dropout_mask last_written pick pow setitem".split()
# Functions whose results have a shape that depends on values.
_OF_UNKNOWN_SHAPE = """
    argwhere bincount compress delete extract flatnonzero intersect1d nonzero setdiff1d setxor1d
    trim_zeros union1d unique unique_all unique_counts unique_inverse unique_values
""".split()


def copy_of(namespace, name):
    """A module called ``name`` with the public contents of a namespace, to be extended."""
    module = ModuleType(name)
    vars(module).update({n: getattr(namespace, n) for n in dir(namespace) if n[0] != "_"})
    return module


class Backend:
    """An array library: its namespace, types, devices, transfers and random numbers.

    name: the library's name.
    xp: the namespace ops run on: the standard's functions and these, which the standard lacks:
        ``scatter_add(values, shape, key)``: zeros of ``shape`` with ``values`` added at ``key``;
        ``add_along_axis(values, indices, shape, axis)``: the same, adding at ``indices``;
        ``setitem(x, value, key)``: a copy of ``x`` with ``value`` at ``key``;
        ``last_written(x, key)``: bools of the shape of ``x[key]``, True where an assigned
        element stays because no later one overwrites it;
        ``one_hot(labels, n)``: bools (..., n); labels outside [0, n) raise IndexError where
        checking them does not wait for a device;
        ``pick(x, labels)``: the elements (...) of ``x`` (..., n) at labels (...); labels outside
        [0, n) raise IndexError or give 0, as in ``one_hot``;
        ``dropout_mask(x, shape, p, key, start)``: bools of ``shape``; see `philox`;
        ``to_device(x, device)``: the device may be another library's;
        ``einsum(subscripts, *operands)``; ``special``: functions under SciPy's names;
        ``linalg.cofactor(x)``: matrices of cofactors;
        ``linalg.solve_triangular(a, b, *, lower, unit_diagonal)``: the solutions of ``a @ x = b``,
        for stacks of matrices, where one triangle of ``a`` is not used;
        the functions of `windows`, such as ``convolution``;
        ``zero_discarded_nans(c, g)``: ``c`` with 0 in place of each nan where ``g``, which has
        or broadcasts to the shape of ``c``, is 0.
    array_types: exact types of its arrays.
    scalar_types: types that its 0-d results decay to, if any.
    in_single: True if all ops compute bfloat16 in float32, False if only some do, see `bfloat16`;
        None if the library itself handles all its dtypes.
    sweep_context: a function that returns the context in which a sweep runs rules on its arrays;
        None if rules need no context.
    guard: wraps a function ``rule(xp, g, saved)`` to return 0 instead of nan where ``g`` is 0;
        None if ``zero_discarded_nans`` of its result is as fast.
    blend: a function ``(arrays, others, a, shares)`` that overwrites one or two arrays ``x`` with
        ``a * x + share * y`` for their others ``y``, adds 1 to an integer after them if there is
        one, and returns whether it could; None if one operation after another is as fast.
    column_block: how many elements of the matrix of windows `windows.convolution` makes at a time;
        None if it makes all at once.
    windows: a module of functions that go over windows at once, as `cupy.kernels.windows`, some of
        which may be missing or return None for what they do not compute; None if there is none.
    convolutions: a module of convolution for what ``windows`` supports, as `cupy.convolution`.
    transfer_batches: a function for `placement.transfer_batches` that copies a batch while the one
        before is used; None if copies do not take long.
    several_devices: whether there are several devices and the library computes on the current
        one. Then `on_device` and `on_devices` make the arrays' device current.
    binder: the module that binds calls to memory that is planned, as `numpy.binding`; None if each
        call of a program is to allocate its result.
    graphs: the module that captures recorded calls and launches them as a whole, as
        `cupy.graphs`; None if there is none.
    is_recorder: whether its arrays stand for others and note the calls that they go through.
    real: the backend of those others; this one if it is no recorder.
    """

    name: str
    xp: Any
    array_types: tuple = ()
    scalar_types: tuple = ()
    in_single: bool | None = None
    sweep_context: Callable | None = None
    guard: Callable | None = None
    blend: Callable | None = None
    column_block: int | None = None
    windows: Any = None
    convolutions: Any = None
    transfer_batches: Callable | None = None
    several_devices = False
    binder: Any = None
    graphs: Any = None
    is_recorder = False

    def __init__(self, xp):
        """Add the functions that all libraries share to ``xp``, a module of the library's own."""
        self.xp, self.real = xp, self
        shared = {name: getattr(self, name) for name in _IN_NAMESPACE} | functions_of_windows(self)
        shared |= {"to_device": transfer, "einsum": partial(einsum, xp)}
        vars(xp).update(shared, special=LazyFunctions(self.special))
        xp.isdtype = cache(xp.isdtype)  # NumPy's takes longer than a small op
        for name in _OF_UNKNOWN_SHAPE:
            if (function := getattr(xp, name, None)) is not None:
                declare(function, values_shape=True)
        if hasattr(xp, "repeat"):
            declare(xp.repeat, values_shape=has_array(1))
        if hasattr(xp, "linalg"):
            extend_linalg(self)

    def __reduce__(self):
        # Copies and pickles of objects that have a backend share the only instance.
        return device_library, (self.name,)

    def device(self, array):
        """The array's device as a string."""
        return "cpu"

    def has_device(self, device):
        """Whether this library's arrays can be on ``device``."""
        return device == "cpu"

    def to_device(self, array, device):
        """The array on ``device``, one of this library's."""
        return array

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        """An array of this library; ``copy=True`` always copies, None only if needed."""
        raise NotImplementedError

    def to_numpy(self, array):
        """The values on the host, as a NumPy array."""
        raise NotImplementedError

    def dtype(self, dtype):
        """This library's object for ``dtype``, which may be its own, NumPy's or a name."""
        return number_dtype(dtype)

    def is_floating(self, dtype):
        """Whether ``dtype`` is real or complex floating, so that it can carry gradients."""
        return dtype.kind in "fc" or is_bfloat16(dtype)

    def is_complex(self, dtype):
        """Whether ``dtype`` is complex floating."""
        return dtype.kind == "c"

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        """Call the creation function ``name`` for ``device`` or the device of ``like``."""
        return getattr(self.xp, name)(*args, dtype=dtype, **keywords)

    def zeros(self, shape, dtype, like):
        """Zeros on the device of the array ``like``."""
        return self.create("zeros", shape, dtype=dtype, like=like)

    def special(self, name):
        """The function ``name`` of ``xp.special``, which calls this once for each name."""
        raise NotImplementedError

    def solve_triangular(self, a, b, *, lower, unit_diagonal):
        """``xp.linalg.solve_triangular``, by the solver for matrices of any form."""
        xp, offset = self.xp, int(unit_diagonal)
        a = xp.tril(a, k=-offset) if lower else xp.triu(a, k=offset)
        if unit_diagonal:
            a = a + self.create("eye", a.shape[-1], dtype=a.dtype, like=a)
        return xp.linalg.solve(a, b)

    def buffer(self, array):
        """Identifies the allocation that holds the array; the same for all its views.

        None if the library does not expose it.
        """
        raise NotImplementedError

    def address_range(self, array):
        """The lowest address of the array's elements, and the one after the highest.

        None if the library does not expose it; then overwritten values go unnoticed.
        """
        raise NotImplementedError

    def twins(self, op):
        """The op's twins for this library, by target; see `autograd.implementation`."""
        return op.twins.get(self.name, {})

    def in_parts(self, forward):
        """An elementwise op's forward, which may compute large arrays part by part."""
        return forward

    def as_kernel(self, rule):
        """An elementwise op's function ``rule(xp, g, saved)``, which may be one kernel."""
        return rule

    def lifted(self, array):
        """An array of another library as one of this library, or itself; see `autograd.call`."""
        return array

    def run(self, function, items):
        """Return ``[function(item) for item in items]``; the calls may run at the same time."""
        return [function(item) for item in items]

    def in_order(self, x):
        """The array, or a copy in C order if the bits of its products depend on that."""
        return x

    def undivided(self, x1, x2):
        """A product of matrices in a call of `run`, whose threads leave nothing to divide."""
        return self.xp.matmul(x1, x2)

    def native(self):
        """The module that makes kernels of a program's calls, as `native.kernel`; None if none."""

    def release_freed_memory(self):
        """Return freed memory to the system, if the library or its allocator keeps it."""

    def memory_owner(self, array):
        """An object that lives as long as the array's memory; None if there is none to refer to."""

    def buffer_size(self, array):
        """Bytes of the allocation that `buffer` identifies."""
        raise NotImplementedError

    def nbytes(self, array):
        """Bytes of the array's elements."""
        return array.nbytes

    def scope(self, array):
        """A context in which the array's device is the current one."""
        return nullcontext()

    def report(self):
        """Pairs of texts about the library, for ``python -m gpugrad``."""
        return []

    def explain(self, error, devices):
        """Explain an error of this library's; None if the error's own text is clear.

        devices: names of the devices, of any library, where it may have happened.
        """

    def on_device(self, forward, one_device):
        """Wrap ``forward(xp, *arrays, **static)`` to run on the device of its first array.

        one_device: whether arrays on different devices are an error.
        """
        raise NotImplementedError

    def on_devices(self, rule):
        """Wrap ``rule(xp, g, saved)`` to run on the device of ``g``.

        It leaves the device of its result current, until the `sweep_context` ends.
        """
        raise NotImplementedError

    def synchronize(self, array):
        """Wait until the array's device has finished its work."""

    def read_later(self, array):
        """A function that returns what the only element of an array is now, as a Python number.

        Neither this method nor the function waits for work that is enqueued in between.
        """
        value = self.to_numpy(array).item()
        return lambda: value

    def multi_tensor_updater(self, array):
        """The `kernels.optimizers.MultiTensorUpdater` for arrays of this one's device and dtype.

        None if optimizers and clipping go through arrays one by one.
        """

    def collectives(self, array, group):
        """An object that reduces arrays on the device of ``array`` over a ``group`` of processes.

        It has the methods of `_processes.Group` that take arrays. Groups reduce NumPy's arrays
        themselves.
        """
        raise TypeError(
            f"arrays of {self.name} cannot be sent to other processes; use NumPy's or CuPy's"
        )

    def is_unshared(self, array):
        """Whether no other array shares the memory of ``array``, given no reference to it."""
        return False

    def generator(self, seed, device):
        """A random number generator on ``device``: see `numpy.random.Random` for its methods."""
        raise NotImplementedError

    def add_along_axis(self, values, indices, /, shape, axis):
        key = []
        for i, n in enumerate(shape):
            places = self.create("arange", n, dtype=self.xp.int64, like=values)
            key.append(self.xp.reshape(places, (-1,) + (1,) * (len(shape) - 1 - i)))
        key[axis] = indices
        return self.xp.scatter_add(values, shape, tuple(key))

    def clip(self, x, min, max, /):
        """The standard's, which keeps nan; if the bounds cross, the upper one wins."""
        if min is not None:
            x = self.xp.maximum(x, min)
        return x if max is None else self.xp.minimum(x, max)

    pow = staticmethod(operator.pow)  # unlike some libraries' functions, it takes numbers

    def pick(self, x, labels, /):
        xp = self.xp
        return xp.sum(xp.where(xp.one_hot(labels, x.shape[-1]), x, 0.0), axis=-1)

    def dropout_mask(self, x, /, *, shape, p, key, start=0):
        from .philox import kept

        return self.asarray(kept(shape, p, key, start), device=self.device(x))

    def setitem(self, x, value, key):
        out = self.asarray(x, copy=True)
        out[key] = value
        return out

    def last_written(self, x, key):
        shape = x[key].shape
        numbers = self.create("arange", math.prod(shape), dtype=self.xp.int64, like=x)
        numbers = self.xp.reshape(numbers, shape)
        places = self.zeros(x.shape, self.xp.int64, x)
        places[key] = numbers
        return places[key] == numbers


def address_range(address, shape, strides, itemsize):
    """The lowest address of the elements of an array, and the one after the highest.

    address: of the element with indices 0. strides: in bytes, perhaps negative.
    """
    if 0 in shape:
        return address, address
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    lowest = address + sum([step for step in steps if step < 0])
    return lowest, address + sum([step for step in steps if step > 0]) + itemsize
