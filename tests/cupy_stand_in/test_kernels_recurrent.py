"""The CUDA twins of recurrent layers on the stand-in for CuPy equal the definitions."""

import pytest
from definitions import agree, by_definition, by_twin, declines, numbers, on_device, only

from gpugrad.backends.cupy import xp
from gpugrad.ops.recurrent import _gru, _lstm

NEAR = {"float64": 1e-12, "float32": 1e-5, "float16": 6e-3, "bfloat16": 6e-2}
OPS = {"lstm": (_lstm.op, 4, 2), "gru": (_gru.op, 3, 1)}  # the gates and the states


def inputs_of(name, dtype, shape, biases, states):
    (length, rows, features, width), gates = shape, OPS[name][1]
    shapes = (length, rows, features), (gates * width, features), (gates * width, width)
    shapes = *shapes, *[(gates * width,) if b else None for b in biases]
    shapes = *shapes, *[(rows, width) if states else None] * OPS[name][2]
    return [s and (numbers(*s, seed=i) / 2).astype(dtype) for i, s in enumerate(shapes)]


@pytest.mark.parametrize("shape", [(5, 3, 4, 6), (1, 1, 1, 1), (3, 70, 2, 5)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("biases, states", [((1, 1), True), ((0, 1), False), ((0, 0), True)])
@pytest.mark.parametrize("name", OPS)
def test_twin(name, biases, states, reverse, shape, dtype):
    op, _, count = OPS[name]
    inputs = inputs_of(name, dtype, shape, biases, states)
    got = by_twin(op, "forward", *inputs, reverse=reverse)
    agree(got, by_definition(op, "forward", *inputs, reverse=reverse), dtype, near=NEAR)
    out = [x.get() for x in got]
    for given in ((1,) * (count + 1), (1,) + (0,) * count, (0, 1, 1)[: count + 1]):
        given = [*given, *[0] * (len(out) - len(given))]
        g = only(given, [numbers(*y.shape, seed=9).astype(dtype) / 2 for y in out])
        for wanted in ((True,) * 7, (False, True, False, True, False, False, False)):
            kept = g, *inputs[:3], *inputs[5:], out, wanted[: len(inputs)], reverse
            chosen = [*wanted[:5], *[w and states for w in wanted[5 : len(inputs)]]]
            made = by_twin(op, "joint", *kept), by_definition(op, "joint", *kept)
            agree(*[only(chosen, x) for x in made], dtype, near=NEAR)  # more may be computed


def test_what_is_left_to_the_definitions():
    for name, (op, _, _) in OPS.items():
        inputs = on_device(inputs_of(name, "float32", (2, 3, 4, 5), (1, 1), True))
        for k, other in ((0, inputs[0][:0]), (0, inputs[0].astype("float64")), (1, inputs[1][1:])):
            assert declines(op, "forward", *inputs[:k], other, *inputs[k + 1 :], reverse=False)
        out = op.twins["cupy"]["forward"](xp, *inputs, reverse=False)
        kept = *inputs[:3], *inputs[5:], out, (True,) * len(inputs), False
        assert declines(op, "joint", [None] * (len(out) - 1) + [out[-1]], *kept)
