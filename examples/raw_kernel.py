"""Your own CUDA kernel as an operation: Mish and its gradient, each in one pass.

The activation Mish(x) = x tanh(log(1 + exp(x))) takes four of the library's operations, each of
which reads and writes the whole array. This program makes it a single operation: a formula, with
a twin for arrays on a GPU, a kernel in CUDA C++ that CuPy compiles when it is first called. The
gradient is an operation with a kernel of its own. With e = exp(x) and q = e (e + 2),

    w = tanh(log(1 + e)) = q / (q + 2),    w' = (1 - w²) s,    s = e / (1 + e),
    Mish = x w,    Mish' = w + x w',    Mish'' = 2 w' + x w' (1 - s - 2 w s).

Mish'' is written in the library's operations, so there are derivatives of any order. Operations
that are declared elementwise work in forward mode and under `vmap` without further rules. The
kernels pay off on a GPU. On a CPU the formulas take about as long as the composition; the
program prints both times.

Mish: D. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function" (2020).
"""

from common import Parser, panels, positive, save_figure

import math
import time
from functools import cache

import numpy as np

import gpugrad
from gpugrad.testing import gradcheck, gradgradcheck, twincheck

SOURCE = r"""
template <typename T> struct Parts {
    T w, s, slope;  // slope: the derivative of w

    __device__ explicit Parts(T x) {
        T e = exp(x < T(20) ? x : T(20)), q = e * (e + T(2));  // from 20 on w is 1
        w = q / (q + T(2));
        s = e / (T(1) + e);
        slope = T(2) / (q + T(2)) * (T(1) + w) * s;
    }
};

template <typename T> __global__ void mish(const T* x, T* y, long long n) {
    long long step = (long long)blockDim.x * gridDim.x;
    for (long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step)
        y[i] = x[i] * Parts<T>(x[i]).w;
}

template <typename T> __global__ void mish_backward(const T* v, const T* x, T* y, long long n) {
    long long step = (long long)blockDim.x * gridDim.x;
    for (long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        Parts<T> of(x[i]);
        y[i] = v[i] * (of.w + x[i] * of.slope);
    }
}
"""
TYPES = {"float32": "float", "float64": "double"}
NAMES = [f"{name}<{kind}>" for name in ("mish", "mish_backward") for kind in TYPES.values()]
OPTIONS = ("-std=c++14",)


@cache
def kernels():
    """Compile the source; CuPy loads it onto the GPU that is current at a call."""
    import cupy

    return cupy.RawModule(code=SOURCE, options=OPTIONS, name_expressions=NAMES)


def launch(xp, name, *arrays):
    """Run the kernel of that name; NotImplemented if there is none for the dtype."""
    dtype = xp.result_type(*arrays)
    if str(dtype) not in TYPES:
        return NotImplemented
    arrays = [xp.ascontiguousarray(x, dtype) for x in xp.broadcast_arrays(*arrays)]
    out = xp.empty_like(arrays[0])
    if out.size:
        kernel = kernels().get_function(f"{name}<{TYPES[str(dtype)]}>")
        blocks = min(-(-out.size // 256), 65535)
        kernel((blocks,), (256,), (*arrays, out, np.int64(out.size)))
    return out


@gpugrad.op(elementwise=True)
def mish(xp, x):
    """``x tanh(log(1 + exp(x)))`` elementwise, for float32 or float64."""
    e = xp.exp(xp.minimum(x, 20))  # from 20 on w is 1
    q = e + 2
    q *= e  # in place, since allocating a large array costs more than the arithmetic
    e = q + 2
    q /= e
    return x * q


def backward(xp, v, x):
    """``v Mish'(x)`` elementwise."""
    e = xp.exp(xp.minimum(x, 20))
    q = e + 2
    q *= e
    e /= 1 + e  # now s
    rest = q + 2
    q /= rest  # now w
    e *= 2 * (1 + q)
    e /= rest  # now the derivative of w
    e *= x
    e += q
    return v * e


def backward_again(xp, g, v, x):
    """``g v Mish''(x)`` elementwise."""
    e = xp.exp(xp.minimum(x, 20))
    q = e * (e + 2)
    w, s = q / (q + 2), e / (1 + e)
    return g * v * (2 / (q + 2) * (1 + w) * s) * (2 + x * (1 - s - 2 * w * s))


mish_backward = gpugrad.op(backward, elementwise=True)


def rule(xp, v, x):
    """The VJP of mish: the formula on arrays, the operation on Tensors, which record it."""
    return mish_backward(v, x) if xp is gpugrad else backward(xp, v, x)


mish.vjp(x=rule)
mish_backward.vjp(v=rule, x=backward_again)

mish.twin(
    "cupy",
    lambda xp, x: launch(xp, "mish", x),
    x=lambda xp, v, x: launch(xp, "mish_backward", v, x),
)
mish_backward.twin(
    "cupy",
    lambda xp, v, x: launch(xp, "mish_backward", v, x),
    v=lambda xp, g, x: launch(xp, "mish_backward", g, x),
)


def composed(x):
    """Mish as a composition of the library's operations."""
    return x * gpugrad.tanh(gpugrad.log1p(gpugrad.exp(x)))


def check(device):
    """Check derivatives against differences, forward mode and vmap against the composition."""
    x = gpugrad.tensor([[-9.0, -1.5, -0.2], [0.0, 0.7, 3.0]], dtype=gpugrad.float64, device=device)
    x.requires_grad = True
    gradcheck(mish, x, check_forward=True)
    gradgradcheck(mish, x, check_forward=True)
    if device.startswith("cuda"):
        for dtype in TYPES:
            twincheck(mish, x.astype(dtype))
            twincheck(mish_backward, x.astype(dtype), x.astype(dtype))
    slopes = gpugrad.vmap(gpugrad.vmap(gpugrad.grad(mish)))(x.detach())
    _, tangents = gpugrad.jvp(mish, (x.detach(),), (gpugrad.ones_like(x.detach()),))
    expected = gpugrad.grad(lambda x: composed(x).sum())(x.detach())
    return max(gpugrad.max(gpugrad.abs(y - expected)).item() for y in (slopes, tangents))


def seconds(f, x, repeats):
    """Return the shortest time of a forward and a backward pass."""
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        x.grad = None
        f(x).sum().backward()
        x.grad[0].item()  # wait for a GPU to finish
        best = min(best, time.perf_counter() - began)
    return best


def draw(path, sizes, ratios):
    figure, (left, right) = panels()
    x = gpugrad.linspace(-4, 4, 401, dtype=gpugrad.float64)
    f, name = mish, "Mish"
    for _ in range(4):
        left.plot(x.numpy(), gpugrad.vmap(f)(x).numpy(), label=name)
        f, name = gpugrad.grad(f), name + "'"
    left.set(xlabel="x", ylim=(-1.2, 4))
    left.legend(frameon=False)
    for name, values in ratios.items():
        right.semilogx(sizes, values, "o-", label=name)
    right.axhline(1, color="k", linewidth=1)
    right.set(xlabel="elements", ylabel="time / composition's time")
    right.set_ylim(0, 1.1 * max(1, *map(max, ratios.values())))
    right.legend(frameon=False)
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/raw_kernel.png")
    parser.add_argument("--repeats", type=positive, default=30, help="per timing, default 30")
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    print(f"runs {'the CUDA kernels' if on_gpu else 'the formulas'}")
    difference = check(options.device)
    print("first and second derivatives agree with differences")
    print(f"forward mode and vmap of grad differ by {difference:.1e} from the composition")

    sizes, ratios = [10, 1000, 100_000, 1_000_000], {}
    random = np.random.default_rng(options.seed)
    for kind in TYPES:
        for n in sizes:
            x = gpugrad.asarray(random.standard_normal(n).astype(kind), device=options.device)
            x.requires_grad = True
            own, other = (seconds(f, x, options.repeats) for f in (mish, composed))
            ratios.setdefault(kind, []).append(own / other)
            print(
                f"{kind}, {n:7} elements: {own * 1e6:9.1f} µs, composed {other * 1e6:9.1f} µs, "
                f"ratio {own / other:.2f}"
            )
    draw(options.plot, sizes, ratios)


if __name__ == "__main__":
    main()
