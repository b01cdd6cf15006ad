"""One picture: seconds by size of the engines, and of whole intervals by this library and peers."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(results, path):
    """Two log-log panels."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for name, one in results["engines"].items():
        curve(left, name, one, "seconds_for_n_queries")
    predict = results["bars"]["sketch"]["predict_seconds"]["half_of_one_thread"]
    left.axhline(predict, color="grey", lw=1, ls=":", label="boosting predicts $10^6$ rows")
    left.set(title="n local quantiles from n references (d = 10)", ylabel="seconds")
    for name, one in results["peers"].items():
        curve(right, name, one, "predict_seconds")
    right.set(title="predict_interval of n rows, calibrated on n")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="n")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def curve(axes, name, one, key):
    """One method's seconds, with its growth exponent."""
    sizes = [point["n"] for point in one["sizes"]]
    growth = one["growth_exponent"]
    label = name if growth is None else f"{name}, $n^{{{growth:.1f}}}$"
    axes.plot(sizes, [point[key] for point in one["sizes"]], "o-", ms=4, label=label)
