"""Programs on a CUDA device, whose array calls are one CUDA graph.

The calls are made once while CUDA captures their kernels. From then on, each run stores in a table
on the device whatever may have changed, and launches the graph, whose kernels read the table. It
has numbers, random keys, the addresses of the arguments, and those of new arrays for the results.
The graph begins by copying the arguments into memory of its own, and ends by copying the results
into the new arrays, which belong to the caller. It reads and overwrites parameters and other state
where they are; if they get other arrays, the program is bound and captured anew.

If a call cannot be captured, the program repeats its calls one by one.
"""

import operator
from contextlib import nullcontext
from functools import partial
from math import inf

from .draws import Draw
from .fusion import fuse
from .run import Program
from .tape import Value, replaced, values_in
from .updates import Step


class CannotCaptureError(Exception):
    """Raised if a call cannot be part of a graph."""


def program_of(tape, has_kernels):
    """The program of a tape; a `GraphProgram` if the array library has graphs.

    has_kernels: whether generated kernels may replace calls.

    Raises Unsupported if there can be none.
    """
    tape.has_kernels = has_kernels
    tape.finish()
    if tape.backend.graphs is None:
        return Program(tape)
    if tape.has_kernels:
        fuse(tape, tape.backend.graphs.Fused)
    return GraphProgram(tape)


class GraphProgram(Program):
    """A program whose array calls are one graph; if not, ``call_by_call`` says why."""

    def __init__(self, tape):
        self._graphs = tape.backend.graphs
        self._captured = None
        # The number of runs until the next attempt to capture, and until the one after that.
        self._wait, self._pause = 0, 1
        scope = partial(tape.backend.device_scope, tape.device) if tape.device else nullcontext
        with scope():
            super().__init__(tape)
        self.context = scope

    def run(self, leaves):
        if self._is_due() and self._fits(leaves):
            self.bind()
        return super().run(leaves)

    def _is_due(self):
        """Whether it is time to capture the calls, because a graph is missing or out of date."""
        if self._captured is not None:
            return not self._captured.graph.is_current()
        self._wait -= 1
        return self._wait <= 0

    def _fits(self, leaves):
        if not super()._fits(leaves):
            return False
        return self._captured is None or self._captured.may_copy_back(self.regs)

    def _bind_calls(self):
        self._captured, self._before, self._after = None, [], []  # frees the memory of the graph
        if self._wait < inf:
            self._capture()
            self._graphs.free_memory()
        if self._captured is None:
            super()._bind_calls()
        else:
            self._bind_launch()

    def _capture(self):
        try:
            self._captured = _Captured(self)
        except Exception as error:  # noqa: BLE001  whatever cannot be captured raises
            self.call_by_call = str(error)
            self._wait = self._pause if _may_pass(error, self._graphs) else inf
            self._pause *= 2
        else:
            self.call_by_call, self._pause = None, 1

    def _bind_launch(self):
        """Make the steps: one that launches the graph, and those for results that are views."""
        tape, slots = self.tape, [self.slot(x) for x in self._captured.outputs]
        self._checks, self._undo, self._is_fallible = [], [], False
        launch = partial(self._captured.launch, self.regs, slots)
        steps = [*self._freeing_gradients(), launch]
        views: dict = {}
        for x in tape.leaving:
            while x.base is not None and x.constant is None:
                views[x.call] = None
                x = x.base
        for call in tape.calls:
            if call in views:
                steps += self.steps_for(call)
        # If the graph changes no state, a launch that fails raises `Failed`, and the function is
        # called instead. Otherwise that would be too late, since gradients have been freed before.
        changes = tape.gradients or any(x.memory.is_written for x in (*tape.pinned, *tape.floating))
        self._before, self._after = ([], steps) if changes else (steps, [])


def _may_pass(error, graphs):
    """Whether to capture the same calls may succeed later, after it has failed with this error."""
    while error is not None and not isinstance(error, (MemoryError, graphs.NotNowError)):
        error = error.__cause__
    return error is not None


class _Captured:
    """The graph of a program for the arrays that its state has now.

    graph: the `Graph` of `backends.cupy`.
    outputs: the values that the graph copies into new arrays.
    """

    def __init__(self, program):
        self._tape = tape = program.tape
        self._graphs = graphs = tape.backend.graphs
        if tape.communicates:
            raise CannotCaptureError("it communicates with other processes")
        inputs = [*tape.floating]
        roots = dict.fromkeys([x.root() for x in tape.leaving if x.kind != "number"])
        self.outputs = [x for x in roots if x.call is not None and x.constant is None]
        self._numbers = numbers = _Numbers(program)
        self._calls = [numbers.noted(call) for call in tape.calls]
        self._addresses = numbers.memory.place("u8", (len(inputs) + len(self.outputs),))
        numbers.allocate()
        self._found = [program.slot(x) for x in inputs]
        # The positions of inputs that the calls overwrite, so that they are copied back.
        self._back = [k for k, x in enumerate(inputs) if x.memory.is_written]
        memories = [x.memory for x in (*tape.floating, *tape.pinned)]
        if any(memories.count(inputs[k].memory) > 1 for k in self._back):
            raise CannotCaptureError("it overwrites memory that two inputs share")
        self._inputs = [_array(x, tape.backend) for x in inputs]
        self._sources = numbers.values | dict(zip(inputs, self._inputs, strict=True))
        self._sources |= {x: find() for x, find in tape.pinned.items()}
        self.graph = graphs.Graph(self._work, self._warm_up)
        self._makers = [_maker(graphs, x) for x in self.graph.kept]

    def _warm_up(self):
        """Make the calls once before they are captured, without changing any state."""
        copied = [x for x in self._tape.pinned if x.memory.is_written]
        # The copies have the same layouts, so that CuPy compiles the kernels that will be captured.
        copies = {x: self._graphs.copy_with_layout(self._sources[x]) for x in copied}
        self._numbers.memory.send()  # all addresses are still 0, so that nothing is copied
        self._work(copies)

    def _work(self, copies=None):
        """Make the calls and copies that the graph consists of; returns the arrays of the outputs.

        copies: by value, arrays in the place of those that the calls would overwrite.
        """
        inputs, duplicate = self._inputs, self._tape.duplicate
        self._copy(inputs, range(len(inputs)), outward=False)
        outputs = [
            x if _maker(self._graphs, x) else duplicate(x)
            for x in self._made({**self._sources, **(copies or {})})
        ]
        slots = [*range(len(inputs), len(inputs) + len(outputs)), *self._back]
        self._copy([*outputs, *[inputs[k] for k in self._back]], slots, outward=True)
        return outputs

    def _copy(self, arrays, slots, outward):
        self._graphs.copy_arrays(arrays, self._addresses.device_array, slots, outward=outward)

    def _made(self, values):
        """Make the calls, and return the outputs.

        values: the arrays of the values that no call computes.
        """
        calls = self._tape.calls
        last = {x: i for i, c in enumerate(calls) for x in (*c.operands(), *c.outs)}
        last |= dict.fromkeys(self.outputs)
        for i, (call, planned) in enumerate(zip(calls, self._calls, strict=True)):
            _make(call, planned, values)
            for x in (*call.operands(), *call.outs):  # so that later calls can use the memory
                if last[x] == i:
                    values.pop(x, None)
        return [values[x] for x in self.outputs]

    def may_copy_back(self, regs):
        """Whether no input that is overwritten shares its memory with another input."""
        if not self._back:
            return True
        buffers = [self._tape.backend.buffer(regs[at]) for at in self._found]
        return all(buffers.count(buffers[k]) == 1 for k in self._back)

    def launch(self, regs, slots):
        """Launch the graph on the inputs in registers; puts the outputs into these slots."""
        numbers, graph = self._numbers, self.graph
        numbers.store(regs)
        outputs = [make() for make in self._makers]
        found = [*[regs[at] for at in self._found], *outputs]
        self._addresses.host[...] = self._graphs.addresses(found)
        graph.follow()
        numbers.memory.send()
        graph.launch()
        for at, array in zip(slots, outputs, strict=True):
            regs[at] = array


def _maker(graphs, x):
    return graphs.maker(x.shape, x.dtype, x.strides)


def _array(x, backend):
    """An array for an input of the graph, with values for which few functions raise errors."""
    if (make := _maker(backend.graphs, x)) is None:
        raise CannotCaptureError("it is called with an array that does not fill its memory")
    array = make()
    is_matrix = len(x.shape) > 1 and backend.is_floating(x.dtype)
    array[...] = backend.xp.eye(*x.shape[-2:], dtype=x.dtype) if is_matrix else 0
    return array


def _make(call, planned, values):
    """Make a call, and add its results to the dict ``values``.

    planned: see `_Numbers.noted`.
    """

    def value(x):
        return values[x] if x.constant is None else x.constant

    function, args, kwargs = planned
    try:
        results = function(*replaced(args, value), **replaced(kwargs, value))
    except Exception as error:
        raise CannotCaptureError(f"{call.name}: {error}") from error
    if not call.writes:
        values.update(zip(call.outs, results if call.several else [results], strict=True))
    elif results is None and type(call.args[0]) is tuple:
        raise CannotCaptureError(f"{call.name}: it cannot be repeated")


class _Numbers:
    """The numbers and random keys that may change, in memory that captured kernels read.

    memory: the table, on the host and on the device.
    values: by the `Value` that replaces a number in the calls, its array on the device; before
        `allocate`, its place in the table.
    """

    def __init__(self, program):
        self._getter = program.maker
        self._backend = program.backend
        self.memory = program.backend.graphs.Numbers()
        self._places = []  # pairs of a place, and a function of the registers that computes it
        self._known = {}  # by number and dtype, or by key, what replaces it
        self.values = {}

    def allocate(self):
        self.memory.allocate()
        self.values = {x: place.device_array for x, place in self.values.items()}
        self._stores = [(place.host, get) for place, get in self._places]
        del self._getter  # it refers to the program, which would make a cycle

    def store(self, regs):
        for host, get in self._stores:
            host[...] = get(regs)

    def noted(self, call):
        """The function and the arguments of a call, in the form in which it is captured."""
        function, args, kwargs = call.function, call.args, dict(call.kwargs)
        if type(function) is Draw:
            key = self._key(function, lambda regs: function.next_key())
            return function.by_key, (key, args), {}
        keys = {x: self._key(x) for x in call.operands() if x.dtype == "key"}
        args, kwargs = replaced((args, kwargs), lambda x: keys.get(x, x))
        if _has_number(kwargs.get("key")):
            kwargs["key"] = self._key(kwargs["key"])
        if type(function) is Step:
            args = *args[:2], self._struct(function.updater.computed, args[2])
        elif function is operator.setitem:
            args = *args[:2], self._operand(args[2], call)
        elif type(function) is self._backend.graphs.Fused:
            pairs = zip(args, function.dtypes, strict=True)
            args = tuple([self._number(x, dtype) if _has_number(x) else x for x, dtype in pairs])
        elif call.declared.elementwise:
            args = tuple([self._operand(x, call) for x in args])
        if _has_number((args, kwargs)):
            raise CannotCaptureError(f"{call.name} takes a number that may change")
        return function, args, kwargs

    def _key(self, key, get=None):
        """What replaces a random key: one that kernels read from the table."""
        if key not in self._known:
            place = self.memory.place("u8", (2,))
            self._places.append((place, get or self._getter(key)))
            self._known[key] = self._backend.graphs.DeviceKey(place)
        return self._known[key]

    def _struct(self, dtype, numbers):
        """The value for a structure that has the numbers of an optimizer's kernel."""
        place, getters = self.memory.place(dtype, (len(numbers),)), [*map(self._getter, numbers)]
        self._places.append((place, lambda regs: [get(regs) for get in getters]))
        self.values[x := Value("array")] = place
        return x

    def _operand(self, x, call):
        """What replaces an operand: a number becomes a 0-d array of the dtype of the arrays."""
        if not _has_number(x):
            return x
        arrays = [y for y in call.args if type(y) is Value and y.kind == "array"]
        dtypes = {y.dtype for y in arrays if self._backend.is_floating(y.dtype)}
        out = (call.outs or call.targets())[0].dtype
        if len(dtypes) != 1 or not (out in dtypes or str(out) == "bool"):
            raise CannotCaptureError(f"{call.name} takes a number that may change, and integers")
        return self._number(x, *dtypes)

    def _number(self, x, dtype):
        """The value for a 0-d array of a number."""
        known = x, dtype
        if known not in self._known:
            place = self.memory.place(dtype)
            self._places.append((place, self._getter(x)))
            self.values[value := Value("array")] = place
            self._known[known] = value
        return self._known[known]


def _has_number(x):
    return any(y.kind == "number" for y in values_in(x))
