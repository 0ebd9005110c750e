"""Lists, dicts, sets and the like that a function reads and changes."""

import array
import collections
import heapq
import types

import gpugrad as gg

from .harness import normal, program


@program
def appends_numbers_to_a_list(world):
    seen = []

    @world.compile
    def f(x):
        seen.append(len(seen))
        return x * len(seen)

    world.watch(seen)
    world.play(f, changes=[seen.clear])


@program
def appends_results_to_a_list(world):
    losses = []

    @world.compile
    def f(x):
        losses.append((x * x).sum())
        return x + 1

    world.watch(losses)
    world.play(f, changes=[losses.pop])


@program
def appends_the_same_tensor_twice(world):
    kept = []

    @world.compile
    def f(x):
        y = x * 2
        kept.extend([y, y])
        return y

    world.watch(kept, lambda: [a is b for a in kept for b in kept])
    world.play(f)


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
def rotates_a_deque(world):
    ring = collections.deque([1.0, 2.0, 3.0], maxlen=3)

    @world.compile
    def f(x):
        ring.rotate()
        return x * ring[0]

    world.watch(ring)
    world.play(f, changes=[lambda: ring.append(7.0)])


@program
def a_deque_of_the_last_results(world):
    ring = collections.deque(maxlen=2)

    @world.compile
    def f(x):
        ring.append(x * 2)
        return sum(ring)

    world.watch(ring)
    world.play(f)


@program
def a_cache_of_shapes(world):
    cache = {}

    @world.compile
    def f(x):
        if x.shape not in cache:
            cache[x.shape] = gg.ones(x.shape) * len(cache)
        return x + cache[x.shape]

    world.watch(cache)
    world.play(
        f, lambda i: (normal(2 + i % 3),), changes=[cache.clear, lambda: cache.pop((3,), None)]
    )


@program
def a_cache_of_a_result(world):
    cache = {}

    @world.compile
    def f(x):
        if "y" not in cache:
            cache["y"] = x * 2
        return cache["y"] + x

    world.watch(cache)
    world.play(f, changes=[cache.clear, cache.clear])


@program
def counts_keys(world):
    counter = collections.Counter()

    @world.compile
    def f(x):
        counter[x.shape] += 1
        return x * counter[x.shape]

    world.watch(counter)
    world.play(f, lambda i: (normal(2 + i % 2),), changes=[counter.clear])


@program
def a_default_dict_that_grows(world):
    table = collections.defaultdict(lambda: 2.0)
    key = ["a"]
    f = world.compile(lambda x: x * table[key[0]])
    world.watch(lambda: dict(table))
    world.play(
        f,
        changes=[
            lambda: key.__setitem__(0, "b"),
            lambda: table.update(b=5.0),
            lambda: setattr(table, "default_factory", lambda: 7.0),
            lambda: key.__setitem__(0, "c"),
        ],
    )


@program
def the_order_of_a_dict(world):
    table = {"a": 2.0, "b": 3.0}

    @world.compile
    def f(x):
        for k in table.values():
            x = x * k + k
        return x

    world.play(f, changes=[lambda: table.update(a=table.pop("a")), lambda: table.update(c=1.0)])


@program
def moves_a_key_to_the_end(world):
    table = collections.OrderedDict(a=2.0, b=3.0, c=5.0)

    @world.compile
    def f(x):
        table.move_to_end(next(iter(table)))
        return x * next(iter(table.values()))

    world.watch(table)
    world.play(f)


@program
def adds_to_a_set(world):
    seen = set()

    @world.compile
    def f(x):
        seen.add(x.shape)
        return x * len(seen)

    world.watch(seen)
    world.play(f, lambda i: (normal(1 + i),), changes=[seen.clear])


@program
def discards_from_a_set(world):
    names = {"a", "b", "c"}

    @world.compile
    def f(x):
        y = x * (2.0 if "b" in names else 3.0)
        names.discard("b")
        return y

    world.watch(names)
    world.play(f, changes=[lambda: names.add("b"), lambda: names.add("b")])


@program
def a_list_that_contains_itself(world):
    table = [2.0]
    table.append(table)
    f = world.compile(lambda x: x * table[1][1][0])
    world.play(f, changes=[lambda: table.__setitem__(0, 3.0)])


@program
def a_list_that_another_list_aliases(world):
    inner = [1.0]
    outer = [inner, inner]
    f = world.compile(lambda x: x * outer[0][0] + outer[1][0])
    world.play(
        f,
        changes=[
            lambda: inner.__setitem__(0, 2.0),
            lambda: outer.__setitem__(1, [2.0]),
            lambda: inner.__setitem__(0, 5.0),
        ],
    )


@program
def whether_two_lists_are_one(world):
    a, b = [1.0], [1.0]
    pair = [a, a]
    f = world.compile(lambda x: x * (2.0 if pair[0] is pair[1] else 3.0))
    world.play(f, changes=[lambda: pair.__setitem__(1, b), lambda: pair.__setitem__(0, b)])


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


@program
def a_nesting_that_is_deep(world):
    inner = [1.0]
    outer = inner
    for _ in range(60):
        outer = [outer]

    @world.compile
    def f(x):
        place = outer
        while isinstance(place[0], list):
            place = place[0]
        return x * place[0]

    world.play(f, changes=[lambda: inner.__setitem__(0, 4.0)])


@program
def a_byte_array(world):
    raw = bytearray(b"\x02\x03")
    f = world.compile(lambda x: x * raw[0] + len(raw))
    world.play(f, changes=[lambda: raw.__setitem__(0, 5), lambda: raw.append(1)])


@program
def an_array_of_the_array_module(world):
    numbers = array.array("d", [2.0, 3.0])
    f = world.compile(lambda x: x * numbers[0])
    world.play(f, changes=[lambda: numbers.__setitem__(0, 5.0)])


@program
def a_memory_view(world):
    raw = bytearray(b"\x02\x03")
    view = memoryview(raw)
    f = world.compile(lambda x: x * view[0])
    world.play(f, changes=[lambda: raw.__setitem__(0, 7)])


@program
def a_mapping_proxy(world):
    table = {"k": 2.0}
    proxy = types.MappingProxyType(table)
    world.play(world.compile(lambda x: x * proxy["k"]), changes=[lambda: table.update(k=3.0)])


@program
def a_view_of_the_values_of_a_dict(world):
    table = {"a": 2.0}
    values = table.values()
    f = world.compile(lambda x: x * sum(values))
    world.play(f, changes=[lambda: table.update(a=3.0), lambda: table.update(b=3.0)])


@program
def a_heap(world):
    heap = [5.0, 7.0, 9.0]

    @world.compile
    def f(x):
        least = heapq.heappop(heap)
        heapq.heappush(heap, least * 2)
        return x * least

    world.watch(heap)
    world.play(f, changes=[lambda: heapq.heappush(heap, 0.5)])


@program
def sorts_a_list_in_place(world):
    numbers = [3.0, 1.0, 2.0]

    @world.compile
    def f(x):
        numbers.sort()
        return x * numbers[0]

    world.watch(numbers)
    world.play(f, changes=[lambda: numbers.append(0.5), numbers.reverse])


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


class Doubling(dict):
    def __missing__(self, key):
        self[key] = 2.0 * len(self)
        return self[key]


@program
def a_dict_with_a_method_for_what_is_missing(world):
    table = Doubling(a=3.0)
    f = world.compile(lambda x: x + table["b"])
    world.watch(lambda: dict(table))
    world.play(f, changes=[lambda: table.pop("b"), lambda: table.update(c=1.0)])


@program
def a_list_of_tensors_that_grows(world):
    parts = [normal(3, seed=20)]
    f = world.compile(lambda x: x + sum(parts))
    world.play(
        f,
        changes=[
            lambda: parts.append(normal(3, seed=21)),
            parts.clear,
            lambda: parts.append(normal(3, seed=22)),
            lambda: parts[0].__imul__(2),
        ],
    )


@program
def replaces_a_tensor_of_a_list(world):
    parts = [gg.zeros(3), gg.ones(3)]

    @world.compile
    def f(x):
        parts[0] = parts[1] + x
        parts.reverse()
        return parts[0] * 2

    world.watch(parts)
    world.play(f, changes=[lambda: parts.__setitem__(0, normal(3, seed=30))])
