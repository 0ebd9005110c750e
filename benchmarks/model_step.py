"""The cost of training steps of a CNN, a transformer, an LSTM, and of Adam, against PyTorch eager.

    python benchmarks/model_step.py [--short] [--libraries gpugrad gpugrad_compiled torch]
        [--models ...] [--sections ...] [--json PATH] [--plot PATH]

The models are written once, for the `nn`, `optim` and `nn.functional` of either library:

CNN: 28 x 28 pixels, two convolutions of 3 x 3 with 32 and 64 channels, each with ReLU and a
    maximum over 2 x 2, and a linear layer; batch 64, SGD with momentum.
transformer: 4 encoder layers, 128 wide, 4 heads, 512 in between, without dropout, causal, on 16
    texts of 128 of 64 characters; Adam.
LSTM: 64 inputs, 128 states, 50 times, batch 32, a linear layer at the last time; Adam.
Adam: the update of 100 parameters of 1000 elements, and of one of 10 million.

``gpugrad_compiled`` makes the same steps, compiled. All start from the same weights and see the
same float32 data; the losses of the first steps must agree. Two sections: ``speed``, and ``busy``,
the same steps beside a process that keeps one processor busy. Threads are left at each library's
default; OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1 in the environment give each one thread.
"""

from contextlib import nullcontext

import harness
import numpy as np

TARGETS = {
    "CNN": 1.5,
    "transformer": 1.2,
    "LSTM": 1.0,
    "Adam, 100 of 1000": 0.5,
    "Adam, 1 of 10,000,000": 1.2,
}


class Library:
    """The modules of one of the two libraries, by the names that they share.

    tensor: makes a tensor of a NumPy array, on the device.
    batch: how many of the inputs the steps take; None for all of them.
    dtype: the library's dtype for what is float32 here, if it is another one.
    step: makes a step of a model, its loss and its optimizer.
    model, inputs, labels: those of the step that was prepared; Adam alone has none.
    parameters: if there is no model, those that Adam updates.
    """

    model = parameters = None

    def __init__(self, name, device="cpu", batch=None, dtype=None, step=None):
        self.device, self.batch, self.dtype = device, batch, dtype
        self.step = step or training_step
        if name == "torch":
            import torch
            from torch import nn, optim

            self._array, self._cast = torch.from_numpy, torch.Tensor.to
        else:
            import gpugrad
            from gpugrad import nn, optim

            self._array, self._cast = gpugrad.asarray, gpugrad.astype
        self.nn, self.optim, self.functional = nn, optim, nn.functional

    def tensor(self, array):
        x = self._array(array).to(self.device)
        return self._cast(x, self.dtype) if self.dtype and array.dtype == np.float32 else x

    def fill(self, model):
        """Give the model weights that depend on their names and shapes only, on the device."""
        model.to(self.device)
        rng = np.random.default_rng(0)
        values = {}
        for name, p in sorted(model.state_dict().items()):
            scale = 1.0 if len(p.shape) < 2 else np.prod(p.shape[1:]) ** -0.5
            value = rng.standard_normal(tuple(p.shape), dtype=np.float32) * np.float32(scale)
            if len(p.shape) < 2:
                value = 0.1 * value + np.float32("norm" in name and name.endswith("weight"))
            values[name] = self.tensor(value.astype(np.float32))
        if self.dtype:
            model.to(dtype=self.dtype)
        model.load_state_dict(values)


def training_step(loss_of, model, optimizer):
    """Return a step; without a loss it only updates the parameters."""
    if loss_of is None:
        return optimizer.step

    def step():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return step


def prepare(name, case):
    """Return a function that does one step, and returns the loss where there is one."""
    if name == "gpugrad_compiled":
        import gpugrad

        return gpugrad.compile(prepare("gpugrad", case))
    library = Library(name)
    return step_of(library, case)


def step_of(library, case):
    """Return the step of a case by a `Library`."""
    if case.startswith("Adam"):
        return _adam(library, *((100, 1000) if "100 of" in case else (1, 10_000_000)))
    return {"CNN": _cnn, "transformer": _transformer, "LSTM": _lstm}[case](library)


def _cnn(library):
    nn = library.nn
    rng = np.random.default_rng(1)
    images = library.tensor(rng.standard_normal((64, 1, 28, 28), dtype=np.float32))
    labels = library.tensor(rng.integers(0, 10, 64))
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 10),
    )  # fmt: skip
    library.fill(model)
    optimizer = library.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    return _step(library, model, optimizer, images, labels)


def _transformer(library):
    nn = library.nn
    rng = np.random.default_rng(1)
    text = library.tensor(rng.integers(0, 64, (16, 128)))
    following = library.tensor(rng.integers(0, 64, 16 * 128))
    mask = library.tensor(np.triu(np.ones((128, 128), bool), 1))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(64, 128)
            layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.out = nn.Linear(128, 64)

        def forward(self, x):
            x = self.encoder(self.embedding(x), mask=mask, is_causal=True)
            return self.out(x).reshape(-1, 64)

    model = Model()
    library.fill(model)
    optimizer = library.optim.Adam(model.parameters(), lr=1e-4)
    return _step(library, model, optimizer, text, following)


def _lstm(library):
    nn = library.nn
    rng = np.random.default_rng(1)
    sequences = library.tensor(rng.standard_normal((32, 50, 64), dtype=np.float32))
    labels = library.tensor(rng.integers(0, 10, 32))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(64, 128, batch_first=True)
            self.out = nn.Linear(128, 10)

        def forward(self, x):
            states, _ = self.lstm(x)
            return self.out(states[:, -1])

    model = Model()
    library.fill(model)
    optimizer = library.optim.Adam(model.parameters(), lr=1e-3)
    return _step(library, model, optimizer, sequences, labels)


def _step(library, model, optimizer, inputs, labels):
    if library.batch is not None:
        labels = labels[: labels.shape[0] // inputs.shape[0] * library.batch]
        inputs = inputs[: library.batch]
    library.model, library.inputs, library.labels = model, inputs, labels
    cross_entropy = library.functional.cross_entropy
    return library.step(lambda: cross_entropy(model(inputs), labels), model, optimizer)


def _adam(library, number, size):
    rng = np.random.default_rng(1)
    parameters = []
    for _ in range(number):
        p = library.tensor(rng.standard_normal(size, dtype=np.float32)).requires_grad_()
        p.grad = library.tensor(rng.standard_normal(size, dtype=np.float32))
        parameters.append(p)
    library.parameters = parameters
    return library.step(None, None, library.optim.Adam(parameters))


TITLES = {"speed": "training step", "busy": "training step beside a busy process"}


def main():
    libraries = ("gpugrad", "gpugrad_compiled", "torch")
    options = harness.arguments(
        __doc__.splitlines()[0], libraries, models=list(TARGETS), sections=list(TITLES)
    )
    with_loss = [case for case in TARGETS if not case.startswith("Adam")]
    harness.check_same_losses(prepare, options.libraries, with_loss)
    sections = {}
    for section in options.sections:
        effort = harness.effort(options, seconds=2.0)
        is_busy = section == "busy"
        if is_busy:
            effort["patience"] = 0  # no turn is undisturbed
        with harness.busy_neighbour() if is_busy else nullcontext():
            results = harness.race(prepare, options.libraries, options.models, **effort)
        sections[section] = harness.rows_of(
            section, results, name_case=str, unit="ms per step", scale=1e3,
            targets={} if is_busy else TARGETS,
        )  # fmt: skip
        harness.table(TITLES[section], sections[section])
    title = "Training steps of models (float32) against torch eager"
    panels = [(TITLES[section], rows) for section, rows in sections.items()]
    harness.write(
        "model_step", options, [row for rows in sections.values() for row in rows],
        lambda *place: harness.plot(*place, title, panels),
    )  # fmt: skip


if __name__ == "__main__":
    main()
