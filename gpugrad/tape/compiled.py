"""`compile`: a function that is recorded while it runs, and then replayed."""

import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, update_wrapper
from threading import get_ident
from types import BuiltinFunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, overload

from .._batched import BatchedTensor
from .._foreign_names import OPTIONS_OF_COMPILE
from .._processes import current
from .._tensor import Tensor
from .._thread_state import thread
from .._typing import P, R
from ..autograd import implementation
from ..autograd.graph import next_order
from ..autograd.operation import Op
from ..backends import namespace_of
from ..backends.numpy import backend as numpy_backend
from ..nn.module import Module
from ..tools.observing import user_line
from ..transforms.trees import flatten, unflatten
from .cells import SIMPLE, keys_of
from .checking import Snapshot, differences, results
from .graphs import program_of
from .reach import CODE, Reach
from .recording import nodes_of, record, static_fields_of
from .report import Report
from .run import MISS, Failed, Program, warn_of
from .tape import Tape, Unsupported, are_alike, first_difference
from .tracing import traced_types

_MOST = 16  # programs of one function
_PATIENCE = 1.0  # seconds
_recording = threading.RLock()  # held by the thread that records
# What recordings and programs of NumPy share, which the first ones would make otherwise.
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
    says why. The first calls run the function while the array calls that it makes are noted. When
    two calls have made the same ones, they are repeated from then on, without running it, in memory
    that is planned once: no Python between one array call and the next, nothing computed twice, and
    calls that follow each other in one kernel if there is a compiler. Usually it is a training
    step::

        @gpugrad.compile
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

    Arguments are trees (nested tuples, lists, dicts, dataclasses) of tensors and arrays; whatever
    else is in them is part of what is recorded. There is a program for each structure, shape,
    dtype, device and memory layout, for each value of what is no array, and with recording of
    gradients on or off. The last 16 are kept.

    **What is seen.** What the function reads besides its arguments is state: its closure, the
    globals that it names, the functions and classes of the program (not of libraries) that it
    names, and what all these hold in modules, optimizers, schedulers, random generators, containers
    and objects. The values of tensors and of arguments, the numbers of optimizers and random
    numbers are read or drawn anew in each call. Everything else is compared, by type and value, and
    if it has changed, the function is recorded again: so are functions that read a learning rate
    themselves, for each of its values, and those that name raw arrays, of 16 MB at most, for each
    content. Functions and modules of installed libraries are constants.

    **What runs uncompiled**, with one warning: a function that reads a value, as ``float(x)``,
    ``if x > 0`` and ``print(x)`` do, or makes an array whose shape depends on values; that changes
    lists, dicts and objects, except for numbers and texts in them, or raw arrays; that draws random
    numbers of other libraries, seeds a generator, goes through an iterator or a `DataLoader`, steps
    `LBFGS`, of which a closure that does not name the optimizer can be compiled instead; that
    prints, reads a file or a clock, or calls anything else that reaches outside of the program;
    that names what cannot be looked into, such as objects of other libraries. So does one of which
    two calls differ for no reason that can be seen: the warning shows the first difference. Inside
    `vmap` and other transforms, and while a tool such as `profile` is on, a function runs
    uncompiled without a warning.

    On a CUDA device all calls are one CUDA graph: a call of the compiled function stores the
    numbers and addresses that have changed, and launches it. Arguments are copied into the
    memory of the graph and results out of it; what the graph computes with stays allocated
    while the program exists. CUDA does not allow all calls in a graph: those of cuSOLVER and
    complex products, and an argument with gaps between its elements, leave a program whose
    calls are repeated one by one, as they are for libraries other than NumPy and CuPy.
    ``step.program(x, y).call_by_call`` says why. Products may differ from those of the function
    in their last bits, since cuBLAS has another workspace. A function whose arrays are on several
    devices runs uncompiled.

    With several processes, the collectives of `gpugrad.distributed` are calls of the program, in
    the same order as without it. Other processes may at the same time record the function or run
    it as it is. On CUDA devices such a program repeats its calls one by one.

    NumPy's warnings of infinities and nan are not given in compiled calls.

    check: if not 0, every ``check``-th call runs the function too, on the same state, and raises
        RuntimeError where a result, the state or a gradient differs in any bit. It needs one
        process: several would have to make their collectives twice.

    state: a list of what counts as state, in the place of all that the function reaches: modules,
        optimizers, schedulers, random generators, tensors, containers and objects. What they hold
        is read, compared and changed in each call, and so are the arguments. Everything else is a
        constant, as it was when the function was recorded: **no later change of it is seen, and no
        change that the function makes to it is repeated**, except for random generators, which
        draw anew. What the function names is then no reason to run it uncompiled, but what it
        calls still is.

    kernels: False leaves out the kernels, C functions that the machine's compiler makes of the
        calls on a CPU, and that take their place when they are ready, with the same bits.

    Where repeating the calls fails, the function runs instead, and raises the error or handles it;
    if it does neither, a RuntimeWarning says so, once.

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
            update_wrapper(self, function)
        if isinstance(check, bool) or not isinstance(check, int) or check < 0:
            raise ValueError(f"compile: check must be an int of at least 0, not {check!r}")
        self._check = check
        self._kernels = bool(kernels)
        self._state = None if state is None else _checked_state(state)
        self._calls = 0
        self._programs: list[Program] = []
        self._tapes: list[Tape] = []  # recorded once so far
        self._misses = 0  # recordings since a program was last made or used
        self._is_new = True  # has not been called
        self._given_up = False
        self._warned = False
        self._has_failed = False  # a program, where the function did not
        self._has_made_objects = False  # while it was recorded; it may do so in its first call only
        self._lock = threading.RLock()  # which a signal handler may take too
        self._owner: int | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = self.__wrapped_function__
        if (
            self._given_up
            or thread.recorder is not None
            or thread.levels
            or thread.autocast is not None  # inside the function it is recorded
            or thread.repeats  # the graph is to be that of the first time
            or implementation.instruments
            or numpy_backend.reports_errors()
            or self._owner == get_ident()
        ):
            return function(*args, **kwargs)
        leaves, structure = _leaves(args, kwargs)
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
        except Failed as error:
            failure = error.with_traceback(None)
        else:
            if result is MISS:
                return self._record(leaves, structure, args, kwargs)
            return result if before is None else self._compared(result, before, args, kwargs)
        failures = Op.failures
        result = function(*args, **kwargs)
        if failures == Op.failures:  # otherwise the function handles an error of an op
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
            function = vars(self).get("__wrapped_function__")
            known = isinstance(function, Module) and hasattr(function, name)
            if known and not name.startswith("_"):
                kind = type(function).__name__
                raise AttributeError(
                    f"a compiled {kind} is a function without the attribute {name!r}; use that of "
                    f"the {kind} itself",
                    name=name,
                )
            return super().__getattribute__(name)  # raises Python's own error

    def __reduce__(self):
        return Compiled, (self.__wrapped_function__, self._check, self._state, self._kernels)

    def _run(self, leaves, structure):
        """What a program gives for this call, or MISS."""
        if not self._programs:
            return MISS
        with self._lock:
            self._owner = get_ident()
            try:
                return self._run_one(leaves, structure)
            finally:
                self._owner = None

    def _run_one(self, leaves, structure):
        programs = self._programs
        for i, program in enumerate(programs):
            if program.tape.structure != structure:
                continue
            start = next_order()
            with program.context():
                found = program.run(leaves)
                if found is MISS and program.may_follow(leaves):
                    program.bind()
                    found = program.run(leaves)
            if found is not MISS:
                self._misses = 0
                if i:
                    programs.insert(0, programs.pop(i))
                if program.tape.graph is not None:
                    found = program.tape.graph.join(found, leaves, start)
                if program.tape.is_leaf:
                    return found[0]
                return unflatten(program.tape.result_structure, found)
        return MISS

    def _record(self, leaves, structure, args, kwargs):
        """Call the function, record what it does, and make a program if that is known by now."""
        function = self.__wrapped_function__
        is_known = any(type(x) is BatchedTensor for x in leaves)
        if is_known or (self._misses > _MOST and self._misses % _MOST):
            self._misses += not is_known
            return function(*args, **kwargs)
        # Another thread that is recording might wait for this one.
        if not _recording.acquire(timeout=_PATIENCE):
            return function(*args, **kwargs)
        try:
            with suppress(Failed):  # it may be a recording that has ended why no program fitted
                result = self._run(leaves, structure)
                if result is not MISS:
                    return result
            known = [t for t in self._tapes if t.structure == structure]
            known = [t for t in known if t.reach.first_change() is None]
            is_first, self._is_new = self._is_new, False
            call = leaves, structure, args, kwargs
            recorded = record(function, self._state, *call, known, is_first)
            self._note(recorded, known)
        finally:
            _recording.release()
        return recorded.result

    def _note(self, recorded, known):
        tape = recorded.tape
        if tape is None:
            passing = recorded.passing
            if passing is not True and (not passing or self._has_made_objects):
                self._give_up(recorded.reason)
            elif "no tensors" in recorded.reason:
                self._warn(f"ran once without being compiled: in this call {recorded.reason}")
            self._has_made_objects = passing == "first"
            return
        self._has_made_objects = False
        for other in filter(tape.is_alike, known):
            with suppress(ValueError):  # a signal handler may have done so meanwhile
                self._tapes.remove(other)
            try:
                if difference := first_difference(other, tape):
                    what = "two calls differ, though nothing that compile can see has changed"
                    raise Unsupported(f"{what}: {difference}")
                tape.has_kernels = self._kernels
                self._programs.insert(0, program_of(tape))
            except Unsupported as error:
                self._give_up(str(error))
            del self._programs[_MOST:]
            self._misses = 0
            return
        self._misses += 1
        self._tapes.insert(0, tape)
        del self._tapes[_MOST:]
        if self._misses > _MOST:
            self._warn(
                f"runs without being compiled where no earlier recording fits: it was recorded "
                f"{_MOST} times in a row because of what changed: {self._changing()}"
            )

    def _changing(self):
        first, second = self._tapes[0], self._tapes[1]
        layouts = first.signature[1:], second.signature[1:]
        pairs = zip(first.leaves, second.leaves, *layouts, strict=False)
        differing = [
            f"argument {i}"
            for i, (x, y, layout, other) in enumerate(pairs)
            if layout != other or not are_alike(x, y)
        ]
        return ", ".join(differing) or str(second.reach.first_change() or "its state")

    def _give_up(self, why):
        self._given_up = True
        self._tapes = []
        self._warned = False  # what was said before was of single calls
        self._warn(f"runs without being compiled: {why}")

    def _warn(self, what):
        if not self._warned:
            self._warned = True
            line = user_line()  # how many frames are between depends on who warns
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
        expected = results(result) | before.values()
        if differing := differences(expected, found):
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

        If there is none yet, the function is called and recorded, and everything that it has
        changed is put back.

        Raises ValueError if it would run without being compiled.
        """
        leaves, structure = _leaves(args, kwargs)
        with self._lock:
            for program in self._programs:
                if program.tape.structure == structure and program.is_for(leaves):
                    return Report(program)
        function, before = self.__wrapped_function__, self._snapshot(leaves, args, kwargs)
        with _recording:
            for _ in range(3):  # the first call of an optimizer makes its state
                try:
                    recorded = record(function, self._state, leaves, structure, args, kwargs)
                finally:
                    before.restore()
                if recorded.tape is not None or recorded.passing is not True:
                    break
            try:
                if recorded.tape is None:
                    later = "; call it once first" if recorded.passing else ""
                    raise Unsupported(recorded.reason + later)
                recorded.tape.has_kernels = self._kernels
                return Report(program_of(recorded.tape))
            except Unsupported as error:
                raise ValueError(f"program: it would run without being compiled: {error}") from None


def _checked_state(state):
    """The list ``state``, if compile can look into all of it."""
    may = "state may hold modules, optimizers, schedulers, random generators, tensors, containers"
    if not isinstance(state, (list, tuple)):
        raise TypeError(f"compile: state must be a list, not a {type(state).__name__}; {may}")
    for x in state:
        why = Reach([x], follows_code=False).refusal(())
        if why or isinstance(x, (*CODE, *SIMPLE, BuiltinFunctionType, MethodType)):
            name = getattr(x, "__name__", repr(x))
            raise TypeError(f"compile: {may} and objects, not {why or name}")
    return [*state]


_PLAIN = (Tensor, int, float, bool, str, type(None))


def _leaves(args, kwargs):
    """The leaves of the arguments and their structure, which compares equal to equal ones."""
    if not kwargs:
        for x in args:
            kind = type(x)
            if kind is not Tensor and not isinstance(x, _PLAIN) and kind not in namespace_of:
                break
        else:
            return args, len(args)
    leaves = []
    trees = (*args, *kwargs.values())
    nodes = nodes_of(trees)
    # Two dicts have the same structure even if their keys have another order.
    structures = [tuple(kwargs), [keys_of(x) for x in nodes if isinstance(x, dict)]]
    for x in trees:
        found, structure = flatten(x, none_is_leaf=True)
        leaves += found
        structures.append(structure)
    return leaves + static_fields_of(nodes), structures
