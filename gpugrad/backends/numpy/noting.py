"""Notes which functions of NumPy a function of the namespace would call.

The functions of the namespace choose by shapes, dtypes and strides which functions of NumPy they
call. `note` runs one on views of its operands, `Noted`, which note the calls and where their
results go. Whoever makes the noted calls again repeats the function for other values in the same
memory, so its choices are written down in one place only.

While a function is noted, no value is computed and no memory is written. What cannot be noted, such
as a look at a value, raises `CannotNote`.
"""

from functools import partial

import numpy as np


class CannotNote(Exception):
    """What the function does depends on values, or `Noted` does not see it."""


class Noted(np.ndarray):
    """A view of an array that notes the calls it takes part in, in the list ``calls``.

    plain: the same view as an ordinary array; None until it is needed.
    views: a list of those for which `_plain` has made ordinary views.
    """

    plain: np.ndarray | None
    calls: list
    views: list

    def __array_finalize__(self, source):
        if type(source) is not Noted:
            return
        if not np.may_share_memory(self.view(np.ndarray), source.view(np.ndarray)):
            raise CannotNote  # it is no view, so NumPy has computed it unseen
        self.plain, self.calls, self.views = None, source.calls, source.views

    def noted(self, array):
        """A view of another array that notes calls in the same list."""
        view = array.view(Noted)
        view.plain, view.calls, view.views = array, self.calls, self.views
        return view

    def note(self, function, *args):
        """Note a call of a function that fills one of its arguments or only checks them."""
        self.calls.append(partial(function, *[_plain(x) for x in args]))

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
            out = self.noted(empty_result(ufunc, inputs))
        self.calls.append(bound_ufunc(ufunc, inputs, _plain(out)))
        return out

    def __array_function__(self, function, types, args, kwargs):
        if function is np.empty_like:
            return self.noted(np.empty_like(_plain(args[0]), *args[1:], **kwargs))
        if function is np.copyto and not kwargs:
            self.note(function, *args)
            return args[-1]
        raise CannotNote

    def copy(self, order="C"):
        out = self.noted(np.empty_like(_plain(self), order=order))
        self.note(np.copyto, out, self)
        return out

    def astype(self, dtype, copy=True):
        if not copy and dtype == self.dtype:
            return self
        out = self.noted(np.empty_like(_plain(self), dtype=dtype))
        self.note(cast, out, self)
        return out

    def take(self, indices, axis=None, out=None, mode="raise"):
        if type(out) is not Noted:
            raise CannotNote
        self.note(np.ndarray.take, self, indices, axis, out, mode)
        return out

    def clip(self, low, high, out=None):
        return clip(self, low, high, out)

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


clip = np._core.umath.clip  # type: ignore[attr-defined]  # the ufunc that the method calls


def _plain(x):
    if type(x) is not Noted:
        return x
    if x.plain is None:
        x.plain = x.view(np.ndarray)
        x.views.append(x)
    return x.plain  # always the same object, as NumPy compares two that share memory for longer


def cast(out, x):
    """Fill ``out`` with ``x.astype(out.dtype)``."""
    np.copyto(out, x, "unsafe")


TYPES = {bool: np.dtype(bool)}  # bool is the one type of Python numbers that is not weak


def resolved_dtypes(ufunc, inputs):
    """The dtypes of the loop of a ufunc for arrays and numbers; that of the result comes last."""
    dtypes = [x.dtype if hasattr(x, "dtype") else TYPES.get(type(x), type(x)) for x in inputs]
    return ufunc.resolve_dtypes((*dtypes, None))


def empty_result(ufunc, inputs):
    """Memory for the result of a ufunc."""
    dtype = resolved_dtypes(ufunc, inputs)[-1]
    arrays = [x for x in inputs if hasattr(x, "shape")]
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    like = next((x for x in arrays if x.shape == shape), None)
    return np.empty(shape, dtype) if like is None else np.empty_like(like, dtype)


def bound_ufunc(ufunc, inputs, out):
    """A function without arguments that computes a ufunc into ``out``.

    Where the elements of a loop lie apart in memory, NumPy computes most functions in another way,
    with other last bits, and some of its versions even return wrong bools for `numpy.isnan`. So the
    results of these functions are copied into such memory.
    """
    inputs = _with_arrays(ufunc, inputs)
    if ufunc not in EXACT:
        steps = [step for n, step in zip(out.shape, out.strides, strict=True) if n > 1]
        if steps and min(steps) != out.itemsize:
            return partial(by_copy, out, ufunc, *inputs)
    # NumPy may come to take the third argument of these for another input.
    if ufunc is np.maximum or ufunc is np.minimum:
        return partial(with_named_out, ufunc, *inputs, out)
    return partial(ufunc, *inputs, out)


def with_named_out(ufunc, x1, x2, out):
    """Compute a ufunc into ``out``. A `partial` would merge keywords at each call."""
    ufunc(x1, x2, out=out)


def by_copy(out, function, *args):
    """Copy the result of a function into ``out``."""
    np.copyto(out, function(*args), "same_kind")


def _with_arrays(ufunc, inputs):
    """The inputs with 0-d arrays in place of numbers, which take a microsecond longer."""
    if all(type(x) is np.ndarray for x in inputs):
        return inputs
    try:
        return as_arrays(inputs, resolved_dtypes(ufunc, inputs))
    except (TypeError, OverflowError):  # such as a number that the dtype cannot hold
        return inputs


def as_arrays(inputs, dtypes):
    """The inputs with 0-d arrays of these dtypes in place of numbers."""
    pairs = zip(inputs, dtypes, strict=False)
    return [x if isinstance(x, np.ndarray) else np.array(x, dtype) for x, dtype in pairs]


# Ufuncs with the same bits wherever the elements lie in memory.
EXACT = {
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.absolute,
    np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.invert, np.maximum, np.minimum, clip, np.square, np.sqrt,
    np.reciprocal, np.copysign,
}  # fmt: skip


def bound_reduction(ufunc, x, out, axis=0, dtype=None, keepdims=False, **others):
    """A function without arguments that reduces ``x`` into ``out``."""
    if others:
        raise CannotNote
    # The order of additions also depends on the result's order in memory, if several axes are left
    # and one of the arrays is not in C order.
    is_certain = x.flags.c_contiguous and out.flags.c_contiguous
    has_choice = not is_certain and sum([n > 1 for n in out.shape]) > 1
    # NumPy 2.0 goes through a reversed axis in memory's order only if it allocates the result.
    if has_choice or any(step < 0 for step in x.strides):
        return partial(by_copy, out, ufunc.reduce, x, axis, dtype, None, keepdims)
    return partial(ufunc.reduce, x, axis, dtype, out, keepdims)


def note(function, args, kwargs, out):
    """The calls by which a function fills ``out``, in their order."""
    target = _first(out)
    kwargs = {name: _noted(x, target) for name, x in kwargs.items()}
    try:
        result = function(*[_noted(x, target) for x in args], **kwargs, out=target)
    finally:
        found = _taken(target)
    if result is not target:
        raise CannotNote
    return found


def note_result(function, *args):
    """The calls by which a function computes a new array, in their order, and that array."""
    first = _first(next(x for x in args if type(x) is np.ndarray))
    try:
        result = function(*[_noted(x, first) for x in args])
        if type(result) is not Noted:
            raise CannotNote
        out = _plain(result)
    finally:
        found = _taken(first)
    return found, out


def _first(array):
    """A view of an array with empty lists, which all views will share."""
    view = array.view(Noted)
    view.plain, view.calls, view.views = array, [], []
    return view


def _taken(view):
    """The noted calls, which the views lose."""
    # Python's garbage collector does not see that an array refers to the one it is a view of, so
    # that a cycle through it would never be freed.
    for other in view.views:
        other.plain = None
    found = [*view.calls]
    view.calls.clear()
    view.views.clear()
    return found


def _noted(x, like):
    if type(x) is np.ndarray:
        return like.noted(x)
    if type(x) is tuple or type(x) is list:
        return type(x)([_noted(item, like) for item in x])
    return x
