"""Transforms of compiled functions, compiled transforms, compiled functions in compiled ones."""

import functools

import gpugrad as gg

from .harness import add, normal, program

V = normal(3, seed=30)


def transformed(name, apply):
    """Two programs: a transform of a compiled function, and a compiled transform."""

    def runs(compiles_first, world):
        table, w = {"k": 2.0}, normal(3, seed=7)

        def f(x):
            return (gg.exp(x * w) * table["k"]).sum()

        function = apply(world.compile(f)) if compiles_first else world.compile(apply(f))
        changes = lambda: table.update(k=3.0), lambda: w.__imul__(2), lambda: table.update(k=3)
        world.play(function, changes=changes)

    for suffix, compiles_first in ("of_compiled", True), ("compiled", False):
        add(f"{name}_{suffix}", __name__, functools.partial(runs, compiles_first))


transformed("the_gradient", lambda f: gg.grad(f))
transformed("the_value_and_the_gradient", lambda f: gg.value_and_grad(f))
transformed("the_hessian", lambda f: gg.hessian(f))
transformed("the_jacobian", lambda f: gg.jacobian(f))
transformed("forward_mode", lambda f: lambda x: gg.jvp(f, (x,), (V,)))


transformed("a_linearization", lambda f: lambda x: gg.linearize(f, x)[1](V))


def reverse_mode(f):
    def both(x):
        y, pull = gg.vjp(f, x)
        return y, pull(y * 2)

    return both


transformed("reverse_mode", reverse_mode)
transformed("a_map_over_examples", lambda f: lambda x: gg.vmap(f)(gg.stack([x, x * 2])))
transformed("gradients_of_examples", lambda f: lambda x: gg.vmap(gg.grad(f))(gg.stack([x, x * 2])))
transformed("the_gradient_of_the_gradient", lambda f: gg.grad(lambda x: (gg.grad(f)(x) ** 2).sum()))
transformed("a_product_with_the_hessian", lambda f: lambda x: gg.hvp(f)(x, V))
transformed("a_checkpoint", lambda f: lambda x: gg.grad(lambda x: gg.checkpoint(f, x))(x))


@program
def a_function_compiled_in_each_call(world):
    table = {"k": 2.0}

    def scaled(x):
        return world.compile(lambda y: y * table["k"])(x)

    world.check(scaled, changes=[lambda: table.update(k=3.0)])


@program
def draws_inside_of_a_map(world):
    f = world.compile(lambda x: gg.vmap(lambda x: x + gg.random.normal(3))(x))
    world.watch(gg.random.default_generator)
    world.play(f, lambda i: (normal(2, 3, seed=i),), changes=[lambda: gg.manual_seed(2)])
