"""Interval score against the best peer of each data set."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benchmarks.quality.methods import OURS
from benchmarks.quality.summary import Scores, configurations, geometric_mean, in_order

LAWS = ["split", "kernel-cv", "forest", "learned"]


def draw_sets(axes, scores):
    """A row a data set: auto with two standard errors, some laws, MAPIE's CQR."""
    places = np.arange(len(scores.datasets))[::-1]
    for name in in_order(scores.methods, [*LAWS, "mapie-cqr", "auto"]):
        ratios = scores.ratios(name, scores.best_peer)
        at = [place for place, one in zip(places, scores.datasets, strict=True) if one in ratios]
        means = [ratio.mean for ratio in ratios.values()]
        if name == "auto":
            errors = [2 * np.nan_to_num(ratio.error) for ratio in ratios.values()]
            axes.errorbar(means, at, xerr=errors, fmt="o", color="black", label=name, zorder=3)
        else:
            axes.plot(means, at, "o", alpha=0.6, label=name)
    axes.axvline(1.0, color="grey", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.set_yticks(places, scores.datasets)
    axes.set_xlabel("interval score / best peer's (log scale, ± 2 standard errors)")
    axes.legend(fontsize=8)


def draw_means(axes, scores):
    """Geometric means of all methods, ours in black."""
    means = {name: geometric_mean(scores.ratios(name, scores.best_peer)) for name in scores.methods}
    kept = {name: one.mean for name, one in means.items() if one and np.isfinite(one.mean)}
    order = sorted(kept, key=kept.get, reverse=True)
    colours = ["black" if name in OURS else "tab:blue" for name in order]
    axes.barh(order, [kept[name] for name in order], color=colours)
    axes.axvline(1.0, color="grey", linewidth=1)
    axes.set_xlabel("geometric mean over the sets that finished")


def draw(records, path):
    """Of the configuration with the most records; nothing to draw without a finished seed."""
    parts = configurations(pd.DataFrame(records))
    scores = Scores(parts[0][1]) if parts else None
    if scores is None or not scores.datasets:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
    draw_sets(left, scores)
    draw_means(right, scores)
    (base, max_rows), _ = parts[0]
    figure.suptitle(f"Base model: {base}, at most {max_rows} rows (black: localconformal)")
    figure.savefig(path, dpi=120)
    plt.close(figure)
