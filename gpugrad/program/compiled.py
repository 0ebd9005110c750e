"""`compile`: a function that is recorded once and then replayed."""

import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import update_wrapper
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, overload

from .._batched import BatchedTensor
from .._draws import Draws
from .._foreign_names import OPTIONS_OF_COMPILE
from .._processes.repeating import noted, repeated
from .._tensor import Tensor
from .._thread_state import restores_state, thread
from .._typing import P, R
from ..autograd import implementation
from ..autograd.graph import Leaf, next_order, writes
from ..autograd.operation import Op
from ..autograd.plan import OutputPlan
from ..backends import SCALARS, backend_of, namespace_of
from ..backends.numpy import backend as numpy_backend
from ..nn.module import Module
from ..transforms.trees import flatten, unflatten
from .checking import Snapshot, differences, results
from .derivatives import Derivative, Sweep, divide
from .draws import NotedDraws
from .graphs import program_of
from .numbers import Later, Number
from .record import Input, Unsupported, Variable, living, simplify
from .recording import Recording, traced_types
from .replay import MISS, Failed, Program, spent, warn_of
from .report import Report
from .state import (
    _SIMPLE,
    Given,
    Reach,
    Swap,
    backend_for,
    has_more,
    holds,
    is_own,
    keys_of,
    nodes_of,
    same,
    same_argument,
    static_fields_of,
)

_MOST = 16  # programs of one function
_LARGE = 1 << 26  # bytes
_recording = threading.RLock()  # while one thread records, state of the program is replaced
# What recordings with NumPy share, which the first one would make otherwise.
_SHARED = traced_types(numpy_backend), numpy_backend.planner


@overload
def compile(function: Callable[P, R], *, check: int = 0) -> "Compiled[P, R]": ...
@overload
def compile(function: None = None, *, check: int = 0) -> Callable[..., Any]: ...
def compile(function: Any = None, *, check: int = 0, **others: Any) -> Any:
    """A function that does what ``function`` does, to the bit, in less time.

    ``function`` runs once while the array calls that it makes are recorded. The calls are then
    repeated, without running it, in memory that is planned once: no Python between one array
    call and the next, nothing computed twice, and chains of elementwise calls in blocks that stay
    in the cache. Usually it is a training step::

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

    What the function reads besides is state, and never stale. It reaches the function's closure,
    the globals that it names, what it names of modules that it imports, the functions and classes
    of the program (not of libraries) that it names, objects that are arguments, and what all these
    hold directly or in modules, optimizers, schedulers, random generators, a `GradScaler`, lists,
    tuples, sets and dicts of at most 1000 items, and objects of the program's own classes.
    Tensors, learning rates, step counts and random numbers are read or drawn anew in each call;
    everything else is compared, and if it has changed, the function is recorded again. What lies
    beyond, such as files, the clock, the insides of other libraries' objects, what NumPy itself
    computes with an array in a tuple, and attributes of modules that are written to
    ``vars(module)``, is read once. Text is printed only while the function is recorded.

    On a CUDA device all calls are one CUDA graph: a call of the compiled function stores the
    numbers and addresses that have changed, and launches it. Arguments are copied into the
    memory of the graph and results out of it; what the graph computes with stays allocated
    while the program exists. CUDA does not allow all calls in a graph: those of cuSOLVER and
    complex products, and an argument with gaps between its elements, leave a program whose
    calls are repeated one by one, as they are for libraries other than NumPy and CuPy.
    ``step.program(x, y).call_by_call`` says why. Products may differ from those of the function
    in their last bits, since cuBLAS has another workspace. A function whose arrays are on several
    devices runs as if it were not compiled.

    With several processes, the collectives of `gpugrad.distributed` are calls of the program, in
    the same order as without it. Other processes may at the same time record the function or run
    it as it is. On CUDA devices such a program repeats its calls one by one.

    A function that does what cannot be recorded runs as if it were not compiled, with one
    warning that says why. Examples are random numbers of other libraries, seeding a generator,
    iterators, a pass through a `DataLoader`, changes to lists, dicts and objects that are
    arguments, and an `LBFGS` step, of which the closure can be compiled instead. So does any
    function inside `vmap` or another transform, and while a tool such as `profile` is on. The
    first call with a new optimizer, or one that first makes what it keeps, runs so too, without a
    warning.

    check: if not 0, every ``check``-th call runs the function too, on the same state, and raises
        RuntimeError where a result, the state or a gradient differs in any bit, or what is sent to
        other processes. The collectives are made once, so that each process may check when it
        wants to.

    Raises RuntimeError if the function reads a value, as ``float(x)``, ``if x > 0`` and
    ``print(x)`` do, or makes an array whose shape depends on values. Only ``x.item()`` of a tensor
    on the CPU that is state, and was not changed before, is possible. After an error while it is
    recorded all state is as before the call. Where repeating the calls fails, the function runs
    instead, and raises the error or handles it; if it does neither, a RuntimeWarning says so, once.

    >>> import gpugrad
    >>> double = gpugrad.compile(lambda x: x + x)
    >>> double(gpugrad.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    for name in others:
        if name in OPTIONS_OF_COMPILE:
            raise TypeError(f"compile: there is no option {name}: {OPTIONS_OF_COMPILE[name]}")
        raise TypeError(f"compile: got an unexpected keyword argument {name!r}")
    if function is None:
        return lambda function: Compiled(function, check)
    return Compiled(function, check)


class Compiled(Generic[P, R]):
    """A compiled function; see `compile`."""

    __wrapped_function__: Any = None

    def __init__(self, function: Callable[P, R], check: int = 0) -> None:
        if not callable(function):
            raise TypeError(
                f"compile: the first argument must be a function, not {type(function).__name__}"
            )
        if isinstance(function, Module):
            self.__wrapped_function__ = function
        else:
            self.__wrapped_function__ = function
            update_wrapper(self, function)
        if isinstance(check, bool) or not isinstance(check, int) or check < 0:
            raise ValueError(f"compile: check must be an int of at least 0, not {check!r}")
        self._check = check
        self._calls = 0
        self._programs: list[Program] = []
        self._misses = 0  # recordings since a program was last used
        self._given_up = False
        self._warned = False
        self._has_failed = False  # a program, where the function did not
        self._has_made_objects = False  # while it was recorded; it may do so in its first call only
        self._lock = threading.Lock()
        self._owner: int | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = self.__wrapped_function__
        if (
            self._given_up
            or thread.recorder is not None
            or thread.levels
            or thread.autocast is not None  # inside the function it is recorded
            or implementation.instruments
            or self._owner == get_ident()
        ):
            return function(*args, **kwargs)
        leaves, structure = _leaves(args, kwargs)
        failure = None
        with self._lock:
            self._owner = get_ident()
            try:
                if self._check:
                    self._calls += 1
                    if self._calls % self._check:
                        result = self._run(leaves, structure, args, kwargs)
                    else:
                        result = self._checked(args, kwargs, leaves, structure)
                else:
                    result = self._run(leaves, structure, args, kwargs)
                if result is MISS:
                    result = self._record_and_run(leaves, structure, args, kwargs)
            except Failed as error:
                result, failure = MISS, str(error)
            finally:
                self._owner = None
        if result is MISS:
            failures = Op.failures
            result = function(*args, **kwargs)
            # Without an error of an op that the function handles.
            if failure is not None and failures == Op.failures and not self._has_failed:
                self._has_failed = True
                warn_of(failure, function)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        raise TypeError(
            "compile: this is a method; compile it where it is bound, as "
            "step = gpugrad.compile(trainer.step)"
        )

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
        return Compiled, (self.__wrapped_function__, self._check)

    def _run(self, leaves, structure, args, kwargs):
        programs = self._programs
        for i, program in enumerate(programs):
            if program.structures[0] != structure:
                continue
            derivative = program.derivative
            if derivative is not None:
                start, draws = next_order(), Draws()
                for generator in derivative.generators:
                    draws.states[generator] = generator.get_state()
            with program.context():
                found = program.run(leaves)
                if found is MISS and program.may_follow():
                    program.bind()
                    found = program.run(leaves)
            if found is not MISS:
                self._misses = 0
                if i:
                    programs.insert(0, programs.pop(i))
                if derivative is not None:
                    found = derivative.join(found, leaves, args, kwargs, start, draws)
                result_structure = program.structures[1]
                return found[0] if result_structure is None else unflatten(result_structure, found)
        return MISS

    def _record_and_run(self, leaves, structure, args, kwargs):
        if any(type(x) is BatchedTensor for x in leaves):
            return MISS
        with _recording:
            # While another thread was recording, its stand-ins for state fitted no program.
            result = self._run(leaves, structure, args, kwargs)
            if result is not MISS:
                return result
            self._misses += 1
            if self._misses > _MOST:
                self._warn(
                    f"runs without being compiled where no earlier recording fits: it was recorded "
                    f"{_MOST} times in a row because of what changed: {self._changing()}"
                )
                if self._misses % _MOST:
                    return MISS
            misses = self._misses
            try:
                program = self._record(leaves, structure, args, kwargs)
            except Unsupported as error:
                if error.once == "this":
                    self._misses -= 1
                    self._warn(f"ran once without being compiled: in this call {error}")
                elif not error.once or (error.once == "first" and self._has_made_objects):
                    self._give_up(str(error))
                self._has_made_objects = error.once == "first"
                return MISS
            self._has_made_objects = False
            self._programs.insert(0, program)
            del self._programs[_MOST:]
            result = self._run(leaves, structure, args, kwargs)
            self._misses = misses
            return result

    def _changing(self):
        if len(self._programs) < 2:
            return "its state"
        first, second = self._programs[0].trace.key, self._programs[1].trace.key
        differing = [name for name in first if first[name] != second.get(name)]
        return ", ".join(differing) or "its state"

    def _give_up(self, why):
        self._given_up = True
        self._warned = False  # what was said before was of single calls
        self._warn(f"runs without being compiled: {why}")

    def _warn(self, what):
        if not self._warned:
            self._warned = True
            name = getattr(self.__wrapped_function__, "__name__", "the function")
            warnings.warn(f"gpugrad.compile: {name} {what}", stacklevel=5)

    def _record(self, leaves, structure, args, kwargs):
        trace = record(self.__wrapped_function__, leaves, args, kwargs)
        program = program_of(trace, (structure, trace.structure))
        if trace.sweep is not None:
            program.derivative = Derivative(
                self.__wrapped_function__, trace, trace.backward, trace.kept
            )
        trace.forget()
        return program

    def _checked(self, args, kwargs, leaves, structure):
        """Run the function too, and compare everything."""
        given = Given((*args, *kwargs.values()))
        reach = Reach(self.__wrapped_function__, leaves, given.nodes)
        if reach.unsupported:
            return MISS
        for x in leaves:
            if isinstance(x, Tensor):
                reach.tensor(x)
        before = Snapshot(reach, leaves, given)
        failures = Op.failures
        with noted() as collectives:  # an error leaves what it leaves without being compiled
            result = results(self.__wrapped_function__(*args, **kwargs))
        expected = result | before.values()
        before.restore()
        name = getattr(self.__wrapped_function__, "__name__", "the function")
        with repeated(collectives):
            try:
                returned = self._run(leaves, structure, args, kwargs)
                if returned is MISS:
                    returned = self._record_and_run(leaves, structure, args, kwargs)
            except Failed as error:
                if failures != Op.failures:  # errors that the function handles
                    return self.__wrapped_function__(*args, **kwargs)
                raise RuntimeError(
                    f"gpugrad.compile: call {self._calls} of {name} raises an error that it does "
                    f"not raise without being compiled: {error}; nothing has changed"
                ) from error.__cause__
            if returned is MISS:
                return self.__wrapped_function__(*args, **kwargs)
        found = results(returned) | before.values()
        if differing := differences(expected, found):
            more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise RuntimeError(
                f"gpugrad.compile: in call {self._calls} of {name} these differ from what it "
                f"gives without being compiled: {', '.join(differing[:5])}{more}; what it reads "
                f"may lie beyond what compile can see, which its documentation says"
            )
        return returned

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Report:
        """The program that a call with these arguments runs; see `Report`.

        The function is recorded if there is no such program yet; nothing else happens.

        Raises ValueError if it would run without being compiled.
        """
        leaves, structure = _leaves(args, kwargs)
        with self._lock, _recording:
            for program in self._programs:
                if program.structures[0] == structure and _fits(program, leaves):
                    return Report(program)
            try:
                return Report(self._record(leaves, structure, args, kwargs))
            except Unsupported as error:
                raise ValueError(f"program: it would run without being compiled: {error}") from None


def _fits(program, leaves):
    """Whether the arguments have the shapes, dtypes and values that a program is for."""
    for leaf, (kind, value) in zip(leaves, program.trace.leaves, strict=True):
        array = leaf.array if isinstance(leaf, Tensor) else leaf
        if kind == "static" and not same_argument(leaf, value):
            return False
        for var, source in {**program.trace.floating, **program.trace.unread}.items():
            mine = source.holder is leaf or (
                source.kind == "argument" and leaves[source.holder] is leaf
            )
            if mine and (tuple(var.shape), var.dtype) != (tuple(array.shape), array.dtype):
                return False
    return len(leaves) == len(program.trace.leaves)


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


class Trace:
    """A finished recording: the calls that matter, and what they begin and end with."""

    def __init__(self, recording, reach, swap, leaves):
        self.recording = recording
        self.reach = reach
        self.swap = swap
        self.is_recording = thread.recording
        self.duplicate = recording.kind.backend_functions.duplicate
        self.written = {}  # from the variables of arrays to those to be written to them
        self.rebound = []
        self.gradients = []
        self.changed = []
        self.number_writes = []
        self.skips = []  # optimizers, what is not 0 if their step is skipped, and counts before it
        self.results = []
        self.arguments(leaves)

    def forget(self):
        """Let go of all arrays that only the recording needed."""
        made = sum([out.nbytes for call in self.recording.calls for out in call.outs])
        self.swap = self.draws = self.sweep = self.holders = None
        self.recording.forget()
        if made > _LARGE:  # of which the program will not need as much
            self.recording.backend.release_freed_memory()

    def example(self, x):
        """The array that an input had while it was recorded; None once that is forgotten."""
        return None if self.swap is None else self.swap.real_of.get(x)

    def arguments(self, leaves):
        self.argument_of = {}
        self.leaves = []
        self.key = {}
        arrays = {}
        for i, x in enumerate(leaves):
            name = f"argument {i}"
            if isinstance(x, Tensor):
                if id(x) in self.argument_of:
                    self.leaves.append(("same", self.argument_of[id(x)]))
                    continue
                if id(x) in self.swap.of_state:
                    self.leaves.append(("state", x))
                    continue
                node = x.node
                if type(node) is Leaf and node.watch is not None:
                    raise Unsupported("an argument has hooks", once=True)
                self.argument_of[id(x)] = i
                self.leaves.append(("tensor", (type(x), node, x.grad is not None)))
                self.key[name] = (tuple(x.shape), x.dtype, x.device)
            elif type(x) in namespace_of:
                first = arrays.setdefault(id(x), i)
                self.leaves.append(("array", None) if first == i else ("same", first))
                self.key[name] = (tuple(x.shape), x.dtype)
            else:
                self.leaves.append(("static", x))
                self.key[name] = repr(x)


@restores_state
def record(function, leaves, args, kwargs, with_placeholders=True):
    """The `Trace` of a call; nothing has changed afterwards, whatever happens.

    with_placeholders: whether large results need not be computed.
    """
    before = Given((*args, *kwargs.values()))
    reach = Reach(function, leaves, before.nodes)
    if reach.unsupported:
        raise Unsupported(reach.unsupported)
    if any(map(has_more, before.nodes)):
        raise Unsupported("an argument has attributes that are not fields of its dataclass")
    of_state = set(reach.tensors)
    backend = backend_for(reach, leaves)
    if backend is None:
        raise Unsupported("it has no tensors to compute with", once="this")
    for x in leaves:
        if isinstance(x, Tensor):
            reach.tensor(x)
    recording = Recording(backend, with_placeholders)
    swap = Swap(recording, reach)
    swap.of_state = of_state
    draws = NotedDraws(recording, reach.generators, reach.foreign_generators)
    trace = Trace(recording, reach, swap, leaves)
    trace.draws = draws
    outer = thread.draws
    try:
        try:
            thread.recorder = recording
            swap.enter()
            given, named = _traced_arguments(recording, swap, leaves, args, kwargs)
            trace.given = before if given is args else Given((*given, *named.values()))
            recording.start, recording.seen = next_order(), swap.originals
            thread.draws = (draws,)
            # Values that were not computed must not cause warnings; a program gives none either.
            with (backend.sweep_context or nullcontext)():
                result = function(*given, **named)
            thread.draws = outer
            recording.check()
            draws.check()
            _finish(trace, result)
        except (Exception, Unsupported) as error:
            if not (recording.has_failed and recording.has_placeholders):
                if isinstance(error, (AttributeError, TypeError)) and "'Traced'" in str(error):
                    raise _of_raw_array(error) from error
                if recording.has_failed and any(call.communicates for call in recording.calls):
                    raise Unsupported(
                        "it fails with values that stand for those of other processes", once=True
                    ) from error
                raise
            trace = None  # values that were not computed may be to blame
        finally:
            thread.recorder = None
            thread.draws = outer
            swap.restore()
            before.restore()
            draws.restore()
            recording.closed = True
    finally:  # again, in case Ctrl-C came during the first time
        thread.recorder = None
        thread.draws = outer
        swap.restore()
        before.restore()
        draws.restore()
        recording.closed = True
    if trace is None:
        return record(function, leaves, args, kwargs, with_placeholders=False)
    _prepare(trace)
    return trace


def _of_raw_array(error):
    """The error for a function or method of NumPy's, such as ``x.sum()``, of a raw array."""
    return type(error)(
        "gpugrad.compile: of raw arrays only operators and gpugrad's functions can be recorded; "
        f"make the array a tensor first, with gpugrad.asarray ({error})"
    )


def _traced_arguments(recording, swap, leaves, args, kwargs):
    """The arguments with a traced array in place of each raw one; tensors are as they are."""
    arrays = {}
    for i, x in enumerate(leaves):
        if type(x) in namespace_of and id(x) not in arrays:
            if backend_of[type(x)] is not recording.backend:
                raise Unsupported("it uses arrays of several libraries")
            arrays[id(x)] = traced = recording.input(x, Input("argument", i))
            swap.real_of[traced.var] = x
            swap.first[traced] = traced.var
    if not arrays:
        return args, kwargs
    found = []
    for value in (*args, *kwargs.values()):
        parts, structure = flatten(value, none_is_leaf=True)
        found.append(unflatten(structure, [arrays.get(id(x), x) for x in parts]))
    return found[: len(args)], dict(zip(kwargs, found[len(args) :], strict=True))


def _finish(trace, result):
    """Note what the function has returned and changed."""
    swap = trace.swap
    if any(is_own(name) and name in sys.modules for name in trace.reach.not_imported):
        raise Unsupported("it imports a module", once=True)
    for x, *before in swap.originals.values():
        _tensor(trace, x, *before)
    for traced, var in swap.first.items():
        if var.source.kind == "argument":
            _memory(trace, traced)
    watches = [leaf.watch for leaf in swap.unwatched if leaf.watch is not None]
    # A listener needs no refusal: what `DataParallel` does for it is recorded.
    asked = any(w.hooks or w.accumulated or w.label for w in watches)
    watches = [node.watch for node in swap.stand_ins.values()]  # each with a hook of the swap
    if asked or any(len(w.hooks) > 1 or w.leaf is not None or w.label for w in watches):
        raise Unsupported("it adds hooks or a label to a tensor")
    if trace.given.changed():
        raise Unsupported("it changes a list, a dict or an object that is an argument")
    _optimizers(trace)
    _slots(trace)
    swap.check_memory(trace.written, trace.argument_of)
    parts, trace.structure = flatten(result, none_is_leaf=True)
    trace.result_structure = trace.structure
    if len(parts) == 1 and parts[0] is result:
        trace.structure = None
    for x in parts:
        trace.results.append(_result(trace, x))
    if any(map(has_more, nodes_of([result]))):
        raise Unsupported("a result has attributes that are not fields of its dataclass")
    _graph(trace, parts, trace.recording.start)


def _var(trace, array, what):
    if type(array) is not trace.recording.kind:
        raise Unsupported(f"{what} gets an array from elsewhere")
    return array.var


def _tensor(trace, x, array, node, grad, grad_array, grad_node):
    swap = trace.swap
    traced = swap.inputs[id(x)]
    if x.node is not swap.stand_ins.get(id(x), node):
        raise Unsupported("a tensor from outside gets a graph, or requires grad from now on")
    _memory(trace, traced)
    if x.array is not traced:
        trace.rebound.append((x, "", _var(trace, x.array, "a tensor")))
    new = x.grad
    if new is not grad:
        if new is None:
            trace.gradients.append((x, None))
        elif new.node is not None:
            raise Unsupported("a gradient has a graph")
        else:
            trace.gradients.append((x, _var(trace, new.array, "a gradient")))
    elif grad is not None:
        _memory(trace, swap.grads[id(x)])
        if grad.array is not swap.grads[id(x)]:
            trace.rebound.append((x, "._grad", _var(trace, grad.array, "a gradient")))


def _memory(trace, traced):
    """Note if the memory of an input was written to."""
    first, now = trace.swap.first[traced], traced.home.var
    if now is not first:
        source = first.source
        if source.kind == "argument" or id(source.holder) in trace.argument_of:
            raise Unsupported("it writes into the memory of an argument")
        trace.written[first] = now


def _optimizers(trace):
    swap = trace.swap
    for optimizer, _, _, _, states in swap.groups:
        if optimizer._unknown is not None:
            outcome, counts = optimizer._unknown
            optimizer._unknown = None
            trace.skips.append((optimizer, outcome.var, counts))
        if optimizer._states.keys() != states.keys() or any(
            optimizer._states[p] is not state for p, state in states.items()
        ):
            raise Unsupported("its optimizer makes its state", once=True)
    for group, name, proxy in swap.proxies:
        now = group[name]
        if now is proxy or isinstance(now, Later):
            continue
        raise Unsupported(f"it changes {name} of an optimizer")
    for state, (_, arrays, *_) in swap.states:
        if state.arrays.keys() != arrays.keys():
            raise Unsupported("its optimizer makes its state", once=True)
        for traced in state.values:
            _memory(trace, traced)
        if isinstance(state.step, Number) and state.step.var.source is None:
            trace.number_writes.append((state, "step", state.step.var))
        elif not isinstance(state.step, Number):
            raise Unsupported("an optimizer counts its steps in another way")
        if any(isinstance(n, Number) and n.var.source is None for n in state.numbers):
            values = tuple([n.var for n in state.numbers])
            trace.number_writes.append((state, "numbers", values))
        elif not all(isinstance(n, Number) for n in state.numbers):
            raise Unsupported("an optimizer keeps a number in another way")


def _slots(trace):
    swap = trace.swap
    traced_of = {}
    for slot, array, traced in swap.saved:
        if slot is not None:
            traced_of[id(array)] = traced
            _memory(trace, traced)
    for slot, value, how in (*trace.reach.guards, *trace.reach.module_guards):
        if how in ("len", "keys", "set"):
            if not holds(slot, value, how):
                raise Unsupported("it adds to a container, or takes something out", once="first")
            continue
        if how == "type":
            if type(slot) is not value:
                raise Unsupported("it adds hooks to a module, or removes them")
            continue
        now = slot.get()
        if now is value or now is traced_of.get(id(value), MISS):
            continue
        if isinstance(now, Number):
            trace.changed.append((slot, now.var))
        elif isinstance(now, _SIMPLE):
            if not same(now, value):
                trace.changed.append((slot, now))
        else:
            raise Unsupported(f"it puts a new object into {slot}", once="first")


def _result(trace, x):
    recording = trace.recording
    if isinstance(x, Tensor):
        if type(x) is BatchedTensor:
            raise Unsupported("it returns a tensor from inside vmap")
        if id(x) in trace.swap.originals:
            return "same", x
        if type(x.array) in recording.backend.array_types:
            var = recording.constant(x.array).var
        else:
            var = _var(trace, x.array, "a result")
        node = _node(trace, x)
        return ("live", var) if node is _LIVE else ("tensor", (id(x), var, node))
    if type(x) is recording.kind:
        return "array", x.var
    if type(x) is recording.scalar:
        return "array", recording.call(recording.backend.asarray, (x,)).var
    if isinstance(x, Number):
        return "number", x.var
    if isinstance(x, Later):
        x._refuse()
    if type(x) in namespace_of:
        return "array", recording.constant(x).var
    if isinstance(x, (*_SIMPLE, type)) or type(x) in SCALARS or id(x) in trace.reach.seen:
        return "static", x
    raise Unsupported(f"it returns a {type(x).__name__}, which may differ from call to call")


def _node(trace, x):
    """What makes the node of a result; None for a result that does not require grad."""
    node = x.node
    if node is None:
        return None
    if type(node) is Leaf:
        raise Unsupported("it returns a new leaf that requires grad")
    if node.watch is not None and node.watch.leaf is not None:
        raise Unsupported("it returns a tensor of which it has called retain_grad")
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if at in seen or type(at) is Leaf:
            continue
        seen.add(at)
        if at.saved is None:
            break
        stack.extend(at.parents)
    else:
        return _LIVE
    kind = trace.recording.backend.array_types[0]
    if node.plan.output is not None:
        (parent,) = node.parents
        plan = implementation.implementation_of(parent.plan.op, kind).plan(parent.plan.key)
        plan = OutputPlan(plan, node.plan.output)
    else:
        plan = implementation.implementation_of(node.plan.op, kind).plan(node.plan.key)
    return spent(plan, node.shape, node.dtype)


def _graph(trace, parts, start):
    """Record the backward sweep, if there is a result with a graph."""
    swap = trace.swap
    if any(flag for flag in swap.passed):
        raise Unsupported("it calls backward through a graph from outside")
    trace.generators = [entry[0] for entry in trace.draws.replaced]
    places = [i for i, (kind, _) in enumerate(trace.results) if kind == "live"]
    trace.sweep = None
    if not places:
        return
    if len({id(parts[i]) for i in places}) < len(places):
        raise Unsupported("it returns a tensor that requires grad twice")
    if any(call.communicates for call in trace.recording.calls):
        raise Unsupported(
            "it returns a result that requires grad, and communicates with other processes"
        )
    written = trace.written or trace.gradients or trace.number_writes or trace.changed
    if written or trace.recording.afterwards:
        raise Unsupported("it returns a result that requires grad, and also changes state")
    is_complex = trace.recording.backend.is_complex
    if any(not parts[i].shape and is_complex(parts[i].dtype) for i in places):
        # NumPy multiplies complex scalars and 0-d arrays with different roundings, and a cotangent
        # may be either.
        raise Unsupported("it returns a complex number that requires grad")
    trace.holders = {}
    for x, _, node, *_ in swap.originals.values():
        if node is not None:
            trace.holders[swap.stand_ins.get(id(x), node)] = x
    trace.sweep = Sweep(trace.recording, parts, places, start)
    if not all(node in trace.holders for node in trace.sweep.outside):
        raise Unsupported("a result depends on tensors that gpugrad.compile cannot see")


_LIVE = object()


def _prepare(trace):
    """Simplify the record, and find what its program needs."""
    recording, swap = trace.recording, trace.swap
    outputs = [var for _, _, var in trace.rebound]
    outputs += [var for _, var in trace.gradients if var is not None]
    outputs += [value[1] for kind, value in trace.results if kind == "tensor"]
    outputs += [value for kind, value in trace.results if kind in ("array", "live")]
    outputs += [var for _, var, _ in trace.skips]
    finals = [*trace.written.values()]
    cotangents = []
    if trace.sweep is not None:
        cotangents = [c for c in trace.sweep.cotangents if c is not None]
    trace.calls, new = simplify(recording.calls, [*outputs, *finals, *cotangents])
    trace.bare = {}
    if trace.sweep is not None:
        trace.sweep.cotangents = [new.get(c, c) for c in trace.sweep.cotangents]
        trace.calls, trace.backward, trace.kept = divide(trace, trace.calls)
        outputs += [x for x in trace.kept if x.kind == "array" and x.call is not None]
        trace.results += [("number" if x.kind == "number" else "kept", x) for x in trace.kept]
        trace.calls = living(trace.calls, [*[new.get(x, x) for x in outputs], *trace.kept])

    def replaced(x):
        return new.get(x, x)

    trace.outputs = list(dict.fromkeys(map(replaced, outputs)))
    trace.written = [(first, replaced(final)) for first, final in trace.written.items()]
    trace.written = [(first, final) for first, final in trace.written if first is not final]
    trace.rebound = [(x, where, replaced(var)) for x, where, var in trace.rebound]
    trace.skips = [(optimizer, replaced(var), counts) for optimizer, var, counts in trace.skips]
    trace.gradients = [(x, replaced(var)) for x, var in trace.gradients]
    trace.results = [
        (kind, (value[0], replaced(value[1]), value[2]))
        if kind == "tensor"
        else (kind, replaced(value) if kind in ("array", "live", "kept") else value)
        for kind, value in trace.results
    ]
    used = {}
    for call in trace.calls:
        for x in call.operands():
            used[x] = None
            used[x.root()] = None
    for x in trace.outputs:
        used[x.root()] = None
    for x in trace.kept if trace.sweep is not None else ():
        used[x.root()] = None
    for first, final in trace.written:
        used[first] = used[final.root()] = None
    numbers = [x for x in used if x.kind == "number"]
    numbers += [x for _, args, _ in recording.required for x in args if type(x) is Variable]
    for _, _, value in trace.number_writes:
        numbers += value if isinstance(value, tuple) else [value]
    for _, _, counts in trace.skips:
        numbers += [x.var for _, step, values in counts for x in (step, *values)]
    numbers += [value for kind, value in trace.results if kind == "number"]
    numbers += [value for _, value in trace.changed if type(value) is Variable]
    trace.numbers_needed = _ordered(numbers)
    for x in trace.numbers_needed:
        if x.source is not None and x.source.holder[0] == "element":
            used[x.source.holder[1]] = None
    _inputs(trace, used)
    trace.keys = [c.outs[0] for c in recording.prologue if not c.is_pure]
    rebuilt = swap.groups
    trace.optimizers = [
        (optimizer, [
            [(k, v) for k, v in enumerate(values) if isinstance(v, bool)] for values in hyper
        ])
        for optimizer, hyper, *_ in rebuilt
    ]  # fmt: skip
    trace.states = [state for state, _ in swap.states]
    trace.alike = list(swap.alike)
    trace.parameters = {
        id(p): state for _, _, _, _, states in swap.groups for p, state in states.items()
    }


def _ordered(numbers):
    """Numbers and all that they are computed from, each after what it needs; without keys."""
    found = {}

    def visit(x):
        if x in found:
            return
        if x.call is not None:
            if not x.call.is_pure:
                return
            for y in x.call.operands():
                visit(y)
        found[x] = None

    for x in numbers:
        visit(x)
    return list(found)


def _inputs(trace, used):
    """Tell the inputs that stay in their places from those that are found anew in each run."""
    swap = trace.swap
    moving = {id(x) for x, where, _ in trace.rebound if not where}
    trace.pinned, trace.floating = {}, {}
    trace.pinned_tensors, trace.tensors, trace.from_outside = [], [], set()
    trace.devices = {}
    trace.var_of, trace.aliases = {}, []
    for key, (x, _, node, grad, *_) in swap.originals.items():
        if key not in trace.argument_of:
            watch = node.watch if type(node) is Leaf else MISS
            trace.tensors.append((x, node, watch, grad is not None))
            if key not in moving:
                trace.pinned_tensors.append((x, _getter(x)))
        holder = swap.first[swap.inputs[key]].source.holder
        if key in trace.argument_of and holder is not x:
            trace.aliases.append((x, holder))  # the argument has the array of another tensor
        trace.var_of[key] = swap.first[swap.inputs[key]]
    for x in used:
        source = x.source
        if source is None or x.kind == "number":
            continue
        trace.devices[x] = trace.recording.backend.device(swap.real_of[x])
        if source.kind == "held":
            trace.pinned[x] = source.holder.get
        elif source.kind == "state":
            state, k = source.holder
            trace.pinned[x] = lambda state=state, k=k: state.values[k]
        elif (
            source.kind == "tensor"
            and id(source.holder) not in trace.argument_of
            and (id(source.holder) not in moving)
        ):
            trace.pinned[x] = _getter(source.holder)
        else:
            trace.floating[x] = source
            if source.kind == "argument" or id(source.holder) in trace.argument_of:
                trace.from_outside.add(x)
    # Of these no values are needed, but the function may have read their shapes.
    trace.unread = {}
    for x in swap.first.values():
        kind, holder = x.source.kind, id(x.source.holder)
        is_found = kind == "tensor" and (holder in trace.argument_of or holder in moving)
        if x not in used and (kind == "argument" or is_found):
            trace.unread[x] = x.source
            trace.devices[x] = trace.recording.backend.device(swap.real_of[x])
    targets = [first for first, _ in trace.written]
    backend = trace.recording.backend
    if any(first in trace.pinned for first in targets):
        if trace.recording.backend.planner is not None:
            trace.owners = lambda: {
                id(_owner(trace.pinned[x]())) for x in targets if x in trace.pinned
            }
            trace.overlaps = lambda array, owners: (
                id(array if array.base is None else _owner(array)) in owners
            )
        else:
            trace.owners = lambda: {
                backend.buffer(trace.pinned[x]()) for x in targets if x in trace.pinned
            }
            trace.overlaps = lambda array, owners: backend.buffer(array) in owners
    else:
        trace.owners = None
    parameters = [
        first for first in targets if first.source.kind == "tensor" and first in trace.pinned
    ]
    trace.places = lambda: [writes.place(trace.pinned[first]()) for first in parameters]


def _owner(array):
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _getter(x):
    return lambda: x.array


__all__ = ["Compiled", "compile"]
