"""Products of matrices and tensors."""

import math
from functools import lru_cache
from typing import Any

from .._arguments import whole
from .._batched import aligned, shapes_of_examples
from ..autograd.operation import composite, op
from ..backends import diagonal_step, parse_einsum, unused_letters
from .by_name import library_function
from .manipulation import expand_dims, moveaxis, permute_dims, reshape, squeeze, vmap_matrices


@op
def matmul(xp, x1, x2, /):
    """Matrix product: ``(..., m, k) @ (..., k, n) -> (..., m, n)``.

    Leading axes broadcast. A 1-D ``x1`` counts as a row and a 1-D ``x2`` as a column, and the
    added axis is dropped from the result.
    """
    try:
        return xp.matmul(x1, x2)
    except Exception:
        _check_matmul(tuple(x1.shape), tuple(x2.shape))  # the same message for every library
        raise


def _check_matmul(shape1, shape2):
    """Raise ValueError if arrays of these shapes have no matrix product."""
    if not (shape1 and shape2):
        raise ValueError("an operand without axes is not a matrix; use multiply") from None
    k, inner = shape1[-1], shape2[-2:][0]
    if k != inner:
        raise _misaligned(shape1, shape2, "", k, inner) from None
    for n, m in zip(reversed(shape1[:-2]), reversed(shape2[:-2]), strict=False):
        if n != m and 1 not in (n, m):
            raise ValueError(
                f"the leading axes of x1 {shape1} and x2 {shape2} do not broadcast: {n} != {m}"
            ) from None


def _misaligned(shape1, shape2, where, n, m):
    return ValueError(f"x1 {shape1} and x2 {shape2} do not align{where}: {n} != {m}")


def _matmul_x1(xp, g, x2, x1_shape):
    if len(x2.shape) == 1:  # (..., m), (k,) -> (..., m, k), or (), (k,) -> (k,)
        return (g if len(x1_shape) == 1 else xp.expand_dims(g, axis=-1)) * x2
    if len(x1_shape) == 1:  # (..., k, n), (..., n) -> (..., k)
        return xp.squeeze(xp.matmul(x2, xp.expand_dims(g, axis=-1)), axis=-1)
    return xp.matmul(g, xp.matrix_transpose(x2))


def _matmul_x2(xp, g, x1, x2_shape):
    if len(x1.shape) == 1:
        if len(x2_shape) == 1:
            return g * x1
        return xp.expand_dims(x1, axis=-1) * xp.expand_dims(g, axis=-2)
    if len(x2_shape) == 1:  # (..., m, k), (..., m) -> (..., k)
        return xp.squeeze(xp.matmul(xp.expand_dims(g, axis=-2), x1), axis=-2)
    if len(x2_shape) == 2 and len(x1.shape) > 2:
        # A single product over all rows, instead of one for each matrix and then a sum.
        rows = math.prod(x1.shape[:-1])
        x1 = xp.reshape(x1, (rows, x1.shape[-1]))
        g = xp.reshape(g, (rows, g.shape[-1]))
    return xp.matmul(xp.matrix_transpose(x1), g)


def matmul_vmap(call, batched, x1, x2):
    """Batching rule of `matmul`: a single product of rows or columns if only one is batched."""
    shape1, shape2 = shapes_of_examples(batched, (x1, x2))
    _check_matmul(shape1, shape2)
    if not batched[1] and len(shape2) <= 2:  # (n, ..., k) @ (k, m)
        rows = reshape(x1, (math.prod(x1.shape[:-1]), x1.shape[-1]))
        return reshape(call(rows, x2), (*x1.shape[:-1], *shape2[1:]))
    if not batched[0] and len(shape1) <= 2 and len(shape2) <= 2:
        if len(shape2) == 1:  # (m, k) @ (n, k)
            return call(x2, matrix_transpose(x1) if len(shape1) == 2 else x1)
        size, k, m = x2.shape  # (l, k) @ (n, k, m)
        columns = reshape(permute_dims(x2, (1, 0, 2)), (k, size * m))
        out = reshape(call(x1, columns), (*shape1[:-1], size, m))
        return moveaxis(out, -2, 0)
    added = ()  # the axes that make a matrix of a vector
    if len(shape1) == 1:
        x1, added = expand_dims(x1, -2), (-2,)
    if len(shape2) == 1:
        x2, added = expand_dims(x2, -1), (*added, -1)
    out = call(*aligned(batched, (x1, x2)))
    return squeeze(out, added) if added else out


matmul.vjp(x1=_matmul_x1, x2=_matmul_x2).jvp("x1", "x2").vmap(matmul_vmap)


@library_function(vmap=vmap_matrices)
def matrix_transpose(x, /):
    """The last two axes swapped: ``(..., m, n) -> (..., n, m)``."""


matrix_transpose.vjp(x=lambda xp, g: xp.matrix_transpose(g)).jvp("x")


@op
def vecdot(xp, x1, x2, /, *, axis=-1):
    """Inner products of vectors along ``axis``: the sum of ``conj(x1) * x2``.

    The other axes broadcast. ``axis`` must be negative if the numbers of axes differ.
    """
    if axis >= 0 and len(x1.shape) != len(x2.shape):
        raise ValueError(f"axis must be negative if the numbers of axes differ, not {axis}")
    try:
        return xp.vecdot(x1, x2, axis=axis)
    except Exception:
        n, m = (x.shape[axis] if -x.ndim <= axis < x.ndim else None for x in (x1, x2))
        if n != m and None not in (n, m):
            where = f" along axis {axis}"
            raise _misaligned(tuple(x1.shape), tuple(x2.shape), where, n, m) from None
        raise


def _vecdot_vmap(call, batched, x1, x2, *, axis):
    ndim1, ndim2 = map(len, shapes_of_examples(batched, (x1, x2)))
    if axis >= 0 and ndim1 == ndim2:
        axis -= ndim1
    if not -min(ndim1, ndim2) <= axis < 0:
        raise IndexError(f"vecdot: axis {axis} is out of range for {ndim1} and {ndim2} axes")
    return call(*aligned(batched, (x1, x2)), axis=axis)


vecdot.vjp(
    x1=lambda xp, g, x2, axis: xp.conj(xp.expand_dims(g, axis=axis) * x2),
    x2=lambda xp, g, x1, axis: xp.expand_dims(g, axis=axis) * xp.conj(x1),
).jvp("x1", "x2").vmap(_vecdot_vmap)


@op
def tensordot(xp, x1, x2, /, *, axes=2):
    """Sums of products over ``axes``; the result has the other axes of x1, then those of x2.

    axes: an int, to pair that many last axes of x1 with as many first axes of x2; or a pair of
        sequences, axes of x1 and the matching axes of x2.
    """
    axes = whole("axes", axes, 0) if isinstance(axes, int) else tuple(map(tuple, axes))
    try:
        return xp.tensordot(x1, x2, axes=axes)
    except Exception:
        _check_tensordot(tuple(x1.shape), tuple(x2.shape), axes)
        raise


def _check_tensordot(shape1, shape2, axes):
    """Raise ValueError if the axes do not fit arrays of these shapes."""
    most = min(len(shape1), len(shape2))
    if isinstance(axes, int):
        if not 0 <= axes <= most:
            raise ValueError(f"axes {axes} is not from 0 to {most}") from None
        axes = range(len(shape1) - axes, len(shape1)), range(axes)
    for a, b in zip(*axes, strict=False):
        fits = -len(shape1) <= a < len(shape1) and -len(shape2) <= b < len(shape2)
        if fits and shape1[a] != shape2[b]:
            where = f" along axes {a} and {b}"
            raise _misaligned(shape1, shape2, where, shape1[a], shape2[b]) from None


def _tensordot_terms(axes, ndim1, ndim2):
    """The terms of `einsum` for the operands of `tensordot` and for its result."""
    letters = [*unused_letters("", ndim1 + ndim2)]
    term1, term2 = letters[:ndim1], letters[ndim1:]
    if isinstance(axes, int):
        axes = range(ndim1 - axes, ndim1), range(axes)
    for a, b in zip(*axes, strict=True):
        term2[b] = term1[a]
    out = [c for c in term1 if c not in term2] + [c for c in term2 if c not in term1]
    return "".join(term1), "".join(term2), "".join(out)


def _tensordot_x1(xp, g, x2, x1_shape, axes):
    term1, term2, out = _tensordot_terms(axes, len(x1_shape), len(x2.shape))
    return xp.einsum(f"{out},{term2}->{term1}", g, x2)


def _tensordot_x2(xp, g, x1, x2_shape, axes):
    term1, term2, out = _tensordot_terms(axes, len(x1.shape), len(x2_shape))
    return xp.einsum(f"{term1},{out}->{term2}", x1, g)


def _tensordot_vmap(call, batched, x1, x2, *, axes):
    shape1, shape2 = shapes_of_examples(batched, (x1, x2))
    _check_tensordot(shape1, shape2, axes)
    term1, term2, out = _tensordot_terms(axes, len(shape1), len(shape2))
    (examples,) = unused_letters(term1 + term2, 1)
    term1, term2 = (examples * b + term for b, term in zip(batched, (term1, term2), strict=True))
    return einsum(f"{term1},{term2}->{examples}{out}", x1, x2)


tensordot.vjp(x1=_tensordot_x1, x2=_tensordot_x2).jvp("x1", "x2").vmap(_tensordot_vmap)


@op
def _einsum(xp, *operands, subscripts):
    return xp.einsum(subscripts, *operands)


def _einsum_vjp(xp, g, operands, subscripts, wanted):
    shapes = tuple([tuple(x.shape) for x in operands])
    cotangents = []
    for i, want in enumerate(wanted):
        if not want:
            cotangents.append(None)
            continue
        others, spread, diagonals, order = _cotangent_einsum(subscripts, shapes, i)
        c = xp.einsum(others, g, *operands[:i], *operands[i + 1 :])
        if spread:
            c = xp.broadcast_to(xp.reshape(c, spread[0]), spread[1])
        for front, flat, step, split in diagonals:
            key = (..., slice(None, None, step))
            c = xp.reshape(xp.scatter_add(xp.permute_dims(c, front), flat, key), split)
        if diagonals:
            c = xp.permute_dims(c, order)
        cotangents.append(c)
    return cotangents


@lru_cache(maxsize=1024)
def _cotangent_einsum(subscripts, shapes, i):
    """How to compute the cotangent of operand i from the result's cotangent and other operands.

    Returns the subscripts of an einsum; the shapes to reshape its result to and then broadcast
    it to, if some letters occur only in operand i; how to place it on the diagonal for each
    repeated letter; and the final order of the axes.
    """
    terms, out, sizes = parse_einsum(subscripts, shapes)
    term, shape = terms[i], shapes[i]
    lengths = dict(zip(term, shape, strict=True))
    full = set(out)
    for k, other in enumerate(terms):
        if k != i:
            full |= {c for c, n in zip(other, shapes[k], strict=True) if n == sizes[c]}
    kept = [c for c, n in lengths.items() if n == sizes[c] and c in full]
    others = [out, *terms[:i], *terms[i + 1 :]]
    spread = None
    if len(kept) < len(lengths):
        narrow = tuple([n if c in kept else 1 for c, n in lengths.items()])
        spread = narrow, tuple(lengths.values())
    diagonals, letters = [], list(lengths)
    for c, n in lengths.items():
        if (repeats := term.count(c)) > 1:
            rest = [k for k, d in enumerate(letters) if d != c]
            front = (*rest, letters.index(c))
            letters = [letters[k] for k in rest]
            room = [lengths[d] for d in letters]
            flat = (*room, n**repeats)
            letters += [c] * repeats
            diagonals.append((front, flat, diagonal_step(n, repeats), (*room, *[n] * repeats)))
    places = {c: [k for k, d in enumerate(letters) if d == c] for c in letters}
    order = tuple([places[c].pop(0) for c in term]) if diagonals else None
    return f"{','.join(others)}->{''.join(kept)}", spread, diagonals, order


def _einsum_jvp(xp, ts, operands, subscripts):
    total = None
    for i, t in enumerate(ts):
        if t is not None:
            t = xp.einsum(subscripts, *operands[:i], t, *operands[i + 1 :])
            total = t if total is None else total + t
    return total


def _einsum_vmap(call, batched, *operands, subscripts):
    terms, out, _ = parse_einsum(subscripts, tuple(shapes_of_examples(batched, operands)))
    (examples,) = unused_letters("".join(terms), 1)
    terms = [examples + term if b else term for term, b in zip(terms, batched, strict=True)]
    return call(operands, subscripts=f"{','.join(terms)}->{examples}{out}")


_einsum.vjp(joint=_einsum_vjp).jvp(operands=_einsum_jvp).vmap(_einsum_vmap)


@composite
def einsum(subscripts: str, /, *operands: Any) -> Any:
    """Sums of products of the operands' elements, with the subscripts of `numpy.einsum`.

    Each operand has a term with a letter for each axis: ``"ij,jk->ik"`` is the matrix product. A
    letter that is repeated in a term takes the diagonal. Letters that are not in the result's
    term are summed over; without ``->``, the result has the letters that occur once, in
    alphabetical order. ``...`` stands for any number of axes. These broadcast, and so does every
    axis of length 1.

    More than two operands are multiplied in pairs, in an order that `opt_einsum` chooses if it
    is installed. Nothing is conjugated.

    >>> import gpugrad
    >>> a = gpugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> gpugrad.einsum("ij,kj->ik", a, a).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """
    return _einsum(operands, subscripts=subscripts)
