"""Special functions, with SciPy's names and arguments; a module for each family.

All of them broadcast their inputs and take real numbers, and all are elementwise except `softmax`,
`log_softmax` and `logsumexp`. Integer tensors become float32. For NumPy arrays and the CPU arrays
of other libraries, SciPy computes the values; for CuPy, `cupyx.scipy.special`; for PyTorch, its own
functions where it has them.

Most gradients are closed formulas and exist to every order. Some parameters have no such
formula: the shape parameters of incomplete gamma and beta functions, the degrees of freedom of
the distributions based on these, and the exponent of zeta. Their gradients come from
eighth-order differences. The error is about 1e-12 (in float32 1e-5) of the function's value per
relative change of the parameter, and each further order loses one or two digits. Other inputs,
such as the order of a Bessel function or a count, get no gradient: calling the function with one
that requires grad raises a TypeError that says so.
"""

from . import bessel, distributions, elementary, entropy, error_function, gamma, integrals, logistic
