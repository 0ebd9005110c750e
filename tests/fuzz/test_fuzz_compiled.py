"""Random training programs give the same bits compiled as they give by themselves.

A program is a network, a loss, an optimizer, a way to clip gradients and a schedule, all drawn at
random, and what happens between its steps: evaluation, a smaller batch, weights or the optimizer's
state loaded, a learning rate set, a parameter or a gradient replaced, an object, a list, a class or
a global changed that the loss depends on. Some average their weights, and some compute in half
precision with a `GradScaler`. Everything that training changes is compared after every step.
"""

from functools import partial
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
from both_ways import with_one_nan
from choices import examples

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import nn, optim
from gpugrad.optim import swa_utils
from gpugrad.tape import plan

pytestmark = pytest.mark.slow

LAYERS = {
    "relu": lambda n, dtype: nn.ReLU(),
    "tanh": lambda n, dtype: nn.Tanh(),
    "gelu": lambda n, dtype: nn.GELU(),
    "silu": lambda n, dtype: nn.SiLU(),
    "elu": lambda n, dtype: nn.ELU(),
    "softplus": lambda n, dtype: nn.Softplus(),
    "leaky_relu": lambda n, dtype: nn.LeakyReLU(),
    "dropout": lambda n, dtype: nn.Dropout(0.3),
    "batch_norm": lambda n, dtype: nn.BatchNorm1d(n, dtype=dtype),
    "average": lambda n, dtype: nn.BatchNorm1d(n, momentum=None, dtype=dtype),
    "layer_norm": lambda n, dtype: nn.LayerNorm(n, dtype=dtype),
}
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW([{"params": p[:1]}, {"params": p[1:], "lr": 0.003}]),
    "amsgrad": lambda p: optim.Adam(p, amsgrad=True),
    "rmsprop": lambda p: optim.RMSprop(p, momentum=0.5),
    "centered": lambda p: optim.RMSprop(p, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr_decay=0.1),
    "nadam": lambda p: optim.NAdam(p),
    "radam": lambda p: optim.RAdam(p),
    "adamax": lambda p: optim.Adamax(p),
    "adadelta": lambda p: optim.Adadelta(p),
    "rprop": lambda p: optim.Rprop(p),
    "asgd": lambda p: optim.ASGD(p, lambd=0.1, t0=2),
    "adafactor": lambda p: optim.Adafactor(p, weight_decay=0.1),
    "muon": lambda p: optim.Muon([x for x in p if x.ndim == 2]),
    "lion": lambda p: optim.Lion(p, weight_decay=0.1),
}


def two_schedules(o):
    return [optim.lr_scheduler.ConstantLR(o, 0.5, 2), optim.lr_scheduler.ExponentialLR(o, 0.9)]


SCHEDULES = {
    "step": lambda o: optim.lr_scheduler.StepLR(o, 2),
    "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "exponential": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
    "one cycle": lambda o: optim.lr_scheduler.OneCycleLR(
        o, 0.1, total_steps=30, cycle_momentum=False),
    "lambda": lambda o: optim.lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "linear": lambda o: optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 4),
    "cyclic": lambda o: optim.lr_scheduler.CyclicLR(o, 0.001, 0.1, 2, cycle_momentum=False),
    "milestones": lambda o: optim.lr_scheduler.MultiStepLR(o, [2, 3, 5], 0.5),
    "restarts": lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "sequence": lambda o: optim.lr_scheduler.SequentialLR(o, two_schedules(o), [3]),
    "chain": lambda o: optim.lr_scheduler.ChainedScheduler(two_schedules(o)),
}  # fmt: skip
LOSSES = {
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "huber": F.huber_loss,
    "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, gg.sigmoid(y)),
}
EVENTS = [
    "evaluate", "small batch", "load", "load optimizer", "rate", "parameter", "gradient",
    "freeze", "dropout", "object", "list", "class", "global", "seed", "huge",
]  # fmt: skip
FEATURES = 6
AVERAGES = {
    "none": None,
    "mean": lambda model: swa_utils.AveragedModel(model),
    "moving": lambda model: swa_utils.AveragedModel(
        model, avg_fn=swa_utils.get_ema_avg_fn(0.9), use_buffers=True),
}  # fmt: skip
shift = 0.0  # which the loss depends on


class Weights:
    """What else the loss depends on."""

    power = 1.0

    def __init__(self):
        self.scale = 1.0
        self.terms = [1.0, 0.5]
        self.weight = gg.asarray(1.0)

    def __call__(self, loss):
        for term in self.terms:
            loss = loss * self.scale * term
        return loss * self.weight.astype(loss.dtype) * self.power + shift


def make(choices, **given):
    """An example; what is given takes the place of what was drawn."""
    sizes = [choices.choose([3, 5, 8, 20]) for _ in range(choices.integer(1, 3))]
    drawn = SimpleNamespace(
        seed=choices.below(1 << 20),
        dtype=choices.choose(["float32", "float32", "float64", "float16"]),
        sizes=sizes,
        layers=[
            [choices.choose(LAYERS) for _ in range(choices.below(4))] for _ in range(len(sizes))
        ],
        loss=choices.choose(LOSSES),
        optimizer=choices.choose(OPTIMIZERS),
        clip=choices.choose([None, "norm", "largest", "value"]),
        schedule=choices.choose([None, *SCHEDULES]),
        steps_inside=choices.flag(),
        zero=choices.choose(["none", "zeros", "after", "outside", "model"]),
        twice=choices.below(5) == 1,
        average=choices.choose(["none", *AVERAGES]),
        scaled=choices.below(4) == 1,
        batch=choices.choose([4, 7, 33, 70, 150]),
        events=[
            choices.choose([None, None, None, None, None, *EVENTS])
            for _ in range(choices.integer(4, 9))
        ],
    )
    vars(drawn).update(given)
    return drawn


class Run:
    """A training run of an example, which collects everything that can be compared."""

    def __init__(self, example, compiled):
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
        self.optimizer = OPTIMIZERS[example.optimizer]([*self.model.parameters()])
        self.schedule = example.schedule and SCHEDULES[example.schedule](self.optimizer)
        self.average = AVERAGES[example.average] and AVERAGES[example.average](self.model)
        self.scaler = gg.amp.GradScaler(
            init_scale=2.0**10, growth_interval=2,
            enabled=example.scaled and example.dtype == "float32",
        )  # fmt: skip
        self.weights = Weights()
        self.set_globals(0.0, 1.0)
        self.found = []
        self.saved = None
        step, evaluate = self.functions()
        self.step = gg.compile(step) if compiled else step
        self.evaluate = gg.compile(evaluate) if compiled else evaluate

    def functions(self):
        example, model, optimizer = self.example, self.model, self.optimizer
        schedule, criterion = self.schedule, LOSSES[self.example.loss]
        weights, scaler = self.weights, self.scaler

        def loss_of(x, y):
            with gg.amp.autocast(dtype=gg.float16, enabled=scaler.is_enabled()):
                loss = criterion(model(x), y)
            return weights(loss)

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
            norm = None
            if example.clip == "norm":
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            if example.clip == "largest":
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5, float("inf"))
            if example.clip == "value":
                nn.utils.clip_grad_value_(model.parameters(), 0.01)
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
        rng = np.random.default_rng(self.example.seed)
        for i, event in enumerate(self.example.events):
            n = 3 if event == "small batch" else self.example.batch
            x = gg.asarray(rng.standard_normal((n, FEATURES)).astype(self.example.dtype))
            if event == "huge" and i:
                x = x * 1e5
            if self.example.loss == "cross_entropy":
                y = gg.asarray(rng.integers(0, 4, n))
            else:
                y = gg.asarray(rng.standard_normal((n, 1)).astype(self.example.dtype))
            self.happen(event, i, x)
            if self.example.zero == "outside":
                self.optimizer.zero_grad()
            result = self.step(x, y)
            if self.average:  # counts its updates, which a compiled step cannot
                self.average.update_parameters(self.model)
            self.found += [result["loss"].detach(), result["norm"], result["loss"].requires_grad]
            if self.average:  # outside, since it reads how many models it has averaged
                self.average.update_parameters(self.model)
            if self.schedule and not self.example.steps_inside:
                self.schedule.step()
            self.collect()
        self.found.append(repr(gg.random.default_generator().get_state()))
        return self.found

    def happen(self, event, i, x):
        model, optimizer = self.model, self.optimizer
        if i == 1:
            self.saved = model.state_dict(), optimizer.state_dict()
        first = next(model.parameters())
        if event == "evaluate":
            model.eval()
            self.found.append(self.evaluate(x))
            model.train()
        elif event == "load" and self.saved:
            model.load_state_dict(self.saved[0])
        elif event == "load optimizer" and self.saved:
            optimizer.load_state_dict(self.saved[1])
        elif event == "rate":
            optimizer.param_groups[0]["lr"] *= 0.5
        elif event == "parameter":
            with gg.no_grad():
                first *= 1.5
        elif event == "gradient":
            first.grad = None
        elif event == "freeze":
            first.grad = None
            first.requires_grad_(not first.requires_grad)
        elif event == "dropout":
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.6
        elif event == "object":
            self.weights.scale = 0.5 + i
        elif event == "list":
            self.weights.terms.append(2.0)
        elif event == "class":
            self.set_globals(shift, 0.5 * i)
            self.weights.weight[...] = 0.25
        elif event == "global":
            self.set_globals(0.125 * i, Weights.power)
        elif event == "seed":
            gg.manual_seed(i)

    def set_globals(self, new_shift, power):
        global shift
        shift, Weights.power = new_shift, power

    def collect(self):
        if self.average:
            self.found += [gg.tensor(x) for x in self.average.state_dict().values()]
        self.found.append(self.scaler.state_dict())
        for p in self.model.parameters():
            self.found += [gg.tensor(p), None if p.grad is None else gg.tensor(p.grad)]
        self.found += [gg.tensor(b) for b in self.model.buffers()]
        self.optimizer._settle()
        for state in self.optimizer._states.values():
            self.found.append(state.counts)
            self.found += [gg.tensor(array) for array in state.arrays.values()]
        self.found += [group["lr"] for group in self.optimizer.param_groups]


def bits(x):
    if not isinstance(x, gg.Tensor):
        return type(x), repr(x)
    # NumPy leaves the sign of a nan to the processor's instructions, of which it takes others for
    # the last elements of an array than for those before.
    return str(x.dtype), x.shape, with_one_nan(x.numpy()).tobytes()


def check(example):
    with np.errstate(all="ignore"):
        expected = [*map(bits, Run(example, compiled=False).run())]
        run = Run(example, compiled=True)
        found = [*map(bits, run.run())]
    assert len(found) == len(expected)
    differing = [i for i, (x, y) in enumerate(zip(found, expected, strict=True)) if x != y]
    assert not differing, f"values {differing} differ"
    assert not run.step._given_up


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("optimizer, schedule", [*zip(OPTIMIZERS, cycle([None, *SCHEDULES]))])
def test_random_training_programs_have_the_bits_of_eager_ones(optimizer, schedule):
    examples(partial(make, optimizer=optimizer, schedule=schedule), check, 1)


@pytest.mark.filterwarnings("error")
def test_random_training_programs_that_save_memory(monkeypatch):
    monkeypatch.setattr(plan, "LARGE", 200)
    examples(make, check, 8)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("error")
def test_many_random_training_programs():
    examples(make, check, 1000)
