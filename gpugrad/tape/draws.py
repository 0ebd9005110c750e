"""Random draws of a function that is recorded: each run of the program draws anew."""

import pickle
import random as python_random

from .. import random
from .._thread_state import thread
from ..backends.numpy.random import global_generator


def has_state(x):
    """Whether ``x`` is a random generator of Python, NumPy or another library."""
    return any(hasattr(x, name) for name in ("bit_generator", "setstate", "set_state"))


def foreign_states(generators):
    """Pairs of these generators, and of the global ones of Python and NumPy, and their states."""
    return [(g, _state_of(g)) for g in (python_random, global_generator, *generators)]


def _state_of(generator):
    """The state, as a tuple of numbers or as bytes, which are equal for equal ones."""
    if hasattr(generator, "getstate"):
        return generator.getstate()
    has_method = hasattr(generator, "get_state")
    return pickle.dumps(generator.get_state() if has_method else generator.bit_generator.state)


def restore_foreign(states):
    """Give foreign generators the states that `foreign_states` has found."""
    for generator, state in states:
        if _state_of(generator) == state:
            continue
        if hasattr(generator, "setstate"):
            generator.setstate(state)
        elif hasattr(generator, "set_state"):
            generator.set_state(pickle.loads(state))
        else:
            generator.bit_generator.state = pickle.loads(state)


class NotedDraws:
    """Has every generator that this thread draws from note its draws; see `_draws.note_draw`.

    states: the state of each generator before it was first drawn from.
    """

    def __init__(self, recorder, generators, foreign_generators):
        self.recorder = recorder
        self.states = _States(self)
        self.replaced = []
        known = {id(g): g for g in (*random._generators.values(), *generators)}
        self.before = [(g, g.get_state()) for g in known.values()]
        self.foreign = foreign_states(foreign_generators)

    def replace(self, generator, state):
        source, keys = _Source(generator, self.recorder), _Keys(generator, self.recorder)
        self.replaced.append((generator, generator.source, generator._keys, source, keys))
        generator.source, generator._keys = source, keys

    def end(self):
        """Put the generators' own sources back, and stop the recording if one was set."""
        replaced = {id(entry[0]) for entry in self.replaced}
        for generator, source, keys, new_source, new_keys in self.replaced:
            if generator.source is new_source:
                generator.source = source
            if generator._keys is new_keys:
                generator._keys = keys
        for generator, state in self.before:
            if id(generator) not in replaced and generator.get_state() != state:
                self.recorder.refuse_seed()
        for _, _, _, new_source, new_keys in self.replaced:
            new_source._log.drawn = new_keys._log.drawn = ()
        self.states = {}
        if any(_state_of(g) != state for g, state in self.foreign):
            self.recorder.stop("it draws random numbers from Python or another library")


class _States(dict):
    def __init__(self, draws):
        super().__init__()
        self.draws = draws

    def __setitem__(self, generator, state):
        super().__setitem__(generator, state)
        self.draws.replace(generator, state)


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
        state = (_InDict if isinstance(real, dict) else _InTuple)(real)
        state.log, state.number = self, self.position
        return state

    def go(self, state):
        """Go back to a position; returns the state to set in earnest, or None."""
        if getattr(state, "log", None) is self:
            self.position = state.number
            return None
        self.recorder.refuse_seed()
        self.drawn, self.position, self.states = [], 0, {}
        return state


class _InDict(dict):
    """A state of a generator that knows its position in a `_Log`."""

    log = number = None


class _InTuple(tuple):
    """The same for a state that is a tuple."""

    log = number = None


class _Source:
    """Stands for a generator's source."""

    def __init__(self, generator, recorder):
        self.real = generator.source
        self._generator = generator
        self._recorder = recorder
        self._log = _Log(recorder)

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
        real = self._log.go(state)
        if real is not None:
            self.real.set_state(real)


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


class _Keys:
    """Stands for a generator's keys."""

    def __init__(self, generator, recorder):
        self._real = generator._keys
        self._generator = generator
        self._recorder = recorder
        self._log = _Log(recorder)

    def fresh(self):
        if thread.recorder is not self._recorder:
            return self._real.fresh()
        generator = self._generator

        def key():
            return generator._keys.fresh()

        return self._log.next("key", lambda: self._recorder.key(key, self._real.fresh()))

    @property
    def state(self):
        return self._log.state(self._real.state)

    @state.setter
    def state(self, state):
        self.restore(state)

    def restore(self, state):
        real = self._log.go(state)
        if real is not None:
            self._real.restore(real)
