"""Comparing the bits of a compiled call with those of the function's own call."""

import operator
import random as python_random
from collections.abc import MutableSequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import partial

from .._tensor import Tensor
from ..autograd.graph import Leaf, Node
from ..backends import backend_of, namespace_of
from ..backends.numpy.random import global_generator
from ..nn.module import Module
from ..optim.optimizer import ParameterState
from ..random import Generator, _generators
from ..transforms.trees import flatten
from .cells import ABSENT, READ_ONLY, SIMPLE, Exactly, hold
from .libraries import slots_of
from .reach import Reach
from .recording import nodes_of
from .stage import tensors_in


class Snapshot:
    """A copy of all state that ``roots`` and the arguments reach; `restore` puts it back."""

    def __init__(self, roots, leaves, args, kwargs):
        nodes = nodes_of((*args, *kwargs.values()))
        self.reach = reach = Reach(roots, leaves, nodes)
        for x in leaves:
            if isinstance(x, Tensor):
                reach.tensor(x)
        self._kept = {}
        arrays = *leaves, *reach.arrays
        others = [x for x in reach.seen.values() if isinstance(x, MutableSequence)]
        found = *reach.tensors.values(), *arrays, *reach.containers, *others, *nodes
        stack = [*found]
        while stack:
            stack += self._keep(stack.pop())
        known = [x for x in reach.seen.values() if isinstance(x, Generator)]
        self.generators = [(g, g.get_state()) for g in {*_generators.values(), *known}]
        foreign = [x for x in reach.seen.values() if _is_foreign_generator(type(x))]
        accesses = [*map(_access, (python_random, global_generator(), *foreign))]
        self.states = [(put, get()) for get, put in accesses]
        self.cells = [(cell, value) for cell, value, how in reach.guards if how == "same"]
        self.missing = [cell for cell, _, how in reach.guards if how == "missing"]

    def _keep(self, x):
        """Copy the contents of an array, a container or an object; returns what is in it."""
        kind = type(x)
        if id(x) in self._kept or x is None:
            return ()
        if kind in namespace_of:
            self._kept[id(x)] = x, backend_of[kind].asarray(x, copy=True)
            return ()
        content = None
        if isinstance(x, (MutableSequence, set, tuple)):
            content = [*x]
        elif isinstance(x, dict):
            content = dict(x)
        elif isinstance(x, Tensor):
            content = {"array": x.array, "node": x.node, "_grad": x.grad}
        elif kind in (Leaf, Node):
            content = {"watch": x.watch}
        elif kind is ParameterState or is_dataclass(kind):
            names = *getattr(x, "__dict__", ()), *slots_of(kind)
            content = {name: getattr(x, name) for name in names if hasattr(x, name)}
        if content is None:
            return ()
        self._kept[id(x)] = x, content
        return content.values() if isinstance(content, dict) else content

    def restore(self):
        try:
            self._restore()
        except KeyboardInterrupt:
            self._restore()
            raise

    def _restore(self):
        for x, content in self._kept.values():
            if type(x) in namespace_of:
                if getattr(getattr(x, "flags", None), "writeable", True):
                    x[...] = content
            elif isinstance(x, (MutableSequence, set, dict)):
                refill(x, content)
            elif not isinstance(x, tuple):
                for name in {*getattr(x, "__dict__", ())} - content.keys():
                    object.__delattr__(x, name)
                for name, value in content.items():
                    object.__setattr__(x, name, value)
        for g, state in self.generators:
            g.set_state(state)
        for put, state in self.states:
            put(state)
        for cell, value in self.cells:
            if not isinstance(cell.container, READ_ONLY) and not hold([(cell, value, "same")]):
                cell.set(value)
        for cell in self.missing:
            with suppress(*ABSENT):
                object.__delattr__(cell.container, cell.key)

    def values(self):
        """The present values of the state by name, for `differences`."""
        found, names = {}, {}
        for module in [x for x in self.reach.seen.values() if isinstance(x, Module)]:
            for name, x in (*module._own_parameters(), *module._own_buffers()):
                names.setdefault(id(x), f"{type(module).__name__}.{name}")
        for i, x in enumerate(self.reach.tensors.values()):
            name = names.get(id(x), f"tensor {i} of shape {x.shape}")
            found[name] = x.array
            found[f"the gradient of {name}"] = x.grad
        for k, o in enumerate(self.reach.optimizers):
            o._settle()
            for i, s in enumerate(o._states.values()):
                where = f"optimizer {k}, parameter {i}"
                found[f"{where}, counts"] = s.counts
                found |= {f"{where}, {name}": array for name, array in s.arrays.items()}
            for i, group in enumerate(o.param_groups):
                for name, value in group.items():
                    if name != "params":
                        found[f"optimizer {k}, group {i}, {name}"] = value
        for i, (cell, _) in enumerate(self.cells):
            with suppress(*ABSENT):
                now = cell.get()
                parts = tensors_in(now) or [now] * isinstance(now, SIMPLE)
                found |= {f"{cell}, {i}, {k}": x for k, x in enumerate(parts)}
        for i, (g, _) in enumerate(self.generators):
            found[f"the state of the random generator {i} on {g.device}"] = repr(g.get_state())
        return {name: _bits(x) for name, x in found.items()}


def _is_foreign_generator(kind):
    is_foreign = kind.__module__ == "random" or kind.__module__.startswith("numpy.random")
    return is_foreign and any(hasattr(kind, x) for x in ("getstate", "get_state", "bit_generator"))


def _access(generator):
    """Functions that get and set the state of a random generator of Python's or NumPy's."""
    if hasattr(generator, "getstate"):
        return generator.getstate, generator.setstate
    if hasattr(generator, "get_state"):
        return generator.get_state, generator.set_state
    bits = generator.bit_generator
    return partial(getattr, bits, "state"), partial(setattr, bits, "state")


def refill(container, values):
    """Give a sequence, dict or set these items, unless it has them."""
    now, before = [*container], [*values]
    if isinstance(container, dict):
        now, before = [*now, *container.values()], [*before, *values.values()]
    if len(now) != len(before) or any(map(operator.is_not, now, before)):
        container.clear()
        put = container.extend if isinstance(container, MutableSequence) else container.update
        put(values)


def results(result):
    """The leaves of a result by name, for `differences`."""
    leaves, _ = flatten(result, none_is_leaf=True)
    return {f"result {i}": _bits(x) for i, x in enumerate(leaves)}


def differences(first, second):
    """The names whose values differ in any bit."""
    return [name for name in first | second if first.get(name) != second.get(name)]


def _bits(x):
    """A value in a form whose ``==`` compares it to the bit."""
    x = x.array if isinstance(x, Tensor) else x
    if type(x) in namespace_of:
        return type(x), x.dtype, tuple(x.shape), backend_of[type(x)].to_numpy(x).tobytes()
    return Exactly(x)
