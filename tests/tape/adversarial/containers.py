"""Lists, dicts, sets and the like that a function reads and changes."""

import collections

from .harness import program


@program
def pops_from_a_list(world):
    queue = [float(k) for k in range(20)]
    world.watch(queue)
    world.play(world.compile(lambda x: x * queue.pop()), changes=[lambda: queue.append(99.0)])


@program
def an_empty_queue_raises(world):
    queue = collections.deque([1.0, 2.0, 3.0])
    f = world.compile(lambda x: x * queue.popleft())
    world.watch(queue)
    world.play(f, changes=[lambda: queue.extend([5.0, 6.0])], calls=8)


@program
def a_long_list_whose_middle_changes(world):
    numbers = [1.0] * 3000
    f = world.compile(lambda x: x * numbers[1500])
    world.play(f, changes=[lambda: numbers.__setitem__(1500, 3.0)])


@program
def a_large_dict_whose_value_changes(world):
    numbers = dict.fromkeys(range(3000), 1.0)
    f = world.compile(lambda x: x * sum(numbers.values()))
    world.play(f, changes=[lambda: numbers.update({2999: 3.0})])


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
