"""The recorder, which notes the array calls of a function while the function really runs.

It never alters what the function computes or changes. If it meets a call that a program could not
repeat, it keeps the reason, and the function goes on.
"""

import gc
import operator
import sys
import threading
import time
import types
from collections import deque
from contextlib import nullcontext
from functools import partial
from weakref import WeakValueDictionary, ref

from .._processes.communicating import Started
from .._thread_state import thread
from ..backends import backend_of, namespace_of
from ..backends.numpy import backend as numpy_backend
from ..tools.observing import in_line, user_line
from .cells import content_of
from .draws import Draw
from .libraries import is_own, module_of, slots_of
from .numbers import Key, Number
from .tape import NESTED, Call, Memory, Value, mapped
from .tracing import NUMBERS, TRACED, Traced, copied, duplicate_of, is_unknown, traced_types

_PATIENCE = 0.1  # seconds
_OF_SHAPES = {"ndim", "size", "shape", "can_cast", "isdtype", "result_type", "broadcast_shapes"}
_PLAIN = {int, float, bool, str, type(None)}
_HERE = {__name__, traced_types.__module__}


def _unwatched(method):
    """A method that runs without the profile function of the `Witness`, and is given that or None.

    Most of what runs in a recording runs in such methods.
    """

    def run(self, *args, **kwargs):
        watch = self.watch
        if watch is None or sys.getprofile() is not watch:
            return method(self, None, *args, **kwargs)
        sys.setprofile(None)
        try:
            return method(self, watch, *args, **kwargs)
        finally:
            sys.setprofile(watch)

    return run


class Recorder:
    """Notes the array calls that one thread makes.

    backend: of the real arrays.
    has_state_list: whether the user has listed the state, so that the function may also use
        tensors and optimizers that `Reach` has not found.
    raw: the raw arrays that the function reaches; guards compare their contents.
    calls, prologue, conditions, afterwards, inputs: see `Tape`.
    generators: the keys of a dict are the random generators from which the function has drawn.
    reason: why the recording cannot be used, or None.
    retry: if there is a reason, whether to record a later call: True, False, or "once" if the next
        call may be recorded, but the function is given up if that one stops for such a reason too.
    """

    def __init__(self, backend, has_state_list=False, raw=()):
        self.backend = backend
        self.has_state_list = has_state_list
        self.kind, self.scalar = traced_types(backend)
        self.array = backend.array_types[0]
        self.duplicate = duplicate_of(backend)
        self.raw = [x for x in raw if type(x) in backend.array_types]
        self.several_devices = backend.several_devices
        self.used_devices = set()  # of all results and constants, if the library has several
        self.calls, self.prologue, self.conditions, self.afterwards = [], [], [], []
        self.inputs, self.generators = [], {}
        self.devices = {}  # by input, if devices are to be compared
        self.reason, self.retry = None, False
        self.watch = None  # the profile function of the `Witness`
        self.start = 0  # an order number from before the function ran
        self.known = {}  # by id, the tensors that the stage has replaced
        self.contents = {}  # by the value of a constant, its array and a copy of the contents
        self.guarded = {backend.buffer(x) for x in self.raw} - {None}  # the memory of raw arrays
        self.shown = set()  # such memory that is also that of a tensor
        self.in_several = set()  # the ids of arrays that several tensors or states have
        self.has_failed = False  # whether a call has raised an error
        self.has_scheduled = False  # whether a scheduler has stepped
        self.is_scheduling = False  # whether one is stepping
        self.is_shared = False  # whether another thread has computed with a traced array
        self._conditions, self._numbers = set(), {}
        self._memories = {}  # by the buffer of an input, its kind and its `Memory`
        self._known = WeakValueDictionary()  # by the id of a real array, the traced one
        self._kept = []  # those of them that live as long as the recording
        self._draws = {}  # by a generator and its state, what was drawn, and the state then
        self._alive = []  # weak references to traced arrays and numbers
        self.lines = {}  # by the id of an object, the line that has called its method in C
        self._thread, self._outside = threading.get_ident(), user_line()

    def stop(self, reason, retry=False):
        """Note why the recording cannot be used, if there is a reason; the function goes on.

        reason: what the function does, and after a semicolon the remedy. The line of the function
            that has stopped the recording comes between them.
        """
        if reason and self.reason is None and threading.get_ident() == self._thread:
            what, *remedy = reason.split(";", 1)
            place = "" if (line := user_line()) == self._outside else in_line(line)
            self.reason, self.retry = ";".join([what + place, *remedy]), retry

    def read(self, what):
        """Stop because the function reads a value, on which its further calls may depend."""
        self.stop(
            f"{what}; what is repeated must not depend on values, so choose with gpugrad.where, or "
            f"return the tensor and read it outside"
        )

    def forget(self):
        """Drop all references to arrays and tensors, except those of the tape."""
        self._kept, self._memories, self.contents, self.known, self._draws = [], {}, {}, {}, {}

    def _leaked(self):
        """The traced arrays and numbers that are still alive."""
        return [x for x in [r() for r in self._alive] if x is not None]

    def release(self):
        """Replace traced arrays and numbers that something still has by the real ones.

        Returns whether there were any.
        """
        if not self._leaked():
            return False
        gc.collect()  # some of them may only be alive in cycles of references
        self._wait_for_threads()
        if leaked := self._leaked():
            _replace(leaked, [x.value for x in leaked])
        return bool(leaked)

    def _wait_for_threads(self):
        """Wait shortly, so that a thread that has taken a traced array computes with it."""
        end = time.monotonic() + _PATIENCE
        while self._leaked() and not self.is_shared and time.monotonic() < end:
            if threading.active_count() == 1:
                break
            time.sleep(1e-3)

    # Numbers

    def number(self, source, value):
        """A `Number` that each run of the tape reads from ``source``."""
        return self._number(Value("number", source=source), value)

    def _number(self, var, value):
        number = Number(self, var, value)
        self._alive.append(ref(number))
        return number

    def compute(self, function, args):
        """Call ``function`` on numbers; returns a `Number` that each run of the tape computes."""
        value = function(*[x.value if type(x) in NUMBERS else x for x in args])
        if thread.recorder is not self:
            return value
        noted, known = self._noted_numbers(function, args)
        if (var := self._numbers.get(known)) is None:
            var = self._numbers[known] = self._computed(Call(function, noted, {}))
        return self._number(var, value)

    def _noted_numbers(self, function, args):
        """What the tape has in the places of numbers, and a key for equal calls."""
        noted = tuple([x.var if type(x) in NUMBERS else x for x in args])
        values = [x.hex() if type(x) is float else x for x in noted]
        return noted, (function, *map(type, args), *values)

    def _computed(self, call):
        """The number that a call computes, which each run makes before all array calls."""
        call.add(var := Value("number"))
        self.prologue.append(call)
        return var

    def require(self, function, args, outcome):
        """Make it a condition of the tape that ``function`` returns ``outcome`` for these numbers.

        Returns the outcome.
        """
        if thread.recorder is not self:
            return outcome
        noted, known = self._noted_numbers(function, args)
        if known not in self._conditions:
            self._conditions.add(known)
            self.conditions.append((function, noted, outcome))
        return outcome

    # Random numbers

    def draw(self, generator, name, args):
        """A traced array of random numbers, which each run of the tape draws anew."""
        draw = partial(self.call, Draw(generator, name), args, is_pure=False)
        return self._drawn(generator, (name, repr(args)), draw)

    def draw_key(self, generator):
        """A `Key` that each run of the tape draws anew."""

        def fresh():
            return generator._keys.fresh()

        def draw():
            return Key(self, self._computed(Call(fresh, (), {}, is_pure=False)), fresh())

        return self._drawn(generator, "key", draw)

    def _drawn(self, generator, what, draw):
        """``draw()``, or the result of an earlier draw of ``what`` from the generator's state.

        `checkpoint` puts a generator back into such a state, to draw the same again.
        """
        self.generators[generator] = None
        state = generator.get_state()
        before = generator, repr(state)
        if before in self._draws:
            known, result, after = self._draws[before]
            if known == what:
                generator.set_state(after)
                return result
            self.refuse_seed()
        result, after = draw(), generator.get_state()
        if after != state:  # as it is after drawing no elements
            self._draws[before] = what, result, after
        return result

    # Arrays

    def input(self, array, source, is_kept=True):
        """A traced array for one that each run of the tape takes from ``source``.

        is_kept: whether it lives until the recording ends; if not, it lives while others use it.
        """
        if (traced := self._known.get(id(array))) is None:
            var = self._value(array, source)
            buffer = self.backend.buffer(array)
            if buffer in self.guarded:
                self.shown.add(buffer)
            kind, var.memory = self._memories.get(buffer, (source.kind, Memory()))
            if buffer is not None:
                self._memories[buffer] = kind, var.memory
            if kind != source.kind and "grad" in (kind, source.kind) and 0 not in var.shape:
                self.stop("a gradient shares the memory of a tensor", True)
            self._known[id(array)] = traced = self._traced(array, var)
            if is_kept:
                self._kept.append(traced)
            self.inputs.append(var)
            if self.several_devices or self.backend.binder is None:
                self.devices[var] = self.backend.device(array)
        else:
            self.in_several.add(id(array))
        return traced

    def constant(self, array):
        """A traced array for a raw one, which is a constant of the tape.

        Guards compare the raw arrays that the function reaches, so that they are constant. With a
        list of state, others are met too; a copy keeps their present contents.
        """
        if (traced := self._known.get(id(array))) is None:
            var = self._value(array)
            var.constant = array
            if self.has_state_list and not self.is_guarded(array):
                var.constant = copied(self.backend, array)
            var.memory = Memory()
            # A number that is sent to other processes is an array of NumPy on every device.
            if self.several_devices and isinstance(array, self.backend.array_types):
                self.used_devices.add(self.backend.device(array))
            self._known[id(array)] = traced = self._traced(array, var)
            self._kept.append(traced)
            self.contents[var] = array, content_of["array"](array)
        return traced

    def is_guarded(self, array):
        """Whether an array shows the memory of a raw array that the function reaches."""
        return self.backend.buffer(array) in self.guarded

    def check_constants(self, values):
        """Stop if a constant has other contents now: no call is noted when NumPy writes into it."""
        for x in {x.root() for x in values}.intersection(self.contents):
            array, content = self.contents[x]
            if content_of["array"](array) != content:
                self.stop("it writes into an array of NumPy's that it uses with tensors")

    def _add(self, call):
        if self.contents:
            self.check_constants(call.operands())
        self.calls.append(call)

    def _value(self, array, source=None):
        return Value("array", array, self.backend.nbytes(array), source)

    def _traced(self, value, var):
        traced = (self.scalar if var.kind == "scalar" else self.kind)(self, value, var)
        self._alive.append(ref(traced))
        return traced

    @_unwatched
    def call(self, watch, function, args, kwargs=None, *, is_pure=True):
        """Call a function of the real library and note the call; returns the traced result.

        watch: the profile function that is to see what the library's function does, or None.
        """
        found = []
        real, noted = self._both(args, found)
        named = noted_named = kwargs or {}
        if kwargs:
            named, noted_named = self._real(kwargs, found), self._noted(kwargs)
        if thread.recorder is not self:
            self.is_shared |= threading.get_ident() != self._thread
            return self._run(function, real, named, found)
        if numpy_backend.reports_errors():
            self.stop("it has numpy.errstate raise or report errors of numbers")
        call = Call(function, noted, noted_named, is_pure)
        if call.declared.values_shape:
            self._check_shape(call, args, kwargs)
        return self._note(call, self._run(function, real, named, found, watch), found)

    def _check_shape(self, call, args, kwargs):
        args, kwargs = mapped((args, kwargs or {}), lambda x: x if is_unknown(x) else None)
        if call.declared.holds("values_shape", args, kwargs):
            self.read(f"the number of elements of a {call.name} depends on values")

    def _note(self, call, result, found):
        """Put a call on the tape; returns the traced result."""
        kind = type(result)
        if kind in backend_of:
            parts = (result,)
        elif isinstance(result, (tuple, list)) and any(type(x) in backend_of for x in result):
            parts = result
            call.several = True
        else:
            if found and result is not NotImplemented and call.name not in _OF_SHAPES:
                self.read(f"{call.name} returns no array")
            return result
        varying = [x for x in found if type(x) in NUMBERS or x.var.constant is None]
        is_constant = call.is_pure and not varying
        traced = []
        for part in parts:
            traced.append(self._part(call, part, found, traced, is_constant))
        if call.outs:  # not if the result is an operand
            self._add(call)
        return getattr(kind, "_make", kind)(traced) if call.several else traced[0]

    def _part(self, call, part, found, traced, is_constant):
        """The traced array for one result of a call.

        found: the traced operands.
        traced: those for the earlier results.
        """
        aliases = call.declared.aliases
        if part is None:
            call.add(Value("unused"))
            return None
        for x in () if aliases else (*found, *traced):
            if type(x) is self.kind and x.value is part:  # as a cast to the same dtype returns
                if call.several:
                    call.add(Value("unused"))
                return x
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
            if getattr(part.dtype, "hasobject", False):
                self.stop("it computes with an array of Python objects")
            source = self._shown(part, found)
            if source is not None and aliases:
                var.memory = source.var.memory
            elif source is not None:
                var.base, var.memory = source.var, source.var.memory
            else:
                var.memory = Memory(is_own=True)
            if self.several_devices:
                self.used_devices.add(backend.device(part))
        if is_constant:
            var.constant = part
        call.add(var)
        return self._traced(part, var)

    def _shown(self, part, found):
        """The operand of which a result is a view; None if it has memory of its own."""
        base = getattr(part, "base", self)
        if base is None or 0 in part.shape:
            return None
        sources = [x for x in found if type(x) is self.kind]
        shown = [x for x in sources if x.value is base]
        if sources and not shown and (buffer := self.backend.buffer(part)) is not None:
            shown = [x for x in sources if self.backend.buffer(x.value) == buffer]
        return shown[0] if shown else None

    def _both(self, args, found):
        """The real arguments of a call, and what the tape has in their places.

        Appends the traced arrays and numbers among them to ``found``.
        """
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
        if kind in namespace_of and thread.recorder is self:  # another thread's call is not noted
            return self.constant(x).var
        if is_own(module_of(kind)) and not issubclass(kind, (int, float, str, tuple)):
            self.stop(f"it passes an object of its own class {kind.__name__} where arrays do")
        return mapped(x, self._noted) if kind in NESTED else x

    def _run(self, function, real, named, found, watch=None):
        if self.several_devices:
            function = partial(self._on_device, function, found)
        try:
            if watch is not None:
                sys.setprofile(watch)
            return function(*real, **named)
        except Exception:
            self.has_failed = True
            raise
        finally:
            if watch is not None:
                sys.setprofile(None)

    def _on_device(self, function, found, *args, **kwargs):
        """Call a function on the device of the first traced array that it is given."""
        arrays = [x.value for x in found if type(x) is self.kind]
        with self.backend.scope(arrays[0]) if arrays else nullcontext():
            return function(*args, **kwargs)

    def communicate(self, function, operands, results, writes):
        """Make and note a call that communicates with other processes; see `communicating`."""
        found = []
        real, noted = self._both(operands, found)
        thread.recorder = None  # the function computes with real arrays
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
            result.var = Value("token")
            call.add(result.var)
        return result

    @_unwatched
    def write(self, _, target, function, args):
        """Call ``function(target, *args)``, which overwrites ``target``, an array or several.

        Returns whether it has: given a tuple, the function may change nothing and return None.
        """
        arrays = target if type(target) is tuple else (target,)
        real, noted = self._both((target, *args), [])
        call = Call(function, noted, {}, writes=True)
        if call.declared.values_shape and thread.recorder is self:
            self._check_shape(call, (target, *args), None)
        if self._run(function, real, {}, arrays) is None and arrays is target:
            return False
        if thread.recorder is self:
            self._note_write(arrays, call)
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

    # The rest of the library calls these methods of the thread's recorder

    def check_ranges(self, ranges):
        """Called before memory in these ranges is overwritten."""
        if self.has_scheduled:
            self.stop("an optimizer steps after a scheduler, in the same call")
        if any(x.place is not None and not x.is_traced for x in ranges):
            self.stop("it overwrites a tensor that compile cannot see")

    def schedule(self, name, method, *args, **kwargs):
        """Called in place of a method of a scheduler; `Stage.schedule` takes the place of this."""
        return method(*args, **kwargs)

    def refuse_state(self):
        """Called when an optimizer is about to make the state of a parameter."""
        if self.has_state_list:  # "once", since a listed optimizer makes its state only once
            what = "an optimizer makes state of what `state` lists; list the optimizer too"
            self.stop(what, retry="once")
        self.stop("its optimizer makes its state", retry=True)

    def refuse_seed(self):
        """Called when a random generator is seeded, or its state is set."""
        self.stop("it seeds a random generator or sets its state")

    def check_leaves(self, leaves):
        """Called before leaves get gradients."""
        for leaf in leaves:
            x = leaf.owner()
            is_new = leaf.order > self.start or self.has_state_list
            if x is not None and is_new and id(x) not in self.known:
                self.stop("a gradient reaches a tensor that compile cannot see")


def _is_for_program(frame):
    """Whether a call in this frame returns to the user's program, and not to an op.

    The forward and the rules of a user's own op do not count as the program.
    """
    while frame is not None and frame.f_globals.get("__name__", "") in _HERE:
        frame = frame.f_back
    if frame is None or not is_own(frame.f_globals.get("__name__")):
        return False
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.startswith("gpugrad.autograd."):  # which has called the forward or rule of an op
            return False
        if name.startswith("gpugrad.tape."):
            return True
        frame = frame.f_back
    return False


def _replace(old, new):
    """Replace the objects in the list ``old`` by those in ``new`` in all places that have them."""
    values, given = dict(zip(map(id, old), new, strict=True)), tuple(old)
    remade, others = [], []  # objects that cannot be changed, and what takes their places

    def put(x):
        return values.get(id(x), x)

    for place in gc.get_referrers(*given):  # of which `given` is one since Python 3.14
        kind = type(place)
        if place is old or place is given or isinstance(place, (types.FrameType, Traced)):
            continue
        if isinstance(place, tuple):
            remade.append(place)
            others.append(tuple.__new__(kind, map(put, place)))
        elif kind is types.MethodType:
            remade.append(place)
            name = next((n for n, f in vars(Traced).items() if f is place.__func__), "")
            # To call a method of NumPy's arrays, the others call `Traced._by_numpy`.
            others.append(getattr(put(place.__self__), name, operator.call))
        elif isinstance(place, partial):
            place.__setstate__((*map(put, (place.func, place.args, place.keywords)), vars(place)))
        elif kind is types.CellType:
            place.cell_contents = put(place.cell_contents)
        elif isinstance(place, set):
            for x in [x for x in place if id(x) in values]:
                place.remove(x)
                place.add(put(x))
        elif isinstance(place, (list, deque, dict)):
            for key, x in [*(place.items() if isinstance(place, dict) else enumerate(place))]:
                if id(x) in values:
                    place[key] = values[id(x)]
        else:
            for name in (*getattr(place, "__dict__", ()), *slots_of(kind), "args", "__defaults__"):
                x = getattr(place, name, None)
                if id(x) in values:
                    object.__setattr__(place, name, values[id(x)])
        if isinstance(place, dict) and not values.keys().isdisjoint(map(id, place)):
            for key in [*place]:
                place[put(key)] = place.pop(key)
    if remade:
        _replace(remade, others)
