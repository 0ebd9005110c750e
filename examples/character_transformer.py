"""A transformer learns to write like Isaac Newton, one character after another.

It is trained on nine tenths of the third book of his Opticks, and tested on the last tenth. At the
end it continues a question. The cross-entropy is that of the next character, given those before it.
"""

from common import NewBatches, Parser, positive, save_figure

import gzip
import math
import textwrap
from pathlib import Path

import gpugrad
from gpugrad import data, nn, optim, random
from gpugrad.training import Progress, Trainer, curves

TEXT = Path(__file__).parent / "data" / "opticks.txt.gz"
STEPS = 100  # in an epoch
PROMPT = "Qu. 32. Do not the Rays of Light"


class CharacterTransformer(nn.Module):
    """Maps numbers of characters ``(n, length)`` to logits ``(n, length, characters)``.

    The logits at a position are those of the next character, and depend on no later one.
    length: the most characters that it can look back at.
    """

    def __init__(self, characters, length, width, heads, layers, dropout):
        self.length = length
        self.embedding = nn.Embedding(characters, width)
        self.positions = nn.Parameter(random.normal((length, width), std=0.02))
        layer = nn.TransformerEncoderLayer(
            *(width, heads, 4 * width, dropout, "gelu"), batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width))
        self.output = nn.Linear(width, characters)

    def forward(self, numbers):
        x = self.embedding(numbers) + self.positions[: numbers.shape[1]]
        return self.output(self.encoder(x, is_causal=True))

    @gpugrad.no_grad()
    def continued(self, numbers, count, temperature):
        """Return a list of numbers with so many drawn ones appended."""
        self.eval()
        numbers = list(numbers)
        for _ in range(count):
            context = gpugrad.tensor([numbers[-self.length :]], device=self.positions.device)
            logits = self(context)[0, -1] / temperature
            # The argmax with Gumbel noise is a draw from the softmax.
            noise = -gpugrad.log(-gpugrad.log(random.uniform(logits.shape, low=1e-9)))
            numbers.append((logits + noise.to(logits.device)).argmax().item())
        return numbers


def loss(model, inputs, targets):
    """Return the mean cross-entropy in nats, and in bits."""
    logits = model(inputs)
    nats = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
    return nats, {"bits": nats.detach() / math.log(2)}


def main():
    parser = Parser(__doc__, compile=True, plot="runs/character_transformer.png")
    add = parser.add_argument
    add("--length", type=positive, default=64, help="characters to look back at, default 64")
    add("--width", type=positive, default=128, help="numbers for a character, default 128")
    add("--heads", type=positive, default=4, help="of attention, default 4")
    add("--layers", type=positive, default=2, help="default 2")
    add("--batch-size", type=positive, default=16, help="default 16")
    add("--epochs", type=positive, default=15, help=f"of {STEPS} steps, default 15")
    add("--quick", action="store_true", help="1 epoch with one narrow layer, as a test")
    options = parser.parse_args()
    if options.quick:
        options.length, options.width, options.layers, options.epochs = 32, 32, 1, 1
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    text = gzip.decompress(TEXT.read_bytes()).decode("ascii")
    characters = sorted(set(text))
    number_of = {character: i for i, character in enumerate(characters)}
    numbers = gpugrad.tensor([number_of[character] for character in text], device=options.device)
    cut = len(text) * 9 // 10
    train, test = numbers[:cut], numbers[cut:]
    if options.length >= len(test):
        parser.error(f"--length must be less than {len(test)}, the length of the text for tests")
    offsets = gpugrad.arange(options.length + 1, device=options.device)

    def draw_batch():
        starts = random.integers(0, len(train) - options.length, (options.batch_size, 1))
        windows = train[starts.to(options.device) + offsets]
        return windows[:, :-1], windows[:, 1:]

    starts = gpugrad.arange(0, len(test) - options.length, options.length, device=options.device)
    windows = test[starts.reshape(-1, 1) + offsets]
    tested = data.TensorDataset(windows[:, :-1], windows[:, 1:])

    gpugrad.manual_seed(options.seed)
    model = CharacterTransformer(
        *(len(characters), options.length, options.width, options.heads, options.layers),
        dropout=0.1,
    ).to(options.device)
    print(f"{sum(p.size for p in model.parameters()):,} parameters, {len(text):,} characters")
    optimizer = optim.AdamW(model.parameters(), weight_decay=0.1)
    trainer = Trainer(
        model,
        optimizer,
        loss,
        NewBatches(draw_batch, STEPS),
        evaluate_on={"test": data.DataLoader(tested, 50)},
        scheduler=optim.lr_scheduler.OneCycleLR(
            optimizer, 0.003, total_steps=options.epochs * STEPS, pct_start=0.1
        ),
        schedule_per="step",
        max_norm=1.0,
        callbacks=[Progress()],
        compile=options.compile,
    )
    history = trainer.fit(options.epochs)
    print(f"test cross-entropy {history[-1]['test/bits']:.3f} bits a character\n")
    drawn = model.continued([number_of[c] for c in PROMPT], 500, temperature=0.7)
    for paragraph in "".join(characters[i] for i in drawn).splitlines():
        print(textwrap.fill(paragraph, 80))
    save_figure(curves(history, "the third book of Opticks"), options.plot)


if __name__ == "__main__":
    main()
