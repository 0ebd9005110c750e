"""Training on a GPU: it gives the CPU's results, does not wait, and keeps no memory."""

import gc
from itertools import islice

import numpy as np
import pytest
from both_ways import training
from cuda_device import IS_STAND_IN, host_must_not_wait, keep_busy, on_gpu
from modules import TRANSFORMS

import gpugrad as gg
from gpugrad import cuda, data, nn, optim
from gpugrad.testing import assert_close
from gpugrad.training import Callback, Trainer

pytestmark = on_gpu


def setting(device, n=64, seed=0):
    """Return a model, its optimizer and a loader of host arrays, the same on every device."""
    gg.manual_seed(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.2), nn.MLP(5, [4, 3], nn.Sigmoid)
    ).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((n, 2, 3)).astype("float32")
    dataset = data.TensorDataset(images, rng.integers(0, 3, n))
    return model, optimizer, data.DataLoader(dataset, 8, shuffle=True, seed=1, device=device)


def step(model, optimizer, *batch):
    clipping = nn.utils.clip_grad_norm_, [*model.parameters()], 1.0
    loss_of = lambda images, labels: nn.CrossEntropyLoss()(model(images), labels)  # noqa: E731
    return training(optimizer, loss_of, *clipping)(*batch)


def train(device, epochs=3):
    model, optimizer, loader = setting(device)
    return [step(model, optimizer, *batch) for _ in range(epochs) for batch in loader], model


def assert_same(trained, expected):
    (losses, model), (other_losses, other) = trained, expected
    assert_close([x.item() for x in losses], [x.item() for x in other_losses], rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert p.dtype == q.dtype == gg.float32
        assert_close(p.detach().cpu().numpy(), q.detach().cpu().numpy(), rtol=1e-3, atol=1e-5)


def test_losses_and_weights_equal_the_cpus():
    losses, model = train("cuda")
    assert {x.device for x in [*losses, *model.parameters()]} == {"cuda:0"}
    assert_same((losses, model), train("cpu"))


class Waiting(Callback):
    """Does not let the host wait from the fourth step on, and interrupts after the sixth."""

    def on_step(self, trainer):
        if trainer.steps == 3:
            self.guard = host_must_not_wait()
            self.guard.__enter__()
        elif trainer.steps == 6:
            self.guard.__exit__(None, None, None)
            raise KeyboardInterrupt


def test_a_trainer_does_not_wait_and_continues_to_the_last_bit(tmp_path):
    """Batches do not wait either: there are three, each with its own buffer."""

    def trainer(seed, *callbacks, **options):
        model, optimizer, loader = setting("cuda", seed=seed)

        def loss(model, images, labels):
            logits = model(images)
            right = logits.argmax(axis=1) == labels
            return nn.functional.cross_entropy(logits, labels), {"accuracy": right.mean()}

        loader.dataset = data.TensorDataset(*setting("cpu")[2].dataset.tensors)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        options |= {"scheduler": scheduler, "schedule_per": "step", "max_norm": 1.0}
        return Trainer(model, optimizer, loss, loader, callbacks=callbacks, **options)

    with pytest.raises(KeyboardInterrupt):
        trainer(0, Waiting()).fit(1)
    whole, path = trainer(0), tmp_path / "run.safetensors"
    whole.fit(3)
    trainer(0, checkpoint=path).fit(1)
    continued = trainer(5)
    continued.load(path)
    assert continued.fit(3) == whole.fit(3)
    for p, q in zip(whole.model.parameters(), continued.model.parameters(), strict=True):
        assert p.device == "cuda:0"
        assert p.detach().cpu().numpy().tobytes() == q.detach().cpu().numpy().tobytes()


def test_batches_of_a_data_set_on_the_device_do_not_wait():
    model, optimizer, loader = setting("cpu")
    there, model = loader.dataset.to("cuda"), model.to("cuda")
    for shuffle in (False, True):
        batches = data.DataLoader(there, 8, shuffle=shuffle, seed=0)
        for batch in batches:
            step(model, optimizer, *batch)
        with host_must_not_wait():
            for batch in islice(batches, 2):
                assert [x.device for x in batch] == ["cuda:0"] * 2
                step(model, optimizer, *batch)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_does_not_wait(name):
    def f(x):
        return gg.sum(gg.softmax(x) * gg.sin(x) ** 2) + gg.max(x) * x[0]

    transform, x = TRANSFORMS[name], gg.random.normal((4,), dtype=gg.float64)
    last = cuda.device_count() - 1  # perhaps not the current device
    there = x.to(f"cuda:{last}")
    transform(f, there)
    with host_must_not_wait(last):
        out = transform(f, there)
    assert out.device == there.device
    assert_close(out.cpu().numpy(), transform(f, x).numpy(), rtol=1e-9, atol=1e-12)


def test_memory_returns_to_its_level():
    model, optimizer, loader = setting("cuda", n=80 if IS_STAND_IN else 800)

    def epoch():
        for batch in loader:
            step(model, optimizer, *batch)
        optimizer.zero_grad()
        del batch
        gc.collect()
        return cuda.memory_stats().used

    epoch()
    level = epoch()
    assert [epoch() for _ in range(10)] == [level] * 10


def test_batches_arrive_while_the_device_is_busy():
    """There are more batches than buffers, and no step is finished meanwhile."""
    sums, loader = [], setting("cuda", n=160)[2]
    for images, labels in loader:
        keep_busy(0.01)
        sums.append((images.sum(), labels.sum()))
    loader.epoch -= 1
    loader.device = None
    for (a, b), (images, labels) in zip(sums, loader, strict=True):
        assert_close(a.item(), images.sum().item(), rtol=1e-4, atol=1e-5)
        assert b.item() == labels.sum().item()


def test_two_streams_at_once():
    settings = [setting("cuda", seed=seed) for seed in (0, 1)]
    streams, losses = [cuda.Stream(), cuda.Stream()], [[], []]
    for stream in streams:
        stream.wait_stream(cuda.current_stream())
    batches = [iter(loader) for _, _, loader in settings]
    for _ in range(8):
        for i in (0, 1):
            with streams[i]:
                gg.manual_seed(5)
                keep_busy(0.002)
                losses[i].append(step(*settings[i][:2], *next(batches[i])))
    cuda.synchronize()
    for i in (0, 1):
        model, optimizer, loader = setting("cuda", seed=i)
        again = []
        for batch in loader:
            gg.manual_seed(5)
            again.append(step(model, optimizer, *batch))
        assert_same((losses[i], settings[i][0]), (again, model))
