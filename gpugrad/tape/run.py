"""A program: the calls of a tape, bound to memory, which a run repeats.

If the arguments or the state are not those for which the program was made, `Program.run` changes
nothing and returns `MISS`. If values make a call fail, such as labels out of range, it changes
nothing and raises `Failed`. Then the function itself is called, and raises or handles the error.
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
from .cells import ABSENT, all_hold, inputs_hold, leaves_hold, rows_of, tensors_hold
from .fusion import joined
from .kernels import install, segments
from .plan import Plan, without_scalars
from .stage import take_hyper
from .steps import Steps, step_name
from .tape import signature_of, values_in

MISS = object()


class Failed(Exception):
    """Raised if a call of a program fails, before the program has changed anything."""

    def __init__(self, step, error):
        name = step_name(step)
        super().__init__(f"{name} raised {type(error).__name__}: {error}".removesuffix(": "))


def warn_of(failure, function, what="its calls"):
    """Warn that repeating calls has failed, while ``function`` itself has not."""
    name = getattr(function, "__name__", "the function")
    warnings.warn(
        f"gpugrad.compile: {name} ran without being compiled in this call, since repeating {what} "
        f"failed: {failure}. The function itself did not fail. This is said once",
        RuntimeWarning,
        stacklevel=3,
    )


class Program(Steps):
    """A tape that is ready to run.

    call_by_call: on a CUDA device, why the program is not one CUDA graph; otherwise None.
    """

    call_by_call = None

    def __init__(self, tape):
        self.tape = tape
        self.backend = tape.backend
        self.binder = self.backend.binder
        self.native = self.backend.native() if tape.has_kernels else None
        self.context = self.backend.sweep_context or nullcontext
        self._owner, self._lock = None, RLock()
        self._guards = rows_of(tape.reach.guards)
        targets = [x.root().source for call in tape.calls for x in call.targets()]
        written = [(s.holder, s.kind) for s in targets if s is not None]
        changed = [x for x, *_ in (*tape.rebound, *tape.gradients)]
        changed += [x for x, kind in written if kind in ("tensor", "grad")]
        holders = [x for x, what, *_ in (*tape.rebound, *written) if what == "grad"]
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
        """Have kernels built after two runs, and use them as soon as all are ready."""
        try:
            if self._until_kernels > 1:
                self._until_kernels -= 1
            elif self.segments is None:
                self.segments = segments(self, self.native)
                self._drop_stand_ins()
            elif all(segment.kernel.is_done for segment in self.segments):
                self._until_kernels = 0
                install(self, self.segments)
                self._drop_stand_ins()
        except Exception as error:  # noqa: BLE001  the program goes on without kernels
            self._until_kernels = 0
            warnings.warn(
                f"gpugrad.compile: a program runs without kernels, which cannot be made: {error!r}",
                RuntimeWarning,
                stacklevel=3,
            )

    def use_kernels(self):
        """Have kernels built, wait for them, and use them."""
        with self._lock:
            while self._until_kernels:
                self._prepare_kernels()
                for segment in self.segments or ():
                    segment.kernel.wait()

    # What a run checks and looks up before the first call

    def _bind_state(self):
        """Note which arrays tensors and the state of optimizers have now."""
        rows = []
        for x, node, watch, has_grad, is_pinned in self.tape.tensors:
            leaf, array = None if watch is MISS else node, x.array if is_pinned else None
            rows.append((x, node, leaf, watch, has_grad, array))
        states = [(s, s.values, group[0]) for group in self.tape.same_counts for s in group]
        self._tensor_rows = rows, states

    def can_rebind(self, leaves):
        """Whether some tensors have new arrays, and the program can be bound to these."""
        rows, optimizers = self._tensor_rows, self.tape.reach.optimizers
        if rows and all(array is None or x.array is array for x, *_, array in rows[0]):
            return False
        if any(s.array is not p.array for o in optimizers for p, s in o._states.items()):
            return False
        state = [x for x, *_ in self.tape.tensors]
        return signature_of(leaves, state, self.tape.raw, self.backend) == self.tape.signature

    def _fits(self, leaves):
        """Whether the program was made for such a call; puts the call's arrays into registers."""
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
        except ABSENT:
            return False
        return True

    def is_for(self, leaves):
        """Whether a call with these arguments runs it, if the conditions on numbers hold too."""
        try:
            return self._fits(leaves)
        finally:
            self.regs[:] = self.blank

    # Binding

    def bind(self):
        """Bind the calls to the arrays that state has now."""
        self._tensor_rows = None  # so that the program fits no call if Ctrl-C interrupts this
        self._reset(len(self.tape.leaves))
        self._bind_inputs()
        self._bind_numbers()
        self._bind_calls()
        self._bind_effects()
        self._bind_results()
        self._drop_stand_ins()
        self._bind_state()
        self.segments = None
        self._until_kernels = 3 if self.native is not None and not self._undo else 0

    def _bind_inputs(self):
        """Prepare how each run looks up its input arrays, and whose memory they must not share."""
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
        # Where the tensors are that calls overwrite; see `writes`.
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
        """Prepare how each run reads and computes numbers, and the conditions on them."""
        tape = self.tape
        self._hyper = [
            (optimizer, list(optimizer.defaults), i)
            for optimizer in tape.optimizers
            for i in range(len(optimizer._hyper))
        ]
        found = [x for x in tape.numbers if x.source is not None]
        self._numbers = [(self._finder(*x.source.holder), self.slot(x)) for x in found]
        self._random = []  # how it draws random keys, and computes with them
        for call in tape.prologue:
            (out,) = call.outs
            rows = self._random if out in tape.random else self._numbers
            rows.append((self.caller(call.function, call.args), self.slot(out)))
        self._conditions = [self.caller(function, args) for function, args, _ in tape.conditions]
        self._outcomes = [outcome for _, _, outcome in tape.conditions]

    def _finder(self, kind, first, *rest):
        """A function that reads a number in each run; see `Input` for the arguments."""
        regs = self.regs
        if kind == "hyper":
            i, (k, *path) = rest
            if path:
                return lambda: reduce(getitem, path, first._hyper[i].values[k])
            return lambda: first._hyper[i].values[k]
        if kind == "item":
            return lambda: first.get()[rest[0]]
        return lambda: regs[first]  # a "leaf" of the arguments

    # Calls

    def _bind_calls(self):
        """Make the steps in three parts: checks, those before the first write, and the rest."""
        calls = self.plan.calls
        self._bind_checks()
        fallible = [i for i, c in enumerate(calls) if c.may_fail and c not in self._checked_calls]
        written = [i for i, c in enumerate(calls) if any(not x.memory.is_own for x in c.targets())]
        self.first_write = min(written, default=len(calls))
        last_fallible = max(fallible, default=-1)
        self._is_fallible, self._undo = bool(fallible), []
        if last_fallible > self.first_write:
            targets = dict.fromkeys([x.root() for i in written for x in calls[i].targets()])
            self._undo = [self.slot(x) for x in targets if not x.memory.is_own]
        self.steps_of = [*map(self.steps_for, calls)]
        self._freeing = self._steps_that_free(last_fallible)
        self.arrange(self.steps_of, self.first_write)
        if self._undo:
            self._before += [partial(writes.note, self._places), *self._after]
            self._after = []

    def arrange(self, steps_of, first_write):
        """Use these steps from now on.

        steps_of: for each call a list of its steps.
        first_write: the position of the first call that overwrites state.
        """
        self._before, self._after = [], []
        for i, steps in enumerate([[], *steps_of], -1):
            part = self._before if i < first_write else self._after
            part += [*steps, *self._freeing.get(i, ())]

    def _steps_that_free(self, last_fallible):
        """By the position of a call, the steps after it that free memory which is not needed again.

        They free the gradients to be replaced, and large values that no later call uses.

        last_fallible: the position of the last call that may fail, after which gradients are freed.
        """
        found = {last_fallible: self._freeing_gradients()}
        last_use = self.plan.last_use
        for x in [x for call in self.plan.calls for x in call.outs]:
            is_large = x.memory is not None and x.root().nbytes > 1 << 16
            if is_large and last_use[x.memory] < len(self.plan.calls) and self.static(x) is None:
                step = partial(self.regs.__setitem__, self.slot(x), None)
                found.setdefault(last_use[x.memory], []).append(step)
        return found

    def _freeing_gradients(self):
        """The step that frees the gradients to be replaced, before new ones need memory."""
        tape = self.tape
        read = {id(s.holder) for s in tape.floating.values() if s.kind == "grad"}
        read.update(tape.argument_of)
        freed = [x for x, _ in tape.gradients if id(x) not in read]
        return [partial(_free, freed)] if freed else []

    def _bind_checks(self):
        """Make steps that check the values of inputs, so that errors come before all calls."""
        self._checked_calls, self._checks, known = set(), [], {}
        for call in self.plan.calls:
            check = call.declared.check and call.declared.check(call.args, call.kwargs)
            if check and all(map(self._is_given, values_in(check[1]))):
                self._checked_calls.add(call)
                known[check[0], *map(self.slot, check[1])] = check
        for function, args in known.values():
            for x in values_in(args):
                self._checks += self._steps_for_view(x)
            self._checks.append(self.caller(function, args))

    def _steps_for_view(self, x):
        """The steps that make a value if it is a view of an input."""
        if x.base is None or self.static(x) is not None:
            return []
        return [*self._steps_for_view(x.base), *self.steps_for(x.call)]

    def _is_given(self, x):
        """Whether a value is an input, or a view of one, that no call overwrites."""
        if x.memory is not None and x.memory.is_written:
            return False
        if x.base is None or self.static(x) is not None:
            return x.root().call is None
        return not x.call.several and self._is_given(x.base) and x.call.operands() == [x.base]

    # Effects and results

    def _bind_effects(self):
        """Prepare the changes that follow the last call."""
        tape, number = self.tape, self.maker
        self._uses = Counter(tape.returned())  # how often values are returned
        self._copies = {}  # the registers for copies of those that are returned several times
        self._rebound = [(self._holder(x), what, self._leaving(y)) for x, what, y in tape.rebound]
        self._gradients = [
            (self._holder(x), None if value is None else self._leaving(value))
            for x, value in tape.gradients
        ]
        changed: dict = {}  # cells with equal values get one object, as the states of optimizers do
        for cell, value in tape.changed:
            key = value if values_in(value) else id(cell)
            changed.setdefault(key, (number(value), []))[1].append(cell.setter())
        self._changed = [*changed.values()]
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
                is_given = False  # the call's result may be its operand
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
        """Prepare functions that make the leaves of the result."""
        results = self.tape.results
        self._results = [self._result(kind, value) for kind, value in results]
        self._again = [(i, value) for i, (kind, value) in enumerate(results) if kind == "again"]

    def _result(self, kind, value):
        regs = self.regs
        if kind == "tensor":
            find = self._leaving(value)
            return lambda: wrap(find(), None)
        if kind in ("static", "again"):
            return lambda: value
        if kind == "leaf":
            return lambda: regs[value]
        if kind == "grad":
            at = self._holder(value)
            return lambda: regs[at].grad
        return self._leaving(value)

    # Running

    def run_alone(self, leaves):
        """`run`, by one thread at a time; returns MISS if this thread is running it already."""
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
            for at, first in self._again:
                found[at] = found[first]
            return found
        finally:
            self.regs[:] = self.blank

    def _numbers_fit(self):
        """Read and compute the numbers; returns whether the conditions on them hold."""
        regs = self.regs
        for optimizer, names, i in self._hyper:
            now = [*map(optimizer.param_groups[i].__getitem__, names)]
            if now != optimizer._hyper[i].values and not take_hyper(optimizer):
                return False
        try:
            for find, at in self._numbers:
                regs[at] = find()
            return [*map(call_it, self._conditions)] == self._outcomes
        except ABSENT:
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
        for row in self.weak:
            array, at, last = row
            if regs[at] is not last:  # an assignment takes longer than this comparison
                array[()] = row[2] = regs[at]
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
        """Change what the function has changed, other than by its array calls."""
        regs, tape = self.regs, self.tape
        for optimizer, make, counts in self._skips:
            is_skipped = self.backend.read_later(make())
            optimizer._unread_skip = is_skipped, [(s, n(regs)) for s, n in counts]
        for at, what, make in self._rebound:
            (regs[at] if what == "array" else regs[at]._grad).array = make()
        for at, make in self._gradients:
            grad = None
            if make is not None:  # inlined, since a call of `wrap` would double the time
                grad = Tensor()
                grad.array, grad.node, grad._grad = make(), None, None
            regs[at]._grad = grad  # last, so that Ctrl-C leaves no gradient without an array
        for make, setters in self._changed:
            value = make(regs)
            for put in setters:
                put(value)
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
