"""Random numbers of Python, NumPy, PyTorch and gpugrad, drawn inside and outside."""

import numpy as np

import gpugrad as gg

from .harness import program


@program
def a_generator_of_numpy(world):
    generator = np.random.default_rng(3)
    world.watch(generator)
    world.play(
        world.compile(lambda x: x + gg.asarray(generator.normal(size=3), dtype=x.dtype)),
        changes=[lambda: generator.random()],
    )


@program
def a_generator_of_numpy_in_an_object(world):
    class Holder:
        def __init__(self):
            self.rng = np.random.default_rng(3)

    holder = Holder()
    world.watch(lambda: holder.rng)
    world.play(
        world.compile(lambda x: x * holder.rng.normal()),
        changes=[lambda: setattr(holder, "rng", np.random.default_rng(9))],
    )


@program
def the_default_generator(world):
    world.watch(gg.random.default_generator)
    world.play(
        world.compile(lambda x: x + gg.random.normal(3) * gg.random.uniform(3)),
        changes=[lambda: gg.manual_seed(3), lambda: gg.random.normal(2), lambda: gg.manual_seed(3)],
    )


@program
def a_generator_that_is_replaced(world):
    holder = {"generator": gg.random.Generator(3)}
    world.watch(lambda: holder["generator"])
    world.play(
        world.compile(lambda x: x + holder["generator"].normal(3)),
        changes=[
            lambda: holder.update(generator=gg.random.Generator(4)),
            lambda: holder.update(generator=gg.random.default_generator()),
        ],
    )


@program
def draws_of_each_kind(world):
    @world.compile
    def f(x):
        found = [gg.random.integers(0, 9, 3), gg.random.permutation(5), gg.random.shuffle(x)]
        found += [gg.random.choice(7, 2), gg.random.bernoulli(0.3, 4)]
        return [*found, gg.random.multinomial(x * 0 + 1, 2), gg.random.normal(2, dtype="float64")]

    world.watch(gg.random.default_generator)
    world.play(f, changes=[lambda: gg.manual_seed(3)])


@program
def a_state_that_is_saved_and_restored_inside(world):
    generator = gg.random.Generator(3)

    @world.compile
    def f(x):
        state = generator.get_state()
        first = generator.normal(3)
        generator.set_state(state)
        return x + first - generator.normal(3) + generator.normal(3)

    world.watch(generator)
    world.play(f)


@program
def a_bound_that_changes(world):
    table = {"high": 3.0, "n": 5}

    @world.compile
    def f(x):
        return x + gg.random.uniform(3, high=table["high"]), gg.random.integers(0, table["n"], 3)

    world.watch(gg.random.default_generator)
    world.play(f, changes=[lambda: table.update(high=9.0), lambda: table.update(n=100)])
