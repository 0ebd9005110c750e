"""The time of a training step of an MLP, compared to PyTorch and JAX.

    python benchmarks/gpu/mlp.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--precisions P ...] [--json PATH] [--plot PATH] [--save]

A step is zero_grad, forward, cross-entropy, backward and SGD with momentum. The networks, with
ReLU, are 784-256-128-10 in float32 at batch 128, 1024 and 8192, and 784-4096-4096-10 at batch 8192
in float32, TF32, float16 and bfloat16, parameters included. All libraries start from the same
weights and see the same data, which is on the device; their first losses are compared.

gpugrad compiled: the whole step by gpugrad.compile, as one CUDA graph.
torch compile: forward and loss by torch.compile(mode="reduce-overhead"), with CUDA graphs.
torch graph: the whole step captured as one CUDA graph.
jax jit: the whole step as one program, which may overwrite the parameters it is given.
"""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import report
import steps
from peers import LIBRARIES, torch_graph, use
from train_step import MLP, Net, data

LR = 0.01
MOMENTUM = 0.9
WIDE = (784, 4096, 4096, 10)
BOUNDS = {"small": 1.5, "wide": 1.05, None: None}  # the time of gpugrad's step, eager, in torch's
# How far apart the first losses may be.
CLOSE = {"fp32": 1e-4, "tf32": 3e-3, "fp16": 1e-2, "bf16": 5e-2}


class Training(NamedTuple):
    net: Net
    precision: str
    kind: str | None  # which of BOUNDS it must meet, if any

    @property
    def target(self):
        return BOUNDS[self.kind]

    @property
    def close(self):
        return CLOSE[self.precision]

    def __str__(self):
        sizes = "-".join(map(str, self.net.sizes))
        return f"{sizes}, batch {self.net.batch}, {self.precision}"


def trainings(options):
    batches = (16,) if options.short else (128, 1024, 8192)
    if options.full:
        batches = (1, 32, *batches)
    wide = Net((784, 64, 64, 10), 32) if options.short else Net(WIDE, 8192)
    precisions = report.precisions(options)
    small = [
        Training(Net(MLP, batch), "fp32", "small" if batch in (16, 128) else None)
        for batch in batches
    ]
    if "fp32" not in precisions:
        small = []
    return [*small, *(Training(wide, p, "wide") for p in precisions)]


def prepare(library, device, training):
    """Return a function that does one step and returns the loss, as the library's own scalar."""
    dtype = use(library, training.precision, device)
    if LIBRARIES[library] == "gpugrad":
        return _gpugrad(training.net, dtype, device, compiled=library == "gpugrad compiled")
    if library == "jax jit":
        return _jax(training.net, dtype)
    return _torch(training.net, dtype, device, how=library.removeprefix("torch").strip())


def _gpugrad(net, dtype, device, *, compiled):
    import gpugrad
    from gpugrad import nn, optim

    x, y, values = data(net)
    x, y = gpugrad.asarray(x, device=device).astype(dtype), gpugrad.asarray(y, device=device)
    model = nn.MLP(net.sizes[0], net.sizes[1:], activation=nn.ReLU, device=device)
    with gpugrad.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter[...] = gpugrad.asarray(value, device=device)
    model.to(dtype=dtype)
    loss_of = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return gpugrad.compile(step) if compiled else step


def _torch(net, dtype, device, *, how):
    import torch
    from torch import nn

    x, y, values = data(net)
    x = torch.from_numpy(x).to(device=device, dtype=dtype)
    y = torch.from_numpy(y).to(device)
    layers = []
    for n_in, n_out in zip(net.sizes, net.sizes[1:], strict=False):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(value))
    model.to(device=device, dtype=dtype)
    entropy = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)

    def loss_of(x, y):
        return entropy(model(x), y)

    if how == "compile":
        torch.compiler.reset()
        loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step():
        if how == "compile":  # the result of the last step may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch_graph(step, model, optimizer) if how == "graph" else step


def _jax(net, dtype):
    import jax

    np = jax.numpy
    x, y, values = data(net)
    x, y = jax.device_put((x.astype(dtype), y))
    parameters = [np.asarray(value, dtype) for value in values]
    momenta = [np.zeros_like(p) for p in parameters]

    def loss_of(parameters, x, y):
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            x = jax.nn.relu(x @ w.T + b)
        scores = jax.nn.log_softmax(x @ parameters[-2].T + parameters[-1])
        return -np.take_along_axis(scores, y[:, None], axis=1).mean()

    def update(parameters, momenta, x, y):
        loss, grads = jax.value_and_grad(loss_of)(parameters, x, y)
        momenta = [MOMENTUM * m + g for m, g in zip(momenta, grads, strict=True)]
        parameters = [p - LR * m for p, m in zip(parameters, momenta, strict=True)]
        return parameters, momenta, loss

    update = jax.jit(update, donate_argnums=(0, 1))

    def step():
        nonlocal parameters, momenta
        parameters, momenta, loss = update(parameters, momenta, x, y)
        return loss

    return step


def main():
    options = report.arguments(
        __doc__.splitlines()[0], list(LIBRARIES), precisions=list(report.PRECISIONS)
    )
    sys.exit(steps.run("mlp", options, prepare, trainings(options)))


if __name__ == "__main__":
    main()
