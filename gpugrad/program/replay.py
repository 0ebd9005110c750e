"""A program: Python source made from a record, which repeats its calls and nothing else.

The function that is generated checks that all it was recorded with still holds, computes the
numbers, makes the array calls, and writes what the recorded function wrote. What never changes is
bound to its global names: functions, buffers, views of buffers, arrays of parameters. Where a
binding is out of date, or a condition is not fulfilled, it returns `MISS` and has done nothing.
Where values are at fault, such as labels that are out of range, it raises `Failed` and has done
nothing either, if it can: the function itself then raises the error, or handles it.
"""

import builtins
import operator
import re
import sys
import types
import warnings
import weakref
from contextlib import nullcontext
from functools import lru_cache, partial

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.graph import Node, next_order, writes
from ..nn.changes import changes
from .blocks import fits, groups, joined, sunk
from .guards import all_hold, layouts_hold, leaves_hold, rows_of, tensors_hold
from .memory import Memory, most_alive, narrowed
from .record import Call, Unsupported, Variable, name_of

MISS = object()

_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.pow: "**", operator.floordiv: "//", operator.mod: "%", operator.lt: "<",
    operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.ne: "!=",
}  # fmt: skip


class Failed(Exception):
    """Raised by a program for an error of one of its calls, before it has changed anything.

    It says which function raised which error, which is its cause. Programs do not give that error
    a name: before Python 3.13, looking at a frame's variables would close a circle of references
    from the error to the frame, and keep the arguments.
    """

    def __init__(self, source):
        self.__cause__ = error = sys.exception()
        at = error.__traceback__
        values = {**at.tb_frame.f_globals, **at.tb_frame.f_locals}
        names = re.findall(r"\w+(?=\()", source.splitlines()[at.tb_lineno - 1])
        called = [values[name] for name in names if name in values]
        name = name_of(getattr(called[0], "func", called[0])) if called else "it"  # func: a partial
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
    """A recorded function, ready to run.

    run: the generated function of the leaves of the arguments; returns the leaves of the result.
    derivative: what joins the results to the graph, or None.
    structures: those of the arguments and of the result.
    call_by_call: why its calls are not launched together; None if there is no library to do so.
    """

    derivative = None
    call_by_call = None

    def __init__(self, trace, structures):
        self.trace = trace
        self.structures = structures
        self.backend = trace.recording.backend
        self.planner = self.backend.planner
        lower = self.planner.lower if self.planner else lambda call: None
        self.calls = trace.calls
        self.calls, self.lowered = lowered(trace, lower)
        lasting = {x.root() for x in (*trace.outputs, *[final for _, final in trace.written])}
        other = narrowed(self.calls, self.lowered, lasting)
        self._plan(lasting)
        if other is not None:
            first = vars(self).copy()
            self.calls, self.lowered = other
            self._plan(lasting)
            if self.memory.total > 0.9 * first["memory"].total:
                vars(self).update(first)
        self._number_variables()
        self._write(self.writer(self))
        # As a sweep does, a program ignores NumPy's warnings about infinities and nan.
        self.context = self.backend.sweep_context or nullcontext
        self.arena = self.planner.arena(self.memory.total) if self.planner else None
        self.bind()

    def _plan(self, lasting):
        trace = self.trace
        self.groups = []
        if any(map(fits, self.calls, self.lowered)):
            self.calls, self.lowered = sunk(self.calls, self.lowered)
            self.calls, self.lowered = joined(self.calls, self.lowered)
            self.groups = groups(self.calls, self.lowered, lasting)
        # Before the calls that may raise errors are over, nothing is changed.
        may_fail = self.planner.may_fail if self.planner else lambda call: False
        fallible = [i for i, call in enumerate(self.calls) if may_fail(call)]
        self.safe_from = fallible[-1] + 1 if fallible else 0
        self.memory = Memory(
            self.calls, self.lowered, trace.outputs, trace.written, self.groups, self.safe_from
        )

    def _write(self, writer):
        self._writer = writer
        self.source = writer.write()
        self._code = _code_of(self.source)

    def _number_variables(self):
        for i, x in enumerate([x for call in self.calls for x in call.outs]):
            x.number = i

    @property
    def writer(self):
        """What writes the source, given the program."""
        return Writer

    def bind(self):
        """Bind the arrays that the holders have now."""
        self._bound = [(x, x.array) for x, _ in self.trace.pinned_tensors]
        self.run = types.FunctionType(self._code, self._writer.bindings(), "program")

    def may_follow(self):
        """Whether tensors have other arrays now, to which the program can be bound instead."""
        trace = self.trace
        backend = self.backend
        if all(x.array is array for x, array in self._bound):
            return False
        owners = {}
        for x, _ in self._bound:
            array, state = x.array, trace.parameters.get(id(x))
            if state is not None and state.array is not array:
                return False
            var = trace.var_of[id(x)]
            if (
                type(array) is not backend.array_types[0]
                or (array.shape, array.dtype) != (var.shape, var.dtype)
                or getattr(array, "strides", None) != var.strides
                or backend.device(array) != trace.devices.get(var, backend.device(array))
            ):
                return False
            if array.size and owners.setdefault(backend.buffer(array), array) is not array:
                return False
        return True

    @property
    def planned_bytes(self):
        return self.memory.total

    @property
    def least_bytes(self):
        """The largest sum of the sizes of planned values that are needed at one time."""
        return most_alive({s for s in self.memory.of.values() if s.kind == "planned"})


@lru_cache(64)
def _code_of(source):
    """The code of the function in a source, which is often that for other shapes too."""
    code = compile(source, "<gpugrad program>", "exec")
    return next(c for c in code.co_consts if isinstance(c, types.CodeType))


def lowered(trace, lower):
    """The calls of a trace and their lowered forms, or None for those that have none.

    Where a reduction returns a scalar that is only made an array, the array is written at once.
    """
    calls = list(trace.calls)
    forms = [lower(call) for call in calls]
    uses = {}
    for i, call in enumerate(calls):
        for x in call.operands():
            uses.setdefault(x, []).append(i)
    kept = {x for kind, x in trace.results if kind == "kept"}
    for i, call in enumerate(calls):
        if call is None:
            continue
        out = call.outs[0]
        if forms[i] is not None or out.kind != "scalar" or out in kept:
            continue
        users = uses.get(out, [])
        if len(users) != 1 or calls[users[0]].name != "asarray" or call.several:
            continue
        convert = calls[users[0]]
        if convert.outs[0].dtype != out.dtype:
            continue
        whole = Call(call.function, call.args, call.kwargs)
        whole.outs = convert.outs
        form = lower(whole)
        if form is not None:
            whole.outs[0].call = whole
            calls[i], forms[i] = whole, form
            calls[users[0]] = None
    pairs = [(c, f) for c, f in zip(calls, forms, strict=True) if c is not None]
    return [c for c, _ in pairs], [f for _, f in pairs]


class Writer:
    """Writes the source of a program, and makes the values of its global names."""

    def __init__(self, program):
        self.program = weakref.proxy(program)  # which holds this
        self.trace = program.trace
        self.memory = program.memory
        self.planner = program.planner
        self.lines = []
        self.indent = 1
        self.fixed = {}
        self.made = []  # names whose values are made when binding
        self._named = {}
        self._kept = []
        self.locals = {}
        self.statics = {}
        self.noted = False
        self.noted_at = None  # the number of the line
        self.keeps_states = False  # of random generators, in case of an error
        self.group = None
        self._checked = set()
        self._steps = []  # with fixed operands, which are not written yet
        self._weak_arrays = {}

    # Names

    def line(self, text):
        if self._steps:
            self._flush()
        self.lines.append("    " * self.indent + text)

    def name(self, value, stem="c"):
        """The global name of a value."""
        key = id(value)
        if key not in self._named:
            self._named[key] = f"{stem}{len(self._named)}"
            self.fixed[self._named[key]] = value
            self._kept.append(value)
        return self._named[key]

    def made_name(self, key, make, stem="v"):
        """A global name for what ``make()`` returns each time the program is bound."""
        if key not in self._named:
            self._named[key] = f"{stem}{len(self._named)}"
            self.made.append((self._named[key], make))
        return self._named[key]

    def bindings(self):
        self.statics.clear()
        names = dict(self.fixed)
        for name, make in self.made:
            names[name] = make()
        self.statics.clear()  # so that nothing but the program keeps its memory
        names["__builtins__"] = builtins  # imports by compiled code, such as CuPy's, need them
        return names

    # Values

    def is_static(self, x):
        """Whether the variable's value is the same object in each run."""
        if x.kind == "number":
            return False
        if x.value is not None:
            return True
        if x.base is not None:
            others = [y for y in x.call.operands() if y is not x.base]
            return self.is_static(x.base) and all(map(self.is_static, others))
        if x.call is None:
            return x in self.trace.pinned
        storage = self.memory.of.get(x)
        return storage is not None and storage.kind in ("planned", "state")

    def static(self, x):
        """That object."""
        if x.value is not None:
            return x.value
        if x not in self.statics:
            self.statics[x] = self._make_static(x)
        return self.statics[x]

    def _make_static(self, x):
        if x.base is not None:
            call = x.call
            args, kwargs = self._static_of(call.args), self._static_of(call.kwargs)
            result = call.function(*args, **kwargs)
            return result[call.outs.index(x)] if call.several else result
        if x.call is None:
            return self.trace.pinned[x]()
        storage = self.memory.of[x]
        if storage.kind == "state":
            first = storage.variable
            return self.static(first)
        shape, strides = x.shape, x.strides
        for group in self.program.groups:
            if x in group.inner:
                shape, strides = group.block_shape(), None
        return self.planner.place(self.program.arena, storage.offset, shape, x.dtype, strides)

    def _static_of(self, x):
        kind = type(x)
        if kind is Variable:
            return self.static(x)
        if kind is tuple or kind is list:
            return kind([self._static_of(item) for item in x])
        if kind is dict:
            return {name: self._static_of(item) for name, item in x.items()}
        return x

    def value(self, x):
        """The text of an operand, of any type."""
        kind = type(x)
        if kind is Variable:
            if x in self.locals:
                return self.locals[x]
            if self.is_static(x):
                return self.made_name(x, lambda: self.static(x))
            raise KeyError(f"{x!r} has no value")
        if kind is tuple:
            if self._is_fixed(x):
                return self.name(x)
            return f"({''.join(f'{self.value(item)}, ' for item in x)})"
        if kind is list:
            if self._is_fixed(x):
                return self.name(x)
            return f"[{', '.join(map(self.value, x))}]"
        if x is None or x is True or x is False or kind is int:
            return repr(x)
        return self.name(x)

    def _is_fixed(self, x):
        kind = type(x)
        if kind is Variable:
            return False
        if kind in (tuple, list):
            return all(map(self._is_fixed, x))
        if kind is dict:
            return all(map(self._is_fixed, x.values()))
        return True

    # The source

    def write(self):
        self.left = {}  # the names of outputs, in memory of their own
        self._given = set()
        self._taken = set()
        self.lines.append("def program(leaves):")
        self._guards()
        self._checks()
        self._numbers()
        self._protected()
        self._effects()
        self._results()
        return "\n".join(self.lines) + "\n"

    def unless(self, condition):
        self.line(f"if not ({condition}): return {self.name(MISS)}")

    def _guards(self):
        trace, name = self.trace, self.name
        if trace.is_recording is not None:
            self.unless(f"{name(thread)}.recording is {trace.is_recording}")
        for optimizer, _, _ in trace.skips:
            self.line(f"{name(optimizer)}._settle()")
        leaves = ", ".join(f"x{i}" for i in range(len(trace.leaves)))
        if leaves:
            self.line(f"{leaves}, = leaves")
        self.line("try:")
        self.indent += 1
        self._leaves()
        rows = rows_of(trace.reach.guards)
        tensors = self.made_name("tensors", self._tensors, "tensors")
        self.unless(f"{name(tensors_hold)}(*{tensors}) and {name(all_hold)}({name(rows)})")
        self._module_guards()
        for x, source in {**trace.floating, **trace.unread}.items():
            self.locals[x] = local = f"a{len(self.locals)}"
            self.line(f"{local} = {self._found(source)}")
        self._layouts()
        for x, other in trace.aliases:
            self.unless(f"{self._holder(x)}.array is {self._holder(other)}.array")
        for x, i in trace.bare.items():
            self.locals[x] = f"x{i}"
        self.indent -= 1
        errors = (AttributeError, KeyError, IndexError, TypeError, ValueError)
        self.line(f"except {name(errors)}:")
        self.line(f"    return {name(MISS)}")

    def _found(self, source):
        if source.kind == "argument":
            return f"x{source.holder}"
        if source.kind == "tensor":
            at = self.trace.argument_of.get(id(source.holder))
            return f"x{at}.array" if at is not None else f"{self.name(source.holder)}.array"
        at = self.trace.argument_of.get(id(source.holder))
        holder = f"x{at}" if at is not None else self.name(source.holder)
        return f"{holder}._grad.array"

    def _layouts(self):
        """Write the conditions on the arrays that are found anew in each run."""
        trace, name, backend = self.trace, self.name, self.program.backend
        found = {x: self.locals[x] for x in (*trace.floating, *trace.unread)}
        if not found:
            return
        rows = [(x.shape, x.dtype, None if x in trace.unread else x.strides) for x in found]
        kind = name(backend.array_types[0])
        self.unless(f"{name(layouts_hold)}(({', '.join(found.values())},), {kind}, {name(rows)})")
        if backend.several_devices or self.planner is None:
            for x, local in found.items():
                self.unless(f"{name(backend.device)}({local}) == {trace.devices.get(x)!r}")
        outside = [local for x, local in found.items() if x in trace.from_outside]
        if outside and trace.owners is not None:
            owners = self.made_name("owners", trace.owners, "owners")
            for local in outside:
                self.unless(f"not {name(trace.overlaps)}({local}, {owners})")

    def _leaves(self):
        """Write the conditions on the leaves of the arguments."""
        trace = self.trace
        tensors, statics = [], []
        changed = [x for x, *_ in (*trace.rebound, *trace.gradients)]
        sources = [first.source for first, _ in trace.written]
        changed += [s.holder for s in sources if s.kind in ("tensor", "grad")]
        apart = {id(x) for x in changed} - trace.argument_of.keys()
        for i, (kind, value) in enumerate(trace.leaves):
            if kind == "tensor":
                cls, node, grad = value
                tensors.append((i, cls, type(node), grad))
            elif kind == "static":
                statics.append((i, value))
            elif kind == "same":
                self.unless(f"x{i} is x{value}")
            elif kind == "state":
                self.unless(f"x{i} is {self.name(value)}")
        if tensors or statics:
            rows = f"{self.name(tensors)}, {self.name(statics)}, {self.name(apart)}"
            self.unless(f"{self.name(leaves_hold)}(leaves, {rows})")
        if len(tensors) > 1:  # they are different ones
            self.fixed |= {"len": len, "id": id}
            ids = ", ".join([f"id(x{i})" for i, *_ in tensors])
            self.unless(f"len({{{ids}}}) == {len(tensors)}")

    def _tensors(self):
        """The arguments of `tensors_hold`."""
        trace = self.trace
        pinned = {id(x): find for x, find in trace.pinned_tensors}
        leaves, bare, others = [], [], []
        for x, node, watch, grad in trace.tensors:
            find = pinned.get(id(x))
            array = None if find is None else find()
            if watch is not MISS and find is not None:
                (leaves if grad else bare).append((x, node, watch, array))
            else:
                leaf = None if watch is MISS else node
                others.append((x, node, leaf, watch, not grad, array))
        states = [(s, s.values, states[0]) for states in trace.alike for s in states]
        return leaves, bare, others, states

    def _slot(self, slot):
        if slot.kind == "class":
            return f"{self.name(slot.get)}()"
        container = self.name(slot.container)
        if slot.kind == "item":
            key = repr(slot.key) if type(slot.key) in (str, int) else self.name(slot.key)
            return f"{container}[{key}]"
        if slot.kind == "cell":
            return f"{container}.cell_contents"
        return f"{container}.{slot.key}"

    def _module_guards(self):
        guards = self.trace.reach.module_guards
        if not guards:
            return
        seen = self.name([changes.version])
        rows = self.name(rows_of(guards))
        self.line(
            f"if {seen}[0] != {self.name(changes)}.version and "
            f"not {self.name(_modules_hold)}({rows}, {seen}): return {self.name(MISS)}"
        )

    # Numbers

    def _numbers(self):
        trace, name = self.trace, self.name
        for optimizer, bools in trace.optimizers:
            o = name(optimizer)
            defaults = name(list(optimizer.defaults))
            for i in range(len(optimizer.param_groups)):
                group = name(optimizer.param_groups[i])
                h = f"h{name(optimizer)}_{i}"
                self.line(f"{h} = {name(_hyper)}({o}, {i}, {group}, {defaults})")
                checks = [f"{h}[{k}] is {value}" for k, value in bools[i]]
                self.unless(" and ".join([f"{h} is not None", *checks]))
        random = set(trace.keys)  # and what is computed from them
        for x in trace.numbers_needed:
            if x.call is not None and not random.isdisjoint(x.call.args):
                random.add(x)
            else:
                self._number(x)
        conditions = []
        for function, args, outcome in trace.recording.required:
            if not random.isdisjoint(args):
                raise Unsupported("what it does depends on a random key")
            args = [self._plain(x) for x in args]
            if function is operator.truth:
                conditions.append(args[0] if outcome else f"not {args[0]}")
            elif function is operator.eq:
                conditions.append(f"{'' if outcome else 'not '}{args[0]} == {args[1]}")
            elif function is type:
                self.fixed["type"] = type
                conditions.append(f"type({args[0]}) is {name(outcome)}")
            else:
                text = f"({args[0]} {_INFIX[function]} {args[1]})"
                conditions.append(text if outcome else f"not {text}")
        if conditions:
            self.unless(" and ".join(conditions))
        if trace.generators and self.program.safe_from and not self._communicates():
            self.keeps_states = True
            generators = name(trace.generators)
            self.line(f"states = [(g, g.get_state()) for g in {generators}]")
        for x in trace.keys:
            self.locals[x] = f"k{len(self.locals)}"
            self.line(f"{self.locals[x]} = {name(x.call.function)}()")
        for x in trace.numbers_needed:
            self._number(x)

    def _plain(self, x):
        return self.locals[x] if type(x) is Variable else self.name(x)

    def _number(self, x):
        if x in self.locals:
            return
        if x.source is not None:
            text = self._number_found(x.source.holder)
        else:
            args = [self._plain(y) for y in x.call.args]
            function = x.call.function
            if function in _INFIX:
                text = f"{args[0]} {_INFIX[function]} {args[1]}"
            else:
                text = f"{self.name(function)}({', '.join(args)})"
        self.locals[x] = f"n{len(self.locals)}"
        self.line(f"{self.locals[x]} = {text}")

    def _number_found(self, holder):
        kind, *rest = holder
        if kind == "hyper":
            optimizer, i, path = rest
            return f"h{self.name(optimizer)}_{i}" + "".join(f"[{k}]" for k in path)
        if kind == "step":
            return f"{self.name(rest[0][0])}.step"
        if kind == "numbers":
            return f"{self.name(rest[0][0])}.numbers[{rest[1]}]"
        if kind == "slot":
            return self._slot(rest[0])
        if kind == "leaf":
            return f"x{rest[0]}"
        if kind == "element":
            return f"{self.name(self.program.backend.to_list)}({self.value(rest[0])})"
        values, key, k = rest
        return f"{self.name(values)}[{key!r}][{k}]"

    # Arrays

    def _checks(self):
        """Write the checks of values that the program finds when it starts."""
        checks = [
            step
            for low in self.program.lowered
            for step in (low.steps if low is not None else ())
            if step[0] in self.planner.CHECKS and self._is_given(step[1])
        ]
        for call in self.program.calls:  # twins have functions that return their check
            if (check := getattr(call.function, "check", None)) is not None:
                step = check(*call.args, **call.kwargs)
                checks += [step] if self._is_given(step[1]) and step not in checks else []
        if checks:
            self._try(lambda: [self._check_values(step) for step in checks])

    def _check_values(self, step):
        for x in step[1]:
            if type(x) is Variable:
                self._view(x)
        self._step(step, None, ())

    def _view(self, x):
        """Write the calls that make a view of an argument."""
        if x.base is not None and x not in self.locals and not self.is_static(x):
            self._view(x.base)
            self._plain_call(x.call)

    def _is_given(self, args):
        return all(type(x) is not Variable or self._is_there(x) for x in args)

    def _is_there(self, x):
        """Whether the variable has its value, or can be seen, before any other call."""
        if x.base is None or self.is_static(x):
            return x.root().call is None
        return self._is_there(x.base) and all(y is x.base for y in x.call.operands())

    def _try(self, write):
        """Write lines that may raise an error, after which the function itself is called."""
        self.line("try:")
        self.indent += 1
        write()
        self.indent -= 1
        self.line(f"except {self.name(Exception)}: {self._raise_failed()}")

    def _raise_failed(self):
        failed = self.made_name("failed", lambda: partial(Failed, self.program.source), "failed")
        return f"raise {failed}()"

    def _protected(self):
        """Write the calls; if one fails before anything was written, the function is called."""
        first = len(self.lines)
        self._calls()
        stop = self.noted_at or len(self.lines)
        if stop > first and self._may_call_instead():
            self.lines[first:stop] = [
                "    try:",
                *["    " + line for line in self.lines[first:stop]],
                f"    except {self.name(Exception)}:",
                *(["        for g, s in states: g.set_state(s)"] if self.keeps_states else []),
                f"        {self._raise_failed()}",
            ]

    def _may_call_instead(self):
        """Whether the function can be called after an error of one of the first calls."""
        if self.trace.generators and not self.keeps_states:
            return False  # it would draw other random numbers
        # The other processes would not repeat what they have communicated.
        return not self._communicates()

    def _communicates(self):
        return any(call.communicates for call in self.program.calls)

    def _calls(self):
        pairs = list(zip(self.program.calls, self.program.lowered, strict=True))
        starts = {group.start: group for group in self.program.groups}
        is_free = False
        i = 0
        while i < len(pairs):
            if i >= self.program.safe_from and not is_free:
                self._free_gradients()
                is_free = True
            if i in starts:
                self._blocks(starts[i], pairs)
                i = starts[i].stop
            else:
                self._call(*pairs[i])
                i += 1

        if self._steps:
            self._flush()
        if not is_free:
            self._free_gradients()

    def _free_gradients(self):
        """Write that gradients that are replaced are freed first, as zero_grad does."""
        read = {id(s.holder) for s in self.trace.floating.values() if s.kind == "grad"}
        free = [self._holder(x) for x, _ in self.trace.gradients if id(x) not in read]
        if free:
            self.line(f"for x in {', '.join(free)},: x._grad = None")

    def _blocks(self, group, pairs):
        """Write the calls of a group as a loop over blocks."""
        self._flush()  # before its operands become those of blocks
        self.group = group
        self.body = []  # the lines of the loop
        self.each = []  # its names, with functions that make the list of a name's values
        bounds = group.slices()
        for call, low in pairs[group.start : group.stop]:
            self._call(call, low)
        names = [name for name, _ in self.each]
        makers = [make for _, make in self.each]

        def blocks():
            return list(zip(*[make(bounds) for make in makers], strict=True))

        if self.body:
            loop = self.made_name(("blocks", group.start), blocks, "blocks")
            self.line(f"for {', '.join(names)}, in {loop}:")
            self.lines += self.body
        self.group = None

    def _each(self, key, make):
        """The name, in the loop of a group, of what differs from block to block.

        make: a function of the list of blocks' bounds to a list with one value for each.
        """
        key = (self.group.start, key)
        if key not in self._named:
            self._named[key] = f"e{len(self._named)}"
            self.each.append((self._named[key], make))
        return self._named[key]

    def _rows(self, x, function=None):
        """The text of the rows of an operand in a block, or of ``function`` of them."""
        group = self.group
        shape = x.shape
        axis = group.axis_of(shape)
        if axis is None:
            if function is None:
                return self.value(x)
            if self.is_static(x):
                return self.made_name(("seen", x, function), lambda: function(self.static(x)))
            return f"{self.name(function)}({self.value(x)})"
        lead = (slice(None),) * axis
        function = function or _unchanged
        if x in group.inner:

            def parts(bounds):
                whole = self.static(x)
                return [function(whole[(*lead, slice(0, j - i))]) for i, j in bounds]

        elif self.is_static(x):

            def parts(bounds):
                whole = self.static(x)
                return [function(whole[(*lead, slice(i, j))]) for i, j in bounds]

        else:
            index = self._each(
                ("index", axis), lambda bounds: [(*lead, slice(i, j)) for i, j in bounds]
            )
            text = f"{self.value(x)}[{index}]"
            return text if function is _unchanged else f"{self.name(function)}({text})"
        return self._each((x, function), parts)

    def _call(self, call, low):
        outs = call.outs
        if all(
            out.base is not None and (self.is_static(out) or out in self.locals) for out in outs
        ):
            return
        if low is None:
            self._plain_call(call)
            return
        (out,) = outs
        storage = self.memory.of[out]
        if storage.kind == "fresh":
            self.locals[out] = local = f"t{out.number}"
            self.line(f"{local} = {self._empty(out)}")
        elif storage.kind == "state":
            self._note()
        group = self.group
        parts = []
        for shape, dtype in low.parts:
            parts.append(self._maker(shape if group is None else group.block_shape(), dtype))
        for step in low.steps:
            self._step(step, out, parts)

    def _empty(self, out):
        order = self.planner.is_in_order(out)
        if order:
            shape, dtype = self.name(out.shape), self.name(out.dtype)
            return f"{self.name(self.planner.empty_array)}({shape}, {dtype})"
        shape, dtype, strides = map(self.name, (out.shape, out.dtype, out.strides))
        return f"{self.name(self.planner.empty)}({shape}, {dtype}, {strides})"

    def _maker(self, shape, dtype):
        """A function that makes an array and then returns always that one."""
        made = []

        def make():
            if not made:
                made.append(self.planner.empty(shape, dtype, None))
            return made[0]

        return make

    def _step(self, step, out, parts):
        function, args = step
        if function in self.planner.CHECKS:
            if (function, args) in self._checked:
                return
            self._checked.add((function, args))
        if self.group is not None:
            texts = [self._operand(x, out, parts) for x in args]
            self.body.append(f"        {self.name(function)}({', '.join(texts)})")
        elif self.indent == 1 and all(self._is_fixed_operand(x, out) for x in args):
            self._steps.append((function, args, out, parts))
        else:
            texts = [self._operand(x, out, parts) for x in args]
            self.line(f"{self.name(function)}({', '.join(texts)})")

    def _flush(self):
        """Write the steps whose operands are the same in each run: a loop over a list."""
        steps, self._steps = self._steps, []
        if len(steps) < 3:
            for function, args, out, parts in steps:
                texts = [self._operand(x, out, parts) for x in args]
                self.line(f"{self.name(function)}({', '.join(texts)})")
            return

        def make():
            return [self._bound(*step) for step in steps]

        self.line(f"for f in {self.made_name(('steps', steps[0][2]), make, 'steps')}: f()")

    def _is_fixed_operand(self, x, out):
        planner = self.planner
        kind = type(x)
        if x is planner.OUT:
            return self.is_static(out)
        if kind is Variable:
            return x not in self.locals and self.is_static(x)
        if kind is planner.Keyword or kind is planner.Seen:
            return self._is_fixed_operand(x.of, out)
        if kind is planner.Weak:
            self._weak(x)
            return True
        return kind is planner.Part or self._is_fixed(x)

    def _bound(self, function, args, out, parts):
        """A function without arguments that makes a step."""
        last = args[-1]
        if type(last) is not self.planner.Keyword:
            return partial(function, *[self._object(x, out, parts) for x in args])
        keywords = {last.name: self._object(last.of, out, parts)}
        args = [self._object(x, out, parts) for x in args[:-1]]
        if len(args) == 2 and last.name == "out":  # a partial would merge its keywords each time
            return _with_out(function, *args, keywords["out"])
        return partial(function, *args, **keywords)

    def _object(self, x, out, parts):
        """The object that a fixed operand is."""
        planner = self.planner
        kind = type(x)
        if kind is Variable:
            return self.static(x)
        if x is planner.OUT:
            return self.static(out)
        if kind is planner.Part:
            return parts[x.number]()
        if kind is planner.Seen:
            return x.function(self._object(x.of, out, parts))
        if kind is planner.Weak:
            array = self._weak(x)
            return x.of if array is None else array
        return x

    def _operand(self, x, out, parts):
        planner = self.planner
        if x is planner.OUT:
            x = out
        kind = type(x)
        if kind is Variable and self.group is not None and x.kind == "array":
            return self._rows(x)
        if kind is planner.Part:
            make = parts[x.number]
            return self._part_rows(make) if self.group is not None else self._part(make)
        if kind is planner.Keyword:
            return f"{x.name}={self._operand(x.of, out, parts)}"
        if kind is planner.Seen:
            return self._seen(x, out, parts)
        if kind is planner.Weak:
            array = self._weak(x)
            return self.value(x.of) if array is None else self.name(array)
        return self.value(x)

    def _part(self, make):
        return self.made_name(("part", make), make)

    def _part_rows(self, make):
        lead = (slice(None),) * self.group.axis
        return self._each(
            ("part", make), lambda bounds: [make()[(*lead, slice(0, j - i))] for i, j in bounds]
        )

    def _seen(self, seen, out, parts):
        of = out if seen.of is self.planner.OUT else seen.of
        function = seen.function
        if type(of) is self.planner.Part:
            make = parts[of.number]
            return self.made_name(("seen", make, function), lambda: function(make()))
        if type(of) is Variable and self.group is not None:
            return self._rows(of, function)
        if type(of) is Variable and self.is_static(of):
            return self.made_name(("seen", of, function), lambda: function(self.static(of)))
        return f"{self.name(function)}({self.value(of)})"

    def _weak(self, weak):
        """The 0-d array for a number, which is written first if it is a variable.

        None for a number that the dtype cannot hold.
        """
        value, dtype = weak
        is_variable = type(value) is Variable
        key = weak if is_variable else (type(value), repr(value), dtype)
        if key not in self._weak_arrays:
            try:
                array = self.planner.scalar(0 if is_variable else value, dtype)
            except OverflowError:
                array = None
            self._weak_arrays[key] = array
            if is_variable:
                indent = "    " * self.indent
                self.lines.append(f"{indent}{self.name(array)}[()] = {self.locals[value]}")
        return self._weak_arrays[key]

    def _plain_call(self, call):
        args = [self.value(x) for x in call.args]
        args += [f"{key}={self.value(x)}" for key, x in (call.kwargs or {}).items()]
        text = f"{self.name(call.function)}({', '.join(args)})"
        if call.several:
            for out in call.outs:
                self.locals[out] = f"t{out.number}"
            self.line(f"{''.join(f'{self.locals[o]}, ' for o in call.outs)} = {text}")
            return
        (out,) = call.outs
        self.locals[out] = local = f"t{out.number}"
        self.line(f"{local} = {text}")

    # Effects and results

    def _note(self):
        if not self.noted:
            self.noted = True
            if self._steps:
                self._flush()
            self.noted_at = len(self.lines)
            places = self.made_name("places", self.trace.places, "places")
            self.line(f"{self.name(writes)}.note({places})")

    def _effects(self):
        trace, name = self.trace, self.name
        self._written()
        copied = self._copied_gradients()
        for x in trace.outputs:
            if x not in copied:
                self._leave(x)
        same_writes = {}
        for state, attribute, x in trace.number_writes:
            same_writes.setdefault((attribute, self._number_text(x)), []).append(state)
        for (attribute, text), states in same_writes.items():
            self.line(f"for x in {name(states)}: x.{attribute} = {text}")
        for optimizer, skip, counts in trace.skips:
            before = [
                f"({name(state)}, {self._plain(step.var)}, "
                f"{self._number_text(tuple([x.var for x in values]))})"
                for state, step, values in counts
            ]
            is_skipped = f"{name(self.program.backend.read_later)}({self.left[skip]})"
            self.line(f"{name(optimizer)}._unknown = {is_skipped}, [{', '.join(before)}]")
        for x, where, final in trace.rebound:
            self.line(f"{self._holder(x)}{where}.array = {self._fresh_name(final)}")
        if copied:
            rows = [(x, final) for x, final in trace.gradients if final in copied]
            text = self.made_name("grads", lambda: [(x, self._copier(final)) for x, final in rows])
            self.line(f"{name(_copy_gradients)}({text})")
        new = [
            (self._holder(x), final)
            for x, final in trace.gradients
            if final is not None and final not in copied
        ]
        if new:
            pairs = ", ".join([f"({holder}, {self._fresh_name(final)})" for holder, final in new])
            self.line(f"{name(_give_gradients)}(({pairs},))")
        for x, final in trace.gradients:
            if final is None:
                self.line(f"{self._holder(x)}._grad = None")
        for slot, value in trace.changed:
            self.line(f"{name(slot)}.set({self.value(value)})")
        if trace.changed:
            self.line(f"{name(changes)}.version += 1")
        for function, args, kwargs in trace.recording.afterwards:
            self.line(f"{name(function)}(*{name(args)}, **{name(kwargs)})")

    def _copied_gradients(self):
        """The gradients of tensors that are no arguments and lie in the program's own memory."""
        trace = self.trace
        others = {x for _, _, x in trace.rebound} | {x for _, x, _ in trace.skips}
        for kind, value in trace.results:
            if kind in ("array", "live", "kept", "tensor"):
                others.add(value[1] if kind == "tensor" else value)
        storage_of = self.memory.of.get
        return {
            x: None
            for holder, x in trace.gradients
            if x is not None
            and x not in others
            and id(holder) not in trace.argument_of
            and (storage := storage_of(x)) is not None
            and storage.kind == "planned"
        }

    def _copier(self, x):
        """A function without arguments that copies what ``x`` is in each run."""
        copy = self.static(x).copy
        return copy if self.planner.is_in_order(x) else partial(copy, "K")

    def _holder(self, x):
        at = self.trace.argument_of.get(id(x))
        return self.name(x) if at is None else f"x{at}"

    def _number_text(self, x):
        if isinstance(x, tuple):
            return f"({''.join(f'{self._plain(y)}, ' for y in x)})"
        return self._plain(x)

    def _written(self):
        """Copy what is to be written and does not lie in its place yet."""
        copies = []
        for first, final in self.trace.written:
            storage = self.memory.of.get(final)
            if storage is not None and storage is self.memory.of[first]:
                continue
            text = self.value(final)
            root = self.memory.of.get(final.root())
            if (root is not None and root.kind == "state") or final.root().call is None:
                self.line(f"w{len(copies)} = {self.name(self.trace.duplicate)}({text})")
                text = f"w{len(copies)}"
            copies.append((first, text))
        if copies:
            self._note()
        for first, text in copies:
            self.line(f"{self.value(first)}[...] = {text}")
        if self.noted:
            places = self.made_name("places", self.trace.places, "places")
            self.line(f"{self.name(writes)}.note({places})")

    def _leave(self, x):
        """Give an output memory of its own."""
        if x in self.left:
            return
        text = self.value(x)
        root = x.root()
        storage = self.memory.of.get(root)
        is_own = (
            storage is not None
            and storage.kind in ("fresh", "loose")
            and root.call is not None
            and not root.call.may_alias
            and root not in self._given
        )
        if is_own:
            self._given.add(root)
            self.left[x] = text
        else:
            self.left[x] = f"o{len(self.left)}"
            if self.planner is not None and x.kind == "array" and self.is_static(x):
                copy = self.made_name(("copy", x), lambda: self._copier(x))
                self.line(f"{self.left[x]} = {copy}()")
            else:
                self.line(f"{self.left[x]} = {self.name(self.trace.duplicate)}({text})")

    def _results(self):
        parts = []
        twice = {}
        for kind, value in self.trace.results:
            if kind == "static":
                parts.append(
                    self.value(value) if not isinstance(value, float) else self.name(value)
                )
            elif kind == "number":
                parts.append(self._plain(value))
            elif kind in ("array", "live", "kept"):
                parts.append(self.left[value] if value in self.left else self.value(value))
            elif kind == "same":
                parts.append(self._holder(value))
            else:
                number, x, node = value
                if number not in twice:
                    local = twice[number] = f"r{len(twice)}"
                    self.line(f"{local} = {self.name(Tensor)}()")
                    self.line(f"{local}.array = {self._fresh_name(x)}")
                    if node is None:
                        self.line(f"{local}.node = None")
                    else:
                        self.line(f"{local}.node = {self.name(node)}()")
                parts.append(twice[number])
        self.line(f"return [{', '.join(parts)}]")

    def _fresh_name(self, x):
        """The output ``x``; each use but the first is a copy."""
        if x not in self._taken:
            self._taken.add(x)
            return self.left[x]
        return f"{self.name(self.trace.duplicate)}({self.left[x]})"


def _hyper(optimizer, i, group, names):
    """The hyper-parameters of a group, as its optimizer passes them on.

    None if the optimizer makes the state of parameters anew, as after a rate of 0.
    """
    if [*map(group.__getitem__, names)] != optimizer._hyper[i]:
        made = optimizer._states_made
        optimizer._change_hyper(i, group)
        if optimizer._states_made != made:
            return None
    return optimizer._hyper[i]


def _modules_hold(rows, seen):
    """Whether the guards of modules hold, some of which have changed since ``seen[0]``."""
    now = changes.version
    if not all_hold(rows):
        return False
    seen[0] = now
    return True


def _give_gradients(pairs):
    for x, array in pairs:
        x._grad = grad = Tensor()
        grad.array = array
        grad.node = grad._grad = None


def _copy_gradients(pairs):
    for x, copy in pairs:
        x._grad = grad = Tensor()
        grad.array = copy()
        grad.node = grad._grad = None


def _with_out(function, x, y, out):
    def call():
        return function(x, y, out=out)

    call.func = function  # as a partial has it
    return call


def _unchanged(x):
    return x


def spent(plan, shape, dtype):
    """A function that makes the node of a result whose graph backward has freed."""

    def make():
        node = Node()
        node.order = next_order()
        node.plan = plan
        node.parents = ()
        node.saved = None
        node.shape = shape
        node.dtype = dtype
        node.watch = None
        return node

    return make
