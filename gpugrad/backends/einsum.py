"""``einsum`` by products of matrices, for every array library."""

from functools import lru_cache
from itertools import combinations
from math import prod


def einsum(xp, subscripts, /, *operands):
    """Sums of products; see `gpugrad.einsum`."""
    arrays = list(operands)
    for step in _steps(subscripts, tuple([tuple(x.shape) for x in operands])):
        step(xp, arrays)
    return arrays[0]


@lru_cache(maxsize=1024)
def parse(subscripts, shapes):
    """What the subscripts mean for arrays of these shapes: the operands' terms, the result's
    and each letter's length. A term has a letter per axis; those of ``...`` have some too.
    """
    text = subscripts.replace(" ", "")
    left, arrow, out = text.partition("->")
    terms = left.split(",")
    letters = text.replace("->", "").replace(",", "").replace("...", "")
    if not letters.isalpha() and letters:
        raise ValueError(f"{subscripts!r} must be of letters, commas, '...' and one '->'")
    if len(terms) != len(shapes):
        raise ValueError(f"{subscripts!r} has terms for {len(terms)} operands, not {len(shapes)}")

    named = [term.replace("...", "", 1) for term in terms]
    counts = [len(shape) - len(name) for shape, name in zip(shapes, named, strict=True)]
    for term, count, shape in zip(terms, counts, shapes, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ValueError(f"{subscripts!r}: {term!r} does not fit the shape {shape}")
    most = max([0, *counts])
    dots = "".join(unused_letters(letters, most))
    terms = [
        term.replace("...", dots[most - count :], 1)
        for term, count in zip(terms, counts, strict=True)
    ]
    if arrow:
        if dots and "..." not in out:
            raise ValueError(f"{subscripts!r}: the result needs '...' too; sum first to lose axes")
        out = out.replace("...", dots, 1)
    else:
        out = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(set(out)) < len(out) or not set(out) <= set("".join(terms)):
        wrong = next(c for c in out if out.count(c) > 1 or c not in "".join(terms))
        raise ValueError(
            f"{subscripts!r}: the result's letters must be the operands', each once, not {wrong!r}"
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


def unused_letters(letters, count):
    """So many letters that are not among ``letters``."""
    code = ord("A")
    while count:
        if chr(code).isalpha() and chr(code) not in letters:
            count -= 1
            yield chr(code)
        code += 1


def diagonal_step(n, repeats):
    """The distance in memory of a diagonal's elements, along so many axes of length n."""
    return (n**repeats - 1) // (n - 1) if n > 1 else 1


@lru_cache(maxsize=1024)
def _steps(subscripts, shapes):
    """Functions that change a list of arrays in turn, from the operands to the result alone."""
    terms, out, sizes = parse(subscripts, shapes)
    steps = []
    terms = list(terms)
    whole = [
        {c for c, n in zip(term, shape, strict=True) if n == sizes[c]}
        for term, shape in zip(terms, shapes, strict=True)
    ]
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
        steps.append(_change(0, lambda xp, x: xp.permute_dims(x, axes)))
    if not steps:  # not the operand itself, which a caller may not write to
        steps.append(_change(0, lambda xp, x: xp.reshape(x, x.shape)))
    return steps


def _change(i, function):
    def step(xp, arrays):
        arrays[i] = function(xp, arrays[i])

    return step


def _simplify(steps, i, term, shape, elsewhere, sizes):
    """Take operand i's diagonals, and sum over what is its alone; the term it then has."""
    lengths = dict(zip(term, shape, strict=True))
    for c in lengths:
        if term.count(c) > 1:
            steps.append(_change(i, _diagonal(term, lengths, c)))
            term = term.replace(c, "") + c
    # Axes of length 1 that stretch to a longer one are left to broadcasting.
    kept = [c for c in term if c in elsewhere and lengths[c] == sizes[c]]
    if len(kept) < len(term):
        axes = tuple([k for k, c in enumerate(term) if c not in kept])
        steps.append(_change(i, lambda xp, x: xp.sum(x, axis=axes, dtype=x.dtype)))
    return "".join(kept)


def _diagonal(term, lengths, c):
    n, repeats = lengths[c], term.count(c)
    others = [k for k, d in enumerate(term) if d != c]
    axes = (*others, *[k for k, d in enumerate(term) if d == c])
    flat = (*[lengths[term[k]] for k in others], n**repeats)
    key = (..., slice(None, None, diagonal_step(n, repeats)))
    return lambda xp, x: xp.reshape(xp.permute_dims(x, axes), flat)[key]


def _multiply(i, j, first, second, needed, sizes):
    """A step that puts the product of arrays i and j at the list's end, and its term."""
    both = [c for c in first if c in second]
    batch = [c for c in both if c in needed]
    inner = [c for c in both if c not in needed]
    rows = [c for c in first if c not in second]
    columns = [c for c in second if c not in first]

    def size(letters):
        return [sizes[c] for c in letters]

    if inner:
        term = "".join([*batch, *rows, *columns])
        lay1 = _layout(first, [batch, rows, inner], size)
        lay2 = _layout(second, [batch, inner, columns], size)
    else:
        term = "".join([*first, *columns])
        lay1 = (None, (*size(first), *[1] * len(columns)) if columns else None)
        order = tuple(map(second.index, [*both, *columns]))
        shape = (*[sizes[c] if c in both else 1 for c in first], *size(columns))
        lay2 = (None if order == tuple(sorted(order)) else order, shape)
    shape = tuple(size(term))
    fits = bool(inner) and len(rows) == len(columns) == 1

    def step(xp, arrays):
        x2 = _laid(xp, arrays.pop(j), *lay2)
        x1 = _laid(xp, arrays.pop(i), *lay1)
        if inner:
            out = xp.matmul(x1, x2)
            arrays.append(out if fits else xp.reshape(out, shape))
        else:
            arrays.append(x1 * x2)

    return step, term


def _layout(term, groups, size):
    """How to make of an array one with its batch axes and two more: an order and a shape."""
    batch, *pair = groups
    order = tuple(map(term.index, [c for group in groups for c in group]))
    shape = (*size(batch), *[prod(size(group)) for group in pair])
    return (
        None if order == tuple(range(len(term))) else order,
        None if all(len(group) == 1 for group in pair) else shape,
    )


def _laid(xp, x, order, shape):
    if order is not None:
        x = xp.permute_dims(x, order)
    return x if shape is None else xp.reshape(x, shape)


def _path(terms, out, sizes):
    """Which operands to multiply in turn; each time these go and the product comes last."""
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    try:
        from opt_einsum import contract_path
    except ModuleNotFoundError:
        return _greedy_path(terms, out, sizes)
    shapes = [tuple([sizes[c] for c in term]) for term in terms]
    return contract_path(f"{','.join(terms)}->{out}", *shapes, shapes=True)[0]


def _greedy_path(terms, out, sizes):
    """At each step the pair whose product takes least room beyond its own."""
    terms = list(terms)
    path = []

    def room(letters):
        return prod([sizes[c] for c in letters])

    def product(i, j):
        others = [term for k, term in enumerate(terms) if k not in (i, j)]
        return "".join((set(terms[i]) | set(terms[j])) & set(out).union(*others))

    while len(terms) > 1:
        i, j = min(
            combinations(range(len(terms)), 2),
            key=lambda ij: room(product(*ij)) - room(terms[ij[0]]) - room(terms[ij[1]]),
        )
        path.append((i, j))
        result = product(i, j)
        del terms[j], terms[i]
        terms.append(result)
    return path
