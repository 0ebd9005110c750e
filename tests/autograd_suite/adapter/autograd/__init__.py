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

    def array(x):
        if not isinstance(x, (float, complex, int, _numpy.generic)) or isinstance(x, bool):
            return x
        return _numpy.asarray(x, dtype=None if isinstance(x, (complex, _numpy.generic)) else float)

    return _gg.tree.map(array, x)


def _tensor(x):
    return x if isinstance(x, _gg.Tensor) else _gg.asarray(_numpy.asarray(x, dtype=float))


def _of_one_argument(transform):
    def operator(fun, argnum=0, *args, **keywords):
        def result(*values, **named):
            argnums = argnum if isinstance(argnum, (tuple, list)) else (argnum,)
            fixed = [_array(v) if i in argnums else v for i, v in enumerate(values)]
            one = len(argnums) == 1

            def of_chosen(chosen):
                full = fixed.copy()
                for i, v in zip(argnums, (chosen,) if one else chosen, strict=True):
                    full[i] = v
                return fun(*full, **named)

            chosen = tuple([fixed[i] for i in argnums])
            return transform(of_chosen, chosen[0] if one else chosen, *args, **keywords)

        return result

    return operator


def _number(x):
    return _gg.reshape(_gg.real(_tensor(x)), ())


grad, value_and_grad, jacobian, hessian, elementwise_grad = (
    _of_one_argument(lambda f, x, of=of, result=result: of(lambda x: result(f(x)))(x))
    for of, result in (
        (_gg.grad, _number), (_gg.value_and_grad, _number), (_gg.jacobian, _tensor),
        (_gg.hessian, _number), (_gg.grad, lambda y: _gg.sum(_gg.real(_tensor(y)))),
    )
)  # fmt: skip


def hessian_vector_product(f):
    return _gg.hvp(lambda x: _number(f(x)))
