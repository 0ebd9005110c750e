"""Random draws that each run of a program makes anew, and the generators of other libraries."""

import pickle
import random as python_random
from functools import partial

from ..backends.numpy.random import global_generator


class Draw:
    """A function that draws from the source that the generator has when it is called."""

    def __init__(self, generator, name):
        self.generator = generator
        self.__name__ = name

    def __call__(self, *args):
        return getattr(self.generator.source, self.__name__)(*args)

    def next_key(self):
        """Draw a key, for generators of which a key determines all numbers of a draw."""
        return self.generator.source.keys.fresh()

    def by_key(self, key, args):
        """Draw with this key."""
        return getattr(self.generator.source.with_key(key), self.__name__)(*args)


def has_state(x):
    """Whether ``x`` is a random generator of Python, NumPy or another library."""
    return any(hasattr(type(x), name) for name in ("bit_generator", "setstate", "set_state"))


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
