from gpugrad import Tensor


def isbox(x):
    return isinstance(x, Tensor)
