"""`compile`, and the functions that it returns: each call runs a program, or is recorded."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, update_wrapper
from types import BuiltinFunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, overload

from .._arguments import require
from .._batched import BatchedTensor
from .._foreign_names import OPTIONS_OF_COMPILE
from .._processes import current
from .._tensor import Tensor
from .._thread_state import make_lock, thread
from .._typing import P, R
from ..autograd import implementation
from ..autograd.operation import Op
from ..backends import namespace_of
from ..backends.numpy import backend as numpy_backend
from ..nn.module import Module, Parameter
from ..tools.observing import user_line
from ..transforms.trees import unflatten
from .cells import SIMPLE, keys_of
from .checking import Snapshot, differences, results
from .graphs import program_of
from .reach import CODE, Reach, first_change
from .recording import changing, record, static_fields_of, taken_apart
from .report import Report
from .run import Failed, Program, warn_of
from .tape import Tape, Unsupported, first_difference
from .tracing import traced_types

_MISS = object()  # instead of a result
_MOST = 16  # programs of one function
_PATIENCE = 1.0  # seconds to wait for another thread that records
_recording = make_lock()  # the thread that records holds it
# Made now, so that the first recording does not take longer than others.
_SHARED = traced_types(numpy_backend), numpy_backend.binder


@overload
def compile(
    function: Callable[P, R],
    *,
    check: int = 0,
    state: Sequence[Any] | None = None,
    kernels: bool = True,
) -> "Compiled[P, R]": ...
@overload
def compile(
    function: None = None,
    *,
    check: int = 0,
    state: Sequence[Any] | None = None,
    kernels: bool = True,
) -> Callable[..., Any]: ...
def compile(
    function: Any = None,
    *,
    check: int = 0,
    state: Sequence[Any] | None = None,
    kernels: bool = True,
    **others: Any,
) -> Any:
    """A function that does what ``function`` does, to the bit, in less time.

    A compiled call does what the function would have done, or it is not compiled, and a warning
    says why. The first calls run the function and note the array calls that it makes. Once two
    calls have made the same ones, later calls repeat these without running the function. Their
    memory is planned once, and if there is a C compiler, kernels make several of them at once.
    Usually the function is a training step::

        @gpugrad.compile
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

    Arguments and results are trees (nested tuples, lists, dicts, dataclasses) of tensors, arrays
    and other objects. There is a program for each structure, shape, dtype, device and memory layout
    of the arguments, for each value of those that are no arrays, and for recording of gradients on
    and off. The last 16 programs are kept. The library optree takes trees apart, so that only
    functions of single tensors, arrays and numbers, with such a result, are compiled without it.

    **What is seen.** Everything that the function reads besides its arguments is state: its
    closure, the globals that it names, the functions and classes of the program (not of libraries)
    that it names, and all modules, optimizers, schedulers, random generators, containers and
    objects in these. Each call reads the values of tensors, of arguments and of the numbers of
    optimizers anew, and draws new random numbers. It compares everything else by type and value,
    but for attributes that the code which ran does not name, and if something has changed, it
    records the function again. So a function that reads a learning
    rate itself is recorded for each of its values, and one that names raw arrays, of 16 MB at most,
    for each of their contents. Functions, classes and modules of installed libraries are constants.

    **What runs uncompiled**, with one warning, is a function that

    - reads a value, as ``float(x)``, ``if x > 0`` and ``print(x)`` do, or makes an array whose
      shape depends on values;
    - changes raw arrays, or lists, dicts and objects, other than by putting numbers and texts
      into them, and new tensors in the place of others;
    - draws random numbers of other libraries, seeds a generator, or goes through an iterator or a
      `DataLoader`;
    - reads the rate or the state of a scheduler; or steps one and also reads a learning rate, or
      one that calls a function which changes something, or reads what this one changes;
    - steps `LBFGS`; a closure for it that does not name the optimizer can be compiled instead;
    - prints, reads a file or a clock, or calls anything else that reaches outside of the program;
    - names an object that `compile` cannot look into, such as one of another library, or runs a
      function of the program that it has not found, such as one inside `numpy.vectorize`;
    - returns one list, dict or object in two places, or new objects as keys or static fields;
    - does something else in a second call for no reason that can be seen. The warning shows the
      first difference.

    A call runs uncompiled, with a warning, if an argument contains itself or is a dataclass with a
    field that is not set. Inside `vmap` and other transforms, and while a tool such as `profile` is
    on, a function runs uncompiled without a warning.

    On a CUDA device all calls are one CUDA graph. A call of the compiled function stores the
    numbers and addresses that have changed, and launches the graph. It copies arguments into the
    memory of the graph and results out of it; that memory stays allocated while the program exists.
    Some calls cannot be in a graph: those of cuSOLVER, complex products, and any with an argument
    that has gaps between its elements. A program with such a call repeats its calls one by one, as
    do programs of libraries other than NumPy and CuPy; ``step.program(x, y).call_by_call`` says
    why. Products may differ from those of the function in their last bits, since cuBLAS has another
    workspace. A function whose arrays are on several devices runs uncompiled.

    With several processes, the program makes the collectives of `gpugrad.distributed` that the
    function makes, in the same order. Other processes may at the same time record the function or
    run it as it is. On CUDA devices such a program repeats its calls one by one.

    Compiled calls do not give NumPy's warnings of infinities and nan.

    check: if not 0, every ``check``-th call runs the function too, on the same state, and raises
        RuntimeError if any bit of a result, of the state or of a gradient differs. It needs one
        process: several would have to make their collectives twice.

    state: a list of the objects that count as state, instead of everything that the function
        reaches: modules, optimizers, schedulers, random generators, tensors, containers and
        objects. Each call reads, compares and changes their contents, and the arguments. Everything
        else is a constant, as it was when the function was recorded: **no later change of it is
        seen, and no change that the function makes to it is repeated**, except for random
        generators, which draw anew. With a list, whatever the function names is no reason to run
        it uncompiled, but what it calls still is.

    kernels: whether to make kernels on a CPU: C functions that the machine's compiler builds, and
        that replace several calls when they are ready, with the same bits.

    If repeating the calls fails, the function runs instead, and raises the error or handles it. If
    it does neither, a RuntimeWarning says so, once.

    >>> import gpugrad
    >>> double = gpugrad.compile(lambda x: x + x)
    >>> double(gpugrad.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    for name in others:
        if name in OPTIONS_OF_COMPILE:
            raise TypeError(f"compile: there is no option {name}: {OPTIONS_OF_COMPILE[name]}")
        raise TypeError(f"compile: got an unexpected keyword argument {name!r}")
    decorate = partial(Compiled, check=check, state=state, kernels=kernels)
    return decorate if function is None else decorate(function)


class Compiled(Generic[P, R]):
    """A compiled function; see `compile`."""

    __wrapped_function__: Any = None

    def __init__(
        self, function: Callable[P, R], check: int, state: Sequence[Any] | None, kernels: bool
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"compile: the first argument must be a function, not {type(function).__name__}"
            )
        self.__wrapped_function__ = function
        if not isinstance(function, Module):
            update_wrapper(self, function, updated=())
        if isinstance(check, bool) or not isinstance(check, int) or check < 0:
            raise ValueError(f"compile: check must be an int of at least 0, not {check!r}")
        self._check = check
        require(isinstance(kernels, bool), "compile: kernels must be True or False", kernels)
        self._kernels = kernels
        self._state = None if state is None else _checked_state(state)
        self._calls = 0
        self._programs: list[Program] = []  # those used last come first
        self._tapes: list[Tape] = []  # of calls that have been recorded only once
        self._misses = 0  # recordings since a program was last made or used
        self._is_new = True  # whether no call has been recorded
        self._given_up = False
        self._warned = False
        self._has_failed = False  # whether a program has failed where the function has not
        self._has_retried = False  # whether the last recording stopped with retry "once"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = self.__wrapped_function__
        if (
            self._given_up
            or thread.recorder is not None
            or thread.levels
            or thread.autocast is not None  # a region that the function itself enters is recorded
            or thread.repeats  # the function must make the same graph as when it first ran
            or implementation.instruments
            or numpy_backend.reports_errors()
        ):
            return function(*args, **kwargs)
        try:
            leaves, structure = _leaves(args, kwargs)
        except Unsupported as error:
            self._warn(f"ran once without being compiled: {error}")
            return function(*args, **kwargs)
        before = None
        if self._check:
            self._calls += 1
            if self._calls % self._check == 0:
                if current().size > 1:
                    text = "check needs one process; leave it out in several"
                    raise RuntimeError(f"gpugrad.compile: {text}")
                before = self._snapshot(leaves, args, kwargs)
        try:
            result = self._run(leaves, structure)
            if result is _MISS:
                return self._record(leaves, structure, args, kwargs)
        except Failed as error:
            failure = error.with_traceback(None)
        else:
            return result if before is None else self._compared(result, before, args, kwargs)
        failures = Op.failures
        result = function(*args, **kwargs)
        if failures == Op.failures:  # otherwise the function has handled an error of an op
            if before is not None:
                raise RuntimeError(
                    f"gpugrad.compile: call {self._calls} of {self._name()} raises an error that "
                    f"it does not raise without being compiled: {failure}"
                ) from failure.__cause__
            if not self._has_failed:
                self._has_failed = True
                warn_of(failure, function)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"gpugrad.compile({self.__wrapped_function__!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name):  # called only for attributes that do not exist
            holder = self._holder(name)
            if isinstance(holder, Module):
                return super().__getattribute__(name)  # raises Python's own error
            return getattr(holder, name)

        def __setattr__(self, name, value):
            put = super().__setattr__ if self._has(name) else partial(setattr, self._holder(name))
            put(name, value)

        def __delattr__(self, name):
            (super().__delattr__ if self._has(name) else partial(delattr, self._holder(name)))(name)

    def _has(self, name):
        """Whether this object itself has, or gets, an attribute."""
        function = vars(self).get("__wrapped_function__")
        return name[0] == "_" or (isinstance(function, Module) and not hasattr(function, name))

    def _holder(self, name):
        """What has the other attributes: the function that this was made of."""
        function = vars(self).get("__wrapped_function__")
        if isinstance(function, Module) and hasattr(function, name):
            kind = type(function).__name__
            raise AttributeError(
                f"a compiled {kind} is a function without the attribute {name!r}; use that of "
                f"the {kind} itself",
                name=name,
            )
        return function

    def __reduce__(self):
        return Compiled, (self.__wrapped_function__, self._check, self._state, self._kernels)

    def _run(self, leaves, structure):
        """The result that a program returns for this call, or ``_MISS`` if there is no program."""
        for program in self._programs:
            if program.tape.structure != structure:
                continue
            if (found := program.run_alone(leaves)) is not None:
                if self._misses:  # to look takes less time than to set
                    self._misses = 0
                if program is not self._programs[0]:
                    self._programs = [program, *[x for x in self._programs if x is not program]]
                return unflatten(program.tape.result_structure, found)
        return _MISS

    def _record(self, leaves, structure, args, kwargs):
        """Call the function, record it, and make a program if another recording agrees with it."""
        function = self.__wrapped_function__
        is_batched = any(type(x) is BatchedTensor for x in leaves)
        is_inside = any(program.is_mine() for program in self._programs)  # in a signal handler
        if is_batched or is_inside or (self._misses > _MOST and self._misses % _MOST):
            self._misses += not (is_batched or is_inside)
            return function(*args, **kwargs)
        # The wait is limited, since the thread that records might wait for this one.
        if not _recording.acquire(timeout=_PATIENCE):
            return function(*args, **kwargs)
        try:
            # While another thread recorded, tensors had stand-ins for arrays, which fit no program.
            if (result := self._run(leaves, structure)) is not _MISS:
                return result
            tapes = [t for t in self._tapes if t.structure == structure]
            known = [t for t in tapes if first_change(t.guards) is None]
            is_first, self._is_new = self._is_new, False
            call = leaves, structure, args, kwargs
            recorded = record(function, self._state, *call, known, is_first)
            self._note(recorded, known)
        finally:
            _recording.release()
        return recorded.result

    def _note(self, recorded, known):
        """Keep the tape of a recording, make a program if one of ``known`` agrees, or give up."""
        tape = recorded.tape
        if tape is None:
            retry = recorded.retry
            if not retry or (retry == "once" and self._has_retried):
                self._give_up(recorded.reason)
            elif "no tensors" in recorded.reason:
                self._warn(f"ran once without being compiled: in this call {recorded.reason}")
            else:
                self._misses += 1
                if self._misses > _MOST:
                    what = f"in {_MOST} calls in a row {recorded.reason}"
                    self._warn(f"runs without being compiled: {what}")
            self._has_retried = retry == "once"
            return
        self._has_retried = False
        for other in filter(tape.matches, known):
            with suppress(ValueError):  # a signal handler may have removed it meanwhile
                self._tapes.remove(other)
            try:
                if difference := first_difference(other, tape):
                    what = "two calls differ, though nothing that compile can see has changed"
                    raise Unsupported(f"{what}: {difference}")
                with numpy_backend.sweep_context():  # NumPy must not warn of calls on stand-ins
                    program = program_of(tape, self._kernels)
                self._programs.insert(0, program)
            except Unsupported as error:
                self._give_up(str(error))
            except Exception as error:  # noqa: BLE001  the function itself has not failed
                self._give_up(f"no program can be made of its calls: {error!r}")
            del self._programs[_MOST:]
            self._misses = 0
            return
        self._misses += 1
        for other in known:  # if this call has gone another way unwatched, watch the next one
            other.is_watched &= tape.is_watched
        if tape.is_watched:
            self._tapes.insert(0, tape)
        del self._tapes[_MOST:]
        if self._misses > _MOST:
            self._warn(
                f"runs without being compiled where no earlier recording fits: it was recorded "
                f"{_MOST} times in a row because of what changed: {self._changing()}"
            )

    def _changing(self):
        """What has changed between the last two recordings, as a text."""
        last, previous = self._tapes[0], self._tapes[:2][-1]  # other recordings had no tape
        pairs = zip(last.signature[0], previous.signature[0], strict=False)
        changed = [(i, x[0] == y[0]) for i, (x, y) in enumerate(pairs) if x != y]
        if shapes := [f"the shape of argument {i}" for i, is_same in changed if is_same]:
            return f"{', '.join(shapes)}; pad it to a few shapes, or leave the function uncompiled"
        what = ", ".join([f"argument {i}" for i, _ in changed])
        what = what or first_change(previous.guards) or "its state"
        return f"{what}; if it is a number, make it gpugrad.tensor(number)"

    def _give_up(self, why):
        self._given_up = True
        self._tapes = []
        self._warned = False  # earlier warnings were about single calls
        self._warn(f"runs without being compiled: {why}")

    def _warn(self, what):
        if not self._warned:
            self._warned = True
            line = user_line()  # a stacklevel will not do: it would depend on the caller of _warn
            place = (line.file, line.number) if line else ("<unknown>", 1)
            warnings.warn_explicit(f"gpugrad.compile: {self._name()} {what}", UserWarning, *place)

    def _name(self):
        return getattr(self.__wrapped_function__, "__name__", "the function")

    def _snapshot(self, leaves, args, kwargs):
        return Snapshot([self.__wrapped_function__, *(self._state or ())], leaves, args, kwargs)

    def _compared(self, returned, before, args, kwargs):
        """Run the function too, on the state ``before`` the program, and compare everything."""
        found = results(returned) | before.values()
        before.restore()
        result = self.__wrapped_function__(*args, **kwargs)
        if differing := differences(results(result) | before.values(), found):
            more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
            where = "beyond what compile can see, which its documentation says"
            if self._state is not None:
                where = "in what `state` does not list"
            raise RuntimeError(
                f"gpugrad.compile: in call {self._calls} of {self._name()} these differ from what "
                f"it gives without being compiled: {', '.join(differing[:5])}{more}; what it reads "
                f"may lie {where}"
            )
        return result

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Report:
        """The program that a call with these arguments runs; see `Report`.

        If there is none yet, this calls and records the function, and undoes everything that the
        function has changed.

        Raises ValueError if the function would run without being compiled.
        """
        try:
            leaves, structure = _leaves(args, kwargs)
        except Unsupported as error:
            raise ValueError(f"program: it would run without being compiled: {error}") from None
        for program in self._programs:
            if program.tape.structure == structure and program.is_for(leaves):
                return Report(program)
        function, before = self.__wrapped_function__, self._snapshot(leaves, args, kwargs)
        with _recording:
            for _ in range(3):  # in the first call optimizers make their state
                try:
                    call = leaves, structure, args, kwargs
                    recorded = record(function, self._state, *call, is_undone=True)
                finally:
                    before.restore()
                if recorded.tape is not None or recorded.retry is not True:
                    break
            try:
                if recorded.tape is None:
                    later = "; call it once first" if recorded.retry else ""
                    raise Unsupported(recorded.reason + later)
                return Report(program_of(recorded.tape, self._kernels))
            except Unsupported as error:
                raise ValueError(f"program: it would run without being compiled: {error}") from None


def _checked_state(state):
    """The list ``state``; raises TypeError if compile cannot look into all of it."""
    may = "state may hold modules, optimizers, schedulers, random generators, tensors, containers"
    if not isinstance(state, (list, tuple)):
        raise TypeError(f"compile: state must be a list, not a {type(state).__name__}; {may}")
    for x in state:
        why = Reach([x], follows_code=False).refusal(())
        if why or isinstance(x, (*CODE, *SIMPLE, BuiltinFunctionType, MethodType)):
            name = getattr(x, "__name__", repr(x))
            raise TypeError(f"compile: {may} and objects, not {why or name}")
    return [*state]


_PLAIN = {Tensor, Parameter, int, float, bool, str, type(None)}


def _leaves(args, kwargs):
    """The leaves of the arguments and their structure, which can be compared by ``==``."""
    if not kwargs:
        for x in args:
            kind = type(x)
            if kind not in _PLAIN and kind not in namespace_of:
                break
        else:
            return args, len(args)
    trees = (*args, *kwargs.values())
    leaves, structures, nodes = taken_apart(trees, "arguments", stops=None)
    # To `flatten`, the order of the keys of a dict does not belong to its structure.
    structures += [tuple(kwargs), [keys_of(x) for x in nodes if isinstance(x, dict)]]
    return leaves + static_fields_of(nodes) + changing(nodes), structures
