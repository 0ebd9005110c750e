"""Fourier transforms beyond the table of ops: frequencies, errors, and truncated inputs."""

import numpy as np
import pytest

import gpugrad as gg
from gpugrad.testing import assert_close


@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name, n):
    expected = getattr(np.fft, name)(n, 0.3)
    for dtype in (None, gg.float32, gg.float64, gg.float16):
        f = getattr(gg.fft, name)(n, d=0.3, dtype=dtype)
        assert f.dtype == (dtype or gg.float32)
        assert_close(f, expected, rtol={gg.float64: 1e-14, gg.float16: 1e-3}.get(f.dtype, 1e-6))
    with pytest.raises(ValueError, match=f"^{name}: .*int64"):
        getattr(gg.fft, name)(n, dtype=gg.int64)
    with pytest.raises(ValueError, match=f"^{name}: n must be .* not 0"):
        getattr(gg.fft, name)(0)


def test_an_axis_named_twice_is_an_error():
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        with pytest.raises(ValueError, match=rf"^fft.{name}: .*\(0, -2\)"):
            getattr(gg.fft, name)(gg.ones((2, 3)), axes=(0, -2))


def test_lengths_without_axes_apply_to_the_last_axes():
    x = gg.tensor(np.random.default_rng(0).standard_normal((2, 3, 4)))
    for name in ("fftn", "rfftn"):
        transform = getattr(gg.fft, name)
        assert_close(transform(x, s=(2, 5)), transform(x, s=(2, 5), axes=(1, 2)))


def test_real_transforms_reject_complex_numbers():
    for name, other in ("rfft", "fft"), ("rfftn", "fftn"), ("ihfft", "ifft"):
        with pytest.raises(TypeError, match=rf"^fft\.{name}: the input must be real; use {other}"):
            getattr(gg.fft, name)(gg.ones(4, dtype=gg.complex64))


def test_float16_of_more_elements_than_its_largest_number():
    """NumPy divides float16 by the number of elements in float16, where it is an infinity."""
    x = np.ones(70_000, "float16")
    x[0] += 7
    out = gg.fft.ifft(gg.asarray(x))
    assert out.dtype == gg.complex64
    assert_close(out, np.fft.ifft(x.astype("float64")), atol=1e-6)
