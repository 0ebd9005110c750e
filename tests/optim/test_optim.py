"""Optimizers: their algorithms, parameter groups, state, and updates in place."""

import copy
import math
import pickle
from collections import defaultdict

import numpy as np
import pytest
from optimizers import ALL, OTHERS, WHOLE, lion, normal, shapes_for
from samples import peak_of, values

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.optim import optimizer as implementation

NUMBERS = {"step", "mu_product", "eta", "mu"}  # what is one number for each parameter


@pytest.fixture
def torch(monkeypatch):
    """PyTorch, with numbers in the state of optimizers, such as NAdam's, in float64 as here.

    So are the products of Muon.
    """
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(torch.float32)


def parameters(kind=None):
    rng = np.random.default_rng(0)
    return [nn.Parameter(rng.normal(size=shape)) for shape in shapes_for(kind)]


def descend(optimizer, steps=1):
    """Take steps down a bowl that is steeper in some directions."""
    for _ in range(steps):
        optimizer.zero_grad()
        params = [p for group in optimizer.param_groups for p in group["params"]]
        sum((p * p).sum() * (i + 1) for i, p in enumerate(params)).backward()
        optimizer.step()


def train(library, optimizer, params, dtype, steps):
    """Steps towards other places each time, half of them with a closure. Returns the losses.

    The last of the parameters is frozen, and the one before has no gradient now and then.
    """
    losses = []
    for t in steps:

        def closure(t=t):
            optimizer.zero_grad()
            loss = 0.0
            for i, p in enumerate(params):
                if p.requires_grad and (i != 3 or t % 3):
                    place = library.tensor(normal(np.random.default_rng([t, i]), p.shape, dtype))
                    loss = loss + (library.abs(p - place) ** 2).sum() * (i + 1)
            if optimizer.param_groups[0].get("maximize"):
                loss = -loss
            loss.backward()
            losses.append(loss.item())
            return loss

        if t % 2:
            assert optimizer.step(closure).item() == losses[-1]
        else:
            closure()
            assert optimizer.step() is None
    return losses


@pytest.mark.parametrize("kind, options", [x for x in ALL if x.values[0] is not optim.Lion])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_steps_are_pytorchs_and_states_are_exchanged_in_the_middle(torch, kind, options, dtype):
    if dtype == np.complex128 and kind in WHOLE:
        pytest.skip("is for real parameters")
    shapes = [*shapes_for(kind), (2, 2), (3, 1) if kind is optim.Muon else (3,)]
    starts = [normal(np.random.default_rng(i), of, dtype) * 0.3 for i, of in enumerate(shapes)]
    near = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-14}
    ours = [gg.tensor(x).requires_grad_(i < 4) for i, x in enumerate(starts)]
    theirs = [torch.tensor(x).requires_grad_(i < 4) for i, x in enumerate(starts)]

    def optimizers(**options):
        return [
            kind([{"params": p[:2]}, {"params": p[2:], "lr": 0.02}], **options)
            for kind, p in ((kind, ours), (getattr(torch.optim, kind.__name__), theirs))
        ]

    def compare(steps):
        losses = train(gg, a, ours, dtype, steps), train(torch, b, theirs, dtype, steps)
        np.testing.assert_allclose(*losses, **near)
        for p, q in zip(ours, theirs, strict=True):
            assert p.dtype == dtype
            np.testing.assert_allclose(values(p), q.detach(), **near)

    a, b = optimizers(**options)
    compare(range(10))
    saved, known = a.state_dict(), b.state_dict()
    assert saved["state"].keys() <= known["state"].keys()  # PyTorch's Adagrad has all
    for i, arrays in saved["state"].items():
        assert arrays.keys() == known["state"][i].keys()
        for name, x in arrays.items():
            theirs_of_it = torch.as_tensor(known["state"][i][name])
            np.testing.assert_allclose(values(x), theirs_of_it, **near)
            arrays[name] = torch.tensor(values(x))
            assert arrays[name].shape == theirs_of_it.shape
            assert arrays[name].dtype == theirs_of_it.dtype or name in NUMBERS
    a, b = optimizers(lr=9.0)
    a.load_state_dict(known)
    b.load_state_dict(saved)
    compare(range(10, 20))


def after_steps(p, steps, kind, options):
    """The optimizer, after steps down a bowl."""
    optimizer = kind([p], **options)
    descend(optimizer, steps)
    return optimizer


def arrays_of_state(optimizer):
    states = optimizer.state_dict()["state"].values()
    return [state[name] for state in states for name in state.keys() - NUMBERS]


@pytest.mark.parametrize("options", OTHERS[optim.Lion].values(), ids=OTHERS[optim.Lion])
def test_lion_follows_its_formula(options):
    p = nn.Parameter(np.linspace(-1, 1, 12).reshape(3, 4))
    wanted, state = values(p).copy(), defaultdict(float)
    after_steps(p, 5, optim.Lion, options)
    options = {**options}
    sign = -1 if options.pop("maximize", False) else 1
    for t in range(1, 6):
        wanted = lion(t, wanted, sign * 2 * wanted, state, **options)
    np.testing.assert_allclose(values(p), wanted, rtol=1e-12)


@pytest.mark.parametrize("kind, options", ALL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_are_made_in_place_and_keep_dtypes(library, kind, options, dtype):
    start = np.linspace(-1, 1, 12, dtype=dtype).reshape(3, 4)
    p, on_numpy = library.tensor(start, requires_grad=True), nn.Parameter(start.copy())
    array, optimizer = p.array, after_steps(p, 5, kind, options)
    after_steps(on_numpy, 5, kind, options)
    assert p.array is array
    for x in p, p.grad, *arrays_of_state(optimizer):
        assert library.values(x).dtype == dtype
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(library.values(p), values(on_numpy), rtol=rtol)


@pytest.mark.parametrize("kind, options", ALL)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_parameters_are_computed_in_32_bits_and_rounded(kind, options, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    shape = (7, 1) if kind is optim.Muon else (7,)
    start = np.linspace(-1, 1, 7).astype(dtype).reshape(shape)
    grad = np.array([0, 1, -2, 1e-3, 3e-5, 100, 0]).astype(dtype).reshape(shape)
    p, wide = nn.Parameter(start), nn.Parameter(start.astype("float32"))
    for x in wide, p:
        optimizer = kind([x], **options)
        x.grad = gg.tensor(grad.astype(x.dtype))
        optimizer.step()
    near = 2 * float(np.spacing(np.float16(1)) if dtype == "float16" else 2**-8)
    found = values(p).astype("float32")
    np.testing.assert_allclose(found, values(wide), rtol=near, atol=near / 100)
    optimizer.step()
    assert {x.dtype for x in (p, p.grad, *arrays_of_state(optimizer))} == {p.array.dtype}
    assert p.dtype == dtype
    assert np.isfinite(values(p).astype("float32")).all()


@pytest.mark.parametrize("kind, options", ALL)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_large_arrays_are_updated_completely_in_pieces(monkeypatch, kind, options, layout):
    start = np.linspace(-1, 1.3, 91).reshape(13, 7)  # without 0, of which rounding is all
    start = start.T.copy().T if layout == "transposed" else start
    whole, p = (nn.Parameter(start.copy(order="K")) for _ in range(2))
    after_steps(whole, 4, kind, options)
    monkeypatch.setattr(implementation, "_PIECE_SIZE", 10)
    after_steps(p, 4, kind, options)
    np.testing.assert_allclose(values(p), values(whole))


NESTEROV = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "nesterov": True}
AMSGRAD = {"weight_decay": 1e-4, "amsgrad": True}


@pytest.mark.parametrize("kind, options", [(optim.SGD, NESTEROV), (optim.Adam, AMSGRAD)])
def test_a_step_allocates_no_second_array_of_the_parameters_size(kind, options):
    p = nn.Parameter(gg.ones((2048, 2048)))
    p.grad, optimizer = gg.ones_like(p.detach()), kind([p], **options)
    optimizer.step()
    assert peak_of(optimizer.step) < p.array.nbytes / 4


def test_the_error_about_read_only_memory_names_the_remedy():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    p, q = nn.Parameter(array), nn.Parameter(gg.tensor(array))
    p.grad = q.grad = gg.ones(3)
    with pytest.raises(ValueError, match=r"SGD: .* \(3,\) lies in read-only memory.*tensor\(data"):
        optim.SGD([p]).step()
    optim.SGD([q], lr=0.5).step()
    assert q.tolist() == [0.5] * 3


def test_parameters_that_share_memory_are_updated_one_after_the_other(library):
    array = library.array(np.ones(4, np.float32))
    p, q = (gg.asarray(a).requires_grad_() for a in (array[:3], array[1:]))
    optimizer = optim.SGD([p, q], lr=1.0, weight_decay=0.5)
    for x in p, q:
        x.grad = gg.zeros_like(x)
    optimizer.step()
    np.testing.assert_array_equal(library.values(gg.asarray(array)), [0.5, 0.25, 0.25, 0.5])


def test_hyper_parameters_of_numpy_become_pythons():
    p = nn.Parameter(gg.ones(3))
    optimizer = optim.SGD([p], np.float64(0.1), np.float32(0.5), nesterov=np.True_)
    (group,) = optimizer.param_groups
    assert (type(group["lr"]), group["nesterov"]) == (float, True)
    assert optim.SGD([p], momentum=1, nesterov=1).param_groups[0]["nesterov"] is True
    group["lr"] = np.float64(0.2)
    p.grad = gg.ones(3)
    optimizer.step()
    assert (p.dtype, p.tolist()) == (gg.float32, pytest.approx([0.7] * 3))
    (group,) = (optimizer := optim.SGD([p], lr=True, weight_decay=False)).param_groups
    group.update(lr=0.5, weight_decay=2)
    optimizer.step()
    assert values(p) == pytest.approx(-0.5)


# Parameter groups


def test_groups_have_hyper_parameters_of_their_own():
    p, q, r = parameters()
    optimizer = optim.SGD([{"params": [p], "lr": 0.5}, {"params": q}], lr=0.1)
    optimizer.add_param_group({"params": [r], "lr": 0.0})
    rest = "momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False"
    rows = [f"  1 parameters: lr={lr}, {rest}" for lr in (0.5, 0.1, 0.0)]
    assert repr(optimizer).splitlines() == ["SGD(", *rows, ")"]
    optimizer.param_groups[0]["lr"] = -1
    with pytest.raises(ValueError, match="SGD: lr must be finite and at least 0, not -1"):
        optimizer.step()


@pytest.mark.parametrize("which", [0, -1])
def test_groups_can_be_removed_and_added(torch, which):
    runs = [], []
    for library, run in zip((gg, torch), runs, strict=True):
        p, q, r = [library.tensor(np.ones(3), requires_grad=True) for _ in range(3)]
        groups = [{"params": [p], "lr": 0.5}, {"params": [q], "momentum": 0.9}]
        optimizer = library.optim.SGD(groups, lr=0.1)
        for _ in range(2):
            (p * q * r).sum().backward()
            optimizer.step()
        optimizer.param_groups.pop(which)
        (p * q * r).sum().backward()
        optimizer.step()
        optimizer.add_param_group({"params": [r], "momentum": 0.5})
        for _ in range(2):
            optimizer.step()
        run.extend(x.detach().numpy() for x in (p, q, r))
    np.testing.assert_allclose(*runs, rtol=1e-14)


def test_hyper_parameters_can_be_changed_between_steps(torch):
    runs = [], []
    for library, run in zip((gg, torch), runs, strict=True):
        p = library.tensor(np.ones((3, 4)), requires_grad=True)
        optimizer = library.optim.SGD([p], lr=0.1, dampening=0.5)
        for i in range(6):
            optimizer.param_groups[0].update(lr=0.1 / (i + 1), momentum=(0, 0, 0.9, 0, 0.5, 0.9)[i])
            p.grad = library.tensor(np.full((3, 4), float(i)))
            optimizer.step()
            run.append(p.detach().numpy().copy())
    np.testing.assert_allclose(*runs, rtol=1e-13)


def test_amsgrad_can_be_turned_on_between_steps():
    optimizer = optim.Adam(parameters()[:1], lr=0.1)
    descend(optimizer, 2)
    for amsgrad, more in (True, {"max_exp_avg_sq"}), (False, set()):
        optimizer.param_groups[0]["amsgrad"] = amsgrad
        descend(optimizer)
        saved = optimizer.state_dict()
        assert saved["state"][0].keys() == {"step", "exp_avg", "exp_avg_sq"} | more
    assert saved["state"][0]["step"].item() == 4
    optimizer.load_state_dict(saved)


P = nn.Parameter(gg.ones(2))
NO_PARAMETERS = [
    (P, TypeError, r"SGD: params must be an iterable of tensors; write \[tensor\]"),
    ([{"params": nn.ReLU()}], TypeError, r"is a module; pass model\.parameters\(\)"),
    (3.0, TypeError, "SGD: params must be an iterable of tensors, not a float"),
    ([P, 3.0], TypeError, "SGD: parameter 1 must be a Tensor, not a float"),
    ([gg.tensor([1])], TypeError, "SGD: parameter 0 must be floating, not int64"),
    ([P, P], ValueError, r"SGD: parameter 1, of shape \(2,\), is given twice"),
    ([{"params": []}], ValueError, "SGD: there are no parameters in the group"),
    ([{"lr": 1}], TypeError, "SGD: a parameter group must be a dict with 'params'"),
    ([{"params": P, "lr": 0.1}], ValueError, "SGD: lr must be finite and at least 0, not -5.0"),
    ([{"params": P, "eps": 1}], TypeError, "SGD: a parameter group has no eps; it can have l"),
]


@pytest.mark.parametrize("given, kind, message", NO_PARAMETERS)
def test_invalid_parameters_are_rejected(given, kind, message):
    with pytest.raises(kind, match=message):
        optim.SGD(given, lr=-5 if kind is ValueError and "lr" in message else 0.1)


# The checks are of names, which are the same for all kinds.
NOT_VALID = [
    (optim.SGD, {"lr": math.inf}, "lr must be finite and at least 0, not inf"),
    (optim.SGD, {"dampening": math.nan}, "dampening must be finite, not nan"),
    (optim.SGD, {"momentum": -1}, "momentum must be finite and at least 0, not -1"),
    (optim.SGD, {"nesterov": True}, "nesterov needs a momentum above 0"),
    (optim.SGD, {"nesterov": True, "momentum": 1, "dampening": 1}, ".* a dampening of 0"),
    (optim.Adadelta, {"rho": 1.5}, "rho must be from 0 to 1, not 1.5"),
    (optim.Adadelta, {"eps": -1}, "eps must be finite and at least 0, not -1"),
    (optim.Adagrad, {"lr_decay": -1}, "lr_decay must be finite and at least 0"),
    (optim.Adagrad, {"initial_accumulator_value": math.nan}, "initial_accumulator_value must"),
    (optim.ASGD, {"lambd": -1}, "lambd must be finite and at least 0"),
    (optim.Rprop, {"etas": (1, 2)}, "etas must be one above 0 and below 1, and one"),
    (optim.Rprop, {"step_sizes": (5, 1)}, r"step_sizes must be at least 0 and in order, not \(5"),
    (optim.Adafactor, {"eps": (-1, 0)}, "eps must be finite and at least 0"),
    (optim.Adafactor, {"d": 0.5}, "d must be at least 1, not 0.5"),
    (optim.Adafactor, {"beta2_decay": 0.5}, "beta2_decay must be at most 0"),
    (optim.Muon, {}, r"parameter 1 must be a real matrix, not of shape \(4,\)"),
    (optim.Lion, {"betas": (-0.1, 0.9)}, "betas must be from 0 to below 1"),
    (optim.Adam, {"betas": (0.9, 1)}, r"betas must be from 0 to below 1, not \(0.9, 1.0"),
    (optim.NAdam, {"momentum_decay": -1}, "momentum_decay must be finite and at least"),
    (optim.RMSprop, {"alpha": 1.5}, "alpha must be from 0 to 1, not 1.5"),
    (optim.LBFGS, {"max_iter": 0}, "max_iter must be an int of at least 1, not 0"),
    (optim.LBFGS, {"history_size": 0.5}, "history_size must be an int of at least 1"),
    (optim.LBFGS, {"line_search_fn": "x"}, "line_search_fn must be 'strong_wolfe' or None, not"),
    (optim.Adam, {"lr": (0.1, 0.2)}, r"lr must be a number, not \(0.1, 0.2\)"),
    (optim.Adam, {"betas": 0.9}, "betas must be two numbers, not 0.9"),
    (optim.AdamW, {"betas": (0.9,)}, r"betas must be two numbers, not \(0.9,\)"),
]


@pytest.mark.parametrize("kind, options, message", NOT_VALID)
def test_invalid_hyper_parameters_are_rejected(kind, options, message):
    error = TypeError if "number" in message else ValueError
    for given, rest in (parameters(), options), ([{"params": parameters(), **options}], {}):
        with pytest.raises(error, match=f"^{kind.__name__}: {message}"):
            kind(given, **rest)


def test_a_rejected_group_changes_nothing():
    p, q, _ = parameters()
    optimizer = optim.SGD([p], lr=0.1)
    for wrong in {"params": [q, p]}, {"params": [q], "weight_decay": -1}:
        with pytest.raises(ValueError, match=r"is given twice|weight_decay must be"):
            optimizer.add_param_group(wrong)
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [q]})


# State


def by_state(pair):
    copies, state = copy.deepcopy(pair[0]), pair[1].state_dict()
    twin = type(pair[1])(copies, lr=9.0)
    for i, arrays in state["state"].items():  # their order does not matter
        state["state"][i] = dict(reversed(arrays.items()))
    twin.load_state_dict(state)
    return copies, twin


@pytest.mark.parametrize("kind, options", ALL)
def test_copies_continue_by_themselves_to_the_last_bit(monkeypatch, kind, options):
    monkeypatch.setattr(implementation, "_PIECE_SIZE", 4)
    params = parameters(kind=kind)
    optimizer = kind(params, **{**options, "lr": 0.01})
    descend(optimizer, 3)
    pair, before = (params, optimizer), [values(p).copy() for p in params]
    copies = by_state(pair), copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))
    for _, twin in copies:
        descend(twin, 3)
    for p, x in zip(params, before, strict=True):
        np.testing.assert_array_equal(values(p), x)
    descend(optimizer, 3)
    for others, _ in copies:
        for p, q in zip(params, others, strict=True):
            np.testing.assert_array_equal(values(p), values(q))


def test_what_schedulers_and_programs_keep_in_groups_survives(torch, tmp_path):
    theirs = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1, momentum=0.9)
    torch.optim.lr_scheduler.OneCycleLR(theirs, 1.0, 10)
    (known,) = theirs.state_dict()["param_groups"]
    ours, again = (optim.SGD([nn.Parameter(gg.ones(3))]) for _ in range(2))
    ours.load_state_dict(theirs.state_dict())
    gg.save(ours.state_dict(), tmp_path / "state")
    again.load_state_dict(gg.load(tmp_path / "state"))
    (group,) = again.state_dict()["param_groups"]
    names = "initial_lr max_lr min_lr base_momentum max_momentum lr momentum".split()
    assert {name: group[name] for name in names} == {name: known[name] for name in names}
    theirs.load_state_dict(again.state_dict())
    named = optim.SGD([{"params": parameters()[:1], "name": "encoder"}])
    ours.load_state_dict(named.state_dict() | {"state": {0: {"momentum_buffer": None}}})
    assert ours.param_groups[0]["name"] == "encoder"
    optimizer = optim.SGD([{"params": parameters()[:1], "initial_lr": 3.0}])
    (group,) = optimizer.param_groups
    group["tags"] = ["encoder"]
    state = optimizer.state_dict()
    group["tags"].append("more")
    optimizer.load_state_dict(state)
    assert (group["initial_lr"], group["tags"]) == (3.0, ["encoder"])
    with pytest.raises(ValueError, match=r"a group has .*'tags'"):
        optim.SGD(parameters()[:1]).load_state_dict(state)


def test_a_state_that_does_not_fit_changes_nothing():
    optimizer = optim.SGD(parameters(), lr=0.1, momentum=0.9)
    descend(optimizer)
    before = optimizer.state_dict()
    for message, change in {
        "it must be a dict with 'state' and 'param_groups'": lambda groups, state: groups.clear(),
        r"it has groups of \[3, 3\] parameters, this optimizer of \[3\]":
            lambda groups, state: groups.append(groups[0]),
        "a group has ": lambda groups, state: groups[0].pop("lr"),
        "lr must be finite and at least 0, not -1": lambda groups, state: groups[0].update(lr=-1),
        r"it has state of parameters \[7\]": lambda groups, state: state.update({7: {}}),
        r"momentum_buffer of parameter 0 has shape \(4, 3\), but here \(3, 4\)":
            lambda groups, state: state[0].update(momentum_buffer=gg.ones((4, 3))),
        r"0 has state \['exp_avg', 'momentum_buffer'\], but here \['momentum_buffer'\]":
            lambda groups, state: state[0].update(exp_avg=gg.ones((3, 4))),
        r"but here \[\]": lambda groups, state: groups[0].update(momentum=0),
        "it has no 'params'": lambda groups, state: groups[0].pop("params"),
        "lr must be a number, not 'x'": lambda groups, state: groups[0].update(lr="x"),
        "'list' object has no": lambda groups, state: state.update({0: [1]}),
        "a group has .*'amsgrad'": lambda groups, state: groups[0].update(amsgrad=True),
    }.items():  # fmt: skip
        state = copy.deepcopy(before)
        change(state["param_groups"], state["state"])
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(state if state["param_groups"] else {})
        assert str(optimizer.state_dict()) == str(before)


@pytest.mark.parametrize("wrong", [{"step": -1}, {"step": math.nan}, {"mu_product": math.nan}])
def test_an_invalid_number_of_a_state_is_rejected(wrong):
    ((name, value),), optimizer = wrong.items(), optim.NAdam(parameters()[:1])
    descend(optimizer)
    state, before = optimizer.state_dict(), str(optimizer.state_dict())
    state["state"][0] |= wrong
    with pytest.raises(ValueError, match=rf"{name} of parameter 0 is {float(value)}"):
        optimizer.load_state_dict(state)
    del state["state"][0][name]
    with pytest.raises(ValueError, match=f"but here .*'{name}'"):
        optimizer.load_state_dict(state)
    assert str(optimizer.state_dict()) == before


def test_an_optimizer_continues_after_its_model_was_cast():
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start = values(model.bias).copy()
    for dtype in gg.float32, gg.float64:
        model.to(dtype)
        optimizer.zero_grad()
        model(gg.ones((1, 3), dtype=dtype)).sum().backward()
        optimizer.step()
    assert model.bias.dtype == gg.float64
    np.testing.assert_allclose(values(model.bias), start - 0.1 - 0.19, rtol=1e-6)
    assert optimizer.state_dict()["state"][1]["momentum_buffer"].dtype == gg.float64


def test_made_constructors_and_those_of_users():
    class Tagged(optim.SGD):
        def __init__(self, params, lr=0.1, tag="none"):
            self.tag = tag
            super().__init__(params, lr=lr)

    class Mine(Tagged):
        def apply_single(
            self, array, grad, state, step,
            lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False,
        ):  # fmt: skip
            array -= lr * grad

    assert Mine([P], tag="mine").tag == "mine"
    with pytest.raises(TypeError, match="too many positional arguments"):
        optim.Adam([P], 1e-3, (0.9, 0.99), 1e-8, 0.0, False, True)
