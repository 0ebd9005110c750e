"""einops on Tensors: values equal those on NumPy arrays, gradients equal finite differences."""

import einops
import numpy as np
import pytest
from oracle import check

import gpugrad
import gpugrad.einops
from gpugrad.testing import assert_close, gradgradcheck


def draw(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in shapes]


CASES = {
    "transpose": (lambda x: einops.rearrange(x, "b h w -> w b h"), (2, 3, 4)),
    "split": (lambda x: einops.rearrange(x, "(b c) w -> b w c", c=3), (6, 2)),
    "merge": (lambda x: einops.rearrange(x, "b ... c -> b (... c)"), (2, 3, 2, 2)),
    "new axes": (lambda x: einops.rearrange(x, "a b -> a 1 b 1"), (2, 3)),
    "patches": (lambda x: einops.rearrange(x, "(h p) (w q) -> (h w) p q", p=2, q=2), (4, 6)),
    **{
        name: (lambda x, name=name: einops.reduce(x, "b h w -> h b", name), (2, 3, 4))
        for name in ("sum", "mean", "max", "min", "prod")
    },
    "pool": (lambda x: einops.reduce(x, "(h 2) (w 2) -> h w", "mean"), (4, 6)),
    "to a scalar": (lambda x: einops.reduce(x, "a b -> ", "sum"), (2, 3)),
    "repeat": (lambda x: einops.repeat(x, "a b -> (a r) b s", r=2, s=3), (2, 3)),
    "new axis repeated": (lambda x: einops.repeat(x, "a -> n a", n=4), (3,)),
    **{
        pattern: (lambda *xs, pattern=pattern: einops.einsum(*xs, pattern), *shapes)
        for pattern, *shapes in (
            ("a b, b c -> a c", (2, 3), (3, 4)), ("batch i, batch j -> batch i j", (2, 3), (2, 4)),
            ("... i, i -> ...", (2, 2, 3), (3,)), ("a a -> a", (3, 3)),
            ("a b, b c, c d -> d a", (2, 3), (3, 2), (2, 4)),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    function, *shapes = CASES[name]
    arrays = draw(*shapes)
    check(function, *arrays)
    gradgradcheck(function, [gpugrad.tensor(x, requires_grad=True) for x in arrays])


def test_pack_and_unpack():
    arrays = draw((2, 3), (2, 4, 3), (3,))
    tensors = [gpugrad.tensor(x, requires_grad=True) for x in arrays]
    packed, shapes = einops.pack(tensors, "* c")
    assert_close(packed, einops.pack(arrays, "* c")[0])
    for a, x in zip(einops.unpack(packed * packed, shapes, "* c"), arrays, strict=True):
        assert_close(a, x * x)
    (packed * packed).sum().backward()
    for t, x in zip(tensors, arrays, strict=True):
        assert_close(t.grad, 2 * x)


def test_rearrange_of_a_list_stacks():
    x, y = [gpugrad.tensor(a, requires_grad=True) for a in draw((2, 3), (2, 3))]
    einops.rearrange([x, y], "n a b -> a (n b)")[:, 3:].sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([[0] * 3] * 2, [[1] * 3] * 2)


def test_mean_of_integers_is_an_error():
    with pytest.raises(NotImplementedError, match="reduce_mean is not available"):
        einops.reduce(gpugrad.arange(6), "(a b) -> a", "mean", a=2)


def test_parse_shape():
    assert einops.parse_shape(gpugrad.zeros((2, 3)), "a b") == {"a": 2, "b": 3}
