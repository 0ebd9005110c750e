"""State: what a compiled function reads and changes besides its arguments, and what `state` lists.

That nothing is stale, whatever changes between the calls, is shown by the adversarial programs.
"""

import gc
import logging
import math
import operator
import sysconfig
import threading
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from adversarial.harness import bits
from both_ways import normal, training

import gpugrad as gg
from gpugrad import data, nn, optim
from gpugrad.tape.run import Program


class Layers(nn.Module):
    def __init__(self):
        self.layer0, self.layer1 = nn.Linear(3, 3), nn.Linear(3, 3)
        self.log = logging.getLogger(__name__)  # not in a call

    def forward(self, x):
        for i in range(2):
            x = getattr(self, f"layer{i}")(x)
        return x


class Warmup(optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [rate * min(1.0, (self.last_epoch + 1) / 5) for rate in self.base_lrs]


@dataclass
class Output:
    loss: gg.Tensor
    metrics: dict = field(default_factory=dict)


@pytest.mark.filterwarnings("error:gpugrad.compile")
@pytest.mark.parametrize("is_inside", [True, False])
def test_ordinary_steps_are_compiled(is_inside):
    model, context, timing = Layers(), nullcontext(), False
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    scheduler = Warmup(optimizer)

    @gg.compile
    def step(x):
        start = time.time() if timing else 0
        optimizer.zero_grad()
        with context:
            loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        if is_inside:
            scheduler.step()
        return Output(loss, {"seconds": start})

    for _ in range(6):
        step(normal(2, 3))
        if not is_inside:
            scheduler.step()
    assert len(step._programs) == 1


class Trainer:
    def __init__(self, step):
        self.model = nn.Linear(3, 3)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.01)
        self.history, self.last, self.running, self.n_steps = [], None, gg.zeros(()), 0
        self.arrays = normal(40, 3).numpy()
        self.data = [{"x": normal(2, 3, seed=i), "raw": self.arrays[i : i + 2]} for i in range(20)]
        self.compiled = gg.compile(getattr(self, step))

    def plain(self, batch):
        loss = (self.model(batch["x"]) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def of_a_tensor(self, x):
        self.n_steps += 1
        return self.plain({"x": gg.asarray(x)})

    def looking(self, batch):
        return self.plain(batch) + len(self.history)

    def fit(self, name=None):
        for batch in self.data:
            loss = self.compiled(batch[name] if name else batch).detach()
            self.history.append(loss)
            self.last, self.best = loss.numpy(), min(loss.item(), getattr(self, "best", math.inf))
            self.running = self.running + loss


class TrainedModule(Trainer, nn.Module):
    pass


@pytest.mark.filterwarnings("error:gpugrad.compile")
@pytest.mark.parametrize("kind", [Trainer, TrainedModule])
def test_attributes_that_the_step_does_not_name_may_change(kind):
    for name, key in ("plain", None), ("of_a_tensor", "x"), ("of_a_tensor", "raw"):
        trainer = kind(name)
        trainer.fit(key)
        assert len(trainer.compiled._programs) == 1
        assert trainer.n_steps == (20 if name == "of_a_tensor" else 0)
    with pytest.raises(UserWarning, match="because of what changed: a list"):
        kind("looking").fit()


@pytest.mark.filterwarnings("error:gpugrad.compile")
def test_an_argument_may_also_be_an_attribute_that_the_function_does_not_name():
    trainer = Trainer("plain")
    f = gg.compile(lambda x: trainer.model(x))
    for batch in trainer.data[:4]:
        assert bits(f(batch["x"])) == bits(trainer.model(batch["x"]))
    assert len(f._programs) == 1


def test_a_closure_that_names_its_lbfgs_has_a_program():
    w = normal(3).requires_grad_()
    optimizer = optim.LBFGS([w], lr=0.1, max_iter=3)

    @gg.compile
    def closure():
        optimizer.zero_grad()
        loss = ((w**2 - 2) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    assert len(closure._programs) == 1
    assert len(closure._tapes) < 2

    def reads(x):
        return x * optimizer.state_dict()["state"][0]["func_evals"]

    compiled, x = gg.compile(reads), normal(3)
    with pytest.warns(UserWarning, match="it reads the state of LBFGS, which its steps change"):
        compiled(x)
    optimizer.step(closure)
    assert bits(compiled(x)) == bits(reads(x))


def test_errors_say_what_to_do():
    w = normal(3).requires_grad_()
    optimizer = optim.LBFGS([w])
    with pytest.warns(UserWarning, match="compile the closure instead"):
        gg.compile(lambda: optimizer.step(lambda: gg.sum(w * w)))()
    loader = data.DataLoader(data.TensorDataset(normal(4)), batch_size=2, shuffle=True)
    with pytest.warns(UserWarning, match="DataLoader; compile the function of one batch instead"):
        gg.compile(lambda: [w.sum() + x for (x,) in loader])()

    def reads(x):
        try:
            return x * float(x.sum())
        except RuntimeError:
            return x

    with pytest.warns(UserWarning, match="the value of a tensor is read"):
        gg.compile(reads)(normal(3))


def test_listed_state_is_fresh_and_written_back():
    def run(compile):
        gg.manual_seed(0)
        model, mean, seen = nn.Linear(3, 2), gg.zeros(2), {"scale": 1.0, "x": normal(2, seed=3)}
        settings = SimpleNamespace(factor=2.0)
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        generator = gg.random.Generator(3)

        @compile
        def step(x):
            optimizer.zero_grad()
            out = model(x) * settings.factor * seen["scale"] + seen["x"] + generator.normal((4, 2))
            mean.__imul__(0.9)
            mean.__iadd__(out.detach().mean(axis=0))
            loss = (out * out).mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss

        found, load = [], model.load_state_dict
        for change in (
            lambda: None, lambda: load({"weight": normal(2, 3, seed=2), "bias": normal(2)}),
            lambda: seen.update(scale=0.5, x=normal(2, seed=4)), lambda: generator.reseed(5),
            lambda: setattr(settings, "factor", 3.0),
            lambda: optimizer.param_groups[0].update(weight_decay=0.3),
        ):  # fmt: skip
            change()
            found += [step(normal(4, 3)) for _ in range(4)]
        return found, model, mean, settings, optimizer

    expected = run(lambda f: f)
    compiled = []

    def with_state(f):
        compiled.append(gg.compile(f, state=[cell.cell_contents for cell in f.__closure__]))
        return compiled[0]

    assert bits(run(with_state)) == bits(expected)
    assert compiled[0]._programs


def test_a_function_finds_attributes_of_what_is_listed():
    settings, find, x = type("Settings", (), {})(), operator.attrgetter("factor"), normal(3)
    f = gg.compile(lambda x: x * find(settings), state=[settings])
    for settings.factor in (2.0, 2.0, 2.0, 3.0):
        assert bits(f(x)) == bits(x * settings.factor)


def test_what_is_not_listed_is_constant():
    w, settings, x = normal(3, seed=1), SimpleNamespace(factor=2.0), normal(4, 3)
    model = nn.Linear(3, 2).requires_grad_(False)

    def scales(x):
        return model(x * w * settings.factor)

    expected, f = scales(x), gg.compile(scales, state=[settings])
    for _ in range(3):
        assert bits(f(x)) == bits(expected)
    w[...] = 0.0
    model.weight = nn.Parameter(gg.ones((2, 3)), requires_grad=False)
    assert bits(f(x)) == bits(expected)
    settings.factor = 4.0  # is listed; with it all is recorded again
    assert bits(f(x)) != bits(expected)
    checked = gg.compile(scales, state=[], check=4)
    w[...] = 1.0
    for call in range(7):
        if call == 4:  # the next check is in the eighth call
            settings.factor = 2.0
        checked(x)
    with pytest.raises(RuntimeError, match="these differ from what it gives"):
        checked(x)

    def counts(x):
        settings.factor += 1
        return x * 2

    with pytest.raises(RuntimeError, match="'factor' of a dict"):
        [f(x) for f in [gg.compile(counts, state=[], check=5)] * 5]


@pytest.mark.parametrize("before", [None, 0.0, gg.zeros(3)], ids=str)
def test_a_check_compares_new_tensors_in_any_place(before):
    kept, scale = SimpleNamespace(), [1.0]

    def keeps(x):
        kept.last = x * scale[0]
        return x

    kept.last = before
    checked = gg.compile(keeps, state=[kept], check=5)
    for _ in range(4):
        kept.last = before
        checked(normal(3))
    scale[0], kept.last = 2.0, before
    with pytest.raises(RuntimeError, match="'last' of a dict"):
        checked(normal(3))


def test_what_is_not_listed_is_no_reason_not_to_compile():
    w, stream, local = nn.Parameter(normal(3)), iter(range(9)), threading.local()
    local.scale = 2.0
    optimizer = optim.SGD([w])
    step = training(optimizer, lambda x: (x * w * local.scale).sum() * len([stream]))
    with pytest.warns(UserWarning, match="it names a _local, into which"):
        [f(normal(3)) for f in [gg.compile(step)] * 3]
    f = gg.compile(step, state=[optimizer])
    for _ in range(4):
        f(normal(3))
    assert f._programs


@pytest.mark.parametrize("listed, message", [
    ((), "a gradient reaches a tensor that compile cannot see"),
    (("w", "total"), "an optimizer makes state of what `state` lists, .*; list the optimizer"),
    (("w", "optimizer"), "it keeps a tensor where compile cannot see it"),
])  # fmt: skip
def test_what_is_not_listed_but_changes(listed, message):
    def run(compile):
        w, total = nn.Parameter(normal(3)), gg.zeros(())
        optimizer = optim.Adam([w])
        step = training(optimizer, lambda x: (total.__iadd__(x.sum()), (w * x).sum())[1])
        named = {"w": w, "total": total, "optimizer": optimizer}
        step = compile(step, [named[name] for name in listed])
        for seed in range(4):
            step(normal(3, seed=seed))
        return w, total, optimizer

    expected = run(lambda f, state: f)
    with pytest.warns(UserWarning, match=f"step runs without being compiled: {message}"):
        found = run(lambda f, state: gg.compile(f, state=state))
    assert bits(found) == bits(expected)


def test_what_a_function_calls_is_seen_whatever_is_listed():
    f = gg.compile(lambda x: (print(end=""), x * 2), state=[])
    with pytest.warns(UserWarning, match="it calls print"):
        [f(normal(3)) for _ in range(3)]


@pytest.mark.parametrize("state, message", [
    (nn.Linear(2, 2), "state must be a list, not a Linear; state may hold modules, optimizers"),
    *(([x], f"containers and objects, not {words}") for x, words in (
        (normal, "normal"), (nn.Linear, "Linear"), (0.1, "0.1"), (math, "math"),
        (iter("ab"), "it names a str_ascii_iterator, into which"))),
])  # fmt: skip
def test_errors_of_state(state, message):
    with pytest.raises(TypeError, match=message):
        gg.compile(lambda x: x, state=state)


def test_what_garbage_collection_calls_is_not_of_the_function():
    times = []

    def note_time(phase, info):
        times.append(time.perf_counter())

    f = gg.compile(lambda x: [x * k for k in range(20)])
    threshold = gc.get_threshold()
    gc.callbacks.append(note_time)
    gc.set_threshold(1)
    try:
        with warnings.catch_warnings(action="error"):
            for _ in range(4):
                f(normal(3))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note_time)
    assert times or sysconfig.get_config_var("Py_GIL_DISABLED")  # which collects garbage later
    assert f.program(normal(3))


@pytest.mark.parametrize("part", ["_reset", "_bind_inputs", "_bind_calls", "_bind_results"])
def test_a_program_that_is_bound_in_part_fits_no_call(part, monkeypatch):
    """Ctrl-C while it is bound to a new array, after which the tensor gets the old one back."""
    w, x = normal(4, 4), normal(4, 4)
    f = gg.compile(lambda x: gg.tanh(x * w).sum())
    for _ in range(4):
        expected = f(x)
    f.program(x)  # which waits for kernels
    f(x)
    before, w.array = w.array, w.array * 2
    monkeypatch.setattr(Program, part, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        f(x)
    monkeypatch.undo()
    w.array = before
    assert [f(x).item() for _ in range(3)] == [expected.item()] * 3
