"""Random draws while a function is recorded, which each run of the program makes anew."""

import pickle
import random as python_random
from functools import partial

from .._thread_state import thread
from ..backends.numpy.random import global_generator


def has_state(x):
    """Whether ``x`` is a random generator of Python, NumPy or another library."""
    return any(hasattr(x, name) for name in ("bit_generator", "setstate", "set_state"))


def foreign_states(generators):
    """Pairs of a generator and its state, for these and for the global ones of Python and NumPy."""
    return [(g, _access(g)[0]()) for g in (python_random, global_generator(), *generators)]


def _access(generator):
    """Functions that get and set a generator's state, in a form that can be compared by ``==``."""
    if hasattr(generator, "getstate"):
        return generator.getstate, generator.setstate
    if hasattr(generator, "get_state"):
        get, put = generator.get_state, generator.set_state
    else:
        bits = generator.bit_generator
        get, put = partial(getattr, bits, "state"), partial(setattr, bits, "state")
    return lambda: pickle.dumps(get()), lambda state: put(pickle.loads(state))


def restore_foreign(states):
    """Give foreign generators the states that `foreign_states` has returned."""
    for generator, state in states:
        get, put = _access(generator)
        if get() != state:
            put(state)


class NotedDraws:
    """Has the recorder note the draws from each generator that this thread uses.

    While it is one of ``thread.draws``, `_draws.note_draw` adds each generator to ``states`` before
    the first draw. ``states`` is this object itself, which then replaces the parts of the generator
    that draw.

    replaced: by generator, its own source and keys, and those that replace them.
    """

    def __init__(self, recorder, foreign_generators):
        self.recorder, self.states, self.replaced = recorder, self, {}
        self.foreign = foreign_states(foreign_generators)

    def __contains__(self, generator):
        return generator in self.replaced

    def __setitem__(self, generator, state):
        source = _Source(generator, generator.source, self.recorder)
        keys = _Keys(generator, generator._keys, self.recorder)
        self.replaced[generator] = generator.source, generator._keys, source, keys
        generator.source, generator._keys = source, keys

    def end(self):
        """Put the generators' own sources back."""
        for generator, (source, keys, new_source, new_keys) in self.replaced.items():
            if generator.source is new_source:
                generator.source = source
            if generator._keys is new_keys:
                generator._keys = keys
            new_source._known, new_keys._known = {}, {}
        self.states = {}
        if any(_access(g)[0]() != state for g, state in self.foreign):
            self.recorder.stop("it draws random numbers from Python or another library")


class _Noted:
    """Replaces a part of a generator, ``real``, and notes its draws.

    If code sets the generator back to a state that it has asked for, as `checkpoint` does, draws
    from that state return what they have returned before.
    """

    def __init__(self, generator, real, recorder):
        self.real = real
        self._generator, self._recorder = generator, recorder
        self._asked, self._known = set(), {}

    def _next(self, what, draw):
        """``draw()``, or the result of an earlier draw, described by ``what``, from this state."""
        before = repr(self._present())
        if before in self._known:
            known, result, after = self._known[before]
            if known == what:
                self._go_to(after)
                return result
            self._recorder.refuse_seed()
        result, after = draw(), self._present()
        if repr(after) != before:  # as it is after drawing no elements
            self._known[before] = what, result, after
        return result

    def get_state(self):
        state = self._present()
        self._asked.add(repr(state))
        return state

    def set_state(self, state):
        if repr(state) not in self._asked:
            self._recorder.refuse_seed()
        self._go_to(state)


class _Source(_Noted):
    """Replaces a generator's source."""

    def __getattr__(self, name):
        function = Draw(self._generator, name)
        if thread.recorder is not self._recorder:
            return getattr(self.real, name)

        def draw(*args):
            known = name, repr(args)
            call = self._recorder.call
            return self._next(known, lambda: call(function, args, is_pure=False))

        return draw

    def _present(self):
        return self.real.get_state()

    def _go_to(self, state):
        self.real.set_state(state)


class Draw:
    """A function that draws from the source that the generator has when it is called."""

    def __init__(self, generator, name):
        self.generator = generator
        self.__name__ = name

    def __call__(self, *args):
        return getattr(self._source(), self.__name__)(*args)

    def _source(self):
        source = self.generator.source
        return source.real if type(source) is _Source else source

    def next_key(self):
        """Draw a key, for generators of which a key determines all numbers of a draw."""
        return self._source().keys.fresh()

    def by_key(self, key, args):
        """Draw with this key."""
        return getattr(self._source().with_key(key), self.__name__)(*args)


class _Keys(_Noted):
    """Replaces a generator's keys."""

    def fresh(self):
        if thread.recorder is not self._recorder:
            return self.real.fresh()
        generator = self._generator

        def key():
            return generator._keys.fresh()

        return self._next("key", lambda: self._recorder.key(key, self.real.fresh()))

    def _present(self):
        return self.real.state

    def _go_to(self, state):
        self.real.restore(state)

    restore = _Noted.set_state
    state = property(_Noted.get_state, _Noted.set_state)
