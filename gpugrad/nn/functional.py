"""The computations of the layers, as functions of tensors."""

from typing import TYPE_CHECKING

from .._foreign_names import answer as _answer
from .activations import celu as celu
from .activations import gelu as gelu
from .activations import glu as glu
from .activations import hardsigmoid as hardsigmoid
from .activations import log_softmax as log_softmax
from .activations import logsigmoid as logsigmoid
from .activations import prelu as prelu
from .activations import relu6 as relu6
from .activations import selu as selu
from .activations import sigmoid as sigmoid
from .activations import softmax as softmax
from .activations import softplus as softplus
from .activations import softsign as softsign
from .activations import tanh as tanh
from .activations import tanhshrink as tanhshrink
from .computations import batch_norm as batch_norm
from .computations import bilinear as bilinear
from .computations import dropout as dropout
from .computations import dropout1d as dropout1d
from .computations import dropout2d as dropout2d
from .computations import elu as elu
from .computations import embedding as embedding
from .computations import flatten as flatten
from .computations import group_norm as group_norm
from .computations import hardswish as hardswish
from .computations import hardtanh as hardtanh
from .computations import instance_norm as instance_norm
from .computations import layer_norm as layer_norm
from .computations import leaky_relu as leaky_relu
from .computations import mish as mish
from .computations import relu as relu
from .computations import rms_norm as rms_norm
from .computations import scaled_dot_product_attention as scaled_dot_product_attention
from .computations import silu as silu
from .convolution import conv1d as conv1d
from .convolution import conv2d as conv2d
from .convolution import conv_transpose1d as conv_transpose1d
from .convolution import conv_transpose2d as conv_transpose2d
from .convolution import fold as fold
from .convolution import unfold as unfold
from .losses import binary_cross_entropy as binary_cross_entropy
from .losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses import cosine_embedding_loss as cosine_embedding_loss
from .losses import cross_entropy as cross_entropy
from .losses import huber_loss as huber_loss
from .losses import kl_div as kl_div
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .losses import nll_loss as nll_loss
from .losses import smooth_l1_loss as smooth_l1_loss
from .losses import triplet_margin_loss as triplet_margin_loss
from .padding import pad as pad
from .pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from .pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from .pooling import adaptive_max_pool1d as adaptive_max_pool1d
from .pooling import adaptive_max_pool2d as adaptive_max_pool2d
from .pooling import avg_pool1d as avg_pool1d
from .pooling import avg_pool2d as avg_pool2d
from .pooling import max_pool1d as max_pool1d
from .pooling import max_pool2d as max_pool2d
from .upsampling import interpolate as interpolate

if TYPE_CHECKING:
    from .._ops import linear as linear
else:
    from ..ops.neural import linear as linear

__all__ = sorted([name for name, x in globals().items() if name[0] != "_" and callable(x)])
__dir__ = __all__.copy
if not TYPE_CHECKING:
    __getattr__ = _answer(__name__)
