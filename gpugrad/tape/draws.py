"""Random draws that each run of a program makes anew, and those of NumPy's own generator."""

import pickle

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


def state_of_numpy():
    """The state of NumPy's global generator: Python does not tell the `Witness` of its calls."""
    return pickle.dumps(global_generator().get_state())
