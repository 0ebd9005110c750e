"""`BatchedTensor`: inside `vmap` it represents one example, and holds all of them.

It has the shape of one example. Its payload is a tensor with one more axis in front, which counts
the examples; the graph belongs to the payload. When the program calls an op with it, the op's rule
for batches calls the op with the payload. In nested calls of `vmap` the payload may be another
batched tensor: the outermost object then belongs to the innermost call.
"""

import threading
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from typing import Any

from ._tensor import Tensor
from ._thread_state import make_lock, thread
from .autograd import call
from .backends import describe


class Level:
    """A call of `vmap` that is in progress.

    number: greater than the number of every enclosing level, in any thread.
    size: the number of examples.
    open: how many blocks are inside the level, in any thread: the call's own block, and those that
        have entered the level again.
    """

    __slots__ = ("number", "size", "open")

    def __init__(self, number, size):
        self.number = number
        self.size = size
        self.open = 1

    def __lt__(self, other):
        return self.number < other.number


_numbers = count()
_opening = make_lock(threading.Lock)


@contextmanager
def entered(size):
    """A context manager: a new innermost level, over ``size`` examples."""
    level = Level(next(_numbers), size)
    before = thread.levels
    thread.levels = (*before, level)
    try:
        yield level
    finally:
        thread.levels = before
        with _opening:
            level.open -= 1


@contextmanager
def reentered(levels, others=()):
    """A context manager that enters these levels again; their calls may have ended.

    Code that goes through a graph needs it if the graph was recorded inside them. The last level is
    the innermost.

    others: the active levels that stay active. A function that runs again must draw random numbers
        and differentiate for the same examples as before, and not also for the rows of a Jacobian.
    """
    before = thread.levels
    with _opening:
        for level in levels:
            if not level.open:
                level.number = next(_numbers)
            level.open += 1
    thread.levels = tuple(sorted({*[level for level in before if level in others], *levels}))
    try:
        yield
    finally:
        thread.levels = before
        with _opening:
            for level in levels:
                level.open -= 1


def active_levels():
    """The levels that this thread is inside, the innermost last."""
    return thread.levels


# The payload and the level use the slots that hold an ordinary Tensor's array and node. So a tensor
# can become a batched one in place, when a program assigns a batched value to a part of it.
_payload: Any = vars(Tensor)["array"]
_level: Any = vars(Tensor)["node"]


_NOT_AT_HAND = "inside vmap a tensor stands for all examples, and its values are not at hand"
_COMPUTE = "compute with gpugrad's functions, and read what vmap returns"


def call_batched(op, args, static):
    """Call an op with batched tensors among its inputs or among the arrays in ``static``."""
    found = [x for x in args if type(x) is BatchedTensor]
    for value in static.values():
        if type(value) is tuple or type(value) is BatchedTensor:
            found += _batched_in(value)
    level = found[0].level
    for x in found:
        own = x.level
        if not own.open:
            check_open(op.name, own)
        if own.number > level.number:
            level = own
    mask, operands = [], []
    for x in args:
        b = type(x) is BatchedTensor and x.level is level
        mask.append(b)
        operands.append(x.payload if b else x)
    out = NotImplemented
    if op.batching is not None:
        try:
            out = op.batching(op.call, mask, *operands, **static)
        except ValueError as error:
            if not level.size:
                raise op.failure(error, ()) from None
            one_by_one(op, mask, operands, static, level)  # an error there is about one example
            raise
    elif op.elementwise:
        out = op.call(*aligned(mask, operands), **static)
    if out is NotImplemented:
        out = one_by_one(op, mask, operands, static, level)
    if isinstance(out, tuple):
        return getattr(type(out), "_make", tuple)([batched(y, level) for y in out])
    return batched(out, level)


class BatchedTensor(Tensor):
    """The examples of a batch, which look like a single one to the function inside `vmap`.

    payload: the tensor with all examples along its first axis.
    level: the call of `vmap` that this tensor belongs to.
    """

    __slots__ = ()

    __op__ = staticmethod(call_batched)

    payload: Any = property(_payload.__get__)
    level: Any = property(_level.__get__)

    node: Any = property(attrgetter("payload.node"))
    dtype: Any = property(attrgetter("payload.dtype"))
    device: Any = property(attrgetter("payload.device"))
    _like: Any = property(attrgetter("payload._like"))

    @property
    def array(self) -> Any:
        raise TypeError(f"array: {_NOT_AT_HAND}; {_COMPUTE}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.payload.shape[1:]

    def of(self, payload: Tensor) -> "BatchedTensor":
        """A batched tensor of the same level with another payload."""
        return batched(payload, self.level)

    def detach(self) -> "BatchedTensor":
        return self.of(self.payload.detach())

    def __repr__(self) -> str:
        dtype = str(self.dtype).split(".")[-1]
        return f"<one of {self.level.size} examples in vmap, shape {self.shape}, {dtype}>"


def _refusal(how, instead):
    def refuse(self, *args, **keywords):
        raise TypeError(f"{how}: {_NOT_AT_HAND}; {instead}")

    return refuse


# What BatchedTensor refuses to do: for each remedy, the names in errors and those of the methods.
for _instead, _refused in {
    "instead of a branch (if, and, or, not, in) choose with where, &, | or ~": {"bool": "__bool__"},
    "it can be an index, x[i], but no length, bound of a slice, or axis: examples share these": {
        "int": "__index__"
    },
    "a 0-d tensor does for a number in gpugrad's functions": {
        how: f"__{how}__" for how in ("int", "float", "complex")
    },
    _COMPUTE: {
        "numpy.asarray": "__array__",
        **{how: how for how in ("item", "tolist", "numpy", "__dlpack__", "__dlpack_device__")},
    },
    "use asarray(x, copy=True), or copy what vmap returns": {"copy": "__reduce__"},
    "differentiate by a function, such as gpugrad.grad": {
        how: how
        for how in """
            backward register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad
        """.split()
    },
}.items():
    for _how, _method in _refused.items():
        setattr(BatchedTensor, _method, _refusal(_how, _instead))


def batched(payload, level):
    """The BatchedTensor of ``level`` over the first axis of ``payload``."""
    result = BatchedTensor()
    _payload.__set__(result, payload)
    _level.__set__(result, level)
    return result


def become(tensor, value):
    """Give ``tensor`` the class and the contents of ``value``; one of the two is batched."""
    payload, level = _payload.__get__(value), _level.__get__(value)
    tensor.__class__ = type(value)
    _payload.__set__(tensor, payload)
    _level.__set__(tensor, level)


def levels_of(x):
    """The levels of a tensor, the outermost first."""
    levels = []
    while type(x) is BatchedTensor:
        levels.append(x.level)
        x = x.payload
    return levels[::-1]


def levels_among(name, values):
    """The levels of the tensors among the values, the outermost first; ``name`` is for errors."""
    found = {level for x in values for level in levels_of(x)}
    check_open(name, *found)
    return sorted(found)


def levels_now(name, x):
    """The active levels and those of ``x``, the outermost first; ``name`` is for errors."""
    if not thread.levels and type(x) is not BatchedTensor:
        return []
    return sorted({*thread.levels, *levels_among(name, [x])})


def physical(x):
    """The ordinary tensor behind all levels of ``x``; their axes come first, outermost first."""
    while type(x) is BatchedTensor:
        x = x.payload
    return x


def behind(x, levels):
    """``x`` as a BatchedTensor of these levels, whose axes come first: undoes `physical`."""
    for level in levels:
        x = batched(x, level)
    return x


def lifted(x, levels):
    """``x`` with an axis for every level, the outermost first; new axes repeat it."""
    if not levels:
        return x
    *outer, level = levels
    return batched(lifted(examples(x, level), outer), level)


def check_open(where, *levels):
    """Raise RuntimeError if one of these levels has ended."""
    if not all(level.open for level in levels):
        raise RuntimeError(
            f"{where}: a tensor of a vmap that has ended: return it from the mapped function "
            f"instead of keeping it"
        )


def _batched_in(value):
    if type(value) is BatchedTensor:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from _batched_in(part)


def aligned(mask, operands):
    """The operands; batched ones get axes of length 1, so that their examples broadcast."""
    if len(operands) == 1:
        return operands
    logical = [getattr(x, "ndim", b) - b for x, b in zip(operands, mask, strict=True)]
    ndim = max(logical)
    short = [b and n < ndim for b, n in zip(mask, logical, strict=True)]
    if True not in short:
        return operands
    reshape = call.namespace.reshape
    return [
        reshape(x, (x.shape[0],) + (1,) * (ndim - n) + x.shape[1:]) if s else x
        for x, s, n in zip(operands, short, logical, strict=True)
    ]


def shapes_of_examples(mask, operands):
    """The shape of one example of each operand; None for None."""
    pairs = zip(operands, mask, strict=True)
    return [x if x is None else getattr(x, "shape", ())[b:] for x, b in pairs]


def equally(mask, operands):
    """The operands, all with an axis over the examples, which repeats those that had none."""
    if all(mask) or not any(mask):
        return operands
    size = next(x.shape[0] for x, b in zip(operands, mask, strict=True) if b)
    broadcast_to = call.namespace.broadcast_to
    pairs = zip(operands, mask, strict=True)
    return [x if b or x is None else broadcast_to(x, (size, *x.shape)) for x, b in pairs]


def one_by_one(op, mask, operands, static, level):
    """Call the op for each example and stack the results."""
    if not level.size:
        raise ValueError(f"{op.name}: vmap over no examples cannot tell the result's shape")
    results = []
    unstack, stack = call.namespace.unstack, call.namespace.stack
    pieces = [unstack(x) if b else (x,) * level.size for x, b in zip(operands, mask, strict=True)]
    for i in range(level.size):
        inputs = [x[i] for x in pieces]
        chosen = {name: _example(value, level, i) for name, value in static.items()}
        results.append(op.call(*((inputs,) if op.variadic else inputs), **chosen))
    is_tuple = isinstance(results[0], tuple)
    columns = zip(*results, strict=True) if is_tuple else [results]
    stacked = []
    for column in columns:
        if len({y.shape for y in column}) > 1:
            raise ValueError(
                f"{op.name}: inside vmap every example must give the same shape, but they give "
                f"{', '.join(sorted({str(y.shape) for y in column}))}; given "
                f"{', '.join(describe(x) for x in operands if x is not None)}"
            )
        stacked.append(stack(column))
    return getattr(type(results[0]), "_make", tuple)(stacked) if is_tuple else stacked[0]


def _example(value, level, i):
    if type(value) is tuple:
        return tuple([_example(part, level, i) for part in value])
    if type(value) is BatchedTensor and value.level is level:
        return value.payload[i, ...]._like  # static arrays are raw
    return value


def examples(x, level):
    """``x`` with the examples along its first axis: its payload, or itself repeated."""
    if type(x) is BatchedTensor and x.level is level:
        return x.payload
    return call.namespace.broadcast_to(x, (level.size, *x.shape))


def shifted(op, axis, ndim):
    """The axis of the payload for an axis of an example with ``ndim`` axes.

    ``axis`` may also be several axes, or None for all. Raises IndexError for an axis that the
    example does not have.
    """
    if axis is None:
        return tuple(range(1, ndim + 1))
    if isinstance(axis, (tuple, list)):
        return tuple([shifted(op, a, ndim) for a in axis])
    if not -ndim <= axis < ndim:
        raise IndexError(f"{op.name}: axis {axis} is out of range for {ndim} axes")
    return axis % ndim + 1
