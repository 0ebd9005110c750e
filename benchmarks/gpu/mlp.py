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
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import races
import report
from peers import LIBRARIES, jax_entropy, jax_sgd, jax_step, training_step, use
from train_step import MLP, Net, data

LR = 0.01
MOMENTUM = 0.9
WIDE = (784, 4096, 4096, 10)
BOUNDS = {"small": 1.5, "wide": 1.05, None: None}  # the time of gpugrad's step, eager, in torch's
MOST = 0.10  # milliseconds of the small step, compiled
# How far apart the first losses may be.
CLOSE = {"fp32": 1e-4, "tf32": 3e-3, "fp16": 1e-2, "bf16": 5e-2}


class Training(NamedTuple):
    net: Net
    precision: str
    kind: str | None  # which of BOUNDS it must meet, if any

    @property
    def target(self):
        return BOUNDS[self.kind]

    of_graph = 1.0

    @property
    def most(self):
        return MOST if self.kind == "small" else None

    @property
    def close(self):
        return CLOSE[self.precision]

    def __str__(self):
        sizes = "-".join(map(str, self.net.sizes))
        return f"{sizes}, batch {self.net.batch}, {self.precision}"


def trainings(options):
    batches = (2,) if options.short else (128, 1024, 8192)
    if options.full:
        batches = (1, 32, *batches)
    wide = Net((784, 16, 16, 10), 8) if options.short else Net(WIDE, 8192)
    precisions = report.precisions(options)
    small = [
        Training(Net(MLP, batch), "fp32", "small" if batch in (2, 128) else None)
        for batch in batches
    ]
    if "fp32" not in precisions:
        small = []
    return [*small, *(Training(wide, p, "wide") for p in precisions)]


def prepare(library, device, training):
    """Return a function that does one step and returns the loss, as the library's own scalar."""
    net, dtype = training.net, use(library, training.precision, device)
    x, y, values = data(net)
    if library == "jax jit":
        return _jax(x.astype(dtype), y, [value.astype(dtype) for value in values])
    if LIBRARIES[library] == "gpugrad":
        import gpugrad as module
        from gpugrad import nn, optim

        tensor = module.asarray
    else:
        import torch as module
        from torch import nn, optim

        tensor = module.from_numpy
    x, y = tensor(x).to(device), tensor(y).to(device)
    x = module.asarray(x, dtype=dtype)
    layers = []
    for n_in, n_out in zip(net.sizes, net.sizes[1:], strict=False):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    names = list(model.state_dict())
    model.load_state_dict({name: tensor(v) for name, v in zip(names, values, strict=True)})
    model.to(device).to(dtype=dtype)
    entropy = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    return training_step(library, lambda: entropy(model(x), y), model, optimizer)


def _jax(x, y, parameters):
    import jax

    def loss_of(parameters, x, y):
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            x = jax.nn.relu(x @ w.T + b)
        return jax_entropy(x @ parameters[-2].T + parameters[-1], y)

    update = partial(jax_sgd, lr=LR, momentum=MOMENTUM)
    return jax_step(loss_of, update, *jax.device_put((parameters, x, y)))


def main():
    options = report.arguments(
        __doc__.splitlines()[0], list(LIBRARIES), precisions=list(report.PRECISIONS)
    )
    sys.exit(races.run("mlp", options, prepare, trainings(options)))


if __name__ == "__main__":
    main()
