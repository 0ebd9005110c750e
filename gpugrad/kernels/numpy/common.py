"""A check of arrays, and twins that call the definition where a kernel is missing."""

from functools import partial

import numpy as np

from ...backends.declarations import declare
from ...backends.dtypes import float32, float64
from ...backends.native.base import is_expected
from ...backends.numpy.namespace import xp


def are_alike(x, *others):
    """Whether kernels take these arrays: in C order, with the same shape and dtype."""
    kinds = {(type(y), y.dtype, y.shape, y.flags.c_contiguous) for y in (x, *others)}
    return x.dtype in (float32, float64) and kinds == {(np.ndarray, x.dtype, x.shape, True)}


class TwinOrDefinition:
    """A twin that calls the op's definition where the function ``twin`` returns None.

    That function returns None as long as its kernel is not compiled. Since the definition has the
    same bits, for arrays in C order, a program that has recorded a call of this twin can repeat it
    at any time. Without a compiler there is no twin, whose calls programs could not divide, but for
    arrays in other orders, so that these give the same bits too.

    call, target: the op, and the input that the twin is a rule for, or ``"joint"``; None for a
        forward. The rule takes the parameters of the definition's, in their order.
    """

    def __init__(self, call, target, twin):
        op = call.op
        rules = {None: op.forward, "joint": op.joint, **op.rules}
        self.twin, self.definition = twin, rules[target]
        self.__code__ = self.definition.__code__  # its parameters' names say what is kept
        self.__name__, self.__kwdefaults__ = twin.__name__, None

    def __call__(self, xp, x, *args, **static):
        if type(x) is np.ndarray and not x.flags.c_contiguous:
            x = x.copy()  # such as the cotangent of a sum's operand
        elif not is_expected():
            return NotImplemented
        args = x, *args
        found = self.twin(xp, *args, **static)
        return self.definition(xp, *args, **static) if found is None else found


def or_definition(call, target=None, in_kernels=True):
    """A decorator that makes a function a `TwinOrDefinition`.

    in_kernels: whether it also takes ``into``, the arrays of its results, some of which may be None
        if it has several. It then returns calls that fill them, for kernels of programs.
    """

    def decorated(twin):
        def steps(x, *args, out, **static):
            x, before = in_c_order(x)
            found = twin(xp, x, *args, **static, into=out)
            return None if found is NotImplemented else before + found

        found = TwinOrDefinition(call, target, twin)
        return declare(found, steps=steps) if in_kernels else found

    return decorated


def in_c_order(x):
    """An array in C order with the elements of ``x``, and a list of the call that copies them."""
    if type(x) is not np.ndarray or x.flags.c_contiguous:
        return x, []
    copy = np.empty(x.shape, x.dtype)
    return copy, [partial(np.copyto, copy, x)]
