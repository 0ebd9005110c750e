"""Random draws of a function that is recorded: each run of the program draws anew."""

import random as python_random

from .. import random
from ..backends.numpy.random import global_generator
from .record import Unsupported

# The names of methods that return and set the state of a random generator of another library.
_METHODS = (("getstate", "setstate"), ("get_state", "set_state"))


def has_state(x):
    """Whether ``x`` is a random generator of Python, NumPy or another library."""
    return hasattr(x, "bit_generator") or any(hasattr(x, set_) for _, set_ in _METHODS)


def _state_of(generator):
    for get, _ in _METHODS:
        if hasattr(generator, get):
            return getattr(generator, get)()
    return generator.bit_generator.state


def _set_state(generator, state):
    for _, set_ in _METHODS:
        if hasattr(generator, set_):
            getattr(generator, set_)(state)
            return
    generator.bit_generator.state = state


def _are_equal(x, y):
    """Whether two states are equal; there may be arrays in them."""
    if isinstance(x, dict):
        return all(_are_equal(x[name], y[name]) for name in x)
    try:
        return bool(x == y)
    except ValueError:
        if hasattr(x, "tobytes"):
            return x.tobytes() == y.tobytes()
        return all(map(_are_equal, x, y))


def foreign_states(generators):
    """Pairs of these generators, and of the global ones of Python and NumPy, and their states."""
    return [(g, _state_of(g)) for g in (python_random, global_generator, *generators)]


def restore_foreign(states):
    for generator, state in states:
        if not _are_equal(_state_of(generator), state):
            _set_state(generator, state)


class NotedDraws:
    """Has every generator that this thread draws from note its draws; see `_draws.note_draw`.

    states: the state of each generator before it was first drawn from.
    """

    def __init__(self, recording, generators, foreign_generators):
        self.recording = recording
        self.states = _States(self)
        self.replaced = []
        known = {id(g): g for g in (*random._generators.values(), *generators)}
        self.before = [(g, g.source, g._keys, g.get_state()) for g in known.values()]
        self.seed = random._seed
        self.foreign = foreign_states(foreign_generators)

    def replace(self, generator, state):
        source, keys = _Source(generator, self.recording), _Keys(generator, self.recording)
        self.replaced.append((generator, generator.source, generator._keys, state, source, keys))
        generator.source, generator._keys = source, keys

    def check(self):
        """Raise if the function has seeded a generator or set its state."""
        replaced = {id(entry[0]) for entry in self.replaced}
        seeded = any(g.source is not new for g, _, _, _, new, _ in self.replaced) or any(
            g.source is not source or g.get_state() != state
            for g, source, _, state in self.before
            if id(g) not in replaced
        )
        if seeded or random._seed is not self.seed:
            raise Unsupported("it seeds a random generator or sets its state")
        if not all(_are_equal(_state_of(g), state) for g, state in self.foreign):
            raise Unsupported("it draws random numbers from Python or another library")
        self.foreign = []  # nothing is to be restored

    def restore(self):
        restore_foreign(self.foreign)
        for generator, source, keys, state, *_ in self.replaced:
            generator.source, generator._keys = source, keys
            generator.set_state(state)
        replaced = {id(entry[0]) for entry in self.replaced}
        for generator, source, keys, state in self.before:
            if id(generator) not in replaced:
                generator.source, generator._keys = source, keys
                generator.set_state(state)
        random._seed = self.seed


class _States(dict):
    def __init__(self, draws):
        super().__init__()
        self.draws = draws

    def __setitem__(self, generator, state):
        super().__setitem__(generator, state)
        self.draws.replace(generator, state)


class _Log:
    """Draws in their order; going back to a position gives the same draws again."""

    def __init__(self):
        self.drawn = []
        self.position = 0

    def next(self, known, draw):
        if self.position == len(self.drawn):
            self.drawn.append((known, draw()))
        elif self.drawn[self.position][0] != known:
            raise Unsupported("it sets the state of a random generator")
        self.position += 1
        return self.drawn[self.position - 1][1]

    def go(self, position):
        if type(position) is not _Position or position.log is not self:
            raise Unsupported("it sets the state of a random generator")
        self.position = position.number


class _Position:
    def __init__(self, log):
        self.log = log
        self.number = log.position


class _Source:
    """Stands for a generator's source."""

    def __init__(self, generator, recording):
        self.real = generator.source
        self._generator = generator
        self._recording = recording
        self._log = _Log()

    def __getattr__(self, name):
        function = Draw(self._generator, name)

        def draw(*args):
            known = name, repr(args)
            call = self._recording.call
            return self._log.next(known, lambda: call(function, args, is_pure=False))

        return draw

    def get_state(self):
        return _Position(self._log)

    def set_state(self, state):
        self._log.go(state)


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

    def __init__(self, generator, recording):
        self._real = generator._keys
        self._generator = generator
        self._recording = recording
        self._log = _Log()

    def fresh(self):
        generator = self._generator

        def key():
            return generator._keys.fresh()

        return self._log.next("key", lambda: self._recording.key(key, self._real.fresh()))

    @property
    def state(self):
        return _Position(self._log)

    @state.setter
    def state(self, state):
        self._log.go(state)

    def restore(self, state):
        self._log.go(state)
