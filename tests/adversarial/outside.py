"""Effects and reads that reach what lies outside by a way around."""

import collections
import functools
import logging
import operator
import os
import sys
import threading
import time
import types

import numpy as np

import gpugrad as gg
from gpugrad import nn, optim

from .harness import leaf, normal, program


@program
def printing_that_map_does(world):
    @world.compile
    def f(x):
        collections.deque(map(print, ["a", x.shape]), maxlen=0)
        return x * 2

    world.play(f)


@program
def printing_that_a_partial_function_does(world):
    says = functools.partial(print, "said")

    @world.compile
    def f(x):
        says()
        return x * 2

    world.play(f)


@program
def printing_by_a_function_in_a_list(world):
    says = [print]

    @world.compile
    def f(x):
        for say in says:
            say("said")
        return x * 2

    world.play(f)


@program
def printing_only_at_times(world):
    state = {"verbose": False}

    @world.compile
    def f(x):
        if state["verbose"]:
            print("verbose", x.shape)
        return x * 2

    world.play(
        f,
        changes=[lambda: state.update(verbose=True), lambda: state.update(verbose=False)],
        calls=9,
    )


@program
def printing_for_some_arguments(world):
    @world.compile
    def f(x):
        if x.shape[0] == 4:
            print("four")
        return x * 2

    world.play(f, lambda i: (normal(3 + i % 2, seed=i),), calls=10)


@program
def printing_when_an_object_dies(world):
    class Thing:
        def __del__(self):
            print("gone")

    @world.compile
    def f(x):
        Thing()
        return x * 2

    world.play(f)


@program
def the_time_as_a_key(world):
    last = [0.0]

    @world.compile
    def f(x):
        last[0] = max([last[0]], key=lambda _: time.perf_counter())
        return x * 2, min([1], key=time.strftime) if last[0] > 1 else 0

    world.play(f)


@program
def a_clock_that_decides(world):
    start = time.monotonic()
    passed = [1e9]
    f = world.compile(lambda x: x * (2 if time.monotonic() - start < passed[0] else 3))

    def whole(x):
        return f(x)

    world.play(whole, changes=[lambda: passed.__setitem__(0, -1.0)])


@program
def a_function_in_c_of_the_operator_module(world):
    get = operator.methodcaller("write", "by a caller\n")

    @world.compile
    def f(x):
        get(sys.stdout)
        return x * 2

    world.play(f)


@program
def messages_of_the_root_logger(world):
    kept = []

    class Handler(logging.Handler):
        def emit(self, record):
            kept.append(record.getMessage())

    handler, root = Handler(), logging.getLogger("adversarial")
    root.addHandler(handler)
    root.setLevel("ERROR")

    @world.compile
    def f(x):
        logging.getLogger("adversarial").info("called")
        return x * 2

    world.watch(kept)
    try:
        world.play(
            f, changes=[lambda: root.setLevel("INFO"), lambda: root.setLevel("ERROR")], calls=9
        )
    finally:
        root.removeHandler(handler)


@program
def arguments_of_the_process(world):
    before = [*sys.argv]
    f = world.compile(lambda x: x * len(sys.argv))
    try:
        world.play(f, changes=[lambda: sys.argv.append("a"), lambda: sys.argv.append("b")])
    finally:
        sys.argv[:] = before


@program
def the_name_of_the_thread(world):
    thread = threading.current_thread()
    before = thread.name
    f = world.compile(lambda x: x * len(threading.current_thread().name))
    try:
        world.play(f, changes=[lambda: setattr(thread, "name", "another, longer name")])
    finally:
        thread.name = before


@program
def the_number_of_threads(world):
    f = world.compile(lambda x: x * threading.active_count())
    stop = threading.Event()

    thread = threading.Thread(target=stop.wait, daemon=True)
    try:
        world.play(f, changes=[thread.start])
    finally:
        stop.set()
        thread.join()


@program
def an_attribute_with_a_computed_name(world):
    module = world.module("k1 = 2.0\nk2 = 3.0\nwhich = 1\n")

    @world.compile
    def f(x):
        return x * getattr(module, "k" + str(module.which))

    world.play(
        f,
        changes=[
            lambda: setattr(module, "k1", 5.0),
            lambda: setattr(module, "which", 2),
            lambda: setattr(module, "k2", 7.0),
        ],
    )


@program
def labels_of_weights(world):
    w = normal(3, seed=4)
    w.label = "a"
    f = world.compile(lambda x: x * len(w.label))
    world.play(f, changes=[lambda: setattr(w, "label", "abc")])


@program
def a_label_that_is_set_inside(world):
    w = normal(3, seed=4)

    @world.compile
    def f(x):
        w.label = "inside"
        return x * w

    world.watch(lambda: w.label)
    world.play(f, changes=[lambda: setattr(w, "label", None)])


@program
def the_state_of_the_generator(world):
    f = world.compile(lambda x: x * len(repr(gg.random.get_state())))
    world.play(f, changes=[lambda: gg.manual_seed(123456789)])


@program
def types_of_raw_arrays_of_tensors(world):
    w = normal(3, seed=4)
    f = world.compile(lambda x: (x * 2, type(w.array).__name__, type(x.array) is np.ndarray))
    world.play(f)


@program
def a_forward_of_the_library_that_is_patched_before(world):
    table = {"k": 2.0}

    class Linear(nn.Linear):
        pass

    Linear.forward = lambda self, x: x * table["k"]
    net = Linear(3, 3)
    world.play(world.compile(net), changes=[lambda: table.update(k=3.0)])


@program
def a_rate_by_vars(world):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5)
    name = "param_" + "groups"
    f = world.compile(lambda x: x * vars(optimizer)[name][0]["lr"])

    def put(lr):
        optimizer.param_groups[0]["lr"] = lr

    world.play(f, changes=[lambda: put(0.25), lambda: put(2)])


@program
def a_rate_by_getattr(world):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5)
    name = "param_" + "groups"
    f = world.compile(lambda x: x * getattr(optimizer, name)[0]["lr"])

    def put(lr):
        optimizer.param_groups[0]["lr"] = lr

    world.play(f, changes=[lambda: put(0.25), lambda: put(2)])


@program
def a_rate_in_the_text_of_an_optimizer(world):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5)
    f = world.compile(lambda x: x * len(repr(optimizer)))

    def put(lr):
        optimizer.param_groups[0]["lr"] = lr

    world.play(f, changes=[lambda: put(0.2512345), lambda: put(2)])


@program
def a_rate_of_a_group_that_is_held(world):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5)
    group = optimizer.param_groups[0]

    @world.compile
    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return x * group["lr"], type(group["lr"])

    world.watch(w)
    world.play(f, changes=[lambda: group.update(lr=0.25), lambda: group.update(lr=2)])


@program
def an_epoch_by_vars(world):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    name = "last_" + "epoch"
    f = world.compile(lambda x: x * vars(schedule)[name])
    world.play(f, changes=[schedule.step, schedule.step])


@program
def a_rate_that_an_optimizer_of_the_program_keeps(world):
    class Keeping(optim.SGD):
        def apply_single(self, array, grad, state, step, *hyper):
            self.seen = step
            super().apply_single(array, grad, state, step, *hyper)

    w = leaf(3)
    optimizer = Keeping([w], lr=0.5)

    @world.compile
    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return x * 2

    world.watch(w, lambda: optimizer.seen, lambda: type(optimizer.seen))
    world.play(f)


@program
def rates_that_an_optimizer_of_the_program_collects(world):
    class Keeping(optim.SGD):
        def apply_single(self, array, grad, state, step, *hyper):
            kept.append((step, hyper[0]))
            super().apply_single(array, grad, state, step, *hyper)

    kept, w = [], leaf(3)
    optimizer = Keeping([w], lr=0.5)

    @world.compile
    def f(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return x * 2

    world.watch(w, kept)
    world.play(f)


@program
def a_name_that_becomes_a_global_later(world):
    module = world.module(
        "def f(x):\n    try:\n        return x * k\n    except NameError:\n        return x\n"
    )
    world.play(
        world.compile(module.f),
        changes=[lambda: setattr(module, "k", 3.0), lambda: delattr(module, "k")],
    )


@program
def an_attribute_of_a_module_that_is_added(world):
    module = world.module("")
    f = world.compile(lambda x: x * getattr(module, "k", 2.0))
    world.play(f, changes=[lambda: setattr(module, "k", 3.0), lambda: delattr(module, "k")])


@program
def a_size_of_a_file(world):
    path = os.path.join(world.directory, "size")

    def put(n):
        with open(path, "w") as file:
            file.write("a" * n)

    put(2)
    f = world.compile(lambda x: x * os.path.getsize(path))
    world.play(f, changes=[lambda: put(3)])


@program
def an_environment_by_a_path(world):
    before = os.environ.get("HOME")
    f = world.compile(lambda x: x * len(os.path.expanduser("~/a")))
    try:
        world.play(f, changes=[lambda: os.environ.update(HOME="/another/home")])
    finally:
        if before is not None:
            os.environ["HOME"] = before


@program
def a_proxy_of_a_class(world):
    class Thing:
        k = 2.0

    proxy = vars(Thing)
    f = world.compile(lambda x: x * proxy["k"])
    world.play(f, changes=[lambda: setattr(Thing, "k", 3.0)])


@program
def a_view_of_a_simple_namespace(world):
    space = types.SimpleNamespace(k=2.0)
    f = world.compile(lambda x: x * sum(vars(space).values()))
    world.play(f, changes=[lambda: setattr(space, "m", 3.0), lambda: delattr(space, "k")])
