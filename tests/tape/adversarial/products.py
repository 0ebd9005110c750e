"""Products of matrices, whose last bits depend on which arrays their operands are."""

import functools

import numpy as np

import gpugrad as gg

from .harness import add, normal, program

# Where the kernels of OpenBLAS compute the product of an array with itself in another way.
SHAPES = (3, 3), (3, 64), (9, 300), (17, 33), (33, 17), (65, 128), (65, 300), (1, 9), (9, 1)


def of_matrices(name, function):
    """Two programs: the products, and their gradients."""

    def forward(world):
        f = world.compile(function)
        world.play(f, lambda i: (normal(*SHAPES[i // 3], seed=i),), calls=27)

    def backward(world):
        @world.compile
        def inside(x, g):
            return gg.autograd.grad(function(x), [x], [g])

        outside = world.compile(function)

        def whole(x):
            y = outside(x.requires_grad_())
            g = normal(*y.shape, seed=3)
            y.backward(g)
            return inside(x, g), x.grad

        world.play(whole, lambda i: (normal(*SHAPES[i // 3], seed=i),), calls=27)

    for runs in forward, backward:
        add(f"{name}_{runs.__name__}", __name__, runs)


of_matrices("equal_expressions", lambda x: gg.exp(x) @ gg.exp(x).T)
of_matrices("equal_expressions_the_other_way", lambda x: gg.tanh(x).T @ gg.tanh(x))
of_matrices("one_array_and_its_transpose", lambda x: x @ x.T)
of_matrices("one_expression_and_its_transpose", lambda x: (lambda y: y @ y.T)(gg.exp(x)))
of_matrices("an_array_and_a_copy_of_it", lambda x: x @ gg.asarray(x, copy=True).T)
of_matrices("equal_sums", lambda x: (x + 1) @ (x + 1).T)


def expressions_of_which_one_is_used_again(x):
    a, b = gg.exp(x), gg.exp(x)
    return a @ b.T + (a * b).sum()


of_matrices("expressions_of_which_one_is_used_again", expressions_of_which_one_is_used_again)
of_matrices("products_by_einsum", lambda x: gg.einsum("ij,kj->ik", gg.exp(x), gg.exp(x)))
of_matrices(
    "products_by_tensordot", lambda x: gg.tensordot(gg.sin(x), gg.sin(x), axes=((1,), (1,)))
)


def products_of_stacks(x):
    y = gg.stack([x, x * 2])
    return gg.exp(y) @ gg.matrix_transpose(gg.exp(y))


of_matrices("products_of_stacks", products_of_stacks)


def products_of_vectors(x):
    y = x.reshape(-1)
    return gg.exp(y) @ gg.exp(y) + gg.vecdot(gg.sin(y), gg.sin(y))


of_matrices("products_of_vectors", products_of_vectors)
of_matrices("products_of_slices", lambda x: x[:, ::-1] @ x[:, ::-1].T + gg.flip(x, axis=1) @ x.T)
of_matrices("products_of_three", lambda x: x @ x.T @ x)
of_matrices("covariances", lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / x.shape[0])
of_matrices("attention_to_oneself", lambda x: gg.softmax(x @ x.T / 3, -1) @ x)


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
def products_of_two_arguments_that_may_be_one(world):
    f = world.compile(lambda a, b: (a @ b.T, gg.exp(a) @ gg.exp(b).T))

    def inputs(i):
        a = normal(17, 33, seed=i)
        return [(a, a), (a, a.detach()), (a, gg.asarray(a, copy=True)), (a, normal(17, 33))][i % 4]

    world.play(f, inputs, calls=16)


@program
def products_of_two_weights_that_may_share_memory(world):
    a, b = normal(17, 33), normal(17, 33)
    f = world.compile(lambda x: (a * 1) @ (b * 1).T + a @ b.T + x[0])

    def share(array):
        b.array = array

    arrays = a.array, a.array.copy(), a.array[:], a.array[::-1]
    world.play(f, changes=[functools.partial(share, array) for array in arrays])


@program
def products_of_integers_and_of_halves(world):
    def f(x):
        y = (x * 3).astype(gg.int32)
        return y @ y.T, x.astype(gg.float16) @ x.astype(gg.float16).T, x.astype(complex) @ x.T

    world.play(world.compile(f), lambda i: (normal(9, 17, seed=i),))


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

    world.watch(w)
    world.play(f, lambda i: (normal(17, 33, seed=i),))
