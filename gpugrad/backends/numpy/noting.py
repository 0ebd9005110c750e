"""What a function of the namespace would call, noted without calling it.

The functions choose by shapes, dtypes and strides which functions of NumPy to call. `note` runs one
on views of its operands that note what is called with them, and where the results would go. The
list of these calls, made again, repeats the function for other values in the same memory, and
its choices are written down in one place only.

No value is computed and no memory written while a function is noted. What cannot be noted, such as
a look at a value, raises `CannotNote`.
"""

from functools import partial

import numpy as np


class CannotNote(Exception):
    """The function does what depends on values, or what `Noted` does not see."""


class Noted(np.ndarray):
    """A view of an array, which notes calls in the list ``calls``.

    plain: the array itself, or a view of it like this one; None until it is needed.
    """

    plain: np.ndarray | None
    calls: list

    def __array_finalize__(self, source):
        if type(source) is not Noted:
            return
        if not np.may_share_memory(self.view(np.ndarray), source.view(np.ndarray)):
            raise CannotNote  # it is no view: NumPy has computed it unseen
        self.plain, self.calls = None, source.calls

    def noted(self, array):
        """A view of an array, which notes calls in the same list."""
        view = array.view(Noted)
        view.plain, view.calls = array, self.calls
        return view

    def note(self, function, *args, **kwargs):
        """Note a call of a function that fills one of its arguments, or only checks them."""
        args = [_plain(x) for x in args]
        kwargs = {name: _plain(x) for name, x in kwargs.items()}
        self.calls.append(partial(function, *args, **kwargs))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        out = out[0] if out is not None else None
        if out is not None and type(out) is not Noted:
            raise CannotNote
        if method == "reduce" and out is not None:
            self.calls.append(bound_reduction(ufunc, _plain(inputs[0]), _plain(out), **options))
            return out
        if method != "__call__" or options or ufunc.nout != 1:
            raise CannotNote
        inputs = [_plain(x) for x in inputs]
        if out is None:
            if ufunc.signature is not None:
                raise CannotNote
            out = self.noted(_result(ufunc, inputs))
        self.calls.append(bound_ufunc(ufunc, inputs, _plain(out)))
        return out

    def __array_function__(self, function, types, args, kwargs):
        if function is np.empty_like:
            return self.noted(np.empty_like(_plain(args[0]), *args[1:], **kwargs))
        if function is np.copyto:
            self.note(function, *args, **kwargs)
            return args[-1]
        raise CannotNote

    def copy(self, order="C"):
        out = self.noted(np.empty_like(_plain(self), order=order))
        self.note(np.copyto, out, self)
        return out

    def astype(self, dtype):
        out = self.noted(np.empty_like(_plain(self), dtype=dtype))
        self.note(cast, out, self)
        return out

    def take(self, indices, axis=None, out=None, mode="raise"):
        if type(out) is not Noted:
            raise CannotNote
        parts = _plain(self), _plain(indices), axis, _plain(out), mode
        self.calls.append(partial(np.ndarray.take, *parts))
        return out

    def clip(self, low, high, out=None):
        if clip is None:
            raise CannotNote
        return clip(self, low, high) if out is None else clip(self, low, high, out)

    def __getitem__(self, key):
        part = super().__getitem__(key)
        if type(part) is not Noted:  # an element
            raise CannotNote
        return part

    def __setitem__(self, key, value):
        casting = () if getattr(value, "dtype", None) is self.dtype else ("unsafe",)
        self.note(np.copyto, self[key], value, *casting)

    def _refuse(self, *args, **options):
        raise CannotNote

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __array__ = _refuse
    item = tolist = tobytes = sort = partition = fill = put = itemset = dot = _refuse


clip = getattr(getattr(np, "_core", None), "umath", None)
clip = getattr(clip, "clip", None)  # the ufunc of the method


def _plain(x):
    if type(x) is not Noted:
        return x
    if x.plain is None:
        x.plain = x.view(np.ndarray)
    return x.plain  # always the same object: NumPy looks longer at two that share memory


def cast(out, x):
    """Fill ``out`` with what ``x.astype(out.dtype)`` is."""
    np.copyto(out, x, "unsafe")


def _result(ufunc, inputs):
    """Memory for the result of a ufunc."""
    dtypes = [x.dtype if hasattr(x, "dtype") else type(x) for x in inputs]
    dtype = ufunc.resolve_dtypes((*dtypes, None))[-1]
    arrays = [x for x in inputs if hasattr(x, "shape")]
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    like = next((x for x in arrays if x.shape == shape), None)
    return np.empty(shape, dtype) if like is None else np.empty_like(like, dtype)


def bound_ufunc(ufunc, inputs, out):
    """A function without arguments that computes a ufunc into ``out``.

    NumPy computes most functions in another way, with other last bits, where the elements of a
    loop lie apart, and some of its versions even return wrong bools for `numpy.isnan`. So those go
    into such memory by way of a copy.
    """
    inputs = _with_arrays(ufunc, inputs)
    if ufunc not in _EXACT:
        steps = [step for n, step in zip(out.shape, out.strides, strict=True) if n > 1]
        if steps and min(steps) != out.itemsize:
            return partial(_by_copy, out, ufunc, *inputs)
    # NumPy is to take a third argument of these for another input.
    if ufunc is np.maximum or ufunc is np.minimum:
        return partial(_named_out, ufunc, *inputs, out)
    return partial(ufunc, *inputs, out)


def _named_out(ufunc, x1, x2, out):  # a partial would merge its keywords each time
    ufunc(x1, x2, out=out)


def _by_copy(out, function, *args):
    np.copyto(out, function(*args), "same_kind")


def _with_arrays(ufunc, inputs):
    """The inputs, with 0-d arrays in place of numbers: numbers take a microsecond more."""
    numbers = [x for x in inputs if type(x) is not np.ndarray]
    dtypes = {x.dtype for x in inputs if hasattr(x, "dtype")} if numbers else ()
    if len(dtypes) != 1 or ufunc not in _OF_ONE_DTYPE:
        return inputs
    (dtype,) = dtypes
    inputs = [np.asarray(x) if isinstance(x, np.generic) else x for x in inputs]
    # A number adapts to the dtype of arrays of its kind or a higher one.
    kinds = (int, float) if dtype.char in "fd" else (int,) if dtype.kind in "iu" else ()
    try:
        return [np.array(x, dtype) if type(x) in kinds else x for x in inputs]
    except OverflowError:  # a number that the dtype cannot hold
        return inputs


# Ufuncs of operands that have one dtype.
_OF_ONE_DTYPE = {
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.negative,
    np.absolute, np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.maximum, np.minimum, np.power,
    np.arctan2, np.hypot, clip,
}  # fmt: skip
_INEXACT = {np.power, np.arctan2, np.hypot, np.negative}
_EXACT = _OF_ONE_DTYPE - _INEXACT | {np.square, np.sqrt, np.reciprocal, np.copysign}


def bound_reduction(ufunc, x, out, axis=0, dtype=None, keepdims=False, **others):
    """A function without arguments that reduces ``x`` into ``out``."""
    if others:
        raise CannotNote
    # The order of additions depends on the order in memory of the result too. There is a choice
    # only where several axes are left.
    is_certain = x.flags.c_contiguous and out.flags.c_contiguous
    has_choice = not is_certain and sum([n > 1 for n in out.shape]) > 1
    # NumPy 2.0 goes through a reversed axis in memory's order only where it makes the result.
    if has_choice or any(step < 0 for step in x.strides):
        return partial(_by_copy, out, ufunc.reduce, x, axis, dtype, None, keepdims)
    return partial(ufunc.reduce, x, axis, dtype, out, keepdims)


def note(function, args, kwargs, out):
    """The calls by which a function fills ``out``, to be made in this order."""
    target = out.view(Noted)
    target.plain, target.calls = out, (calls := [])
    args = [_noted(x, target) for x in args]
    kwargs = {name: _noted(x, target) for name, x in kwargs.items()}
    result = function(*args, **kwargs, out=target)
    if result is not target:
        raise CannotNote
    return calls


def _noted(x, like):
    if type(x) is np.ndarray:
        return like.noted(x)
    if type(x) is tuple or type(x) is list:
        return type(x)([_noted(item, like) for item in x])
    return x
