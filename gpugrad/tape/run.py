"""A program: the calls of a tape bound to memory, ready to be made again and again.

What never changes is bound once: functions, buffers, views of buffers, the arrays of parameters. A
call on these is a function without arguments. What each run finds or makes anew lies in registers,
which the other calls read. Where a binding is out of date, or a condition is not fulfilled, `run`
returns `MISS` and has done nothing. Where values are at fault, such as labels that are out of
range, it raises `Failed` and has changed nothing: the function itself then raises the error, or
handles it.
"""

import operator
import warnings
from contextlib import nullcontext
from functools import partial
from operator import itemgetter

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.graph import writes
from ..nn.changes import changes
from .cells import (
    all_hold,
    are_no_gradients,
    layouts_hold,
    leaves_hold,
    rows_of,
    tensors_hold,
)
from .plan import SMALL, Plan, most_alive
from .stage import real_of, take_hyper
from .tape import Value, collect, name_of

MISS = object()
_ABSENT = (AttributeError, KeyError, IndexError, TypeError, ValueError)


class Failed(Exception):
    """Raised by a program for an error of one of its calls, before it has changed anything."""

    def __init__(self, name, error):
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


class Program:
    """A tape, ready to run.

    derivative: what joins the results to the graph, or None.
    call_by_call: why its calls are not launched together; None if there is no library to do so.
    """

    derivative = None
    call_by_call = None

    def __init__(self, tape):
        self.tape = tape
        self.backend = tape.backend
        self.binder = self.backend.binder
        copied = self._copied()
        divides = self.binder and self.binder.divides
        self.plan = Plan.best(tape.calls, tape.leaving, copied, self._can_bind, divides)
        self.context = self.backend.sweep_context or nullcontext
        self.arena = None if self.binder is None else self.binder.arena(self.plan.total)
        self._prepare()
        self.bind()

    def _can_bind(self, call):
        """Whether a call can write its result into planned memory."""
        if self.binder is None or not call.is_pure or call.several:
            return False
        if call.writes:
            ufunc = self.binder.ufunc_of(call.function)
            return ufunc is not None or call.function is operator.setitem
        (out,) = call.outs
        is_array = out.kind == "array" and out.base is None and 0 not in out.shape
        return is_array and call.declared.out and not call.declared.aliases

    def _copied(self):
        """Values that leave the program as copies, so that they always lie in the same place."""
        return {
            x
            for x in self.tape.leaving
            if x.base is None
            and x.call is not None
            and x.nbytes <= SMALL
            and self._can_bind(x.call)
        }

    # What a run checks and finds before the first call

    def _prepare(self):
        tape = self.tape
        self._guards = rows_of(tape.reach.guards)
        self._module_rows = rows_of(tape.reach.module_guards)
        self._seen_version = None
        tensors, statics = [], []
        changed = [x for x, *_ in (*tape.rebound, *tape.gradients)]
        changed += [s.holder for s in tape.written_sources if s.kind in ("tensor", "grad")]
        apart = frozenset({id(x) for x in changed} - tape.argument_of.keys())
        self._same, self._state_leaves = [], []
        for i, (kind, value) in enumerate(tape.leaves):
            if kind == "tensor":
                tensors.append((i, *value))
            elif kind == "static":
                statics.append((i, *value))
            elif kind == "same":
                self._same.append((i, value))
            elif kind == "state":
                self._state_leaves.append((i, value))
        self._leaf_rows = tensors, statics, apart
        holders = [x for x, what, _ in tape.rebound if what == "grad"]
        holders += [s.holder for s in tape.written_sources if s.kind == "grad"]
        self._gradient_holders = holders
        self._tensor_leaves = [i for i, *_ in tensors]

    def _bind_state(self):
        """Note where tensors and the state of optimizers are now."""
        tape = self.tape
        leaves, bare, others = [], [], []
        self._bound = []
        for x, node, watch, has_grad, is_pinned in tape.tensors:
            array = x.array if is_pinned else None
            if is_pinned:
                self._bound.append((x, array))
            if watch is not MISS and is_pinned:
                (leaves if has_grad else bare).append((x, node, watch, array))
            else:
                leaf = None if watch is MISS else node
                others.append((x, node, leaf, watch, not has_grad, array))
        states = [(s, s.values, group[0]) for group in tape.alike for s in group]
        self._tensor_rows = leaves, bare, others, states

    def may_follow(self):
        """Whether tensors have other arrays now, to which the program can be bound instead."""
        tape, backend = self.tape, self.backend
        if all(x.array is array for x, array in self._bound):
            return False
        owners = {}
        for x, _ in self._bound:
            array, state, var = x.array, tape.parameters.get(id(x)), tape.var_of[id(x)]
            if state is not None and state.array is not array:
                return False
            if (
                type(array) is not backend.array_types[0]
                or (array.shape, array.dtype) != (var.shape, var.dtype)
                or getattr(array, "strides", None) != var.strides
                or backend.device(array) != tape.devices.get(var, backend.device(array))
            ):
                return False
            memory = owners.setdefault(backend.buffer(array), var.memory)
            if array.size and memory is not var.memory:
                return False
        return True

    def _fits(self, leaves):
        """Whether the program is for this call; finds its arrays on the way."""
        tape, regs = self.tape, self.regs
        self._given[0] = leaves
        if tape.is_recording is not None and thread.recording is not tape.is_recording:
            return False
        for optimizer, _, _ in tape.skips:
            optimizer._settle()
        try:
            if len(leaves) != len(tape.leaves) or not leaves_hold(leaves, *self._leaf_rows):
                return False
            for i, k in self._same:
                if leaves[i] is not leaves[k]:
                    return False
            for i, x in self._state_leaves:
                if leaves[i] is not x:
                    return False
            if not (tensors_hold(*self._tensor_rows) and all_hold(self._guards)):
                return False
            if self._seen_version != changes.version:
                version = changes.version
                if not all_hold(self._module_rows):
                    return False
                self._seen_version = version
            for kind, holder, at in self._finders:
                if kind == 0:
                    x = leaves[holder]
                    regs[at] = x.array if isinstance(x, Tensor) else x
                elif kind == 1:
                    regs[at] = holder.array
                elif kind == 2:
                    regs[at] = holder._grad.array
                else:
                    regs[at] = leaves[holder]._grad.array
            if self._layouts and not layouts_hold(
                self._found(regs), self.backend.array_types[0], self._layouts
            ):
                return False
            tensors = self._tensor_leaves
            if len(tensors) > 1 and len({id(leaves[i]) for i in tensors}) < len(tensors):
                return False
            if self._gradient_holders and tensors:
                rows = self._leaf_rows[0]
                if not are_no_gradients(leaves, rows, self._gradient_holders):
                    return False
            if self._checks_devices and not self._devices_hold(regs):
                return False
            if self._outside and not self._memory_is_apart(regs):
                return False
            for leaf, other in self._aliases:
                if leaves[leaf].array is not other.array:
                    return False
        except _ABSENT:
            return False
        return True

    def _devices_hold(self, regs):
        device = self.backend.device
        return all(device(regs[at]) == expected for at, expected in self._checks_devices)

    def _memory_is_apart(self, regs):
        """Whether arguments lie in other memory than what the program overwrites, or as before."""
        for at in self._outside:
            if self._buffer(regs[at]) in self._owned:
                return False
        return True

    def _buffer(self, array):
        if self.binder is None:
            return self.backend.buffer(array)
        while array.base is not None and getattr(array.base, "shape", None) is not None:
            array = array.base
        return id(array) if array.base is None else id(array.base)

    # Binding

    def bind(self):
        """Bind the calls to the arrays that state has now."""
        self._bind_state()
        self.regs, self._given = [], [None]
        self._slot_of, self._static, self._weak_of = {}, {}, {}
        self._dynamic, self.weak = [], []
        self._bind_inputs()
        self._bind_numbers()
        self._bind_calls()
        self._bind_places()
        self._bind_effects()
        del self._static, self._weak_of

    def slot(self, x):
        """The register of a value, or of an object that never changes."""
        key = x if type(x) is Value else ("object", id(x))
        if key not in self._slot_of:
            self._slot_of[key] = len(self.regs)
            if type(x) is Value and not self.is_static(x):
                self.regs.append(None)
                self._dynamic.append(self._slot_of[key])
            else:
                self.regs.append(self.static(x) if type(x) is Value else x)
        return self._slot_of[key]

    def new_slot(self):
        self._dynamic.append(len(self.regs))
        self.regs.append(None)
        return self._dynamic[-1]

    def is_static(self, x):
        """Whether the value is the same object in each run."""
        if x in self._static:
            return True
        if x.kind in ("number", "scalar", "token", "unused"):
            return x.constant is not None
        if x.constant is not None:
            return True
        if x.base is not None:
            others = [y for y in x.call.operands() if y is not x.base]
            return self.is_static(x.base) and all(map(self.is_static, others))
        if x.call is None:
            return x in self.tape.pinned
        storage = self.plan.storage(x)
        return storage is not None and storage.kind == "planned"

    def static(self, x):
        """That object."""
        found = self._static.get(x)
        if found is None:
            found = self._static[x] = self._made_static(x)
        return found

    def _made_static(self, x):
        if x.constant is not None:
            return x.constant
        if x.base is not None:
            call = x.call
            result = call.function(*self._all_static(call.args), **self._all_static(call.kwargs))
            return result[call.outs.index(x)] if call.several else result
        if x.call is None:
            return self.tape.pinned[x]()
        storage = self.plan.storage(x)
        shape, strides = x.shape, x.strides
        for group in self.plan.groups:
            if x in group.inner:
                shape, strides = group.block_shape(), None
        return self.binder.place(self.arena, storage.offset, shape, x.dtype, strides)

    def _all_static(self, x):
        kind = type(x)
        if kind is Value:
            return self.static(x)
        if kind is tuple or kind is list:
            return kind([self._all_static(item) for item in x])
        if kind is dict:
            return {name: self._all_static(item) for name, item in x.items()}
        if kind is slice:
            return slice(*[self._all_static(item) for item in (x.start, x.stop, x.step)])
        return x

    def _bind_inputs(self):
        """Find out where the arrays lie that each run finds anew."""
        tape = self.tape
        self._finders, rows, at = [], [], []
        self._checks_devices = []
        check_devices = self.backend.several_devices or self.binder is None
        outside = []
        for x, source in tape.floating.items():
            slot = self.slot(x)
            at.append(slot)
            if source.kind == "argument":
                self._finders.append((0, source.holder, slot))
                outside.append((x, slot))
            elif source.kind == "tensor":
                self._finders.append((1, source.holder, slot))
            else:
                leaf = tape.argument_of.get(id(source.holder))
                found = (2, source.holder, slot) if leaf is None else (3, leaf, slot)
                self._finders.append(found)
            rows.append((x.shape, x.dtype, None if x in tape.unread else x.strides))
            if check_devices and x in tape.devices:
                self._checks_devices.append((slot, tape.devices[x]))
        self._layouts = rows
        self._found = _getter(at)
        written = {x.memory for x in tape.pinned if x.memory.is_written}
        self._outside = [slot for x, slot in outside if x.memory not in written] if written else []
        self._owned = {
            self._buffer(find()) for x, find in tape.pinned.items() if x.memory.is_written
        }
        self._aliases = [(tape.argument_of[id(x)], holder) for x, holder in tape.aliases]

    def _bind_numbers(self):
        """Prepare the numbers: where they are found, how they are computed, what is required."""
        tape = self.tape
        self._numbers, self._conditions, self._draws = [], [], []
        random = {c.outs[0] for c in tape.prologue if not c.is_pure}
        self._hyper = [
            (optimizer, list(optimizer.defaults), i, flags)
            for optimizer, groups in tape.optimizers
            for i, flags in enumerate(groups)
        ]
        for x in tape.numbers:
            if x.source is not None:
                self._numbers.append((self._number_finder(x.source.holder), self.slot(x)))
        later = []
        for call in tape.prologue:
            (out,) = call.outs
            if not call.is_pure:
                self._draws.append((call.function, self.slot(out)))
            elif out in tape.numbers:
                args = self.getter(call.args)
                row = partial(_computed, self.regs, call.function, args), self.slot(out)
                if random.isdisjoint(call.operands()):
                    self._numbers.append(row)
                else:
                    random.add(out)
                    later.append(row)
        for function, args, outcome in tape.conditions:
            self._conditions.append((function, self.getter(args), outcome))
        self._later_numbers = later

    def _number_finder(self, holder):
        kind, *rest = holder
        if kind == "cell":
            return rest[0].get
        if kind == "item":
            cell, k = rest
            return lambda: cell.get()[k]
        if kind == "leaf":
            given, (at,) = self._given, rest
            return lambda: given[0][at]
        if kind == "element":
            regs, to_list, at = self.regs, self.backend.to_list, self.slot(rest[0])
            return lambda: to_list(regs[at])
        optimizer, i, path = rest

        def hyper():
            value = optimizer._hyper[i]
            for k in path:
                value = value[k]
            return value

        return hyper

    def getter(self, args):
        """A function of the registers that returns the arguments as a tuple."""
        if all(type(x) is Value or not _has_values(x) for x in args):
            return _getter([self.slot(x) for x in args])
        makers = [self._maker(x) for x in args]
        return lambda regs: tuple([make(regs) for make in makers])

    def _maker(self, x):
        kind = type(x)
        if kind is Value:
            return itemgetter(self.slot(x))
        if not _has_values(x):
            return lambda regs: x
        if kind is slice:
            parts = [self._maker(item) for item in (x.start, x.stop, x.step)]
            return lambda regs: slice(*[make(regs) for make in parts])
        if kind is dict:
            named = {name: self._maker(item) for name, item in x.items()}
            return lambda regs: {name: make(regs) for name, make in named.items()}
        makers = [self._maker(item) for item in x]
        return lambda regs: kind([make(regs) for make in makers])

    # Calls

    def _bind_calls(self):
        tape, plan = self.tape, self.plan
        calls = plan.calls
        starts = {group.start: group for group in plan.groups}
        last = self._last_uses()
        self.steps, self._checks = [], []
        self._checked_calls = self._bind_checks()
        self._first_write = None
        fallible = [
            i for i, c in enumerate(calls) if c.may_fail and c not in self._checked_calls
        ]
        written = [i for i, c in enumerate(calls) if any(not x.memory.is_own for x in c.targets())]
        for group in plan.groups:  # whose blocks are written before its later calls are made
            if any(group.start <= i < group.stop for i in written):
                written.append(group.start)
        self._is_fallible = bool(fallible)
        self._undo = []
        if fallible and written and fallible[-1] > min(written):
            targets = {x.root() for i in written for x in calls[i].targets()}
            self._undo = [self.slot(x) for x in targets if not x.memory.is_own]
        at_write = min(written, default=len(calls))
        i = 0
        while i < len(calls):
            if i >= at_write and self._first_write is None:
                self._first_write = len(self.steps)
            group = starts.get(i)
            if group is not None:
                self._bind_group(group)
                i = group.stop
                done = range(group.start, group.stop)
            else:
                self._bind_call(calls[i])
                done = (i,)
                i += 1
            for k in done:
                for at in last.get(k, ()):
                    self.steps.append(partial(self.regs.__setitem__, at, None))
        if self._first_write is None:
            self._first_write = len(self.steps)
        self._before = self._flat(self.steps[: self._first_write])
        self._after = self._flat(self.steps[self._first_write :])

    def _bind_places(self):
        tape = self.tape
        parameters = [
            x for x, find in tape.pinned.items()
            if x.memory.is_written and x.source.kind == "tensor"
        ]  # fmt: skip
        self._places = [writes.place(self.static(x)) for x in parameters]

    def _flat(self, steps):
        return steps if self.binder is None else self.binder.flat(steps)

    def _last_uses(self):
        """By the number of a call, the registers of large values that are not needed after it."""
        last = {}
        for i, call in enumerate(self.plan.calls):
            for x in (*call.operands(), *call.outs):
                if x.memory is not None:
                    last[x.memory] = i
        kept = {x.memory for x in self.tape.leaving}
        found = {}
        for call in self.plan.calls:
            for out in call.outs:
                is_large = out.memory is not None and out.root().nbytes > 1 << 16
                if is_large and out.memory not in kept and not self.is_static(out):
                    found.setdefault(last[out.memory], []).append(self.slot(out))
        return found

    def _bind_checks(self):
        """Make the checks of values that the program finds when it starts come first."""
        checked = set()
        for call in self.plan.calls:
            if (check := call.declared.check) is None:
                continue
            found = check(call.args, call.kwargs)
            if found is None:
                continue
            function, args = found
            if all(map(self._is_given, _values_in(args))):
                for x in _values_in(args):
                    self._bind_views(x)
                key = function, *[self.slot(x) for x in args]
                checked.add(call)
                if key not in [k for k, _ in self._checks]:
                    step = partial(_called, self.regs, function, self.getter(args))
                    self._checks.append((key, step))
        return checked

    def _bind_views(self, x):
        """Make the views of arguments that a check needs."""
        if x.base is not None and not self.is_static(x):
            self._bind_views(x.base)
            step = partial(
                _made, self.regs, x.call.function, self.getter(x.call.args), self.slot(x)
            )
            self._checks.append((x, step))

    def _is_given(self, x):
        """Whether a value is there before any call."""
        if x.memory is not None and x.memory.is_written:
            return False
        if x.base is None or self.is_static(x):
            return x.root().call is None
        operands = x.call.operands()
        return not x.call.several and self._is_given(x.base) and operands == [x.base]

    def _bind_call(self, call):
        outs = call.outs
        if outs and all(out.base is not None and self.is_static(out) for out in outs):
            return
        operands = [x for x in call.operands()]
        if call.writes:
            self._bind_write(call)
            return
        storage = self.plan.storage(outs[0]) if len(outs) == 1 else None
        if storage is None or storage.kind == "loose" or outs[0].base is not None:
            self._bind_loose(call)
            return
        target = self.static(outs[0])
        is_checked = call in self._checked_calls
        if all(self.is_static(x) or self._weak_array(x, call) is not None for x in operands):
            args = self._with_weak(call)
            step = self.binder.bind(
                call.function, args, self._all_static(call.kwargs), target, checked=is_checked
            )
            if step is not None:
                self.steps.append(step)
                return
        self._bind_into(call, target)

    def _with_weak(self, call):
        """The arguments as final objects, with 0-d arrays in place of numbers that change."""
        args = []
        for x in call.args:
            if type(x) is Value and not self.is_static(x):
                args.append(self._weak_array(x, call))
            else:
                args.append(self._all_static(x))
        return tuple(args)

    def _weak_array(self, x, call):
        """The 0-d array for a number that changes, as an operand of a ufunc; or None."""
        if x.kind != "number" or x not in call.args:
            return None
        if self.binder is None or self.binder.ufunc_of(call.function) is None:
            return None
        dtypes = {y.dtype for y in call.args if type(y) is Value and y.kind == "array"}
        if len(dtypes) != 1:
            return None
        key = x, *dtypes
        if key not in self._weak_of:
            self._weak_of[key] = array = self.binder.scalar(*dtypes)
            if array is not None:
                self.weak.append((array, self.slot(x)))
        return self._weak_of[key]

    def _bind_loose(self, call):
        """Have a call put whatever it returns into registers."""
        regs, function = self.regs, call.function
        get = self.getter(call.args)
        named = self._maker(call.kwargs) if call.kwargs else None
        if call.several:
            slots = [self.slot(out) for out in call.outs]
            self.steps.append(partial(_made_several, regs, function, get, named, slots))
            return
        if not call.outs:
            self.steps.append(partial(_called, regs, function, get, named))
            return
        self.steps.append(partial(_made, regs, function, get, self.slot(call.outs[0]), named))

    def _bind_into(self, call, target, args=None):
        """Have a call on registers write into memory that stays the same."""
        regs = self.regs
        get = self.getter(call.args if args is None else args)
        ufunc = self.binder.ufunc_of(call.function)
        if ufunc is not None and target.dtype.kind != "c":
            self.steps.append(partial(_filled, regs, ufunc, get, target))
            return
        named = self._maker(call.kwargs) if call.kwargs else None
        self.steps.append(partial(_copied, regs, call.function, get, named, target))

    def _bind_write(self, call):
        """Bind a call that overwrites its first argument."""
        function, first = call.function, call.args[0]
        if type(first) is Value and self.is_static(first) and self._can_bind(call):
            operands = call.operands()
            if function is not operator.setitem and all(
                self.is_static(x) or self._weak_array(x, call) is not None for x in operands
            ):
                target = self.static(first)
                step = self.binder.bind(function, self._with_weak(call), {}, target)
                if step is not None:
                    self.steps.append(step)
                    return
        if not any(not self.is_static(x) for x in call.operands()):
            args = self._all_static(call.args)
            self.steps.append(partial(_write_done, function, args, call.name))
            return
        self.steps.append(partial(_write, self.regs, function, self.getter(call.args), call.name))

    # Groups

    def _bind_group(self, group):
        """Bind the calls of a group to each block in turn."""
        plan = self.plan
        calls = plan.calls[group.start : group.stop]
        calls = [c for c in calls if not (c.is_view() and all(map(self.is_static, c.outs)))]
        for call in calls:
            if call.is_view():
                self._bind_call(call)
        calls = [c for c in calls if not c.is_view()]
        for call in calls:
            for out in call.outs:
                storage = plan.storage(out)
                if storage is not None and storage.kind == "fresh":
                    make = partial(self.binder.empty, out.shape, out.dtype, out.strides)
                    self.steps.append(partial(_made, self.regs, make, _nothing, self.slot(out)))
        bounds = group.slices()
        views = {}
        for i, j in bounds:
            for call in calls:
                self._bind_block(group, call, i, j, views)
        own = set(self._slot_of.values())
        slots = [at for kind, at in views.values() if kind == "register" and at not in own]
        self.steps.append(partial(_clear, self.regs, slots))

    def _bind_block(self, group, call, i, j, views):
        target = call.outs[0] if call.outs else call.targets()[0]
        out_kind, out = self._block(group, target, i, j, views)
        args, is_final = [], out_kind == "object"
        for x in call.args:
            if type(x) is not Value:
                args.append(("object", x))
                continue
            if x.kind == "number":
                weak = self._weak_array(x, call)
                args.append(("object", weak) if weak is not None else ("register", self.slot(x)))
            elif x.kind == "scalar" and not self.is_static(x):
                args.append(("register", self.slot(x)))
            else:
                args.append(self._block(group, x, i, j, views))
            is_final = is_final and args[-1][0] == "object"
        function, whole = call.function, group.shape
        if function is operator.setitem:
            (_, x), _, (kind, value) = args
            if is_final:
                self.steps.append(partial(self.binder.copy_into, x, value))
            else:
                slots = [at if k == "register" else self._object_slot(at) for k, at in
                         ((out_kind, out), (kind, value))]  # fmt: skip
                self.steps.append(partial(_called, self.regs, self.binder.copy_into, _getter(slots)))
            return
        if is_final:
            objects = tuple([x for _, x in args])
            step = self.binder.bind(function, objects, call.kwargs, out, whole=whole)
            if step is not None:
                self.steps.append(step)
                return
        slots = [x if kind == "register" else self._object_slot(x) for kind, x in args]
        at = out if out_kind == "register" else self._object_slot(out)
        named = call.kwargs
        self.steps.append(
            partial(_block_filled, self.regs, self.binder, function, _getter(slots), named, at,
                    whole)
        )  # fmt: skip

    def _object_slot(self, x):
        self.regs.append(x)
        return len(self.regs) - 1

    def _block(self, group, x, i, j, views):
        """The rows from i to j of an operand: ("object", array) or ("register", number)."""
        key = x, i
        if key in views:
            return views[key]
        axis = group.axis_of(x.shape)
        if axis is None:
            found = ("object", self.static(x)) if self.is_static(x) else ("register", self.slot(x))
        elif self.is_static(x):
            rows = slice(0, j - i) if x in group.inner else slice(i, j)
            found = "object", self.static(x)[(*[slice(None)] * axis, rows)]
        else:
            at = self.new_slot()
            rows = (*[slice(None)] * axis, slice(i, j))
            get = _getter([self.slot(x), self._object_slot(rows)])
            self.steps.append(partial(_made, self.regs, operator.getitem, get, at))
            found = "register", at
        views[key] = found
        return found

    # Effects and results

    def _bind_effects(self):
        """Prepare what is done when all calls have been made."""
        tape = self.tape
        self._taken = set()
        self._leave = {}
        self._rebound = [
            (x, what, self._leaving(value), tape.argument_of.get(id(x)))
            for x, what, value in tape.rebound
        ]
        self._gradients = [
            (x, None if value is None else self._leaving(value), tape.argument_of.get(id(x)))
            for x, value in tape.gradients
        ]
        read = {id(s.holder) for s in tape.floating.values() if s.kind == "grad"}
        self._freed = [
            (x, tape.argument_of.get(id(x))) for x, *_ in tape.gradients if id(x) not in read
        ]
        self._number_writes = [
            (state, name, self._number_maker(value)) for state, name, value in tape.number_writes
        ]
        self._changed = [
            (cell, self._number_maker(value) if type(value) is Value else lambda regs, v=value: v)
            for cell, value in tape.changed
        ]
        self._skips = [
            (
                optimizer,
                itemgetter(self.slot(var)),
                [(s, self._number_maker(n), self._number_maker(v)) for s, n, v in counts],
            )
            for optimizer, var, counts in tape.skips
        ]
        self._results = [self._result(kind, value) for kind, value in tape.results]

    def _number_maker(self, x):
        if isinstance(x, tuple):
            makers = [self._number_maker(item) for item in x]
            return lambda regs: tuple([make(regs) for make in makers])
        x = getattr(x, "var", x)
        return itemgetter(self.slot(x)) if type(x) is Value else lambda regs: x

    def _leaving(self, x):
        """A function of the registers that returns a value in memory of its own."""
        if x.kind != "array":
            return itemgetter(self.slot(x))
        storage = self.plan.storage(x)
        is_own = x.memory is not None and x.memory.is_own and x.constant is None
        first = x.memory not in self._taken
        if x.kind == "array" and is_own and first and (storage is None or storage.kind != "planned"):
            self._taken.add(x.memory)
            return itemgetter(self.slot(x))
        if self.is_static(x) and hasattr(self.static(x), "copy"):
            copy = partial(self.static(x).copy, "K")
            return lambda regs: copy()
        duplicate, at = self.tape.duplicate, self.slot(x)
        return lambda regs: duplicate(regs[at])

    def _shown(self, x):
        """A function of the registers that returns a result, which may show state or arguments."""
        if x.kind == "array" and x.memory is not None and not x.memory.is_own and (
            x.constant is None
        ):
            at = self.slot(x)
            return itemgetter(at)
        if x.memory in self._taken and x.memory.is_own and not self.is_static(x):
            return itemgetter(self.slot(x))  # it shares memory with another result
        return self._leaving(x)

    def _result(self, kind, value):
        """A function of the registers and the leaves that returns a leaf of the result."""
        if kind == "static":
            return lambda regs, made: value
        if kind in ("number", "kept", "array"):
            get = self._leaving(value) if kind != "array" else self._shown(value)
            return lambda regs, made: get(regs)
        if kind == "same":
            return lambda regs, made: value
        if kind == "leaf":
            return lambda regs, made: made["leaves"][value]
        if kind == "grad":
            return lambda regs, made: value.grad
        number, x, node = value
        get = self._shown(x)

        def tensor(regs, made):
            found = made.get(number)
            if found is None:
                found = made[number] = Tensor()
                found.array = get(regs)
                found.node = None if node is None else node()
            return found

        return tensor

    # Running

    def run(self, leaves):
        """The leaves of the result, or `MISS`."""
        regs = self.regs
        try:
            if not self._fits(leaves) or not self._numbers_fit():
                return MISS
            self._run(leaves)
            self._have_effects(leaves)
            made = {"leaves": leaves}
            return [make(regs, made) for make in self._results]
        finally:
            self._given[0] = None
            for at in self._dynamic:
                regs[at] = None

    def _numbers_fit(self):
        """Find and compute the numbers; returns whether they fulfil the conditions."""
        regs = self.regs
        for optimizer, names, i, flags in self._hyper:
            group = optimizer.param_groups[i]
            hyper = optimizer._hyper[i]
            if [*map(group.__getitem__, names)] != hyper:
                if not take_hyper(optimizer):
                    return False
                hyper = optimizer._hyper[i]
            for k, value in flags:
                if hyper[k] is not value:
                    return False
        try:
            for find, at in self._numbers:
                regs[at] = find()
        except _ABSENT:
            return False
        for function, get, outcome in self._conditions:
            found = function(*get(regs))
            if found is not outcome and found != outcome:
                return False
        for array, at in self.weak:
            if regs[at] is not None:
                array[()] = regs[at]
        return True

    def _run(self, leaves):
        regs, states = self.regs, None
        tape = self.tape
        for _, check in self._checks:
            try:
                check()
            except Exception as error:  # noqa: BLE001  the function raises or handles it
                raise Failed(_step_name(check), error) from error
        if tape.generators and not tape.communicates:
            states = [(g, g.get_state()) for g in tape.generators] if self._is_fallible else None
        for draw, at in self._draws:
            regs[at] = draw()
        for find, at in self._later_numbers:
            regs[at] = find()
        undo = [(regs[at], tape.duplicate(regs[at])) for at in self._undo]
        step = None
        try:
            for step in self._before:
                step()
            if undo:
                self._write_all()
        except Exception as error:
            for array, values in undo:
                array[...] = values
            if tape.communicates or (tape.generators and states is None):
                raise
            for g, state in states or ():
                g.set_state(state)
            raise Failed(_step_name(step), error) from error
        if not undo:
            self._write_all()

    def _write_all(self):
        for x, leaf in self._freed:
            if leaf is None:
                x._grad = None
        if self._places:
            writes.note(self._places)
        for step in self._after:
            step()
        if self._places:
            writes.note(self._places)

    def _have_effects(self, leaves):
        """Change what the function has changed, besides what the calls have overwritten."""
        regs, tape = self.regs, self.tape
        for state, name, make in self._number_writes:
            setattr(state, name, make(regs))
        for optimizer, skip, counts in self._skips:
            is_skipped = self.backend.read_later(skip(regs))
            optimizer._unknown = is_skipped, [(s, n(regs), v(regs)) for s, n, v in counts]
        for x, what, make, leaf in self._rebound:
            holder = x if leaf is None else leaves[leaf]
            (holder if what == "array" else holder._grad).array = make(regs)
        for x, make, leaf in self._gradients:
            holder = x if leaf is None else leaves[leaf]
            if make is None:
                holder._grad = None
            else:
                grad = Tensor()
                grad.array = make(regs)
                grad.node = grad._grad = None
                holder._grad = grad
        for cell, make in self._changed:
            cell.set(make(regs))
        if self._changed:
            changes.version += 1
        for function, args, kwargs in tape.afterwards:
            function(*args, **kwargs)

    # For people

    @property
    def planned_bytes(self):
        return self.plan.total

    @property
    def least_bytes(self):
        """The largest sum of the sizes of planned values that are needed at one time."""
        return most_alive({s for s in self.plan.of.values() if s.kind == "planned"})


def _getter(slots):
    """A function of the registers that returns some of them as a tuple."""
    if not slots:
        return _nothing
    if len(slots) == 1:
        (at,) = slots
        return lambda regs: (regs[at],)
    return itemgetter(*slots)


def _nothing(regs):
    return ()


def _has_values(x):
    found: list = []
    collect(x, found)
    return bool(found)


def _values_in(x):
    found: list = []
    collect(x, found)
    return found


# Steps on registers


def _computed(regs, function, get):
    return function(*get(regs))


def _called(regs, function, get, named=None):
    if named is None:
        function(*get(regs))
    else:
        function(*get(regs), **named(regs))


def _made(regs, function, get, at, named=None):
    if named is None:
        regs[at] = function(*get(regs))
    else:
        regs[at] = function(*get(regs), **named(regs))


def _made_several(regs, function, get, named, slots):
    results = function(*get(regs)) if named is None else function(*get(regs), **named(regs))
    for at, result in zip(slots, results, strict=True):
        regs[at] = result


def _filled(regs, ufunc, get, target):
    ufunc(*get(regs), out=target)


def _copied(regs, function, get, named, target):
    result = function(*get(regs)) if named is None else function(*get(regs), **named(regs))
    target[...] = result


def _block_filled(regs, binder, function, get, named, at, whole):
    """Fill a block whose memory is found in each run."""
    binder.bind(function, get(regs), named, regs[at], whole=whole)()


def _write(regs, function, get, name):
    _write_done(function, get(regs), name)


def _write_done(function, args, name):
    if function(*args) is None and name in ("optimizer_step", "scale", "blend"):
        raise RuntimeError(f"{name}: it cannot be repeated")


def _clear(regs, slots):
    for at in slots:
        regs[at] = None


def _step_name(step):
    """The name of the function that a step calls, for an error."""
    if isinstance(step, partial):
        for x in (*step.args, step.func):
            if callable(x) and not isinstance(x, (list, itemgetter)):
                return name_of(x)
    return name_of(step) if step is not None else "it"


__all__ = ["MISS", "Failed", "Program", "real_of", "warn_of"]
