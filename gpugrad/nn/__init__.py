"""Layers, losses and models, with PyTorch's names and shapes."""

from inspect import ismodule as _ismodule
from typing import TYPE_CHECKING

from .._foreign_names import answer as _answer
from . import functional as functional
from . import init as init
from . import utils as utils
from .activations import CELU as CELU
from .activations import ELU as ELU
from .activations import GELU as GELU
from .activations import GLU as GLU
from .activations import SELU as SELU
from .activations import Hardsigmoid as Hardsigmoid
from .activations import Hardswish as Hardswish
from .activations import Hardtanh as Hardtanh
from .activations import LeakyReLU as LeakyReLU
from .activations import LogSigmoid as LogSigmoid
from .activations import LogSoftmax as LogSoftmax
from .activations import Mish as Mish
from .activations import PReLU as PReLU
from .activations import ReLU as ReLU
from .activations import ReLU6 as ReLU6
from .activations import Sigmoid as Sigmoid
from .activations import SiLU as SiLU
from .activations import Softmax as Softmax
from .activations import Softplus as Softplus
from .activations import Softsign as Softsign
from .activations import Tanh as Tanh
from .activations import Tanhshrink as Tanhshrink
from .attention import MultiheadAttention as MultiheadAttention
from .container import MLP as MLP
from .container import ModuleDict as ModuleDict
from .container import ModuleList as ModuleList
from .container import ParameterList as ParameterList
from .container import Sequential as Sequential
from .convolution import Conv1d as Conv1d
from .convolution import Conv2d as Conv2d
from .convolution import ConvTranspose1d as ConvTranspose1d
from .convolution import ConvTranspose2d as ConvTranspose2d
from .convolution import Fold as Fold
from .convolution import Unfold as Unfold
from .layers import Bilinear as Bilinear
from .layers import Dropout as Dropout
from .layers import Dropout1d as Dropout1d
from .layers import Dropout2d as Dropout2d
from .layers import Embedding as Embedding
from .layers import Flatten as Flatten
from .layers import Identity as Identity
from .layers import Linear as Linear
from .layers import Unflatten as Unflatten
from .losses import BCELoss as BCELoss
from .losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from .losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from .losses import CrossEntropyLoss as CrossEntropyLoss
from .losses import HuberLoss as HuberLoss
from .losses import KLDivLoss as KLDivLoss
from .losses import L1Loss as L1Loss
from .losses import MSELoss as MSELoss
from .losses import NLLLoss as NLLLoss
from .losses import SmoothL1Loss as SmoothL1Loss
from .losses import TripletMarginLoss as TripletMarginLoss
from .module import Module as Module
from .module import Parameter as Parameter
from .normalization import BatchNorm1d as BatchNorm1d
from .normalization import BatchNorm2d as BatchNorm2d
from .normalization import GroupNorm as GroupNorm
from .normalization import InstanceNorm1d as InstanceNorm1d
from .normalization import InstanceNorm2d as InstanceNorm2d
from .normalization import LayerNorm as LayerNorm
from .normalization import RMSNorm as RMSNorm
from .pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from .pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from .pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from .pooling import AvgPool1d as AvgPool1d
from .pooling import AvgPool2d as AvgPool2d
from .pooling import MaxPool1d as MaxPool1d
from .pooling import MaxPool2d as MaxPool2d
from .recurrent import GRU as GRU
from .recurrent import LSTM as LSTM
from .recurrent import RNN as RNN
from .recurrent import GRUCell as GRUCell
from .recurrent import LSTMCell as LSTMCell
from .recurrent import RNNCell as RNNCell
from .stateless import functional_call as functional_call
from .summaries import summary as summary
from .synchronized import SyncBatchNorm as SyncBatchNorm
from .transformer import TransformerDecoder as TransformerDecoder
from .transformer import TransformerDecoderLayer as TransformerDecoderLayer
from .transformer import TransformerEncoder as TransformerEncoder
from .transformer import TransformerEncoderLayer as TransformerEncoderLayer
from .upsampling import Upsample as Upsample

_names = [name for name, x in globals().items() if name[0] != "_" and not _ismodule(x)]
__all__ = sorted({*_names, "functional", "init", "utils"} - {"TYPE_CHECKING"})
__dir__ = __all__.copy
if not TYPE_CHECKING:
    __getattr__ = _answer(__name__)
