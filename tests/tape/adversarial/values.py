"""Values that a function looks at: in branches, assertions and loops, as numbers and shapes."""

import numpy as np

import gpugrad as gg

from .harness import normal, program


@program
def a_branch_on_a_value(world):
    f = world.compile(lambda x: x * 2 if x.sum() > 0 else x - 1)
    world.play(f, lambda i: (normal(3, seed=i) + (i % 2) * 3,), calls=8)


@program
def a_branch_on_a_value_of_state(world):
    w = gg.asarray(1.0)
    f = world.compile(lambda x: x * 2 if w > 0 else x - 1)
    world.play(f, changes=[lambda: w.__imul__(-1), lambda: w.__imul__(-1)])


@program
def an_assertion_on_values(world):
    @world.compile
    def f(x):
        assert x.sum() > 0, "own"
        return x * 2

    world.play(f, lambda i: (gg.ones(3) * (-1.0 if i in (2, 5) else i + 1.0),), calls=8)


@program
def an_assertion_on_shapes(world):
    @world.compile
    def f(x):
        assert x.shape == (3,), "own"
        return x * 2

    world.play(f, lambda i: (normal(4 if i in (2, 5) else 3, seed=i),), calls=8)


@program
def a_number_read_from_a_result(world):
    @world.compile
    def f(x):
        n = float((x * x).sum())
        return x * n, n

    world.play(f)


@program
def a_number_read_from_state(world):
    w = gg.asarray([1.0, 2.0])

    @world.compile
    def f(x):
        n = w[0].item()
        w.__iadd__(1)
        return x * n, n, w.tolist()

    world.watch(w)
    world.play(f, changes=[lambda: w.__imul__(0)])


@program
def a_loop_that_ends_by_a_value(world):
    @world.compile
    def f(x):
        steps = 0
        while (x * x).sum() > 1:
            x = x * 0.5
            steps += 1
        return x, steps

    world.play(f, lambda i: (gg.ones(3) * float(i),), calls=8)


@program
def shapes_that_depend_on_values(world):
    f = world.compile(lambda x: (x[x > 0], gg.nonzero(x > 0), gg.unique_values(gg.round(x))))
    world.play(f)


@program
def a_print_of_a_value(world):
    @world.compile
    def f(x):
        y = x * 2
        print(y, f"{y.sum():.3f}")
        return y

    world.play(f)


@program
def a_comparison_of_arrays(world):
    f = world.compile(lambda x: x * 2 if np.allclose(x.numpy(), 0) else x + 1)
    world.play(f, lambda i: (gg.zeros(3) + float(i % 2),), calls=8)


@program
def equality_of_tensors_in_a_list(world):
    a, b = gg.asarray(1), gg.asarray(2)
    f = world.compile(lambda x: x * (2 if a in [b] else 3) * [a, b].index(b))
    world.play(f, changes=[lambda: a.__iadd__(1), lambda: a.__iadd__(1)])
