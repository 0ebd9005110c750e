"""L-BFGS: its steps and its state are PyTorch's."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from libraries import libraries
from optimizers import normal
from samples import values

import gpugrad as gg
from gpugrad import nn, optim

WOLFE = {"line_search_fn": "strong_wolfe"}
OPTIONS = {
    "plain": {"lr": 0.1}, "a short history": {"lr": 0.1, "history_size": 2},
    "one iteration": {"lr": 0.05, "max_iter": 1}, "few calls": {"lr": 0.1, "max_eval": 4},
    "tolerance_grad": {"lr": 0.1, "tolerance_grad": 0.5},
    "tolerance_change": {"lr": 0.1, "tolerance_change": 1e-2},
    "strong_wolfe": WOLFE, "strong_wolfe, a long first step": {"lr": 30.0, **WOLFE},
    "strong_wolfe, a short first step": {"lr": 0.1, **WOLFE},
    "strong_wolfe, all": WOLFE | {
        "lr": 0.5, "history_size": 3, "max_iter": 5, "max_eval": 7, "tolerance_grad": 1e-4,
        "tolerance_change": 1e-6
    },
}  # fmt: skip


def rosenbrock(p, q):
    """The function of four variables; they come as a vector and a number."""
    return sum(100 * (y - x**2) ** 2 + (1 - x) ** 2 for x, y in pairwise([p[0], p[1], p[2], q]))


def waves(p, q):
    """A function with flat and steep places, and several minima."""
    return (p**4).sum() / 4 - (p**2).sum() + (p[0] * q - p[1]) ** 2 + (q - 0.3) ** 2 + p[2]


FUNCTIONS = {"rosenbrock": rosenbrock, "waves": waves}


def start(library):
    """The arguments of a function, a parameter that gets no gradient, and a frozen one."""
    tensors = [library.tensor(np.asarray(x)) for x in ([-1.2, 1.0, 0.4], 0.7, [1.0, 2.0], 3.0)]
    for x in tensors[:3]:
        x.requires_grad_()
    return tensors


def closure_of(function, optimizer, params):
    def closure():
        optimizer.zero_grad()
        loss = function(*params[:2])
        loss.backward()
        return loss

    return closure


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_steps_are_pytorchs_and_states_are_exchanged_in_the_middle(function, options):
    torch = pytest.importorskip("torch")
    ours, theirs = start(gg), start(torch)
    a, b = optim.LBFGS(ours, **options), torch.optim.LBFGS(theirs, **options)

    def compare(steps):
        for _ in range(steps):
            pairs = (a, ours), (b, theirs)
            losses = [o.step(closure_of(function, o, params)).item() for o, params in pairs]
            np.testing.assert_allclose(*losses, rtol=1e-7, atol=1e-9)
            for p, q in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(values(p), q.detach(), rtol=1e-7, atol=1e-7)
            mine, known = (x.state_dict()["state"][0] for x in (a, b))
            assert [mine[n] == known[n] for n in ("func_evals", "n_iter")] == [True, True]

    compare(4)
    saved, known = a.state_dict(), b.state_dict()
    state, known_state = saved["state"][0], known["state"][0]
    assert state.keys() - {"al"} == known_state.keys() - {"al"}  # memory that only PyTorch needs
    assert len(state["old_dirs"]) == len(known_state["old_dirs"])
    for name in "d", "prev_flat_grad":
        state[name] = torch.tensor(values(state[name]))
        assert state[name].shape == known_state[name].shape
    for name in "old_dirs", "old_stps":
        state[name] = [torch.tensor(values(x)) for x in state[name]]
    a, b = optim.LBFGS(ours), torch.optim.LBFGS(theirs)
    a.load_state_dict(known)
    b.load_state_dict(saved)
    compare(6)


SEARCHES = pytest.mark.parametrize("search", [None, "strong_wolfe"])


def check_least_squares(library, dtype, search, near):
    """Solves a small system."""
    a, b = (normal(np.random.default_rng(0), of, dtype) for of in ((6, 3), (6,)))
    x, y = (library.tensor(np.zeros(of, dtype), requires_grad=True) for of in ((2,), ()))
    matrix, right = library.tensor(a), library.tensor(b)
    optimizer = optim.LBFGS([x, y], line_search_fn=search, tolerance_change=0.0)

    def loss(x, y):
        rest = matrix[:, 0] * x[0] + matrix[:, 1] * x[1] + matrix[:, 2] * y - right
        return gg.sum(gg.abs(rest) ** 2)

    for _ in range(3):
        optimizer.step(closure_of(loss, optimizer, [x, y]))
    found = np.append(library.values(x), library.values(y))
    assert found.dtype == dtype
    wide = "complex128" if dtype == "complex128" else "float64"
    solution = np.linalg.lstsq(a.astype(wide), b.astype(wide), rcond=None)[0]
    np.testing.assert_allclose(found.astype(wide), solution, rtol=near, atol=near)


@SEARCHES
@pytest.mark.parametrize("dtype, near", [("float32", 1e-3), ("float64", 1e-6)])
def test_it_solves_least_squares_in_place_and_keeps_dtypes(library, dtype, near, search):
    check_least_squares(library, dtype, search, near)


@SEARCHES
@pytest.mark.parametrize("dtype", ["complex128", "float16", "bfloat16"])
def test_complex_and_16_bit_parameters(dtype, search):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    check_least_squares(libraries()[0], dtype, search, 1e-6 if dtype == "complex128" else 0.05)


def test_a_saved_state_resumes_to_the_last_bit(tmp_path):
    def step(params, optimizer, steps):
        for _ in range(steps):
            optimizer.step(closure_of(rosenbrock, optimizer, params))
        return [p.tolist() for p in params]

    params = start(gg)
    optimizer = optim.LBFGS(params, lr=0.1, max_iter=5, line_search_fn="strong_wolfe")
    assert optimizer.state_dict()["state"] == {}
    step(params, optimizer, 2)
    others = [gg.tensor(p.detach(), requires_grad=True) for p in params]
    gg.save(optimizer.state_dict(), tmp_path / "state")
    resumed = optim.LBFGS(others)
    resumed.load_state_dict(gg.load(tmp_path / "state"))
    pair = params, optimizer
    twins = copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))
    expected = step(params, optimizer, 2)
    for pair in ((others, resumed), *twins):
        assert step(*pair, 2) == expected


def test_a_closure_that_raises_leaves_the_parameters_where_the_last_iteration_led():
    params = start(gg)
    optimizer = optim.LBFGS(params, lr=1e-3, line_search_fn="strong_wolfe")
    closure = closure_of(rosenbrock, optimizer, params)
    before, calls = [p.tolist() for p in params], [closure] * 2

    def interrupted():
        if not calls:
            raise KeyboardInterrupt
        return calls.pop()()

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(interrupted)
    assert [p.tolist() for p in params] == before
    first = optimizer.step(closure).item()
    assert optimizer.step(closure).item() < first


@SEARCHES
def test_the_closure_records_even_under_no_grad_and_a_step_counts_as_a_write(search):
    params = start(gg)
    kept, optimizer = (params[0] ** 2).sum(), optim.LBFGS(params, line_search_fn=search)
    closure = closure_of(waves, optimizer, params)
    with gg.no_grad():
        assert optimizer.step(closure).requires_grad
        with pytest.raises(RuntimeError, match="overwritten in place"):
            kept.backward()
        assert optim.SGD(params).step(closure).requires_grad


def test_nan_and_infinite_losses_end_a_step():
    for wrong in np.nan, np.inf:
        p = nn.Parameter(np.array([1.0, 2.0]))
        optimizer = optim.LBFGS([p], line_search_fn="strong_wolfe")
        closure = closure_of(lambda p: (p**2).sum(), optimizer, [p])
        optimizer.step(lambda: closure() * (1 if p[0].item() > 0.9 else wrong))  # noqa: B023
        assert np.isfinite(values(p)).all()


def test_wrong_use_is_refused():
    p, q = (nn.Parameter(gg.ones(3, dtype=d)) for d in (gg.float32, gg.float64))
    with pytest.raises(ValueError, match="LBFGS: all parameters must be in one group"):
        optim.LBFGS([{"params": [p]}, {"params": [q]}])
    with pytest.raises(ValueError, match=r"be on one device, not \['float32 on cpu', 'flo"):
        optim.LBFGS([p, q]).step(lambda: p.sum())
    with pytest.raises(TypeError, match=r"LBFGS\.step: a closure is needed"):
        optim.LBFGS([p]).step()


def test_a_state_that_does_not_fit_changes_nothing():
    params = start(gg)
    optimizer = optim.LBFGS(params, lr=0.1, max_iter=3)
    optimizer.step(closure_of(rosenbrock, optimizer, params))
    before = optimizer.state_dict()

    def changed(**state):
        return {**before, "state": {0: {**before["state"][0], **state}}}

    for state, message in (
        (changed(step=1), "it has state .*'step'.*, but here "),
        (changed(d=gg.ones(3)), r"it has a vector of shape \(3,\), not \(7,\)"),
        (changed(ro=[]), "old_dirs, old_stps and ro have different lengths"),
        (changed(t="x"), "could not convert"),
        ({**before, "state": {1: {}}}, r"it has state of parameters \[1\]; all state is under 0"),
        ({"state": {}}, "it must be a dict with 'state' and 'param_groups'"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(state)
        assert str(optimizer.state_dict()) == str(before)
