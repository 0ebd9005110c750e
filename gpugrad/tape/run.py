"""A program: the calls of a tape bound to memory, ready to be made again and again.

Where a binding is out of date, or a condition is not fulfilled, `Program.run` returns `MISS` and
has done nothing. Where values are at fault, such as labels that are out of range, it raises
`Failed` and has changed nothing: the function itself then raises the error, or handles it.
"""

import warnings
from collections import Counter
from contextlib import nullcontext
from functools import partial, reduce
from operator import attrgetter, getitem
from operator import call as call_it
from threading import RLock, get_ident

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.call import wrap
from ..autograd.graph import writes
from .cells import all_hold, inputs_hold, leaves_hold, rows_of, tensors_hold
from .fusion import joined
from .kernels import segments, steps_with
from .plan import Plan, without_scalars
from .stage import take_hyper
from .steps import Steps, step_name, values_in
from .tape import signature_of

MISS = object()
_ABSENT = (AttributeError, KeyError, IndexError, TypeError, ValueError)


class Failed(Exception):
    """Raised by a program for an error of one of its calls, before it has changed anything."""

    def __init__(self, step, error):
        name = step_name(step)
        super().__init__(f"{name} raised {type(error).__name__}: {error}".removesuffix(": "))


def warn_of(failure, function, what="its calls"):
    """Warn that repeating calls has failed, and that ``function``, called instead, has not."""
    name = getattr(function, "__name__", "the function")
    warnings.warn(
        f"gpugrad.compile: {name} ran without being compiled in this call, since repeating {what} "
        f"failed: {failure}. The function itself did not fail. This is said once",
        RuntimeWarning,
        stacklevel=3,
    )


class Program(Steps):
    """A tape, ready to run.

    derivative: the `Sweeps` through the graph of the results, or None.
    call_by_call: why its calls are not launched together; None if there is no library to do so.
    """

    call_by_call = None

    def __init__(self, tape):
        self.tape = tape
        self.derivative = tape.graph and tape.graph.sweeps
        self.backend = tape.backend
        self.binder = self.backend.binder
        self.native = self.binder.native() if self.binder and tape.has_kernels else None
        self.context = self.backend.sweep_context or nullcontext
        self._owner, self._lock = None, RLock()
        self._guards = rows_of(tape.reach.guards)
        changed = [x for x, *_ in (*tape.rebound, *tape.gradients)]
        changed += [s.holder for s in tape.written_sources if s.kind in ("tensor", "grad")]
        holders = [x for x, what, _ in tape.rebound if what == "grad"]
        holders += [s.holder for s in tape.written_sources if s.kind == "grad"]
        self._apart = frozenset({id(x) for x in changed} - tape.argument_of.keys()), holders
        calls = tape.calls
        if self.binder is not None:
            calls = without_scalars(calls, tape.leaving, self.backend)
        if self.native is not None:
            calls = joined(calls, tape.leaving)
        self.plan = Plan.best(calls, tape.leaving, self._can_bind)
        self.arena = None if self.binder is None else self.binder.arena(self.plan.total)
        self.bind()

    def _can_bind(self, call):
        """Whether a call can write its result into planned memory."""
        if self.binder is None or not call.is_pure or call.several:
            return False
        if call.writes:
            return self.binder.ufunc_of(call.function) is not None
        (out,) = call.outs
        if out.kind != "array" or out.base is not None or 0 in out.shape or call.declared.aliases:
            return False
        return call.declared.out or not out.shape

    def _prepare_kernels(self):
        """Have kernels made after two runs, and use them as soon as they are there."""
        try:
            if self._until_kernels > 1:
                self._until_kernels -= 1
            elif self.segments is None:
                self.segments = segments(self, self.native)
                self._end()
            elif all(segment.kernel.is_done for segment in self.segments):
                self._until_kernels = 0
                steps = steps_with(self, self.segments)
                if steps is not None:
                    self._before, self._after = steps
                self._end()
        except Exception as error:  # noqa: BLE001  the program goes on without kernels
            self._until_kernels = 0
            warnings.warn(
                f"gpugrad.compile: a program runs without kernels, which cannot be made: {error!r}",
                RuntimeWarning,
                stacklevel=3,
            )

    def use_kernels(self):
        """Wait for the kernels, if there are to be any, and use them."""
        with self._lock:
            while self._until_kernels:
                self._prepare_kernels()
                for segment in self.segments or ():
                    segment.kernel.wait()

    # What a run checks and finds before the first call

    def _bind_state(self):
        """Note where tensors and the state of optimizers are now."""
        rows = []
        for x, node, watch, has_grad, is_pinned in self.tape.tensors:
            leaf, array = None if watch is MISS else node, x.array if is_pinned else None
            rows.append((x, node, leaf, watch, has_grad, array))
        states = [(s, s.values, group[0]) for group in self.tape.alike for s in group]
        self._tensor_rows = rows, states

    def may_follow(self, leaves):
        """Whether tensors have other arrays now, to which the program can be bound instead."""
        rows, optimizers = self._tensor_rows, self.tape.reach.optimizers
        if rows and all(array is None or x.array is array for x, *_, array in rows[0]):
            return False
        if any(s.array is not p.array for o in optimizers for p, s in o._states.items()):
            return False
        state = [x for x, *_ in self.tape.tensors]
        return signature_of(leaves, state, self.tape.raw, self.backend) == self.tape.signature

    def _fits(self, leaves):
        """Whether the program is for this call; finds its arrays on the way."""
        tape, regs, backend = self.tape, self.regs, self.backend
        if tape.is_recording is not None and thread.recording is not tape.is_recording:
            return False
        for optimizer, _, _ in tape.skips:
            optimizer._settle()
        try:
            if (
                len(leaves) != len(tape.leaves)
                or (leaves and not leaves_hold(leaves, tape.leaves, *self._apart))
                or not tensors_hold(*self._tensor_rows)
                or not all_hold(self._guards)
            ):
                return False
            regs[: len(leaves)] = leaves
            if not inputs_hold(regs, self._inputs, backend.array_types[0], backend.device):
                return False
            for at in self._outside:
                if self._shares(regs[at]):
                    return False
            for i, x in tape.aliases:
                if leaves[i].array is not x.array:
                    return False
        except _ABSENT:
            return False
        return True

    def is_for(self, leaves):
        """Whether a call with these arguments may run it; numbers may still decide otherwise."""
        try:
            return self._fits(leaves)
        finally:
            self.regs[:] = self.blank

    # Binding

    segments = None

    def bind(self):
        """Bind the calls to the arrays that state has now."""
        self._tensor_rows = None  # it fits no call if this is interrupted
        self._begin(len(self.tape.leaves))
        self._bind_inputs()
        self._bind_numbers()
        self._bind_calls()
        self._bind_effects()
        self._bind_results()
        self._end()
        self._bind_state()
        self.segments = None
        self._until_kernels = 3 if self.native is not None and not self._undo else 0

    def _bind_inputs(self):
        """Find out where the arrays lie that each run finds anew."""
        tape, backend = self.tape, self.backend
        self._inputs = []
        for x, source in tape.floating.items():
            at, get = source.holder, attrgetter("_grad.array" if source.kind == "grad" else "array")
            if source.kind != "argument":
                at = self._holder(at)
            elif tape.leaves[at][0] == "array":
                get = _itself
            strides = None if x in tape.unread else x.strides
            layout = x.shape, x.dtype, strides, tape.devices.get(x)
            self._inputs.append((get, at, self.slot(x), *layout))
        owned = {x: find() for x, find in tape.pinned.items() if x.memory.is_written}
        memories = {x.memory for x in owned}
        fixed = [*owned.values(), *tape.raw]
        self._outside = [self.slot(x) for x in tape.floating if fixed and x.memory not in memories]
        # The memory of tensors that is overwritten; see `writes`.
        self._places = [writes.place(a) for x, a in owned.items() if x.source.kind == "tensor"]
        if self.binder is None:
            buffers = {*map(backend.buffer, fixed)}
            self._shares = lambda x: backend.buffer(x) in buffers
        else:
            self._shares = self.binder.sharing(fixed)

    def _holder(self, x):
        """The register of a tensor of the state, or of the argument in its place."""
        at = self.tape.argument_of.get(id(x))
        return self.slot(x) if at is None else at

    def _bind_numbers(self):
        """Prepare the numbers: where they are found, how they are computed, what is required."""
        tape = self.tape
        self._hyper = [
            (optimizer, list(optimizer.defaults), i, flags)
            for optimizer, groups in tape.optimizers
            for i, flags in enumerate(groups)
        ]
        found = [x for x in tape.numbers if x.source is not None]
        self._numbers = [(self._finder(*x.source.holder), self.slot(x)) for x in found]
        self._random = []  # random keys, and what is computed from them
        for call in tape.prologue:
            (out,) = call.outs
            rows = self._random if out in tape.random else self._numbers
            rows.append((self.caller(call.function, call.args), self.slot(out)))
        self._conditions = [self.caller(function, args) for function, args, _ in tape.conditions]
        self._outcomes = [outcome for _, _, outcome in tape.conditions]

    def _finder(self, kind, first, *rest):
        """A function that finds a number in each run."""
        regs = self.regs
        if kind == "hyper":
            i, (k, *path) = rest
            if path:
                return lambda: reduce(getitem, path, first._hyper[i].values[k])
            return lambda: first._hyper[i].values[k]
        if kind == "item":
            return lambda: first.get()[rest[0]]
        if kind == "leaf":
            return lambda: regs[first]
        return self.caller(self.backend.to_list, (first,))

    # Calls

    def _bind_calls(self):
        """Make the steps, in two parts: before and after state may be overwritten."""
        calls = self.plan.calls
        self._bind_checks()
        self._checks, self.steps = self.steps, []
        fallible = [i for i, c in enumerate(calls) if c.may_fail and c not in self._checked_calls]
        written = [i for i, c in enumerate(calls) if any(not x.memory.is_own for x in c.targets())]
        at_write = min(written, default=len(calls))
        free_at = fallible[-1] + 1 if fallible else 0
        self._is_fallible, self._undo = bool(fallible), []
        if free_at > at_write + 1:
            targets = dict.fromkeys([x.root() for i in written for x in calls[i].targets()])
            self._undo = [self.slot(x) for x in targets if not x.memory.is_own]
        last, first_write = self._last_uses(), 0
        self.parts = []
        for i in range(len(calls) + 1):
            if i == free_at:
                self._free_gradients()
            if i == at_write:
                first_write = len(self.steps)
            if i == len(calls):
                break
            before = len(self.steps)
            self._bind_call(calls[i])
            self.parts.append((before, len(self.steps)))
            for at in last.get(i, ()):
                self.steps.append(partial(self.regs.__setitem__, at, None))
        self.all_steps, self.first_write = self.steps, first_write
        self._before, self._after = self.steps[:first_write], self.steps[first_write:]
        if self._undo:
            self._before += [partial(writes.note, self._places), *self._after]
            self._after = []

    def _free_gradients(self):
        """Free gradients that are replaced, as zero_grad does, before new ones take memory."""
        tape = self.tape
        read = {id(s.holder) for s in tape.floating.values() if s.kind == "grad"} | {
            *tape.argument_of
        }
        freed = [x for x, _ in tape.gradients if id(x) not in read]
        if freed:
            self.steps.append(partial(_free, freed))

    def _last_uses(self):
        """By the number of a call, the registers of large values that are not needed after it."""
        last_use, found = self.plan.last_use, {}
        for x in [x for call in self.plan.calls for x in call.outs]:
            is_large = x.memory is not None and x.root().nbytes > 1 << 16
            if is_large and last_use[x.memory] < len(self.plan.calls) and self.static(x) is None:
                found.setdefault(last_use[x.memory], []).append(self.slot(x))
        return found

    def _bind_checks(self):
        """Make the checks of values that the program finds when it starts come first."""
        self._checked_calls, known = set(), {}
        for call in self.plan.calls:
            check = call.declared.check and call.declared.check(call.args, call.kwargs)
            if check and all(map(self._is_given, values_in(check[1]))):
                self._checked_calls.add(call)
                known[check[0], *map(self.slot, check[1])] = check
        for function, args in known.values():
            for x in values_in(args):
                self._bind_views(x)
            self.steps.append(self.caller(function, args))

    def _bind_views(self, x):
        """Make the views of arguments that a check needs."""
        if x.base is not None and self.static(x) is None:
            self._bind_views(x.base)
            self._bind_call(x.call)

    def _is_given(self, x):
        """Whether a value is there before any call."""
        if x.memory is not None and x.memory.is_written:
            return False
        if x.base is None or self.static(x) is not None:
            return x.root().call is None
        return not x.call.several and self._is_given(x.base) and x.call.operands() == [x.base]

    # Effects and results

    def _bind_effects(self):
        """Prepare what is done when all calls have been made."""
        tape, number = self.tape, self.maker
        # The registers of copies that leave twice, and how often values leave as results.
        self._copies, self._uses = {}, Counter(tape.returned())
        self._rebound = [(self._holder(x), what, self._leaving(y)) for x, what, y in tape.rebound]
        self._gradients = [
            (self._holder(x), None if value is None else self._leaving(value))
            for x, value in tape.gradients
        ]
        alike: dict = {}  # places that get the same object, as the states of an optimizer do
        for cell, value in tape.changed:
            key = value if values_in(value) else id(cell)
            alike.setdefault(key, (number(value), []))[1].append(cell)
        self._changed = [*alike.values()]
        self._skips = [
            (optimizer, self._leaving(var), [(s, number(n)) for s, n in before])
            for optimizer, var, before in tape.skips
        ]

    def _leaving(self, x):
        """A function that returns a value in memory that no later run overwrites."""
        regs, at = self.regs, self.slot(x)
        is_given = x.kind != "array"
        if not is_given and x.constant is None:
            storage = self.plan.storage(x)
            is_given = storage is None or storage.kind != "planned"
            if x.memory.is_own and x.root().call.declared.aliases:
                is_given = False  # what it returns may be an operand
        if is_given:
            return lambda: regs[at]
        if x in self._copies:
            at = self._copies[x]
            return lambda: regs[at]
        fixed = self.static(x)
        copy = self.caller(self.tape.duplicate, (x,))
        if hasattr(fixed, "copy"):
            copy = fixed.copy if fixed.flags.c_contiguous else partial(fixed.copy, "K")
        if self._uses[x] < 2:
            return copy
        self._copies[x] = at = self._new_slot()
        return partial(_kept_in, regs, at, copy)

    def _bind_results(self):
        """Prepare the leaves of the result, each as a function, or the number of an equal one."""
        self._results, self._order, numbers = [], [], {}
        for kind, value in self.tape.results:
            key = value[0] if kind == "tensor" else object()
            if key not in numbers:
                numbers[key] = len(self._results)
                self._results.append(self._result(kind, value))
            self._order.append(numbers[key])
        if len(self._results) == len(self._order):
            self._order = None

    def _result(self, kind, value):
        regs = self.regs
        if kind == "tensor":
            find = self._leaving(value[1])
            return lambda: wrap(find(), None)
        if kind in ("static", "same"):
            return lambda: value
        if kind == "leaf":
            return lambda: regs[value]
        if kind == "grad":
            return lambda: value.grad
        return self._leaving(value)

    # Running

    def run_alone(self, leaves):
        """What `run` returns, by one thread at a time; MISS if this one is running it already."""
        if self._owner == get_ident():
            return MISS
        with self._lock, self.context():
            self._owner = get_ident()
            try:
                return self.run(leaves)
            finally:
                self._owner = None

    def run(self, leaves):
        """The leaves of the result, or `MISS`."""
        try:
            if not self._fits(leaves) or not self._numbers_fit():
                return MISS
            self._run()
            self._have_effects()
            found = [*map(call_it, self._results)]
            if self._until_kernels:
                self._prepare_kernels()
            return found if self._order is None else [found[k] for k in self._order]
        finally:
            self.regs[:] = self.blank

    def _numbers_fit(self):
        """Find and compute the numbers; returns whether they fulfil the conditions."""
        regs = self.regs
        for optimizer, names, i, flags in self._hyper:
            now = [*map(optimizer.param_groups[i].__getitem__, names)]
            if now != optimizer._hyper[i].values and not take_hyper(optimizer):
                return False
            hyper = optimizer._hyper[i].values
            for k, value in flags:
                if hyper[k] != value:
                    return False
        try:
            for find, at in self._numbers:
                regs[at] = find()
            return [*map(call_it, self._conditions)] == self._outcomes
        except _ABSENT:
            return False

    def _run(self):
        regs, tape, step, states, undo = self.regs, self.tape, None, None, ()
        try:
            for step in self._checks:
                step()
        except Exception as error:
            raise Failed(step, error) from error
        if tape.generators:
            if self._is_fallible and not tape.communicates:
                states = [(g, g.get_state()) for g in tape.generators]
            for find, at in self._random:
                regs[at] = find()
        for array, at in self.weak:
            array[()] = regs[at]
        if self._undo:
            undo = [(regs[at], tape.duplicate(regs[at])) for at in self._undo]
        try:
            for step in self._before:
                step()
        except Exception as error:
            for array, values in undo:
                array[...] = values
            if tape.communicates or (tape.generators and states is None):
                raise
            for g, state in states or ():
                g.set_state(state)
            raise Failed(step, error) from error
        if self._places:
            writes.note(self._places)
        for step in self._after:
            step()
        if self._places:
            writes.note(self._places)

    def _have_effects(self):
        """Change what the function has changed, besides what the calls have overwritten."""
        regs, tape = self.regs, self.tape
        for optimizer, make, counts in self._skips:
            is_skipped = self.backend.read_later(make())
            optimizer._unknown = is_skipped, [(s, n(regs)) for s, n in counts]
        for at, what, make in self._rebound:
            (regs[at] if what == "array" else regs[at]._grad).array = make()
        for at, make in self._gradients:
            grad = None
            if make is not None:  # made here, since a call of `wrap` takes as long
                grad = Tensor()
                grad.array, grad.node, grad._grad = make(), None, None
            regs[at]._grad = grad  # last, in case Ctrl-C comes
        for make, cells in self._changed:
            value = make(regs)
            for cell in cells:
                cell.set(value)
        for function, args, kwargs in tape.afterwards:
            function(*args, **kwargs)


def _kept_in(regs, at, make):
    regs[at] = found = make()
    return found


def _free(tensors):
    for x in tensors:
        x._grad = None


def _itself(x):
    return x
