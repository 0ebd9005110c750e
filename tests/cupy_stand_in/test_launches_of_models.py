"""What a training step of the models of the benchmarks launches, and how much memory that moves."""

import sys
from collections import Counter
from pathlib import Path

import cupy
import pytest
from cupy._traffic import traffic

ROOT = Path(__file__).resolve().parents[2]

# All launches of a step, and the products among them.
LAUNCHES = {"CNN": (41, 9), "transformer": (187, 51), "LSTM": (226, 104)}
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


@pytest.mark.parametrize("model", MEBIBYTES)
def test_bytes(model, monkeypatch):
    batch, most = MEBIBYTES[model]
    moved = Counter()
    for launch in launches_of(model, batch, monkeypatch):
        moved[launch.name] += ((launch.read or 0) + (launch.written or 0)) / 2**20
    assert moved.total() <= most, moved
