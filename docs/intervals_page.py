"""The images of docs/guide/intervals.md and explain.md, and of quantile models in docs/laws.md."""

from pathlib import Path

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from localconformal import ConformalizedQuantileRegressor, KernelLaw, SLCPRegressor
from localconformal.plots import plot_width

IMAGES = Path(__file__).parent / "images" / "intervals"
matplotlib.style.use(Path(__file__).parent / "pictures.mplstyle")
BASE = {"max_leaf_nodes": 4, "min_samples_leaf": 150, "max_iter": 60, "random_state": 0}
GREEN, BLUE, GREY = "#0f7b6c", "#3566b8", "#8d93a5"
GRID = np.linspace(0, 10, 400)[:, None]


def small_model():
    """Boosting of a few leaves, for smooth pictures."""
    return HistGradientBoostingRegressor(**BASE)


def smooth_law():
    """Of one feature, a kernel does."""
    return KernelLaw(bandwidth=0.3)


def counts(n, seed):
    """Visits on a day, few in the beginning."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n)
    return x[:, None], rng.poisson(np.exp(0.35 * x - 1.2)).astype(float)


def delays(n, seed):
    """Minutes late, with a long tail that grows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n)
    return x[:, None], 2.0 + (0.5 + 0.4 * x) * rng.gamma(1.2, 1.0, n)


def axes(title, X, y):
    """A figure with the rows."""
    ax = Figure(figsize=(5.6, 3.4), layout="constrained").add_subplot()
    ax.scatter(X[:, 0], y, s=5, color=GREY, alpha=0.5, lw=0)
    ax.set_title(title)
    return ax


def known_values():
    """A count: the plain band goes below zero, the other stays on whole numbers."""
    X, y = counts(2_000, 0)
    ax = axes("A count, 90 %: support=(0, None), integer=True", X[:500], y[:500])
    known = {"support": (0, None), "integer": True}
    for options, colour, label in (({}, BLUE, "as it is"), (known, GREEN, "known values")):
        model = SLCPRegressor(small_model(), law=smooth_law(), random_state=0, **options).fit(X, y)
        for bound, name in zip(model.predict_interval(GRID).T, (label, None), strict=True):
            ax.plot(GRID[:, 0], bound, color=colour, lw=1.3, label=name, drawstyle="steps-mid")
    ax.axhline(0.0, color=GREY, lw=0.8, ls=":")
    ax.legend(loc="upper left")
    return ax


def one_side():
    """The upper bound of an interval, and the bound that has all of alpha."""
    X, y = delays(2_000, 0)
    ax = axes("Minutes late: where 90 % end", X[:500], y[:500])
    for sides, colour, label in (("joint", BLUE, "two sides"), ("upper", GREEN, 'sides="upper"')):
        model = SLCPRegressor(small_model(), law=smooth_law(), sides=sides, random_state=0)
        model.fit(X, y)
        ax.plot(GRID[:, 0], model.predict_interval(GRID)[:, 1], color=colour, lw=1.4, label=label)
    ax.set_ylim(0, 25)
    ax.legend(loc="upper left")
    return ax


class ForestQuantiles(RandomForestRegressor):
    """A model of one's own: any quantiles of the training responses in its leaves."""

    def fit(self, X, y):
        """Grow the trees, and remember the responses in their leaves."""
        super().fit(X, y)
        leaves = self.apply(X)
        self.members_ = [
            {leaf: y[leaves[:, t] == leaf] for leaf in np.unique(leaves[:, t])}
            for t in range(leaves.shape[1])
        ]
        return self

    def predict(self, X, quantiles=(0.5,)):
        """Quantiles (n, levels) of the responses that share leaves with each row."""
        rows = [
            np.concatenate(
                [members[leaf] for members, leaf in zip(self.members_, row, strict=True)]
            )
            for row in self.apply(X)
        ]
        return np.array([np.quantile(row, quantiles) for row in rows])


def quantile_models():
    """Two of them, calibrated."""
    X, y = delays(2_000, 0)
    ax = axes("CQR, 90 %, of two quantile models", X[:500], y[:500])
    boosting = HistGradientBoostingRegressor(**BASE, loss="quantile", quantile=0.5)
    forest = ForestQuantiles(20, min_samples_leaf=60, random_state=0)
    for model, colour, label in (
        (boosting, BLUE, "boosting, a fit per level"),
        (forest, GREEN, "a forest that answers any level"),
    ):
        fitted = ConformalizedQuantileRegressor(model, random_state=0).fit(X, y)
        for bound, name in zip(fitted.predict_interval(GRID).T, (label, None), strict=True):
            ax.plot(GRID[:, 0], bound, color=colour, lw=1.3, label=name)
    ax.set_ylim(0, 25)
    ax.legend(loc="upper left")
    return ax


def homes(n, seed):
    """Prices whose noise grows with the size, and is larger in the old town."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.uniform(30, 200, n), "age": rng.uniform(0, 90, n)})
    X["district"] = pd.Categorical(rng.choice(["old town", "north", "south"], n))
    X["rooms"], X["floor"] = rng.integers(1, 7, n), rng.integers(0, 9, n)
    old = (X["district"] == "old town").to_numpy()
    spread = 0.15 * X["size"] * np.where(old, 2.0, 0.7)
    return X, (3 * X["size"] - 0.5 * X["age"] + 60 * old + spread * rng.normal(size=n)).to_numpy()


def explained():
    """One row, and all of them."""
    X, y = homes(4_000, 0)
    model = SLCPRegressor(small_model(), law="forest", random_state=0).fit(X, y)
    found = model.explain_width(homes(60, 1)[0])
    figure = Figure(figsize=(5.6, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1)
    plot_width(found, row=int(found["width"].argmax()), ax=above)
    plot_width(found, ax=below)
    above.set_title("The widest of 60 homes")
    below.set_title("All of them")
    return above


DRAWN = {
    "known_values": known_values,
    "one_side": one_side,
    "quantile_models": quantile_models,
    "explained": explained,
}


def main():
    """Fit, draw, and write the images."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        draw().figure.savefig(IMAGES / f"{name}.png", pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
