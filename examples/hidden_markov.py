"""A hidden Markov model finds the vowels in Newton's "Opticks", without being told what a vowel is.

The model writes a text letter by letter. It is in one of a few states, each of which has its own
probabilities for the next letter and for the next state. Which state it is in is never seen. The
forward algorithm sums the probability of the text over all ways through the states.

Baum and Welch's algorithm makes the text more probable in each step. It needs the expected
number of times that each letter is written and each transition happens. These are the gradients of
the text's log-likelihood by the logarithms of the probabilities, so that the backward algorithm
need not be written. Dividing them by their sums gives the next probabilities. From some starts this
ends at a lower maximum, so the program keeps the best of a few.

With two states all vowels end up in one of them, as R. L. Cave and L. P. Neuwirth found in "Hidden
Markov models for English" (1980). A. A. Markov had counted vowels and consonants by hand in 1913.
"""

from common import Parser, panels, positive, progress_bar, save_figure

import gzip
from pathlib import Path

import gpugrad
import gpugrad.numpy as np
from gpugrad.scipy.special import logsumexp

TEXT = Path(__file__).parent / "data" / "opticks.txt.gz"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LENGTH = 200  # the text is cut into pieces of so many letters, which go through the model together


def load(count):
    """Return at most ``count`` pieces ``(n, LENGTH)`` of the text, as places in LETTERS."""
    text = gzip.decompress(TEXT.read_bytes()).decode().lower()
    places = np.array([LETTERS.index(c) for c in text if c in LETTERS])
    count = min(count, len(places) // LENGTH)
    return places[: count * LENGTH].reshape(count, LENGTH)


def log_likelihood(parameters, pieces):
    """Return the log-likelihood of pieces ``(n, length)``.

    parameters: the logarithms of probabilities: of the states at first ``(s,)``, of the next state
        in each state ``(s, s)``, and of the letters in each state ``(s, 26)``.
    """
    first, transitions, letters = parameters
    written = letters.T[pieces]  # (n, length, s)
    alpha = first + written[:, 0]
    for t in range(1, pieces.shape[1]):
        alpha = logsumexp(alpha[:, :, None] + transitions, axis=1) + written[:, t]
    return np.sum(logsumexp(alpha, axis=1))


def normalized(counts):
    """Return the logarithms of the probabilities that are in proportion to expected counts."""
    return np.log(counts / np.sum(counts, axis=-1, keepdims=True))


def fit(pieces, states, steps, generator, bar):
    """Return the probabilities that a number of steps lead to, and the log-likelihoods before."""
    shapes = (states,), (states, states), (states, len(LETTERS))
    parameters = [
        np.asarray(normalized(0.5 + generator.random(shape)), device=pieces.device)
        for shape in shapes
    ]
    expected_counts, history = gpugrad.value_and_grad(log_likelihood), []
    for _ in range(steps):
        value, counts = expected_counts(parameters, pieces)
        parameters = [normalized(x) for x in counts]
        history.append(value.item() / pieces.size)
        bar.update()
    return parameters, history


def draw(path, histories, letters):
    figure, (left, right) = panels()
    left.plot(np.stack(histories).T)
    left.set(xlabel="step", ylabel="log-likelihood per letter, of each start")
    share = letters / np.maximum(letters.sum(axis=0), 1e-300)  # some may not occur
    bottom = 0.0
    for k, row in enumerate(share):
        right.bar([*LETTERS], row, bottom=bottom, label=f"state {k + 1}")
        bottom = bottom + row
    right.set(ylabel="share of each state in writing the letter")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(share), frameon=False)
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/hidden_markov.png")
    parser.add_argument("--states", type=positive, default=2, help="default 2")
    parser.add_argument("--starts", type=positive, default=3, help="default 3")
    parser.add_argument("--steps", type=positive, default=100, help="default 100")
    parser.add_argument("--pieces", type=positive, default=150, help="of 200 letters, default 150")
    options = parser.parse_args()
    pieces = np.asarray(load(options.pieces), device=options.device)
    generator = np.random.default_rng(options.seed)
    with progress_bar(options.starts * options.steps) as bar:
        found = [
            fit(pieces, options.states, options.steps, generator, bar)
            for _ in range(options.starts)
        ]
    (_, transitions, letters), history = max(found, key=lambda pair: pair[1][-1])
    print(f"log-likelihood per letter from {history[0]:.4f} to {history[-1]:.4f}")
    # How often each state writes each letter, by how often the text is in each state.
    often = np.linalg.matrix_power(np.exp(transitions), 1000)[0]
    letters = (often[:, None] * np.exp(letters)).cpu().numpy()
    for k in range(options.states):
        own = [c for c, best in zip(LETTERS, letters.argmax(axis=0), strict=True) if best == k]
        print(f"state {k + 1} writes most of: {' '.join(own)}")
    draw(options.plot, [history for _, history in found], letters)


if __name__ == "__main__":
    main()
