"""What an op runs on each type of arrays: one `Implementation`, built when it is first needed.

`Implementation` leads, from top to bottom, from an op's definition to the functions that a call and
a sweep run. Whatever changes these later (a twin, bfloat16, a tool) clears the ops' tables of
implementations, so that they are built anew when they are next needed.
"""

from importlib import import_module
from typing import Any
from weakref import WeakSet

from .._thread_state import make_lock
from ..backends import backend_of
from ..backends.bfloat16 import rounding
from ..backends.registry import on_change
from .casting import stage
from .plan import Plan
from .rules import bind, guard, guards_itself

# For each array library the module that defines its twins of this package's ops. An op imports the
# module when it first meets an array of that library.
twin_modules: dict[str, str] = {}

# Takes the place of an array type for the rules that run on Tensors under ``create_graph``.
TENSORS = "tensors"

ops: WeakSet = WeakSet()  # all that are alive, including users' own

# A thread holds this lock while it builds an implementation or clears tables. Otherwise it could
# store an implementation of the old state after another thread has cleared the tables.
_building = make_lock()

# Objects that wrap the functions of all ops, for example while a tool is on. Each has the methods
# ``forward(op, forward)`` and ``plan(plan)``; see `gpugrad.tools.observing`.
instruments: tuple[Any, ...] = ()


def load_twins(library):
    """Import the twins that this package has for an array library."""
    if library in twin_modules:
        import_module(twin_modules[library])


def implementation_of(op, kind):
    """The op's `Implementation` for a type of arrays, or for `TENSORS`; builds it if needed.

    Raises KeyError if ``kind`` is not a known type of arrays.
    """
    if (found := op.implementations.get(kind)) is None:
        if kind is not TENSORS:
            load_twins(backend_of[kind].name)
        with _building:
            found = op.implementations[kind] = Implementation(op, kind)
    return found


class Implementation:
    """What an op runs on arrays of one type.

    kind: the type of the arrays, or `TENSORS`, for which the rules are those of the definition.
    xp: the namespace of the arrays.
    forward: a function ``(xp, *arrays, **static)``.
    uncast: the same without a look at autocast.
    plans: the plans made so far, a list; for an op that takes a sequence, a dict. See `plan`.
    has_twin: whether the forward is a twin, which may still decline single calls.
    instruments: the instruments that were there when this was built.
    """

    def __init__(self, op, kind):
        self.op, self.kind = op, kind
        self.plans = {} if op.variadic else [None] * (1 << len(op.inputs))
        self.xp, self._twins, self._rounding, self._enter = None, {}, None, None
        self._guard, self._as_kernel = guard, None
        forward = op.forward
        if kind is not TENSORS:
            backend = backend_of[kind]
            self.xp = backend.xp
            self._guard = backend.guard or guard
            self._twins = backend.twins(op)
            if op.public and op.elementwise:  # the forward of a user's op may look at the types
                forward = backend.in_parts(forward)
                self._as_kernel = backend.as_kernel
            if "forward" in self._twins:
                forward = _with_twin(op, self._twins["forward"], forward)
            self._rounding = rounding(backend)
            if self._rounding is not None:
                forward = self._rounding.forward(op, forward)
            if backend.several_devices:
                forward = backend.on_device(forward, op.public)
                self._enter = backend.on_devices
        self.has_twin = "forward" in self._twins
        self.instruments = instruments
        for instrument in instruments:
            forward = instrument.forward(op, forward)
        self.uncast = forward
        self.forward = forward if kind is TENSORS else stage(op, backend_of[kind], forward)

    def plan(self, key):
        """The `Plan` of this key, made when it is first asked for.

        key: a number whose bits say which inputs want a cotangent; for an op that takes a
            sequence, that number and the length of the sequence.
        """
        plan = self.plans.get(key) if self.op.variadic else self.plans[key]
        if plan is None:
            plan = Plan(self, key)
            for instrument in self.instruments:
                instrument.plan(plan)
            self.plans[key] = plan
        return plan

    def plan_on_tensors(self, plan):
        """The plan with the rules of the definition, which may be ``plan`` itself."""
        plain = not self._twins and self._rounding is None and self._enter is None
        if plain and self._guard is guard:
            return plan
        return implementation_of(self.op, TENSORS).plan(plan.key)

    def rule(self, target, rule, names, guarded=False):
        """A rule as a function of ``(xp, g, saved)``; ``saved`` holds the values of ``names``.

        target: the input that the rule is for, or ``"joint"``; None for a rule for tangents,
            which has no twin.
        guarded: whether it returns 0 instead of nan where ``g`` is 0.
        """
        run, twin = bind(rule, names), self._twins.get(target)
        options = {"guarded": guarded} if twin is not None and guards_itself(twin) else {}
        if guarded and (twin is None or options):
            run = self._guard(run)
        # A kernel would not see when a rule of the user's reads something else than its arguments.
        is_own = (rule.__module__ or "").startswith("gpugrad.")
        if is_own and self._as_kernel is not None and target is not None:
            run = self._as_kernel(run)
        if twin is not None:
            run = _with_twin(self.op, bind(twin, names, **options), run)
            if guarded and not options:
                run = self._guard(run)
        return self._wrapped(run)

    def together(self, names, guarded):
        """The twin for the cotangents of all inputs at once, as `rule` returns one.

        None if there is no such twin, or if a tool is on, which sees each input's rule. The twin
        may return NotImplemented.
        """
        twin = self._twins.get("together")
        if twin is None or self.instruments:
            return None
        return self._wrapped(bind(twin, names, guarded=guarded))

    def _wrapped(self, run):
        if self._rounding is not None:
            run = self._rounding.rule(self.op, run)
        if self._enter is not None:
            run = self._enter(run)
        return run


def _with_twin(op, twin, definition):
    """A function that runs ``twin`` and, where that returns NotImplemented, ``definition``."""

    def run(*args, **static):
        try:
            result = twin(*args, **static)
        except Exception as error:
            if not op.public:  # it is the user's
                error.add_note(f"in a twin of {op.name}")
            raise
        return definition(*args, **static) if result is NotImplemented else result

    return run


def has_twin(op, array):
    """Whether the op's forward on the library of this array is a twin."""
    return type(array) in backend_of and implementation_of(op, type(array)).has_twin


def current(plan):
    """The plan that a call would use now, for a node whose plan is from before a change."""
    if plan.output is not None:
        return plan
    found = implementation_of(plan.op, plan.implementation.kind).plan(plan.key)
    if found.sources != plan.sources:  # the op has other rules now
        return plan
    if plan.special:
        found.mark_special()
    return found


def all_ops():
    """The ops that are alive, as a list."""
    while True:
        try:
            return list(ops)
        except RuntimeError:  # another thread has made one meanwhile
            continue


def clear(*some):
    """Delete the implementations of some ops, or of all; they are built when next needed."""
    with _building:
        for op in some or all_ops():
            op.implementations.clear()


def add_instrument(new):
    """Have all ops run inside this instrument from now on."""
    global instruments
    with _building:
        instruments = (*instruments, new)
        clear()


def remove_instrument(old):
    """Undo `add_instrument`."""
    global instruments
    with _building:
        if old in instruments:
            instruments = tuple([instrument for instrument in instruments if instrument is not old])
            clear()


on_change.append(clear)
