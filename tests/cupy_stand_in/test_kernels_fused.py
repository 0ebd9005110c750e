"""Generated elementwise kernels on the stand-in for CuPy: expressions, and chains of calls."""

from itertools import product
from types import SimpleNamespace

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from definitions import launched_by_graph

import gpugrad as gg
from gpugrad.backends import declarations
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels.fused import Fused
from gpugrad.tape.fusion import fuse
from gpugrad.tape.tape import Call, Memory, Value

TABLES = declarations._ANY, *declarations.EXPRESSIONS.values(), declarations._CUDA
EXACT = {ufunc for table in TABLES[:-1] for ufunc in table}
UFUNCS = list({f: None for table in TABLES for f in table if hasattr(cupy, f.__name__)})
DTYPES = [
    *("float32", "float64", "float16", "bfloat16", "bool"),
    *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
]


def numbers(dtype):
    """Ordinary and special numbers of a dtype."""
    if dtype == "bool":
        return np.array([False, True])
    if "int" in dtype:
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, 2, 7, limits.max // 3], dtype)
    library = pytest.importorskip("ml_dtypes") if dtype == "bfloat16" else np
    limits = library.finfo(getattr(library, dtype))
    tiny = limits.smallest_subnormal
    some = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, -2.5, 3.7, 1e-3, 11]
    some += [tiny, -tiny, limits.smallest_normal, limits.max, -limits.max]
    return np.array(some, getattr(library, dtype))


PRECISION = {"float64": 1e-15, "float32": 5e-7, "float16": 2e-3, "bfloat16": 1.6e-2}
FLAT = lambda v: (asarray(np.repeat(v, len(v))), asarray(np.tile(v, len(v))))  # noqa: E731
LAYOUTS = {
    "flat": FLAT,
    "unaligned": lambda v: tuple([x[1:] for x in FLAT(v)]),
    "broadcast": lambda v: cupy.broadcast_arrays(asarray(v)[:, None], asarray(v)),
    "strided": lambda v: (
        asarray(np.repeat(v, 2 * len(v)).reshape(len(v), -1))[:, ::2],
        asarray(np.repeat(v, len(v)).reshape(len(v), -1)).T[::-1],
    ),
    "transposed": lambda v: tuple([asarray(x).T for x in np.meshgrid(v, v)]),
    "0-d": lambda v: (asarray(v[-1]), asarray(v[1])),
    "empty": lambda v: (asarray(v[:0]), asarray(v[:0])),
}
CASES = [*product(DTYPES, ["flat", "strided"]), *[("float32", layout) for layout in LAYOUTS]]
CASES += [("float16", "broadcast"), ("int8", "broadcast"), ("float16", "unaligned")]


def asarray(x):
    return cupy.asarray(np.asarray(x))


def value_of(array, is_own=False):
    found = Value("array", array, array.nbytes)
    found.memory = Memory(is_own)
    return found


def noted(function, args, values):
    """A call as it is on a tape, and its result."""
    result = function(*args)
    call = Call(function, tuple([values.get(id(x), x) for x in args]), {})
    call.add(value_of(result, is_own=True))
    return call, result


def fused_calls(calls, leaving=None):
    """The calls of a tape of these, all of whose results are needed unless some are given."""
    outs = [out for call in calls for out in call.outs]
    tape = SimpleNamespace(calls=[*calls], leaving=leaving or outs)
    fuse(tape, Fused)
    return tape.calls


def check(result, expected, name, exact):
    result, expected = result.get(), expected.get()
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape), name
    if result.dtype.kind in "iub":
        assert np.array_equal(result, expected), name
        return
    wide = [x.astype(np.float64) for x in (result, expected)]
    if exact:
        np.testing.assert_array_equal(*wide, err_msg=name)
        if result.dtype.char in "fd":
            assert np.array_equal(*[np.signbit(x)[~np.isnan(wide[0])] for x in wide]), name
    else:
        near = {"rtol": PRECISION[result.dtype.name], "atol": 1e-40}
        np.testing.assert_allclose(*wide, **near, err_msg=name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype, layout", CASES)
def test_expressions(dtype, layout):
    """The functions of the array library and a kernel of all of them have the same values."""
    x1, x2 = LAYOUTS[layout](numbers(dtype))
    condition = x1 == x1 if dtype == "bool" else x1 <= x2
    values = {id(x): value_of(x) for x in (x1, x2, condition)}
    kind = "f" if "float" in dtype else x1.dtype.kind
    tables = declarations._ANY, declarations.EXPRESSIONS[kind], *TABLES[-1:] * (kind == "f")
    ufuncs = [f for f in UFUNCS if any(f in table for table in tables)]
    rows = [(getattr(cupy, f.__name__), (x1, x2)[-f.nin :], f in EXACT) for f in ufuncs]
    rows.append((xp.where, (condition, x1, x2), True))
    for other in ("float32", "float64", "float16", "int32", "bool"):
        if "float" not in dtype or other != "int32":  # CUDA converts large numbers in its own way
            rows.append((xp.astype, (x2, np.dtype(other)), True))
    if "float" in dtype:
        rows.append((xp.zero_discarded_nans, (x1, x2), True))
    if "float" in dtype and dtype != "bfloat16":
        rows += [(cupy.multiply, (x1, 0.3), True), (cupy.add, (2, x2), True)]
    calls, expected = [], []
    for function, args, exact in rows:
        try:
            call, result = noted(function, args, values)
        except TypeError:  # it has no loop for this dtype
            continue
        if kind == "b" and result.dtype != bool and function is not xp.astype:
            continue
        calls.append(call)
        expected.append((call.outs[0], result, function.__name__, exact))
    if layout == "empty":  # there is nothing to launch
        assert fused_calls(calls) == calls
        return
    made = {values[id(x)]: x for x in (x1, x2, condition)}
    for call in fused_calls(calls):
        assert type(call.function) is Fused, call.name
        results = call.function(*[made[x] for x in call.args])
        made |= zip(call.outs, results if call.several else [results], strict=True)
    for out, *rest in expected:
        check(made[out], *rest)


def test_bytes():
    """A chain reads its operands, and writes the results that are needed, once each."""
    x, y, b = (asarray(normal(*shape)) for shape in ((64, 128), (64, 128), (128,)))
    values, calls, result = {id(a): value_of(a) for a in (x, y, b)}, [], x
    for function, *others in (
        (cupy.add, b), (cupy.tanh,), (cupy.multiply, y), (cupy.subtract, x), (cupy.exp,),
    ):  # fmt: skip
        call, result = noted(function, (result, *others), values)
        values[id(result)] = call.outs[0]
        calls.append(call)
    (call,) = fused_calls(calls, calls[-1].outs)
    arrays = {values[id(a)]: a for a in (x, y, b)}
    with traffic() as launches:
        found = call.function(*[arrays[value] for value in call.args])
    check(found, result, "chain", exact=True)
    least, (launch,) = sum(a.nbytes for a in (x, y, b, result)), launches
    assert launch.read + launch.written <= 1.1 * least


def check_compiled(function, *arrays, launches, near=1e-6):
    """Call a function, eager and as a CUDA graph that launches so many kernels."""
    tensors = [gg.asarray(x).to("cuda") for x in arrays]
    compiled, results, names = launched_by_graph(function, *tensors)
    assert len(names) == launches, names
    expected = function(*tensors)
    several = isinstance(expected, tuple)
    for x, y in zip(*[r if several else (r,) for r in (results, expected)], strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x.cpu().numpy(), y.cpu().numpy(), rtol=near, atol=near)
    return compiled, tensors


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def chosen(x, y):
    """Comparisons, casts and several results."""
    found = gg.where((x > y) & (y < 1), x, -y)
    return found, gg.astype(found, gg.float16), gg.astype(x > 0, gg.float32) * found


def overwritten(x):
    """A value is read before, after and as a view of what is overwritten."""
    y = x * 2
    first = y[:2] * 3
    y[:2] = x[2:]
    return first + y[:2], y - x


def summed(x):
    """A sum that other calls need."""
    y = gg.exp(x)
    return y / gg.sum(y, axis=0), y * 2


@pytest.mark.parametrize("function, shapes, launches", [
    (lambda x: 0.5 * x * (1 + gg.tanh(0.797885 * (x + 0.044715 * x * x * x))), [(16, 33)], 1),
    (lambda x, y, z, one: (x + y) * z - one, [(5, 1, 8), (8,), (4, 1), ()], 2),  # broadcast
    # The bias is added in place, by a call that is part of a kernel like any other.
    (lambda x, w, b: gg.relu(gg.linear(x, w, b)) + 1, [(6, 4), (3, 4), (3,)], 2),
    (chosen, [(6, 7), (6, 7)], 1), (overwritten, [(4, 5)], 6), (summed, [(50, 7)], 2),
])  # fmt: skip
def test_kernels_of_a_function(function, shapes, launches):
    arrays = [np.roll(normal(*shape), k) for k, shape in enumerate(shapes)]
    check_compiled(function, *arrays, launches=launches)


def test_parameters_that_are_updated_in_between():
    """A chain does not read a parameter after its update that it reads before, nor the reverse."""

    def results(compile):
        w = gg.asarray(normal(6, 4)).to("cuda").requires_grad_()
        optimizer, x = gg.optim.SGD([w], lr=0.1), gg.asarray(normal(4)).to("cuda")

        def step(x):
            before = (w * 2 + x).detach()
            optimizer.zero_grad()
            (w * w * x).sum().backward()
            optimizer.step()
            return before, w.detach() * 2 - x

        step = compile(step)
        return [y.tolist() for _ in range(5) for y in step(x)]

    assert results(gg.compile) == results(lambda step: step)


def random_program(rng):
    """A function of arrays (6, 8), (8,) and (6, 1) with random calls, also in place."""
    calls = [(rng.integers(13), *rng.integers(0, 1000, 3)) for _ in range(rng.integers(6, 22))]

    def call(kind, u, v, k, b, c):
        if kind == 0:
            u += v
        elif kind == 1:
            u[k % 3] = v[k % 2]
        return [
            *[lambda: u * 1.5, lambda: u + 1, lambda: u + v, lambda: gg.where(u > v, u, -v)],
            *[lambda: gg.tanh(u) * v, lambda: gg.maximum(u - b, 0.5) * c, lambda: u.T * 2],
            *[lambda: u / (1 + gg.abs(v)), lambda: u - gg.sum(v, axis=0)],
            lambda: gg.reshape(gg.reshape(u, (-1,)) * 0.5, u.shape),
            *[lambda: gg.matmul(u, v.T)[:, :1] * u, lambda: u[::-1] + v],
            lambda: gg.astype(gg.astype(u, gg.float64) * 2, gg.float32),
        ][kind]()

    def f(x, b, c):
        values = [x * 1.0, b + x, x - c]
        for kind, i, j, k in calls:
            u, v = values[i % len(values)], values[j % len(values)]
            out = call(kind, u, v, k, b, c)
            values.append(out.T if out.shape != x.shape else out)
        return values[-1], values[calls[0][3] % len(values)], gg.sum(values[-2], axis=0)

    return f


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("has_gradient", [False, True])
def test_random_programs(seed, has_gradient):
    rng = np.random.default_rng(seed)
    f = random_program(rng)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in ((6, 8), (8,), (6, 1))]
    x, *others = [gg.asarray(array).to("cuda") for array in arrays]
    x.requires_grad_()

    def g(x, b, c):
        out, *rest = f(x, b, c)
        if has_gradient:
            rest += gg.autograd.grad((out * out).sum(), x)
        return [y.detach() for y in (out, *rest)]

    compiled, expected = gg.compile(g), g(x, *others)
    for _ in range(4):
        found = compiled(x, *others)
    assert compiled.program(x, *others).kernels
    for y, z in zip(found, expected, strict=True):
        assert np.array_equal(y.cpu().numpy(), z.cpu().numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(3, 5), (700, 40), (2, 9, 8), (1024, 1024)])
def test_sums_of_columns(shape, dtype):
    """A kernel adds up the columns of what it computes, in the order of the usual sum."""

    def f(x, b):
        y = gg.where(x > b, x, 0.0) * 2
        return y, gg.sum(y, axis=tuple(range(len(shape) - 1)))

    given = [normal(*shape, dtype=dtype), normal(shape[-1], dtype=dtype)]
    compiled, tensors = check_compiled(f, *given, launches=1, near=0)
    (kernel,) = compiled.program(*tensors).kernels
    assert kernel.startswith("/* ")
