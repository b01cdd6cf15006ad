"""Fit, draw, and bring the table of the docs up to date."""

import json
from pathlib import Path

import numpy as np

from benchmarks.gallery import data, figure, methods
from localconformal.regressors.table import METHODS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "methods.md"
BEGIN, END = "<!-- table: python -m benchmarks.gallery -->\n", "<!-- end of table -->"
TRAIN, TEST = 2_000, 4_000


def table():
    """The table of `localconformal.methods` in Markdown."""
    names = ("estimator", "method", "guarantee", "cost", "when to use it", "reference")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for m in METHODS:
        cells = (f"`{m.estimator}`", m.method, m.guarantee, m.cost, m.when, m.reference)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    """The figure, its numbers and the table."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    models = methods.fitted(*data.rows(TRAIN, seed=0))
    grid = np.linspace(0.01, 4.99, 250)[:, None]
    found = figure.draw(
        models, *data.rows(TEST, seed=1), grid, ROOT / "docs" / "images" / "gallery.png"
    )
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
