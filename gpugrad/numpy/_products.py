"""Products of matrices and tensors."""

from ._table import (
    FUNCTIONS,
    constant,
    enter,
    flat,
    floating,
    gg,
    is_complex,
    numpy,
    of_numpy,
    tensor,
    tensors,
)

enter(
    {
        "outer": lambda a, b: gg.linalg.outer(*map(flat, tensors(a, b))),
        "polymul": lambda a1, a2: _full_convolution(a1, a2),
        "vdot": lambda a, b: gg.vecdot(*map(flat, tensors(a, b))),
    }
)


@of_numpy()
def dot(a, b):
    a, b = tensors(a, b)
    ndim = b.ndim
    if not (ndim and a.ndim):
        return a * b
    if ndim <= 2:
        return gg.matmul(a, b)
    return gg.tensordot(a, b, axes=((-1,), (ndim - 2,)))


@of_numpy()
def inner(a, b):
    a, b = tensors(a, b)
    return gg.tensordot(a, b, axes=((-1,), (-1,))) if a.ndim and b.ndim else a * b


@of_numpy("tensordot", "linalg.tensordot")
def tensordot(a, b, axes=2):
    if not isinstance(axes, int):
        axes = tuple([tuple(axis) if numpy.iterable(axis) else (axis,) for axis in axes])
    return gg.tensordot(*tensors(a, b), axes=axes)


@of_numpy(of_sequence=True)
def einsum(*operands, optimize=None):
    if isinstance(operands[0], str):
        subscripts, *operands = operands
        return gg.einsum(subscripts, *tensors(*operands))
    *pairs, out = operands if len(operands) % 2 else (*operands, None)
    arrays, terms = pairs[::2], pairs[1::2]
    subscripts = ",".join(map(_letters, terms))
    if out is not None:
        subscripts += "->" + _letters(out)
    return gg.einsum(subscripts, *tensors(*arrays))


def _letters(axes):
    """The term of an operand whose axes have numbers; these are in the order of their letters."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return "".join(["..." if axis is Ellipsis else letters[axis] for axis in axes])


@of_numpy()
def kron(a, b):
    a, b = tensors(a, b)
    ndim = max(a.ndim, b.ndim)
    shape1 = (1,) * (ndim - a.ndim) + a.shape
    shape2 = (1,) * (ndim - b.ndim) + b.shape
    a = gg.reshape(a, tuple([n for length in shape1 for n in (length, 1)]))
    b = gg.reshape(b, tuple([n for length in shape2 for n in (1, length)]))
    return gg.reshape(a * b, tuple([n * m for n, m in zip(shape1, shape2, strict=True)]))


@of_numpy()
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = tensors(a, b)
    a, b = gg.moveaxis(a, axisa, -1), gg.moveaxis(b, axisb, -1)
    planar = a.shape[-1] == b.shape[-1] == 2
    a, b = _in_space(a), _in_space(b)
    product = gg.linalg.cross(a, b)
    return product[..., 2] if planar else gg.moveaxis(product, -1, axisc)


def _in_space(x):
    """Vectors of three elements; those of two get a third, which is 0."""
    if x.shape[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    return gg.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 1)]) if x.shape[-1] == 2 else x


def _full_convolution(a, b):
    """The sums of products of two vectors, ``(n + m - 1,)``."""
    a, b = tensors(a, b)
    if a.ndim > 1 or b.ndim > 1 or not a.size or not b.size:
        raise ValueError("convolve: needs two vectors with elements")
    a, b = flat(a), flat(b)
    a, b = (b, a) if b.size > a.size else (a, b)
    n, m = a.size, b.size
    # Windows of the longer one, as the rows of a matrix.
    padded = gg.pad(a, m - 1)
    places = numpy.add.outer(numpy.arange(n + m - 1), numpy.arange(m)).reshape(-1)
    windows = gg.take(padded, constant(places, a), axis=0)
    return gg.reshape(windows, (n + m - 1, m)) @ gg.flip(b)


@of_numpy()
def convolve(a, v, mode="full"):
    a, v = tensors(a, v)
    return _part(_full_convolution(a, v), *sorted([a.size, v.size]), mode)


def _part(full, shorter, longer, mode):
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full', not {mode!r}")
    length = longer if mode == "same" else longer - shorter + 1
    start = (shorter - 1) // 2 if mode == "same" else shorter - 1
    return full[start : start + length]


@of_numpy()
def correlate(a, v, mode="valid"):
    a, v = tensors(a, v)
    v = gg.conj(v) if is_complex(v) else v
    full = _full_convolution(a, gg.flip(v))
    if mode == "same" and v.size > a.size:
        start = a.size // 2
        return full[start : start + v.size]
    return _part(full, *sorted([a.size, v.size]), mode)


# Polynomials


@of_numpy()
def polyval(p, x):
    p, x = tensors(p, x)
    value = gg.zeros_like(x)
    for coefficient in gg.unstack(p):
        value = value * x + coefficient
    return value


@of_numpy()
def polyadd(a1, a2):
    a1, a2 = [flat(a) if not a.ndim else a for a in tensors(a1, a2)]
    n = max(a1.size, a2.size)
    return gg.pad(a1, ((n - a1.size, 0),)) + gg.pad(a2, ((n - a2.size, 0),))


@of_numpy()
def polysub(a1, a2):
    a1, a2 = tensors(a1, a2)
    return polyadd(a1, -a2)


@of_numpy()
def polyder(p, m=1):
    p = tensor(p)
    for _ in range(m):
        n = p.size - 1
        p = p[:-1] * constant(numpy.arange(n, 0, -1), p, p.dtype)
    return p


@of_numpy()
def polyint(p, m=1, k=None):
    p = floating(p)
    constants = numpy.zeros(m) + (0.0 if k is None else k)
    for i in range(m):
        terms = p / constant(numpy.arange(p.size, 0, -1), p, p.dtype)
        p = gg.concat([terms, constant(constants[i : i + 1], p, p.dtype)])
    return p


@of_numpy()
def polyfit(x, y, deg, rcond=None, *, w=None):
    x, y, w = tensors(floating(x), y, 1.0 if w is None else w)
    if x.ndim != 1 or y.ndim not in (1, 2) or y.shape[0] != x.shape[0] or not x.size:
        raise TypeError(f"polyfit: needs x (n,) and y (n,) or (n, k), not {x.shape} and {y.shape}")
    y, w = floating(y), gg.broadcast_to(floating(w, x), x.shape)
    powers = FUNCTIONS["vander"](x, deg + 1) * w[:, None]
    # Of columns of the same length the solution is more exact.
    scale = gg.sqrt(gg.sum(powers * powers, axis=0))
    rtol = x.size * gg.finfo(x.dtype).eps if rcond is None else rcond
    weighted = y * (w if y.ndim == 1 else w[:, None])
    solution = gg.linalg.pinv(powers / scale, rtol=rtol) @ weighted
    return solution / (scale if y.ndim == 1 else scale[:, None])
