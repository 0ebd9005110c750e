"""Exclusive or: the smallest problem that needs a hidden layer."""

from common import Parser, panels, positive, save_figure

import gpugrad
from gpugrad import nn, optim

INPUTS = gpugrad.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
TARGETS = gpugrad.tensor([[0.0], [1.0], [1.0], [0.0]])


def train(layer_sizes=(8, 1), *, epochs=1000, seed=0, dtype=gpugrad.float32, device="cpu"):
    """Train a model on all four cases at once; return it and the loss of each epoch."""
    gpugrad.manual_seed(seed)
    x, y = (tensor.to(dtype=dtype, device=device) for tensor in (INPUTS, TARGETS))
    model = nn.MLP(2, layer_sizes, nn.Tanh, dtype=dtype).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def main():
    parser = Parser(__doc__)
    parser.add_argument("--epochs", type=positive, default=300, help="default 300")
    options = parser.parse_args()
    model, losses = train(epochs=options.epochs, seed=options.seed, device=options.device)

    count = sum(p.size for p in model.parameters())
    print(f"{count} parameters, loss {losses[-1]:.2g} after {len(losses)} epochs")
    with gpugrad.no_grad():
        answers = model(INPUTS.to(options.device)).tolist()
    for (a, b), (answer,) in zip(INPUTS.tolist(), answers, strict=True):
        print(f"{a:.0f} xor {b:.0f} = {round(answer, 3) + 0:.3f}")
    draw(model, losses, options.device)


def draw(model, losses, device):
    """Draw the loss, and the model's answers at and between the corners."""
    figure, (left, right) = panels()
    left.semilogy(range(1, len(losses) + 1), losses)
    left.set(xlabel="epoch", ylabel="mean squared error")

    n = 101
    side = gpugrad.linspace(-0.25, 1.25, n, device=device)
    grid = gpugrad.stack(
        [gpugrad.broadcast_to(side, (n, n)), gpugrad.broadcast_to(side.reshape(n, 1), (n, n))],
        axis=-1,
    )
    with gpugrad.no_grad():
        answers = model(grid).reshape(n, n).cpu().numpy()
    extent = (-0.25, 1.25, -0.25, 1.25)
    image = right.imshow(
        answers, origin="lower", extent=extent, cmap="RdBu", interpolation="bilinear"
    )
    image.set_clim(-0.2, 1.2)
    figure.colorbar(image, label="answer")
    right.contour(answers, [0.5], extent=extent, colors="black", linewidths=1)
    for (a, b), (target,) in zip(INPUTS.tolist(), TARGETS.tolist(), strict=True):
        right.plot(a, b, "o", color="white", markeredgecolor="black", markersize=16)
        right.text(a, b, f"{target:.0f}", ha="center", va="center_baseline")
    right.grid(False)
    right.set(xlabel="a", ylabel="b", xticks=[0, 1], yticks=[0, 1])
    save_figure(figure, "runs/xor.png")


if __name__ == "__main__":
    main()
