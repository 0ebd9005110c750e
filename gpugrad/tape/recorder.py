"""The recorder: it notes the array calls of a function while the function really runs.

What the function computes and changes is what it would without it, whether what is noted can be
used or not.
"""

import sys
import threading
import time
from weakref import WeakValueDictionary, ref

from .._processes.communicating import Started
from .._thread_state import thread
from ..backends import SCALARS, backend_of, namespace_of
from ..tools.observing import in_line, user_line
from .cells import content_of
from .libraries import is_own
from .numbers import Key, Number
from .tape import NESTED, Call, Memory, Value, mapped
from .tracing import NUMBERS, TRACED, Place, copied, duplicate_of, is_unknown, traced_types

_PATIENCE = 0.1  # seconds
_OF_SHAPES = {"ndim", "size", "shape", "can_cast", "isdtype", "result_type", "broadcast_shapes"}
_PLAIN = {int, float, bool, str, type(None)}
_HERE = {__name__, traced_types.__module__}


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
            if kind in NUMBERS:
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
            if type(x) in NUMBERS or x.var.constant is None:
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
            if type(x) not in TRACED:
                return x
            found.append(x)
            if x.recorder is not self:
                self.stop("it uses arrays of several libraries")
            return x.value

        return mapped(x, real)

    def _noted(self, x):
        kind = type(x)
        if kind in TRACED or kind is Started:
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
        if any(place is not None and type(place) is not Place for place in places):
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


def _is_for_program(frame):
    """Whether the program's own code, outside of ops, gets what a call in this frame returns."""
    while frame is not None and frame.f_globals.get("__name__", "") in _HERE:
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
