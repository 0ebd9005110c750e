"""Classes and functions as state: attributes, methods, code, defaults."""

import abc
import functools

from gpugrad import nn

from .harness import add, normal, program


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
    settings = (Thing, "k", 3.0), (one, "k", 9.0), (two, "n", 40)
    changes = [functools.partial(setattr, *setting) for setting in settings]
    world.play(lambda x: (one.scaled(x), two.scaled(x)), changes=changes, watch=[one, two])


@program
def a_class_that_is_registered_later(world):
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Circle:
        pass

    circle = Circle()
    changes = [lambda: Shape.register(Circle)]
    world.check(lambda x: x * 2 if isinstance(circle, Shape) else x, changes=changes)


@program
def what_is_kept_on_the_compiled_function(world):
    @world.compile
    def step(x):
        step.calls += 1
        y = x * step.calls
        if step.last is not None:
            y = y + step.last
        step.last = y
        return y * 1

    step.calls, step.last = 0, None
    changes = lambda: setattr(step, "calls", 20), lambda: setattr(step, "last", None)
    world.play(step, changes=changes, watch=[lambda: (step.calls, step.last)])


@program
def a_cache_that_forgets_the_oldest(world):
    @functools.lru_cache(maxsize=2)
    def weight(n):
        return normal(3, seed=n) * 2

    numbers = [0]
    world.watch(lambda: weight.cache_info())
    changes = [functools.partial(numbers.append, k) for k in (1, 2, 0, 0, 1)]
    world.check(lambda x: x * weight(numbers[-1]), changes=changes)


class Loss:
    def __init__(self):
        self.k, self.n, self._name, self._run = 2.0, 0, "loss", None

    def __call__(self, x):
        self.n += 1
        return x * self.k


def function(x):
    function.n += 1
    return x * function.k


def attributes_of(make, world):
    f = make()
    f.k, f.n = 2.0, 0
    compiled = world.compile(f)
    settings = (f, "k", 3.0), (compiled, "k", 4.0)
    changes = [functools.partial(setattr, *setting) for setting in settings]
    changes.append(lambda: delattr(compiled, "k"))
    watch = [lambda: sorted(vars(f).items())]
    world.play(lambda x: (compiled(x), compiled.n), changes=changes, watch=watch)


for _name, _make in ("a_function", lambda: function), ("an_object", Loss):
    add(f"attributes_of_{_name}", __name__, functools.partial(attributes_of, _make))


@program
def a_compiled_method_that_is_abstract(world):
    class Abstract(abc.ABC):
        @world.compile
        @abc.abstractmethod
        def scaled(self, x):
            return x * 2

    class Concrete(Abstract):
        def scaled(self, x):
            return super().scaled(x) * 3

    for kind in (Abstract, Concrete) * 5:
        world.call(lambda x, kind=kind: kind().scaled(x), normal(3))


@program
def an_attribute_of_a_compiled_module(world):
    net = world.compile(nn.Linear(3, 3))
    net.k = 2.0
    world.check(lambda x: x * net.k, changes=[lambda: setattr(net, "k", 3.0)])
