"""Objects of the program's own classes: their attributes, read and written."""

import types
import weakref

from .harness import program, puts, uses


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


uses("an_object_that_changes_its_class", lambda x, thing: thing.scaled(x) * thing.k, Scaling,
     *puts("__class__", Other, Scaling))  # fmt: skip


class Slots:
    __slots__ = "count", "k", "table"


def filling(x, state):
    if not hasattr(state, "table"):
        state.table = x * 2
    return state.table + x


uses("a_slot_that_is_empty_at_first", filling, Slots, lambda state: delattr(state, "table"))


class Base:
    __slots__ = ("a",)


class Derived(Base):
    __slots__ = ("__dict__", "b")

    def __init__(self):
        self.a, self.b, self.c = 2.0, 3.0, 5.0


uses("slots_of_a_base_class_and_a_dict", lambda x, s: x * s.a + s.b * s.c, Derived,
     *[put for name in "abc" for put in puts(name, 7.0)])  # fmt: skip


class Reading:
    def __init__(self):
        self.k, self.names = 2.0, []

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name == "k":
            super().__getattribute__("names").append(name)
        return found


uses("attributes_whose_reads_are_logged", lambda x, state: x * state.k, Reading, *puts("k", 3.0))


@program
def a_weak_reference_whose_object_dies(world):
    owner = [Plain(k=2.0)]
    reference = weakref.ref(owner[0])
    names = types.SimpleNamespace(first=reference, second=reference)

    def f(x):
        thing = names.second()
        return x * (thing.k if thing is not None else -1.0)

    world.check(f, changes=[lambda: setattr(owner[0], "k", 3.0), owner.clear])


def module_with(**names):
    module = types.ModuleType("adversarial_config")
    vars(module).update(names)
    return module


def with_a_getattr():
    table = {"k": 2.0}

    def find(name):
        if name not in table:
            raise AttributeError(name)
        return table[name]

    return module_with(table=table, __getattr__=find)


uses("settings_that_are_a_module",
     lambda x, s: x * s.settings.scale + len(s.settings.names),
     lambda: Plain(settings=module_with(scale=2.0, names=["a"])),
     lambda s: setattr(s.settings, "scale", 3.0), lambda s: s.settings.names.append("b"),
     lambda s: setattr(s.settings, "scale", True))  # fmt: skip
uses("a_module_with_a_getattr", lambda x, module: x * module.k, with_a_getattr,
     lambda module: module.table.update(k=3.0), *puts("k", 5.0))  # fmt: skip


class WithSlot:
    __slots__ = ("k",)


class WithSlotOfTheSameName(WithSlot):
    __slots__ = ("k",)

    def hidden(self):
        return super().k


def with_hidden_slot():
    found = WithSlotOfTheSameName()
    found.k = 1.0
    WithSlot.k.__set__(found, 2.0)
    return found


class WithSecondName(Base):
    __slots__ = ()
    second = Base.a

    def __init__(self):
        self.a = 1.0


uses("a_slot_with_two_names", lambda x, thing: x * thing.second, WithSecondName, *puts("a", 5.0))
uses("a_slot_that_another_one_hides", lambda x, thing: x * thing.hidden(), with_hidden_slot,
     lambda thing: WithSlot.k.__set__(thing, 5.0))  # fmt: skip


@program
def an_object_that_finds_any_attribute(world):
    thing = type("Thing", (), {"__slots__": (), "__getattr__": lambda self, name: 2.0})()
    world.check(lambda x: x * thing.k)
