"""Which elements dropout keeps: a function of a key and an element's place, on every device.

Philox4x64-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3")
makes four words of 64 bits of a key, which is two words, and a block's number, counted from 1.
Each word is four lanes of 16 bits, the least significant first: a block is for 16 elements of
an array in C order, and an element is dropped where its lane is less than ``limit(p, key)``.

A limit is ``p * 2**16``, rounded up for some keys and down for others: with one key the
probability is within 2**-16 of ``p``, over many it is ``p``. Lanes of 32 bits would take twice
the time on a CPU, and on a GPU longer than memory does.
"""

import math
import sys
import threading
from typing import Any

import numpy as np

LANES = 16  # in a block


def kept(shape, p, key):
    """NumPy's array of bools ``shape``, each False with probability ``p``."""
    least = limit(p, key)
    if least >> 16:  # of no lane
        return np.zeros(shape, np.bool)
    size = math.prod(shape)
    words = _words(key, -(-size // 4))
    if sys.byteorder == "big":
        words = words.astype("<u8")
    return (words.view(_uint16)[:size] >= least).reshape(shape)


def limit(p, key):
    """What the lanes of elements that are kept are at least; from 0 to 2**16.

    Raises ValueError unless ``p`` is a probability, and the key two words of 64 bits.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"the probability p must be from 0 to 1, not {p!r}")
    first, second = key
    if not (0 <= first < 1 << 64 and 0 <= second < 1 << 64):
        raise ValueError(f"key must be two ints from 0 to 2**64 - 1, not {key!r}")
    # Multiples of the golden ratio, which for successive keys are spread evenly.
    fraction = (first + second * 0x9E3779B97F4A7C15) >> 48 & 0xFFFF
    return (round(float(p) * 2**32) + fraction) >> 16


_uint16 = np.dtype("<u2")


class _Own(threading.local):
    generator: Any = None  # of the thread; numpy.random is imported when first used


_own = _Own()
_ZEROS = 0, 0, 0, 0


def _words(key, count):
    generator = _own.generator
    if generator is None:
        generator = _own.generator = np.random.Philox(key=0)
    # A tenth of the time that it takes to make a generator of the key.
    generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": _ZEROS, "key": key},
        "buffer": _ZEROS,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return generator.random_raw(count)


_counting = threading.Lock()  # not in `Keys`, so that they can be copied


class Keys:
    """Keys of a seed, or of the operating system's, each taken once.

    use: a number that tells those for different uses apart.
    state: the next one.
    """

    def __init__(self, seed, use):
        # The seed alone is what a generator of NumPy's starts from.
        words = np.random.SeedSequence(seed, spawn_key=(use,)).generate_state(1, np.uint64)
        self.state = int(words[0]), 0

    def fresh(self):
        with _counting:
            key = first, number = self.state
            self.state = first, number + 1
        return key
