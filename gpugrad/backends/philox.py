"""Which elements dropout keeps: a function of a key and an element's position, on every device.

Philox4x64-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3")
turns a key of two 64-bit words and a block's number, counted from 1, into four words of 64 bits.
Each word has four lanes of 16 bits, the least significant first, so a block covers 16 elements of
an array in C order. An element is dropped if its lane is less than ``limit(p, key)``.

The limit is ``p * 2**16``, rounded up for some keys and down for others: the probability for one
key is within 2**-16 of ``p``, and its average over many keys is ``p``. Lanes of 32 bits would
take twice the time on a CPU, and on a GPU longer than the memory accesses.
"""

import math
import sys
import threading

import numpy as np

LANES = 16  # in a block


def kept(shape, p, key, start=0):
    """A NumPy array of bools of ``shape``, each False with probability ``p``.

    start: the number of its first block.
    """
    least = limit(p, key)
    if least >> 16:  # no lane is as large
        return np.zeros(shape, np.bool)
    size = math.prod(shape)
    words = _words(key, -(-size // 4), start)
    if sys.byteorder == "big":
        words = words.astype("<u8")
    return (words.view(_uint16)[:size] >= least).reshape(shape)


def limit(p, key):
    """The least value of a lane, from 0 to 2**16, that keeps its element.

    Raises ValueError unless ``p`` is a probability and the key two words of 64 bits.
    """
    units = chance(p)
    first, second = key
    if not (0 <= first < 1 << 64 and 0 <= second < 1 << 64):
        raise ValueError(f"key must be two ints from 0 to 2**64 - 1, not {key!r}")
    # Multiples of the golden ratio spread the fractions of successive keys evenly.
    fraction = (first + second * 0x9E3779B97F4A7C15) >> 48 & 0xFFFF
    return (units + fraction) >> 16


def chance(p):
    """The probability ``p`` in units of 2**-32."""
    if not 0 <= p <= 1:
        raise ValueError(f"the probability p must be from 0 to 1, not {p!r}")
    return round(float(p) * 2**32)


_uint16 = np.dtype("<u2")
_per_thread = threading.local()


def _words(key, count, start):
    try:
        generator = _per_thread.generator
    except AttributeError:  # not made before, because numpy.random takes time to import
        generator = _per_thread.generator = np.random.Philox(key=0)
    # Setting the state takes a tenth of the time of making a generator for the key.
    generator.state = {
        "bit_generator": "Philox", "state": {"counter": (start, 0, 0, 0), "key": key},
        "buffer": (0, 0, 0, 0), "buffer_pos": 4, "has_uint32": 0, "uinteger": 0,
    }  # fmt: skip
    return generator.random_raw(count)


_counting = threading.Lock()  # not an attribute of `Keys`, which must be copyable


class Keys:
    """A sequence of keys from a seed, or from the operating system's entropy if it is None.

    use: a number; different uses of one seed get different keys.
    state: the next key.
    """

    def __init__(self, seed, use):
        # A NumPy generator starts from the seed alone; the spawn key makes these keys differ.
        words = np.random.SeedSequence(seed, spawn_key=(use,)).generate_state(1, np.uint64)
        self.state = int(words[0]), 0

    def restore(self, state):
        """Continue from a ``state``; raises TypeError or ValueError if it cannot be one."""
        first, number = state
        if not all(type(word) is int and 0 <= word < 1 << 64 for word in (first, number)):
            raise ValueError("a key must be two ints from 0 to 2**64 - 1")
        self.state = first, number

    def fresh(self):
        with _counting:
            key = first, number = self.state
            self.state = first, number + 1
        return key
