"""What the tests of native code share: layouts, comparisons, programs."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from stand_in import environment

from gpugrad.backends.native import base
from gpugrad.backends.numpy.namespace import xp

needs_compiler = pytest.mark.skipif(not base.is_expected(), reason="there is no C compiler")
# Of a module: its tests need the library, and ignore floating-point errors.
needs_library = [needs_compiler, pytest.mark.usefixtures("quiet")]


class Interrupted(BaseException):
    """What the fixture ``timer`` has raised."""


def memory(dtype, shape, layout):
    """An array with elements that are not set yet, in one of several layouts."""
    empty, shape = np.empty, tuple(shape)
    if layout == "C" or not shape:
        return empty(shape, dtype)
    *lead, last = shape
    match layout:
        case "F":
            return empty(shape[::-1], dtype).T
        case "transposed":
            return empty((*lead[:-1], last, *lead[-1:]), dtype).swapaxes(-1, -len(shape[-2:]))
        case "gaps":
            return empty((*lead, last + 3), dtype)[..., :last]
        case "second":
            return empty((*lead, 2 * last), dtype)[..., ::2]
        case "sliced":
            return empty([2 * n + 1 for n in shape], dtype)[(np.s_[1::2],) * len(shape)]
        case "reversed":
            return empty(shape, dtype)[(np.s_[::-1],) * len(shape)]
        case "upside down":
            return empty(shape, dtype)[..., ::-1, :]
        case "repeated":
            return np.broadcast_to(empty((1, *shape[1:]), dtype), shape)


def misaligned(x, offset=1):
    """A copy whose elements begin so many bytes after a multiple of their size."""
    out = np.empty(x.nbytes + offset, np.uint8)[offset:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


def assert_same(found, expected):
    """The same bits, but for those of nan; in containers and for None, too."""
    if isinstance(expected, (tuple, list)):
        for x, y in zip(found, expected, strict=True):
            assert_same(x, y)
        return
    assert type(found) is type(expected)
    if expected is not None:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        is_nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(found), is_nan)
        assert found[~is_nan].tobytes() == expected[~is_nan].tobytes()


def check_twin(op, key, *args, may_decline=False, **static):
    """Compare a twin of an op with the definition, whose result is returned."""
    expected = {"forward": op.forward, "joint": op.joint, **op.rules}[key](xp, *args, **static)
    twin = op.twins["numpy"][key]
    assert_same((twin if may_decline else twin.twin)(xp, *args, **static), expected)
    return expected


def check_errors(call, message):
    """Check that NumPy's settings decide what an error does; returns the result without errors."""
    with np.errstate(all="warn", under="ignore"), pytest.warns(RuntimeWarning, match=message):
        call()
    with np.errstate(all="raise", under="ignore"), pytest.raises(FloatingPointError, match=message):
        call()
    with np.errstate(all="ignore"), warnings.catch_warnings(action="error"):
        return call()


def watch(monkeypatch, owner, name, begin=lambda: None):
    """A list of the results of all calls of a function from now on, with their arguments.

    begin: is called before the first one.
    """
    calls, function = [], getattr(owner, name)

    def watched(*args, **options):
        if not calls:
            begin()
        calls.append((None, args))
        calls[-1] = function(*args, **options), args
        return calls[-1][0]

    monkeypatch.setattr(owner, name, watched)
    return calls


def run(code, **variables):
    """Run a program; returns what it prints, errors and warnings at the end."""
    names = "CC", "GPUGRAD_NATIVE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"
    kept = {k: v for k, v in environment(stand_in=False).items() if k not in names}
    command = sys.executable, "-c", textwrap.dedent(code)
    pipes = {"capture_output": True, "text": True}
    done = subprocess.run(command, env=kept | variables, timeout=300, **pipes)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
