"""Small multiples: each method's sets over the rows, with its coverage and mean length."""

import warnings

import numpy as np
from matplotlib.figure import Figure

from benchmarks.gallery.methods import CAPTIONS
from localconformal.metrics import coverage

COLUMNS = 4
POINTS, BAND, INK = "#b9b4a8", "#2f6f8f", "#222222"


def pieces(model, grid):
    """(x, lower, upper) of every piece of the sets at the grid; bounds cut to what is shown."""
    if hasattr(model, "predict_region"):
        region = model.predict_region(grid)
        rows = np.repeat(np.arange(len(grid)), region.n_pieces)
        return grid[rows, 0], region.starts, region.ends
    lower, upper = model.predict_interval(grid).T
    return grid[:, 0], lower, upper


def measure(model, X, y):
    """Coverage and mean length of the sets, the finite ones, and the share of infinite ones."""
    if hasattr(model, "predict_region"):
        region = model.predict_region(X)
        inside, length = region.contains(y).mean(), region.length
    else:
        intervals = model.predict_interval(X)
        inside, length = coverage(y, intervals), np.diff(intervals, axis=1)[:, 0]
    finite = np.isfinite(length)
    return inside, length[finite].mean(), 1.0 - finite.mean()


def draw(models, X, y, grid, file):
    """One panel a method; a record of what each says in its title."""
    lines = -(-len(models) // COLUMNS)
    figure = Figure(figsize=(3.1 * COLUMNS, 2.5 * lines), layout="constrained")
    axes = figure.subplots(lines, COLUMNS, sharex=True, sharey=True).ravel()
    bottom, top = y.min() - 0.5, y.max() + 0.5
    half = 0.5 * (grid[1, 0] - grid[0, 0])
    found = {}
    for ax, (name, model) in zip(axes, models.items(), strict=False):
        with warnings.catch_warnings():
            # Infinite sets are counted and drawn to the edge.
            warnings.simplefilter("ignore", UserWarning)
            x, lower, upper = pieces(model, grid)
            inside, length, infinite = measure(model, X, y)
        lower, upper = np.clip(lower, bottom, top), np.clip(upper, bottom, top)
        ax.plot(X[:400, 0], y[:400], ".", color=POINTS, ms=2.5)
        ax.bar(x, upper - lower, 2 * half, lower, color=BAND, alpha=0.35, linewidth=0)
        ax.set_ylim(bottom, top)
        ax.set_title(name.removesuffix("Regressor"), loc="left", fontsize=9, color=INK)
        said = f"{inside:.0%} covered, mean length {length:.2f}"
        said += f", {infinite:.0%} infinite" if infinite > 0 else ""
        ax.text(0.02, 0.02, said, transform=ax.transAxes, fontsize=7, color=INK)
        if name in CAPTIONS:
            ax.text(0.02, 0.94, CAPTIONS[name], transform=ax.transAxes, fontsize=7, color=INK)
        ax.spines[["top", "right"]].set_visible(False)
        found[name] = {"coverage": inside, "mean_length": length, "infinite_share": infinite}
    for ax in axes[len(models) :]:
        ax.set_visible(False)
    figure.savefig(file, dpi=130)
    return found
