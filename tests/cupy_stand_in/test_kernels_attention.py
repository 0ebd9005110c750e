"""The CUDA twin of attention on the stand-in for CuPy equals the definition."""

import cupy
import numpy as np
import pytest
from cupy._reads import reads

import gpugrad as gg
from gpugrad.backends.cupy import xp
from gpugrad.backends.numpy import backend as numpy
from gpugrad.kernels.cuda.attention import _Attention

OP = gg.attention.op
TWIN = OP.twins["cupy"]


@pytest.mark.parametrize("elements", [1 << 24, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 40, 4), (2, 3, 40, 4)), ((33, 4), (50, 4)), ((3, 50, 4), (1, 33, 4))],
    ids=str,
)
def test_twin(shapes, is_causal, dtype, elements, monkeypatch):
    monkeypatch.setattr(_Attention, "elements", lambda self: elements)
    rng = np.random.default_rng(0)
    query, key, value, g = (
        rng.standard_normal(shape)
        for shape in (shapes[0], shapes[1], (*shapes[1][:-1], 5), (*shapes[0][:-1], 5))
    )

    def on(array):
        return cupy.asarray(array.astype(dtype))

    arrays = query, key, value
    static = {"is_causal": is_causal, "scale": 0.4}
    rest = (None, is_causal, 0.4, 0.0)
    choices = (True, True, True, False), (False, True, False, False)
    reads.clear()
    got = [TWIN["forward"](xp, *map(on, arrays), **static)]
    for wanted in choices:
        got += TWIN["joint"](xp, on(g), *map(on, arrays), *rest, wanted)
    assert reads == []
    expected = [OP.forward(numpy.xp, *arrays, **static)]
    for wanted in choices:
        expected += OP.joint(numpy.xp, g, *arrays, *rest, (0, 0), wanted)
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-12}
    for c, e in zip(got, expected, strict=True):
        assert (c is None) == (e is None)
        if c is not None:
            assert c.dtype == dtype
            assert np.allclose(c.get(), e, **near)


def test_falls_back_to_the_definition():
    x = cupy.ones((3, 4), "float32")
    mask, empty = cupy.ones((3, 3), "bool"), cupy.ones((0, 4), "float32")
    assert TWIN["forward"](xp, x, x, x, mask) is NotImplemented
    assert TWIN["forward"](xp, x, x, x, dropout_p=0.5) is NotImplemented
    assert TWIN["forward"](xp, x, empty, empty) is NotImplemented
    half = x.astype("float16")
    assert TWIN["forward"](xp, half, half, half) is NotImplemented
    wanted = (True, False, False, False)
    assert TWIN["joint"](xp, half, x, x, x, None, False, None, 0.0, wanted) is NotImplemented
