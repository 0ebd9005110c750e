"""A network predicts how far cars go on a gallon, and is compared with linear least squares.

The 392 cars are divided into five parts. Each part is predicted by a network, and by linear least
squares, that have seen only the other four. A seventh of those is held out while the network
learns: the training stops when the error on them falls no longer, and its best network is used.
"""

from common import Parser, panels, positive, save_figure

import csv
import math
from pathlib import Path

import gpugrad
from gpugrad import data, nn, optim
from gpugrad.training import Trainer

TABLE = Path(__file__).parent / "data" / "auto_mpg.csv"
PARTS = 5


def load(device):
    """Return the features ``(n, 9)`` and the miles per gallon ``(n, 1)`` of all cars."""
    with TABLE.open(newline="") as file:
        rows = [[float(value) for value in row] for row in list(csv.reader(file))[1:]]
    table = gpugrad.tensor(rows, device=device)
    origin = gpugrad.astype(table[:, 6:7] == gpugrad.arange(1, 4, device=device), table.dtype)
    return gpugrad.concat([table[:, :6], origin], axis=1), table[:, 7:]


def least_squares(x, y):
    """Return a linear function with a constant term, fitted to ``x`` and ``y``."""

    def extended(x):
        return gpugrad.concat([x, gpugrad.ones((len(x), 1), device=x.device)], axis=1)

    coefficients = gpugrad.linalg.pinv(extended(x)) @ y
    return lambda x: extended(x) @ coefficients


def fit_network(x, y, options):
    """Return the best network of a training with most of ``x`` and ``y``, and its history."""
    y_mean, y_deviation = y.mean(), gpugrad.sqrt(y.var())
    cars = data.TensorDataset(x, (y - y_mean) / y_deviation)
    order = gpugrad.random.permutation(len(x)).to(x.device)
    count = len(x) // 7
    held_out, learned = (data.TensorDataset(*cars[i]) for i in (order[:count], order[count:]))
    model = nn.Sequential(
        *(nn.Linear(x.shape[1], options.hidden), nn.LayerNorm(options.hidden), nn.GELU()),
        *(nn.Linear(options.hidden, options.hidden), nn.LayerNorm(options.hidden), nn.GELU()),
        nn.Linear(options.hidden, 1),
    ).to(options.device)
    optimizer = optim.AdamW(model.parameters(), lr=0.003, weight_decay=0.1)
    trainer = Trainer(
        model,
        optimizer,
        lambda model, x, y: nn.functional.mse_loss(model(x), y),
        data.DataLoader(learned, 32, shuffle=True),
        evaluate_on={"validation": data.DataLoader(held_out, len(held_out))},
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
        monitor="validation/loss",
        patience=max(1, options.epochs // 5),
        compile=options.compile,
    )
    history = trainer.fit(options.epochs)
    trainer.restore_best()
    model.eval()
    return lambda x: model(x) * y_deviation + y_mean, history


@gpugrad.no_grad()
def rmse(predicted, measured):
    return math.sqrt((predicted - measured).square().mean().item())


def main():
    parser = Parser(__doc__, compile=True, plot="runs/regression.png")
    parser.add_argument("--epochs", type=positive, default=200, help="at most, default 200")
    parser.add_argument("--hidden", type=positive, default=64, help="units a layer, default 64")
    parser.add_argument("--quick", action="store_true", help="train for 10 epochs, as a test")
    options = parser.parse_args()
    if options.quick:
        options.epochs = 10
    gpugrad.manual_seed(options.seed)
    features, mpg = load(options.device)
    order = gpugrad.random.permutation(len(mpg)).to(mpg.device)
    linear, network = gpugrad.zeros_like(mpg), gpugrad.zeros_like(mpg)
    for part in range(PARTS):
        is_tested = gpugrad.arange(len(mpg), device=mpg.device) % PARTS == part
        test, rest = order[is_tested], order[~is_tested]
        mean, deviation = features[rest].mean(axis=0), gpugrad.sqrt(features[rest].var(axis=0))
        x = (features - mean) / deviation
        linear[test] = least_squares(x[rest], mpg[rest])(x[test])
        fitted, history = fit_network(x[rest], mpg[rest], options)
        with gpugrad.no_grad():
            network[test] = fitted(x[test])
        print(
            f"part {part + 1}/{PARTS}: {len(history)} epochs, RMSE of the network "
            f"{rmse(network[test], mpg[test]):.2f}, of least squares "
            f"{rmse(linear[test], mpg[test]):.2f} miles per gallon"
        )
    spread = math.sqrt(mpg.var().item())
    for name, predicted in ("network", network), ("linear least squares", linear):
        error = rmse(predicted, mpg)
        explained = 1 - (error / spread) ** 2
        print(f"{name:20}   RMSE {error:.2f} miles per gallon, R^2 {explained:.3f}")

    figure, axes = panels()
    for ax, name, predicted in (
        (axes[0], "linear least squares", linear),
        (axes[1], "network", network),
    ):
        ax.axline((10, 10), slope=1, color="0.6", lw=1)
        ax.plot(mpg.cpu().numpy(), predicted.cpu().numpy(), ".", alpha=0.6)
        ax.set(
            xlabel="measured miles per gallon",
            ylabel="predicted miles per gallon",
            xlim=(5, 50),
            ylim=(5, 50),
        )
        ax.set_title(f"{name}, RMSE {rmse(predicted, mpg):.2f}")
    save_figure(figure, options.plot)


if __name__ == "__main__":
    main()
