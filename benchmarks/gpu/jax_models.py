"""The models of benchmarks/model_step.py for JAX: functions of the weights, by PyTorch's names."""

import jax
from jax import lax, nn
from jax import numpy as np
from peers import jax_adam, jax_entropy, jax_sgd, jax_step


def step_of(model, made):
    """Return a step of a model, of the weights, inputs and labels that a `Library` has made."""
    if made.model is None:
        return jax_step(None, jax_adam, [_array(p, made.dtype) for p in made.parameters])
    forward, update = MODELS[model]
    weights = {n: _array(x, made.dtype) for n, x in made.model.state_dict().items()}

    def loss_of(weights, inputs, labels):
        return jax_entropy(forward(weights, inputs), labels)

    return jax_step(
        loss_of, update, weights, _array(made.inputs, made.dtype), _array(made.labels, None)
    )


def _array(x, dtype):
    x = x.detach().numpy()
    return jax.device_put(x.astype(dtype) if dtype and x.dtype.kind == "f" else x)


def _linear(weights, name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _cnn(weights, x):
    for name in ("0", "3"):
        axes = "NCHW", "OIHW", "NCHW"
        x = lax.conv_general_dilated(
            x, weights[f"{name}.weight"], (1, 1), "SAME", dimension_numbers=axes
        )
        x = nn.relu(x + weights[f"{name}.bias"][:, None, None])
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return _linear(weights, "7", x.reshape(len(x), -1))


def _transformer(weights, text):
    x = weights["embedding.weight"][text]
    texts, length = text.shape
    for k in range(4):
        at = f"encoder.layers.{k}."
        parts = x @ weights[f"{at}self_attn.in_proj_weight"].T
        parts += weights[f"{at}self_attn.in_proj_bias"]
        heads = (part.reshape(texts, length, 4, -1) for part in np.split(parts, 3, axis=-1))
        mixed = nn.dot_product_attention(*heads, is_causal=True).reshape(x.shape)
        x = _norm(weights, f"{at}norm1", x + _linear(weights, f"{at}self_attn.out_proj", mixed))
        between = nn.relu(_linear(weights, f"{at}linear1", x))
        x = _norm(weights, f"{at}norm2", x + _linear(weights, f"{at}linear2", between))
    return _linear(weights, "out", x).reshape(texts * length, -1)


def _norm(weights, name, x):
    return nn.standardize(x, epsilon=1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _lstm(weights, x):
    ih, hh, *biases = (
        weights[f"lstm.{n}_l0"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    projected = np.moveaxis(x @ ih.T + sum(biases), 1, 0)

    def cell(state, here):
        h, c = state
        i, f, g, o = np.split(here + h @ hh.T, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
        return (nn.sigmoid(o) * np.tanh(c), c), None

    zeros = np.zeros((len(x), hh.shape[1]), x.dtype)
    return _linear(weights, "out", lax.scan(cell, (zeros, zeros), projected)[0][0])


MODELS = {
    "CNN": (_cnn, lambda *given: jax_sgd(*given, lr=0.001, momentum=0.9)),
    "transformer": (_transformer, lambda *given: jax_adam(*given, lr=1e-4)),
    "LSTM": (_lstm, jax_adam),
}
