"""Compiled functions on a GPU: one CUDA graph each, with the results of the function itself."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from both_ways import MODELS, normal, training
from cuda_device import IS_STAND_IN, host_must_not_wait, on_gpu

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import nn, optim

pytestmark = on_gpu


def why_call_by_call(compiled):
    """For each program of a compiled function, why its calls are not launched together, or None."""
    return [program.call_by_call for program in compiled._programs]


def assert_equal(found, expected, where=""):
    """On a GPU the products may be rounded otherwise, as their workspace is another."""
    tolerance = {"rtol": 0, "atol": 0} if IS_STAND_IN else {"rtol": 2e-3, "atol": 1e-5}
    np.testing.assert_allclose(found, expected, **tolerance, err_msg=where, strict=True)


def on_device(array):
    return gg.asarray(array, device="cuda")


def host(tensors):
    return [x.detach().cpu().numpy() for x in tensors]


def check(run, graphs=1):
    """``run(compile)`` returns the same arrays with `gpugrad.compile` and without.

    graphs: how many CUDA graphs the compiled function has then; None if that does not matter.
    """
    made = []

    def compile(function):
        made.append(gg.compile(function))
        return made[-1]

    found, expected = run(compile), run(lambda function: function)
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert_equal(x, y, f"array {i}")
    if graphs is not None:
        assert [why_call_by_call(f) for f in made] == [[None] * graphs]


class Training:
    """A model, its optimizer, and a step that may be compiled; the same for the same seed."""

    def __init__(self, compile, layers, optimizer, more=lambda self: None):
        gg.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 8), *layers(), nn.Linear(8, 4)).to("cuda")
        self.optimizer = optimizer(self.model.parameters())
        loss_of = lambda x, y: F.cross_entropy(self.model(x), y)  # noqa: E731
        self.eager = training(self.optimizer, loss_of, more, self)
        self.step = compile(self.eager)
        self.rng, self.mean = np.random.default_rng(0), gg.zeros((8, 3), device="cuda")

    def run(self, n=6, size=6):
        x = on_device(self.rng.standard_normal((n, size, 3)).astype("float32"))
        y = on_device(self.rng.integers(0, 4, (n, size)))
        return [self.step(x[i], y[i]) for i in range(n)]

    def state(self):
        """All numbers that training has changed, as NumPy arrays."""
        return host([
            self.mean, *self.model.state_dict().values(),
            *(x for state in self.optimizer.state_dict()["state"].values() for x in state.values()),
            *(p.grad for p in self.model.parameters()),
        ])  # fmt: skip


def clip(training):
    nn.utils.clip_grad_norm_(training.model.parameters(), 0.3)


def noise(training):
    """Draws numbers in the step."""
    for p in training.model.parameters():
        p.grad = p.grad + 0.01 * gg.random.normal(p.shape, device="cuda")


def average(training):
    """Replaces a tensor of the state."""
    training.mean = training.mean * 0.9 + training.model[0].weight.grad * 0.1


def no_layers():
    return [nn.ReLU()]


TRAININGS = {
    "sgd": (no_layers, lambda p: optim.SGD(p, lr=0.1)),
    "momentum and batch norm": (
        lambda: [nn.BatchNorm1d(8), nn.ReLU()],
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)),
    "adam and layer norm": (lambda: [nn.LayerNorm(8), nn.Tanh()],
                            lambda p: optim.Adam(p, lr=0.01, maximize=True), clip),
    "adamw and dropout": (lambda: [nn.GELU(), nn.Dropout(0.3), nn.Sigmoid(), nn.Dropout(0.1)],
                          lambda p: optim.AdamW(p, lr=0.01, amsgrad=True), clip),
    "updates of single parameters": (no_layers, lambda p: optim.RMSprop(p, lr=0.01)),
    "random numbers": (no_layers, lambda p: optim.SGD(p, lr=0.1), noise),
    "a running mean": (no_layers, lambda p: optim.SGD(p, lr=0.1), average),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAININGS)
def test_a_step_trains_as_the_function_does(name):
    """In between, the learning rate, the batch's size, the mode and weights change."""

    def run(compile):
        own = Training(compile, *TRAININGS[name])
        losses, grads = own.run(), [p.grad for p in own.model.parameters()]  # those of the caller
        own.optimizer.param_groups[0]["lr"] *= 0.5
        losses += own.run(2) + own.run(2, size=5) + own.run(1)
        own.model.eval()
        losses += own.run(2)
        own.model.train()
        own.model.load_state_dict({k: x + x // 2 for k, x in own.model.state_dict().items()})
        losses += own.run(2)
        for p in own.model.parameters():  # they lie elsewhere from now on
            p.array = p.array.copy()
        losses += own.run(3)
        if own.step != own.eager:
            assert set(why_call_by_call(own.step)) == {None}
        return [*host(losses), *host(grads), *own.state()]

    check(run, graphs=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_a_model_is_one_graph(name):
    make_model, shape = MODELS[name]

    def run(compile):
        gg.manual_seed(0)
        model = make_model().to("cuda")
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        step = compile(training(optimizer, lambda x: (model(x) ** 2).mean()))
        return host([step(normal(*shape, seed=i).to("cuda")) for i in range(6)])

    check(run)


def test_arguments_in_any_layout():
    @gg.compile
    def f(x, y):
        return x @ y + 1, x

    for made in (lambda x: x, lambda x: x.mT, lambda x: x[:, ::2], lambda x: x[::-1]):
        x = made(normal(4, 4).to("cuda"))
        y = normal(x.shape[1], 3).to("cuda")
        for _ in range(4):
            product, same = f(x, y)
            assert_equal(*host([product, x @ y + 1]))
            assert_equal(*host([same, x]))


def test_gradients_of_a_compiled_function():
    w = normal(4, 3).to("cuda").requires_grad_()

    def run(compile):
        f, found = compile(lambda x: gg.tanh(x @ w).sum(axis=1)), []
        for k in range(5):
            x = normal(2, 4, seed=k).to("cuda").requires_grad_()
            y = f(x)
            found += host([y, *gg.autograd.grad((y * y).sum(), [x, w])])
        if hasattr(f, "_programs"):
            programs = f._programs[0].tape.graph.sweeps.programs.values()
            assert [p.call_by_call for p in programs] == [None]
        return found

    check(run)


def test_a_tensor_that_is_written_and_gets_another_array():
    """Also results keep the values from before a write."""

    def run(compile):
        w, found = on_device(np.ones((1, 4), "float32")), []

        @compile
        def step(x, w=w):
            before = gg.asarray(w, copy=True)
            w.array += x.array
            w *= 0.5
            return before, before[:, ::2]

        for k in range(6):
            array = w.array  # which is written to
            results = step(on_device(np.arange(4.0, dtype="float32") + k))
            found += host([*results, w, gg.asarray(array)])
        return found

    check(run)


def test_results_that_show_the_same_memory():
    """What the caller writes into one of them is in the others, as without `compile`."""

    def function(x):
        y = x * 2
        return y, y[:, ::2], x.mT, w[1:]

    w, compiled = on_device(np.arange(3.0, dtype="float32")), gg.compile(function)
    for _ in range(4):
        x = normal(3, 4).to("cuda")
        y, part, turned, rest = compiled(x)
        for shown, whole in ((y, part), (x, turned), (w, rest)):
            before = whole.cpu().numpy()
            shown.array[...] += 1
            np.testing.assert_array_equal(whole.cpu().numpy(), before + 1)
    assert why_call_by_call(compiled) == [None]


@pytest.mark.filterwarnings("ignore")  # it may say that it is not compiled
def test_an_argument_in_the_memory_of_what_is_overwritten():
    def run(compile):
        total, found = on_device(np.ones(4, "float32")), []

        @compile
        def step(x):
            before = x * 1
            total.array += 2 * x.array
            return before, x + total

        for k in range(8):
            x = gg.asarray(total.array) if k in (4, 5, 6) else total + 1
            found += host(step(x))
        return [*found, *host([total])]

    check(run, graphs=None)


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_captured_runs_call_by_call():
    """Afterwards everything else works as before."""
    a, b = on_device(np.array([[2.0, 1.0], [0.0, 4.0]])), on_device(np.eye(2))
    solved = gg.compile(lambda b: gg.linalg.solve(a, b) * 2)
    doubled = gg.compile(lambda b: b @ b * 2)
    for _ in range(4):
        assert_equal(*host([solved(b), 2 * gg.linalg.inv(a)]))
        assert_equal(*host([doubled(b), b * 2]))
    assert why_call_by_call(solved) != [None] == why_call_by_call(doubled)
    assert "one by one" in repr(solved.program(b))
    assert "CUDA graph" in repr(doubled.program(b))


@pytest.mark.slow
@pytest.mark.parametrize("why", [None, "det"])
def test_programs_that_are_gone_leave_no_memory(why):
    """CuPy never frees the memory of a pool that is gone."""
    import cupy

    n, most = (200, 2**20) if IS_STAND_IN else (1000, 2**24)
    x = on_device(np.ones((n, n), "float32"))

    def run():
        w = on_device(np.ones((n, n), "float32"))

        @gg.compile
        def f(x):
            y = gg.tanh(x @ w) * 2 + 1
            return y.sum() + (gg.linalg.det(y) if why else 0)

        f(x)
        f(x)
        w.array = w.array.copy()  # what is captured is captured anew
        f(x)
        (reason,) = why_call_by_call(f)
        assert reason is why or reason.startswith(why)

    def free():
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
        return gg.cuda.memory_stats().free

    run()
    before = free()
    for _ in range(5):
        run()
    assert before - free() < most


def test_plans_of_fourier_transforms_are_kept():
    """CuPy keeps those that were used last."""

    def f(x):
        return gg.fft.ifft(gg.fft.fft(x) * 2)

    compiled, x = gg.compile(f), on_device(np.arange(24, dtype="complex64").reshape(2, 12))
    expected = host([f(x)])[0]
    for others in (0, 0, 40, 0):
        assert_equal(host([compiled(x)])[0], expected)
        for n in range(1, others):
            f(on_device(np.ones(n, "complex64")))
    assert_equal(host([compiled(x)])[0], expected)
    assert why_call_by_call(compiled) == [None]


def test_calls_on_several_streams():
    total, x = on_device(np.zeros(1000, "float32")), on_device(np.ones((1000, 10), "float32"))

    @gg.compile
    def add(x):
        with gg.no_grad():
            total[...] = total + x @ x.mT @ gg.ones(1000, device="cuda")
        return total.sum()

    first = add(x).item()
    gg.cuda.synchronize()
    for stream in [gg.cuda.Stream() for _ in range(3)] * 4:
        with stream:
            result = add(x)
    gg.cuda.synchronize()
    assert (result.item(), why_call_by_call(add)) == (13 * first, [None])


def test_threads_take_turns():
    power = gg.compile(lambda x: x @ x)
    x = [on_device(np.eye(5, dtype="float32") * k) for k in range(4)]
    for _ in range(2):
        power(x[0])

    def is_right(k):
        return all((power(x[k]).cpu().numpy() == np.eye(5) * k**2).all() for _ in range(20))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(is_right, range(4)))


def test_precision_of_products_is_that_of_the_call():
    x = on_device(np.full((64, 64), 1 + 2.0**-12, "float32"))
    product = gg.compile(lambda x: x @ x)
    for _ in range(3):
        exact = product(x).cpu().numpy()
    try:
        gg.cuda.allow_tf32(True)
        rounded, expected = host([product(x), x @ x])
    finally:
        gg.cuda.allow_tf32(False)
    np.testing.assert_array_equal(rounded, expected)
    np.testing.assert_array_equal(product(x).cpu().numpy(), exact)


def test_a_step_does_not_wait():
    """Besides the graph it launches one kernel: it stores the numbers and the arrays' addresses."""
    training = Training(gg.compile, *TRAININGS["adamw and dropout"])
    training.run(3)
    x, y = on_device(np.ones((6, 3), "float32")), on_device(np.zeros(6, "int64"))
    training.step(x, y)
    with host_must_not_wait():
        for _ in range(3):
            training.step(x, y)
    if IS_STAND_IN:  # which counts launches
        with sys.modules["cupy._traffic"].traffic() as launches:
            training.step(x, y)
        assert [launch.name for launch in launches] == ["store_words"]


def test_a_scaler_skips_steps_of_infinite_gradients():
    def run(compile):
        gg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).to("cuda")
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        scaler = gg.amp.GradScaler(growth_interval=2, init_scale=2.0**10)

        @compile
        def step(x):
            optimizer.zero_grad()
            with gg.amp.autocast(dtype=gg.float16):
                loss = (model(x) ** 2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        rng, found = np.random.default_rng(0), []
        for i in range(8):
            x = rng.standard_normal((4, 3)).astype(np.float32)
            step(on_device(x * np.float32(1e5 if i in (4, 6) else 1)))
            found += [*host(model.parameters()), np.asarray(scaler.get_scale())]
        assert [int(s["step"]) for s in optimizer.state_dict()["state"].values()] == [6] * 6
        return found

    check(run)
