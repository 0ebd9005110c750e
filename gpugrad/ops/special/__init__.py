"""Special functions, under SciPy's names and with its arguments; a module for each family.

All are elementwise except `softmax`, `log_softmax` and `logsumexp`, broadcast their inputs,
and take real numbers. On NumPy and on the CPU arrays of other libraries the values are SciPy's,
on CuPy those of `cupyx.scipy.special`, and on PyTorch its own where it has them.

Gradients are closed formulas and exist to every order, except those to parameters whose
derivative has no such formula: the shape parameters of incomplete gamma and beta functions, the
degrees of freedom of the distributions made of these, and the exponent of zeta. Differences of
eighth order give these gradients. Their error is about 1e-12 (in float32 1e-5) of the function's
value per relative change of the parameter, and each further order loses one or two digits.
An input that has neither (the order of a Bessel function, a count) gets no gradient: calling
the function with one that requires grad raises a TypeError that says so.
"""

from . import bessel, distributions, elementary, entropy, error_function, gamma, integrals, logistic
