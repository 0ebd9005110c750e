"""Dropout: its random bits, which depend on a key alone, and which call takes which key."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends import backend_of, philox
from gpugrad.nn import functional
from gpugrad.random import Generator


def test_probability_to_32_bits_over_many_keys():
    """The table of ops compares masks with those of an independent formula, bit by bit."""
    for p in 1e-6, 1e-5, 1 / 3:
        limits = [philox.limit(p, (99, number)) for number in range(20_000)]
        assert max(limits) - min(limits) == 1
        assert abs(np.mean(limits) / 2**16 - p) < 2e-9
    for p in 0, 0.75, 1:
        assert {philox.limit(p, (2**64 - 1, n)) for n in range(100)} == {0x10000 * p}


KEY = r"dropout: key must be two ints from 0 to 2\*\*64"
PROBABILITY = "dropout: the probability p must be from 0 to 1, not"


@pytest.mark.parametrize("p, key, message", [
    *((p, (0, 0), PROBABILITY) for p in (-0.1, 1.1, float("nan"))), (0.5, (-1, 0), KEY),
    (0.5, (0, 2**64), KEY),
])  # fmt: skip
def test_errors(p, key, message):
    with pytest.raises(ValueError, match=message):
        gg.dropout(gg.ones(3), p=p, key=key)


class TestOp:
    def test_probabilities_of_other_types_do_not_widen(self):
        for p in (np.float64(0.5), np.float32(0.5), 0, 1):
            assert gg.dropout(gg.ones(3), p=p, key=(5, 7)).dtype == gg.float32

    def test_nothing_is_kept(self, library):
        y = functional.dropout(library.tensor(np.ones(1000), requires_grad=True), 0.5)
        assert all(type(value) not in backend_of for value in y.node.saved)

    def test_dropped_elements_have_no_effect(self, library):
        kept = philox.kept((9,), 0.5, (5, 7))
        x = library.tensor(np.where(kept, 1.0, [np.nan, np.inf, -np.inf] * 3), requires_grad=True)
        y = gg.dropout(x, p=0.5, key=(5, 7))
        np.testing.assert_array_equal(library.values(y), 2.0 * kept)
        y.backward(library.tensor(np.where(kept, 1.0, np.nan)), retain_graph=True)
        np.testing.assert_array_equal(library.values(x.grad), 2.0 * kept)
        # The slope is infinite at an element that is dropped.
        z = library.tensor(np.where(kept, 1.0, 0.0), requires_grad=True)
        gg.dropout(gg.sqrt(z), p=0.5, key=(5, 7)).sum().backward()
        np.testing.assert_array_equal(library.values(z.grad), 1.0 * kept)


class TestKeys:
    def test_differ_between_seeds(self):
        assert len({Generator(seed).key()[0] for seed in [*range(50), None, None]}) == 52

    def test_do_not_depend_on_other_numbers(self):
        source, other = Generator(3), Generator(3)
        source.uniform(10)
        assert source.key() == Generator(3).key()
        other.key()
        assert other.uniform(10).tolist() == Generator(3).uniform(10).tolist()

    def test_threads_take_different_keys(self, monkeypatch):
        """Also those that make the default generator, of which there is one."""

        def keys(generator, number):
            def work(start):
                start.wait()
                return [generator().key() for _ in range(number)]

            with ThreadPoolExecutor(8) as pool:
                return {key for keys in pool.map(work, [threading.Barrier(8)] * 8) for key in keys}

        source = Generator(1)
        assert len(keys(lambda: source, 2000)) == 8 * 2000
        for _ in range(20):
            monkeypatch.setattr(gg.random, "_generators", {})
            assert len(keys(gg.random.default_generator, 1)) == 8


class TestLayer:
    def test_all_libraries_drop_the_same_elements(self, library):
        y = nn.Dropout(0.3, generator=Generator(1))(library.tensor(np.ones((40, 50), "float32")))
        mask = philox.kept((40, 50), 0.3, Generator(1).key())
        np.testing.assert_array_equal(library.values(y) != 0, mask)

    @pytest.mark.parametrize("own", [False, True])
    def test_checkpoint_drops_the_same_again(self, own):
        generator = Generator(3) if own else gg.random.default_generator()

        def drop(x):
            return functional.dropout(x, 0.5, generator=generator if own else None)

        x = gg.ones(1000, requires_grad=True)
        y = gg.checkpoint(lambda x: (y := drop(x)) + gg.checkpoint(drop, y), x)
        after = generator.get_state()
        drop(x)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
        assert generator.get_state()[1][1] == after[1][1] + 1

    def test_each_example_drops_different_elements(self):
        drop = partial(functional.dropout, p=0.5, generator=Generator(1))
        mask = philox.kept((3, 4, 50), 0.5, Generator(1).key())
        nested = gg.vmap(gg.vmap(drop))(gg.ones((3, 4, 50)))
        np.testing.assert_array_equal(nested.numpy() != 0, mask)
        shared = gg.vmap(lambda i: gg.vmap(lambda j: drop(gg.ones(50)) + 0 * (i + j))(gg.ones(4)))
        outer = gg.vmap(lambda x: gg.vmap(lambda j: drop(x) + 0 * j)(gg.ones(4)))
        for found in shared(gg.ones(3)), outer(gg.ones((3, 50))):
            assert len(np.unique(found.numpy().reshape(12, 50), axis=0)) == 12
