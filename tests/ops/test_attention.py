"""Attention and transformers: values, derivatives and training like PyTorch's, and their memory."""

from functools import partial

import numpy as np
import pytest
from samples import every, peak_of
from test_layers import assert_is_pytorchs, compare

import gpugrad as gg
from gpugrad import nn, ones
from gpugrad.backends.numpy import threads
from gpugrad.nn import functional as F
from gpugrad.ops import attention as blocks
from gpugrad.testing import assert_close

torch = pytest.importorskip("torch")
N, M, BATCH, WIDTH, HEADS = 3, 4, 2, 6, 2


# They are about nested tensors, and masks of two dtypes.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def drawn(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def some(*shape):
    """Bools, of which the first along the last axis is False."""
    out = drawn(*shape) > 0
    out[..., 0] = False
    return out


FUTURE = np.triu(np.ones((N, N), bool), 1)
attend = F.scaled_dot_product_attention


def all_close(found, expected, **tolerances):
    for x, y in zip(found, expected, strict=True):
        assert_close(x.detach().numpy(), y.detach().numpy(), **tolerances)


def in_small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK", 8)
    monkeypatch.setattr(blocks, "_ROWS", 2)


# Scaled dot-product attention


@pytest.mark.parametrize("small", [False, True], ids=["one-block", "blocks"])
def test_attention_is_pytorchs(small, monkeypatch):
    query, key, value = (2, 4, 5, 3), (2, 4, 6, 3), (2, 4, 6, 2)
    grouped, nowhere = (query, (2, 2, 6, 3), (2, 2, 6, 2)), np.full((5, 6), -np.inf)
    nowhere[1:] = 0
    plain, gqa = (query, key, value), {"enable_gqa": True}
    table = [
        (plain, None, {}), (plain, None, gqa), (plain, None, {"scale": 0.3}),
        (plain, None, {"is_causal": True}), ((key, key, key), None, {"is_causal": True}),
        (plain, some(5, 6), {}), (plain, some(2, 1, 1, 6), {}), (plain, np.zeros((5, 6), bool), {}),
        (plain, drawn(2, 1, 5, 6), {}), (plain, drawn(4, 5, 1), {}), (plain, nowhere, {}),
        (grouped, None, gqa), (grouped, some(2, 4, 5, 6), gqa), (grouped, drawn(2, 1, 5, 6), gqa),
    ]  # fmt: skip
    if small:
        in_small_blocks(monkeypatch)
    for (shapes, mask, options), checked in every(table):
        arrays = [*(drawn(*shape) for shape in shapes), *[mask] * (mask is not None)]

        def function(library, *inputs, options=options):
            return library.scaled_dot_product_attention(*inputs, **options)

        with checked:
            assert_is_pytorchs(function, *arrays, rtol=1e-9)


def test_second_derivatives_go_through_blocks(monkeypatch):
    arrays = [drawn(2, 3, 2), drawn(2, 4, 2), drawn(2, 4, 1)]
    inputs = [gg.tensor(x, requires_grad=True) for x in arrays]

    def second():
        out = gg.attention(*inputs, is_causal=True)
        grads = gg.autograd.grad((out * out).sum(), inputs, create_graph=True)
        return gg.autograd.grad(sum((x * x * x).sum() for x in grads), inputs)

    whole = second()
    in_small_blocks(monkeypatch)
    all_close(second(), whole, rtol=1e-10, atol=1e-12)
    dropped = partial(gg.attention, is_causal=True, dropout_p=0.4, dropout_key=(1, 2))
    gg.testing.gradgradcheck(dropped, inputs)


def peak(length):
    """The most bytes that NumPy has allocated during a forward and a backward pass."""
    # With one feature the products are too small for BLAS to start threads.
    query, key, value = (
        gg.tensor(drawn(1, length, 1, seed=i).astype("float32"), requires_grad=True)
        for i in range(3)
    )
    return peak_of(lambda: attend(query, key, value, is_causal=True).sum().backward())


@pytest.mark.slow
def test_memory_grows_linearly(monkeypatch):
    peak(64)  # what is allocated once
    assert peak(8192) < 8192 * 8192 * 4 / 32  # bytes of the matrix of weights
    # How many blocks several threads have at the same time depends on chance.
    monkeypatch.setattr(threads._threads, "number", None)
    half, whole = peak(4096), peak(8192)
    assert whole < 2.1 * half


@pytest.mark.parametrize("small", [False, True], ids=["one-block", "blocks"])
def test_dropout_drops_weights(small, monkeypatch):
    if small:
        monkeypatch.setattr(blocks, "_BLOCK", 1 << 10)
    n, m, p = 40, 50, 0.3
    query, key = gg.tensor(drawn(2, n, 4)), gg.tensor(drawn(2, m, 4))
    eye, value = gg.asarray(np.eye(m)), gg.tensor(drawn(2, m, 3))

    def ours(query, key, value, seed=0):
        return attend(query, key, value, dropout_p=p, generator=gg.random.Generator(seed))

    def by_hand(query, key, value, factor=1.0):
        return (gg.softmax(query @ gg.matrix_transpose(key) / 2) * factor) @ value

    found, weights = ours(query, key, eye).numpy(), by_hand(query, key, eye).numpy()
    kept = found != 0
    assert abs(kept.mean() - (1 - p)) < 0.03
    assert (kept[0] != kept[1]).any()
    assert (kept[:, 0] != kept[:, -1]).any()
    assert_close(found, np.where(kept, weights / (1 - p), 0), rtol=1e-12, atol=1e-15)
    assert_close(found, ours(query, key, eye).numpy())
    assert (found != ours(query, key, eye, seed=1).numpy()).any()
    # Its derivatives are those of the same weights dropped by hand.
    given, options = (query, key, value), {"argnums": (0, 1, 2)}
    of_factor = partial(by_hand, factor=gg.asarray(kept / (1 - p)))
    slopes = [gg.grad(lambda *xs, f=f: (f(*xs) ** 2).sum(), **options) for f in (ours, of_factor)]
    all_close(*(slope(*given) for slope in slopes), rtol=1e-9, atol=1e-12)


def test_inside_vmap_each_example_drops_its_own_weights():
    eye, x = gg.asarray(np.eye(8)), ones((3, 8, 2), dtype=gg.float64)
    found = gg.vmap(lambda x: attend(x, x, eye, dropout_p=0.5))(x).numpy()
    assert len(np.unique(found, axis=0)) == 3


# Layers: each row is a class, its arguments, the inputs, and options of the call. Arrays are
# handed over as tensors.

PADDING, X = some(BATCH, N), drawn(N, BATCH, WIDTH)
MEMORY = drawn(M, BATCH, WIDTH)


def mha(inputs=(X,), call=None, **options):
    """A row of MultiheadAttention; a single input attends to itself."""
    return "MultiheadAttention", (WIDTH, HEADS), options, inputs, call or {}


def layer(kind, inputs, call=None, before=(), **options):
    return f"Transformer{kind}", (WIDTH, HEADS, *before, 5, 0.0), options, inputs, call or {}


def stack_of(kind, library, norm=True, **options):
    """Two layers of an encoder or a decoder."""
    layer = getattr(library.nn, f"Transformer{kind}Layer")(WIDTH, HEADS, 5, 0.0, **options)
    norm = library.nn.LayerNorm(WIDTH) if norm else None
    return getattr(library.nn, f"Transformer{kind}")(layer, 2, norm)


encoder, decoder = partial(stack_of, "Encoder"), partial(stack_of, "Decoder")


CROSS = [X, MEMORY, drawn(M, BATCH, WIDTH, seed=1)]
ROWS = [
    mha(), mha(call={"average_attn_weights": False}), mha(call={"need_weights": False}),
    mha(call={"need_weights": False, "attn_mask": FUTURE, "is_causal": True}),
    mha(call={"attn_mask": FUTURE, "key_padding_mask": PADDING}),
    mha(call={"need_weights": False, "key_padding_mask": PADDING}),
    mha(call={"need_weights": False, "attn_mask": some(BATCH * HEADS, N, N)}),
    mha(call={"attn_mask": drawn(N, N), "key_padding_mask": PADDING}),
    mha(call={"need_weights": False, "attn_mask": drawn(N, N)}, bias=False), mha([X[:, 0]] * 3),
    mha([X[:, 0], MEMORY[:, 0], MEMORY[:, 0]], {"key_padding_mask": some(M)}), mha(CROSS),
    mha([X, MEMORY, MEMORY], {"need_weights": False}),
    mha([X.swapaxes(0, 1)] * 3, {"attn_mask": FUTURE}, batch_first=True),
    mha(CROSS, {"attn_mask": some(N, M)}, add_bias_kv=True),
    mha(call={"key_padding_mask": PADDING}, add_bias_kv=True, add_zero_attn=True),
    layer("EncoderLayer", [X[:, 0]], norm_first=True, layer_norm_eps=0.1),
    layer("EncoderLayer", [X.swapaxes(0, 1)], {"src_mask": FUTURE, "src_key_padding_mask": PADDING},
          activation="gelu", batch_first=True, bias=False),
    layer("EncoderLayer", [X], {"src_mask": FUTURE, "is_causal": True}),
    layer("DecoderLayer", [X, MEMORY], {
        "tgt_mask": FUTURE, "tgt_is_causal": True, "memory_mask": some(N, M),
        "tgt_key_padding_mask": PADDING, "memory_key_padding_mask": some(BATCH, M),
    }, norm_first=True),
    (encoder, (False,), {"batch_first": True}, [X], {}),
    (encoder, (), {"batch_first": True}, [X.swapaxes(0, 1)], {"mask": FUTURE, "is_causal": True}),
    (decoder, (), {}, [X, MEMORY], {"tgt_mask": FUTURE}), layer("", [MEMORY, X], before=(2, 1)),
    layer("", [MEMORY.swapaxes(0, 1), X.swapaxes(0, 1)], {
        "src_key_padding_mask": some(BATCH, M), "tgt_mask": FUTURE, "tgt_is_causal": True,
        "memory_key_padding_mask": some(BATCH, M),
    }, before=(1, 2), activation="gelu", batch_first=True, norm_first=True, bias=False),
    layer("", [MEMORY[:, 0], X[:, 0]], {"tgt_mask": np.where(FUTURE, -np.inf, 0.0)}, before=(1, 1)),
]  # fmt: skip


def made(library, row):
    kind, args, options, *_ = row
    if callable(kind):
        return kind(library, *args, **options)
    return getattr(library.nn, kind)(*args, **options)


def called(library, module, call):
    """The module with these options of its call, as a function that has its parameters."""
    call = {k: library.tensor(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}

    def function(*inputs):
        is_attention = isinstance(module, library.nn.MultiheadAttention)
        return module(*(inputs * 3)[:3] if is_attention else inputs, **call)

    function.parameters = module.parameters
    return function


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_layers_are_pytorchs(row):
    theirs, ours = made(torch, row).double(), made(gg, row).to(gg.float64)
    shapes = {name: tuple(x.shape) for name, x in theirs.state_dict().items()}
    assert [(name, x.shape) for name, x in ours.state_dict().items()] == [*shapes.items()]
    # Random values, since PyTorch's biases start as zeros.
    state = {name: drawn(*s, seed=i) for i, (name, s) in enumerate(shapes.items())}
    theirs.load_state_dict({name: torch.tensor(x) for name, x in state.items()})
    ours.load_state_dict(state)
    *_, inputs, call = row
    both = called(gg, ours, call), called(torch, theirs, call)
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        compare(*both, inputs, order=1, rtol=1e-8, atol=1e-10)


def test_the_mask_of_a_transformer_is_pytorchs():
    mask = nn.Transformer.generate_square_subsequent_mask(N, dtype=gg.float64)
    theirs = torch.nn.Transformer.generate_square_subsequent_mask(N, dtype=torch.float64)
    np.testing.assert_array_equal(mask.numpy(), theirs.numpy())


def test_is_causal_needs_no_mask():
    layer = nn.MultiheadAttention(WIDTH, HEADS).to(gg.float64)
    x, mask, padding = gg.tensor(X), gg.asarray(FUTURE), gg.asarray(PADDING)
    for call in ({}, {"need_weights": False}, {"key_padding_mask": padding}):
        out, _ = layer(x, x, x, is_causal=True, **call)
        expected, _ = layer(x, x, x, attn_mask=mask, **call)
        assert_close(out.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


def test_dropout_only_in_training():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, 0.5, generator=gg.random.Generator(1))
    x = gg.tensor(X.astype("float32"))
    assert (layer(x) != layer(x)).any()
    layer.eval()
    assert (layer(x) == layer(x)).all()
    weights = nn.MultiheadAttention(WIDTH, HEADS, 0.5)(x, x, x, average_attn_weights=False)[1]
    assert (weights.detach().numpy() == 0).any()


LAYER, Q, K = nn.MultiheadAttention(4, 2), ones((2, 3, 4)), ones((2, 5, 4))


@pytest.mark.parametrize("call, kind, message", [
    (lambda: attend(Q, K, K[..., :4, :]), ValueError, r"^attention: query .* do not fit; given"),
    (lambda: attend(Q[0, 0], K, K), ValueError, "at least two axes"),
    (lambda: attend(Q, ones((3, 5, 4)), K), ValueError, "leading axes .* do not broadcast"),
    (lambda: attend(Q, K, K, ones((5, 3))), ValueError,
     r"for 3 queries and 5 keys must broadcast to \(..., 3, 5\), but its shape is \(5, 3\)"),
    (lambda: attend(Q, K, K, ones((3, 5), dtype=gg.float64)), TypeError, "bools or of"),
    (lambda: attend(Q, K, K, ones((3, 5)), is_causal=True), ValueError, "not both"),
    (lambda: attend(Q, K, K, dropout_p=1.5), ValueError, "probability p must be from 0 to 1"),
    (lambda: attend(Q, ones((3, 5, 4)), ones((3, 5, 4)), enable_gqa=True), ValueError,
     "multiple of those of key"),
    (lambda: nn.MultiheadAttention(0, 1), ValueError, r"MultiheadAttention: embed_dim must be"),
    (lambda: nn.MultiheadAttention(4, 2, 2.0), ValueError, r"dropout: the probability"),
    (lambda: LAYER(Q, K, K), ValueError,
     r"must be \(n, batch, 4\), \(m, batch, 4\), .*shapes are \(2, 3, 4\), \(2, 5, 4\)"),
    (lambda: LAYER(Q, Q, Q, attn_mask=ones((3, 3))), ValueError,
     r"attn_mask must have shape \(2, 2\) or \(6, 2, 2\), not \(3, 3\)"),
    (lambda: LAYER(Q, Q, Q, ones((2, 3))), ValueError,
     r"key_padding_mask must have shape \(3, 2\), not \(2, 3\)"),
    (lambda: LAYER(Q, Q, Q, ones((3, 2), dtype=gg.int32)), TypeError,
     r"a mask must be of bools or floating, not int32"),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="elu"), ValueError,
     r"an activation that is no function must be 'relu' or 'gelu', not 'elu'"),
    (lambda: nn.TransformerEncoder(nn.ReLU, 2), TypeError, "be a Module, not the class ReLU$"),
    (lambda: nn.TransformerEncoder(nn.ReLU(), 0), ValueError, r"num_layers must be an int of"),
])  # fmt: skip
def test_errors(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
