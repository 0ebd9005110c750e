"""What a function reads besides its arguments: found, replaced while it is recorded, and compared.

`reach` walks from the function to the functions that it names and calls, to what their closures
and globals hold, and from there into modules, optimizers, schedulers, containers and objects of
the program's own classes.
"""

import dis
import functools
import itertools
import operator
import os
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from importlib.util import resolve_name

from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.graph import Leaf, Node, watched
from ..autograd.operation import Op
from ..autograd.variables import variable
from ..backends import backend_of, namespace_of
from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer, ParameterState
from ..random import Generator
from ..transforms.custom import custom_vjp
from .draws import has_state
from .numbers import Later, Number
from .record import Input, Unsupported

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), range, slice, types.EllipsisType)
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_FIELDS = "__dataclass_fields__"
_DICTS = {dict, OrderedDict, defaultdict}  # which are nodes of trees
_LISTS = {list, deque}
_LARGEST = 1000  # items of a container that are looked at
_CLOSED_OVER = (
    types.FunctionType, types.MethodType, Module, Tensor, functools.partial, custom_vjp,
)  # fmt: skip
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
_STDLIB = os.path.dirname(os.__file__)
_LIBRARIES = (sys.stdlib_module_names - {"__main__"}) | {
    "gpugrad", "numpy", "cupy", "torch", "scipy", "jax", "optree", "matplotlib", "sklearn",
    "array_api_strict", "array_api_compat", "einops", "pytest",
}  # fmt: skip


@functools.cache
def is_own(name):
    """Whether a module, by its name, is part of the program rather than of a library."""
    top = (name or "").partition(".")[0]
    if top not in _LIBRARIES:
        return True
    # A module of the program may be named like one of the standard library that it never imports.
    file = getattr(sys.modules.get(top), "__file__", None)
    return top in sys.stdlib_module_names and not (file or _STDLIB).startswith(_STDLIB)


class Slot:
    """A place that holds a value.

    kind: "item" of a container, "attr" of an object, "class" for an attribute in the ``__dict__``
        of a class, or "cell" of a closure.
    """

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
        if self.kind == "class":
            return vars(self.container)[self.key]
        return getattr(self.container, self.key)

    def set(self, value):
        if self.kind == "item":
            self.container[self.key] = value
        elif self.kind == "cell":
            self.container.cell_contents = value
        elif self.kind == "class":
            setattr(self.container, self.key, value)
        else:
            object.__setattr__(self.container, self.key, value)

    def __str__(self):
        if self.kind == "item":
            return f"{self.key!r} of a {type(self.container).__name__}"
        if self.kind == "cell":
            return "a variable of the enclosing function"
        if self.kind == "class":
            return f"{self.container.__name__}.{self.key}"
        return f"{type(self.container).__name__}.{self.key}"


class Reach:
    """Everything that a function reaches, given the leaves and the nodes of its arguments.

    tensors: by id.
    arrays: pairs of a slot and the raw array in it.
    guards: triples ``(slot, value, how)``; ``how`` is "is" or "equal"; or "keys", "len", "type" or
        "set", for which ``slot`` is the object itself.
    module_guards: those of attributes of modules, which an assignment announces.
    containers: pairs of a list, dict, set or deque and a copy of it.
    """

    def __init__(self, function, leaves=(), nodes=()):
        self.tensors = {}
        self.arrays = []
        self.guards = []
        self.module_guards = []
        self.modules = []
        self.optimizers = []
        self.schedulers = []
        self.generators = []
        self.foreign_generators = []
        self.containers = []
        self.not_imported = []  # modules that the function may import for the first time
        self.unsupported = None  # why the function cannot be recorded
        self.seen = {}
        self._names = {}  # by the name of a module, the names in it that were looked at
        self._classes = set()
        self._walk(function, None, ())
        for x in leaves:
            if not isinstance(x, (Tensor, *_SIMPLE)) and type(x) not in namespace_of:
                self._walk(x, None, ())
        for kind in dict.fromkeys(map(type, nodes)):
            self._walk(kind, None, ())

    def first_change(self):
        """The first place that does not have the value that it had; None if all have."""
        for slot, value, how in (*self.guards, *self.module_guards):
            if not holds(slot, value, how):
                return slot if isinstance(slot, Slot) else f"a {type(slot).__name__}"
        return None

    def tensor(self, x):
        if id(x) in self.tensors:
            return
        self.tensors[id(x)] = x
        watch = getattr(x.node, "watch", None)
        if watch is not None:
            for table in (watch.hooks, watch.accumulated):
                self._items(table, table, ())
            if watch.listener is not None:
                self._guard(Slot("attr", watch, "listener"), watch.listener, "is")
                self._walk(watch.listener.mode, None, ())

    def _guard(self, slot, value, how, guards=None):
        if slot is not None and (how not in ("is", "equal") or not _is_tuple_item(slot)):
            (self.guards if guards is None else guards).append((slot, value, how))

    def _walk(self, x, slot, names, guards=None):
        """Look at ``x``, which is in ``slot``, and at what it holds.

        names: the names that occur in the function that holds it. guards: where the guard of the
            slot itself goes, if not to ``self.guards``.
        """
        kind = type(x)
        if isinstance(x, _SIMPLE):
            self._guard(slot, x, "equal", guards)
            return
        self._guard(slot, x, "is", guards)
        if isinstance(x, types.ModuleType):
            self._python_module(x, names)
            return
        if id(x) in self.seen:
            return
        self.seen[id(x)] = x
        if isinstance(x, Tensor):
            self.tensor(x)
        elif kind in namespace_of:
            self.arrays.append((slot, x))
        elif isinstance(x, Module):
            self._module(x)
        elif isinstance(x, Optimizer):
            self._optimizer(x)
        elif isinstance(x, type):
            self._class(x)
        elif isinstance(x, LRScheduler) or hasattr(kind, "get_last_lr"):
            self.schedulers.append(x)
            for value in vars(x).values():
                for part in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(part, Optimizer) or hasattr(type(part), "get_last_lr"):
                        self._walk(part, None, ())
        elif isinstance(x, Generator):
            self.generators.append(x)
        else:
            self._other(x, names)

    def _python_module(self, module, names):
        known = self._names.setdefault(module.__name__, set())
        new = [name for name in names if name not in known and name in vars(module)]
        known.update(new)
        if is_own(module.__name__):
            for name in new:
                self._walk(vars(module)[name], Slot("item", vars(module), name), names)

    def _other(self, x, names):
        kind = type(x)
        if isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._walk(x.__func__, None, ())
            code = getattr(x.__func__, "__code__", None)
            self._walk(x.__self__, None, () if code is None else code.co_names)
        elif isinstance(x, types.BuiltinMethodType):
            self._walk(x.__self__, None, ())
        elif isinstance(x, functools.partial):
            for part in (x.func, *x.args):
                self._walk(part, None, ())
            self._items(x.keywords, x.keywords, names)
        elif isinstance(x, custom_vjp):
            for part in (x.f, x._fwd, x._bwd):
                if part is not None:
                    self._walk(part, None, ())
        elif isinstance(x, functools._lru_cache_wrapper):
            self._walk(x.__wrapped__, None, ())
        elif hasattr(kind, "__wrapped_function__"):  # another compiled function
            self._walk(x.__wrapped_function__, None, ())
            self._attributes(x, [name for name in vars(x) if not name.startswith("_")], names)
        elif not is_own(kind.__module__) and has_state(x):
            self.foreign_generators.append(x)
        elif not is_own(kind.__module__) and isinstance(x, Iterator):
            self.unsupported = f"it names an iterator or a file ({kind.__name__})"
        else:
            if isinstance(x, (dict, list, tuple, deque)):
                items = x if isinstance(x, dict) else range(len(x))
                self._items(x, items, names)
            elif isinstance(x, (set, frozenset)):
                self._set(x)
            elif isinstance(x, weakref.ref):
                self._walk(x(), None, ())
            is_plain = kind.__module__ in ("types", "argparse", "collections", "weakref")
            if is_plain or is_own(kind.__module__) or getattr(kind, "is_program_state", False):
                self._object(x)

    def _items(self, x, keys, names):
        if not isinstance(x, tuple):
            self.containers.append((x, dict(x) if isinstance(x, dict) else list(x)))
            if keys is x:
                self._guard(x, keys_of(x), "keys")
            else:
                self._guard(x, len(x), "len")
        for key in [*itertools.islice(keys, _LARGEST)]:
            if keys is x and not isinstance(key, _SIMPLE):
                self._walk(key, None, ())
            self._walk(x[key], Slot("item", x, key), names)

    def _set(self, x):
        if isinstance(x, set):
            self.containers.append((x, set(x)))
            self._guard(x, items_of(x), "set")
        for item in itertools.islice(x, _LARGEST):
            self._walk(item, None, ())

    def _object(self, x):
        """An instance of one of the program's own classes."""
        values = getattr(x, "__dict__", None)
        if values is not None:
            self._items(values, [*values], ())
        for base in type(x).__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name.startswith("__") and not name.endswith("__"):
                    name = f"_{base.__name__.lstrip('_')}{name}"
                if hasattr(x, name) and not name.startswith("__"):
                    self._walk(getattr(x, name), Slot("attr", x, name), ())
        self._walk(type(x), None, ())

    def _attributes(self, x, found, names):
        for name in found:
            self._walk(getattr(x, name), Slot("attr", x, name), names)

    def _function(self, function):
        # A decorator of a library may have given its wrapper the module of the program's function.
        module = function.__globals__.get("__name__")
        if not is_own(module) and module != "builtins":
            is_of_gpugrad = (module or "").partition(".")[0] == "gpugrad"
            op = getattr(function, "op", None)
            if isinstance(op, Op) and is_own(op.forward.__module__):
                rules = (*op.rules.values(), op.joint, *op.tangents.values(), op.batching)
                for part in (op.forward, *rules):
                    self._walk(part, None, ())
            for cell in function.__closure__ or ():  # transforms close over the user's function
                try:
                    value = cell.cell_contents
                except ValueError:
                    continue
                if isinstance(value, _CLOSED_OVER) or not is_of_gpugrad:
                    self._walk(value, Slot("cell", cell), ())
            return
        codes, names = [function.__code__], []
        for code in codes:
            names += code.co_names
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        names = tuple(dict.fromkeys(names))
        self._guard(Slot("attr", function, "__code__"), function.__code__, "is")
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
        package = function.__globals__.get("__package__")
        for name in [n for code in codes for n in _imported(code, package)]:
            if name in sys.modules:
                self._python_module(sys.modules[name], names)
            else:
                self.not_imported.append(name)
        self._attributes(function, ("__defaults__", "__kwdefaults__", *vars(function)), names)

    def _class(self, kind):
        """The methods of one of the program's own classes, and the values that it holds."""
        if not is_own(kind.__module__) or id(kind) in self._classes:
            return
        self._classes.add(id(kind))
        self._guard(vars(kind), len(vars(kind)), "len")
        for name, value in list(vars(kind).items()):
            if name.startswith("__") and not isinstance(value, types.FunctionType):
                continue
            slot = Slot("class", kind, name)
            if isinstance(value, (staticmethod, classmethod, property, functools.cached_property)):
                self._guard(slot, value, "is")
                for part in ("__func__", "fget", "func"):
                    if (function := getattr(value, part, None)) is not None:
                        self._walk(function, None, ())
            elif not isinstance(value, _DESCRIPTORS):
                self._walk(value, slot, ())
        for base in kind.__mro__[1:]:
            self._class(base)

    def _module(self, module):
        self.modules.append(module)
        values = vars(module)
        kind = type(module)
        guards = self.module_guards if kind.__setattr__ is Module.__setattr__ else self.guards
        self.containers.append((values, dict(values)))
        guards.append((values, len(values), "len"))
        guards.append((module, kind, "type"))
        for name, value in list(values.items()):
            self._walk(value, Slot("item", values, name), (), guards)
        self._walk(kind, None, ())
        hooks = values.get("_hooks")
        if hooks is not None:
            for table in vars(hooks).values():
                self._items(table, table, ())

    def _optimizer(self, optimizer):
        if optimizer.communicates:  # it has another one, whose groups are its own
            self.containers.append((vars(optimizer), dict(vars(optimizer))))
            self._walk(optimizer.optimizer, Slot("item", vars(optimizer), "optimizer"), ())
            return
        optimizer._settle()
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
        self.unwatched = []  # leaves
        self.is_restored = False

    def enter(self):
        real = self.recording.backend
        for optimizer in self.reach.optimizers:  # before arrays are replaced, as it may make state
            for i, group in enumerate(optimizer.param_groups):
                if [*map(group.__getitem__, optimizer.defaults)] != optimizer._hyper[i]:
                    optimizer._change_hyper(i, group)
        seen_grads = {}
        for key, x in self.reach.tensors.items():
            if type(x.array) not in real.array_types:
                raise Unsupported("it uses arrays of several libraries or devices")
            grad = x.grad
            self.originals[key] = (
                x, x.array, x.node, grad,
                None if grad is None else grad.array, None if grad is None else grad.node,
            )  # fmt: skip
            if type(x.node) is Leaf and x.node.watch is None:
                self.unwatched.append(x.node)
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
        """Put everything back; may be called again, in case an interrupt ended it."""
        if self.is_restored:
            return
        for x, array, node, grad, grad_array, grad_node in self.originals.values():
            x.array, x.node, x._grad = array, node, grad
            if grad is not None:
                grad.array, grad.node = grad_array, grad_node
        for leaf in self.unwatched:
            leaf.watch = None
        for state, values in self.states:
            (
                state.array, state.arrays, state.values, state.step, state.numbers, state.place,
                state.updater, state.entry,
            ) = values  # fmt: skip
        for optimizer, hyper, arguments, groups, states in self.groups:
            optimizer._hyper[:] = hyper
            optimizer._arguments[:] = arguments
            for group, values in zip(optimizer.param_groups, groups, strict=False):
                refill(group, values)
            refill(optimizer._states, states)
        for slot, first, second in self.saved:
            if slot is None:
                refill(first, second)
            else:
                slot.set(first)
        for container, values in self.reach.containers:
            refill(container, values)
        for slot, value, how in (*self.reach.guards, *self.reach.module_guards):
            if how in ("is", "equal") and not _is_tuple_item(slot):
                try:
                    changed = slot.get() is not value
                except (AttributeError, KeyError, IndexError, ValueError):
                    changed = True
                if changed:
                    slot.set(value)
        self.is_restored = True


def _imported(code, package):
    """The full names of the modules that a function's own import statements may import."""
    if _IMPORT_NAME not in code.co_code[::2]:
        return []
    names = []
    found = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    for level, parts, instruction in zip(found, found[1:], found[2:], strict=False):
        if instruction.opname == "IMPORT_NAME":
            with suppress(ImportError):  # the function itself will raise it
                name = resolve_name("." * level.argval + instruction.argval, package)
                names += [name, *[f"{name}.{part}" for part in parts.argval or ()]]
    return names


def _is_tuple_item(slot):
    return slot.kind == "item" and isinstance(slot.container, tuple)


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


def same(x, y):
    """Whether two simple values are equal and of one type; nan equals itself, and 0 not -0."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return x.hex() == y.hex()
    if isinstance(x, complex):
        return same(x.real, y.real) and same(x.imag, y.imag)
    try:
        if getattr(x, "shape", None) == ():  # a scalar of NumPy
            return x.dtype == y.dtype and x.tobytes() == y.tobytes()
        return bool(x == y)
    except Exception:  # noqa: BLE001  arrays and the like
        return False


def holds(slot, value, how):
    """Whether a guard of `Reach` still holds."""
    if how in ("is", "equal"):
        try:
            return same(slot.get(), value) if how == "equal" else slot.get() is value
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            return False
    return {"keys": keys_of, "len": len, "type": type, "set": items_of}[how](slot) == value


def keys_of(x):
    """The keys of a dict in their order, and their types: ``1.0`` is not ``1``."""
    kinds = [*map(type, x)]
    return kinds, [id(key) if isinstance(key, Tensor) else key for key in x]


def items_of(x):
    """The items of a set, each with its type."""
    return {(type(item), id(item) if isinstance(item, Tensor) else item) for item in x}


def nodes_of(trees):
    """The lists, tuples, dicts and objects of dataclasses that trees are made of."""
    found = []
    for x in trees:
        kind = type(x)
        if kind is Tensor:
            continue
        if kind in _DICTS:
            inner = x.values()
        elif kind in _LISTS or isinstance(x, tuple):
            inner = x
        elif hasattr(kind, _FIELDS) and not isinstance(x, Tensor):
            inner = [getattr(x, field.name) for field in fields(x)]
        else:
            continue
        found.append(x)
        inner = [y for y in inner if type(y) is not Tensor]
        if inner:
            found += nodes_of(inner)
    return found


def static_fields_of(nodes):
    """The values of static fields, which belong to the structure of a tree; no tensors, arrays."""
    values = [
        getattr(x, field.name)
        for x in nodes
        if hasattr(type(x), _FIELDS)
        for field in fields(x)
        if field.metadata.get("static")
    ]
    return [x for x in values if not isinstance(x, Tensor) and type(x) not in namespace_of]


def has_more(x):
    """Whether a node of a tree has attributes that are no fields, which a copy of it lacks."""
    return not {*getattr(x, "__dict__", ())} <= {*getattr(x, _FIELDS, ())}


class Given:
    """The lists, dicts and objects of dataclasses in arguments, with what is in them."""

    def __init__(self, trees):
        self.nodes = nodes_of(trees)
        self.contents = [(x, _contents(x)) for x in self.nodes if not isinstance(x, tuple)]

    def changed(self):
        """Those that have changed, each with what was in it."""
        return [(x, before) for x, before in self.contents if _differ(_contents(x), before)]

    def restore(self):
        for x, before in self.changed():
            names, values = before[: len(before) // 2], before[len(before) // 2 :]
            if type(x) in _LISTS:
                x.clear()
                x.extend(before)
            elif type(x) in _DICTS:
                x.clear()
                x.update(zip(names, values, strict=True))
            else:  # one that may be frozen
                for name in {*getattr(x, "__dict__", ())} - {*names}:
                    object.__delattr__(x, name)
                for name, value in zip(names, values, strict=True):
                    object.__setattr__(x, name, value)


def _contents(x):
    """The items of a list, or the keys and values of a dict, or of the attributes of an object."""
    if type(x) in _LISTS:
        return [*x]
    if type(x) not in _DICTS:
        names = dict.fromkeys([*getattr(x, "__dict__", ()), *[f.name for f in fields(x)]])
        x = {name: getattr(x, name, None) for name in names}
    return [*x, *x.values()]


def _differ(now, before):
    return len(now) != len(before) or any(map(operator.is_not, now, before))


def same_argument(x, value):
    """Whether an argument that is no array is what it was when the function was recorded."""
    return x is value if is_own(type(value).__module__) else same(x, value)


def backend_for(reach, leaves):
    """The backend of the arrays that a function reaches or gets; None if there are none."""
    for x in [*leaves, *reach.tensors.values()]:
        if isinstance(x, Tensor):
            return backend_of[type(x.array)]
        if type(x) in namespace_of:
            return backend_of[type(x)]
    return None


__all__ = [
    "ParameterState", "Reach", "Slot", "Swap", "backend_for", "refill", "same",
    "same_argument",
]  # fmt: skip
