"""Schedulers: their rates are PyTorch's, alone and together, and so are their states."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.optim import lr_scheduler, swa_utils

pytestmark = pytest.mark.slow


class Halving:
    """A function of the epoch with state."""

    def __init__(self, rate=0.5):
        self.rate = rate

    def __call__(self, epoch):
        return self.rate ** (epoch / 10)


def of(name, *args, **options):
    return lambda library, optimizer: getattr(library, name)(optimizer, *args, **options)


def sequential(*parts, milestones):
    return lambda library, o: library.SequentialLR(o, [x(library, o) for x in parts], milestones)


def chained(*parts):
    return lambda library, o: library.ChainedScheduler([x(library, o) for x in parts])


# Each case makes a scheduler from the classes of a library, and an optimizer of it.
CASES = {
    "StepLR, gamma": of("StepLR", 3, gamma=0.9), "ConstantLR": of("ConstantLR", 0.7, 13),
    "MultiStepLR": of("MultiStepLR", [30, 4, 4, 0, 11]),
    "MultiStepLR, to 0": of("MultiStepLR", [2, 2, 5], 0.0),
    "LinearLR": of("LinearLR", 0.2, 0.05, 20), "LinearLR, to 0": of("LinearLR", 1.0, 0.0, 20),
    "ExponentialLR": of("ExponentialLR", 0.9), "PolynomialLR": of("PolynomialLR", 20, 2.5),
    "CosineAnnealingLR, eta_min": of("CosineAnnealingLR", 7, 1e-3),
    "CosineAnnealingLR, T_max of 1": of("CosineAnnealingLR", 1, 1e-3),
    "CosineAnnealingWarmRestarts, all": of("CosineAnnealingWarmRestarts", 3, 2, 1e-3),
    "LambdaLR": of("LambdaLR", [Halving(), lambda epoch: 1 / (1 + epoch)]),
    "MultiplicativeLR": of("MultiplicativeLR", [Halving(), Halving(0.9)]),
    "OneCycleLR": of("OneCycleLR", 1.0, 60),
    "OneCycleLR, epochs": of("OneCycleLR", 1.0, epochs=6, steps_per_epoch=10, pct_start=0.25),
    "OneCycleLR, no momentum": of("OneCycleLR", 1.0, 60, cycle_momentum=False),
    "OneCycleLR, all": of(
        "OneCycleLR", [1.0, 0.5], 60, pct_start=0.4, anneal_strategy="linear", three_phase=True,
        base_momentum=[0.7, 0.8], max_momentum=0.9, div_factor=5.0, final_div_factor=20.0
    ),
    "CyclicLR": of("CyclicLR", 0.01, 0.1, 5),
    "CyclicLR, triangular2": of("CyclicLR", 0.01, 0.1, 5, 3, mode="triangular2"),
    "CyclicLR, exp_range": of("CyclicLR", 0.01, 0.1, 5, mode="exp_range", gamma=0.95),
    "CyclicLR, scale_fn, no momentum":
        of("CyclicLR", 0.01, 0.1, 5, scale_fn=lambda x: 1 / x, cycle_momentum=False),
    "CyclicLR, all": of(
        "CyclicLR", [0.01, 0.02], [0.1, 0.3], 4, 6, base_momentum=[0.5, 0.6], max_momentum=0.7,
        scale_fn=Halving(), scale_mode="iterations"
    ),
    "SWALR": of("SWALR", 0.5), "SWALR, at once": of("SWALR", 0.5, 0),
    "SWALR, all": of("SWALR", [0.5, 0.01], 20, "linear"),
    "SequentialLR": sequential(
        of("LinearLR", total_iters=4), of("CosineAnnealingLR", 20), of("ExponentialLR", 0.9),
        milestones=[5, 30]
    ),
    "SequentialLR, of more": sequential(
        of("ConstantLR"), of("StepLR", 2), of("PolynomialLR"), of("MultiStepLR", [0, 3]),
        of("CosineAnnealingWarmRestarts", 3), of("ExponentialLR", 0.9), of("LambdaLR", Halving()),
        of("LinearLR", 0.25), of("MultiplicativeLR", lambda epoch: 0.9), of("ConstantLR", 0.7),
        milestones=[5, 9, 14, 20, 23, 28, 33, 40, 43]
    ),
    "SequentialLR, at once": sequential(of("StepLR", 2), of("StepLR", 3), milestones=[0]),
    "ChainedScheduler": chained(of("ConstantLR", 0.1, 20), of("ExponentialLR", 0.9)),
    "ChainedScheduler after cycles":
        chained(of("CosineAnnealingLR", 50, 0.01), of("ExponentialLR", 0.99)),
    "ChainedScheduler of sequences": chained(
        of("StepLR", 9), sequential(of("LinearLR"), of("ExponentialLR", 0.9), milestones=[7])
    ),
}  # fmt: skip
OPTIMIZERS = {"SGD": {"momentum": 0.9}, "Adam": {"betas": (0.8, 0.99)}, "RMSprop": {}}


def namespace(schedulers, utils):
    return SimpleNamespace(**{**vars(schedulers), "SWALR": utils.SWALR})


OURS = namespace(lr_scheduler, swa_utils)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def new(kind=optim.SGD, ones=gg.ones, **options):
    p, q = (ones(2).requires_grad_() for _ in range(2))
    p.grad = q.grad = ones(2)
    return kind([{"params": [p]}, {"params": [q], "lr": 0.02}], lr=0.1, **options)


def momenta(optimizer):
    return [g["momentum"] if "momentum" in g else g["betas"][0] for g in optimizer.param_groups]


def assert_close(ours, theirs):
    """Compares states: dicts and lists with numbers in them."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys() - {"_is_initial", "_get_lr_called_within_step"}
        ours, theirs = [*ours.values()], [theirs[k] for k in ours]
    if isinstance(ours, list | tuple):
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    else:
        assert ours == theirs


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_rates_and_states_are_pytorchs_and_are_exchanged_in_the_middle(torch, case, kind, tmp_path):
    make, options = CASES[case], OPTIMIZERS[kind]

    def compare(steps):
        for _ in range(steps):
            for optimizer, scheduler in (a, b):
                optimizer.step()
                scheduler.step()
            assert_close(a[1].get_last_lr(), b[1].get_last_lr())
            assert_close([g["lr"] for g in a[0].param_groups], a[1].get_last_lr())
            assert_close(momenta(a[0]), momenta(b[0]))
            assert_close(a[1].state_dict(), b[1].state_dict())

    def pair():
        ours = new(getattr(optim, kind), **options)
        others = new(getattr(torch.optim, kind), torch.ones, **options)
        theirs = namespace(torch.optim.lr_scheduler, torch.optim.swa_utils)
        return [(ours, make(OURS, ours)), (others, make(theirs, others))]

    a, b = pair()
    assert_close(a[1].get_last_lr(), b[1].get_last_lr())
    compare(25)
    states = [(o.state_dict(), s.state_dict()) for o, s in (a, b)]
    gg.save(states[0][1], tmp_path / "state")
    assert gg.load(tmp_path / "state") == states[0][1]
    for arrays in states[0][0]["state"].values():
        arrays |= {name: torch.tensor(x.tolist()) for name, x in arrays.items()}
    a, b = pair()
    for parts, state in zip((a, b), reversed(states), strict=True):
        for part, loaded in zip(parts, state, strict=True):
            part.load_state_dict(loaded)
    compare(25)


METRICS = [5, 4, 4, 3.9999, 3.999, 3.5, 3.6, 3.7, 2, 2, 2, 2, 2, 2.5, 1, math.nan, 1, 1, 1, 1] * 2


PLATEAUS = [
    {}, {"patience": 0, "factor": 0.9, "eps": 1e-2}, {"patience": 1, "cooldown": 3},
    {"patience": 1, "threshold_mode": "abs", "threshold": 0.2}, {"patience": 1, "mode": "max"},
    {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.2},
    {"patience": 1, "min_lr": 0.01, "factor": 0.3},
    {"patience": 2, "min_lr": [0.05, 1e-3], "factor": 0.3, "cooldown": 1},
]  # fmt: skip


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_reduce_on_plateau_is_pytorchs(torch, options, tmp_path):
    def pair():
        a, b = new(), new(torch.optim.SGD, torch.ones)
        both = zip((a, b), (lr_scheduler, torch.optim.lr_scheduler), strict=True)
        return a, b, [library.ReduceLROnPlateau(o, **options) for o, library in both]

    a, b, schedulers = pair()
    for i, metric in enumerate(METRICS):
        if i == 13:
            states = [x.state_dict() for x in (a, b, *schedulers)]
            gg.save(states[2], tmp_path / "state")
            assert_close(gg.load(tmp_path / "state"), states[2])
            a, b, schedulers = pair()
            for other, state in zip((b, a, *schedulers[::-1]), states, strict=True):
                other.load_state_dict(state)
        schedulers[0].step(gg.tensor(metric, dtype=gg.float64, requires_grad=True))
        schedulers[1].step(metric)
        assert_close(schedulers[0].state_dict(), schedulers[1].state_dict())
        assert_close([g["lr"] for g in a.param_groups], [g["lr"] for g in b.param_groups])


def in_both(torch, run):
    """Whether a function of schedulers and an optimizer gives the same rates in PyTorch."""
    found = [*run(lr_scheduler, new())]
    assert_close(found, [*run(torch.optim.lr_scheduler, new(torch.optim.SGD, torch.ones))])
    return found


def test_rates_that_the_program_changes_are_the_ones_that_change(torch):
    def rates(library, optimizer):
        scheduler = library.StepLR(optimizer, 3, 0.0)
        for i in range(7):
            optimizer.step()
            scheduler.step()
            if i in (0, 3):
                optimizer.param_groups[0]["lr"] = 0.33
            yield from scheduler.get_last_lr()
            yield from (group["lr"] for group in optimizer.param_groups)

    assert in_both(torch, rates)[::4] == [0.1, 0.33, 0.0, 0.0, 0.33, 0.0, 0.0]


@pytest.mark.parametrize("gamma, bound", [(2.0, min), (0.5, max)])
def test_rates_that_the_program_bounds_go_on_beyond_the_range_of_floats(gamma, bound):
    optimizer = new()
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma)
    optimizer.step()
    for _ in range(1200):
        scheduler.step()
        for group in optimizer.param_groups:
            group["lr"] = bound(group["lr"], 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


def test_epochs_between_integers(torch):
    def rates(library, optimizer):
        for options in {}, {"T_mult": 2}:
            scheduler = library.CosineAnnealingWarmRestarts(optimizer, 4, **options)
            for epoch in 0.25, 3.5, 4, 11.75, 12, 40.5, None, 2, None:
                scheduler.step(epoch)
                yield from scheduler.get_last_lr()

    in_both(torch, rates)
    for wrong in -1, math.nan:
        with pytest.raises(ValueError, match="epoch must be at least 0, not"):
            lr_scheduler.CosineAnnealingWarmRestarts(new(), 4, T_mult=2).step(wrong)


def test_a_schedule_goes_on_at_a_given_epoch(torch):
    def rates(library, optimizer):
        library.ExponentialLR(optimizer, 0.9)
        scheduler = library.StepLR(optimizer, 3, last_epoch=4)
        yield scheduler.get_last_lr()
        for _ in range(5):
            optimizer.step()
            scheduler.step()
            yield scheduler.get_last_lr()

    in_both(torch, rates)
    with pytest.raises(ValueError, match=r"StepLR: group 0 has no initial_lr.*last_epoch=4; load"):
        lr_scheduler.StepLR(new(), 3, last_epoch=4)


def test_an_own_scheduler_needs_get_lr_only():
    class Harmonic(lr_scheduler.LRScheduler):
        def __init__(self, optimizer, speed):
            self.speed = speed
            super().__init__(optimizer)

        def get_lr(self):
            return [base / (1 + self.speed * self.last_epoch) for base in self.base_lrs]

    optimizer = new()
    scheduler = Harmonic(optimizer, 0.5)
    for part in optimizer, scheduler, scheduler:
        part.step()
    assert (scheduler.get_last_lr(), scheduler.state_dict()["speed"]) == ([0.05, 0.01], 0.5)
    with pytest.raises(NotImplementedError, match="LRScheduler defines no get_lr"):
        lr_scheduler.LRScheduler(optimizer)


CONSTANT, HALF, TENTH = (of("ConstantLR", factor, 99) for factor in (1, 0.5, 0.1))


@pytest.mark.parametrize("make", [
    sequential(sequential(CONSTANT, HALF, milestones=[3]), TENTH, milestones=[5]),
    sequential(CONSTANT, sequential(HALF, TENTH, milestones=[2]), milestones=[3]),
    sequential(chained(CONSTANT), HALF, chained(TENTH), milestones=[3, 5]),
])  # fmt: skip
def test_sequences_and_chains_within_a_sequence_begin_at_their_epoch_0(make):
    optimizer = new()
    scheduler, rates = make(lr_scheduler, optimizer), []
    for _ in range(7):
        rates.append(scheduler.get_last_lr()[1])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.02] * 3 + [0.01] * 2 + [0.002] * 2)


def test_a_rate_that_returns_to_0_is_not_below_it():
    optimizer = optim.SGD([nn.Parameter(gg.ones(1))], lr=0.0)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 5, eta_min=0.1)
    for _ in range(30):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0, abs=1e-15)


def test_a_step_before_the_optimizers_warns():
    optimizer = new()
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"StepLR\.step was called before the optimizer's step"):
        scheduler.step()
    with warnings.catch_warnings(action="error"):
        scheduler.step()
        for kind in optim.SGD, optim.LBFGS:
            optimizer = kind([nn.Parameter(gg.ones(2))])
            scheduler = lr_scheduler.StepLR(optimizer, 1)
            optimizer.step(lambda: gg.tensor(0.0))  # without any gradient
            scheduler.step()


@pytest.mark.parametrize(
    "kind, options",
    [("CosineAnnealingWarmRestarts", (3,)), ("OneCycleLR", (1.0, 3)), ("CyclicLR", (0.1, 1.0))],
)
def test_a_group_that_is_added_later_is_an_error_where_its_rate_is_not_known(kind, options):
    optimizer = new(momentum=0.9)
    scheduler = getattr(lr_scheduler, kind)(optimizer, *options)
    optimizer.add_param_group({"params": [nn.Parameter(gg.ones(2))]})
    optimizer.step()
    with pytest.raises(ValueError, match="has 3 groups now, but the schedule 2 rates; add groups"):
        scheduler.step()
    assert scheduler.last_epoch == 0


def test_more_steps_than_a_cycle_has_are_an_error():
    optimizer = new(momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, 3)
    optimizer.step()
    for _ in range(3):
        scheduler.step()
    before = momenta(optimizer)
    with pytest.raises(ValueError, match="the step must be at most total_steps 3, not 4"):
        scheduler.step()
    assert (scheduler.last_epoch, momenta(optimizer)) == (3, before)


REFUSED = {
    TypeError: {
        "StepLR: optimizer must be an Optimizer": lambda library, o: library.StepLR(3, 1),
        "lr_lambda must be a function, not": of("LambdaLR", 0.5),
        "scheduler 0 must be a sch": lambda library, o: library.ChainedScheduler([o])
    },
    ValueError: {
        "StepLR: step_size must be an int": of("StepLR", 0),
        "ConstantLR: factor must be above 0 and at most": of("ConstantLR", 2),
        "start_factor must be above 0 and": of("LinearLR", 0),
        "end_factor must be from 0 to 1": of("LinearLR", 1, 2),
        "ConstantLR: total_iters must be an int of": of("ConstantLR", 1, -1),
        "a milestone must be an int": of("MultiStepLR", [1, 0.5]),
        "PolynomialLR: total_iters must be an int of": of("PolynomialLR", 0),
        "T_0 must be an": of("CosineAnnealingWarmRestarts", 0),
        "give total_steps, or epochs and": of("OneCycleLR", 1.0),
        "total_steps must be an int": of("OneCycleLR", 1.0, 0),
        "max_lr must be one value, or one for each of 2": of("OneCycleLR", [1.0], 9),
        "from 0 to 1, not": of("OneCycleLR", 1.0, 9, pct_start=2),
        "'cos' or 'linear', not 'sin'": of("OneCycleLR", 1.0, 9, anneal_strategy="sin"),
        "Adagrad has neither momentum nor betas; pass cycle_momentum=False":
            lambda library, o: library.OneCycleLR(new(optim.Adagrad), 1.0, 9),
        "step sizes must be above 0": of("CyclicLR", 0.1, 1.0, 0),
        "CyclicLR: mode must be": of("CyclicLR", 0.1, 1.0, mode="x"),
        "scale_mode mu": of("CyclicLR", 0.1, 1.0, scale_mode="x"),
        "factor must be below": of("ReduceLROnPlateau", factor=1),
        "mode must be 'min' or": of("ReduceLROnPlateau", "mean"),
        "threshold_mode must be 'rel' or 'abs'": of("ReduceLROnPlateau", threshold_mode="x"),
        "there are no schedulers": sequential(milestones=[]),
        "is a ReduceLROnPlateau, whose step needs a metric; step it by itself":
            chained(of("ReduceLROnPlateau")),
        "scheduler 0 is of another optimizer":
            sequential(lambda library, o: library.StepLR(new(), 1), milestones=[]),
        "1 schedulers need 0 milestones, not 1": sequential(of("StepLR", 1), milestones=[3]),
        "milestones must be in order": sequential(*[of("StepLR", 1)] * 3, milestones=[5, 2]),
        "SWALR: anneal_epochs must be an int": of("SWALR", 0.1, -1)
    },
}  # fmt: skip


REFUSALS = [(kind, *row) for kind, rows in REFUSED.items() for row in rows.items()]


@pytest.mark.parametrize("kind, message, make", REFUSALS)
def test_options_that_cannot_be_are_refused_and_change_nothing(kind, message, make):
    optimizer = new()
    with pytest.raises(kind, match=message):
        make(OURS, optimizer)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.02]


def test_a_state_that_does_not_fit_changes_nothing():
    scheduler = CASES["SequentialLR"](OURS, new())
    before = scheduler.state_dict()
    *parts, last = before["_schedulers"]
    for message, change in {
        "it has .* but here": {"gamma": 1},
        "last_epoch is 'x', but here 0": {"last_epoch": "x"},
        "_last_lr has 1 values, here 2": {"_last_lr": [1.0]},
        "_schedulers has 2 values, here 3": {"_schedulers": parts},
        "ExponentialLR.load_state_dict: .* base_lrs has 1 values, here 2":
            {"_schedulers": [*parts, {**last, "base_lrs": [1.0]}]},
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message):
            scheduler.load_state_dict({**before, "last_epoch": 7, **change})
        assert scheduler.state_dict() == before
    with pytest.raises(ValueError, match="it must be a dict, not a list"):
        scheduler.load_state_dict([])


def test_numpy_numbers_become_python_numbers(tmp_path):
    optimizer = new()
    optimizer.param_groups[0]["lr"] = np.float64(0.5)
    first = lr_scheduler.LambdaLR(optimizer, lambda epoch: np.float32(0.5))
    second = lr_scheduler.MultiStepLR(optimizer, np.array([1, 2]), np.float64(0.5))
    for part in optimizer, first, second:
        part.step()
    for part in optimizer, first, second:
        gg.save(part.state_dict(), tmp_path / "state")
    assert {type(rate) for rate in second.get_last_lr()} == {float}
