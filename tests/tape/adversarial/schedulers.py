"""Schedulers that step inside and outside of the function, and what it sees of them."""

from gpugrad import optim

from .harness import leaf, program

schedules = optim.lr_scheduler


def setting(make):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5, momentum=0.1)
    return w, optimizer, make(optimizer)


def stepping(inside):
    """A program that trains with a scheduler, which steps inside or outside of the function."""

    def decorate(make):
        def runs(world):
            w, optimizer, schedule = setting(make)

            @world.compile
            def step(x):
                optimizer.zero_grad()
                (w * x).sum().backward()
                optimizer.step()
                if inside:
                    schedule.step()

            def whole(x):
                step(x)
                if not inside:
                    schedule.step()

            world.watch(w, optimizer, schedule)
            world.play(
                whole,
                changes=[lambda: optimizer.param_groups[0].update(lr=1.0), schedule.step],
                calls=9,
            )

        runs.__name__, runs.__module__ = make.__name__, make.__module__
        return program(runs)

    return decorate


@stepping(inside=True)
def cosine_inside(optimizer):
    return schedules.CosineAnnealingLR(optimizer, 5)


@stepping(inside=True)
def linear_inside(optimizer):
    return schedules.LinearLR(optimizer, 0.1, 1.0, 4)


@stepping(inside=True)
def cyclic_inside(optimizer):
    return schedules.CyclicLR(optimizer, 0.1, 1.0, 2)


@stepping(inside=True)
def a_sequence_inside(optimizer):
    first = schedules.ConstantLR(optimizer, 0.5, 2)
    return schedules.SequentialLR(optimizer, [first, schedules.ExponentialLR(optimizer, 0.9)], [3])


@stepping(inside=True)
def a_chain_inside(optimizer):
    first = schedules.ConstantLR(optimizer, 0.5, 2)
    return schedules.ChainedScheduler([first, schedules.ExponentialLR(optimizer, 0.9)])


@program
def a_plateau_inside(world):
    w, optimizer, schedule = setting(
        lambda optimizer: schedules.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    )

    @world.compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        schedule.step(1.0)
        return loss.detach()

    world.watch(w, optimizer)
    world.play(step, calls=9)


@stepping(inside=True)
def milestones_inside(optimizer):
    return schedules.MultiStepLR(optimizer, [2, 3, 5], 0.5)


@stepping(inside=True)
def restarts_inside(optimizer):
    return schedules.CosineAnnealingWarmRestarts(optimizer, 2, 2)
