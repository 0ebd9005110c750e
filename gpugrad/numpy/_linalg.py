"""Products of matrices and tensors, and the functions of ``numpy.linalg`` and ``numpy.fft``."""

import math

from .._arguments import is_complex, require
from ..backends.numpy import library as numpy
from ._table import enter, enter_functions, of_numpy
from ._tensors import axes_of, constant, flat, floating, gg, tensors

linalg = gg.linalg


def _of_matrices(own):
    return lambda a: own(floating(a))


for _name in "det eig eigvals inv slogdet svdvals".split():
    enter({f"linalg.{_name}": _of_matrices(getattr(linalg, _name))})
enter({
    "linalg.cholesky": lambda a, /, *, upper=False: linalg.cholesky(floating(a), upper=upper),
    "linalg.cross": lambda x1, x2, /, *, axis=-1: linalg.cross(*tensors(x1, x2), axis=axis),
    "linalg.eigh": lambda a, UPLO="L": linalg.eigh(_read_lower(a, UPLO)),
    "linalg.eigvalsh": lambda a, UPLO="L": linalg.eigvalsh(_read_lower(a, UPLO)),
    "linalg.matmul": lambda x1, x2, /: gg.matmul(*tensors(x1, x2)),
    "linalg.matrix_power": lambda a, n: linalg.matrix_power(floating(a) if n < 0 else a, n),
    "linalg.outer": lambda x1, x2, /: linalg.outer(*tensors(x1, x2)),
    "linalg.solve": lambda a, b: linalg.solve(*map(floating, tensors(a, b))),
    "linalg.vecdot": lambda x1, x2, /, *, axis=-1: gg.vecdot(*tensors(x1, x2), axis=axis),
    "outer": lambda a, b: linalg.outer(*map(flat, tensors(a, b))),
    "vdot": lambda a, b: gg.vecdot(*map(flat, tensors(a, b))),
    "fft.fftshift": lambda x, axes=None: gg.fft.fftshift(x, axes=axes_of(axes)),
    "fft.ifftshift": lambda x, axes=None: gg.fft.ifftshift(x, axes=axes_of(axes)),
})  # fmt: skip


def dot(a, b):
    a, b = tensors(a, b)
    ndim = b.ndim
    if not (ndim and a.ndim):
        return a * b
    return gg.matmul(a, b) if ndim <= 2 else gg.tensordot(a, b, axes=((-1,), (ndim - 2,)))


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
    subscripts = ",".join(map(_letters, terms)) + ("" if out is None else "->" + _letters(out))
    return gg.einsum(subscripts, *tensors(*arrays))


def _letters(axes):
    """The term of an operand whose axes have numbers: A stands for 0, B for 1, and so on."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    return "".join(["..." if axis is Ellipsis else letters[axis] for axis in axes])


def kron(a, b):
    a, b = tensors(a, b)
    shape1, shape2 = ((1,) * (max(a.ndim, b.ndim) - x.ndim) + x.shape for x in (a, b))
    a = gg.reshape(a, tuple([n for length in shape1 for n in (length, 1)]))
    b = gg.reshape(b, tuple([n for length in shape2 for n in (1, length)]))
    return gg.reshape(a * b, tuple([n * m for n, m in zip(shape1, shape2, strict=True)]))


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = tensors(a, b)
    a, b = gg.moveaxis(a, axisa, -1), gg.moveaxis(b, axisb, -1)
    return gg.moveaxis(linalg.cross(a, b), -1, axisc)


@of_numpy("linalg.vector_norm")
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    return linalg.vector_norm(floating(x), axis=axis, keepdims=keepdims, ord=ord)


@of_numpy("linalg.matrix_norm")
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return linalg.matrix_norm(floating(x), keepdims=keepdims, ord=ord)


@of_numpy("linalg.norm")
def norm(x, ord=None, axis=None, keepdims=False):
    x = floating(x)
    axis = axes_of(axis)
    if ord is None or isinstance(axis, int) or (axis is None and x.ndim == 1):
        return linalg.vector_norm(x, ord=2 if ord is None else ord, axis=axis, keepdims=keepdims)
    axes = (0, 1) if axis is None else axis
    if len(axes) == 2 and (axis is not None or x.ndim == 2):
        found = linalg.matrix_norm(gg.moveaxis(x, axes, (-2, -1)), ord=ord, keepdims=keepdims)
        return gg.moveaxis(found, (-2, -1), axes) if keepdims else found
    raise ValueError(f"norm: ord {ord!r} is defined for vectors and matrices; give one axis or two")


@of_numpy("linalg.cond")
def cond(x, p=None):
    x = floating(x)
    if p in (None, 2, -2):
        values = linalg.svdvals(x)
        ratio = values[..., -1] / values[..., 0]
        return ratio if p == -2 else 1 / ratio
    # First, since its error says what is wrong with the shape.
    singular = linalg.slogdet(x).sign == 0
    regular = gg.where(singular[..., None, None], constant(numpy.eye(x.shape[-1]), x, x.dtype), x)
    norms = linalg.matrix_norm(x, ord=p) * linalg.matrix_norm(linalg.inv(regular), ord=p)
    return gg.where(singular, math.inf, norms)


def _read_lower(a, UPLO):
    """Hermitian matrices given by the triangle ``UPLO``, for ops that read the lower triangle."""
    a, side = floating(a), UPLO.upper()
    if side not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    if side == "U":
        a = gg.matrix_transpose(gg.conj(a) if is_complex(a) else a)
    return a


@of_numpy("linalg.qr")
def qr(a, mode="reduced"):
    a = floating(a)
    return linalg.qr(a).R if mode == "r" else linalg.qr(a, mode=mode)


@of_numpy("linalg.svd")
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    a = floating(a)
    return linalg.svd(a, full_matrices=full_matrices) if compute_uv else linalg.svdvals(a)


@of_numpy("linalg.pinv")
def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    return linalg.pinv(floating(a), rtol=rcond if rtol is None else rtol)


@of_numpy("linalg.matrix_rank")
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    if A.ndim < 2:
        return gg.astype(gg.any(A != 0), gg.int64)
    if tol is None:
        return linalg.matrix_rank(floating(A), rtol=rtol)
    return gg.count_nonzero(linalg.svdvals(floating(A)) > tol, axis=-1)


@of_numpy("linalg.multi_dot", of_sequence=True)
def multi_dot(arrays):
    arrays = tensors(*arrays)
    terms = [_letters((i, i + 1)) for i in range(len(arrays))]
    if arrays[0].ndim == 1:
        terms[0] = terms[0][1:]
    if arrays[-1].ndim == 1:
        terms[-1] = terms[-1][:1]
    return gg.einsum(",".join(terms), *arrays)


@of_numpy("linalg.tensorsolve")
def tensorsolve(a, b, axes=None):
    a, b = map(floating, tensors(a, b))
    if axes is not None:
        last = [axis % a.ndim for axis in axes]
        order = [axis for axis in range(a.ndim) if axis not in last] + last
        a = gg.permute_dims(a, tuple(order))
    shape = a.shape[b.ndim :]
    flat = gg.reshape(a, (-1, math.prod(shape)))
    return gg.reshape(linalg.solve(flat, gg.reshape(b, (-1,))), shape)


@of_numpy("linalg.tensorinv")
def tensorinv(a, ind=2):
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    front, back = a.shape[:ind], a.shape[ind:]
    flat = gg.reshape(floating(a), (math.prod(front), -1))
    return gg.reshape(linalg.inv(flat), (*back, *front))


@of_numpy("linalg.lstsq")
def lstsq(a, b, rcond=None):
    a, b = map(floating, tensors(a, b))
    require(a.ndim == 2 >= b.ndim, "lstsq: takes (m, n) and (m,) or (m, k)", (a.shape, b.shape))
    m, n = a.shape
    values = linalg.svdvals(a)
    rtol = gg.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
    rank = gg.count_nonzero(values > rtol * values[0])
    x = linalg.pinv(a, rtol=rtol) @ b
    errors = a @ x - b
    squares = gg.real(errors * gg.conj(errors)) if is_complex(errors) else errors**2
    residuals = gg.sum(squares, axis=0, keepdims=b.ndim == 1)
    if m <= n or int(rank) < n:
        residuals = residuals[:0]
    return x, residuals, rank, values


# numpy.fft


def _of_one_axis(own):
    return lambda a, n=None, axis=-1, norm=None: own(
        floating(a), n=n, axis=axis, norm=norm or "backward"
    )


def _of_axes(name, own, default):
    @of_numpy(f"fft.{name}")
    def transform(a, s=None, axes=default, norm=None):
        axes = None if axes is None else tuple(axes)
        if s is not None:
            s = tuple(s)
            axes = tuple(range(-len(s), 0)) if axes is None else axes
            s = tuple([a.shape[axis] if n == -1 else n for n, axis in zip(s, axes, strict=True)])
        return own(floating(a), s=s, axes=axes, norm=norm or "backward")

    return transform


for _name in "fft ifft rfft irfft hfft ihfft".split():
    enter({f"fft.{_name}": _of_one_axis(getattr(gg.fft, _name))})
for _name in "fftn ifftn rfftn irfftn".split():
    _of_axes(_name, getattr(gg.fft, _name), None)
    _of_axes(_name[:-1] + "2", getattr(gg.fft, _name), (-2, -1))


enter_functions(globals())
