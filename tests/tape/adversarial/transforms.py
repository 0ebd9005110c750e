"""Transforms of compiled functions, compiled transforms, compiled functions in compiled ones."""

import gpugrad as gg

from .harness import leaf, normal, program

V = normal(3, seed=30)


def transformed(apply):
    """Two programs: a transform of a compiled function, and a compiled transform."""

    def runs(world, compiles_first):
        table, w = {"k": 2.0}, normal(3, seed=7)

        def f(x):
            return (gg.exp(x * w) * table["k"]).sum()

        if compiles_first:
            function = apply(world.compile(f))
        else:
            function = world.compile(apply(f))
        world.play(
            function,
            changes=[
                lambda: table.update(k=3.0),
                lambda: w.__imul__(2),
                lambda: table.update(k=3),
            ],
        )

    for compiles_first in (True, False):

        def one(world, compiles_first=compiles_first):
            runs(world, compiles_first)

        one.__name__ = apply.__name__ + ("_of_compiled" if compiles_first else "_compiled")
        one.__module__ = apply.__module__
        program(one)
    return apply


@transformed
def the_gradient(f):
    return gg.grad(f)


@transformed
def the_value_and_the_gradient(f):
    return gg.value_and_grad(f)


@transformed
def the_hessian(f):
    return gg.hessian(f)


@transformed
def the_jacobian(f):
    return gg.jacobian(f)


@transformed
def forward_mode(f):
    return lambda x: gg.jvp(f, (x,), (V,))


@transformed
def reverse_mode(f):
    def both(x):
        y, pull = gg.vjp(f, x)
        return y, pull(y * 2)

    return both


@transformed
def a_map_over_examples(f):
    return lambda x: gg.vmap(f)(gg.stack([x, x * 2]))


@transformed
def gradients_of_examples(f):
    return lambda x: gg.vmap(gg.grad(f))(gg.stack([x, x * 2]))


@transformed
def the_gradient_of_the_gradient(f):
    return gg.grad(lambda x: (gg.grad(f)(x) ** 2).sum())


@transformed
def a_product_with_the_hessian(f):
    return lambda x: gg.hvp(f)(x, V)


@transformed
def a_checkpoint(f):
    return lambda x: gg.grad(lambda x: gg.checkpoint(f, x))(x)


@program
def a_function_compiled_in_each_call(world):
    table = {"k": 2.0}

    @world.compile
    def f(x):
        return world.compile(lambda y: y * table["k"])(x)

    world.play(f, changes=[lambda: table.update(k=3.0)])


@program
def draws_inside_of_a_map(world):
    @world.compile
    def f(x):
        return gg.vmap(lambda x: x + gg.random.normal(3))(x)

    world.watch(gg.random.default_generator)
    world.play(f, lambda i: (normal(2, 3, seed=i),), changes=[lambda: gg.manual_seed(2)])


@program
def a_checkpoint_that_is_swept_outside(world):
    w, table = leaf(3), {"calls": 0}

    def piece(x):
        table["calls"] += 1
        return gg.exp(w * x)

    f = world.compile(lambda x: gg.checkpoint(piece, x).sum())

    def whole(x):
        w.grad = None
        f(x).backward()

    world.watch(w, table)
    world.play(whole)


@program
def a_linearization_that_is_kept(world):
    table = {"k": 2.0}
    f = world.compile(lambda x: gg.exp(x) * table["k"])

    def whole(x):
        y, push = gg.linearize(f, x)
        table["k"] = 9.0 - table["k"]
        return y, push(normal(3, seed=4)), push(normal(3, seed=5))

    world.play(whole)
