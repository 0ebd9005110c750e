"""Random training programs give the same bits compiled as they give by themselves.

A program is a network, a loss, an optimizer, a way to clip gradients and a schedule, all drawn at
random, and what happens between its steps: evaluation, a smaller batch, weights or the optimizer's
state loaded, a learning rate set, a parameter or a gradient replaced, an object, a list, a class or
a global changed that the loss depends on. Some replace tensors of such an object by new ones, some
average their weights, and some compute in half precision with a `GradScaler`. Everything that
training changes is compared after every step.
"""

from functools import partial
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
from adversarial.harness import bits, difference
from choices import examples
from optimizers import ALL
from test_schedulers import CASES, OURS

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import nn, optim
from gpugrad.optim import swa_utils
from gpugrad.tape import memory_plan

pytestmark = pytest.mark.slow

LAYERS = {name: lambda n, dtype, name=name: getattr(nn, name)() for name in (
    "ReLU", "Tanh", "GELU", "SiLU", "ELU", "Softplus", "LeakyReLU", "Dropout",
)}  # fmt: skip
LAYERS |= {
    "BatchNorm1d": lambda n, dtype: nn.BatchNorm1d(n, dtype=dtype),
    "average": lambda n, dtype: nn.BatchNorm1d(n, momentum=None, dtype=dtype),
    "LayerNorm": lambda n, dtype: nn.LayerNorm(n, dtype=dtype),
}
OPTIMIZERS = {case.id: case.values for case in ALL}
# Left out are those that need a momentum to cycle, and SWALR, which is not compiled.
SCHEDULES = {
    name: case
    for name, case in CASES.items()
    if "SWA" not in name and ("Cyc" not in name or "no momentum" in name)
}


def optimizer_of(name, model):
    kind, options = OPTIMIZERS[name]
    p = [x for x in model.parameters() if kind is not optim.Muon or x.ndim == 2]
    return kind([{"params": p[:1]}, {"params": p[1:], "lr": 0.003}], **options)


LOSSES = {
    "cross_entropy": F.cross_entropy, "mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss,
    "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, gg.sigmoid(y)),
}  # fmt: skip
FEATURES = 6
AVERAGES = {
    "none": None,
    "mean": lambda model: swa_utils.AveragedModel(model),
    "moving": lambda model: swa_utils.AveragedModel(
        model, avg_fn=swa_utils.get_ema_avg_fn(0.9), use_buffers=True),
}  # fmt: skip
CLIPS = {
    None: lambda parameters: None,
    "norm": lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.5),
    "largest": lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.5, float("inf")),
    "value": lambda parameters: nn.utils.clip_grad_value_(parameters, 0.01),
}
shift = 0.0  # which the loss depends on


class Weights:
    """What else the loss depends on."""

    power = 1.0

    def __init__(self):
        self.scale = 1.0
        self.terms = [1.0, 0.5]
        self.weight, self.kept = gg.asarray(1.0), (gg.asarray(0.0), gg.asarray(0.0))
        self.mean, self.last = self.kept

    def replace(self, what, loss):
        """Put new tensors in the place of others; returns a loss that depends on these."""
        now, before = loss.detach().astype("float32"), self.mean
        if what == "mean":
            before = self.mean = self.mean * 0.9 + now * 0.1
        elif what == "loss":
            before, self.last = self.last, loss
        elif what == "pair":
            before, self.kept = self.kept[0], (now, self.kept[0] + now)
        return loss + before.detach().astype(loss.dtype) * 0.1

    def __call__(self, loss):
        for term in self.terms:
            loss = loss * self.scale * term
        return loss * self.weight.astype(loss.dtype) * self.power + shift


def make(choices, **given):
    """An example; what is given takes the place of what was drawn."""
    sizes = [choices.choose([3, 5, 8, 20]) for _ in range(choices.integer(1, 3))]
    drawn = SimpleNamespace(
        seed=choices.below(1 << 20), sizes=sizes,
        dtype=choices.choose(["float32", "float32", "float64", "float16"]),
        layers=[[choices.choose(LAYERS) for _ in range(choices.below(4))] for _ in sizes],
        loss=choices.choose(LOSSES), optimizer=choices.choose(OPTIMIZERS),
        clip=choices.choose(CLIPS), schedule=choices.choose([None, *SCHEDULES]),
        steps_inside=choices.flag(), twice=choices.below(5) == 1, scaled=choices.below(4) == 1,
        zero=choices.choose(["none", "zeros", "after", "outside", "model"]),
        replaces=choices.choose([None, None, "mean", "loss", "pair"]),
        average=choices.choose(["none", *AVERAGES]), batch=choices.choose([4, 7, 33, 70, 150]),
        events=[choices.choose([*[None] * 5, *EVENTS]) for _ in range(choices.integer(4, 9))],
    )  # fmt: skip
    if drawn.schedule == "CosineAnnealingLR, T_max of 1":  # halved, its rates would be negative
        drawn.events = [None if x == "rate" else x for x in drawn.events]
    vars(drawn).update(given)
    return drawn


class Run:
    """A training run of an example, which collects everything that can be compared."""

    def __init__(self, example, compiles):
        self.example = example
        dtype = getattr(gg, example.dtype)
        gg.manual_seed(example.seed)
        modules, n = [], FEATURES
        for size, names in zip(example.sizes, example.layers, strict=True):
            modules += [nn.Linear(n, size, dtype=dtype)]
            modules += [LAYERS[name](size, dtype) for name in names]
            n = size
        modules.append(nn.Linear(n, 4 if example.loss == "cross_entropy" else 1, dtype=dtype))
        self.model = nn.Sequential(*modules)
        self.optimizer = optimizer_of(example.optimizer, self.model)
        self.schedule = example.schedule and SCHEDULES[example.schedule](OURS, self.optimizer)
        self.average = AVERAGES[example.average] and AVERAGES[example.average](self.model)
        self.scaler = gg.amp.GradScaler(
            init_scale=2.0**10, growth_interval=2,
            enabled=example.scaled and example.dtype == "float32",
        )  # fmt: skip
        self.weights, self.found = Weights(), []
        set_globals(0.0, 1.0)
        functions = self.functions()
        self.step, self.evaluate = map(gg.compile, functions) if compiles else functions

    def functions(self):
        example, model, optimizer = self.example, self.model, self.optimizer
        schedule, criterion = self.schedule, LOSSES[self.example.loss]
        weights, scaler = self.weights, self.scaler

        def loss_of(x, y):
            with gg.amp.autocast(dtype=gg.float16, enabled=scaler.is_enabled()):
                loss = criterion(model(x), y)
            return weights.replace(example.replaces, weights(loss))

        def step(x, y):
            if example.zero in ("none", "zeros"):
                optimizer.zero_grad(set_to_none=example.zero == "none")
            if example.zero == "model":
                model.zero_grad()
            loss = loss_of(x, y)
            scaler.scale(loss).backward()
            if example.twice:
                scaler.scale(loss_of(x, y) * 0.5).backward()
            if example.clip:
                scaler.unscale_(optimizer)
            norm = CLIPS[example.clip](model.parameters())
            scaler.step(optimizer)
            scaler.update()
            if schedule and example.steps_inside:
                schedule.step()
            if example.zero == "after":
                optimizer.zero_grad()
            return {"loss": loss, "norm": norm}

        def evaluate(x):
            with gg.no_grad():
                return model(x)

        return step, evaluate

    def run(self):
        example, rng = self.example, np.random.default_rng(self.example.seed)
        for i, event in enumerate(example.events):
            n = 3 if event == "small batch" else example.batch
            x = gg.asarray(rng.standard_normal((n, FEATURES)).astype(example.dtype))
            if event == "huge" and i:
                x = x * 1e5
            if example.loss == "cross_entropy":
                y = gg.asarray(rng.integers(0, 4, n))
            else:
                y = gg.asarray(rng.standard_normal((n, 1)).astype(example.dtype))
            if i == 1:
                self.saved = self.model.state_dict(), self.optimizer.state_dict()
            if event and (i or not event.startswith("load")):
                EVENTS[event](self, i)
            if example.zero == "outside":
                self.optimizer.zero_grad()
            result = self.step(x, y)
            if self.average:  # outside, since it reads how many models it has averaged
                self.average.update_parameters(self.model)
            if self.schedule and not example.steps_inside:
                self.schedule.step()
            state = self.model, self.average, self.scaler, self.optimizer, vars(self.weights)
            self.found.append(bits((result, *state)))
        return [*self.found, bits(gg.random.default_generator())]


def evaluate(run, i):
    x = np.random.default_rng(i).standard_normal((run.example.batch, FEATURES))
    run.model.eval()
    run.found.append(bits(run.evaluate(gg.asarray(x.astype(run.example.dtype)))))
    run.model.train()


def grow(run, i):
    with gg.no_grad():
        run.model[0].weight *= 1.5


def freeze(run, i):
    first = run.model[0].weight
    first.grad = None
    first.requires_grad_(not first.requires_grad)


def drop(run, i):
    for module in run.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.6


def change_class(run, i):
    set_globals(shift, 0.5 * i)
    run.weights.weight[...] = 0.25


def set_globals(new_shift, power):
    global shift
    shift, Weights.power = new_shift, power


def halve(run, i):
    run.optimizer.param_groups[0]["lr"] *= 0.5


# What happens before a step, by the run and the number of the step.
EVENTS = {
    "evaluate": evaluate, "small batch": lambda run, i: None, "huge": lambda run, i: None,
    "rate": halve, "parameter": grow, "freeze": freeze, "dropout": drop, "class": change_class,
    "load": lambda run, i: run.model.load_state_dict(run.saved[0]),
    "load optimizer": lambda run, i: run.optimizer.load_state_dict(run.saved[1]),
    "gradient": lambda run, i: setattr(run.model[0].weight, "grad", None),
    "object": lambda run, i: setattr(run.weights, "scale", 0.5 + i),
    "list": lambda run, i: run.weights.terms.append(2.0),
    "global": lambda run, i: set_globals(0.125 * i, Weights.power),
    "seed": lambda run, i: gg.manual_seed(i),
    "mean": lambda run, i: setattr(run.weights, "mean", gg.asarray(0.5)),
}  # fmt: skip


def check(example):
    with np.errstate(all="ignore"):
        expected = Run(example, compiles=False).run()
        run = Run(example, compiles=True)
        different = difference(expected, run.run())
    assert not different, different
    assert not run.step._given_up


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "schedule, optimizer", [*zip([None, *SCHEDULES], cycle(list(OPTIMIZERS)[::5]))]
)
def test_random_training_programs_have_the_bits_of_eager_ones(optimizer, schedule):
    examples(partial(make, optimizer=optimizer, schedule=schedule), check, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number, large", [
    (8, 200), pytest.param(1000, memory_plan.LARGE, marks=pytest.mark.fuzz),
])  # fmt: skip
def test_random_training_programs_that_save_memory(monkeypatch, number, large):
    monkeypatch.setattr(memory_plan, "LARGE", large)
    examples(make, check, number)
