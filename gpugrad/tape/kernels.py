"""Kernels: generated C in the place of the steps of a program.

A program begins with steps that call NumPy. Once it has run twice, calls that follow each other
and that kernels can make become one kernel. A compiler makes it in the background, and when all
kernels are there, they take the place of the steps. The bits of the results are the same.
"""

from itertools import groupby

from .steps import values_in
from .tape import Value, mapped


class Lowering:
    """The calls of a program as operations of kernels.

    Arrays that calls make are stood for by arrays of the same layout in memory of their own, until
    it is known which calls share a kernel.

    operations: by call.
    """

    def __init__(self, program, native):
        self.program, self.native = program, native
        self.operations = {}
        self._arrays = {}  # by value
        self._standing = {}  # by the id of the array that owns the memory: the value
        self._outside = set()  # the ids of arrays that are there before and own memory

    # Calls

    def lower(self, call):
        """Whether a kernel can make the call; its operations are known then."""
        found = self._lowered(call)
        if found is not None:
            self.operations[call] = found
        elif call.declared.aliases:
            self._arrays[call.outs[0]] = None  # its layout depends on values
        return found is not None

    def _lowered(self, call):
        if not call.is_pure or (call.several and call.declared.steps is None):
            return None
        if call.is_view():
            return None if self.array(call.outs[0]) is None else []
        if call.writes:
            first = call.args[0]
            is_ufunc = self.program.binder.ufunc_of(call.function) is not None
            out = self.array(first) if is_ufunc and type(first) is Value else None
        else:
            outs = [self._stand_in(x) for x in call.outs]
            out = outs[0] if not call.several and outs[0] is not None and outs[0].size else None
            if call.several and not any(x is None for x in outs):
                out = outs
        if out is None:
            return None
        found: list = []
        if call.may_fail and call not in self.program._checked_calls:
            return None
        for step in self._steps(call, out) or (None,):
            some = step and self.native.operations(step)
            if some is None:
                return None
            found += some
        return found

    def _steps(self, call, out):
        """The calls of NumPy's functions that make a call; None if there are none."""
        program = self.program
        arrays = [self._operand(x, call) for x in call.operands()]
        if any(array is None for array in arrays):
            return None
        args, kwargs = _filled((call.args, call.kwargs), arrays)
        if call.declared.steps is not None:
            return call.declared.steps(*args, out=out, **kwargs)
        is_checked = call in program._checked_calls
        return program.binder.bind(call.function, args, kwargs, out, checked=is_checked)

    # Arrays

    def _operand(self, x, call):
        if x.kind != "number":
            return self.array(x)
        return (
            x.constant if x.constant is not None else self._known(self.program._weak_array(x, call))
        )

    def array(self, x):
        """The array of a value, or one that stands for it; None if its layout is not known."""
        if x not in self._arrays:
            self._arrays[x] = self._found(x)
        return self._arrays[x]

    def _found(self, x):
        if x.constant is not None:
            return x.constant if x.kind == "array" else None
        if x.base is not None:
            return self._view(x)
        find = self.program.tape.pinned.get(x) if x.call is None else None
        return self._stand_in(x) if find is None else self._known(find())

    def _known(self, array):
        if array is not None:
            self._outside.add(id(self.native.owner_of(array)))
        return array

    def _view(self, x):
        call = x.call
        values = values_in((call.args, call.kwargs))
        arrays = [self.array(y) if y.kind == "array" else self.program.static(y) for y in values]
        if any(array is None for array in arrays):
            return None
        args, kwargs = _filled((call.args, call.kwargs), arrays)
        result = call.function(*args, **kwargs)
        return result[call.outs.index(x)] if call.several else result

    def _stand_in(self, x):
        if x.kind != "array" or x.strides is None or x.dtype.char not in self.native.TYPES:
            return None
        if min(x.strides, default=0) < 0:  # kernels go up from the first element of a register
            return None
        self._arrays[x] = array = self.program.binder.stand_in(x.shape, x.dtype, x.strides)
        self._standing[id(self.native.owner_of(array))] = x
        return array

    # Kernels

    def kernel(self, calls, lasting):
        """A kernel of calls that follow each other, and the values that need new memory before it.

        lasting: the memory that other calls use afterwards. Returns None if there is nothing to do.
        """
        native = self.native
        operations = [x for call in calls for x in self.operations[call]]
        if not operations:
            return None
        owners = {}
        for operation in operations:
            for array in (*operation.inputs, operation.out):
                owner = native.owner_of(array)
                owners[id(owner)] = owner
        makers, roots, fresh = {*calls}, [], []
        for key, owner in owners.items():
            x = self._standing.get(key)
            root = native.Root.of(owner, "fixed")
            if x is not None:
                is_made = x.call in makers
                self._locate(x, root, is_made and x.memory not in lasting)
                fresh += [x] if is_made and root.kind == "register" else []
            elif key not in self._outside:
                continue  # made for the operations
            roots.append(root)
        name = "-".join(dict.fromkeys([call.name for call in calls if self.operations[call]]))
        return native.Kernel(operations, roots, name[:60]), fresh

    def _locate(self, x, root, is_private):
        """Say where the memory of a value, for which an array stands, really is."""
        program = self.program
        storage = program.plan.storage(x)
        if is_private:
            root.kind = "private"
        elif storage is not None and storage.kind == "planned":
            array, address_of = program.static(x), self.native.address_of
            root.place = address_of(array) - address_of(self._arrays[x]) + root.start
        else:
            root.kind, root.slot = "register", program.slot(x)


def _filled(x, arrays):
    """Nested containers with the arrays in place of the values, in their order."""
    arrays = iter(arrays)
    return mapped(x, lambda y: next(arrays) if type(y) is Value else y)


class Segment:
    """Steps, from ``first`` to ``stop``, for which there is a kernel.

    start, end: the numbers of its calls, which begin and end them.
    fresh: the values that it writes into new memory.
    views: the calls of views that others use.
    others: the numbers of the steps that are made after it, which clear registers.
    """

    def __init__(self, program, made, start, end, lasting):
        self.kernel, self.fresh = made
        self.start, self.end = start, end
        parts = program.parts[start:end]
        self.first, self.stop = parts[0][0], parts[-1][1]
        calls = program.plan.calls[start:end]
        self.views = [x for x in calls if x.is_view() and x.outs[0].memory in lasting]
        gone = {k for first, stop in parts for k in range(first, stop)}
        self.others = [k for k in range(self.first, self.stop) if k not in gone]


def segments(program, native):
    """The parts of a program for which kernels are made, in their order."""
    lowering, calls = Lowering(program, native), program.plan.calls
    is_lowered = [lowering.lower(call) for call in calls]
    last_use, found = _last_uses(program, lowering), []
    for can, numbers in groupby(range(len(calls)), is_lowered.__getitem__):
        start, *rest = numbers
        stop = start + len(rest) + 1
        lasting = {memory for memory, last in last_use.items() if last >= stop}
        made = lowering.kernel(calls[start:stop], lasting) if can else None
        if made is not None:
            found.append(Segment(program, made, start, stop, lasting))
    return found


def _last_uses(program, lowering):
    """By memory, the number of the last call that uses it."""
    calls, found = program.plan.calls, {}
    for i, call in enumerate(calls):
        # What a call of NumPy returns may be an operand; a kernel writes a copy.
        is_alias = call.declared.aliases and call not in lowering.operations
        for x in (*call.operands(), *call.outs):
            found[x.memory] = len(calls) if is_alias else max(i, found.get(x.memory, 0))
    return found | {x.memory: len(calls) for x in program.tape.leaving}


def steps_with(program, found):
    """All steps, with kernels in the place of those of their calls.

    Returns those before the first write and those from it on; None if a library is missing.
    """
    old, new, split = program.all_steps, [], None
    parts = {segment.first: segment for segment in found}
    i = 0
    while i <= len(old):
        segment = parts.get(i)
        stop = i + 1 if segment is None else segment.stop
        if split is None and program.first_write < stop:
            split = len(new)
        if segment is None:
            new += old[i:stop]
        else:
            step = segment.kernel.step(program.regs)
            if step is None:
                return None
            program.steps = new
            for x in segment.fresh:
                program._make(x)
            new.append(step)
            for call in segment.views:
                program._bind_call(call)
            new += [old[k] for k in segment.others]
        i = stop
    return new[:split], new[split:]
