"""How tools see ops: while one is on, each op's forward and rules run inside a wrapper.

A call does not ask whether a tool is on. When the first tool is entered, and when the last is
left, all ops' implementations are built again, with the wrapper or without it. A node that is
recorded meanwhile keeps a `Record` of its call beside its saved values. Tools see all threads.
"""

import linecache
import os
import sys
import threading
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from .._arguments import leaves_in
from .._batched import physical
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd import implementation
from ..backends import backend_of, namespace_of


class Tool:
    """A context manager that sees everything that ops do while it is on.

    If several are on, those with a higher ``rank`` are called last before a function runs, and
    first after it.
    """

    rank = 0

    def __enter__(self) -> Any:
        with _active.lock:
            if self in _active.tools:
                raise RuntimeError(f"{type(self).__name__}: this one is on already; make another")
            _switch((*_active.tools, self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        with _active.lock:
            _switch([tool for tool in _active.tools if tool is not self])

    def before(self, event):
        """A forward or a rule is about to run."""

    def after(self, event):
        """A forward or a rule has run; ``event.out`` is None if it raised."""

    def recorded(self, record, saved):
        """A node has been made that keeps the values ``saved``."""


@dataclass(slots=True, eq=False)
class Event:
    """One run of a forward or a rule.

    phase: "forward", "backward", or "tangent" in forward mode.
    inputs: the arrays and numbers for a forward; the cotangent or tangent for a rule.
    static: a forward's static parameters, by name.
    target: the number of the input that a rule is for; None for all inputs.
    saved: the values that the node kept for a rule.
    record: for a rule, the `Record` of its node's call; None if no tool was on then.
    parent: the event that this one is part of, in this thread; None for the outermost.
    notes: what tools note; each uses itself as the key.
    """

    op: Any
    phase: str
    inputs: tuple
    static: dict
    target: int | None = None
    plan: Any = None
    saved: tuple = ()
    record: "Record | None" = None
    parent: "Event | None" = None
    notes: dict = field(default_factory=dict)
    out: Any = None

    def run(self, function, *args, **static):
        self.parent, thread.event = thread.event, self
        tools = _active.tools
        try:
            for tool in tools:
                tool.before(self)
            try:
                self.out = function(*args, **static)
            finally:
                for tool in reversed(tools):
                    tool.after(self)
        finally:
            thread.event = self.parent
        return self.out


class Line(NamedTuple):
    """A line of a program; as text it is ``fit.py:12``."""

    file: str
    number: int

    def __str__(self) -> str:
        inside = self.file.startswith(os.getcwd() + os.sep)
        return f"{os.path.relpath(self.file) if inside else self.file}:{self.number}"

    @property
    def text(self) -> str:
        """Its place and its source, for a table."""
        source = self.source
        return f"{self}: {source if len(source) <= 60 else source[:57] + '...'}".removesuffix(": ")

    @property
    def source(self) -> str:
        """Its source code; empty if the file cannot be read."""
        return linecache.getline(self.file, self.number).strip()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Record:
    """A recorded call: its op, the line of the program, and its inputs.

    inputs: the shape and dtype of each array, and other inputs themselves.
    within: the record of a rule's node, if that rule made the call, under create_graph.
    notes: what tools note; each uses itself as the key.
    """

    op: Any
    line: Line | None
    inputs: tuple
    within: "Record | None"
    notes: dict = field(default_factory=dict)


class Saved(tuple):
    """A node's saved values, with the `Record` of its call."""

    record: Record

    def holding(self, values):
        """Other ``values`` with the same record."""
        saved = Saved(values)
        saved.record = self.record
        return saved


# The tools that are on, in the order of their ranks.
_active = SimpleNamespace(lock=threading.RLock(), tools=())


def _switch(tools):
    was_on, _active.tools = _active.tools, tuple(sorted(tools, key=lambda tool: tool.rank))
    if tools and not was_on:
        implementation.add_instrument(_wrapping)
    elif was_on and not tools:
        implementation.remove_instrument(_wrapping)


class _Wrapping:
    """The instrument that wraps all ops while tools are on; see `autograd.implementation`.

    Graphs that were recorded meanwhile keep the wrappers. Once the last tool is off, a wrapper only
    calls the function that it wraps.
    """

    def forward(self, op, forward):
        """What a call of the op runs."""

        def run(xp, *arrays, **static):
            out = forward(xp, *arrays, **static)
            if type(out) in backend_of and type(out) not in namespace_of:
                out = backend_of[type(out)].asarray(out)  # an array, which can have weak references
            return out

        def observed(xp, *arrays, **static):
            return Event(op, "forward", arrays, static).run(run, xp, *arrays, **static)

        return observed

    def plan(self, plan):
        """Wrap what a new plan runs."""
        targets = [i for i, want in enumerate(plan.wanted) if want]
        if plan.joint is None:

            def observed(rules, phase):
                pairs = zip(targets, rules, strict=True)
                return tuple([rule and _rule(plan, phase, i, rule) for i, rule in pairs])

            same = plan.guarded is plan.rules
            plan.rules = observed(plan.rules, "backward")
            plan.guarded = plan.rules if same else observed(plan.guarded, "backward")
            plan.tangents = observed(plan.tangents, "tangent")
        else:  # the rules pick from what this returns
            plan.joint = _rule(plan, "backward", None, plan.joint)
        plan.pick = _saved_getter(plan, plan.pick)


_wrapping = _Wrapping()


def _rule(plan, phase, target, rule):
    def observed(xp, g, saved):
        if not _active.tools:
            return rule(xp, g, saved)
        record = getattr(saved, "record", None)
        return Event(plan.op, phase, (g,), {}, target, plan, saved, record).run(rule, xp, g, saved)

    return observed


def _saved_getter(plan, pick):
    n = len(plan.wanted)

    def observed(call):
        saved = Saved(() if pick is None else pick(call))
        event = thread.event
        saved.record = record = Record(
            plan.op, user_line(), tuple(map(like, call[:n])), event and event.record
        )
        for tool in _active.tools:
            tool.recorded(record, saved)
        return saved

    return observed


def like(x):
    """What a `Record` keeps of an input: an array's shape and dtype, any other value itself."""
    if isinstance(x, (tuple, list)):
        return list(map(like, x))
    return (tuple(x.shape), x.dtype) if hasattr(x, "shape") else x


def like_text(like):
    """The result of `like` as text."""
    if isinstance(like, list):
        return ", ".join(map(like_text, like))
    return f"{str(like[1]).split('.')[-1]} {like[0]}" if isinstance(like, tuple) else repr(like)


# Libraries that call ops on behalf of a program, besides Python's own.
_BETWEEN = {"gpugrad", "array_api_compat", "einops", "numpy", "opt_einsum", "optree"}
_BETWEEN |= sys.stdlib_module_names


@cache
def _is_between(module):
    return module.partition(".")[0] in _BETWEEN


def user_line():
    """The `Line` of the program from which an op is being called; None if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _is_between(frame.f_globals.get("__name__", "")):
            return Line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def arrays_in(value):
    """The raw arrays in a value that ops take, keep or return; a batch of `vmap` is one array."""
    for x in leaves_in(value):
        if isinstance(x, Tensor):
            yield physical(x).array
        elif type(x) in backend_of:
            yield x


def in_line(line):
    """A `Line` as a clause for an error."""
    if line is None:
        return ""
    source = line.source if len(line.source) <= 80 else line.source[:77] + "..."
    return f", in {line}" + (f": `{source}`" if source else "")


def described(record):
    """The call of a `Record` as a clause for an error."""
    if record is None:
        return "it was called before the tool was on, in a line not known"
    given = ", ".join([like_text(x) for x in record.inputs if x is not None])
    text = f"it was called with {given}{in_line(record.line)}"
    if record.within is not None:
        text += f", by the derivative of {record.within.op.name}; {described(record.within)}"
    return text
