"""Values that are not finite, zeros of both signs, ties, and the guards of backward."""

from functools import partial

import numpy as np

import gpugrad as gg

from .harness import add, plays, program

nan, inf = float("nan"), float("inf")
VALUES = (
    [0.0, 1.0, 4.0], [-0.0, 2.0, -1.0], [nan, 0.0, 1.0], [inf, -inf, 0.0], [1e30, 1e-30, -1e38],
    [0.0, 0.0, -0.0], [1.0, 1.0, 1.0],
)  # fmt: skip


def differentiated(name, function):
    """Two programs: with backward inside of the compiled function, and outside of it."""

    def runs(inside, world):
        w = gg.zeros(3, requires_grad=True)
        forward = function if inside else world.compile(function)

        def both():
            y = forward(w)
            y.backward()
            return y.detach()

        if inside:
            both = world.compile(both)

        def whole(x):
            w.grad = None
            w.detach().__setitem__(..., x)
            return both()

        world.play(whole, lambda i: (gg.asarray(VALUES[i % 7]),), calls=14, watch=[w])

    for place, inside in ("inside", True), ("outside", False):
        add(f"{name}_{place}", __name__, partial(runs, inside))


for name, function in {
    "roots_times_zero": lambda x: (gg.sqrt(x) * 0.0).sum(),
    "logarithms": lambda x: gg.log(x).sum(),
    "entropies_behind_a_choice": lambda x: gg.where(x > 0, x * gg.log(x), 0.0).sum(),
    "quotients": lambda x: (x / x + 1 / x).sum(),
    "powers": lambda x: (x**0.5 + x**2 + x**-1.0 + gg.abs(x) ** x).sum(),
    "the_largest_of_ties": lambda x: gg.max(x) + gg.maximum(x, 1.0).sum() + gg.sort(x)[0],
    "norms": lambda x: gg.sqrt((x * x).sum()) + gg.abs(x).sum() + gg.linalg.vector_norm(x),
    "exponentials": lambda x: gg.logsumexp(x, axis=0) + gg.softmax(x, 0)[0] + gg.exp(x).sum(),
    "angles": lambda x: gg.atan2(x, x * 0).sum() + gg.acos(x).sum(),
    "deviations": lambda x: gg.std(x) + gg.var(x, correction=1) + x.mean(),
}.items():
    differentiated(name, function)


@program
def slopes_that_are_infinite_and_cotangents_from_outside(world):
    w = gg.asarray([0.0, 1.0, 4.0]).requires_grad_()
    matrix = gg.asarray([[0.0, 1.0], [2.0, inf]]).requires_grad_()
    roots, logs = world.compile(lambda: gg.sqrt(w)), world.compile(lambda: gg.log(w))
    total = world.compile(lambda: gg.log(w).sum())
    product = world.compile(lambda: matrix @ matrix)
    grads = [[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]

    def whole(k, i):
        for backward in (
            lambda: (roots() * k).sum().backward(), lambda: total().backward(gg.asarray(k)),
            lambda: logs()[i].backward(), lambda: product().backward(gg.asarray(grads[i])),
        ):  # fmt: skip
            w.grad = matrix.grad = None
            backward()
            world.note(w.grad, matrix.grad)

    world.play(whole, lambda i: ([0.0, 1.0, -0.0, 2.0][i % 4], i % 3), calls=12)


LONG = [gg.asarray(x) for x in np.random.default_rng(0).normal(0, 1e3, (4, 37, 53)).astype("f4")]
LONG += [gg.asarray(np.asfortranarray(x.numpy())) for x in LONG[:2]]
LONG += [x[::2, ::3] for x in LONG[:2]]
HALVES = [60000.0, 1.0, 2.0], [1e-7, 3.0, 5.0], [300.0, -300.0, 0.1], [1.0, 2.0, 3.0]
LOST = [1.5, -2.7, 300.0], [0.0, -0.0, 1e-9], [127.0, 128.0, -129.0]

plays("simplifications_that_change_zeros",
      lambda x: (x + 0.0, x - 0.0, x * 1.0, -x, 0.0 - x, x * 0.0, x + x - x, x / 1, 0 + x),
      lambda i: (gg.asarray(VALUES[i % 7]),), calls=14)  # fmt: skip
plays("sums_whose_order_shows",
      lambda x: (x.sum(), x.sum(0), x.mean(1), x.T.sum(0), gg.cumulative_sum(x, axis=1),
                 (x + 1e8) - 1e8),
      lambda i: (LONG[i % 8],), calls=24)  # fmt: skip
plays("comparisons_with_what_is_not_a_number",
      lambda x: (x == x, x < 1, gg.max(x), gg.min(x), gg.argmax(x), gg.sort(x), gg.clip(x, 0, 1)),
      lambda i: (gg.asarray(VALUES[i % 7]),), calls=14)  # fmt: skip
plays("halves_that_overflow",
      lambda x: (x * x, x.sum(), gg.exp(x), x.astype(gg.float32) * 3, x @ x),
      lambda i: (gg.asarray(HALVES[i % 4], dtype=gg.float16),), calls=8)  # fmt: skip
plays("conversions_that_lose",
      lambda x: (x.astype(gg.int8), x.astype(gg.float16), x.astype(bool), x.astype(gg.int64)),
      lambda i: (gg.asarray(LOST[i % 3]),), calls=9)  # fmt: skip
plays("means_of_nothing", lambda x: (x.sum(), x.mean(), gg.prod(x), x.sum(0), gg.var(x)),
      lambda i: (gg.zeros((i % 2, 3)),), calls=8)  # fmt: skip
