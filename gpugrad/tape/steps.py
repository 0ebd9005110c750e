"""Steps: the calls of a program as functions without arguments, to be made one after another.

What never changes is bound once: functions, buffers, views of buffers, the arrays of parameters.
What each run finds or makes anew lies in registers. A call on such an array is bound to another
array that stands for it, of the same shape, dtype and strides, so that what is chosen by these is
chosen once; then each step that uses the stand-in reads the register instead.
"""

import operator
from functools import partial
from operator import itemgetter

from .tape import Value, collect, mapped, name_of

_FIXED = ("number", "scalar", "array")  # kinds of values that may be the same in each run


class Steps:
    """Makes the steps of a program; see `Program`, which has the other attributes.

    regs: the registers.
    blank: what they hold between runs: None, and the objects that never change.
    steps: the steps that have been made.
    weak: pairs of a 0-d array that stands for a number, and the number's register.
    """

    def _begin(self):
        self.regs, self.blank, self.steps, self.weak, self._slots = [], [], [], [], {}
        self._end()

    def _end(self):
        """Keep no more memory than the steps need."""
        self._static, self._weak_of = {}, {}
        self._stand_ins, self._known, self._views = {}, {}, {}

    # Registers and what never changes

    def slot(self, x):
        """The register of a value, or of an object that never changes."""
        key = x if type(x) is Value else id(x)
        if key not in self._slots:
            self._slots[key] = self._new_slot(self.static(x) if type(x) is Value else x)
        return self._slots[key]

    def _new_slot(self, fixed=None):
        self.regs.append(fixed)
        self.blank.append(fixed)
        return len(self.regs) - 1

    def static(self, x):
        """The object that a value is in each run; None if it may be another one."""
        if x not in self._static:
            self._static[x] = self._made_static(x) if x.kind in _FIXED else None
        return self._static[x]

    def _made_static(self, x):
        if x.constant is not None or x.kind != "array":
            return x.constant
        if x.base is not None:
            call = x.call
            if not self._is_fixed((call.args, call.kwargs)):
                return None
            result = call.function(*self._filled(call.args), **self._filled(call.kwargs))
            return result[call.outs.index(x)] if call.several else result
        if x.call is None:
            find = self.tape.pinned.get(x)
            return None if find is None else find()
        storage = self.plan.storage(x)
        if storage is None or storage.kind != "planned":
            return None
        shape, strides = x.shape, x.strides
        for group in self.plan.groups:
            if x in group.inner:
                shape, strides = group.block_shape(), None
        return self.binder.place(self.arena, storage.offset, shape, x.dtype, strides)

    def _is_fixed(self, x):
        """Whether nested containers have only what is the same in each run."""
        return all(self.static(y) is not None for y in values_in(x))

    def _filled(self, x):
        return mapped(x, lambda y: self.static(y) if type(y) is Value else y)

    # Functions that read registers

    def maker(self, x):
        """A function of the registers that returns nested containers with the values filled in."""
        if type(x) is Value:
            return itemgetter(self.slot(x))
        if self._is_fixed(x):
            fixed = self._filled(x)
            return lambda regs: fixed
        if type(x) is dict:
            named = {name: self.maker(item) for name, item in x.items()}
            return lambda regs: {name: make(regs) for name, make in named.items()}
        if type(x) is slice:
            parts = self.maker((x.start, x.stop, x.step))
            return lambda regs: slice(*parts(regs))
        kind, makers = type(x), [self.maker(item) for item in x]
        return lambda regs: kind([make(regs) for make in makers])

    def caller(self, function, args, kwargs=None):
        """A function without arguments that calls ``function``."""
        if kwargs and self._is_fixed(kwargs):
            function, kwargs = partial(function, **self._filled(kwargs)), None
        if not kwargs and self._is_fixed(args):
            return partial(function, *self._filled(args))
        if not kwargs and all(type(x) is Value or self._is_fixed(x) for x in args):
            fixed = [x if type(x) is Value else self._filled(x) for x in args]
            return on_registers(function, self.regs, [self.slot(x) for x in fixed])
        regs, get, named = self.regs, self.maker(args), self.maker(kwargs or {})
        return _named(lambda: function(*get(regs), **named(regs)), function)

    def _put(self, call, slots):
        """Have what a function returns, one object or several, put into registers."""
        regs = self.regs
        if type(slots) is int:

            def step():
                regs[slots] = call()
        else:

            def step():
                for at, result in zip(slots, call(), strict=True):
                    regs[at] = result

        self.steps.append(_named(step, call))

    # Binding to memory

    def _bound(self, call, arrays, slots, **how):
        """Steps that make a call; None if that fails.

        arrays: the operands, and where the result goes. If they only stand for what is in
        registers, ``slots`` has these.
        """
        key = _layouts_of(call, arrays, how, self.backend.array_types[0])
        known = self._known.get(key)
        if known is not None:  # such a call has been bound to other arrays
            if type(known) is tuple:
                known = self._known[key] = self._template(*known)
            if known is not None:
                return self._on(known, arrays, slots)
        values = iter(arrays)
        args, kwargs = mapped(
            (call.args, call.kwargs), lambda x: next(values) if type(x) is Value else x
        )
        step = self.binder.bind(call.function, args, kwargs, arrays[-1], **how)
        if step is None:
            return None
        steps = self.binder.flat([step])
        if slots.count(None) < len(slots):
            template = self._template(steps, arrays)
            return template and self._on(template, arrays, slots)
        if key is not None and all(type(step) is partial for step in steps):
            self._known[key] = steps, arrays
        return steps

    def _template(self, steps, arrays):
        """The steps as triples of a function, its arguments, and which of the arrays they are.

        None if that is not known of all arguments.
        """
        places = {id(x): k for k, x in enumerate(arrays)}
        found = []
        for step in steps:
            if type(step) is not partial or step.keywords:
                return None
            at = [places.get(id(x)) for x in step.args]
            for x, k in zip(step.args, at, strict=True):
                if k is None and any(self.binder.shares_memory(x, array) for array in arrays):
                    return None
            found.append((step.func, step.args, at))
        return found

    def _on(self, template, arrays, slots):
        """The steps of a template on other arrays, or on registers where there are slots."""
        steps = []
        for function, args, at in template:
            args = [x if k is None else arrays[k] for x, k in zip(args, at, strict=True)]
            registers = [None if k is None else slots[k] for k in at]
            if registers.count(None) == len(at):
                steps.append(partial(function, *args))
            else:
                registers = [
                    self.slot(x) if slot is None else slot
                    for x, slot in zip(args, registers, strict=True)
                ]
                steps.append(on_registers(function, self.regs, registers))
        return steps

    def _stand_in(self, x):
        """An array that stands for a value, or None, and the value's register."""
        if x not in self._stand_ins:
            is_known = x.kind in ("array", "scalar") and x.strides is not None
            if not is_known or (x.call is not None and x.call.declared.aliases):
                return None, None  # its strides depend on values
            self._stand_ins[x] = self.binder.stand_in(x.shape, x.dtype, x.strides)
        return self._stand_ins[x], self.slot(x)

    def _operands(self, call, out):
        """The arrays and the registers of operands, and of the result, for `_bound`."""
        arrays, slots = [], []
        for x in (*call.operands(), out):
            array, at = self.static(x), None
            if array is None and x.kind == "number":
                array = self._weak_array(x, call)
            elif array is None:
                array, at = self._stand_in(x)
            if array is None:
                return None
            arrays.append(array)
            slots.append(at)
        return arrays, slots

    def _weak_array(self, x, call):
        """The 0-d array for a number that changes, as an operand of a ufunc; or None."""
        if x not in call.args or self.binder.ufunc_of(call.function) is None:
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

    # Calls

    def _bind_call(self, call):
        outs = call.outs
        if outs and all(out.base is not None and self.static(out) is not None for out in outs):
            return
        if call.writes:
            self._bind_write(call)
            return
        storage = self.plan.storage(outs[0]) if len(outs) == 1 and outs[0].base is None else None
        if storage is not None and storage.kind != "loose":
            target, operands = self.static(outs[0]), self._operands(call, outs[0])
            found = operands and self._bound(call, *operands, checked=call in self._checked_calls)
            if found and target is None:
                self._make(outs[0])
            if found or target is not None:
                self.steps += found or [self._into(call, target)]
                return
        compute = self.caller(call.function, call.args, call.kwargs)
        if not outs:
            self.steps.append(compute)
        else:
            self._put(compute, [*map(self.slot, outs)] if call.several else self.slot(outs[0]))

    def _into(self, call, target):
        """A step that calls the function as it is and has the result in memory that is given."""
        ufunc = self.binder.ufunc_of(call.function)
        if ufunc is not None and target.dtype.kind != "c":
            return self.caller(partial(ufunc, out=target), call.args, call.kwargs)
        compute = self.caller(call.function, call.args, call.kwargs)
        copy = self.binder.copy_into
        return _named(lambda: copy(target, compute()), compute)

    def _bind_write(self, call):
        """Bind a call that overwrites its first argument."""
        function, first = call.function, call.args[0]
        if function is not operator.setitem and type(first) is Value and self._can_bind(call):
            operands = self._operands(call, first)
            mine = [x for x in call.operands() if x.memory is first.memory]
            is_fixed = all(self.static(x) is not None for x in mine)
            if operands and is_fixed and (found := self._bound(call, *operands)):
                self.steps += found
                return
        step = self.caller(function, call.args, call.kwargs)
        if type(first) is tuple or call.name == "blend":
            step = partial(_done, step, call.name)
        self.steps.append(step)

    def _make(self, x):
        """Make new memory for a value in each run."""
        self._put(self.binder.maker(x.shape, x.dtype, x.strides), self.slot(x))

    # Groups

    def _bind_group(self, group):
        """Bind the calls of a group to each block in turn."""
        calls = self.plan.calls[group.start : group.stop]
        for call in calls:
            if call.is_view():
                self._bind_call(call)
            elif call.outs and self.plan.storage(call.outs[0]).kind == "fresh":
                self._make(call.outs[0])
        self._views = {}
        for bounds in group.slices():
            for call in calls:
                if not call.is_view():
                    self._bind_block(group, call, bounds)
        slots = [at for _, at in self._views.values() if at is not None]
        if slots:
            self.steps.append(partial(_clear, self.regs, slots))

    def _bind_block(self, group, call, bounds):
        out = call.outs[0] if call.outs else call.targets()[0]
        operands = self._operands(call, out)
        if operands is not None:
            for k, x in enumerate((*call.operands(), out)):
                axis = group.axis_of(x.shape) if x.kind == "array" else None
                if axis is not None:
                    operands[0][k], operands[1][k] = self._rows(group, x, axis, bounds)
            found = self._bound(call, *operands, whole=group.shape)
            if found:
                self.steps += found
                return
        self._whole.add(call)  # the program will have another plan

    def _rows(self, group, x, axis, bounds):
        """The rows of an operand in a block: an array, and the register for which it stands."""
        i, j = bounds
        if (x, i) not in self._views:
            array, at = self.static(x), None
            if array is None:
                array, at = self._stand_in(x)
            rows = slice(0, j - i) if x in group.inner else slice(i, j)
            rows = (*[slice(None)] * axis, rows)
            if at is not None:
                take = on_registers(operator.getitem, self.regs, [at, self.slot(rows)])
                at = self._new_slot()
                self._put(take, at)
            self._views[x, i] = array[rows], at
        return self._views[x, i]


def _layouts_of(call, arrays, how, array_type):
    """What decides how a call is bound to arrays; None if that is not known."""
    parts = [call.function, *how.values()]
    for x in (*call.args, *call.kwargs.values()) if call.kwargs else call.args:
        kind = type(x)
        if kind in (tuple, list, dict, slice) and values_in(x):
            return None
        parts += (kind,) if kind is Value else (kind, x.hex() if kind is float else x)
    for x in arrays:
        dtype = getattr(x, "dtype", None)
        if type(x) is not array_type or dtype.kind == "c":  # NumPy looks where these lie
            return None
        parts += x.shape, x.strides, dtype
    if len({*map(id, arrays)}) < len(arrays):
        parts += [k for k, x in enumerate(arrays) for y in arrays[:k] if x is y]
    key = tuple(parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def values_in(x):
    """The values in nested containers."""
    found: list = []
    collect(x, found)
    return found


def on_registers(function, regs, slots):
    """A function without arguments that calls ``function`` on what is in registers."""
    if len(slots) == 1:
        (a,) = slots
        return _named(lambda: function(regs[a]), function)
    if len(slots) == 2:
        a, b = slots
        return _named(lambda: function(regs[a], regs[b]), function)
    if len(slots) == 3:
        a, b, c = slots
        return _named(lambda: function(regs[a], regs[b], regs[c]), function)
    get = itemgetter(*slots)
    return _named(lambda: function(*get(regs)), function)


def _named(step, function):
    """The step, which says as a `partial` does what it calls."""
    step.func = function
    return step


def step_name(step):
    """The name of the function that a step calls, for an error."""
    while hasattr(step, "func"):
        named = [x for x in getattr(step, "args", ())[:2] if hasattr(x, "__name__")]
        step = (*named, step.func)[0]
    return name_of(step) if step is not None else "it"


def _done(step, name):
    if step() is None:
        raise RuntimeError(f"{name}: it cannot be repeated")


def _clear(regs, slots):
    for at in slots:
        regs[at] = None
