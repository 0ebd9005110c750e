"""`gpugrad.training`: what a run computes, and that one continued from a checkpoint ends alike."""

import math
import sys
import types
from unittest.mock import Mock, call

import pytest
from adversarial.harness import bits
from samples import error_test

import gpugrad
from gpugrad import data, nn, optim
from gpugrad.optim import lr_scheduler
from gpugrad.training import Callback, CSVLog, Progress, TensorBoardLog, Trainer, curves
from gpugrad.training.callbacks import _duration

F64 = gpugrad.float64


def mse(model, inputs, targets):
    error = model(inputs) - targets
    return error.square().mean(), {"error": error.abs().mean()}


def regression_set(n=20):
    inputs = gpugrad.random.Generator(1).normal((n, 3), dtype=F64)
    return data.TensorDataset(inputs, inputs[:, :1] * inputs[:, 1:2])


def regression(loader=None, *, seed=0, optimizer=optim.Adam, scheduler=None, **options):
    """A trainer of a small network; `scheduler` is a function of the optimizer."""
    gpugrad.manual_seed(seed)
    drop = nn.Dropout(options.pop("dropout", 0.0))
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), drop, nn.Linear(8, 1)).to(F64)
    transform = options.pop("transform", None)
    if loader is None:
        loader = data.DataLoader(regression_set(), 6, shuffle=True, transform=transform)
    optimizer = optimizer(model.parameters(), lr=0.02)
    if scheduler is not None:
        options["scheduler"] = scheduler(optimizer)
    return Trainer(model, optimizer, mse, loader, **options)


def same(x, y):
    """Whether two states are equal to the last bit."""
    return bits(x) == bits(y)


class Stop(Callback):
    """Ctrl-C after a number of steps; notes when a run starts and ends."""

    def __init__(self, steps):
        self.steps, self.calls = steps, []

    def on_start(self, trainer):
        self.calls.append("start")

    def on_step(self, trainer):
        if trainer.steps == self.steps:
            raise KeyboardInterrupt

    def on_end(self, trainer):
        self.calls.append("end")


class Sum(Callback):
    """A callback with a state."""

    value = 0.0

    def on_epoch(self, trainer, row):
        self.value += row["training/loss"]
        row["sum"] = self.value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


class Noise:
    """A random change of batches."""

    def for_batch(self, epoch, number, seed):
        noise = gpugrad.random.Generator(hash((seed, epoch, number)) % 2**32).normal(3, dtype=F64)
        return lambda batch: (batch[0] + noise, batch[1])


# What a checkpoint has to carry over, each as options of a trainer.
PARTS = {
    "dropout": {"dropout": 0.5},
    "momentum and clipping": {"optimizer": optim.RMSprop, "max_norm": 0.1},
    "scheduler per step": {"scheduler": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=30),
                           "schedule_per": "step"},
    "scheduler per epoch": {"scheduler": lambda o: lr_scheduler.ExponentialLR(o, 0.7)},
    "plateau": {"scheduler": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5),
                "monitor": "training/loss"},
    "accumulation": {"accumulate": 3},
    "best": {"monitor": "training/error", "mode": "max", "patience": 4},
    "callback": {"callbacks": [Sum]},
    "middle of an epoch": {"dropout": 0.5, "checkpoint_steps": 3, "transform": Noise()},
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_a_continued_run_ends_alike_to_the_last_bit(part, tmp_path):
    def trainer(seed, name, *extra):
        options = PARTS[part] | {"seed": seed, "checkpoint": tmp_path / name}
        made = [kind() for kind in options.pop("callbacks", [])]
        return regression(callbacks=[*made, *extra], **options)

    whole = trainer(0, "whole")
    whole.fit(5)
    # 4 batches to an epoch, so that the interruption comes in the third.
    broken = trainer(0, "broken", Stop(5 if part == "accumulation" else 10))
    with pytest.raises(KeyboardInterrupt):
        broken.fit(5)
    continued = trainer(1, "broken")
    continued.load(tmp_path / "broken")
    assert len(continued.history) == 2
    assert (continued.steps == 9) == (part == "middle of an epoch")
    continued.fit(5)
    assert same(continued.state_dict(), whole.state_dict())
    assert (tmp_path / "broken").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_continued_run_has_the_seed_and_the_epoch_of_a_loader_without_a_state():
    class Permuted:
        def __init__(self, seed):
            self.seed, self.epoch = seed, 0

        def __iter__(self):
            generator = gpugrad.random.Generator(1000 * self.seed + self.epoch)
            self.epoch += 1
            order = generator.permutation(20).tolist()
            return iter(data.DataLoader(regression_set(), 5, sampler=order))

    whole = regression(Permuted(1))
    whole.fit(3)
    first = regression(Permuted(1))
    first.fit(2)
    continued = regression(Permuted(2), seed=5)
    continued.load_state_dict(first.state_dict())
    assert (continued.loader.seed, continued.loader.epoch) == (1, 2)
    continued.fit(3)
    assert same(continued.state_dict(), whole.state_dict())


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_compiled_run_ends_as_one_that_is_not(accumulate):
    runs = []
    for compile in (False, True):
        trainer = regression(
            compile=compile, dropout=0.5, max_norm=0.5, accumulate=accumulate,
            scheduler=lambda o: lr_scheduler.CosineAnnealingLR(o, 30), schedule_per="step",
        )  # fmt: skip
        gpugrad.manual_seed(1)
        trainer.fit(4)
        runs.append(trainer.state_dict())
    assert same(*runs)
    assert trainer._update._programs


def test_accumulated_gradients_are_those_of_a_large_batch():
    # 20 samples: batches of 3, 3, 3, 3; 3, 3, 2, and of 12, 8.
    runs = []
    for batch_size, accumulate in ((3, 4), (12, 1)):
        loader = data.DataLoader(regression_set(), batch_size)
        trainer = regression(loader, optimizer=optim.SGD, accumulate=accumulate)
        row = trainer.fit(3)[-1]
        assert trainer.steps == 6
        runs.append([*trainer.model.parameters(), row["training/loss"]])
    for x, y in zip(*runs, strict=True):
        gpugrad.testing.assert_close(x, y, rtol=1e-12)


def test_the_norm_of_the_gradient_is_clipped():
    norms = []

    class Norm(Callback):
        def on_step(self, trainer):
            grads = [p.grad.flatten() for p in trainer.model.parameters()]
            norms.append(float(gpugrad.linalg.vector_norm(gpugrad.concat(grads))))

        def on_epoch(self, trainer, row):
            trainer.should_stop = len(trainer.history) == 1

    assert len(regression(max_norm=0.01, callbacks=[Norm()]).fit(9)) == 2
    assert norms == pytest.approx([0.01] * 8, rel=1e-3)


# In steps, the callback comes after the scheduler.
@pytest.mark.parametrize(
    "per, expected", [("epoch", [1] * 4 + [0.5] * 4), ("step", [2.0**-i for i in range(1, 9)])]
)
def test_schedules_per_step_and_per_epoch(per, expected):
    rates = []

    class Rate(Callback):
        def on_step(self, trainer):
            rates.append(trainer.optimizer.param_groups[0]["lr"] / 0.02)

        def on_epoch(self, trainer, row):
            assert trainer.optimizer.param_groups[0]["lr"] / 0.02 == rates[-1]

    options = {"scheduler": lambda o: lr_scheduler.StepLR(o, 1, gamma=0.5)}
    regression(**options, schedule_per=per, callbacks=[Rate()]).fit(2)
    assert rates == expected


class Monitor(Callback):
    def __init__(self, *values):
        self.values = values

    def on_epoch(self, trainer, row):
        row["value"] = self.values[len(trainer.history)]


@pytest.mark.parametrize("values, mode, epochs, best", [
    ((3, 2, 1, 2, 3, 4), "min", 5, 3), ((3, 2, 1, 2, 3, 4), "max", 3, 1),
    ((math.nan, 2, math.nan, 2, 1), "min", 4, 2),  # equal is not better, nor is nan
    ((1, 2, 3, 4, 5, 6), "max", 6, 6),
])  # fmt: skip
def test_early_stopping_and_best_weights(values, mode, epochs, best):
    trainer = regression(monitor="value", mode=mode, patience=2, callbacks=[Monitor(*values)])
    assert (len(trainer.fit(6)), trainer.restore_best()) == (epochs, best)
    same_run = regression()
    same_run.fit(best)
    assert same(trainer.model.state_dict(), same_run.model.state_dict())
    assert len(trainer.fit(6)) == epochs  # patience stays at its end


def test_evaluation():
    modes = []

    def loss(model, batch):
        modes.append((model.training, gpugrad.is_grad_enabled()))
        return model(batch["x"]).mean(), {"mean": batch["x"].mean(), "number": 3}

    model, x = nn.Sequential(nn.Dropout(0.9), nn.Linear(2, 1)), gpugrad.arange(14.0).reshape(7, 2)
    batches = [{"x": x[:5]}, {"x": x[5:]}]  # a mean of means would be wrong
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.0), loss, batches)
    with gpugrad.no_grad():
        expected = {"loss": float(model.eval()(x).mean()), "mean": 6.5, "number": 3.0}
    model.train()
    model[1].eval()
    found = trainer.evaluate(batches)
    assert found == pytest.approx(expected, rel=1e-6)
    assert modes == [(False, False)] * 2
    assert [m.training for m in model.modules()] == [True, True, False]
    trainer.evaluate_on = {"test": batches}
    (row,) = trainer.fit(1)
    assert [*row] == [f"{part}/{name}" for part in ("training", "test") for name in expected]
    assert row["test/loss"] == found["loss"] != row["training/loss"]


def test_csv(tmp_path):
    path = tmp_path / "log.csv"
    trainer = regression(callbacks=[CSVLog(path)])
    history = trainer.fit(2)

    def lines():
        rows = [[i, *row.values()] for i, row in enumerate(history, 1)]
        return [",".join(map(str, row)) for row in [["epoch", *history[0]], *rows]]

    assert path.read_text().splitlines() == lines()
    path.write_text("epoch,more rows than the checkpoint\n" * 9)
    trainer.fit(3)
    assert path.read_text().splitlines() == lines()
    with pytest.raises(FileExistsError, match=r"CSVLog: .*; delete it, or give another name"):
        regression(callbacks=[CSVLog(path)]).fit(1)
    trainer.history[-1]["more"] = 1.5
    trainer.fit(4)
    column = [line.split(",")[3] for line in path.read_text().splitlines()]
    assert column == ["more", "", "", "1.5", ""]
    trainer = regression(callbacks=[CSVLog(tmp_path / "2.csv"), Stop(2)])
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(1)
    trainer.fit(1)


@pytest.mark.parametrize("compile", [False, True])
def test_means_are_of_the_values_that_the_steps_had(compile):
    model, loader = nn.PReLU(init=1.0), [gpugrad.ones(1)] * 4
    trainer = Trainer(
        model, optim.SGD(model.parameters(), lr=0.25),
        lambda model, x: (model.weight.sum(), {"all": model.weight}), loader, compile=compile,
    )  # fmt: skip
    assert trainer.fit(1) == [{"training/loss": 0.625, "training/all": 0.625}]


def test_tensorboard(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="pip install tensorboardX, or pass torch"):
        TensorBoardLog(tmp_path)
    module = Mock()
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    log = TensorBoardLog(tmp_path)
    rows = regression(callbacks=[log]).fit(2)
    module.SummaryWriter.assert_called_once_with(str(tmp_path))
    expected = []
    for i, row in enumerate(rows, 1):
        expected += [*(call.add_scalar(name, x, i) for name, x in row.items()), call.flush()]
    assert log.writer.method_calls[: len(expected)] == expected
    assert TensorBoardLog(log.writer).writer is log.writer


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_progress(with_tqdm, monkeypatch, capsys):
    if with_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    loader, callbacks = data.DataLoader(regression_set(), 6), [Monitor(0, 2, 1e-9), Progress(2)]
    time = types.SimpleNamespace(perf_counter=iter([100.0, 107.25]).__next__)
    monkeypatch.setattr("gpugrad.training.callbacks.time", time)
    trainer = regression(loader, evaluate_on={"t": loader}, callbacks=callbacks, monitor="t/loss")
    _, second, last = history = trainer.fit(3)
    printed, bar = capsys.readouterr()
    losses = [row["t/loss"] for row in history]
    best = f"best t/loss {min(losses):.4g} in epoch {losses.index(min(losses)) + 1}"
    parts = "   ".join(
        f"{part} loss {{{part}/loss:.4f}} error {{{part}/error:.4f}}" for part in ("training", "t")
    )
    assert printed.splitlines() == [
        f"epoch 2/3   {parts.format(**second)}   value 2.0000",
        f"epoch 3/3   {parts.format(**last)}   value 1.0e-09",
        f"3 epochs, {3 * len(loader)} steps in 7.2 s; {best}",
    ]
    assert ("step/s" in bar) == with_tqdm


def test_durations():
    found = [_duration(seconds) for seconds in (0.04, 59.9, 60, 75.4, 3599.7, 7500)]
    assert found == ["0.0 s", "59.9 s", "1 min 0 s", "1 min 15 s", "1 h 0 min", "2 h 5 min"]


def test_curves(tmp_path):
    pytest.importorskip("matplotlib")
    figure = curves([{"training/loss": 1.0, "test/loss": 2.0, "lr": 0.1}] * 3, "title")
    left, right = figure.axes
    assert (left.get_ylabel(), left.get_yscale(), len(left.lines)) == ("loss", "log", 2)
    assert (right.get_ylabel(), right.get_yscale(), len(right.lines)) == ("lr", "linear", 1)
    figure.savefig(tmp_path / "curves.png")
    curves([{"training/loss": 1.0}, {"training/loss": 1.0, "test/loss": 2.0}])
    with pytest.raises(ValueError, match="history is empty"):
        curves([])


def test_a_checkpoint_is_kept(tmp_path, monkeypatch):
    """If the loss is not finite, and if a new run would overwrite it, or could not write it."""
    path = tmp_path / "run.safetensors"
    trainer = regression(checkpoint=path)
    trainer.fit(1)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="load it to continue"):
        regression(checkpoint=path).fit(1)
    trainer.optimizer.param_groups[0]["lr"] = 1e300
    with pytest.warns(RuntimeWarning), pytest.raises(FloatingPointError, match="in epoch 2"):
        trainer.fit(3)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"^Trainer: checkpoint: .*pip install safetensors"):
        regression(checkpoint=path)
    assert (path.read_bytes(), len(trainer.history)) == (before, 1)


def test_a_run_that_is_broken_off():
    """Callbacks end where the run ends, and the epoch leaves no trace in the history."""
    callbacks = [Stop(9), Stop(2), Stop(9)]
    trainer = regression(callbacks=callbacks)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(1)
    assert [callback.calls for callback in callbacks] == [["start", "end"]] * 3
    assert trainer._means.totals() == []


def test_a_state_that_does_not_fit_changes_nothing():
    options = {"scheduler": lambda o: lr_scheduler.ExponentialLR(o, 0.9), "callbacks": [Sum()]}
    trainer = regression(**options)
    trainer.fit(1)
    state = trainer.state_dict()
    trainer.fit(2)
    before = trainer.state_dict()
    for change, words in (
        ({"model": {}}, "missing"),
        ({"optimizer": {}}, "param_groups"),
        ({"scheduler": None}, "only one of the state and the trainer has a scheduler"),
        ({"scheduler": {}}, "ExponentialLR"),
        ({"history": [{"loss": "low"}]}, "list of dicts of numbers"),
        ({"random": {"cpu": 5}}, "set_state"),
        ({"random": None}, "'random' must be a dict, not a NoneType"),
        ({"callbacks": []}, "it has states of 0 callbacks, but 1"),
        ({"steps": 2.5}, "steps must be an int of at least 0, not 2.5"),
        ({"means": ["ab"]}, "unpack"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            trainer.load_state_dict({**state, **change})
        assert same(trainer.state_dict(), before), change
    del state["loader"]
    with pytest.raises(ValueError, match="the state has no 'loader'"):
        trainer.load_state_dict(state)
    with pytest.raises(TypeError, match="call load"):
        trainer.load_state_dict("run.safetensors")


PLATEAU = {"scheduler": lr_scheduler.ReduceLROnPlateau}
LAYER, Y = nn.Linear(1, 1), gpugrad.ones((5, 1))


def trained_with(loss):
    return lambda: Trainer(LAYER, optim.SGD(LAYER.parameters()), loss, [(Y, Y)]).fit(1)


test_errors = error_test([
    *((lambda options=o: regression(**options), ValueError, words) for o, words in (
        ({"schedule_per": "batch"}, "schedule_per must be 'epoch' or 'step'"),
        ({"mode": "least"}, "mode must be 'min' or 'max', not 'least'"),
        ({"patience": 3}, "need a monitor"), (PLATEAU, "need a monitor"),
        ({**PLATEAU, "monitor": "training/loss", "schedule_per": "step"}, "stepped per epoch"),
        ({"accumulate": 0}, "accumulate must be an int of at least 1"),
        ({"patience": 0, "monitor": "x"}, "patience must be an int of at least 1"),
        ({"loader": [], "checkpoint": "x", "checkpoint_steps": 5}, "a loader with a state_dict"),
        ({"notes": {"model": 1}}, r"\['model'\] in notes are the trainer's own"),
    )),
    (lambda: regression().fit(0), ValueError, "epochs must be an int of at least 1"),
    (lambda: regression([]).fit(1), ValueError, "the loader has no batches"),
    (lambda: regression(monitor="loss").fit(1), ValueError,
     r"monitor is 'loss', which is not among \['training/loss"),
    (lambda: regression().restore_best(), RuntimeError, "no epoch was best"),
    *((trained_with(f), TypeError, f"with the model and a batch, which {loss} does not take")
      for loss, f in (("MSELoss", nn.MSELoss()), ("mse_loss", nn.functional.mse_loss))),
    *((trained_with(lambda model, x, y, result=result: result), kind, words)
      for result, kind, words in (
        (1.0, TypeError, "must return a Tensor, the mean loss .*, not float"),
        ((Y.mean(), 1.0), TypeError, r"and a dict of metrics, not \(Tensor, float\)"),
        ((Y.mean(), Y.mean(), {}), TypeError, r"not \(Tensor, Tensor, dict\)"),
        (Y, ValueError, r"one number, not a tensor of shape \(5, 1\); return its mean"),
        ((Y.mean(), {"loss": 1.0}), ValueError, "a metric must have a name of its own, not 'loss'"),
      )),
])  # fmt: skip
