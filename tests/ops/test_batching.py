"""Every op in the table: batched calls against a loop, and forward mode against backward."""

from contextlib import contextmanager

import numpy as np
import pytest
from cases import CASES, SHAPED_BY_VALUES
from libraries import libraries
from samples import every
from test_ops import DOUBLE, NEAR, Call, each_case, quiet, random_like, samples, several

import gpugrad as gg
from gpugrad._batched import batched, entered, lifted
from gpugrad.autograd import grad
from gpugrad.autograd.forward_sweep import forward_sweep
from gpugrad.autograd.implementation import all_ops
from gpugrad.backends import backend_of
from gpugrad.testing import assert_close, gradcheck
from gpugrad.tools.observing import Tool

SHARED = {"repeat": {1}}  # inputs that all examples must share: the shape depends on their values

MAPPED = [case for case in CASES if case.op not in SHAPED_BY_VALUES]


def sample_subset(found, library):
    """Return all samples for NumPy, and a few for other libraries, which run the same rules."""
    found = list(found)
    return found if library.name == "numpy" else found[:: -(-len(found) // 6) or 1]


class Batch:
    """A sample's inputs for a batch of examples, arranged along one or more axes.

    sizes: the lengths of the axes of examples.
    over: for each input, whether it differs along each of these axes.
    """

    def __init__(self, case, sample, library, dtype, sizes, over, recorded=True):
        self.case, self.sample, self.library = case, sample, library
        self.sizes, self.over = sizes, over
        self.static = {name: library.raw(value) for name, value in sample.static.items()}
        draws = [sample.arrays(dtype, i) for i in range(int(np.prod(sizes)))]
        self.inputs = []
        for i, (x, along) in enumerate(zip(draws[0], over, strict=True)):
            if isinstance(x, np.ndarray):
                lengths = [n for n, b in zip(sizes, along, strict=True) if b]
                some = [draw[i] for draw in draws[: int(np.prod(lengths))]]
                requires_grad = recorded and case.differentiable and x.dtype.kind in "fc"
                x = np.stack(some).reshape((*lengths, *x.shape))
                x = library.tensor(x, sample.inputs[i].layout, requires_grad=requires_grad)
            self.inputs.append(x)
        self.leaves = [x for x in self.inputs if getattr(x, "requires_grad", False)]

    def by_loop(self):
        """Call the op for each example; return the stacked results."""
        results = []
        for index in np.ndindex(*self.sizes):
            inputs = [
                x[(*[k for k, b in zip(index, along, strict=True) if b], ...)] if any(along) else x
                for x, along in zip(self.inputs, self.over, strict=True)
            ]
            results.append(self._call(*inputs))
        columns = zip(*results, strict=True)
        return [gg.reshape(gg.stack(ys), (*self.sizes, *ys[0].shape)) for ys in columns]

    def by_vmap(self):
        """Return the same from one call with batched tensors."""
        call = self._call
        for level in zip(*(reversed(along) for along in self.over), strict=True):
            call = gg.vmap(call, in_axes=tuple([0 if differs else None for differs in level]))
        return call(*self.inputs)

    def _call(self, *inputs):
        with quiet():
            return several(self.case(inputs, self.static))

    def gradients(self, results):
        rng = np.random.default_rng(0)
        cotangents = [random_like(self.library, y, rng) for y in results]
        pairs = [(y, g) for y, g in zip(results, cotangents, strict=True) if y.requires_grad]
        if not pairs or not self.leaves:
            return []
        outputs, cotangents = map(list, zip(*pairs, strict=True))
        return grad(outputs, self.leaves, cotangents, materialize_grads=True)

    def _precision(self, values):
        """The dtype whose precision the values have."""
        if self.sample.mixed and self.library.name == "cupy" and values.dtype == "float64":
            return "float32"  # cuBLAS adds a batch's float32 products in another order
        return values.dtype.name

    def check(self):
        with quiet():
            expected, results = self.by_loop(), self.by_vmap()
            gradients = self.gradients(results), self.gradients(expected)
        assert [y.requires_grad for y in results] == [y.requires_grad for y in expected]
        for factor, pairs in (1, (results, expected)), (10, gradients):
            for pair in zip(*pairs, strict=True):
                y, e = map(self.library.values, pair)
                assert y.dtype == e.dtype, f"{y.dtype}, by a loop {e.dtype}"
                near = factor * NEAR.get(self._precision(y), 0)
                self.case.assert_close(y, e, rtol=near, atol=near)


def choices_of_inputs(case, sample, depth):
    """Yield choices of the inputs that differ between examples: all of them, then each alone.

    With a depth of 2 there is one choice, in which inputs differ along both axes or one of them.
    """
    shared = SHARED.get(case.op, set())
    arrays = [i for i, x in enumerate(sample.inputs) if hasattr(x, "shape") and i not in shared]
    n = len(sample.inputs)
    if depth == 2:
        kinds = (True, True), (False, True), (True, False)
        nested = {i: kinds[k % 3] for k, i in enumerate(arrays)}
        yield [nested.get(i, (False, False)) for i in range(n)]
        return
    for chosen in [arrays] * bool(arrays) + [[i] for i in arrays] * (len(arrays) > 1):
        yield [(i in chosen,) for i in range(n)]


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.op)
def test_a_batch_equals_the_loop(case, library):
    kinds = [("float64", (2, 3)), ("complex128", (3,))]
    if library.name == "numpy":
        kinds = [("float64", (3,)), ("float64", (2, 3)), ("complex128", (2, 3))]
    batches = [
        (dtype, sizes, sample, over)
        for dtype, sizes in kinds
        for sample in sample_subset(samples(case, library, dtype), library)
        for over in choices_of_inputs(case, sample, len(sizes))
    ]
    for (dtype, sizes, sample, over), checked in every(batches):
        with checked:
            Batch(case, sample, library, dtype, sizes, over).check()


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.op)
def test_without_gradients(case, library):
    for sample, checked in every([*samples(case, library, "float32")][:3]):
        over = next(choices_of_inputs(case, sample, 1), None)
        if over:
            with checked:
                Batch(case, sample, library, "float32", (3,), over, recorded=False).check()


def inner_product(library, xs, ys):
    """Return the real inner product of tensors, and the scale of its rounding errors."""
    pairs = [map(library.values, p) for p in zip(xs, ys, strict=True) if p[1] is not None]
    products = np.concatenate([np.zeros(0), *((x.conj() * y).real.ravel() for x, y in pairs)])
    return products.sum(), np.abs(products).sum()


def tangents_of(call, tangents, **options):
    """Return the results' tangents as tensors, given the leaves' tangents; None means 0."""
    given = {x.node: t for x, t in zip(call.leaves, tangents, strict=True) if t is not None}
    if not options.get("create_graph"):
        given = {node: t.array for node, t in given.items()}
    with quiet():
        nodes = [y.node for y in call.recorded]
        found = forward_sweep(given, nodes, retain_graph=True, **{"create_graph": False} | options)
    return [
        t if t is None or isinstance(t, gg.Tensor)
        else gg.asarray(backend_of[type(y.array)].asarray(t))  # NumPy's may be scalars
        for y, t in ((y, found.get(y.node)) for y in call.recorded)
    ]  # fmt: skip


@pytest.mark.slow
@each_case(differentiable=True)
def test_forward_and_backward_agree(case, library):
    of = {dtype: sample_subset(samples(case, library, dtype), library) for dtype in DOUBLE}
    for (dtype, sample), checked in every([(name, s) for name in DOUBLE for s in of[name]]):
        with checked:
            call = Call(case, sample, library, dtype)
            if call.recorded:
                check_dot_product(case, call, library)


def check_dot_product(case, call, library):
    tangents = [random_like(library, x, (i, 1)) for i, x in enumerate(call.leaves)]
    cotangents = call.cotangents()
    gradients = call.gradients(cotangents, retain_graph=True, materialize_grads=True)
    alone = [[t if t is one else None for t in tangents] for one in tangents]
    for chosen in [tangents, *(alone if len(tangents) > 1 else [])]:
        out = tangents_of(call, chosen)
        for y, t in zip(call.recorded, out, strict=True):
            if t is not None:
                assert (t.shape, t.dtype) == (y.shape, y.dtype)
        forward, scale = inner_product(library, cotangents, out)
        backward, scale_backward = inner_product(library, gradients, chosen)
        if np.isfinite(backward):
            names = [library.dtype(x.dtype) for x in [*call.leaves, *call.recorded]]
            precision = max(NEAR[name] for name in names)
            assert_close(forward, backward, atol=10 * precision * max(scale, scale_backward, 1))
        for a, b in zip(out, tangents_of(call, chosen, create_graph=True), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                case.assert_close(library.values(a), library.values(b), rtol=1e-6)


def test_every_differentiable_op_has_a_rule_for_a_batch():
    # By op, not by name: another test may have made an op with the same name.
    ours = [op for op in all_ops() if (op.forward.__module__ or "").startswith("gpugrad.")]
    assert len(ours) > 100
    without = [op for op in ours if op.differentiable and not op.elementwise and not op.batching]
    # The transforms' own ops are only recorded, never called with batched tensors, and SciPy
    # solves one equation at a time.
    others = "gpugrad.transforms.", "gpugrad.scipy."
    names = {op.name for op in without if not op.forward.__module__.startswith(others)}
    assert names <= SHAPED_BY_VALUES


@contextmanager
def shapes_of_calls(op):
    """Provide a list that collects the shapes of the inputs at each call of an op."""
    shapes = []

    class RecordShapes(Tool):
        def before(self, event):
            if event.op is op and event.phase == "forward":
                shapes.append(tuple([x.shape for x in event.inputs if hasattr(x, "shape")]))

    with RecordShapes():
        yield shapes


# Called once for each example if the array that is searched differs, since that must be 1-D, or
# if the weights of a recurrent layer differ.
ONE_BY_ONE = {"searchsorted", "isin", "rnn", "lstm", "gru"}


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.op)
def test_a_batch_is_one_call_and_may_be_empty(case):
    op, library = getattr(case.function, "op", None), libraries()[0]
    sample = next(samples(case, library))
    over = next(choices_of_inputs(case, sample, 1), None)
    if over is None or getattr(op, "name", case.op) in ONE_BY_ONE:
        return
    if op:
        batch = Batch(case, sample, library, "float64", (3,), over, recorded=False)
        batch.by_loop()
        with shapes_of_calls(op) as shapes:
            batch.by_vmap()
        assert len(shapes) <= 1
    call, inputs = Call(case, sample, library), []
    with entered(0) as level, quiet():
        for x, (differs,) in zip(call.tensors, over, strict=True):
            if differs:
                none = library.array(np.zeros((0, *x.shape), library.dtype(x.dtype)))
                none = gg.asarray(none, requires_grad=x.requires_grad)
                x = batched(none, level)
            inputs.append(x)
        results = [lifted(y, [level]).payload for y in several(case(inputs, call.static))]
        for y, one in zip(results, call.outputs, strict=True):
            assert (y.shape, y.dtype) == ((0, *one.shape), one.dtype)
            if y.requires_grad:
                gg.sum(gg.real(y)).backward(retain_graph=True)


def test_shared_weights_make_one_product():
    w, b = gg.ones((2, 3)), gg.ones(2)
    rows, vectors, matrices = gg.ones((5, 4, 3)), gg.ones((5, 3)), gg.ones((5, 3, 4))
    with shapes_of_calls(gg.linear.op) as shapes:
        gg.vmap(lambda x: gg.linear(x, w, b))(vectors)
        gg.vmap(lambda x: gg.linear(x, w, b))(rows)
        gg.vmap(lambda x, b: gg.linear(x, w, b))(rows, gg.ones((5, 2)))
    assert shapes == [((5, 3), (2, 3), (2,)), ((20, 3), (2, 3), (2,)), ((20, 3), (2, 3))]
    with shapes_of_calls(gg.matmul.op) as shapes:
        gg.vmap(lambda x: x @ w.T)(rows)
        gg.vmap(lambda x: w @ x)(vectors)
        gg.vmap(lambda x: w @ x)(matrices)
        gg.vmap(lambda x: b @ x)(gg.ones((5, 2, 3)))
    assert shapes == [((20, 3), (3, 2)), ((5, 3), (3, 2)), ((2, 3), (3, 20)), ((2,), (2, 15))]


# Programs that do more with tensors inside vmap than call ops


@pytest.mark.parametrize("write", [lambda p, r: p.__setitem__(..., r), lambda p, r: p.__iadd__(r)])
def test_a_leaf_cannot_become_a_batch(write):
    p = gg.zeros(2, dtype=gg.float64, requires_grad=True)

    def function(r):
        with gg.no_grad():
            write(p, r)
        return r

    with pytest.raises(ValueError, match="differs between vmap's examples"):
        gg.vmap(function)(gg.tensor(np.arange(6.0).reshape(3, 2)))


@pytest.mark.parametrize("lead", [(4,), (2, 3), (1,), (0,)])
@pytest.mark.parametrize("m, k, n", [(1, 3, 2), (2, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_a_repeated_matrix_gives_the_same_products(lead, m, k, n):
    draw = np.random.default_rng(0).standard_normal
    x1 = draw((*lead, m, k))
    for x2 in draw((k, n)), draw((n, k)).T:
        repeated = np.broadcast_to(x2, (*lead, k, n))
        found = gg.matmul(gg.asarray(x1), gg.asarray(repeated)).numpy()
        np.testing.assert_allclose(found, x1 @ repeated.copy(), rtol=1e-12)


@pytest.mark.parametrize("key", [
    (slice(None), (0,)), (slice(None), (0, 2)), (..., [-1]), (slice(1, 3), np.array([2, 0, 2])),
    ((0, 1, 1), (2, 2, 2)), (None, slice(None), (1,)), np.arange(9).reshape(3, 3) % 4 == 0,
])  # fmt: skip
def test_hessians_of_what_an_index_takes(key):
    """A tuple in a key is a list of indices."""
    a, p = np.arange(9.0).reshape(3, 3), np.array([2.0, 1.0, 3.0])

    def f(p):
        return ((gg.asarray(a) * p)[key] ** 3).sum()

    taken = np.bincount(np.arange(9).reshape(3, 3)[key].reshape(-1), minlength=9)
    expected = np.diag((taken.reshape(3, 3) * 6 * a**3 * p).sum(axis=0))
    for given in gg.tensor(p), p:
        np.testing.assert_allclose(gg.hessian(f)(given).numpy(), expected)


@pytest.mark.parametrize("shape, key", [
    ((3, 2), lambda i: i), ((2, 3), lambda i: (slice(None), i)), ((3, 2), lambda i: (i, slice(2))),
])  # fmt: skip
def test_values_are_added_at_an_index_of_any_kind(shape, key):
    """A repeated index adds up whether it is an array, a tensor or a list, in `vmap` too."""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 3, (5, 4))
    values = rng.standard_normal((5, *np.zeros(shape)[key(indices[0])].shape))

    def add(values, i):
        return gg.scatter_add(values, shape, key(i))

    def expected(values, indices):
        out = np.zeros((5, *shape))
        for i in range(5):
            np.add.at(out[i], key(indices[i]), values[i])
        return out

    for kind in np.asarray, gg.asarray, np.ndarray.tolist:
        found = add(values[0], kind(indices[0]))
        np.testing.assert_allclose(found.numpy(), expected(values, indices)[0])
    for in_axes in (0, 0), (None, 0), (0, None):
        v, i = (a[0] if n is None else a for a, n in zip((values, indices), in_axes, strict=True))
        found = gg.vmap(add, in_axes=in_axes)(v, i)
        given = np.broadcast_to(v, values.shape), np.broadcast_to(i, indices.shape)
        np.testing.assert_allclose(found.numpy(), expected(*given))
    x, i = gg.tensor(values[0], requires_grad=True), gg.tensor(indices)
    gradcheck(lambda x: gg.vmap(add, in_axes=(None, 0))(x, i), x)
