"""Objects of the program's own classes: their attributes, read and written."""

import functools
import weakref

from .harness import program


class Plain:
    k = 1.0

    def __init__(self, **attributes):
        vars(self).update(attributes)


class Other:
    k = 10.0

    def scaled(self, x):
        return x * 10


class Scaling:
    k = 2.0

    def scaled(self, x):
        return x * self.k


@program
def an_attribute_that_is_deleted(world):
    state = Plain(k=5.0)

    @world.compile
    def f(x):
        y = x * state.k
        if "k" in vars(state):
            del state.k
        return y

    world.watch(state)
    world.play(f, changes=[lambda: setattr(state, "k", 7.0), lambda: setattr(Plain, "k", 3.0)])
    Plain.k = 1.0


@program
def an_object_that_changes_its_class(world):
    thing = Scaling()
    f = world.compile(lambda x: thing.scaled(x) * thing.k)

    def become(kind):
        thing.__class__ = kind

    world.play(f, changes=[lambda: become(Other), lambda: become(Scaling)])


class Slots:
    __slots__ = "count", "k", "table"


@program
def slots_that_are_written(world):
    state = Slots()
    state.count, state.k = 0, 2.0

    @world.compile
    def f(x):
        state.count += 1
        return x * state.k + state.count

    world.watch(lambda: (state.count, state.k))
    world.play(f, changes=[lambda: setattr(state, "k", 3.0), lambda: setattr(state, "count", 50)])


@program
def a_slot_that_is_empty_at_first(world):
    state = Slots()

    @world.compile
    def f(x):
        if not hasattr(state, "table"):
            state.table = x * 2
        return state.table + x

    def empty():
        del state.table

    world.watch(lambda: getattr(state, "table", None))
    world.play(f, changes=[empty])


class Base:
    __slots__ = ("a",)


class Derived(Base):
    __slots__ = ("__dict__", "b")


@program
def slots_of_a_base_class_and_a_dict(world):
    state = Derived()
    state.a, state.b, state.c = 2.0, 3.0, 5.0
    f = world.compile(lambda x: x * state.a + state.b * state.c)
    world.play(f, changes=[functools.partial(setattr, state, name, 7.0) for name in "abc"])


class Reading:
    def __init__(self):
        self.k, self.names = 2.0, []

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name == "k":
            super().__getattribute__("names").append(name)
        return found


@program
def attributes_whose_reads_are_logged(world):
    state = Reading()
    world.watch(lambda: state.names)
    world.play(world.compile(lambda x: x * state.k), changes=[lambda: setattr(state, "k", 3.0)])


@program
def a_weak_reference_whose_object_dies(world):
    owner = [Plain(k=2.0)]
    reference = weakref.ref(owner[0])

    @world.compile
    def f(x):
        thing = reference()
        return x * (thing.k if thing is not None else -1.0)

    world.play(f, changes=[lambda: setattr(owner[0], "k", 3.0), owner.clear])


@program
def settings_that_are_a_module(world):
    config = world.module("scale = 2.0\nnames = ['a']", "adversarial_config")
    state = Plain(settings=config)
    world.play(
        world.compile(lambda x: x * state.settings.scale + len(state.settings.names)),
        changes=[
            lambda: setattr(config, "scale", 3.0),
            lambda: config.names.append("b"),
            lambda: setattr(config, "scale", True),
        ],
    )


@program
def a_module_with_a_getattr(world):
    module = world.module(
        "table = {'k': 2.0}\n"
        "def __getattr__(name):\n"
        "    if name not in table:\n"
        "        raise AttributeError(name)\n"
        "    return table[name]\n"
    )
    world.play(
        world.compile(lambda x: x * module.k),
        changes=[lambda: module.table.update(k=3.0), lambda: setattr(module, "k", 5.0)],
    )
