"""What a function may read besides its arguments: everything that it reaches, or why not.

`Reach` walks from the function to the functions that it names and calls, to what their closures
and globals hold, and from there into modules, optimizers, schedulers, containers and objects. The
world is closed: what is not known here is a reason not to compile the function, if its code names
it.
"""

import abc
import builtins
import datetime
import decimal
import dis
import enum
import functools
import operator
import pathlib
import re
import sys
import types
import typing
import weakref
from collections import deque, namedtuple
from contextlib import suppress
from importlib.util import resolve_name
from itertools import pairwise

from .._tensor import Tensor
from ..autograd.graph import Listener
from ..autograd.operation import Op
from ..backends import backend_of, namespace_of
from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..random import Generator
from ..transforms.custom import custom_vjp
from .cells import SIMPLE, Cell, content_of, holds, is_compared
from .draws import has_state
from .libraries import computes, is_own, module_of

# Instances of these never change.
_IMMUTABLE = (
    enum.Enum, re.Pattern, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    pathlib.PurePath, operator.itemgetter, operator.attrgetter, operator.methodcaller,
    typing.TypeVar, types.GenericAlias, types.UnionType, types.CodeType, types.NotImplementedType,
    types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MethodWrapperType, Op, type(vars(namedtuple("_Pair", "first"))["first"]),
)  # fmt: skip
_CONTAINERS = (dict, list, tuple, deque, set, frozenset)
# Classes whose instances hold nothing but attributes and items; those of rooms, and others.
_PLAIN_ROOMS = {"gpugrad", "types", "argparse", "collections", "abc", "typing", "enum", "numbers"}
_PLAIN = {object, *_CONTAINERS, *SIMPLE}
_LARGEST = 1000  # items of a container that are looked at
_CLOSED_OVER = (
    types.FunctionType, types.MethodType, Module, Tensor, functools.partial, custom_vjp,
)  # fmt: skip
_WRAPPERS = (staticmethod, classmethod, property, functools.cached_property)
_DESCRIPTIONS = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")
# What each step of a scheduler changes.
_OF_SCHEDULES = (
    "last_epoch", "_last_lr", "_step_count", "best", "num_bad_epochs", "cooldown_counter", "T_cur",
    "T_i", "get_last_lr", "get_lr", "state_dict", "load_state_dict", "__dict__",
)  # fmt: skip
_OF_OPTIMIZERS = {"param_groups", "_states", "_hyper", "_arguments", "_unknown", "_skips"}


class Reach:
    """Everything that a function reaches, given the leaves and the nodes of its arguments.

    tensors: by id.
    arrays: pairs of a cell and the raw array in it.
    hidden: raw arrays in tuples, which are in no cell.
    guards: see `cells`.
    containers: lists, dicts, sets and deques.
    refusals: reasons not to compile the function, each after the name by which code finds what it
        is about, or None for what the function itself holds.
    """

    def __init__(self, function, leaves=(), nodes=()):
        self.tensors = {}
        self.arrays, self.hidden = [], []
        self.guards, self.refusals = [], []
        self.modules, self.optimizers, self.schedulers = [], [], []
        self.generators, self.foreign_generators = [], []
        self.containers = []
        self.not_imported = []  # modules that the function may import for the first time
        self.seen = {}
        self.names = set()  # that the functions use
        self.asks_types = False  # whether they name ``type``, which sees what stands for an array
        self.reads_arrays = False  # whether they may read the arrays of tensors
        self._name = None  # by which code finds what is being looked at
        self.passed = set()  # names of what they do not only call
        self._python_modules = {}  # by name, with the names looked at
        self._functions = []
        self._globals = {}  # by id, the globals of functions and the names they look for there
        self._walk(function)
        for x in leaves:
            if not isinstance(x, (Tensor, *SIMPLE)) and type(x) not in namespace_of:
                self._walk(x)
        for kind in dict.fromkeys(map(type, nodes)):
            self._walk(kind)
        self._all_python_modules()
        for names, absent in self._globals.values():
            self.guards.append((names, frozenset(absent), "lacks"))
        for function in self._functions:
            for name in self.names.intersection(_DESCRIPTIONS):
                self._guard(Cell("attr", function, name), getattr(function, name))

    def first_change(self):
        """The first place that does not have the value that it had; None if all have."""
        for place, value, how in self.guards:
            if not holds(place, value, how):
                return place if isinstance(place, Cell) else f"a {type(place).__name__}"
        return None

    def refusal(self, names):
        """Why the function cannot be compiled, if the code that runs uses these names; or None."""
        return next((why for name, why in self.refusals if name is None or name in names), None)

    def _refuse(self, what):
        self.refusals.append((self._name, what))

    def tensor(self, x):
        if id(x) in self.tensors:
            return
        self.tensors[id(x)] = x
        watch = getattr(x.node, "watch", None)
        if watch is not None:
            for table in (watch.hooks, watch.accumulated):
                self._items(table)
            self._walk(watch.listener, Cell("attr", watch, "listener"))

    def _guard(self, place, value, how="same"):
        if type(place) is not Cell or type(place.container) is not tuple:
            self.guards.append((place, value, how))

    def _walk(self, x, cell=None, name=None):
        """Look at ``x``, which code finds in ``cell`` by this name, and at what it holds."""
        kind = type(x)
        if cell is not None:
            self._guard(cell, x)
        if is_compared(kind) and kind is not decimal.Decimal:
            return
        if isinstance(x, types.ModuleType):
            self._python_modules.setdefault(x.__name__, (x, set()))
            return
        if id(x) in self.seen:
            return
        self.seen[id(x)] = x
        before, self._name = self._name, name or self._name
        if isinstance(x, Module):
            self.modules.append(x)
        if isinstance(x, Tensor):
            self.tensor(x)
        elif kind in namespace_of:
            self.arrays.append((cell, x))
            if cell is None or cell.is_fixed():
                self.hidden.append(x)
        elif isinstance(x, Optimizer):
            self._optimizer(x)
        elif isinstance(x, type):
            self._class(x)
        elif isinstance(x, LRScheduler) or hasattr(kind, "get_last_lr"):
            self._scheduler(x)
        elif isinstance(x, Generator):
            self.generators.append(x)
        else:
            self._other(x)
        self._name = before

    def _all_python_modules(self):
        """Look at what the functions name of modules."""
        looked = True
        while looked:
            looked = False
            for module, known in list(self._python_modules.values()):
                values, own = vars(module), is_own(module.__name__)
                if own and not known:
                    known.add("__getattr__")
                    self._guard(values, len(values), "len")
                    if "__getattr__" in values:
                        self._refuse(f"it names {module.__name__}, which has a __getattr__")
                for name in [n for n in self.names - known if n in values]:
                    looked = True
                    known.add(name)
                    value, cell = values[name], Cell("item", values, name)
                    is_small = isinstance(value, (dict, list, set)) and len(value) < 100
                    is_module = isinstance(value, types.ModuleType)
                    if own or is_module or is_small or is_own(module_of(value)):
                        self._walk(value, cell, name)
                    elif isinstance(value, types.BuiltinFunctionType):
                        self._named(value, cell, name)
                    else:
                        self._guard(cell, value)
                        if value is decimal.Decimal:
                            self._refuse("it computes with decimals, whose precision may change")

    def _other(self, x):
        kind = type(x)
        if isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._walk(x.__func__)
            self._walk(x.__self__)
        elif isinstance(x, types.BuiltinFunctionType):
            if not isinstance(x.__self__, types.ModuleType):
                self._walk(x.__self__)
            # What PyTorch draws differs from one recording to the next.
            if not computes(x) and not module_of(x).startswith("torch"):
                self._refuse(f"it names {x.__name__}, which reads or changes what is outside")
        elif isinstance(x, (functools.partial, functools.partialmethod)):
            for name in ("func", "args", "keywords"):
                self._walk(getattr(x, name), Cell("attr", x, name))
        elif isinstance(x, custom_vjp):
            for name in ("f", "_fwd", "_bwd"):
                self._walk(getattr(x, name), Cell("attr", x, name))
        elif isinstance(x, _WRAPPERS):
            for part in ("__func__", "fget", "fset", "func"):
                self._walk(getattr(x, part, None))
        elif isinstance(x, functools._lru_cache_wrapper):
            if is_own(module_of(x.__wrapped__)):
                self._refuse(f"it names {x.__name__}, which keeps results in a cache")
        elif isinstance(x, weakref.ref):
            self._refuse("it names a weak reference, whose object may be gone in a later call")
        elif hasattr(kind, "__wrapped_function__"):  # another compiled function
            self._walk(x.__wrapped_function__)
            for name in [name for name in vars(x) if not name.startswith("_")]:
                self._walk(getattr(x, name), Cell("attr", x, name))
        elif is_own(module_of(kind)):
            self._object_or_container(x)
        elif has_state(x):
            self.foreign_generators.append(x)
        elif isinstance(x, Listener):
            self._walk(x.mode, Cell("attr", x, "mode"))
            for p in x.tensors:
                self.tensor(p)
        elif kind not in backend_of and not isinstance(x, _IMMUTABLE) and not is_dtype(x):
            self._object_or_container(x)

    def _object_or_container(self, x):
        kind = type(x)
        is_container = isinstance(x, (*_CONTAINERS, types.MappingProxyType))
        readers = _READERS if is_container else ("__getattribute__",)
        own = [vars(base) for base in kind.__mro__ if is_own(module_of(base))]
        if reader := next((name for name in readers if any(name in base for base in own)), None):
            self._refuse(f"it names {_a(x)}, whose class has a {reader} of its own")
            return
        if is_container:
            self._items(x)
        if _is_plain(kind):
            if hasattr(kind, "__next__"):
                self._refuse(f"it names an iterator ({kind.__name__})")
            self._object(x)
        elif not is_container:
            known = "builtins", "functools", "typing"
            if not callable(x) or not (hasattr(x, "__name__") or module_of(kind) in known):
                self._refuse(f"it names {_a(x)}, into which compile cannot look")

    def _items(self, x, names=None):
        """The items of a container, and how many there are; code finds them by these names."""
        if isinstance(x, (set, frozenset)):
            if isinstance(x, set):
                self.containers.append(x)
                self._guard(x, content_of["keys"](x), "keys")
            pairs = [(None, item) for item in x]
        elif isinstance(x, (dict, types.MappingProxyType)):
            self.containers.append(x)
            how = "len" if names else "keys"
            self._guard(x, content_of[how](x), how)
            pairs = [*x.items()]
        else:
            if not isinstance(x, tuple):
                self.containers.append(x)
                self._guard(x, len(x), "len")
            pairs = [*enumerate(x)]
        if len(pairs) > _LARGEST and not all(is_compared(type(item)) for _, item in pairs):
            self._refuse(f"it names a {type(x).__name__} of more than {_LARGEST} items")
            return
        for key, item in pairs:
            if not is_compared(type(key)):
                self._walk(key)
            cell = None if isinstance(x, (set, frozenset)) else Cell("item", x, key)
            self._walk(item, cell, names and key)

    def _object(self, x):
        """An instance of a class whose attributes are looked up in the ordinary way."""
        kind = type(x)
        self._guard(x, kind, "type")
        values = getattr(x, "__dict__", None)
        if values is not None:
            self._guard(Cell("attr", x, "__dict__"), values)
            self._items(values, True)
        for base in kind.__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name.startswith("__") and not name.endswith("__"):
                    name = f"_{base.__name__.lstrip('_')}{name}"
                if name.startswith("__"):
                    continue
                cell = Cell("attr", x, name)
                if hasattr(x, name):
                    self._walk(getattr(x, name), cell, name)
                else:
                    self._guard(cell, True, "missing")
        self._walk(kind)

    def _function(self, function):
        # A decorator of a library may have given its wrapper the module of the program's function.
        module = function.__globals__.get("__name__")
        if not is_own(module) and module != "builtins":
            is_of_gpugrad = (module or "").partition(".")[0] == "gpugrad"
            op = getattr(function, "op", None)
            if isinstance(op, Op) and is_own(op.forward.__module__):
                for name in ("forward", "rules", "joint", "tangents", "batching"):
                    self._walk(getattr(op, name), Cell("attr", op, name))
            for cell in function.__closure__ or ():  # transforms close over the user's function
                with suppress(ValueError):
                    value = cell.cell_contents
                    is_cache = isinstance(value, weakref.WeakKeyDictionary)
                    if isinstance(value, _CLOSED_OVER) or not (is_of_gpugrad or is_cache):
                        self._walk(value, Cell("cell", cell))
            return
        self._functions.append(function)
        codes, read, is_open = [function.__code__], set(), False
        for code in codes:
            is_open |= computes_names(code)
            names, passed = _looked_up(code)
            self.names |= names_in(code)
            self.passed |= passed
            read |= names
            self.asks_types |= _asks_types(code)
            self.reads_arrays |= _reads_arrays(code)
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        self._guard(Cell("attr", function, "__code__"), function.__code__)
        freevars = function.__code__.co_freevars
        for name, cell in zip(freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                self._guard(Cell("cell", cell), True, "missing")
            else:
                self._named(value, Cell("cell", cell), name, is_open)
        for name in read:
            for place in (function.__globals__, vars(builtins)):
                if name in place:
                    self._named(place[name], Cell("item", place, name), name, is_open)
                    break
                # One that is added later would take another's place.
                self._globals.setdefault(id(place), (place, set()))[1].add(name)
        package = function.__globals__.get("__package__")
        for name in [n for code in codes for n in _imported(code, package)]:
            if name in sys.modules:
                self._guard(Cell("item", sys.modules, name), sys.modules[name])
                self._python_modules.setdefault(name, (sys.modules[name], set()))
            else:
                self.not_imported.append(name)
        for name in ("__defaults__", "__kwdefaults__"):
            self._walk(getattr(function, name), Cell("attr", function, name))
        if vars(function):
            self._items(vars(function), True)
        else:
            self._guard(vars(function), 0, "len")

    def _named(self, value, cell, name, computes_names=False):
        """Look at what code finds under a name, where functions in C are seen when they run."""
        if computes_names and isinstance(value, types.ModuleType) and is_own(value.__name__):
            self.names.update(vars(value))
        if isinstance(value, types.BuiltinFunctionType) and name not in self.passed:
            self._guard(cell, value)
        else:
            self._walk(value, cell, name)

    def _class(self, kind):
        """The methods of one of the program's own classes, and the values that it holds."""
        if not is_own(module_of(kind)):
            return
        self._guard(vars(kind), len(vars(kind)), "len")
        self._guard(Cell("attr", kind, "__mro__"), kind.__mro__)
        for name, value in list(vars(kind).items()):
            if name == "_abc_impl":
                self._guard(kind, abc.get_cache_token(), "registrations")
            elif not name.startswith("__") or isinstance(value, types.FunctionType):
                self._walk(value, Cell("class", kind, name), name)
        for other in (*kind.__mro__[1:], type(kind)):
            self._walk(other)

    def _scheduler(self, scheduler):
        self.schedulers.append(scheduler)
        values = vars(scheduler)
        for name in _OF_SCHEDULES:
            if hasattr(scheduler, name):
                self.refusals.append((name, f"it reads {name} of a scheduler, which steps change"))
        for name, value in values.items():
            if name not in _OF_SCHEDULES:
                self._walk(value, Cell("item", values, name), name)

    def _optimizer(self, optimizer):
        values = vars(optimizer)
        self.containers.append(values)
        if optimizer.communicates:  # it has another one, whose groups are its own
            self._walk(optimizer.optimizer, Cell("item", values, "optimizer"))
            return
        optimizer._settle()
        self.optimizers.append(optimizer)
        self._guard(values, len(values), "len")
        for name, value in list(values.items()):
            cell = Cell("item", values, name)
            if name in ("param_groups", "_states"):
                self._guard(cell, value)
            elif name not in _OF_OPTIMIZERS:
                self._walk(value, cell, name)
        self._guard(optimizer.param_groups, len(optimizer.param_groups), "len")
        for group in optimizer.param_groups:
            params = group["params"]
            self._guard(group, len(group), "len")
            self._guard(Cell("item", group, "params"), params)
            if isinstance(params, list):
                self._guard(params, len(params), "len")
            for k, p in enumerate(params):
                self.tensor(p)
                self._guard(Cell("item", params, k), p)
        self._walk(type(optimizer))
        if self.asks_types and is_own(module_of(type(optimizer))):
            self._refuse("its optimizer asks for the types of numbers")


_LOAD_GLOBAL, _LOAD_NAME, _LOAD_ATTR = map(dis.opmap.get, ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR"))
_HAS_LOAD_METHOD = "LOAD_METHOD" in dis.opmap and sys.version_info < (3, 12)
_CALLS = {"CALL", "PRECALL", "CALL_FUNCTION_EX", "CALL_KW", "KW_NAMES"}
_LOAD_NAMES = {"LOAD_GLOBAL", "LOAD_NAME"}
_SIMPLE_NAMES = {"int", "float", "bool", "complex", "str", "tuple", "list", "dict", "slice"}
_BY_NAME = {"vars", "__dict__", "attrgetter", "__getattribute__"}
_READERS = (
    "__getattribute__", "__getitem__", "__iter__", "__len__", "__contains__", "keys", "values",
    "items", "get",
)  # fmt: skip


@functools.cache
def _is_plain(kind):
    """Whether all that instances hold is in their attributes and in containers."""
    rooms = [(base, module_of(base)) for base in kind.__mro__]
    return kind not in _PLAIN and all(
        base in _PLAIN
        or is_own(room)
        or room.partition(".")[0] in _PLAIN_ROOMS
        or issubclass(base, BaseException)
        for base, room in rooms
    )


def _a(x):
    name = type(x).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def is_dtype(x):
    return hasattr(x, "itemsize") and hasattr(x, "newbyteorder")


def names_in(code):
    """The names that code uses, and its strings, by which it may look for attributes."""
    found = {*code.co_names, *code.co_freevars, *code.co_cellvars}
    for x in code.co_consts:
        found.update(s for s in (x if type(x) in (tuple, frozenset) else [x]) if type(s) is str)
    return found


@functools.lru_cache(1000)
def _looked_up(code):
    """The names that code looks for in its globals, and names of what it does not call at once."""
    names, passed, extended, raw = set(), set(), 0, code.co_code
    for number, argument in zip(raw[::2], raw[1::2], strict=True):
        argument |= extended << 8
        extended = argument if number == dis.EXTENDED_ARG else 0
        if number in (_LOAD_GLOBAL, _LOAD_NAME):
            name = code.co_names[argument >> (number == _LOAD_GLOBAL)]
            names.add(name)
            passed.update([] if number == _LOAD_GLOBAL and argument & 1 else [name])
        elif number == _LOAD_ATTR and (_HAS_LOAD_METHOD or not argument & 1):
            passed.add(code.co_names[argument >> (not _HAS_LOAD_METHOD)])
    return names, passed


@functools.lru_cache(1000)
def _asks_types(code):
    """Whether code may ask for the types of other objects than the one whose method it is.

    It may ask whether a type is ``int``, say, which no array and nothing in its place has.
    """
    found = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    uses = [k for k, x in enumerate(found) if x[0] in _LOAD_NAMES and x[1] == "type"]
    for k in uses:
        end = next((i for i, x in enumerate(found[k:], k) if x[0] == "CALL"), len(found))
        args, after = found[k + 1 : end], found[end + 1 : end + 3]
        is_simple = [x[0] in _LOAD_NAMES and x[1] in _SIMPLE_NAMES for x in after[:1]] == [True]
        if [x for _, x in args[:1]] not in (["self"], ["cls"]) and not (
            is_simple and after[1][0] == "IS_OP"
        ):
            return True
    return False


@functools.lru_cache(1000)
def _reads_arrays(code):
    """Whether code may look for the attribute ``array``, other than of a module (``np.array``)."""
    found = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    return "array" in code.co_consts or any(
        name == "array" and operation != "LOAD_GLOBAL" and before not in _LOAD_NAMES
        for (before, _), (operation, name) in pairwise(found)
    )


@functools.lru_cache(1000)
def computes_names(code):
    """Whether code may look for attributes under names that it computes."""
    return not _BY_NAME.isdisjoint(code.co_names) or any(
        any(not operation.startswith("LOAD_") for operation, _ in args)
        or not any(operation == "LOAD_CONST" and type(x) is str for operation, x in args[-2:])
        for args in _uses(code, "getattr")
    )


def _uses(code, name):
    """What code does between each use of a global name and the next call."""
    found = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    for k, instruction in enumerate(found):
        if instruction in (("LOAD_GLOBAL", name), ("LOAD_NAME", name)):
            end = next((i for i, x in enumerate(found[k:], k) if x[0] in _CALLS), len(found))
            yield found[k + 1 : end]


def _imported(code, package):
    """The full names of the modules that a function's own import statements may import."""
    if dis.opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return []
    names = []
    found = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    for level, parts, instruction in zip(found, found[1:], found[2:], strict=False):
        if instruction.opname == "IMPORT_NAME":
            with suppress(ImportError):  # the function itself will raise it
                name = resolve_name("." * level.argval + instruction.argval, package)
                names += [name, *[f"{name}.{part}" for part in parts.argval or ()]]
    return names


__all__ = ["Reach", "names_in"]
