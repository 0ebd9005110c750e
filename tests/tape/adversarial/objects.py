"""Objects of the program's own classes: their attributes, read and written."""

import copy
import dataclasses
import functools
import types
import weakref

import gpugrad as gg

from .harness import normal, program


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
def an_attribute_that_is_counted(world):
    state = Plain(calls=0)

    @world.compile
    def f(x):
        state.calls += 1
        return x * state.calls

    world.watch(state)
    world.play(f, changes=[lambda: setattr(state, "calls", -3)])


@program
def an_attribute_that_holds_a_result(world):
    state = Plain(last=gg.zeros(3))

    @world.compile
    def f(x):
        state.last = state.last * 0.5 + x
        return state.last + 1

    world.watch(state)
    world.play(f, changes=[lambda: setattr(state, "last", normal(3, seed=7))])


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
def an_attribute_that_hides_that_of_the_class(world):
    state = Plain()

    def unhide():
        del state.k

    f = world.compile(lambda x: x * state.k)
    world.play(f, changes=[lambda: setattr(state, "k", 3.0), unhide])


@program
def an_attribute_that_is_asked_for(world):
    state = Plain()
    f = world.compile(lambda x: x * (2.0 if hasattr(state, "bonus") else 1.0))
    world.play(f, changes=[lambda: setattr(state, "bonus", None), lambda: delattr(state, "bonus")])


@program
def an_attribute_with_a_default(world):
    state = Plain()
    f = world.compile(lambda x: x * getattr(state, "gain", 2.0))
    world.play(f, changes=[lambda: setattr(state, "gain", 3.0), lambda: delattr(state, "gain")])


@program
def the_attributes_by_vars(world):
    state = Plain(a=2.0)
    f = world.compile(lambda x: x * sum(vars(state).values()))
    world.play(f, changes=[lambda: setattr(state, "b", 3.0), lambda: vars(state).update(a=7.0)])


@program
def an_object_that_changes_its_class(world):
    thing = Scaling()
    f = world.compile(lambda x: thing.scaled(x) * thing.k)

    def become(kind):
        thing.__class__ = kind

    world.play(f, changes=[lambda: become(Other), lambda: become(Scaling)])


@program
def an_object_that_changes_its_class_inside(world):
    thing = Scaling()

    @world.compile
    def f(x):
        y = thing.scaled(x)
        thing.__class__ = Other if type(thing) is Scaling else Scaling
        return y

    world.watch(lambda: type(thing))
    world.play(f)


@program
def an_object_whose_dict_is_replaced(world):
    state = Plain(k=2.0)

    def replace():
        state.__dict__ = {"k": 4.0}

    f = world.compile(lambda x: x * state.k)
    world.play(f, changes=[replace, lambda: setattr(state, "k", 6.0)])


@program
def a_method_of_one_object_is_replaced(world):
    thing = Scaling()

    def unpatch():
        del thing.scaled

    f = world.compile(lambda x: thing.scaled(x))
    world.play(
        f,
        changes=[
            lambda: setattr(thing, "scaled", lambda x: x + 1),
            lambda: setattr(thing, "scaled", types.MethodType(lambda self, x: x * 7, thing)),
            unpatch,
        ],
    )


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


class Computed:
    def __init__(self):
        self.items, self.reads = {"k": 2.0}, 0

    def __getattr__(self, name):
        if name.startswith("__") or name == "items":
            raise AttributeError(name)
        self.reads += 1
        return self.items[name]


@program
def attributes_that_getattr_computes(world):
    state = Computed()
    world.watch(lambda: state.reads)
    f = world.compile(lambda x: x * state.k)
    world.play(f, changes=[lambda: state.items.update(k=3.0), lambda: setattr(state, "k", 4.0)])


class Watched:
    def __init__(self):
        vars(self).update(log=[], k=1.0)

    def __setattr__(self, name, value):
        self.log.append((name, value))
        super().__setattr__(name, value)


@program
def attributes_whose_writes_are_logged(world):
    state = Watched()

    @world.compile
    def f(x):
        state.k = state.k + 1
        return x * state.k

    world.watch(lambda: (state.log, state.k))
    world.play(f, changes=[state.log.clear, lambda: setattr(state, "k", 1.0)])


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


class Celsius:
    def __init__(self):
        self.degrees, self.reads = 2.0, 0

    @property
    def double(self):
        self.reads += 1
        return self.degrees * 2

    @double.setter
    def double(self, value):
        self.degrees = value / 2


@program
def properties_with_effects(world):
    state = Celsius()

    @world.compile
    def f(x):
        y = x * state.double
        state.double = state.degrees + 1
        return y

    world.watch(state)
    world.play(f, changes=[lambda: setattr(state, "double", 1.0)])


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return vars(instance)[self.name]

    def __set__(self, instance, value):
        vars(instance)[self.name] = abs(value)


class WithDescriptor:
    k = Positive()


@program
def descriptors_that_convert(world):
    state = WithDescriptor()
    state.k = -2.0

    @world.compile
    def f(x):
        y = x * state.k
        state.k = -state.k - 1
        return y

    world.watch(state)
    world.play(f, changes=[lambda: setattr(state, "k", -9.0)])


class Cached:
    def __init__(self):
        self.base, self.made = 2.0, 0

    @functools.cached_property
    def value(self):
        self.made += 1
        return self.base * 10


@program
def cached_properties_that_are_cleared(world):
    state = Cached()
    f = world.compile(lambda x: x * state.value)

    def clear():
        vars(state).pop("value", None)
        state.base += 1

    world.watch(state)
    world.play(f, changes=[lambda: setattr(state, "base", 5.0), clear, clear])


class CachedTensor:
    def __init__(self):
        self.base = normal(3, seed=3)

    @functools.cached_property
    def value(self):
        return self.base * 2


@program
def cached_properties_that_are_tensors(world):
    state = CachedTensor()
    world.watch(state)
    world.play(
        world.compile(lambda x: x * state.value),
        changes=[
            lambda: state.base.__imul__(3),
            lambda: vars(state).pop("value"),
            lambda: state.value.__imul__(2),
        ],
    )


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
def a_finalizer_of_what_is_made_inside(world):
    ended = []

    class Temporary:
        def __del__(self):
            ended.append(len(ended))

    @world.compile
    def f(x):
        thing = Temporary()
        thing.k = 2.0
        y = x * thing.k
        del thing
        return y + len(ended)

    world.watch(ended)
    world.play(f)


class Context:
    def __init__(self):
        self.depth, self.entered = 0, 0

    def __enter__(self):
        self.depth += 1
        self.entered += 1

    def __exit__(self, *exc_info):
        self.depth -= 1


@program
def context_managers_that_count(world):
    context = Context()

    @world.compile
    def f(x):
        with context:
            y = x * context.depth
            with context:
                y = y + context.depth
        return y * context.entered

    world.watch(context)
    world.play(f, changes=[lambda: setattr(context, "entered", 0)])


class Called:
    def __init__(self):
        self.calls, self.k = 0, 2.0

    def __call__(self, x):
        self.calls += 1
        return x * self.k + self.calls


@program
def an_object_that_is_the_function(world):
    thing = Called()
    world.watch(thing)
    world.play(world.compile(thing), changes=[lambda: setattr(thing, "k", 3.0)])


@program
def a_bound_method_that_is_the_function(world):
    thing = Called()
    world.watch(thing)
    world.play(world.compile(thing.__call__), changes=[lambda: setattr(thing, "k", 5.0)])


class Ordered:
    def __init__(self, k):
        self.k, self.compared = k, 0

    def __eq__(self, other):
        self.compared += 1
        return True

    __hash__ = None


@program
def objects_that_are_equal_to_everything(world):
    holder = Plain(thing=Ordered(2.0))
    world.watch(lambda: holder.thing.compared)
    world.play(
        world.compile(lambda x: x * holder.thing.k),
        changes=[
            lambda: setattr(holder, "thing", Ordered(3.0)),
            lambda: setattr(holder.thing, "k", 5),
        ],
    )


@program
def an_object_that_is_replaced_by_its_copy(world):
    holder = Plain(inner=Plain(k=2.0, w=normal(3, seed=1)))
    old = holder.inner

    def replace():
        holder.inner = copy.deepcopy(holder.inner)

    world.play(
        world.compile(lambda x: x * holder.inner.w * holder.inner.k),
        changes=[
            replace,
            lambda: old.w.__imul__(5),
            lambda: holder.inner.w.__imul__(2),
            lambda: setattr(old, "k", 9.0),
            lambda: setattr(holder.inner, "k", 4.0),
        ],
    )


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float
    table: list


@program
def a_frozen_dataclass_that_changes_all_the_same(world):
    state = Frozen(2.0, [3.0])
    world.play(
        world.compile(lambda x: x * state.k + state.table[0]),
        changes=[
            lambda: state.table.__setitem__(0, 5.0),
            lambda: object.__setattr__(state, "k", 7.0),
        ],
    )


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
def settings_of_a_module_in_a_list(world):
    config = world.module("scale = 2.0", "adversarial_config")
    table = [config]
    world.play(
        world.compile(lambda x: x * table[0].scale),
        changes=[lambda: setattr(config, "scale", 3.0)],
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


@program
def a_simple_namespace(world):
    state = types.SimpleNamespace(k=2.0, n=0)

    @world.compile
    def f(x):
        state.n += 1
        return x * state.k + state.n

    world.watch(lambda: (state.k, state.n))
    world.play(f, changes=[lambda: setattr(state, "k", 3.0), lambda: setattr(state, "n", 0)])


@program
def a_truth_value_that_an_object_decides(world):
    class Switch:
        on, asked = True, 0

        def __bool__(self):
            self.asked += 1
            return self.on

    switch = Switch()
    world.watch(lambda: switch.asked)
    world.play(
        world.compile(lambda x: x * 2 if switch else x * 3),
        changes=[lambda: setattr(switch, "on", False), lambda: setattr(switch, "on", True)],
    )


@program
def a_length_that_an_object_decides(world):
    class Sized:
        size = 3

        def __len__(self):
            return self.size

    sized = Sized()
    world.play(
        world.compile(lambda x: x * len(sized)),
        changes=[lambda: setattr(sized, "size", 0), lambda: setattr(Sized, "size", 9)],
    )
