"""Ops on the stand-in for CuPy, which is imported as ``cupy`` here, and what it rejects."""

import cupy
import cupyx
import numpy as np
import pytest
from cases import CASES
from cases.base import Array
from cupy._array import crossings
from cupy._functions import late
from cupy._reads import reads
from libraries import Library
from numpy.testing import assert_equal
from samples import every
from test_ops import Call, samples

import gpugrad as gg
from gpugrad.autograd.call import wrap
from gpugrad.autograd.forward_sweep import forward_sweep
from gpugrad.testing import assert_close


class OnSecondDevice(Library):
    """CuPy with its arrays on the device that is not current."""

    def _array(self, values):
        with cupy.cuda.Device(1):
            return super()._array(values)


NUMPY = Library("numpy", "numpy")
PLACES = {"cuda:0": Library("cupy", "cupy"), "cuda:1": OnSecondDevice("cupy", "cupy")}


# The ops that must wait for the device: the shape of the result depends on values, an unsuitable
# matrix is an error, or their gradients solve by a matrix that may be singular.
WAITS = """
    argwhere bincount nonzero unique_all unique_counts unique_inverse unique_values
    linalg.cholesky linalg.inv linalg.matrix_power linalg.solve
    linalg.eig linalg.eigvals linalg.qr linalg.slogdet
""".split()


def has_to_wait(case, sample):
    """Return whether a sample must wait, since its values may be an error or decide a shape."""
    if case.op == "repeat":
        return isinstance(sample.inputs[1], Array)
    key = sample.static.get("key", ())
    parts = [k for k in (key if isinstance(key, tuple) else (key,)) if isinstance(k, np.ndarray)]
    return case.op in WAITS or any(k.dtype == bool and k.ndim for k in parts)


@pytest.fixture(autouse=True)
def no_reads_before():
    reads.clear()


def steps(call):
    """Return the gradients of a call, with and without ``create_graph``, and the tangents."""
    cotangents, nodes = call.cotangents(), [y.node for y in call.recorded]
    given = {x.node: x.array for x in call.leaves}
    tangents = forward_sweep(given, nodes, retain_graph=True, create_graph=False)
    return [
        *call.gradients(cotangents, retain_graph=True),
        *call.gradients(cotangents, create_graph=True),
        *[wrap(t, None) for t in tangents.values()],
    ]


@pytest.mark.parametrize("dtype, device", [("complex128", "cuda:0"), ("float64", "cuda:1")])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_op(case, dtype, device):
    """Values, gradients and tangents are NumPy's, on the inputs' device, without a host read."""
    waited, expected_to_wait, library = False, False, PLACES[device]
    crossings.clear()
    for sample, checked in every(samples(case, library, dtype)):
        with checked:
            reads.clear()
            call = Call(case, sample, library, dtype)
            results = [*call.outputs, *(steps(call) if call.recorded else [])]
            if has_to_wait(case, sample):
                waited, expected_to_wait = waited or bool(reads), True
            else:
                assert reads == []
            expected = Call(case, sample, NUMPY, dtype)
            others = [*expected.outputs, *(steps(expected) if expected.recorded else [])]
            for a, b in zip(results, others, strict=True):
                assert a.device == device
                near = 1e-6 if sample.mixed or a.dtype in (gg.float32, gg.complex64) else 1e-9
                case.assert_close(library.values(a), NUMPY.values(b), rtol=near, atol=near)
            assert cupy.cuda.runtime.getDevice() == 0
    assert (waited, crossings) == (expected_to_wait, [])


def test_functions_that_differ_in_cupy():
    """Floor division, ``linspace`` with complex ends, and ``arange`` down in unsigned integers."""
    inf, kind = np.inf, gg.float64
    x1 = gg.tensor([1.0, -1, 1, -1, 5, inf, 1, -7, 7, 1e10, np.nan, 0, 0.3], dtype=kind)
    x2 = gg.tensor([0.1, inf, inf, -inf, 0, 2, -0.0, 3, -3, 3.3, 1, -2, -0.1], dtype=kind)
    for divide in (gg.floor_divide, gg.remainder):
        for a, b in (x1, x2), (x1, 0.1), (x1, 0.0), (-1.0, x2), (x1, inf):
            on_device = [x.to("cuda") if isinstance(x, gg.Tensor) else x for x in (a, b)]
            with np.errstate(all="ignore"):
                assert_equal(divide(*on_device).cpu().numpy(), divide(a, b).numpy())
    for make in (
        lambda device: gg.linspace(1 + 2j, -3j, 5, device=device),
        lambda device: gg.arange(7, 0, -2, dtype=gg.uint8, device=device),
    ):
        assert_close(make("cuda").cpu(), make("cpu"))
        assert make("cuda").dtype == make("cpu").dtype


def test_pinned_memory_is_copied_before_the_program_goes_on():
    pinned = cupyx.empty_pinned((2, 3), "float32")
    pinned[:] = 1
    late.clear()
    for given, waits in [(pinned, 1), (pinned[1:], 1), (np.ones(3), 0), ([1.0], 0), (2.0, 0)]:
        reads.clear()
        gg.asarray(given, device="cuda")
        assert len(reads) == waits
    reads.clear()
    gg.tensor(np.ones(3)).to("cuda")
    assert (reads, late) == ([], [])
    cupy.asarray(pinned)
    assert len(late) == 1


def test_what_cupy_rejects():
    """Otherwise the tests above would show nothing."""
    with cupy.cuda.Device(1):
        x, event = cupy.ones(2), cupy.cuda.Event()
        event.record()
        assert event.done
    for message, refused in {
        r"resides \(1\) is different": lambda: x + x,
        "Unsupported type": lambda: cupy.ones(2) + np.ones(2),
        "unexpected keyword": lambda: cupy.zeros(2, device=0),
        "makes a context on device 0": lambda: event.done or event.synchronize(),
    }.items():
        with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
            refused()
    with pytest.raises(np.linalg.LinAlgError, match="singular matrix"):
        gg.linalg.inv(gg.zeros((2, 2), device="cuda"))
