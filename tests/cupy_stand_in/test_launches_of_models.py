"""What a training step of the models of the benchmarks launches, and how much memory that moves."""

import sys
from collections import Counter
from pathlib import Path

import cupy
import pytest
from cupy._traffic import traffic
from definitions import graphs_noted

import gpugrad

ROOT = Path(__file__).resolve().parents[2]

# All launches of a step, and the products among them; of a compiled step, of its graph.
LAUNCHES = {"CNN": (38, 9), "transformer": (155, 51), "LSTM": (224, 104)}
COMPILED = {"CNN": (35, 9), "transformer": (136, 51), "LSTM": (219, 104), "MLP": (15, 8)}
# A batch and how many MiB are read or written, without those of the optimizers, whose kernels find
# the arrays by their addresses.
MEBIBYTES = {"CNN": (2, 9.3), "transformer": (1, 46.5), "LSTM": (32, 75)}


def launches_of(model, batch, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import model_step

    step = model_step.step_of(model_step.Library("gpugrad", "cuda", batch), model)
    step()  # which makes the optimizer's state
    with traffic() as launches:
        step()
    return launches


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("model", LAUNCHES)
def test_launches(model, monkeypatch):
    """The steps are launched without being computed."""
    monkeypatch.setattr(cupy._raw, "computes", False)
    count = Counter([launch.name for launch in launches_of(model, None, monkeypatch)])
    most, products = LAUNCHES[model]
    assert count.total() <= most, count
    assert count["gemm"] <= products


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("model", COMPILED)
def test_launches_of_a_graph(model, monkeypatch):
    folders = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "gpu")]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])
    monkeypatch.setattr(cupy._raw, "computes", False)
    if model == "MLP":
        import mlp

        training = mlp.Training(mlp.Net(mlp.MLP, 128), "fp32", None)
        step = mlp.prepare("gpugrad compiled", "cuda", training)
    else:
        import model_step

        library = model_step.Library("gpugrad", "cuda")
        step = gpugrad.compile(model_step.step_of(library, model))
    with graphs_noted() as captured:
        for _ in range(4):
            step()
    count, (most, products) = Counter(captured[-1]), COMPILED[model]
    assert count.total() <= most, count
    assert count["gemm"] <= products


@pytest.mark.parametrize("model", MEBIBYTES)
def test_bytes(model, monkeypatch):
    batch, most = MEBIBYTES[model]
    moved = Counter()
    for launch in launches_of(model, batch, monkeypatch):
        moved[launch.name] += ((launch.read or 0) + (launch.written or 0)) / 2**20
    assert moved.total() <= most, moved
