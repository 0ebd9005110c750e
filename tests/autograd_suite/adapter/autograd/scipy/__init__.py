"""`gpugrad.scipy`, under autograd's name."""

import sys
from importlib import import_module

for _name in ("", ".integrate", ".linalg", ".signal", ".special", ".stats"):
    sys.modules[f"autograd.scipy{_name}"] = import_module(f"gpugrad.scipy{_name}")

# autograd has a module for each distribution.
_stats = sys.modules["autograd.scipy.stats"]
for _name in "beta chi2 dirichlet gamma multivariate_normal norm poisson t".split():
    sys.modules[f"autograd.scipy.stats.{_name}"] = getattr(_stats, _name)
type(_stats.dirichlet).rvs = staticmethod(import_module("scipy.stats").dirichlet.rvs)  # for points
