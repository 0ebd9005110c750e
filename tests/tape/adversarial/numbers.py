"""Python's and NumPy's numbers that change from call to call."""

import fractions

import numpy as np

import gpugrad as gg

from .harness import normal, program


def counted(start, advance):
    """A program whose number advances inside the function in each call."""

    def decorate(use):
        def runs(world):
            state = {"k": start}

            @world.compile
            def f(x):
                state["k"] = advance(state["k"])
                return use(x, state["k"])

            world.watch(state)
            world.play(f, changes=[lambda: state.update(k=start)], calls=9)

        runs.__name__, runs.__module__ = use.__name__, use.__module__
        return program(runs)

    return decorate


@counted(0, lambda k: k + 1)
def an_integer(x, k):
    return x * k + k, k


@counted(0.1, lambda k: k * 1.1)
def a_float(x, k):
    return x * k, gg.full((2,), k), k


@counted(1, lambda k: k * 1000)
def an_integer_that_grows_without_end(x, k):
    return x + float(k), k.bit_length()


@counted(1 + 1j, lambda k: k * 1j)
def a_complex_number(x, k):
    return x * k, k


@counted(np.float32(0.1), lambda k: k * np.float32(1.1))
def a_float_of_numpy(x, k):
    return x * k, k


@counted(np.int8(120), lambda k: np.int8((int(k) + 3 + 128) % 256 - 128))
def an_integer_of_numpy(x, k):
    return x * k, k


@counted(fractions.Fraction(1, 3), lambda k: k / 2)
def a_fraction(x, k):
    return x * float(k), k


@counted(True, lambda k: not k)
def a_truth_value(x, k):
    return x * 2 if k else x * 3


@counted(0, lambda k: (k + 1) % 3)
def an_index(x, k):
    return x[k] * 2, x[:k], gg.roll(x, k)


@counted(1, lambda k: k % 4 + 1)
def a_shape(x, k):
    return gg.ones((k, 3)) * x, x.reshape(1, 3) * gg.arange(k).reshape(k, 1)


@counted(0, lambda k: (k + 1) % 4)
def the_number_of_repeats(x, k):
    for _ in range(k):
        x = x * 1.5 + 1
    return x


@counted(0.0, lambda k: -k)
def a_zero_that_changes_its_sign(x, k):
    return 1 / (x * 0 + k), x * k


@counted("a", lambda k: k + "b")
def a_text(x, k):
    return x * len(k), k


@counted((1,), lambda k: (*k, len(k)))
def a_tuple(x, k):
    return x * sum(k), k


@counted(None, lambda k: 2.0 if k is None else None)
def nothing_and_something(x, k):
    return x if k is None else x * k


@counted(np.array([1.0, 2.0, 3.0]), lambda k: k * 2)
def a_raw_array(x, k):
    return x * k, k


@counted(2, lambda k: k + 0.5 if isinstance(k, int) else int(k))
def a_number_that_changes_its_type(x, k):
    return x.astype(gg.int64) * k


@program
def hyper_parameters_of_functions(world):
    table = {"p": 2, "axis": 0, "eps": 1e-5, "k": 1}

    @world.compile
    def f(x):
        y = (gg.abs(x) + table["eps"]) ** table["p"]
        return y.sum(table["axis"]), gg.softmax(x, table["axis"]), gg.tril(x, table["k"])

    world.play(
        f,
        lambda i: (normal(3, 3, seed=i),),
        changes=[
            lambda: table.update(p=3),
            lambda: table.update(p=3.0),
            lambda: table.update(axis=1),
            lambda: table.update(eps=0),
            lambda: table.update(k=-1),
            lambda: table.update(axis=(0, 1)),
        ],
    )


@program
def numbers_that_are_tensors_at_times(world):
    table = {"k": 2.0}
    f = world.compile(lambda x: x * table["k"])
    world.play(
        f,
        changes=[
            lambda: table.update(k=gg.asarray(2.0)),
            lambda: table.update(k=np.float64(2)),
            lambda: table.update(k=np.array(2)),
            lambda: table.update(k=2),
            lambda: table.update(k=gg.asarray(2)),
        ],
    )
