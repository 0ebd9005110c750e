"""Variables of enclosing functions and of modules, read and written."""

import functools

import gpugrad as gg

from .harness import normal, program, uses


@program
def a_cell_that_becomes_empty_and_full(world):
    k = 2.0

    def empty():
        nonlocal k
        del k

    def fill():
        nonlocal k
        k = 5.0

    world.check(lambda x: x * k, changes=[empty, fill])


@program
def globals_that_are_deleted_shadow_builtins_and_come_back(world):
    for source, *changes in (
        ("x * k", ("k", None), ("k", 4.0)),
        ("x * max(2, 3) + len('ab')", ("max", min), ("len", lambda text: 7), ("max", None)),
        ("x * appears_later", ("appears_later", 3.0)),
    ):
        module = world.module(f"k = 2.0\ndef f(x):\n    return {source}")

        def change(name, value, module=module):
            if value is None:
                delattr(module, name)
            else:
                setattr(module, name, value)

        due = [functools.partial(change, *given) for given in changes]
        world.play(world.compile(module.f), changes=due)


uses("a_cell_that_the_function_opens", lambda x, f: x * f.__closure__[0].cell_contents,
     lambda: (lambda k: lambda: k)(2.0),
     lambda f: f.__closure__[0].__setattr__("cell_contents", 3.0))  # fmt: skip


@program
def a_closure_that_another_closure_writes(world):
    total = gg.zeros(3)

    def add(x):
        nonlocal total
        total = total + x

    def f(x):
        add(x)
        add(x * 2)
        return total * 1

    world.check(f, changes=[lambda: add(normal(3, seed=99))], watch=[lambda: total])


@program
def globals_that_the_function_only_sets(world):
    module = world.module("""
last, passes, done, items = None, 0, None, None
def f(x):
    global last, done, items
    last, done = x, False
    for items in (1.0, (x, x)):
        set_passes()
    return x * 5
def set_passes():
    global passes
    passes = 9
""")
    changes = [lambda: vars(module).update(last=None, passes=0, done=True)] * 3
    names = "last", "passes", "done", "items"
    world.check(module.f, changes=changes, watch=[lambda: [getattr(module, x) for x in names]])


@program
def a_global_that_the_function_makes_and_deletes(world):
    module = world.module("""
def f(x):
    global made, k
    made, k = x, 3.0
    return x * 2
def g(x):
    global made
    del made
    return x * 3
""")
    f, g, number = world.compile(module.f), world.compile(module.g), iter(range(99))
    world.play(lambda x: (g if next(number) % 3 == 2 else f)(x), calls=20,
               watch=[lambda: hasattr(module, "made")])  # fmt: skip
