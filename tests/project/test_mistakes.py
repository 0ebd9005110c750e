"""Mistakes that people make in their first days, and errors that say what was wrong and what to do.

Each line is a mistake and, after ``#``, the type of the error and words that it must have. Where
the words lead to another call, that call comes after a second ``#``, and must work.
"""

import warnings

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.data import DataLoader, TensorDataset, images
from gpugrad.nn import functional as F
from gpugrad.testing import gradcheck
from gpugrad.transforms import grad, vmap

MISTAKES = """
leaf.numpy()  # RuntimeError: call detach() first
leaf.backward()  # ValueError: make it one number first, such as its sum()  # leaf.sum().backward()
[loss.backward() for _ in range(2)]  # RuntimeError: pass retain_graph=True to the first backward
leaf.__iadd__(1)  # RuntimeError: only under no_grad(); or write to a copy, x = x + 0
leaf.__setitem__(0, 1.0)  # RuntimeError: only under no_grad()
gg.tensor([1], requires_grad=True)  # TypeError: not int64; use astype first, or make it with dtype
gg.tensor([[1, 2], [3]])  # ValueError: Pad its lists to one length, or make a tensor of each
gg.tensor("abc")  # TypeError: tensor: the values must be numbers or bools
gg.tensor([1.0, None])  # TypeError: such as None (write nan)  # gg.tensor([1.0, np.nan])
leaf + "abc"  # TypeError: add: cannot take a str; give a Tensor, an array or a number
gg.ones((2, 3)) + gg.ones((2, 4))  # ValueError: (2,3) (2,4); given float32 (2, 3) on cpu, float
gg.ones((2, 3)) @ gg.ones((2, 3))  # ValueError: x1 (2, 3) and x2 (2, 3) do not align: 3 != 2
gg.ones((2, 3)).reshape(4, 2)  # ValueError: cannot reshape array of size 6 into shape (4,2)
gg.ones((2, 3))[5]  # IndexError: index 5 is out of bounds for axis 0 with size 2
gg.ones((2, 3)).item()  # ValueError: item: the tensor has 6 elements, not 1; use tolist()
x.sum(dim=0, keepdim=True)  # TypeError: dim is axis here  # x.sum(axis=0, keepdims=True)
gg.ones((2, 2)).sum(axis=2)  # IndexError: axis 2 is out of bounds
gg.ones(3).take(0, 1)  # IndexError: take: axis 1 is out of range for 1 axes
gg.tensor([1.0], device="gpu")  # ValueError: use 'cpu', 'cuda' or 'cuda:N'
gg.tensor([1.0], dtype="float31")  # TypeError: data type 'float31' not understood
gg.cat([leaf, leaf])  # AttributeError: write gpugrad.concat  # gg.concat([leaf, leaf])
gradcheck(gg.add, leaf, leaf)  # TypeError: several inputs are one tuple, gradcheck(f, (x, y))
leaf.at[0].set(1.0)  # AttributeError: write x[key] = value, which changes no other tensor
x.repeat(2, 3)  # TypeError: write gpugrad.tile(x, (2, 3))  # gg.tile(x, (2, 3))
x.repeat((2, 3))  # TypeError: write gpugrad.tile(x, (2, 3))  # gg.tile(x, (2, 3))
x.nonzero(as_tuple=True)  # TypeError: leave it out for a tuple of indices  # x.nonzero()
x.sort(0)  # TypeError: axis is passed by name, as in sort(axis=0)  # x.sort(axis=0)
setattr(leaf, "data", x[0])  # AttributeError: to write, x[...] = y under gpugrad.no_grad()
leaf.unsqueeze(0)  # AttributeError: write gpugrad.expand_dims(x, axis)  # gg.expand_dims(leaf, 0)
gg.nonzero(gg.tensor(1.0))  # ValueError: nonzero: the array must have at least one axis
gg.nonzero(leaf)[0].backward()  # ValueError: integers or bools (int64 (2,) on cpu), such as arg
vmap(gg.nonzero)(x)  # ValueError: every example must give the same shape, but
gg.elu(x, alpha=leaf[0])  # TypeError: only x may be tensors; elsewhere give t.item(), which has no
gg.dropout(x, p=leaf[0])  # TypeError: dropout: p must not be a tensor; only x may be tensors
F.scaled_dot_product_attention(x, x, x, scale=leaf[0])  # TypeError: scale must not be a tensor
gg.clip(leaf, a_min=leaf)  # TypeError: a_min is min here  # gg.clip(leaf, min=leaf)
gg.reshape(leaf, leaf)  # TypeError: reshape: shape must be an int or a tuple of ints
x[[0.5]]  # IndexError: arrays used as indices must be of integer (or boolean) type
float(loss)  # RuntimeError: use item(), or call detach() first
gg.linalg.svd(gg.tensor([[1.0, np.inf]]))  # LinAlgError: svd: a matrix has inf or nan
gg.linalg.pinv(gg.tensor([[1.0, np.inf]]))  # LinAlgError: pinv: a matrix has inf or nan
gg.where(leaf > 0, leaf)  # TypeError: where: needs condition, x1, x2
gg.einsum("ij,jk", gg.ones((2, 3)), gg.ones((2, 3)))  # ValueError: lengths 3 and 2 for 'j'
gg.save({"a": object()}, "x.safetensors")  # TypeError: save: state['a'] is a
gg.save(leaf, "x.safetensors")  # TypeError: a dict, not a Tensor; give it a name, as in {"x": x}
gg.load("nowhere/model.safetensors")  # FileNotFoundError: there is no file nowhere/model
nn.Linear(2, 3)(gg.ones((4, 3)))  # ValueError: must be the in_features of weight (out, in) = (3, 2)
nn.Linear(2, 3)(None)  # TypeError: linear: None was given for x; is a return missing?
nn.Linear(2)  # TypeError: missing a required argument: 'out_features'
nn.Linear(-1, 3)  # ValueError: Linear: in_features must be an int of at least 1, not -1
nn.Conv2d(3, 4, 3)(gg.ones((2, 1, 8, 8)))  # ValueError: width), not of shape (2, 1, 8, 8)
nn.Conv2d(3, 4, 3)(gg.ones((2, 3, 2, 2)))  # ValueError: more than the padded input of (2, 2)
nn.Sequential([nn.ReLU()])  # TypeError: write Sequential(*layers)  # nn.Sequential(nn.ReLU())(x)
nn.BatchNorm1d(3)(gg.ones((2, 4)))  # ValueError: must be (n, 3) or (n, 3, length), not (2, 4)
nn.LSTM(3, 4)(gg.ones((5, 2, 6)))  # ValueError: (length, batch, 3) or (length, 3), not (5, 2, 6)
nn.Embedding(3, 2)(gg.tensor([5]))  # IndexError: embedding: an index is not one of the 3 rows
nn.Embedding(3, 2)(gg.tensor([1.0]))  # TypeError: the indices must be integers, not float32
Unregistered()  # UserWarning: Unregistered.w is a tensor that requires grad, but no parameter
linear.load_state_dict({"weight": np.ones((1, 2))})  # ValueError: missing: bias
linear.load_state_dict({"weight": np.ones((2, 2)), "bias": np.ones(1)})  # ValueError: (2, 2), not
linear.load_state_dict(parallel)  # ValueError: load {name.removeprefix('module.'): x for name
linear.load_state_dict("model.pt")  # TypeError: must be a dict of tensors by name, not a str
F.cross_entropy([[1.0, 2.0]], [0])  # TypeError: cross_entropy: cannot take a list; give a Tensor
F.cross_entropy(logits, gg.tensor([0, 3]))  # IndexError: from 0 to 2, but go from 0 to 3; given
F.cross_entropy(logits, gg.tensor([0.0, 1.0]))  # ValueError: by target.astype(gpugrad.int64)
F.mse_loss(x, x[:, :1])  # ValueError: must have the same shape, but have (2, 2) and (2, 1)
F.mse_loss(x[:, :1], x[:, 0])  # ValueError: target.reshape((2, 1)) would fit
F.cross_entropy(logits, gg.tensor([0, 1, 2]))  # ValueError: shape (n,), not (2, 3) and (3,); given
F.cross_entropy(logits, gg.tensor([[0], [1]]))  # ValueError: a column of labels needs reshape(-1)
F.l1_loss([1.0], x)  # TypeError: l1_loss: the input must be a Tensor or an array, not a list
F.kl_div(x, [[1.0]])  # TypeError: kl_div: target must be a Tensor or an array, not a list
F.softmin([1.0], dim=0)  # TypeError: negative: cannot take a list; give a Tensor, an array or a
F.dropout([1.0])  # TypeError: the input must be a Tensor or an array  # F.dropout(np.ones(3))
F.prelu(x, 0.25)  # TypeError: weight must be a Tensor or an array  # F.prelu(x, gg.tensor(0.25))
gg.stack([x, x[0]])  # ValueError: the arrays must have the same shape; given float32 (2, 2) on cpu
nn.LayerNorm(1)([1.0])  # TypeError: layer_norm: the input must be a Tensor or an array, not a list
nn.LSTM(2, 4)(x, x)  # TypeError: must be a tuple (h_0, c_0), not a Tensor of shape (2, 2)
optim.SGD(linear, lr=0.1)  # TypeError: params is a module; pass model.parameters()
optim.SGD([], lr=0.1)  # ValueError: there are no parameters to optimize
optim.SGD([leaf], lr=-1)  # ValueError: lr must be finite and at least 0, not -1.0
optim.Adam([leaf * 2])  # ValueError: is a result of multiply, not a leaf
optim.Adam([type("Parameter", (), {"__module__": "torch"})()])  # TypeError: a Parameter of torch
optim.Adam([linear])  # TypeError: must be a Tensor, not a Linear; pass its parameters()
grad(lambda x: x * 2)(leaf)  # TypeError: take its sum or mean, or use jacobian or vjp
grad(lambda x: x.item() ** 2)(gg.tensor(1.0))  # TypeError: do not call item(), float() or numpy()
vmap(abs)(gg.tensor(1.0))  # ValueError: give None in in_axes for what all examples share
vmap(lambda x: x.item())(leaf)  # TypeError: inside vmap a tensor stands for all examples
TensorDataset(np.ones(3), np.ones(4))  # ValueError: needs tensors (n, ...) of one length n
np.eye(2).view(np.matrix) @ leaf  # TypeError: make it an array, numpy.asarray(x)
nn.Relu  # AttributeError: did you mean gpugrad.nn.ReLU?  # nn.ReLU()
F.pad(x, 1)  # ValueError: must have two ints for each of at most 2 axes  # F.pad(x, (1, 1))
nn.ReLU().cuda()  # AttributeError: write model.to("cuda")  # nn.ReLU().to("cpu")
DataLoader((x, x[0]))  # TypeError: TensorDataset(inputs, targets)
DataLoader(x, x)  # TypeError: TensorDataset(inputs, targets)  # DataLoader(TensorDataset(x, x))
images.Compose(abs, abs)  # TypeError: one list, as in Compose([f, g])  # images.Compose([abs, abs])
images.ToTensor()  # AttributeError: write gpugrad.asarray(images, dtype=gpugrad.float32) / 255
gg.tensor(np.array(["a"]))  # TypeError: choose columns of numbers, or convert them, as by astype
gg.Linear  # AttributeError: write gpugrad.nn.Linear  # gg.nn.Linear(2, 2)
gg.DataLoader  # AttributeError: write gpugrad.data.DataLoader  # gg.data.DataLoader(x)
optim.StepLR  # AttributeError: write gpugrad.optim.lr_scheduler.StepLR  # optim.lr_scheduler.StepLR
nn.Dense  # AttributeError: write gpugrad.nn.Linear(inputs, outputs)  # nn.Linear(2, 2)
nn.Linear(2, 2, use_bias=False)  # TypeError: use_bias is bias here  # nn.Linear(2, 2, bias=False)
nn.utils.pad_sequence  # AttributeError: gpugrad.pad(x, (0, n - len(x)))  # gg.pad(x[0], (0, 1))
gg.linalg.cond(x)  # AttributeError: gpugrad.numpy.linalg.cond(A)  # gg.numpy.linalg.cond(x)
gg.make_dot(loss)  # AttributeError: gpugrad.draw(y), for the graph of a result y  # gg.draw(loss)
gg.save("x.safetensors", {"x": x})  # TypeError: the path comes second, as in save(state, path)
F.cross_entropy(gg.tensor([0, 1]), logits)  # ValueError: come first, cross_entropy(logits, labels)
nn.GRU(2, 4)(x, (x, x))  # ValueError: hidden_size) must have shape (1, 4), not tuple
gg.data.datasets  # AttributeError: write gpugrad.data.digits()  # gg.data.digits()
linear.summary(x)  # AttributeError: gpugrad.nn.summary(model, x)  # nn.summary(linear, x)
linear.fit(x)  # AttributeError: Trainer(model, optimizer, loss, loader).fit(epochs)
linear.__setattr__("requires_grad", False)  # AttributeError: write model.requires_grad_(False)
sgd.lr  # AttributeError: write optimizer.param_groups[0]["lr"]  # sgd.param_groups[0]["lr"]
DataLoader(x, batchsize=2)  # TypeError: it takes dataset, batch_size, shuffle, sampler
exec("from gpugrad import cat")  # ImportError: from 'gpugrad'; write gpugrad.concat
exec("from gpugrad.nn import Relu")  # ImportError: did you mean gpugrad.nn.ReLU?
exec("from gpugrad.random import key")  # ImportError: write gpugrad.random.Generator(seed)
exec("from gpugrad import nothing_of_this")  # ImportError: cannot import name 'nothing_of_this'
(x + 1).backward()  # ValueError: with requires_grad=True  # x.requires_grad_().sum().backward()
gg.exp(leaf).backward()  # ValueError: its sum() or mean()  # gg.exp(leaf).sum().backward()
""".strip().splitlines()


class Unregistered(nn.Module):
    def __init__(self):
        self.w = gg.ones(3, requires_grad=True)


NAMES = {
    "gg": gg, "np": np, "nn": nn, "F": F, "optim": optim, "grad": grad, "vmap": vmap,
    "DataLoader": DataLoader, "TensorDataset": TensorDataset, "Unregistered": Unregistered,
    "gradcheck": gradcheck, "images": images,
}  # fmt: skip


@pytest.mark.parametrize("line", MISTAKES, ids=[line.partition("  # ")[0] for line in MISTAKES])
def test_the_error_says_what_to_do(line):
    leaf, linear = gg.tensor([1.0, 2.0], requires_grad=True), nn.Linear(2, 1)
    names = NAMES | {
        "leaf": leaf, "loss": gg.exp(leaf).sum(), "linear": linear, "logits": gg.ones((2, 3)),
        "parallel": {f"module.{name}": x for name, x in linear.state_dict().items()},
        "sgd": optim.SGD([leaf], lr=0.1), "x": gg.tensor([[1.0, 3.0], [2.0, 0.0]]),
    }  # fmt: skip
    mistake, expected, *right = line.split("  # ")
    kind, _, words = expected.partition(": ")
    strictly = warnings.catch_warnings(action="error", category=UserWarning)
    with strictly, pytest.raises((Exception, Warning)) as error:
        eval(mistake, names)
    assert type(error.value).__name__ == kind
    assert words in str(error.value)
    assert len(str(error.value).splitlines()) <= 3 or "load_state_dict" in mistake
    for call in right:
        eval(call, names)
