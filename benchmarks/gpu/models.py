"""The time of training steps of a CNN, a transformer, an LSTM, and of Adam, compared to PyTorch.

    python benchmarks/gpu/models.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--models M ...] [--json PATH] [--plot PATH] [--save]

The models and their data, in float32, are those of benchmarks/model_step.py.

gpugrad compiled: the whole step by gpugrad.compile, as one CUDA graph.
torch graph: the whole step captured as one CUDA graph.
"""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import model_step
import report
import steps
from peers import LIBRARIES, torch_graph, use

# How far apart the first losses may be.
CLOSE = {"CNN": 1e-3, "transformer": 1e-3, "LSTM": 1e-3}
SHORT = "CNN", "Adam, 100 of 1000"


class Model(NamedTuple):
    name: str
    batch: int | None

    target = None

    @property
    def close(self):
        return CLOSE.get(self.name)

    def __str__(self):
        return self.name


def prepare(library, device, model):
    """Return a function that does one step and returns the loss, as the library's own scalar."""
    use(library, "fp32", device)
    made = model_step.Library(LIBRARIES[library], device, model.batch)
    with_graph = model_step.step_of(made, model.name)

    def step():
        loss = with_graph()
        return None if loss is None else loss.detach()

    if library == "gpugrad compiled":
        import gpugrad

        return gpugrad.compile(step)
    if library == "torch graph":
        return torch_graph(step, made.model, made.optimizer)
    return step


def main():
    names = ["gpugrad", "gpugrad compiled", "torch", "torch graph"]
    options = report.arguments(__doc__.splitlines()[0], names, models=list(model_step.TARGETS))
    names = options.models or (SHORT if options.short else model_step.TARGETS)
    models = [Model(name, 1 if options.short else None) for name in names]
    sys.exit(steps.run("models", options, prepare, models))


if __name__ == "__main__":
    main()
