"""Classes and functions as state: attributes, methods, code, defaults."""

import abc
import enum
import functools
import sys

import gpugrad as gg

from .harness import normal, program


def make_class():
    class Thing:
        k, calls = 2.0, 0

        def scaled(self, x):
            return x * self.k

        @classmethod
        def count(cls):
            cls.calls += 1
            return cls.calls

        @staticmethod
        def plus(x):
            return x + 1

    return Thing


@program
def an_attribute_of_a_class_is_counted(world):
    Thing = make_class()

    @world.compile
    def f(x):
        Thing.calls += 1
        return x * Thing.calls

    world.watch(lambda: Thing.calls)
    world.play(f, changes=[lambda: setattr(Thing, "calls", 10)])


@program
def a_class_method_that_counts(world):
    Thing = make_class()
    world.watch(lambda: Thing.calls)
    world.play(
        world.compile(lambda x: x * Thing.count()), changes=[lambda: setattr(Thing, "calls", 7)]
    )


@program
def a_compiled_class_method(world):
    class Thing:
        k = 2.0

    Thing.make = classmethod(world.compile(lambda cls, x: x * cls.k))
    world.play(
        lambda x: Thing.make(x),
        changes=[lambda: setattr(Thing, "k", 3.0), lambda: setattr(Thing, "k", 3)],
    )


@program
def a_compiled_method(world):
    class Thing:
        k = 2.0

        @world.compile
        def scaled(self, x):
            self.n = getattr(self, "n", 0) + 1
            return x * self.k + self.n

    one, two = Thing(), Thing()
    two.k = 5.0
    world.watch(one, two)
    world.play(
        lambda x: (one.scaled(x), two.scaled(x)),
        changes=[
            lambda: setattr(Thing, "k", 3.0),
            lambda: setattr(one, "k", 9.0),
            lambda: setattr(two, "n", 40),
        ],
    )


@program
def a_compiled_property(world):
    class Thing:
        def __init__(self):
            self.w = normal(3, seed=4)

        double = property(world.compile(lambda self: self.w * 2))

    thing = Thing()
    world.play(
        lambda: thing.double,
        lambda i: (),
        changes=[
            lambda: thing.w.__imul__(3),
            lambda: setattr(thing, "w", normal(2, seed=5)),
        ],
    )


@program
def a_method_of_a_class_is_replaced(world):
    Thing = make_class()
    thing = Thing()
    world.play(
        world.compile(lambda x: Thing.plus(thing.scaled(x))),
        changes=[
            lambda: setattr(Thing, "scaled", lambda self, x: x * self.k * 2),
            lambda: setattr(Thing, "plus", staticmethod(lambda x: x + 5)),
            lambda: setattr(Thing, "scaled", property(lambda self: lambda x: x)),
        ],
    )


@program
def a_base_class_gets_another_base(world):
    class First:
        k = 2.0

    class Second:
        k = 3.0

    class Thing(First):
        pass

    def change(*bases):
        Thing.__bases__ = bases

    thing = Thing()
    world.play(
        world.compile(lambda x: x * thing.k),
        changes=[
            lambda: change(Second),
            lambda: change(First, Second),
            lambda: setattr(First, "k", 9.0),
        ],
    )


@program
def an_attribute_in_the_middle_of_the_mro(world):
    class A:
        k = 1.0

    class B(A):
        pass

    class C(A):
        k = 3.0

    class D(B, C):
        pass

    thing = D()

    def remove():
        del B.k

    world.play(
        world.compile(lambda x: x * thing.k),
        changes=[lambda: setattr(B, "k", 5.0), remove, lambda: setattr(D, "k", 7.0)],
    )


@program
def super_after_the_base_class_changes(world):
    class Base:
        def get(self):
            return 2.0

    class Thing(Base):
        def get(self):
            return super().get() * 10

    thing = Thing()
    world.play(
        world.compile(lambda x: x * thing.get()),
        changes=[lambda: setattr(Base, "get", lambda self: 3.0)],
    )


@program
def a_metaclass_that_computes(world):
    class Meta(type):
        table = {"k": 2.0}  # noqa: RUF012

        def __getattr__(cls, name):
            if name not in Meta.table:
                raise AttributeError(name)
            return Meta.table[name]

    class Thing(metaclass=Meta):
        pass

    world.play(
        world.compile(lambda x: x * Thing.k),
        changes=[lambda: Meta.table.update(k=3.0), lambda: setattr(Thing, "k", 5.0)],
    )


@program
def isinstance_that_a_class_decides(world):
    class Meta(type):
        accepts = True

        def __instancecheck__(cls, instance):
            return cls.accepts

    class Thing(metaclass=Meta):
        pass

    world.play(
        world.compile(lambda x: x * 2 if isinstance(3, Thing) else x),
        changes=[lambda: setattr(Meta, "accepts", False), lambda: setattr(Meta, "accepts", True)],
    )


@program
def a_class_that_is_registered_later(world):
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Circle:
        pass

    circle = Circle()
    world.play(
        world.compile(lambda x: x * 2 if isinstance(circle, Shape) else x),
        changes=[lambda: Shape.register(Circle)],
    )


@program
def members_of_an_enum(world):
    class Mode(enum.Enum):
        FAST, SLOW = 1, 2

    Mode.FAST.gain = 2.0
    mode = [Mode.FAST]
    world.play(
        world.compile(lambda x: x * mode[0].value * getattr(mode[0], "gain", 1.0)),
        changes=[
            lambda: mode.__setitem__(0, Mode.SLOW),
            lambda: setattr(Mode.SLOW, "gain", 5.0),
            lambda: mode.__setitem__(0, Mode(1)),
        ],
    )


@program
def subclasses_that_exist(world):
    class Base:
        pass

    class One(Base):
        pass

    kept = [One]

    def add():
        kept.append(type("Two", (Base,), {}))

    world.play(world.compile(lambda x: x * len(Base.__subclasses__())), changes=[add, add])


@program
def a_registry_that_new_classes_join(world):
    registry = []

    class Base:
        def __init_subclass__(cls):
            registry.append(cls.__name__)

    @world.compile
    def f(x):
        class Made(Base):
            k = 2.0

        return x * Made.k * len(registry)

    world.watch(registry)
    world.play(f, changes=[registry.clear])


@program
def attributes_of_a_function_are_counted(world):
    @world.compile
    def f(x):
        helper.calls += 1
        return helper(x)

    def helper(x):
        return x * helper.calls

    helper.calls = 0
    world.watch(lambda: helper.calls)
    world.play(f, changes=[lambda: setattr(helper, "calls", 10)])


@program
def calls_counted_on_the_compiled_function(world):
    @world.compile
    def step(x):
        step.calls += 1
        return x * step.calls

    step.calls = 0
    world.watch(lambda: step.calls)
    world.play(step, changes=[lambda: setattr(step, "calls", 20)])


@program
def a_result_kept_on_the_compiled_function(world):
    @world.compile
    def step(x):
        y = x * 2
        if step.last is not None:
            y = y + step.last
        step.last = y
        return y * 1

    step.last = None
    world.watch(lambda: step.last)
    world.play(step, changes=[lambda: setattr(step, "last", None)])


@program
def code_that_is_replaced(world):
    def helper(x):
        return x * 2

    def other(x):
        return x - 5

    def third(x):
        return x * 3  # differs from the first in a constant only

    before = helper.__code__
    world.play(
        world.compile(lambda x: helper(x)),
        changes=[
            lambda: setattr(helper, "__code__", other.__code__),
            lambda: setattr(helper, "__code__", before),
            lambda: setattr(helper, "__code__", third.__code__),
        ],
    )


@program
def code_of_the_function_itself_that_is_replaced(world):
    def f(x):
        return x * 2

    compiled = world.compile(f)
    world.play(
        compiled,
        changes=[lambda: setattr(f, "__code__", (lambda x: x * 4 + 1).__code__)],
    )


@program
def defaults_that_are_replaced(world):
    def helper(x, k=2.0, *, m=1.0):
        return x * k + m

    world.play(
        world.compile(lambda x: helper(x)),
        changes=[
            lambda: setattr(helper, "__defaults__", (3.0,)),
            lambda: setattr(helper, "__kwdefaults__", {"m": 4.0}),
            lambda: helper.__kwdefaults__.update(m=5.0),
        ],
    )


@program
def defaults_of_the_function_itself(world):
    def f(x, k=2.0):
        return x * k

    compiled = world.compile(f)
    world.play(
        compiled,
        changes=[
            lambda: setattr(f, "__defaults__", (3.0,)),
            lambda: setattr(f, "__defaults__", (normal(3, seed=8),)),
        ],
    )


@program
def a_mutable_default_argument(world):
    @world.compile
    def f(x, seen=[]):  # noqa: B006
        seen.append(x.shape)
        return x * len(seen), list(seen)

    world.play(f)


@program
def a_mutable_default_argument_of_a_helper(world):
    def helper(x, cache={}):  # noqa: B006
        n = cache["n"] = cache.get("n", 0) + 1
        return x * n

    world.watch(lambda: helper.__defaults__)
    world.play(
        world.compile(lambda x: helper(x) + 1), changes=[lambda: helper.__defaults__[0].clear()]
    )


@program
def partial_methods(world):
    class Thing:
        gain = 1.0

        def scale(self, x, k):
            return x * k * self.gain

        double = functools.partialmethod(scale, k=2.0)

    thing = Thing()
    world.play(
        world.compile(lambda x: thing.double(x)),
        changes=[
            lambda: Thing.__dict__["double"].keywords.update(k=3.0),
            lambda: setattr(thing, "gain", 5.0),
            lambda: setattr(Thing, "double", functools.partialmethod(Thing.scale, k=7.0)),
        ],
    )


@program
def single_dispatch_methods(world):
    class Thing:
        @functools.singledispatchmethod
        def scale(self, k, x):
            return x

        @scale.register
        def _(self, k: int, x):
            return x * k

    thing, k = Thing(), [2]
    world.play(
        world.compile(lambda x: thing.scale(k[0], x)),
        changes=[
            lambda: k.__setitem__(0, "a"),
            lambda: k.__setitem__(0, 3),
            lambda: Thing.__dict__["scale"].register(int, lambda self, k, x: x + k),
        ],
    )


@program
def a_cache_of_a_helper_that_is_cleared(world):
    table, made = {"k": 2.0}, []

    @functools.lru_cache
    def lookup(name):
        made.append(name)
        return table[name]

    def clear():
        table["k"] += 1
        lookup.cache_clear()

    world.watch(made)
    world.play(world.compile(lambda x: x * lookup("k")), changes=[clear, clear])


@program
def a_cache_whose_hits_are_counted(world):
    @functools.lru_cache
    def lookup(name):
        return 2.0

    world.watch(lambda: lookup.cache_info())
    world.play(world.compile(lambda x: x * lookup("k")), changes=[lambda: lookup("m")])


@program
def a_cache_that_forgets_the_oldest(world):
    @functools.lru_cache(maxsize=2)
    def weight(n):
        return normal(3, seed=n) * 2

    numbers = [0]
    f = world.compile(lambda x: x * weight(numbers[-1]))
    world.watch(lambda: weight.cache_info())
    world.play(f, changes=[lambda k=k: numbers.append(k) for k in (1, 2, 0, 0, 1)])


@program
def a_cached_tensor_that_is_changed_in_place(world):
    @functools.cache
    def weight():
        return normal(3, seed=40)

    f = world.compile(lambda x: x * weight())
    world.play(
        f, changes=[lambda: weight().__imul__(3), weight.cache_clear, lambda: weight().__iadd__(1)]
    )


@program
def a_wrapped_function_is_replaced(world):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(x):
            return wrapper.__wrapped__(x) * 2

        return wrapper

    @decorate
    def helper(x):
        return x + 1

    world.play(
        world.compile(lambda x: helper(x)),
        changes=[lambda: setattr(helper, "__wrapped__", lambda x: x - 1)],
    )


@program
def the_name_of_a_function_as_a_value(world):
    def helper(x):
        return x * len(helper.__name__) + len(helper.__doc__ or "")

    world.play(
        world.compile(lambda x: helper(x)),
        changes=[
            lambda: setattr(helper, "__name__", "a_longer_name"),
            lambda: setattr(helper, "__doc__", "Text."),
        ],
    )


@program
def a_function_of_gpugrad_that_is_replaced(world):
    module = world.module("import types\nspace = types.SimpleNamespace()\n")
    module.space.exp = gg.exp
    world.play(
        world.compile(lambda x: module.space.exp(x)),
        changes=[
            lambda: setattr(module.space, "exp", gg.sin),
            lambda: setattr(module.space, "exp", lambda x: gg.exp(x) * 2),
        ],
    )


@program
def a_module_that_is_replaced_in_sys_modules(world):
    world.module("k = 2.0", "adversarial_settings")

    @world.compile
    def f(x):
        import adversarial_settings

        return x * adversarial_settings.k

    world.play(
        f,
        changes=[
            lambda: world.module("k = 3.0", "adversarial_settings"),
            lambda: setattr(sys.modules["adversarial_settings"], "k", 5.0),
        ],
    )
