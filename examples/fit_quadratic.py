"""A small network learns y = 0.5 x² + 0.3 x + 0.1 from 50 points, five at a time."""

from common import Parser, panels, positive, save_figure

import gpugrad
from gpugrad import nn, optim
from gpugrad.data import DataLoader, TensorDataset


def train(epochs=100, *, seed=0, dtype=gpugrad.float32, device="cpu"):
    """Return a trained model, the points ``(50, 1)``, their values, and the loss of each epoch."""
    gpugrad.manual_seed(seed)
    x = gpugrad.linspace(-1, 1, 50, dtype=dtype, device=device).reshape(50, 1)
    y = 0.5 * x**2 + 0.3 * x + 0.1
    model = nn.MLP(1, [10, 10, 1], dtype=dtype).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss = nn.MSELoss()
    losses = []
    loader = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True, seed=seed)
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
        with gpugrad.no_grad():
            losses.append(loss(model(x), y).item())
    return model, x, y, losses


def main():
    parser = Parser(__doc__)
    parser.add_argument("--epochs", type=positive, default=100, help="default 100")
    options = parser.parse_args()
    model, x, y, losses = train(options.epochs, seed=options.seed, device=options.device)
    print(f"loss {losses[-1]:.2g} after {len(losses)} epochs")

    figure, (left, right) = panels()
    left.semilogy(range(1, len(losses) + 1), losses)
    left.set(xlabel="epoch", ylabel="mean squared error")
    points = x.cpu().numpy()
    right.plot(points, y.cpu().numpy(), ".", label="0.5 x² + 0.3 x + 0.1")
    right.plot(points, model(x).detach().cpu().numpy(), label="network")
    right.set(xlabel="x", ylabel="y")
    right.legend(frameon=False)
    save_figure(figure, "runs/fit_quadratic.png")


if __name__ == "__main__":
    main()
