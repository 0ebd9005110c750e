"""What tests of compiled functions share: inputs, comparison to the bit, and calls both ways."""

import functools
import inspect

import numpy as np

import gpugrad as gg


def normal(*shape, seed=0, dtype=np.float32):
    """A tensor of normal numbers that depend on the shape and the seed only."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return gg.asarray(values.astype(dtype))


def bits(x):
    x = x.detach() if isinstance(x, gg.Tensor) else x
    x = np.asarray(getattr(x, "array", x))
    return x.dtype, x.shape, x.tobytes()


def with_one_nan(array):
    """The array with the same bits for each nan, whose sign is not specified."""
    if array.dtype.kind == "c":
        return np.stack([with_one_nan(array.real), with_one_nan(array.imag)])
    if array.dtype.kind == "f":
        return np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array


def same(x, y):
    if isinstance(x, (tuple, list)):
        assert len(x) == len(y)
        for one, other in zip(x, y, strict=True):
            same(one, other)
    elif isinstance(x, gg.Tensor) or hasattr(x, "dtype"):
        assert bits(x) == bits(y), (x, y)
    else:
        assert x == y


def is_replayed(compiled):
    return bool(compiled._programs) and not compiled._given_up


def both_ways(test):
    """A test that returns the same whether functions are compiled, and have programs then, or not.

    Its first argument is `compile`, or leaves functions as they are.
    """

    @functools.wraps(test)
    def compared(**given):
        compiled = []

        def compile(f):
            compiled.append(gg.compile(f))
            return compiled[-1]

        same(test(compile, **given), test(lambda f: f, **given))
        assert all(map(is_replayed, compiled))

    signature = inspect.signature(test)
    parameters = [*signature.parameters.values()][1:]
    compared.__signature__ = signature.replace(parameters=parameters)
    return compared


def refuse_failures(monkeypatch):
    """Let nothing fail in a program but what fails in its function, which would run instead."""

    def refuse(failure, *args, **kwargs):
        raise AssertionError(f"the program failed, but the function did not: {failure}")

    for module in "compiled", "derivatives":
        monkeypatch.setattr(f"gpugrad.tape.{module}.warn_of", refuse)


def replays(f, *inputs):
    """Compare a compiled function with ``f`` for each tuple of inputs; it must have a program."""
    compiled = gg.compile(f)
    for given in inputs:
        same(compiled(*given), f(*given))
    assert is_replayed(compiled)


def training(optimizer, loss_of):
    """A step of training that reduces ``loss_of(...)`` and returns it."""

    def step(*args):
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
