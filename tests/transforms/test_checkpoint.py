"""`checkpoint`: the same derivatives in less memory, by computing values twice."""

import numpy as np
import pytest
from test_custom_vjp import close, leaf
from test_memory import peak_of

import gpugrad as gg
from gpugrad import checkpoint, nn

X, W = np.random.default_rng(0).standard_normal((2, 3, 3))


class TestArguments:
    def test_containers_and_other_results(self):
        def f(p, n, *, scale):
            y = p["w"] * p["b"][0] * scale
            return {"y": y, "n": n, "order": gg.argsort(y), "same": p["w"], "none": None}

        p = {"w": leaf(X[0]), "b": [gg.asarray(X[1]), "name"]}
        out = checkpoint(f, p, 3, scale=2.0)
        assert (out["n"], out["none"]) == (3, None)
        assert out["order"].tolist() == np.argsort(X[0] * X[1] * 2).tolist()
        (out["y"].sum() + (out["same"] ** 2).sum()).backward()
        close(p["w"].grad, X[1] * 2 + 2 * X[0])

    def test_tensors_from_outside(self):
        """Also the argument itself, and if only a tensor from outside is recorded."""
        x = leaf(X)
        h = gg.sin(x)
        checkpoint(lambda y: (x * y * h).sum(), x.detach()).backward()
        close(x.grad, X * np.sin(X) + X * X * np.cos(X))
        x.grad = None
        checkpoint(lambda y: (x * y).sum(), x).backward()
        close(x.grad, 2 * X)

    def test_parts_that_are_not_recorded(self):
        def f(x):
            with gg.no_grad():
                scale = x.sum()
            return x * scale

        x = gg.asarray(X)
        assert not checkpoint(gg.sin, x).requires_grad
        with gg.no_grad():
            assert not checkpoint(gg.sin, x.requires_grad_()).requires_grad
        checkpoint(f, x).sum().backward()
        close(x.grad, np.full_like(X, X.sum()))

    def test_arguments_changed_in_place(self):
        def f(x, y):
            x *= 2
            y[0] = y[0] * x[0]
            return x * y

        x, y, expected = leaf(X), gg.tensor(W), leaf(X)
        checkpoint(f, x, y).sum().backward()
        close(y, W)
        f(expected * 1, gg.tensor(W)).sum().backward()
        close(x.grad, expected.grad.numpy())

    def test_nested(self):
        calls = []

        def inner(x):
            calls.append("inner")
            return gg.sin(x)

        def outer(x):
            calls.append("outer")
            return checkpoint(inner, gg.exp(x)) * x

        x = leaf(X)
        checkpoint(outer, x).sum().backward()
        assert calls == ["outer", "inner"] * 2 + ["inner"]
        close(x.grad, np.cos(np.exp(X)) * np.exp(X) * X + np.sin(np.exp(X)))


def test_backward_twice():
    x = leaf(X)
    y = checkpoint(lambda x: gg.sin(x).sum(), x)
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, 2 * np.cos(X))
    with pytest.raises(RuntimeError, match="through checkpoint a second time"):
        y.backward()


def test_hooks_are_called_once_with_the_whole_gradient():
    seen, w = [], leaf(W)
    h = w * 3
    for x in w, h:
        x.register_hook(lambda g: seen.append(g.numpy().copy()))

    def f(x):
        x.register_hook(lambda g: seen.append("inner"))
        return (x * w * h).sum()

    (checkpoint(f, h) + (w + h).sum()).backward()
    assert (seen[0], len(seen)) == ("inner", 3)
    close(gg.asarray(seen[1]), 2 * 3 * W * W + 1)
    close(gg.asarray(seen[2]), 27 * W**2 + 4)


@pytest.mark.parametrize("own", [False, True], ids=["default", "own generator"])
def test_random_numbers_are_the_same_twice(own):
    source = gg.random.Generator(3) if own else gg.random
    default, drawn = gg.random.default_generator(), []

    def f(x):
        drawn.append(source.uniform((3, 3)) + source.permutation(3))
        return x * drawn[-1]

    x = leaf(X.astype("float32"))
    gg.manual_seed(1)
    y, after = checkpoint(f, x), default.get_state()
    gg.manual_seed(1)  # another program's
    state = default.get_state()
    y.sum().backward()
    assert drawn[0].tolist() == drawn[1].tolist() == x.grad.tolist()
    assert default.get_state() == state
    if not own:
        f(x)
    assert default.get_state() == after


class TestErrors:
    def test_a_tensor_from_outside_that_has_another_array(self):
        """`test_writes.py` has those that are overwritten in their memory."""
        w, x = leaf(W), leaf(X)
        y = checkpoint(lambda x: gg.relu(x + w), x)
        with gg.no_grad():
            w *= 2
        with pytest.raises(RuntimeError, match=r"checkpoint.*overwritten in place"):
            y.sum().backward()
        assert x.grad is None

    def test_different_tensors_the_second_time(self):
        h = x = leaf(X)
        for w in [leaf(W + i) for i in range(2)]:
            h = checkpoint(lambda x: x * w, h)  # noqa: B023
        with pytest.raises(RuntimeError, match=r"<lambda> depends on other recorded tensors"):
            h.sum().backward()
        assert x.grad is None

    @pytest.mark.parametrize("second, message", [
        (lambda x: x[0], r"float64 of shape \(3,\) for the result, but float64 of shape"),
        (lambda x: x.astype(gg.float32), "returned float32 of shape"),
        (lambda x: x.detach(), "that does not require grad"),
        (lambda x: 3, "returned a int for the result"),
        (lambda x: (x, x), r"returned \(\*, \*\), but \* at first"),
    ])  # fmt: skip
    def test_different_results_the_second_time(self, second, message):
        functions = [second, lambda x: x * 2]
        y = checkpoint(lambda x: functions.pop()(x), leaf(X))
        with pytest.raises(RuntimeError, match=message):
            y.sum().backward()

    def test_a_function_that_fails_the_second_time(self):
        results = [gg.tensor(2.0)]
        y = checkpoint(lambda x: x * results.pop(), leaf(X))
        with pytest.raises(IndexError) as caught:
            y.sum().backward()
        assert caught.value.__notes__[0] == "while checkpoint computed <lambda> again for backward"

    def test_not_a_function(self):
        with pytest.raises(TypeError, match=r"checkpoint: f is called at once, .*f, x\), but no"):
            gg.checkpoint(gg.sin)
        with pytest.raises(TypeError, match="checkpoint: f must be a function"):
            checkpoint(gg.ones(3), gg.ones(3))


def test_a_quarter_of_the_memory_for_64_layers():
    segments = [[nn.Linear(8, 8) for _ in range(8)] for _ in range(8)]
    x = gg.random.normal((4096, 8))

    def run(layers, x):
        for layer in layers:
            x = x + gg.tanh(layer(x))
        return x

    def train(call):
        h = x
        for segment in segments:
            h = call(run, segment, h)
        (h * h).sum().backward()

    plain = peak_of(lambda: train(lambda f, *args: f(*args)))
    assert peak_of(lambda: train(checkpoint)) < plain / 4
