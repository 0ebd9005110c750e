"""Tensors of the state that the function replaces by new ones, as in running means."""

import collections
import functools
import types

import gpugrad as gg
from gpugrad import nn, optim

from .harness import add, leaf, normal, program, puts, uses
from .optimizers import setting, training

MEAN = gg.zeros(3)


def average(x, before, rate=0.5):
    return before * rate + x.detach() * (1 - rate)


def in_an_attribute(x, state):
    state.mean = average(x, state.mean)
    return x - state.mean


def in_an_item(x, state):
    state["mean"] = average(x, state["mean"])
    return x - state["mean"]


def in_a_list(x, state):
    state[1] = average(x, state[1])
    return x - state[1]


def in_a_global(x, _):
    global MEAN
    MEAN = average(x, MEAN)
    return x - MEAN


def in_a_tuple(x, state):
    mean, square = state.pair
    state.pair = average(x, mean), average(x * x, square)
    return (x - state.pair[0]) / (state.pair[1] + 1)


def twice(x, state):
    state.mean = average(x, state.mean)
    first = state.mean
    state.mean = average(x * 2, first)
    return first - state.mean


def with_a_graph(x, state):
    y = (state.w * x).sum()
    kept = 0.0 if state.loss.requires_grad else state.loss * 2
    state.loss = y
    return y.detach() + kept


def argument(x, state):
    state.last, before = x, state.last
    return x - before


def result(x, state):
    state.mean = mean = average(x, state.mean)
    return mean


def only_stored(x, state):
    state.mean = x.detach() * 2
    return x * 3


def of_a_weight(x, state):
    state.before = state.w.detach()
    return state.w * x


def two_that_are_one(x, state):
    state.mean = state.other = average(x, state.mean)
    return x - state.other


def exchanged(x, state):
    state.mean, state.other = state.other, state.mean
    return x - state.mean * 2


def looked_at(x, state):
    state.mean, before = average(x, state.mean), state.mean
    return x - state.mean, before is state.other, before.shape, before.requires_grad


def rebound_too(x, state):
    before = state.mean
    before[0] = 5.0
    state.mean = average(x, before)
    return x - state.mean + before


def namespace(**names):
    known = {"mean": gg.zeros(3), "other": gg.ones(3), "w": leaf(3)}
    return types.SimpleNamespace(**known | names)


class Norm(nn.Module):
    def __init__(self):
        self.register_buffer("mean", gg.zeros(3))


def put(name, make):
    return lambda state: setattr(state, name, make(state))


CHANGES = [put("mean", make) for make in (
    lambda _: normal(3, seed=9), lambda s: s.other, lambda _: leaf(3), lambda _: 0.5,
    lambda _: gg.zeros(3, dtype=gg.float64), lambda _: gg.zeros(1), lambda s: s.other[...],
    lambda s: s.w.detach(), lambda _: gg.ones(3),
)]  # fmt: skip


def into_its_memory(state):
    with gg.no_grad():
        state.mean[...] = 7.0


for _use, _make, _changes in (
    (in_an_attribute, namespace, [*CHANGES, into_its_memory]),
    (in_an_attribute, Norm, [CHANGES[0], into_its_memory]),
    (in_an_item, lambda: {"mean": gg.zeros(3)}, [lambda s: s.update(mean=gg.ones(3)), dict.clear]),
    (in_a_list, lambda: [1, gg.zeros(3)], [lambda s: s.append(1), lambda s: s.reverse()]),
    (in_a_global, lambda: globals().update(MEAN=gg.zeros(3)), []),
    (in_a_tuple, lambda: namespace(pair=(gg.zeros(3), gg.ones(3))),
     [put("pair", lambda s: (s.other, s.mean)), put("pair", lambda s: (s.other,)),
      put("pair", lambda s: [s.other, s.w]), put("pair", lambda s: (s.other, s.other))]),
    (twice, namespace, CHANGES[:3]),
    (with_a_graph, lambda: namespace(loss=gg.zeros(())), [put("loss", lambda s: gg.ones(()))]),
    (argument, lambda: namespace(last=gg.zeros(3)), [put("last", lambda s: s.other)]),
    (result, namespace, CHANGES),
    (only_stored, namespace, CHANGES),
    (of_a_weight, lambda: namespace(before=gg.ones(3)), [put("before", lambda s: s.other)]),
    (two_that_are_one, namespace, CHANGES),
    (exchanged, namespace, CHANGES[:2]),
    (looked_at, namespace, [put("other", lambda s: s.mean), *CHANGES]),
    (rebound_too, namespace, CHANGES[:2]),
):  # fmt: skip
    uses("in_a_module" if _make is Norm else _use.__name__, _use, _make, *_changes)


# In some calls there is none yet, as at the start of an epoch: the places have None or a number.


def carried(x, before):
    return x * 2 if before is None else x + before


def carried_in_an_attribute(x, state):
    y = carried(x, state.kept)
    state.kept = y.detach() * 0.5
    return y


def carried_in_an_item(x, state):
    state["kept"] = y = carried(x, state["kept"])
    return y * 2


def carried_in_a_global(x, _):
    global KEPT
    KEPT = y = carried(x, KEPT)
    return y


def carried_with_its_graph(x, state):
    y = carried(state.w * x, state.kept and state.kept.detach())
    state.kept = y
    return y.sum()


def summed(x, state):
    state.kept = state.kept + x.sum()
    return state.kept * 2


def carried_in_a_tuple(x, state):
    h, c = state.kept or (x * 0, x * 0 + 1)
    state.kept = h + x, c * 0.5
    return h - c


def carried_in_two_places(x, state):
    y = carried(x, state.kept)
    state.kept = state.other = y
    return y, state.kept is state.other


def carried_argument(x, state):
    y, state.kept = carried(x, state.kept), x
    return y


def carried_weight(x, state):
    y, state.kept = carried(x, state.kept), state.w.detach()
    state.w.array[0] += 1
    return y


def carried_part(x, state):
    y, state.kept = carried(x, state.kept), state.w[:2].detach()
    return y[:2]


def carried_leaf(x, state):
    y, state.kept = carried(x, state.kept), x.detach().requires_grad_()
    return y.requires_grad, y.detach()


def dropped_in_turns(x, state):
    y = carried(x, state.kept)
    state.kept = y if state.kept is None else None
    return y


def dropped_for_a_number(x, state):
    y = state.kept * x
    state.kept = 3.0 if isinstance(state.kept, gg.Tensor) else y
    return y


def made_once(x, state):
    if state.kept is None:
        state.kept = gg.linspace(0, 1, 3)
    return x * state.kept


def carried_and_read(x, state):
    before, state.kept = state.kept, x * 2
    return x, before is None, state.kept.shape


class Recurrent(nn.Module):
    def __init__(self):
        self.w = nn.Parameter(gg.ones(3))
        self.kept = None


class InASlot:
    __slots__ = "kept", "other", "w"

    def __init__(self):
        self.kept, self.other, self.w = None, None, leaf(3)


NONE = puts("kept", None, None, normal(3, seed=9), None)
NUMBERS = puts("kept", 0.5, None, 0.5, 0.5)


def kept(value=None, **names):
    return lambda: namespace(kept=value, **names)


for _name, _use, _make, _changes in (
    ("attribute", carried_in_an_attribute, kept(), NONE),
    ("number", carried_in_an_attribute, kept(0.5), NUMBERS),
    ("module", carried_in_an_attribute, Recurrent, NONE),
    ("slot", carried_in_an_attribute, InASlot, NONE),
    ("item", carried_in_an_item, lambda: {"kept": None}, NONE),
    ("dict_that_doubles", carried_in_an_item, lambda: Doubling(kept=None),
     [lambda s: dict.update(s, kept=None)] * 3),
    ("global", carried_in_a_global, lambda: globals().update(KEPT=None),
     [lambda _: globals().update(KEPT=None)] * 3),
    ("graph", carried_with_its_graph, kept(), NONE),
    ("sum", summed, kept(0.0), puts("kept", 0.0, 0.0, 1, True)),
    ("pair", carried_in_a_tuple, kept(), NONE[:2]),
    ("empty_tuple", carried_in_a_tuple, kept(()), puts("kept", (), ())),
    ("second_place", carried_in_two_places, kept(other=None), NONE),
    ("argument", carried_argument, kept(), NONE),
    ("weight", carried_weight, kept(), NONE),
    ("part_of_a_weight", carried_part, kept(), NONE[:2]),
    ("leaf", carried_leaf, kept(), NONE),
    ("place_that_is_emptied", dropped_in_turns, kept(), NONE),
    ("place_for_numbers_too", dropped_for_a_number, kept(2.0), NUMBERS[2:]),
    ("cache", made_once, kept(), NONE),
    ("place_that_is_looked_at", carried_and_read, kept(), NONE),
):  # fmt: skip
    uses(f"nothing_or_a_tensor_in_a_{_name}", _use, _make, *_changes)


def in_a_view_of_a_dict(x, state):
    y = carried(x, state.shown["kept"])
    state.items["kept"], state.items["n"] = y, state.shown["n"] + 1
    return y


def with_a_view():
    items = {"kept": None, "n": 0}
    return namespace(items=items, shown=types.MappingProxyType(items))


uses("a_place_that_is_also_in_a_read_only_view", in_a_view_of_a_dict, with_a_view,
     *[lambda s: s.items.update(kept=None, n=0)] * 3)  # fmt: skip


@program
def the_text_of_a_class(world):
    class Thing:
        pass

    def f(x):
        Thing.__doc__ = y = carried(x, Thing.__doc__)
        Thing.__name__ = "Other"
        return y

    def changes():
        Thing.__doc__, Thing.__name__ = None, "Thing"

    world.check(f, changes=[changes] * 3, watch=[lambda: (Thing.__doc__, Thing.__name__)])


def with_a_default(name, first, default, use):
    uses(f"an_item_that_a_defaultdict_{name}", use,
         lambda: collections.defaultdict(lambda: default, kept=first),
         *[lambda s: s.pop("kept", None)] * 3)  # fmt: skip


def known_or_not(x, state):
    y = x if "kept" in state else x * 5
    state["kept"] = carried(y, state["kept"])
    return y


def seen_or_not(x, state):
    state["kept"] = y = carried(x, state.get("kept"))
    return y


def taken_out(x, state):
    return x + state["kept"] + state.pop("kept")


with_a_default("has_lost", gg.zeros(3), gg.ones(3), known_or_not)
with_a_default("has_lost_at_first", None, None, known_or_not)
with_a_default("does_not_make", gg.zeros(3), gg.ones(3), seen_or_not)
with_a_default("loses", gg.zeros(3), gg.ones(3), taken_out)


class Doubling(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


uses("in_a_dict_that_doubles", in_an_item, lambda: Doubling(mean=gg.zeros(3)))


def in_two_places(name, make, read):
    """The tensor that the function replaces is at first also in a place without a cell."""

    def use(x, state):
        other = read(state)
        state.mean = average(x, state.mean)
        return x - state.mean + other

    def state():
        first = gg.ones(3)
        return namespace(first=first, mean=first, place=make(first))

    first = put("mean", lambda s: s.first)
    uses(name, use, state, *[first] * 3, put("mean", lambda s: s.other), first)


in_two_places("a_tensor_in_a_mixed_tuple", lambda t: (t, 2.0), lambda s: s.place[0] * s.place[1])
in_two_places("a_tensor_in_nested_tuples", lambda t: ((t,), (t,)), lambda s: s.place[1][0])
in_two_places("a_tensor_in_a_set", lambda t: {t}, lambda s: 2.0 if s.mean in s.place else 3.0)
in_two_places("a_tensor_of_a_partial", lambda t: functools.partial(gg.multiply, t, 2.0),
              lambda s: s.place())  # fmt: skip


def shares(name, share):
    """In some calls, a tensor that is replaced, or that the code does not name, has an array of
    the training."""

    def runs(world):
        state = Sharing()
        w, optimizer = state.w, optim.SGD([state.w], lr=0.1, momentum=0.9)
        state.optimizer = optimizer

        def step(x):
            before = state.mean
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            state.mean = before * 0.5 + x
            return before * 1

        def multiply(x):
            x *= 2.0
            return w * x

        world.watch(w, optimizer, lambda: [state.mean, state.unnamed])
        steps, products = world.compile(step), world.compile(multiply)
        for i in range(16):
            x = normal(3, seed=i)
            if i in (6, 9, 10):
                state.mean, state.unnamed = share(state), share(state)
            world.call(steps, x)
            world.call(products, state.unnamed if i in (6, 11) else normal(3, seed=i))

    add(f"an_array_that_is_also_{name}", __name__, runs)


class Sharing:
    def __init__(self):
        self.mean = gg.zeros(3)
        self.w = leaf(3)
        self.unnamed = self.w.detach()


shares("a_weight", lambda s: s.w.detach())
shares("a_gradient", lambda s: gg.asarray(s.w.grad.array))
shares("a_momentum", lambda s: gg.asarray(s.optimizer._states[s.w].values[0]))


@program
def an_average_of_weights(world):
    w, optimizer = setting()
    shadow = {"w": gg.zeros(3)}

    def follow():
        with gg.no_grad():
            shadow["w"] = average(w, shadow["w"], 0.9)

    world.play(training(world, w, optimizer, after=follow), watch=[lambda: shadow["w"]])


@program
def a_tensor_that_is_also_the_argument(world):
    state = namespace()
    f = world.compile(functools.partial(looked_at, state=state))
    given = iter([normal(3)] * 4 + [None] * 5)
    world.play(lambda x: f(state.mean if next(given) is None else x), watch=[lambda: state.mean])
