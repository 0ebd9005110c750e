"""Autocast: which ops cast their inputs inside a region, and to which dtype.

The lists are PyTorch's for CUDA. Once the program has entered a region for the first time, the
forward of each op in the lists begins with a look at its inputs. It raises `Recast` where the
region wants them in another dtype. The call then casts its operands by recorded `astype` calls, and
starts again outside of the region. So the graph has the casts, and keeps the inputs that ops
computed with.
"""

from functools import cache, wraps

from .._thread_state import thread
from .._typing import F
from ..backends import SCALARS
from ..backends.dtypes import float32
from .graph import Leaf, next_order, writes

_HALVES = {"float16", "bfloat16"}
_CAST = {*_HALVES, "float32"}  # float64 stays as it is

_has_region = False  # whether the program has entered one


class Recast(Exception):
    """Asks a call to cast its operands to ``dtype``, or its first result to the dtype ``result``.

    Each may be None, which asks for no cast.
    """

    def __init__(self, dtype, result=None):
        self.dtype, self.result = dtype, result


def need_stages():
    """From now on ops are built with `stage`; returns whether they were not before."""
    global _has_region
    first, _has_region = not _has_region, True
    return first


def stage(op, backend, forward):
    """``forward``; if the op is in a list and there was a region, it first looks at its inputs."""
    is_own = (op.forward.__module__ or "").startswith("gpugrad.ops.")
    rule = _RULES.get(op.name) if is_own and _has_region else None
    if rule is None:
        return forward
    kinds, dtype_of = {*backend.array_types}, cache(backend.dtype)

    @wraps(forward)
    def looking(xp, *arrays, **static):
        if (region := thread.autocast) is not None:
            found = [x for x in arrays if type(x) in kinds and _name(x.dtype) in _CAST]
            place = backend.device(found[0]).split(":")[0] if found else None
            if place in region.dtypes:
                rule(dtype_of, region.dtypes[place], found, arrays, static)
        return forward(xp, *arrays, **static)

    return looking


# The parameters of these functions: a function from names to the library's dtypes, the region's
# dtype, the inputs that can be cast, all inputs, and the static parameters.


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


_RULES = {
    name: rule
    for rule, names in {
        # Products, which compute in the region's dtype.
        _lower: """
            attention convolution convolution_input convolution_weight dense einsum gru linear lstm
            matmul rnn
        """,
        # Functions that need the range or the precision of float32.
        _single: """
            acos asin binary_cross_entropy binary_cross_entropy_with_logits cosh cross_entropy
            cumulative_prod cumulative_sum exp expm1 group_norm layer_norm linalg.matrix_norm
            linalg.vector_norm log log10 log1p log2 log_softmax logsumexp mse nll pow prod
            reciprocal rms_norm sinh softmax softplus square sum tan
        """,
        _quotient: "divide",
        # Where the dtypes of the inputs differ, float32.
        _widest: "atan2 concat linalg.cross stack tensordot vecdot where",
        # The result has the dtype of the first input, although the others stay in float32.
        _as_first: "batch_norm",
    }.items()
    for name in names.split()
}


@cache
def _name(dtype):
    return str(dtype).split(".")[-1]


def recast(xp, op, operands, static, wanted):
    """Call an op again with its operands cast as it ``wanted``.

    xp: the namespace of Tensors.
    """
    region = thread.autocast
    if wanted.dtype is not None:
        operands = [_cast(xp, x, wanted.dtype, region) for x in operands]
    thread.autocast = None
    try:
        out = op.call(operands, **static) if op.variadic else op.call(*operands, **static)
    finally:
        thread.autocast = region
    if wanted.result is not None:
        first, *others = out
        out = (xp.astype(first, wanted.result), *others)
    return out


def _cast(xp, x, dtype, region):
    """An operand in ``dtype``, if it is one of the floating arrays that can be cast."""
    if _name(getattr(x, "dtype", None)) not in _CAST or x.dtype == dtype:
        return x
    leaf = getattr(x, "node", None)
    # A cast under no_grad has no graph, so it is not kept.
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
    """Decorate a function of Tensors to take, inside a region, 16-bit inputs as float32."""

    @wraps(function)
    def wrapped(*args, **options):
        if thread.autocast is not None:
            args = [_widened(x) for x in args]
            options = {name: _widened(x) for name, x in options.items()}
        return function(*args, **options)

    return wrapped  # type: ignore[return-value]


def as_input(x, out):
    """``out``, which inside a region is cast to the dtype of ``x`` if that has 16 bits."""
    inside = thread.autocast is not None and x.device.split(":")[0] in thread.autocast.dtypes
    return out.astype(x.dtype, copy=False) if inside and _name(x.dtype) in _HALVES else out


def _widened(x):
    is_half = hasattr(x, "node") and _name(x.dtype) in _HALVES
    if is_half and x.device.split(":")[0] in thread.autocast.dtypes:
        return x.astype("float32")
    return x
