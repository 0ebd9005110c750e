"""Schedulers: their rates are PyTorch's, alone and together, and so are their states."""

import math
import warnings
from collections import Counter

import numpy as np
import pytest

import gpugrad
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
    return lambda library, optimizer: library.SequentialLR(
        optimizer, [part(library, optimizer) for part in parts], milestones
    )


def chained(*parts):
    return lambda library, optimizer: library.ChainedScheduler(
        [part(library, optimizer) for part in parts]
    )


# Each case makes a scheduler from the classes of a library, and an optimizer of it.
CASES = {
    "StepLR": of("StepLR", 7),
    "StepLR, gamma": of("StepLR", 3, gamma=0.9),
    "MultiStepLR": of("MultiStepLR", [30, 4, 4, 11]),
    "MultiStepLR, gamma, from the start": of("MultiStepLR", [0, 5], gamma=0.5),
    "ConstantLR": of("ConstantLR"),
    "ConstantLR, all": of("ConstantLR", 0.7, 13),
    "LinearLR": of("LinearLR"),
    "LinearLR, all": of("LinearLR", 0.2, 0.05, 20),
    "LinearLR, to 0": of("LinearLR", 1.0, 0.0, 20),
    "ExponentialLR": of("ExponentialLR", 0.9),
    "PolynomialLR": of("PolynomialLR"),
    "PolynomialLR, all": of("PolynomialLR", 20, 2.5),
    "CosineAnnealingLR": of("CosineAnnealingLR", 10),
    "CosineAnnealingLR, eta_min": of("CosineAnnealingLR", 7, 1e-3),
    "CosineAnnealingLR, T_max of 1": of("CosineAnnealingLR", 1, 1e-3),
    "CosineAnnealingWarmRestarts": of("CosineAnnealingWarmRestarts", 7),
    "CosineAnnealingWarmRestarts, all": of("CosineAnnealingWarmRestarts", 3, 2, 1e-3),
    "LambdaLR": of("LambdaLR", lambda epoch: 0.95**epoch),
    "LambdaLR, for each group": of("LambdaLR", [Halving(), lambda epoch: 1 / (1 + epoch)]),
    "MultiplicativeLR": of("MultiplicativeLR", lambda epoch: 1 - 1 / (2 + epoch)),
    "MultiplicativeLR, for each group": of("MultiplicativeLR", [Halving(), Halving(0.9)]),
    "OneCycleLR": of("OneCycleLR", 1.0, 60),
    "OneCycleLR, epochs": of("OneCycleLR", 1.0, epochs=6, steps_per_epoch=10, pct_start=0.25),
    "OneCycleLR, linear": of("OneCycleLR", 1.0, 60, anneal_strategy="linear"),
    "OneCycleLR, three phases": of("OneCycleLR", 1.0, 60, three_phase=True),
    "OneCycleLR, no momentum": of("OneCycleLR", 1.0, 60, cycle_momentum=False),
    "OneCycleLR, all": of(
        "OneCycleLR", [1.0, 0.5], 60, pct_start=0.4, anneal_strategy="linear", three_phase=True,
        base_momentum=[0.7, 0.8], max_momentum=0.9, div_factor=5.0, final_div_factor=20.0,
    ),
    "CyclicLR": of("CyclicLR", 0.01, 0.1, 5),
    "CyclicLR, triangular2": of("CyclicLR", 0.01, 0.1, 5, 3, mode="triangular2"),
    "CyclicLR, exp_range": of("CyclicLR", 0.01, 0.1, 5, mode="exp_range", gamma=0.95),
    "CyclicLR, scale_fn": of("CyclicLR", 0.01, 0.1, 5, scale_fn=lambda x: 1 / x),
    "CyclicLR, scale_fn of steps": of(
        "CyclicLR", 0.01, 0.1, 5, scale_fn=Halving(), scale_mode="iterations"
    ),
    "CyclicLR, all": of(
        "CyclicLR", [0.01, 0.02], [0.1, 0.3], 4, 6, base_momentum=[0.5, 0.6], max_momentum=0.7,
    ),
    "CyclicLR, no momentum": of("CyclicLR", 0.01, 0.1, 5, cycle_momentum=False),
    "SWALR": of("SWALR", 0.5),
    "SWALR, all": of("SWALR", [0.5, 0.01], 20, "linear"),
    "SWALR, at once": of("SWALR", 0.5, 0),
    "SequentialLR": sequential(
        of("LinearLR", total_iters=4), of("CosineAnnealingLR", 20), of("ExponentialLR", 0.9),
        milestones=[5, 30],
    ),
    "SequentialLR, of more": sequential(
        of("ConstantLR"), of("StepLR", 2), of("PolynomialLR", 9), of("MultiStepLR", [0, 3]),
        of("CosineAnnealingWarmRestarts", 3), of("LambdaLR", Halving()), of("LinearLR"),
        of("MultiplicativeLR", lambda epoch: 0.9), of("ConstantLR", 0.7),
        milestones=[5, 9, 14, 20, 28, 33, 40, 43],
    ),
    "SequentialLR, at once": sequential(of("StepLR", 2), of("StepLR", 3), milestones=[0]),
    "ChainedScheduler": chained(of("ConstantLR", 0.1, 20), of("ExponentialLR", 0.9)),
    "ChainedScheduler of cycles": chained(of("LinearLR"), of("CosineAnnealingLR", 8)),
    "ChainedScheduler of sequences": chained(
        of("StepLR", 9), sequential(of("LinearLR"), of("ExponentialLR", 0.9), milestones=[7])
    ),
}  # fmt: skip
OPTIMIZERS = {"SGD": {"momentum": 0.9}, "Adam": {"betas": (0.8, 0.99)}, "RMSprop": {}}
OURS = type("Ours", (), {**vars(lr_scheduler), "SWALR": swa_utils.SWALR})


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def theirs(torch):
    of_torch = {**vars(torch.optim.lr_scheduler), "SWALR": torch.optim.swa_utils.SWALR}
    return type("Theirs", (), of_torch)


def new(kind=optim.SGD, ones=gpugrad.ones, **options):
    p, q = (ones(2).requires_grad_() for _ in range(2))
    p.grad = q.grad = ones(2)
    return kind([{"params": [p]}, {"params": [q], "lr": 0.02}], lr=0.1, **options)


def momenta(optimizer):
    return [g["momentum"] if "momentum" in g else g["betas"][0] for g in optimizer.param_groups]


def assert_close(ours, theirs):
    """Compares states: dicts and lists with numbers in them."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = [*ours.values()], [theirs[k] for k in ours]
    if isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    else:
        assert ours == theirs


def without_flags(state):
    if isinstance(state, dict):
        flags = "_is_initial", "_get_lr_called_within_step"
        return {k: without_flags(v) for k, v in state.items() if k not in flags}
    return [*map(without_flags, state)] if isinstance(state, list) else state


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_rates_and_states_are_pytorchs_and_are_exchanged_in_the_middle(torch, case, kind):
    make = CASES[case]
    options = OPTIMIZERS[kind]

    def compare(steps):
        for _ in range(steps):
            for optimizer, scheduler in (a, b):
                optimizer.step()
                scheduler.step()
            assert_close(a[1].get_last_lr(), b[1].get_last_lr())
            assert_close([g["lr"] for g in a[0].param_groups], a[1].get_last_lr())
            assert_close(momenta(a[0]), momenta(b[0]))
            assert_close(a[1].state_dict(), without_flags(b[1].state_dict()))

    def pairs():
        ours = new(getattr(optim, kind), **options)
        others = new(getattr(torch.optim, kind), torch.ones, **options)
        return [(ours, make(OURS, ours)), (others, make(theirs(torch), others))]

    a, b = pairs()
    assert_close(a[1].get_last_lr(), b[1].get_last_lr())
    compare(25)
    states = [(o.state_dict(), s.state_dict()) for o, s in (a, b)]
    for arrays in states[0][0]["state"].values():
        arrays |= {name: torch.tensor(x.tolist()) for name, x in arrays.items()}
    a, b = pairs()
    for (optimizer, scheduler), state in zip((a, b), reversed(states), strict=True):
        optimizer.load_state_dict(state[0])
        scheduler.load_state_dict(state[1])
    compare(25)


@pytest.mark.parametrize("case", CASES)
def test_a_state_is_saved_and_resumes(case, tmp_path):
    def run(steps):
        for _ in range(steps):
            optimizer.step()
            scheduler.step()
        return scheduler.get_last_lr(), momenta(optimizer)

    optimizer = new()
    scheduler = CASES[case](OURS, optimizer)
    run(9)
    gpugrad.save({"o": optimizer.state_dict(), "s": scheduler.state_dict()}, tmp_path / "state")
    expected = run(20)
    optimizer = new()
    scheduler = CASES[case](OURS, optimizer)
    state = gpugrad.load(tmp_path / "state")
    optimizer.load_state_dict(state["o"])
    scheduler.load_state_dict(state["s"])
    assert run(20) == expected


METRICS = [5, 4, 4, 3.9999, 3.999, 3.5, 3.6, 3.7, 2, 2, 2, 2, 2, 2.5, 1, math.nan, 1, 1, 1, 1] * 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"patience": 2},
        {"patience": 0, "factor": 0.9, "eps": 1e-2},
        {"patience": 1, "cooldown": 3},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.2},
        {"patience": 1, "mode": "max"},
        {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.2},
        {"patience": 1, "min_lr": [0.05, 1e-3], "factor": 0.3},
        {"patience": 1, "min_lr": 0.01, "factor": 0.3, "cooldown": 1},
    ],
    ids=str,
)
def test_reduce_on_plateau_is_pytorchs(torch, options, tmp_path):
    def pair():
        a, b = new(), new(torch.optim.SGD, torch.ones)
        both = zip((a, b), (lr_scheduler, torch.optim.lr_scheduler), strict=True)
        return a, b, [library.ReduceLROnPlateau(o, **options) for o, library in both]

    a, b, schedulers = pair()
    for i, metric in enumerate(METRICS):
        if i == 13:
            states = [x.state_dict() for x in (a, b, *schedulers)]
            gpugrad.save(states[2], tmp_path / "state")
            assert_close(gpugrad.load(tmp_path / "state"), states[2])
            a, b, schedulers = pair()
            for other, state in zip((b, a, *schedulers[::-1]), states, strict=True):
                other.load_state_dict(state)
        schedulers[0].step(gpugrad.tensor(metric, dtype=gpugrad.float64, requires_grad=True))
        schedulers[1].step(metric)
        assert_close(schedulers[0].state_dict(), schedulers[1].state_dict())
        assert_close([g["lr"] for g in a.param_groups], [g["lr"] for g in b.param_groups])


def test_rates_that_the_program_changes_are_the_ones_that_change():
    optimizer = new()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 8.0
    scheduler.step()
    assert scheduler.get_last_lr() == [4.0, 0.01]


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
    a, b = new(), new(torch.optim.SGD, torch.ones)
    for options in {}, {"T_mult": 2}:
        ours = lr_scheduler.CosineAnnealingWarmRestarts(a, 4, **options)
        other = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(b, 4, **options)
        for epoch in 0.25, 3.5, 4, 11.75, 12, 40.5, None, 2, None:
            ours.step(epoch)
            other.step(epoch)
            assert_close(ours.get_last_lr(), other.get_last_lr())
    for wrong in (-1, math.nan):
        with pytest.raises(ValueError, match="epoch must be at least 0, not"):
            ours.step(wrong)


def test_a_schedule_goes_on_at_a_given_epoch(torch):
    def run(library, kind, ones):
        optimizer = new(kind, ones)
        library.ExponentialLR(optimizer, 0.9)
        scheduler = library.StepLR(optimizer, 3, last_epoch=4)
        rates = [scheduler.get_last_lr()]
        for _ in range(5):
            optimizer.step()
            scheduler.step()
            rates.append(scheduler.get_last_lr())
        return rates

    assert_close(
        run(lr_scheduler, optim.SGD, gpugrad.ones),
        run(torch.optim.lr_scheduler, torch.optim.SGD, torch.ones),
    )
    with pytest.raises(ValueError, match=r"StepLR: group 0 has no initial_lr.*last_epoch=4; load"):
        lr_scheduler.StepLR(new(), 3, last_epoch=4)


def test_an_own_scheduler_needs_get_lr_only(tmp_path):
    class Harmonic(lr_scheduler.LRScheduler):
        def __init__(self, optimizer, speed):
            self.speed = speed
            super().__init__(optimizer)

        def get_lr(self):
            return [base / (1 + self.speed * self.last_epoch) for base in self.base_lrs]

    optimizer = new()
    scheduler = Harmonic(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.01]
    assert scheduler.state_dict()["speed"] == 0.5
    with pytest.raises(NotImplementedError, match="LRScheduler defines no get_lr"):
        lr_scheduler.LRScheduler(optimizer)


def constants(optimizer, *factors):
    return [lr_scheduler.ConstantLR(optimizer, factor, 99) for factor in factors]


@pytest.mark.parametrize(
    "make",
    [
        lambda o, a, b, c: lr_scheduler.SequentialLR(
            o, [lr_scheduler.SequentialLR(o, [a, b], [3]), c], [5]
        ),
        lambda o, a, b, c: lr_scheduler.SequentialLR(
            o, [a, lr_scheduler.SequentialLR(o, [b, c], [2])], [3]
        ),
        lambda o, a, b, c: lr_scheduler.SequentialLR(
            o, [lr_scheduler.ChainedScheduler([a]), b, lr_scheduler.ChainedScheduler([c])], [3, 5]
        ),
    ],
)
def test_sequences_and_chains_within_a_sequence_begin_at_their_epoch_0(make):
    optimizer = new()
    scheduler = make(optimizer, *constants(optimizer, 1, 0.5, 0.1))
    rates = []
    for _ in range(7):
        rates.append(scheduler.get_last_lr()[1])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.02] * 3 + [0.01] * 2 + [0.002] * 2)


def test_a_step_before_the_optimizers_warns():
    optimizer = new()
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"StepLR\.step was called before the optimizer's step"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
        for kind in optim.SGD, optim.LBFGS:
            p = nn.Parameter(gpugrad.ones(2))
            optimizer = kind([p])
            scheduler = lr_scheduler.StepLR(optimizer, 1)
            optimizer.step(lambda: gpugrad.tensor(0.0))  # without any gradient
            scheduler.step()


def test_a_group_that_is_added_later_is_an_error_where_its_rate_is_not_known():
    optimizer = new()
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3)
    optimizer.add_param_group({"params": [nn.Parameter(gpugrad.ones(2))]})
    optimizer.step()
    before = scheduler.state_dict()
    with pytest.raises(ValueError, match="has 3 groups now, but the schedule 2 rates; add groups"):
        scheduler.step()
    assert scheduler.state_dict()["last_epoch"] == before["last_epoch"]


def test_more_steps_than_a_cycle_has_are_an_error():
    optimizer = new(momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, 3)
    optimizer.step()
    for _ in range(3):
        scheduler.step()
    before = scheduler.state_dict(), momenta(optimizer)
    with pytest.raises(ValueError, match="this is step 4, but total_steps is 3"):
        scheduler.step()
    assert before[0]["last_epoch"] == scheduler.state_dict()["last_epoch"] == 3
    assert momenta(optimizer) == before[1]


@pytest.mark.parametrize(
    "make, kind, message",
    [
        (lambda o: lr_scheduler.StepLR(3, 1), TypeError, "StepLR: optimizer must be an Optimizer"),
        (lambda o: lr_scheduler.StepLR(o, 0), ValueError, "StepLR: step_size must be an int"),
        (lambda o: lr_scheduler.ConstantLR(o, 2), ValueError, "factor must be above 0 and at most"),
        (lambda o: lr_scheduler.LinearLR(o, 0), ValueError, "start_factor must be above 0 and"),
        (lambda o: lr_scheduler.LinearLR(o, 1, 2), ValueError, "end_factor must be from 0 to 1"),
        (lambda o: lr_scheduler.LinearLR(o, total_iters=0.5), ValueError, "total_iters must be an"),
        (lambda o: lr_scheduler.ConstantLR(o, 1, -1), ValueError, "total_iters must be an int of"),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, 0.5]), ValueError, "a milestone must be an int"),
        (lambda o: lr_scheduler.PolynomialLR(o, 0), ValueError, "total_iters must be an int of"),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 0.5), ValueError, "T_max must be an int of"),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0 must be an"),
        (lambda o: lr_scheduler.LambdaLR(o, [abs]), ValueError, "lr_lambda has 1 values, but the"),
        (lambda o: lr_scheduler.LambdaLR(o, 0.5), TypeError, "lr_lambda must be a function, not"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0), ValueError, "give total_steps, or epochs and"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 0), ValueError, "total_steps must be an int"),
        (lambda o: lr_scheduler.OneCycleLR(o, [1.0], 9), ValueError, "max_lr has 1 values, but"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 9, pct_start=2), ValueError, "from 0 to 1, not"),
        (
            lambda o: lr_scheduler.OneCycleLR(o, 1.0, 9, anneal_strategy="sin"),
            ValueError,
            "anneal_strategy must be 'cos' or 'linear', not 'sin'",
        ),
        (
            lambda o: lr_scheduler.OneCycleLR(new(optim.Adagrad), 1.0, 9),
            ValueError,
            "Adagrad has neither momentum nor betas; pass cycle_momentum=False",
        ),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 0), ValueError, "step sizes must be above 0"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="x"), ValueError, "mode must be"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, scale_mode="x"), ValueError, "scale_mode mu"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1), ValueError, "factor must be below"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, "mean"), ValueError, "mode must be 'min' or"),
        (
            lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="x"),
            ValueError,
            "threshold_mode must be 'rel' or 'abs'",
        ),
        (lambda o: lr_scheduler.SequentialLR(o, [], []), ValueError, "there are no schedulers"),
        (lambda o: lr_scheduler.ChainedScheduler([o]), TypeError, "scheduler 0 must be a sch"),
        (
            lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(o)]),
            ValueError,
            "is a ReduceLROnPlateau, whose step needs a metric; step it by itself",
        ),
        (
            lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(new(), 1)], []),
            ValueError,
            "scheduler 0 is of another optimizer",
        ),
        (
            lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [3]),
            ValueError,
            "1 schedulers need 0 milestones, not 1",
        ),
        (lambda o: swa_utils.SWALR(o, [0.1]), ValueError, "SWALR: swa_lr has 1 values"),
        (lambda o: swa_utils.SWALR(o, 0.1, -1), ValueError, "SWALR: anneal_epochs must be an int"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_and_change_nothing(make, kind, message):
    optimizer = new()
    with pytest.raises(kind, match=message):
        make(optimizer)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.02]


def test_a_state_that_does_not_fit_changes_nothing():
    optimizer = new()
    scheduler = CASES["SequentialLR"](OURS, optimizer)
    before = scheduler.state_dict()
    changes = {
        "it must be a dict, not a list": lambda s: [],
        "it has .* but here": lambda s: {**s, "gamma": 1},
        "last_epoch is 'x', but here 0": lambda s: {**s, "last_epoch": "x"},
        "_last_lr has 1 values, here 2": lambda s: {**s, "_last_lr": [1.0]},
        "_schedulers has 1 values, here 3": lambda s: {**s, "_schedulers": s["_schedulers"][:1]},
        "ExponentialLR.load_state_dict: .* base_lrs has 1 values, here 2": lambda s: {
            **s,
            "_schedulers": [*s["_schedulers"][:2], {**s["_schedulers"][2], "base_lrs": [1.0]}],
        },
    }
    for message, change in changes.items():
        other = {**before, "last_epoch": 7}
        with pytest.raises(ValueError, match=message):
            scheduler.load_state_dict(change(other))
        assert scheduler.state_dict() == before


def test_numpy_numbers_become_python_numbers(tmp_path):
    optimizer = new(optim.SGD)
    optimizer.param_groups[0]["lr"] = np.float64(0.5)
    first = lr_scheduler.LambdaLR(optimizer, lambda epoch: np.float32(0.5))
    second = lr_scheduler.MultiStepLR(optimizer, np.array([1, 2]), np.float64(0.5))
    optimizer.step()
    first.step()
    second.step()
    for state in first.state_dict(), second.state_dict(), optimizer.state_dict():
        gpugrad.save(state, tmp_path / "state")
    assert {type(rate) for rate in second.get_last_lr()} == {float}


def test_a_state_is_a_copy():
    optimizer = new()
    scheduler = lr_scheduler.MultiStepLR(optimizer, [3])
    state = scheduler.state_dict()
    state["milestones"][1] = 1
    state["base_lrs"].append(3)
    assert scheduler.milestones == Counter([3])
    assert scheduler.base_lrs == [0.1, 0.02]


def rates(library, make, steps=10, change=None):
    """The rates of a schedule, which ``change`` may change by hand after each step."""
    import torch

    optim = gpugrad.optim if library is gpugrad else torch.optim
    p = gpugrad.ones(1).requires_grad_() if library is gpugrad else torch.ones(1).requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    scheduler, found = make(optim.lr_scheduler, optimizer), []
    for i in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
        if change is not None:
            optimizer.param_groups[0]["lr"] = change(i, optimizer.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize(
    "make",
    [
        lambda s, o: s.SequentialLR(
            o, [s.CosineAnnealingWarmRestarts(o, 4), s.ExponentialLR(o, 0.9)], [6]
        ),
        lambda s, o: s.ChainedScheduler([s.CosineAnnealingLR(o, 5, 0.01), s.ExponentialLR(o, 0.9)]),
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.5, 2), s.LinearLR(o, 0.25)], [3]),
        lambda s, o: s.MultiStepLR(o, [2, 2, 5], 0.0),
    ],
    ids=["restarts", "chained", "sequential", "zero"],
)
def test_schedules_of_several_are_pytorchs(make):
    torch = pytest.importorskip("torch")
    assert rates(gpugrad, make) == pytest.approx(rates(torch, make), rel=1e-12)


def test_a_rate_set_by_hand_follows_the_next_step_of_the_schedule():
    torch = pytest.importorskip("torch")

    def make(schedulers, optimizer):
        return schedulers.StepLR(optimizer, 3, 0.0)

    def change(i, rate):
        return 0.33 if i == 3 else rate

    found = rates(gpugrad, make, change=change)
    assert found == rates(torch, make, change=change)
    assert found[4] == 0.33
    assert found[6] == 0


def test_a_subclass_may_save_more():
    class Mine(lr_scheduler.LRScheduler):
        def get_lr(self):
            return self.base_lrs

        def state_dict(self):
            return {**super().state_dict(), "extra": 1}

        def load_state_dict(self, state_dict):
            super().load_state_dict({k: x for k, x in state_dict.items() if k != "extra"})

    scheduler = Mine(optim.SGD([gpugrad.ones(1).requires_grad_()]))
    scheduler.step()
    other = Mine(optim.SGD([gpugrad.ones(1).requires_grad_()]))
    other.load_state_dict(scheduler.state_dict())
    assert other.last_epoch == 1
