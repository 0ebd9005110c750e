"""Special functions, compared to SciPy, and to PyTorch where it has them too."""

import numpy as np
from scipy import special

from .base import A, Case, F, S, Z, beyond, in_layouts, inf, kink, nan, unlike_torch, values
from .draws import between, both_signs, integers, nonzero, normal, positive
from .kinds import integer_inputs, reduction, torch_of_tensors

unit = between(0.1, 0.9)
unit_3 = A(3, draw=unit)
counts, trials, orders = (integers(*ends, "int32") for ends in ((0, 4), (4, 8), (1, 4)))


def _kink(*points, **expected):
    """Return a `kink` at points given as ints or floats."""
    return kink(*([float(x) for x in p] for p in points), **expected)


def _samples(*draws):
    """Return a few elementwise calls, enough since the backends' functions take every shape."""
    shapes = [(2, 3), (3,), (2, 1), (1, 3)]
    numbers = [np.asarray(draw(np.random.default_rng(0), ())).item() for draw in draws]
    some = [
        S(*(A(*shapes[i], draw=draw) for i, draw in enumerate(draws))),
        S(*(A(draw=draw) for draw in draws)),
        S(*(A(0, 3, draw=draw) for draw in draws)),
        in_layouts(S(*(A(2, 3, draw=draw) for draw in draws)))[-1],
    ]
    for i in range(len(draws) if len(draws) > 1 else 0):  # a Python number in each place
        inputs = [A(3, draw=draw) for draw in draws]
        inputs[i] = numbers[i]
        some.append(S(*inputs))
    return some


def _integer_trials(function):
    """Wrap SciPy's function, which warns unless the number of trials has an integer dtype."""
    return lambda k, n, p: function(k, np.asarray(n, "int64"), p)


def _torch_log_softmax(torch, x, axis=None):
    return x - torch.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis, True)


def _case(name, *draws, more=(), slopes=None, torch=None, lacking="", reference=""):
    """Return the case of a function whose arguments are drawn from ``draws``.

    slopes: the gradients at points where differences are useless; tuples for several inputs.
    torch: its name in PyTorch; True if it is the same.
    lacking: the libraries that lack the function, or something that its gradient needs.
    """
    name = f"special.{name}"
    torch = torch_of_tensors(name if torch is True else torch) if torch else None
    points, gradients = (_columns(x) for x in (slopes or {}, (slopes or {}).values()))
    kinks = [_kink(*points, gradients=tuple(gradients))] if slopes else []
    return Case(name, beyond(lacking, *_samples(*draws), *more, *kinks), reference, torch)


def _columns(rows):
    """Return a list for each place of the rows, which may be tuples or single numbers."""
    return [[*x] for x in zip(*[r if isinstance(r, tuple) else (r,) for r in rows], strict=True)]


def _cases(names, *draws, **options):
    return [_case(name, *draws, **options) for name in names.split()]


def _logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    return special.logsumexp(a, axis, b=b, keepdims=keepdims, return_sign=return_sign)


pi, e = np.pi, np.e
log2 = np.log(2.0)

CASES = [
    # The error function and the normal distribution
    _case("erf", normal, slopes={0: 2 / pi**0.5, -inf: 0, inf: 0}, torch=True),
    _case("erfc", normal, slopes={-inf: 0, inf: 0}, torch=True),
    _case("erfcx", normal, more=[S(A(3, draw=between(9.5, 10.5))), S(A(3, draw=between(50, 90)))],
          torch=True),
    _case("erfinv", between(-0.9, 0.9), slopes={-1: inf, 0: pi**0.5 / 2, 1: inf}, torch=True),
    _case("erfcinv", between(0.1, 1.9), slopes={0: -inf, 2: -inf}),
    _case("ndtr", normal, slopes={-inf: 0, 0: (2 * pi) ** -0.5, inf: 0}, torch=True),
    _case("ndtri", unit, slopes={0: inf, 1: inf}, torch=True),
    _case("log_ndtr", normal,
          more=[S(A(3, draw=between(-30, -10))),
                _kink([-40, inf],
                      gradients=([special.erfcx(40 / 2**0.5) ** -1 * (2 / pi) ** 0.5, 0],)),
                _kink([-1e10], gradients=([1e10],), unlike_torch="PyTorch's is inf")], torch=True),
    # Logistic functions, entropies, robust losses
    _case("expit", normal, more=integer_inputs(), slopes={-inf: 0, 0: 0.25, inf: 0}, torch=True),
    _case("logit", unit, slopes={0: inf, 0.5: 4, 1: inf}, torch=True),
    _case("log_expit", normal, slopes={-inf: 1, 0: 0.5, inf: 0, 1e4: 0},
          torch="nn.functional.logsigmoid"),
    _case("entr", unit, slopes={0: inf, 1: -1}, torch=True),
    _case("xlogy", normal, positive,
          more=[
                _kink([0, 0], [0, -1], gradients=([0, 0], [0, 0]),
                      unlike_torch="PyTorch's to y is nan, though any y gives 0"),
                S(F(2, 3), Z(3, low=1))],
          slopes={(0, 2): (log2, 0), (0, inf): (inf, 0), (1, 0): (-inf, inf), (1, -1): (nan, -1)},
          torch=True),
    _case("xlog1py", normal, positive,
          more=[_kink([0], [-1], gradients=([0], [0]), unlike_torch="as of xlogy")],
          slopes={(0, 1): (log2, 0), (1, -1): (-inf, inf)}, torch=True),
    _case("rel_entr", unit, unit, slopes={(0, 0): (1, 0), (0, 1): (-inf, 0), (1, 0): (inf, -inf)}),
    _case("kl_div", unit, unit, slopes={(0, 0): (0, 1), (0, 1): (-inf, 1), (1, 0): (inf, -inf)}),
    _case("huber", unit, both_signs(1.0, 2.0),
          more=[S(A(3, draw=positive), A(3, draw=both_signs(0.1, 0.4)))],
          slopes={(1, -1): (0, -1), (1, 0): (0, 0), (1, 1): (0, 1), (1, 2): (1, 1)}),
    _case("pseudo_huber", positive, normal, slopes={(2, 0): (0, 0)}),
    # Powers and related functions
    _case("exp2", normal, torch=True), _case("exp10", normal),
    _case("cbrt", both_signs(0.5, 2), slopes={0: inf, 8: 1 / 12}),
    _case("exprel", normal, more=[S(values([-10.0, -3.0, -0.1, -1e-3, 0.1, 3.0, 9.0]))],
          slopes={0: 0.5, -inf: 0}),
    _case("boxcox", positive, both_signs(0.1, 2),
          more=[S(A(3, draw=between(3, 5)), A(3, draw=both_signs(2, 3)))],
          slopes={(2, 0): (0.5, log2**2 / 2), (1, 0): (1, 0), (0, 2): (0, 0.25)}),
    _case("boxcox1p", positive, both_signs(0.1, 2),
          slopes={(1, 0): (0.5, log2**2 / 2), (0, 0): (1, 0)}),
    _case("inv_boxcox", positive, between(0.3, 2), more=[S(A(3), A(3, draw=between(-0.02, 0.02)))],
          slopes={(1, 0): (e, -e / 2)}),
    _case("inv_boxcox1p", positive, unit, slopes={(1, 0): (e, -e / 2)}),
    # The gamma function and related functions
    _case("gamma", positive, more=[S(values([-0.5, -1.3, 4.2]))]),
    _case("gammaln", positive, more=[S(values([-0.5, -1.3, 40.0]))],
          slopes={1: -np.euler_gamma, inf: inf}, torch=True),
    _case("loggamma", positive, slopes={-0.5: nan}),
    _case("gammasgn", positive, more=[S(values([-0.5, -1.3]))]),
    _case("rgamma", normal, slopes={0: 1, -1: -1, -2: 2, -3: -6}),
    _case("psi", positive, more=[S(values([-0.5, -1.3, 40.0])), *integer_inputs()], torch=True),
    Case("special.polygamma", [
        *(S(n, A(2, 3, draw=positive)) for n in range(4)),
        *unlike_torch("takes one order", S(A(3, draw=counts), A(2, 3, draw=positive))),
        S(2, A(draw=positive)), S(1, values([-0.5, -1.3])),
    ], special.polygamma, torch=True),
    _case("zeta", between(1.5, 4), positive,
          more=[S(A(2, 3, draw=between(1.1, 1.2))), S(A(3, draw=between(20, 30))),
                S(A(3, draw=between(5, 9)), A(3, draw=between(2, 5)))], slopes={0.5: nan}),
    _case("zetac", between(1.1, 4), slopes={0.5: nan, -2.5: nan}),
    Case("special.multigammaln", [
        *(S(A(2, 3, draw=between(2, 4)), d=d) for d in (1, 2, 4)), S(A(draw=between(2, 4)), d=3),
        S(A(0), d=2),
    ], lambda a, d: special.multigammaln(a, d),
         torch=lambda torch, a, d: torch.special.multigammaln(a, d)),
    _case("betaln", positive, positive, more=[S(A(3, draw=between(50, 90)), A(3, draw=unit))]),
    _case("binom", between(3, 5), between(1, 2)),
    # Incomplete gamma and beta functions, and distributions based on them
    *(
        _case(name, positive, positive,
              more=[S(A(3, draw=between(10, 20)), A(3, draw=between(10, 20))),
                    S(A(3, draw=unit), A(3, draw=between(5, 9)))],
              slopes={(1, 0): (0, slope), (2, 0): (0, 0), (2, inf): (0, 0)})
        for name, slope in (("gammainc", 1), ("gammaincc", -1))
    ),
    *_cases("beta poch chdtr chdtrc", positive, positive),
    *_cases("gammaincinv gammainccinv chdtri stdtrit", positive, unit),
    *_cases("gdtr gdtrc fdtr fdtrc", positive, positive, positive),
    *_cases("betaincinv fdtri", positive, positive, unit),
    *(
        _case(name, positive, positive, unit,
              more=[S(A(3, draw=between(10, 20)), A(3, draw=between(10, 20)), A(3, draw=unit))],
              slopes={(1, 1, 0): (0, 0, slope), (1, 1, 1): (0, 0, slope)})
        for name, slope in (("betainc", 1), ("betaincc", -1))
    ),
    _case("stdtr", positive, normal, more=[S(A(3, draw=between(10, 90)), A(3))]),
    *(
        _case(name, *(counts, trials, unit), more=[S(A(3, draw=between(1.2, 1.8)), 4, unit_3)],
              reference=_integer_trials(getattr(special, name)))
        for name in ("bdtr", "bdtrc", "bdtri")
    ),
    *_cases("nbdtr nbdtrc nbdtri", counts, trials, unit),
    *(
        _case(name, counts, positive, more=[S(A(3, draw=between(1.2, 1.8)), A(3, draw=positive))])
        for name in ("pdtr", "pdtrc")
    ),
    _case("pdtri", counts, unit),
    # Bessel functions
    _case("j0", normal, more=[S(A(3, draw=between(5, 9)))], slopes={0: 0}),
    _case("j1", normal, more=[S(A(3, draw=between(5, 9)))], slopes={0: 0.5}),
    *_cases("y0 y1 k0 k0e k1 k1e exp1", positive), _case("yn", counts, positive),
    *_cases("i0 i0e", nonzero, slopes={0: 0}, torch=True),
    *_cases("i1 i1e", nonzero, slopes={0: 0.5}, torch=True),
    *(
        _case(name, orders, positive, more=[S(1.5, A(3, draw=positive))], lacking="cupy")
        for name in ("jv", "yv", "iv", "ive", "kv", "kve")
    ),
    # Exponential integrals, elliptic integrals, hypergeometric and Legendre functions
    _case("expi", nonzero), _case("expn", counts, positive),
    _case("spence", positive, more=[S(A(3, draw=between(0.8, 1.2)))], slopes={0: -inf, 1: -1}),
    _case("ellipk", both_signs(0.2, 0.8), slopes={0: pi / 8, 1: inf}, lacking="cupy"),
    _case("ellipkm1", unit, slopes={0: -inf, 1: -pi / 8}, lacking="cupy"),
    _case("hyp1f1", orders, orders, normal, lacking="cupy"),
    _case("hyp2f1", orders, orders, orders, unit, lacking="cupy"),
    _case("lpmv", integers(0, 2, "int32"), orders, unit),
    # Trigonometry in degrees and for small differences
    *_cases("sindg cosdg tandg cotdg", between(20, 70)), _case("radian", normal, normal, normal),
    _case("cosm1", normal),
    _case("sinc", normal, more=[S(A(3, draw=between(-0.6, 0.6)))], slopes={0: 0, 1: -1},
          torch=True),
    # Functions along axes
    *(
        Case(f"special.{name}", [
            *(S(A(2, 3)), S(A()), S(A(0, 3), axis=1)),
            *(S(A(2, 3, 2), axis=axis) for axis in (0, -1, (0, 2))),
        ], getattr(special, name), torch)
        for name, torch in (("log_softmax", _torch_log_softmax), ("softmax", (
            lambda torch, x, axis=None: _torch_log_softmax(torch, x, axis).exp())))
    ),
    Case("special.logsumexp", [
        # With keepdims, SciPy's result for a scalar has an axis too many.
        *(s for s in reduction(axes=[None, 0, (0, -1)]) if s.shapes != ((),)), S(A()),
        *(S(A(2, 3), axis, A(3, draw=positive)) for axis in (None, 1, (0, 1))),
        S(A(3), 0, A(2, 3, draw=positive), keepdims=True), S(A(2, 3), 1, A(2, 3), return_sign=True),
        S(A(2, 3), None, None, return_sign=True), S(A(2, 3), None, 2.5),
        S(A(), None, A(draw=positive)),
        kink([800.0, 0.0, 0.0], None, [0.0, 1.0, 3.0],
             gradients=([0.0, 0.25, 0.75], [inf, 0.25, 0.25])),
    ], _logsumexp),
]  # fmt: skip
