"""The time of training steps of a CNN, a transformer, an LSTM, and of Adam, compared to PyTorch.

    python benchmarks/gpu/models.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--models M ...] [--precisions P ...] [--minutes N] [--json PATH] [--plot PATH] [--save]

The models and their data are those of benchmarks/model_step.py. Precisions are float32, also in
cuDNN's convolutions and LSTMs, TF32 (with --full), and bfloat16, parameters and Adam's state
included; float16 cannot hold Adam's epsilon.

gpugrad compiled: the whole step by gpugrad.compile, as one CUDA graph.
torch compile: forward and loss by torch.compile(mode="reduce-overhead"), with CUDA graphs.
torch graph: the whole step captured as one CUDA graph.
jax jit: the whole step as one program.
"""

import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import model_step
import races
import report
from peers import LIBRARIES, training_step, use

# How far apart the first losses may be.
CLOSE = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 5e-2}
OF_GRAPH = {"CNN": 1.5, "LSTM": 1.2}  # and 1 for the others
SHORT = "CNN", "Adam, 100 of 1000"


class Model(NamedTuple):
    name: str
    precision: str
    batch: int | None

    target = most = None

    @property
    def of_graph(self):
        return OF_GRAPH.get(self.name, 1.0)

    @property
    def close(self):
        return None if self.name.startswith("Adam") else CLOSE[self.precision]

    def __str__(self):
        return f"{self.name}, {self.precision}"


def prepare(library, device, model):
    """Return a function that does one step and returns the loss, as the library's own scalar."""
    dtype = use(library, model.precision, device)
    if library == "jax jit":
        import jax_models

        made = model_step.Library("gpugrad", "cpu", model.batch)
        model_step.step_of(made, model.name)
        made.dtype = dtype
        return jax_models.step_of(model.name, made)
    step = partial(training_step, library)
    made = model_step.Library(LIBRARIES[library], device, model.batch, dtype, step)
    return model_step.step_of(made, model.name)


def main():
    options = report.arguments(
        __doc__.splitlines()[0], list(LIBRARIES), models=list(model_step.TARGETS),
        precisions=list(CLOSE),
    )  # fmt: skip
    names = options.models or (SHORT if options.short else model_step.TARGETS)
    usual = ("fp32", "bf16") if options.device == "cpu" or not options.full else CLOSE
    models = [
        Model(name, p, 1 if options.short else None)
        for p in options.precisions or usual
        for name in names
        if p != "tf32" or not name.startswith("Adam")
    ]
    sys.exit(races.run("models", options, prepare, models))


if __name__ == "__main__":
    main()
