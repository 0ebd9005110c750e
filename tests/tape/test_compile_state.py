"""What a compiled function reads may change between its calls, and is never stale.

Each case calls functions, and changes what they read in between. It is run twice, with the
functions compiled and as they are, and has to return the same.
"""

import dataclasses
import gc
import importlib.util
import math
import random
import sys
import threading
import time
import types
import typing
import warnings

import numpy as np
import pytest
from adversarial.harness import bits
from both_ways import normal, training

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import data, nn, optim

CASES = []


def case(function):
    CASES.append(function)
    return function


def after(f, *changes):
    """What ``f`` returns at first, and after each of the changes, four times each.

    The first two calls of a kind are recorded, and the others repeat the program.
    """
    found = [f(normal(4, 3)) for _ in range(4)]
    for change in changes:
        change()
        found += [f(normal(4, 3)) for _ in range(4)]
    return found


def runs_uncompiled(function):
    """Marks a case whose functions cannot be recorded; they run with a warning."""
    function.runs_uncompiled = True
    return function


# Objects, classes and functions of the program


@case
def modules_that_a_function_imports(compile):
    sys.modules.pop("a_package.numbers", None)
    package = types.ModuleType("a_package")
    package.__path__ = []
    numbers = types.ModuleType("a_package.numbers")
    numbers.scale = 2.0
    source = """
def of_package(x):
    from . import numbers
    return x * numbers.scale

def of_module(x):
    from .numbers import scale
    return x * scale

def by_full_name(x):
    import a_package.numbers
    return x * a_package.numbers.scale
"""
    exec(source, vars(package) | {"__package__": "a_package"}, functions := {})
    sys.modules["a_package"] = package

    class Finder:  # imports it in the first call
        @staticmethod
        def find_spec(name, path, target=None):
            if name == "a_package.numbers":
                return importlib.util.spec_from_loader(name, Finder)
            return None

        create_module = staticmethod(lambda spec: numbers)
        exec_module = staticmethod(lambda module: None)

    sys.meta_path.insert(0, Finder)
    try:
        functions = [compile(f) for f in functions.values()]
        x = normal(2)
        found = [f(x) for f in functions for _ in range(2)]
        numbers.scale = 3.0
        return [*found, *[f(x) for f in functions for _ in range(2)]]
    finally:
        sys.meta_path.remove(Finder)
        del sys.modules["a_package"], sys.modules["a_package.numbers"]


@case
def rules_of_custom_ops(compile):
    table = {"k": 2.0}

    @gg.op
    def scaled(xp, x):
        return x * table["k"]

    scaled.vjp(x=lambda xp, g: g * table["k"] * 3)
    f = compile(lambda x: gg.grad(lambda x: scaled(x).sum())(x) + scaled(x))
    return after(f, lambda: table.update(k=3.0))


# Arguments


@case
def model_and_optimizer_as_arguments(compile):
    model = nn.Linear(3, 3)
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compile(step)

    def both(x):
        return step(model, optimizer, x), gg.tensor(model.weight)

    return after(
        both,
        lambda: optimizer.param_groups[0].update(lr=0.5),
        lambda: model.bias.requires_grad_(False),
    )


class Config:
    scale = 2.0


def scaled(self):
    return self.x * self.k * Config.scale


@dataclasses.dataclass
class Batch:
    x: gg.Tensor
    k: float = 2.0
    scaled = scaled


class Pair(typing.NamedTuple):
    x: gg.Tensor
    k: float = 2.0
    scaled = scaled


@case
def methods_of_arguments(compile):
    f = compile(lambda batch: batch.scaled())
    found = []
    for kind in (Batch, Pair):
        for Config.scale in (2.0, 3.0):
            found += [f(kind(normal(3))), f(kind(normal(3), 3.0))]
    return found


# What a function writes and returns


@case
@runs_uncompiled
def arguments_that_the_function_changes(compile):
    def takes(table):
        table["z"] = table.pop("y") * 2
        return table["x"] + table["z"]

    def appends(items):
        items[0] = items[0] + 1
        items.append(items[0] * 2)
        return items[1] + 1

    def assigns(batch):
        batch.x = batch.x * 2
        return batch.x * batch.k

    def writes(array):
        array[0] = 5.0
        array += 1
        return gg.asarray(array) * 2

    takes, appends, assigns, writes = map(compile, (takes, appends, assigns, writes))
    found = []
    for seed in range(3):
        table, items = {"x": normal(3, seed=seed), "y": normal(3)}, [normal(3, seed=seed)]
        batch, array = Batch(normal(3, seed=seed)), normal(3, seed=seed).numpy().copy()
        found += [takes(table), appends(items), assigns(batch), writes(array)]
        found += [table, items, batch.x, array.tolist()]
    return found


@case
@runs_uncompiled
def iterators_as_arguments(compile):
    f = compile(lambda numbers: sum(numbers))
    return [f(normal(3, seed=k) for k in range(i)) for i in (1, 2, 3)]


@case
@runs_uncompiled
def attributes_that_are_no_fields(compile):
    def reads(batch):
        return batch.x * batch.extra

    def makes(x):
        batch = Batch(x)
        batch.extra = 3.0
        return batch

    reads, makes = compile(reads), compile(makes)
    found = []
    for extra in (2.0, 3.0):
        batch = Batch(normal(3))
        batch.extra = extra
        found += [reads(batch), makes(normal(3)).extra]
    return found


@case
@runs_uncompiled
def hooks_that_a_function_adds(compile):
    w = normal(3).requires_grad_()

    def adds(x):
        w.grad = None
        w.register_hook(lambda g: g * 2)
        (w * x).sum().backward()

    def adds_to_argument(x):
        x.register_hook(lambda g: g * 3)
        (x * x).sum().backward()

    def adds_after(x):
        v.register_post_accumulate_grad_hook(lambda v: found.append(v.grad))
        (v * x).sum().backward()

    def adds_to_result(y):
        y.register_hook(lambda g: g * 5)
        return (y * y).sum()

    def retains(x):
        y = u * x
        y.retain_grad()
        return y

    functions = adds, adds_to_argument, adds_after, adds_to_result, retains
    adds, adds_to_argument, adds_after, adds_to_result, retains = map(compile, functions)
    v, u, found = normal(3).requires_grad_(), normal(3).requires_grad_(), []
    for seed in range(3):
        x = normal(3, seed=seed).requires_grad_()
        adds(x.detach())
        adds_to_argument(x)
        adds_after(x.detach())
        found += [w.grad, gg.tensor(x.grad)]
        adds_to_result(x * 2).backward()
        y = retains(x.detach())
        (y * y).sum().backward()
        found += [x.grad, y.grad]
    return found


@case
@runs_uncompiled
def random_numbers_of_others(compile):
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    generator, other = np.random.default_rng(0), random.Random(0)
    found = []
    for draw in (random.random, np.random.rand, generator.random, other.random):
        found += after(compile(lambda x, draw=draw: x * (draw() + generator.random())))
    return found


@case
def errors_in_later_calls(compile):
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4))
    optimizer = optim.Adam(model.parameters())

    step = compile(training(optimizer, lambda x, y: F.cross_entropy(F.dropout(model(x)), y)))
    found, labels = [], gg.asarray(np.arange(4))
    for i in range(6):
        try:
            found.append(step(normal(4, 3), labels + int(i == 4)))
        except IndexError as error:
            found.append(str(error))
        found += [gg.tensor(x) for x in (*model.parameters(), *model.buffers())]
        found.append(gg.random.default_generator().get_state())
    return found


# Numbers, training


@case
@runs_uncompiled
def passes_through_loaders(compile):
    samples = data.TensorDataset(normal(5, 3), normal(5))
    loader = data.DataLoader(samples, batch_size=2)
    shuffled = data.DataLoader(samples, batch_size=2, shuffle=True, prefetch=1)
    w = normal(3).requires_grad_()
    optimizer = optim.SGD([w], lr=0.1)

    def train(loader):
        for x, y in loader:
            optimizer.zero_grad()
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    train = compile(train)
    found = [train(a) for a in (loader, shuffled) * 3]
    return [*found, w.detach(), loader.state_dict(), shuffled.state_dict()]


# Those of which a check, which runs the function too, must leave no trace.
CHECKED = [
    arguments_that_the_function_changes, iterators_as_arguments, hooks_that_a_function_adds,
    random_numbers_of_others, errors_in_later_calls,
]  # fmt: skip


@pytest.mark.parametrize(
    "function, check",
    [*[(f, 0) for f in CASES], *[(f, 1) for f in CHECKED]],
    ids=lambda x: x if isinstance(x, int) else x.__name__,
)
def test_nothing_is_stale(function, check):
    compiled = []

    def compile(f):
        compiled.append(gg.compile(f, check=check))
        return compiled[-1]

    is_recorded = not hasattr(function, "runs_uncompiled")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error" if is_recorded else "ignore")
        gg.manual_seed(1)
        found = function(compile)
        gg.manual_seed(1)
        expected = function(lambda f: f)
    assert bits(found) == bits(expected)
    assert all(f._given_up is not is_recorded for f in compiled)
    assert all(bool(f._programs or f._tapes) is is_recorded for f in compiled)


def test_gradients_as_arguments():
    """They are told from other tensors where the function changes them in place."""

    def run(compile):
        w = normal(3).requires_grad_()
        (w * w).sum().backward()

        def scales(x):
            w.grad.__imul__(2.0)
            return x * 2

        scales = compile(scales)
        return [*[scales(normal(3, seed=i)) for i in range(4)], scales(w.grad), w.grad]

    assert bits(run(gg.compile)) == bits(run(lambda f: f))


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


class Settings:
    def __init__(self):
        self.factor = 2.0


class Dense(nn.Module):
    def __init__(self):
        self.w, self.settings = nn.Parameter(normal(3, 2, seed=1)), Settings()

    def forward(self, x):
        return x @ self.w * self.settings.factor


def test_listed_state_is_fresh_and_written_back():
    def run(compile):
        model, mean, seen = Dense(), gg.zeros(2), {"scale": 1.0, "x": normal(2, seed=3)}
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        generator = gg.random.Generator(3)

        @compile
        def step(x):
            optimizer.zero_grad()
            noise = generator.normal((4, 2))
            out = model(x) * seen["scale"] + seen["x"] + noise
            mean.__imul__(0.9)
            mean.__iadd__(out.detach().mean(axis=0))
            loss = (out * out).mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss

        found = after(
            step,
            lambda: model.load_state_dict({"w": normal(3, 2, seed=2)}),
            lambda: seen.update(scale=0.5, x=normal(2, seed=4)),
            lambda: setattr(model.settings, "factor", 3.0),
            lambda: optimizer.param_groups[0].update(weight_decay=0.3),
            lambda: generator.reseed(5),
        )
        return found, [*model.parameters()], mean, model.settings.factor, optimizer.state_dict()

    expected = run(lambda f: f)
    compiled = []

    def with_state(f):
        compiled.append(gg.compile(f, state=[cell.cell_contents for cell in f.__closure__]))
        return compiled[0]

    assert bits(run(with_state)) == bits(expected)
    assert compiled[0]._programs


def test_what_is_not_listed_is_constant():
    w, settings, model = normal(3, seed=1), Settings(), nn.Linear(3, 2).requires_grad_(False)
    x = normal(4, 3)

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
    for _ in range(3):
        checked(x)
    settings.factor = 2.0
    with pytest.raises(RuntimeError, match="these differ"):
        checked(x)


def test_what_is_not_listed_is_no_reason_not_to_compile():
    w, stream, local = nn.Parameter(normal(3)), iter(range(9)), threading.local()
    local.scale = 2.0
    optimizer = optim.SGD([w])

    def step(x):
        optimizer.zero_grad()
        loss = (x * w * local.scale).sum() * len([stream])
        loss.backward()
        optimizer.step()
        return loss

    with pytest.warns(UserWarning, match="it names a _local, into which"):
        [f(normal(3)) for f in [gg.compile(step)] * 3]
    f = gg.compile(step, state=[optimizer])
    for _ in range(4):
        f(normal(3))
    assert f._programs


@pytest.mark.parametrize(
    "listed, message",
    [
        ((), "a gradient reaches a tensor that compile cannot see"),
        (("w", "total"), "an optimizer makes state of what `state` lists; list the optimizer too"),
        (("w", "optimizer"), "it keeps a tensor where compile cannot see it"),
    ],
)
def test_what_is_not_listed_but_changes(listed, message):
    def run(compile):
        w, total = nn.Parameter(normal(3)), gg.zeros(())
        optimizer = optim.Adam([w])

        def step(x):
            total.__iadd__(x.sum())
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()

        named = {"w": w, "total": total, "optimizer": optimizer}
        step = compile(step, [named[name] for name in listed])
        for seed in range(4):
            step(normal(3, seed=seed))
        return w, w.grad, total, optimizer.state_dict()

    expected = run(lambda f, state: f)
    with pytest.warns(UserWarning, match=f"step runs without being compiled: {message}"):
        found = run(lambda f, state: gg.compile(f, state=state))
    assert bits(found) == bits(expected)


def test_what_a_function_calls_is_seen_whatever_is_listed():
    f = gg.compile(lambda x: (print(end=""), x * 2), state=[])
    with pytest.warns(UserWarning, match="it calls print"):
        [f(normal(3)) for _ in range(3)]


@pytest.mark.parametrize(
    "state, message",
    [
        (nn.Linear(2, 2), "state must be a list, not a Linear; state may hold modules, optimizers"),
        ([normal], "containers and objects, not normal"),
        ([nn.Linear], "containers and objects, not Linear"),
        ([0.1], "containers and objects, not 0.1"),
        ([math], "containers and objects, not math"),
        ([iter("ab")], "containers and objects, not it names a str_ascii_iterator, into which"),
    ],
)
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
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(4):
                f(normal(3))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note_time)
    assert times
    assert f.program(normal(3))
