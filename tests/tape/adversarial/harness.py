"""What a program of the corpus is written with, and what runs it.

A program is a function of a `World`. It makes fresh state, compiles functions with
``world.compile``, and calls them at least six times, with changes in between. It is run as it is
and compiled, each time from the same state of the random generators, and all that is recorded has
to be equal: after each call its result or its error, what it printed, its own warnings, and what
the program watches; at the end once more all results, which later calls must not overwrite.
"""

import builtins
import collections
import contextlib
import dataclasses
import functools
import io
import itertools
import multiprocessing
import operator
import os
import random
import sys
import time
import types
import warnings

import numpy as np
from both_ways import normal, training, with_one_nan  # noqa: F401

import gpugrad as gg
from gpugrad import nn, optim

PROGRAMS = {}

# Before which call the first change is made, and how many calls later each of the others.
SCHEDULES = (2, 1), (3, 2), (4, 1), (5, 2)

# Of the arrays of a scenario.
SHAPE = 3, 3

# The seconds after which a program counts as one that hangs.
LIMIT = 10


def program(function=None, *, in_child=False, needs=None):
    """Add a program to the corpus.

    in_child: whether it runs in a child process, because it may hang, or changes the process.
    needs: a reason to skip it on this platform, or None.
    """
    if function is None:
        return functools.partial(program, in_child=in_child, needs=needs)
    name = f"{function.__module__.rpartition('.')[2]}-{function.__name__}"
    assert name not in PROGRAMS, name
    function.in_child, function.needs = in_child, needs
    PROGRAMS[name] = function
    return function


def add(name, module, function, **options):
    """Add a program under a name of its own; those that are made of a table have none."""
    function.__name__, function.__module__ = name, module
    return program(function, **options)


def plays(name, function, *args, look=None, **options):
    """Add a program that calls a compiled function as `World.play` does.

    look: a function of the result, whose own result takes its place.
    """

    def runs(world):
        compiled = world.compile(function)
        calls = compiled if look is None else lambda *given: look(compiled(*given))
        world.play(calls, *args, **options)

    add(name, function.__module__, runs)


def uses(name, use, make, *changes, **options):
    """Add a program whose function is ``use(x, state)``, with the state that ``make`` returns.

    changes: functions of the state.
    """

    def runs(world):
        state = make()
        due = [functools.partial(change, state) for change in changes]
        world.check(lambda x: use(x, state), changes=due, **options, watch=[state])

    add(name, use.__module__, runs)


def puts(key, *values):
    """Changes for `uses`: each sets an item, or an attribute, of the state to one of the values."""

    def put(value, state):
        (operator.setitem if hasattr(state, "__setitem__") else setattr)(state, key, value)

    return [functools.partial(put, value) for value in values]


def scenario(*shapes, choices=(None,)):
    """A program that calls ``play(f, x, choice)`` with a compiled ``f`` after clearing gradients.

    The function that is decorated gets leaves of these shapes, and returns what to compile, and
    ``play``.
    """

    def decorate(function):
        def runs(world):
            sizes = [(n,) if isinstance(n, int) else n for n in shapes]
            tensors = [leaf(*size, seed=i) for i, size in enumerate(sizes)]
            compiled, play = function(*tensors)
            f = world.compile(compiled)

            def whole(x, choice):
                for t in tensors:
                    t.grad = None
                return play(f, x, choice)

            world.watch(*tensors)

            def inputs(i):
                return normal(3, 3, seed=i), choices[i // 2 % len(choices)]

            n = 3 * len(choices) + 4
            world.play(whole, inputs, calls=n + n % 2)

        return add(function.__name__, function.__module__, runs)

    return decorate


def swept(function, *leaves):
    """Clear the gradients of leaves, call a function, and go backward through its result."""

    def call_and_sweep(*args):
        for x in leaves:
            x.grad = None
        function(*args).backward()

    return call_and_sweep


def error_of(call, *args, **kwargs):
    """The text of the error that a call raises; None if there is none."""
    try:
        call(*args, **kwargs)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return None


def missing(module, *names):
    """A reason to skip programs that need these names of a module, or None."""
    absent = [name for name in names if not hasattr(module, name)]
    return f"there is no {module.__name__}.{absent[0]}" if absent else None


def leaf(*shape, seed=0, dtype=np.float32):
    return normal(*shape, seed=seed, dtype=dtype).requires_grad_()


def model(*sizes, seed=0):
    """A network of linear layers whose weights depend on the sizes and the seed only."""
    net = nn.Sequential(*[nn.Linear(*pair) for pair in itertools.pairwise(sizes)])
    for i, p in enumerate(net.parameters()):
        p.array[...] = normal(*p.shape, seed=seed + i).array
    return net


def bits(x):
    """All that can be seen of a value, such that equal descriptions mean equal values."""
    kind = type(x).__qualname__
    if isinstance(x, gg.Tensor):
        return kind, bits(x.array), x.requires_grad, x.is_leaf, bits(x.grad)
    if isinstance(x, np.ndarray):
        return kind, str(x.dtype), x.shape, with_one_nan(x).tobytes()
    if isinstance(x, nn.Module):
        state = {k: bits(v) for k, v in [*x.named_parameters(), *x.named_buffers()]}
        return kind, state, [m.training for m in x.modules()]
    if isinstance(x, (optim.Optimizer, gg.amp.GradScaler)):
        return kind, bits(x.state_dict())
    if isinstance(x, optim.lr_scheduler.LRScheduler):
        state = {k: v for k, v in x.state_dict().items() if not callable(v)}
        return kind, bits(state), bits(x.get_last_lr())
    if isinstance(x, gg.random.Generator):
        return kind, repr(x.get_state())
    if isinstance(x, np.random.Generator):
        return kind, bits(x.bit_generator.state)
    if isinstance(x, random.Random):
        return kind, hash(x.getstate())
    if isinstance(x, (list, tuple, collections.deque)):
        return kind, [bits(y) for y in x]
    if isinstance(x, (set, frozenset)):
        return kind, sorted(repr(bits(y)) for y in x)
    if isinstance(x, (dict, types.MappingProxyType)):
        return kind, [(bits(k), bits(v)) for k, v in x.items()]
    if isinstance(x, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)):
        return kind, x.__qualname__
    if isinstance(x, BaseException):
        return kind, str(x)
    is_plain = dataclasses.is_dataclass(x) or isinstance(x, types.SimpleNamespace)
    if is_plain or type(x).__repr__ is object.__repr__:
        names = [*getattr(type(x), "__slots__", ()), *getattr(x, "__dict__", ())]
        return kind, [(name, bits(getattr(x, name))) for name in names if hasattr(x, name)]
    return kind, repr(x)


def one_vector(number):
    return (normal(3, seed=number),)


def batch(number):
    return (normal(4, 3, seed=number),)


class World:
    """Where a program runs: what it compiles and calls functions with, and the record."""

    def __init__(self, options, schedule, directory):
        self._options, self._schedule = options, schedule
        self._watched, self.results = [], []
        self.record = []
        self.uses_schedule = False
        self.directory = directory  # for files

    def compile(self, function):
        return function if self._options is None else gg.compile(function, **self._options)

    @property
    def first(self):
        """The number of the call, from 1, before which the first change is made."""
        self.uses_schedule = True
        return self._schedule[0]

    def watch(self, *things):
        """Record these after each call; functions without arguments are called for a value."""
        self._watched += things

    def note(self, *values):
        """Record these now."""
        self.record.append(("note", bits(values)))

    def seen(self):
        calls = types.FunctionType, types.MethodType, functools.partial
        return [bits(x() if isinstance(x, calls) else x) for x in self._watched]

    def call(self, function, *args, keep=True, **kwargs):
        """Call a function and record what comes of it; returns its result, or None."""
        result, text = None, io.StringIO()
        with (
            warnings.catch_warnings(record=True, action="always") as warned,
            contextlib.redirect_stdout(text),
            np.errstate(all="ignore"),
        ):
            try:
                result = function(*args, **kwargs)
                entry = "returned", bits(result)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
                entry = "raised", bits(error)
        found = [(w.category.__name__, str(w.message)) for w in warned]
        own = [warning for warning in found if warning[1].startswith("own")]  # not of a library
        self.record.append((*entry, text.getvalue(), own, self.seen()))
        if keep:
            self.results.append(result)
        return result

    def play(self, function, inputs=one_vector, changes=(), after=None, calls=7, watch=()):
        """Call a function again and again, with changes in between.

        inputs: a function of the number of the call, from 0, that returns the arguments; by
            default one vector, other numbers in each call.
        changes: functions to call in between, at the times of the schedule.
        after: what to do with each result, as the caller may.
        calls: how many, if there are no changes.
        watch: as arguments of `watch`.
        """
        self.watch(*watch)
        due = {}
        if changes:
            first, distance = self.first, self._schedule[1]
            due = {first + i * distance: change for i, change in enumerate(changes)}
            calls = max(7, *[number + 2 for number in due])
        for number in range(1, calls + 1):
            if number in due:
                due[number]()
            result = self.call(function, *inputs(number - 1))
            if after is not None:
                after(result)

    def check(self, function, *args, **options):
        """Compile a function and call it as `play` does."""
        self.play(self.compile(function), *args, **options)

    def module(self, source, name="adversarial_module"):
        """A fresh Python module with this source, which ``import`` finds until the run ends."""
        found = types.ModuleType(name)
        found.__file__ = os.path.join(self.directory, f"{name}.py")
        builtins.exec(builtins.compile(source, found.__file__, "exec"), vars(found))
        sys.modules[name] = found
        return found


def run(function, options, schedule=SCHEDULES[0], directory="."):
    """Run a program; returns its record, and whether the schedule matters to it.

    options: those of `compile`; None for a run that compiles nothing.
    """
    gg.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    gg.set_grad_enabled(True)
    modules, world = dict(sys.modules), World(options, schedule, directory)
    try:
        function(world)
    finally:
        gg.set_grad_enabled(True)
        for name in [*sys.modules]:
            if name.startswith("adversarial_") and name not in modules:
                del sys.modules[name]
    world.record.append(("at the end", bits(world.results), world.seen()))
    return world.record, world.uses_schedule


class Hangs(BaseException):
    pass


def in_child(function):
    """Call ``function()`` in a forked child and return what it returns; raises if it hangs."""

    def answers():
        try:
            answer = function()
        except BaseException as error:  # noqa: BLE001
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        sender.send(answer)

    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=answers)
    # Other threads may exist.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child.start()
    sender.close()
    try:
        if not receiver.poll(LIMIT):
            raise Hangs(f"it takes longer than {LIMIT} seconds")
        answer = receiver.recv()
    except EOFError:
        raise RuntimeError("the child ended without an answer") from None
    finally:
        child.kill()
        child.join()
        receiver.close()
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def record_of(function, options, schedule, directory):
    runs = functools.partial(run, function, options, schedule, directory)
    with warnings.catch_warnings(action="ignore"):
        return in_child(runs) if function.in_child else runs()


def difference(expected, found):
    """The first entry of two records that differs, in words; None if they are equal."""
    for number, (a, b) in enumerate(itertools.zip_longest(expected, found), 1):
        if a != b:
            place = ""
            while type(a) is type(b) in (list, tuple) and len(a) == len(b):
                i = next(i for i, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1])
                if a[0] != b[0] and a[0] in ("returned", "raised"):
                    break
                a, b, place = a[i], b[i], f"{place}[{i}]"
            return f"entry {number}{place}:\n  eager    {shortened(a)}\n  compiled {shortened(b)}"
    return None


def shortened(x):
    text = repr(x)
    return text if len(text) < 600 else f"{text[:300]} ... {text[-300:]}"


def failure(function, directory, **options):
    """How a compiled run of a program differs from an eager one, in words; None if it does not."""
    for schedule in SCHEDULES:
        expected, uses_schedule = record_of(function, None, schedule, directory)
        assert sum(entry[0] in ("returned", "raised") for entry in expected) >= 6, "too few calls"
        try:
            found, _ = record_of(function, options, schedule, directory)
            different = difference(expected, found)
        except (Hangs, Exception) as error:  # noqa: BLE001
            different = f"the program ends with {type(error).__name__}: {error}"
        if different:
            again, _ = record_of(function, None, schedule, directory)
            assert difference(expected, again) is None, "two eager runs differ: the test is wrong"
            when = f"first change before call {schedule[0]}, " if uses_schedule else ""
            return when + different
        if not uses_schedule:
            return None
    return None


def refuse_failures(monkeypatch):
    """Let nothing fail in a program but what fails in its function, which would run instead."""

    def refuse(failure, *args, **kwargs):
        raise AssertionError(f"the program failed, but the function did not: {failure}")

    for module in "compiled", "derivatives":
        monkeypatch.setattr(f"gpugrad.tape.{module}.warn_of", refuse)


def wait_for(condition):
    """Wait until a condition holds, for at most the limit."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("a condition does not come to hold")
        time.sleep(0.0001)
