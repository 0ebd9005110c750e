"""Random draws of a function that is recorded: each run of the program draws anew."""

import pickle
import random as python_random
from functools import cache, partial

from .._thread_state import thread
from ..backends.numpy.random import global_generator


def has_state(x):
    """Whether ``x`` is a random generator of Python, NumPy or another library."""
    return any(hasattr(x, name) for name in ("bit_generator", "setstate", "set_state"))


def foreign_states(generators):
    """Pairs of these generators, and of the global ones of Python and NumPy, and their states."""
    return [(g, _access(g)[0]()) for g in (python_random, global_generator(), *generators)]


def _access(generator):
    """Functions that get and set the state: a tuple of numbers, or bytes, equal for equal ones."""
    if hasattr(generator, "getstate"):
        return generator.getstate, generator.setstate
    if hasattr(generator, "get_state"):
        get, put = generator.get_state, generator.set_state
    else:
        bits = generator.bit_generator
        get, put = partial(getattr, bits, "state"), partial(setattr, bits, "state")
    return lambda: pickle.dumps(get()), lambda state: put(pickle.loads(state))


def restore_foreign(states):
    """Give foreign generators the states that `foreign_states` has found."""
    for generator, state in states:
        get, put = _access(generator)
        if get() != state:
            put(state)


class NotedDraws:
    """Has every generator that this thread draws from note its draws; see `_draws.note_draw`.

    states: itself, which takes each generator before it is first drawn from.
    replaced: by generator, its own source and keys, and what stands for them.
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
            new_source._log.drawn = new_keys._log.drawn = ()
        self.states = {}
        if any(_access(g)[0]() != state for g, state in self.foreign):
            self.recorder.stop("it draws random numbers from Python or another library")


class _Log:
    """Draws in their order; going back to a position gives the same draws again."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.drawn = []
        self.states = {}  # by position, if asked for
        self.position = 0

    def next(self, known, draw):
        if self.position < len(self.drawn) and self.drawn[self.position][0] != known:
            self.recorder.refuse_seed()
            self.drawn = self.drawn[: self.position]
        if self.position == len(self.drawn):
            self.drawn.append((known, draw()))
        self.position += 1
        return self.drawn[self.position - 1][1]

    def state(self, real):
        """The generator's state, ``real`` if nothing is being repeated, with the position here."""
        real = self.states.setdefault(self.position, real)
        state = _positioned(dict if isinstance(real, dict) else tuple)(real)
        state.log, state.number = self, self.position
        return state

    def go(self, state, restore):
        """Go back to a position, or restore a state of another kind in earnest."""
        if getattr(state, "log", None) is self:
            self.position = state.number
        else:
            self.recorder.refuse_seed()
            self.drawn, self.position, self.states = [], 0, {}
            restore(state)


@cache
def _positioned(kind):
    """The type of a generator's states that know their ``number`` in a ``log``."""
    return type("State", (kind,), {})


class _Noted:
    """Stands for a part of a generator, ``real``."""

    def __init__(self, generator, real, recorder):
        self.real = real
        self._generator = generator
        self._recorder = recorder
        self._log = _Log(recorder)


class _Source(_Noted):
    """Stands for a generator's source."""

    def __getattr__(self, name):
        function = Draw(self._generator, name)
        if thread.recorder is not self._recorder:
            return getattr(self.real, name)

        def draw(*args):
            known = name, repr(args)
            call = self._recorder.call
            return self._log.next(known, lambda: call(function, args, is_pure=False))

        return draw

    def get_state(self):
        return self._log.state(self.real.get_state())

    def set_state(self, state):
        self._log.go(state, self.real.set_state)


class Draw:
    """The function that draws from what is the generator's source when it is called."""

    def __init__(self, generator, name):
        self.generator = generator
        self.__name__ = name

    def __call__(self, *args):
        return getattr(self._source(), self.__name__)(*args)

    def _source(self):
        source = self.generator.source
        return source.real if type(source) is _Source else source

    def next_key(self):
        """Draw the key alone, where a key decides all numbers of a draw."""
        return self._source().keys.fresh()

    def by_key(self, key, args):
        """What a call returns if it draws this key."""
        return getattr(self._source().with_key(key), self.__name__)(*args)


class _Keys(_Noted):
    """Stands for a generator's keys."""

    def fresh(self):
        if thread.recorder is not self._recorder:
            return self.real.fresh()
        generator = self._generator

        def key():
            return generator._keys.fresh()

        return self._log.next("key", lambda: self._recorder.key(key, self.real.fresh()))

    def restore(self, state):
        self._log.go(state, self.real.restore)

    state = property(lambda self: self._log.state(self.real.state), restore)
