"""Traced arrays, which replace real ones while a function is recorded.

To the rest of the library a `Traced` array is one more type of array: ops, rules and optimizers
use its operators and the functions of its namespace. Each of them calls the real library's function
on the real arrays, and the `Recorder` notes that call as a whole. It does not matter what the
function does inside.
"""

import operator
import sys
from functools import cache, partial
from types import ModuleType
from typing import Any

from .._thread_state import make_lock, thread
from ..autograd.implementation import load_twins
from ..backends import backend_of, namespace_of
from ..backends.base import Backend
from ..backends.declarations import declaration, declare
from .numbers import Key, Number
from .tape import flat, mapped
from .updates import RecordedUpdater

NUMBERS = {Number, Key}
TRACED: set[type] = {Number, Key}  # and the types of arrays, once they are made


class Traced:
    """Replaces a real array, ``value``, and refers to the `Value` ``var`` of the tape."""

    __slots__ = ("recorder", "value", "var", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, recorder, value, var):
        put = object.__setattr__  # that of this class is for the function's own code
        put(self, "recorder", recorder)
        put(self, "value", value)
        put(self, "var", var)

    # These run in C, so that the profile function of the `Witness` is not called for them.
    shape = property(operator.attrgetter("value.shape"))
    dtype = property(operator.attrgetter("value.dtype"))
    ndim = property(operator.attrgetter("value.ndim"))
    size = property(operator.attrgetter("value.size"))
    device = property(operator.attrgetter("value.device"))

    T = property(lambda self: self.recorder.call(transposed, (self,)))
    mT = property(lambda self: self.recorder.call(matrix_transposed, (self,)))
    real = property(lambda self: self.recorder.call(self.recorder.backend.xp.real, (self,)))
    imag = property(lambda self: self.recorder.call(self.recorder.backend.xp.imag, (self,)))

    def astype(self, dtype):
        return self.recorder.call(self.recorder.backend.xp.astype, (self, dtype))

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method == "__call__" and "out" not in kwargs and ufunc.nout == 1:
            return self.recorder.call(ufunc, inputs, kwargs)
        return self._by_numpy(getattr(ufunc, method), *inputs, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return self._by_numpy(function, *args, **kwargs)

    def _by_numpy(self, function, /, *args, **kwargs):
        """Stop the recording, and call a function or a method of NumPy on the real arrays."""
        self.recorder.stop(
            f"it calls NumPy's {function.__name__} with a raw array; make the array a tensor "
            f"first, with gpugrad.asarray"
        )
        return function(*real_of(args), **real_of(kwargs))

    def __setattr__(self, name, value):
        self.recorder.stop(f"it sets {name} of a raw array")
        setattr(self.value, name, value)

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key):
        return self.recorder.call(operator.getitem, (self, key))

    def __setitem__(self, key, value):
        self.recorder.write(self, operator.setitem, (key, value))

    def __getattr__(self, name):  # by which the user's own code may use a raw array
        value = getattr(object.__getattribute__(self, "value"), name)
        is_inside = (sys._getframe(1).f_globals.get("__name__") or "").startswith("gpugrad.")
        if is_inside or name in _LAYOUT or (name.startswith("__") and name not in _MEMORY):
            return value
        if callable(value):
            return partial(self._by_numpy, value)
        self.recorder.read(f"{name.strip('_')} of a raw array is read")
        return value

    def __array__(self, dtype=None, copy=None):
        self.recorder.read("the values of an array are read")
        return self.recorder.backend.to_numpy(self.value).astype(dtype or self.value.dtype)


def _reading(name):
    def read(self, *args):
        self.recorder.read("the value of a tensor is read")
        return getattr(self.value, name)(*args)

    return read


for _name in (
    "bool float int index complex repr str format round trunc floor ceil divmod rdivmod reduce_ex "
    "deepcopy dlpack contains"
).split():
    setattr(Traced, f"__{_name}__", _reading(f"__{_name}__"))
_LAYOUT = {"strides", "itemsize", "nbytes"}
# Other libraries use these to find the memory of an array.
_MEMORY = {"__array_interface__", "__array_struct__", "__cuda_array_interface__"}


def is_unknown(x):
    """Whether ``x`` is a traced array whose values may differ from run to run."""
    return isinstance(x, Traced) and x.var.constant is None


def transposed(x):
    return x.T


def matrix_transposed(x):
    return x.mT


def real_of(x):
    """``x`` with real arrays, numbers and keys for traced ones, also inside of containers."""
    return mapped(x, lambda item: item.value if type(item) in TRACED else item)


@cache  # a call of what is cached is no event for a profile function
def _answers(kind):
    """Whether operands of this type have operators that take precedence over a traced array's."""
    return hasattr(kind, "__array_ufunc__") and kind is not Number and kind not in backend_of


def _operator(function):
    def forward(self, other):
        if _answers(type(other)):
            return NotImplemented
        return self.recorder.call(function, (self, other))

    def reflected(self, other):
        if _answers(type(other)):
            return NotImplemented
        return self.recorder.call(function, (other, self))

    return forward, reflected


def _writing(function):
    def write(self, other):
        if _answers(type(other)):
            return NotImplemented
        self.recorder.write(self, function, (other,))
        return self

    return write


class Scalar(Traced):
    """Replaces a 0-d result for which the real library returns a scalar instead of an array."""

    __slots__ = ()
    __hash__ = _reading("__hash__")


for _name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split():
    _forward, _reflected = _operator(getattr(operator, _name))
    _stem = _name.rstrip("_")
    setattr(Traced, f"__{_stem}__", _forward)
    setattr(Traced, f"__r{_stem}__", _reflected)
    setattr(Traced, f"__i{_stem}__", _writing(getattr(operator, f"i{_stem}")))
    setattr(Scalar, f"__i{_stem}__", _forward)
for _name in "lt le gt ge eq ne".split():
    setattr(Traced, f"__{_name}__", _operator(getattr(operator, _name))[0])
for _name in ("neg", "pos", "abs", "invert"):
    _function = getattr(operator, _name)
    setattr(Traced, f"__{_name}__", lambda self, f=_function: self.recorder.call(f, (self,)))


# Types

_of_backends: dict[Any, tuple[type, type]] = {}
_making = make_lock()


def traced_types(backend):
    """The types of traced arrays and of traced scalars for a library; made when first needed."""
    with _making:
        if backend not in _of_backends:
            members = {"__slots__": (), "__class__": backend.array_types[0]}  # for isinstance
            array = type("Traced", (Traced,), members)
            scalar = type("Scalar", (Scalar,), {"__slots__": ()})
            array.__module__ = scalar.__module__ = __name__
            traced = TracedBackend(backend, array, scalar)
            TRACED.update((array, scalar))
            backend_of[scalar] = backend_of[array] = traced
            namespace_of[array] = traced.xp
            _of_backends[backend] = array, scalar
        return _of_backends[backend]


class _Namespace(ModuleType):
    """A library's namespace, whose functions have the recorder note their calls."""

    def __init__(self, real):
        super().__init__(f"{getattr(real, '__name__', 'xp')}, traced")
        self._of = real

    def __getattr__(self, name):
        value = getattr(self._of, name)
        if isinstance(value, ModuleType) or name in ("special", "linalg"):
            value = _Namespace(value)
        elif callable(value) and not isinstance(value, type) and not hasattr(value, "itemsize"):
            value = _traced(value)
        setattr(self, name, value)
        return value


def _traced(function):
    def traced(*args, **kwargs):
        if (recorder := thread.recorder) is None:
            used = [x.recorder for x in flat((args, kwargs)) if isinstance(x, Traced)]
            if not used:
                return function(*args, **kwargs)
            recorder = used[0]
        return recorder.call(function, args, kwargs)

    return traced


class _TracedTwin:
    """Calls a twin of the real library, and has the recorder note that as one call."""

    def __init__(self, twin, backend):
        # The names of a rule's parameters say what the graph keeps. A forward may be any callable.
        self.__code__ = getattr(twin, "__code__", None)
        self.__kwdefaults__ = getattr(twin, "__kwdefaults__", None)

        def run(*args, **static):
            return twin(backend.xp, *args, **static)

        run.__name__ = getattr(twin, "__name__", "twin")
        self._traced = _traced(declare(run, **declaration(twin)._asdict()))

    def __call__(self, xp, *args, **static):
        return self._traced(*args, **static)


class Outcome:
    """Tells an optimizer whether its step is skipped: if the value ``var`` of the tape is not 0."""

    def __init__(self, traced):
        self.recorder, self.var = traced.recorder, traced.var
        self.real = traced.recorder.backend.read_later(traced.value)

    def __call__(self):
        if thread.recorder is self.recorder:
            self.recorder.stop("an optimizer steps twice in a call, by a GradScaler")
        return self.real()


class TracedBackend(Backend):
    """The backend of traced arrays, which calls the real library's with the real arrays."""

    is_recorder = True

    def __init__(self, real, array, scalar):
        self.real = real
        self.name = f"traced {real.name}"
        self.xp = _Namespace(real.xp)
        self.array_types = (array,)
        self.scalar_types = (scalar,)
        self.in_single = real.in_single
        self._updaters = {}
        if real.blend is not None:
            self.blend = self._blend

    def twins(self, op):
        """The twins of the real library, so that results have the same bits.

        Those with ``is_eager`` are left out: the calls of the definition have the same bits too,
        and can be made by one kernel.
        """
        load_twins(self.real.name)
        return {
            target: _TracedTwin(twin, self.real)
            for target, twin in self.real.twins(op).items()
            if not getattr(twin, "is_eager", False)
        }

    def lifted(self, array):
        """A traced constant for a real array that is an operand together with traced ones."""
        recorder = thread.recorder
        if recorder is None:  # in another thread
            return array.value if isinstance(array, Traced) else array
        return recorder.constant(array) if type(array) in self.real.array_types else array

    def to_device(self, array, device):
        return array.recorder.call(self.real.to_device, (array, device))

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if isinstance(data, Traced):
            recorder = data.recorder
            if dtype is copy is None and type(data) is recorder.kind:
                return data
            if copy and dtype is None and type(data) is recorder.kind:
                if self.real.binder is not None:
                    return recorder.call(self.real.binder.in_c_order, (data,))
                if _is_in_c_order(data.value):
                    return recorder.call(recorder.duplicate, (data,))
            return recorder.call(self.real.asarray, (data,), {"dtype": dtype, "copy": copy})
        recorder = thread.recorder
        if recorder is not None and any(isinstance(x, Traced) for x in flat(data)):
            recorder.read("a list of values is made an array")
        array = self.real.asarray(real_of(data), dtype=dtype, device=device, copy=copy)
        return array if recorder is None else recorder.constant(array)

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        like = like.value if isinstance(like, Traced) else like
        if like is not None and device is None:
            device = self.real.device(like)
        keywords |= {"dtype": dtype, "device": device}
        return _traced(self.real.create)(name, *args, **keywords)

    def to_numpy(self, array):
        array.recorder.read("the value of a tensor is read")  # which stops the recording
        return self.real.to_numpy(array.value)

    def read_later(self, array):
        return Outcome(array)

    def multi_tensor_updater(self, array):
        if (updater := self.real.multi_tensor_updater(array.value)) is None:
            return None
        return self._updaters.setdefault(updater, RecordedUpdater(updater))

    def _blend(self, arrays, others, a, shares):
        def blend(arrays, others, a, shares):
            return self.real.blend(arrays, others, a, shares) or None

        return arrays[0].recorder.write(tuple(arrays), blend, (tuple(others), a, shares))

    def is_unshared(self, array):
        """What the real library says, since who asks copies a shared array into C order."""
        recorder, var = array.recorder, array.var
        if type(array) is not recorder.kind or var.constant is not None:
            return False
        if var.source is None:
            return self.real.is_unshared(array.value)
        if not _is_in_c_order(array.value):  # others may share it in a later call only
            recorder.stop("a gradient from before the call is not in C order in memory", "once")
        return False


def _is_in_c_order(array):
    return not hasattr(array, "flags") or array.flags.c_contiguous


def _asked(name):
    """A method that asks the real backend, about the real arrays for traced ones."""
    return lambda self, *args, **kwargs: getattr(self.real, name)(*real_of(args), **kwargs)


for _name in (
    "device buffer buffer_size memory_owner nbytes scope address_range dtype is_floating "
    "is_complex has_device generator"
).split():
    setattr(TracedBackend, _name, _asked(_name))


@cache
def duplicate_of(backend):
    """The function that copies arrays of this library, in their order in memory if possible."""
    if backend.binder is not None:
        return backend.binder.duplicate

    def duplicate(x):
        if hasattr(x, "strides") and hasattr(x, "copy"):
            return x.copy("K")
        return backend.asarray(x, copy=True)

    return duplicate


def copied(backend, array):
    """A copy of an array, with the same strides if the library can make arrays with any strides."""
    if backend.binder is None:
        return duplicate_of(backend)(array)
    copy = backend.binder.stand_in(array.shape, array.dtype, array.strides)
    backend.binder.copy_into(copy, array)
    return copy
