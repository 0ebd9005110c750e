"""Indexing, random numbers, modules and NumPy's functions inside vmap, compared to a loop."""

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor

import einops
import numpy as np
import pytest
from libraries import libraries

import gpugrad as gg
import gpugrad.einops  # registers it with einops
from gpugrad import nn
from gpugrad.autograd import grad
from gpugrad.testing import assert_close

N = 3  # examples


def call_for_each(f, in_axes, *args):
    """Call ``f`` for each example and stack the results."""
    pairs = [*zip(args, in_axes, strict=True)]
    (n,) = {x.shape[0] for x, axis in pairs if axis == 0}
    return gg.stack([f(*[x[i, ...] if axis == 0 else x for x, axis in pairs]) for i in range(n)])


def check_against_loop(library, f, in_axes, *args, other=None):
    """Check values and gradients by vmap against a loop of ``f``, or of ``other`` if given."""
    leaves = [x for x in args if isinstance(x, gg.Tensor) and x.requires_grad]
    expected, result = call_for_each(other or f, in_axes, *args), gg.vmap(f, in_axes)(*args)
    assert result.dtype == expected.dtype
    assert_close(library.values(result), library.values(expected), rtol=1e-12)
    if expected.requires_grad:
        w = np.random.default_rng(1).standard_normal(expected.shape)
        w = library.tensor(w.astype(library.dtype(expected.dtype)))
        for a, b in zip(grad(result, leaves, w), grad(expected, leaves, w), strict=True):
            assert_close(library.values(a), library.values(b), rtol=1e-12)


def choices_of_arguments(n):
    """Return all ways to choose which of ``n`` arguments differ between examples; one must."""
    return [axes for axes in itertools.product((0, None), repeat=n) if 0 in axes]


# The standard allows an array as an index only alone, or if all indices are arrays.
ALL_KEYS = [library for library in libraries() if library.name != "array_api_strict"]
NUMPY = ALL_KEYS[0]
with_all_keys = pytest.mark.parametrize("library", ALL_KEYS, ids=repr)


def normal(library, *shape, seed=0, requires_grad=True):
    values = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return library.tensor(values, requires_grad=requires_grad)


def random_indices(library, low, high, *shape, seed=0):
    return library.tensor(np.random.default_rng((seed, *shape)).integers(low, high, shape))


# Keys into an array of shape (4, 5, 6), from indices i of any shape between -4 and 3.
KEYS = {
    "i": lambda i: i, "i,2,i": lambda i: (i, 2, i), "...,i": lambda i: (..., i),
    "::2,i,1": lambda i: (slice(None, None, 2), i, 1), "i,:,i": lambda i: (i, slice(None), i),
    "1,:,i": lambda i: (1, slice(None), i), ":,1,i": lambda i: (slice(None), 1, i),
    ":,i,...,i": lambda i: (slice(None), i, ..., i), "None,i": lambda i: (None, i),
    ":,None,i,::-2": lambda i: (slice(None), None, i, slice(4, None)),
}  # fmt: skip


@with_all_keys
@pytest.mark.parametrize("shape", [(), (2,), (2, 1)], ids=str)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_an_index_that_differs_between_examples(library, key, shape):
    for axes in choices_of_arguments(2):
        x = normal(library, *[N] * (axes[0] == 0), 4, 5, 6)
        i = random_indices(library, -4, 4, *[N] * (axes[1] == 0), *shape)
        check_against_loop(library, lambda x, i: x[key(i)], axes, x, i)


def assignment(key):
    """A function that assigns at a key, to a copy of its first argument."""

    def assigned(x, v, *i):
        x = x + 0
        x[key(*i)] = v
        return x

    return assigned


@with_all_keys
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_assignment_at_an_index_that_differs_between_examples(library, key):
    indices = np.array([[3, 0, 3], [1, 1, 2], [0, 3, -4]])  # some are repeated: the last wins
    kinds = [*itertools.product(choices_of_arguments(3), ("whole", "number", "row"))]
    for axes, kind in kinds if library is NUMPY else kinds[::4]:
        i = library.tensor(indices if axes[2] == 0 else indices[0])
        x = normal(library, *[N] * (axes[0] == 0), 4, 5, 6)
        taken = normal(library, 4, 5, 6)[key(library.tensor(indices[0]))].shape
        shape = {"whole": taken, "number": (), "row": (1, *taken[-1:])}[kind]
        v = normal(library, *[N] * (axes[1] == 0), *shape, seed=1)
        check_against_loop(library, assignment(key), axes, x, v, i)


def test_indices_of_other_levels():
    x = normal(NUMPY, 2, N, 5)
    i, j = random_indices(NUMPY, 0, 5, 2, 4), random_indices(NUMPY, 0, 5, N, 4)

    def both(x, i, j):
        y = x[i] * x[j] - x[(i + j) % 5]
        y[i[0] % 4] = x[j[0]]
        return y

    def by_loop(x):
        return gg.stack([call_for_each(lambda x, j: both(x, i, j), (0, 0), x, j)  # noqa: B023
                              for x, i in zip(x, i, strict=True)])  # fmt: skip

    result, expected = gg.vmap(gg.vmap(both, (0, None, 0)), (0, 0, None))(x, i, j), by_loop(x)
    assert_close(result.detach(), expected.detach())
    w = gg.tensor(np.arange(24.0).reshape(2, N, 4))
    assert_close(*[grad(y, [x], w)[0] for y in (result, expected)])


WHOLE = slice(None)


@pytest.mark.parametrize("shape, key, spread", [
    ((4, 5), lambda m: m, lambda m: m), ((4, 5), lambda m: (m, ...), lambda m: m),
    ((5,), lambda m: (WHOLE, m), lambda m: m), ((5,), lambda m: (..., m), lambda m: m),
    ((4,), lambda m: m, lambda m: m[:, None]),
    ((4,), lambda m: (..., m, WHOLE), lambda m: m[:, None]),
])  # fmt: skip
def test_assignment_by_a_mask_that_differs_between_examples(library, shape, key, spread):
    mask = library.tensor(np.random.default_rng(0).random((N, *shape)) < 0.5)
    row = len(spread(mask[0, ...]).shape) == 2 and len(shape) == 1

    def chosen(x, v, m):  # the same for a library without such assignments
        return gg.where(spread(m), v, x)

    assigned = assignment(key)
    for axes in [axes for axes in choices_of_arguments(3) if axes[2] == 0]:
        x = normal(library, *[N] * (axes[0] == 0), 4, 5)
        v = normal(library, *[N] * (axes[1] == 0), *[5] * row)
        check_against_loop(library, assigned, axes, x, v, mask, other=chosen)
    check_against_loop(library, lambda x, m: assigned(x, 2.0, m), (None, 0), x, mask,
          other=lambda x, m: chosen(x, 2.0, m))  # fmt: skip


def test_a_mask_that_differs_keeps_the_dtype():
    x, assigned = gg.zeros(3, dtype=gg.int64), assignment(lambda m: m)
    result = gg.vmap(lambda m: assigned(x, 2.5, m))(gg.tensor(np.eye(3, dtype=bool)))
    assert (result.dtype, result.tolist()) == (gg.int64, (2 * np.eye(3)).tolist())


ROWS = np.arange(6.0).reshape(3, 2)
ZEROS = gg.zeros((2, 2), dtype=gg.float64)
M = gg.ones((2, 4), dtype=gg.float64)


@pytest.mark.parametrize("function, error, words", [
    (lambda r: r[r > 2], TypeError, "index: .*mask.*choose with where"),
    (lambda r: assignment(lambda r: r > 2)(ZEROS, np.ones((2, 2)), r), ValueError,
     r"value.*\(2, 2\).*where"),
    (lambda r: assignment(lambda r: (0, r > 2))(ZEROS, 1.0, r), TypeError,
     "mask that differs .* where"),
    (lambda r: assignment(lambda r: (r > 2)[:1])(ZEROS, 1.0, r), IndexError,
     r"\(1,\) does not fit shape \(2, 2\)"),
    (lambda r: assignment(lambda r: (..., r[0] * 0 > 2))(ZEROS, 1j, r), TypeError, "imaginary"),
    (lambda r: r[r[0].astype(gg.int64), 0], IndexError, "too many indices for 1 axes"),
    (lambda r: r[(True, r[0].astype(gg.int64))], TypeError, "bool .* beside"),
    (lambda r: gg.take(r, r.astype(gg.int64)[None]), ValueError, "indices .*1 axis"),
    (lambda r: gg.take(r, gg.tensor([0]), axis=-2), IndexError, "axis -2 .* 1 axes"),
    (lambda r: gg.take_along_axis(r, r.astype(gg.int64), axis=1), IndexError, "1 axes"),
    (lambda r: gg.linalg.matrix_power(r, 2), ValueError, "linalg.matrix_power: "),
    (lambda r: gg.linalg.matrix_power(gg.eye(2), r[0].astype(gg.int64)),
     TypeError, "n must be an int"),
    (lambda r: gg.fft.fftn(r, axes=(1,)), IndexError, "fft.fftn: axis 1 .* 1 axes"),
    (lambda r: gg.matmul(r, M.T), ValueError, r"matmul: .*\(2,\).*\(4, 2\)"),
    (lambda r: gg.linear(r[0], M.T), ValueError, r"linear: .*\(\).*\(4, 2\)"),
    (lambda r: gg.linear(r, M.T, r), ValueError, r"linear: .*\(4,\).*\(2,\)"),
    (lambda r: gg.vecdot(r[0], r), IndexError, "vecdot: axis -1"),
    (lambda r: gg.tril(r), ValueError, r"tril: .* 2 axes.*\(2,\)"),
    (lambda r: gg.cross_entropy(r, r[0]), TypeError, "cross_entropy: target must be int"),
    (lambda r: gg.cross_entropy(r[0], r[0]), ValueError, r"cross_entropy: .*\(\)"),
    (lambda r: gg.mse(r, r, reduction="max"), ValueError, "'max'"),
    (lambda r: gg.layer_norm(r[0]), ValueError, r"layer_norm: .*\(\)"),
    (lambda r: gg.batch_norm(r), ValueError, r"batch_norm: x must .* not \(2,\)"),
    (lambda r: gg.zeros(2, dtype=gg.int64).__iadd__(r), ValueError, r"float64 \(2,\)"),
    # Values cannot be read.
    *((function, TypeError, words) for function, words in (
        (lambda r: r if r.sum() > 2 else -r, "bool: .* choose with where"),
        (lambda r: r * float(r[0]), "float: .* a 0-d tensor does"),
        (lambda r: r * int(r[0]), "int: .* a 0-d tensor does"),
        (lambda r: [1, 2][r[0].astype(gg.int64)], "int: .*index"),
        (lambda r: grad(r.sum(), r), r"backward: .*gpugrad\.grad"),
        (lambda r: r[: r[0].astype(gg.int64)], "int: .* bound of a slice"),
        (lambda r: gg.zeros(r[0].astype(gg.int64)), "zeros: shape must be an int"),
        (lambda r: r[0].item(), "item: .* read what vmap returns"),
        (lambda r: r.tolist(), "tolist: .* read what vmap returns"),
        (lambda r: r.numpy(), "numpy: .* read what vmap returns"),
        (lambda r: np.asarray(r), "numpy.asarray: .* read what vmap returns"),
        (lambda r: np.from_dlpack(r), "dlpack.*: .* read what vmap returns"),
        (lambda r: copy.deepcopy(r), "copy: .* asarray"),
        (lambda r: r.requires_grad_(), "requires_grad_: .* gpugrad.grad"),
        (lambda r: r.backward(), "backward: .* gpugrad.grad"),
        (lambda r: gg.random.normal(2, requires_grad=True), "requires_grad_: .* gpugrad.grad"),
    )),
])  # fmt: skip
def test_errors_of_ops_describe_one_example(function, error, words):
    with pytest.raises(error, match=words):
        gg.vmap(function)(gg.tensor(ROWS))


def test_a_level_of_another_thread_is_inside():
    rows, more = np.array(ROWS), np.arange(6.0).reshape(3, 2)

    def products(r):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(gg.vmap(lambda s: r * s), more).result()

    assert_close(gg.vmap(products)(rows), rows[:, None] * more)


def test_repr():
    seen = []
    gg.vmap(lambda r: seen.append(f"{r}") or r)(gg.tensor(ROWS))
    assert seen == ["<one of 3 examples in vmap, shape (2,), float64>"]


# NumPy's functions and others, for matrices (2, 2)


def written(m):
    out = same = gg.zeros(3, dtype=gg.float64)
    out[0] = m.sum()
    out[1:] += m[0]
    same *= 2
    return out


@pytest.mark.parametrize("function", [
    written, lambda m: gg.tensor(m) * 2, lambda m: gg.full((2,), m[0, 0]),
    lambda m: m.real + m.mT.T.conj(), lambda m: einops.rearrange(m, "a b -> (b a)"),
    lambda m: np.float64(3) * m / np.array([1.0, 2.0]),
    lambda m: m * np.ndim(m) * np.size(m) * np.shape(m)[0] * np.iscomplexobj(m),
    lambda m: m.astype(np.result_type(m, np.float32)),
    lambda m: gg.stack(list(m))[::-1] if len(m) == 2 else None,
    lambda m: einops.reduce(m, "a b -> b", "max") + einops.repeat(m[0], "b -> c b", c=3),
    lambda m: gg.asarray([[m[0, 0], 2.0], [0, m[1, 1]]], dtype=gg.float64),
    lambda m: gg.asarray(m, dtype=gg.complex128, copy=True),
    lambda m: gg.full_like(m, m[0, 0]) + gg.ones_like(m) * gg.empty_like(m).ndim,
    lambda m: m.to(m[0]).reshape(-1)[[3, 1]], lambda m: m.astype(gg.result_type(m, gg.complex64)),
])  # fmt: skip
def test_functions(function):
    check_against_loop(NUMPY, function, (0,), normal(NUMPY, N, 2, 2))


def test_tolerances_that_differ():
    x, rtol = normal(NUMPY, 3, 2, 2), gg.tensor([0.0, 0.5, 0.99])
    for f in (gg.linalg.matrix_rank, gg.linalg.pinv):
        result = gg.vmap(lambda x, rtol: f(x, rtol=rtol))(x, rtol)  # noqa: B023
        assert_close(result.detach(), [f(x[i], rtol=rtol[i]).tolist() for i in range(3)])


# Random numbers


@pytest.mark.parametrize("draw", [
    lambda source: source.uniform((4,), low=-1, dtype=gg.float64),
    lambda source: source.normal(4, mean=2.0, dtype=gg.float64),
    lambda source: source.integers(0, 100, (4,)),
])  # fmt: skip
def test_one_draw_equals_that_of_the_loop(draw):
    x = gg.tensor(ROWS)
    for make in (lambda: gg.random, lambda: gg.random.Generator(0)):
        results = []
        for run in gg.vmap, lambda f: lambda x: call_for_each(f, (0,), x):
            gg.manual_seed(0)
            source = make()
            results.append(run(lambda r: draw(source))(x))  # noqa: B023
        assert_close(*results)


def test_numbers_differ_between_all_examples():
    x, inner = gg.zeros(3), gg.vmap(lambda b: gg.random.normal())
    assert len({*gg.vmap(lambda a: inner(x))(x).reshape(9).tolist()}) == 9


def test_permutations():
    orders = gg.vmap(lambda _: gg.random.permutation(3))(gg.zeros((6000,)))
    assert orders.dtype == gg.int64
    _, counts = np.unique(orders.numpy(), axis=0, return_counts=True)
    assert len(counts) == 6
    assert abs(counts - 1000).max() < 150  # 5 standard deviations
    shuffled = gg.vmap(lambda r: r[gg.random.permutation(2)])(gg.tensor(ROWS))
    assert_close(np.sort(shuffled.numpy(), axis=1), ROWS)


# Modules


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_recomputed_random_numbers_differ_between_examples_only(mode):
    x = normal(NUMPY, 3, 6, requires_grad=False)
    layers = [nn.Linear(6, 5, dtype=x.dtype), nn.Tanh(), nn.Dropout(0.5)]
    net = nn.Sequential(*layers, nn.Linear(5, 2, dtype=x.dtype)).requires_grad_(False)
    results = []
    for f in (net, lambda x: gg.checkpoint(net, x)):
        gg.manual_seed(0)
        results.append(gg.vmap(gg.jacobian(f, mode=mode))(x))
    assert_close(*results)


def test_derivatives_at_an_index_that_differs_between_examples():
    x, i = normal(NUMPY, N, 5, requires_grad=False), random_indices(NUMPY, 0, 5, N, 3)

    def f(x, i):
        y = x * 1.0
        y[i] = x[:3] ** 2
        y[y > 1] = 0.5
        return (y * x[i[0]]).sum()

    derivatives = gg.vmap(gg.hessian(f))(x, i)
    assert_close(derivatives, call_for_each(lambda x, i: gg.hessian(f)(x, i), (0, 0), x, i))
    assert_close(gg.vmap(gg.jacobian(gg.grad(f), mode="forward"))(x, i), derivatives)
