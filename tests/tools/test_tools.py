"""detect_anomaly, memory_report and profile: what they find, and that they change nothing."""

import json
import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from cases import CASES
from libraries import libraries
from numpy.testing import assert_array_equal
from samples import every
from test_ops import Call, quiet, samples

import gpugrad as gg
from gpugrad.autograd import grad, implementation
from gpugrad.transforms import jvp, vmap

HERE = Path(__file__).name

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def line(text, nth=0):
    """Return the number of the line in this file that ends with the comment ``text``."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return [i for i, s in enumerate(lines, 1) if s.endswith(f"# {text}")][nth]


def instrumented():
    """Return the implementations in use that were built while a tool was on."""
    found = [i for op in implementation.all_ops() for i in op.implementations.values()]
    return [i for i in found if i.instruments]


@contextmanager
def all_tools_on():
    with gg.detect_anomaly(), gg.memory_report(), gg.profile():
        yield


def calls(report):
    """The number of calls by op and phase."""
    return {(row.op, row.phase): row.calls for row in report.rows}


def loss_of(x, w):
    first, second = gg.unstack(gg.tanh(x @ w))[:2]
    z = gg.concat([first * second, gg.stack([first, second])[0]])
    q, _ = gg.linalg.qr(w)
    return (gg.softmax(z) * z).sum() + gg.where(w > 0, w, 0).sum() + q.sum()


def weights():
    x, w = map(gg.asarray, np.random.default_rng(0).normal(size=(2, 3, 3)))
    return x, w.requires_grad_()


def leaf(*values, dtype=gg.float32):
    return gg.tensor(values[0] if len(values) == 1 else values, dtype=dtype, requires_grad=True)


def anomaly(function):
    """The error that a function raises under `detect_anomaly`."""
    with gg.detect_anomaly(), pytest.raises(FloatingPointError) as caught:
        function()
    return caught.value


@gg.op
def both(xp, x1, x2):
    return x1 + x2, x1 / (x2 + 1)


total = gg.op(lambda xp, *arrays: sum(arrays))
total.vjp(joint=lambda xp, g, arrays: [g / x for x in arrays])
both.vjp(joint=lambda xp, cotangents, x1, x2: (cotangents[0], cotangents[0] + cotangents[1] / x2))
ROWS = gg.tensor([[1.0, 2.0], [0.0, 3.0]])
HALVES = gg.ones(1000, dtype=gg.float16)
ANOMALIES = [
    (lambda: 1 / gg.tensor(0.0), r"divide: .* has inf, "),
    (lambda: 1 / leaf(0.0), r"divide: .* has inf, "), (lambda: 1 / gg.tensor([1j, 0]), "divide"),
    (lambda: 1 / gg.tensor([1, 0]), "divide"),
    # An infinity in the data does not hide one that the op produces in another element.
    (lambda: 1 / gg.tensor([gg.inf, 0.0]), r"first at \(1,\)"),
    (lambda: (leaf(2.0, 2.0) / leaf(1e-30, 1.0)).sum().backward(), "divide: its gradient by x2"),
    (lambda: total([leaf(1.0), leaf(0.0)]).backward(), r"by arrays\[1\] has"),
    (lambda: both(leaf(1.0, 1.0), leaf(1.0, 0.0))[1].sum().backward(),
     r"both: its gradient by x2 .* at \(1,\)"),
    # A sum over broadcast axes.
    (lambda: ((HALVES + leaf(0.0, dtype=gg.float16)) * 100).backward(HALVES), "by x2 has inf"),
    (lambda: jvp(gg.sqrt, (gg.tensor([0.0, 1.0]),), (gg.ones(2),)),
     "sqrt: the tangent of its result has inf"),
    (lambda: vmap(lambda x: gg.log(x).sum())(ROWS), r"log: .* first at \(1, 0\)"),
    (lambda: vmap(gg.grad(lambda x: gg.sqrt(x).sum()))(ROWS), "sqrt: its gradient"),
]  # fmt: skip


class TestObserving:
    @pytest.mark.parametrize("tool", [gg.detect_anomaly, gg.memory_report, gg.profile])
    def test_everything_is_restored(self, tool):
        loss_of(*weights()).backward()
        assert not instrumented()
        with tool():
            loss_of(*weights()).backward()
            ran = {i.op.name for i in instrumented()}
            assert {"tanh", "matmul", "unstack", "concat", "stack", "linalg.qr", "where"} <= ran
        assert not [*instrumented(), *implementation.instruments]
        with pytest.raises(KeyError), tool():
            raise KeyError
        assert not instrumented()

    def test_graphs_recorded_before_and_after(self):
        x, w = weights()
        (expected,) = grad(loss_of(x, w), w)
        before = loss_of(x, w)
        with all_tools_on():
            assert_array_equal(grad(before, w, retain_graph=True)[0], expected)
            inside = loss_of(x, w)
            assert_array_equal(grad(inside, w, retain_graph=True)[0], expected)
        assert_array_equal(grad(before, w)[0], expected)
        assert_array_equal(grad(inside, w, create_graph=True)[0].detach(), expected)
        with all_tools_on():
            assert_array_equal(grad(inside, w)[0], expected)

    def test_exit_in_another_order(self):
        first, second = gg.profile(), gg.memory_report()
        first.__enter__()
        second.__enter__()
        with pytest.raises(RuntimeError, match="profile: this one is on already"):
            first.__enter__()
        first.__exit__(None, None, None)
        loss = loss_of(*weights())
        assert (loss.requires_grad, second.total > 0, first.rows) == (True, True, [])
        second.__exit__(None, None, None)
        assert not instrumented()

    def test_ops_defined_meanwhile(self):
        x = leaf(1.0, 2.0)
        with gg.profile() as report:

            @gg.op
            def twice(xp, x):
                return x * 2

            twice.vjp(x=lambda xp, g: g * 2)
            twice(x).sum().backward()
            twice.vjp(x=lambda xp, g: g * 3)  # makes its plans anew
            twice(x).sum().backward()
        of_twice = {key: n for key, n in calls(report).items() if key[0].startswith("twice")}
        assert of_twice == {("twice", "forward"): 2, ("twice", "backward"): 2}
        assert x.grad.tolist() == [5, 5]
        twice(x).sum().backward()
        assert x.grad.tolist() == [8, 8]

    def test_threads(self):
        """Tools are switched on and off while other threads compute, and see all threads."""
        x, w = weights()
        (expected,) = grad(loss_of(x, w), w)
        stop = threading.Event()

        def compute(_):
            while not stop.is_set():
                assert_array_equal(grad(loss_of(x, w), w)[0], expected)

        with ThreadPoolExecutor(5) as pool:
            results = pool.map(compute, range(4))
            for _ in range(5):
                with all_tools_on():
                    grad(loss_of(x, w), w)
            stop.set()
            assert [*results] == [None] * 4
        with gg.profile() as report, ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: loss_of(x, w).backward(), range(3)))
        assert {row.calls for row in report.rows if row.op == "tanh"} == {3}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_every_op_under_all_tools(case):
    """Gradients are the same, only non-finite values are anomalies, and nothing is kept alive."""
    library = libraries()[0]
    for sample, checked in every(list(samples(case, library))[:2]):
        with checked:
            under_all_tools(case, sample, library)


def under_all_tools(case, sample, library):
    def gradients():
        call = Call(case, sample, library)
        del call.function  # refers to the call, which is a cycle
        if not (call.recorded and call.leaves):
            return call.outputs
        first = call.gradients(call.cotangents(), create_graph=True, allow_unused=True)
        again = [g for g in first if g is not None and g.requires_grad]
        if not again:
            return [*call.outputs, *first]
        with quiet():
            second = grad(again, call.leaves, list(map(gg.ones_like, again)), allow_unused=True)
        return [*call.outputs, *first, *second]

    def values():
        return [library.values(y) for y in gradients() if y is not None]

    expected = values()
    finite = all(np.isfinite(y).all() for y in expected if y.dtype.kind in "fc")
    with gg.memory_report() as kept, gg.profile(), gg.detect_anomaly():
        try:
            found = values()
        except FloatingPointError:
            assert not finite
            return
    for y, z in zip(found, expected, strict=True):
        assert_array_equal(y, z)
    assert kept.total == 0


class TestAnomaly:
    @pytest.mark.parametrize("function, words", ANOMALIES)
    def test_many(self, function, words):
        assert re.search(words, str(anomaly(function)))

    def test_forward(self, library):
        x = library.tensor(np.asarray([[1.0, 2.0, 0.0], [3.0, 0.0, 4.0]], "float32"))
        text = str(anomaly(lambda: gg.log(x) + 1))  # made here
        assert text.startswith("log: its result has inf in 2 of 6 elements, the first at (0, 2), ")
        made = "`text = str(anomaly(lambda: gg.log(x) + 1))  # made here`"
        assert f"{HERE}:{line('made here')}: {made}" in text
        assert text.endswith(f"given float32 (2, 3) on {x.device}")

    def test_deliberate_infinities(self, library):
        x = library.tensor(np.asarray([1.0, -1.0, 2.0]), requires_grad=True)
        data = library.tensor(np.asarray([np.nan, np.inf, 1.0]))
        with gg.detect_anomaly():
            masked = gg.where(x > 0, x, -gg.inf)
            assert gg.max(masked).item() == 2
            gg.softmax(masked)[1:].sum().backward()
            assert (masked * 2).tolist() == [2, -gg.inf, 4]
            assert gg.clip(x, -gg.inf, gg.inf).tolist() == [1, -1, 2]
            assert np.isnan(gg.sum(data).item())
            gg.where(gg.isfinite(data), data * x, 0).sum().backward()
            (x * 2).backward(data)
            assert jvp(gg.sum, (x,), (x,))[1].item() == vmap(gg.sum)(x[None, :]).item() == 2

    def test_gradients_that_do_not_count(self):
        """Those that are not wanted, and infinite slopes of what `where` discards, in any order."""

        product = gg.op(lambda xp, x1, x2: x1 * x2)
        product.vjp(joint=lambda xp, g, x1, x2: (g * x2, g * x1 / 0.0))
        x = leaf(0.0, 4.0)
        with gg.detect_anomaly():
            assert grad(product(x, gg.ones(2)).sum(), x)[0].tolist() == [1, 1]
            (g,) = grad(gg.where(x > 0, gg.sqrt(x), 0).sum(), x, create_graph=True)
            assert g.tolist() == [0, 0.25]
            (h,) = grad(g.sum(), x)
            assert h.tolist() == [0, -0.03125]

    def test_origin_of_a_nonfinite_input(self):
        x = gg.tensor([1.0, -1.0])

        def f():
            masked = gg.where(x > 0, x, -gg.inf)  # put in here
            return (masked + 1) * 0.0

        text = str(anomaly(f))
        assert text.startswith("multiply: its result has nan in 1 of 2 elements, the first at (1,)")
        assert f"an input has inf, put in by where, in {_shown()}:{line('put in here')}" in text

        def f():
            y = gg.tensor([gg.inf, 0.0]) - 1  # seen here
            return y - y

        seen = f"first seen as subtract got it, in {_shown()}:{line('seen here')}"
        assert seen in str(anomaly(f))

    def test_nan_only(self):
        x = leaf(0.0, 1.0)
        with gg.detect_anomaly(check_inf=False):
            y = gg.log(x)  # infinite here
            with pytest.raises(FloatingPointError, match="multiply: its result has nan") as caught:
                y * x
        made = f"an input has inf, made by log, in {_shown()}:{line('infinite here')}"
        assert made in str(caught.value)

    def test_backward(self, library):
        x = library.tensor(np.asarray([4.0, 0.0, 1.0]), requires_grad=True)

        def f():
            y = gg.sqrt(x)  # forward here
            (3 * y).sum().backward()

        error = anomaly(f)
        text = str(error)
        assert text.startswith("sqrt: its gradient by x has inf in 1 of 3 elements, the first at ")
        place = f"{_shown()}:{line('forward here')}: `y = gg.sqrt(x)  # forward here`"
        assert text.endswith(f"called with float64 (3,), in {place}")
        assert error.__notes__ == ["in backward through sqrt"]
        assert "before the tool was on" in str(anomaly(gg.sqrt(x).sum().backward))

    def test_second_derivatives(self):
        x = leaf(0.0, 1.0)

        def f():
            y = x**1.5  # power here
            (g,) = grad(y.sum(), x, create_graph=True)  # derived here
            g.sum().backward()

        text = str(anomaly(f))
        assert f":{line('derived here')}: " in text
        assert "by the derivative of pow; it was called with float32 (2,), 1.5" in text
        assert text.endswith(f":{line('power here')}: `y = x**1.5  # power here`")

    def test_transposed(self):
        """A VJP that is transposed runs on zeros: nan from 0 times an infinite slope is ignored.

        It is an anomaly only if it is in the result.
        """

        @gg.op
        def last_root(xp, x):
            return xp.sqrt(x[-1:])

        last_root.vjp(x=lambda xp, g, x: xp.concat([0 * x[:-1], 0.5 * g / xp.sqrt(x[-1:])]))
        zero = gg.zeros(2)
        with gg.detect_anomaly():
            assert jvp(last_root, (gg.ones(2),), (gg.ones(2),))[1].tolist() == [0.5]
            assert jvp(last_root, (zero,), (gg.tensor([1.0, 0.0]),))[1].tolist() == [0.0]
            with pytest.raises(FloatingPointError, match="last_root") as caught:
                jvp(last_root, (zero,), (gg.ones(2),))  # called here
        assert f":{line('called here')}: " in str(caught.value)


def _shown():
    path = Path(__file__)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("kind", ["checkpoint", "custom_vjp"])
def test_checkpoint_and_custom_vjp(kind, create_graph):
    """Their nodes do not belong to a call of an op."""

    def root(x):
        return gg.sqrt(x) + 0 * x  # its root

    own = gg.custom_vjp(root)
    own.defvjp(lambda x: (gg.sqrt(x), gg.sqrt(x)), lambda kept, g: (g / (2 * kept),))
    f = own if kind == "custom_vjp" else lambda x: gg.checkpoint(root, x)
    x = leaf(4.0, 9.0)
    with all_tools_on(), gg.memory_report() as report:
        y = f(x)
        assert (report.total, report.of_leaves) == (8 + 8 * (kind == "custom_vjp"), 8)
        y.sum().backward(create_graph=create_graph)
    assert_array_equal(x.grad.detach(), np.asarray([1 / 4, 1 / 6], "float32"))
    x = leaf(0.0, 0.0)
    error = anomaly(lambda: f(x).sum().backward(create_graph=create_graph))  # custom
    where = {"checkpoint": "its root", "custom_vjp": "custom"}[kind]
    assert re.match(r"(sqrt: its gradient by x|root: its gradient by .*) has inf", str(error))
    assert f":{line(where)}: " in str(error)


KEPT = [
    (lambda x, data, index: gg.exp(x), "y", "exp: its result, float64"),
    (lambda x, data, index: gg.einsum("ij,jk,kl", x, data, x), "data", r"its .*float64"),
    (lambda x, data, index: gg.take(x[0, :], index), "index", "take: its indices"),
    (lambda x, data, index: x * data.mT[:, 1:], "data", "multiply: its x2"),
]


class TestOverwritten:
    @pytest.mark.parametrize("create_graph", [False, True])
    @pytest.mark.parametrize("f, changed, words", KEPT)
    def test_in_place(self, library, f, changed, words, create_graph):
        x, data = [library.tensor(np.arange(1.0, 5).reshape(2, 2)) for _ in range(2)]
        index, x = library.tensor(np.array([0, 0])), x.requires_grad_()
        with gg.detect_anomaly():
            y = f(x, data, index)
            grad(y.sum(), x, retain_graph=True)
            written = {"y": y, "data": data, "index": index}[changed]
            written.array[...] = written.array * 2 + 1
            kept = rf"{words}.* on {x.device}, was kept for backward.*{HERE}:\d+: "
            with pytest.raises(RuntimeError, match=kept):
                y.sum().backward(create_graph=create_graph)


class TestMemory:
    def test_known_sizes(self, library):
        x = library.tensor(np.ones((16, 64), "float32"), requires_grad=True)
        # A multiple of 512 bytes, the unit in which CuPy allocates memory.
        with gg.memory_report() as report:
            assert report.total == 0
            y = gg.exp(x)  # exp here
            z = gg.sin(y) * x  # product here
            rows = [(r.op, r.nbytes, r.of_leaves, r.buffers, r.line.number) for r in report.rows]
        # The result of exp, which sin keeps too; the result of sin; and x.
        assert (report.total, report.peak, report.of_leaves) == (3 * 4096, 3 * 4096, 4096)
        assert rows == [
            ("multiply", 8192, 4096, 2, line("product here")),
            ("exp", 4096, 0, 1, line("exp here")),
        ]
        text = str(report)
        assert text.startswith("kept for backward: 0.012 MB, of which leaves' 0.004 MB; at most ")
        assert re.search(r"(?s)multiply.*float32 \(16, 64\).*exp", text)
        z.sum().backward()
        del y, z
        assert (report.total, report.rows, report.peak) == (0, [], 3 * 4096)
        assert "\n" not in str(report)

    def test_memory_of_views_counts_completely_and_once(self):
        x = gg.ones((1000, 10), requires_grad=True)
        y = x + 1
        with gg.memory_report() as report:
            z = gg.sin(y[:1]) + gg.cos(y[1:2])
            assert (z.shape, report.total) == ((1, 10), 40_000)

    @pytest.mark.usefixtures("no_collector")
    def test_keeps_nothing_alive(self):
        x = gg.ones(10, requires_grad=True)
        with gg.memory_report() as report:
            y = gg.exp(x)
            array, z = weakref.ref(y.array), gg.exp(y)
            del y
            assert (array() is None, report.total) == (False, 80)
            del z
            assert (array() is None, report.total) == (True, 0)
            z = gg.exp(x[:2])
            assert (z.shape, report.total, report.peak) == ((2,), 8, 80)

    def test_long_tables(self):
        given = {"gg": gg, "x": gg.ones(10, requires_grad=True)}
        with gg.memory_report() as report:
            kept = [eval(compile("gg.exp(x)", f"{i}.py", "eval"), given) for i in range(40)]
        assert len(report.rows) == len(kept)
        assert str(report).endswith("\n... 10 more")


class TestProfile:
    def test_rows(self, library):
        x = library.tensor(np.ones((10, 100), "float32"), requires_grad=True)
        with gg.profile(sync=True) as report:
            for _ in range(3):
                grad((gg.exp(x) * x).sum(), x)
        rows = report.rows
        expected = dict.fromkeys(product(("exp", "multiply", "sum"), ("forward", "backward")), 3)
        # A rule for each input.
        assert calls(report) == expected | {("multiply", "backward"): 6}
        (nbytes,) = [r.nbytes for r in rows if (r.op, r.phase) == ("multiply", "forward")]
        assert nbytes == 3 * 4000
        assert all(0 < row.own == row.total for row in rows)
        assert report.total == pytest.approx(sum(row.own for row in rows))
        assert 0 < report.total < (elapsed := report.elapsed)
        assert re.match(r"(?s)in ops .*own ms.*multiply", str(report))
        x + 1
        assert (report.elapsed, len(report.rows)) == (elapsed, len(rows))

    def test_nested(self):
        x = gg.ones((50, 50), requires_grad=True)
        with gg.profile() as report:
            grad(gg.matmul(x, x).sum(), x, create_graph=True)
        (outer,) = [r for r in report.rows if (r.op, r.phase) == ("matmul", "backward")]
        assert 0 < outer.own < outer.total
        assert report.total == pytest.approx(sum(row.own for row in report.rows))
        assert sum(row.total for row in report.rows) > report.total

    def test_an_op_within_itself(self):
        @gg.op
        def deep(xp, x, *, depth=3):
            return deep(gg.asarray(x), depth=depth - 1).array if depth else x * 1

        with gg.profile() as report:
            deep(gg.ones(10))
        (row,) = report.rows
        assert (row.calls, row.own) == (4, pytest.approx(row.total))

    def test_errors_in_ops_and_forward_mode(self):
        with gg.profile() as report:
            with pytest.raises(ValueError, match="add"):
                gg.ones(2) + gg.ones(3)
            gg.ones(2) + gg.ones(2)
            jvp(gg.sin, (gg.ones(3),), (gg.ones(3),))
        assert calls(report)["add", "forward"] == 2
        assert ("sin", "tangent") in calls(report)

    def test_trace(self, tmp_path):
        x = gg.ones((4, 4), requires_grad=True)
        with gg.profile() as report:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(gg.exp, x).result()
            grad((x @ x).sum(), x, create_graph=True)  # traced here
        report.save(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        runs, meta = ([event for event in events if event["ph"] == kind] for kind in "XM")
        assert {event["name"] for event in meta} == {"process_name", "thread_name"}
        assert {event["tid"] for event in runs} < {event["tid"] for event in meta}
        assert [len({event[key] for event in runs}) for key in ("pid", "tid")] == [1, 2]
        assert {event["cat"] for event in runs} == {"forward", "backward"}
        assert len(runs) == sum(row.calls for row in report.rows)
        by_name = {event["name"]: event for event in runs[::-1]}  # the first of each
        shapes = {"inputs": ["float32 (4, 4)"] * 2, "results": ["float32 (4, 4)"]}
        expected = shapes | {"line": f"{_shown()}:{line('traced here')}"}
        assert expected.items() <= by_name["matmul"]["args"].items()
        derivative = by_name["matmul backward"]
        within = [r for r in runs if r is not derivative and _is_within(r, derivative)]
        assert {r["name"] for r in within} >= {"matmul", "matrix_transpose"}
        for r, s in combinations(runs, 2):  # any two are disjoint or nested
            if r["tid"] == s["tid"]:
                apart = _end(r) <= s["ts"] + 1e-3 or _end(s) <= r["ts"] + 1e-3
                assert apart or _is_within(r, s) or _is_within(s, r)

    def test_empty(self, tmp_path):
        with gg.profile() as report:
            pass
        assert str(report).startswith("in ops 0.000 ms of ")
        report.save(tmp_path / "trace.json")
        assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 1


def _end(run):
    return run["ts"] + run["dur"]


def _is_within(run, other):
    return other["ts"] <= run["ts"] + 1e-3 and _end(run) <= _end(other) + 1e-3
