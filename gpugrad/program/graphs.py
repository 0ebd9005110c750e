"""Programs on a CUDA device: all array calls are one CUDA graph.

The calls run once while their work is captured. From then on, a call of the program stores what may
have changed where the captured kernels read it, and launches the graph: numbers, and the addresses
of the arguments and of new arrays for the results. The graph begins by copying the arguments into
memory of the program's own, and ends by copying the results out, for they are the caller's.
Parameters and other state are read and written where they lie; if they come to lie elsewhere, the
program is bound, and captured, anew.

Where something cannot be captured, a program repeats its calls one by one.
"""

import threading
from contextlib import nullcontext
from functools import partial

from ..autograd.graph import writes
from ..backends import namespace_of
from .draws import Draw
from .record import Unsupported, Variable, collect, mapped
from .replay import Program, Writer
from .updates import Step

# Calls that take a number as they take an array with this number in the other operands' dtype.
_ELEMENTWISE = {
    "add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne",
    "iadd", "isub", "imul", "itruediv", "ipow", "assigned",
    "subtract", "multiply", "divide", "maximum", "minimum", "where",
}  # fmt: skip


class CannotCaptureError(Exception):
    """Raised where a call cannot be part of a graph."""


def program_of(trace, structures):
    """The program of a trace; one that is captured, where its array library can."""
    if trace.recording.backend.graphs is None:
        return Program(trace, structures)
    return GraphProgram(trace, structures)


class GraphProgram(Program):
    """A program whose array calls are one graph, unless ``call_by_call`` says why they are not."""

    def __init__(self, trace, structures):
        self.graphs = trace.recording.backend.graphs
        self._launching = threading.Lock()  # backward passes may come from several threads
        devices = _devices(trace)
        if len(devices) > 1:
            raise Unsupported("its arrays are on several devices")
        scope = partial(self.graphs.scope, *devices) if devices else nullcontext
        with scope():
            super().__init__(trace, structures)
        self.context = scope

    @property
    def writer(self):
        try:
            self.plan = _Plan(self)
        except CannotCaptureError as error:
            self.call_by_call = str(error)
        return Writer if self.call_by_call else _GraphWriter

    def bind(self):
        if self.call_by_call is None:
            self.captured = None  # what is captured now may use its memory
            try:
                self.captured = _Captured(self)
            except Exception as error:  # noqa: BLE001  whatever cannot be captured raises
                self.call_by_call = str(error)
                self._write(Writer(self))
            self.graphs.free_memory()
        super().bind()

    def launch(self, inputs, numbers):
        """The outputs of a call, given the arrays of the plan's inputs and its numbers."""
        with self._launching:
            if not self.captured.graph.is_current():
                self.captured = _Captured(self)
            return self.captured.launch(inputs, numbers)


class _Plan:
    """How the calls of a program are captured.

    calls: for each call a function, its arguments and keyword arguments, in which places stand for
        the numbers that change, and what overwrites the first argument, or None.
    numbers: pairs of a place and what is stored there: the variable of a number, that of a random
        key or a pair of variables with its words, or a `Draw`.
    inputs: the variables of arrays that each call of the program finds anew.
    arrays: those that they are copied into.
    addresses: the place of their addresses and, after them, of those of the outputs.
    """

    def __init__(self, program):
        trace, self.graphs = program.trace, program.graphs
        if trace.bare:
            raise CannotCaptureError("it uses a scalar of the library")
        if any(call.communicates for call in program.calls):
            raise CannotCaptureError("it communicates with other processes")
        self._is_floating = program.backend.is_floating
        self._known = {}
        self._constants = []
        self.numbers = []
        self.memory = self.graphs.Numbers()
        self.calls = [self._call(call) for call in program.calls]
        self.inputs = list(trace.floating)
        self.addresses = self.memory.place("u8", (len(self.inputs) + len(trace.outputs),))
        self.memory.allocate()
        self.arrays = [self._array(x, trace.example(x)) for x in self.inputs]
        self.hosts = [place.host for place, _ in self.numbers]
        for place, value in self._constants:
            place.host[()] = value

    def _array(self, x, example):
        """An array for an input, at first with the values of an example."""
        make = self.graphs.maker(x.shape, x.dtype, x.strides)
        if make is None:
            raise CannotCaptureError("it is called with an array that does not fill its memory")
        array = make()
        array[...] = 0 if example is None else example  # as an index, 0 is always valid
        return array

    def _call(self, call):
        function, args, kwargs = call.function, call.args, dict(call.kwargs or {})
        if type(function) is Draw:
            return function.by_key, (self._key(function), args), {}, None
        keys = [x for x in call.operands() if x.call is not None and not x.call.is_pure]
        keys = {x: self._key(x) for x in keys if x.kind == "number"}
        args, kwargs = mapped(args, keys), mapped(kwargs, keys)
        if _has_number(kwargs.get("key")):
            kwargs["key"] = self._key(kwargs["key"])
        if type(function) is Step:
            arrays, grads, numbers = args
            args = arrays, grads, self._struct(function, numbers)
        elif call.name in _ELEMENTWISE:
            args = tuple([self._cell(x, call) if _has_number(x) else x for x in args])
        if _has_number((*args, *kwargs.values())):
            raise CannotCaptureError(f"{call.name} takes a number that may change")
        return function, args, kwargs, getattr(function, "write", None)

    def _key(self, key):
        """A random key that kernels read from memory."""
        known = key if type(key) is Draw else ("key", key)
        if known not in self._known:
            place = self.memory.place("u8", (2,))
            self.numbers.append((place, key))
            self._known[known] = self.graphs.DeviceKey(place)
        return self._known[known]

    def _struct(self, step, numbers):
        """An array of the numbers of an optimizer's kernel."""
        place, items = self.memory.array(step.updater.computed, len(numbers))
        for item, x in zip(items, numbers, strict=True):
            (self.numbers if type(x) is Variable else self._constants).append((item, x))
        return place

    def _cell(self, x, call):
        """A 0-d array for a number, in the dtype that it has beside the call's arrays."""
        operands = [y for y in call.args if type(y) is Variable and y.kind == "array"]
        dtypes = {y.dtype for y in operands if self._is_floating(y.dtype)}
        out = call.outs[0].dtype
        if len(dtypes) != 1 or not (out in dtypes or str(out) == "bool"):
            raise CannotCaptureError(f"{call.name} takes a number that may change, and integers")
        known = x, *dtypes
        if known not in self._known:
            place = self._known[known] = self.memory.place(*dtypes)
            self.numbers.append((place, x))
        return self._known[known]


def _devices(trace):
    """The devices of all arrays that a program uses, where there are several."""
    backend = trace.recording.backend
    if not backend.several_devices:
        return set()
    used = [trace.devices[x] for x in (*trace.floating, *trace.pinned)]
    constants = [x.value for call in trace.calls for x in call.operands()]
    constants = [backend.device(x) for x in constants if type(x) in namespace_of]
    return trace.recording.devices.union(used, constants) - {None}


def _has_number(x):
    found: list = []
    collect(x, found)
    return any(y.kind == "number" for y in found)


class _Captured:
    """The graph of a program for the arrays that its state has now, ready to be launched."""

    def __init__(self, program):
        trace, plan = program.trace, program.plan
        graphs = self._graphs = program.graphs
        self._plan = plan
        sources = dict(zip(plan.inputs, plan.arrays, strict=True))
        sources |= {x: find() for x, find in trace.pinned.items()}
        written = [first for first, _ in trace.written]
        back = [k for k, x in enumerate(plan.inputs) if x in written]  # to be copied back
        slots = [*range(len(plan.inputs), plan.addresses.shape[0]), *back]

        def copy(arrays, slots, outward):
            graphs.copy_arrays(arrays, plan.addresses.device_array, slots, outward=outward)

        def work(sources=sources):
            copy(plan.arrays, range(len(plan.arrays)), False)
            outputs = _run(program, sources)
            copy([*outputs, *[plan.arrays[k] for k in back]], slots, True)
            return outputs

        def warm_up():
            copies = {x: trace.duplicate(sources[x]) for x in written if x in trace.pinned}
            plan.addresses.host[...] = 0  # nothing is copied
            plan.memory.send()
            work({**sources, **copies})

        self.graph = graphs.Graph(work, warm_up)
        outputs = self.graph.kept
        self._makers = [graphs.maker(x.shape, x.dtype, x.strides) for x in outputs]
        if None in self._makers:
            raise CannotCaptureError("an output does not fill its memory")
        self._sources = sources  # what the graph reads and writes

    def launch(self, inputs, numbers):
        plan = self._plan
        for host, value in zip(plan.hosts, numbers, strict=True):
            host[...] = value
        outputs = [make() for make in self._makers]
        plan.addresses.host[...] = self._graphs.addresses((*inputs, *outputs))
        self.graph.follow()
        plan.memory.send()
        self.graph.launch()
        return outputs


def _run(program, sources):
    """Make the calls of a program, and write what it writes; returns the outputs.

    sources: the arrays of the variables that no call computes. A call that overwrites an array does
        so in place if nothing needs the old values.
    """
    trace, calls = program.trace, program.calls
    duplicate, buffer = trace.duplicate, program.backend.buffer
    last = {}
    for i, call in enumerate(calls):
        for x in (*call.operands(), *call.outs):
            last[x] = last[x.root()] = i
    for x in (*trace.outputs, *[final for _, final in trace.written]):
        last[x] = last[x.root()] = len(calls)
    values = dict(sources)
    in_place = {first: first for first, _ in trace.written}  # whose values these arrays have
    own = {x for x in trace.floating if x not in in_place}  # whose memory nothing else uses

    def value(x):
        return x.value if x.value is not None else values[x]

    def may_overwrite(x, i, operands):
        is_alone = [y.root() for y in operands].count(x.root()) == 1
        return last[x.root()] == i and is_alone and (x in own or x in in_place.values())

    for i, (call, planned) in enumerate(zip(calls, program.plan.calls, strict=True)):
        function, args, kwargs, write = planned
        operands = call.operands()
        args, kwargs = _with_values(args, value), _with_values(kwargs, value)
        if write is None:
            results = _called(call, function, args, kwargs)
            results = list(results) if call.several else [results]
            used = {buffer(value(x)) for x in operands if x.kind == "array"}
            for out, result in zip(call.outs, results, strict=True):
                values[out] = result
                if result is not None and result.base is None and buffer(result) not in used:
                    own.add(out)
        else:
            together = type(call.args[0]) is tuple
            firsts = call.args[0] if together else call.args[:1]
            arrays = []
            for x, out in zip(firsts, call.outs, strict=True):
                if not may_overwrite(x, i, operands):
                    arrays.append(duplicate(value(x)))
                    own.add(out)
                    continue
                arrays.append(value(x))
                if x in own:
                    own.add(out)
                else:
                    in_place[next(y for y, now in in_place.items() if now is x)] = out
            args = arrays if together else arrays[0], *args[1:]
            _called(call, write, args, kwargs)
            values |= dict(zip(call.outs, arrays, strict=True))
        for x in (*operands, *call.outs):
            if last[x] == i:
                values.pop(x, None)
        args = kwargs = arrays = results = result = None  # memory that is free is used again

    outputs = []
    for x in trace.outputs:
        outputs.append(value(x) if x in own else duplicate(value(x)))
    copied = []
    for first, final in trace.written:
        if in_place[first] is not final:
            copied.append(
                (sources[first], value(final) if final in own else duplicate(value(final)))
            )
    for target, array in copied:
        target[...] = array
    return outputs


def _called(call, function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise CannotCaptureError(f"{call.name}: {error}") from error


def _with_values(x, value):
    kind = type(x)
    if kind is Variable:
        return value(x)
    if kind is tuple or kind is list:
        return kind([_with_values(item, value) for item in x])
    if kind is dict:
        return {name: _with_values(item, value) for name, item in x.items()}
    if kind is slice:
        return slice(*[_with_values(item, value) for item in (x.start, x.stop, x.step)])
    return getattr(x, "device_array", x)


class _GraphWriter(Writer):
    """Writes a program that launches a graph in place of the array calls."""

    def _calls(self):
        trace, name = self.trace, self.name
        self.noted = False
        self._free_gradients()
        if trace.written:
            self._note()
        plan = self.program.plan
        inputs = "".join([f"{self.locals[x]}, " for x in plan.inputs])
        numbers = "".join([f"{self._stored(x)}, " for _, x in plan.numbers])
        self.left = {x: f"o{i}" for i, x in enumerate(trace.outputs)}
        outputs = f"{', '.join(self.left.values())}, = " if self.left else ""
        self.line(f"{outputs}{name(self.program.launch)}(({inputs}), ({numbers}))")

    def _may_call_instead(self):
        trace = self.trace
        is_pure = all(call.is_pure for call in self.program.calls)
        return not (self.noted or trace.keys or trace.gradients) and is_pure

    def _stored(self, x):
        """The text of what is stored in a place for numbers."""
        if type(x) is Draw:
            return f"{self.name(x.next_key)}()"
        if type(x) is tuple:
            return f"({', '.join(map(self._plain, x))})"
        return self._plain(x)

    def _written(self):
        if self.noted:
            places = self.made_name("places", self.trace.places, "places")
            self.line(f"{self.name(writes)}.note({places})")
