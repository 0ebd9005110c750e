"""Schedulers that step inside and outside of the function, and what it sees of them."""

import math

from gpugrad import optim

from .harness import leaf, normal, program

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
def steps_inside(optimizer):
    return schedules.StepLR(optimizer, 2, 0.5)


@stepping(inside=False)
def steps_outside(optimizer):
    return schedules.StepLR(optimizer, 2, 0.5)


@stepping(inside=True)
def milestones_inside(optimizer):
    return schedules.MultiStepLR(optimizer, [2, 3, 5], 0.5)


@stepping(inside=True)
def cosine_inside(optimizer):
    return schedules.CosineAnnealingLR(optimizer, 5)


@stepping(inside=True)
def linear_inside(optimizer):
    return schedules.LinearLR(optimizer, 0.1, 1.0, 4)


@stepping(inside=True)
def one_cycle_inside(optimizer):
    return schedules.OneCycleLR(optimizer, 1.0, 30)


@stepping(inside=True)
def restarts_inside(optimizer):
    return schedules.CosineAnnealingWarmRestarts(optimizer, 2, 2)


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


CALLS = []


@stepping(inside=True)
def a_function_that_logs_inside(optimizer):
    CALLS.clear()

    def factor(epoch):
        CALLS.append(epoch)
        return 1 / (1 + len(CALLS))

    return schedules.LambdaLR(optimizer, factor)


@program
def a_function_whose_variables_change(world):
    table = {"k": 0.5}
    w, optimizer, schedule = setting(
        lambda optimizer: schedules.LambdaLR(optimizer, lambda epoch: table["k"] ** epoch)
    )

    @world.compile
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()

    world.watch(w, optimizer, schedule)
    world.play(step, changes=[lambda: table.update(k=0.9), lambda: table.update(k=1)])


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


@program
def a_plateau_of_the_loss(world):
    w, optimizer, schedule = setting(
        lambda optimizer: schedules.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    )

    @world.compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    world.watch(w, optimizer)
    world.play(lambda x: schedule.step(step(x)), calls=9)


@program
def epochs_that_are_looked_at(world):
    _, _, schedule = setting(lambda optimizer: schedules.ExponentialLR(optimizer, 0.9))

    @world.compile
    def f(x):
        n = schedule.last_epoch
        schedule.step()
        return x * n, n, type(n), isinstance(n, int), f"{n:03d}", n in (1, 3), n.bit_length()

    world.watch(schedule)
    world.play(f, changes=[schedule.step])


@program
def epochs_that_are_indices(world):
    _, _, schedule = setting(lambda optimizer: schedules.ExponentialLR(optimizer, 0.9))
    table = [float(k) for k in range(30)]

    @world.compile
    def f(x):
        n = schedule.last_epoch
        total = x * table[n]
        for k in range(n % 3):
            total = total + x * k
        return total, [0] * n, [*range(n)], {0: "a", 1: "b"}.get(n), "ab" * n

    world.play(f, changes=[schedule.step] * 5)


@program
def epochs_that_choose_a_branch(world):
    _, _, schedule = setting(lambda optimizer: schedules.ExponentialLR(optimizer, 0.9))

    @world.compile
    def f(x):
        n = schedule.last_epoch
        schedule.step()
        return x * 2 if n % 2 else x * 3

    world.play(f, changes=[schedule.step, schedule.step])


@program
def the_last_rates_that_are_looked_at(world):
    _, _, schedule = setting(lambda optimizer: schedules.ExponentialLR(optimizer, 0.9))

    @world.compile
    def f(x):
        (lr,) = schedule.get_last_lr()
        return x * lr, lr, type(lr), math.log(lr), f"{lr:.4f}", lr > 0.4

    world.play(f, changes=[schedule.step] * 4)


@program
def a_schedule_that_is_loaded(world):
    w, optimizer, schedule = setting(lambda optimizer: schedules.StepLR(optimizer, 2, 0.5))
    saved = schedule.state_dict(), optimizer.state_dict()["param_groups"][0]["lr"]

    @world.compile
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()

    def load():
        schedule.load_state_dict(saved[0])
        optimizer.param_groups[0]["lr"] = saved[1]

    world.watch(w, optimizer, schedule)
    world.play(step, changes=[load, load])


@program
def attributes_of_a_schedule_that_change(world):
    w, optimizer, schedule = setting(lambda optimizer: schedules.StepLR(optimizer, 2, 0.5))

    @world.compile
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()

    world.watch(w, optimizer, schedule)
    world.play(
        step,
        changes=[
            lambda: setattr(schedule, "gamma", 0.9),
            lambda: setattr(schedule, "step_size", 1),
            lambda: schedule.base_lrs.__setitem__(0, 3.0),
        ],
    )


@program
def a_schedule_of_the_program(world):
    class Halving(schedules.LRScheduler):
        seen = 0

        def get_lr(self):
            self.seen += 1
            return [base / (self.last_epoch + 1) for base in self.base_lrs]

    w, optimizer, schedule = setting(Halving)

    @world.compile
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()

    world.watch(w, optimizer, lambda: schedule.seen)
    world.play(
        step,
        lambda i: (normal(3, seed=i),),
        changes=[lambda: setattr(schedule, "last_epoch", 20), lambda: setattr(schedule, "seen", 0)],
    )
