"""Ctrl-C leaves no wrong gradient behind, and a thread that works as before.

Each program is run again and again, with a KeyboardInterrupt at another bytecode of gpugrad each
time, of those at which Python looks for signals: the start of a function, the end of a call, and
the end of a pass through a loop. The few that enter or leave a ``with`` block are left out: as with
every context manager that is written in Python, what the block has changed may stay changed there.
"""

import dis
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from test_custom_vjp import with_rule

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad._thread_state import thread

ROOT = str(Path(gg.__file__).parent)
SWITCHES = "__enter__", "__exit__", "set_recording"


@cache
def places(code):
    """The offsets of the instructions before which an interrupt may come."""
    ranges = dis._parse_exception_table(code)

    def handler(offset):
        return [entry.target for entry in ranges if entry.start <= offset < entry.end]

    found, before, after_call = set(), None, False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        is_jump = name.startswith("JUMP_BACKWARD")
        if is_jump and sys.version_info >= (3, 14):
            # It has jumps inside a ``with`` block that do not belong to the block.
            is_jump = handler(before) == handler(instruction.offset)
        if name == "RESUME" or is_jump:
            found.add(instruction.offset)
        elif after_call and handler(before) == handler(instruction.offset):
            found.add(instruction.offset)  # the interrupt goes where one of the call itself would
        before, after_call = instruction.offset, name.startswith("CALL")
    return found


def interrupted(function, number):
    """Call ``function()`` with a KeyboardInterrupt at the place with this number, if it has one.

    Returns the interrupt, whose traceback keeps what its frames refer to, or None.
    """
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if not frame.f_code.co_filename.startswith(ROOT) or frame.f_code.co_name in SWITCHES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            count += 1
            if count == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        sys.settrace(before)
    return None


def everywhere(prepare, check):
    """Call ``check(state)`` after each interrupt of a function.

    prepare: returns the function to interrupt, and the state for ``check``.
    """
    function, state = prepare()
    function()
    check(state)  # the first call imports modules and builds implementations
    number = 1
    while True:
        function, state = prepare()
        interrupt = interrupted(function, number)
        try:
            assert gg.is_grad_enabled()
            assert (thread.levels, thread.draws, thread.repeats) == ((), (), False)
            assert thread.event is thread.autocast is None
            check(state)
        except AssertionError as error:
            error.add_note(f"after an interrupt at place {number}")
            raise
        if interrupt is None:
            return
        number += 1


def leaf(*values):
    return gg.tensor([*values], dtype="float64", requires_grad=True)


def backward_works(_=None):
    x = leaf(1, 2)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def hooked():
    x, w = leaf(1, 2), leaf(3, 4)
    x.grad, w.grad = leaf(5, 6).detach(), leaf(7, 8).detach()
    y = x * w
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1)
    x.register_post_accumulate_grad_hook(lambda x: x.grad * 2)
    return gg.exp(y).sum().backward, (x, w)  # which keeps them


def in_blocks(x):
    switch = gg.no_grad()
    with switch:
        x * 2
        with gg.enable_grad(), switch, gg.set_grad_enabled(False):
            x * 2


def twice(x):
    (g,) = gg.autograd.grad((LEAF**3).sum(), LEAF, create_graph=True)
    g.sum().backward()


own = with_rule(lambda x: x**2, lambda x: (x**2, x), lambda x, g: (2 * x * g,))
LEAF, MATRIX = leaf(1, 2), gg.ones((2, 2), requires_grad=True)
CALLS = {
    "vmap of grad": lambda x: gg.vmap(gg.grad(lambda x: own(x) * 2))(x),
    "jvp": lambda x: gg.jvp(own, (x,), (x,)),
    "hessian": lambda x: gg.hessian(lambda x: (x**3).sum())(x),
    "jacobian": lambda x: gg.jacobian(gg.sin, mode="forward")(x),
    "no_grad": gg.no_grad(lambda x: x * 2),
    "autocast": gg.amp.autocast(dtype="float16")(lambda x: MATRIX @ MATRIX),
    "checkpoint": lambda x: gg.checkpoint(
        lambda x: gg.sin(x) * gg.random.uniform(2, dtype="float64"), LEAF
    ),
    "sweep of a checkpoint": lambda x: CALLS["checkpoint"](x).sum().backward(),
    "custom_vjp": lambda x: own(LEAF),
    "batch_norm": lambda x: nn.functional.batch_norm(
        gg.ones((3, 2)), gg.zeros(2), gg.ones(2), training=True
    ),
    "twice": twice,
    "in_blocks": in_blocks,
}


def calling(function):
    x = gg.tensor([1.0, 2.0], dtype="float64")
    return lambda: function(x), None


PROGRAMS = {"hooked": hooked} | {name: partial(calling, f) for name, f in CALLS.items()}


# An interrupt inside ``__del__`` is shown as a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("prepare", PROGRAMS.values(), ids=PROGRAMS)
def test_the_thread_goes_on(prepare):
    everywhere(prepare, backward_works)


def stepping(make):
    def prepare():
        x, p, q = leaf(1, 2), leaf(3, 4), leaf(5, 6)
        optimizer = make([p, q])
        p.grad = q.grad = gg.ones(2, dtype="float64")
        return optimizer.step, (x, p, q, (x * p * q).sum())

    return prepare


def loading():
    x, model = leaf(1, 2), nn.Module()
    model.p, model.q = nn.Parameter(leaf(3, 4)), nn.Parameter(leaf(5, 6))
    old, new = (x * model.p * model.q).sum(), {"p": np.zeros(2), "q": np.zeros(2)}
    return lambda: model.load_state_dict(new), (x, model.p, model.q, old)


def the_old_graph_is_right(state):
    """Either nothing has changed, or backward raises."""
    x, _, _, old = state
    try:
        old.backward()
    except RuntimeError as error:
        if "overwritten in place" not in str(error):
            raise
    else:
        assert x.grad.tolist() == [15, 24]
    backward_works()


WRITERS = {
    "SGD": stepping(lambda params: optim.SGD(params, lr=1.0, momentum=0.5)),
    "Adam": stepping(lambda params: optim.Adam(params, lr=1.0)),
    "load_state_dict": loading,
}


@pytest.mark.parametrize("prepare", WRITERS.values(), ids=WRITERS)
def test_writes(prepare):
    everywhere(prepare, the_old_graph_is_right)
