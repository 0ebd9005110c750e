"""Python's own features: iterators, printing, logging, files, the clock, the environment."""

import contextlib
import contextvars
import datetime
import decimal
import functools
import inspect
import io
import itertools
import logging
import operator
import os
import queue
import sys
import time
import types
import warnings

import numpy as np

import gpugrad as gg

from .harness import leaf, normal, program


@program
def an_iterator_that_counts(world):
    numbers = itertools.count(1)
    world.watch(lambda: repr(numbers))
    world.play(world.compile(lambda x: x * next(numbers)), changes=[lambda: next(numbers)])


@program
def a_generator_that_yields(world):
    def numbers():
        k = 1.0
        while True:
            k = (yield k) or k + 1

    made = numbers()
    next(made)
    world.play(world.compile(lambda x: x * next(made)), changes=[lambda: made.send(50.0)])


@program
def an_iterator_that_ends(world):
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    world.play(world.compile(lambda x: x * next(numbers, 0.5)))


@program
def an_iterator_that_raises_at_its_end(world):
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    world.play(world.compile(lambda x: x * next(numbers)))


@program
def an_iterator_over_a_list_that_changes(world):
    items = [1.0, 2.0, 3.0]
    iterator = itertools.cycle(items)
    pairs = zip(itertools.count(), itertools.repeat(2.0), strict=False)

    @world.compile
    def f(x):
        a, b = next(pairs)
        return x * next(iterator) + a * b

    world.play(f, changes=[lambda: items.append(9.0)], calls=9)


@program
def a_map_and_an_enumeration(world):
    table = {"k": 2.0}
    numbers = enumerate(map(lambda n: n * table["k"], range(100)))  # noqa: C417
    world.play(
        world.compile(lambda x: x * next(numbers)[1] + next(numbers)[0]),
        changes=[lambda: table.update(k=3.0)],
    )


@program
def printing(world):
    state = {"n": 0}

    @world.compile
    def f(x):
        print("call", state["n"], x.shape, end="!\n")
        return x * 2

    world.play(f, changes=[lambda: state.update(n=1)])


@program
def printing_of_nothing_that_changes(world):
    @world.compile
    def f(x):
        print("called")
        return x * 2

    world.play(f)


@program
def writing_to_standard_output(world):
    @world.compile
    def f(x):
        sys.stdout.write("written\n")
        return x * 2

    world.play(f)


@program
def writing_to_a_text_in_memory(world):
    text = io.StringIO()

    @world.compile
    def f(x):
        text.write("a")
        return x * len(text.getvalue())

    world.watch(text.getvalue)
    world.play(f, changes=[lambda: text.write("bb")])


class Keeping(logging.Handler):
    def __init__(self):
        super().__init__()
        self.kept = []

    def emit(self, record):
        self.kept.append((record.levelname, record.getMessage()))


@program
def logging_of_calls(world):
    logger, handler = logging.Logger("own"), Keeping()
    logger.addHandler(handler)

    @world.compile
    def f(x):
        logger.info("call with %s", x.shape)
        return x * 2

    world.watch(handler.kept)
    world.play(
        f, changes=[lambda: logger.setLevel("ERROR"), lambda: logger.setLevel("DEBUG")], calls=8
    )


@program
def a_level_of_logging_that_decides(world):
    logger = logging.Logger("own")
    f = world.compile(lambda x: x * (2 if logger.isEnabledFor(logging.DEBUG) else 3))
    world.play(f, changes=[lambda: logger.setLevel("ERROR"), lambda: logger.setLevel("DEBUG")])


@program
def a_warning_of_the_program(world):
    @world.compile
    def f(x):
        warnings.warn("own: called", stacklevel=1)
        return x * 2

    world.play(f)


@program
def warnings_that_are_errors(world):
    @world.compile
    def f(x):
        warnings.warn("own: called", DeprecationWarning, stacklevel=1)
        return x * 2

    def whole(x, strict):
        with warnings.catch_warnings():
            if strict:
                warnings.simplefilter("error", DeprecationWarning)
            return f(x)

    world.play(whole, lambda i: (normal(3, seed=i), i % 3 == 2), calls=9)


@program
def warnings_that_are_caught_inside(world):
    @world.compile
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("own: inside", stacklevel=1)
        return x * len(caught)

    world.play(f)


@program
def the_clock_goes_on(world):
    last = {"time": 0.0}

    @world.compile
    def f(x):
        return x * 0, time.perf_counter(), time.monotonic_ns()

    def whole(x):
        y, now, _ = f(x)
        goes_on, last["time"] = now > last["time"], now
        return y, goes_on

    world.play(whole)


@program
def the_clock_in_the_result(world):
    last = {"time": 0.0}
    f = world.compile(lambda x: x.astype(gg.float64) * 0 + time.perf_counter())

    def whole(x):
        now = float(f(x)[0])
        goes_on, last["time"] = now > last["time"], now
        return goes_on

    world.play(whole)


@program
def a_clock_that_is_replaced(world):
    module = world.module("import time\ndef f(x):\n    return x * time.time()")

    class Clock:
        now = 1.0

        @classmethod
        def time(cls):
            cls.now += 1
            return cls.now

    module.time = Clock
    world.watch(lambda: Clock.now)
    world.play(world.compile(module.f), changes=[lambda: setattr(Clock, "now", 100.0)])


@program
def the_date(world):
    f = world.compile(lambda x: (x * 2, datetime.datetime.now(datetime.UTC)))
    last = [datetime.datetime.min.replace(tzinfo=datetime.UTC)]

    def whole(x):
        y, now = f(x)
        time.sleep(2e-5)
        goes_on = now > last[-1]
        last.append(now)
        return y, goes_on

    world.play(whole)


@program
def a_variable_of_the_environment(world):
    name = "GPUGRAD_ADVERSARIAL"
    os.environ[name] = "2"
    f = world.compile(lambda x: x * float(os.environ.get(name, "7")))
    try:
        world.play(
            f,
            changes=[
                lambda: os.environ.update({name: "3"}),
                lambda: os.environ.pop(name),
                lambda: os.putenv(name, "5"),
            ],
        )
    finally:
        os.environ.pop(name, None)
        os.unsetenv(name)


@program
def a_variable_of_the_environment_by_getenv(world):
    name = "GPUGRAD_ADVERSARIAL"
    os.environ[name] = "2"
    f = world.compile(lambda x: x * float(os.getenv(name)))
    try:
        world.play(f, changes=[lambda: os.environ.update({name: "3"})])
    finally:
        del os.environ[name]


@program
def a_variable_of_the_context(world):
    variable = contextvars.ContextVar("variable", default=2.0)
    f = world.compile(lambda x: x * variable.get())
    tokens = []

    def whole(x):
        return contextvars.copy_context().run(f, x)

    world.play(
        whole,
        changes=[
            lambda: tokens.append(variable.set(3.0)),
            lambda: variable.reset(tokens.pop()),
        ],
    )


@program
def a_variable_of_the_context_that_is_set_inside(world):
    variable = contextvars.ContextVar("variable", default=1.0)

    @world.compile
    def f(x):
        variable.set(variable.get() + 1)
        return x * variable.get()

    world.watch(variable.get)
    context = contextvars.copy_context()
    context.run(world.play, f)


@program
def a_file_that_is_read(world):
    path = os.path.join(world.directory, "numbers.txt")

    def put(text):
        with open(path, "w") as file:
            file.write(text)

    @world.compile
    def f(x):
        with open(path) as file:
            return x * float(file.read())

    put("2")
    world.play(f, changes=[lambda: put("3"), lambda: os.remove(path), lambda: put("4")])


@program
def a_file_that_is_written(world):
    path = os.path.join(world.directory, "log.txt")
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)

    @world.compile
    def f(x):
        with open(path, "a") as file:
            file.write("called\n")
        return x * 2

    def text():
        with open(path) as file:
            return file.read()

    world.watch(text)
    world.play(f, changes=[lambda: os.remove(path)])


@program
def an_array_that_is_loaded_from_a_file(world):
    path = os.path.join(world.directory, "array.npy")

    def put(k):
        np.save(path, np.full(3, k, np.float32))

    put(2)
    f = world.compile(lambda x: x * gg.asarray(np.load(path)))
    world.play(f, changes=[lambda: put(3)])


@program
def whether_a_file_exists(world):
    path = os.path.join(world.directory, "flag")

    def make():
        with open(path, "w"):
            pass

    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    f = world.compile(lambda x: x * (2 if os.path.exists(path) else 3))
    world.play(f, changes=[make, lambda: os.remove(path)])


@program
def a_queue(world):
    waiting = queue.Queue()
    for k in range(20):
        waiting.put(float(k))
    world.watch(waiting.qsize)
    world.play(world.compile(lambda x: x * waiting.get_nowait()), changes=[waiting.get])


@program
def a_source_that_is_evaluated(world):
    table = {"source": "x * k", "k": 2.0}
    f = world.compile(lambda x: eval(table["source"], {"x": x, "k": table["k"]}))
    world.play(f, changes=[lambda: table.update(k=3.0), lambda: table.update(source="x + k")])


@program
def a_source_that_is_executed(world):
    names = {"n": 0}

    @world.compile
    def f(x):
        exec("n = n + 1", names)
        return x * names["n"]

    world.watch(lambda: names["n"])
    world.play(f, changes=[lambda: names.update(n=10)])


@program
def locals_and_frames(world):
    @world.compile
    def f(x):
        k = 2.0
        found = sorted(locals())
        return x * k, found, sys._getframe().f_code.co_name, len(inspect.signature(f).parameters)

    world.play(f)


@program
def the_caller_of_the_function(world):
    f = world.compile(lambda x: x * (2 if "one" in callers() else 3))

    def callers():
        frame, names = sys._getframe(), []
        while frame is not None and len(names) < 60:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        return names

    def one(x):
        return f(x)

    def two(x):
        return f(x)

    world.play(lambda x, i: (one, two)[i // 2 % 2](x), lambda i: (normal(3, seed=i), i), calls=9)


@program
def a_limit_of_the_interpreter(world):
    before = sys.getrecursionlimit()
    f = world.compile(lambda x: x * sys.getrecursionlimit())
    try:
        world.play(f, changes=[lambda: sys.setrecursionlimit(before + 77)])
    finally:
        sys.setrecursionlimit(before)


@program
def a_precision_of_decimals(world):
    context = decimal.getcontext()
    before = context.prec
    f = world.compile(lambda x: x.astype(gg.float64) * float(decimal.Decimal(1) / 3))
    try:
        world.play(
            f, changes=[lambda: setattr(context, "prec", 3), lambda: setattr(context, "prec", 1)]
        )
    finally:
        context.prec = before


@program
def options_of_numpy(world):
    f = world.compile(lambda x: x * len(np.array2string(np.array([1 / 3]))))

    def whole(x, precision):
        with np.printoptions(precision=precision):
            return f(x)

    world.play(whole, lambda i: (normal(3, seed=i), 3 + i % 3), calls=9)


@program
def errors_of_numpy_as_exceptions(world):
    f = world.compile(lambda x: gg.log(x) * 2)

    def whole(x, mode):
        with np.errstate(all=mode):
            try:
                return f(x)
            except FloatingPointError as error:
                return type(error)

    modes = "ignore", "ignore", "ignore", "raise", "ignore", "raise"
    world.play(whole, lambda i: (gg.asarray([1.0, 0.0, i + 1.0]), modes[i % 6]), calls=8)


@program
def the_directory_of_the_process(world):
    before = os.getcwd()
    f = world.compile(lambda x: x * len(os.getcwd()))
    try:
        world.play(f, changes=[lambda: os.chdir("/"), lambda: os.chdir(before)])
    finally:
        os.chdir(before)


@program
def partial_functions(world):
    table = {"k": 2.0}
    partial = functools.partial(lambda x, t, k: x * t["k"] * k, t=table, k=1.0)
    f = world.compile(lambda x: partial(x))
    world.play(
        f,
        changes=[
            lambda: table.update(k=3.0),
            lambda: partial.keywords.update(k=5.0),
            lambda: partial.__setstate__((operator.add, (), {}, {})),
        ],
    )


@program
def getters_of_the_operator_module(world):
    class State:
        k = 2.0

    state, get = State(), [operator.attrgetter("k")]
    f = world.compile(lambda x: x * get[0](state))
    world.play(
        f,
        changes=[
            lambda: setattr(state, "k", 3.0),
            lambda: setattr(State, "m", 5.0),
            lambda: get.__setitem__(0, operator.attrgetter("m")),
        ],
    )


@program
def a_context_that_is_a_generator(world):
    log, table = [], {"k": 2.0}

    @contextlib.contextmanager
    def scaling():
        log.append("in")
        try:
            yield table["k"]
        finally:
            log.append("out")

    @world.compile
    def f(x):
        with scaling() as k:
            return x * k

    world.watch(log)
    world.play(f, changes=[lambda: table.update(k=3.0), log.clear])


@program
def an_exit_stack_that_stays(world):
    log, stack = [], contextlib.ExitStack()

    @world.compile
    def f(x):
        stack.callback(log.append, len(log))
        return x * 2

    world.watch(log)
    world.play(f, changes=[stack.close, stack.close])


@program
def a_match_of_patterns(world):
    table = {"event": {"kind": "scale", "k": 2.0}}

    @world.compile
    def f(x):
        match table["event"]:
            case {"kind": "scale", "k": k}:
                return x * k
            case [first, *_]:
                return x + first
            case str(text):
                return x * len(text)
        return x

    world.play(
        f,
        changes=[
            lambda: table["event"].update(k=3.0),
            lambda: table.update(event=[4.0, 5.0]),
            lambda: table.update(event="text"),
            lambda: table.update(event=b"text"),
        ],
    )


@program
def comprehensions_and_assignments_in_expressions(world):
    numbers = [1.0, 2.0, 3.0]

    @world.compile
    def f(x):
        first, *rest = [k for k in numbers if (double := k * 2) > 2]
        return x * first + double * len(rest)

    world.play(f, changes=[lambda: numbers.append(4.0), lambda: numbers.remove(2.0)])


@program
def an_import_inside(world):
    @world.compile
    def f(x):
        import math as mathematics
        from math import tau

        return x * mathematics.pi + tau

    world.play(f)


@program
def a_function_of_a_library_that_is_patched(world):
    import math

    module = world.module("import math\ndef f(x):\n    return x * math.sqrt(4.0)")
    before = math.sqrt
    f = world.compile(module.f)
    try:
        world.play(
            f,
            changes=[
                lambda: setattr(math, "sqrt", lambda k: 7.0),
                lambda: setattr(math, "sqrt", before),
            ],
        )
    finally:
        math.sqrt = before


@program
def a_function_of_gpugrad_that_is_patched(world):
    before = gg.sin
    f = world.compile(lambda x: gg.sin(x))
    try:
        world.play(
            f,
            changes=[lambda: setattr(gg, "sin", gg.cos), lambda: setattr(gg, "sin", before)],
        )
    finally:
        gg.sin = before


@program
def a_builtin_that_is_patched(world):
    import builtins

    module = world.module("def f(x):\n    return x * own_builtin_of_a_test(2.0)")
    f = world.compile(module.f)
    builtins.own_builtin_of_a_test = abs
    try:
        world.play(
            f,
            changes=[
                lambda: setattr(builtins, "own_builtin_of_a_test", lambda k: k * 10),
                lambda: delattr(builtins, "own_builtin_of_a_test"),
                lambda: setattr(builtins, "own_builtin_of_a_test", lambda k: -k),
            ],
        )
    finally:
        del builtins.own_builtin_of_a_test


@program
def the_identity_of_an_object(world):
    holder = {"thing": [1]}
    known = id(holder["thing"])
    kept = [holder["thing"]]
    f = world.compile(lambda x: x * (2 if id(holder["thing"]) == known else 3))
    world.play(
        f,
        changes=[
            lambda: holder.update(thing=[1]),
            lambda: holder.update(thing=kept[0]),
        ],
    )


@program
def the_number_of_references(world):
    thing, others = [1.0], []
    f = world.compile(lambda x: x * (2 if sys.getrefcount(thing) > 50 else 3))
    world.play(f, changes=[lambda: others.extend([thing] * 100), others.clear])


@program
def a_function_without_effects_or_tensors(world):
    table = {"n": 0}

    @world.compile
    def f():
        table["n"] += 1
        return table["n"]

    world.watch(table)
    world.play(f, lambda i: ())


@program
def a_function_without_results(world):
    w = leaf(3)

    @world.compile
    def f(x):
        w.detach().__iadd__(x)

    world.watch(w)
    world.play(f)


@program
def a_callback_that_is_called_in_the_middle(world):
    seen, callbacks = [], []

    @world.compile
    def f(x):
        y = x * 2
        for callback in callbacks:
            callback(y.shape)
        return y

    world.watch(seen)
    world.play(
        f,
        changes=[
            lambda: callbacks.append(seen.append),
            lambda: callbacks.append(lambda shape: seen.append(len(shape))),
            callbacks.clear,
        ],
    )


def of_a_module(find):
    """A program that reads the number ``K`` of a module in the way of ``find``."""

    def run(world):
        sys.modules["module_of_numbers"] = module = types.ModuleType("module_of_numbers")
        module.K = 2.0
        try:
            world.play(
                world.compile(lambda x: x * find(module)),
                changes=[lambda: setattr(module, "K", 3.0), lambda: setattr(module, "K", 5.0)],
            )
        finally:
            del sys.modules["module_of_numbers"]

    return run


def returned(x, *others):
    return x


WAYS = {
    "sys_modules": lambda m: sys.modules["module_of_numbers"].K,
    "sys_modules_get": lambda m: sys.modules.get("module_of_numbers").K,
    "getattr": lambda m: getattr(m, "K"),  # noqa: B009
    "getattr_by_a_computed_name": lambda m: getattr(m, "k".upper()),
    "getattr_by_a_variable_with_a_default": lambda m, name="K": getattr(m, name, "x"),
    "getattr_of_a_result": lambda m: getattr(returned(m, "K"), "k".upper()),
    "getattr_of_a_result_by_a_text": lambda m: getattr(returned(m), "K", None),
}
for way, find in WAYS.items():
    run = of_a_module(find)
    run.__module__, run.__name__ = __name__, f"a_number_of_a_module_by_{way}"
    program(run)
