"""Backward inside, outside and through compiled functions."""

import gpugrad as gg

from .harness import add, leaf, normal, program


def outside(*cotangents):
    """A program that sweeps backward from outside, with these cotangents in turn."""

    def decorate(function):
        def runs(world):
            w = leaf(3, 3)
            f = world.compile(function)

            def whole(x, cotangent):
                w.grad = None
                y = f(w, x)
                y.backward(cotangent)
                return y.detach()

            world.watch(w)
            for _ in range(3):
                for i, cotangent in enumerate(cotangents):
                    world.call(whole, normal(3, 3, seed=i), cotangent)
                    world.call(whole, normal(3, 3, seed=i + 1), cotangent)

        return add(function.__name__, __name__, runs)

    return decorate


G = normal(3, 3, seed=99)


@outside(G, G.T, G[::-1], gg.broadcast_to(G[0], (3, 3)), gg.asarray(G.numpy().T.copy()).T)
def layouts_of_cotangents_of_a_product(w, x):
    return w @ x


@outside(G, G.T, G * 0, gg.ones((3, 3)), gg.zeros((3, 3)))
def layouts_of_cotangents_of_a_sum(w, x):
    return w * x + w.sum(0) + w.mean(1, keepdims=True)


@outside(None, gg.asarray(0.0), gg.asarray(float("inf")), gg.ones((1,)), gg.asarray(1))
def cotangents_that_may_not_fit(w, x):
    return (w * x).sum()


@program
def backward_inside_from_a_graph_outside(world):
    w = leaf(3)

    @world.compile
    def f(y):
        y.backward(retain_graph=True)
        return y.detach() * 2

    def whole(x):
        w.grad = None
        y = (gg.exp(w) * x).sum()
        f(y)
        return f(y)

    world.watch(w)
    world.play(whole)


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
def gradients_that_are_another_tensor_of_the_program(world):
    w, total = leaf(3), gg.zeros(3)

    @world.compile
    def f(x):
        (w * x).sum().backward()
        return total * 2

    def assign():
        w.grad = total

    world.watch(w, total)
    world.play(f, changes=[assign, lambda: setattr(w, "grad", None), assign])


@program
def gradients_that_are_views(world):
    w, all_of_them = leaf(3), normal(2, 3, seed=5)

    @world.compile
    def f(x):
        (w * x).sum().backward()
        return w.grad * 2

    def assign(i):
        w.grad = all_of_them[i]

    world.watch(w, all_of_them)
    world.play(f, changes=[lambda: assign(0), lambda: assign(1)])


@program
def gradients_that_are_their_weights(world):
    w = leaf(3)

    @world.compile
    def f(x):
        (w * x).sum().backward()
        return w.detach() * 2

    def assign():
        w.grad = w.detach()

    world.watch(w)
    world.play(f, changes=[assign, lambda: setattr(w, "grad", None)])


@program
def a_custom_vjp_that_reads_what_changes_in_between(world):
    table, w = {"k": 1.0}, leaf(3)

    @gg.custom_vjp
    def scaled(x):
        return x * 2

    scaled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * table["k"],))
    f = world.compile(lambda x: scaled(w * x).sum())

    def whole(x, k):
        w.grad, table["k"] = None, 1.0
        y = f(x)
        table["k"] = k
        y.backward()

    world.watch(w)
    world.play(whole, lambda i: (normal(3, seed=i), [1.0, 5.0, 5, -0.0][i % 4]), calls=12)


@program
def a_custom_vjp_that_counts(world):
    table, w = {"forward": 0, "backward": 0}, leaf(3)

    def forward(x):
        table["forward"] += 1
        return x * 2, x

    def backward(x, g):
        table["backward"] += 1
        return (g * x * table["backward"],)

    scaled = gg.custom_vjp(lambda x: x * 2)
    scaled.defvjp(forward, backward)

    @world.compile
    def f(x):
        return scaled(w * x).sum()

    def whole(x):
        w.grad = None
        f(x).backward()

    world.watch(w, table)
    world.play(whole, changes=[lambda: table.update(backward=50)])


@program
def a_custom_vjp_whose_rule_is_replaced(world):
    w = leaf(3)
    scaled = gg.custom_vjp(lambda x: x * 2)
    scaled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 3,))

    @world.compile
    def f(x):
        w.grad = None
        scaled(w * x).sum().backward()

    world.watch(w)
    world.play(
        f,
        changes=[
            lambda: scaled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 7,)),
            lambda: scaled.defvjp(lambda x: (x * 4, None), lambda _, g: (g * 7,)),
        ],
    )


@program
def a_hook_on_a_leaf_between_forward_and_backward(world):
    w = leaf(3)
    f = world.compile(lambda x: (w * x).sum())

    def whole(x, hooked):
        w.grad = None
        y = f(x)
        if hooked:
            with w.register_hook(lambda g: g * 5):
                y.backward()
        else:
            y.backward()

    world.watch(w)
    world.play(whole, lambda i: (normal(3, seed=i), i % 3 == 2), calls=10)


@program
def a_hook_inside_that_reads_what_changes_in_between(world):
    table, w = {"k": 2.0}, leaf(3)

    @world.compile
    def f(x):
        y = w * x
        y.register_hook(lambda g: g * table["k"])
        return (y * y).sum()

    def whole(x, k):
        w.grad, table["k"] = None, 2.0
        y = f(x)
        table["k"] = k
        y.backward()

    world.watch(w)
    world.play(whole, lambda i: (normal(3, seed=i), [2.0, 5.0][i % 2]), calls=10)


@program
def only_some_inputs_of_backward(world):
    w, v = leaf(3), leaf(3, seed=1)
    f = world.compile(lambda x: (w * v * x).sum())

    def whole(x, which):
        w.grad = v.grad = None
        f(x).backward(inputs=[(w, v)[k] for k in which])

    world.watch(w, v)
    world.play(whole, lambda i: (normal(3, seed=i), [(0,), (1,), (0, 1), ()][i % 4]), calls=12)


@program
def backward_inside_of_backward(world):
    w, v = leaf(3), leaf(3, seed=1)
    f = world.compile(lambda x: (v * x).sum())
    table = {"hooked": 0}

    def hook(g):
        table["hooked"] += 1
        f(g.detach()).backward()

    w.register_hook(hook)
    g = world.compile(lambda x: (w * w * x).sum())

    def whole(x):
        w.grad = v.grad = None
        g(x).backward()

    world.watch(w, v, table)
    world.play(whole)


@program
def backward_of_the_same_function_inside_of_its_backward(world):
    w, state = leaf(3), {"depth": 0}

    @world.compile
    def f(x):
        return (gg.exp(w) * x).sum()

    def hook(g):
        if state["depth"] < 2:
            state["depth"] += 1
            f(g.detach()).backward()
            state["depth"] -= 1

    w.register_hook(hook)

    def whole(x):
        w.grad = None
        f(x).backward()

    world.watch(w, state)
    world.play(whole)


@program
def compiled_layers_in_a_compiled_loss(world):
    gg.manual_seed(0)
    layer = gg.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    parameters = [*layer.parameters()]
    optimizer = gg.optim.SGD(parameters, 0.1)
    body = world.compile(layer)
    loss_of = world.compile(lambda x: (body(x) ** 2).mean())

    def step(x):
        optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    world.watch(*parameters)
    world.play(step, lambda i: (normal(2, 3, 8, seed=i),), calls=10)
