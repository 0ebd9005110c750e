"""Ops whose forward is the function of the same name in ``xp``.

The decorated functions have no body: they provide the op's name, parameters and docstring.
"""

import builtins
from functools import cache
from types import FunctionType
from typing import Any

from ..autograd.operation import elementwise, op


def standard_function(*, differentiable=True, discards=False, **rules) -> Any:
    """Define an elementwise op that is a function of the array API standard.

    differentiable, discards, rules: as for `op` and its method ``vjp``.
    """
    options = {"differentiable": differentiable, "discards": discards}
    return lambda function: elementwise(forward_by_name("xp", function), **options).vjp(**rules)


def library_function(namespace="xp", *, reduces=False, **options) -> Any:
    """Define an op that is a function of ``namespace``, to which it passes on its parameters.

    reduces: whether the second parameter is the axis of a reduction; see `no_axis`.
    options: as for `op`.
    """
    return lambda function: op(forward_by_name(namespace, function, reduces), **options)


def no_axis(axis):
    """``axis`` of a 0-d array, None or (). IndexError for 0 and -1, which some libraries accept."""
    if axis is not None and axis != ():
        axis = axis[0] if isinstance(axis, tuple) else axis
        raise IndexError(f"axis {axis} is out of bounds for array of dimension 0")
    return axis


_CALLED = "called"  # in the place of the function's name, so that many functions share a text


@cache
def _code(text):
    return eval(text).__code__


def forward_by_name(namespace, function, reduces=False):
    """An op's forward, with the name, parameters and docstring of ``function``.

    Its attribute ``function`` names the function of ``xp`` that does the same, if there is one.
    """
    # `op` reads the names of parameters, so a function of ``*inputs`` would not work.
    name, own = function.__name__, function.__code__
    inputs, keywords = own.co_varnames[: own.co_argcount], own.co_varnames[own.co_argcount :]
    # Functions with as many parameters share a text, since it takes long to compile one.
    names, named = [f"x{i}" for i in range(len(inputs))], [f"k{i}" for i in range(len(keywords))]
    given = [*names, *[f"{x}={x}" for x in named]]
    if reduces:
        given[1] = "axis=x1 if x0.ndim else no_axis(x1)"

    def renamed(known):  # the names with which it calls
        return tuple([keywords[named.index(x)] if x in named else x for x in known])

    taken = ["xp", *names, *(["*", *named] if named else [])]
    code = _code(f"lambda {', '.join(taken)}: {namespace}.{_CALLED}({', '.join(given)})")
    code = code.replace(
        co_varnames=("xp", *inputs, *keywords),
        co_consts=tuple([renamed(x) if type(x) is tuple else x for x in code.co_consts]),
        co_names=tuple([name.strip("_") if x == _CALLED else x for x in code.co_names]),
        co_name=name, co_qualname=name,
        co_posonlyargcount=own.co_posonlyargcount and own.co_posonlyargcount + 1,
        # `inspect.getsource` shows the definition.
        co_filename=own.co_filename, co_firstlineno=own.co_firstlineno,
    )  # fmt: skip
    # An import by compiled code, such as CuPy's, needs the caller's ``__builtins__``.
    scope = {"__name__": function.__module__, "__builtins__": builtins, "no_axis": no_axis}
    forward: Any = FunctionType(code, scope, name, function.__defaults__)
    forward.__kwdefaults__ = function.__kwdefaults__
    forward.__doc__ = function.__doc__
    forward.function = None if keywords or reduces or namespace != "xp" else name.strip("_")
    return forward
