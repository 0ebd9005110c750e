"""Seeded random tensors."""

from itertools import permutations

import numpy as np
import pytest
from samples import error_test

import gpugrad as gg
from gpugrad import random
from gpugrad.random import Generator

DRAWS = {
    "uniform": lambda source: source.uniform((3, 4)),
    "normal": lambda source: source.normal((3, 4)),
    "integers": lambda source: source.integers(0, 100, (3, 4)),
    "permutation": lambda source: source.permutation(12),
    "choice": lambda source: source.choice(100, 9),
    "weighted choice": lambda source: source.choice(5, 4, p=[0.2] * 5, replace=False),
    "shuffle": lambda source: source.shuffle(range(12)),
    "bernoulli": lambda source: source.bernoulli(0.5, 40),
    "multinomial": lambda source: source.multinomial([0.2, 0.3, 0.5], 20, True),
    "key of a mask": lambda s: np.uint64((random.default_generator() if s is random else s).key()),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
class TestSeeds:
    def test_same_seed_same_numbers(self, draw):
        results = []
        for seed in (1, 1, 2):
            gg.manual_seed(seed)
            results.append([draw(random).tolist(), draw(random).tolist()])
        assert results[0] == results[1] != results[2]
        assert results[0][0] != results[0][1]

    def test_generators_are_independent(self, draw):
        default = random.default_generator()
        gg.manual_seed(5)
        expected = draw(default).tolist()
        gg.manual_seed(5)
        mine = Generator(5)
        assert draw(mine).tolist() == expected
        draw(mine)
        draw(Generator())
        assert draw(random).tolist() == draw(Generator(5)).tolist() == expected


@pytest.mark.parametrize("change", [
    lambda source, key: None, lambda source, key: (source,), lambda source, key: (source, None),
    lambda source, key: (source, (1, 2, 3)), lambda source, key: (source, (1.0, 2)),
    lambda source, key: (source, (1 << 64, 2)), lambda source, key: (key, key),
    lambda source, key: ({}, (1, 2)),
    lambda source, key: ({**source, "bit_generator": "MT19937"}, (1, 2)),
    lambda source, key: ({**source, "state": {"state": 1}}, (1, 2)),
    lambda source, key: ({**source, "state": {"state": 1 << 200, "inc": 1}}, (1, 2)),
])  # fmt: skip
def test_another_state_is_refused_and_changes_nothing(change):
    generator = Generator(5)
    before = generator.get_state()
    with pytest.raises(ValueError, match="set_state: the state is not one of a generator on c"):
        generator.set_state(change(*before))
    assert generator.get_state() == before


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_shapes_and_dtypes(name):
    draw, two = getattr(random, name), np.int64(2)
    for shape, expected in (two, (2,)), ((two, 3), (2, 3)), ([two, 3], (2, 3)):
        assert draw(shape).shape == expected
    with pytest.raises(TypeError, match=f"^{name}: shape must be an int or a tuple of ints"):
        draw(2.5)
    for dtype in (gg.int64, gg.bool, gg.complex64):
        with pytest.raises(TypeError, match=f"{name}: dtype must be real floating"):
            draw(3, dtype=dtype)


class TestDistributions:
    @pytest.mark.parametrize("dtype", [gg.float16, gg.float32, gg.float64], ids=str)
    def test_uniform(self, dtype):
        x = Generator(0).uniform(100_000, dtype=dtype).numpy()
        assert 0 <= x.min() <= x.max() < 1
        assert abs(x.astype(float).mean() - 0.5) < 0.01
        y = Generator(0).uniform(100_000, low=-2.0, high=4.0, dtype=dtype).numpy()
        assert -2 <= y.min() < -1.9 < 3.9 < y.max() <= 4

    def test_normal(self):
        x = Generator(0).normal(100_000, mean=3.0, std=2.0).numpy()
        assert (x.mean(), x.std()) == pytest.approx((3, 2), abs=0.05)
        assert gg.random.normal(2, mean=1.0, std=0.0).tolist() == [1, 1]

    def test_integers(self):
        x = Generator(0).integers(-1, 2, 1000)
        assert (x.dtype, {*x.tolist()}) == (gg.int64, {-1, 0, 1})
        assert Generator(0).integers(0, 3, (), dtype=gg.int32).dtype == gg.int32

    def test_permutation(self):
        x = gg.random.permutation(50)
        assert (x.dtype, sorted(x.tolist())) == (gg.int64, [*range(50)])
        for n in 0, np.int64(3):
            assert gg.random.permutation(n).shape == (n,)


def test_seeds():
    for function, seeds in (gg.manual_seed, (-1, 1.5, "a", None, True)), (Generator, (-1,)):
        for seed in seeds:
            with pytest.raises(ValueError, match="int of at least 0"):
                function(seed)
    gg.manual_seed(np.int64(3))
    assert gg.random.normal(3).tolist() == Generator(3).normal(3).tolist()


def assert_shares(found, expected):
    shares = np.bincount(found, minlength=4) / 20_000
    assert abs(shares - expected).max() < 0.02
    assert not shares[np.equal(expected, 0)].any()


def test_a_range_may_be_wider_than_the_numbers_of_its_dtype():
    for dtype, end in ("float16", 6e4), ("float32", 3e38), ("float64", 1.5e308):
        found = random.uniform(1000, low=-end, high=end, dtype=dtype).numpy() / end
        assert found.dtype == dtype
        assert -1 <= found.min() < -0.9 < 0.9 < found.max() <= 1


class TestChoices:
    def test_shuffle_permutes_slices_of_a_new_tensor(self):
        before = np.arange(12.0).reshape(3, 4)
        x = gg.tensor(before, requires_grad=True)
        y = random.shuffle(x, axis=1)
        assert x.tolist() == before.tolist() != y.tolist()
        assert (sorted(y[0].tolist()), (y[1] - y[0]).tolist()) == ([0, 1, 2, 3], [4.0] * 4)
        (y * y.detach()).sum().backward()
        assert x.grad.tolist() == x.tolist()

    @pytest.mark.parametrize("p", [None, [0.1, 0.2, 0.3, 0.4]])
    def test_choice_with_replacement(self, p):
        found = random.choice(4, (100, 200), p=p)
        assert found.shape == (100, 200)
        assert_shares(found.numpy().ravel(), p or [0.25] * 4)

    def test_choice_without_replacement(self):
        names = gg.tensor([[10, 11], [20, 21], [30, 31]])
        assert sorted(random.choice(names, 3, replace=False).tolist()) == names.tolist()
        assert random.choice(names, (2, 1), axis=1, replace=False).shape == (3, 2, 1)
        assert len({*random.choice(3, 2, replace=False).tolist()}) == 2
        assert {*random.choice(3, 2, replace=False, p=[1.0, 0.0, 1.0]).tolist()} == {0, 2}
        assert random.choice([7], ()).item() == 7
        assert sorted(random.choice(np.int64(3), 3, replace=False).tolist()) == [0, 1, 2]

    def test_bernoulli(self):
        p = gg.tensor([0.0, 0.3, 1.0], dtype=gg.float64, requires_grad=True)
        found = gg.vmap(lambda _: random.bernoulli(p))(gg.zeros(10_000))
        assert (found.dtype, found.requires_grad) == (gg.float64, False)
        assert abs(found.numpy().mean(axis=0) - p.detach().numpy()).max() < 0.02
        assert random.bernoulli(0.5, (2, 3)).dtype == gg.float32
        assert random.bernoulli(0.5, 100, dtype=gg.bool).dtype == gg.bool

    def test_multinomial_with_replacement(self):
        weights = np.array([[0.0, 1.0, 3.0, 0.0], [5.0, 0.0, 0.0, 5.0]])
        both = random.multinomial(weights, 20_000, replacement=True).numpy()
        one = random.multinomial(weights[0], 20_000, replacement=True).numpy()
        for found, expected in zip([*both, one], [*weights, weights[0]], strict=True):
            assert_shares(found, expected / expected.sum())

    def test_multinomial_without_replacement_draws_one_after_the_other(self):
        p = np.array([0.6, 0.3, 0.1])
        pairs = random.multinomial(np.tile(p, (20_000, 1)), 2).numpy()
        for first, second in permutations(range(3), 2):
            share = np.mean((pairs == (first, second)).all(axis=1))
            assert abs(share - p[first] * p[second] / (1 - p[first])) < 0.02
        assert random.multinomial([0.0, 2.0, 0.0, 1.0], 2).tolist() in ([1, 3], [3, 1])

    def test_each_example_has_its_own(self):
        x = gg.zeros((20, 6)) + gg.arange(6)
        for draw in random.shuffle, lambda x: random.choice(x, 6), lambda x: x[random.choice(6, 6)]:
            assert len({*map(tuple, gg.vmap(draw)(x).tolist())}) > 10


test_errors = error_test([
    (lambda: random.choice(3, 4, replace=False), ValueError, r"^choice: cannot draw 4 of 3"),
    (lambda: random.choice(0, 1), ValueError, r"^choice: cannot draw 1 of 0$"),
    (lambda: random.choice(3, 1, p=[1.0]), ValueError, r"p must have the shape \(3,\)"),
    (lambda: random.choice(np.int64(-1)), ValueError, r"^choice: a must be an int of at least"),
    (lambda: random.choice(-1), ValueError, r"^choice: a must be an int of at least 0"),
    (lambda: random.shuffle(gg.ones(3), 1), IndexError, r"^shuffle: axis 1 is out of range"),
    (lambda: random.bernoulli(1.5), ValueError, r"^bernoulli: p must be from 0 to 1"),
    (lambda: random.bernoulli([1, 0]), TypeError, r"^bernoulli: p must be real floating"),
    (lambda: random.bernoulli(0.5j), TypeError, r"^bernoulli: p must be real floating"),
    (lambda: random.bernoulli(gg.full(3, 0.5), ()), ValueError, r"broadcast_to: .* \(3,\)"),
    (lambda: random.integers(0, 2.9), TypeError, "'float' object"),
    (lambda: random.integers(5, (3,)), TypeError, r"^integers: .*; write .* integers\(0, 10, \("),
    (lambda: random.multinomial([1.0], 2), ValueError, r"^multinomial: cannot draw 2 of 1"),
    (lambda: random.multinomial(np.ones((1, 1, 1)), 1), ValueError, r"n,. or .rows, n.,"),
    (lambda: random.normal(2, std=-1.0), ValueError, r"^normal: std must be .* 0, not -1\.0"),
    (lambda: random.normal((2, -1)), ValueError, "^normal: negative dimensions"),
    *((lambda low=low: random.uniform(low=low), ValueError, "^uniform: low must be <= high")
      for low in (2.0, float("nan"), float("-inf"))),
    (lambda: random.integers(3, 3), ValueError, r"integers: high must be above low, .* 3\)"),
    (lambda: gg.grad(lambda std: random.normal(2, std=std).sum())(1.0), RuntimeError, "lost"),
    (lambda: random.normal(3, mean=np.ones(3), std=2.0), TypeError, "0-dimensional|-1 arrays"),
    *((lambda n=n: random.permutation(n), ValueError, "^permutation: n must be an int of at l")
      for n in (2.5, [1, 2], np.arange(3), -1)),
])  # fmt: skip
