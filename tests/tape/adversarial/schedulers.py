"""Schedulers that step inside and outside of the function, and what it sees of them."""

from gpugrad import optim

from .harness import add, leaf, program

schedules = optim.lr_scheduler


def setting(make):
    w = leaf(3)
    optimizer = optim.SGD([w], lr=0.5, momentum=0.1)
    return w, optimizer, make(optimizer)


def stepping(name, make):
    """A program that trains with a scheduler, which steps inside of the function."""

    def runs(world):
        w, optimizer, schedule = setting(make)

        @world.compile
        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            schedule.step()

        changes = lambda: optimizer.param_groups[0].update(lr=1.0), schedule.step
        world.play(step, changes=changes, calls=9, watch=[w, optimizer, schedule])

    add(f"{name}_inside", __name__, runs)


def two(kind, *places):
    def make(optimizer):
        first = schedules.ConstantLR(optimizer, 0.5, 2)
        second = schedules.ExponentialLR(optimizer, 0.9)
        return kind(*([optimizer] if places else []), [first, second], *places)

    return make


for name, make in {
    "cosine": lambda optimizer: schedules.CosineAnnealingLR(optimizer, 5),
    "linear": lambda optimizer: schedules.LinearLR(optimizer, 0.1, 1.0, 4),
    "cyclic": lambda optimizer: schedules.CyclicLR(optimizer, 0.1, 1.0, 2),
    "a_sequence": two(schedules.SequentialLR, [3]),
    "a_chain": two(schedules.ChainedScheduler),
    "milestones": lambda optimizer: schedules.MultiStepLR(optimizer, [2, 3, 5], 0.5),
    "restarts": lambda optimizer: schedules.CosineAnnealingWarmRestarts(optimizer, 2, 2),
}.items():
    stepping(name, make)


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

    world.play(step, calls=9, watch=[w, optimizer])
