"""Signal handlers and other threads that run while a function is recorded or repeated."""

import contextlib
import functools
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from both_ways import switching_often

import gpugrad as gg
from gpugrad import optim

from .harness import add, leaf, missing, model, normal, program, swept, wait_for

NO_SIGNALS = missing(signal, "SIGUSR1", "raise_signal", "setitimer")


@contextlib.contextmanager
def handling(handler, number=None):
    number = signal.SIGUSR1 if number is None else number
    before = signal.signal(number, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(number, before)


@program(needs=NO_SIGNALS, in_child=True)
def a_timer_that_goes_backward(world):
    """What the handler writes is reached by the function, but no result depends on when."""
    w, v, rung, table = leaf(3), leaf(3, seed=1), [], {"k": 2.0}
    f = world.compile(lambda w, x: worked(w * x * table["k"], 80).sum())

    def handler():
        v.grad = None
        f(v, normal(3, seed=len(rung))).backward()
        rung.append(v.grad)

    def whole(x):
        n = len(rung)
        signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + n % 5))
        swept(f, w)(w, x)
        wait_for(lambda: len(rung) > n)

    world.watch(w, rung, table)
    with handling(handler, signal.SIGALRM):
        world.play(whole, changes=[grows(table), lambda: None, grows(table)])


def worked(x, n):
    """Some work that takes a millisecond or more."""
    for _ in range(n):
        x = gg.tanh(x * 1.5) + x * 0.5
    return x


def grows(table):
    return lambda: table.update(k=table["k"] + 1)


@program(needs=NO_SIGNALS, in_child=True)
def a_handler_that_calls_the_same_function(world):
    state, kept = {"depth": 0, "k": 2.0}, []

    @world.compile
    def f(x):
        y = x * state["k"]
        inner()
        return y + state["k"]

    def inner():
        if not state["depth"]:
            signal.raise_signal(signal.SIGUSR1)

    def handler():
        state["depth"] = 1
        kept.append(f(normal(4, seed=len(kept))))
        state["depth"] = 0

    world.watch(kept, state)
    with handling(handler):
        world.play(f, changes=[lambda: state.update(k=3.0)])


def interrupted(where):
    """Programs that Ctrl-C ends in one place, in the call 1, 2, 3 and 4, and in a later one."""
    for first in (1, 2, 3, 4):

        def runs(world, first=first):
            state = {"call": 0}

            def stop():
                if state["call"] in (first, first + 3):
                    signal.raise_signal(signal.SIGINT)

            def handler():
                raise KeyboardInterrupt("own")

            function, watched = where(world, stop)

            def whole(x):
                state["call"] += 1
                return function(x)

            world.watch(*watched)
            with handling(handler, signal.SIGINT):
                world.play(whole, calls=9)

        add(f"{where.__name__}_in_call_{first}", __name__, runs, needs=NO_SIGNALS, in_child=True)
    return where


@interrupted
def an_interrupt_between_writes_draws_and_steps(world, stop):
    net, w, log = model(3, 3, 1), normal(3), []
    optimizer = optim.Adam(net.parameters(), lr=0.1)

    @world.compile
    def step(x):
        w.__iadd__(x)
        log.append(len(log))
        optimizer.zero_grad()
        loss = (net(w * gg.random.normal((4, 3))) ** 2).mean()
        loss.backward()
        stop()
        optimizer.step()
        w.__imul__(2)
        log.append("whole")
        return loss.detach() + gg.random.normal(3)

    return step, [net, optimizer, w, log, gg.random.default_generator]


@interrupted
def an_interrupt_in_a_hook_outside(world, stop):
    w, v = leaf(3), leaf(3, seed=1)
    v.register_hook(lambda g: stop())
    f = world.compile(lambda x: (w * v * x).sum())
    return lambda x: f(x).backward(), [w, v]


# Threads


def beside(prepare):
    """A program whose calls run beside a thread that does something again and again.

    ``prepare`` returns the function that is called, what the thread does, a function that says
    whether all of that has had its effect, given how often it was done, and a change.
    """

    def runs(world):
        function, action, is_whole, change = prepare(world)
        done, errors = 0, []

        def whole(x):
            nonlocal done
            started, ends = threading.Event(), threading.Event()

            def work():
                nonlocal done
                try:
                    while not ends.is_set():
                        action()
                        done += 1
                        started.set()
                except Exception as error:  # noqa: BLE001
                    errors.append(error)
                    started.set()

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            assert started.wait(20)
            try:
                return function(x)
            finally:
                ends.set()
                thread.join(20)
                assert not thread.is_alive()

        world.watch(lambda: is_whole(done), errors)
        with switching_often():
            world.play(whole, changes=[change] * 4)

    return add(prepare.__name__, __name__, runs)


@beside
def a_thread_that_counts_in_a_tensor(world):
    table = {"k": 2.0, "n": gg.zeros((), dtype=gg.int64)}
    f, n = world.compile(lambda x: worked(x * table["k"], 30)), table["n"]
    return f, lambda: n.__iadd__(1), lambda count: n.item() == count, grows(table)


@beside
def a_thread_that_draws_numbers(world):
    """No two of the numbers may be equal."""
    drawn, table, uniform = [], {"k": 2.0}, gg.random.Generator(3).uniform
    f = world.compile(lambda x: (worked(x * table["k"], 30), uniform(4, dtype="float64")))
    return (
        lambda x: drawn.extend(f(x)[1].tolist()),
        lambda: drawn.append(uniform(dtype="float64").item()),
        lambda n: len(drawn) - len({*drawn}),
        grows(table),
    )


@program
def threads_that_count_in_one_number(world):
    n, x = 0, normal(100, 100)

    def counted(x, rounds):
        nonlocal n
        n += 1
        return worked(x, rounds)

    def repeated(f):
        for _ in range(20):
            f(x)

    def whole(x):
        with ThreadPoolExecutor(2) as pool:
            [*pool.map(repeated, functions)]

    functions = [world.compile(functools.partial(counted, rounds=rounds)) for rounds in (5, 7)]
    [*map(repeated, functions)]
    with switching_often():
        world.play(whole, watch=[lambda: n])


@program
def a_thread_that_computes_for_the_function(world):
    def f(x):
        found = []

        def work():
            with contextlib.suppress(RuntimeError):
                found.append(x * 3)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
        return found[0] + x

    world.check(f)
