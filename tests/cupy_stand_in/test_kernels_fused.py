"""Generated elementwise kernels on the stand-in for CuPy: expressions, and chains of calls."""

from itertools import product
from types import SimpleNamespace

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic

import gpugrad as gg
from gpugrad.backends import declarations
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels.fused import Fused
from gpugrad.nn import functional
from gpugrad.tape import graphs
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
    return np.array(
        [*some, tiny, -tiny, limits.smallest_normal, limits.max, -limits.max],
        getattr(library, dtype),
    )


PRECISION = {"float64": 1e-15, "float32": 5e-7, "float16": 2e-3, "bfloat16": 1.6e-2}
LAYOUTS = {
    "flat": lambda v: (asarray(np.repeat(v, len(v))), asarray(np.tile(v, len(v)))),
    "unaligned": lambda v: tuple([x[1:] for x in LAYOUTS["flat"](v)]),
    "broadcast": lambda v: (
        cupy.broadcast_to(asarray(v)[:, None], (len(v), len(v))),
        cupy.broadcast_to(asarray(v), (len(v), len(v))),
    ),
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


def value_of(array, call=None):
    found = Value("array", array, array.nbytes)
    found.call, found.memory = call, Memory(call)
    return found


def noted(function, args, values):
    """A call as it is on a tape, and its result."""
    result = function(*args)
    call = Call(function, tuple([values.get(id(x), x) for x in args]), {})
    call.outs = [value_of(result, call)]
    return call, result


def fused_calls(calls):
    """The calls of a tape of these, all of whose results are needed."""
    tape = SimpleNamespace(calls=[*calls], leaving=[out for call in calls for out in call.outs])
    fuse(tape, Fused)
    return tape.calls


def values_by_kernels(calls, values):
    """The values of calls, all of them made by generated kernels."""
    made = dict(values)
    for call in fused_calls(calls):
        assert type(call.function) is Fused, call.name
        results = call.function(*[made[x] for x in call.args])
        made |= zip(call.outs, results if call.several else [results], strict=True)
    return made


def check(result, expected, name, exact):
    result, expected = result.get(), expected.get()
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape), name
    if result.dtype.kind in "iub":
        assert np.array_equal(result, expected), name
        return
    wide = [x.astype(np.float64) for x in (result, expected)]
    if exact:
        np.testing.assert_array_equal(*wide, err_msg=name)
        is_number = ~np.isnan(wide[0])
        if result.dtype.char in "fd":
            assert np.array_equal(*[np.signbit(x)[is_number] for x in wide]), name
    else:
        np.testing.assert_allclose(
            *wide, rtol=PRECISION[result.dtype.name], atol=1e-40, err_msg=name
        )


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
    arrays = {values[id(x)]: x for x in (x1, x2, condition)}
    made = arrays if layout == "empty" else values_by_kernels(calls, arrays)
    for out, *rest in expected if layout != "empty" else ():
        check(made[out], *rest)


def test_bytes():
    """A chain reads its operands, and writes the results that are needed, once each."""
    x, y, b = (asarray(normal(*shape)) for shape in ((64, 128), (64, 128), (128,)))
    values = {id(a): value_of(a) for a in (x, y, b)}
    calls, kept = [], []
    for function, args in [
        (cupy.add, lambda a: (x, b)),
        (cupy.tanh, lambda a: (a,)),
        (cupy.multiply, lambda a: (a, y)),
        (cupy.subtract, lambda a: (a, x)),
        (cupy.exp, lambda a: (a,)),
    ]:
        given = args(kept[-1] if kept else None)
        call, result = noted(function, given, values)
        values[id(result)] = call.outs[0]
        calls.append(call)
        kept.append(result)
    tape = SimpleNamespace(calls=calls, leaving=[calls[-1].outs[0]])
    fuse(tape, Fused)
    (call,) = tape.calls
    arrays = {value: a for a in (x, y, b) for value in (values[id(a)],)}
    with traffic() as launches:
        result = call.function(*[arrays[value] for value in call.args])
    check(result, kept[-1], "chain", exact=True)
    moved = sum(launch.read + launch.written for launch in launches)
    assert len(launches) == 1
    assert moved <= 1.1 * sum(a.nbytes for a in (x, y, b, result))


def check_compiled(function, *arrays, launches):
    """Call a function, eager and as a CUDA graph that launches so many kernels."""
    tensors = [gg.asarray(x).to("cuda") for x in arrays]
    work, seen = graphs._Captured._work, []

    def counted(self, *args):
        with traffic() as found:
            result = work(self, *args)
        seen.append([x.name for x in found if x.name != "copy_arrays"])
        return result

    compiled = gg.compile(function)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs._Captured, "_work", counted)
        for _ in range(4):
            results = compiled(*tensors)
    assert len(seen[-1]) == launches, seen[-1]
    assert compiled.program(*tensors).call_by_call is None
    expected = function(*tensors)
    several = isinstance(expected, tuple)
    for x, y in zip(*[r if several else (r,) for r in (results, expected)], strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x.cpu().numpy(), y.cpu().numpy(), rtol=1e-6, atol=1e-6)
    return compiled


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_a_chain_is_one_kernel():
    def gelu(x):
        return 0.5 * x * (1 + gg.tanh(0.797885 * (x + 0.044715 * x * x * x)))

    check_compiled(gelu, normal(16, 33), launches=1)


def test_operands_broadcast():
    arrays = normal(5, 1, 8), normal(8), normal(4, 1), normal()
    check_compiled(lambda x, y, z, one: (x + y) * z - one, *arrays, launches=2)


def test_comparisons_casts_and_several_results():
    def f(x, y):
        chosen = gg.where((x > y) & (y < 1), x, -y)
        return chosen, gg.astype(chosen, gg.float16), gg.astype(x > 0, gg.float32) * chosen

    check_compiled(f, normal(6, 7), normal(6, 7)[::-1], launches=1)


def test_gradients():
    def f(x, w):
        y = gg.exp(-x * x) * gg.sqrt(gg.abs(w) + 1)
        return gg.autograd.grad(y.sum(), x)[0]

    x, w = normal(9, 5), normal(5)
    x, w = gg.asarray(x).to("cuda").requires_grad_(), gg.asarray(w).to("cuda")
    compiled = gg.compile(f)
    for _ in range(4):
        found = compiled(x, w)
    np.testing.assert_allclose(found.cpu().numpy(), f(x, w).cpu().numpy(), rtol=1e-6)
    assert len(compiled.program(x, w).kernels) == 2


def test_numbers_of_state():
    """A number that changes is read from the device's memory."""

    class Scale:
        by = 1.5

    scale = Scale()
    x = gg.asarray(normal(10)).to("cuda")
    compiled = gg.compile(lambda x: (x + 1) * scale.by - x)
    for scale.by in (1.5, 1.5, 1.5, 1.5, 2.0, -1.0):
        expected = (x + 1) * scale.by - x
        assert np.array_equal(compiled(x).cpu().numpy(), expected.cpu().numpy())


def test_a_bias_is_added_in_place():
    """A call that overwrites its operand is part of a kernel like any other."""

    def f(x, w, b):
        return functional.relu(functional.linear(x, w, b)) + 1

    check_compiled(f, normal(6, 4), normal(3, 4), normal(3), launches=2)


def test_what_is_overwritten_in_between():
    """A value that is read before, after and as a view of what is overwritten."""

    def f(x):
        y = x * 2
        first = y[:2] * 3
        y[:2] = x[2:]
        return first + y[:2], y - x

    check_compiled(f, normal(4, 5), launches=6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(3, 5), (700, 40), (2, 9, 8), (1024, 1024)])
def test_sums_of_columns(shape, dtype):
    """A kernel adds up the columns of what it computes, in the order of the usual sum."""
    arrays = [normal(*shape, dtype=dtype), normal(shape[-1], dtype=dtype)]
    x, b = [gg.asarray(a).to("cuda") for a in arrays]

    def f(x, b):
        y = gg.where(x > b, x, 0.0) * 2
        return y, gg.sum(y, axis=tuple(range(len(shape) - 1)))

    compiled = check_compiled(f, *arrays, launches=1)
    assert len(compiled.program(x, b).kernels) == 1
    for found, expected in zip(compiled(x, b), f(x, b), strict=True):
        assert np.array_equal(found.cpu().numpy(), expected.cpu().numpy())


def test_sums_that_other_calls_need():
    def f(x):
        y = gg.exp(x)
        return y / gg.sum(y, axis=0), y * 2

    check_compiled(f, normal(50, 7), launches=2)
