"""Kernels: generated C functions that replace steps of a program on a CPU.

At first all steps of a program call NumPy. When the program has run twice, each sequence of calls
that a kernel can make becomes one kernel. A C compiler builds the kernels in the background. When
all are ready, they replace the steps; the results have the same bits.
"""

import operator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from .memory_plan import last_uses
from .steps import Steps, with_arrays
from .tape import Value


class Lowering(Steps):
    """Translates the calls of a program into operations of kernels.

    Until it is known which calls share a kernel, each array that a call makes is represented by a
    stand-in: an array of the same layout in memory of its own.

    operations: by call, its operations in a kernel.
    """

    def __init__(self, program, native):
        self.program, self.native = program, native
        self.tape, self.binder = program.tape, program.binder
        self.operations, self._checked_calls = {}, program._checked_calls
        self._static = {}  # by value, its array or stand-in, or None if its layout is not known
        self._represented = {}  # by the id of the array that owns a stand-in's memory, the value
        self._outside = set()  # the ids of other arrays that own memory

    # Calls

    def lower(self, call):
        """Find the operations of a call; returns whether a kernel can make the call."""
        found = self._lowered(call)
        if found is not None:
            self.operations[call] = found
        elif call.declared.aliases:
            self._static[call.outs[0]] = None  # its layout depends on values
        return found is not None

    def _lowered(self, call):
        """The operations of a call, none for a view; or None if a kernel cannot make it."""
        if not call.is_pure or (call.several and call.declared.steps is None):
            return None
        if call.is_view():
            return None if self.static(call.outs[0]) is None else []
        outs = call.targets() or call.outs
        arrays = [*map(self.static, outs)]
        pairs = zip(outs, arrays, strict=True)
        if any(out.kind != "unused" and (x is None or not x.size) for out, x in pairs):
            return None
        if call.may_fail and call not in self._checked_calls:
            return None
        steps, found = self._steps(call, outs, arrays), []
        for step in steps or ():
            if (operations := self.native.operations(step)) is None:
                return None
            found += operations
        return found if steps else None

    def _steps(self, call, outs, arrays):
        """The calls of NumPy's own functions to which a call comes down; None if not known."""
        if call.function is operator.setitem:
            return self._assignment(call, *arrays)
        if call.writes and self.binder.ufunc_of(call.function) is None:
            return None
        if call.declared.steps is None:
            return self._bound(call, *outs)
        operands = [self._operand(x, call, None) for x in call.operands()]
        if any(x is None for x in operands):
            return None
        args, kwargs = with_arrays(call, operands)
        return call.declared.steps(*args, out=arrays if call.several else arrays[0], **kwargs)

    def _assignment(self, call, array):
        """The step of ``array[...] = value``; None for other keys."""
        _, key, value = call.args
        x = self._operand(value, call, None) if type(value) is Value else value
        if key is not Ellipsis or x is None or getattr(x, "ndim", 0) > array.ndim:
            return None
        return [partial(self.binder.copy_into, array, x, "unsafe")]

    # Arrays

    def _operand(self, x, call, slots):
        if x.kind != "number" or x.constant is not None:
            return self.static(x)
        return self._from_outside(self.program._weak_array(x, call))

    def _made_static(self, x):
        if x.kind != "array" or x.constant is not None or x.base is not None:
            return super()._made_static(x)
        find = self.tape.pinned.get(x)
        return self._stand_in(x) if find is None else self._from_outside(find())

    def _from_outside(self, array):
        if array is not None:
            self._outside.add(id(self.native.owner(array)))
        return array

    def _stand_in(self, x):
        if x.strides is None or x.dtype.char not in self.native.TYPES:
            return None
        if min(x.strides, default=0) < 0:  # a kernel expects the lowest address in a register
            return None
        array = self.binder.stand_in(x.shape, x.dtype, x.strides)
        self._represented[id(self.native.owner(array))] = x
        return array

    # Kernels

    def kernel(self, calls, lasting):
        """A kernel that makes these calls, and the values that need new memory before it runs.

        lasting: the memory that is used after these calls.

        Returns None if all calls are views.
        """
        native = self.native
        operations = [x for call in calls for x in self.operations[call]]
        if not operations:
            return None
        owners = {}
        for operation in operations:
            for array in (*operation.inputs, operation.out):
                owner = native.owner(array)
                owners[id(owner)] = owner
        makers, roots, fresh = {*calls}, [], []
        for key, owner in owners.items():
            x = self._represented.get(key)
            root = native.Root(owner, "fixed")
            if x is not None:
                is_made = x.call in makers
                self._locate(x, root, is_made and x.memory not in lasting)
                fresh += [x] if is_made and root.kind == "register" else []
            elif key not in self._outside:
                continue  # `binder.bind` has made it for the operations
            roots.append(root)
        name = "-".join(dict.fromkeys([call.name for call in calls if self.operations[call]]))
        return native.Kernel(operations, roots, name[:60]), fresh

    def _locate(self, x, root, is_private):
        """Tell the kernel where the memory of a value with a stand-in really is."""
        program = self.program
        storage = program.plan.storage(x)
        if is_private:
            root.kind = "private"
        elif storage is not None and storage.kind == "planned":
            array, address_of = program.static(x), self.native.address_of
            root.place = address_of(array) - address_of(self.static(x)) + root.start
        else:
            root.kind, root.slot = "register", program.slot(x)


class Segment(NamedTuple):
    """Calls of a program, from position ``start`` to before ``end``, that a kernel makes.

    fresh: the values that the kernel writes into new memory.
    views: those of the calls that make views for calls outside; a program makes these as well.
    """

    kernel: Any
    fresh: list
    start: int
    end: int
    views: list


def segments(program, native):
    """The parts of a program for which there can be kernels, in their order."""
    lowering, calls = Lowering(program, native), program.plan.calls
    is_lowered = [lowering.lower(call) for call in calls]
    # The kernel of a call whose result may be its operand writes a copy.
    last_use, found = last_uses(calls, program.tape.leaving, copying=lowering.operations), []
    for can, numbers in groupby(range(len(calls)), is_lowered.__getitem__):
        start, *rest = numbers
        stop = start + len(rest) + 1
        lasting = {memory for memory, last in last_use.items() if last >= stop}
        made = lowering.kernel(calls[start:stop], lasting) if can else None
        if made is not None:
            views = [x for x in calls[start:stop] if x.is_view() and x.outs[0].memory in lasting]
            found.append(Segment(*made, start, stop, views))
    return found


def install(program, found):
    """Replace the steps of segments by their kernels, if the compiler has built all of them."""
    steps_of, first_write = [*program.steps_of], program.first_write
    for kernel, fresh, start, end, views in found:
        calls = [step for steps in program.steps_of[start:end] for step in steps]
        otherwise = partial(_in_context, program.context, calls)
        if (step := kernel.step(program.regs, otherwise)) is None:
            return
        steps = [*map(program.allocation, fresh), step]
        for call in views:
            steps += program.steps_for(call)
        steps_of[start:end] = [steps, *[[]] * (end - start - 1)]
        if start < first_write < end:
            first_write = start
    program.arrange(steps_of, first_write)
    # Kernels give no warnings.
    others = len(program.plan.calls) - sum(x.end - x.start for x in found)
    program.is_quiet = not (others or program.tape.generators)


def _in_context(context, steps):
    with context():
        for step in steps:
            step()
