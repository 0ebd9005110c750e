"""Recording: arrays that note what is done with them.

A `Traced` array has the values of a real one, computed as ever, and knows which variable of the
record it is. It is one more type of array to the rest of the library: ops, rules and optimizers
call functions of its namespace and its operators. Each such call runs the real library's function
and is noted whole, so that what the function does inside does not matter.

Nothing that existed before is written while recording. Writing in place gives a Traced array new
memory and a new variable, and arrays that are views of it see that.
"""

import operator
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from .._thread_state import thread
from ..autograd.implementation import load_twins
from ..backends import SCALARS, backend_of, namespace_of
from ..backends.base import Backend
from ..tools.observing import in_line, user_line
from .numbers import Key, Number
from .record import Call, Input, Unsupported, Variable
from .updates import Blend, RecordedUpdater

_OF_VALUES = {
    "nonzero", "argwhere", "flatnonzero", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unique",
}  # fmt: skip
_OF_SHAPES = {"ndim", "size", "shape", "can_cast", "isdtype", "result_type", "broadcast_shapes"}


class Recording:
    """What is noted while a function runs.

    backend: of the real arrays.
    calls: the calls made, as `Call`s.
    prologue: the computations of numbers, which come before all calls.
    required: triples ``(function, args, outcome)`` on numbers: conditions of the program.
    afterwards: functions and arguments to call when everything else is done.
    has_placeholders: whether arrays have taken the place of large results that were not computed.
    """

    def __init__(self, backend, with_placeholders):
        self.backend = backend
        self.placeholder = getattr(backend.planner, "placeholder", None)
        if not with_placeholders:
            self.placeholder = None
        self.has_placeholders = False
        self.several_devices = backend.several_devices
        self.devices = set()  # of all results, where there are several
        self.kind, self.scalar = traced_types(backend)
        self.array = backend.array_types[0]
        self._nbytes = backend.nbytes
        self.calls = []
        self.prologue = []
        self.required = []
        self.afterwards = []
        self._requirements = set()
        self._numbers = {}
        self._constants = {}
        self._kept = []  # so that the ids above stay those of these objects
        self.closed = False
        self.start = 0  # an order number from before the function ran
        self.seen = {}  # the tensors that were found, by id
        self._refused = None  # the first error about a value that is read
        self.has_failed = False  # whether a call has raised an error

    def forget(self):
        """Let go of all arrays."""
        self.calls = self.prologue = self._kept = self.seen = ()
        self._constants = self._numbers = {}

    # Numbers

    def number(self, source, value):
        """A `Number` that the program finds at ``source``."""
        return Number(self, self._number_at(source), value)

    def _number_at(self, source):
        var = Variable("number")
        var.source = source
        return var

    def key(self, function, value):
        """A `Key` that each run of the program draws by calling ``function``."""
        call = Call(function, (), {}, is_pure=False)
        var = Variable("number")
        var.call = call
        call.outs.append(var)
        self.prologue.append(call)
        return Key(self, var, value)

    def compute(self, function, args):
        values = [x.value if type(x) in (Number, Key) else x for x in args]
        value = function(*values)
        args = tuple([x.var if type(x) in (Number, Key) else x for x in args])
        known = function, tuple([(type(x), x) for x in args])
        var = self._numbers.get(known)
        if var is None:
            var = Variable("number")
            var.call = call = Call(function, args, {})
            call.outs.append(var)
            self.prologue.append(call)
            self._numbers[known] = var
        return Number(self, var, value)

    def require(self, function, args, outcome):
        """Make it a condition of the program that ``function`` of these numbers is ``outcome``."""
        args = tuple([x.var if type(x) is Number else x for x in args])
        if function is operator.eq and len(args) == 1:
            args = (*args, outcome)
            required = function, args, True
        else:
            required = function, args, outcome
        known = function, tuple([(type(x), x) for x in args])
        if known not in self._requirements:
            self._requirements.add(known)
            self.required.append(required)
        return outcome

    # Arrays

    def input(self, array, source):
        """A Traced array whose values the program finds at ``source``."""
        var = self._variable(array)
        var.source = source
        return self._traced(array, var)

    def constant(self, array):
        """A Traced array with the same values in each run."""
        traced = self._constants.get(id(array))
        if traced is None:
            var = self._variable(array)
            var.value = array
            traced = self._constants[id(array)] = self._traced(array, var)
            self._kept.append(array)
        return traced

    def know(self, array, traced):
        """Have ``traced`` stand for a real array that the function may meet."""
        self._constants[id(array)] = traced
        self._kept.append(array)

    def _variable(self, value, kind="array"):
        return Variable(kind, value, self._nbytes(value) if kind == "array" else 0)

    def _traced(self, value, var):
        return self.kind(self, Home(value, var))

    def call(self, function, args, kwargs=None, *, is_pure=True):
        """Call a function of the real library, and note it; returns its result, traced."""
        if self.closed:
            raise self.left()
        if thread.recorder is not self:
            raise self.elsewhere()
        found = []
        real, noted = self._both(args, found)
        named, noted_named = {}, {}
        if kwargs:
            named, noted_named = self._real(kwargs, found), self._vars(kwargs)
        changing = not is_pure
        for x in found:
            if changing:
                break
            changing = type(x) in (Number, Key) or x.var.value is None
        result = None
        if changing and is_pure and not kwargs and self.placeholder is not None:
            result = self.placeholder(function, real)
        if result is None:
            result = self._run(function, real, named, found)
        else:
            self.has_placeholders = True
        if not changing:
            call = None
        else:
            call = Call(function, noted, noted_named, is_pure=is_pure)
            call.may_alias = getattr(function, "__name__", "") in _MAY_ALIAS
            if type(result) is self.array and not self.several_devices:
                return self._traced_result(call, args, kwargs or {}, result, real, found)
        return self._noted(function, call, args, kwargs or {}, result, found)

    def _both(self, args, found):
        """The values of arguments, and what stands for them in the record."""
        real, noted = [], []
        for x in args:
            kind = type(x)
            if kind is self.kind or kind is self.scalar:
                if x.recording is not self:
                    raise x.recording.left()
                found.append(x)
                if x.path:
                    value, var = x._now()
                else:
                    home = x.home
                    value, var = home.value, home.var
                real.append(value)
                noted.append(var)
            elif kind is int or kind is float:
                real.append(x)
                noted.append(x)
            else:
                real.append(self._real(x, found))
                noted.append(self._vars(x))
        return tuple(real), tuple(noted)

    def _run(self, function, real, named, found):
        try:
            if self.several_devices:
                arrays = [x.value for x in found if type(x) is self.kind]
                with self.backend.scope(arrays[0]) if arrays else nullcontext():
                    return function(*real, **named)
            return function(*real, **named)
        except Exception:
            self.has_failed = True
            raise

    def _noted(self, function, call, args, kwargs, result, found):
        """What stands for a result; ``call`` is None if it is the same in each run."""
        arrays = namespace_of.get(type(result))
        if arrays is None and isinstance(result, (tuple, list)):
            if not any(type(x) in backend_of for x in result):
                return result
            parts = list(result)
        elif type(result) in backend_of:
            parts = [result]
        else:
            name = getattr(function, "__name__", "")
            if type(result) in SCALARS and found and name.lstrip("_") not in _OF_SHAPES:
                raise self.error(f"{name} cannot return a Python number")
            return result
        for part in parts:
            if part is not None and backend_of[type(part)] is not self.backend:
                raise Unsupported("it moves arrays from one library's device to another's")
        if self.several_devices:
            arrays = [part for part in parts if type(part) in namespace_of]
            self.devices.update(map(self.backend.device, arrays))
        if call is None:
            traced = [self._constant_part(part) for part in parts]
        elif parts[0] is result:
            values = [x.value for x in found]
            return self._traced_result(call, args, kwargs, result, values, found)
        else:
            traced = self._traced_parts(call, args, kwargs, parts, found)
        if parts[0] is result:
            return traced[0]
        named = getattr(type(result), "_make", type(result))
        return named(traced)

    def _constant_part(self, part):
        if part is None:
            return None
        if type(part) in namespace_of:
            return self.constant(part)
        var = self._variable(part, "scalar")
        var.value = part
        return self.scalar(self, Home(part, var))

    def _traced_result(self, call, args, kwargs, result, values, found):
        """What stands for the only result of a call."""
        if not call.may_alias:
            for value in values:
                if value is result:  # such as a cast to the same dtype without a copy
                    for x in found:
                        if type(x) is self.kind and x.value is result:
                            return x
        self.calls.append(call)
        return self._traced_part(call, args, kwargs, result, found, None)

    def _traced_parts(self, call, args, kwargs, parts, found):
        call.several = True
        sources = [x for x in found if type(x) is self.kind]
        traced = []
        for part in parts:
            known = [x for x in (*sources, *traced) if x is not None]
            same = next((x for x in known if x.value is part), None)
            if part is None or same is not None:
                var, new = Variable("unused"), same
                var.call = call
                call.outs.append(var)
            else:
                new = self._traced_part(call, args, kwargs, part, found, len(traced))
            traced.append(new)
        self.calls.append(call)
        return traced

    def _traced_part(self, call, args, kwargs, part, found, at):
        """What stands for one result of a call, the only one if ``at`` is None."""
        if type(part) not in namespace_of:
            var = self._variable(part, "scalar")
            new = self.scalar(self, Home(part, var))
        else:
            var = self._variable(part)
            source = None if call.may_alias else self._seen_in(part, found)
            if source is None:
                new = self._traced(part, var)
            else:
                var.base = source.var
                new = self.kind(self, source.home)
                new.path = (*source.path, (call.function, args, kwargs, source, at))
                new.own, new.version = (part, var), source.home.version
        var.call = call
        call.outs.append(var)
        return new

    def _seen_in(self, part, found):
        """The traced array whose memory ``part`` shows; None if it has memory of its own."""
        base = getattr(part, "base", self)
        if base is None or 0 in part.shape:
            return None
        sources = [x for x in found if type(x) is self.kind]
        if not sources:
            return None
        for x in sources:
            if x.value is base:
                return x
        buffer = self.backend.buffer(part)
        if buffer is None:
            return None
        for x in sources:
            if self.backend.buffer(x.value) == buffer:
                return x
        return None

    def communicate(self, function, operands=(), results=()):
        """Note a call that communicates with other processes, which only the program makes.

        operands: arrays, and what other such calls have returned.
        results: a pair for each array that the call returns in a tuple, its shape and an array of
            its dtype and device. While recording it has the values of that array if the shapes are
            equal, else zeros. Without results the call returns one object, for other such calls,
            and so does this method.
        """
        call = Call(function, self._vars(tuple(operands)), {}, bool(results), is_pure=False)
        call.communicates = True
        self.calls.append(call)
        traced = []
        for shape, like in results:
            if backend_of[type(like)] is not self.backend and type(like) not in _kinds:
                raise Unsupported("it uses arrays of several libraries")
            like = like.value if type(like) in _kinds else like
            value = self.backend.zeros(shape, like.dtype, like)
            if tuple(shape) == tuple(like.shape):
                with self.backend.scope(value):
                    value[...] = like
            traced.append(self._traced(value, self._variable(value)))
        call.outs = [x.var for x in traced] or [Variable("token")]
        for var in call.outs:
            var.call = call
        return traced or call.outs[0]

    def write(self, traced, function, args):
        """Write in place: ``traced`` becomes ``function(traced, *args)``, and so do its views."""
        new = self.call(function, (traced, *args))
        value, var = new.value, new.var
        home = traced.home
        if traced.path:
            steps = []
            for step, step_args, step_kwargs, source, at in traced.path:
                others = [x for x in _flat((step_args, step_kwargs)) if x is not source]
                if any(type(x) in (self.kind, self.scalar, Number, Key) for x in others):
                    raise Unsupported("it writes through a view that other arrays select")
                step_args, step_kwargs = _substituted((step_args, step_kwargs), source, _HERE, [])
                steps.append((step, step_args, step_kwargs, at))
            base = self.kind(self, home)
            whole = self.call(Through(steps, self.backend), (base, new))
            home.value, home.var = whole.value, whole.var
        else:
            home.value, home.var = value, var
        home.version += 1
        if traced.path:
            traced.own, traced.version = (value, var), home.version

    def write_together(self, arrays, function, args):
        """Write arrays in place: they become the results of ``function(arrays, *args)``.

        Returns whether it was done; ``function`` may return None instead.
        """
        new = self.call(function, (tuple(arrays), *args))
        if new is None:
            return False
        for traced, result in zip(arrays, new, strict=True):
            if traced.path:
                raise Unsupported("it updates an array through a view")
            home = traced.home
            home.value, home.var = result.value, result.var
            home.version += 1
        return True

    def again(self, traced):
        """The value and the variable of a view whose base was written to since it was made."""
        current = self.kind(self, traced.home)
        for function, args, kwargs, source, at in traced.path:
            found = []
            args, kwargs = _substituted((args, kwargs), source, current, found)
            current = self.call(function, args, kwargs)
            current = current if at is None else current[at]
        if type(current) is not self.kind:
            raise Unsupported("it writes to an array with views that cannot be made again")
        return (current.value, current.var), traced.home.version

    def _real(self, x, found):
        kind = type(x)
        if kind is self.kind or kind is self.scalar or kind is Number or kind is Key:
            found.append(x)
            if x.recording is not self:
                raise x.recording.left()
            return x.value
        if kind is tuple:
            return tuple([self._real(item, found) for item in x])
        if kind is list:
            return [self._real(item, found) for item in x]
        if kind is dict:
            return {name: self._real(item, found) for name, item in x.items()}
        if kind in _kinds:
            raise (
                x.recording.left()
                if x.recording.closed
                else Unsupported("it uses arrays of several libraries")
            )
        return x

    def _vars(self, x):
        kind = type(x)
        if kind is self.kind or kind is self.scalar or kind is Number or kind is Key:
            return x.var
        if kind in namespace_of:
            return self.constant(x).var
        if kind is tuple or kind is list:
            return kind([self._vars(item) for item in x])
        if kind is dict:
            return {name: self._vars(item) for name, item in x.items()}
        return x

    def made_of_numbers(self, numbers, make):
        """The array ``make(numbers)``, which each run makes anew; None if no number may change.

        numbers: a number, or nested lists and tuples of numbers.
        """
        changing = [x for x in _flat(numbers) if type(x) is Number]
        if not changing:
            return None
        for x in changing:
            self.require(type, (x,), type(x.value))  # on which the dtype depends

        def made_of_numbers(numbers):
            return make(numbers)

        return self.call(made_of_numbers, (numbers,))

    def as_array(self, x):
        """A traced value as an array; NumPy's 0-d results are scalars."""
        return backend_of[type(x)].asarray(x)

    # What the rest of the library tells the recorder of this thread

    def check_places(self, places):
        """Called before memory is overwritten; a traced array has no place."""
        if any(place is not None for place in places):
            raise Unsupported("it overwrites a tensor that compile cannot see")

    def refuse_state(self):
        """Called when an optimizer is about to make the state of a parameter."""
        raise Unsupported("its optimizer makes its state", once=True)

    def refuse_collective(self):
        """Called when values of other processes are wanted in a way that cannot be noted."""
        raise Unsupported("it communicates with other processes")

    def refuse_search(self):
        """Called by an optimizer that evaluates a closure as often as values say."""
        raise Unsupported(
            "the losses decide how often LBFGS calls its closure; compile the closure instead, and "
            "call optimizer.step(closure) outside of compiled functions"
        )

    def refuse_seed(self):
        """Called when a random generator is seeded, or its state is set."""
        raise Unsupported("it seeds a random generator or sets its state")

    def refuse_loader(self):
        """Called when a `DataLoader` begins a pass, which its epoch and its seed decide on."""
        raise Unsupported(
            "it iterates over a DataLoader; compile the function of one batch instead, and call it "
            "in a loop over the loader that is not compiled"
        )

    def check_leaves(self, leaves):
        """Called before leaves get gradients."""
        for leaf in leaves:
            x = leaf.owner()
            if x is not None and leaf.order > self.start and id(x) not in self.seen:
                raise Unsupported("a gradient reaches a tensor that compile cannot see")

    # Errors

    def check(self):
        """Raise if the function has handled an error, since the values decide about errors."""
        if self._refused is not None:
            raise self._refused
        if self.has_failed:
            raise Unsupported("it handles an error of a call, which depends on values")

    def error(self, what):
        error = RuntimeError(
            f"gpugrad.compile: {what} while the function is recorded{in_line(user_line())}; the "
            f"recorded calls are repeated for other values. Choose with gpugrad.where, return the "
            f"tensor and read it outside, or leave this function uncompiled"
        )
        self._refused = self._refused or error
        return error

    def elsewhere(self):
        """The error for a use of what stands for state outside the thread that records."""
        return RuntimeError(
            "gpugrad.compile: another thread is recording a function that uses this tensor, in the "
            "first call of a compiled function or a call with new shapes; call the compiled "
            "function once with each shape before starting the threads"
        )

    def left(self):
        """The error for a use of a traced array outside the function that is recorded."""
        if not self.closed:
            return self.elsewhere()
        return RuntimeError(
            "gpugrad.compile: a tensor that a compiled function computed was kept where the "
            "function cannot be seen to keep it, and has no values; return it from the function"
        )


class Home:
    """The memory that a traced array and its views share.

    value: the real array that has the values now.
    version: how often it was written to.
    """

    __slots__ = ("value", "var", "version")

    def __init__(self, value, var):
        self.value = value
        self.var = var
        self.version = 0


class Traced:
    """An array, by the name of ``value``, that is the variable ``var`` of a recording.

    home: the memory that it shows.
    path: how a view was made from the array at home; empty for that array itself.
    """

    __slots__ = ("recording", "home", "path", "own", "version", "__weakref__")
    backend_functions: Any  # of the type for a library
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, recording, home):
        self.recording = recording
        self.home = home
        self.path = ()
        self.own = None
        self.version = 0

    def _now(self):
        if self.recording.closed:
            raise self.recording.left()
        if self.version != self.home.version:
            self.own, self.version = self.recording.again(self)
        return self.own

    @property
    def value(self):
        return self._now()[0] if self.path else self.home.value

    @property
    def var(self):
        return self._now()[1] if self.path else self.home.var

    @property
    def shape(self):
        return self.home.value.shape if not self.path else self.own[0].shape

    @property
    def dtype(self):
        return self.home.value.dtype if not self.path else self.own[0].dtype

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return self.value.size

    @property
    def device(self):
        return self.value.device

    @property
    def T(self):
        return self.recording.call(transposed, (self,))

    @property
    def mT(self):
        return self.recording.call(matrix_transposed, (self,))

    @property
    def real(self):
        return self.recording.call(self.recording.backend.xp.real, (self,))

    @property
    def imag(self):
        return self.recording.call(self.recording.backend.xp.imag, (self,))

    def astype(self, dtype):
        return self.recording.call(self.recording.backend.xp.astype, (self, dtype))

    def __array_namespace__(self, *, api_version=None):
        return namespace_of[self.recording.kind]

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key):
        _check_key(self.recording, key)
        return self.recording.call(operator.getitem, (self, key))

    def __setitem__(self, key, value):
        recording = self.recording
        _check_key(recording, key)
        recording.write(self, self.backend_functions.assigned, (value, key))

    def _refuse(self, *args, **kwargs):
        if self.recording.closed:
            raise self.recording.left()
        if thread.recorder is not self.recording:
            raise self.recording.elsewhere()
        raise self.recording.error("the value of a tensor cannot be read")

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = _refuse
    __dlpack__ = __dlpack_device__ = item = tolist = __repr__ = __format__ = _refuse
    __reduce_ex__ = __deepcopy__ = _refuse


def _check_key(recording, key):
    for k in key if type(key) is tuple else (key,):
        if _is_unknown(k) and recording.backend.xp.isdtype(k.dtype, "bool"):
            raise recording.error("an index of bools cannot select what its values say")


def _is_unknown(x):
    """Whether ``x`` is a traced array whose values may differ from call to call."""
    return type(x) in _kinds and x.var.value is None


def transposed(x):
    return x.T


def matrix_transposed(x):
    return x.mT


def _flat(x):
    if isinstance(x, (tuple, list)):
        for item in x:
            yield from _flat(item)
    elif isinstance(x, dict):
        yield from _flat(list(x.values()))
    else:
        yield x


def _substituted(x, old, new, found):
    if x is old:
        return new
    kind = type(x)
    if kind is tuple or kind is list:
        return kind([_substituted(item, old, new, found) for item in x])
    if kind is dict:
        return {name: _substituted(item, old, new, found) for name, item in x.items()}
    return x


def _operator(function):
    def forward(self, other):
        if type(other) in _operands or other is None:
            return self.recording.call(function, (self, other))
        return NotImplemented

    def reflected(self, other):
        if type(other) in _operands:
            return self.recording.call(function, (other, self))
        return NotImplemented

    return forward, reflected


class _Operands:
    """The types that an operator of a Traced array takes."""

    def __contains__(self, kind):
        return kind in SCALARS or kind is Number or kind in backend_of


_operands = _Operands()
_BINARY = """add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift""".split()
_COMPARISONS = "lt le gt ge eq ne".split()


def _writing(name):
    def write(self, other):
        if type(other) not in _operands:
            return NotImplemented
        self.recording.write(self, getattr(self.backend_functions, name), (other,))
        return self

    return write


class Scalar(Traced):
    """A 0-d result that the real library returns as a scalar, not as an array."""

    __slots__ = ()


for _name in _BINARY:
    _forward, _reflected = _operator(getattr(operator, _name))
    _stem = _name.rstrip("_")
    setattr(Traced, f"__{_stem}__", _forward)
    setattr(Traced, f"__r{_stem}__", _reflected)
    setattr(Traced, f"__i{_stem}__", _writing(f"i{_stem}"))
    setattr(Scalar, f"__i{_stem}__", _forward)
for _name in _COMPARISONS:
    setattr(Traced, f"__{_name}__", _operator(getattr(operator, _name))[0])
for _name in ("neg", "pos", "abs", "invert"):
    _function = getattr(operator, _name)
    setattr(Traced, f"__{_name}__", lambda self, f=_function: self.recording.call(f, (self,)))


_HERE = object()


class Through:
    """The function ``(base, value)``: a copy of ``base`` with ``value`` where a view shows it."""

    __name__ = "written_through_view"

    def __init__(self, steps, backend):
        self.steps = steps
        self.backend = backend

    def __call__(self, base, value):
        whole = duplicate_of(self.backend)(base)
        view = whole
        for function, args, kwargs, at in self.steps:
            args, kwargs = _substituted((args, kwargs), _HERE, view, [])
            view = function(*args, **kwargs)
            view = view if at is None else view[at]
        view[...] = value
        return whole


def duplicate_of(backend):
    """A function that copies an array of this library, with its order in memory if possible."""

    def duplicate(x):
        if hasattr(x, "strides") and hasattr(x, "copy"):
            return x.copy("K")
        return backend.asarray(x, copy=True)

    return duplicate


class _Functions:
    """Operators in place and assignment as functions that return the new array, for a library.

    The attribute ``write`` of each is the function that writes into its first argument.
    """

    def __init__(self, backend):
        self.duplicate = duplicate = duplicate_of(backend)

        def assigned(x, value, key):
            x = duplicate(x)
            return assigned.write(x, value, key)

        def assign(x, value, key):
            x[key] = value
            return x

        assigned.write = assign
        self.assigned = assigned
        for name in _BINARY:
            stem = f"i{name.rstrip('_')}"
            setattr(self, stem, self._in_place(stem, getattr(operator, stem)))

    def _in_place(self, name, function):
        duplicate = self.duplicate

        def in_place(x, other):
            return function(duplicate(x), other)

        in_place.__name__ = name
        in_place.write = function
        return in_place


# Types


_kinds: dict[type, Any] = {}
_of_backends: dict[Any, tuple[type, type]] = {}
_making = threading.Lock()


def traced_types(backend):
    """The types of traced arrays and scalars for a library, which are made when first needed."""
    with _making:
        if backend not in _of_backends:
            functions = _Functions(backend)
            array = type("Traced", (Traced,), {"__slots__": (), "backend_functions": functions})
            scalar = type("Scalar", (Scalar,), {"__slots__": (), "backend_functions": functions})
            array.__module__ = scalar.__module__ = __name__
            traced = TracedBackend(backend, array, scalar)
            _kinds.update({array: traced, scalar: traced})
            backend_of[scalar] = traced
            backend_of[array] = traced
            namespace_of[array] = traced.xp
            _of_backends[backend] = array, scalar
        return _of_backends[backend]


class _Namespace(ModuleType):
    """A library's namespace whose functions note their calls."""

    def __init__(self, real):
        super().__init__(f"{getattr(real, '__name__', 'xp')}, recorded")
        self._of = real

    def __getattr__(self, name):
        value = getattr(self._of, name)
        if isinstance(value, type):  # a dtype
            pass
        elif isinstance(value, ModuleType) or name in ("special", "linalg"):
            value = _Namespace(value)
        elif callable(value) and not hasattr(value, "itemsize"):
            value = _recorded(name, value)
        setattr(self, name, value)
        return value


def _recorded(name, function):
    if name in _OF_VALUES:

        def refused(*args, **kwargs):
            recording = thread.recorder
            if recording is None:
                raise RuntimeError(f"{name}: no function is being recorded")
            raise recording.error(f"{name} cannot return as many elements as the values say")

        return refused

    def recorded(*args, **kwargs):
        recording = thread.recorder
        if recording is None:  # a traced array that has left its function
            for x in _flat((args, kwargs)):
                if type(x) in _kinds:
                    raise x.recording.left()
            return function(*args, **kwargs)
        if name == "repeat" and _is_unknown(args[1]):
            raise recording.error("repeat cannot return as many elements as the values say")
        return recording.call(function, args, kwargs)

    return recorded


class _Whole:
    """A twin whose run is noted as one call."""

    def __init__(self, twin, backend):
        self.__code__ = twin.__code__  # which names the values that it keeps
        self.__kwdefaults__ = twin.__kwdefaults__

        def run(*args, **static):
            return twin(backend.xp, *args, **static)

        run.__name__ = twin.__name__
        run.check = getattr(twin, "check", None)  # see `Writer._checks`
        self._run = run

    def __call__(self, xp, *args, **static):
        return thread.recorder.call(self._run, args, static)


class Outcome:
    """Whether a step is skipped, which a program knows when its arrays are computed.

    var: not 0 if it is.
    """

    def __init__(self, var):
        self.var = var

    def __call__(self):
        raise Unsupported("an optimizer steps twice in a call, by a GradScaler")


_MAY_ALIAS = {"_zero_discarded_nans"}


class TracedBackend(Backend):
    """What gpugrad needs of traced arrays: the real library's, called with the real arrays."""

    is_recorder = True

    def __init__(self, real, array, scalar):
        self.real = real
        self.name = f"recorded {real.name}"
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
        if self.real.planner is self.real.graphs is None:
            return {}
        load_twins(self.real.name)
        return {target: _Whole(twin, self.real) for target, twin in self.real.twins(op).items()}

    def lifted(self, array):
        """A real array, met in a call with traced ones, as a constant of the record."""
        recording = thread.recorder
        if recording is None and type(array) in _kinds:
            raise array.recording.left()
        if recording is None or type(array) not in self.real.array_types:
            return array
        return recording.constant(array)

    def device(self, array):
        return self.real.device(array.value)

    def has_device(self, device):
        return self.real.has_device(device)

    def to_device(self, array, device):
        return array.recording.call(self.real.to_device, (array, device))

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if type(data) in _kinds:
            if dtype is copy is None and type(data) is data.recording.kind:
                return data
            if copy and dtype is None and type(data) is data.recording.kind:
                return data.recording.call(data.backend_functions.duplicate, (data,))
            return data.recording.call(self.real.asarray, (data,), {"dtype": dtype, "copy": copy})
        recording = thread.recorder
        if recording is None:
            return self.real.asarray(data, dtype=dtype, device=device, copy=copy)
        if any(type(x) in _kinds for x in _flat(data)):
            raise recording.error("a list of values cannot be made an array; use gpugrad.stack")
        return recording.constant(self.real.asarray(data, dtype=dtype, device=device, copy=copy))

    def dtype(self, dtype):
        return self.real.dtype(dtype)

    def is_floating(self, dtype):
        return self.real.is_floating(dtype)

    def is_complex(self, dtype):
        return self.real.is_complex(dtype)

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        like = like if type(like) not in _kinds else like.value
        array = self.real.create(name, *args, dtype=dtype, device=device, like=like, **keywords)
        return thread.recorder.constant(array)

    def zeros(self, shape, dtype, like):
        like = like if type(like) not in _kinds else like.value
        return thread.recorder.constant(self.real.zeros(shape, dtype, like))

    def _read(self, array, *args, **kwargs):
        array._refuse()

    def read_later(self, array):
        return Outcome(array.var)

    def to_list(self, array):
        root = array.var.root()
        is_state = root.source is not None and root.source.kind in ("tensor", "held")
        if is_state and root.size == 1 and self.real.planner is not None:
            source = Input("number", ("element", root))
            return array.recording.number(source, self.real.to_list(array.value))
        return array._refuse()

    to_numpy: Callable = _read
    host_array: Callable = _read
    format: Callable = _read

    def buffer(self, array):
        return id(array.home)

    def address_range(self, array):
        return None

    def buffer_size(self, array):
        return self.real.nbytes(array.home.value)

    def nbytes(self, array):
        return self.real.nbytes(array.value)

    def scope(self, array):
        return self.real.scope(array.value)

    def synchronize(self, array):
        pass

    def multi_tensor_updater(self, array):
        updater = self.real.multi_tensor_updater(array.value)
        if updater is None:
            return None
        if updater not in self._updaters:
            self._updaters[updater] = RecordedUpdater(updater, duplicate_of(self.real))
        return self._updaters[updater]

    def _blend(self, x, y, a, b):
        blend = Blend(self.real, duplicate_of(self.real))
        return x.recording.write_together([x], blend, (y, a, b))

    def is_unshared(self, array):
        return type(array) is not array.recording.scalar and not array.path

    def generator(self, seed, device):
        return self.real.generator(seed, device)

    def explain(self, error, devices):
        return None
