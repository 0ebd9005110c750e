"""Random numbers of Python, NumPy, PyTorch and gpugrad, drawn inside and outside."""

import importlib.util
import os
import random
import secrets
import uuid

import numpy as np

import gpugrad as gg
from gpugrad.nn import functional

from .harness import normal, program

NO_TORCH = None if importlib.util.find_spec("torch") else "PyTorch is not installed"


@program
def numbers_of_python(world):
    world.watch(lambda: hash(random.getstate()))
    world.play(
        world.compile(lambda x: x * random.random()),
        changes=[lambda: random.seed(5), lambda: random.seed(5)],
    )


@program
def choices_of_python(world):
    table = [1.0, 2.0, 3.0, 4.0]

    @world.compile
    def f(x):
        random.shuffle(table)
        return x * random.choice(table) + table[0]

    world.watch(table)
    world.play(f)


@program
def a_generator_of_python(world):
    generator = random.Random(3)
    world.watch(generator)
    world.play(
        world.compile(lambda x: x * generator.gauss(0, 1)), changes=[lambda: generator.seed(3)]
    )


@program
def a_generator_of_python_made_inside(world):
    seeds = [3]
    f = world.compile(lambda x: x * random.Random(seeds[0]).random())
    world.play(f, changes=[lambda: seeds.__setitem__(0, 4)])


@program
def global_numbers_of_numpy(world):
    world.watch(lambda: [*np.random.get_state()])  # noqa: NPY002
    world.play(
        world.compile(lambda x: x * np.random.rand()),  # noqa: NPY002
        changes=[lambda: np.random.seed(5), lambda: np.random.seed(5)],  # noqa: NPY002
    )


@program
def global_arrays_of_numpy(world):
    f = world.compile(lambda x: x + np.random.randn(3).astype(np.float32))  # noqa: NPY002
    world.play(f, changes=[lambda: np.random.seed(2)])  # noqa: NPY002


@program
def a_random_state_of_numpy(world):
    generator = np.random.RandomState(3)
    world.watch(generator)
    world.play(world.compile(lambda x: x * generator.normal()), changes=[lambda: generator.seed(3)])


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
def a_generator_of_numpy_made_inside_with_a_seed_that_changes(world):
    seeds = {"n": 0}

    @world.compile
    def f(x):
        return x * np.random.default_rng(seeds["n"]).normal()

    world.play(f, changes=[lambda: seeds.update(n=1), lambda: seeds.update(n=2)])


@program
def a_generator_of_numpy_made_inside_with_a_seed_that_is_counted(world):
    seeds = {"n": 0}

    @world.compile
    def f(x):
        seeds["n"] += 1
        return x * np.random.default_rng(seeds["n"]).normal()

    world.watch(seeds)
    world.play(f, changes=[seeds.update])


@program
def two_draws_without_a_seed_differ(world):
    """Whether all values differ is seen, not the values."""
    seen = []
    f = world.compile(lambda x: x * np.random.default_rng().normal())

    def whole(x):
        seen.append(float(f(x).sum()))
        return len(set(seen)) == len(seen)

    world.play(whole, lambda i: (gg.ones(3),))


@program
def bytes_of_the_operating_system_differ(world):
    seen = []

    @world.compile
    def f(x):
        number = int.from_bytes(os.urandom(4), "big") + secrets.randbelow(1000) / 1000
        return x.astype(gg.float64) * number + uuid.uuid4().int % 65536

    def whole(x):
        seen.append(float(f(x).sum()))
        return len(set(seen)) == len(seen)

    world.play(whole, lambda i: (gg.ones(3),))


@program(needs=NO_TORCH)
def numbers_of_torch(world):
    import torch

    torch.manual_seed(3)
    world.watch(lambda: hash(torch.get_rng_state().numpy().tobytes()))
    world.play(
        world.compile(lambda x: x * torch.rand(()).item()),
        changes=[lambda: torch.manual_seed(3)],
    )


@program
def the_default_generator(world):
    world.watch(gg.random.default_generator)
    world.play(
        world.compile(lambda x: x + gg.random.normal(3) * gg.random.uniform(3)),
        changes=[lambda: gg.manual_seed(3), lambda: gg.random.normal(2), lambda: gg.manual_seed(3)],
    )


@program
def a_generator_outside(world):
    generator = gg.random.Generator(3)
    world.watch(generator)
    saved = generator.get_state()
    world.play(
        world.compile(lambda x: x + generator.normal(3)),
        changes=[
            lambda: generator.set_state(saved),
            lambda: generator.uniform(),
            lambda: generator.reseed(3),
        ],
    )


@program
def a_generator_made_inside(world):
    seeds = [3]

    @world.compile
    def f(x):
        return x + gg.random.Generator(seeds[0]).normal(3)

    world.play(f, changes=[lambda: seeds.__setitem__(0, 4), lambda: seeds.__setitem__(0, 3)])


@program
def a_seed_set_inside(world):
    @world.compile
    def f(x):
        gg.manual_seed(int(x.shape[0]))
        return x + gg.random.normal(x.shape)

    world.watch(gg.random.default_generator)
    world.play(f, lambda i: (normal(2 + i % 2),), changes=[lambda: gg.random.normal(3)])


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
def draws_that_are_discarded(world):
    @world.compile
    def f(x):
        gg.random.normal(5)
        return x * 2

    world.watch(gg.random.default_generator)
    world.play(f, changes=[lambda: gg.manual_seed(3)])


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
def draws_of_which_some_depend_on_a_flag(world):
    flag = {"noise": True}

    @world.compile
    def f(x):
        y = functional.dropout(x, 0.5)
        if flag["noise"]:
            y = y + gg.random.normal(3)
        return y + gg.random.uniform(3)

    world.watch(gg.random.default_generator)
    world.play(f, changes=[lambda: flag.update(noise=False), lambda: flag.update(noise=True)])


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
