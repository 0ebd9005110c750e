"""Averaged models and what belongs to them: averages and states are PyTorch's."""

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn
from gpugrad.optim import swa_utils
from gpugrad.optim.swa_utils import AveragedModel, get_ema_avg_fn, update_bn

AVERAGES = {
    "swa": lambda utils: {"avg_fn": utils.get_swa_avg_fn()},
    "ema": lambda utils: {"avg_fn": utils.get_ema_avg_fn(0.7)},
    "own": lambda utils: {"avg_fn": lambda mean, x, n: mean + x * (n + 1)},
    "ema with buffers": lambda utils: {"avg_fn": utils.get_ema_avg_fn(), "use_buffers": True},
    "swa with buffers": lambda utils: {"use_buffers": True},
}


def pair(torch):
    """A model here and the same one in PyTorch, in float64."""
    return [
        nn.Sequential(nn.Linear(3, 4, dtype=dtype), nn.BatchNorm1d(4, dtype=dtype))
        for nn, dtype in ((gg.nn, gg.float64), (torch.nn, torch.float64))
    ]


def change(torch, ours, theirs, seed):
    """Give both models the same new parameters and buffers."""
    rng = np.random.default_rng(seed)
    for name, x in ours.state_dict().items():
        value = np.asarray(abs(10 * rng.normal(size=x.shape))).astype(np.asarray(x).dtype)
        ours.load_state_dict({name: gg.tensor(value)}, strict=False)
        theirs.load_state_dict({name: torch.tensor(value)}, strict=False)


def assert_same_state(ours, theirs):
    a, b = ours.state_dict(), theirs.state_dict()
    assert list(a) == list(b)
    for name, x in a.items():
        assert str(x.dtype) == str(b[name].dtype).removeprefix("torch.")
        np.testing.assert_allclose(np.asarray(x), b[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", AVERAGES)
def test_averages_and_states_are_pytorchs(case):
    torch = pytest.importorskip("torch")
    ours, theirs = pair(torch)
    change(torch, ours, theirs, 0)
    a, b = (
        library.AveragedModel(model, **AVERAGES[case](library))
        for model, library in ((ours, swa_utils), (theirs, torch.optim.swa_utils))
    )
    assert_same_state(a, b)
    for step in range(5):
        if step == 3:
            a = AveragedModel(ours, **AVERAGES[case](swa_utils))
            a.load_state_dict(b.state_dict())
        change(torch, ours, theirs, step)
        a.update_parameters(ours)
        b.update_parameters(theirs)
        assert_same_state(a, b)
    x = np.random.default_rng(0).normal(size=(5, 3))
    a.eval(), b.eval()
    found, expected = a(gg.tensor(x)).detach(), b(torch.tensor(x)).detach()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


def test_a_model_that_does_not_fit_changes_nothing():
    averaged = AveragedModel(nn.Linear(2, 1))
    before = str(averaged.state_dict())
    with pytest.raises(ValueError, match=r"the model has tensors of shapes \[\(1, 3\), \(1,\)\]"):
        averaged.update_parameters(nn.Linear(3, 1))
    assert str(averaged.state_dict()) == before
    averaged = AveragedModel(nn.Linear(2, 1), avg_fn=lambda averaged, current, n: current[0])
    averaged.update_parameters(nn.Linear(2, 1))
    with pytest.raises(ValueError, match=r"avg_fn must keep shapes, not \(2,\)"):
        averaged.update_parameters(nn.Linear(2, 1))
    with pytest.raises(ValueError, match=r"get_ema_avg_fn: decay must be from 0 to 1, not 1\.5"):
        get_ema_avg_fn(1.5)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_a_compiled_step_updates_exponential_averages_to_the_bit(use_buffers):
    def run(compile):
        gg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(0.7), use_buffers=use_buffers)
        optimizer, found = gg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []

        @compile
        def step(x):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
            averaged.update_parameters(model)

        for k in range(6):
            if k == 4:  # it begins again
                averaged.load_state_dict({"n_averaged": gg.zeros((), dtype="int64")}, strict=False)
            step(gg.random.normal((5, 3)))
            found += [x.numpy().tobytes() for x in averaged.state_dict().values()]
        assert getattr(step, "_programs", True)
        return found

    assert run(gg.compile) == run(lambda f: f)


def test_a_compiled_step_cannot_update_averages_that_need_the_count():
    model = nn.Linear(3, 1)
    averaged = AveragedModel(model)
    update = gg.compile(lambda: averaged.update_parameters(model))
    with pytest.warns(UserWarning, match="call update_parameters outside, or use get_ema_avg_fn"):
        [update() for _ in range(3)]
    assert averaged.n_averaged.item() == 3


@pytest.mark.parametrize("as_batch", [lambda x: x, lambda x: (x, None), lambda x: [x]])
def test_update_bn_is_pytorchs(as_batch):
    torch = pytest.importorskip("torch")
    ours, theirs = pair(torch)
    change(torch, ours, theirs, 0)
    batches = np.random.default_rng(1).normal(size=(4, 6, 3))
    ours[1].eval()
    update_bn([as_batch(gg.tensor(x)) for x in batches], ours, "cpu")
    torch.optim.swa_utils.update_bn([as_batch(torch.tensor(x)) for x in batches], theirs)
    assert_same_state(ours, theirs)
    assert [m.training for m in ours.modules()] == [True, True, False]
    assert (ours[1].momentum, ours[1].running_mean.requires_grad) == (0.1, False)


def test_update_bn_puts_everything_back_after_an_error():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()).eval()
    with pytest.raises(ValueError, match="BatchNorm1d"):
        update_bn([gg.ones((2, 5))], model)
    assert not any(m.training for m in model.modules())
    assert model[0].momentum == 0.1


def test_update_bn_of_a_model_without_such_layers_reads_no_batches():
    update_bn(iter(lambda: pytest.fail("read"), None), nn.Linear(2, 2))
    update_bn([3], nn.BatchNorm1d(2, track_running_stats=False))
    update_bn([3], nn.InstanceNorm1d(2, track_running_stats=True))
