"""Calls of NumPy's functions with Tensors, as NumPy's users write them.

The texts below are expressions, which semicolons or ends of lines separate. In them ``np`` is
NumPy, or `gpugrad.numpy`; ``x`` is a Tensor with the values `A`, or these themselves; and the names
below are constants. An expression belongs to the function that it names first.
"""

import re

import numpy as np

A = np.array([[0.5, 0.25, 0.75], [0.3, 0.6, 0.9]])
CONSTANTS = {
    "A": A, "B": np.array([0.4, 1.5, 0.2]), "INTEGERS": np.array([[3, 1, 2], [2, 0, 1]]),
    "SQUARE": np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 4.0]]),
    "NAN": np.array([[1.0, np.nan, 1.0], [1.0, 1.0, 1.0]]),
}  # fmt: skip

# The first release of NumPy that knows a call.
SINCE = {"np.pad(x, {-1: (1, 2)})": "2.4.0", "np.trim_zeros(x * 0)": "2.2.0"}

# Lists of Tensors are no arrays to NumPy itself, which takes them to be numbers.
ONLY_OURS = """
np.add(x[0, :], [x[0, 0], 2.0, 1.0]); np.append([[x[0, 0], 2.0]], x[:, :2], axis=0)
np.array([[1, x[0, 0]], [x[1, 1], 2.0]], ndmin=3); np.array(x); np.asarray([x[0, :], A[0, :]])
np.c_[x[0, :], x[1, :]]; np.c_[x, A]; np.exp([x[0, 0], 2.0]); np.full((2, 3), x[0, :])
np.mean([x[0, 0], 2.0]); np.r_[x[0, :], 2.0, x[1, :]]; np.r_[x, A]; np.r_[x[0, :], 0:3]
np.std([x[0, 0], 2.0]); np.linalg.norm([x[0, 0], 2.0]); np.sum(A, axis=0, initial=x[0, 0])
np.interp([0.0], [1.0, 2.0], [3.0, 4.0], left=x[0, 0])
"""

BOTH = """
np.all(x > 0.3, axis=0); np.any(x > 0.3, axis=0, keepdims=True); np.any(x, where=A > 0.5, axis=0)
np.amax(x, axis=1); np.apply_along_axis(lambda v: np.outer(v, v), 1, x); np.angle(x + 1j * x[0, :])
np.amin(x, 0, keepdims=True); np.apply_over_axes(np.sum, x[None, ...], [0, 2]); np.argmax(x, axis=1)
np.angle(-x, deg=True); np.apply_along_axis(lambda v: v * v[0], 0, x); np.argsort(x, axis=None)
np.all(x > 0.5, where=A > 0.5); np.apply_along_axis(np.sum, 1, x); np.array_split(x, 2, axis=1)
np.append(x, A); np.array_split(x[0, :], [1, 5]); np.array_split(x[0, :], [3, 1]); np.argsort(x)
np.argmin(x); np.atleast_1d(x[0, 0], x); np.argwhere(x[0, 0] < 0); np.astype(x, np.float32)
np.argwhere(x > 0.4); np.average(x, axis=1, weights=[1.0, 2.0, 3.0]); np.atleast_2d(x[0, :])
np.argwhere(x[0, 0]); np.average(x, axis=0, keepdims=True, returned=True); np.block([x[0, :], 2.0])
np.around(x); np.block([[x, A], [x[:1, :], x[1:, :] * 2]]); np.average(x, weights=A, returned=True)
np.atleast_3d(x); np.bincount(INTEGERS[0, :], x[0, :]); np.broadcast_arrays(x, x[0, :])[1]
np.atleast_3d(x[0, :]); np.clip(x, a_max=0.7, a_min=None); np.choose(INTEGERS % 2, [x, -x])
np.average(x); np.compress([True, False, True], x, axis=1); np.clip(x, None, x[1, :] - 0.11)
np.block(x); np.concatenate((x, A, x), axis=1); np.concatenate([x, x], axis=None); np.concat([x, x])
np.broadcast_to(x, (4, 2, 3)); np.convolve([1.0, 2.0, 0.5, 3.0], x[0, :], mode="same"); np.copy(x)
np.broadcast_to(x[0, :], 3); np.convolve(x[0, :], [1.0, 2.0], mode="valid"); np.concatenate([x, x])
np.clip(x, 0.28, 0.7); np.correlate(x[0, :], x[1, :2], mode="full"); np.correlate(x[0, :], x[1, :])
np.column_stack((x[:, 0], x)); np.correlate(x[0, :2], x[1, :], mode="valid"); np.corrcoef(x)
np.compress([0, 1, 1], x); np.correlate(x[0, :], x[1, :2], mode="same"); np.cov(x[0, :], x[1, :])
np.convolve(x[0, :], x[1, :]); np.correlate(x[0, :2], x[1, :], mode="same"); np.cov(x)
np.corrcoef(x[0, :], x[1, :]); np.cov(x, fweights=[1, 2, 3], aweights=[1.0, 2.0, 0.5])
np.correlate(x[0, :2], x[1, :], mode="full"); np.cross(x.T, A.T, axisa=0, axisb=0, axisc=0)
np.count_nonzero(x > 0.3, axis=1); np.cov(x, ddof=0, aweights=[1.0, 2.0, 0.5]); np.cumsum(x, 0)
np.cov(x, rowvar=False, bias=True); np.cumulative_prod(x, axis=1, include_initial=True)
np.cov(x, fweights=[1, 2, 3]); np.cumulative_sum(x, axis=0); np.delete(x, slice(0, 2), 1)
np.cross(x[0, :], x[1, :]); np.delete(x, 1, axis=1); np.cross(x, A, axis=1); np.diag(x[0, :], k=-1)
np.cumprod(x, axis=1); np.diagonal(x[None, ...] * A[0, 0], 1, 1, 2); np.delete(x, [0, -1])
np.cumprod(x); np.diff(x, n=0, append=x); np.diff(x, axis=0, prepend=x[:1, :]); np.diag(x[0, :], 2)
np.cumsum(x); np.diff(x, append=x[:, :1]); np.dot(x[0, :], x[1, :]); np.diff(x, 1, 1, 0.5)
np.diag(x); np.dot(x[None, ...], A.T[None, ...]); np.dsplit(x.reshape(1, 2, 3), 3); np.diff(x, n=2)
np.diagflat(x, 1); np.dstack((x[0, :], x[1, :])); np.ediff1d(x, to_begin=[0.5], to_end=x[0, :])
np.diagonal(x); np.einsum("ij->j", x, optimize=True); np.einsum(x, [0, 1], A, [2, 1], [0, 2])
np.diff(x); np.einsum(x, [0, 1], A, [0, 1]); np.einsum("...j,j", x, x[0, :]); np.empty_like(x) * 0
np.dot(x, A.T); np.expand_dims(x, axis=(0, -1)); np.einsum("ij,kj->ik", x, A); np.dot(x, x[0, :])
np.dot(x[0, 0], x); np.expand_dims(x, [0, -1]); np.einsum(x, [0, 1], [1]); np.flatnonzero(x > 0.4)
np.dstack((x, A)); np.extract(A > 0.4, x); np.full_like(x, 2, dtype=np.float32); np.flip(x, axis=1)
np.ediff1d(x); np.geomspace(x[0, :], x[1, :], 4); np.full_like(x, 2.0, shape=(3,)); np.gradient(x)
np.fix(x * 3); np.gradient(x, [0.0, 1.0], [0.0, 0.3, 1.0]); np.gradient(x[0, :], edge_order=2)
np.flip(x); np.gradient(x[0, :], x[1, :], edge_order=2); np.gradient(x, 0.5, axis=1); np.fliplr(x)
np.flipud(x); np.hstack((x[0, :], x[1, 0])); np.hypot(x, [[3.0], [4.0]]); np.heaviside(x - 0.5, x)
np.full_like(x, 2.0); np.inner(x[0, :], x[1, :]); np.hsplit(x[0, :], [1]); np.inner(x[0, 0], x)
np.hsplit(x, 3); np.insert(x, [0, 2], x[:, :2], axis=1); np.insert(x, 1, x[0, :], axis=0); np.i0(x)
np.hstack([x, A]); np.interp([0.2, 0.55, 0.8, 2.0], np.sort(x[0, :]), x[1, :]); np.insert(x, 1, 2.0)
np.imag(x * 1j); np.interp(x, [0.4, 0.5, 0.8], [1.0, 3.0, 2.0], left=-1.0, right=7.0)
np.inner(x, A); np.interp(x, [0.1, 0.35, 0.21], x[0, :], period=0.4); np.intersect1d(x, A[0, :])
np.insert(x, 1, A[:, 0], axis=1); np.insert(x[0, :], [2, 0, 2], [5.0, 6.0, 7.0]); np.kron(x, A)
np.insert(x, slice(0, 2), A[:, :2], axis=1); np.linspace(0, x, num=3, axis=-1, retstep=True)
np.interp(x, [0.0, 0.4, 1.0], [1.0, 3.0, 2.0]); np.linspace(x[0, 0], 2.0, 5, endpoint=False)
np.interp(x[0, 0], [0.0, 1.0], x[1, :2]); np.logspace(x[0, :], 1.0, 3, base=2.0)
np.isclose(x, A[0, :]); np.max(x, axis=0, where=A > 0.4, initial=0.0); np.matrix_transpose(x)
np.isin(x, A[0, :]); np.matrix_transpose(x[None, ...]); np.mean(x, axis=0, where=A > 0.28)
np.kron(x[0, :], x); np.median(x, axis=0, keepdims=True); np.mean(x, axis=1, keepdims=True)
np.linspace(x[0, :], x[1, :], 4); np.meshgrid(x[0, :], x[1, :], indexing="ij")[0]; np.mean(a=x)
np.max(x, axis=(0, 1)); np.meshgrid(x[0, :], x[1, :2], sparse=True); np.meshgrid(x[0, :], x[1, :2])
np.max(x, initial=0.8); np.moveaxis(x[None, ...], [0, 1], [-1, 0]); np.min(x, axis=1, initial=0.4)
np.mean(x, dtype=np.float32); np.nan_to_num(x / (x - 0.5), posinf=3.0); np.nanmax(NAN * x, axis=0)
np.median(x); np.nanmedian(NAN * x, axis=0, keepdims=True); np.nancumsum(NAN * x, axis=1); np.min(x)
np.median(x, axis=(0, 1)); np.nanpercentile(NAN * x, A[0, :] * 50, axis=(0, 1), keepdims=True)
np.moveaxis(x, 0, -1); np.nanquantile(NAN * x, [[0.0, 0.3], [0.8, 1.0]], axis=1, keepdims=True)
np.nan_to_num(x, nan=1.0); np.nanquantile(NAN * x, 0.4, axis=1); np.nansum(NAN * x, where=A > 0.5)
np.nancumprod(NAN * x); np.nanvar(NAN * x, axis=1, ddof=1); np.nanquantile(NAN * x, x[0, :])
np.nanmean(NAN * x, axis=0); np.ones_like(x, dtype=np.int64); np.pad(x, 1, constant_values=2.0)
np.nanmin(NAN * x); np.pad(x, ((0, 1), (2, 0)), "wrap"); np.nanprod(NAN * x, axis=1)
np.nanstd(NAN * x, axis=1); np.pad(x, (2, 1), constant_values=((1.0, 2.0), (3.0, 4.0)))
np.nansum(NAN * x, axis=1); np.percentile(x, [20.0, 50.0], axis=1); np.partition(x[0, :2], 1)
np.nonzero(x > 0.4)[1]; np.piecewise(x, [x < 0.4, x > 0.7], [lambda v: v**2, 1.0, lambda v: -v])
np.ones_like(x); np.percentile(x[None, ...], 30, axis=(0, -1)); np.piecewise(x, [x < 0.4], [2.0])
np.outer(x, x[0, :]); np.permute_dims(x[None, ...], (2, 0, 1)); np.polyfit(x[0, :], x[1, :], 1)
np.pad(x, {-1: (1, 2)}); np.polyfit(x[0, :], x.T, 1, w=[1.0, 2.0, 0.5]); np.polyadd(2.0, x[0, :])
np.pad(x, 1, "reflect"); np.polyint(x[0, :], 2, [1.0, 2.0]); np.polyadd(x[0, :], x[1, :2])
np.percentile(x, 30); np.polyval([1.0, 2.0, 3.0], x); np.prod(x, where=A > 0.4, initial=2.0)
np.polyder(x[0, :], 1); np.ptp(x, axis=1, keepdims=True); np.polymul(x[0, :], x[1, :2]); np.ptp(x)
np.polyder(x[0, :], 2); np.quantile(x, [0.3, 0.6], axis=1, method="hazen", keepdims=True)
np.polyint(x[0, :]); np.quantile(x, 0.4, axis=(0, 1), keepdims=True); np.polysub(x[0, :2], x[1, :])
np.polyval(x[0, :], x[1, :]); np.repeat(x, [1, 2, 0], axis=1); np.real_if_close(x + 0j); np.ravel(x)
np.prod(x, axis=0); np.reshape(x, (3, 2), order="F"); np.ravel(x, order="F"); np.reshape(x, (3, 2))
np.quantile(x, 0.3); np.roll(x, (1, 2), axis=(0, 1)); np.roll(x, [1, 2], axis=[0, 1]); np.roll(x, 1)
np.real(x); np.rollaxis(x[None, ...], 0, 3); np.rot90(x[None, ...], 1, axes=(1, 2)); np.repeat(x, 2)
np.reshape(x, -1); np.rollaxis(x[None, ...], 2); np.round(x * 100, -1); np.resize(x, (4, 2))
np.rot90(x); np.searchsorted(np.sort(x[0, :]), A[1, :], side="right"); np.setdiff1d(x, A[0, :])
np.rot90(x, 2); np.select([x < 0.4, x < 0.7], [x, x**2], 3.0); np.setxor1d(x[0, :], A[0, :2])
np.rot90(x, -1); np.sort(x, kind="stable"); np.squeeze(x[None, :1, :], axis=1); np.split(x, [1])[1]
np.round(x); np.squeeze(x.reshape(1, 2, 3, 1)); np.stack([x, x], axis=1, dtype=np.float32)
np.round(x, 1); np.split(x, 3, axis=1)[1]; np.stack((x, A), axis=-1); np.std(x, dtype=np.float32)
np.sinc(x); np.std(x, ddof=1, where=A > 0.28); np.std(x, axis=0, ddof=1); np.sum(x, 1, np.float32)
np.sort(x, axis=0); np.sum(x, axis=0, initial=2.0); np.swapaxes(x[None, ...], 0, 2); np.std(x)
np.sort(x, axis=None); np.take(x, INTEGERS - 1, axis=-1); np.sum(x, axis=-1, out=None); np.sum(x)
np.stack([x, x]); np.take_along_axis(x, INTEGERS[:1, :] % 2, axis=0); np.sum(x, where=A > 0.5)
np.std(x, correction=1); np.take_along_axis(x, INTEGERS[0, :], axis=None); np.take(x, 0, axis=1)
np.swapaxes(x, 1, 1); np.trace(x[None, ...] * A[0, 0], axis1=1, axis2=2); np.tile(x, reps=(2, 1, 2))
np.take(x, INTEGERS); np.transpose(x[None, ...], (2, 0, 1)); np.tensordot(x, A, axes=(1, 1))
np.tensordot(x, A); np.trapezoid(x, [0.0, 0.3, 1.0]); np.trapezoid(x, dx=0.5, axis=0); np.tile(x, 2)
np.trace(x); np.trim_zeros(np.pad(x[0, :], 2), "b"); np.trim_zeros(np.pad(x[0, :], 2))
np.transpose(x); np.unique(x, return_index=True, return_counts=True); np.trapezoid(x[0, :], x[1, :])
np.trapezoid(x); np.unique(np.append(x, [np.nan, np.nan]))[:6]; np.union1d(x[0, :], A[1, :])
np.tril(x, -1); np.unique_inverse(x).values; np.unwrap(x * 20, axis=0, discont=4.0); np.triu(x, k=1)
np.tril(x[0, :]); np.unwrap(x * 20, period=3.0); np.vander(x[0, :], 2, increasing=True); np.var(x)
np.unique_all(x).values; np.unique_counts(x).counts; np.var(x, dtype=np.float32); np.vander(x[0, :])
np.unique_values(x); np.var(x, axis=0, where=A > 0.28, keepdims=True); np.unstack(x, axis=1)[2]
np.unwrap(x * 20); np.var(x, keepdims=True); np.vstack([x, A[0, :]]); np.vstack((x[0, :], x))
np.vander(x[0, :], 0); np.where(x > 0.4, x, [1.0, 2.0, 3.0]); np.where(INTEGERS, x, 0.0)
np.var(x, 1, ddof=1); np.linalg.cholesky(x.T @ x + SQUARE); np.zeros_like(x, shape=(2, 2))
np.vdot(x, A); np.linalg.cholesky(x.T @ x + SQUARE, upper=True); np.linalg.cond(x @ A.T, -2)
np.vsplit(x, 2); np.linalg.cross(x, A[0, :]); np.linalg.diagonal(x, offset=1); np.where(x > 0.5)[0]
np.where(A > 0.5, A, x); np.linalg.eigh(x.T @ x + SQUARE, "U")[0]; np.linalg.eigvals(x @ A.T + 0j)
np.where(True, x, 0.0); np.linalg.eigvalsh(x.T @ x + SQUARE, UPLO="U"); np.linalg.cond(x @ A.T, 1)
np.zeros_like(x); np.linalg.lstsq(x.T, A[0, :], rcond=1e-12)[1]; np.linalg.eigh(x.T @ x + SQUARE)[0]
np.linalg.cond(x); np.linalg.eig(x @ A.T + 0j).eigenvalues; np.linalg.eigvalsh(x.T @ x + SQUARE)
np.linalg.det(x @ A.T); np.linalg.matrix_power(x @ A.T, 3); np.linalg.matrix_rank(x, tol=0.4)
np.linalg.inv(x @ A.T); np.linalg.multi_dot([x[0, :], A.T, x, A[1, :]]); np.linalg.matmul(x, A.T)
np.linalg.lstsq(x.T, A.T)[0]; np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(1, 0))
np.linalg.matrix_norm(x, ord=1); np.lib.stride_tricks.sliding_window_view(x, 2, axis=-1)
np.linalg.matrix_rank(x); np.lib.stride_tricks.sliding_window_view(x, (1, 2)); np.linalg.norm(x, 1)
np.linalg.matrix_transpose(x); np.linalg.norm(x[:, None, :], np.inf, axis=(2, 0), keepdims=True)
np.linalg.multi_dot([x, A.T, x]); np.linalg.norm(x, axis=1, keepdims=True); np.linalg.norm(x, "nuc")
np.linalg.norm(x); np.linalg.outer(x[0, :], A[1, :]); np.linalg.slogdet(x @ A.T).logabsdet
np.linalg.norm(x[0, :], np.inf); np.linalg.norm(x, axis=(0, 1)); np.linalg.pinv(x, rcond=1e-08)
np.linalg.norm(x, 3, axis=-1); np.linalg.svd(x, full_matrices=False).S; np.linalg.solve(SQUARE, x.T)
np.linalg.pinv(x); np.linalg.svd(x, compute_uv=False); np.linalg.tensorinv(x @ A.T, ind=1)
np.linalg.qr(x.T)[1]; np.linalg.tensorsolve(x @ A.T, A[:, 0]); np.linalg.tensordot(x, A, axes=2)
np.linalg.qr(x, mode="r"); np.linalg.vector_norm(x, axis=0, ord=1); np.fft.fft(x, 4, norm="ortho")
np.linalg.slogdet(x @ A.T)[0]; np.linalg.trace(x, offset=1); np.linalg.solve(x @ A.T, A)
np.linalg.svd(x)[1]; np.fft.fft2(x, s=(3, 2), norm="forward"); np.fft.fftshift(x, axes=[0])
np.linalg.svdvals(x); np.fft.fftn(x, axes=(0,)); np.fft.fft(x, norm=None); np.linalg.vecdot(x, A)
np.fft.fft(x); np.fft.ifftshift(x, axes=1); np.fft.ifft(x, axis=0); np.fft.irfft2(x, s=(2, 4))
np.fft.fft2(x); np.fft.irfft(x, n=3); np.fft.fftshift(x); np.fft.rfft2(x, s=(2, 4)); np.fft.ifft2(x)
np.fft.hfft(x); np.fft.rfftn(x, s=(2, 2), axes=(0, 1)); np.matvec(x, A[0, :]); np.vecdot(x, A[0, :])
np.fft.ifftn(x); np.vecmat(x[0, :], A.T); np.add.reduce(x, dtype=np.float32); np.ldexp(x, INTEGERS)
np.fft.ihfft(x); np.add.accumulate(x, axis=1); np.multiply.accumulate(x, axis=1); np.matmul(x, A.T)
np.fft.irfft2(x); np.empty_like(prototype=x) * 0; np.geomspace(x[0, :] * 1j, x[1, :], 4, axis=-1)
np.fft.irfftn(x); np.geomspace(-x, -2.0, 3, endpoint=False); np.extract([True, False], x)
np.fft.rfft(x); np.linspace(-2.1 * x, 2.0, 4, dtype=np.int64); np.polyint(x[0, :], 2, k=x[1, 0])
np.matmul(A, x.T); np.searchsorted(x[0, :], 0.4, sorter=[1, 0, 2]); np.rollaxis(x[None, ...], 0, -1)
np.add.accumulate(x); np.geomspace(x, 1000, 4, dtype=np.int64); np.subtract.outer(A[0, :], x)
np.multiply.accumulate(x); np.multiply.outer(x, x); np.add.outer(x, 2.0); np.nonzero(a=x)
"""

# What ufuncs are called with: an operand that depends on x, and a second one if they take two.
UFUNCS = {
    ("x", "B", "0.5"): """
        absolute add arccos arcsin arcsinh arctan arctan2 arctanh cbrt ceil conjugate copysign cos
        cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs float_power floor floor_divide
        fmax fmin fmod greater greater_equal heaviside hypot isfinite isinf isnan less less_equal
        log log10 log1p log2 logaddexp logaddexp2 maximum minimum modf multiply negative nextafter
        not_equal positive power rad2deg radians reciprocal remainder rint sign signbit sin sinh
        sqrt square subtract tan tanh trunc
    """,
    ("x + 1",): "arccosh",
    ("x > 0.5", "B > 0.5", "True"): "logical_and logical_not logical_or logical_xor",
    ("(x * 10).astype('int64')", "INTEGERS[0, :]", "2"): """
        bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    """,
}
for (_x, *_others), _names in UFUNCS.items():
    for _name in _names.split():
        _ways = [_x]
        if getattr(np, _name).nin == 2:
            _ways = [f"{_x}, {_other}" for _other in _others] + [f"{_others[0]}, {_x}"]
        BOTH += "".join(f"np.{_name}({_given})\n" for _given in _ways)
for _name in "add multiply maximum minimum logaddexp logical_and logical_or".split():
    _x = "x > 0.5" if _name.startswith("logical") else "x"
    for _given in "(x); (x, axis=1); (x, None); (x, (0, 1), None, None, True)".split("; "):
        BOTH += f"np.{_name}.reduce{_given.replace('x', _x, 1)}\n"
    BOTH += f"np.{_name}.reduce({_x}, axis=-1, keepdims=True)\n"


def function_of(line):
    """Return the name of the function that a line is about, such as "linalg.norm"."""
    return re.match(r"np\.((?:linalg\.|fft\.|lib\.stride_tricks\.)?\w+)", line)[1]


def lines(text):
    """Return the expressions of a text."""
    return [line.strip() for line in text.replace("\n", ";").split(";") if line.strip()]


def evaluate(line, namespace, x, **constants):
    """Return the results of a line as a flat list."""
    return leaves(eval(line, {**CONSTANTS, **constants, "np": namespace, "x": x}))


def leaves(result):
    if isinstance(result, (tuple, list)):
        return [leaf for element in result for leaf in leaves(element)]
    return [result]
