"""Products of matrices, whose last bits depend on which arrays their operands are."""

import functools

import numpy as np

import gpugrad as gg

from .harness import normal, plays, program


@program
def products_with_a_transposed_weight(world):
    table = {"w": normal(5, 7)}
    f = world.compile(lambda x: x @ table["w"])

    transposed, gaps = normal(7, 5, seed=2).numpy().T, normal(10, 14, seed=2).numpy()[::2, ::2]
    others = transposed, gaps, np.asfortranarray(normal(5, 7, seed=4).numpy())
    weights = [*map(gg.asarray, others), normal(5, 7, seed=5, dtype="f8")]
    changes = [functools.partial(table.update, w=w) for w in weights]
    world.play(f, lambda i: (normal(9, 5, seed=i),), changes=changes)


@program
def products_of_two_weights_that_may_share_memory(world):
    a, b = normal(17, 33), normal(17, 33)
    f = world.compile(lambda x: (a * 1) @ (b * 1).T + a @ b.T + x[0])

    arrays = a.array, a.array.copy(), a.array[:], a.array[::-1]
    world.play(f, changes=[functools.partial(setattr, b, "array", array) for array in arrays])


def products_of_integers_and_of_halves(x):
    y = (x * 3).astype(gg.int32)
    return y @ y.T, x.astype(gg.float16) @ x.astype(gg.float16).T, x.astype(complex) @ x.T


plays("products_of_integers_and_of_halves", products_of_integers_and_of_halves,
      lambda i: (normal(9, 17, seed=i),))  # fmt: skip


@program
def a_weight_that_is_used_twice(world):
    w = normal(33, 33).requires_grad_()

    @world.compile
    def f(x):
        w.grad = None
        y = gg.tanh(gg.tanh(x @ w) @ w.T) @ gg.exp(w) @ gg.exp(w).T
        (y * y).mean().backward()
        w.detach().__isub__(w.grad * 0.01)
        return y.detach()

    world.play(f, lambda i: (normal(17, 33, seed=i),), watch=[w])
