"""Comparing a compiled call with one that is not compiled, to the bit."""

import operator
from collections import deque
from types import MappingProxyType

from .._tensor import Tensor
from ..backends import backend_of, namespace_of
from ..random import _generators
from ..transforms.trees import flatten
from .cells import holds
from .draws import foreign_states, restore_foreign
from .reach import Reach
from .recording import Given


class Snapshot:
    """Copies of all state reached from ``roots`` and arguments, which `restore` puts back."""

    def __init__(self, roots, leaves, args, kwargs):
        self.given = Given((*args, *kwargs.values()))
        self.reach = reach = Reach(roots, leaves, self.given.nodes)
        for x in leaves:
            if isinstance(x, Tensor):
                reach.tensor(x)
        self.tensors = [
            (x, x.array, _copy(x.array), x.node, x.grad, _grad(x), _copy(_grad(x)))
            for x in reach.tensors.values()
        ]
        self.unwatched = [
            x.node for x, *_ in self.tensors if x.node is not None and x.node.watch is None
        ]
        arrays = [x for x in leaves if type(x) in namespace_of]
        arrays += [array for _, array in reach.arrays]
        self.arrays = [(array, _copy(array)) for array in arrays]
        self.containers = [
            (x, dict(x) if isinstance(x, dict) else set(x) if isinstance(x, set) else list(x))
            for x in reach.containers
            if not isinstance(x, MappingProxyType)
        ]
        self.optimizers = [
            (
                o, list(o._hyper), list(o._arguments), [dict(g) for g in o.param_groups],
                dict(o._states), o._states, o._unknown,
                [
                    (s, s.step, s.numbers, {n: (a, _copy(a)) for n, a in s.arrays.items()})
                    for s in o._states.values()
                ],
            )
            for o in reach.optimizers
        ]  # fmt: skip
        self.schedulers = [
            (
                vars(s),
                {n: list(v) if isinstance(v, list) else v for n, v in vars(s).items()},
            )
            for s in reach.schedulers
        ]
        known = {id(g): g for g in (*_generators.values(), *reach.generators)}
        self.generators = [(g, g.get_state()) for g in known.values()]
        self.foreign = foreign_states(reach.foreign_generators)
        self.cells = [(cell, value) for cell, value, how in reach.guards if how == "same"]

    def restore(self):
        for x, array, values, node, grad, grad_array, grad_values in self.tensors:
            _overwrite(array, values)
            x.array, x.node, x._grad = array, node, grad
            if grad is not None:
                _overwrite(grad_array, grad_values)
                grad.array = grad_array
        for array, values in self.arrays:
            _overwrite(array, values)
        for node in self.unwatched:
            node.watch = None
        for container, values in self.containers:
            refill(container, values)
        self.given.restore()
        for o, hyper, arguments, groups, states, table, unknown, parts in self.optimizers:
            o._hyper[:], o._arguments[:], o._states = hyper, arguments, table
            o._unknown = unknown
            for group, values in zip(o.param_groups, groups, strict=False):
                group.clear()
                group.update(values)
            table.clear()
            table.update(states)
            for s, step, numbers, arrays in parts:
                s.step, s.numbers = step, numbers
                for array, values in arrays.values():
                    _overwrite(array, values)
        for values, before in self.schedulers:
            values.clear()
            values.update({n: list(v) if isinstance(v, list) else v for n, v in before.items()})
        for g, state in self.generators:
            g.set_state(state)
        restore_foreign(self.foreign)
        for cell, value in self.cells:
            if not cell.is_fixed() and not holds(cell, value, "same"):
                cell.set(value)

    def values(self):
        """What there is now, by name, for `differences`."""
        found = {}
        names = {}
        for module in self.reach.modules:
            for name, x in (*module._own_parameters(), *module._own_buffers()):
                names.setdefault(id(x), f"{type(module).__name__}.{name}")
        for i, (x, *_) in enumerate(self.tensors):
            name = names.get(id(x), f"tensor {i} of shape {x.shape}")
            found[name] = _copy(x.array)
            found[f"the gradient of {name}"] = None if x.grad is None else _copy(x.grad.array)
        for k, (o, *_) in enumerate(self.optimizers):
            o._settle()
            for i, s in enumerate(o._states.values()):
                where = f"optimizer {k}, parameter {i}"
                found[f"{where}, step"] = s.step, s.numbers
                for name, array in s.arrays.items():
                    found[f"{where}, {name}"] = _copy(array)
            for i, group in enumerate(o.param_groups):
                for name, value in group.items():
                    if name != "params":
                        found[f"optimizer {k}, group {i}, {name}"] = value
        for i, (g, _) in enumerate(self.generators):
            found[f"the state of the random generator {i} on {g.device}"] = repr(g.get_state())
        return found


def refill(container, values):
    """Give a list, dict, set or deque the items that it had."""
    if isinstance(container, (list, deque)):
        if len(container) != len(values) or any(map(operator.is_not, container, values)):
            container.clear()
            container.extend(values)
    elif isinstance(container, set):
        if container != values:
            container.clear()
            container.update(values)
    elif container.keys() != values.keys() or any(container[k] is not values[k] for k in values):
        container.clear()
        container.update(values)


def results(result):
    """The leaves of a result by name, for `differences`."""
    leaves, _ = flatten(result, none_is_leaf=True)
    return {f"result {i}": _value(x) for i, x in enumerate(leaves)}


def differences(first, second):
    """The names whose values differ in any bit."""
    return [
        name
        for name in first | second
        if name not in first or name not in second or not _equal(first[name], second[name])
    ]


def _value(x):
    if isinstance(x, Tensor):
        return _copy(x.array)
    return _copy(x) if type(x) in namespace_of else x


def _equal(x, y):
    if type(x) in namespace_of or type(y) in namespace_of:
        if type(x) is not type(y) or x.dtype != y.dtype or tuple(x.shape) != tuple(y.shape):
            return False
        to_numpy = backend_of[type(x)].to_numpy
        return to_numpy(x).tobytes() == to_numpy(y).tobytes()
    return type(x) is type(y) and (x == y or x != x)


def _grad(x):
    return None if x.grad is None else x.grad.array


def _copy(array):
    return None if array is None else backend_of[type(array)].asarray(array, copy=True)


def _overwrite(array, values):
    if getattr(getattr(array, "flags", None), "writeable", True):
        array[...] = values
