"""Variables of enclosing functions and of modules, read and written."""

import gpugrad as gg

from .harness import normal, program

TALLY = 0
FACTOR = 2.0


@program
def counts_in_a_nonlocal(world):
    calls = 0

    @world.compile
    def f(x):
        nonlocal calls
        calls += 1
        return x * calls

    def reset():
        nonlocal calls
        calls = 0

    world.watch(lambda: calls)
    world.play(f, changes=[reset, reset])


@program
def counts_in_a_global(world):
    global TALLY
    TALLY = 0

    @world.compile
    def f(x):
        global TALLY
        TALLY += 1
        return x + TALLY

    def change():
        global TALLY
        TALLY = 100

    world.watch(lambda: TALLY)
    world.play(f, changes=[change])
    TALLY = 0


@program
def reads_a_global_that_changes_its_type(world):
    global FACTOR
    FACTOR = 2.0

    def put(value):
        global FACTOR
        FACTOR = value

    f = world.compile(lambda x: x.astype(gg.int64) * FACTOR)
    world.play(f, changes=[lambda: put(2), lambda: put(True), lambda: put(1), lambda: put(1.0)])
    FACTOR = 2.0


@program
def keeps_the_last_result_in_a_nonlocal(world):
    last = gg.zeros(3)

    @world.compile
    def f(x):
        nonlocal last
        last = last * 0.5 + x
        return last

    def change():
        nonlocal last
        last = normal(3, seed=50)

    world.watch(lambda: last)
    world.play(f, changes=[change])


@program
def keeps_an_intermediate_value_in_a_nonlocal(world):
    seen = None

    @world.compile
    def f(x):
        nonlocal seen
        seen = x * 3
        return x + 1

    world.watch(lambda: seen)
    world.play(f)


@program
def swaps_two_nonlocals(world):
    a, b = 2.0, 3.0

    @world.compile
    def f(x):
        nonlocal a, b
        a, b = b, a
        return x * a - b

    world.watch(lambda: (a, b))
    world.play(f)


@program
def a_cell_that_becomes_empty_and_full(world):
    k = 2.0
    f = world.compile(lambda x: x * k)

    def empty():
        nonlocal k
        del k

    def fill():
        nonlocal k
        k = 5.0

    world.play(f, changes=[empty, fill])


@program
def a_global_that_is_deleted_and_comes_back(world):
    module = world.module("k = 2.0\ndef f(x):\n    return x * k")

    def remove():
        del module.k

    world.play(world.compile(module.f), changes=[remove, lambda: setattr(module, "k", 4.0)])


@program
def a_global_that_shadows_a_builtin_later(world):
    module = world.module("def f(x):\n    return x * max(2, 3) + len('ab')")

    def unshadow():
        del module.max

    world.play(
        world.compile(module.f),
        changes=[
            lambda: setattr(module, "max", min),
            lambda: setattr(module, "len", lambda text: 7),
            unshadow,
        ],
    )


@program
def a_global_that_shadows_a_builtin_in_a_helper(world):
    module = world.module(
        "def helper(x):\n    return x * abs(-2.0)\ndef f(x):\n    return helper(x) + 1"
    )
    world.play(world.compile(module.f), changes=[lambda: setattr(module, "abs", lambda k: k * 10)])


@program
def a_global_that_appears_after_a_name_error(world):
    module = world.module("def f(x):\n    return x * appears_later")
    world.play(
        world.compile(module.f),
        changes=[lambda: setattr(module, "appears_later", 3.0)],
    )


@program
def a_name_that_is_looked_for_in_globals(world):
    module = world.module("def f(x):\n    return x * (globals()['k'] if 'k' in globals() else 1.0)")
    world.play(
        world.compile(module.f),
        changes=[lambda: setattr(module, "k", 3.0), lambda: setattr(module, "k", 5.0)],
    )


@program
def writes_to_globals_as_a_dict(world):
    module = world.module(
        "n = 0\ndef f(x):\n    globals().update(n=globals()['n'] + 1)\n    return x * n"
    )
    world.watch(lambda: module.n)
    world.play(world.compile(module.f), changes=[lambda: setattr(module, "n", 10)])


@program
def the_last_value_of_a_loop_variable(world):
    functions = []
    for k in (1.0, 2.0, 3.0):
        functions.append(world.compile(lambda x: x * k))  # noqa: B023
    for number in range(3):
        for f in functions:
            world.call(f, normal(3, seed=number))
    k = 9.0
    for number in range(3):
        for f in functions:
            world.call(f, normal(3, seed=number))


@program
def a_helper_that_is_replaced_by_one_at_the_same_address(world):
    helper = [lambda x: x * 2.0]
    f = world.compile(lambda x: helper[0](x))

    def put(source):
        helper.clear()  # the new one may get the memory of the old one
        helper.append(eval(source))

    world.play(
        f,
        changes=[
            lambda: put("lambda x: x * 3.0"),
            lambda: put("lambda x: x + 3.0"),
            lambda: put("lambda x, k=5.0: x * k"),
        ],
    )


@program
def a_chain_of_helpers_of_which_the_last_changes(world):
    k = 1.0

    def third(x):
        return x * k

    def second(x):
        return third(x) + 1

    def first(x):
        return second(x) * 2

    def change(value):
        nonlocal k
        k = value

    world.play(world.compile(first), changes=[lambda: change(2.0), lambda: change(-0.0)])


@program
def a_helper_that_is_made_in_each_call(world):
    table = {"k": 2.0}

    @world.compile
    def f(x):
        def helper(y, k=table["k"]):
            return y * k * table["m"]

        table.setdefault("m", 1.0)
        return helper(x)

    world.watch(table)
    world.play(f, changes=[lambda: table.update(k=3.0), lambda: table.update(m=5.0)])


@program
def recursion_whose_depth_changes(world):
    depth = 3

    def power(x, n):
        return x if n == 0 else power(x * 1.5, n - 1)

    def change(value):
        nonlocal depth
        depth = value

    f = world.compile(lambda x: power(x, depth))
    world.play(f, changes=[lambda: change(5), lambda: change(0)])


@program
def a_variable_of_a_decorator(world):
    settings = {"scale": 2.0}

    def scaled(function):
        def wrapper(x):
            return function(x) * settings["scale"]

        return wrapper

    @world.compile
    @scaled
    def f(x):
        return x + 1

    world.play(f, changes=[lambda: settings.update(scale=3.0), settings.clear])


@program
def a_tensor_in_a_cell_is_replaced(world):
    w = normal(3, seed=9)

    def change(value):
        nonlocal w
        w = value

    f = world.compile(lambda x: x * w)
    world.play(
        f,
        changes=[
            lambda: change(normal(3, seed=10)),
            lambda: change(normal(1, seed=11)),
            lambda: change(normal(3, seed=12, dtype="float64")),
            lambda: change(2.0),
            lambda: change(normal(3, seed=13)),
        ],
    )


@program
def a_closure_that_another_closure_writes(world):
    total = gg.zeros(3)

    def add(x):
        nonlocal total
        total = total + x

    @world.compile
    def f(x):
        add(x)
        add(x * 2)
        return total * 1

    world.watch(lambda: total)
    world.play(f, changes=[lambda: add(normal(3, seed=99))])
