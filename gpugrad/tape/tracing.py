"""Tracing: arrays that note what is done with them while the function really runs.

A `Traced` array stands for a real one. It is one more type of array to the rest of the library:
ops, rules and optimizers call functions of its namespace and its operators. Each such call runs
the real library's function on the real arrays, and is noted whole, so that what the function does
inside does not matter. The function computes and changes what it would without it, whether what
is noted can be used or not.
"""

import operator
import sys
import threading
import time
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary, ref

from .._processes.communicating import Started
from .._thread_state import thread
from ..autograd.implementation import load_twins
from ..backends import SCALARS, backend_of, namespace_of
from ..backends.base import Backend
from ..backends.declarations import declaration, declare
from ..tools.observing import in_line, user_line
from .cells import content_of
from .libraries import is_own
from .numbers import Key, Number
from .tape import NESTED, Call, Input, Memory, Value, mapped
from .updates import RecordedUpdater

_PATIENCE = 0.1  # seconds
_OF_SHAPES = {"ndim", "size", "shape", "can_cast", "isdtype", "result_type", "broadcast_shapes"}


class Recorder:
    """Notes the array calls of a function in one thread.

    backend: of the real arrays.
    is_open: whether the function may use tensors and optimizers that are not known.
    raw: the raw arrays that the function reaches, whose contents are guarded.
    calls: the calls made, as `Call`s.
    prologue: the computations of numbers, which come before all array calls.
    conditions: triples ``(function, args, outcome)`` on numbers, which have to be fulfilled.
    afterwards: functions and arguments to call when everything else is done.
    reason: why what was noted cannot be repeated; None so far. The function goes on all the same.
    passing: whether that reason is of this call only, so that a later call may be recorded.
    """

    def __init__(self, backend, is_open=False, raw=()):
        self.backend = backend
        self.is_open = is_open
        self.kind, self.scalar = traced_types(backend)
        self.array = backend.array_types[0]
        self.duplicate = duplicate_of(backend)
        self.raw = [x for x in raw if type(x) in backend.array_types]
        self.several_devices = backend.several_devices
        self.used_devices = set()  # of all results and constants, where there are several
        self.calls, self.prologue, self.conditions, self.afterwards = [], [], [], []
        self.reason, self.passing = None, False
        self.watch = None  # the profile function that sees what the function calls
        self.start = 0  # an order number from before the function ran
        self.seen = {}  # the tensors that were found, by id
        self.inputs = []  # values that are there before the first call
        self.devices = {}  # their devices, where these matter
        self.strangers = []  # tensors that were not, and got gradients
        self.contents = {}  # by the values of raw arrays, these and what was in them
        self.guarded = {backend.buffer(x) for x in self.raw} - {None}  # their memory
        self.has_failed = False  # whether a call has raised an error
        self.has_scheduled = False  # whether a scheduler has stepped
        self.is_shared = False  # whether another thread has computed with a traced array
        self._conditions, self._numbers, self._constants = set(), {}, {}
        self._memories = {}
        self._passing = WeakValueDictionary()  # by the ids of arrays that the function may drop
        self._kept = []  # so that the ids in these tables stay those of their objects
        self._alive = []  # weak references to traced arrays and numbers
        self._thread = threading.get_ident()

    def stop(self, reason, passing=False):
        """Note why the recording cannot be used; the function goes on."""
        if self.reason is None and threading.get_ident() == self._thread:
            self.reason, self.passing = reason, passing

    def read(self, what):
        """Stop because a value is read, on which what the function does may depend."""
        self.stop(
            f"{what}{in_line(user_line())}, and what is repeated must not depend on values; choose "
            f"with gpugrad.where, or return the tensor and read it outside"
        )

    def forget(self):
        """Let go of all arrays but those that are on the tape."""
        self._constants, self._kept, self._memories, self.contents = {}, [], {}, {}
        self.seen, self.strangers = {}, []

    def leaked(self):
        """The traced arrays and numbers that something still refers to."""
        return [x for x in [r() for r in self._alive] if x is not None]

    def wait_for_threads(self):
        """Give other threads that have taken a traced array the time to compute with it."""
        end = time.monotonic() + _PATIENCE
        while self.leaked() and not self.is_shared and time.monotonic() < end:
            if threading.active_count() == 1:
                break
            time.sleep(1e-3)

    # Numbers

    def number(self, source, value):
        """A `Number` that each run of the tape finds at ``source``."""
        var = Value("number")
        var.source = source
        return self._number(var, value)

    def _number(self, var, value):
        number = Number(self, var, value)
        self._alive.append(ref(number))
        return number

    def key(self, function, value):
        """A `Key` that each run of the tape draws by calling ``function``."""
        call = Call(function, (), {}, is_pure=False)
        var = Value("number")
        var.call, var.dtype = call, "key"
        call.outs.append(var)
        self.prologue.append(call)
        return Key(self, var, value)

    def compute(self, function, args):
        """``function`` of numbers, as a `Number` that each run computes."""
        real, noted, known = [*args], [*args], function
        for i, x in enumerate(args):
            kind = type(x)
            if kind in _NUMBERS:
                real[i], noted[i] = x.value, x.var
            known = known, kind, noted[i] if kind is not float else x.hex()
        value = function(*real)
        if thread.recorder is not self:
            return value
        var = self._numbers.get(known)
        if var is None:
            var = self._numbers[known] = Value("number")
            var.call = call = Call(function, tuple(noted), {})
            call.outs.append(var)
            self.prologue.append(call)
        return self._number(var, value)

    def require(self, function, args, outcome):
        """Make it a condition of the tape that ``function`` of these numbers is ``outcome``."""
        if thread.recorder is not self:
            return outcome
        args = tuple([x.var if type(x) is Number else x for x in args])
        known = function, tuple([(type(x), x) for x in args])
        if known not in self._conditions:
            self._conditions.add(known)
            self.conditions.append((function, args, outcome))
        return outcome

    # Arrays

    def input(self, array, source, is_kept=True):
        """A traced array whose values each run finds at ``source``.

        is_kept: whether the array stays alive until the end of the recording.
        """
        traced = self._constants.get(id(array), self._passing.get(id(array)))
        if traced is None:
            var = self._value(array)
            var.source = source
            buffer = self.backend.buffer(array)
            if buffer in self.guarded:
                self.stop("it names a raw array in the memory of a tensor")
            known = self._memories.get(buffer)
            if known is None or buffer is None:
                known = self._memories[buffer] = Memory()
            var.memory = known
            traced = self._traced(array, var)
            (self._constants if is_kept else self._passing)[id(array)] = traced
            if is_kept:
                self._kept.append(array)
            self.inputs.append(var)
            if self.several_devices or self.backend.binder is None:
                self.devices[var] = self.backend.device(array)
        return traced

    def constant(self, array):
        """A traced array for a raw one, of which all that the function reaches are guarded."""
        traced = self._constants.get(id(array), self._passing.get(id(array)))
        if traced is None:
            var = self._value(array)
            var.constant = array
            if self.is_open and not self.is_guarded(array):  # it may change, and stays what it is
                var.constant = copied(self.backend, array)
            var.memory = Memory()
            if self.several_devices:
                self.used_devices.add(self.backend.device(array))
            traced = self._constants[id(array)] = self._traced(array, var)
            self._kept.append(array)
            self.contents[var] = array, content_of["array"](array)
        return traced

    def is_guarded(self, array):
        """Whether it shows the memory of a raw array that the function reaches."""
        return self.backend.buffer(array) in self.guarded

    def check_constants(self, values):
        """Stop if the function has written into an array that is a constant: no call tells that."""
        for x in {x.root() for x in values}.intersection(self.contents):
            array, content = self.contents[x]
            if content_of["array"](array) != content:
                self.stop("it writes into an array of NumPy's that it uses with tensors")

    def _add(self, call):
        if self.contents:
            self.check_constants(call.operands())
        self.calls.append(call)

    def _value(self, array, kind="array"):
        return Value(kind, array, self.backend.nbytes(array) if kind == "array" else 0)

    def _traced(self, value, var):
        traced = (self.scalar if var.kind == "scalar" else self.kind)(self, value, var)
        self._alive.append(ref(traced))
        return traced

    def call(self, function, args, kwargs=None, *, is_pure=True):
        """Call a function of the real library, and note it; returns its result, traced."""
        found = []
        real, noted = self._both(args, found)
        named = noted_named = kwargs or {}
        if kwargs:
            named, noted_named = self._real(kwargs, found), self._noted(kwargs)
        if thread.recorder is not self:
            self.is_shared |= threading.get_ident() != self._thread
            return self._run(function, real, named, found)
        call = Call(function, noted, noted_named, is_pure)
        if call.declared.values_shape:
            self._check_shape(call, args, kwargs)
        result = self._run(function, real, named, found)
        if self.watch is None or sys.getprofile() is not self.watch:
            return self._note(call, result, found)
        sys.setprofile(None)  # half of all that runs is in here
        try:
            return self._note(call, result, found)
        finally:
            sys.setprofile(self.watch)

    def _check_shape(self, call, args, kwargs):
        args, kwargs = mapped((args, kwargs or {}), lambda x: x if is_unknown(x) else None)
        if call.declared.holds("values_shape", args, kwargs):
            self.read(f"the number of elements of a {call.name} depends on values")

    def _note(self, call, result, found):
        """Note a call; returns its result, traced."""
        kind = type(result)
        if (kind is self.array and not self.several_devices) or kind in backend_of:
            parts = (result,)
        elif isinstance(result, (tuple, list)) and any(type(x) in backend_of for x in result):
            parts = result
            call.several = True
        else:
            if kind in SCALARS and found and call.name not in _OF_SHAPES:
                self.read(f"{call.name} returns a Python number")
            return result
        is_constant = call.is_pure
        for x in found:
            if type(x) in _NUMBERS or x.var.constant is None:
                is_constant = False
                break
        traced = []
        for part in parts:
            traced.append(self._part(call, part, found, traced, is_constant))
        if call.several:
            self._add(call)
            return getattr(kind, "_make", kind)(traced)
        if call.outs:
            self._add(call)
        return traced[0]

    def _part(self, call, part, found, traced, is_constant):
        """What stands for one result of a call."""
        aliases = call.declared.aliases
        if part is None or not aliases:
            for x in (*found, *traced):
                if type(x) is self.kind and x.value is part:  # such as a cast to the same dtype
                    if call.several:
                        call.outs.append(Value("unused"))
                    return x
        if part is None:
            call.outs.append(Value("unused"))
            return None
        backend = backend_of[type(part)]
        if backend is not self.backend:
            self.stop("it moves arrays from one library's device to another's")
        if type(part) not in namespace_of:
            if _is_for_program(sys._getframe(2)):
                self.read("a number is taken from a raw array")
                return part
            var = Value("scalar", part)
        else:
            var = self._value(part)
            source = self._shown(part, found)
            if source is not None and aliases:
                var.memory = source.var.memory
            elif source is not None:
                var.base, var.memory = source.var, source.var.memory
            else:
                var.memory = Memory(call)
            if self.several_devices:
                self.used_devices.add(backend.device(part))
        if is_constant:
            var.constant = part
        var.call = call
        call.outs.append(var)
        return self._traced(part, var)

    def _shown(self, part, found):
        """The operand whose memory ``part`` shows; None if it has memory of its own."""
        base = getattr(part, "base", self)
        if base is None or 0 in part.shape:
            return None
        sources = [x for x in found if type(x) is self.kind]
        for x in sources:
            if x.value is base:
                return x
        buffer = self.backend.buffer(part) if sources else None
        if buffer is not None:
            for x in sources:
                if self.backend.buffer(x.value) == buffer:
                    return x
        return None

    def _both(self, args, found):
        """The values of arguments, and what stands for them on the tape."""
        real, noted = [*args], [*args]
        for i, x in enumerate(args):
            kind = type(x)
            if kind is self.kind or kind is self.scalar:
                found += (x,)
                real[i], noted[i] = x.value, x.var
            elif kind not in _PLAIN:
                real[i], noted[i] = self._real(x, found), self._noted(x)
        return tuple(real), tuple(noted)

    def _real(self, x, found):
        def real(x):
            if type(x) not in _TRACED:
                return x
            found.append(x)
            if x.recorder is not self:
                self.stop("it uses arrays of several libraries")
            return x.value

        return mapped(x, real)

    def _noted(self, x):
        kind = type(x)
        if kind in _TRACED or kind is Started:
            return x.var
        if kind in namespace_of:
            return self.constant(x).var
        return mapped(x, self._noted) if kind in NESTED else x

    def _run(self, function, real, named, found):
        try:
            if self.several_devices:
                for x in found:
                    if type(x) is self.kind:
                        with self.backend.scope(x.value):
                            return function(*real, **named)
            return function(*real, **named)
        except Exception:
            self.has_failed = True
            raise

    def communicate(self, function, operands, results, writes):
        """Make a call that communicates with other processes, and note it; see `communicate`."""
        found = []
        real, noted = self._both(operands, found)
        thread.recorder = None  # it computes with real arrays
        try:
            result = self._run(function, real, {}, found)
        finally:
            thread.recorder = self
        call = Call(function, noted, {}, is_pure=False, writes=writes)
        call.communicates, call.several = True, results
        if writes:
            self._note_write(operands[0], call)
            return None
        self._add(call)
        if results:
            return [self._part(call, x, (), (), False) for x in result]
        if result is not None:
            result.var = var = Value("token")
            var.call = call
            call.outs.append(var)
        return result

    def write(self, traced, function, args):
        """Call ``function(traced, *args)``, which overwrites ``traced``."""
        real, noted = self._both((traced, *args), [])
        call = Call(function, noted, {}, writes=True)
        if call.declared.values_shape and thread.recorder is self:
            self._check_shape(call, (traced, *args), None)
        found = self._run(function, real, {}, (traced,))
        if thread.recorder is self:
            self._note_write([traced], call)
        return found

    def write_together(self, arrays, function, args):
        """Call ``function(arrays, *args)``, which overwrites all of them or returns None.

        Returns whether it was done.
        """
        real, noted = self._both((tuple(arrays), *args), [])
        if self._run(function, real, {}, arrays) is None:
            return False
        if thread.recorder is self:
            self._note_write(arrays, Call(function, noted, {}, writes=True))
        return True

    def _note_write(self, arrays, call):
        for x in arrays:
            memory, source = x.var.memory, x.var.root().source
            if source is not None and source.kind == "argument":
                self.stop("it writes into the memory of an argument")
            if source is None and not memory.is_own:
                self.stop("it writes into an array that compile cannot see")
            memory.is_written = True
        self._add(call)

    # What the rest of the library tells the recorder of this thread

    def check_places(self, places):
        """Called before memory is overwritten."""
        if self.has_scheduled:
            self.stop("an optimizer steps after a scheduler, in the same call")
        if any(place is not None and type(place) is not _Place for place in places):
            self.stop("it overwrites a tensor that compile cannot see")

    def refuse_state(self):
        """Called when an optimizer is about to make the state of a parameter."""
        if self.is_open:  # an optimizer that is listed does so once
            what = "an optimizer makes state of what `state` lists; list the optimizer too"
            self.stop(what, passing="first")
        self.stop("its optimizer makes its state", passing=True)

    def refuse_seed(self):
        """Called when a random generator is seeded, or its state is set."""
        self.stop("it seeds a random generator or sets its state")

    def check_leaves(self, leaves):
        """Called before leaves get gradients."""
        for leaf in leaves:
            x = leaf.owner()
            is_new = leaf.order > self.start or self.is_open
            if x is not None and is_new and id(x) not in self.seen:
                self.strangers.append(x)
                self.stop("a gradient reaches a tensor that compile cannot see")


_NUMBERS = {Number, Key}
_TRACED: set[type] = {Number, Key}  # and the types of arrays, once they are made
_PLAIN = {int, float, bool, str, type(None)}


class Traced:
    """An array, ``value``, that is the value ``var`` of a tape."""

    __slots__ = ("recorder", "value", "var", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, recorder, value, var):
        self.recorder = recorder
        self.value = value
        self.var = var

    # A profiler sees no call of these, of which there are many.
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

    def __array_namespace__(self, *, api_version=None):
        return namespace_of[self.recorder.kind]

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method == "__call__" and "out" not in kwargs and ufunc.nout == 1:
            return self.recorder.call(ufunc, inputs, kwargs)
        return self._by_numpy(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return self._by_numpy(function, args, kwargs)

    def _by_numpy(self, function, args, kwargs):
        self.recorder.stop(
            f"it calls NumPy's {function.__name__} with a raw array{in_line(user_line())}; make "
            f"the array a tensor first, with gpugrad.asarray"
        )
        return function(*self.recorder._real(args, []), **self.recorder._real(kwargs, []))

    def _with(self, other, function, *args):
        """An operator between a raw array and what is none, such as a list."""
        if hasattr(other, "__array_ufunc__"):
            return NotImplemented
        return self._by_numpy(function, args, {})

    def __setattr__(self, name, value):
        if name in Traced.__slots__:
            object.__setattr__(self, name, value)
        else:
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

    def __getattr__(self, name):  # of a raw array in the user's own code
        value = getattr(object.__getattribute__(self, "value"), name)
        is_inside = (sys._getframe(1).f_globals.get("__name__") or "").startswith("gpugrad.")
        if is_inside or name in _LAYOUT or (name.startswith("__") and name not in _MEMORY):
            return value
        if not callable(value):
            self.recorder.read(f"{name.strip('_')} of a raw array is read")
            return value
        self.recorder.stop(
            f"it calls the method {name} of a raw array{in_line(user_line())}; make the array a "
            f"tensor first, with gpugrad.asarray"
        )

        def method(*args, **kwargs):
            return value(*self.recorder._real(args, []), **self.recorder._real(kwargs, []))

        return method

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
# By which other libraries find the memory of an array.
_MEMORY = {"__array_interface__", "__array_struct__", "__cuda_array_interface__"}


def _is_for_program(frame):
    """Whether the program's own code, outside of ops, gets what a call in this frame returns."""
    while frame is not None and frame.f_globals.get("__name__", "") == __name__:
        frame = frame.f_back
    if frame is None or not is_own(frame.f_globals.get("__name__")):
        return False
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.startswith("gpugrad.autograd."):  # the forward or a rule of an op
            return False
        if name.startswith("gpugrad.tape."):
            return True
        frame = frame.f_back
    return False


def is_unknown(x):
    """Whether ``x`` is a traced array whose values may differ from call to call."""
    return type(x) in _kinds and x.var.constant is None


@declare(view=True)
def transposed(x):
    return x.T


@declare(view=True)
def matrix_transposed(x):
    return x.mT


def flat(x):
    """All items of nested containers."""
    found = []
    mapped(x, found.append)
    return found


def _is_operand(kind):
    """Whether an operator of a traced array takes this type."""
    return kind in SCALARS or kind is Number or kind in backend_of


def _operator(function):
    def forward(self, other):
        if _is_operand(type(other)) or other is None:
            return self.recorder.call(function, (self, other))
        return self._with(other, function, self, other)

    def reflected(self, other):
        if _is_operand(type(other)):
            return self.recorder.call(function, (other, self))
        return self._with(other, function, other, self)

    return forward, reflected


def _writing(function):
    def write(self, other):
        if not _is_operand(type(other)):
            return self._with(other, function, self, other)
        self.recorder.write(self, function, (other,))
        return self

    return write


class Scalar(Traced):
    """A 0-d result that the real library returns as a scalar, not as an array."""

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

_kinds: dict[type, Any] = {}
_of_backends: dict[Any, tuple[type, type]] = {}
_making = threading.RLock()


def traced_types(backend):
    """The types of traced arrays and scalars for a library, which are made when first needed."""
    with _making:
        if backend not in _of_backends:
            looks = {"__class__": backend.array_types[0]}  # for isinstance
            array = type("Traced", (Traced,), {"__slots__": (), **looks})
            scalar = type("Scalar", (Scalar,), {"__slots__": ()})
            array.__module__ = scalar.__module__ = __name__
            traced = TracedBackend(backend, array, scalar)
            _kinds.update({array: traced, scalar: traced})
            _TRACED.update(_kinds)
            backend_of[scalar] = traced
            backend_of[array] = traced
            namespace_of[array] = traced.xp
            _of_backends[backend] = array, scalar
        return _of_backends[backend]


class _Namespace(ModuleType):
    """A library's namespace whose functions note their calls."""

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
        recorder = thread.recorder
        if recorder is None:
            recorder = next((x.recorder for x in flat((args, kwargs)) if type(x) in _kinds), None)
            if recorder is None:
                return function(*args, **kwargs)
        return recorder.call(function, args, kwargs)

    return traced


class _Whole:
    """A twin whose run is noted as one call."""

    def __init__(self, twin, backend):
        self.__code__ = twin.__code__  # which names the values that it keeps
        self.__kwdefaults__ = twin.__kwdefaults__

        def run(*args, **static):
            return twin(backend.xp, *args, **static)

        run.__name__ = twin.__name__
        self._run = declare(run, **declaration(twin)._asdict())

    def __call__(self, xp, *args, **static):
        for x in args:
            if type(x) in _kinds:
                return x.recorder.call(self._run, args, static)
        return thread.recorder.call(self._run, args, static)


class Outcome:
    """Whether a step is skipped; ``var`` is not 0 if it is."""

    def __init__(self, traced):
        self.recorder, self.var = traced.recorder, traced.var
        self.real = traced.recorder.backend.read_later(traced.value)

    def __call__(self):
        if thread.recorder is self.recorder:
            self.recorder.stop("an optimizer steps twice in a call, by a GradScaler")
        return self.real()


class _Place(tuple):
    """The range of addresses of a traced array."""


class TracedBackend(Backend):
    """What gpugrad needs of traced arrays: the real library's, called with the real arrays."""

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

    def __reduce__(self):
        return object.__reduce__(self)

    def twins(self, op):
        """Those of the real library, each noted as one call: the bits are the same."""
        load_twins(self.real.name)
        return {
            target: _Whole(twin, self.real)
            for target, twin in self.real.twins(op).items()
            if not getattr(twin, "is_eager", False)  # the definition has its bits
        }

    def lifted(self, array):
        """A real array, met in a call with traced ones, as a constant of the tape."""
        recorder = thread.recorder
        if recorder is None:  # in another thread
            return array.value if type(array) in _kinds else array
        return recorder.constant(array) if type(array) in self.real.array_types else array

    def to_device(self, array, device):
        return array.recorder.call(self.real.to_device, (array, device))

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if type(data) in _kinds:
            recorder = data.recorder
            if dtype is copy is None and type(data) is recorder.kind:
                return data
            if copy and dtype is None and type(data) is recorder.kind:
                return recorder.call(recorder.duplicate, (data,))
            return recorder.call(self.real.asarray, (data,), {"dtype": dtype, "copy": copy})
        recorder = thread.recorder
        if recorder is None:
            return self.real.asarray(data, dtype=dtype, device=device, copy=copy)
        for x in flat(data):
            if type(x) in _kinds:
                recorder.read("a list of values is made an array")
        data = recorder._real(data, [])
        return recorder.constant(self.real.asarray(data, dtype=dtype, device=device, copy=copy))

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        like = like.value if type(like) in _kinds else like
        if like is not None and device is None:
            device = self.real.device(like)
        keywords |= {"dtype": dtype, "device": device}
        recorder = thread.recorder
        if recorder is None:
            return self.real.create(name, *args, **keywords)
        return recorder.call(self.real.create, (name, *args), keywords)

    def zeros(self, shape, dtype, like):
        return self.create("zeros", shape, dtype=dtype, like=like)

    def to_list(self, array):
        recorder, root = array.recorder, array.var.root()
        is_state = root.source is not None and root.source.kind in ("tensor", "held")
        if (
            is_state
            and root.size == 1
            and not root.memory.is_written
            and thread.recorder is recorder
            and "cpu" in self.real.device(array.value)
        ):
            source = Input("number", ("element", root))
            return recorder.number(source, self.real.to_list(array.value)).plain()
        recorder.read("the value of a tensor is read")
        return self.real.to_list(array.value)

    def read_later(self, array):
        return Outcome(array)

    def address_range(self, array):
        place = self.real.address_range(array.value)
        return place and _Place(place)

    def memory_owner(self, array):
        return self.real.memory_owner(array.value)

    def synchronize(self, array):
        pass

    def multi_tensor_updater(self, array):
        updater = self.real.multi_tensor_updater(array.value)
        if updater is None:
            return None
        return self._updaters.setdefault(updater, RecordedUpdater(updater))

    def _blend(self, arrays, others, a, shares):
        def blend(arrays, others, a, shares):
            return self.real.blend(arrays, others, a, shares) or None

        return arrays[0].recorder.write_together(arrays, blend, (tuple(others), a, shares))

    def is_unshared(self, array):
        var = array.var
        return type(array) is array.recorder.kind and var.base is var.source is var.constant is None

    def explain(self, error, devices):
        return None


def _asked(name):
    """A method that asks the real library of the real array."""
    return lambda self, array: getattr(self.real, name)(array.value)


def _reading_array(name):
    def read(self, array, *args, **kwargs):
        array.recorder.read("the value of a tensor is read")
        return getattr(self.real, name)(array.value, *args, **kwargs)

    return read


def _passed_on(name):
    return lambda self, *args, **kwargs: getattr(self.real, name)(*args, **kwargs)


for _name in ("device", "buffer", "buffer_size", "nbytes", "scope"):
    setattr(TracedBackend, _name, _asked(_name))
for _name in ("to_numpy", "host_array", "format"):
    setattr(TracedBackend, _name, _reading_array(_name))
for _name in ("dtype", "is_floating", "is_complex", "has_device", "generator"):
    setattr(TracedBackend, _name, _passed_on(_name))


@cache
def duplicate_of(backend):
    """A function that copies an array of this library, with its order in memory if possible."""
    if backend.binder is not None:
        return backend.binder.duplicate

    def duplicate(x):
        if hasattr(x, "strides") and hasattr(x, "copy"):
            return x.copy("K")
        return backend.asarray(x, copy=True)

    return duplicate


def copied(backend, array):
    """A copy with the same strides, if this library's arrays can be made with any."""
    if backend.binder is None:
        return duplicate_of(backend)(array)
    copy = backend.binder.stand_in(array.shape, array.dtype, array.strides)
    backend.binder.copy_into(copy, array)
    return copy
