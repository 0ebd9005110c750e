"""Dropout: its random bits, which depend on a key alone, and which call takes which key."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends import backend_of, philox
from gpugrad.nn import functional
from gpugrad.random import Generator

# From kat_vectors in Random123, by Philox's authors: a counter, a key, and the resulting words.
KNOWN = [
    ("00" * 32, "00" * 16, "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    ("ff" * 32, "ff" * 16, "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
    (
        "082efa98ec4e6c89 a4093822299f31d0 13198a2e03707344 243f6a8885a308d3",
        "be5466cf34e90c6c 452821e638d01377",
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]


@pytest.mark.parametrize("counter, key, words", KNOWN)
def test_the_generator_is_philox(counter, key, words):
    counter, key = (int(x.replace(" ", ""), 16) for x in (counter, key))
    source = np.random.Philox(counter=(counter - 1) % 2**256, key=key)  # increments before use
    assert [f"{word:016x}" for word in source.random_raw(4)] == words.split()


def kept_mask(n, p=0.5, key=(5, 7)):
    return philox.kept((n,), p, key)


class TestMask:
    @pytest.mark.parametrize("p", [0.1, 0.5, 0.999, 1e-4])
    def test_share_of_kept_elements(self, p):
        n, keys = 100_000, 20
        shares = [kept_mask(n, p, (3, number)).mean() for number in range(keys)]
        assert abs(np.mean(shares) - (1 - p)) < 5 * (p * (1 - p) / (n * keys)) ** 0.5
        spread = np.std(shares) / (p * (1 - p) / n) ** 0.5
        assert 0.4 < spread < 1.8

    def test_probability_to_32_bits_over_many_keys(self):
        for p in 1e-6, 1e-5, 1 / 3:
            limits = [philox.limit(p, (99, number)) for number in range(20_000)]
            assert max(limits) - min(limits) == 1
            assert abs(np.mean(limits) / 2**16 - p) < 2e-9
        assert {philox.limit(0.75, (99, number)) for number in range(100)} == {0xC000}

    def test_probabilities_0_and_1(self):
        for number in range(50):
            key = 2**64 - 1, number
            assert (philox.limit(0, key), philox.limit(1, key)) == (0, 2**16)
        assert kept_mask(1000, 0).all()
        assert not kept_mask(1000, 1).any()

    def test_masks_of_different_keys_are_unrelated(self):
        n = 200_000
        first = kept_mask(n, key=(5, 7))
        for key in ((5, 8), (6, 7), (5, 6), (7, 5), (2**64 - 5, 7), (5, 7 + 2**63)):
            agree = (first == kept_mask(n, key=key)).mean()
            assert abs(agree - 0.5) < 5 * 0.5 / n**0.5, key

    @pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
    def test_invalid_probability(self, p):
        with pytest.raises(ValueError, match="dropout: the probability p must be from 0 to 1, not"):
            gg.dropout(gg.ones(3), p=p, key=(0, 0))

    def test_invalid_key(self):
        message = r"dropout: key must be two ints from 0 to 2\*\*64"
        for key in ((-1, 0), (0, 2**64)):
            with pytest.raises(ValueError, match=message):
                gg.dropout(gg.ones(3), p=0.5, key=key)


class TestOp:
    def test_probabilities_of_other_types_do_not_widen(self):
        for p in (np.float64(0.5), np.float32(0.5), 0, 1):
            assert gg.dropout(gg.ones(3), p=p, key=(5, 7)).dtype == gg.float32

    def test_nothing_is_kept(self, library):
        x = library.tensor(np.ones(1000), requires_grad=True)
        y = functional.dropout(x, 0.5)
        assert all(type(value) not in backend_of for value in y.node.saved)

    def test_dropped_elements_have_no_effect(self, library):
        kept = kept_mask(9)
        values = np.where(kept, 1.0, [np.nan, np.inf, -np.inf] * 3)
        x = library.tensor(values, requires_grad=True)
        y = gg.dropout(x, p=0.5, key=(5, 7))
        np.testing.assert_array_equal(library.values(y), 2.0 * kept)
        g = library.tensor(np.where(kept, 1.0, np.nan))
        y.backward(g, retain_graph=True)
        np.testing.assert_array_equal(library.values(x.grad), 2.0 * kept)
        # The slope is infinite at an element that is dropped.
        z = library.tensor(np.where(kept, 1.0, 0.0), requires_grad=True)
        gg.dropout(gg.sqrt(z), p=0.5, key=(5, 7)).sum().backward()
        np.testing.assert_array_equal(library.values(z.grad), 1.0 * kept)


class TestKeys:
    def test_differ_between_seeds(self):
        words = {Generator(seed).key()[0] for seed in [*range(50), None, None]}
        assert len(words) == 52

    def test_do_not_depend_on_other_numbers(self):
        source = Generator(3)
        source.uniform(10)
        assert source.key() == Generator(3).key()
        other = Generator(3)
        other.key()
        assert other.uniform(10).tolist() == Generator(3).uniform(10).tolist()

    def test_threads_take_different_keys(self):
        source, start = Generator(1), threading.Barrier(8)

        def work(_):
            start.wait()
            return [source.key() for _ in range(2000)]

        with ThreadPoolExecutor(8) as pool:
            assert len({key for keys in pool.map(work, range(8)) for key in keys}) == 8 * 2000

    def test_threads_that_make_the_default_generator_get_one(self, monkeypatch):
        for _ in range(20):
            monkeypatch.setattr(gg.random, "_generators", {})
            start = threading.Barrier(8)

            def work(_, start=start):
                start.wait()
                return gg.random.default_generator().key()

            with ThreadPoolExecutor(8) as pool:
                assert len(set(pool.map(work, range(8)))) == 8


class TestLayer:
    def test_all_libraries_drop_the_same_elements(self, library):
        layer = nn.Dropout(0.3, generator=Generator(1))
        y = layer(library.tensor(np.ones((40, 50), "float32")))
        mask = philox.kept((40, 50), 0.3, Generator(1).key())
        np.testing.assert_array_equal(library.values(y) != 0, mask)

    @pytest.mark.parametrize("own", [False, True])
    def test_checkpoint_drops_the_same_again(self, own):
        generator = Generator(3) if own else None

        def f(x):
            y = functional.dropout(x, 0.5, generator=generator)
            return y + gg.checkpoint(lambda y: functional.dropout(y, 0.5, generator=generator), y)

        x = gg.ones(1000, requires_grad=True)
        y = gg.checkpoint(f, x)
        after = (generator or gg.random.default_generator()).get_state()
        functional.dropout(x, 0.5, generator=generator)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
        now = (generator or gg.random.default_generator()).get_state()
        assert now[1][1] == after[1][1] + 1


class TestExamples:
    def test_a_layer_drops_different_elements(self):
        generator = Generator(1)
        drop = lambda x: functional.dropout(x, 0.5, generator=generator)  # noqa: E731
        mask = philox.kept((3, 4, 50), 0.5, Generator(1).key())
        nested = gg.vmap(gg.vmap(drop))(gg.ones((3, 4, 50)))
        np.testing.assert_array_equal(nested.numpy() != 0, mask)
        shared = gg.vmap(lambda i: gg.vmap(lambda j: drop(gg.ones(50)) + 0 * (i + j))(gg.ones(4)))
        rows = shared(gg.ones(3)).numpy().reshape(12, 50)
        assert len(np.unique(rows, axis=0)) == 12
        outer = gg.vmap(lambda x: gg.vmap(lambda j: drop(x) + 0 * j)(gg.ones(4)))(gg.ones((3, 50)))
        assert len(np.unique(outer.numpy().reshape(12, 50), axis=0)) == 12
