"""Lists, dicts, sets and the like that a function reads and changes."""

import collections

from .harness import program, puts, uses

uses("pops_from_a_list", lambda x, s: x * s.pop(), lambda: [float(k) for k in range(20)],
     lambda s: s.append(99.0))  # fmt: skip
uses("an_empty_queue_raises", lambda x, s: x * s.popleft(),
     lambda: collections.deque([1.0, 2.0, 3.0]), lambda s: s.extend([5.0, 6.0]))  # fmt: skip
uses("a_long_list_whose_middle_changes", lambda x, s: x * s[550], lambda: [1.0] * 1100,
     *puts(550, 3.0))  # fmt: skip
uses("a_large_dict_whose_value_changes", lambda x, s: x * sum(s.values()),
     lambda: dict.fromkeys(range(1100), 1.0), *puts(1099, 3.0))  # fmt: skip


class Loud(list):
    def __getitem__(self, place):
        self.reads += 1
        return super().__getitem__(place)


@program
def a_list_that_counts_how_often_it_is_read(world):
    numbers = Loud([2.0])
    numbers.reads = 0
    world.watch(lambda: numbers.reads)
    world.play(world.compile(lambda x: x * numbers[0]), changes=[lambda: numbers.append(1.0)])


class Adding(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value + 1)


class AddingToAttributes(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value + 1)


def turned(x, s):
    s["k"] = -s["k"]
    return x * s["k"]


@program
def a_class_that_adds_to_its_attributes(world):
    class Config(metaclass=AddingToAttributes):
        k = 5

    def f(x):
        Config.k = -Config.k
        return x * Config.k

    world.check(f, watch=[lambda: Config.k])


uses("a_dict_that_adds_to_its_items", turned, lambda: Adding(k=5), calls=9)
