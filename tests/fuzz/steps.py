"""The steps that random programs are made of, each in gpugrad and in PyTorch."""

import math
import operator
from functools import partial, reduce
from itertools import accumulate, product

import array_api_compat.torch as T
import numpy as np
import torch
from programs import LARGEST, OPS, TORCH, Draft, Program, add, broadcast_size

import gpugrad as gg
from gpugrad.nn import functional

F = torch.nn.functional

# What PyTorch wants otherwise.


def same(*tensors):
    """Tensors of one dtype, for which 0-d ones count too."""
    return [x.to(reduce(torch.promote_types, [x.dtype for x in tensors])) for x in tensors]


def dims(x, axis):
    """An axis, or all of several, as a tuple."""
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def places(x, key):
    """For each element of x[key] its position in the flattened x, from NumPy."""
    return np.arange(x.numel()).reshape(tuple(x.shape))[key]


def taken(x, key):
    at = places(x, key)
    return x.reshape(-1)[torch.from_numpy(at.reshape(-1).copy())].reshape(at.shape)


def assigned(x, value, key):
    """x with a value written at a key; at a repeated index the last one stays."""
    at = places(x, key)
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype)
    flat = value.to(x.dtype).expand(at.shape).reshape(-1)
    source = np.full(x.numel(), -1)
    for n, place in enumerate(at.ravel()):
        source[place] = n
    source = torch.from_numpy(source.reshape(tuple(x.shape)))
    return torch.where(source >= 0, flat[source.clamp(min=0)], x)


# Elementwise


def drawn(kinds="f", ndim=0, most=9, exact=False, **static):
    """What draws a tensor by `Draft.pick`, and parameters by functions of draft and tensor."""

    def draw(d):
        x = d.pick(kinds, ndim, most, exact)
        return (x,), {name: of(d, x) for name, of in static.items()}

    return draw


one, one_any = drawn(), drawn("fc")


def flag(d, x):
    return d.flag()


def keepdims(d, x):
    return d.flag() if d.ndim(x) else False


along = partial(drawn, ndim=1, axis=Draft.axis)


def two(d, kinds="f"):
    x = d.pick(kinds)
    return (x, d.fitting(x, kinds)), {}


def both(name, draw, f, alike=False, **options):
    """A step written with names and operators that both namespaces have.

    f: a function of `Guards`, the namespace, tensors and static parameters.
    alike: whether PyTorch wants tensors of one dtype.
    """
    add(name, draw, lambda c, *xs, **static: f(c, gg, *xs, **static),
        lambda c, *xs, **static: f(c, T, *(same(*xs) if alike else xs), **static),
        **options)  # fmt: skip


def unary(name, f, draw=one, grows=False):
    both(name, draw, lambda c, m, x: f(m, x), grows=grows)


unary("sin", lambda m, x: m.sin(x), one_any)
unary("cos", lambda m, x: m.cos(x), one_any)
unary("exp", lambda m, x: m.exp(x), one_any, grows=True)
unary("tanh", lambda m, x: m.tanh(x))
unary("tanh_complex", lambda m, x: m.tanh(x / (1 + x * m.conj(x))), one_any)
unary("sigmoid", lambda m, x: m.sigmoid(x))
unary("log", lambda m, x: m.log(x * x + 0.5))
unary("log_complex", lambda m, x: m.log(1 + x / (1 + x * m.conj(x))), one_any)
unary("log1p", lambda m, x: m.log1p(x * x))
unary("sqrt", lambda m, x: m.sqrt(x * x + 0.5))
unary("sqrt_complex", lambda m, x: m.sqrt(1 + x / (1 + x * m.conj(x))), one_any)
unary("reciprocal", lambda m, x: m.reciprocal(x * x + 0.5))
unary("square", lambda m, x: m.square(x), one_any, grows=True)
unary("negative", lambda m, x: -x, one_any)
unary("conj", lambda m, x: m.conj(x), one_any)
unary("cube", lambda m, x: x**3, one_any, grows=True)
unary("affine", lambda m, x: 1.5 * x - 0.25, one_any, grows=True)
unary("rational", lambda m, x: (2 - x) / (x * x + 2), one)
unary("erf", lambda m, x: m.special.erf(x))
add("gelu", one, lambda c, x: 0.5 * x * (1 + gg.special.erf(x * 2**-0.5)), lambda c, x: F.gelu(x))
both("relu", one, lambda c, m, x: m.relu(c.away(x)))
both("abs", one, lambda c, m, x: m.abs(c.away(x)))
unary("abs_complex", lambda m, x: m.abs(x / (2 + m.conj(x) * x) + 1), one_any)
both("sign", one, lambda c, m, x: m.sign(c.away(x)))
add("stop_gradient", one_any, lambda c, x: gg.stop_gradient(x), lambda c, x: x.detach())
unary("real", lambda m, x: m.real(x) + 0, one_any)
unary("imag", lambda m, x: m.imag(x * 1j) if _is_complex(m, x) else x + 0, one_any)


def binary(name, f, grows=True, kinds="fc"):
    both(name, partial(two, kinds=kinds), lambda c, m, x, y: f(m, x, y), alike=True, grows=grows)


binary("add", lambda m, x, y: x + y)
binary("subtract", lambda m, x, y: x - 0.5 * y)
binary("multiply", lambda m, x, y: x * y)
binary("divide", lambda m, x, y: x / (y * m.conj(y) + 1.5))
binary("pow", lambda m, x, y: (x * x + 0.5) ** (0.5 * y), kinds="f")
binary("atan2", lambda m, x, y: m.atan2(x, y * y + 0.5), kinds="f")
binary("hypot", lambda m, x, y: m.hypot(x, y * y + 0.5), kinds="f")
binary("logaddexp", lambda m, x, y: m.logaddexp(x, y), kinds="f")


for _name in ("maximum", "minimum"):
    both(_name, two, lambda c, m, x, y, name=_name: getattr(m, name)(c.away(x, than=y), y),
         alike=True)  # fmt: skip


RANGES = (-1.0, None), (None, 0.5), (-1.0, 1.0), (0.0, 0.5)
both("clip", drawn(ends=lambda d, x: d.choose(RANGES)), lambda c, m, x, ends: m.clip(
    c.away(x, *[p for p in ends if p is not None]), *ends))  # fmt: skip
both("greater", one, lambda c, m, x: c.away(x, 0.25) > 0.25)


def _where(d):
    x, y = two(d, "fc")[0]
    result = np.broadcast_shapes(d.shape(x), d.shape(y))
    found = d.assignable(result, "b")
    if not found:
        fits = d.assignable(result, "f")
        found = [d.step("greater", d.choose(fits) if fits else d.step("total", d.real()))]
    return (d.choose(found), x, y), {}


both("where", _where, lambda c, m, b, x, y: m.where(b, x, y))
both("total", one, lambda c, m, x: m.sum(x), grows=True)


def _astype(d):
    x = d.pick("fcbi")
    if d.dtype(x).kind == "c":
        return (x,), {"dtype": d.choose(["complex64", "complex128"])}
    return (x,), {"dtype": d.choose(sorted({t for t in d.dtypes if t.startswith("float")}))}


def _to(c, x, dtype):
    """In the run in double precision all floating dtypes are the widest."""
    if x.dtype in (torch.float64, torch.complex128) and c.wide:
        return x + 0
    return x.to(torch.float64 if c.wide else TORCH[np.dtype(dtype)])


add("astype", _astype, lambda c, x, dtype: gg.astype(x, dtype), _to)

# Reductions


def reduction(name, kinds="f", guard=False, draw=None):
    def call(c, m, x, **static):
        if m is T and x.ndim == 0:  # some of its functions want an axis
            x, static = x[None], {**static, "axis": (0,), "keepdims": False}
        elif m is T:
            static["axis"] = dims(x, static["axis"])
        return getattr(torch if m is T and name in THEIRS else m, name)(
            c.spread(x) if guard else x, **static
        )

    both(name, draw or drawn(kinds, keepdims=keepdims, axis=Draft.axes), call, grows=True)


THEIRS = "std", "var"  # array_api_compat's do not take every correction
reduction("sum", "fc")
reduction("mean", "fc")
reduction("logsumexp")
reduction("max", guard=True)
reduction("min", guard=True)


def _spread_out(d):
    """An axis and a correction that leave degrees of freedom, and a deviation that is not 0."""
    x = d.real(ndim=1)
    if max(d.shape(x)) == 1:
        x = d.step("concat", x, d.step("affine", x), axis=0)
    long = [a for a, n in enumerate(d.shape(x)) if n > 1]
    axis = d.choose([*long, None, (d.choose(long),)])
    return (x,), {"axis": axis, "keepdims": d.flag(), "correction": d.choose([0, 1, 0.5])}


reduction("std", guard=True, draw=_spread_out)
reduction("var", guard=True, draw=_spread_out)


# PyTorch divides by the elements for derivatives of prod and cumprod, and loses digits near 0.


def _product(x, axis, keepdims):
    y = reduce(torch.mul, torch.unbind(x, axis))
    return y.unsqueeze(axis) if keepdims else y


add("prod", along("fc", keepdims=flag), lambda c, x, **static: gg.prod(x, **static),
    lambda c, x, **static: _product(x, **static), grows=True)  # fmt: skip


def _initial(d, x):
    return d.flag() and 2 * math.prod(d.shape(x)) <= LARGEST


cumulative = along("fc", include_initial=_initial)


def _their_products(c, x, axis, include_initial):
    y = torch.stack(list(accumulate(torch.unbind(x, axis), torch.mul)), axis)
    first = [torch.ones_like(y.narrow(axis, 0, 1))] if include_initial else []
    return torch.cat([*first, y], axis)


both("cumulative_sum", cumulative, lambda c, m, x, **static: m.cumulative_sum(x, **static),
     grows=True)  # fmt: skip
add("cumulative_prod", cumulative, lambda c, x, **static: gg.cumulative_prod(x, **static),
    _their_products, grows=True)  # fmt: skip


# Sorting


both("sort", along(descending=flag), lambda c, m, x, **static: m.sort(c.spread(x), **static),
     grows=True)  # fmt: skip
both("argsort", along(descending=flag), lambda c, m, x, **static: m.argsort(c.spread(x), **static))
for _name in ("argmax", "argmin"):
    both(_name, along(keepdims=flag),
         lambda c, m, x, name=_name, **static: getattr(m, name)(c.spread(x), **static))  # fmt: skip


def _sorted_by(d):
    x = d.any(ndim=1)
    axis = d.axis(x)
    same_shape = d.where(lambda i: d.shape(i) == d.shape(x) and d.dtype(i).kind == "f")
    key = d.choose(same_shape) if same_shape else d.step("real", x)
    return (x, d.step("argsort", key, axis=axis, descending=d.flag())), {"axis": axis}


both("take_along_axis", _sorted_by,
     lambda c, m, x, i, axis: m.take_along_axis(x, i, axis=axis))  # fmt: skip


# Indexing and assignment


def _getitem(d):
    x = d.any()
    key = d.key(x)
    if math.prod(np.empty(d.shape(x))[key].shape) > LARGEST:
        key = (slice(None, None, -1),) * d.ndim(x)
    return (x,), {"key": key}


def _setitem(d):
    x = d.writable()
    key = d.key(x)
    found = d.assignable(np.empty(d.shape(x))[key].shape, "fc" if d.dtype(x).kind == "c" else "f")
    if found and d.integer(0, 3):
        return (x, d.choose(found)), {"key": key}
    return (x,), {"key": key, "value": d.choose([0.0, 0.5, -1.0])}


def _ours_setitem(c, x, value, key):
    x[key] = value
    return x


add("getitem", _getitem, lambda c, x, key: x[key], lambda c, x, key: taken(x, key))
add("setitem", _setitem, _ours_setitem, lambda c, x, value, key: assigned(x, value, key),
    writes=True)  # fmt: skip


def _take(d):
    x = d.any(ndim=1)
    axis = d.axis(x)
    n = d.shape(x)[axis]
    most = min(6, LARGEST * n // math.prod(d.shape(x)))
    indices = [d.integer(0, n - 1) for _ in range(d.integer(1, most))]
    return (x,), {"indices": np.array(indices), "axis": axis}


both("take", _take,
     lambda c, m, x, indices, axis: m.take(x, m.asarray(indices), axis=axis))  # fmt: skip

# Changes in place


def _in_place(d):
    x = d.writable()
    return (x, d.choose(d.assignable(d.shape(x), "fc" if d.dtype(x).kind == "c" else "f"))), {}


def in_place(name, f, theirs):
    add(name, _in_place, f, lambda c, x, y: theirs(x, y).to(x.dtype), grows=True, writes=True)


in_place("iadd", lambda c, x, y: operator.iadd(x, y), lambda x, y: x + y)
in_place("isub", lambda c, x, y: operator.isub(x, y), lambda x, y: x - y)
in_place("imul", lambda c, x, y: operator.imul(x, y), lambda x, y: x * y)
in_place("itruediv", lambda c, x, y: operator.itruediv(x, y * gg.conj(y) + 1.5),
         lambda x, y: x / (y * y.conj() + 1.5))  # fmt: skip
add("view", one_any, lambda c, x: x[...], lambda c, x: x + 0)

# Products


def _matrix_product(d):
    x = d.any(ndim=1)

    def fits(i):
        if d.dtype(i).kind not in "fc" or not d.ndim(i):
            return False
        try:
            return np.matmul(np.zeros(d.shape(x)), np.zeros(d.shape(i))).size <= LARGEST
        except ValueError:
            return False

    found = d.where(fits)
    if found:
        return (x, d.choose(found)), {}
    y = d.step("matrix_transpose", x)
    return ((x, y) if d.shape(x)[-2] < d.shape(x)[-1] else (y, x)), {}


unary("matrix_transpose", lambda m, x: x.mT, drawn("fc", 2))
both("matmul", _matrix_product, lambda c, m, x, y: x @ y, alike=True, grows=True)


def _einsum(d):
    operands = [d.any(most=3) for _ in range(d.integer(1, 3))]
    lengths, words = {}, []
    for x in operands:
        word = ""
        for n in d.shape(x):
            known = [a for a in lengths if lengths[a] == n and (a not in word or len(operands) < 3)]
            new = "abcdefghi"[len(lengths)]
            room = math.prod(lengths.values()) * n <= 8 * LARGEST
            label = d.choose([*known, new]) if room else d.choose(known or [new])
            lengths[label] = n
            word += label
        words.append(word)
    labels = d.several(sorted(lengths))
    while math.prod(lengths[a] for a in labels) > LARGEST:
        labels.pop()
    return tuple(operands), {"subscripts": f"{','.join(words)}->{''.join(labels)}"}


both("einsum", _einsum, lambda c, m, *xs, subscripts: m.einsum(subscripts, *xs),
     alike=True, grows=True)  # fmt: skip


# Linear algebra. Matrices are made regular, or given distinct eigenvalues or singular values.


def square(x):
    n = min(x.shape[-2:])
    return x[..., :n, :n]


def bent(m, x):
    """Elements of at most 1."""
    return x / m.sqrt(1 + m.real(x) ** 2 + m.imag(x) ** 2) if _is_complex(m, x) else m.tanh(x)


def _is_complex(m, x):
    return m.isdtype(x.dtype, "complex floating")


def eye(m, x, scale=1.0, steps=0.0):
    """A diagonal matrix with ``scale``, ``scale + steps``, ... of the shape of a matrix of x."""
    values = np.zeros(tuple(x.shape[-2:]))
    for i in range(min(values.shape)):
        values[i, i] = scale + steps * i
    return m.asarray(values, dtype=x.dtype)


def regular(m, x):
    return bent(m, square(x)) / 2 + eye(m, square(x), 3.0)


def definite(m, x):
    b = bent(m, square(x))
    return b @ m.conj(b).mT + eye(m, b)


def hermitian(m, x):
    b = bent(m, square(x)) / 4
    return b + m.conj(b).mT + eye(m, b, 0.0, 2.0)


def tall(m, x):
    x = x if x.shape[-2] >= x.shape[-1] else x.mT
    return bent(m, x) / 2 + eye(m, x, 3.0)


def uneven(m, x):
    return bent(m, x) / 4 + eye(m, x, 1.0, 1.5)


def linear_algebra(name, f, kinds="fc", grows=False):
    unary(name, f, drawn(kinds, 2, exact=True), grows)


def _function_of_matrix(m, x):
    w, v = m.linalg.eigh(hermitian(m, x))
    return (v * m.exp(0.3 * w)[..., None, :]) @ m.conj(v).mT


def _low_rank(m, x):
    u, s, vh = m.linalg.svd(uneven(m, x), full_matrices=False)
    return (u * m.sin(s)[..., None, :]) @ vh


def _qr(m, x, of):
    q, r = m.linalg.qr(tall(m, x))
    signs = m.sign(m.real(m.linalg.diagonal(r)))
    return q * signs[..., None, :] if of == "q" else r * signs[..., :, None]


linear_algebra("inv", lambda m, x: m.linalg.inv(regular(m, x)))
linear_algebra("det", lambda m, x: m.linalg.det(regular(m, x)), grows=True)
linear_algebra("slogdet", lambda m, x: m.linalg.slogdet(regular(m, x))[1])
linear_algebra("cholesky", lambda m, x: m.linalg.cholesky(definite(m, x)))
linear_algebra("eigvalsh", lambda m, x: m.linalg.eigvalsh(hermitian(m, x)))
linear_algebra("eigh_function", _function_of_matrix)
linear_algebra("svdvals", lambda m, x: m.linalg.svdvals(uneven(m, x)))
linear_algebra("svd_function", _low_rank)
linear_algebra("qr_q", partial(_qr, of="q"))
linear_algebra("qr_r", partial(_qr, of="r"))
linear_algebra("pinv", lambda m, x: m.linalg.pinv(uneven(m, x)))
linear_algebra("matrix_power", lambda m, x: m.linalg.matrix_power(regular(m, x) / 2, 3), grows=True)
linear_algebra("matrix_norm", lambda m, x: m.linalg.matrix_norm(uneven(m, x)), grows=True)
linear_algebra("trace", lambda m, x: m.linalg.trace(x), grows=True)


def _solve(d):
    a = d.any(ndim=2, exact=True)
    n = min(d.shape(a)[-2:])
    columns = d.where(lambda i: d.dtype(i).kind in "fc" and d.ndim(i) >= 2
                      and d.shape(i)[-2] == n and d.dtype(i) != "float16"
                      and broadcast_size((*d.shape(a)[:-2], n, 1), d.shape(i)))  # fmt: skip
    vectors = d.where(lambda i: d.dtype(i).kind in "fc" and d.shape(i) == (n,)
                      and d.dtype(i) != "float16")  # fmt: skip
    if not columns + vectors:
        return (a, d.step("getitem", a, key=(..., slice(n), slice(0, 1)))), {}
    return (a, d.choose(columns + vectors)), {}


both("solve", _solve, lambda c, m, a, b: m.linalg.solve(regular(m, a), b), alike=True)


def _norm_of(c, m, x, **static):
    x = x / (1 + x * m.conj(x)) + 1 if _is_complex(m, x) else x * x + 2
    return m.linalg.vector_norm(x, **static)


both("vector_norm",
     drawn("fc", keepdims=keepdims, axis=Draft.axes, ord=lambda d, x: d.choose([1, 2, 3])),
     _norm_of, grows=True)  # fmt: skip


unary("fft", lambda m, x: m.real(m.fft.fft(m.cos(x) + 0j)), drawn("fc", 1, exact=True),
      grows=True)  # fmt: skip

# Manipulation


def _reshape(d):
    x = d.pick("fcbi")
    shape = d.shape(x)
    options = [(-1,), shape[::-1], (1, *shape)]
    if shape:
        options += [(*shape, 1), (*shape[1:], -1)]
    if len(shape) > 1:
        options += [(-1, *shape[2:]), (*shape[:-2], -1)]
    return (x,), {"shape": d.choose(options)}


both("reshape", _reshape, lambda c, m, x, shape: x.reshape(shape))


both("permute_dims", drawn("fcbi", axes=lambda d, x: tuple(d.several(range(d.ndim(x)), d.ndim(x)))),
     lambda c, m, x, axes: m.permute_dims(x, axes))  # fmt: skip


both("expand_dims", drawn("fc", most=3, axis=lambda d, x: d.integer(-d.ndim(x) - 1, d.ndim(x))),
     lambda c, m, x, axis: m.expand_dims(x, axis=axis))  # fmt: skip


def _squeeze(d):
    found = d.where(lambda i: d.dtype(i).kind in "fc" and 1 in d.shape(i))
    x = d.choose(found) if found else d.step("expand_dims", d.any(), axis=0)
    return (x,), {"axis": d.choose([a for a, n in enumerate(d.shape(x)) if n == 1])}


both("squeeze", _squeeze, lambda c, m, x, axis: x.squeeze(axis))


def _broadcast(d):
    x = d.any(most=3)
    shape, size = list(d.shape(x)), math.prod(d.shape(x))
    for a, n in enumerate(shape):
        if n == 1 and 3 * size <= LARGEST and d.flag():
            shape[a], size = 3, 3 * size
    lead = [2] if 2 * size <= LARGEST and d.flag() else []
    return (x,), {"shape": (*lead, *shape)}


both("broadcast_to", _broadcast, lambda c, m, x, shape: m.broadcast_to(x, shape))


def _joined(d, ndim):
    x = d.any(ndim=ndim, most=3)
    most = LARGEST // math.prod(d.shape(x))
    alike = d.where(lambda i: d.dtype(i).kind in "fc" and d.shape(i) == d.shape(x))
    return [x, *[d.choose(alike) for _ in range(d.integer(0, min(2, most - 1)))]]


def _concat(d):
    args = _joined(d, 1)
    return tuple(args), {"axis": d.axis(args[0])}


def _stack(d):
    args = _joined(d, 0)
    return tuple(args), {"axis": d.integer(-d.ndim(args[0]) - 1, d.ndim(args[0]))}


both("concat", _concat, lambda c, m, *xs, axis: m.concat(xs, axis=axis), alike=True)
both("stack", _stack, lambda c, m, *xs, axis: m.stack(xs, axis=axis), alike=True)


def _unstack(d):
    args, static = along("fc")(d)
    n = d.shape(args[0])[static["axis"]]
    return args, {**static, "first": d.integer(0, n - 1), "second": d.integer(0, n - 1)}


def _unstacked(c, m, x, axis, first, second):
    parts = m.unstack(x, axis=axis)
    return parts[first] * parts[second]


both("unstack", _unstack, _unstacked, grows=True)


both("flip", drawn("fc", axis=Draft.axes), lambda c, m, x, axis: m.flip(x, axis=axis))
both("roll", along("fc", shift=lambda d, x: d.integer(-5, 5)),
     lambda c, m, x, shift, axis: m.roll(x, shift, axis=axis))  # fmt: skip


def _repeat(d):
    x = d.any(ndim=1)
    axis, is_large = d.axis(x), 2 * math.prod(d.shape(x)) > LARGEST
    if is_large or d.flag():
        return (x,), {"repeats": 1 if is_large else 2, "axis": axis}
    counts = [d.integer(0, 2) for _ in range(d.shape(x)[axis])]
    return (x,), {"repeats": np.array(counts if any(counts) else [1] * len(counts)), "axis": axis}


def _repeated(c, m, x, repeats, axis):
    repeats = repeats if type(repeats) is int or m is gg else m.asarray(repeats)
    return m.repeat(x, repeats, axis=axis)


both("repeat", _repeat, _repeated)


for _name in ("tril", "triu"):
    both(_name, drawn("fc", 2, k=lambda d, x: d.integer(-2, 2)),
         lambda c, m, x, k, name=_name: getattr(m, name)(x, k=k))  # fmt: skip

# Neural networks


def layers(m):
    return functional if m is gg else F


for _name in ("softmax", "log_softmax"):
    both(_name, along(), lambda c, m, x, axis, name=_name: getattr(m, name)(x, axis=axis),
         grows=True)  # fmt: skip


def _linear(d):
    x = d.real(ndim=1, most=3)
    n, lead = d.shape(x)[-1], math.prod(d.shape(x)[:-1])
    fits = d.where(lambda i: d.dtype(i).kind == "f" and d.ndim(i) == 2 and d.shape(i)[1] == n
                   and lead * d.shape(i)[0] <= LARGEST)  # fmt: skip
    w = d.choose(fits) if fits else d.step("getitem", x, key=(*[0] * (d.ndim(x) - 1), None))
    bias = d.where(lambda i: d.dtype(i).kind == "f" and d.shape(i) == d.shape(w)[:1])
    return (x, w, *([d.choose(bias)] if bias and d.flag() else [])), {}


both("linear", _linear, lambda c, m, *xs: layers(m).linear(*xs), alike=True, grows=True)


def _dense(d):
    args, _ = _linear(d)
    return args, {"activation": d.choose(["tanh", "sigmoid"])}


add("dense", _dense, lambda c, *xs, activation: gg.dense(*xs, activation=activation),
    lambda c, *xs, activation: getattr(torch, activation)(F.linear(*same(*xs))))  # fmt: skip


def _cross_entropy(d):
    x = d.real(ndim=1, most=2)
    *n, classes = d.shape(x)
    labels = [d.integer(0, classes - 1) for _ in range(math.prod(n))]
    return (x,), {"target": np.array(labels).reshape(n), "reduction": d.choose(REDUCTIONS)}


REDUCTIONS = ["mean", "sum", "none"]
both("cross_entropy", _cross_entropy,
     lambda c, m, x, target, reduction: layers(m).cross_entropy(
         x, m.asarray(target), reduction=reduction), grows=True)  # fmt: skip


def _parameters(d, shape):
    """A weight and a bias of a shape; none, the first or both."""
    found = d.where(lambda i: d.dtype(i).kind == "f" and d.shape(i) == shape)
    return [d.choose(found) for _ in range(d.integer(0, 2))] if found else []


def _layer_norm(d):
    x = d.real(ndim=1)
    k = d.integer(1, d.ndim(x))
    return (x, *_parameters(d, d.shape(x)[-k:])), {"ndim": k}


both("layer_norm", _layer_norm,
     lambda c, m, x, *parameters, ndim: layers(m).layer_norm(
         c.spread(x), x.shape[x.ndim - ndim :], *parameters), alike=True, grows=True)  # fmt: skip


# What programs are made of

DTYPES = [
    ["float64"], ["float64"], ["float32"], ["float16"], ["float32", "float64"],
    ["float16", "float32"], ["complex128", "float64"], ["complex64", "float32"],
]  # fmt: skip
SHAPES = [s for n in range(4) for s in product(range(1, 5), repeat=n) if math.prod(s) <= LARGEST]


def program(choices, most_steps=8):
    """A program of up to about this many steps; some bring others that they need."""
    seed, dtypes = choices.below(2**16), choices.choose(DTYPES)
    n = choices.integer(0, 2)
    inputs = [(choices.choose(SHAPES), choices.choose(dtypes)) for _ in range(n)]
    inputs.append((choices.choose(SHAPES), dtypes[-1]))  # a real one
    d = Draft(choices, seed, tuple(inputs))
    for _ in range(choices.integer(1, most_steps)):
        name = choices.choose(NAMES)
        args, static = OPS[name].draw(d)
        d.step(name, *args, **static)
    results = d.where(lambda i: i > n and d.dtype(i).kind in "fc") or [d.step("view", d.any())]
    outputs = tuple(dict.fromkeys([results[0], *choices.several(results, most=2)]))
    shared = tuple(choices.several(range(n + 1), most=n))
    start = choices.integer(0, len(d.steps) - 1)
    piece = start, choices.integer(start + 1, len(d.steps))
    dtypes, of_outputs = tuple(sorted(d.dtypes)), tuple(d.dtype(i).name for i in outputs)
    return Program(seed, d.inputs, tuple(d.steps), outputs, shared, piece, dtypes, of_outputs)


NAMES = list(OPS)
