"""SGD: its algorithm, parameter groups, state, and that it writes in place."""

import copy
import math
import pickle
import tracemalloc

import numpy as np
import pytest

import gpugrad
from gpugrad import nn, optim
from gpugrad.optim import optimizer as implementation

OPTIONS = {
    "plain": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9},
    "dampening": {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
    "negative dampening": {"lr": 0.1, "momentum": 0.5, "dampening": -0.3},
    "decay": {"lr": 0.1, "weight_decay": 0.05},
    "nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
    "all": {"lr": 0.1, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.05},
}


def values(x):
    return np.asarray(x.detach())


def parameters(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [
        gpugrad.tensor(rng.normal(size=shape).astype(dtype), requires_grad=True)
        for shape in ((3, 4), (4,), ())
    ]


def descend(optimizer, steps=1):
    """Steps down a bowl that is not the same in all directions."""
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum(
            (p * p * p * p).sum() * (i + 1) + p.sum()
            for i, p in enumerate(p for g in optimizer.param_groups for p in g["params"])
        )
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_sgd_is_pytorchs(options):
    torch = pytest.importorskip("torch")
    ours = [p * 0.3 for p in parameters()]
    ours = [p.detach().requires_grad_() for p in ours]
    theirs = [torch.tensor(values(p).copy(), requires_grad=True) for p in ours]
    a = optim.SGD(ours, **options)
    b = torch.optim.SGD(theirs, **options)
    for _ in range(20):
        descend(a)
        b.zero_grad()
        sum((p**4).sum() * (i + 1) + p.sum() for i, p in enumerate(theirs)).backward()
        b.step()
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(values(p), q.detach(), rtol=1e-12, atol=1e-14)


def reference(p, gradient, steps, *, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False):
    """The algorithm as the docstring states it."""
    b = None
    for _ in range(steps):
        g = gradient(p) + weight_decay * p
        if momentum:
            b = g if b is None else momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        p = p - lr * g
    return p


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sgd_follows_its_formula_in_place_and_keeps_dtypes(library, options, dtype):
    start = np.linspace(-1, 1, 12, dtype=dtype).reshape(3, 4)
    p = library.tensor(start, requires_grad=True)
    array = p.array
    optimizer = optim.SGD([p], **options)
    for _ in range(5):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    assert p.array is array
    assert library.values(p).dtype == library.values(p.grad).dtype == dtype
    np.testing.assert_allclose(
        library.values(p),
        reference(start, lambda p: 2 * p, 5, **options),
        rtol=1e-5 if dtype == np.float32 else 1e-12,
    )
    for state in optimizer.state_dict()["state"].values():
        assert library.values(state["momentum_buffer"]).dtype == dtype


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_large_arrays_are_updated_in_pieces_and_wholly(monkeypatch, options, layout):
    monkeypatch.setattr(implementation, "_PIECE", 10)
    start = np.linspace(-1, 1, 91).reshape(13, 7)
    start = start.T.copy().T if layout == "transposed" else start
    p = nn.Parameter(start.copy(order="K"))
    optimizer = optim.SGD([p], **options)
    for _ in range(4):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(values(p), reference(start, lambda p: 2 * p, 4, **options))


def test_a_step_allocates_no_second_array_of_the_parameters_size():
    p = nn.Parameter(gpugrad.ones((2048, 2048)))
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    p.grad = gpugrad.ones((2048, 2048))
    optimizer.step()
    tracemalloc.start()
    optimizer.step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < p.array.nbytes / 4


def test_a_step_leaves_gradients_alone_and_passes_over_what_has_none():
    p, q, r = parameters()
    optimizer = optim.SGD([p, q, r], lr=0.1, momentum=0.9, weight_decay=0.1)
    p.grad = gpugrad.ones((3, 4), dtype=gpugrad.float64)
    r.grad = gpugrad.tensor(1.0, dtype=gpugrad.float64)
    r.requires_grad_(False)
    before = [values(x).copy() for x in (q, r)]
    optimizer.step()
    assert (values(p.grad) == 1).all()
    np.testing.assert_array_equal(values(q), before[0])
    np.testing.assert_array_equal(values(r), before[1])
    optimizer.zero_grad()
    assert p.grad is q.grad is r.grad is None
    optimizer.step()


def test_backward_through_values_a_step_has_overwritten_raises():
    (p, _, _) = parameters()
    optimizer = optim.SGD([p], lr=0.1)
    kept = (p * p).sum()
    descend(optimizer)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        kept.backward()


def test_a_parameter_in_read_only_memory_is_refused_and_what_to_do_is_said():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    p = nn.Parameter(array)
    p.grad = gpugrad.ones(3)
    with pytest.raises(ValueError, match=r"SGD: .* \(3,\) lies in read-only memory.*tensor\(data"):
        optim.SGD([p]).step()
    q = nn.Parameter(gpugrad.tensor(array))
    q.grad = gpugrad.ones(3)
    optim.SGD([q], lr=0.5).step()
    assert values(q).tolist() == [0.5] * 3


def test_an_interrupted_step_has_been_noted():
    class Interrupted(optim.SGD):
        def apply_single(self, array, *rest):
            super().apply_single(array, *rest)
            raise KeyboardInterrupt

    (p, _, _) = parameters()
    optimizer = Interrupted([p], lr=0.1)
    kept = (p * p).sum()
    p.grad = gpugrad.ones((3, 4), dtype=gpugrad.float64)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    with pytest.raises(RuntimeError, match="overwritten in place"):
        kept.backward()


def test_numpy_numbers_as_hyper_parameters_stay_weak():
    p = nn.Parameter(gpugrad.ones(3))
    optimizer = optim.SGD([p], lr=np.float64(0.1), momentum=np.float32(0.5))
    assert type(optimizer.param_groups[0]["lr"]) is float
    optimizer.param_groups[0]["lr"] = np.float64(0.2)
    p.grad = gpugrad.ones(3)
    optimizer.step()
    assert p.dtype == gpugrad.float32
    assert values(p) == pytest.approx(0.8)


# Parameter groups


def test_groups_have_hyper_parameters_of_their_own():
    p, q, r = parameters()
    optimizer = optim.SGD([{"params": [p], "lr": 0.5}, {"params": q}], lr=0.1)
    optimizer.add_param_group({"params": [r], "lr": 0.0})
    start = [values(x).copy() for x in (p, q, r)]
    for x in p, q, r:
        x.grad = gpugrad.ones_like(x.detach())
    optimizer.step()
    for x, old, lr in zip((p, q, r), start, (0.5, 0.1, 0.0), strict=True):
        np.testing.assert_allclose(values(x), old - lr)
    assert repr(optimizer) == (
        "SGD(\n"
        "  1 parameters: lr=0.5, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False\n"
        "  1 parameters: lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False\n"
        "  1 parameters: lr=0.0, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False\n"
        ")"
    )


def test_hyper_parameters_can_be_changed_between_steps():
    torch = pytest.importorskip("torch")
    ours = parameters()[:1]
    theirs = [torch.tensor(values(p).copy(), requires_grad=True) for p in ours]
    a = optim.SGD(ours, lr=0.1, dampening=0.5)
    b = torch.optim.SGD(theirs, lr=0.1, dampening=0.5)
    for i in range(6):
        for optimizer in a, b:
            (group,) = optimizer.param_groups
            group["lr"] = 0.1 / (i + 1)
            group["momentum"] = 0.9 if i > 1 else 0.0
        ours[0].grad = gpugrad.ones((3, 4), dtype=gpugrad.float64) * i
        theirs[0].grad = torch.ones((3, 4), dtype=torch.float64) * i
        a.step()
        b.step()
        np.testing.assert_allclose(values(ours[0]), theirs[0].detach(), rtol=1e-13)
    a.param_groups[0]["lr"] = -1
    with pytest.raises(ValueError, match="SGD: lr must be finite and at least 0, not -1"):
        a.step()


def test_parameters_that_cannot_be_optimized_are_refused():
    p = nn.Parameter(gpugrad.ones(2))
    for given, kind, message in (
        ([], ValueError, "SGD: there are no parameters to optimize"),
        (p, TypeError, r"SGD: params must be an iterable of tensors; write \[tensor\]"),
        (nn.Sequential(nn.ReLU()), TypeError, r"is a module; pass model\.parameters\(\)"),
        ([{"params": nn.ReLU()}], TypeError, r"is a module; pass model\.parameters\(\)"),
        (3.0, TypeError, "SGD: params must be an iterable of tensors, not 3.0"),
        ([p, 3.0], TypeError, "SGD: parameter 1 must be a Tensor, not float"),
        ([p * 2], ValueError, r"SGD: parameter 0, of shape \(2,\), is a result of multiply, not a"),
        ([gpugrad.tensor([1])], TypeError, "SGD: parameter 0 must be floating, not int64"),
        ([p, p], ValueError, r"SGD: parameter 1, of shape \(2,\), is given twice"),
        ([{"params": []}], ValueError, "SGD: there are no parameters in the group"),
        ([{"lr": 1}], TypeError, "SGD: a parameter group must be a dict with 'params'"),
        ([{"params": [p]}, p], TypeError, "SGD: a parameter group must be a dict with 'params'"),
        ([{"params": p}, {"params": p}], ValueError, "is given twice"),
        (
            [{"params": p, "eps": 1}],
            TypeError,
            "SGD: a parameter group has no eps; it can have lr,",
        ),
    ):
        with pytest.raises(kind, match=message):
            optim.SGD(given)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"lr": -0.1}, ValueError, "SGD: lr must be finite and at least 0, not -0.1"),
        ({"lr": math.nan}, ValueError, "SGD: lr must be finite and at least 0, not nan"),
        ({"lr": math.inf}, ValueError, "SGD: lr must be finite and at least 0, not inf"),
        ({"dampening": math.nan}, ValueError, "SGD: dampening must be finite, not nan"),
        ({"lr": "fast"}, TypeError, "SGD: lr must be a number, not 'fast'"),
        ({"momentum": -1}, ValueError, "SGD: momentum must be finite and at least 0, not -1"),
        ({"weight_decay": -1}, ValueError, "SGD: weight_decay must be finite and at least 0"),
        ({"nesterov": True}, ValueError, "SGD: nesterov needs a momentum above 0"),
        ({"nesterov": True, "momentum": 1, "dampening": 1}, ValueError, "a dampening of 0"),
    ],
)
def test_hyper_parameters_that_cannot_be_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        optim.SGD(parameters(), **options)


def test_a_refused_group_changes_nothing():
    p, q, _ = parameters()
    optimizer = optim.SGD([p], lr=0.1)
    for wrong in {"params": [q, p]}, {"params": [q], "lr": -1}:
        with pytest.raises(ValueError, match="SGD"):
            optimizer.add_param_group(wrong)
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [q]})


# State


def test_state_dict_resumes_to_the_last_bit():
    options = OPTIONS["all"]
    straight = optim.SGD(parameters(), **options)
    descend(straight, 6)
    first = optim.SGD(parameters(), **options)
    descend(first, 3)
    (group,) = first.param_groups
    second = optim.SGD([p.detach() for p in parameters()], lr=9.0)
    for p, q in zip(second.param_groups[0]["params"], group["params"], strict=True):
        nn.init.overwrite(p, q.array)
        p.requires_grad_()
    state = first.state_dict()
    second.load_state_dict(state)
    descend(first, 1)  # what was loaded is a copy
    descend(second, 3)
    for p, q in zip(
        straight.param_groups[0]["params"], second.param_groups[0]["params"], strict=True
    ):
        np.testing.assert_array_equal(values(p), values(q))


def test_state_dict_is_laid_out_as_pytorchs():
    p, q, r = parameters()
    optimizer = optim.SGD([{"params": [p, q], "lr": 0.5}, {"params": [r]}], momentum=0.9)
    q.grad = gpugrad.ones(4, dtype=gpugrad.float64)
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    assert [group["lr"] for group in state["param_groups"]] == [0.5, 1e-3]
    assert list(state["state"]) == [1]
    assert state["state"][1]["momentum_buffer"].tolist() == [1.0] * 4


def test_a_state_that_does_not_fit_changes_nothing():
    optimizer = optim.SGD(parameters(), lr=0.1, momentum=0.9)
    descend(optimizer)
    before = optimizer.state_dict()

    def changed(change):
        state = copy.deepcopy(before)
        change(state)
        return state

    def set_buffer(state, value):
        state["state"][0]["momentum_buffer"] = value

    for state, message in (
        ({}, "it must be a dict with 'state' and 'param_groups'"),
        (
            changed(lambda s: s["param_groups"].append(s["param_groups"][0])),
            r"it has groups of \[3, 3\] parameters, this optimizer of \[3\]",
        ),
        (changed(lambda s: s["param_groups"][0].pop("lr")), "a group has "),
        (
            changed(lambda s: s["param_groups"][0].update(lr=-1)),
            "lr must be finite and at least 0, not -1",
        ),
        (changed(lambda s: s["state"].update({7: {}})), r"it has state of parameters \[7\]"),
        (
            changed(lambda s: set_buffer(s, gpugrad.ones((4, 3)))),
            r"momentum_buffer of parameter 0 has shape \(4, 3\), but the parameter \(3, 4\)",
        ),
        (
            changed(lambda s: s["state"][0].update(exp_avg=gpugrad.ones((3, 4)))),
            r"0 has state \['exp_avg', 'momentum_buffer'\], but here \['momentum_buffer'\]",
        ),
        (changed(lambda s: s["param_groups"][0].update(momentum=0)), r"but here \[\]"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(state)
        after = optimizer.state_dict()
        assert after["param_groups"] == before["param_groups"]
        for i, arrays in before["state"].items():
            np.testing.assert_array_equal(
                values(after["state"][i]["momentum_buffer"]), values(arrays["momentum_buffer"])
            )


def test_an_optimizer_goes_on_after_its_model_was_cast():
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(dtype):
        optimizer.zero_grad()
        model(gpugrad.ones((1, 3), dtype=dtype)).sum().backward()
        optimizer.step()

    start = values(model.bias).copy()
    step(gpugrad.float32)
    model.to(gpugrad.float64)
    step(gpugrad.float64)
    assert model.bias.dtype == gpugrad.float64
    np.testing.assert_allclose(values(model.bias), start - 0.1 - 0.19, rtol=1e-6)
    assert optimizer.state_dict()["state"][1]["momentum_buffer"].dtype == gpugrad.float64


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_model_and_optimizer_trains_by_itself(monkeypatch, copied):
    monkeypatch.setattr(implementation, "_PIECE", 4)
    model = nn.Linear(3, 4, dtype=gpugrad.float64)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(model, optimizer):
        optimizer.zero_grad()
        (model(gpugrad.ones((1, 3), dtype=gpugrad.float64)) ** 2).sum().backward()
        optimizer.step()

    step(model, optimizer)
    twin, twin_optimizer = copied((model, optimizer))
    start = values(model.weight).copy()
    step(twin, twin_optimizer)
    np.testing.assert_array_equal(values(model.weight), start)
    assert (values(twin.weight) != start).any()
    step(model, optimizer)
    np.testing.assert_array_equal(values(model.weight), values(twin.weight))
