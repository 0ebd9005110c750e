"""`detect_anomaly`: which op first made a nan or an infinity, and in which line."""

import cmath
import math
import zlib
from weakref import ref

from .._arguments import leaves_in
from .._batched import BatchedTensor
from ..autograd.sweep import fit
from ..autograd.variables import is_variable
from ..backends import SCALARS, backend_of, describe
from ..backends.numpy import position
from .observing import Tool, arrays_in, described, in_line, user_line


class detect_anomaly(Tool):
    """Find the op that first makes a nan or an infinity, forward or backward.

    Put ``with detect_anomaly():`` around a program, or around the part that you suspect. Inside,

    - a call raises FloatingPointError if its result has a nan or an infinity that no input has.
      The error names the op, the program's line, the inputs' shapes and dtypes, and the place in
      the result. If an input has the other of the two, the error says where that came from. An
      infinity that the program asks for, as in ``where(mask, x, -inf)``, or that is in its data
      is not an anomaly.
    - a derivative raises FloatingPointError if it turns a finite cotangent (or tangent) into a
      nan or an infinity. The error names the op, the input, and the line of the *forward* call.
      An infinite slope that the program does not choose, as in ``where(x > 0, sqrt(x), 0)``, is
      not an anomaly.
    - backward raises RuntimeError if a value that the graph keeps has changed by the time it is
      used, because the program wrote to ``x.array`` or to an array that shares its memory. The
      error names the op, the value, and the line of the call that kept it.

    check_inf: if False, only nan is looked for.

    This is for debugging: it reads every result once and every kept value twice, and the program
    waits for the GPU. It watches all threads. Of a graph that was recorded before the block it
    knows neither the lines nor whether kept values have changed. It does not check sums of several
    finite gradients.
    """

    def __init__(self, check_inf: bool = True) -> None:
        self.kinds = ("nan", "inf") if check_inf else ("nan",)
        # Results with a nan or an infinity that is not an anomaly, by their ids: a weak reference
        # to the result, and where its nan and its infinity came from.
        self._tainted: dict[int, tuple[ref, dict[str, str]]] = {}

    def before(self, event):
        if event.record is not None and self in event.record.notes:
            _check_unchanged(event, event.record.notes[self])

    def after(self, event):
        if event.out is None:
            return
        if event.phase != "forward":
            self._check_rule(event)
        elif event.parent is None:  # within a rule, only its result is checked
            for out in arrays_in(event.out):
                if kinds := _kinds(out):
                    self._check_forward(event, out, kinds)

    def recorded(self, record, saved):
        record.notes[self] = tuple(map(_checksum, arrays_in(saved)))

    def _check_forward(self, event, out, kinds):
        line = in_line(user_line())
        sources = {}
        for kind in kinds:
            if (fresh := _new_places(kind, out, event)) is None:
                sources[kind] = self._source(kind, event) or f"put in by {event.op.name}{line}"
            elif kind in self.kinds:
                others = [self._contents(x) for x in arrays_in(event.inputs)]
                there = " there" if event.op.elementwise else ""
                raise FloatingPointError(
                    f"its result has {_place_text(kind, fresh)}, which no input has{there}{line}"
                    + "".join([f"; an input has {text}" for text in others if text])
                )
            else:
                sources[kind] = f"made by {event.op.name}{line}"
        key = id(out)
        self._tainted[key] = ref(out, lambda _: self._tainted.pop(key, None)), sources

    def _source(self, kind, event):
        """Where the nan or infinity of an input came from; None if no input has it."""
        for x in arrays_in(event.inputs):
            if kind in _kinds(x):
                unknown = f"first seen as {event.op.name} got it{in_line(user_line())}"
                return self._sources_of(x).get(kind, unknown)
        return None

    def _sources_of(self, x):
        return self._tainted[id(x)][1] if id(x) in self._tainted else {}

    def _contents(self, x):
        sources = self._sources_of(x)
        return " and ".join([f"{k}, {sources[k]}" if k in sources else k for k in _kinds(x)])

    def _check_rule(self, event):
        cotangents = [g for g in leaves_in(event.inputs) if g is not None]
        if all(map(is_variable, cotangents)) and not any(map(_is_nonzero, arrays_in(cotangents))):
            return  # the sweep runs the rule on zeros, only to transpose it
        parts = enumerate(event.out) if event.target is None else [(event.target, event.out)]
        for target, c in parts:
            if not event.plan.wanted[target]:  # a joint rule may return more
                continue
            for array in _fitted(event, target, c):
                if kinds := _kinds(array):
                    given = {k for g in arrays_in(cotangents) for k in _kinds(g)}
                    for kind in kinds:
                        if kind in self.kinds and kind not in given:
                            raise FloatingPointError(_rule_error(event, target, kind, array, given))


def _fitted(event, target, c):
    """A rule's result as the sweep passes it on: a sum over broadcast axes can overflow."""
    like = event.record and event.record.inputs[target]
    is_whole = event.phase == "backward" and isinstance(like, tuple)
    for array in arrays_in(c):
        if is_whole and type(c) is not BatchedTensor:
            backend = backend_of[type(array)]
            with backend.scope(array):
                array = fit(backend.xp, array, *like, event.op)
        yield array


def _rule_error(event, target, kind, array, given):
    """The text of the error for a derivative."""
    op = event.op
    name = f"{op.inputs[0]}[{target}]" if op.variadic else op.inputs[target]
    of = "that has inf" if given else "that is finite"
    found = _place_text(kind, _mask(kind, array))
    if event.phase == "backward":
        text = f"its gradient by {name} has {found}, made of a gradient of its result {of}"
    else:
        text = f"the tangent of its result has {found}, made of a tangent of its {name} {of}"
    for value, (source, which) in zip(event.saved, event.plan.sources, strict=True):
        if source in ("input", "out"):
            kinds = {k for x in arrays_in(value) for k in _kinds(x)}
            if kinds:
                kept = "result" if source == "out" else op.inputs[which]
                text += f"; its {kept} has {' and '.join(sorted(kinds))}"
    return f"{op.name}: {text}; {described(event.record)}"


def _check_unchanged(event, sums):
    """Raise if the checksum of an array that a node keeps has changed since it was kept."""
    op, sums = event.op, iter(sums)
    for value, (source, which) in zip(event.saved, event.plan.sources, strict=True):
        for array in arrays_in(value):
            if _checksum(array) != next(sums):
                name = op.inputs[which] if source == "input" else which or "result"
                raise RuntimeError(
                    f"{op.name}: its {name}, {describe(array)}, was kept for backward and has "
                    f"changed since, by a write to x.array or to an array that shares its memory; "
                    f"write to a copy instead; {described(event.record)}"
                )


def _checksum(array):
    host = backend_of[type(array)].to_numpy(array)
    return zlib.crc32(host if host.flags.c_contiguous else host.tobytes())


def _is_nonzero(array):
    """Whether an element of a raw array is not 0."""
    backend = backend_of[type(array)]
    with backend.scope(array):
        return bool(backend.xp.any(array != 0))


def _mask(kind, array):
    backend = backend_of[type(array)]
    with backend.scope(array):
        return backend.xp.isnan(array) if kind == "nan" else backend.xp.isinf(array)


def _kinds(array):
    """Which of "nan" and "inf" a raw array has."""
    backend = backend_of[type(array)]
    xp = backend.xp
    with backend.scope(array):
        if not backend.is_floating(array.dtype) or bool(xp.all(xp.isfinite(array))):
            return ()
        return tuple([kind for kind in ("nan", "inf") if bool(xp.any(_mask(kind, array)))])


def _new_places(kind, out, event):
    """A mask of the places of a result that have a nan or infinity and no input has; or None."""
    is_kind = cmath.isnan if kind == "nan" else cmath.isinf
    backend = backend_of[type(out)]
    mask = _mask(kind, out)
    for x in leaves_in((*event.inputs, *event.static.values())):
        if type(x) in SCALARS and is_kind(x):
            return None
        for array in arrays_in(x):
            if kind in _kinds(array):
                if not event.op.elementwise:
                    return None
                with backend.scope(out):
                    mask = mask & ~_mask(kind, array)
    with backend.scope(out):
        return mask if bool(backend.xp.any(mask)) else None


def _place_text(kind, mask):
    """How many elements a mask chooses, and the first's index, as text."""
    backend = backend_of[type(mask)]
    xp = backend.xp
    with backend.scope(mask):
        flat = xp.reshape(xp.astype(mask, xp.int64), (-1,))
        first, count = int(xp.argmax(flat)), int(xp.sum(flat))
    if not mask.shape:
        return kind
    size = math.prod(mask.shape)
    return f"{kind} in {count} of {size} elements, the first at {position(first, mask.shape)}"
