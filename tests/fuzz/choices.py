"""Random examples made of choices, and the search for a short one that fails.

An example is made by a function that asks for integers. The answers are kept, so that the same
function makes the example again, and others from fewer or smaller answers. Every answer is as
likely as any other: hypothesis, whose method this is, prefers small and repeated ones, and of
2,000 programs drew 500 twice and some steps ten times as often as others. It also took more than
five minutes to make the hundreds of examples that are made here in eleven seconds.
"""

import os
import random

import numpy as np


class Choices:
    """Answers: those given, then random ones, or 0 if there is no seed."""

    def __init__(self, seed=None, given=()):
        self._random = None if seed is None else random.Random(seed)
        self._given = given
        self.made = []

    def below(self, n):
        """An integer from 0 to n - 1."""
        k = len(self.made)
        if k < len(self._given):
            answer = min(self._given[k], n - 1)
        elif self._random is None:
            answer = 0
        else:
            answer = self._random.randrange(n)
        self.made.append(answer)
        return answer

    def integer(self, low, high):
        return low + self.below(high - low + 1)

    def flag(self):
        return self.below(2) == 1

    def choose(self, options):
        options = list(options)
        return options[self.below(len(options))]

    def several(self, options, fewest=0, most=None):
        """Some of the options, each once, in any order."""
        options = list(options)
        n = self.integer(fewest, len(options) if most is None else min(most, len(options)))
        return [options.pop(self.below(len(options))) for _ in range(n)]


def examples(make, check, number):
    """Make and check examples, numbered from 0; a failing one is made shorter and shown.

    make: a function of `Choices` that returns an example.
    check: a function of an example that raises an exception if it fails.
    """
    number = int(os.environ.get("FUZZ_EXAMPLES", number))
    seed = int(os.environ.get("FUZZ_SEED", 0))

    def failure(example):
        try:
            check(example)
        except Exception as error:  # noqa: BLE001  whatever an example may raise
            return error
        return None

    def shorter(made, kind):
        return shortened(made, lambda example: type(failure(example)) is kind, make)

    for i in range(number):
        choices = Choices(f"{seed} {i}")
        example = make(choices)
        error = failure(example)
        if error is not None:
            example = make(Choices(given=shorter(choices.made, type(error))))
            error = failure(example)
            error.add_note(f"example {i} of seed {seed}, made shorter:\n{example!r}")
            raise error


def shortened(made, fails, make, most=2000):
    """Fewer and smaller choices of which an example still fails."""
    tries, before = 0, None
    while before != made:
        before = made
        for candidate in _smaller(made):
            choices = Choices(given=candidate)
            example = make(choices)
            if _size(choices.made) < _size(made):
                tries += 1
                if tries > most:
                    return made
                if fails(example):
                    made = choices.made
    return made


def _smaller(made):
    """Fewer choices, and then smaller ones."""
    for width in (16, 8, 4, 3, 2, 1):
        for k in reversed(range(len(made))):
            yield made[:k] + made[k + width :]
    for k in reversed(range(len(made))):
        for smaller in (0, made[k] // 2):
            yield [*made[:k], smaller, *made[k + 1 :]]


def _size(made):
    return len(made), made


def broadcast_shape(*shapes):
    """The shape to which shapes broadcast, None if they do not."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None
