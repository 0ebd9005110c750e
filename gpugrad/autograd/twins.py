"""What an op's calls and rules run: its definition, or on some arrays what is faster there.

An array library's backend may have a twin of an op, its forward or a rule by other means, and
where it has several devices, an array's own must be the current one while it is computed with.
Both are put around the definition when the backend is admitted. So they cost nothing where
there is none, and elsewhere one comparison.
"""

from contextlib import ExitStack, contextmanager
from functools import wraps
from operator import itemgetter

from ..backends.bfloat16 import rounding
from ..backends.numpy import quiet
from ..backends.registry import backends, told

around_sweep = quiet  # the context in which a sweep runs rules


@contextmanager
def _quiet_and_back():
    """The same where rules enter devices: at its end the current ones are as before."""
    several = [backend.sweeping() for backend in backends if backend.several_devices]
    with ExitStack() as stack:
        for context in (quiet(), *several):
            stack.enter_context(context)
        yield


def _meet(backend):
    global around_sweep
    if backend.several_devices:
        around_sweep = _quiet_and_back


told.append(_meet)


def forward(op):
    """What a call of the op runs."""
    run = op.forward
    for backend in backends:
        twin = op.twins_of(backend).get("forward")
        if twin is not None:
            run = _forward(backend.xp, twin, run, op)
        if (of_bfloat16 := rounding(backend)) is not None:
            run = of_bfloat16.forward(op, run)
        if backend.several_devices:
            run = backend.on_device(run, op.public)
    return run


def _forward(own, twin, generic, op):
    @wraps(generic)
    def run(xp, *inputs, **static):
        if xp is own:
            try:
                out = twin(xp, *inputs, **static)
            except Exception as error:
                error.add_note(f"in a twin of {op.name}")
                raise
            if out is not NotImplemented:
                return out
        return generic(xp, *inputs, **static)

    return run


def rule(op, target, generic, names):
    """A rule as a function of ``(xp, g, saved)``, where ``saved`` holds ``names``.

    target: the input it is for, or ``"joint"``; None for one of tangents, which have no twins.
    """
    run = bind(generic, names)
    for backend in backends:
        twin = op.twins_of(backend).get(target)
        if twin is not None:
            run = _rule(backend.xp, bind(twin, names), run, op)
        if (of_bfloat16 := rounding(backend)) is not None:
            run = of_bfloat16.rule(op, run)
        if backend.several_devices:
            run = backend.on_devices(run)
    return run


def _rule(own, twin, generic, op):
    def run(xp, g, saved):
        if xp is own:
            try:
                c = twin(xp, g, saved)
            except Exception as error:
                error.add_note(f"in a twin of {op.name}")
                raise
            if c is not NotImplemented:
                return c
        return generic(xp, g, saved)

    return run


def kept_names(rule):
    """Names of what a rule keeps: its parameters after ``xp`` and ``g``."""
    code = rule.__code__
    return code.co_varnames[2 : code.co_argcount]


def bind(rule, names):
    """``rule`` as a function of ``(xp, g, saved)``, where ``saved`` holds ``names``."""
    at = [names.index(name) for name in kept_names(rule)]
    if not at:
        return lambda xp, g, saved: rule(xp, g)
    if len(at) == 1:
        (i,) = at
        return lambda xp, g, saved: rule(xp, g, saved[i])
    if len(at) == 2:
        i, j = at
        return lambda xp, g, saved: rule(xp, g, saved[i], saved[j])
    get = itemgetter(*at)
    return lambda xp, g, saved: rule(xp, g, *get(saved))
