"""A recurrent network remembers two numbers over a hundred steps, and another one does not.

The adding problem of Hochreiter & Schmidhuber 1997, "Long short-term memory": at each time the
network sees a random number from 0 to 1 and a mark. The mark is 1 at one time in the first half and
at one time in the second half, and else 0. At the end the network is asked for the sum of the two
marked numbers. If it remembers nothing, it can only answer 1, with a mean squared error of 1/6.
"""

from common import NewBatches, Parser, panels, positive, save_figure

import gpugrad
from gpugrad import data, nn, optim, random
from gpugrad.training import Progress, Trainer

STEPS = 100  # in an epoch


def draw_sequences(count, length, device):
    """Return sequences ``(count, length, 2)`` and the sums ``(count, 1)`` that they ask for."""
    numbers = random.uniform((count, length), device=device)
    half = length // 2
    times = gpugrad.arange(length, device=device)
    first = random.integers(0, half, (count, 1), device=device)
    second = random.integers(half, length, (count, 1), device=device)
    is_marked = (times == first) | (times == second)
    marks = gpugrad.astype(is_marked, numbers.dtype)
    return gpugrad.stack([numbers, marks], axis=2), (numbers * marks).sum(axis=1, keepdims=True)


class Adder(nn.Module):
    """Answers with a linear function of the last output of a recurrent layer."""

    def __init__(self, layer, hidden):
        self.recurrent = layer(2, hidden, batch_first=True)
        self.answer = nn.Linear(hidden, 1)
        if layer is nn.LSTM:
            # At first it forgets little (Gers, Schmidhuber & Cummins 2000, "Learning to forget").
            with gpugrad.no_grad():
                self.recurrent.bias_ih_l0[hidden : 2 * hidden] = 1.0

    def forward(self, sequences):
        outputs, _ = self.recurrent(sequences)
        return self.answer(outputs[:, -1])


def loss(model, sequences, sums):
    return nn.functional.mse_loss(model(sequences), sums)


def train(layer, test, options):
    """Train a network with such a layer; return it and its test loss after each epoch."""
    gpugrad.manual_seed(options.seed)
    model = Adder(layer, options.hidden).to(options.device)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    trainer = Trainer(
        model,
        optimizer,
        loss,
        NewBatches(lambda: draw_sequences(32, options.length, options.device), STEPS),
        evaluate_on={"test": data.DataLoader(test, 500)},
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
        max_norm=1.0,
        callbacks=[Progress(every=max(1, options.epochs // 10))],
        compile=options.compile,
    )
    return model, [row["test/loss"] for row in trainer.fit(options.epochs)]


def main():
    parser = Parser(__doc__, compile=True, plot="runs/long_memory.png")
    add = parser.add_argument
    add("--length", type=positive, default=100, help="of the sequences, at least 2, default 100")
    add("--hidden", type=positive, default=32, help="numbers in the memory, default 32")
    add("--epochs", type=positive, default=30, help=f"of {STEPS} steps, default 30")
    add("--quick", action="store_true", help="5 epochs with sequences of 10 steps, as a test")
    options = parser.parse_args()
    if options.quick:
        options.length, options.epochs = 10, 5
    if options.length < 2:
        parser.error("--length must be at least 2")
    gpugrad.manual_seed(options.seed + 1)
    test = data.TensorDataset(*draw_sequences(2000, options.length, options.device))
    print(f"an answer of 1 has a mean squared error of {(test.tensors[1] - 1).square().mean():.4f}")

    figure, (left, right) = panels()
    for name, layer in ("RNN", nn.RNN), ("LSTM", nn.LSTM):
        print(f"{name}:")
        model, losses = train(layer, test, options)
        left.semilogy(range(1, len(losses) + 1), losses, label=f"{name}, final {losses[-1]:.1e}")
    with gpugrad.no_grad():
        answers = model(test.tensors[0])
    error = gpugrad.abs(answers - test.tensors[1])
    print(
        f"LSTM over {options.length} steps: mean squared error {losses[-1]:.1e}, "
        f"{100 * (error < 0.04).mean().item():.1f} % of the answers within 0.04"
    )
    left.axhline(1 / 6, color="0.6", lw=1, label="answer of 1")
    left.set(xlabel=f"epoch of {STEPS} steps", ylabel="mean squared error")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False)
    right.axline((0, 0), slope=1, color="0.6", lw=1)
    right.plot(test.tensors[1].cpu().numpy(), answers.cpu().numpy(), ".", ms=2)
    right.set(xlabel="sum of the marked numbers", ylabel="answer of the LSTM")
    save_figure(figure, options.plot)


if __name__ == "__main__":
    main()
