import gpugrad.numpy as np


def _leaves(x):
    if isinstance(x, (tuple, list)):
        return [leaf for element in x for leaf in _leaves(element)]
    return [leaf for key in sorted(x) for leaf in _leaves(x[key])] if isinstance(x, dict) else [x]


def _filled(x, leaves):
    if isinstance(x, (tuple, list)):
        return type(x)([_filled(element, leaves) for element in x])
    if isinstance(x, dict):
        return {key: _filled(x[key], leaves) for key in sorted(x)}
    return next(leaves)


def flatten(x):
    shapes = [np.shape(leaf) for leaf in _leaves(x)]

    def unflatten(flat):
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
        pieces = np.split(flat, ends[:-1])
        return _filled(x, map(np.reshape, pieces, shapes))

    return np.concatenate([np.ravel(leaf) for leaf in _leaves(x)]), unflatten


def flatten_func(f, example):
    flat, unflatten = flatten(example)
    return (lambda x: flatten(f(unflatten(x)))[0]), unflatten, flat
