"""All methods on the same one-dimensional rows, in one figure: ``python -m benchmarks.gallery``.

It also brings the table of methods in the docs up to date.
"""

import json
import warnings
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor

import localconformal
from benchmarks.harness import Rows, predict_sets

BRANCHES_FROM = 3.0


def centre(x):
    return np.sin(1.5 * x)


def rows(n, seed):
    """X (n, 1) uniform on [0, 5] and y (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 5.0, size=n)
    scale = 0.15 + 0.5 * np.clip(x - 1.0, 0.0, 1.0) * (x < BRANCHES_FROM)
    branch = rng.choice([-1.0, 1.0], size=n) * np.clip(x - BRANCHES_FROM, 0.0, 1.0) * 1.2
    return x[:, None], centre(x) + branch + scale * rng.normal(size=n)


#: What a default cannot know of one feature.
SETTINGS = {
    "LocalizedConformalRegressor": {"law": "forest", "adjustment": "multiplicative"},
    "WeightedConformalRegressor": {"weights": lambda X: 0.02 + (X[:, 0] > 4.0)},
}
CAPTIONS = {
    "LocalizedConformalRegressor": "forest, multiplicative",
    "WeightedConformalRegressor": "weights for x > 4",
}


def base(name):
    """Small trees of few leaves: one feature needs no more."""
    loss = {"loss": "quantile"} if name == "ConformalizedQuantileRegressor" else {}
    return HistGradientBoostingRegressor(
        max_leaf_nodes=8, learning_rate=0.05, random_state=0, **loss
    )


def fitted(X, y):
    """Name -> fitted estimator, for every method of the library that is one."""
    found = {}
    for name in localconformal.methods()["estimator"]:
        if not name.endswith("Regressor"):
            continue
        kind, settings = getattr(localconformal, name), SETTINGS.get(name, {})
        found[name] = kind(base(name), random_state=0, **settings).fit(X, y)
    return found


COLUMNS = 4
POINTS, BAND = "#8d93a5", "#0f7b6c"


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
    sets = predict_sets(model, Rows(X, y, None))
    finite = np.isfinite(sets.lengths)
    return sets.covered.mean(), sets.lengths[finite].mean(), 1.0 - finite.mean()


def draw(models, X, y, grid, file):
    """One panel per method, with its coverage and length; returns these numbers."""
    lines = -(-len(models) // COLUMNS)
    figure = Figure(figsize=(1.95 * COLUMNS, 1.8 * lines), layout="constrained")
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
        ax.plot(X[:400, 0], y[:400], ".", color=POINTS, ms=2)
        ax.bar(x, upper - lower, 2 * half, lower, color=BAND, alpha=0.3, linewidth=0)
        ax.set_ylim(bottom, top)
        ax.set_title(name.removesuffix("Regressor"), fontweight="bold", color=BAND)
        said = f"covers {inside:.0%}, length {length:.2f}"
        said += f", {infinite:.0%} infinite" if infinite > 0 else ""
        ax.text(0.02, 0.02, said, transform=ax.transAxes, fontsize=8.5)
        if name in CAPTIONS:
            ax.text(0.02, 0.93, CAPTIONS[name], transform=ax.transAxes, fontsize=8.5)
        found[name] = {"coverage": inside, "mean_length": length, "infinite_share": infinite}
    for ax in axes[len(models) :]:
        ax.set_visible(False)
    figure.savefig(file, pil_kwargs={"optimize": True})
    return found


ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "methods.md"
BEGIN, END = "<!-- table: python -m benchmarks.gallery -->\n", "<!-- end of table -->"
TRAIN, TEST = 2_000, 4_000


def table():
    """The table of `localconformal.methods` in Markdown."""
    names = ("estimator", "method", "guarantee", "cost", "when to use it", "reference")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for m in localconformal.methods().itertuples():
        cells = (f"`{m.estimator}`", m.method, m.guarantee, m.cost, m.when, m.reference)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    """The figure, its numbers and the table."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1])
    models = fitted(*rows(TRAIN, seed=0))
    grid = np.linspace(0.01, 4.99, 250)[:, None]
    with matplotlib.style.context(ROOT / "docs" / "pictures.mplstyle"):
        found = draw(models, *rows(TEST, seed=1), grid, ROOT / "docs" / "images" / "gallery.png")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
