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


@scenario(SHAPE, SHAPE, choices=("12", "21", "11", "sum"))
def losses_whose_graphs_are_disjoint(w, v):
    def f(x):
        return (gg.exp(w) * x).sum(), (gg.sin(v) * x).mean()

    def play(f, x, choice):
        a, b = f(x)
        if choice == "sum":
            (a + b).backward()
        return [error_of({"1": a, "2": b}[k].backward) for k in choice if choice != "sum"]

    return f, play


@scenario(SHAPE, choices=((False, False), (True, False), (False, True), (True, True)))
def losses_that_share_a_leaf(w):
    def f(x):
        return (gg.exp(w) * x).sum(), (gg.sin(w) * x).sum(), (w * w).sum()

    def play(f, x, choice):
        found = f(x)
        return [
            error_of(y.backward, retain_graph=retain)
            for y, retain in zip(found + found[:1], (*choice, False, True), strict=True)
        ]

    return f, play


@scenario(SHAPE, choices=((0, 1), (1, 0), (0, 1, 2), (2, 1, 0), (2, 2)))
def losses_that_share_what_saves_nothing(w):
    def f(x):
        h = w + x
        return (h * x).sum(), gg.exp(h).sum(), h.sum()

    def play(f, x, choice):
        found = f(x)
        return [error_of(found[k].backward) for k in choice]

    return f, play


@scenario(SHAPE, SHAPE, choices=((0, 1), (1, 0), (0, 0, 1)))
def losses_that_share_what_saves(w, v):
    def f(x):
        h = gg.tanh(w @ x)
        return (h * v).sum(), (h * h).sum()

    def play(f, x, choice):
        found = f(x)
        return [(error_of(found[k].backward), w.grad, v.grad) for k in choice]

    return f, play


@scenario(SHAPE, SHAPE, SHAPE)
def a_loss_for_each_parameter(*parameters):
    def f(x):
        return tuple([(gg.exp(p * x) * p).sum() for p in parameters])

    def play(f, x, _):
        for loss in f(x):
            loss.backward()

    return f, play


@scenario(SHAPE, choices=("in order", "reversed", "together"))
def losses_in_a_dict(w):
    def f(x):
        h = w * x
        return {"a": h.sum(), "b": {"c": (gg.exp(h)).sum()}, "x": x}

    def play(f, x, choice):
        found = f(x)
        losses = [found["a"], found["b"]["c"]]
        if choice == "together":
            return gg.autograd.grad(losses, [w])
        return [error_of(y.backward) for y in losses[:: 1 if choice == "in order" else -1]]

    return f, play


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


WRITES = None, "step", "in place", "argument", "raw", "raw argument"


@scenario(SHAPE, choices=WRITES)
def writes_before_backward_to_what_nothing_saves(w):
    def play(f, x, choice):
        y = f(x)
        writes(w, x, choice)
        return error_of(y.backward)

    return lambda x: (w + x).sum() + w.mean(), play


@scenario(SHAPE, choices=WRITES)
def writes_before_backward_to_what_is_saved(w):
    def play(f, x, choice):
        y = f(x)
        writes(w, x, choice)
        return error_of(y.backward)

    return lambda x: (w * w * x).sum(), play


@scenario(SHAPE, choices=WRITES)
def writes_before_backward_to_what_was_copied(w):
    def f(x):
        copied = gg.asarray(x, copy=True)
        return (w * copied + gg.asarray(w.detach(), copy=True) * w).sum()

    def play(f, x, choice):
        y = f(x)
        writes(w, x, choice)
        return error_of(y.backward)

    return f, play


@scenario(SHAPE, choices=WRITES)
def writes_between_two_passes(w):
    def play(f, x, choice):
        a, b = f(x)
        a.backward()
        writes(w, x, choice)
        return error_of(b.backward)

    return lambda x: ((w * x).sum(), (w + x).sum()), play


@scenario(SHAPE, choices=("result", "raw result", "none", "both"))
def writes_into_results(w):
    def f(x):
        y = gg.exp(w * x)
        return y, (y * y).sum(), gg.exp(w * x), y.T

    def play(f, x, choice):
        y, loss, _, _ = f(x)
        if choice in ("result", "both"):
            y.detach().__imul__(2)
        if choice in ("raw result", "both"):
            y.array[0] = 3
        return error_of(loss.backward), error_of(y.sum().backward)

    return f, play


COTANGENTS = normal(3, 3, seed=50), normal(3, 3, seed=51).T, normal(3, 3, seed=52)[::-1]
COTANGENTS += gg.broadcast_to(normal(3, seed=53), (3, 3)), gg.zeros((3, 3))


@scenario(SHAPE, SHAPE, choices=COTANGENTS)
def raw_writes_before_a_cotangent_of_a_new_layout(w, v):
    def play(f, x, g):
        y = f(x)
        x.array[...] = 7  # of which nothing is saved
        v.array[0] += 1
        y.backward(g)

    return lambda x: gg.exp(w) * w + (x - v), play


@scenario(SHAPE, choices=COTANGENTS)
def layouts_of_two_cotangents(w):
    def play(f, x, g):
        a, b = f(x)
        return gg.autograd.grad([a, b], [w], [g, g.T])

    return lambda x: (gg.softmax(w @ x, -1), (w @ x).T), play


@scenario(SHAPE, choices=(True, False))
def one_cotangent_for_two_results(w):
    def play(f, x, is_same):
        g = normal(3, 3, seed=9)
        other = g if is_same else normal(3, 3, seed=10)
        return gg.autograd.grad([*f(x)], [w], [g, other])

    return lambda x: (w * x, gg.exp(w)), play


@scenario(SHAPE)
def a_cotangent_that_is_what_the_graph_saves(w):
    def play(f, x, _):
        y = f(x)
        y.backward(x, retain_graph=True)
        y.backward(w.detach(), retain_graph=True)
        y.backward(y.detach())

    return lambda x: gg.exp(w @ x) * x, play


@scenario(SHAPE, choices=(False, True))
def second_derivatives(w):
    def play(f, x, retain):
        x = x.requires_grad_()
        y = f(x)
        first = gg.autograd.grad([y], [w, x], create_graph=True)
        total = sum([(g * g).sum() for g in first])
        second = gg.autograd.grad([total], [w, x], create_graph=True)
        sum([g.sum() for g in second]).backward(retain_graph=retain)
        return x.grad, error_of(y.backward), [g.detach() for g in (*first, *second)]

    return lambda x: (gg.tanh(w @ x) * x).sum(), play


@scenario(SHAPE, SHAPE)
def second_derivatives_of_some_results(w, v):
    def f(x):
        h = w * x
        return gg.exp(h).sum(), (h * v).sum(), h

    def play(f, x, _):
        a, b, h = f(x)
        (g,) = gg.autograd.grad([a], [h], create_graph=True)
        (g * g).sum().backward(retain_graph=True)
        b.backward()
        return error_of(a.backward)

    return f, play


@scenario(SHAPE, SHAPE, choices=range(5))
def gradients_with_respect_to_some_inputs(w, v):
    def play(f, x, k):
        y = f(x.requires_grad_())
        inputs = [[w], [v], [x, v], [w, x], [w, v, x]][k]
        first = gg.autograd.grad([y], inputs)
        rest = [t for t in (w, v, x) if not any(t is i for i in inputs)] or [w]
        return first, error_of(gg.autograd.grad, [y], rest), error_of(y.backward)

    return lambda x: (gg.exp(w) * x + gg.sin(v)).sum(), play


@scenario(SHAPE)
def gradients_with_respect_to_results(w):
    def f(x):
        h = gg.exp(w * x)
        y = h * h
        return y.sum(), h, y

    def play(f, x, _):
        loss, h, y = f(x)
        found = gg.autograd.grad([loss], [y, h, w], retain_graph=True)
        return found, gg.autograd.grad([y], [h], [x], retain_graph=True), error_of(loss.backward)

    return f, play


@scenario(SHAPE)
def an_unused_input(w):
    def play(f, x, _):
        y = f(x)
        other = leaf(3)
        found = gg.autograd.grad([y], [w, other], allow_unused=True, retain_graph=True)
        return found, error_of(gg.autograd.grad, [y], [other]), error_of(y.backward)

    return lambda x: (w * x).sum(), play


@scenario(SHAPE, SHAPE, choices=((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)))
def unused_results(w, v):
    def f(x):
        h = gg.sin(w) @ x
        return h, h * v, (h @ v).sum()

    def play(f, x, choice):
        found = f(x)
        sum([(found[k] ** 2).sum() for k in choice]).backward()

    return f, play


@scenario(SHAPE, choices=range(4))
def the_same_tensor_twice(w):
    def f(x):
        y = gg.exp(w) * x
        return y, y, [y, (y,)]

    def play(f, x, k):
        a, b, (c, (d,)) = f(x)
        seen = []
        (a, b, c, d)[k].register_hook(lambda g: seen.append(g * 1))
        (a.sum() + (b * b).sum()).backward(retain_graph=True)
        c.sum().backward()
        return [y is a for y in (b, c, d)], seen, error_of(d.sum().backward)

    return f, play


@scenario(SHAPE, choices=range(3))
def results_that_are_views_of_each_other(w):
    def f(x):
        y = gg.exp(w) * x
        return y, y.T, y[1:], y.reshape(9), y.detach()

    def play(f, x, k):
        y, *views, still = f(x)
        if k == 1:
            still.array[0] = 2
        if k == 2:
            still.__imul__(2)
        total = sum([(v * v).sum() for v in views]) + y.sum()
        return error_of(total.backward), y, views, still

    return f, play


@scenario(SHAPE, choices=(False, True))
def results_that_are_inputs(w):
    def play(f, x, requires_grad):
        x = x.requires_grad_(requires_grad)
        y, given, own = f(x)
        (y + (given * own).sum()).backward()
        return given is x, own is w, x.grad

    return lambda x: ((w * x).sum(), x, w), play


@scenario(SHAPE)
def results_without_a_graph(w):
    def f(x):
        with gg.no_grad():
            still = w * x
        return still, (w * still).sum(), w.detach(), x * 2

    def play(f, x, _):
        still, loss, own, other = f(x)
        loss.backward()
        return still, own, other, error_of(still.sum().backward), error_of(loss.backward)

    return f, play


@scenario(SHAPE, choices=range(4))
def hooks_on_results_of_which_others_are_made(w):
    def f(x):
        h = gg.exp(w * x)
        return h, (h * h).sum(), gg.sin(h).sum()

    def play(f, x, k):
        h, a, b = f(x)
        seen = []
        if k != 3:
            (h, a, b)[k].register_hook(lambda g: seen.append(g * 1) or g * 3)
        (a + b + h.sum()).backward(retain_graph=k % 2)
        return seen, error_of(a.backward)

    return f, play


@scenario(SHAPE, choices=(False, True))
def gradients_of_results_that_are_retained(w):
    def f(x):
        h = gg.exp(w * x)
        return h, (h * h).sum()

    def play(f, x, both):
        h, loss = f(x)
        h.retain_grad()
        if both:
            loss.retain_grad()
        loss.backward()
        return h.grad, loss.grad

    return f, play


@scenario(SHAPE, choices=(1, 2, 3))
def several_calls_in_one_graph(w):
    def play(f, x, n):
        y = x
        for _ in range(n):
            y = f(y) + (w * w) * 0.5
        y.sum().backward()

    return lambda x: gg.tanh(w @ x), play


@scenario(SHAPE, choices=range(4))
def several_calls_one_after_the_other(w):
    def play(f, x, k):
        losses = [f(x * i)[0] for i in range(3)]
        if k == 0:
            sum(losses).backward()
        for y in (losses, losses[::-1], losses[1:])[k - 1] if k else ():
            y.backward(retain_graph=k == 3)
        return [error_of(y.backward) for y in losses]

    return lambda x: ((gg.exp(w) * x).sum(), w.sum()), play


@scenario(SHAPE, choices=((False, False), (False, True), (True, False), (True, True)))
def passes_with_and_without_retain_graph(w):
    def f(x):
        h = gg.exp(w * x)
        return h.sum(), (h @ h).sum(), gg.linalg.qr(h)[1].sum()

    def play(f, x, choice):
        a, b, c = f(x)
        return [
            error_of(y.backward, retain_graph=r) for y, r in zip((a, b), choice, strict=True)
        ] + [error_of(y.backward) for y in (c, a, b)]

    return f, play


@scenario(SHAPE, choices=range(3))
def one_of_several_outputs_of_an_op(w):
    def f(x):
        q, r = gg.linalg.qr(w @ x + 3 * gg.eye(3))
        return q, r, gg.unstack(w * x)

    def play(f, x, k):
        q, r, rows = f(x)
        loss = [q.sum(), (r * r).sum(), (rows[0] * rows[2]).sum()][k]
        loss.backward()
        return error_of(q.sum().backward), error_of(rows[1].sum().backward)

    return f, play


@scenario(SHAPE, choices=(False, True))
def zeros_beside_infinite_slopes(w):
    def f(x):
        y = gg.sqrt(gg.abs(w) * 0 * x)
        return y, F.relu(y), gg.max(w * x, axis=0)

    def play(f, x, explicit):
        a, b, c = f(x)
        if explicit:
            return a.backward(gg.zeros((3, 3)), retain_graph=True), c.sum().backward()
        ((a * 0).sum() + (b * 0).sum() + c.sum()).backward()
        return None

    return f, play


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


@scenario(SHAPE, SHAPE)
def a_function_that_goes_backward_itself(w, v):
    def f(x):
        first = (gg.exp(w) * x).sum()
        first.backward()
        h = gg.sin(v) * w
        return first, (h * x).sum() + w.sum(), h, w.sum() + first

    def play(f, x, _):
        first, second, h, mixed = f(x)
        found = error_of(first.backward), error_of(mixed.backward)
        second.backward()
        return found, error_of(h.sum().backward), error_of(gg.autograd.grad, [mixed], [v])

    return f, play


@program
def a_function_that_steps_an_optimizer(world):
    w, v = leaf(3), leaf(3, seed=1)
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)

    def steps(x):
        (w * x).sum().backward()
        optimizer.step()

    @world.compile
    def before(x):
        y = (v * w).sum()
        steps(x)
        return y, (v + w).sum()

    @world.compile
    def after(x):
        y = (gg.exp(v) + w).sum()
        steps(x)
        return y, gg.sin(v).sum()

    def whole(x):
        w.grad = v.grad = None
        return [error_of(y.backward) for y in (*before(x), *after(x))]

    world.watch(w, v)
    world.play(whole)


@program
def an_optimizer_that_steps_before_backward_inside(world):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.1)

    @world.compile
    def f(x, saves):
        y = (w * w * x).sum() if saves else (w + x).sum()
        optimizer.step()
        y.backward()
        return y

    w.grad = gg.ones(3)
    world.watch(w)
    world.play(f, lambda i: (normal(3, seed=i), i % 4 > 1), calls=12)


@scenario(SHAPE)
def copies_that_share_no_memory(w):
    def f(x):
        return gg.exp(x), gg.exp(x), gg.tensor(x), (gg.exp(x) * w).sum(), gg.exp(x)

    def play(f, x, _):
        a, b, c, loss, d = f(x)
        for y, value in ((a, 1), (b, 2), (c, 3), (d, 4)):
            y.array[0] = value
        loss.backward()
        return a, b, c, d, x

    return f, play


@scenario(SHAPE, choices=(None, "w"))
def a_checkpoint(w):
    def f(x):
        return gg.checkpoint(lambda h: gg.tanh(h @ w) * w, x * w), (w * 2).sum()

    def play(f, x, choice):
        y, other = f(x.requires_grad_())
        writes(w, x, "in place" if choice else None)
        return error_of(y.sum().backward), error_of(other.backward), x.grad

    return f, play


@scenario(SHAPE, choices=(1.0, 2.0))
def a_checkpoint_that_reads_an_argument(w):
    def f(x):
        return gg.checkpoint(lambda h: gg.tanh(h @ x) * w, w * 2).sum()

    def play(f, x, scale):
        y = f(x * scale)
        y.backward()

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


@scenario(SHAPE)
def a_graph_that_outlives_its_function(w):
    kept = []

    def play(f, x, _):
        kept.append(f(x))
        errors = [error_of(y.backward) for y in kept[-3:]]
        return errors, [y.detach() for y in kept]

    return lambda x: (gg.exp(w) * x).sum(), play
