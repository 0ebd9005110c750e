"""How many kernels and products a training step of the models of the benchmarks launches.

The steps are launched without being computed.
"""

import sys
from collections import Counter
from pathlib import Path

import cupy
import pytest
from cupy._traffic import traffic

ROOT = Path(__file__).resolve().parents[2]

# All launches of a step, and the products among them.
MOST = {"CNN": (39, 9), "transformer": (187, 51), "LSTM": (227, 105)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("model", MOST)
def test_a_step(model, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import model_step

    monkeypatch.setattr(cupy._raw, "computes", False)
    step = model_step.step_of(model_step.Library("gpugrad", "cuda"), model)
    step()  # which makes the optimizer's state
    with traffic() as launches:
        step()
    count = Counter([launch.name for launch in launches])
    most, products = MOST[model]
    assert len(launches) <= most, count
    assert count["gemm"] <= products
