"""Backward through the results of compiled functions, in all the ways in which it may go on."""

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.nn import functional as F

from .harness import leaf, model, normal, program


def error_of(call, *args, **kwargs):
    """The text of the error that a call raises; None if there is none."""
    try:
        call(*args, **kwargs)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return None


def scenario(*leaves, choices=(None,), cotangents=False):
    """A program that calls ``scenario(f, x, choice)`` with a compiled ``f`` and clears gradients.

    The function that is decorated gets the leaves, and returns what to compile and what to do.
    """

    def decorate(function):
        def runs(world):
            tensors = [leaf(*shape, seed=i) for i, shape in enumerate(leaves)]
            compiled, play = function(*tensors)
            f = world.compile(compiled)

            def whole(x, choice):
                for t in tensors:
                    t.grad = None
                return play(f, x, choice)

            world.watch(*tensors)
            n = 3 * len(choices) + 4
            world.play(
                whole,
                lambda i: (normal(3, 3, seed=i), choices[(i // 2) % len(choices)]),
                calls=n + n % 2,
            )

        runs.__name__, runs.__module__ = function.__name__, function.__module__
        return program(runs)

    return decorate


SHAPE = 3, 3


@program
def an_adversarial_network(world):
    generator, critic = model(3, 4, 3), model(3, 4, 1, seed=7)
    of_generator = optim.SGD(generator.parameters(), lr=0.1)
    of_critic = optim.Adam(critic.parameters(), lr=0.1)

    @world.compile
    def losses(z, real):
        fake = generator(z)
        false = (critic(fake.detach()) ** 2).mean() + ((critic(real) - 1) ** 2).mean()
        return false, ((critic(fake) - 1) ** 2).mean()

    def step(z, real, order):
        of_generator.zero_grad()
        of_critic.zero_grad()
        false, true = losses(z, real)
        if order == 0:
            false.backward()
            of_critic.step()
            return error_of(true.backward)
        true.backward()
        of_generator.step()
        of_critic.zero_grad()
        false.backward()
        of_critic.step()
        return None

    world.watch(generator, critic)
    world.play(
        step, lambda i: (normal(2, 3, seed=i), normal(2, 3, seed=i + 50), i % 4 // 2), calls=12
    )


def writes(w, x, choice):
    if choice == "step":
        w.grad = gg.ones(w.shape)
        optim.SGD([w], lr=0.1).step()
        w.grad = None
    elif choice == "in place":
        w.detach().__imul__(2)
    elif choice == "argument":
        x.__imul__(2)
    elif choice == "raw":
        w.array[...] = 2
    elif choice == "raw argument":
        x.array[...] = 2


COTANGENTS = normal(3, 3, seed=50), normal(3, 3, seed=51).T, normal(3, 3, seed=52)[::-1]
COTANGENTS += gg.broadcast_to(normal(3, seed=53), (3, 3)), gg.zeros((3, 3))


@program
def batch_normalization_and_dropout(world):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    for i, p in enumerate(net.parameters()):
        p.array[...] = normal(*p.shape, seed=i).array
    f = world.compile(lambda x: net(x))

    def whole(x):
        for p in net.parameters():
            p.grad = None
        a, b = f(x), f(x + 1)
        (a.sum() + (b * b).sum()).backward()
        return a.detach(), [p.grad for p in net.parameters()]

    world.watch(net)
    world.play(whole, lambda i: (normal(5, 3, seed=i),))


@scenario(SHAPE, choices=(None, "w"))
def a_checkpoint(w):
    def f(x):
        return gg.checkpoint(lambda h: gg.tanh(h @ w) * w, x * w), (w * 2).sum()

    def play(f, x, choice):
        y, other = f(x.requires_grad_())
        writes(w, x, "in place" if choice else None)
        return error_of(y.sum().backward), error_of(other.backward), x.grad

    return f, play


@program
def a_checkpoint_that_draws(world):
    w = leaf(3)
    f = world.compile(lambda x: gg.checkpoint(lambda h: F.dropout(h * w, 0.5), x * 2).sum())

    def whole(x):
        w.grad = None
        f(x).backward()

    world.watch(w)
    world.play(whole)
