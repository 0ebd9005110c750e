"""Casting regions and the scaling of gradients."""

from functools import partial

import gpugrad as gg
from gpugrad import optim

from .harness import batch, model, normal, program


@program
def a_region_around_some_calls(world):
    net = model(3, 3, 2)
    f = world.compile(lambda x: net(x).detach() * (2 if gg.amp.is_autocast_enabled() else 3))

    def whole(x, dtype):
        if dtype is None:
            return f(x)
        with gg.amp.autocast(dtype=dtype):
            return f(x)

    dtypes = None, gg.float16, gg.float16, None, gg.float16
    world.play(whole, lambda i: (normal(4, 3, seed=i), dtypes[i % 5]), calls=10)


@program
def a_region_inside_that_is_switched(world):
    net, table = model(3, 3, 2), {"enabled": True}

    def f(x):
        net.zero_grad()
        with gg.amp.autocast(dtype=gg.float16, enabled=table["enabled"]):
            y = net(x)
        y.astype(gg.float32).sum().backward()
        return y.detach()

    changes = lambda: table.update(enabled=False), lambda: table.update(enabled=True)
    world.check(f, batch, changes=changes, watch=[net])


def scaled(world):
    net = model(3, 4, 1)
    optimizer = optim.NAdam(net.parameters(), lr=0.1)
    scaler = gg.amp.GradScaler(init_scale=1024.0, growth_interval=2)

    @world.compile
    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    world.watch(net, optimizer, scaler)
    return step, scaler, optimizer


@program
def steps_that_are_skipped(world):
    factors = [float("inf") if i in (1, 4, 5) else 1.0 for i in range(10)]
    world.play(scaled(world)[0], lambda i: (normal(4, 3, seed=i) * factors[i],), calls=10)


@program
def options_of_a_scaler_that_change(world):
    step, scaler, optimizer = scaled(world)
    saved = []
    changes = (
        partial(scaler.set_growth_factor, 4.0), partial(scaler.set_growth_interval, 1),
        lambda: saved.append(scaler.state_dict()), partial(scaler.set_backoff_factor, 0.1),
        lambda: scaler.load_state_dict(saved[0]), partial(optimizer.param_groups[0].update, lr=0.0),
    )  # fmt: skip
    world.play(step, batch, changes=changes)


@program
def a_scale_that_is_looked_at(world):
    scaler = gg.amp.GradScaler(init_scale=8.0)
    scaler.scale(gg.ones(()))

    def f(x):
        scale = scaler.get_scale()
        return scaler.scale(x), scale, type(scale), x * (2 if scale > 10 else 3)

    world.check(f, changes=[lambda: scaler.update(16.0), lambda: scaler.update(4.0)])
