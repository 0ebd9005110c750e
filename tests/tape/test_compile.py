"""Compiled functions give what the functions themselves give, to the bit, and nothing stale."""

import collections
import functools
import random
import re
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from adversarial.harness import bits as description
from adversarial.harness import normal, refuse_failures, training
from both_ways import MODELS, bits, both_ways, is_replayed, replays, same, switching_often
from cases import CASES, SHAPED_BY_VALUES
from samples import every
from test_interrupts import interrupted

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import nn, optim
from gpugrad._thread_state import thread
from gpugrad.backends.native import base
from gpugrad.backends.placing import place
from gpugrad.tape.memory_plan import Storage


@pytest.fixture(autouse=True)
def _programs_fail_only_where_functions_do(monkeypatch):
    refuse_failures(monkeypatch)


def trainer(make_model, make_optimizer):
    """A step of training and a function that describes all that it changes."""
    gg.manual_seed(0)
    model = make_model()
    optimizer = make_optimizer(model.parameters())

    clip = nn.utils.clip_grad_norm_, [*model.parameters()], 0.5
    step = training(optimizer, lambda x, y: F.mse_loss(model(x), y), *clip)
    return step, lambda: description([model, optimizer, gg.random.default_generator()])


def mlp():
    layers = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 1)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("name", MODELS)
@both_ways
def test_layers_train_as_without_it(compile, name):
    make_model, shape = MODELS[name]
    step, state = trainer(make_model, lambda p: optim.Adam(p, lr=0.01))
    step, y = compile(step), gg.zeros(make_model()(normal(*shape)).shape)
    return [(step(normal(*shape, seed=seed), y), state()) for seed in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.op not in SHAPED_BY_VALUES | {"repeat"}], ids=lambda c: c.op
)
def test_every_op_has_the_bits_that_it_has_without_it(case):
    for sample, checked in every(case.samples):
        with checked, warnings.catch_warnings(action="ignore"):  # of infinities and the like

            def function(*inputs, sample=sample):
                leaves = [x for x in inputs if getattr(x, "requires_grad", False)]
                outputs = case(inputs, sample.static)
                outputs = outputs if isinstance(outputs, tuple) else (outputs,)
                recorded = [y for y in outputs if y.requires_grad]
                if not recorded or any("complex" in str(y.dtype) for y in recorded):
                    return *outputs, *[None for _ in leaves]
                total = sum([gg.sum(y) for y in recorded[1:]], gg.sum(recorded[0]))
                found = gg.autograd.grad(total, leaves, allow_unused=True)
                return *[y.detach() for y in outputs], *found

            compiled = gg.compile(function)
            for example in range(3):
                given = sample.arrays("float32", example)
                inputs = [gg.asarray(x) if isinstance(x, np.ndarray) else x for x in given]
                if case.differentiable:
                    for x in inputs:
                        if isinstance(x, gg.Tensor) and gg.isdtype(x.dtype, "real floating"):
                            x.requires_grad_()
                try:
                    expected = function(*inputs)
                except (TypeError, ValueError, IndexError, ZeroDivisionError):
                    break  # some draws are beyond the op's domain
                try:
                    found = compiled(*inputs)
                except RuntimeError as error:
                    if "what its values say" not in str(error):  # of an index of bools
                        raise
                    break
                same(found, expected)


@pytest.mark.slow
def test_twins_are_there_at_the_first_call():
    code = """
import gpugrad as gg
x = gg.random.normal((64, 64))
compiled = gg.compile(lambda x: gg.gelu(x))(x)
assert (compiled == gg.gelu(x)).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_compiled_step_overwrites_what_a_graph_of_the_function_has_saved():
    model = mlp()
    step = gg.compile(training(optim.SGD(model.parameters()), lambda x: model(x).sum()))
    for _ in range(3):
        step(normal(4, 3))
    y = model(normal(4, 3).requires_grad_()).sum()
    step(normal(4, 3))
    with pytest.raises(RuntimeError, match="overwritten in place"):
        y.backward()


# State


def test_a_counter_is_counted_with_a_warning():
    counts = [0]

    def f(x):
        counts[0] += 1
        return x * counts[0]

    compiled = gg.compile(f)
    with pytest.warns(UserWarning, match="recorded 16 times in a row") as caught:
        found = [compiled(normal(3)) for _ in range(39)]
    same(found, [normal(3) * i for i in range(1, 40)])
    assert len(caught) == 1


@both_ways
def test_random_numbers_and_their_state(compile, monkeypatch):
    monkeypatch.setattr(gg.random, "_generators", {})  # the function is the first to use one

    def f(x):
        y = gg.checkpoint(lambda x: F.dropout(x, 0.5) * gg.random.uniform(3), x)
        g = gg.grad(lambda x: gg.checkpoint(lambda x: (x * gg.random.normal(3)).sum(), x))(x)
        return y, g, gg.random.integers(0, 9, 4), gg.random.permutation(5)

    f = compile(f)
    gg.manual_seed(3)
    return [f(normal(3)) for _ in range(4)], repr(gg.random.default_generator().get_state())


# Arguments and results


def test_a_call_without_tensors_runs_as_it_is():
    double = gg.compile(lambda x: x * (2 if type(x) is int or len(x) == 3 else random.random()))
    with pytest.warns(UserWarning, match="in this call it has no tensors to compute with"):
        assert double(3) == 6
    for _ in range(40):
        assert double(3) == 6
    for _ in range(3):
        same(double(normal(3)), normal(3) * 2)
    assert is_replayed(double)
    with pytest.warns(UserWarning, match="runs without being compiled: it (draws|calls) random"):
        [double(normal(2)) for _ in range(3)]


def test_a_function_that_may_read_the_clock_of_numpy_runs_as_it_is():
    f = gg.compile(lambda x: x * (np.datetime64("now") > np.datetime64(0, "s")))
    with pytest.warns(UserWarning, match="it uses datetime64"):
        [f(normal(3)) for _ in range(3)]


def test_two_calls_that_compute_with_other_operands_are_not_taken_for_one():
    calls = []

    def f(x, y):
        calls.append(None)  # which compile is told not to see
        return x - y if len(calls) % 2 else y - x

    compiled = gg.compile(f, state=[])
    x, y = gg.tensor([1.0, 2.0]), gg.tensor([4.0, 3.0])
    same(compiled(x, y), x - y)
    with pytest.warns(UserWarning, match="call 0 is subtract, which is not the same in both"):
        found = compiled(x, y)
    same([found, compiled(x, y), compiled(x, y)], [y - x, x - y, y - x])


def test_a_slice_that_ends_where_values_say_is_not_compiled():
    def f(x, n):
        return gg.asarray(x[:n]) * 2

    compiled, x = gg.compile(f), np.arange(6.0)
    with pytest.warns(UserWarning, match="the number of elements of a getitem depends on values"):
        compiled(x, np.array(3))
    for n in (3, 3, 1, 2, 4):  # one element would be broadcast
        same(compiled(x, np.array(n)), f(x, np.array(n)))


@both_ways
def test_an_argument_that_is_a_parameters_memory(compile):
    gg.manual_seed(0)
    layer = nn.Linear(3, 3, bias=False)
    step = training(optim.SGD(layer.parameters(), lr=0.1), lambda x: (layer(x) * x).sum())
    f = compile(lambda x: (step(x), x + 0))  # the latter sees what the step wrote into x
    x, weight = normal(3, 3), layer.weight
    inputs = (x, x, weight.detach(), weight.detach(), x, gg.asarray(weight.array[::-1]), x)
    return [f(x) for x in inputs]


def test_arrays_that_are_made_inside_the_function():
    places, key = gg.asarray([2, 0]), (np.array([1, 0]), slice(None))

    def written(x):
        y, z = gg.zeros((3, 2)), x * 1
        y[gg.argmax(x, axis=0)] = x[0]
        y[0] = 1.0
        y += x
        z[np.arange(2), 0] = 5.0
        z[key] = 2.0
        return y, z

    for f in (
        written,
        lambda x: x[places] + x[key] + x[np.arange(2), np.array([[1], [0]])],
        lambda x: gg.arange(6.0)[gg.argmax(x, axis=0)] + x[np.array([True, False, True])][0],
        lambda x: gg.stack([x[0], gg.ones(2)]) * np.ones(2, np.float32) + np.float32(2),
        lambda x: gg.where(np.array([[True, False]]), x, 0.0) @ np.ones((2, 3), np.float32),
    ):
        replays(f, *[(normal(3, 2, seed=i),) for i in range(3)])


@pytest.mark.parametrize("shape", [(), (1, 1), (3,)])
def test_complex_numbers(shape):
    def f(x):
        y = x * gg.cos(x)
        y *= x
        return y / (x + 1j)

    def through(f, x):
        x = gg.tensor(x, requires_grad=True)
        y = f(x)
        return y.detach(), *gg.autograd.grad([y], [x], [y.detach()])

    compiled, differentiable = gg.compile(functools.partial(through, f)), gg.compile(f)
    with warnings.catch_warnings(action="error" if shape else "ignore"):
        for seed in range(20):
            x = normal(2, *shape, seed=seed)
            x = x[0] + 1j * x[1]
            same((compiled(x), through(differentiable, x)), [through(f, x)] * 2)
    assert is_replayed(compiled)


def test_a_program_does_not_warn_of_infinities():
    compiled = gg.compile(lambda x: gg.log(x))
    with np.errstate(all="ignore"):
        expected, _, _ = [compiled(gg.zeros(3)) for _ in range(3)]
    with warnings.catch_warnings(action="error"):
        same(compiled(gg.zeros(3)), expected)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="log: divide by"):
        compiled(gg.zeros(3))


# Errors


@pytest.mark.parametrize("last, bad", [
    (lambda h, i: F.cross_entropy(h.detach(), i + 1), 3),
    (lambda h, i: F.cross_entropy(h, i + 1).backward(), 3),
    (lambda h, i: gg.arange(3) ** i[:3], -1),
    (lambda h, i: h.detach().__setitem__((0, i + 1), 1.0), 3),
], ids=["labels", "labels-of-gradient", "power", "assignment"])  # fmt: skip
@both_ways
def test_an_error_after_a_step_leaves_the_step(compile, last, bad):
    """Values that the function itself computes cannot be checked beforehand."""
    gg.manual_seed(0)
    model = nn.Linear(3, 4)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    train = training(optimizer, lambda x: (F.dropout(model(x), 0.5) ** 2).mean())

    @compile
    def step(x, i):
        train(x)
        return last(model(x), i)

    found, errors = [], []
    for k in [0, 0, 0, bad, 0]:
        try:
            step(normal(4, 3), gg.asarray(np.full(4, k)))
        except (IndexError, ValueError) as error:
            errors.append(f"{type(error).__name__}: {error}".partition(";")[0])
        found.append(description([model, optimizer, gg.random.default_generator()]))
    assert len(errors) == 1
    return found, errors


def test_labels_that_are_a_part_of_an_argument_are_checked():
    f = gg.compile(lambda x, y: F.cross_entropy(x[1:], y[1:].reshape((3,))))
    x, labels = normal(4, 4), gg.asarray(np.arange(4))
    expected = F.cross_entropy(x[1:], labels[1:])
    same(f(x, labels), expected)
    with pytest.raises(IndexError, match="labels must be from 0 to 3"):
        f(x, labels + 1)
    same(f(x, labels), expected)


READS = {
    "float": lambda x: float(x.sum()), "int": lambda x: int(x.sum()), "format": lambda x: f"{x}",
    "bool": lambda x: bool(x.sum() > 0), "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(), "numpy": lambda x: x.numpy(), "mask": lambda x: x[x > 0],
    "asarray": lambda x: np.asarray(x), "nonzero": lambda x: gg.nonzero(x > 0),
    "unique": lambda x: gg.unique_values(x), "index": lambda x: [1, 2, 3][gg.argmax(x)],
}  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_functions_that_read_values_run_as_they_are(read):
    """Also where they begin to read only later."""
    reads, x = [], normal(3)
    f = gg.compile(lambda x: READS[read](x * 2) if reads else x + 1)
    for _ in range(3):
        same(f(x), x + 1)
    reads.append(True)
    for g in f, gg.compile(lambda x: READS[read](x * 2)):
        with pytest.warns(UserWarning, match=r"(?s)without being compiled: .*test_compile\.py"):
            same(g(x), READS[read](x * 2))
        for seed in range(4):
            same(g(normal(3, seed=seed)), READS[read](normal(3, seed=seed) * 2))


class Logger:
    def __init__(self):
        self.losses, self.last = [], {}
        self.optimizer = optim.SGD([gg.ones(3).requires_grad_()], lr=0.1)
        self.plateau = optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)

    def append(self, x):
        self.losses.append(x.sum())  # the line of the list

    def put(self, x):
        self.last[len(self.last)] = x.sum()

    def show(self, x):
        print("the loss", end="")  # a line of the program that has more than eighty characters

    def decay(self, x):
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.9

    def reduce(self, x):
        self.plateau.step(x.sum())


@pytest.mark.parametrize("name, message", {
    "append": r"it adds to or takes from 'losses', in .*: `self.losses.append\(x.sum\(\)\) .*`; "
    "return the value, and put it there outside",
    "put": "it adds to or takes from 'last'; return the value, and put it there outside",
    "show": r"it calls print, in .*: `print\(.the loss., end=..\)  # a line of the program that "
    r"has more than eighty \.\.\.`; compile cannot see .* so call it outside: return what it needs",
    "decay": "it changes 'lr' of an optimizer; change it outside, or by a scheduler",
    "reduce": r"a scheduler reads a value .*, in .*: `self.plateau.step\(x.sum\(\)\)`; return it",
}.items())  # fmt: skip
def test_warnings_say_where_and_what_to_do(name, message):
    method = getattr(Logger(), name)
    f = gg.compile(lambda x: (method(x), x * 2)[1])
    with pytest.warns(UserWarning, match=f"runs without being compiled: {message}"):
        [f(normal(3)) for _ in range(4)]


@pytest.mark.parametrize("argument, message", [
    (lambda k: normal(k), "the shape of argument 1; pad it to a few shapes, or leave the function"),
    (lambda k: k, r"argument 1; if it is a number, make it gpugrad.tensor\(number\)"),
])  # fmt: skip
def test_the_warning_of_many_recordings_says_what_changed(argument, message):
    f = gg.compile(lambda x, y: x.sum() * y)
    with pytest.warns(UserWarning, match=f"16 times in a row because of what changed: {message}"):
        [f(normal(3), argument(k)) for k in range(1, 20)]


def test_the_table_of_a_long_program_says_where_the_rest_is():
    program = gg.compile(lambda x: sum([x @ x for _ in range(20)])).program(normal(3, 3))
    assert len(program.rows) > 30
    assert repr(program).endswith(
        f"... {len(program.rows) - 30} more; the attribute rows has all of them"
    )


@pytest.mark.slow
def test_an_interrupt_anywhere_while_recording_leaves_real_arrays():
    step, state = trainer(mlp, optim.Adam)
    inputs = normal(4, 3), normal(4, 1)
    step(*inputs)
    for number in range(1, 60_000, 9_001):
        compiled = gg.compile(step)
        with suppress(KeyboardInterrupt):
            interrupted(functools.partial(compiled, *inputs), number)
        assert thread.recorder is None
        assert re.findall(r"'Tensor', \('(\w+)", repr(state())).count("ndarray") > 20
    compiled(*inputs)


def test_a_tensor_that_is_kept_unseen(monkeypatch):
    monkeypatch.setattr(np, "_kept_by_a_test", [], raising=False)

    def keep(x):
        modules = getattr(sys, "seludom"[::-1])  # compile looks for names, not for such texts
        modules["numpy"]._kept_by_a_test.append(x)
        return x * 2

    compiled = gg.compile(lambda x: keep(x * 3))
    compiled(normal(3))
    with pytest.warns(UserWarning, match="keeps a tensor where compile cannot see it"):
        compiled(normal(3))
    compiled(normal(3))
    for y in np._kept_by_a_test:
        assert type(y.array) is np.ndarray
        same(y, normal(3) * 3)
    assert len(np._kept_by_a_test) == 3


def test_the_arguments_of_compile():
    for error, message, make in (
        (TypeError, "must be a function", lambda: gg.compile(3)),
        (ValueError, "check must be an int", lambda: gg.compile(abs, check=-1)),
        (ValueError, "kernels must be True or", lambda: gg.compile(abs, kernels="no")),
        (TypeError, "unexpected keyword argument 'chek'", lambda: gg.compile(chek=2)),
        *[
            (TypeError, f"compile: there is no option {name}: leave it out",
             functools.partial(gg.compile, abs, **{name: value}))
            for name, value in [("mode", "x"), ("fullgraph", True), ("backend", "inductor")]
        ],
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            make()
    assert repr(gg.compile(nn.Linear(2, 1))).startswith("gpugrad.compile(Linear(")


def test_functions_and_methods_of_numpy():
    x = np.full(3, 4, np.float32)
    for function in (np.sqrt, lambda x: np.add(x, x) * np.float32(2)):
        replays(lambda x, f=function: gg.asarray(f(x)), *[(x,)] * 4)
    for function in (np.sum, lambda x: x.sum(), lambda x: np.add.reduce(x)):
        compiled = gg.compile(lambda x, f=function: gg.asarray(f(x)))
        with pytest.warns(UserWarning, match="make the array a tensor first"):
            same(compiled(x), gg.asarray(function(x)))


# Derivatives and transforms


def test_a_pass_does_not_run_the_function_again():
    """Nor does it look at what the graph has not saved, whatever the cotangents are."""
    w, v = normal(3, 3, seed=1).requires_grad_(), normal(3, 3, seed=2).requires_grad_()

    def f(x):
        return gg.exp(w) @ v + x, w * x

    compiled = gg.compile(f)
    cotangents = normal(3, 3, seed=7), normal(3, 3, seed=8).T, normal(3, 3, seed=9)[::-1]
    for i in range(9):
        x, g, found = normal(3, 3, seed=i), cotangents[i % 3], []
        before = w.array.copy(), v.array.copy()
        for function in f, compiled:
            w.array[...], v.array[...] = before
            y, _ = function(x)
            w.array[...] = 0  # the graph has saved exp(w)
            w.grad = v.grad = None
            y.backward(g, retain_graph=True)
            (first,) = gg.autograd.grad([y], [v], [g], create_graph=True)
            found.append([w.grad, v.grad, first.detach()])
        w.array[...], v.array[...] = before
        same(*found)
    assert is_replayed(compiled)
    assert len([p for p in compiled._programs[0].tape.graph.sweeps.programs.values() if p]) == 3


def test_programs_of_backward_passes():
    """There is one for each kind of pass, which also adds to what comes from elsewhere."""
    w, v = normal(3, 3, seed=1).requires_grad_(), normal(3, 3, seed=2).requires_grad_()

    def f(x):
        h = gg.tanh(x @ w)
        return h, (h * v).sum()

    compiled = gg.compile(f)
    for _ in range(4):
        for k in range(4):
            found = []
            for function in f, compiled:
                w.grad = v.grad = None
                (h, loss), (_, other) = function(normal(3, 3, seed=k)), function(normal(3, 3))
                [loss, h.sum(), loss + h.sum() + (w * w).sum(), loss + other][k].backward()
                found.append((w.grad, v.grad))
            same(*found)
    programs = compiled._programs[0].tape.graph.sweeps.programs
    assert len(programs) == 4
    assert None not in programs.values()


# Tools, threads, libraries


def test_the_program_as_table_and_drawing():
    compiled = gg.compile(lambda x: gg.sin(x) + gg.cos(x) * 2)
    report = compiled.program(normal(3))
    assert [row["function"] for row in report.rows] == ["sin", "cos", "multiply", "add"]
    assert report.rows[3]["memory"] == "new"
    assert "sin" in repr(report)
    assert report.needed_bytes <= report.planned_bytes
    assert "cos" in report.draw("LR").mermaid
    linear = gg.compile(lambda x, w, b: gg.exp(gg.linear(x, w, b)))  # adds the bias in place
    picture = linear.program(normal(4, 2), normal(3, 2), normal(3)).draw().mermaid
    of = {name: box for box, name in re.findall(r'(n\d+)\["(\w+)', picture)}
    assert f"{of['matmul']} --> {of['iadd']}" in picture
    assert f"{of['iadd']} --> {of['exp']}" in picture
    assert f"{of['matmul']} --> {of['exp']}" not in picture
    with gg.profile() as profile:
        compiled(normal(3))
    assert "sin" in str(profile)
    with pytest.raises(ValueError, match="direction"):
        report.draw("up")
    with pytest.raises(ValueError, match="seeds"):
        gg.compile(lambda x: (gg.manual_seed(0), gg.random.normal(3) * x)).program(normal(3))


def test_large_values_wait_for_nothing(monkeypatch):
    """The gradients of two hidden layers, and the inputs of these, are never all there at once."""
    monkeypatch.setattr("gpugrad.tape.memory_plan.LARGE", 1 << 18)
    model, x = nn.MLP(32, [512, 512, 2], activation=nn.ReLU), normal(256, 32)
    step = training(optim.SGD(model.parameters(), lr=0.1), lambda: model(x).sum())
    step()
    report = gg.compile(step).program()
    assert report.planned_bytes < 2.5 * (256 * 512 * x.dtype.itemsize)
    assert report.needed_bytes <= report.planned_bytes


def test_values_that_live_at_one_time_lie_apart():
    numbers = random.Random(0)
    for n in (1, 5, 60):
        storages = []
        for _ in range(n):
            first, size = numbers.randrange(n), numbers.choice([4, 64, 100, 4096])
            storages.append(Storage("planned", size, first, first + numbers.choice([0, 1, 2, n])))
        total = place(storages, lambda s: (s.nbytes, s.first, s.last))
        placed = []
        for s in sorted(storages, key=lambda s: (-s.nbytes, s.first)):
            size = -(-s.nbytes // 64) * 64
            taken = [span for t, *span in placed if t.first <= s.last and s.first <= t.last]
            ends = (0, *[end for _, end in taken])
            free = [x for x in ends if all(x + size <= start or end <= x for start, end in taken)]
            assert s.offset == min(free)
            placed.append((s, s.offset, s.offset + size))
        assert total == max(end for *_, end in placed)


def test_the_calls_grow_no_faster_than_the_arguments():
    def calls(n):
        compiled = gg.compile(lambda *xs: sum(xs[1:], xs[0]))
        for _ in range(2):
            compiled(*[normal(2, seed=i) for i in range(n)])
        return len(compiled.program(*[normal(2, seed=i) for i in range(n)]).rows)

    assert calls(80) < 2.5 * calls(40)


def test_a_comparison_with_a_scalar_waits_for_the_scalar(monkeypatch):
    monkeypatch.setattr("gpugrad.tape.memory_plan.LARGE", 1 << 18)

    above_all = gg.op(lambda xp, x, y: x > xp.max(y))

    def function(x):
        y = x @ x
        total, z = (y * 0.5).sum(), x @ x.T @ x.T @ x
        return total, z.sum(), above_all(y, z).sum()

    x = normal(300, 300)
    same(function(x), gg.compile(function)(x))


@pytest.mark.parametrize("batch", [1, 64])
def test_small_outer_products_and_moved_calls_have_the_bits_of_eager_ones(monkeypatch, batch):
    """Also where zeros meet negative numbers, in blocks, and where products follow each other."""
    monkeypatch.setattr("gpugrad.tape.memory_plan.LARGE", 1 << 15)
    layers = nn.Linear(512, 400), nn.ReLU(), nn.ReLU(), nn.Linear(400, 400), nn.Linear(400, 100)
    model, x = nn.Sequential(*layers), gg.relu(normal(batch, 512))
    step = training(optim.SGD(model.parameters(), lr=0.1), lambda: (model(x) ** 2).mean())
    start = {name: gg.asarray(value, copy=True) for name, value in model.state_dict().items()}
    found = []
    for f in (step, gg.compile(step)):
        model.load_state_dict(start)
        for _ in range(3):
            f()
        found.append(description(model))
    assert found[0] == found[1]


@pytest.fixture
def break_programs(monkeypatch):
    """A function after whose call the programs of a compiled function fail."""
    monkeypatch.undo()  # so that there are warnings

    def empty():
        raise MemoryError("there is none")

    def break_them(programs):
        for program in programs:
            program.use_kernels()  # which would take the place of the calls later
            program._before.insert(0, empty)

    return break_them


def doubled(x):
    return x * 2 + 1


def test_a_program_that_fails_where_its_function_does_not(break_programs):
    """A warning says so once."""
    compiled, x = gg.compile(doubled), normal(300, 300)
    for _ in range(3):
        same(compiled(x), doubled(x))
    break_programs(compiled._programs)
    message = "doubled ran without .* its calls failed: MemoryError: there is none. The"
    with pytest.warns(RuntimeWarning, match=message) as found:
        same(compiled(x), doubled(x))
    assert [w.filename for w in found] == [__file__]
    with warnings.catch_warnings(action="error"):
        same(compiled(x), doubled(x))


def test_a_backward_program_that_fails(break_programs):
    def f(x):
        return gg.sum(gg.sin(x) * x)

    x, compiled = normal(300, 300).requires_grad_(), gg.compile(f)
    for _ in range(2):
        compiled(x)
    compiled(x).backward()
    x.grad = None
    y = compiled(x)
    break_programs(compiled._programs[0].tape.graph.sweeps.programs.values())
    with pytest.warns(RuntimeWarning, match="calls of its backward pass failed: MemoryError"):
        y.backward()
    same(x.grad, gg.grad(f)(x))


def test_checks_find_programs_that_fail(break_programs):
    compiled, x = gg.compile(doubled, check=3), normal(300, 300)
    compiled(x)
    compiled(x)
    break_programs(compiled._programs)
    message = "call 3 of doubled raises .* does not raise .*: MemoryError: there is none"
    with pytest.raises(RuntimeError, match=message) as error:
        compiled(x)
    assert type(error.value.__cause__) is MemoryError


@pytest.mark.usefixtures("no_collector")
def test_errors_of_a_program_do_not_keep_its_arguments():
    compiled, x = gg.compile(lambda x, i: gg.take(x, i, axis=0)), normal(4, 3)
    compiled(normal(4, 3), gg.tensor([0, 2]))
    known = weakref.ref(x)
    with suppress(IndexError):
        compiled(x, gg.tensor([0, 9]))
    del x
    assert known() is None


DROPPED = {
    "a step": lambda model: training(optim.Adam(model.parameters()), lambda x: model(x).sum()),
    "a graph": lambda model: lambda x: model(x).sum(),
    "products": lambda model: lambda x: (gg.exp(x) @ gg.exp(x.T)).sum(),
    "a choice": lambda model: lambda x: gg.where(x > 0, gg.exp(x), x).sum(),
}


def dropped(make):
    """Weak references to what a compiled function kept alive, which has run and is dropped."""
    model = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 2))
    step = gg.compile(make(model))
    for i in range(6):
        loss = step(normal(5, 64, seed=i))
        if loss.requires_grad:
            loss.backward()
    assert is_replayed(step)
    (program,) = step._programs
    kept = [model[0].weight, program, program.arena.base]
    if loss.requires_grad:
        kept += program.tape.graph.sweeps.programs.values()
    return [weakref.ref(x) for x in kept]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", DROPPED)
def test_the_state_of_a_function_that_is_dropped_is_freed_at_once(name):
    assert not any(x() for x in dropped(DROPPED[name]))


@pytest.mark.parametrize("check", [0, 1])
def test_errors_of_a_program_are_those_of_its_function(check):
    def rows_or_zeros(x, i):
        try:
            return gg.take(x, i, axis=0)
        except IndexError:
            return gg.zeros((2, 3))

    x, good, bad = normal(4, 3), gg.tensor([0, 2]), gg.tensor([0, 9])
    compiled = gg.compile(rows_or_zeros, check=check)
    for i in (good, bad, good):
        same(compiled(x, i), rows_or_zeros(x, i))
    assert is_replayed(compiled)
    compiled = gg.compile(lambda x, i: gg.take(x, i, axis=0), check=check)
    compiled(x, good)
    with pytest.raises(IndexError, match=r"^take: index 9 is") as error:
        compiled(x, bad)
    assert "Failed" not in "".join(traceback.format_exception(error.value))


def check_in_threads(function, inputs, expected, calls):
    start = threading.Barrier(len(inputs))

    def run(x):
        start.wait()
        return {bits(function(x)) for _ in range(calls)}

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert [*pool.map(run, inputs)] == [{bits(y)} for y in expected]


@switching_often()
def test_threads_may_call_and_go_backward_at_once():
    compiled = gg.compile(lambda x: gg.tanh(gg.exp(x * 0.1) * x + gg.sin(x) * x).sum())
    inputs = [normal(20000, seed=i).requires_grad_() for i in range(2)]

    def gradient(x):
        return gg.autograd.grad(compiled(x), x)[0]

    check_in_threads(gradient, inputs, [*map(gradient, inputs)], 100)


@pytest.mark.slow
@switching_often()
def test_threads_may_record_functions_of_one_model_at_once():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), normal(5, 8)
    expected = [(model(x) * k).detach() for k in range(4)]
    for _ in range(10):
        functions = [gg.compile(lambda x, k=k: (model(x) * k).detach()) for k in range(4)]
        check_in_threads(lambda f: f(x), functions, expected, 10)
        for f in functions:  # a busy machine may have let too little be recorded
            for _ in range(2):
                f(x)
            assert len(f._programs) == 1


def test_a_program_waits_while_another_thread_records():
    model, x = nn.Linear(8, 2), normal(5, 8)
    first = gg.compile(lambda x: model(x).detach())
    for _ in range(3):
        first(x)
    is_recording = threading.Event()

    def slow(x):
        is_recording.set()
        time.sleep(0.05)
        return model(x).detach()

    with ThreadPoolExecutor(1) as pool:
        recorded = pool.submit(gg.compile(slow), x)
        is_recording.wait()
        assert bits(first(x)) == bits(model(x))
        recorded.result()
    assert len(first._programs) == 1
    assert not first._tapes


def test_a_thread_may_keep_what_it_computes_with_a_model_that_another_records():
    layer, values = nn.Linear(100, 100), normal(1000, 100)
    expected = layer(values).detach()
    kept, is_done = collections.deque(maxlen=100), threading.Event()

    def computes():
        while not is_done.is_set():
            kept.append(layer(values))

    other = threading.Thread(target=computes)
    other.start()
    try:
        for _ in range(10):  # a second recording with a false reason would be the last one
            compiled = gg.compile(lambda x: layer(x).detach())
            for _ in range(4):
                same(compiled(values), expected)
            assert not compiled._given_up
    finally:
        is_done.set()
        other.join()
    for y in kept:
        same(y.detach(), expected)
        y.sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@both_ways
def test_other_libraries_replay(compile, library):
    module = pytest.importorskip(library)
    convert = module.asarray if library != "torch" else lambda a: module.from_numpy(a.copy())
    w = gg.asarray(convert(normal(3, 2).array)).requires_grad_()
    clips = nn.utils.clip_grad_norm_, [w], 0.1
    step = compile(training(optim.Adam([w]), lambda x: (gg.tanh(x @ w) ** 2).sum(), *clips))
    inputs = [gg.asarray(convert(normal(4, 3, seed=i).array)) for i in range(4)]
    return [[np.asarray(x.detach().array) for x in (step(x), w)] for x in inputs]


@both_ways
def test_bools_as_numbers(compile):
    x, b = normal(4, seed=1), gg.tensor([False, True, False, True])
    found = []
    for plain in lambda: x**True, lambda: True**x, lambda: 1 / (0.0 - b), lambda: 0.0 - (x > 9):
        f = compile(plain)
        found += [f() for _ in range(4)]
        if f is not plain:
            assert f.program().kernels is not None  # it waits for the compiler
        found += [f(), f()]
    return found


@both_ways
def test_no_warnings_come_from_making_a_program(compile):
    f = compile(lambda x: gg.where(x > 1, x + 1e39, x))
    with np.errstate(over="ignore"), warnings.catch_warnings(action="error"):
        return [f(normal(4, seed=i)) for i in range(5)]


_OUTER = gg.tensor([2.0, 3.0, 4.0])


@pytest.mark.parametrize("seed", [
    lambda: gg.ones(3), lambda: gg.arange(3.0), lambda: _OUTER, lambda: np.arange(3, dtype="f4")
], ids=["ones", "arange", "outer tensor", "NumPy array"])  # fmt: skip
def test_derivatives_along_what_the_function_makes(seed):
    """Arrays that are not traced, beside those that are."""
    w = gg.tensor(np.array([1.0, -2.0, 0.5], np.float32), requires_grad=True)

    def backward(x):
        w.grad = None
        (w * x).backward(gg.asarray(seed()))
        return w.grad

    def scaled(x):
        w.grad = None
        (w * x).sum().backward(gg.asarray(seed())[1])
        return w.grad

    for function in (
        backward, scaled, lambda x: gg.autograd.grad(w * x, [w], gg.asarray(seed()))[0],
        lambda x: gg.vjp(lambda a: a * a, x)[1](seed())[0],
        lambda x: gg.jvp(lambda a: a * a, (x,), (seed(),))[1],
        lambda x: gg.linearize(lambda a: a**3, x)[1](seed()),
    ):  # fmt: skip
        replays(function, *[(normal(3),)] * 4)


@pytest.mark.parametrize("key", [
    (slice(None), (0,)), (..., [2, 0, 2]), (slice(1), np.array([1, 2])), ((0, 1), (2, 2)),
])  # fmt: skip
def test_index_arrays_inside_a_hessian(key):
    a = normal(2, 3, seed=1)
    replays(gg.hessian(lambda p: ((a * p)[key] ** 3).sum()), [normal(3)], [normal(3, seed=2)])


def test_an_argument_as_the_index_of_each_example():
    """The examples are constants, and the index is not."""
    a = normal(4, 3, seed=1)

    def written(i, value):
        def write(row):
            row = row + row[i].sum()
            row[i] = value
            return row

        return gg.vmap(write)(a)

    replays(written, *[(gg.tensor(i), normal(2, seed=i[0])) for i in ([2, 0], [1, 2], [0, 1])])


def test_an_argument_as_the_index_of_a_sum():
    constant = normal(3, 2)
    inputs = [(gg.tensor(i),) for i in ([2, 0, 2], [1, 1, 1], [0, 1, 2])]
    for values in constant, constant.array:
        replays(lambda i, values=values: gg.scatter_add(values, (3, 2), i), *inputs)


@pytest.mark.parametrize("length", [8, 33])
@both_ways
def test_kernels_of_a_transformer(compile, length):
    model = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
    for i, p in enumerate(model.parameters()):
        p.array[...] = 0.1 * normal(*p.shape, seed=i).array
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    step = compile(training(optimizer, lambda x: (model(x, is_causal=True) ** 2).mean()))
    losses = []
    for i in range(6):
        if i == 4 and hasattr(step, "program"):
            step.program(normal(16, length, 32))  # waits for the kernels
        losses.append(step(normal(16, length, 32, seed=i)))
    return [*losses, *model.parameters()]


@pytest.mark.skipif(not base.is_expected(), reason="there is no compiler")
@pytest.mark.parametrize("rows", [32, 128])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_and_its_gradient_are_in_one_kernel(approximate, rows):
    """Also for few elements, for which `where` computes in another way."""
    weight, x = normal(rows, 64).requires_grad_(), normal(rows, 64, seed=1)

    @gg.compile
    def step(x):
        weight.grad = None
        loss = (gg.gelu(x * weight, approximate=approximate) * x).sum()
        loss.backward()
        return loss

    for _ in range(3):
        step(x)
    (kernel,) = step.program(x).kernels
    assert {"gelu", "gelu_vjp"}.issubset(re.split(r"[ -]", kernel.partition("\n")[0]))


@pytest.mark.parametrize("n", [3, 5000])
@pytest.mark.parametrize("make", [
    optim.Adamax, optim.Rprop, optim.Adafactor, optim.Muon,
    functools.partial(optim.Adam, amsgrad=True),
], ids=str)  # fmt: skip
@both_ways
def test_an_update_of_all_parameters_is_one_kernel(compile, make, n):
    """With the clipping before it; also where it assigns to arrays, divides by norms of whole
    arrays, and limits values by numbers that may change."""
    shapes = (2, n), (2, n), (n, 2)
    parameters = [normal(*shape, seed=k).requires_grad_() for k, shape in enumerate(shapes)]
    optimizer, clip = make(parameters, lr=0.1), (nn.utils.clip_grad_norm_, parameters, 0.5)
    step = compile(training(optimizer, lambda: sum((p**2).sum() for p in parameters), *clip))
    losses, has_products = [], base.is_expected() and sys.platform != "win32"
    for _ in range(8):
        losses.append(step())
        if len(losses) == 5 and hasattr(step, "program") and has_products:
            (kernel,) = step.program().kernels
            assert re.match(r"/\* [a-z_-]+ \*/\n", kernel)
    return [*losses, *parameters]
