"""HIPS autograd's functions, made of gpugrad's; only for its tests and examples."""

import os as _os

import numpy as _numpy

import gpugrad as _gg

tuple, list, dict = tuple, list, dict
# What is not here, such as autograd.wrap_util, is that of the checkout.
if "AUTOGRAD_CHECKOUT" in _os.environ:
    __path__.append(_os.path.join(_os.environ["AUTOGRAD_CHECKOUT"], "autograd"))


def _array(x):
    """NumPy's and Python's numbers as arrays in NumPy's dtype."""
    if isinstance(x, (float, complex, int, _numpy.generic)) and not isinstance(x, bool):
        return _numpy.asarray(x, dtype=None if isinstance(x, (complex, _numpy.generic)) else float)
    if isinstance(x, (tuple, list)):
        return type(x)(map(_array, x))
    return {k: _array(v) for k, v in x.items()} if isinstance(x, dict) else x


def _tensor(x):
    return x if isinstance(x, _gg.Tensor) else _gg.asarray(_numpy.asarray(x, dtype=float))


def _of_one_argument(transform):
    def operator(fun, argnum=0, *args, **keywords):
        def result(*values, **named):
            argnums = argnum if isinstance(argnum, (tuple, list)) else (argnum,)
            fixed = [_array(v) if i in argnums else v for i, v in enumerate(values)]

            def of_chosen(chosen):
                full = fixed.copy()
                for i, v in zip(argnums, chosen if len(argnums) > 1 else (chosen,), strict=True):
                    full[i] = v
                return fun(*full, **named)

            chosen = tuple([fixed[i] for i in argnums])
            return transform(
                of_chosen, chosen if len(argnums) > 1 else chosen[0], *args, **keywords
            )

        return result

    return operator


def _number(x):
    return _gg.reshape(_gg.real(_tensor(x)), ())


@_of_one_argument
def grad(f, x):
    return _gg.grad(lambda x: _number(f(x)))(x)


@_of_one_argument
def value_and_grad(f, x):
    return _gg.value_and_grad(lambda x: _number(f(x)))(x)


@_of_one_argument
def jacobian(f, x):
    return _gg.jacobian(lambda x: _tensor(f(x)))(x)


@_of_one_argument
def hessian(f, x):
    return _gg.hessian(lambda x: _number(f(x)))(x)


@_of_one_argument
def elementwise_grad(f, x):
    return _gg.grad(lambda x: _gg.sum(_gg.real(_tensor(f(x)))))(x)


def hessian_vector_product(f):
    return _gg.hvp(lambda x: _number(f(x)))
