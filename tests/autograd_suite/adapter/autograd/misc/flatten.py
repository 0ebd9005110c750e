import gpugrad.numpy as np
from gpugrad import tree


def flatten(x):
    shapes = [np.shape(leaf) for leaf in tree.leaves(x)]

    def unflatten(flat):
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
        pieces = map(np.reshape, np.split(flat, ends[:-1]), shapes)
        return tree.map(lambda _: next(pieces), x)

    return np.concatenate([np.ravel(leaf) for leaf in tree.leaves(x)]), unflatten


def flatten_func(f, example):
    flat, unflatten = flatten(example)
    return (lambda x: flatten(f(unflatten(x)))[0]), unflatten, flat
