"""backward, autograd.grad and grad mode, as PyTorch defines them."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.autograd.graph import writes


def leaf(*values, dtype=gg.float64):
    return gg.tensor(values[0] if len(values) == 1 else values, dtype=dtype, requires_grad=True)


def op_with(vjp):
    """An op that returns its input, with this rule."""
    return gg.op(lambda xp, x: x * 1).vjp(x=vjp)


def overwrite(tensor, value):
    """Write into a tensor's memory, as an optimizer's step does."""
    tensor.array[...] = value
    writes.note([writes.place(tensor.array)])


X, COMPLEX = leaf(2.0), gg.tensor([1 + 2j], requires_grad=True)
SHAPE = r"gradient .* must have the shape .*\(2,\)"


@pytest.mark.parametrize("call, message", [
    (lambda: (COMPLEX * COMPLEX).backward(), r"backward: .* not one real number .* real\(z\)"),
    (lambda: COMPLEX.sum().backward(), r"backward: .* not one real number .* real\(z\)"),
    (lambda: (leaf(1.0, 2.0) * 2).backward(np.ones(3)), SHAPE),
    (lambda: (leaf(1.0, 2.0) * 2).backward(np.ones((2, 1))), SHAPE),
    (lambda: (leaf(1.0, 2.0) * 2).backward(1.0), SHAPE),
    (lambda: gg.no_grad(lambda: X * 2)().backward(), r"no graph.*no_grad"),
    (lambda: (lambda y: (y * 3).backward(inputs=[y]))(X * 2),
     r"leaves.*multiply.*autograd\.grad"),
    (lambda: (X * 3).backward(inputs=[gg.tensor(1.0)]), "does not require grad"),
    (lambda: (X * 3).backward(inputs=[]), "inputs is empty"),
    (lambda: gg.tensor(1.0).retain_grad(), "does not require grad"),
    (lambda: grad(X * X, X, [1.0, 2.0]), "1 outputs but 2 gradients"),
    (lambda: grad(X * X, [X, leaf(1.0)]), r"do not depend on input 1.*allow_unused=True"),
    (lambda: grad(X * X, [leaf(1.0)], materialize_grads=True, allow_unused=False),
     "allow_unused=False"),
    (lambda: grad(X * X, [gg.tensor(1.0)]), "does not require grad"),
    (lambda: grad([np.ones(())], X), "no graph"),
])  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# backward


def test_gradients_accumulate_until_cleared():
    x = leaf(3.0)
    y = x * x
    assert x.grad is y.grad is None
    y.backward()
    (x * x).backward()
    assert (x.grad.item(), x.grad.requires_grad, y.grad) == (12, False, None)  # y's is not retained
    x.grad = None
    assert x.requires_grad_() is x  # as it did already
    x.backward()
    assert x.grad.item() == 1


def test_retain_graph():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    grad(y, x, retain_graph=True)
    y.backward()
    assert x.grad.item() == 8
    shared = x.exp()
    (shared * 3).backward()
    for again, op in (
        (y.backward, "multiply"), (lambda: grad(y, x), "multiply"), ((shared * 4).backward, "exp"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=rf"{op} a second time.*retain_graph=True"):
            again()


def test_failure_leaves_gradients_as_they_were():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward()
    before = x.grad, y.grad
    with pytest.raises(ZeroDivisionError):
        (x * 2 + op_with(lambda xp, g: 1 / 0)(y)).backward()
    assert x.grad is before[0]
    assert y.grad is before[1]
    assert (x.grad.item(), y.grad.item()) == (2, 1)


def test_only_the_inputs_are_swept():
    x, y = leaf(2.0), leaf(3.0)
    (op_with(lambda xp, g: pytest.fail("x is no input"))(x) * y).backward(inputs=[y])
    assert x.grad is None
    (x * y).backward(inputs=x)
    assert (x.grad.item(), y.grad.item()) == (3, 2)
    middle, other = x.exp(), y * y
    grad(middle * middle, middle)
    x.grad = None
    middle.backward()  # exp's values were not freed
    assert_allclose(x.grad.item(), np.exp(2))
    other.backward()
    assert grad([x * x, other], x)[0].item() == 4


def test_create_graph():
    x = leaf(2.0)
    y = x**3
    with gg.no_grad():
        y.backward(create_graph=True, retain_graph=True)
        assert not gg.is_grad_enabled()
        assert x.grad.requires_grad
        y.backward()
    assert x.grad.item() == 24
    x.grad = None
    (x**2).backward(create_graph=True)
    (x**3).backward(create_graph=True)
    assert x.grad.item() == 16
    assert grad(x.grad, x)[0].item() == 14  # 2 + 6 x


def test_many_consumers():
    x, gone = leaf(1.0, 2.0), leaf(1.0, 2.0)
    gone.register_post_accumulate_grad_hook(print)
    y = x * 1 * gone
    del gone
    total = y * y + y
    for i in range(20):
        total = total + y * i
    total.sum().backward()
    assert_array_equal(x.grad.numpy(), [2 + 191, 2 * (2 * 4 - 4) + 2 * 191 + 8])


def test_gradients_share_no_memory():
    x, y, seed = leaf(1.0, 2.0), leaf(3.0, 4.0), gg.ones(2, dtype=gg.float64)
    z = (x + y).reshape((1, 2)).reshape((2,))
    z.retain_grad()
    for create_graph in (False, True):
        z.backward(seed, retain_graph=True, create_graph=create_graph)
        for a, b in combinations([seed.array, *(t.grad.array for t in (x, y, z))], 2):
            assert not np.shares_memory(a, b)
        x.grad = y.grad = z.grad = None
        gx, gy, again = grad(z, [x, y, x], seed, retain_graph=True, create_graph=create_graph)
        gx += 1
        assert gy.tolist() == again.tolist() == [1, 1]
    z.sum().backward()  # through a view that repeats one element
    assert x.grad.array.flags.writeable
    assert x.grad.array.strides != (0,)


def test_retained_gradients():
    x = leaf(2.0, 3.0)
    _, y = gg.unstack(x)  # one of several outputs
    y.retain_grad()
    y.retain_grad()
    z = y * y
    (z * 3).backward(retain_graph=True)
    assert y.grad.item() == 18
    z.backward()
    assert (y.grad.item(), x.grad.tolist()) == (24, [0, 24])


# autograd.grad


def test_gradients_of_leaves_and_results():
    x = leaf(2.0)
    y = x * x
    z = y * 3
    assert [g.item() for g in grad([z, z], [z, y, x], retain_graph=True)] == [2, 6, 24]
    assert x.grad is y.grad is None
    assert grad(z, x)[0].item() == 12
    assert grad(x * x, [leaf([3.0, 4.0])], materialize_grads=True)[0].tolist() == [0, 0]


def test_grad_outputs():
    x = leaf(2.0)
    (g,) = grad([x * 3, x * x], x, grad_outputs=[None, gg.tensor(10.0, dtype=gg.float64)])
    assert g.item() == 43
    x, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for seed in (gg.tensor([1.0, 10.0]), np.array([1.0, 10.0]), [np.array([1.0, 10.0])]):
        assert grad(x * x, x, seed)[0].tolist() == [2, 40]
    (g,) = grad(x * x, x, v, create_graph=True)
    assert [second.tolist() for second in grad(g.sum(), [v, x])] == [[2, 4], [6, 8]]


# An in-place write between forward and backward never silently gives a wrong gradient.


@pytest.mark.parametrize("use", [
    lambda w, x: x @ w, lambda w, x: x @ w.T, lambda w, x: x[0] * w[0], lambda w, x: x * w[:, ::-1],
    lambda w, x: x.reshape((-1,)) * w.reshape((-1,)), lambda w, x: x * w.detach(),
    lambda w, x: x * w.reshape((4, 1)).reshape((2, 2)).T, lambda w, x: gg.linear(x, w),
    lambda w, x: x * gg.broadcast_to(w[:1], (2, 2)),
], ids="matmul T row flipped flat detached views linear broadcast".split())  # fmt: skip
def test_saved_leaf_or_view_of_it(use):
    w, x = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([[5.0, 6.0], [7.0, 8.0]])
    y = use(w, x).sum()
    overwrite(w, 0.0)
    with pytest.raises(RuntimeError, match=r"(multiply|matmul|linear): .*overwritten.*forward"):
        y.backward()
    assert x.grad is w.grad is None


@pytest.mark.parametrize("use", [
    lambda w, x: x + w, lambda w, x: w * 3.0, lambda w, x: x * gg.exp(w), lambda w, x: x * (w + 0)
], ids="add scaled exp copy".split())  # fmt: skip
def test_value_that_was_not_saved(use):
    w, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    expected, y = grad(use(w, x).sum(), w)[0].tolist(), use(w, x).sum()
    overwrite(w, 0.0)
    assert grad(y, w)[0].tolist() == expected


# Grad mode


def test_nesting():
    manager, states = gg.no_grad(), []
    with manager:
        with gg.enable_grad():
            states.append(gg.is_grad_enabled())
            with manager:  # entered a second time
                states.append(gg.is_grad_enabled())
            states.append(gg.is_grad_enabled())
        with manager:
            pass
        states.append(gg.is_grad_enabled())
    assert [*states, gg.is_grad_enabled()] == [True, False, True, False, True]


def test_set_grad_enabled_takes_effect_at_once():
    with gg.enable_grad():  # which restores the mode
        gg.set_grad_enabled(False)
        assert not (leaf(1.0) * 2).requires_grad
        gg.set_grad_enabled(True)
        assert (leaf(1.0) * 2).requires_grad


@pytest.mark.parametrize("decorator", [
    lambda: gg.no_grad, gg.no_grad, lambda: gg.set_grad_enabled(False)
])  # fmt: skip
def test_decorator(decorator):
    @decorator()
    def function(a, *, b=2):
        """Its docstring."""
        if a == 0:
            raise KeyError
        return a + b, gg.is_grad_enabled()

    assert function(1, b=5) == (6, False)
    assert (function.__name__, function.__doc__) == ("function", "Its docstring.")
    with pytest.raises(KeyError):
        function(0)
    assert gg.is_grad_enabled()


def test_decorated_generator():
    @gg.no_grad()
    def numbers():
        seen = []
        try:
            for _ in range(2):
                seen.append((yield gg.is_grad_enabled()))
        except KeyError:
            yield "caught", gg.is_grad_enabled()
        return seen

    steps = numbers()
    assert next(steps) is False
    assert gg.is_grad_enabled()
    assert steps.send("a") is False
    with pytest.raises(StopIteration) as stop:
        steps.send("b")
    assert stop.value.value == ["a", "b"]

    steps = numbers()
    next(steps)
    assert steps.throw(KeyError()) == ("caught", False)
    steps.close()
    assert gg.is_grad_enabled()
    assert list(numbers()) == [False, False]

    async def coroutine():
        pass

    async def generator():
        yield

    for function in coroutine, generator:
        with pytest.raises(TypeError, match=r"no_grad: .* is an async function"):
            gg.no_grad()(function)


def test_names_and_next_functions_of_the_graph():
    x, y = leaf(1.0), leaf(2.0, 3.0)
    z = (x * gg.unstack(y)[0] * gg.tensor(2.0)).exp()
    assert (x.grad_fn, x.is_leaf, z.is_leaf) == (None, True, False)
    assert z.grad_fn.name == "exp"
    assert "exp" in repr(z.grad_fn)
    ((product,),) = [scaled.next_functions for scaled in z.grad_fn.next_functions]
    assert product.name == "multiply"
    of_x, of_y = product.next_functions
    assert of_x is x.node
    assert of_y.next_functions[0].next_functions[0] is y.node
