"""Interval score against the best peer of each data set."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.quality.summary import Scores, in_order, regimes

SHOWN = ["forest", "mapie-cqr", "quantile-forest", "catboost-cqr", "lightgbm-cqr", "auto"]


def draw_sets(axes, scores):
    """A row per data set: auto with two standard errors, the forest law, and peers."""
    places = np.arange(len(scores.datasets))[::-1]
    for name in in_order(scores.methods, SHOWN):
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


def draw(records, path):
    """A panel per regime; nothing to draw without a finished seed."""
    drawn = {cap: Scores(part) for cap, part in regimes(records)}
    drawn = {cap: scores for cap, scores in drawn.items() if scores.datasets}
    if not drawn:
        return
    size = {"figsize": (6.5 * len(drawn), 6), "layout": "constrained"}
    figure, panels = plt.subplots(1, len(drawn), squeeze=False, **size)
    for axes, (cap, scores) in zip(panels[0], drawn.items(), strict=True):
        draw_sets(axes, scores)
        axes.set_title("all rows" if cap == "all" else f"at most {int(cap):,} rows")
    figure.savefig(path, dpi=120)
    plt.close(figure)
