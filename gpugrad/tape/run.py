"""A program: the calls of a tape, bound to memory, which a run repeats.

If the arguments or the state are not those for which the program was made, `Program.run` changes
nothing and returns None. If values make a call fail, such as labels out of range, it changes
nothing and raises `Failed`. Then the function itself is called, and raises or handles the error.
"""

import warnings
from contextlib import nullcontext, suppress
from functools import partial, reduce
from operator import attrgetter, getitem
from threading import get_ident

from .._tensor import Tensor
from .._thread_state import make_lock, thread
from ..autograd.call import wrap
from ..autograd.graph import next_order, writes
from ..backends.native import base
from ..backends.native.objects import visiting
from .cells import (
    ABSENT,
    all_hold,
    argument_places,
    array_of,
    inputs_hold,
    itself,
    leaf_rows,
    leaves_hold,
    places_of,
    rows_of,
    tensors_hold,
)
from .fusion import joined
from .kernels import install, segments
from .memory_plan import MemoryPlan, without_scalars
from .stage import take_hyper, tensors_in
from .steps import Steps, items_at
from .tape import is_container, layouts_of, signature_of, values_in

# What computing a number raises that the function might not compute at all.
_NO_NUMBER = *ABSENT, ArithmeticError


class Failed(Exception):
    """Raised if a call of a program fails, before the program has changed anything."""

    def __init__(self, error):
        super().__init__(f"{type(error).__name__}: {error}".removesuffix(": "))


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
        self._runner, self._lock = None, make_lock()  # the thread that runs it
        self._guards = rows_of(tape.guards)
        targets = [x.root().source for call in tape.calls for x in call.targets()]
        written = [(s.holder, s.kind) for s in targets if s is not None]
        state = [x for x, *_ in (*tape.tensors, *tape.rebound, *tape.gradients, *written)]
        holders = [x for x, what, *_ in (*tape.rebound, *written) if what == "grad"]
        apart = {id(x) for x in state} - tape.argument_of.keys()
        apart |= {k for k in tape.state if is_container(tape.reach.seen.get(k))}
        self._leaves = leaf_rows(tape.leaves), frozenset(apart), holders
        calls = tape.calls
        if self.binder is not None:
            calls = without_scalars(calls, tape.leaving, self.backend)
        if self.native is not None:
            calls = joined(calls, tape.leaving)
        self.plan = MemoryPlan.best(calls, tape.leaving, self._can_bind)
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
                has_kernels = self.native is not None and not self._undo
                self.segments = segments(self, self.native) if has_kernels else []
                self._drop_stand_ins()
            elif base.is_done("pool") and all(segment.kernel.is_done for segment in self.segments):
                self._until_kernels = 0
                if self.segments:
                    install(self, self.segments)
                    self._drop_stand_ins()
                self._quick = self._in_c()
        except Exception as error:  # noqa: BLE001  the program goes on without kernels
            self._until_kernels = 0
            warnings.warn(
                f"gpugrad.compile: a program runs without kernels, which cannot be made: {error!r}",
                RuntimeWarning,
                stacklevel=3,
            )

    def _in_c(self):
        """Have C do most of a run.

        Returns a function for most of `_fits`, what it leaves out, and whether it takes arguments.
        """
        places, rest = places_of(self._guards, *self._tensor_rows)
        arguments = None
        if self.binder is not None:
            addresses = [self.binder.address_of(self.binder.owner(x)) for x in self._fixed]
            more = self._inputs, self._outside, addresses, self.regs
            arguments = argument_places(*self._leaves, *more)
        if self._hyper:
            self._has_kept = visiting(self._places_of_hyper(), self.regs)
        are_same = visiting([*(arguments or ()), *places], self.regs)
        if not self.tape.skips:
            self._rows = self._rows_after()
            self._in_one = visiting(self._rows, self.regs)
            has_more = self._checks or self.tape.generators or self._before
            self._is_one = self._in_one is not None and not has_more
        return are_same and (are_same, rest, arguments is not None)

    def _rows_after(self):
        """The steps after the first write, and what `_have_effects` does, as rows of `visiting`."""
        tape, stamp = self.tape, []
        if self._last_writes:
            stamp.append(("call", writes.lock.acquire, None, None))
            stamp.append(("make", next_order, None, self._order))
            stamp += [("put", x, 0, self._order) for x in self._last_writes]
            stamp.append(("put", writes, "last", self._order))
            stamp.append(("call", writes.lock.release, None, None))
        rows = [*stamp, *[("call", step, None, None) for step in self._after], *stamp]
        rows += [("make", make, None, at) for make, at in self._made]
        if self._rebound:
            rows.append(("call", partial(_rebind, self._rebound, self.regs), None, None))
        slots = Tensor.array, Tensor.node, Tensor._grad
        rows += [("new", at, holder, slots) for holder, at in self._gradients]
        for make, cells, at in self._changed:
            rows.append(("make", partial(make, self.regs), None, at))
            for cell in cells:
                if cell.is_slot():
                    rows.append(("put", cell.container, cell.key, at))
                else:
                    rows.append(("call", partial(_set, cell.setter(), self.regs, at), None, None))
        if tape.counts or tape.afterwards:
            rows.append(("call", partial(_finish, tape), None, None))
        return rows

    def _places_of_hyper(self):
        """Where the optimizers' hyper-parameters are, as rows of `visiting`."""
        found = []
        for optimizer, _, i, place in self._hyper:
            groups = optimizer.param_groups
            found.append(("attribute", optimizer, "param_groups", groups))
            found.append(("item", groups, i, groups[i]))
            slots = range(place.start, place.stop)
            names = zip(optimizer.defaults, slots, strict=True)
            found += [("kept", groups[i], name, at) for name, at in names]
        return found

    def use_kernels(self):
        """Have kernels built, wait for them, and use them."""
        with self._lock:
            while self._until_kernels:
                self._prepare_kernels()
                base.wait("pool")
                for segment in self.segments or ():
                    segment.kernel.wait()

    # What a run checks and looks up before the first call

    def _bind_state(self):
        """Note which arrays tensors and the state of optimizers have now."""
        tensors = self.tape.tensors
        rows = [(x, *row, x.array if is_pinned else None) for x, *row, is_pinned in tensors]
        states = [(s, s.values, group[0]) for group in self.tape.same_counts for s in group]
        self._tensor_rows = rows, states

    def _with_replaced(self, leaves):
        """The leaves of the arguments, and the tensors that the function replaces, if it can."""
        found = [*leaves]
        for place, is_tuple, n, has_old in self.tape.replaced:
            with suppress(*ABSENT):
                value = place.get() if has_old else None
                if (type(value) is tuple) is is_tuple and len(tensors_in(value)) == n:
                    found += tensors_in(value)
        return found

    def _can_rebind(self, leaves):
        """Whether some tensors have new arrays, and the program can be bound to these."""
        if self.tape.replaced:
            return False
        rows, optimizers = self._tensor_rows, self.tape.reach.optimizers
        if rows and all(array is None or x.array is array for x, *_, array in rows[0]):
            return False
        if any(s.array is not p.array for o in optimizers for p, s in o._states.items()):
            return False
        tape = self.tape
        layouts = layouts_of([*tape.reach.tensors.values(), *leaves], self.backend)
        return signature_of(leaves, layouts, tape.state) == tape.signature

    def _fits(self, leaves):
        """Whether the program was made for such a call; puts the call's arrays into registers."""
        tape, regs, backend = self.tape, self.regs, self.backend
        if tape.is_recording is not None and thread.recording is not tape.is_recording:
            return False
        for optimizer, _, _ in tape.skips:
            optimizer._settle()
        try:
            if len(leaves) != len(tape.leaves):
                return False
            regs[: len(leaves)] = leaves
            state_holds = False
            if self._quick is not None:
                are_same, rest, takes_arguments = self._quick
                state_holds = are_same() and (rest is None or all_hold(rest))
                if state_holds and takes_arguments:
                    return True
            return (
                leaves_hold(leaves, *self._leaves)
                and inputs_hold(regs, self._inputs, backend.array_types[0], backend.device)
                and not any(self._shares(regs[at]) for at in self._outside)
                and (state_holds or (tensors_hold(*self._tensor_rows) and all_hold(self._guards)))
            )
        except ABSENT:
            return False

    def is_for(self, leaves):
        """Whether a call with these arguments runs it, if the conditions on numbers hold too."""
        with self._lock:
            try:
                return self._fits(self._with_replaced(leaves))
            finally:
                self.regs[:] = self.blank

    # Binding

    def bind(self):
        """Bind the calls to the arrays that state has now."""
        # So that the program fits no call if Ctrl-C interrupts this.
        self._tensor_rows = self._quick = self._in_one = None
        self._is_one = False
        self._reset(len(self.tape.leaves))
        self._bind_inputs()
        self._bind_numbers()
        self._bind_calls()
        self._bind_effects()
        self._bind_results()
        self._drop_stand_ins()
        self._bind_state()
        self.segments, self.is_quiet = None, False
        self._until_kernels = 3 if self.tape.has_kernels else 0

    def _bind_inputs(self):
        """Prepare how each run looks up its input arrays, and whose memory they must not share."""
        tape, backend = self.tape, self.backend
        self._inputs = []
        for x, source in tape.floating.items():
            at, get = source.holder, array_of
            if source.kind == "grad":
                get = attrgetter("_grad.array")
            if source.kind != "argument":
                at = self._holder(at)
            elif tape.leaves[at][0] == "array":
                get = itself
            layout = x.shape, x.dtype, x.strides, tape.devices.get(x)
            self._inputs.append((get, at, self.slot(x), *layout))
        owned = {x: find() for x, find in tape.pinned.items() if x.memory.is_written}
        memories = {x.memory for x in owned}
        self._fixed = fixed = [*owned.values(), *tape.raw]
        self._outside = [self.slot(x) for x in tape.floating if fixed and x.memory not in memories]
        # Where the tensors are that calls overwrite; see `writes`.
        places = [writes.place(a) for x, a in owned.items() if x.source.kind == "tensor"]
        self._last_writes, self._order = [x.last_write for x in places], self._new_slot()
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
        tape, blocks = self.tape, {}
        # What follows from hyper-parameters alone is kept in registers until these change.
        self._hyper, self._kept, self._has_kept, self._is_kept = [], [], None, False
        self._numbers, self._conditions = ([], []), ([], [])  # of the hyper-parameters; the others
        self._varying = varying = set()
        for optimizer in tape.optimizers:
            names = [*optimizer.defaults]
            for i in range(len(optimizer._hyper)):
                slots = [self._new_slot() for _ in names]
                blocks[id(optimizer), i] = slots
                self._kept += slots
                place = slice(slots[0], slots[-1] + 1)
                self._hyper.append((optimizer, items_at(names), i, place))
        for x in tape.numbers:
            if x.source is not None:
                self._find_number(x, blocks, *x.source.holder)
        self._random = []  # how it draws random keys, and computes with them
        for call in tape.prologue:
            (out,) = call.outs
            varies = not varying.isdisjoint(values_in((call.args, call.kwargs)))
            varying |= {out} if varies else set()
            rows = self._random if out in tape.random else self._numbers[varies]
            rows.append((self.caller(call.function, call.args), self.slot(out)))
        for function, args, outcome in tape.conditions:
            rows = self._conditions[not varying.isdisjoint(values_in(args))]
            rows.append((self.caller(function, args), outcome))
        self._kept += [at for _, at in self._numbers[0]]

    def _find_number(self, x, blocks, kind, first, *rest):
        """Choose the register of a number, and how each run fills it; see `Input` for the holder.

        blocks: by the id of an optimizer and the position of a group, the registers that each run
            fills with the group's hyper-parameters.
        """
        if kind in ("leaf", "item"):
            self._varying.add(x)
        if kind == "leaf":
            self._slots[x] = first
        elif kind == "item":
            (key,) = rest
            self._numbers[True].append((_item_of(first.getter(), key), self.slot(x)))
        else:
            i, (k, *path) = rest
            at, regs = blocks[id(first), i][k], self.regs
            if path:
                self._numbers[False].append((lambda: reduce(getitem, path, regs[at]), self.slot(x)))
            else:
                self._slots[x] = at

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
            self._before += [partial(writes.stamp, self._last_writes), *self._after]
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
            is_large = x.memory is not None and _is_large(x)
            if is_large and last_use[x.memory] < len(self.plan.calls) and self.static(x) is None:
                step = partial(self.regs.__setitem__, self.slot(x), None)
                found.setdefault(last_use[x.memory], []).append(step)
        return found

    def _freeing_gradients(self):
        """The step that frees the gradients to be replaced, before new ones need memory."""
        tape = self.tape
        read = {id(s.holder) for s in tape.floating.values() if s.kind == "grad"}
        read.update(tape.argument_of)
        freed = [x for x, y in tape.gradients if id(x) not in read and (y is None or _is_large(y))]
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
        self._made = []  # pairs of a function that makes an object, and the register for it
        self._copies = {}  # by value, the register of the copy that leaves the program
        self._rebound = [(self._holder(x), what, self.leaving(y)) for x, what, y in tape.rebound]
        self._gradients = [(self._holder(x), self.leaving(y)) for x, y in tape.gradients]
        changed: dict = {}  # cells with equal values get one object, as the states of optimizers do
        for cell, value in tape.changed:
            key = value if values_in(value) else id(cell)
            row = changed.get(key)
            if row is None:
                row = changed[key] = number(value), [], self._new_slot()
            row[1].append(cell)
        self._changed = [*changed.values()]
        self._setters = [(make, [x.setter() for x in cells]) for make, cells, _ in self._changed]
        self._skips = [
            (optimizer, self.leaving(var), [(s, number(n)) for s, n in before])
            for optimizer, var, before in tape.skips
        ]

    def leaving(self, x):
        """The register that has a value after the calls, in memory that no later run overwrites."""
        at = self.slot(x)
        if x is None or x.kind != "array":
            return at
        fixed, storage = self.static(x), self.plan.storage(x)
        may_be_operand = x.memory.is_own and x.root().is_alias
        is_planned = storage is not None and storage.kind == "planned"
        if x.constant is None and not is_planned and not may_be_operand:
            return at
        if x not in self._copies:
            copy = self.caller(self.tape.duplicate, (x,))
            if hasattr(fixed, "copy"):
                copy = fixed.copy if fixed.flags.c_contiguous else partial(fixed.copy, "K")
            self._copies[x] = self.made(copy)
        return self._copies[x]

    def made(self, make):
        """A register in which each run puts what ``make()`` returns after the calls."""
        at = self._new_slot()
        self._made.append((make, at))
        return at

    def _bind_results(self):
        """Prepare what each leaf of the result is: a function of the content of a register."""
        results = self.tape.results
        self._results = [self._result(kind, value) for kind, value in results]
        self._again = [(i, value) for i, (kind, value) in enumerate(results) if kind == "again"]
        self._nodes = self.tape.graph and self.tape.graph.bind(self)

    def _result(self, kind, value):
        if kind in _MAKERS:
            return _MAKERS[kind], self.leaving(value)
        if kind == "grad":
            return attrgetter("grad"), self._holder(value)
        return itself, value if kind == "leaf" else self.slot(value)

    # Running

    def run_alone(self, leaves):
        """`run`, by one thread at a time, after binding the program to new arrays of the state.

        Returns None if this thread is running the program already, as in a signal handler.
        """
        with self._lock:
            if self._runner == (this := get_ident()):
                return None
            self._runner = this
            try:
                if self.is_quiet:
                    found = self.run(leaves)
                else:
                    with self.context():
                        found = self.run(leaves)
                if found is None:
                    with self.context():
                        if self._can_rebind(leaves):
                            self.bind()
                            found = self.run(leaves)
                return found
            finally:
                self._runner = None

    def is_mine(self):
        """Whether this thread is running the program."""
        return self._runner == get_ident()

    def run(self, leaves):
        """The leaves of the result, or None if the program was not made for this call."""
        regs, graph = self.regs, self.tape.graph
        start = None if graph is None else next_order()
        try:
            if replaced := self.tape.replaced:
                leaves = self._with_replaced(leaves)
            if not self._fits(leaves) or not self._numbers_fit():
                return None
            if self._is_one:
                self._in_one()
            else:
                self._run()
            found = [make(regs[at]) for make, at in self._results]
            if self._until_kernels:
                self._prepare_kernels()
            for at, first in self._again:
                found[at] = found[first]
            if graph is not None:
                graph.join(found, self._nodes, regs, start)
            if replaced:
                for place, is_tuple, n, _ in reversed(replaced):
                    new = [found.pop() for _ in range(n)][::-1]
                    place.set(tuple(new) if is_tuple else new[0])
            return found
        finally:
            regs[:] = self.blank

    def _numbers_fit(self):
        """Read and compute the numbers; returns whether the conditions on them hold."""
        regs = self.regs
        try:
            if not self._is_kept or not self._has_kept():
                self._is_kept = False  # so that an error or Ctrl-C leaves no mixture of numbers
                for optimizer, values_in_group, i, place in self._hyper:
                    now = [*values_in_group(optimizer.param_groups[i])]
                    if now != optimizer._hyper[i].values and not take_hyper(optimizer):
                        return False
                    regs[place] = optimizer._hyper[i].values
                if not self._compute(False):
                    return False
                for at in self._kept:
                    self.blank[at] = regs[at]
                self._is_kept = self._has_kept is not None
            return self._compute(True)
        except _NO_NUMBER:
            return False

    def _compute(self, varying):
        """Compute numbers, and return whether the conditions on them hold; if so, fill ``weak``.

        varying: whether those that may differ although the hyper-parameters do not.
        """
        for find, at in self._numbers[varying]:
            self.regs[at] = find()
        for find, outcome in self._conditions[varying]:
            if find() != outcome:
                return False
        for row in self.weak[varying]:
            array, at, last = row
            if self.regs[at] is not last:  # an assignment takes longer than this comparison
                array[()] = row[2] = self.regs[at]
        return True

    def _run(self):
        """Make all calls and changes."""
        regs, tape, states, undo = self.regs, self.tape, None, ()
        try:
            for step in self._checks:
                step()
        except Exception as error:
            raise Failed(error) from error
        if tape.generators:
            if self._is_fallible and not tape.communicates:
                states = [(g, g.get_state()) for g in tape.generators]
            for find, at in self._random:
                regs[at] = find()
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
            raise Failed(error) from error
        if self._in_one is not None:
            self._in_one()
            return
        if self._last_writes:
            writes.stamp(self._last_writes)
        for step in self._after:
            step()
        if self._last_writes:
            writes.stamp(self._last_writes)
        self._have_effects()

    def _have_effects(self):
        """Change what the function has changed, other than by its array calls."""
        regs, tape = self.regs, self.tape
        for make, at in self._made:
            regs[at] = make()
        for optimizer, at, counts in self._skips:
            is_skipped = self.backend.read_later(regs[at])
            optimizer._unread_skip = is_skipped, [(s, n(regs)) for s, n in counts]
        _rebind(self._rebound, regs)
        for holder, at in self._gradients:
            grad, array = None, regs[at]
            if array is not None:  # inlined, since a call of `wrap` would double the time
                grad = Tensor()
                grad.array, grad.node, grad._grad = array, None, None
            regs[holder]._grad = grad  # last, so that Ctrl-C leaves no gradient without an array
        for make, setters in self._setters:
            value = make(regs)
            for put in setters:
                put(value)
        _finish(tape)


def _is_large(x):
    """Whether it is worth a step to free an array early."""
    return x.root().nbytes > 1 << 16


def _rebind(rows, regs):
    """Give tensors, or their gradients, other arrays."""
    for holder, what, at in rows:
        x = regs[holder]
        (x if what == "array" else x._grad).array = regs[at]


def _item_of(get, key):
    return lambda: get()[key]


def _set(put, regs, at):
    put(regs[at])


def _finish(tape):
    """Count, and call what the function calls at the end."""
    for place, amount in tape.counts:
        place.add(amount)
    for function, args, kwargs in tape.afterwards:
        function(*args, **kwargs)


def _free(tensors):
    for x in tensors:
        x._grad = None


def _unconnected(array):
    return wrap(array, None)


def _view(array):
    return array[...]


_MAKERS = {"tensor": _unconnected, "array": itself, "view": _view}
