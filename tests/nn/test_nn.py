"""Modules, layers, losses and initial values."""

import copy
import math
import pickle
import weakref

import numpy as np
import pytest
from samples import check_errors, values

import gpugrad
from gpugrad import nn
from gpugrad.nn import functional
from gpugrad.testing import assert_close


class Counter(nn.Module):
    """A module with a parameter, two buffers, and the same layer twice."""

    def __init__(self):
        self.scale = nn.Parameter(gpugrad.ones(2))
        self.register_buffer("steps", gpugrad.tensor(3))
        self.register_buffer("scratch", gpugrad.zeros(2), persistent=False)
        self.first = nn.Linear(2, 2)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


# Parameters and modules


def test_parameter_is_a_leaf_that_requires_grad():
    array = np.array([1.0, 2.0], np.float32)
    p = nn.Parameter(array)
    assert p.array is array
    assert (isinstance(p, gpugrad.Tensor), p.is_leaf, p.requires_grad) == (True, True, True)
    (p * p).sum().backward()
    assert p.grad.tolist() == [2.0, 4.0]
    assert repr(p).startswith("Parameter containing:\ntensor([1., 2.]")
    assert not nn.Parameter([1.0], requires_grad=False).requires_grad


def test_module_finds_its_parameters_and_submodules():
    model = Counter()
    for kind, names in {
        "parameters": ["scale", "first.weight", "first.bias"], "buffers": ["steps", "scratch"],
        "children": ["first", "second"], "modules": ["", "first"],
    }.items():  # fmt: skip
        named = [*getattr(model, f"named_{kind}")()]
        assert [name for name, _ in named] == names
        assert all(x is y for x, (_, y) in zip(getattr(model, kind)(), named, strict=True))


def test_a_replaced_or_deleted_parameter_is_no_longer_part_of_the_module():
    layer = nn.Linear(2, 1)
    for value in (np.ones((1, 2)), gpugrad.ones((1, 2))):
        with pytest.raises(TypeError, match=r"Linear.weight is a Parameter.*nn\.Parameter"):
            layer.weight = value
    layer.weight, layer.bias = nn.Parameter([[1.0, 2.0]]), None
    assert [*layer.named_parameters()] == [("weight", layer.weight)]
    del layer.weight
    assert not [*layer.parameters()]


@pytest.mark.usefixtures("no_collector")
def test_a_module_and_its_graph_are_freed_without_the_garbage_collector():
    model = Counter()
    loss = model(gpugrad.ones((1, 2))).sum()
    loss.backward()
    dead = [*map(weakref.ref, (model, model.scale, model.first))]
    del model, loss
    assert [ref() for ref in dead] == [None, None, None]
    Counter()(gpugrad.ones((1, 2))).sum().backward()  # of which nobody can read a gradient


def test_a_call_is_the_forward_of_the_most_derived_class_or_its_own_call():
    class Double(nn.ReLU):
        def forward(self, x, *, times=2):
            return super().forward(x) * times

    class Negated(nn.Module):
        def __call__(self, x):
            return -self.forward(x)

        def forward(self, x):
            return x + 1

    class NegatedDouble(Negated):
        def forward(self, x):
            return x * 2

    x = gpugrad.tensor([-1.0, 3.0])
    assert Double()(x, times=4).tolist() == [0.0, 12.0]
    assert (Negated()(x).tolist(), NegatedDouble()(x).tolist()) == ([0.0, -4.0], [2.0, -6.0])
    module = nn.ReLU()
    module.forward = lambda x: x  # is not called
    assert module(x).tolist() == [0.0, 3.0]


def test_a_buffer_may_be_none_for_a_while():
    model = Counter()
    model.register_buffer("mean", None)
    model.steps = None
    assert not {"steps", "mean"} & {*model.state_dict()}
    assert [name for name, _ in model.named_buffers()] == ["scratch"]
    model.load_state_dict(model.to(gpugrad.float64).state_dict())
    model.mean = gpugrad.ones(1)
    assert "mean" in model.state_dict()
    with pytest.raises(TypeError, match=r"Counter\.mean is a buffer, .* not int"):
        model.mean = 5
    del model.mean
    model.mean = 5  # which is no buffer any more


# Moving to a dtype or device


LIKE = gpugrad.zeros(1, dtype=gpugrad.float64)


@pytest.mark.parametrize("how", [(gpugrad.float64,), ("cpu", gpugrad.float64), (), (LIKE,)])
def test_to_casts_parameters_gradients_and_floating_buffers(how):
    model = Counter()
    model(gpugrad.ones((1, 2))).sum().backward()
    before = list(model.parameters())
    arrays = [p.array for p in before]
    before[0].requires_grad_(False)  # keeps its gradient
    model.to("cpu", gpugrad.float32)
    assert all(a is p.array for a, p in zip(arrays, before, strict=True))
    assert model.to(*how, **({} if how else {"dtype": gpugrad.float64})) is model
    before[0].requires_grad_()
    assert [id(p) for p in model.parameters()] == [id(p) for p in before]
    assert {x.dtype for p in before for x in (p, p.grad)} == {np.dtype("float64")}
    assert all(p.is_leaf for p in before)
    assert (model.scratch.dtype, model.steps.dtype) == (gpugrad.float64, gpugrad.int64)
    model.zero_grad()
    model(gpugrad.ones((1, 2), dtype=gpugrad.float64)).sum().backward()
    assert all(p.grad.dtype == gpugrad.float64 for p in before)


def test_backward_through_a_graph_from_before_a_change_raises():
    for change, message in (
        (lambda m: m.to(gpugrad.float64), "moved to another device or dtype after the forward"),
        (lambda m: m.load_state_dict(nn.MLP(3, [4, 2]).state_dict()), "overwritten in place"),
        (lambda m: nn.init.zeros_(m[2].weight), "overwritten in place"),
    ):
        model = nn.MLP(3, [4, 2])
        loss = model(gpugrad.ones((1, 3))).sum()
        change(model)
        with pytest.raises(RuntimeError, match=message):
            loss.backward()


# State


def test_state_dict_has_every_name_and_copies():
    model = Counter()
    state = model.state_dict()
    layers = ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert list(state) == ["scale", "steps", *layers]
    assert not any(x.requires_grad for x in state.values())
    with gpugrad.no_grad():
        state["scale"] += 1
    assert values(model.scale).tolist() == [1.0, 1.0]


def test_load_state_dict_overwrites_in_place_and_casts_widths():
    model, other = Counter(), Counter().to(gpugrad.float64)
    arrays = [p.array for p in model.parameters()]
    state = {name: x + 1 for name, x in other.state_dict().items()}
    for given in state, {name: np.asarray(x) for name, x in state.items()}:
        assert model.load_state_dict(given) == ([], [])
        parameters = [*model.parameters()]
        assert [id(p.array) for p in parameters] == [*map(id, arrays)]
        assert all(p.requires_grad for p in parameters)
        for name, x in model.state_dict().items():
            np.testing.assert_array_equal(values(x), values(state[name]).astype(x.dtype))
        assert (model.steps.item(), model.steps.dtype) == (4, gpugrad.int64)
        model.load_state_dict(Counter().state_dict())


def test_load_state_dict_lists_all_misfits_and_loads_nothing():
    model = Counter()
    before = {name: values(x) for name, x in model.state_dict().items()}
    state = {name: x + 1 for name, x in model.state_dict().items()} | {
        "head.weight": gpugrad.ones(3), "first.weight": gpugrad.ones((3, 2)),
        "steps": gpugrad.tensor(1.5), "second.bias": [1.0, 2.0],
    }  # fmt: skip
    del state["first.bias"]
    with pytest.raises(ValueError, match="load_state_dict") as error:
        model.load_state_dict(state)
    assert str(error.value).splitlines() == [
        "load_state_dict: the state is not one of this Counter",
        "  missing: first.bias",
        "  unexpected: head.weight",
        "  steps: is float32, not int64",
        "  first.weight: has shape (3, 2), not (2, 2)",
        "  second.bias: is a list, not a tensor",
        "  nothing was loaded",
    ]
    for name, x in model.state_dict().items():
        np.testing.assert_array_equal(values(x), before[name])


def test_load_state_dict_does_not_begin_where_a_buffer_cannot_be_overwritten():
    model = Counter()
    model.register_buffer("scratch", model.scale * 2)
    with pytest.raises(ValueError, match=r"scratch: cannot be overwritten: .* of multiply") as e:
        model.load_state_dict({name: x + 1 for name, x in model.state_dict().items()})
    assert str(e.value).endswith("nothing was loaded")
    assert values(model.scale).tolist() == [1.0, 1.0]


def test_what_fails_leaves_a_module_as_it_was():
    model = Counter()
    model.late = nn.Parameter(np.broadcast_to(np.ones(1), (2,)))
    with pytest.raises(ValueError, match="late: cannot be overwritten: its array is read-only"):
        model.load_state_dict({name: x + 1 for name, x in model.state_dict().items()})
    model.late = nn.Parameter(gpugrad.ones(2, dtype="complex128"))
    with pytest.raises(TypeError, match="complex parameters cannot become float64"):
        model.to(gpugrad.float64)
    assert (model.scale.tolist(), model.scale.dtype) == ([1.0, 1.0], gpugrad.float32)
    model.hidden, model.scale.grad = [nn.ReLU()], gpugrad.ones(2)
    for change in (model.eval, model.zero_grad, lambda: model.requires_grad_(False)):
        with pytest.raises(TypeError, match="hides Modules"):
            change()
    assert (model.training, model.scale.requires_grad) == (True, True)
    assert model.scale.grad is not None


def test_load_state_dict_of_another_architecture_has_a_short_error():
    with pytest.raises(ValueError, match=r"missing: .* and 30 more") as error:
        nn.MLP(2, [2] * 20).load_state_dict({})
    assert len(str(error.value)) < 300


def test_load_state_dict_without_strict_ignores_names_but_not_shapes():
    model = nn.MLP(3, [4, 2])
    result = model.load_state_dict({"0.bias": gpugrad.ones(4), "head": gpugrad.ones(1)}, False)
    assert result.missing_keys == ["0.weight", "2.weight", "2.bias"]
    assert (result.unexpected_keys, values(model[0].bias).tolist()) == (["head"], [1.0] * 4)
    with pytest.raises(ValueError, match=r"0\.bias: has shape \(3,\), not \(4,\)"):
        model.load_state_dict({"0.bias": gpugrad.ones(3)}, strict=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent_and_keep_what_is_shared(copied):
    model = nn.Sequential(Counter(), nn.Dropout(0.5), nn.MLP(2, [2], gpugrad.tanh)).eval()
    twin, x = copied(model), gpugrad.ones((1, 2))
    assert twin(x).tolist() == model(x).tolist()
    assert not twin.training
    assert twin[0].first is twin[0].second
    assert isinstance(twin[0].scale, nn.Parameter)
    gpugrad.nn.init.zeros_(twin[0].scale)
    assert values(model[0].scale).tolist() == [1.0, 1.0]
    twin(x).sum().backward()
    assert all(p.grad is None for p in model.parameters())
    assert all(p.grad is not None for p in twin.parameters())


# Layers


def test_sizes_of_numpy_become_pythons():
    model = nn.MLP(np.int64(3), np.array([4, 2]))
    assert (repr(model), type(model[0].in_features)) == (repr(nn.MLP(3, [4, 2])), int)


def test_flatten_as_a_function_and_as_a_method():
    x = gpugrad.zeros((2, 3, 4, 5))
    assert functional.flatten(x).shape == (120,)
    assert (functional.flatten(gpugrad.tensor(1.0)).shape, x.flatten(1).shape) == ((1,), (2, 60))


def test_mlp_has_no_activation_after_the_last_layer():
    model = nn.MLP(2, [3, 3, 1], nn.Tanh)
    assert [type(layer).__name__ for layer in model] == ["Linear", "Tanh"] * 2 + ["Linear"]
    assert model[1] is not model[3]
    assert repr(nn.MLP(2, (3, 1), gpugrad.sin)[1]) == "sin"


# Initial values


SPREADS = [
    (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), math.sqrt(1 / 3 / 200)),
    (lambda w: nn.init.kaiming_uniform_(w, nonlinearity="linear"), math.sqrt(1 / 200)),
    (lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / 200)),
    (lambda w: nn.init.kaiming_normal_(w, mode="fan_out"), math.sqrt(2 / 1200)),
    (lambda w: nn.init.xavier_uniform_(w), math.sqrt(2 / 1400)),
    (lambda w: nn.init.xavier_normal_(w, gain=5 / 3), 5 / 3 * math.sqrt(2 / 1400)),
    (lambda w: nn.init.uniform_(w, -1, 1), math.sqrt(1 / 3)),
    (lambda w: nn.init.normal_(w, 0, 0.5), 0.5),
]


@pytest.mark.parametrize("initialise, std", SPREADS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spread_of_random_initial_values(library, initialise, std, dtype):
    w = library.tensor(np.full((300, 50, 4), 7, dtype), requires_grad=True)
    array = w.array
    assert initialise(w) is w
    assert (id(w.array), w.requires_grad) == (id(array), True)
    drawn = library.values(w)
    assert drawn.dtype == dtype
    assert drawn.mean() == pytest.approx(0, abs=0.02 * std)
    assert drawn.std() == pytest.approx(std, rel=0.02)
    for fill, *given, value in (("ones_", 1), ("zeros_", 0), ("constant_", 0.5, 0.5)):
        assert (library.values(getattr(nn.init, fill)(w, *given)) == value).all()


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5), (2, 3, 2)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_orthogonal_rows_or_columns(shape, dtype):
    def made(seed):
        w = nn.Parameter(gpugrad.zeros(shape, dtype=dtype))
        assert nn.init.orthogonal_(w, 2.0, gpugrad.random.Generator(seed)) is w
        return values(w)

    first, same, other = map(made, (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()
    matrix = first.reshape(shape[0], -1).astype("float64")
    gram = min(matrix @ matrix.T, matrix.T @ matrix, key=len)
    near = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), rtol=0, atol=near)


def test_gains_equal_pytorchs():
    init = pytest.importorskip("torch").nn.init
    for args in *zip("linear sigmoid tanh relu leaky_relu selu".split()), ("leaky_relu", 0.3):
        assert nn.init.calculate_gain(*args) == init.calculate_gain(*args)


@pytest.fixture
def twin():
    """NumPy's arrays have a twin of `dense`, which always declines.

    `Sequential` runs a `Linear` and an activation as one op on arrays for which it has a twin.
    """
    gpugrad.dense.twin("numpy", lambda xp, *inputs, activation: NotImplemented)
    yield
    gpugrad.dense.op.twins.pop("numpy")
    gpugrad.dense.op.implementations.clear()


def ops(node):
    """The names of the ops of a graph."""
    names = [] if node.name == "leaf" else [node.name]
    return names + [name for parent in node.next_functions for name in ops(parent)]


@pytest.mark.usefixtures("twin")
def test_layers_that_are_fused_with_their_activations():
    class Mine(nn.Linear):
        def forward(self, input):
            return super().forward(input) * 2

    linear, x = nn.Linear(3, 3), gpugrad.random.normal((5, 3))
    for names, *layers in (
        ("dense", linear, nn.ReLU()),
        ("dense dense", linear, nn.Sigmoid(), nn.Linear(3, 2, bias=False), nn.Tanh()),
        ("tanh dense linear", linear, nn.Linear(3, 2, bias=False), nn.Tanh(), nn.Tanh()),
        ("linear", linear),
        ("relu multiply linear", Mine(3, 2), nn.ReLU()),
    ):
        out = nn.Sequential(*layers)(x)
        assert ops(out.grad_fn) == names.split()
        expected = x
        for layer in layers:
            expected = layer(expected)
        assert_close(out, expected, rtol=0, atol=0)
    model, seen = nn.Sequential(linear, nn.ReLU()), []
    for layer in model:
        with layer.register_forward_hook(lambda module, args, output: seen.append(module)):
            assert ops(model(x).grad_fn) == ["relu", "linear"]
    assert seen == [*model]


def test_softmax_in_another_dtype():
    x = gpugrad.tensor([70000.0, 1.0], dtype=gpugrad.float32)
    for function in functional.softmax, functional.log_softmax:
        out = function(x, dim=0, dtype=gpugrad.float64)
        assert out.dtype == gpugrad.float64
        assert out.tolist() == function(x.to(gpugrad.float64), dim=0).tolist()


# Errors

X, LAYER, IMAGES = gpugrad.ones(3), nn.Linear(3, 4), gpugrad.zeros((2, 3, 4, 5))
INITIALISERS = "zeros_ ones_ uniform_ normal_ xavier_normal_ kaiming_uniform_".split()
SIZES = (0, 2), (2, -1), (2.0, 2), (True, 2), (2, "2")


def registered(name, x):
    return lambda: LAYER.register_buffer(name, x)


def initialised(name, make):
    return lambda: getattr(nn.init, name)(make())


ERRORS = {
    NotImplementedError: [("^Module defines no forward", lambda: nn.Module()(X))],
    TypeError: [
        ("only floating tensors have gradients, not int64", lambda: nn.Parameter([1, 2])),
        ("register_buffer: mean must be a Tensor, not a list", registered("mean", [1.0])),
        ("not a Parameter", registered("mean", LAYER.weight)),
        (r"Module\.to: the dtype must be floating, not int64", lambda: LAYER.to(gpugrad.int64)),
        *(("dropout: the input must be floating, not int64; use",
           lambda x=x: functional.dropout(gpugrad.arange(3), training=x)) for x in (True, False)),
        (r"layer 0 must be a .*; write ReLU\(\), which makes one$", lambda: nn.Sequential(nn.ReLU)),
        (r"layer_sizes must be a sequence, e\.g\. \[8\], not 8", lambda: nn.MLP(2, 8)),
        *((f"^{name}: the tensor must be floating, not int64",
           initialised(name, lambda: gpugrad.tensor([[1, 2]]))) for name in INITIALISERS),
        *((f"^{name}: needs a Tensor, not a list", initialised(name, lambda: [1.0]))
          for name in INITIALISERS),
    ],
    ValueError: [
        *((f"register_buffer: '{name}' is taken, or cannot", registered(name, X))
          for name in ("weight", "forward", "a.b")),
        ("device 'gpu' is not known", lambda: LAYER.to("gpu")),
        *(("must be an int of at least 1", lambda sizes=s: nn.Linear(*sizes)) for s in SIZES),
        *((r"flatten: .* not axes in order .*\(2, 3, 4, 5\)",
           lambda ends=ends: functional.flatten(IMAGES, *ends))
          for ends in ((2, 1), (0, 4), (-5, 1))),
        *(("Dropout: the probability p must be from 0 to 1", lambda p=p: nn.Dropout(p))
          for p in (-0.1, math.nan)),
        ("MLP: layer_sizes must name at least one", lambda: nn.MLP(2, [])),
        ("^train: the mode must be True or False, not 'no'", lambda: LAYER.train("no")),
        ("unexpected: 1", lambda: LAYER.load_state_dict({1: X})),
        ("^dense: activation must be 'relu', 'sigmoid'",
         lambda: gpugrad.dense(X[None], LAYER.weight, activation="cubed")),
        *((f"^{name}: .* it is a result of multiply, not a leaf",
           initialised(name, lambda: LAYER.weight * 2)) for name in INITIALISERS),
        (r"xavier_normal_: needs a weight .* not \(3,\)", lambda: nn.init.xavier_normal_(X)),
        (r"^orthogonal_: needs a weight \(out, in, \.\.\.\)", lambda: nn.init.orthogonal_(X)),
        ("mode must be 'fan_in' or 'fan_out', not 'fan'",
         lambda: nn.init.kaiming_normal_(X[None], mode="fan")),
        ("calculate_gain: nonlinearity must be 'linear', .* not 'gelu'",
         lambda: nn.init.calculate_gain("gelu")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind):
    check_errors(kind, ERRORS[kind])
