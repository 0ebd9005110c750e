"""Compiled functions on CUDA devices repeat their calls, each with a result of its own."""

import numpy as np

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import nn, optim


def losses(compiled):
    gg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2))
    model.append(nn.Linear(8, 4)).to("cuda")
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    step = gg.compile(step) if compiled else step
    rng = np.random.default_rng(0)
    found = []
    for _ in range(5):
        x = gg.asarray(rng.standard_normal((6, 3)).astype(np.float32)).to("cuda")
        y = gg.asarray(rng.integers(0, 4, 6)).to("cuda")
        found.append(step(x, y).detach().cpu().item())
    if compiled:
        assert step._programs
        assert not step._given_up
    return found


def test_a_compiled_step_trains_as_an_eager_one():
    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-4)
