"""The cost of a training step of an MLP, compared to PyTorch eager and other libraries.

    python benchmarks/train_step.py [--short] [--libraries gpugrad torch ...]
        [--sections ...] [--json PATH] [--plot PATH]

Three sections:

speed: a step (zero_grad, forward, loss, backward, SGD) of 784-256-128-10 with ReLU and
    cross-entropy at several batch sizes, and of a tiny 2-16-16-1 with squared error; also compiled,
    and, as ``products``, the step's matrix products alone.
busy: the same steps beside a process that keeps one processor busy.
memory: the peak resident memory during steps of 784-4096-4096-10 at batch 1024.

Every library starts from the same weights and sees the same float32 data; the
losses of the first steps must agree. Threads are left at each library's default.
"""

import shutil
from typing import NamedTuple

import harness
import numpy as np

LR = 0.01


class Net(NamedTuple):
    sizes: tuple  # in, hidden ..., out
    batch: int

    @property
    def regression(self):
        return self.sizes[-1] == 1

    def __str__(self):
        return f"{'-'.join(map(str, self.sizes))}, batch {self.batch}"


MLP = (784, 256, 128, 10)
TARGETS = {Net(MLP, batch): 1.0 for batch in (1, 32, 128, 1024)} | {Net((2, 16, 16, 1), 4): 0.6}
LARGE = Net((784, 4096, 4096, 10), 1024)
LARGE_SHORT = Net((784, 512, 512, 10), 256)
MEMORY_TARGET = 1.0


def data(net):
    """Return inputs (batch, in), targets, and per layer a weight (out, in) and a bias (out,)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((net.batch, net.sizes[0]), dtype=np.float32)
    if net.regression:
        y = np.sin(x.sum(axis=1, keepdims=True))
    else:
        y = rng.integers(0, net.sizes[-1], net.batch)
    parameters = []
    for n_in, n_out in zip(net.sizes, net.sizes[1:], strict=False):
        weight = rng.standard_normal((n_out, n_in), dtype=np.float32)
        parameters.append(weight * np.float32(n_in**-0.5))
        parameters.append(np.zeros(n_out, np.float32))
    return x, y, parameters


def prepare(library, net):
    """Return a function that does one step and returns the loss, as the library's own scalar."""
    return globals()[f"_{library}"](net)


def _gpugrad(net):
    import gpugrad
    from gpugrad import nn, optim

    x, y, values = data(net)
    x, y = gpugrad.asarray(x), gpugrad.asarray(y)
    model = nn.MLP(net.sizes[0], net.sizes[1:], activation=nn.ReLU)
    with gpugrad.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter[...] = value
    loss_of = nn.MSELoss() if net.regression else nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=LR)
    return _step(model, loss_of, optimizer, x, y)


def _step(model, loss_of, optimizer, x, y):
    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _gpugrad_compiled(net):
    import gpugrad

    return gpugrad.compile(_gpugrad(net))


def _products(net):
    """The matrix products of a step and nothing else: what no library can save."""
    x, _, parameters = data(net)
    weights = parameters[::2]
    inputs, gradients = [x], []
    for w in weights:
        inputs.append(np.zeros((net.batch, w.shape[0]), np.float32))
        gradients.append(np.zeros_like(w))
    backs = [np.zeros_like(a) for a in inputs]

    def step():
        for a, w, out in zip(inputs, weights, inputs[1:], strict=False):
            np.matmul(a, w.T, out)
        for i in reversed(range(len(weights))):
            np.matmul(backs[i + 1].T, inputs[i], gradients[i])
            if i:
                np.matmul(backs[i + 1], weights[i], backs[i])

    return step


def _torch_compiled(net):
    import torch

    return torch.compile(_torch(net))


def _torch(net):
    import torch
    from torch import nn

    x, y, values = data(net)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    layers = []
    for n_in, n_out in zip(net.sizes, net.sizes[1:], strict=False):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(value))
    loss_of = nn.MSELoss() if net.regression else nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    return _step(model, loss_of, optimizer, x, y)


def _loss(np, x, y, parameters, regression):
    """Compute the loss from NumPy-like arrays, for libraries that differentiate functions."""
    for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        x = np.maximum(x @ w.T + b, 0)
    out = x @ parameters[-2].T + parameters[-1]
    if regression:
        return np.mean((out - y) ** 2)
    shifted = out - np.max(out, axis=1, keepdims=True)
    picked = shifted[np.arange(len(y)), y]
    return np.mean(np.log(np.sum(np.exp(shifted), axis=1)) - picked)


def _autograd(net):
    import autograd
    import autograd.numpy as anp

    x, y, parameters = data(net)
    gradient = autograd.value_and_grad(lambda p: _loss(anp, x, y, p, net.regression))

    def step():
        loss, grads = gradient(parameters)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter -= LR * grad
        return loss

    return step


def _mygrad(net):
    import mygrad
    from mygrad.nnet.activations import relu
    from mygrad.nnet.losses import softmax_crossentropy

    x, y, values = data(net)
    parameters = [mygrad.tensor(value) for value in values]

    def step():
        out = x
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            out = relu(mygrad.matmul(out, w.T) + b)
        out = mygrad.matmul(out, parameters[-2].T) + parameters[-1]
        loss = mygrad.mean((out - y) ** 2) if net.regression else softmax_crossentropy(out, y)
        loss.backward()
        for parameter in parameters:
            parameter.data -= LR * parameter.grad
            parameter.null_grad()
        return loss

    return step


def _jax(net):
    import jax

    x, y, values = data(net)
    x, y, parameters = jax.device_put((x, y, values))
    gradient = jax.value_and_grad(lambda p, x, y: _loss(jax.numpy, x, y, p, net.regression))

    def update(parameters, x, y):
        loss, grads = gradient(parameters, x, y)
        return [p - LR * g for p, g in zip(parameters, grads, strict=True)], loss

    update = jax.jit(update, donate_argnums=0)

    def step():
        nonlocal parameters
        parameters, loss = update(parameters, x, y)
        jax.block_until_ready(parameters)
        return loss

    return step


_LIBRARIES = (
    "gpugrad", "gpugrad_compiled", "torch", "torch_compiled", "autograd", "mygrad", "jax",
    "products",
)  # fmt: skip


def speed(options):
    with_loss = [name for name in options.libraries if name != "products"]
    harness.check_same_losses(prepare, with_loss, [Net(MLP, 32), Net((2, 16, 16, 1), 4)])
    effort = harness.effort(options, seconds=0.5)
    return _raced("speed", "training step", options.libraries, effort, TARGETS)


def busy(options):
    libraries = [name for name in options.libraries if name not in ("autograd", "mygrad")]
    effort = harness.effort(options, seconds=0.5) | {"patience": 0}
    with harness.busy_neighbour():
        return _raced("busy", "training step beside a busy process", libraries, effort, {})


def _raced(section, title, libraries, effort, targets):
    results = harness.race(prepare, libraries, TARGETS, **effort)
    rows = harness.rows_of(
        section, results, name_case=str, unit="µs per step", scale=1e6, targets=targets
    )
    harness.table(title, rows)
    return rows


def memory(options):
    """Measure the peak of three steps in a fresh process, less what a tiny network leaves.

    So the parameters and the data count, but not the library itself. The first two steps do not
    count either, in which compilers compile.
    """
    net = LARGE_SHORT if options.short else LARGE
    if not harness.knows_memory():
        return []
    libraries = [name for name in options.libraries if name != "products"]
    measured = {name: [] for name in libraries}
    for _ in range(1 if options.short else 3):
        for name in libraries:
            measured[name].append(harness.in_fresh_process(_peak, name, net))
    rows = harness.rows_of(
        "memory", {net: {name: [m["rise"] for m in ms] for name, ms in measured.items()}},
        name_case=str, unit="MB", scale=2**-20, targets={net: MEMORY_TARGET},
    )  # fmt: skip
    rows += [
        harness.row(
            "memory", "whole process", name, [m["peak"] for m in ms], None, unit="MB", scale=2**-20
        )
        for name, ms in measured.items()
    ]
    harness.table("peak memory of steps above the library's own", rows)
    return rows


def _peak(library, net):
    prepare(library, Net((2, 16, 16, 1), 4))()  # imports, threads
    before = harness.process_memory("VmRSS")
    step = prepare(library, net)
    step()
    step()
    harness.reset_peak_memory()
    for _ in range(3):
        step()
    peak = harness.process_memory("VmHWM")
    return {"rise": peak - before, "peak": peak}


SECTIONS = {"speed": speed, "busy": busy, "memory": memory}


def main():
    options = harness.arguments(__doc__.splitlines()[0], _LIBRARIES, sections=list(SECTIONS))
    slow_to_start = "torch_compiled"  # it takes minutes to compile, and needs a C++ compiler
    if slow_to_start in options.libraries and (options.short or not shutil.which("c++")):
        print(f"left out: {slow_to_start}")
        options.libraries.remove(slow_to_start)
    rows = [r for name in options.sections for r in SECTIONS[name](options)]
    titles = {
        "speed": "time of a step",
        "busy": "beside a busy process",
        "memory": "peak memory of steps",
    }
    shown = [r for r in rows if r["case"] != "whole process"]
    panels = [(titles[s], [r for r in shown if r["section"] == s]) for s in options.sections]
    title = "Training step of an MLP (float32, SGD) against torch eager"
    harness.write("train_step", options, rows, lambda *place: harness.plot(*place, title, panels))


if __name__ == "__main__":
    main()
