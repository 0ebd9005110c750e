"""Elementwise ops whose forward is the function of the same name in ``xp``.

The decorated functions have no body: they provide the op's name, inputs and docstring.
"""

from typing import Any

from ..autograd.operation import elementwise


def standard_function(*, differentiable=True, discards=False, **rules) -> Any:
    """Define an op that is a function of the array API standard.

    differentiable, discards, rules: as for `op` and its method ``vjp``.
    """

    def define(function):
        forward = forward_by_name("xp", function)
        call = elementwise(forward, differentiable=differentiable, discards=discards)
        return call.vjp(**rules)

    return define


def forward_by_name(namespace, function):
    """An op's forward, with the name, inputs and docstring of ``function``."""
    # `op` reads the names of parameters, so a function of ``*inputs`` would not work.
    name, code = function.__name__, function.__code__
    inputs = ", ".join(code.co_varnames)
    scope = {"__name__": function.__module__}
    exec(f"def {name}(xp, {inputs}): return {namespace}.{name}({inputs})", scope)
    forward: Any = scope[name]
    forward.__doc__ = function.__doc__
    forward.__code__ = forward.__code__.replace(  # `inspect.getsource` shows the definition
        co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )
    return forward
