"""What a function may read besides its arguments: everything that it reaches, or why not.

`Reach` walks from the function to the functions that it names and calls, to what their closures
and globals hold, and from there into modules, optimizers, schedulers, containers and objects. The
world is closed: what is not known here is the reason why a function is not compiled.
"""

import builtins
import contextvars
import datetime
import decimal
import dis
import enum
import fractions
import functools
import itertools
import operator
import os
import pathlib
import re
import sys
import sysconfig
import threading
import types
import typing
import uuid
import weakref
from collections import deque
from contextlib import suppress
from importlib.util import resolve_name

from .._tensor import Tensor
from ..autograd.graph import Listener
from ..autograd.operation import Op
from ..backends import backend_of, namespace_of
from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..random import Generator
from ..transforms.custom import custom_vjp
from .cells import Cell, content_of, keys_of
from .draws import has_state

SIMPLE = (bool, int, float, complex, str, bytes, type(None), range, slice, types.EllipsisType)
_EXACT = frozenset(SIMPLE)
# Instances of these never change.
_IMMUTABLE = (
    enum.Enum, re.Pattern, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    decimal.Decimal, fractions.Fraction, pathlib.PurePath, uuid.UUID, operator.itemgetter,
    operator.attrgetter, operator.methodcaller, typing.TypeVar, types.GenericAlias, types.UnionType,
    types.CodeType, types.NotImplementedType, types.BuiltinFunctionType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.MethodWrapperType, Op,
    type(typing.NamedTuple("_Pair", [("first", int)]).first),
)  # fmt: skip
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_LARGEST = 1000  # items of a container that are looked at
_CLOSED_OVER = (
    types.FunctionType, types.MethodType, Module, Tensor, functools.partial, custom_vjp,
)  # fmt: skip
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
_PLACES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_STDLIB = os.path.dirname(os.__file__)
_LIBRARIES = (sys.stdlib_module_names - {"__main__"}) | {
    "gpugrad", "numpy", "cupy", "torch", "scipy", "jax", "optree", "matplotlib", "sklearn",
    "array_api_strict", "array_api_compat", "einops", "pytest",
}  # fmt: skip


@functools.cache
def is_own(name):
    """Whether a module, by its name, is part of the program rather than of a library."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    file = getattr(sys.modules.get(top), "__file__", None)
    if top not in _LIBRARIES:
        return not (file or "").startswith(_PLACES) or "site-packages" not in (file or "")
    # A module of the program may be named like one of the standard library that it never imports.
    return top in sys.stdlib_module_names and not (file or _STDLIB).startswith(_STDLIB)


class Reach:
    """Everything that a function reaches, given the leaves and the nodes of its arguments.

    tensors: by id.
    arrays: pairs of a cell and the raw array in it.
    hidden: raw arrays in tuples, which are in no cell.
    guards: triples ``(place, value, how)``; ``how`` is "is" or "equal", of a `Cell`, or one of the
        kinds of `cells.content_of`, of the object itself.
    module_guards: those of attributes of modules, which an assignment announces.
    containers: lists, dicts, sets and deques.
    unsupported: why the function cannot be recorded, or None.
    """

    def __init__(self, function, leaves=(), nodes=()):
        self.tensors = {}
        self.arrays, self.hidden = [], []
        self.guards, self.module_guards = [], []
        self.modules, self.optimizers, self.schedulers = [], [], []
        self.generators, self.foreign_generators = [], []
        self.containers = []
        self.not_imported = []  # modules that the function may import for the first time
        self.unsupported = None
        self.seen = {}
        self._names = set()  # that the functions use
        self._python_modules = {}  # of the program's own, by name, with the names looked at
        self._classes = set()
        self._walk(function, None)
        for x in leaves:
            if not isinstance(x, (Tensor, *SIMPLE)) and type(x) not in namespace_of:
                self._walk(x, None)
        for kind in dict.fromkeys(map(type, nodes)):
            self._walk(kind, None)
        self._all_python_modules()

    def first_change(self):
        """The first place that does not have the value that it had; None if all have."""
        for place, value, how in (*self.guards, *self.module_guards):
            if not holds(place, value, how):
                return place if isinstance(place, Cell) else f"a {type(place).__name__}"
        return None

    def refuse(self, what):
        self.unsupported = self.unsupported or what

    def tensor(self, x):
        if id(x) in self.tensors:
            return
        self.tensors[id(x)] = x
        watch = getattr(x.node, "watch", None)
        if watch is not None:
            for table in (watch.hooks, watch.accumulated):
                self._items(table, table)
            self._walk(watch.listener, Cell("attr", watch, "listener"))

    def _guard(self, place, value, how, guards=None):
        if place is not None and (how not in ("is", "equal") or not place.is_fixed()):
            (self.guards if guards is None else guards).append((place, value, how))

    def _walk(self, x, cell, guards=None):
        """Look at ``x``, which is in ``cell``, and at what it holds.

        guards: where the guard of the cell itself goes, if not to ``self.guards``.
        """
        kind = type(x)
        if kind in _EXACT:
            self._guard(cell, x, "equal", guards)
            return
        if isinstance(x, SIMPLE):
            self._guard(cell, x, "equal", guards)
            if getattr(x, "__dict__", None) and not isinstance(x, enum.Enum):
                self._object(x)
            return
        self._guard(cell, x, "is", guards)
        if isinstance(x, types.ModuleType):
            self._python_modules.setdefault(x.__name__, (x, set()))
            return
        if id(x) in self.seen:
            return
        self.seen[id(x)] = x
        if isinstance(x, Tensor):
            self.tensor(x)
        elif kind in namespace_of:
            self.arrays.append((cell, x))
            if cell is None or cell.is_fixed():
                self.hidden.append(x)
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
                        self._walk(part, None)
        elif isinstance(x, Generator):
            self.generators.append(x)
        else:
            self._other(x)

    def _all_python_modules(self):
        """Look at what the functions name of the program's own modules, and of ``os.environ``."""
        while True:
            new = [
                (module, known, name)
                for module, known in list(self._python_modules.values())
                for name in self._names - known
                if name in vars(module)
            ]
            if not new:
                return
            for module, known, name in new:
                known.add(name)
                value = vars(module)[name]
                if is_own(module.__name__):
                    self._walk(value, Cell("item", vars(module), name))
                elif isinstance(value, types.ModuleType):
                    self._python_modules.setdefault(value.__name__, (value, set()))
                elif value is os.environ:
                    data = value._data
                    self._guard(data, content_of["keys"](data), "keys")
                    self.guards.append((data, content_of["values"](data), "values"))

    def _other(self, x):
        kind = type(x)
        if isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._walk(x.__func__, None)
            self._walk(x.__self__, None)
        elif isinstance(x, types.BuiltinMethodType) and not isinstance(
            x.__self__, types.ModuleType | type(None)
        ):
            self._walk(x.__self__, None)
        elif isinstance(x, functools.partial):
            for part in (x.func, *x.args):
                self._walk(part, None)
            self._items(x.keywords, x.keywords)
        elif isinstance(x, functools.partialmethod):
            for part in (x.func, *x.args, *x.keywords.values()):
                self._walk(part, None)
        elif isinstance(x, custom_vjp):
            for part in (x.f, x._fwd, x._bwd):
                if part is not None:
                    self._walk(part, None)
        elif isinstance(x, functools._lru_cache_wrapper):
            if is_own(getattr(x.__wrapped__, "__module__", None)):
                self.refuse(f"it names {_name(x)}, which keeps results in a cache")
        elif hasattr(kind, "__wrapped_function__"):  # another compiled function
            self._walk(x.__wrapped_function__, None)
            for name in [name for name in vars(x) if not name.startswith("_")]:
                self._walk(getattr(x, name), Cell("attr", x, name))
        elif kind in backend_of or isinstance(x, _IMMUTABLE) or hasattr(kind, "itemsize"):
            pass  # a scalar of NumPy, a dtype
        elif not is_own(_module_of(kind)) and has_state(x):
            self.foreign_generators.append(x)
        elif isinstance(x, weakref.ref):
            self._walk(x(), None)
        elif isinstance(x, Listener):
            self._walk(x.mode, Cell("attr", x, "mode"))
            for p in x.tensors:
                self.tensor(p)
        else:
            self._object_or_container(x)

    def _object_or_container(self, x):
        kind = type(x)
        is_plain = is_own(_module_of(kind)) or _module_of(kind).partition(".")[0] in (
            "gpugrad", "types", "argparse", "collections", "weakref", "dataclasses",
        )  # fmt: skip
        is_container = isinstance(x, (dict, list, tuple, deque, set, frozenset))
        if isinstance(x, (dict, list, tuple, deque)):
            self._items(x, x if isinstance(x, dict) else range(len(x)))
        elif isinstance(x, (set, frozenset)):
            self._set(x)
        if not is_plain and not (is_container and _module_of(kind) == "builtins"):
            if _module_of(kind) in ("builtins", "functools", "typing") and callable(x):
                return
            if kind is types.MappingProxyType:
                self._items(x, x)
                return
            if isinstance(x, (contextvars.ContextVar, threading.local)) or not callable(x):
                self.refuse(f"it names {_a(x)}, into which compile cannot look")
            elif not hasattr(kind, "__call__"):  # noqa: B004
                self.refuse(f"it names {_a(x)}")
            return
        if is_plain:
            if hasattr(kind, "__next__"):
                self.refuse(f"it names an iterator ({kind.__name__})")
            self._object(x)

    def _items(self, x, keys):
        if not isinstance(x, tuple):
            self.containers.append(x)
            how = "keys" if keys is x else "len"
            self._guard(x, content_of[how](x), how)
        if len(x) > _LARGEST and any(type(v) not in _EXACT for v in _values(x)):
            self.refuse(f"it names a {type(x).__name__} of more than {_LARGEST} items")
            return
        for key in [*itertools.islice(keys, len(x))]:
            if keys is x and type(key) not in _EXACT:
                self._walk(key, None)
            self._walk(x[key], Cell("item", x, key))

    def _set(self, x):
        if isinstance(x, set):
            self.containers.append(x)
            self._guard(x, content_of["set"](x), "set")
        for item in itertools.islice(x, _LARGEST):
            self._walk(item, None)

    def _object(self, x):
        """An instance of a class whose attributes are looked up in the ordinary way."""
        kind = type(x)
        if any(
            isinstance(vars(base).get("__getattribute__"), types.FunctionType)
            for base in kind.__mro__
        ):
            self.refuse(f"it names {_a(x)}, whose class has a __getattribute__ of its own")
        self.guards.append((x, kind, "type"))
        values = getattr(x, "__dict__", None)
        if values is not None:
            self._items(values, values)
        for base in kind.__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name.startswith("__") and not name.endswith("__"):
                    name = f"_{base.__name__.lstrip('_')}{name}"
                if name.startswith("__"):
                    continue
                if hasattr(x, name):
                    self._walk(getattr(x, name), Cell("attr", x, name))
                else:
                    self.guards.append((Cell("attr", x, name), None, "missing"))
        self._walk(kind, None)

    def _function(self, function):
        # A decorator of a library may have given its wrapper the module of the program's function.
        module = function.__globals__.get("__name__")
        if not is_own(module) and module != "builtins":
            is_of_gpugrad = (module or "").partition(".")[0] == "gpugrad"
            op = getattr(function, "op", None)
            if isinstance(op, Op) and is_own(op.forward.__module__):
                rules = (*op.rules.values(), op.joint, *op.tangents.values(), op.batching)
                for part in (op.forward, *rules):
                    self._walk(part, None)
            for cell in function.__closure__ or ():  # transforms close over the user's function
                with suppress(ValueError):
                    value = cell.cell_contents
                    if isinstance(value, _CLOSED_OVER) or not is_of_gpugrad:
                        self._walk(value, Cell("cell", cell))
            return
        codes, names = [function.__code__], []
        for code in codes:
            names += code.co_names
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        names = dict.fromkeys(names)
        self._names.update(names)
        self._guard(Cell("attr", function, "__code__"), function.__code__, "is")
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                self.guards.append((Cell("cell", cell), None, "missing"))
            else:
                self._walk(value, Cell("cell", cell))
        absent = []
        for name in names:
            if name in function.__globals__:
                self._walk(function.__globals__[name], Cell("item", function.__globals__, name))
            elif name in vars(builtins):
                absent.append(name)
        if absent:  # a global of this name would take its place
            self.guards.append((function.__globals__, frozenset(absent), "lacks"))
        package = function.__globals__.get("__package__")
        for name in [n for code in codes for n in _imported(code, package)]:
            if name in sys.modules:
                self._python_modules.setdefault(name, (sys.modules[name], set()))
            else:
                self.not_imported.append(name)
        for name in ("__defaults__", "__kwdefaults__"):
            self._walk(getattr(function, name), Cell("attr", function, name))
        if vars(function):
            self._items(vars(function), vars(function))
        else:
            self._guard(vars(function), 0, "len")

    def _class(self, kind):
        """The methods of one of the program's own classes, and the values that it holds."""
        if not is_own(_module_of(kind)) or id(kind) in self._classes:
            return
        self._classes.add(id(kind))
        if not is_own(type(kind).__module__) or type(kind) is type:
            pass
        self._guard(vars(kind), len(vars(kind)), "len")
        for name, value in list(vars(kind).items()):
            if name.startswith("__") and not isinstance(value, types.FunctionType):
                continue
            cell = Cell("class", kind, name)
            if isinstance(value, (staticmethod, classmethod, property, functools.cached_property)):
                self._guard(cell, value, "is")
                for part in ("__func__", "fget", "fset", "func"):
                    if (function := getattr(value, part, None)) is not None:
                        self._walk(function, None)
            elif not isinstance(value, _DESCRIPTORS):
                self._walk(value, cell)
        for base in kind.__mro__[1:]:
            self._class(base)

    def _module(self, module):
        self.modules.append(module)
        values, kind = vars(module), type(module)
        guards = self.module_guards if kind.__setattr__ is Module.__setattr__ else self.guards
        self.containers.append(values)
        guards.append((values, len(values), "len"))
        guards.append((module, kind, "type"))
        for name, value in list(values.items()):
            self._walk(value, Cell("item", values, name), guards)
        self._walk(kind, None)
        hooks = values.get("_hooks")
        if hooks is not None:
            for table in vars(hooks).values():
                self._items(table, table)

    def _optimizer(self, optimizer):
        if optimizer.communicates:  # it has another one, whose groups are its own
            self.containers.append(vars(optimizer))
            self._walk(optimizer.optimizer, Cell("item", vars(optimizer), "optimizer"))
            return
        optimizer._settle()
        self.optimizers.append(optimizer)
        values = vars(optimizer)
        self.containers.append(values)
        for name, value in list(values.items()):
            if isinstance(value, SIMPLE):
                if name != "_unknown":  # which programs settle
                    self._guard(Cell("item", values, name), value, "equal")
            elif name in ("param_groups", "_states"):
                self._guard(Cell("item", values, name), value, "is")
        self.guards.append((optimizer.param_groups, len(optimizer.param_groups), "len"))
        for group in optimizer.param_groups:
            params = group["params"]
            self.guards.append((group, len(group), "len"))
            self.guards.append((Cell("item", group, "params"), params, "is"))
            if isinstance(params, list):
                self.guards.append((params, len(params), "len"))
            for k, p in enumerate(params):
                self.tensor(p)
                self._guard(Cell("item", params, k), p, "is")
            for name, value in group.items():
                if name not in optimizer.defaults and name != "params":
                    self.guards.append((Cell("item", group, name), value, "equal"))
        self._walk(type(optimizer), None)


def _module_of(kind):
    name = kind.__module__
    return name if isinstance(name, str) else "builtins"


def _values(x):
    return x.values() if isinstance(x, dict) else x


def _name(x):
    return getattr(x, "__name__", type(x).__name__)


def _a(x):
    name = type(x).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


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


def holds(place, value, how):
    """Whether a guard of `Reach` still holds."""
    if how in ("is", "equal", "missing"):
        return place.holds(value, how)
    if how == "lacks":
        return value.isdisjoint(place)
    return content_of[how](place) == value


__all__ = ["SIMPLE", "Reach", "holds", "is_own", "keys_of"]
