"""Signal handlers and other threads that run while a function is recorded or repeated."""

import contextlib
import signal
import sys
import threading

import numpy as np

import gpugrad as gg

from .harness import leaf, missing, model, normal, program, wait_for

NO_SIGNALS = missing(signal, "SIGUSR1", "raise_signal", "setitimer")


@contextlib.contextmanager
def handling(handler, number=None):
    number = signal.SIGUSR1 if number is None else number
    before = signal.signal(number, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(number, before)


def ring():
    signal.raise_signal(signal.SIGUSR1)


def worked(x, n=80):
    """Some work that takes a millisecond or more."""
    for _ in range(n):
        x = gg.tanh(x * 1.5) + x * 0.5
    return x


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
            ring()

    def handler():
        state["depth"] = 1
        kept.append(f(normal(4, seed=len(kept))))
        state["depth"] = 0

    world.watch(kept, state)
    with handling(handler):
        world.play(f, changes=[lambda: state.update(k=3.0)])


@program(needs=NO_SIGNALS, in_child=True)
def a_handler_that_goes_backward_during_backward(world):
    w, state = leaf(3), {"depth": 0, "rings": True}
    f = world.compile(lambda x: (gg.exp(w) * x).sum())

    def hook(g):
        if state["rings"] and not state["depth"]:
            ring()

    w.register_hook(hook)

    def handler():
        state["depth"] = 1
        f(normal(3, seed=50)).backward()
        state["depth"] = 0

    def whole(x):
        w.grad = None
        f(x).backward()

    world.watch(w)
    with handling(handler):
        world.play(
            whole,
            changes=[lambda: state.update(rings=False), lambda: state.update(rings=True)],
        )


@program(needs=NO_SIGNALS, in_child=True)
def a_handler_that_goes_backward_between_two_operations(world):
    w, state = leaf(3), {"depth": 0}

    @gg.custom_vjp
    def ringing(x):
        return x * 2

    def backward(_, g):
        if not state["depth"]:
            ring()
        return (g * 2,)

    ringing.defvjp(lambda x: (x * 2, None), backward)
    f = world.compile(lambda x: (ringing(gg.exp(w)) * x).sum())

    def handler():
        state["depth"] = 1
        f(normal(3, seed=50)).backward()
        state["depth"] = 0

    def whole(x):
        w.grad = None
        f(x).backward()

    world.watch(w)
    with handling(handler):
        world.play(whole)


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

        runs.__name__, runs.__module__ = f"{where.__name__}_in_call_{first}", where.__module__
        program(runs, needs=NO_SIGNALS, in_child=True)
    return where


@program(needs=NO_SIGNALS, in_child=True)
def interrupts_at_any_time_leave_whole_gradients(world):
    net = model(3, 8, 8, 1)
    start = {k: gg.tensor(v) for k, v in net.state_dict().items()}
    params = [*net.parameters()]

    @world.compile
    def step(x):
        net.zero_grad()
        loss = (worked(net(x), 20) ** 2).mean()
        loss.backward()
        return loss.detach()

    def handler():
        raise KeyboardInterrupt

    def whole(i):
        with contextlib.suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.0001 * (i + 1))
            step(normal(4, 3, seed=i))
            wait_for(lambda: False)
        assert all(p.grad is None or isinstance(p.grad.array, np.ndarray) for p in params)
        assert all(p.grad is None or p.grad.shape == p.shape for p in params)
        net.load_state_dict(start)
        return step(normal(4, 3, seed=i)), [p.grad for p in params]

    with handling(handler, signal.SIGALRM):
        world.play(whole, lambda i: (i,), calls=25)


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
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            world.play(whole, changes=[change] * 4)
        finally:
            sys.setswitchinterval(interval)

    runs.__name__, runs.__module__ = prepare.__name__, prepare.__module__
    return program(runs)


@program
def a_thread_that_computes_for_the_function(world):
    @world.compile
    def f(x):
        found = []

        def work():
            with contextlib.suppress(RuntimeError):
                found.append(x * 3)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
        return found[0] + x

    world.play(f)


@program
def the_grad_mode_of_another_thread(world):
    w = leaf(3)
    f = world.compile(lambda x: w * x)

    def whole(x):
        found = []

        def work():
            with gg.no_grad():
                found.append(f(x))
            found.append(f(x))

        with gg.no_grad():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(20)
            found.append(f(x))
        return found, [y.requires_grad for y in found]

    world.play(whole)
