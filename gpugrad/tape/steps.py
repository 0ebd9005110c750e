"""Steps: the calls of a program as functions without arguments, which a run calls in order.

Functions, planned memory and its views, and the arrays of parameters never change, so steps are
bound to them once. Arrays that differ from run to run are in registers. To bind a call to such an
array, a stand-in of the same shape, dtype and strides takes its place: so the choices that depend
on these are made once. Then each step that uses the stand-in reads the register instead.
"""

import operator
from functools import partial
from operator import itemgetter

from .tape import Value, replaced, values_in

_FIXED = ("number", "scalar", "array")  # kinds of values that may be the same in all runs


class Steps:
    """The part of `Program` that makes steps.

    regs: the registers; the leaves of the arguments come first.
    blank: what the registers hold between runs: the objects that never change, the numbers that
        follow from hyper-parameters alone, and otherwise None.
    weak: lists of a 0-d array, which replaces a changing number in steps, its register, and the
        number that the array has now; first those of numbers that follow from hyper-parameters.
    """

    def _reset(self, n_leaves):
        self.regs, self.blank = [None] * n_leaves, [None] * n_leaves
        self.weak, self._slots, self._weak_of = ([], []), {}, {}
        self._drop_stand_ins()

    def _drop_stand_ins(self):
        """Drop the arrays that only served to make steps."""
        self._static, self._stand_ins = {}, {}

    # Registers, and objects that never change

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
        """The object that a value is in all runs; None if it may differ."""
        if x not in self._static:
            self._static[x] = self._made_static(x) if x.kind in _FIXED else None
        return self._static[x]

    def _made_static(self, x):
        if x.constant is not None or x.kind != "array":
            return x.constant
        if x.base is not None:
            return self._made_view(x, x.call)
        if x.call is None:
            find = self.tape.pinned.get(x)
            return None if find is None else find()
        storage = self.plan.storage(x)
        if storage is None or storage.kind != "planned":
            return None
        return self.binder.place(self.arena, storage.offset, x.shape, x.dtype, x.strides)

    def _made_view(self, x, call):
        if any(self.static(y) is None for y in call.operands()):
            return None
        result = self.caller(call.function, call.args, call.kwargs)()
        return result[call.outs.index(x)] if call.several else result

    def _is_fixed(self, x):
        """Whether all values in nested containers are the same objects in all runs."""
        return all(self.static(y) is not None for y in values_in(x))

    def _filled(self, x):
        return replaced(x, self.static)

    # Functions that read registers

    def maker(self, x):
        """A function of the registers that returns nested containers with objects for values."""
        if type(x) is Value:
            return itemgetter(self.slot(x))
        if self._is_fixed(x):
            fixed = self._filled(x)
            return lambda regs: fixed
        if type(x) is tuple and all(type(y) is Value for y in x):
            return items_at([*map(self.slot, x)])
        if type(x) is dict:
            named = {name: self.maker(item) for name, item in x.items()}
            return lambda regs: {name: make(regs) for name, make in named.items()}
        kind, makers = type(x), [self.maker(item) for item in x]
        return lambda regs: kind([make(regs) for make in makers])

    def caller(self, function, args, kwargs=None):
        """A function without arguments that calls ``function`` on the objects of these values."""
        if kwargs and self._is_fixed(kwargs):
            function, kwargs = partial(function, **self._filled(kwargs)), None
        if not kwargs and self._is_fixed(args):
            return partial(function, *self._filled(args))
        if not kwargs and all(type(x) is Value or self._is_fixed(x) for x in args):
            fixed = [x if type(x) is Value else self._filled(x) for x in args]
            return on_registers(function, self.regs, [self.slot(x) for x in fixed])
        regs, get, named = self.regs, self.maker(args), self.maker(kwargs or {})
        return lambda: function(*get(regs), **named(regs))

    def _put(self, call, slots):
        """A step that puts what ``call()`` returns into a register, or into several."""
        regs = self.regs

        def put():
            regs[slots] = call()

        def put_several():
            for at, result in zip(slots, call(), strict=True):
                regs[at] = result

        return put if type(slots) is int else put_several

    # Binding to memory

    def _bound(self, call, out):
        """Steps that make a call into the memory of ``out``; None if that is impossible."""
        slots: dict = {}
        arrays = [self._operand(x, call, slots) for x in (*call.operands(), out)]
        if any(array is None for array in arrays):
            return None
        args, kwargs = with_arrays(call, arrays)
        is_checked = call in self._checked_calls
        steps = self.binder.bind(call.function, args, kwargs, arrays[-1], checked=is_checked)
        return self._with_registers(steps, slots) if slots and steps else steps

    def _with_registers(self, steps, slots):
        """The steps, reading registers in place of stand-ins; None if that is impossible.

        slots: by the id of a stand-in, a pair of it and its register.
        """
        found = []
        for step in steps:
            if type(step) is not partial or step.keywords:
                return None
            at = [slots[id(x)][1] if id(x) in slots else None for x in step.args]
            for x, k in zip(step.args, at, strict=True):
                if k is None and any(self.binder.shares_memory(x, y) for y, _ in slots.values()):
                    return None
            if at.count(None) < len(at):
                at = [self.slot(x) if k is None else k for x, k in zip(step.args, at, strict=True)]
                step = on_registers(step.func, self.regs, at)
            found.append(step)
        return found

    def _operand(self, x, call, slots):
        """An array for a value; None if there can be none.

        A changing number that is an operand of a ufunc gets a 0-d array, which each run fills.

        slots: gets the pair of a stand-in and its register, by the id of the stand-in.
        """
        if (array := self.static(x)) is not None:
            return array
        if x.kind == "number":
            return self._weak_array(x, call)
        if x not in self._stand_ins:
            if x.kind not in ("array", "scalar") or x.strides is None or x.is_alias:
                return None  # the strides of its array depend on values
            self._stand_ins[x] = self.binder.stand_in(x.shape, x.dtype, x.strides)
        slots[id(self._stand_ins[x])] = self._stand_ins[x], self.slot(x)
        return self._stand_ins[x]

    def _weak_array(self, x, call):
        """A 0-d array in place of a changing number, of the dtype of the call's arrays; or None."""
        dtypes = {y.dtype for y in call.args if type(y) is Value and y.kind == "array"}
        if x not in call.args or len(dtypes) != 1 or self.binder.ufunc_of(call.function) is None:
            return None
        if x in self.tape.random:
            return None  # it is computed later than ``weak`` is filled
        key = x, *dtypes
        if key not in self._weak_of:
            self._weak_of[key] = array = self.binder.scalar(*dtypes)
            if array is not None:
                self.weak[x in self._varying].append([array, self.slot(x), None])
        return self._weak_of[key]

    # Calls

    def steps_for(self, call):
        """The steps of a call."""
        outs = call.outs
        if outs and all(out.base is not None and self.static(out) is not None for out in outs):
            return []
        storage = self.plan.storage(outs[0]) if len(outs) == 1 and outs[0].base is None else None
        found = None
        if call.writes:
            found = self._bound_write(call)
        elif storage is not None and storage.kind != "value":
            target = self.static(outs[0])
            found = self._bound(call, outs[0])
            if target is not None:
                found = found or [self._into(call, target)]
            elif found is not None:
                found = [self.allocation(outs[0]), *found]
        if found is not None:
            return found
        compute = self.caller(call.function, call.args, call.kwargs)
        if call.writes and type(call.args[0]) is tuple:
            compute = partial(_checked, compute, call.name)
        if not outs:
            return [compute]
        slots = [*map(self.slot, outs)] if call.several else self.slot(outs[0])
        return [self._put(compute, slots)]

    def _into(self, call, target):
        """A step that calls the function as it is, and copies the result into ``target``."""
        compute, copy = self.caller(call.function, call.args, call.kwargs), self.binder.copy_into
        return lambda: copy(target, compute())

    def _bound_write(self, call):
        """The steps of a call that overwrites its first argument; None if it cannot be bound."""
        first = call.args[0]
        if call.function is operator.setitem or type(first) is not Value:
            return None
        mine = [x for x in call.operands() if x.memory is first.memory]
        is_fixed = all(self.static(x) is not None for x in mine)
        return self._bound(call, first) if is_fixed and self._can_bind(call) else None

    def allocation(self, x):
        """A step that makes a new array for a value."""
        return self._put(self.binder.maker(x.shape, x.dtype, x.strides), self.slot(x))


def with_arrays(call, arrays):
    """The arguments and keyword arguments of a call, with these arrays in place of its operands."""
    arrays = iter(arrays)
    return replaced((call.args, call.kwargs), lambda _: next(arrays))


def items_at(places):
    """A function that returns the items of a list at these places as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda items, i=places[0]: (items[i],)) if places else (lambda items: ())


def on_registers(function, regs, slots):
    """A function without arguments that calls ``function`` on the contents of registers."""
    if len(slots) == 1:
        (a,) = slots
        return lambda: function(regs[a])
    get = itemgetter(*slots)
    return lambda: function(*get(regs))


def _checked(step, name):
    """Make a call of `updates`, which returns None if it could not change the arrays."""
    if step() is None:
        raise RuntimeError(f"{name}: it cannot be repeated")
