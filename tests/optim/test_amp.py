"""Autocast and the gradient scaler, compared with PyTorch's."""

import collections
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from samples import every

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad._thread_state import thread
from gpugrad.amp import GradScaler, autocast, is_autocast_enabled
from gpugrad.autograd import casting
from gpugrad.autograd.implementation import clear

F = nn.functional


@pytest.fixture(scope="module", autouse=True)
def no_regions_afterwards(bfloat16):
    yield
    casting._has_region = False
    clear()


def leaf(*shape, seed=0, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal(shape)
    return gg.tensor(values, dtype=dtype, requires_grad=True)


def name(dtype):
    return str(dtype).split(".")[-1]


# Which dtypes ops return


def test_without_a_region_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(casting, "_has_region", False)
    clear()
    x = gg.ones((2, 2))

    def asks(op):
        implementation = op.implementations[np.ndarray]
        return implementation.forward is not implementation.uncast

    with autocast(enabled=False):
        gg.relu(x @ x)
    assert not asks(gg.matmul.op)
    with autocast(dtype=gg.float16):
        gg.relu(x @ x)
    assert asks(gg.matmul.op)
    assert not asks(gg.relu.op)  # it is in no list


SAME = """
    abs acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 max mean prod
    reciprocal relu sigmoid sin sinh sqrt square std sum tan tanh var
""".split()
FUNCTIONAL = """
    celu elu gelu hardsigmoid hardswish hardtanh leaky_relu mish relu6 selu silu softplus softsign
    tanhshrink
""".split()
LOSSES = """
    binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss smooth_l1_loss
""".split()
OPERATORS = "x * x", "x + 1", "x / 2", "1 / x", "x**2", "2**x", "x @ x", "x.T"
UNLIKE = {
    "softmax": (lambda x: gg.softmax(x, axis=0), lambda t, x: t.softmax(x, 0)),
    "log_softmax": (lambda x: gg.log_softmax(x, axis=0), lambda t, x: t.log_softmax(x, 0)),
    "logsumexp": (lambda x: gg.logsumexp(x, axis=0), lambda t, x: t.logsumexp(x, 0)),
    "cumsum": (lambda x: gg.cumulative_sum(x, axis=0), lambda t, x: t.cumsum(x, 0)),
    "cumprod": (lambda x: gg.cumulative_prod(x, axis=0), lambda t, x: t.cumprod(x, 0)),
    "tensordot": (lambda x: gg.tensordot(x, x, axes=1), lambda t, x: t.tensordot(x, x, dims=1)),
    "concat": (lambda x: gg.concat([x, x.astype("float32")]), lambda t, x: t.cat([x, x.float()])),
    "cosine_embedding": (lambda x: F.cosine_embedding_loss(x, x, x[:, 0]),
                         lambda t, x: t.cosine_embedding_loss(x, x, x.select(1, 0))),
}  # fmt: skip
# What both libraries, the first argument, spell alike.
ALIKE = {
    "vector_norm": lambda t, x: t.linalg.vector_norm(x),
    "matrix_norm": lambda t, x: t.linalg.matrix_norm(x),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "linear": lambda t, x: t.nn.functional.linear(x, x),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, x),
    "sum with a dtype": lambda t, x: t.sum(x, dtype=x.dtype),
    "atan2": lambda t, x: t.atan2(x, x),
    "stack": lambda t, x: t.stack([x, x]),
    "triplet": lambda t, x: t.nn.functional.triplet_margin_loss(x, x, x),
    **{n: lambda t, x, n=n: eval(n, {"x": x}) for n in OPERATORS},
    **{n: lambda t, x, n=n: getattr(t, n)(x) for n in SAME},
    **{n: lambda t, x, n=n: getattr(t.nn.functional, n)(x) for n in FUNCTIONAL},
    **{n: lambda t, x, n=n: getattr(t.nn.functional, n)(x, x) for n in LOSSES},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dtypes_are_those_of_pytorch_on_cuda():
    """PyTorch's autocast for CUDA works on its fake tensors, which have no values."""
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    cases = {**UNLIKE, **{n: (partial(f, gg), f) for n, f in ALIKE.items()}}
    for (case, given), checked in every([(c, d) for c in cases for d in ("float32", "bfloat16")]):
        with checked:
            ours, theirs = cases[case]
            with autocast("cpu"), np.errstate(all="ignore"):
                y = ours(gg.tensor(np.eye(4) + 0.5).astype(given))
            with FakeTensorMode():
                x = torch.empty(4, 4, device="cuda", dtype=getattr(torch, given))
                torch.set_autocast_dtype("cuda", torch.bfloat16)
                torch.set_autocast_enabled("cuda", True)
                try:
                    z = theirs(torch, x)
                finally:
                    torch.set_autocast_enabled("cuda", False)
            assert name(y.dtype) == name(z.dtype)


def test_dtypes_in_a_region():
    x = gg.ones((3, 4))
    with autocast():
        y, batch_norm = x @ x.T, nn.BatchNorm1d(3)
        turned = F.conv_transpose1d(y, gg.ones((3, 2, 1)), gg.ones(2)), F.prelu(y, gg.ones(3))
        assert {name(z.dtype) for z in turned} == {"bfloat16"}
        found = y, y * 2, gg.relu(y), y.mean(), y[0], batch_norm(y), batch_norm.eval()(y)
        assert {name(z.dtype) for z in found} == {"bfloat16"}
        found = gg.exp(y), y.sum(), 1 / y, gg.concat([y, x[:, :3]]), batch_norm.running_mean
        losses = [F.mse_loss(y, y), *(F.cross_entropy(y, t) for t in (np.arange(3), y))]
        assert {name(z.dtype) for z in (*found, *losses)} == {"float32"}
        for other in "float64", "complex64", "int64":
            z = x.astype(other)
            assert name((z @ z.T).dtype) == other
        assert gg.dense(z, z, activation="sigmoid").dtype == gg.float32  # of integers
    with autocast(dtype="float16"):
        y = gg.einsum("ij,kj,lj->ikl", x, x, x)
        found = x @ x.T, x.array @ x.T, gg.matmul(x.array, x.T.array), y
        assert {z.dtype for z in found} == {gg.float16}
        assert gg.where(x > 0, x, x.astype("float16")).dtype == gg.float32


# Regions


def test_regions_nest_and_belong_to_their_thread():
    x = gg.ones((2, 2))

    def now():
        return name((x @ x).dtype)

    with autocast():
        with autocast(dtype=gg.float16):
            with autocast(enabled=False):
                assert (now(), is_autocast_enabled()) == ("float32", False)
            assert (now(), is_autocast_enabled()) == ("float16", True)
        with ThreadPoolExecutor() as pool:
            assert pool.submit(now).result() == "float32"
        with autocast("cuda"), autocast("cpu", enabled=False):
            assert [is_autocast_enabled(kind) for kind in ("cuda:0", "cpu")] == [True, False]
            assert now() == "float32"
        with autocast("cuda"):
            assert now() == "bfloat16"
        with pytest.raises(ZeroDivisionError), autocast(enabled=False):
            _ = 1 / 0
        assert now() == "bfloat16"
    assert thread.autocast is None
    with autocast("cuda"):
        assert now() == "float32"


def test_a_region_is_a_decorator():
    region = autocast(dtype=gg.float16)

    @region
    def f(n):
        """Multiply."""
        x = gg.ones((2, 2))
        return f(n - 1) if n else x @ x

    assert (f.__doc__, f(3).dtype) == ("Multiply.", gg.float16)
    assert thread.autocast is None
    with region, region:
        assert is_autocast_enabled()

    async def steps():
        """Do nothing."""

    for function in steps, partial(steps), lambda: (yield):
        with pytest.raises(TypeError, match=r"autocast: .* is a generator or an async function"):
            region(function)


def test_wrong_arguments_are_rejected():
    for dtype in "float32", gg.float64, gg.int16, "complex64":
        with pytest.raises(ValueError, match="dtype must be bfloat16 or float16, not"):
            autocast(dtype=dtype)
    with pytest.raises(ValueError, match="device_type must be 'cpu' or 'cuda', not dtype"):
        autocast(gg.bfloat16)
    for call in autocast, is_autocast_enabled:
        with pytest.raises(ValueError, match="device 'gpu' is not known"):
            call("gpu")
    assert repr(autocast("cuda")) == "autocast(cuda, dtype=float16)"


def test_errors_say_nothing_of_the_casts():
    with autocast(), pytest.raises(ValueError, match=r"matmul: .*given bfloat16") as error:
        gg.ones((2, 3)) @ gg.ones((2, 3))
    assert "Recast" not in "".join(traceback.format_exception(error.value))


# Gradients


def test_the_graph_keeps_what_ops_computed_with():
    x, w = leaf(4, 3), leaf(3, 2, seed=1)
    with autocast():
        y = x @ w
    assert {name(a.dtype) for a in y.grad_fn.saved if hasattr(a, "dtype")} == {"bfloat16"}
    assert [parent.name for parent in y.grad_fn.parents] == ["astype"] * 2
    y.backward(gg.ones_like(y))
    low = w.detach().astype(gg.bfloat16).astype("float32")
    assert x.grad.tolist() == (gg.ones((4, 2)) @ low.T).astype(gg.bfloat16).tolist()


def test_parameters_are_cast_once_in_a_region():
    w = leaf(3, 3)

    def casts(region):
        seen = set()
        with region:
            for _ in range(3):
                seen.add((w @ gg.ones((3, 2))).grad_fn.parents[0])
                with autocast(dtype=region._dtype):
                    seen.add((w @ gg.ones(3)).grad_fn.parents[0])
        return len(seen)

    assert (casts(autocast()), casts(autocast(cache_enabled=False))) == (1, 6)
    with autocast():
        with gg.no_grad():
            assert not (w @ w).requires_grad
        (w @ w).sum().backward()
        first, w.grad = w.grad, None
        optim.SGD([w], lr=0.0).step()  # without a gradient nothing is written
        (w @ w).sum().backward()  # again through the cast, which keeps nothing
        assert w.grad.tolist() == first.tolist()
        optim.SGD([w], lr=1.0).step()
        assert (w @ gg.eye(3)).tolist() == w.astype(gg.bfloat16).tolist()


def test_a_second_derivative_has_the_dtypes_of_the_forward_pass():
    found = []
    for inside in True, False:
        x, w = leaf(4, 3, seed=1), leaf(3, 3)
        with autocast():
            loss = ((x @ w) ** 2).sum()
        with autocast(enabled=inside):
            (g,) = gg.autograd.grad(loss, x, create_graph=True)
        (g**2).sum().backward()
        assert g.dtype == w.grad.dtype == gg.float32
        found.append([g.tolist(), w.grad.tolist()])
    assert found[0] == found[1]


def test_transforms_in_a_region():
    x, w = leaf(5, 3, seed=1).detach(), leaf(3, 3).detach()

    def loss(w, x):
        return gg.log_softmax(gg.tanh(w @ x)).sum()

    with autocast():
        mapped = gg.vmap(gg.grad(loss), (None, 0))(w, x)
        single = gg.stack([gg.grad(loss)(w, row) for row in gg.unstack(x)])
        _, tangent = gg.jvp(lambda w: loss(w, x[0]), (w,), (w,))
    assert mapped.dtype == tangent.dtype == gg.float32
    np.testing.assert_allclose(mapped.numpy(), single.numpy(), rtol=0.05, atol=0.02)
    assert tangent.item() == pytest.approx((single[0] * w).sum().item(), rel=0.05, abs=0.02)
    assert not np.array_equal(mapped.numpy(), gg.vmap(gg.grad(loss), (None, 0))(w, x).numpy())


def test_checkpoint_computes_again_in_the_same_region():
    found = []
    for run in gg.checkpoint, lambda f, x: f(x):
        x, w = leaf(4, 3, seed=1), leaf(3, 3)
        with autocast():
            y = run(lambda x: gg.exp(x @ w) @ w, x) @ w  # noqa: B023
            loss = y.sum()
        assert name(y.dtype) == "bfloat16"
        loss.backward()
        found.append((x.grad.numpy(), w.grad.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02 * np.abs(b).max())
    with autocast():
        y = gg.checkpoint(lambda x: gg.checkpoint(lambda x: (x @ w).sum(), x), x)
    y.backward()


# GradScaler


BAD = {0: np.nan, 1: np.inf, 5: -np.inf, 11: np.inf}  # factors for gradients in some steps
NO_GPU = pytest.mark.skipif(not gg.cuda.is_available(), reason=str(gg.cuda.why_not()))
ON_CUDA = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.slow, NO_GPU])


@pytest.mark.parametrize("kind", "Adam SGD NAdam RAdam".split())
@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
def test_steps_and_scales_are_those_of_pytorch_and_on_cuda_those_of_the_cpu(device, kind):
    """The scales and parameters of 14 steps, of which four are skipped; and the state after."""
    library = pytest.importorskip("torch") if device == "cpu" else gg
    options = {"SGD": {"momentum": 0.9, "dampening": 0.5}}.get(kind, {})
    scaling, ones = {"init_scale": 1024.0, "growth_interval": 3}, np.ones(5, np.float32)
    p = gg.tensor(ones, device=device, requires_grad=True)
    q = library.tensor(ones, requires_grad=True)
    ours, scaler = getattr(optim, kind)([p], lr=0.1, **options), GradScaler(device, **scaling)
    theirs = getattr(library.optim, kind)([q], lr=0.1, **options)
    other = library.amp.GradScaler("cpu", **scaling)
    for i in range(14):
        factor = np.random.default_rng(i).standard_normal(5).astype(np.float32)
        factor[2] = BAD.get(i, factor[2])
        ours.zero_grad()
        theirs.zero_grad()
        scaler.scale((p * p * gg.tensor(factor, device=device)).sum()).backward()
        other.scale((q * q * library.tensor(factor)).sum()).backward()
        before = p.tolist()
        if i % 2:
            scaler.unscale_(ours)
        for s, optimizer in (scaler, ours), (other, theirs):
            s.step(optimizer)
            s.update()
        assert i not in BAD or p.tolist() == before
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), rtol=2e-5)
        if i % 3 == 0:  # to look must change nothing
            assert scaler.state_dict() == other.state_dict()
        if i == 4:
            ours.load_state_dict(ours.state_dict())
            scaler.load_state_dict(other.state_dict())
    assert scaler.state_dict() == other.state_dict()
    state, expected = (x.state_dict()["state"][0] for x in (ours, theirs))
    for key, found in state.items():
        np.testing.assert_allclose(found.cpu().numpy(), np.asarray(expected[key]), rtol=2e-5)


def test_several_outputs_and_optimizers_are_scaled():
    p, q = gg.ones(3, requires_grad=True), gg.ones(3, requires_grad=True)
    a, b = optim.SGD([p], lr=1.0), optim.SGD([q], lr=1.0)
    scaler = GradScaler(init_scale=8.0)
    one, several = scaler.scale([p.sum(), (q * 2).sum()])
    (one + several).backward()
    assert p.grad.tolist() == [8, 8, 8]
    scaler.unscale_(a)
    assert p.grad.tolist() == [1, 1, 1]
    q.grad = q.grad * float("inf")
    scaler.step(a)
    scaler.step(b)
    assert (p.tolist(), q.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert scaler.scale(collections.namedtuple("pair", "x y")(p[0], p[1]))._fields == ("x", "y")
    for wrong in -4.0, gg.tensor(-4.0), gg.tensor(float("nan")), gg.ones(2):
        with pytest.raises(ValueError, match=r"^GradScaler\.update: new_scale must be a number"):
            scaler.update(wrong)
    for given, scale in ((), 4), ((3.0,), 3), ((gg.tensor(5.0),), 5):
        scaler.update(*given)
        assert scaler.get_scale() == scale
        scaler.scale(p.sum()).backward()
        scaler.step(a)


def test_a_disabled_scaler_does_nothing():
    p = gg.ones(3, requires_grad=True)
    optimizer, scaler = optim.SGD([p], lr=1.0), GradScaler(enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0, 0, 0]
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)
    assert repr(scaler).startswith("GradScaler(init_scale=65536.0, growth_factor=2.0, backoff_fa")
    scaler.load_state_dict({})


def test_calls_in_the_wrong_order_are_rejected():
    p, half = leaf(3), leaf(3, dtype="float16")
    optimizer, scaler = optim.SGD([p], lr=1.0), GradScaler()

    def refused(kind, message, call, *args, **options):
        with pytest.raises(kind, match=message):
            call(*args, **options)

    refused(RuntimeError, "nothing was scaled; call scale", scaler.step, optimizer)
    refused(RuntimeError, "nothing was scaled; call scale", scaler.update)
    loss = scaler.scale(p.sum())
    refused(RuntimeError, "no parameter of the optimizer has a gradient", scaler.step, optimizer)
    loss.backward()
    refused(RuntimeError, "no optimizer has stepped", scaler.update)
    scaler.unscale_(optimizer)
    refused(RuntimeError, "unscaled already", scaler.unscale_, optimizer)
    scaler.load_state_dict(scaler.state_dict())
    optimizer.param_groups[0]["lr"] = -1
    refused(ValueError, "lr must be", scaler.step, optimizer)
    optimizer.param_groups[0]["lr"] = 1.0
    for wrong in 0.0, float("nan"), 1e39:
        refused(ValueError, "new_scale must be a number above 0", scaler.update, wrong)
    before = p.tolist()
    scaler.step(optimizer)
    assert p.tolist() == pytest.approx([x - 1 for x in before])
    refused(RuntimeError, "call update after each step", scaler.step, optimizer)
    refused(RuntimeError, "it is called after step", scaler.unscale_, optimizer)
    scaler.update()
    refused(TypeError, "takes no closure", scaler.step, optimizer, lambda: loss)
    refused(TypeError, r"needs an optimizer of gpugrad\.optim, not a Tensor", scaler.step, p)
    refused(TypeError, "needs a Tensor, or a list or tuple", scaler.scale, 1.0)
    scaler.scale(half.sum()).backward()
    low = "a gradient is float16; keep the parameters in float32"
    refused(ValueError, low, scaler.unscale_, optim.SGD([half]))
    wrong = {"growth_factor": 1.0, "backoff_factor": 1.0, "growth_interval": 0, "init_scale": 0.0}
    for option, value in {**wrong, "device": 5}.items():
        refused(ValueError, "GradScaler: ", GradScaler, **{option: value})
    refused(ValueError, "nothing was loaded", scaler.load_state_dict, {"scale": 1.0})
