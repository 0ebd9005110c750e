"""A variational autoencoder learns to draw digits or clothes.

The encoder maps an image to a normal distribution of codes, the decoder a code to the mean of a
normal distribution of images. All pixels have one standard deviation, which is learned too.
Both are trained to maximize the evidence lower bound (ELBO), which is at most the logarithm of the
probability density of the images:

    E[log p(image | code)] - KL(q(code | image) || normal(0, 1))

Kingma & Welling 2014, "Auto-encoding variational Bayes"; for the deviation Rybkin, Daniilidis &
Levine 2021, "Simple and effective VAE training with calibrated decoders". The picture has the bound
over the epochs, test images with their reconstructions below, and new images, which the decoder
makes of codes drawn from the normal distribution.
"""

from common import Parser, add_data_set, load_data_set, panels, positive, save_figure

import math

import gpugrad
from gpugrad import data, nn, optim
from gpugrad.training import Progress, Trainer

BATCH_SIZE = {"digits": 32, "mnist": 128, "fashion-mnist": 128}


class VariationalAutoencoder(nn.Module):
    """pixels: in an image. codes: numbers in a code. hidden: units in a layer."""

    def __init__(self, pixels, codes, hidden):
        self.encoder = nn.MLP(pixels, [hidden, hidden, 2 * codes])
        self.decoder = nn.Sequential(nn.MLP(codes, [hidden, hidden, pixels]), nn.Sigmoid())
        self.log_deviation = nn.Parameter(gpugrad.tensor(-1.0))
        self.codes = codes

    def encode(self, images):
        """Return the mean and the logarithm of the variance of the codes, each ``(n, codes)``."""
        both = self.encoder(images)
        return both[:, : self.codes], both[:, self.codes :]

    def forward(self, images):
        """Return for each image log p(image | code), for a random code, and the KL divergence."""
        mean, log_variance = self.encode(images)
        noise = gpugrad.random.normal(mean.shape, device=mean.device)
        decoded = self.decoder(mean + noise * gpugrad.exp(log_variance / 2))
        errors = (images - decoded) * gpugrad.exp(-self.log_deviation)
        pixels = -(errors**2 + math.log(2 * math.pi)) / 2 - self.log_deviation
        divergences = mean**2 + gpugrad.exp(log_variance) - log_variance - 1
        return pixels.sum(axis=1), divergences.sum(axis=1) / 2

    def sample(self, count, device):
        """Return new images ``(count, pixels)``."""
        return self.decoder(gpugrad.random.normal((count, self.codes), device=device))

    def reconstruct(self, images):
        """Return what the decoder makes of the mean codes of images."""
        return self.decoder(self.encode(images)[0])


def loss(model, images, labels):
    """Return the mean of the negative ELBO, and of its two parts."""
    likelihood, divergence = model(images)
    return (divergence - likelihood).mean(), {
        "likelihood": likelihood.mean(),
        "divergence": divergence.mean(),
    }


def tiles(images, columns):
    """Return images ``(n, pixels)`` as one, in rows of so many, with grey lines between them."""
    rows, side = len(images) // columns, round(images.shape[1] ** 0.5)
    grid = gpugrad.full((rows, side + 1, columns, side + 1), 0.3, device=images.device)
    images = images.reshape(rows, columns, side, side)
    grid[:, :side, :, :side] = gpugrad.permute_dims(images, (0, 2, 1, 3))
    return grid.reshape(rows * (side + 1), -1)[:-1, :-1].cpu().numpy()


@gpugrad.no_grad()
def draw(model, history, test, options):
    """Draw the bound, reconstructions and new images."""
    figure, (left, middle, right) = panels(3)
    epochs = range(1, len(history) + 1)
    for part in "training", "test":
        bound = [-row[f"{part}/loss"] for row in history]
        left.plot(epochs, bound, label=f"{part}, final {bound[-1]:.1f}")
    left.set(xlabel="epoch", ylabel="ELBO in nats")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False, loc="lower right")
    images = test.tensors[0][:40].reshape(4, 10, -1)
    pairs = gpugrad.stack(
        [images, model.reconstruct(images.reshape(40, -1)).reshape(images.shape)], axis=1
    )
    for ax, shown, title in (
        (middle, pairs.reshape(80, -1), "test images with their reconstructions"),
        (right, model.sample(80, options.device), "new images"),
    ):
        ax.imshow(tiles(shown, 10), cmap="gray", vmin=0, vmax=1)
        ax.set_title(title)
        ax.axis("off")
    save_figure(figure, options.plot)


def main():
    parser = Parser(__doc__, compile=True, plot="runs/variational_autoencoder.png")
    add_data_set(parser)
    parser.add_argument("--epochs", type=positive, help="default 60 for digits, else 20")
    parser.add_argument("--codes", type=positive, default=16, help="numbers in a code, default 16")
    parser.add_argument("--hidden", type=positive, default=256, help="hidden units, default 256")
    parser.add_argument("--quick", action="store_true", help="train for 2 epochs, as a test")
    options = parser.parse_args()
    options.epochs = options.epochs or (60 if options.dataset == "digits" else 20)
    if options.quick:
        options.epochs = 2
    train, test = (part.to(options.device) for part in load_data_set(parser, options))
    gpugrad.manual_seed(options.seed)
    model = VariationalAutoencoder(train.tensors[0].shape[1], options.codes, options.hidden)
    model.to(options.device)
    optimizer = optim.Adam(model.parameters(), lr=0.002)
    trainer = Trainer(
        model,
        optimizer,
        loss,
        data.DataLoader(train, BATCH_SIZE[options.dataset], shuffle=True),
        evaluate_on={"test": data.DataLoader(test, 1000)},
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
        callbacks=[Progress(every=max(1, options.epochs // 10))],
        compile=options.compile,
    )
    row = trainer.fit(options.epochs)[-1]
    print(
        f"ELBO of a test image {-row['test/loss']:.2f} nats: log-likelihood "
        f"{row['test/likelihood']:.2f} less divergence {row['test/divergence']:.2f}; "
        f"deviation of a pixel {math.exp(model.log_deviation.item()):.3f}"
    )
    model.eval()
    draw(model, trainer.history, test, options)


if __name__ == "__main__":
    main()
