"""The kernels of optimizers and clipping on the stand-in equal the definitions."""

import cupy
import numpy as np
import pytest
from cupy import _raw
from cupy.cuda.function import CPointer
from definitions import LAYOUTS, dtype_of, no_reads
from optimizers import FUSED, OTHERS, WHOLE, params, shapes_for

import gpugrad as gg
from gpugrad import optim
from gpugrad.backends.cupy.kernels import loader, optimizers
from gpugrad.nn.utils import clip_grad_norm_

# Sizes around the chunk of a block and the pack of a thread; more tensors than one launch takes.
CHUNK = optimizers.CHUNK
SHAPES = [(3, 5), (), (0, 4), (CHUNK - 1,), (CHUNK,), (2, CHUNK + 1), (1,), (7,)]
MANY = [(i % 5 + 1,) for i in range(300)]


def random(shapes, dtype, seed):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(shape)).astype(dtype_of(dtype)) for shape in shapes]


def parameters(values, device="cuda"):
    return [gg.tensor(x, device=device, requires_grad=True) for x in values]


def train(kind, options, starts, device, steps=3, arrange=lambda x: x):
    """Take some steps, each with some gradients missing; return parameters and state."""
    ps = parameters(starts, device)
    optimizer = kind(ps, **options)
    for step in range(steps):
        for i, g in enumerate(random([p.shape for p in ps], "float32", step)):
            g = gg.tensor(g, device=device).to(ps[i].dtype)
            ps[i].grad = None if (i + step) % 3 == 2 else arrange(g)
        with no_reads():
            optimizer.step()
    state = optimizer.state_dict()["state"]
    assert {x.device.split(":")[0] for x in ps} == {device.split(":")[0]}
    return arrays([*ps, *(x for i in sorted(state) for x in state[i].values())])


def arrays(tensors):
    return [x.detach().cpu().numpy() for x in tensors]


def assert_equal(results, expected):
    for a, b in zip(results, expected, strict=True):
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


@pytest.mark.parametrize("kind, options", params(FUSED))
def test_steps_equal_the_definitions_bit_by_bit(kind, options, dtype, launches):
    """For g++ does not fuse multiplications and additions."""
    starts = random(SHAPES, dtype.name, 100)
    assert_equal(*(train(kind, options, starts, device) for device in ("cuda", "cpu")))
    # Parameters with the same number of updates share a launch: two or three launches per step.
    assert 3 <= len(launches) <= 9
    assert len({*launches}) == 1


def test_tables_are_given_by_their_address(monkeypatch):
    """CuPy would ask a NumPy array for its description at every launch."""
    given, launch = [], _raw.Kernel.launch

    def noted(kernel, grid, block, args):
        given.extend(args)
        launch(kernel, grid, block, args)

    monkeypatch.setattr(_raw.Kernel, "launch", noted)
    ps, tables = parameters(random(SHAPES, "float32", 0)), []
    optimizer = optim.Adam(ps)
    for p in ps:
        p.grad = gg.ones_like(p)
    for _ in range(3):
        given.clear()
        clip_grad_norm_(ps, 1.0)
        optimizer.step()
        assert not any(isinstance(x, np.ndarray) for x in given)
        tables.append([x for x in given if isinstance(x, CPointer)][-2:])
    assert tables[1] == tables[2]  # the same objects


@pytest.mark.parametrize("kind, options", params({**OTHERS, **WHOLE}))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_steps_without_a_kernel_are_those_on_the_host(kind, options, dtype, launches):
    starts = random([*shapes_for(kind), (0, 4)], dtype, 100)
    results = (train(kind, options, starts, device) for device in ("cuda", "cpu"))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if dtype == "float32" else 1e-3, strict=True)
    assert {*launches} <= ({"sum_rows"} if kind in WHOLE else set())


def test_more_parameters_than_one_launch_takes(launches):
    starts = random(MANY, "float32", 100)
    for kind, options in ((optim.SGD, {}), (optim.Adam, {"amsgrad": True})):
        launches.clear()
        results = train(kind, options, starts, "cuda", steps=1)
        assert_equal(results, train(kind, options, starts, "cpu", steps=1))
        assert len(launches) == -(-200 // (loader.WORDS // (4 if kind is optim.SGD else 7)))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_gradients_in_any_layout(layout, launches):
    def arrange(x):
        return gg.asarray(layout(x.to("cuda").array)).to(x.device)

    starts = random(SHAPES[:2] + SHAPES[3:], "float32", 100)
    results = [train(optim.Adam, {}, starts, device, arrange=arrange) for device in ("cuda", "cpu")]
    assert_equal(*results)
    assert "adam" in launches


def test_parameters_that_are_not_aligned_or_not_contiguous(launches):
    (start,) = random([(6, 7)], "float32", 0)
    placed = [LAYOUTS[name](cupy.asarray(start)) for name in ("misaligned", "transposed")]
    ps = [gg.asarray(x).requires_grad_() for x in placed]
    (q,) = parameters([start], "cpu")
    for x in *ps, q:
        x.grad = gg.asarray(np.sin(start)).to(x.device)
    optim.AdamW(ps, lr=0.1).step()
    optim.AdamW([q], lr=0.1).step()
    assert launches == ["adam"]  # CuPy's own kernels update the second parameter
    assert_equal(arrays(ps), arrays([q, q]))


class Ascending:
    def apply_single(self, array, grad, state, step, lr, *rest):
        array += lr * grad


@pytest.mark.parametrize("bases, expected", [((Ascending, optim.SGD), 2.0), ((optim.SGD,), 0.0)])
def test_a_subclass_with_its_own_update_does_not_run_its_bases_kernel(bases, expected, launches):
    (p,) = parameters([np.ones(3, "float32")])
    p.grad = gg.ones_like(p.detach())
    type("Other", bases, {})([p], lr=1.0).step()
    assert (p.tolist(), launches) == ([expected] * 3, ["sgd"] * (expected == 0))


class Counting(optim.Adam):
    def init_single(self, array, group):
        return {**super().init_single(array, group), "more": cupy.ones_like(array)}


def test_state_that_a_subclass_adds_is_left_alone(launches):
    ps, qs = (parameters(random([(7,), (8,)], "float32", 0)) for _ in range(2))
    optimizers = Counting(ps, lr=0.1), optim.Adam(qs, lr=0.1)
    for optimizer, given in zip(optimizers, (ps, qs), strict=True):
        for p in given:
            p.grad = gg.ones_like(p.detach())
        optimizer.step()
    assert launches == ["adam"] * 2
    assert_equal(arrays(ps), arrays(qs))
    states = optimizers[0].state_dict()["state"].values()
    assert all((state["more"].cpu().numpy() == 1).all() for state in states)


def test_complex_parameters(launches):
    starts = random([(3,), ()], "complex64", 0)
    assert_equal(*(train(optim.Adam, {}, starts, device) for device in ("cuda:1", "cpu")))
    assert launches == []


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_parameters_on_two_devices(kind, launches):
    values, grads = (random([(5,), (4,)], "float32", seed) for seed in range(2))
    ps = [gg.tensor(x, device=f"cuda:{i}", requires_grad=True) for i, x in enumerate(values)]
    qs = parameters(values, "cpu")
    for p, q, g in zip(ps, qs, grads, strict=True):
        p.grad, q.grad = gg.tensor(g, device=p.device), gg.tensor(g)
    norms = clip_grad_norm_(ps, 0.3), clip_grad_norm_(qs, 0.3)
    norm = pytest.approx(norms[1].item(), rel=1e-6)
    assert (norms[0].device, norms[0].item()) == ("cuda:0", norm)
    with no_reads():
        for xs in (ps, qs):
            kind(xs, lr=0.1).step()
    assert [p.device for p in ps] == ["cuda:0", "cuda:1"]
    for a, b in zip(arrays(ps), arrays(qs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    name = "sgd" if kind is optim.SGD else "adam"
    assert launches == ["squares", "total_norm"] * 2 + ["scale"] * 2 + [name] * 2


def test_tables_in_use_by_an_interrupted_step(monkeypatch):
    launch = _raw.Kernel.launch

    def step(ps):
        for p in ps:
            p.grad = p.detach() + 1
        clip_grad_norm_(ps, 1.0)
        optim.SGD(ps, lr=0.5).step()

    def interrupted(*given):
        with monkeypatch.context() as patch:
            patch.setattr(_raw.Kernel, "launch", launch)
            step(others)
        launch(*given)

    ps, others, qs = (parameters(random([(3,), (5,)], "float32", 0)) for _ in range(3))
    with monkeypatch.context() as patch:
        patch.setattr(_raw.Kernel, "launch", interrupted)
        step(ps)
    for expected, steps in ((ps, 1), (others, 3)):  # four steps interrupted that of `ps`
        for _ in range(steps):
            step(qs)
        assert_equal(arrays(expected), arrays(qs))


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_backward_through_values_that_a_step_overwrote_raises(is_interrupted, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    (p,) = parameters([np.ones(3, "float32")])
    kept = (p * p).sum()
    (p * p).sum().backward()
    optimizer = optim.Adam([p])
    if is_interrupted:
        with monkeypatch.context() as patch:
            patch.setattr(_raw.Kernel, "launch", interrupted)
            with pytest.raises(KeyboardInterrupt):
                optimizer.step()
        assert optimizer.state_dict()["state"] == {}
    else:
        optimizer.step()
    with pytest.raises(RuntimeError, match="overwritten in place"):
        kept.backward()
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"].item() == 2 - is_interrupted


@pytest.mark.parametrize("shapes", [SHAPES, MANY], ids=["sizes", "many"])
@pytest.mark.parametrize("most", [0.5, 1e6])
def test_clipping(dtype, shapes, most, launches):
    grads = random(shapes, dtype.name, 0)
    ps = parameters(grads)
    for p in ps:
        p.grad = p.detach()
    with no_reads():
        norm = clip_grad_norm_(ps, most)
    assert norm.dtype == ps[0].dtype
    grads = [g.astype("float64") for g in grads]
    expected = np.sqrt(sum((g**2).sum() for g in grads))
    near = {"float64": 1e-13, "float32": 1e-6}.get(dtype.name, 1e-2)
    assert norm.item() == pytest.approx(expected, rel=near)
    for p, g in zip(ps, grads, strict=True):
        clipped = p.grad.cpu().numpy().astype("float64")
        np.testing.assert_allclose(clipped, min(1, most / expected) * g, rtol=near, atol=1e-7)
    tables = -(-len([g for g in grads if g.size]) // (loader.WORDS // 3))
    assert launches == [*["squares"] * tables, "total_norm", *["scale"] * tables]


@pytest.mark.parametrize("shape, dtype, norm_type", [
    ((100_003,), "float32", 2), ((30, 40), "float32", 2), ((30,), "float32", 1),
    ((30,), "float32", float("inf")), ((30,), "complex64", 2),
])  # fmt: skip
def test_norms(shape, dtype, norm_type, launches):
    """The same each time, of dense gradients that need not be contiguous."""
    (grad,), (p,) = random([shape], dtype, 0), parameters([np.zeros(shape, dtype)], "cuda:1")
    with cupy.cuda.Device(1):
        given = cupy.asarray(grad).copy(order="F")
    norms, expected = [], np.linalg.norm(grad.ravel(), norm_type)
    for _ in range(2):
        p.grad = gg.asarray(given, copy=True)
        launches.clear()
        with no_reads():
            norm = clip_grad_norm_(p, 0.1, norm_type)
        norms.append(norm.item())
        np.testing.assert_allclose(p.grad.cpu().numpy(), grad * (0.1 / expected), rtol=1e-4)
        is_fused = dtype == "float32" and norm_type == 2
        assert launches == ["squares", "total_norm"] * is_fused + ["scale"] * (dtype == "float32")
    assert norms[0] == norms[1] == pytest.approx(expected, rel=1e-5)
