"""Print the share of each room's lines that the tests run, as a table in Markdown.

`coverage run -m pytest -n auto` notes the lines, in all processes and threads; what is compiled,
in C and for CUDA, does not count. ``--least PERCENT`` fails if a room has less.
"""

import argparse
import collections
from pathlib import Path

import coverage

PACKAGE = Path(__file__).parent.parent / "gpugrad"


def shares(measured):
    """Return the number of lines and of those that ran for each room, and for all together."""
    lines, ran = collections.Counter(), collections.Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        _, statements, _, missing, _ = measured.analysis2(str(path))
        for name in (path.relative_to(PACKAGE).parts[0].removesuffix(".py"), "together"):
            lines[name] += len(statements)
            ran[name] += len(statements) - len(missing)
    return {name: (lines[name], ran[name]) for name in sorted(lines) if lines[name]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT")
    least, measured = parser.parse_args().least, coverage.Coverage()
    measured.combine()
    print("| room | lines | run by tests |\n|---|---|---|")
    low = []
    for name, (lines, ran) in shares(measured).items():
        print(f"| {name} | {lines:,} | {100 * ran / lines:.1f}% |")
        if 100 * ran / lines < least:
            low.append(name)
    if low:
        raise SystemExit(f"less than {least:g}%: {', '.join(low)}")
