"""Finding all state that a function may read besides its arguments.

`Reach` walks from the function to the functions that it names, to the contents of their closures
and globals, and from there into modules, optimizers, schedulers, containers and objects. The world
is closed: if the code names an object of a kind that is unknown here, the function is not compiled.
"""

import abc
import datetime
import decimal
import enum
import functools
import operator
import pathlib
import re
import sys
import types
import typing
import weakref
from collections import Counter, defaultdict, deque, namedtuple
from contextlib import suppress

from .._tensor import Tensor
from ..autograd.graph import Listener
from ..autograd.operation import Op
from ..backends import backend_of, namespace_of
from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..random import Generator
from ..transforms.custom import custom_vjp
from .cells import SIMPLE, Cell, can_vary, content_of, hold, is_compared
from .code import facts_of, imported
from .libraries import computes, is_own, module_of, reaches_out, slots_of, takes_stand_ins

# Instances of these never change.
_IMMUTABLE = (
    enum.Enum, re.Pattern, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    pathlib.PurePath, typing.TypeVar,
    types.CodeType, types.NotImplementedType, types.BuiltinFunctionType, Op,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
    type(vars(namedtuple("_Pair", "first"))["first"]),
)  # fmt: skip
_OF_DTYPES = "alignment", "to_complex"  # attributes that only dtypes have, NumPy's or PyTorch's
_CONTAINERS = (dict, list, tuple, deque, set, frozenset)
# Instances of these classes, and of all classes in these modules, have nothing but attributes and
# items.
_PLAIN_ROOMS = {
    "gpugrad", "types", "argparse", "collections", "abc", "typing", "enum", "numbers", "contextlib",
    "dataclasses",
}  # fmt: skip
_PLAIN = {object, *_CONTAINERS, *SIMPLE}
_LARGEST = 1000  # items of a container
_MOST_BYTES = 1 << 24  # of raw arrays, whose contents each call compares
LARGE = "it names large raw arrays; make them tensors, with gpugrad.asarray"
# Names by which code may reach anything, the state of random generators, or the clock.
_OF_INTERPRETER = {
    "__globals__", "__builtins__", "__context__", "f_globals", "f_locals", "f_builtins", "f_back",
    "tb_frame", "gi_frame", "exc_info", "bit_generator", "getstate", "get_state", "datetime64",
}  # fmt: skip
# With these, libraries read attributes that the code does not name.
_READING = {"format", "format_map", "dump", "dumps", "__reduce__", "__reduce_ex__", "__getstate__"}
# With these, code sets attributes under computed names.
_SETTING = {"setattr", "delattr", "__setattr__", "__delattr__"}
# Under other names, too, these look up attributes or set them.
_LOOKING_UP = {*_READING, *_SETTING, "getattr", "vars", "__getattribute__", "locals"}
_IN_C = types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType
# With these, code may use memory beyond a view.
_BEYOND = ("base", "as_strided", "__array_interface__")
_CLOSED_OVER = (
    types.FunctionType, types.MethodType, Module, Tensor, functools.partial, custom_vjp, tuple,
)  # fmt: skip
CODE = (types.FunctionType, type, types.ModuleType)
# Callables and descriptors, with the attributes to walk into.
_PARTS = {
    types.MethodType: ("__func__", "__self__"), functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"), custom_vjp: ("f", "_fwd", "_bwd"),
    staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",), types.MethodWrapperType: ("__self__",),
    types.GenericAlias: ("__origin__", "__args__"), types.UnionType: ("__args__",),
}  # fmt: skip
_DESCRIPTIONS = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")
# Attributes of classes that only tools read, and those that are compared where code names them.
_OF_CLASSES = {
    *_DESCRIPTIONS, "__dict__", "__weakref__", "__dataclass_fields__", "__dataclass_params__",
    "__orig_bases__", "__parameters__", "__static_attributes__", "__firstlineno__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__classdictcell__",
}  # fmt: skip
# Attributes that a step of a scheduler changes.
OF_SCHEDULES = (
    "last_epoch", "_last_lr", "_step_count", "best", "num_bad_epochs", "cooldown_counter", "T_cur",
    "T_i",
)  # fmt: skip
# Attributes that are guarded if a computed name may be one of these texts.
_BY_TEXT = {"param_groups", "last_epoch", "_last_lr", "_step_count"}
_OF_GENERATORS = {"device", "backend", "source", "_keys"}
_OF_OPTIMIZERS = {"param_groups", "_states", "_hyper", "_unread_skip", "_skips", "_history"}


def first_change(guards):
    """The first place whose value has changed, or None."""
    if hold(guards):
        return None
    place = next((guard[0] for guard in guards if not hold([guard])), None)
    return place if place is None or _is(place, Cell) else _a(place)


class Reach:
    """Everything that can be reached from ``roots``, and from the arguments' leaves and containers.

    follows_code: whether to go on to whatever functions and classes name.
    tensors: the tensors by id.
    arrays: the raw arrays.
    guards: see `cells`.
    containers: lists, dicts, sets and deques.
    """

    def __init__(self, roots, leaves=(), nodes=(), follows_code=True):
        self.follows_code = follows_code
        self.tensors, self.seen = {}, {}
        self.arrays, self.containers, self.guards = [], [], []
        self.optimizers, self.schedulers = [], []
        self._described = []
        self.codes = set()  # of all functions of the program
        self.not_imported = []  # modules that the functions may import for the first time
        # Unions of the `Facts` of all functions.
        self.names, self.passed = set(), set()
        self.asks_types = self.computes_names = self.reads_arrays = self.asks_identity = False
        self.reads_outside = False  # whether something else than code may look up attributes
        self.reads_changing = False  # whether there is a text by which it may find `_BY_TEXT`
        self.strict = None  # the name of a function that may take arrays of NumPy's own type only
        # Why the function cannot be compiled: tuples of the id of an object, a name, the reason,
        # and whether the `Witness` sees each use of the object. See `refusal`.
        self._refusals = []
        # By the id of each object, or None for the roots, what it leads to: tuples of an id, the
        # name by which code finds it there, and whether libraries find it without that name.
        self._edges = defaultdict(list)
        self._origins = []  # for each guard the id of the object and the name in it, or None
        self._at = None  # the id of the present object
        # Whether libraries read its attributes without naming them. If it is a module, gpugrad so
        # reads these, and all that are not simple; otherwise the names are None.
        self._is_open, self._open_names = False, None
        self._python_modules = {}  # by id, each module and the names that were looked up in it
        self._globals = {}  # by id, dicts of globals and the names that functions miss there
        self._found = deque()  # objects to visit
        for x in roots:
            self._walk(x)
        for x in leaves:
            if _is(x, Tensor):
                self._walk(type(x))
                if hasattr(x, "__dict__") or {*slots_of(type(x))} - {*Tensor.__slots__}:
                    self._refuse(f"an argument is {_a(x)}, which may have attributes")
            elif type(x) not in SIMPLE and type(x) not in namespace_of:
                self._walk(x)
        for kind in dict.fromkeys(map(type, nodes)):
            self._walk(kind)
        self._visit_all()
        for names, absent in self._globals.values():
            self.guard(names, frozenset(absent), "lacks")
        for x in self._described:
            self._at = id(x)
            for name in self.names.intersection(_DESCRIPTIONS):
                self._walk(getattr(x, name), Cell("attr", x, name), name)
        self._visit_all()
        if not self.names.isdisjoint(("isinstance", "issubclass")):
            self.guard(abc, abc.get_cache_token(), "registrations")

    def refusal(self, names, computes_names=False):
        """Why the function cannot be compiled if its code uses these names, or None.

        computes_names: whether it may use any other name too. Memory beyond a view, objects whose
            every use the `Witness` sees, and what schedulers change, which is guarded then, are
            only looked for by name.
        """
        by_name = found = self._reached(names)
        if computes_names:
            found = self._reached({name for x in self._edges.values() for _, name, _ in x})
        for at, name, why, is_seen in self._refusals:
            by_code, by_any = by_name if is_seen else found
            is_used = name is None or name in names or (computes_names and not is_seen)
            if is_used and at in (by_code if name is None else by_any):
                return why
        return None

    def found_by(self, names, walks_modules):
        """The guards that matter to code with these names, and the ids of what it may read.

        walks_modules: whether it has gpugrad look for modules and parameters in attributes.
        """
        if not _READING.isdisjoint(names):
            return [*self.guards], {*self.seen}
        _, found = self._reached(names)
        pairs = zip(self.guards, self._origins, strict=True)
        guards = [x for x, (at, k) in pairs if at in found and (k is None or k in names)]
        if walks_modules:
            modules = [x for k, x in self.seen.items() if k in found and _is(x, Module)]
            guards += [(x, content_of["members"](x), "members") for x in modules]
        return guards, found

    def counted_by(self, names, counted):
        """The ids of the places that code with these names finds by names in ``counted`` only.

        Python itself sets them, and no code comes between when a program adds to one.
        """
        if not counted or not (_READING | _SETTING).isdisjoint(names):
            return frozenset()
        pairs = zip(self.guards, self._origins, strict=True)
        found = [(x, self.seen.get(at), k) for (x, _, how), (at, k) in pairs if how == "same"]
        others = {x.id for x, owner, k in found if k not in counted or not _can_add(x, owner)}
        return {x.id for x, *_ in found} - others

    def has_cells(self, values):
        """Whether each of these tensors and tuples of tensors is only found in cells, and what is
        in a tuple only there."""
        edges = Counter(x for found in self._edges.values() for x, *_ in found)
        cells = Counter(id(value) for _, value, how in self.guards if how == "same")
        members = [x for value in values if type(value) is tuple for x in value]
        only_there = all(edges[id(x)] == 1 for x in members)
        return only_there and all(edges[id(x)] == cells[id(x)] for x in values)

    def name_of(self, x):
        """Where code finds a container, as a text."""
        pairs = zip(self.guards, self._origins, strict=True)
        found = [(place, name) for (place, value, _), (_, name) in pairs if value is x]
        return next((repr(name) if name else str(place) for place, name in found), "an object")

    def _reached(self, names):
        """The ids of what code with these names finds, and of what libraries find for it too."""
        by_code, by_any, stack = {None}, {None}, [None]
        while stack:
            at = stack.pop()
            for x, name, is_open in self._edges.get(at, ()):
                is_found = at in by_code if name is None else name in names
                if (is_found and x not in by_code) or (
                    x not in by_any and (is_found or is_open or name is None)
                ):
                    by_any.add(x)
                    if is_found:
                        by_code.add(x)
                    stack.append(x)
        return by_code, by_any

    def guard_arrays(self, given):
        """Guard the contents of all raw arrays; returns why that is impossible, or None.

        given: the raw arrays that are arguments, which are not guarded.
        """
        for x in (*self.arrays, *given):
            if getattr(x.dtype, "hasobject", False):
                return "it uses an array of Python objects"
        total = 0
        for x in sorted(self.arrays, key=lambda x: backend_of[type(x)].nbytes(x)):
            self._at, total = id(x), total + backend_of[type(x)].nbytes(x)
            if total > _MOST_BYTES:
                self._refuse(LARGE)
            else:
                self.guard(x, content_of["array"](x), "array")
            if getattr(x, "base", None) is not None:
                for name in _BEYOND:
                    self._refuse(f"it reads {name} of a raw array", name, is_seen=True)
        self._at = None
        return None

    def _refuse(self, what, name=None, is_seen=False):
        self._refusals.append((self._at, name, what, is_seen))

    def tensor(self, x):
        if id(x) in self.tensors:
            return
        self.tensors[id(x)] = x
        if (watch := getattr(x.node, "watch", None)) is not None:
            for table in (watch.hooks, watch.accumulated):
                self._items(table)
            self._walk(watch.listener, Cell("attr", watch, "listener"))

    def guard(self, place, value, how="same", name=None):
        """Guard a place, which code finds in the present object by this name, if it has one."""
        self.guards.append((place, value, how))
        self._origins.append((self._at, name))

    def _walk(self, x, cell=None, name=None):
        """Have `_visit_all` visit ``x``, which code finds by this name in ``cell``."""
        names = self._open_names
        is_open = self._is_open or (names is not None and (name in names or not _is_simple(x)))
        if cell is not None:
            self.guard(cell, x, name=None if is_open else name)
        self._found.append(x)
        self._edges[self._at].append((id(x), name, is_open))

    def _visit_all(self):
        """Visit everything that was found, and all that it refers to."""
        while self._found:
            while self._found:
                x = self._found.popleft()
                self._at, self._is_open, self._open_names = id(x), True, None
                self._visit(x)
            self._is_open = False
            self._all_python_modules()
            self._at = None

    def _visit(self, x):
        kind = type(x)
        if kind is slice:
            for y in (x.start, x.stop, x.step):
                self._walk(y)
        elif kind is str and x in _BY_TEXT:
            self.reads_changing = True
        if is_compared(kind) and kind is not decimal.Decimal:
            return
        if not self.follows_code and _is(x, CODE):
            return
        room = x.__name__ if _is(x, types.ModuleType) else module_of(x)
        if not takes_stand_ins(room) or not takes_stand_ins(module_of(kind)):
            self.strict = getattr(x, "__name__", room)
        if _is(x, types.ModuleType):
            self._python_modules.setdefault(id(x), (x, set()))
            return
        if id(x) in self.seen:
            return
        self.seen[id(x)] = x
        self.reads_outside |= _is(x, _IN_C) and x.__name__ in _LOOKING_UP
        self.reads_outside |= _is(x, types.MemberDescriptorType)
        if _is(x, Tensor):
            self.tensor(x)
            if is_own(module_of(kind)):
                self._object_or_container(x)
        elif kind in namespace_of:
            self.arrays.append(x)
        elif _is(x, Optimizer):
            self._optimizer(x)
        elif _is(x, type):
            self._class(x)
        elif _is(x, LRScheduler):
            self._scheduler(x)
        elif _is(x, Generator):
            self._items(vars(x), True, _OF_GENERATORS)
            self._class_of(x)
        else:
            self._other(x)

    def _all_python_modules(self):
        """Find the members of Python modules that the functions name."""
        for module, known in list(self._python_modules.values()):
            self._at = id(module)
            values, own = vars(module), is_own(module.__name__)
            if own and not known:
                known.add("__getattr__")
                self.guard(values, [*values], "names")
                self._class_of(module)
                if "__getattr__" in values or type(module) is not types.ModuleType:
                    self._refuse(f"it names {module.__name__}, which finds names by itself")
            # A function that computes names may look up any member of a module.
            any_name = own and (self.computes_names or self.reads_outside)
            names = self.names | values.keys() if any_name else self.names
            for name in [n for n in names - known if n in values]:
                known.add(name)
                value, cell = values[name], Cell("item", values, name)
                is_small = _is(value, (dict, list, set)) and len(value) < 100
                is_seen = _is(value, (types.ModuleType, types.BuiltinFunctionType))
                if own or is_seen or is_small or is_own(module_of(value)):
                    self._named(value, cell, name)
                else:
                    self.guard(cell, value, name=name)
                    self._check_foreign(value, name)

    def _check_foreign(self, x, name=None):
        """Refuse some objects of libraries that do more than compute."""
        if x is sys.modules:
            self._refuse("it names sys.modules", name)
        elif x is decimal.Decimal:
            self._refuse("it computes with decimals, whose precision may change", name)
        elif _is(x, type) and not issubclass(x, BaseException) and reaches_out(module_of(x)):
            self._refuse(f"it names {x.__name__}, which may read or change what is outside", name)

    def _other(self, x):
        kind = type(x)
        if _is(x, types.FunctionType):
            self._function(x)
        elif _is(x, (*_PARTS,)):
            for name in next(names for base, names in _PARTS.items() if _is(x, base)):
                self._walk(getattr(x, name), Cell("attr", x, name))
            if _is(x, functools.partial) or is_own(module_of(kind)):
                self._items(getattr(x, "__dict__", {}), True)
                self._walk(kind)
        elif _is(x, types.BuiltinFunctionType):
            self.asks_identity |= x is id or x is operator.is_ or x is operator.is_not
            if not _is(x.__self__, types.ModuleType):
                self._walk(x.__self__)
            # PyTorch's random functions are let pass: two recordings of them would differ.
            if not computes(x) and not module_of(x).startswith("torch"):
                self._refuse(f"it names {x.__name__}, which reads or changes what is outside")
        elif _is(x, (operator.methodcaller, operator.itemgetter, operator.attrgetter)):
            self.reads_outside |= kind is operator.attrgetter
            self._walk(x.__reduce__())
        elif _is(x, functools._lru_cache_wrapper):
            name = getattr(x, "__name__", "a cached function")
            if is_own(module_of(x)) or getattr(sys.modules[module_of(x)], name, None) is not x:
                self._refuse(f"it names {name}, which keeps results in a cache")
        elif _has(kind, "__wrapped_function__"):  # another compiled function
            self._walk(x.__wrapped_function__)
            self._items(vars(x), True, [name for name in vars(x) if name.startswith("_")])
        elif is_own(module_of(kind)):
            self._object_or_container(x)
        elif _is(x, Listener):
            self._walk(x.mode, Cell("attr", x, "mode"))
            for p in x.tensors:
                self._walk(p)
        elif not _is(x, _IMMUTABLE) and not any(_has(kind, name) for name in _OF_DTYPES):
            self._object_or_container(x)

    def _object_or_container(self, x):
        kind = type(x)
        is_container = _is(x, (*_CONTAINERS, types.MappingProxyType))
        readers = _READERS if is_container else ("__getattribute__",)
        own = [vars(base) for base in kind.__mro__ if is_own(module_of(base))]
        if reader := next((name for name in readers if any(name in base for base in own)), None):
            self._refuse(f"it names {_a(x)}, whose class has a {reader} of its own")
            return
        if is_container:
            self._items(x)
        if _is_plain(kind):
            if _has(kind, "__next__"):
                self._refuse(f"it names an iterator ({kind.__name__})")
            self._object(x)
        elif not is_container:
            known = "builtins", "functools", "typing"
            if is_own(module_of(kind)):
                self.strict = getattr(x, "__name__", kind.__name__)
            if not callable(x) or not (hasattr(x, "__name__") or module_of(kind) in known):
                # Two recordings that draw from a generator of NumPy's differ.
                is_seen = reaches_out(room := module_of(kind)) or room.startswith("numpy.random")
                self._refuse(f"it names {_a(x)}, into which compile cannot look", None, is_seen)

    def _items(self, x, are_named=False, apart=()):
        """Visit the items of a container, and guard its keys or its length.

        are_named: whether code finds the items by their keys, as it finds attributes.
        apart: the keys of items that are left out.
        """
        is_dict = _is(x, (dict, types.MappingProxyType))
        is_set = _is(x, (set, frozenset))
        has_cells = not is_set and not _is(x, tuple)
        if _is(x, defaultdict):
            self._walk(x.default_factory, Cell("attr", x, "default_factory"))
        if not _is(x, (tuple, frozenset)):
            self.containers.append(x)
            how = "names" if are_named else "keys" if is_set or is_dict else "len"
            self.guard(x, content_of[how](x), how)
        pairs = [*x.items()] if is_dict else [*enumerate(x)]
        if len(pairs) > _LARGEST and not all(is_compared(type(item)) for _, item in pairs):
            self._refuse(f"it names a {type(x).__name__} of more than {_LARGEST} items")
            return
        for key, item in pairs:
            if type(key) is not str:
                self._walk(key)
            elif key in apart:
                continue
            cell = Cell("item", x, key) if has_cells else None
            # NumPy reads attributes such as `__array_interface__` by itself.
            is_named = are_named and not str(key).startswith("__array")
            self._walk(item, cell, key if is_named else None)

    def _object(self, x):
        """Visit the attributes of an instance whose class looks them up in the ordinary way."""
        self._is_open = not _is_read_by_name(type(x))
        if not self._is_open and _is(x, Module):
            self._open_names = {*dir(Module), *x._buffer_names}
        if type(x).__dictoffset__:  # otherwise a `__getattr__` of the program might find one
            self.guard(Cell("attr", x, "__dict__"), x.__dict__)
            self._items(x.__dict__, True)
        if len({*slots_of(type(x))}) < len(slots_of(type(x))):
            self._refuse(f"it names {_a(x)}, two of whose classes have the same slot")
        for name in slots_of(type(x)):
            if _is(x, Tensor) and name in Tensor.__slots__:
                continue
            cell = Cell("attr", x, name)
            if hasattr(x, name):
                self._walk(getattr(x, name), cell, name)
            else:
                self.guard(cell, True, "missing")
        self._class_of(x)

    def _class_of(self, x):
        self.guard(Cell("attr", x, "__class__"), type(x))
        self._walk(type(x))

    def _function(self, function):
        # `__module__` will not do: a library's decorator copies that of the program's function.
        module = function.__globals__.get("__name__")
        if not is_own(module) and module != "builtins":
            is_of_gpugrad = (module or "").partition(".")[0] == "gpugrad"
            op = getattr(function, "op", None)
            if _is(op, Op) and is_own(op.forward.__module__):
                self._items(vars(function), True)
                for name in ("forward", "rules", "joint", "tangents", "batching", "twins"):
                    self._walk(getattr(op, name), Cell("attr", op, name))
            for cell in function.__closure__ or ():  # transforms close over the user's function
                with suppress(ValueError):
                    value = cell.cell_contents
                    is_cache = _is(value, weakref.WeakKeyDictionary)
                    is_state = _is(value, _CLOSED_OVER) or is_own(module_of(type(value)))
                    is_state |= _has(type(value), "__wrapped_function__")  # it is compiled
                    if is_state or not (is_of_gpugrad or is_cache):
                        self._walk(value, Cell("attr", cell, "cell_contents"))
            return
        self._described.append(function)
        codes = [function.__code__]
        for code in codes:
            codes += [x for x in code.co_consts if _is(x, types.CodeType)]
        self.codes.update(codes)
        self._found += [x for code in codes for x in code.co_consts if type(x) is str]
        facts = [*map(facts_of, codes)]
        self.names.update(*[x.names for x in facts])
        if names := _OF_INTERPRETER & {n for x in facts for n in x.names}:
            self._refuse(f"it uses {min(names)}, by which it may reach what compile cannot see")
        self.passed.update(*[x.passed for x in facts])
        self.asks_types |= any(x.asks_types for x in facts)
        self.asks_identity |= any(x.asks_identity for x in facts)
        self.reads_arrays |= any(x.reads_arrays for x in facts)
        self.computes_names |= any(x.computes_names for x in facts)
        self.guard(Cell("attr", function, "__code__"), function.__code__)
        freevars = function.__code__.co_freevars
        self._is_open = False
        for name, cell in zip(freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                self.guard(Cell("attr", cell, "cell_contents"), True, "missing")
            else:
                self._walk(value, Cell("attr", cell, "cell_contents"), name)
        for name in {name for x in facts for name in x.read}:
            for place in (function.__globals__, function.__builtins__):
                if name in place:
                    self._named(place[name], Cell("item", place, name), name)
                    break
                # If the name is added here later, it hides the one in the next place.
                self._globals.setdefault(id(place), (place, set()))[1].add(name)
        for name in [n for code in codes for n in imported(code, function.__globals__)]:
            if name not in sys.modules:
                self.not_imported.append(name)
                continue
            module, cell = sys.modules[name], Cell("item", sys.modules, name)
            if _is(module, types.ModuleType):
                self.guard(cell, module)
                self._edges[self._at].append((id(module), None, False))
                self._python_modules.setdefault(id(module), (module, set()))
            else:  # None, which forbids the import, or an object in the place of a module
                self._walk(module, cell)
        self._items(vars(function), True)
        self._is_open = True
        for name in ("__defaults__", "__kwdefaults__"):
            self._walk(getattr(function, name), Cell("attr", function, name))

    def _named(self, value, cell, name):
        """Visit what code finds under a name. A function in C that it only calls is only guarded.

        The `Witness` sees that function when it runs.
        """
        self.reads_outside |= value is operator.attrgetter or value is operator.methodcaller
        is_called = _is(value, types.BuiltinFunctionType) and name not in self.passed
        is_called = is_called and name == value.__name__
        if is_called and (_is(value.__self__, types.ModuleType) or not computes(value)):
            self.guard(cell, value, name=name)
        else:
            self._walk(value, cell, name)

    def _class(self, kind):
        """Visit the methods and attributes of a class, if it is one of the program's own."""
        if not is_own(module_of(kind)):
            self._check_foreign(kind)
            return
        self._described.append(kind)
        self.guard(vars(kind), [*vars(kind)], "names")
        self.guard(Cell("attr", kind, "__mro__"), kind.__mro__)
        # gpugrad calls methods of the classes that derive from its own.
        self._is_open = issubclass(kind, Module) or not _is_read_by_name(kind)
        for name, value in list(vars(kind).items()):
            if name == "_abc_impl":
                self.guard(kind, abc.get_cache_token(), "registrations")
            elif name not in _OF_CLASSES:  # Python itself uses special names
                found_by = None if name.startswith("__") else name
                cell = Cell("class", kind, name)
                if _is(value, types.MemberDescriptorType) and value.__name__ == name:
                    self.guard(cell, value, name=found_by)  # a slot under its own name
                else:
                    self._walk(value, cell, found_by)
        for other in (*kind.__mro__[1:], type(kind)):
            self._walk(other)

    def _scheduler(self, scheduler):
        self.schedulers.append(scheduler)
        self._items(vars(scheduler), True, OF_SCHEDULES)
        self._class_of(scheduler)
        for name in OF_SCHEDULES:
            if hasattr(scheduler, name):
                what = f"it reads {name} of a scheduler, which steps change"
                self._refuse(what, name, is_seen=True)

    def _optimizer(self, optimizer):
        values, groups = vars(optimizer), optimizer.param_groups
        if optimizer.communicates:  # it wraps another one, and has the groups of that one
            self._walk(optimizer.optimizer, Cell("item", values, "optimizer"))
            return
        self.optimizers.append(optimizer)
        self._items(values, True, _OF_OPTIMIZERS)
        self._class_of(optimizer)
        if "_history" in values:  # an attribute of LBFGS
            for name in ("_history", "state_dict", "__dict__"):
                self._refuse("it reads the state of LBFGS, which its steps change", name)
        for name in ("param_groups", "_states"):
            self.guard(Cell("item", values, name), values[name])
        self.guard(groups, len(groups), "len")
        for i, group in enumerate(groups):
            self.guard(Cell("item", groups, i), group)
            self._items(group, apart=[name for name, x in group.items() if can_vary(x)])


_READERS = (
    "__getattribute__", "__getitem__", "__iter__", "__len__", "__contains__", "keys", "values",
    "items", "get",
)  # fmt: skip


@functools.cache
def _is_plain(kind):
    """Whether instances have nothing but attributes and items, which `Reach` can visit."""
    rooms = [(base, module_of(base)) for base in kind.__mro__]
    return kind not in _PLAIN and all(
        base in _PLAIN or is_own(room) or room.partition(".")[0] in _PLAIN_ROOMS
        for base, room in rooms
    )


@functools.cache
def _is_read_by_name(kind):
    """Whether no library reads attributes of instances without naming them, as copying does."""
    rooms = {module_of(base) for base in kind.__mro__ if base not in Module.__mro__}
    is_special = _has(kind, "__dataclass_fields__") or _has(kind, "__match_args__")
    return not is_special and all(is_own(room) or room in ("abc", "typing") for room in rooms)


def _can_add(place, owner):
    """Whether ``+=`` with an attribute or a variable is `Cell.add`."""
    put = type(owner).__setattr__
    is_plain = put in (object.__setattr__, type.__setattr__, Module.__setattr__)
    return is_plain and (place.kind != "item" or type(place.container) is dict)


def _is_simple(x):
    """Whether a value is a number, a text, an array, a tensor, or a container that begins with one.

    gpugrad finds the modules that a list hides by its first item.
    """
    for _ in range(10):  # it may contain itself
        if type(x) not in (list, tuple, dict, deque) or not x:
            break
        x = next(iter(x.values() if type(x) is dict else x))
    kind = type(x)
    return kind in (Tensor, list, tuple, dict, deque) or is_compared(kind) or kind in namespace_of


def _is(x, kinds):
    """Like ``isinstance``, but a proxy may have another ``__class__`` than its type."""
    return issubclass(type(x), kinds)


def _has(kind, *names):
    """Whether a class has these attributes, and not only its metaclass."""
    return all(any(name in vars(base) for base in kind.__mro__) for name in names)


def _a(x):
    name = type(x).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"
