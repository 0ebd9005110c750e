"""A network with 97 parameters learns the sine; its own derivative should be the cosine."""

from common import Parser, panels, positive, save_figure

import math

import gpugrad
from gpugrad import nn, optim


def train(epochs=1000, *, seed=0, dtype=gpugrad.float32, device="cpu"):
    """Train a 1-32-1 model on all 100 points at once; return it and the loss of each epoch."""
    gpugrad.manual_seed(seed)
    x = gpugrad.linspace(-math.pi, math.pi, 100, dtype=dtype, device=device).reshape(100, 1)
    y = gpugrad.sin(x)
    model = nn.MLP(1, [32, 1], nn.Tanh, dtype=dtype).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def slope(model, x):
    """Return the derivative of the model at each of the points ``(n, 1)``."""
    x = x.detach().requires_grad_()
    # Each output depends on its own row only, so the gradient of the sum holds all derivatives.
    (dy_dx,) = gpugrad.autograd.grad(model(x).sum(), x)
    return dy_dx


def main():
    parser = Parser(__doc__)
    parser.add_argument("--epochs", type=positive, default=1000, help="default 1000")
    options = parser.parse_args()
    model, losses = train(options.epochs, seed=options.seed, device=options.device)
    x = gpugrad.linspace(-math.pi, math.pi, 400, device=options.device).reshape(400, 1)
    with gpugrad.no_grad():
        y = model(x)
    dy_dx = slope(model, x)
    count = sum(p.size for p in model.parameters())
    print(f"{count} parameters, loss {losses[-1]:.2g} after {len(losses)} epochs")
    print(f"largest error of the sine   {gpugrad.max(gpugrad.abs(y - gpugrad.sin(x))).item():.2g}")
    print(
        f"largest error of its slope  {gpugrad.max(gpugrad.abs(dy_dx - gpugrad.cos(x))).item():.2g}"
    )

    figure, (left, right) = panels()
    left.semilogy(range(1, len(losses) + 1), losses)
    left.set(xlabel="epoch", ylabel="mean squared error")
    points = x.cpu().numpy()
    for values, truth, name in (y, gpugrad.sin(x), "network"), (dy_dx, gpugrad.cos(x), "its slope"):
        (line,) = right.plot(points, values.cpu().numpy(), label=name)
        right.plot(points[::10], truth.cpu().numpy()[::10], "o", color=line.get_color(), alpha=0.4)
    right.set(xlabel="x", ylabel="value", ylim=(-1.1, 1.6))
    right.legend(loc="upper center", ncols=2, frameon=False, title="dots: sine and cosine")
    save_figure(figure, "runs/fit_sine.png")


if __name__ == "__main__":
    main()
