"""Containers of modules and parameters, `Module.apply`, and lists that hide modules."""

import copy
import itertools
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import gpugrad
from gpugrad import nn


def widths(layers):
    return [layer.out_features for layer in layers]


def linears(*sizes):
    return [nn.Linear(2, n) for n in sizes]


# Sequential


def test_named_layers_are_attributes_and_names_in_the_state():
    model = nn.Sequential(OrderedDict(body=nn.Linear(2, 3), act=gpugrad.tanh, head=nn.Linear(3, 1)))
    assert " ".join(model.state_dict()) == "body.weight body.bias head.weight head.bias"
    assert model.head is model[-1]
    assert "(act): tanh" in repr(model)
    model.head = nn.Linear(3, 5)
    assert model(gpugrad.ones((4, 2))).shape == (4, 5)
    assert [name for name, _ in model[1:].named_children()] == ["act", "head"]


@pytest.mark.parametrize("name", ["forward", "training", "a.b", "", "keys"])
def test_names_that_layers_cannot_have(name):
    for kind in nn.ModuleDict, *[nn.Sequential] * (name != "keys"):
        with pytest.raises(ValueError, match=f"{kind.__name__}: {name!r} cannot name a module"):
            kind({name: nn.Tanh()})


def test_names_are_kept_until_items_move():
    model = nn.Sequential({"a": nn.Tanh(), "b": nn.ReLU()})
    model.insert(1, nn.Sigmoid()).append(nn.GELU())
    assert [name for name, _ in model.named_children()] == ["a", "1", "b", "3"]
    model = nn.Sequential({"0": nn.Linear(2, 2), "2": nn.Linear(2, 2)})
    assert list(model.state_dict())[::2] == ["0.weight", "2.weight"]
    with pytest.raises(ValueError, match="Sequential: an item named '2' is there already"):
        model.append(nn.Tanh())
    model.insert(2, nn.Tanh())
    assert [name for name, _ in model.named_children()] == ["0", "1", "2"]


@pytest.mark.parametrize("kind", [lambda xs: nn.Sequential(*xs), nn.ModuleList])
def test_items_are_indexed_replaced_and_deleted(kind):
    items = same = kind(linears(1, 2, 3, 4))
    assert widths(items[1:3]) == [2, 3]
    assert type(items[1:3]) is type(items)
    assert items[-1] in items
    assert nn.Linear(2, 4) not in items
    items[-1] = nn.Linear(2, 7)
    assert widths(items) == [1, 2, 3, 7]
    del items[0]
    assert widths([items.pop(), items.pop(0)]) == [7, 2]
    items += linears(4)
    assert items is same
    assert widths(items) == [3, 4]
    del items[1:]
    items.insert(-1, nn.Linear(2, 9)).insert(100, nn.Linear(2, 8))
    assert widths(items) == [9, 3, 8]
    assert [name for name, _ in items.named_children()] == ["0", "1", "2"]
    for i, (name, *args) in itertools.product(
        (3, -4), (("__getitem__",), ("__setitem__", nn.Tanh()), ("__delitem__",), ("pop",))
    ):
        with pytest.raises(IndexError, match=rf"index {i} is out of range for 3 items"):
            getattr(items, name)(i, *args)


def test_a_refused_item_changes_nothing():
    for items, wrong in (nn.Sequential(*linears(1, 2)), 3), (nn.ModuleList(linears(1, 2)), max):
        calls = ("extend", [nn.Tanh(), wrong]), ("insert", 0, wrong), ("__setitem__", 0, wrong)
        for name, *args in calls:
            with pytest.raises(TypeError, match="must be a module"):
                getattr(items, name)(*args)
        assert widths(items) == [1, 2]


# Lists and dicts


class Net(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 1)])])
        self.heads = nn.ModuleDict({"left": nn.Linear(2, 1), "right": nn.Linear(2, 3)})
        self.scales = nn.ParameterList([gpugrad.ones(2), nn.Parameter(gpugrad.zeros(()))])

    def forward(self, x, head):
        return self.heads[head](self.layers[0](x) * self.scales[0] + self.scales[1])


def test_what_containers_hold_is_trained_moved_and_copied():
    model = Net()
    model(gpugrad.ones((1, 2)), "right").sum().backward()
    assert model.scales[0].grad is not None
    assert model.heads["left"].weight.grad is None
    for twin in copy.deepcopy(model), pickle.loads(pickle.dumps(model)):
        assert (repr(twin), list(twin.state_dict())) == (repr(model), list(model.state_dict()))
    model.to(gpugrad.float64).eval()
    assert {p.dtype for p in model.parameters()} == {np.dtype("float64")}
    assert not model.layers[1][0].training


def test_module_dict_is_a_dict():
    left, right = linears(1, 2)
    expected = {"left": left, "right": right}
    heads = nn.ModuleDict([*expected.items()])
    for use in list, len, dict.keys, dict.values, dict.items:
        found = getattr(nn.ModuleDict, use.__name__, use)(heads)
        assert found == use(expected) or [*found] == [*use(expected)]
    assert ["left" in heads, "up" in heads] == [True, False]
    assert heads.left is heads["left"] is left
    heads["left"] = right
    heads.update({"up": left})
    assert heads.pop("left") is right
    del heads["right"]
    assert list(heads) == ["up"]
    heads.clear()
    assert not len(heads)
    with pytest.raises(KeyError, match="up"):
        heads["up"]
    with pytest.raises(TypeError, match="ModuleDict: 'f' must be a Module, not a builtin_function"):
        heads["f"] = max
    with pytest.raises(TypeError, match="ModuleDict: a key must be a str, not a int"):
        heads[1] = left
    for container in heads, nn.ModuleList():
        with pytest.raises(NotImplementedError, match="defines no forward"):
            container(gpugrad.ones(1))
    names = ["get", "setdefault", "popitem"]  # PyTorch takes them, as it has no such methods
    heads.update(dict.fromkeys(names, left))
    assert list(heads) == names
    assert heads["get"] is left
    assert {f"get.{name}" for name in left.state_dict()} < heads.state_dict().keys()


def test_parameter_list_is_a_list_of_parameters():
    first = nn.Parameter(gpugrad.ones(2))
    items = nn.ParameterList([first, np.zeros(3, np.float32)])
    assert items[0] is first
    assert all(isinstance(p, nn.Parameter) for p in items)
    assert list(items.append(gpugrad.ones(1)).state_dict()) == ["0", "1", "2"]
    assert [p.shape for p in items[1:]] == [(3,), (1,)]
    items[1] = gpugrad.ones(5)
    assert [p.shape for p in items] == [(2,), (5,), (1,)]
    assert [first in items, nn.Parameter(gpugrad.ones(2)) in items] == [True, False]
    assert repr(items).splitlines()[1] == "  (0): Parameter of shape (2,), float32 on cpu"


# apply


def test_apply_reaches_each_module_once_and_children_first():
    shared, seen = nn.Tanh(), []
    model = nn.Sequential(nn.Sequential(shared, nn.ReLU()), shared, nn.Linear(1, 1))
    assert model.apply(seen.append) is model
    assert seen == [shared, model[0][1], model[0], model[2], model]
    model.back = model  # as a child may refer to its parent
    assert len(list(model.modules())) == 5
    seen.clear()
    model.apply(seen.append)
    assert len(seen) == 5


# Hidden modules

HIDDEN = {
    "modules": (lambda: [nn.Tanh(), nn.Linear(1, 1)], "a list that hides Modules.* nn.ModuleList"),
    "dict": (lambda: {"a": nn.Linear(1, 1)}, "a dict that hides Modules.* nn.ModuleDict"),
    "nested": (lambda: [[nn.Linear(1, 1)]], "a list that hides Modules.* nn.ModuleList"),
    "parameters": (lambda: [nn.Parameter([1.0])], "a list that hides Par.* nn.ParameterList"),
}
USES = {
    **dict.fromkeys("parameters buffers modules eval state_dict".split(), ()),
    "to": (gpugrad.float64,),
    "load_state_dict": ({},),
}


class Holder(nn.Module):
    def __init__(self, value):
        self.layer = nn.Linear(1, 1)
        self.blocks = value


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("what", HIDDEN)
def test_a_list_that_hides_modules_is_an_error(what, use):
    make, message = HIDDEN[what]
    for model in Holder(make()), nn.Sequential(Holder(make())):
        with pytest.raises(TypeError, match=rf"^Holder\.blocks is {message}, or a tuple"):
            list(getattr(model, use)(*USES[use]))


def test_lists_that_hide_nothing_and_are_filled_later():
    model = Holder([])
    list(model.parameters())
    model.blocks.append(nn.Linear(1, 1))
    with pytest.raises(TypeError, match=r"Holder\.blocks is a list that hides Modules"):
        list(model.parameters())
    model.blocks = [model.layer, {"again": model.layer}]
    model.weights = {"first": model.layer.weight}
    model.teacher = (nn.Linear(1, 1),)
    model.others = [1.0, {"tanh": gpugrad.tanh}]
    assert len(list(nn.Sequential(model).parameters())) == len(model.state_dict()) == 2


def test_names_with_a_prefix_and_without_the_modules_inside():
    torch = pytest.importorskip("torch")

    def listed(nn):
        block = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        for part in block, block[1]:
            for options in {}, {"prefix": "a"}, {"recurse": False}, {"prefix": "a.b"}:
                named = *part.named_parameters(**options), *part.named_buffers(**options)
                yield [(name, tuple(x.shape)) for name, x in named]
            yield [tuple(x.shape) for x in (*part.parameters(False), *part.buffers(recurse=False))]

    assert list(listed(nn)) == list(listed(torch.nn))
