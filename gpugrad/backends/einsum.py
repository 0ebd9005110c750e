"""``einsum`` as a sequence of matrix products, for every array library."""

import sys
from functools import lru_cache
from itertools import islice
from math import prod

import numpy as np


def einsum(xp, subscripts, /, *operands):
    """Compute `gpugrad.einsum` of arrays."""
    arrays = list(operands)
    for step in _steps(subscripts, tuple([tuple(x.shape) for x in operands])):
        step(xp, arrays)
    return arrays[0]


@lru_cache(maxsize=1024)
def parse(subscripts, shapes):
    """The operands' terms, the result's term and each letter's length, for arrays of these shapes.

    A term has one letter per axis; the axes of ``...`` get unused letters.
    """
    text = subscripts.replace(" ", "")
    left, arrow, out = text.partition("->")
    terms = left.split(",")
    letters = text.replace("->", "").replace(",", "").replace("...", "")
    if not letters.isalpha() and letters:
        raise ValueError(f"{subscripts!r} must consist of letters, commas, '...' and one '->'")
    if len(terms) != len(shapes):
        raise ValueError(f"{subscripts!r} has terms for {len(terms)} operands, not {len(shapes)}")

    named = [term.replace("...", "", 1) for term in terms]
    counts = [len(shape) - len(name) for shape, name in zip(shapes, named, strict=True)]
    for term, count, shape in zip(terms, counts, shapes, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ValueError(f"{subscripts!r}: {term!r} does not fit the shape {shape}")
    most = max([0, *counts])
    dots = "".join(unused_letters(letters, most))
    pairs = zip(terms, counts, strict=True)
    terms = [term.replace("...", dots[most - count :], 1) for term, count in pairs]
    if arrow:
        if dots and "..." not in out:
            raise ValueError(f"{subscripts!r}: the result needs '...' too; sum first to lose axes")
        out = out.replace("...", dots, 1)
    else:
        out = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if wrong := [c for c in out if out.count(c) > 1 or c not in "".join(terms)]:
        raise ValueError(
            f"{subscripts!r}: each letter of the result must be an operand's and appear once, "
            f"not {wrong[0]!r}"
        )

    sizes = {}
    for term, shape in zip(terms, shapes, strict=True):
        for c, n in zip(term, shape, strict=True):
            if sizes.setdefault(c, n) == 1:
                sizes[c] = n
            elif n not in (1, sizes[c]):
                letter = "..." if c in dots else c
                raise ValueError(f"{subscripts!r}: lengths {sizes[c]} and {n} for {letter!r}")
    for term, shape in zip(terms, shapes, strict=True):
        if any(len({n for d, n in zip(term, shape, strict=True) if d == c}) > 1 for c in term):
            raise ValueError(f"{subscripts!r}: a diagonal of an axis of length 1 and a longer one")
    return tuple(terms), out, sizes


def unused_letters(letters, number):
    """Yield ``number`` letters that are not among ``letters``."""
    characters = map(chr, range(ord("A"), sys.maxunicode))
    return islice((c for c in characters if c.isalpha() and c not in letters), number)


def diagonal_step(n, repeats):
    """The distance in memory between a diagonal's elements, along ``repeats`` axes of length n."""
    return (n**repeats - 1) // (n - 1) if n > 1 else 1


@lru_cache(maxsize=1024)
def _steps(subscripts, shapes):
    """Functions that in turn reduce a list of arrays, at first the operands, to the result."""
    terms, out, sizes = parse(subscripts, shapes)
    steps, terms = [], list(terms)
    pairs = [zip(term, shape, strict=True) for term, shape in zip(terms, shapes, strict=True)]
    whole = [{c for c, n in pair if n == sizes[c]} for pair in pairs]
    for i, shape in enumerate(shapes):
        elsewhere = set(out).union(*whole[:i], *whole[i + 1 :])
        terms[i] = _simplify(steps, i, terms[i], shape, elsewhere, sizes)
    for chosen in _path(terms, out, sizes):
        while len(chosen) > 1:
            *chosen, i, j = sorted(chosen)
            first, second = terms[i], terms[j]
            del terms[j], terms[i]
            step, product = _multiply(i, j, first, second, set(out).union(*terms), sizes)
            steps.append(step)
            terms.append(product)
            chosen.append(len(terms) - 1)
    (last,) = terms
    if last != out:
        axes = tuple(map(last.index, out))
        steps.append(_apply_to(0, lambda xp, x: xp.permute_dims(x, axes)))
    if not steps:  # the result must be a new array object, never the operand itself
        steps.append(_apply_to(0, lambda xp, x: xp.reshape(x, x.shape)))
    return steps


def _apply_to(i, function):
    def step(xp, arrays):
        arrays[i] = function(xp, arrays[i])

    return step


def _simplify(steps, i, term, shape, elsewhere, sizes):
    """Take operand i's diagonals and sum over the axes it alone has; return its new term."""
    lengths = dict(zip(term, shape, strict=True))
    for c in lengths:
        if term.count(c) > 1:
            steps.append(_apply_to(i, _diagonal(term, lengths, c)))
            term = term.replace(c, "") + c
    # Axes of length 1 that stretch to a longer one are left to broadcasting.
    kept = [c for c in term if c in elsewhere and lengths[c] == sizes[c]]
    if len(kept) < len(term):
        axes = tuple([k for k, c in enumerate(term) if c not in kept])
        steps.append(_apply_to(i, lambda xp, x: xp.sum(x, axis=axes, dtype=x.dtype)))
    return "".join(kept)


def _diagonal(term, lengths, c):
    n, repeats = lengths[c], term.count(c)
    others = [k for k, d in enumerate(term) if d != c]
    axes = (*others, *[k for k, d in enumerate(term) if d == c])
    flat = (*[lengths[term[k]] for k in others], n**repeats)
    key = (..., slice(None, None, diagonal_step(n, repeats)))
    return lambda xp, x: xp.reshape(xp.permute_dims(x, axes), flat)[key]


def _multiply(i, j, first, second, needed, sizes):
    """A step that replaces arrays i and j by their product at the list's end, and its term."""
    both = [c for c in first if c in second]
    batch = [c for c in both if c in needed]
    inner = [c for c in both if c not in needed]
    rows = [c for c in first if c not in second]
    columns = [c for c in second if c not in first]

    def size(letters):
        return [sizes[c] for c in letters]

    if inner:
        term = "".join([*batch, *rows, *columns])
        layout1 = _layout(first, [batch, rows, inner], size)
        layout2 = _layout(second, [batch, inner, columns], size)
    else:
        term = "".join([*first, *columns])
        layout1 = (None, (*size(first), *[1] * len(columns)) if columns else None)
        order = tuple(map(second.index, [*both, *columns]))
        shape = (*[sizes[c] if c in both else 1 for c in first], *size(columns))
        layout2 = (None if order == tuple(sorted(order)) else order, shape)
    shape = tuple(size(term))
    fits = bool(inner) and len(rows) == len(columns) == 1

    def step(xp, arrays):
        x2 = _rearrange(xp, arrays.pop(j), *layout2)
        x1 = _rearrange(xp, arrays.pop(i), *layout1)
        if inner:
            out = xp.matmul(x1, x2)
            arrays.append(out if fits else xp.reshape(out, shape))
        else:
            arrays.append(x1 * x2)

    return step, term


def _layout(term, groups, size):
    """The axis order and shape that turn an array into a batch of matrices; None for no change."""
    batch, *pair = groups
    order = tuple(map(term.index, [c for group in groups for c in group]))
    shape = (*size(batch), *[prod(size(group)) for group in pair])
    return (
        None if order == tuple(range(len(term))) else order,
        None if all(len(group) == 1 for group in pair) else shape,
    )


def _rearrange(xp, x, order, shape):
    if order is not None:
        x = xp.permute_dims(x, order)
    return x if shape is None else xp.reshape(x, shape)


def _path(terms, out, sizes):
    """The operands of each product in turn; a product replaces them and comes last."""
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    subscripts = f"{','.join(terms)}->{out}"
    shapes = [tuple([sizes[c] for c in term]) for term in terms]
    try:
        from opt_einsum import contract_path
    except ModuleNotFoundError:
        arrays = [np.broadcast_to(0, shape) for shape in shapes]
        return np.einsum_path(subscripts, *arrays, optimize="greedy")[0][1:]
    return contract_path(subscripts, *shapes, shapes=True)[0]
