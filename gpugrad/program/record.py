"""The record of a function: its array calls in the order in which they were made.

Every value is a `Variable` that exactly one call, or none, computes. What a function writes in
place is a new variable.
"""

import math
import operator


class Unsupported(BaseException):
    """Raised while recording if the function does what a program cannot do; it then runs eagerly.

    No Exception, so that no handler in the function takes it.

    once: whether a later call may be recorded all the same; "first" if only the next one may;
        "this" if nothing was recorded, because of the arguments of this call.
    """

    def __init__(self, reason, once=False):
        super().__init__(reason)
        self.once = once


class Variable:
    """A value in a record.

    kind: "array"; "scalar" for a library's 0-d result that is no array; "number" for a Python
        number or a random key, which the program computes before any array; "token" for what a
        call returns only for others, such as a collective that has been started.
    shape, dtype, strides, nbytes: of an array; strides are in bytes, None if they are not known.
    source: what has the value when the program starts: see `Input`, or None.
    value: the value itself if it is the same in each run: a constant; or None.
    call: the `Call` that computes it, or None.
    base: for a view, the variable whose memory it shows.
    """

    __slots__ = (
        "kind", "shape", "dtype", "strides", "nbytes", "source", "value", "call", "base", "number",
    )  # fmt: skip

    def __init__(self, kind, value=None, nbytes=0):
        self.kind = kind
        self.shape = getattr(value, "shape", ())
        self.dtype = getattr(value, "dtype", None)
        self.strides = getattr(value, "strides", None)
        self.nbytes = nbytes
        self.source = self.value = self.call = self.base = self.number = None

    @property
    def size(self):
        return math.prod(self.shape)

    def root(self):
        """The variable whose memory this one shows, itself if it is no view."""
        x = self
        while x.base is not None:
            x = x.base
        return x

    def __repr__(self):
        return f"<{self.kind} {self.number} {self.dtype} {tuple(self.shape)}>"


class Input:
    """Where a program finds a value when it starts.

    kind: "argument", "tensor" (the array of a Tensor), "grad" (the array of its ``.grad``), "held"
        (an array or a tuple of arrays that an object holds), "number".
    holder: the Tensor, or a `Slot`, or the position of an argument.
    """

    __slots__ = ("kind", "holder")

    def __init__(self, kind, holder):
        self.kind = kind
        self.holder = holder


class Call:
    """One call of a function: ``out = function(*args, **kwargs)``.

    args, kwargs: nested tuples, lists and dicts in which variables stand for values.
    outs: the variables of the results.
    several: whether the function returns a sequence.
    is_pure: whether it only computes its result; draws of random numbers are not.
    may_alias: whether the result may be one of the operands, which only the values decide.
    communicates: whether it communicates with other processes, and so must be made once.
    """

    __slots__ = (
        "function", "args", "kwargs", "outs", "several", "is_pure", "may_alias", "communicates",
        "_operands",
    )  # fmt: skip

    def __init__(self, function, args, kwargs, several=False, is_pure=True):
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.outs = []
        self.several = several
        self.is_pure = is_pure
        self.may_alias = self.communicates = False
        self._operands = None

    @property
    def name(self):
        return name_of(self.function)

    def operands(self):
        """The variables among the arguments."""
        found = self._operands
        if found is None:
            found = self._operands = []
            for x in self.args:
                if type(x) is Variable:
                    found.append(x)
                elif type(x) in _CONTAINERS:
                    collect(x, found)
            if self.kwargs:
                collect(self.kwargs, found)
        return found

    def replace(self, new):
        """Use other variables as operands, those in the dict ``new``."""
        self.give(mapped(self.args, new), mapped(self.kwargs, new))

    def give(self, args, kwargs):
        """Use other arguments."""
        self.args = args
        self.kwargs = kwargs
        self._operands = None


_CONTAINERS = {tuple, list, dict, slice}


def name_of(function):
    name = getattr(function, "__name__", None) or type(function).__name__
    return name.lstrip("_")


def collect(x, found):
    kind = type(x)
    if kind is Variable:
        found.append(x)
    elif kind is tuple or kind is list:
        for item in x:
            collect(item, found)
    elif kind is dict:
        for item in x.values():
            collect(item, found)
    elif kind is slice:
        collect((x.start, x.stop, x.step), found)


def mapped(x, new):
    kind = type(x)
    if kind is Variable:
        return new.get(x, x)
    if kind is tuple or kind is list:
        return kind([mapped(item, new) for item in x])
    if kind is dict:
        return {name: mapped(item, new) for name, item in x.items()}
    return x


def simplify(calls, outputs):
    """The calls that the variables in ``outputs`` need, each value computed once.

    Returns the calls and a dict of variables that others replace. A copy is replaced by what it
    copies where both lie in memory alike, for nothing in a record writes to a variable.

    BLAS computes the product of a matrix and itself in another way than that of two equal ones. So
    operands that lay in different memory still do, unless the call is elementwise; operands that
    are views of one array are so still.
    """
    new = _replacements(calls, {})
    if new:
        numbers = _kept_apart(calls, new)
        if numbers:
            # Fewer values are replaced now, so no others can meet.
            new = _replacements(calls, numbers)
    kept = [call for call in calls if new.keys().isdisjoint(call.outs)]
    for call in kept:
        if not new.keys().isdisjoint(call.operands()):
            call.replace(new)
        for out in call.outs:
            out.base = new.get(out.base, out.base)
    return living(kept, [new.get(x, x) for x in outputs]), new


def living(calls, outputs):
    """The calls that the variables in ``outputs`` need, and those that do more than compute."""
    needed = set(outputs)
    found = []
    for call in reversed(calls):
        if not call.is_pure or not needed.isdisjoint(call.outs):
            found.append(call)
            for x in call.operands():
                needed.add(x)
                if x.base is not None:
                    needed.add(x.base)
    return found[::-1]


def _replacements(calls, numbers):
    """A dict from variables to others that have the same values, which no others replace.

    numbers: see `_kept_apart`. Only variables of the same number replace each other; those without
        one go with any.
    """
    new = {}
    known = {}
    for call in calls:
        if not call.is_pure:
            continue
        args, kwargs = call.args, call.kwargs
        if new and not new.keys().isdisjoint(call.operands()):
            args, kwargs = mapped(args, new), mapped(kwargs, new)
        key = _key(call.function, args, kwargs)
        if key is not None:
            key = key, tuple([numbers.get(out, 0) for out in call.outs])
            same = known.setdefault(key, call)
            if same is not call:
                for out, first in zip(call.outs, same.outs, strict=True):
                    new[out] = new.get(first, first)  # it may be a copy, which is left out
                continue
        if call.name == "duplicate" and args[0].strides == call.outs[0].strides:
            (source, *_), (copy,) = args, call.outs
            root = _now(source.root(), new)
            if copy not in numbers or numbers[copy] == numbers.get(root, 0):
                new[copy] = source
    return new


def _kept_apart(calls, new):
    """Numbers for variables that ``new`` would put into one memory, and that a call may tell apart.

    Those of equal values that meet in a call get different numbers from 0 on. Products that are
    computed again, as by `checkpoint`, have operands of the same numbers, so they are still equal.
    """
    order = {x: i for i, x in enumerate([out for call in calls for out in call.outs])}
    met = {}
    for call in calls:
        if is_elementwise(call.function):
            continue
        together = {}
        for x in dict.fromkeys([root for y in call.operands() for root in _memory(y)]):
            together.setdefault(_now(x, new), []).append(x)
        for group in together.values():
            if len(group) > 1:
                for x in group:
                    met.setdefault(x, set()).update(group)
    numbers = {}
    for x in sorted(met, key=lambda x: order.get(x, -1)):
        taken = {numbers.get(y) for y in met[x]}
        numbers[x] = next(i for i in range(len(taken) + 1) if i not in taken)
    return numbers


def is_elementwise(function):
    """Whether it is known that BLAS has no part in a function of several arrays.

    That is so for all operators but ``@``, in place or not, and for ufuncs of elements, which have
    no signature. What any other function calls is not known.
    """
    function = getattr(function, "write", function)
    if getattr(function, "__module__", None) == "_operator":
        return function is not operator.matmul and function is not operator.imatmul
    return getattr(function, "signature", "") is None


def _memory(x):
    """The variables whose memory ``x`` shows, or may show."""
    if x.kind != "array":
        return []
    x = x.root()
    found = [x]
    if x.call is not None and x.call.may_alias:
        for y in x.call.operands():
            found += _memory(y)
    return found


def _now(x, new):
    """The variable whose memory that of ``x`` is, if others replace those in ``new``."""
    while x in new:
        x = new[x].root()
    return x


def _key(function, args, kwargs):
    try:
        args = tuple([x if type(x) is Variable else _hashable(x) for x in args])
        key = function, args, _hashable(kwargs) if kwargs else ()
        hash(key)
    except TypeError:
        return None
    return key


def _hashable(x):
    kind = type(x)
    if kind is tuple or kind is list:
        return kind, tuple(map(_hashable, x))
    if kind is dict:
        return tuple([(name, _hashable(item)) for name, item in x.items()])
    if kind is slice:
        return "slice", x.start, x.stop, x.step
    if kind is float:
        return kind, x.hex()  # 0.0 and -0.0 differ, and nan is itself
    return x if kind is Variable else (kind, x)
