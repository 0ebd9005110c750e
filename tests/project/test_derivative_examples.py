"""The example programs about derivatives, compared to certified values, closed forms and SciPy.

`test_compiled_examples.py` has those in the style of NumPy, which run in a short form.
"""

import ctypes
import re
import shutil
import subprocess
from functools import partial

import fixed_point
import least_squares
import numpy as np
import ode_fit
import pinn
import pytest
import raw_kernel
from numpy.testing import assert_allclose
from scipy import integrate, optimize
from test_examples import numbers, succeed

import gpugrad as gg
from gpugrad.testing import gradcheck

pytestmark = pytest.mark.slow
NUMBER = r"[-+.\de]+"


def run_program(program, *options, cwd):
    """Run a program and check that it draws a picture; return its output."""
    picture = "picture.png"
    return succeed(program, *options, "--plot", picture, cwd=cwd, picture=picture)


def number_after(words, text):
    (found,) = numbers(rf"{words}\s*#", text)
    return found


@pytest.mark.parametrize("start", least_squares.STARTS)
def test_least_squares(start, tmp_path):
    text = run_program("least_squares", "--start", start, cwd=tmp_path)
    for method in least_squares.METHODS:
        assert number_after(rf"\n{method} +\d+", text) < 1e-10  # 11 digits are certified
    for jacobian in "gpugrad's Jacobian", "differences":
        assert number_after(rf"SciPy, {jacobian} +\d+", text) < 1e-6
    found = np.array(re.findall(rf"b\d = ({NUMBER}) ± ({NUMBER})", text), dtype=float)
    assert_allclose(found[:, 0], least_squares.CERTIFIED, rtol=1e-9)
    assert_allclose(found[:, 1], least_squares.CERTIFIED_ERRORS, rtol=1e-9)


def test_ode_fit(tmp_path):
    """It finds what SciPy's solver finds, with its gradients, and checkpoints keep less."""
    counts = np.array([ode_fit.HARES.split(), ode_fit.LYNXES.split()], dtype=float).T

    def residuals(logs):
        a, c, b, d, *start = np.exp(logs)
        solution = integrate.solve_ivp(
            lambda t, z: [z[0] * (a - b * z[1]), z[1] * (-c + d * z[0])],
            (0, 20), start, t_eval=range(21), rtol=1e-8, atol=1e-8,
        )  # fmt: skip
        return (np.log(solution.y.T) - np.log(counts)).ravel()

    text = run_program("ode_fit", cwd=tmp_path)
    done = optimize.least_squares(residuals, np.log(ode_fit.START).ravel())
    variance = 2 * done.cost / (counts.size - 6)
    spread = np.sqrt(np.diag(np.linalg.inv(done.jac.T @ done.jac)) * variance)
    assert abs(number_after(", loss", text) / done.cost - 1) < 1e-5
    found = np.array(re.findall(rf" ({NUMBER}) ± ({NUMBER})", text), dtype=float)
    assert_allclose(found[:, 0], np.exp(done.x), rtol=1e-3)
    # SciPy's errors leave out the curvature of the residuals.
    assert_allclose(found[:, 1], np.exp(done.x) * spread, rtol=0.15)
    for way in "through the solver", "with checkpoints", "by the adjoint":
        assert number_after(way, text) < 1e-6
    kept, less = (numbers(f"{way} .* # MB", text)[0] for way in ("the solver", "checkpoints"))
    assert less < kept / 4


class TestPINN:
    @pytest.mark.parametrize("options, words, bound", [
        ("--steps 60 --points 512 --hidden 12 12", "relative error", 5e-3),
        ("--method l-bfgs --steps 40 --points 256 --hidden 8 8", "mean squared residual", 0.5),
    ])  # fmt: skip
    def test_program(self, options, words, bound, tmp_path):
        assert number_after(words, run_program("pinn", *options.split(), cwd=tmp_path)) < bound

    def test_residuals_and_their_jacobian(self):
        problem = pinn.Burgers(16, [5, 4])
        params = problem.params

        def at_a_point(t, x):
            u = partial(problem.solution, params)
            u_x, nu = gg.grad(u, 1), problem.viscosity
            return gg.grad(u)(t, x) + u(t, x) * u_x(t, x) - nu * gg.grad(u_x, 1)(t, x)

        r, rows = problem.rows(params)
        assert_allclose(r.numpy(), gg.vmap(at_a_point)(*problem.points).numpy(), rtol=1e-10)
        theta = pinn.flat(params)
        step = gg.asarray(1e-6 * np.random.default_rng(0).standard_normal(theta.size))
        sides = [pinn.like(params, place) for place in (theta + step, theta - step)]
        up, down = (problem.residual(side, *problem.points) for side in sides)
        assert_allclose((rows @ step).numpy(), ((up - down) / 2).numpy(), rtol=1e-6, atol=1e-12)


class TestFixedPoint:
    def kepler(self, theta):
        """Solve E = M + e sin E for E, given theta (M, e)."""

        def f(theta, z):
            m, e = theta
            return m + e * gg.sin(z)

        return fixed_point.fixed_point(f, theta, theta[0])

    def test_derivatives_of_keplers_equation(self):
        m, e = np.array([0.3, 1.1, 2.5]), np.array([0.1, 0.5, 0.8])
        theta = gg.asarray(m), gg.asarray(e)
        z = self.kepler(theta).numpy()
        assert_allclose(z - e * np.sin(z), m, rtol=1e-9)

        def by_m(f):
            return lambda theta: gg.grad(lambda theta: f(theta).sum())(theta)[0]

        s, c, slope = np.sin(z), np.cos(z), 1 / (1 - e * np.cos(z))
        first, second = by_m(self.kepler), by_m(by_m(self.kepler))
        by_e = gg.grad(lambda theta: self.kepler(theta).sum())(theta)[1]
        for found, expected, rtol in (
            (first(theta), slope, 1e-8),
            (by_e, s * slope, 1e-8),
            (second(theta), -e * s * slope**3, 1e-7),
            (by_m(second)(theta), slope**4 * (3 * e**2 * s**2 * slope - e * c), 1e-6),
        ):
            assert_allclose(found.numpy(), expected, rtol=rtol)

    def test_no_fixed_point(self):
        with pytest.raises(ArithmeticError, match="still"):
            fixed_point.accelerated(lambda z: z + 1, gg.zeros(2, dtype=gg.float64), limit=20)

    def test_program(self, tmp_path):
        text = run_program("fixed_point", "--steps", 1, cwd=tmp_path)
        rows = re.findall(rf"^{rf' +({NUMBER})' * 4}$", text, re.MULTILINE)
        at, values, slopes, curvatures = np.array(rows, dtype=float).T
        assert abs(slopes[-1]) < 1e-6 < curvatures[-1]
        assert values[-1] < values[0]
        assert abs(slopes[-2] / (at[-2] - at[-1]) / curvatures[-1] - 1) < 0.05
        assert number_after("\n1000 steps", text) < 1e-3  # close to the implicit gradient


class TestRawKernel:
    x = np.concatenate([np.linspace(-30, 30, 61), [-100.0, 0.1, 19.99, 20.01, 700.0]])

    def test_program(self, tmp_path):
        text = run_program("raw_kernel", "--repeats", 1, cwd=tmp_path)
        assert number_after("differ by", text) < 1e-14
        assert len(re.findall("ratio", text)) == 8

    @pytest.mark.parametrize("kind", raw_kernel.TYPES)
    def test_values(self, kind):
        x, expected = self.x.astype(kind), self.x * np.tanh(np.logaddexp(0, self.x))
        y = raw_kernel.mish(gg.asarray(x))
        assert str(y.dtype) == kind
        assert_allclose(y.numpy(), expected, rtol=8 * np.finfo(kind).eps, atol=1e-37)

    def test_third_derivatives(self):
        x = gg.tensor([-2.0, -0.3, 0.0, 1.4], dtype=gg.float64, requires_grad=True)
        gradcheck(lambda x: gg.hvp(lambda x: raw_kernel.mish(x).sum())(x, gg.ones_like(x)), x)

    @pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
    def test_kernels_compile(self, arch):
        nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
        try:
            nvrtc.getVersion()
        except RuntimeError as error:
            pytest.skip(f"no NVRTC: {error}")
        program = nvrtc.createProgram(raw_kernel.SOURCE, "mish.cu", (), ())
        for name in raw_kernel.NAMES:
            nvrtc.addNameExpression(program, name)
        nvrtc.compileProgram(program, (*raw_kernel.OPTIONS, f"--gpu-architecture={arch}"))
        assert len({nvrtc.getLoweredName(program, name) for name in raw_kernel.NAMES}) == 4

    @pytest.mark.parametrize("kind", raw_kernel.TYPES)
    def test_kernels_compiled_for_the_cpu(self, kind, tmp_path):
        """Compile the kernels as C++ and run one block of one thread."""
        compiler = shutil.which("c++")
        if not compiler:
            pytest.skip("no C++ compiler")
        source = f"""
            #include <cmath>
            using std::exp;
            #define __global__
            #define __device__
            struct Place {{ int x; }};
            Place blockDim = {{1}}, gridDim = {{1}}, blockIdx = {{0}}, threadIdx = {{0}};
            {raw_kernel.SOURCE}
            typedef {raw_kernel.TYPES[kind]} T;
            extern "C" void forward(const T* x, T* y, long long n) {{ mish(x, y, n); }}
            extern "C" void backward(const T* v, const T* x, T* y, long long n)
            {{ mish_backward(v, x, y, n); }}
        """
        (tmp_path / "mish.cpp").write_text(source)
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", "mish.so", "mish.cpp"]
        subprocess.run(command, cwd=tmp_path, check=True)
        library, x = ctypes.CDLL(str(tmp_path / "mish.so")), self.x.astype(kind)
        v = np.random.default_rng(0).standard_normal(len(x)).astype(kind)
        y, slope, n = np.empty_like(x), np.empty_like(x), ctypes.c_longlong(len(x))
        library.forward(x.ctypes, y.ctypes, n)
        library.backward(v.ctypes, x.ctypes, slope.ctypes, n)
        expected, pullback = gg.vjp(raw_kernel.mish, gg.asarray(x))
        eps = np.finfo(kind).eps
        assert_allclose(y, expected.numpy(), rtol=8 * eps)
        assert_allclose(slope, pullback(gg.asarray(v))[0].numpy(), rtol=32 * eps, atol=32 * eps)
