"""What gpugrad asks of an array library beyond its namespace."""

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext

from .placement import brought, taken


class Backend:
    """An array library: its namespace, types, devices, transfers and random numbers.

    name: for people.
    xp: the namespace ops run on: the standard's functions and these, which it lacks:
        ``scatter_add(values, shape, key)``: zeros of ``shape`` with ``values`` added at ``key``;
        ``add_along_axis(values, indices, shape, axis)``: with ``values`` added at ``indices``;
        ``setitem(x, value, key)``: a copy of ``x`` with ``value`` at ``key``;
        ``last_written(x, key)``: which places of ``x[key]`` an assignment's value stays in;
        ``one_hot(labels, n)``: bools (..., n); IndexError for labels outside [0, n), where
        looking costs no wait;
        ``pick(x, labels)``: the elements (...) of ``x`` (..., n) at labels (...), or an error
        or 0 where ``one_hot`` gives an error or no True;
        ``dropout_mask(x, shape, p, key)``: bools of ``shape``; see `philox`;
        ``to_device(x, device)``: also to a device of another library;
        ``einsum(subscripts, *operands)``; ``special``: functions under SciPy's names;
        ``linalg.cofactor(x)``: matrices of cofactors;
        ``unpoison(c, g)``: ``c``, but 0 where it is nan and ``g``, of its shape or
        broadcast to it, is 0.
    array_types: exact types of its arrays.
    scalar_types: types that its 0-d results decay to, if any.
    twins: by the names of the library's ops, a faster forward and VJPs: see `gpugrad.op`.
    in_single: whether all ops on bfloat16 compute in float32, or only some: see `bfloat16`; None
        where the library does all that its dtypes need.
    several_devices: whether its functions work on the current device of several, so that
        an array's own has to be entered, for which there are `on_device` and `on_devices`.
    """

    name: str
    xp: object
    array_types: tuple = ()
    scalar_types: tuple = ()
    twins: Mapping[str, Mapping[str, Callable]] = {}
    in_single: bool | None = None
    several_devices = False

    def device(self, array):
        """The array's device as a string."""
        return "cpu"

    def has_device(self, device):
        """Whether ``device`` is one that this library's arrays can be on."""
        return device == "cpu"

    def to_device(self, array, device):
        """The array on another of this library's devices."""
        return array

    def bring(self, batches, device):
        """Yield ``batches``, lists of ``(array, rows)``, as lists of arrays on ``device``.

        They are ``array[rows]``, of a slice or an array of indices; `placement.taken` takes them.
        """
        for batch in batches:
            yield [brought(taken(array, rows), device) for array, rows in batch]

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        """An array of this library; ``copy`` True copies always, None where needed."""
        raise NotImplementedError

    def to_numpy(self, array):
        """The values on the host, as a NumPy array."""
        raise NotImplementedError

    def dtype(self, dtype):
        """This library's object for ``dtype``, its own or NumPy's."""
        return dtype

    def is_floating(self, dtype):
        """Whether ``dtype`` is real or complex floating, so that it can carry gradients."""
        raise NotImplementedError

    def is_complex(self, dtype):
        """Whether ``dtype`` is complex floating."""
        raise NotImplementedError

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        """The namespace's creation function ``name``, on ``device`` or on that of ``like``."""
        return getattr(self.xp, name)(*args, dtype=dtype, **keywords)

    def zeros(self, shape, dtype, like):
        """Zeros on the device of the array ``like``."""
        return self.create("zeros", shape, dtype=dtype, like=like)

    def host_array(self, array, dtype, copy):
        """What ``__array__`` returns."""
        from .numpy import backend

        return backend.asarray(self.to_numpy(array), dtype=dtype, copy=copy)

    def to_list(self, array):
        """The elements as Python numbers, nested by axis."""
        return self.to_numpy(array).tolist()

    def format(self, array, prefix):
        """The values as text, for a repr."""
        from .numpy import format_array

        return format_array(self.to_numpy(array), prefix)

    def special(self, name):
        """The function of ``xp.special`` of this name, asked for once."""
        raise NotImplementedError

    def buffer(self, array):
        """The identity of the allocation that holds the array, shared by its views."""
        raise NotImplementedError

    def buffer_size(self, array):
        """Bytes of that allocation."""
        raise NotImplementedError

    def nbytes(self, array):
        """Bytes of the array's elements."""
        return array.nbytes

    def scope(self, array):
        """A context in which the array's device is the current one."""
        return nullcontext()

    def explain(self, error, devices):
        """What an error of this library's means, where its own text does not say; else None.

        devices: names of those where it may have happened, maybe other libraries'.
        """

    def on_device(self, forward, of_one):
        """``forward(xp, *arrays, **static)``, run on the device of its first array.

        of_one: whether it is an error if the others are on another one.
        """
        raise NotImplementedError

    def on_devices(self, rule):
        """``rule(xp, g, saved)``, run on the device of ``g``; at its end that of its result is
        the current one, until `sweeping` ends."""
        raise NotImplementedError

    def sweeping(self):
        """A context at whose end the current device is as it was before."""
        raise NotImplementedError

    def synchronize(self, array):
        """Wait until what was asked of the array's device is done."""

    def multi_tensor_updater(self, array):
        """What updates or clips many arrays of this one's device and dtype together.

        It is a `kernels.optimizers.MultiTensorUpdater`, or None if they are computed one by one.
        """
        return

    def is_unshared(self, array):
        """Whether no other array can see the memory of ``array``, given no reference to it."""
        return False

    def generator(self, seed, device):
        """A random number generator on ``device``: see `numpy.Random` for its methods."""
        raise NotImplementedError

    def add_along_axis(self, values, indices, /, shape, axis):
        key = []
        for i, n in enumerate(shape):
            places = self.create("arange", n, dtype=self.xp.int64, like=values)
            key.append(
                self.xp.reshape(places, tuple([-1 if j == i else 1 for j in range(len(shape))]))
            )
        key[axis] = indices
        return self.xp.scatter_add(values, shape, tuple(key))

    def clip(self, x, min, max, /):
        """The standard's, of nan too; of crossed bounds the upper wins."""
        if min is not None:
            x = self.xp.maximum(x, min)
        return x if max is None else self.xp.minimum(x, max)

    def pick(self, x, labels, /):
        xp = self.xp
        return xp.sum(xp.where(xp.one_hot(labels, x.shape[-1]), x, 0.0), axis=-1)

    def dropout_mask(self, x, /, *, shape, p, key):
        from .philox import kept

        return self.asarray(kept(shape, p, key), device=self.device(x))

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
