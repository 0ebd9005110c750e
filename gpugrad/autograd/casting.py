"""Autocast: which ops cast their inputs inside a region, and to which dtype.

The lists are PyTorch's for CUDA. An op of the lists gets a further stage in front of what it runs,
once the program has entered a region for the first time. The stage looks at the inputs, and raises
`Recast` where the region wants them in another dtype. The call then casts its operands by recorded
`astype` calls, and starts again outside of the region. So the graph has the casts, and keeps the
inputs that ops computed with.
"""

from functools import cache, wraps

from .._thread_state import thread
from .._typing import F
from ..backends import SCALARS
from ..backends.dtypes import float32
from .graph import Leaf, next_order, writes

# Products, which compute in the region's dtype.
_LOWER = set(
    """
    attention convolution convolution_input convolution_weight dense einsum gru linear lstm matmul
    rnn
    """.split()
)
# Functions that need the range or the precision of float32.
_SINGLE = set(
    """
    acos asin binary_cross_entropy binary_cross_entropy_with_logits cosh cross_entropy
    cumulative_prod cumulative_sum exp expm1 group_norm layer_norm linalg.matrix_norm
    linalg.vector_norm log log10 log1p log2 log_softmax logsumexp mse nll pow prod reciprocal
    rms_norm sinh softmax softplus square sum tan
    """.split()
)
# Where the dtypes of the inputs differ, float32.
_WIDEST = set("atan2 concat linalg.cross stack tensordot vecdot where".split())
# The result has the dtype of the first input, although the others are kept in float32.
_AS_FIRST = {"batch_norm"}

_HALVES = {"float16", "bfloat16"}
_CAST = {*_HALVES, "float32"}  # float64 stays as it is

_has_region = False  # whether the program has entered one
_names: dict = {}  # of the dtypes met so far


class Region:
    """The inside of a ``with autocast():``.

    dtypes: the dtype for each kind of device, ``"cpu"`` and ``"cuda"``; none for a kind where it
        is switched off.
    casts: what the leaves cast so far have become, by their nodes, or None if nothing is kept.
    """

    def __init__(self, dtypes, casts):
        self.dtypes = dtypes
        self.casts = casts

    def anew(self):
        """The same region, in which nothing has been cast yet."""
        return Region(self.dtypes, self.casts if self.casts is None else {})


class Recast(Exception):
    """What autocast wants of a call: operands in ``dtype``, the first result in ``result``.

    Each may be None, for dtypes as they come.
    """

    def __init__(self, dtype, result=None):
        self.dtype = dtype
        self.result = result


class entered:
    """A context manager: the thread is inside ``region``, or outside of all if it is None."""

    def __init__(self, region):
        self.region = region

    def __enter__(self):
        self.before = thread.autocast
        thread.autocast = self.region

    def __exit__(self, *exc_info):
        thread.autocast = self.before


def need_stages():
    """Have all ops built with the stage; returns whether they were built without it so far."""
    global _has_region
    first, _has_region = not _has_region, True
    return first


def stage(op, backend, forward):
    """``forward`` with a look at the region, if the op is in a list and there has been a region."""
    rule = _rule(op) if _has_region else None
    if rule is None:
        return forward
    kinds, dtype_of = {*backend.array_types}, cache(backend.dtype)

    @wraps(forward)
    def looking(xp, *arrays, **static):
        region = thread.autocast
        if region is not None:
            found = [x for x in arrays if type(x) in kinds and _name(x.dtype) in _CAST]
            if found:
                own = region.dtypes.get(backend.device(found[0]).split(":")[0])
                if own is not None:
                    rule(dtype_of, own, found, arrays, static)
        return forward(xp, *arrays, **static)

    return looking


def _rule(op):
    """What raises `Recast` for an op of the lists; None for others."""
    if not (op.forward.__module__ or "").startswith("gpugrad.ops."):
        return None
    for names, rule in _RULES:
        if op.name in names:
            return rule
    return None


# These take a function for the library's own dtypes, the dtype of the region, the arrays that can
# be cast, all inputs, and the static parameters.


def _lower(dtype_of, own, found, arrays, static):
    dtype = dtype_of(own)
    for x in found:
        if x.dtype != dtype:
            raise Recast(dtype)


def _single(dtype_of, own, found, arrays, static):
    for x in found:
        if _name(x.dtype) != "float32" and static.get("dtype") is None:
            raise Recast(dtype_of(float32))


def _quotient(dtype_of, own, found, arrays, static):
    if type(arrays[0]) in SCALARS:  # a reciprocal
        _single(dtype_of, own, found, arrays, static)


def _widest(dtype_of, own, found, arrays, static):
    if len({_name(x.dtype) for x in found}) > 1:
        raise Recast(dtype_of(float32))


def _as_first(dtype_of, own, found, arrays, static):
    if found[0] is arrays[0] and any(x.dtype != found[0].dtype for x in found):
        raise Recast(None, found[0].dtype)


_RULES = (
    (_LOWER, _lower),
    (_SINGLE, _single),
    ({"divide"}, _quotient),
    (_WIDEST, _widest),
    (_AS_FIRST, _as_first),
)


def _name(dtype):
    try:
        return _names[dtype]
    except KeyError:
        name = _names[dtype] = str(dtype).split(".")[-1]
        return name


def recast(xp, op, operands, static, wanted):
    """Call an op, which has raised ``wanted``, with its operands cast.

    xp: the namespace of Tensors.
    """
    region = thread.autocast
    if wanted.dtype is not None:
        operands = [_cast(xp, x, wanted.dtype, region) for x in operands]
    thread.autocast = None
    try:
        out = op.call(operands, **static) if op.variadic else op.call(*operands, **static)
    except Exception as error:
        _forget(wanted, error)
        raise
    finally:
        thread.autocast = region
    if wanted.result is not None:
        first, *others = out
        out = (xp.astype(first, wanted.result), *others)
    return out


def _forget(wanted, error):
    """Leave ``wanted`` out of what an error shows: it was no error."""
    while error is not None:
        if error.__context__ is wanted:
            error.__context__ = None
        error = error.__cause__ or error.__context__


def _cast(xp, x, dtype, region):
    """An operand in ``dtype``, if it is one of the floating arrays that can be cast."""
    if _name(getattr(x, "dtype", None)) not in _CAST or x.dtype == dtype:
        return x
    leaf = getattr(x, "node", None)
    # What is cast under no_grad has no graph.
    keeps = type(leaf) is Leaf and region.casts is not None and thread.recording
    if keeps and leaf in region.casts:
        order, array, found = region.casts[leaf]
        if array is x.array and found.dtype == dtype and writes.last >= order:
            return found
    order = next_order()
    found = xp.astype(x, dtype)
    if keeps and _name(dtype) in _HALVES:
        region.casts[leaf] = order, x.array, found
    return found


def in_float32(function: F) -> F:
    """Decorate a function of Tensors to run, inside a region, on float32 in place of 16 bits."""

    @wraps(function)
    def wrapped(*args, **options):
        if thread.autocast is not None:
            args = [_widened(x) for x in args]
            options = {name: _widened(x) for name, x in options.items()}
        return function(*args, **options)

    return wrapped  # type: ignore[return-value]


def as_input(x, out):
    """``out``, inside a region in the dtype of ``x`` if that has 16 bits."""
    inside = thread.autocast is not None and x.device.split(":")[0] in thread.autocast.dtypes
    return out.astype(x.dtype, copy=False) if inside and _name(x.dtype) in _HALVES else out


def _widened(x):
    is_half = hasattr(x, "node") and _name(x.dtype) in _HALVES
    if is_half and x.device.split(":")[0] in thread.autocast.dtypes:
        return x.astype("float32")
    return x
