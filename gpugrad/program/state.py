"""What a function reads besides its arguments: found, replaced while it is recorded, and compared.

`reach` walks from the function to the functions that it names and calls, to what their closures
and globals hold, and from there into modules, optimizers, schedulers, containers and objects of
the program's own classes.
"""

import functools
import sys
import types

from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.graph import Leaf, Node, watched
from ..autograd.variables import variable
from ..backends import backend_of, namespace_of
from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer, ParameterState
from ..random import Generator
from ..transforms.custom import custom_vjp
from .numbers import Later, Number
from .record import Input, Unsupported

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), range, slice, types.EllipsisType)
_LARGEST = 1000  # items of a container that are looked at
_LIBRARIES = (sys.stdlib_module_names - {"__main__"}) | {
    "gpugrad", "numpy", "cupy", "torch", "scipy", "jax", "optree", "matplotlib", "sklearn",
    "array_api_strict", "array_api_compat", "einops", "pytest",
}  # fmt: skip


def is_own(module):
    """Whether a module, by its name, is part of the program rather than of a library."""
    return module is not None and module.partition(".")[0] not in _LIBRARIES


class Slot:
    """A place that holds a value: an item of a container, an attribute, or a closure's cell."""

    __slots__ = ("kind", "container", "key")

    def __init__(self, kind, container, key=None):
        self.kind = kind
        self.container = container
        self.key = key

    def get(self):
        if self.kind == "item":
            return self.container[self.key]
        if self.kind == "cell":
            return self.container.cell_contents
        return getattr(self.container, self.key)

    def set(self, value):
        if self.kind == "item":
            self.container[self.key] = value
        elif self.kind == "cell":
            self.container.cell_contents = value
        elif isinstance(self.container, type):
            setattr(self.container, self.key, value)
        else:
            object.__setattr__(self.container, self.key, value)

    def __str__(self):
        if self.kind == "item":
            return f"{self.key!r} of a {type(self.container).__name__}"
        if self.kind == "cell":
            return "a variable of the enclosing function"
        return f"{type(self.container).__name__}.{self.key}"


class Reach:
    """Everything that a function reaches.

    tensors: by id.
    arrays: pairs of a slot and the raw array in it.
    guards: triples ``(slot, value, how)``; ``how`` is "is", "equal", "len" or "type".
    module_guards: those of attributes of modules, which an assignment announces.
    """

    def __init__(self, function, leaves=()):
        self.tensors = {}
        self.arrays = []
        self.guards = []
        self.module_guards = []
        self.modules = []
        self.optimizers = []
        self.schedulers = []
        self.generators = []
        self.containers = []
        self._seen = {}
        self._classes = set()
        self._walk(function, None, ())
        for x in leaves:
            if isinstance(x, Tensor):
                self.tensor(x)

    def tensor(self, x):
        if id(x) in self.tensors:
            return
        self.tensors[id(x)] = x
        watch = getattr(x.node, "watch", None)
        if watch is not None:
            for table in (watch.hooks, watch.accumulated):
                self.containers.append((table, dict(table)))
                self._guard(table, len(table), "len")
                for number, hook in list(table.items()):
                    self._walk(hook, Slot("item", table, number), ())

    def _guard(self, slot, value, how, guards=None):
        if slot is not None and not (how != "len" and _is_tuple_item(slot)):
            (self.guards if guards is None else guards).append((slot, value, how))

    def _walk(self, x, slot, names, guards=None):
        kind = type(x)
        if isinstance(x, _SIMPLE):
            self._guard(slot, x, "equal", guards)
            return
        self._guard(slot, x, "is", guards)
        if id(x) in self._seen:
            return
        if isinstance(x, Tensor):
            self._seen[id(x)] = x
            self.tensor(x)
        elif kind in namespace_of:
            self._seen[id(x)] = x
            self.arrays.append((slot, x))
        elif isinstance(x, Module):
            self._seen[id(x)] = x
            self._module(x)
        elif isinstance(x, Optimizer):
            self._seen[id(x)] = x
            self._optimizer(x)
        elif isinstance(x, LRScheduler) or hasattr(x, "get_last_lr"):
            self._seen[id(x)] = x
            self.schedulers.append(x)
            for value in vars(x).values():
                for part in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(part, Optimizer) or hasattr(part, "get_last_lr"):
                        self._walk(part, None, ())
        elif isinstance(x, Generator):
            self._seen[id(x)] = x
            self.generators.append(x)
        elif isinstance(x, types.ModuleType):
            if is_own(x.__name__):
                for name in names:
                    if name in vars(x):
                        self._walk(vars(x)[name], Slot("item", vars(x), name), names)
        else:
            self._seen[id(x)] = x
            self._other(x, names, guards)

    def _other(self, x, names, guards):
        kind = type(x)
        if isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._walk(x.__func__, None, ())
            self._walk(
                x.__self__,
                None,
                x.__func__.__code__.co_names if hasattr(x.__func__, "__code__") else (),
            )
        elif isinstance(x, functools.partial):
            for part in (x.func, *x.args, *x.keywords.values()):
                self._walk(part, None, ())
        elif isinstance(x, custom_vjp):
            for part in (x.f, x._fwd, x._bwd):
                if part is not None:
                    self._walk(part, None, ())
        elif isinstance(x, dict):
            self.containers.append((x, dict(x)))
            self._guard(x, len(x), "len", guards)
            for key in list(x)[:_LARGEST]:
                self._walk(x[key], Slot("item", x, key), names, guards)
        elif isinstance(x, (list, tuple)):
            if isinstance(x, list):
                self.containers.append((x, list(x)))
                self._guard(x, len(x), "len", guards)
            for i, item in enumerate(x[:_LARGEST]):
                self._walk(item, Slot("item", x, i), names, guards)
        elif isinstance(x, type):
            if is_own(x.__module__):
                self._class(x)
        elif hasattr(x, "__wrapped_function__"):  # another compiled function
            self._walk(x.__wrapped_function__, None, ())
        elif is_own(kind.__module__) or kind.__name__ in ("SimpleNamespace", "Namespace"):
            self._object(x, guards)

    def _object(self, x, guards):
        """An instance of one of the program's own classes."""
        values = getattr(x, "__dict__", None)
        if values is not None:
            self.containers.append((values, dict(values)))
            self._guard(values, len(values), "len", guards)
            for name, value in list(values.items()):
                self._walk(value, Slot("item", values, name), (), guards)
        for base in type(x).__mro__:
            for name in getattr(base, "__slots__", ()) or ():
                if hasattr(x, name) and not name.startswith("__"):
                    self._walk(getattr(x, name), Slot("attr", x, name), (), guards)
        if is_own(type(x).__module__):
            self._walk(type(x), None, ())

    def _function(self, function):
        if not is_own(function.__module__):
            for cell in function.__closure__ or ():  # transforms close over the user's function
                try:
                    value = cell.cell_contents
                except ValueError:
                    continue
                if isinstance(
                    value,
                    (
                        types.FunctionType,
                        types.MethodType,
                        Module,
                        Tensor,
                        functools.partial,
                        custom_vjp,
                    ),
                ):
                    self._walk(value, Slot("cell", cell), ())
            return
        codes, names = [function.__code__], []
        for code in codes:
            names += code.co_names
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        names = tuple(dict.fromkeys(names))
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self._walk(value, Slot("cell", cell), names)
        for name in names:
            if name in function.__globals__:
                slot = Slot("item", function.__globals__, name)
                self._walk(function.__globals__[name], slot, names)
        if function.__defaults__:
            self._walk(function.__defaults__, None, names)
        if function.__kwdefaults__:
            self._walk(function.__kwdefaults__, None, names)

    def _class(self, kind):
        """The methods of one of the program's own classes, and the values that it holds."""
        if id(kind) in self._classes:
            return
        self._classes.add(id(kind))
        for name, value in list(vars(kind).items()):
            if isinstance(value, (types.FunctionType, staticmethod, classmethod)):
                self._walk(getattr(value, "__func__", value), None, ())
            elif isinstance(value, property):
                self._walk(value.fget, None, ())
            elif not name.startswith("__") and isinstance(value, (*_SIMPLE, Tensor, list, dict)):
                self._walk(value, Slot("attr", kind, name), ())

    def _module(self, module):
        self.modules.append(module)
        values = vars(module)
        guards = self.module_guards
        self.containers.append((values, dict(values)))
        guards.append((values, len(values), "len"))
        guards.append((module, type(module), "type"))
        for name, value in list(values.items()):
            how = None if isinstance(value, (list, dict)) else guards
            self._walk(value, Slot("item", values, name), (), how)
        for base in type(module).__mro__:
            if not is_own(base.__module__):
                continue
            self._class(base)
        hooks = values.get("_hooks")
        if hooks is not None:
            for table in vars(hooks).values():
                self.containers.append((table, dict(table)))
                self.guards.append((table, len(table), "len"))
                for entry in list(table.values()):
                    hook = entry[0] if isinstance(entry, tuple) else entry
                    self._walk(hook, None, ())

    def _optimizer(self, optimizer):
        self.optimizers.append(optimizer)
        values = vars(optimizer)
        self.containers.append((values, dict(values)))
        for name, value in list(values.items()):
            if isinstance(value, _SIMPLE):
                self._guard(Slot("item", values, name), value, "equal")
            elif name in ("param_groups", "_states"):
                self._guard(Slot("item", values, name), value, "is")
        self.guards.append((optimizer.param_groups, len(optimizer.param_groups), "len"))
        for group in optimizer.param_groups:
            params = group["params"]
            self.guards.append((group, len(group), "len"))
            self.guards.append((Slot("item", group, "params"), params, "is"))
            if isinstance(params, list):
                self.guards.append((params, len(params), "len"))
            for k, p in enumerate(params):
                self.tensor(p)
                self._guard(Slot("item", params, k), p, "is")
            for name, value in group.items():
                if name not in optimizer.defaults and name != "params":
                    self.guards.append((Slot("item", group, name), value, "equal"))
        if is_own(type(optimizer).__module__):
            self._walk(type(optimizer), None, ())


class Swap:
    """All state that a function reaches, replaced by what notes its uses; `restore` undoes it.

    originals: from the id of each Tensor to ``(tensor, array, node, grad, array of grad, node of
        grad)`` as they were.
    inputs: from the id of each Tensor to the Traced array that stands for its own.
    """

    def __init__(self, recording, reach):
        self.recording = recording
        self.reach = reach
        self.originals = {}
        self.inputs = {}
        self.grads = {}
        self.states = []
        self.groups = []
        self.numbers = []
        self.saved = []
        self.by_array = {}
        self.first = {}  # the variables that the inputs have at first
        self.real_of = {}
        self.proxies = []
        self.alike = []
        self.of_state = set()
        self.stand_ins = {}
        self.passed = []

    def enter(self):
        real = self.recording.backend
        seen_grads = {}
        for key, x in self.reach.tensors.items():
            if type(x.array) not in real.array_types:
                raise Unsupported("it uses arrays of several libraries or devices")
            grad = x.grad
            self.originals[key] = (
                x, x.array, x.node, grad,
                None if grad is None else grad.array, None if grad is None else grad.node,
            )  # fmt: skip
            if grad is not None:
                if id(grad) in self.reach.tensors or grad.node is not None:
                    raise Unsupported("a gradient is also a tensor of the program, or has a graph")
                seen_grads[key] = grad
        for key, (x, array, *_) in self.originals.items():
            x._grad = x.grad  # so that replay may read the slot
            traced = self._input(array, Input("tensor", x))
            self.inputs[key] = traced
            x.array = traced
            if type(x.node) is Node:  # a sweep must not go on into a graph from outside
                x.node = self.stand_ins[key] = variable(wrap(traced, None)).node
                watched(x.node).hooks[0] = self.passed.append
        for key, grad in seen_grads.items():
            x = self.originals[key][0]
            self.grads[key] = grad.array = self._input(grad.array, Input("grad", x))
        for slot, array in self.reach.arrays:
            if type(array) in real.array_types and slot is not None:
                traced = self._input(array, Input("held", slot))
                self.recording.know(array, traced)
                if not _is_tuple_item(slot):
                    self.saved.append((slot, array, traced))
                    slot.set(traced)
        for optimizer in self.reach.optimizers:
            self._optimizer(optimizer)
        for scheduler in self.reach.schedulers:
            self._scheduler(scheduler)

    def _input(self, array, source):
        traced = self.by_array.get(id(array))
        if traced is None:
            traced = self.by_array[id(array)] = self.recording.input(array, source)
            self.recording._kept.append(array)
            self.first[traced] = traced.home.var
            self.real_of[traced.home.var] = array
        return traced

    def check_memory(self, written, arguments):
        """Raise if a written array shares memory with another: the write would change both.

        written: the variables of the written arrays. arguments: ids of the tensors that are
            arguments, which are looked at in each call.
        """
        buffer_of = self.recording.backend.buffer
        shown = {}
        for var, array in self.real_of.items():
            if var.source.kind != "argument" and id(var.source.holder) not in arguments:
                shown.setdefault(buffer_of(array), []).append(array)
        for var in written:
            buffer = buffer_of(self.real_of[var])
            if buffer is not None and len(shown[buffer]) > 1:
                raise Unsupported("it writes into memory that two of its tensors share")

    def _optimizer(self, optimizer):
        recording = self.recording
        if optimizer.communicates:
            raise Unsupported("its optimizer communicates with other processes")
        if optimizer._skips or optimizer._unknown is not None:
            raise Unsupported("a GradScaler makes the optimizer's steps", once=True)
        for i, group in enumerate(optimizer.param_groups):
            if [*map(group.__getitem__, optimizer.defaults)] != optimizer._hyper[i]:
                optimizer._change_hyper(i, group)
        if any(
            state.array is not p.array and state.array is not self.originals[id(p)][1]
            for p, state in optimizer._states.items()
            if id(p) in self.originals
        ):
            raise Unsupported("its optimizer has still to follow a parameter", once=True)
        self.groups.append((
            optimizer, list(optimizer._hyper), list(optimizer._arguments),
            [dict(g) for g in optimizer.param_groups], dict(optimizer._states),
        ))  # fmt: skip
        for i, group in enumerate(optimizer.param_groups):
            proxies = []
            for k, value in enumerate(optimizer._hyper[i]):
                proxies.append(self._hyper(optimizer, i, (k,), value))
            optimizer._hyper[i] = proxies
            named = dict(zip(optimizer.defaults, proxies, strict=True))
            group.update(named)
            self.proxies += [(group, name, proxy) for name, proxy in named.items()]
            others = [value for name, value in named.items() if name != "maximize"]
            optimizer._arguments[i] = (named.get("maximize", False), others)
        alike = {}
        for p, state in optimizer._states.items():
            if id(p) not in self.originals:
                continue
            self.states.append(
                (
                    state,
                    (
                        state.array,
                        state.arrays,
                        state.values,
                        state.step,
                        state.numbers,
                        state.place,
                        state.updater,
                        state.entry,
                    ),
                )
            )
            for array in state.arrays.values():
                if type(array) not in recording.backend.array_types:
                    raise Unsupported("it uses arrays of several libraries or devices")
            traced = {
                name: self._input(array, Input("state", (state, k)))
                for k, (name, array) in enumerate(state.arrays.items())
            }
            known = alike.get((state.step, state.numbers))
            if known is None:
                self.alike.append([])
                source = Input("number", ("step", self.alike[-1]))
                step = recording.number(source, state.step)
                step.is_unique = True  # parameters are grouped by it
                numbers = tuple(
                    [
                        recording.number(Input("number", ("numbers", self.alike[-1], k)), value)
                        for k, value in enumerate(state.numbers)
                    ]
                )
                known = alike[state.step, state.numbers] = step, numbers
            known[0].var.source.holder[1].append(state)
            state.array = p.array
            state.arrays = traced
            state.values = tuple(traced.values())
            state.step, state.numbers = known
            state.place = None
            if state.entry is not None:
                state.updater = backend_of[type(p.array)].multi_tensor_updater(p.array)
                state.entry = (p.array, *state.values)

    def _hyper(self, optimizer, i, path, value):
        if isinstance(value, bool):
            return value
        if isinstance(value, tuple):
            return tuple([self._hyper(optimizer, i, (*path, k), v) for k, v in enumerate(value)])
        return self.recording.number(Input("number", ("hyper", optimizer, i, path)), value)

    def _scheduler(self, scheduler):
        values = vars(scheduler)
        self.saved.append((None, values, dict(values)))

        def step(*args, **kwargs):
            if not all(isinstance(x, _SIMPLE) for x in (*args, *kwargs.values())):
                raise Unsupported("a scheduler reads a value that the function computes")
            step_of_class = functools.partial(type(scheduler).step, scheduler)
            self.recording.afterwards.append((step_of_class, args, kwargs))
            later = Later(f"{type(scheduler).__name__}.step")
            for name, value in values.items():
                if type(value) in (int, float):
                    values[name] = later
                elif isinstance(value, list) and value and type(value[0]) is float:
                    values[name] = [later] * len(value)
            for optimizer in self.reach.optimizers:
                for group in optimizer.param_groups:
                    for name in [*optimizer.defaults, "initial_lr"]:
                        if isinstance(group.get(name), (Number, tuple)):
                            group[name] = later

        for name, value in list(values.items()):
            # Read inside the function, these would be old: schedulers run after the program.
            if type(value) in (int, float):
                source = Input("number", ("slot", Slot("item", values, name)))
                values[name] = self.recording.number(source, value)
            elif isinstance(value, list) and value and type(value[0]) is float:
                values[name] = [
                    self.recording.number(Input("number", ("item", values, name, k)), v)
                    for k, v in enumerate(value)
                ]
        values["step"] = step

    def restore(self):
        """Put everything back; may be called again if an interrupt ended it."""
        for x, array, node, grad, grad_array, grad_node in self.originals.values():
            x.array, x.node, x._grad = array, node, grad
            if grad is not None:
                grad.array, grad.node = grad_array, grad_node
        for state, values in self.states:
            (
                state.array, state.arrays, state.values, state.step, state.numbers, state.place,
                state.updater, state.entry,
            ) = values  # fmt: skip
        for optimizer, hyper, arguments, groups, states in self.groups:
            optimizer._hyper[:] = hyper
            optimizer._arguments[:] = arguments
            for group, values in zip(optimizer.param_groups, groups, strict=False):
                _refill(group, values)
            _refill(optimizer._states, states)
        for slot, first, second in self.saved:
            if slot is None:
                _refill(first, second)
            else:
                slot.set(first)
        for container, values in self.reach.containers:
            if isinstance(container, list):
                container[:] = values
            else:
                _refill(container, values)
        for slot, value, how in (*self.reach.guards, *self.reach.module_guards):
            if how in ("is", "equal") and not _is_tuple_item(slot):
                try:
                    changed = slot.get() is not value
                except (AttributeError, KeyError, IndexError, ValueError):
                    changed = True
                if changed:
                    slot.set(value)


def _is_tuple_item(slot):
    return slot.kind == "item" and isinstance(slot.container, tuple)


def _refill(container, values):
    if container.keys() == values.keys() and all(container[k] is v for k, v in values.items()):
        return
    container.clear()
    container.update(values)


def is_leaf_node(node):
    return type(node) is Leaf


def same(x, y):
    """Whether two simple values are equal and of one type; nan equals itself."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return x.hex() == y.hex()
    try:
        return bool(x == y)
    except Exception:  # noqa: BLE001  arrays and the like
        return False


def backend_for(reach, leaves):
    """The backend of the arrays that a function reaches or gets; None if there are none."""
    for x in [*leaves, *reach.tensors.values()]:
        if isinstance(x, Tensor):
            return backend_of[type(x.array)]
        if type(x) in namespace_of:
            return backend_of[type(x)]
    return None


__all__ = ["ParameterState", "Reach", "Slot", "Swap", "backend_for", "is_leaf_node", "same"]
