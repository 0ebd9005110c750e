"""Backward inside, outside and through compiled functions."""

from functools import partial

from test_custom_vjp import with_rule

import gpugrad as gg
from gpugrad import optim

from .harness import SHAPE, add, leaf, normal, program, scenario, swept, training

G = normal(3, 3, seed=99)


@scenario(SHAPE, choices=(G, G.T, G * 0, gg.ones((3, 3)), gg.zeros((3, 3))))
def layouts_of_cotangents_of_a_sum(w):
    def f(x):
        return w * x + w.sum(0) + w.mean(1, keepdims=True)

    return f, lambda f, x, g: f(x).backward(g)


@scenario(SHAPE, choices=(None, *map(gg.asarray, (0.0, float("inf"), 1)), gg.ones((1,))))
def cotangents_that_may_not_fit(w):
    return lambda x: (w * x).sum(), lambda f, x, g: f(x).backward(g)


@scenario(3)
def backward_inside_from_a_graph_outside(w):
    def f(y):
        y.backward(retain_graph=True)
        return y.detach() * 2

    def play(f, x, _):
        y = (gg.exp(w) * x).sum()
        f(y)
        return f(y)

    return f, play


@program
def gradients_that_were_aliased_before(world):
    a, b = leaf(3), leaf(3, seed=1)

    @world.compile
    def f(x):
        (a * x + b * 2).sum().backward()
        return a.grad * 1

    def whole(x, alias):
        if alias:
            b.grad = a.grad = gg.ones(3)
        return f(x)

    world.watch(a, b, lambda: a.grad is b.grad)
    world.play(whole, lambda i: (normal(3, seed=i), i % 3 == 0), calls=12)


@program
def gradients_as_arguments(world):
    w = leaf(3)
    (w * w).sum().backward()
    f = world.compile(lambda x: (w.grad.__imul__(2.0), x * 2)[1])
    world.play(f, lambda i: (w.grad if i == 4 else normal(3, seed=i),), watch=[w])


def of_gradients(name, *choices):
    """A program in which ``w.grad`` becomes what these choose of ``w`` and another tensor."""

    def runs(world):
        w, total = leaf(3, 3), normal(3, 3, seed=5)

        def f(x):
            (w * x).sum().backward()
            return w.grad * 2, total * 2, w.detach() * 2

        def assign(choice):
            w.grad = choice(w, total)

        world.check(f, changes=[partial(assign, choice) for choice in choices], watch=[w, total])

    add(f"gradients_that_are_{name}", __name__, runs)


of_gradients("views", lambda w, total: total.T, lambda w, total: total[::-1])
of_gradients("their_weights", lambda w, total: w.detach(), lambda w, total: None)
SWITCHED = lambda w, total: total, lambda w, total: None
of_gradients("another_tensor_of_the_program", *SWITCHED, *SWITCHED)


@scenario(3, choices=(1.0, 5.0, 5, -0.0))
def a_custom_vjp_that_reads_what_changes_in_between(w):
    table = {"k": 1.0}
    scaled = with_rule(lambda x: x * 2, lambda x: (x * 2, None), lambda _, g: (g * table["k"],))

    def play(f, x, k):
        table["k"] = 1.0
        y = f(x)
        table["k"] = k
        y.backward()

    return lambda x: scaled(w * x).sum(), play


@scenario(3, choices=(False, True))
def a_hook_on_a_leaf_between_forward_and_backward(w):
    def play(f, x, hooked):
        y = f(x)
        hook = w.register_hook(lambda g: g * 5) if hooked else None
        y.backward()
        if hooked:
            hook.remove()

    return lambda x: (w * x).sum(), play


@scenario(3, 3, choices=((0,), (1,), (0, 1), ()))
def only_some_inputs_of_backward(w, v):
    def play(f, x, which):
        f(x).backward(inputs=[(w, v)[k] for k in which])

    return lambda x: (w * v * x).sum(), play


@program
def backward_of_the_same_function_inside_of_its_backward(world):
    w, state = leaf(3), {"depth": 0}
    f = world.compile(lambda x: (gg.exp(w) * x).sum())

    def hook(g):
        if state["depth"] < 2:
            state["depth"] += 1
            with gg.enable_grad():
                f(g.detach()).backward()
            state["depth"] -= 1

    w.register_hook(hook)

    world.play(swept(f, w), watch=[w, state])


@program
def compiled_layers_in_a_compiled_loss(world):
    gg.manual_seed(0)
    layer = gg.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    optimizer = gg.optim.SGD(layer.parameters(), 0.1)
    body = world.compile(layer)

    step = training(optimizer, world.compile(lambda x: (body(x) ** 2).mean()))

    world.play(step, lambda i: (normal(2, 3, 8, seed=i),), calls=10, watch=[layer])


@scenario(3, choices=(2.0, 5.0))
def a_hook_inside_that_reads_what_changes_in_between(w):
    table = {"k": 2.0}

    def f(x):
        y = w * x
        y.register_hook(lambda g: g * table["k"])
        return (y * y).sum()

    def play(f, x, k):
        table["k"] = 2.0
        y = f(x)
        table["k"] = k
        y.backward()

    return f, play


@program
def a_custom_vjp_whose_rule_is_replaced(world):
    w = leaf(3)
    scaled = with_rule(lambda x: x * 2, lambda x: (x * 2, None), lambda _, g: (g * 3,))

    def f(x):
        w.grad = None
        scaled(w * x).sum().backward()

    def replace(k):
        scaled.defvjp(lambda x: (x * k, None), lambda _, g: (g * 7,))

    world.check(f, changes=[partial(replace, k) for k in (2, 4)], watch=[w])


def freezes(name, play, off=False, on=True):
    """A step in whose second half one of two parameters requires no grad, as in a GAN."""

    def prepare(maker, critic):
        steps = [optim.SGD([p], lr=0.1, momentum=0.5) for p in (critic, maker)]

        def f(x):
            critic.requires_grad_()
            made = maker * x
            (critic * made.detach() - critic * x).sum().backward()
            steps[0].step()
            critic.requires_grad_(off)
            (critic * made).sum().backward()
            steps[1].step()
            critic.requires_grad_(on)
            return (critic * x * 2).sum(), critic.requires_grad, critic.grad is None

        return f, partial(play, critic=critic)

    prepare.__name__ = name
    scenario(3, 3)(prepare)


def backward_later(f, x, _, critic):
    y = f(x)[0]
    if y.requires_grad:
        y.backward()


def with_a_hook(f, x, _, critic):
    handle = critic.requires_grad_().register_hook(lambda g: g * 2)
    f(x)
    handle.remove()


def with_a_graph_from_before(f, x, _, critic):
    before = (critic.requires_grad_() * x).sum()
    f(x)
    before.backward()


freezes("a_parameter_that_is_frozen_for_a_while", lambda f, x, _, critic: f(x))
freezes("a_parameter_that_stays_frozen", lambda f, x, _, critic: f(x), on=False)
freezes("a_parameter_that_was_frozen_in_a_graph", backward_later)
freezes("a_parameter_with_a_hook_that_is_frozen_for_a_while", with_a_hook)
freezes("a_parameter_of_an_earlier_graph_that_is_frozen_for_a_while", with_a_graph_from_before)
