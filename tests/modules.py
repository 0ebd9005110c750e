"""A row for every layer and loss, every public optimizer, and every kind of transform."""

from dataclasses import replace

import test_layers

import gpugrad as gg
from gpugrad import optim


def _first_rows(rows):
    """The first row of each layer but one, which draws on a device of its own."""
    return [*{row.kind: row for row in reversed(rows) if row.kind != "RReLU"}.values()]


# All devices draw the same, also where chance has a say.
_DRAWING = [replace(row, args=()) for row in test_layers.LAYERS if "Dropout" in row.kind]
_MLP = test_layers.R("MLP", 3, [4, 2], inputs=[(4, 3)])
LAYERS = _first_rows([*_DRAWING, *test_layers.LAYERS, _MLP])
LOSSES = _first_rows(test_layers.LOSSES)


def on_device(row, tensor):
    """A row's module in float32, and its inputs, which ``tensor`` makes of arrays."""
    inputs = [x.astype("float32") if x.dtype.kind == "f" else x for x in row.arrays()]
    return row.ours("float32"), [tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]


# L-BFGS needs a closure and has no weight_decay, as Rprop; Muon takes matrices alone. They have
# tests of their own in `tests/optim`.
_OTHERS = "LBFGS Muon Optimizer Rprop lr_scheduler swa_utils".split()
OPTIMIZERS = [getattr(optim, name) for name in optim.__all__ if name not in _OTHERS]

# Each takes a function from vectors to numbers, and a vector.
TRANSFORMS = {
    "grad": lambda f, x: gg.grad(f)(x), "hessian": lambda f, x: gg.hessian(f)(x),
    "jvp": lambda f, x: gg.jvp(f, (x,), (gg.ones_like(x),))[1],
    "jacobian": lambda f, x: gg.jacobian(gg.grad(f))(x),
    "hvp": lambda f, x: gg.hvp(f)(x, gg.ones_like(x)),
    "vmap": lambda f, x: gg.vmap(gg.grad(f))(gg.stack([x, 2 * x])),
    "checkpoint": lambda f, x: gg.grad(lambda x: gg.checkpoint(f, x))(x),
}  # fmt: skip
