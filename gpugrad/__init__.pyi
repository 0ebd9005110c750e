# Written by tests/write_stubs.py.

from typing import Any

from . import amp as amp
from . import autograd as autograd
from . import cuda as cuda
from . import data as data
from . import distributed as distributed
from . import fft as fft
from . import io as io
from . import linalg as linalg
from . import nn as nn
from . import numpy as numpy
from . import optim as optim
from . import random as random
from . import scipy as scipy
from . import special as special
from . import testing as testing
from . import tools as tools
from . import training as training
from . import transforms as transforms
from . import tree as tree
from ._creation import arange as arange
from ._creation import asarray as asarray
from ._creation import empty as empty
from ._creation import empty_like as empty_like
from ._creation import eye as eye
from ._creation import from_dlpack as from_dlpack
from ._creation import full as full
from ._creation import full_like as full_like
from ._creation import linspace as linspace
from ._creation import ones as ones
from ._creation import ones_like as ones_like
from ._creation import tensor as tensor
from ._creation import zeros as zeros
from ._creation import zeros_like as zeros_like
from ._dtypes import can_cast as can_cast
from ._dtypes import isdtype as isdtype
from ._dtypes import result_type as result_type
from ._limits import finfo as finfo
from ._limits import iinfo as iinfo
from ._ops import *
from ._tensor import Tensor as Tensor
from .autograd.mode import enable_grad as enable_grad
from .autograd.mode import is_grad_enabled as is_grad_enabled
from .autograd.mode import no_grad as no_grad
from .autograd.mode import set_grad_enabled as set_grad_enabled
from .autograd.operation import op as op
from .backends.numpy.threads import get_num_threads as get_num_threads
from .backends.numpy.threads import set_num_threads as set_num_threads
from .io import load as load
from .io import save as save
from .ops.manipulation import broadcast_shapes as broadcast_shapes
from .random import manual_seed as manual_seed
from .tape.compiled import compile as compile
from .tools.anomaly import detect_anomaly as detect_anomaly
from .tools.drawing import draw as draw
from .tools.memory import memory_report as memory_report
from .tools.profiler import profile as profile
from .transforms.custom import custom_vjp as custom_vjp
from .transforms.forward import jvp as jvp
from .transforms.forward import linearize as linearize
from .transforms.jacobians import hessian as hessian
from .transforms.jacobians import jacobian as jacobian
from .transforms.mapping import vmap as vmap
from .transforms.recomputing import checkpoint as checkpoint
from .transforms.reverse import grad as grad
from .transforms.reverse import hvp as hvp
from .transforms.reverse import stop_gradient as stop_gradient
from .transforms.reverse import value_and_grad as value_and_grad
from .transforms.reverse import vjp as vjp

bool: Any
complex128: Any
complex64: Any
e: float
float16: Any
float32: Any
float64: Any
inf: float
int16: Any
int32: Any
int64: Any
int8: Any
nan: float
newaxis: Any
pi: float
uint16: Any
uint32: Any
uint64: Any
uint8: Any
bfloat16: Any
__version__: str
__array_api_version__: str

def __array_namespace_info__() -> Any: ...
