"""Random numbers of Python, NumPy, PyTorch and gpugrad, drawn inside and outside."""

import random
import types

import numpy as np

import gpugrad as gg

from .harness import plays, puts, uses


def drawn_by_numpy():
    return np.random.rand()  # noqa: NPY002


def seeded(_):
    gg.manual_seed(3)


uses("a_generator_of_numpy",
     lambda x, generator: x + gg.asarray(generator.normal(size=3), dtype=x.dtype),
     lambda: np.random.default_rng(3), lambda generator: generator.random())  # fmt: skip
uses("a_generator_of_numpy_in_an_object", lambda x, holder: x * holder.rng.normal(),
     lambda: types.SimpleNamespace(rng=np.random.default_rng(3)),
     lambda holder: setattr(holder, "rng", np.random.default_rng(9)))  # fmt: skip
plays("draws_of_python", lambda x: x * random.random())
plays("draws_of_numpy", lambda x: x * drawn_by_numpy())
plays("discarded_draws_of_numpy", lambda x: (drawn_by_numpy(), x * 2)[1],
      look=lambda y: (y, drawn_by_numpy()))  # fmt: skip
uses("a_generator_of_python", lambda x, generator: x * generator.random(),
     lambda: random.Random(0), lambda generator: generator.random())  # fmt: skip
uses("the_default_generator", lambda x, _: x + gg.random.normal(3) * gg.random.uniform(3),
     gg.random.default_generator, seeded, lambda _: gg.random.normal(2), seeded)  # fmt: skip
uses("a_generator_that_is_replaced", lambda x, holder: x + holder["generator"].normal(3),
     lambda: {"generator": gg.random.Generator(3)},
     lambda holder: holder.update(generator=gg.random.Generator(4)),
     lambda holder: holder.update(generator=gg.random.default_generator()))  # fmt: skip


def draws_of_each_kind(x, _):
    found = [gg.random.integers(0, 9, 3), gg.random.permutation(5), gg.random.shuffle(x)]
    found += [gg.random.choice(7, 2), gg.random.bernoulli(0.3, 4)]
    return [*found, gg.random.multinomial(x * 0 + 1, 2), gg.random.normal(2, dtype="float64")]


def saves_and_restores(x, generator):
    state, first = generator.get_state(), generator.normal(3)
    generator.set_state(state)
    return x + first - generator.normal(3) + generator.normal(3)


uses("draws_of_each_kind", draws_of_each_kind, gg.random.default_generator, seeded)
uses("a_state_that_is_saved_and_restored_inside", saves_and_restores,
     lambda: gg.random.Generator(3))  # fmt: skip
uses("a_bound_that_changes",
     lambda x, s: (x + gg.random.uniform(3, high=s["high"]), gg.random.integers(0, s["n"], 3)),
     lambda: {"high": 3.0, "n": 5, "watched": gg.random.default_generator()},
     *puts("high", 9.0), *puts("n", 100))  # fmt: skip
