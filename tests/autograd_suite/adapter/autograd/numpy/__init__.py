"""`gpugrad.numpy`, under autograd's name."""

import sys

import gpugrad.numpy
from gpugrad.numpy import fft, linalg, random

sys.modules[__name__] = gpugrad.numpy
for _module in (fft, linalg, random):
    sys.modules[_module.__name__.replace("gpugrad", "autograd")] = _module
