"""`nn.summary`."""

import pytest

import gpugrad as gg
from gpugrad import nn

X = gg.ones((2, 3))


def model():
    last = nn.Sequential(nn.Dropout(0.9), nn.ReLU(), nn.Linear(4, 1_000, bias=False))
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), last)


def test_the_table():
    assert repr(nn.summary(model(), X)) == (
        "layer             outputs    parameters   bytes\n"
        "Sequential        (2, 1000)           0       0\n"
        "  0: Linear       (2, 4)             16      64\n"
        "  1: BatchNorm1d  (2, 4)              8      72\n"
        "  2: Sequential   (2, 1000)           0       0\n"
        "    0: Dropout    (2, 4)              0       0\n"
        "    1: ReLU       (2, 4)              0       0\n"
        "    2: Linear     (2, 1000)       4,000  16,000\n"
        "\n"
        "parameters: 4,024, of which trained: 4,024; bytes with buffers: 16,136"
    )


def test_without_inputs_there_are_no_outputs():
    found = nn.summary(model().requires_grad_(False))
    assert "outputs" not in repr(found)
    assert {row.outputs for row in found.rows} == {None}
    assert (found.parameters, found.trained, found.nbytes) == (4_024, 0, 16_136)
    assert [row.name for row in found.rows] == ["", "0", "1", "2", "2.0", "2.1", "2.2"]


def test_the_model_stays_as_it_is():
    net = model()
    net[2].eval()
    before = {name: x.tolist() for name, x in net.state_dict().items()}
    gg.manual_seed(0)
    nn.summary(net, X)
    drawn = gg.random.uniform(())
    gg.manual_seed(0)
    assert drawn == gg.random.uniform(())
    assert {name: x.tolist() for name, x in net.state_dict().items()} == before
    assert [m.training for m in net.modules()] == [True] * 3 + [False] * 4
    assert (type(net), gg.is_grad_enabled()) == (nn.Sequential, True)
    broken = nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 4))
    with pytest.raises(ValueError, match=r"^linear: "):
        nn.summary(broken, X)
    assert (broken.training, type(broken[0])) == (True, nn.Linear)


def test_shared_parameters_and_unused_layers():
    class Tied(nn.Module):
        def __init__(self):
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)
            self.second.weight = self.first.weight
            self.unused = nn.Identity()

        def forward(self, x, *, scale):
            return {"a": self.second(self.first(x) * scale), "b": (x, [None])}

    found = nn.summary(Tied(), X, scale=2.0)
    assert [row.parameters for row in found.rows] == [0, 12, 3, 0]
    assert [row.outputs for row in found.rows] == [((2, 3), (2, 3)), ((2, 3),), ((2, 3),), None]
    assert repr(found).splitlines()[4] == "  unused: Identity  -                        0      0"


@pytest.mark.parametrize("given, message", [
    ((nn.Linear,), "must be a Module, not the class Linear$"),
    ((nn.ReLU(), (2, 3)), r"not their shapes, as in .*gpugrad\.zeros\(\(2, 3\)\)\)$"),
])  # fmt: skip
def test_errors(given, message):
    with pytest.raises(TypeError, match=message):
        nn.summary(*given)
