"""Declarations: what `compile` must know of an array function to repeat its calls.

A declaration is written beside the function, and belongs to that object, not to its name. A
function without one, such as a user's, is called as it is.
"""

import operator
import platform
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

import numpy as np


class Declaration(NamedTuple):
    """What is known of a function.

    A property that depends on the arguments is a callable. It takes them as ``(args, kwargs)``, in
    which arrays have at least a shape and a dtype, and returns the property. Code that only asks
    whether the field is true takes "it depends" for "yes".

    out: it takes the keyword ``out``, an array of the dtype, shape and order in memory that its
        result would have, fills and returns it, with the bits of a call without it.
    elementwise: each element of the result depends on the elements of the operands at the same
        place only. So ``out`` may be an operand.
    fails: the values of its operands may make it raise an error.
    aliases: its result may be one of its operands or a view of one, depending on their values.
    values_shape: the shape of its result depends on values.
    check: a function of ``(args, kwargs)`` that returns another function and its arguments. Calling
        that one raises the errors that the call would raise because of values, and does no more.
    steps: a function of the arguments and ``out`` that returns bound calls of NumPy's functions.
        They compute the same without looking at values, so that a kernel can be made of them.
    expression: an element of the result as C text, see `EXPRESSIONS`, or the ufunc of NumPy that
        has the same expression.
    joint: for an op's function and for the VJP of its first input, the `Joint` that computes both
        at once.
    """

    out: bool = False
    elementwise: bool | Callable = False
    fails: bool | Callable = False
    aliases: bool = False
    values_shape: bool | Callable = False
    check: Callable | None = None
    steps: Callable | None = None
    expression: Any = None
    joint: Any = None

    def holds(self, name: str, args, kwargs) -> bool:
        """Whether the property ``name`` holds for a call with these arguments."""
        value = getattr(self, name)
        return bool(value(args, kwargs)) if callable(value) else value


class Joint:
    """A kernel that computes a result and the cotangent of its first input in one launch.

    run: takes whether the caller wants the sums of the cotangent's columns, the cotangent of the
        result, the inputs, the static parameters and, as ``bias``, an array to add to each row of
        the first input. Returns the result, the cotangent and, if they are wanted, the sums.
    adds, sums: functions of the shape and dtype of the first input that return whether ``run`` can
        add a bias and compute sums.
    """

    def __init__(self, run, adds=lambda shape, dtype: False, sums=lambda shape, dtype: False):
        self.run, self.adds, self.sums = run, adds, sums


_UNKNOWN = Declaration()
_UFUNC = Declaration(out=True, elementwise=True)
# The keys are those of `_key`. The values keep the functions, so that no new object gets the id of
# one that was freed.
_declared: dict[Any, tuple[Any, Declaration]] = {}

# The ufuncs that operators and their in-place forms call. Powers and products, which choose between
# several functions, are not among them.
UFUNCS = {
    getattr(operator, prefix + name.rstrip("_") if prefix else name): ufunc
    for name, ufunc in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
        "floordiv": np.floor_divide, "mod": np.remainder, "and_": np.bitwise_and,
        "or_": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
        "rshift": np.right_shift,
    }.items()
    for prefix in ("", "i")
} | {
    operator.neg: np.negative, operator.pos: np.positive, operator.abs: np.absolute,
    operator.invert: np.invert, operator.lt: np.less, operator.le: np.less_equal,
    operator.gt: np.greater, operator.ge: np.greater_equal, operator.eq: np.equal,
    operator.ne: np.not_equal,
}  # fmt: skip


# Expressions of functions that round at most once, by the kind of their operands. All operands have
# the same dtype, whose type in C is T. Integers wrap around.
CAST, SELECT, ADD, SUBTRACT = "{0}", "SELECT({0}, {1}, {2})", "(T)({0} + {1})", "(T)({0} - {1})"
# `zero_discarded_nans` of float64 or float32
GUARD = "SELECT(({0} != {0}) & ({1} == 0), (T)0, {0})"
SUM = "sum"  # of an array along axes: not elementwise, but kernels can end with it
_ANY = {
    np.add: ADD, np.subtract: SUBTRACT, np.multiply: "(T)({0} * {1})",
    np.square: "(T)({0} * {0})", np.positive: "{0}", np.conjugate: "{0}",
    np.less: "{0} < {1}", np.less_equal: "{0} <= {1}", np.greater: "{0} > {1}",
    np.greater_equal: "{0} >= {1}", np.equal: "{0} == {1}", np.not_equal: "{0} != {1}",
    np.logical_and: "({0} != 0) & ({1} != 0)", np.logical_or: "({0} != 0) | ({1} != 0)",
    np.logical_xor: "({0} != 0) ^ ({1} != 0)", np.logical_not: "{0} == 0",
}  # fmt: skip
_FLOATS = {
    np.divide: "{0} / {1}", np.reciprocal: "(T)1 / {0}", np.sqrt: "SQRT({0})",
    np.negative: "-{0}", np.absolute: "FABS({0})", np.fabs: "FABS({0})",
    np.isnan: "{0} != {0}", np.isinf: "FABS({0}) == (T)INFINITY",
    np.isfinite: "FABS({0}) < (T)INFINITY", np.copysign: "COPYSIGN({0}, {1})",
    np.sign: "({0} > 0 ? (T)1 : {0} < 0 ? (T)-1 : {0} == 0 ? (T)0 : {0})",
    np.floor: "FLOOR({0})", np.ceil: "CEIL({0})", np.trunc: "TRUNC({0})", np.rint: "RINT({0})",
}  # fmt: skip
_INTEGERS = {
    np.negative: "(T)-{0}", np.absolute: "(T)({0} < 0 ? -{0} : {0})", np.invert: "(T)~{0}",
    np.bitwise_and: "(T)({0} & {1})", np.bitwise_or: "(T)({0} | {1})",
    np.bitwise_xor: "(T)({0} ^ {1})",
    np.maximum: "({0} > {1} ? {0} : {1})", np.minimum: "({0} < {1} ? {0} : {1})",
}  # fmt: skip
_GREATER: dict[np.ufunc, str] = {
    np.maximum: "({0} > {1} || {0} != {0} ? {0} : {1})",
    np.minimum: "({0} < {1} || {0} != {0} ? {0} : {1})",
}
if platform.machine() in ("x86_64", "AMD64"):  # elsewhere NumPy returns the other one of two zeros
    _FLOATS |= _GREATER
_BOOLS = {
    np.invert: "!{0}", np.maximum: "{0} | {1}", np.minimum: "{0} & {1}", np.add: "{0} | {1}",
    np.multiply: "{0} & {1}", np.bitwise_and: "{0} & {1}", np.bitwise_or: "{0} | {1}",
    np.bitwise_xor: "{0} ^ {1}",
}  # fmt: skip
# How CUDA computes functions of floats that each library rounds in its own way.
_CUDA = _GREATER | {
    **{
        getattr(np, name): f"{name.replace('arc', 'a')}({{0}})"
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh",
            "cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "cbrt",
        )
    },
    np.power: "pow({0}, {1})", np.arctan2: "atan2({0}, {1})", np.hypot: "hypot({0}, {1})",
}  # fmt: skip
EXPRESSIONS = {"f": _FLOATS, "i": _INTEGERS, "u": _INTEGERS, "b": _BOOLS}


def expression_of(function, kind, is_logical, on_cuda=False):
    """The expression of an elementwise function for operands of a kind; None if it has none.

    is_logical: whether the result is a bool.
    """
    found = declaration(function).expression
    if type(found) is str:
        return found
    ufunc = function if found is None else found
    own = EXPRESSIONS[kind].get(ufunc) or (on_cuda and kind == "f" and _CUDA.get(ufunc)) or None
    return own or (_ANY.get(ufunc) if kind != "b" or is_logical else None)


def _key(function):
    # Each access to a bound method makes another object.
    if type(function) is MethodType:
        return id(function.__func__), id(function.__self__)
    return id(function)


def declare(function=None, /, **properties):
    """Declare properties of a function, see `Declaration`; a decorator, or a call that returns it.

    A later declaration adds to an earlier one.
    """
    if function is None:
        return lambda function: declare(function, **properties)
    known = declaration(function)
    # To make a tuple takes a third of the time of `_replace`; most functions have no declaration.
    known = Declaration(**properties) if known is _UNKNOWN else known._replace(**properties)
    _declared[_key(function)] = function, known
    return function


def declaration(function) -> Declaration:
    """What is known of any callable."""
    if (found := _declared.get(_key(function))) is not None:
        return found[1]
    is_ufunc = type(function) is np.ufunc and function.nout == 1 and function.signature is None
    return _UFUNC if is_ufunc else _UNKNOWN


def are_integers(args, kwargs):
    """Whether a power is one of integers, whose exponents may not be negative."""
    return all(_kind(x) in "iub" for x in args[:2])


def _kind(x):
    if (dtype := getattr(x, "dtype", None)) is None:
        return "i" if type(x) is int else "f"
    return getattr(dtype, "kind", "f")


def has_array(first, stop=None):
    """Whether there are arrays among the arguments from the one with number ``first`` on.

    stop: the number of the first one that does not count any more.
    """
    return lambda args, kwargs: _has_array((args[first:stop], kwargs))


def _has_array(x, kinds=None):
    if isinstance(x, (tuple, list)):
        return any(_has_array(item, kinds) for item in x)
    if isinstance(x, dict):
        return _has_array(list(x.values()), kinds)
    if isinstance(x, slice):
        return _has_array((x.start, x.stop, x.step), kinds)
    return hasattr(x, "dtype") and hasattr(x, "shape") and (kinds is None or _kind(x) in kinds)


def _selects_by_values(args, kwargs):
    """Whether the values of an index say how many elements it selects."""
    key = args[1] if type(args[1]) is tuple else (args[1],)
    return any(_has_array(k, None if type(k) is slice else "b") for k in key)


for _operator, _ufunc in UFUNCS.items():
    declare(_operator, out=True, elementwise=True, expression=_ufunc)
for _function in (operator.pow, operator.ipow, np.power):
    declare(_function, out=True, elementwise=True, fails=are_integers, expression=np.power)
for _function in (operator.matmul, np.matmul):
    declare(_function, out=True)
for _function in (np.fmax, np.fmin):  # whether they return 0 or -0 depends on the place
    declare(_function, out=True, elementwise=False)
declare(operator.getitem, fails=has_array(1), values_shape=_selects_by_values)
declare(operator.setitem, fails=has_array(1, 2), values_shape=_selects_by_values)


def declare_like_numpy(library):
    """Declare the functions of a library that have the names of NumPy's and compute the same."""
    known = {ufunc for table in (_ANY, _FLOATS, _INTEGERS, _BOOLS, _CUDA) for ufunc in table}
    for name, ufunc in vars(np).items():
        if type(ufunc) is np.ufunc and ufunc in known and hasattr(library, name):
            declare(getattr(library, name), elementwise=True, expression=ufunc)
