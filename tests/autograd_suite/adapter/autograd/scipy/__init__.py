"""`gpugrad.scipy`, under autograd's name."""

import sys
from importlib import import_module

for _name in ("", ".integrate", ".linalg", ".signal", ".special", ".stats"):
    sys.modules[f"autograd.scipy{_name}"] = import_module(f"gpugrad.scipy{_name}")
