"""CuPy's special functions, carried out by SciPy; those that both have."""

import numpy as np
import scipy.special
from cupy._array import made, ndarray, on_current, unwrapped

__all__ = (
    "bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p cbrt chdtr chdtrc "
    "chdtri cosdg cosm1 cotdg digamma ellipk ellipkm1 entr erf erfc erfcinv erfcx erfinv exp1 "
    "exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri gamma gammainc gammaincc "
    "gammainccinv gammaincinv gammaln gammasgn gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox "
    "inv_boxcox1p j0 j1 k0 k0e k1 k1e kl_div log1p log_ndtr loggamma logit lpmv nbdtr nbdtrc "
    "nbdtri ndtr ndtri pdtr pdtrc pdtri poch polygamma pseudo_huber psi radian rel_entr rgamma "
    "sinc sindg tandg xlog1py xlogy y0 y1 yn zeta zetac"
).split()


def _of_scipy(name):
    function = getattr(scipy.special, name)
    return getattr(function, "__wrapped__", function)


def _through(name, function):
    def call(*args):
        on_current(args)
        values = [unwrapped(x) for x in args]
        return made(lambda: np.asarray(function(*values)))

    call.__name__ = name
    return call


for _name in __all__:
    globals()[_name] = _through(_name, _of_scipy(_name))


def _yn(n, x):
    return np.where(np.asarray(n) < 0, np.nan, _of_scipy("yn")(n, x))


yn = _through("yn", _yn)


def polygamma(n, x):
    if not isinstance(n, ndarray):
        raise AttributeError("'bool' object has no attribute 'astype'", name="astype", obj=n == 0)
    return _through("polygamma", _of_scipy("polygamma"))(n, x)
