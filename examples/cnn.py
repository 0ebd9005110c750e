"""A convolutional network with two convolutions recognizes digits or clothes."""

from common import Parser, add_data_set, load_data_set, positive, save_figure

import gpugrad
from gpugrad import data, nn, optim
from gpugrad.data import images
from gpugrad.training import Progress, Trainer, curves


def network(side):
    """Return a network for images ``(n, 1, side, side)`` that returns logits ``(n, 10)``.

    Pooling first leaves the normalization and the ReLU a quarter of the numbers.
    """
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(64), nn.ReLU()),
        nn.Flatten(),
        nn.Dropout(0.25),
        *(nn.Linear(64 * (side // 4) ** 2, 128), nn.ReLU()),
        nn.Dropout(0.25),
        nn.Linear(128, 10),
    )


def loss(model, x, labels):
    """Return the mean loss and the share of right answers."""
    logits = model(x)
    right = logits.argmax(axis=1) == labels
    return nn.functional.cross_entropy(logits, labels), {"accuracy": right.mean()}


def load(parser, options):
    """Return training and test set of images ``(n, 1, side, side)``, standardized by the former."""
    train, test = load_data_set(parser, options)
    mean, deviation = train.tensors[0].mean(), gpugrad.sqrt(train.tensors[0].var())
    side = round(train.tensors[0].shape[1] ** 0.5)
    return (
        data.TensorDataset(((x - mean) / deviation).reshape(-1, 1, side, side), labels).to(
            options.device
        )
        for x, labels in (train.tensors, test.tensors)
    )


def augmentation(options, side):
    """Return random changes of images: shifts, and of clothes mirror images too."""
    changes = [images.RandomCrop(side, padding=side // 14 + 1)]
    if options.dataset != "digits":
        changes.append(images.RandomHorizontalFlip())
    return images.Compose(changes)


def main():
    parser = Parser(__doc__, compile=True, plot="runs/cnn.png")
    add_data_set(parser)
    parser.add_argument("--epochs", type=positive, help="default 20 for digits, else 4")
    parser.add_argument("--batch-size", type=positive, default=64, help="default 64")
    parser.add_argument("--augment", action="store_true", help="shift and mirror images at random")
    parser.add_argument("--quick", action="store_true", help="train for 3 epochs, as a test")
    options = parser.parse_args()
    options.epochs = options.epochs or (20 if options.dataset == "digits" else 4)
    if options.quick:
        options.epochs = 3
    train, test = load(parser, options)
    gpugrad.manual_seed(options.seed)
    side = train.tensors[0].shape[2]
    model = network(side).to(options.device)
    loader = data.DataLoader(
        train,
        options.batch_size,
        shuffle=True,
        transform=augmentation(options, side) if options.augment else None,
        prefetch=2 if options.augment and options.device == "cpu" else 0,
    )
    optimizer = optim.AdamW(model.parameters(), weight_decay=0.01)
    trainer = Trainer(
        model,
        optimizer,
        loss,
        loader,
        evaluate_on={"test": data.DataLoader(test, 250)},
        scheduler=optim.lr_scheduler.OneCycleLR(
            optimizer, 0.003, epochs=options.epochs, steps_per_epoch=len(loader)
        ),
        schedule_per="step",
        callbacks=[Progress()],
        compile=options.compile,
    )
    history = trainer.fit(options.epochs)
    wrong = round((1 - history[-1]["test/accuracy"]) * len(test))
    print(
        f"{options.dataset}: test accuracy {history[-1]['test/accuracy']:.4f}, "
        f"{wrong} of {len(test)} images wrong"
    )
    save_figure(curves(history, f"{options.dataset}, two convolutions"), options.plot)


if __name__ == "__main__":
    main()
