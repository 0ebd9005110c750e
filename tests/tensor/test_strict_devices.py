"""Every op on the simulated devices of array-api-strict: devices and dtypes of results.

array-api-strict rejects arrays on different devices in one function, and arrays of double
precision on the device ``no_float64``.
"""

import numpy as np
import pytest
from libraries import Library
from modules import LAYERS, OPTIMIZERS, TRANSFORMS, on_device
from samples import every
from test_batching import MAPPED, Batch, choices_of_inputs, sample_subset
from test_layers import flattened
from test_ops import DOUBLE, Call, each_case, quiet, samples

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.autograd.call import wrap
from gpugrad.autograd.forward_sweep import forward_sweep
from gpugrad.backends import backend_of

strict = pytest.importorskip("array_api_strict")
pytestmark = pytest.mark.slow


class OnDevice(Library):
    """array-api-strict, with its arrays on one of its devices."""

    def __init__(self, device):
        super().__init__("array_api_strict", "array_api_strict")
        self.device = device

    def raw(self, value):
        return self.device if isinstance(value, str) and value == "cpu" else super().raw(value)

    def has(self, dtype):
        is_there = self.device != "no_float64" or np.dtype(dtype).name not in DOUBLE
        return super().has(dtype) and is_there

    def values(self, tensor):
        assert tensor.device == self.device
        return super().values(tensor)

    def _array(self, values):
        return self.standard.asarray(values.copy(), device=strict.Device(self.device))


DEVICES = {name: OnDevice(name) for name in ("CPU_DEVICE", "device1", "no_float64")}
DTYPES_OF_DEVICES = [("device1", "float64"), ("no_float64", "float32"), ("no_float64", "complex64")]


def chosen(case, library, dtype):
    for sample in samples(case, library, dtype):
        static = [x.dtype for x in sample.static.values() if isinstance(x, np.ndarray)]
        if all(map(library.has, [sample.static.get("dtype") or "float32", *static])):
            yield sample


def results_of(call):
    """Yield the results, gradients with and without ``create_graph``, and tangents of a call."""
    yield from call.outputs
    if call.recorded:
        cotangents = call.cotangents()
        yield from call.gradients(cotangents, retain_graph=True)
        yield from call.gradients(cotangents, create_graph=True)
        given, roots = {x.node: x.array for x in call.leaves}, [y.node for y in call.recorded]
        with quiet():
            tangents = forward_sweep(given, roots, retain_graph=True, create_graph=False)
        yield from [wrap(t, None) for t in tangents.values()]


@each_case()
def test_results_stay_on_the_device(case):
    each = [(d, t, sample) for d, t in DTYPES_OF_DEVICES for sample in chosen(case, DEVICES[d], t)]
    for (device, dtype, sample), checked in every(each):
        with checked:
            for x in results_of(Call(case, sample, DEVICES[device], dtype)):
                assert x.device == device
                assert dtype == "float64" or DEVICES[device].dtype(x.dtype) not in DOUBLE


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.op)
def test_a_batch_stays_on_the_device(case):
    library = DEVICES["no_float64"]
    subset = sample_subset(chosen(case, library, "float32"), library)
    batches = [(sample, over) for sample in subset for over in choices_of_inputs(case, sample, 1)]
    for (sample, over), checked in every(batches):
        with checked, quiet():
            batch = Batch(case, sample, library, "float32", (3,), over)
            for results in batch.by_loop(), batch.by_vmap():
                for x in [*results, *batch.gradients(results)]:
                    assert x.device == library.device


@each_case()
def test_nothing_is_moved_between_devices(case):
    """If inputs are on different devices, the error names them."""
    for sample in samples(case, DEVICES["device1"]):
        call = Call(case, sample, DEVICES["device1"])
        places = [i for i, x in enumerate(call.tensors) if isinstance(x, gg.Tensor)]
        for i in places[1:]:
            mixed = list(call.tensors)
            mixed[i] = DEVICES["CPU_DEVICE"].tensor(call.given[i])
            if case.op in ("broadcast_arrays", "meshgrid"):  # each result depends on one input
                assert [y.device for y in call.function(*mixed)] == [x.device for x in mixed]
                continue
            message = r"^[\w.]+: inputs are on different devices, CPU_DEVICE and device1; move"
            with pytest.raises(ValueError, match=message):
                call.function(*mixed)
        if len(places) > 1:
            return


def leaf(device, shape):
    values = np.random.default_rng(0).standard_normal(shape).astype("float32")
    return DEVICES[device].tensor(values, requires_grad=True)


def assert_on(device, *tensors):
    for x in tensors:
        assert (x.device, DEVICES[device].dtype(x.dtype)) == (device, "float32")


each_device = pytest.mark.parametrize("device", ["device1", "no_float64"])


@each_device
@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_layer(row, device):
    module, inputs = on_device(row, DEVICES[device].tensor)
    parameters = {name: leaf(device, p.shape) for name, p in module.named_parameters()}
    buffers = {name: DEVICES[device].tensor(b.numpy()) for name, b in module.named_buffers()}
    outputs = flattened(nn.functional_call(module, parameters | buffers, tuple(inputs)))
    loss = sum((out**2).sum() for out in outputs)
    loss.backward()
    grads = [x.grad for x in (*inputs, *parameters.values()) if x.requires_grad]
    assert_on(device, *outputs, loss, *grads)


@each_device
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizer(kind, device):
    options = [{"weight_decay": 1e-2}]
    options += [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}] if kind is optim.SGD else []
    for given in options:
        parameters = [leaf(device, (2, 3)), leaf(device, 4)]
        optimizer = kind(parameters, lr=0.1, **given)
        for _ in range(3):
            optimizer.zero_grad()
            gg.add(*[(p**2).sum() for p in parameters]).backward()
            optimizer.step()
        state = optimizer.state_dict()["state"].values()
        kept = [x for s in state for x in s.values() if getattr(x, "ndim", 0)]
        assert_on(device, *parameters, *[p.grad for p in parameters], *kept)


@each_device
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name, device):
    def f(x):
        return gg.sum(gg.softmax(x) * gg.sin(x) ** 2) + gg.max(x) * x[0]

    assert_on(device, TRANSFORMS[name](f, leaf(device, 4)))


def loss_and_step(device):
    """Compute a loss, then overwrite its parameter by a step; return both."""
    x = leaf(device, (2, 3))
    loss = gg.sum(x * x * 2)
    x.grad = gg.ones_like(x)
    optim.SGD([x], lr=0.1).step()
    return x, loss


def test_memory_without_an_address_is_not_copied_to_the_host(monkeypatch):
    backend = backend_of[type(leaf("device1", 3).array)]
    monkeypatch.setattr(backend, "to_numpy", lambda array: pytest.fail("copied"))
    with gg.tools.memory_report() as report:
        x, loss = loss_and_step("device1")
        assert backend.buffer(x.array) is None
        assert backend.buffer_size(x.array) == backend.nbytes(x.array) == 24
        assert report.total == report.of_leaves == 24
    loss.backward()


def test_memory_that_numpy_can_read_has_an_address():
    x, loss = loss_and_step("CPU_DEVICE")
    buffer = backend_of[type(x.array)].buffer
    assert buffer(x.array) == buffer(x.array) != buffer(loss.array)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        loss.backward()
