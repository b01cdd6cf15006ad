"""The images of the README and of the pages of the path, from start to background.

``PYTHONPATH=. LOCALCONFORMAL_DATA=<folder of bike.parquet> python docs/path_pages.py`` draws them
all, names after it only those; ``bike`` and ``trust`` print the numbers of their captions.
"""

import os
import runpy
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import FancyBboxPatch
from scipy.stats import beta
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor
from localconformal.metrics import binomial_band, coverage, mean_length
from localconformal.quantiles import conformal_rank
from paper import data

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
plt.style.use(DOCS / "pictures.mplstyle")
INK, FAINT, POINT, MISS = "#2b2d42", "#c9ccd6", "#8d93a5", "#d62246"
GREEN, BLUE, ORANGE = "#0f7b6c", "#3566b8", "#e08a1e"
PALE = {GREEN: "#e3f1ee", BLUE: "#e6ecf7", ORANGE: "#fbeedd", INK: "#f1f2f5"}
DASHES = (0, (4, 2))
COLOURS = {"Split conformal": ORANGE, "SLCP, the default": GREEN}


# ---- a real table -------------------------------------------------------------------------------

PARTS_OF_THE_DAY = {"0 to 5": (0, 6), "6 to 9": (6, 10), "10 to 15": (10, 16), "16 to 19": (16, 20)}
PARTS_OF_THE_DAY["20 to 23"] = (20, 24)
DAYS = ("2012-06-13", "2012-06-16")


def rentals():
    """Held-out hours of bike (X, y, when), and each method's predictions and intervals there."""
    table = pd.read_parquet(Path(os.environ["LOCALCONFORMAL_DATA"]) / "bike.parquet")
    X, y, _ = data.bike(table, as_in_paper=False)
    when = pd.to_datetime(table["datetime"])
    X, X_new, y, y_new, _, when = train_test_split(X, y, when, test_size=0.5, random_state=0)
    methods = SplitConformalRegressor(random_state=0), SLCPRegressor(random_state=0)
    fitted = [method.fit(X, y) for method in methods]
    answers = [(model.predict(X_new), model.predict_interval(X_new)) for model in fitted]
    return X_new, y_new.to_numpy(), when, dict(zip(COLOURS, answers, strict=True))


def parts_of(X):
    """Name -> which rows, for the parts of the day."""
    hour = X["hour"].to_numpy()
    return {name: (hour >= a) & (hour < b) for name, (a, b) in PARTS_OF_THE_DAY.items()}


def bike(X, y, when, answers):
    """Three days of held-out hours, each with its interval; coverage by part of the day."""
    figure = plt.figure(figsize=(6.2, 4.8), layout="constrained")
    *above, below = figure.subplots(3, 1, height_ratios=(2, 2, 1.4))
    days = ((when >= DAYS[0]) & (when < DAYS[1])).to_numpy()
    hours = (when[days] - pd.Timestamp(DAYS[0])) / pd.Timedelta(hours=1)
    parts = parts_of(X)
    for number, (name, (points, bounds)) in enumerate(answers.items()):
        ax, colour = above[number], COLOURS[name]
        shown, error = (bounds - points[:, None])[days], (y - points)[days]
        hit = (shown[:, 0] <= error) & (error <= shown[:, 1])
        ax.axhline(0, color=FAINT, lw=0.8, zorder=0)
        ax.vlines(hours, *shown.T, color=colour, alpha=0.45, lw=4.5)
        ax.plot(hours[hit], error[hit], "o", ms=3, color=INK)
        ax.plot(hours[~hit], error[~hit], "o", ms=4, color=MISS, label="missed")
        said = f"covers {coverage(y, bounds):.1%}, mean length {mean_length(y, bounds):.0f}"
        ax.set_title(name, color=colour, fontweight="bold", fontsize=11)
        ax.set_title(said, loc="right")
        ax.set_ylabel("rentals minus\nprediction")
        ax.set_xticks(
            [0, 12, 24, 36, 48, 60], ["Wed 0 h", "12 h", "Thu 0 h", "12 h", "Fri 0 h", "12 h"]
        )
        ax.set_xlim(-1, 72)
        ax.tick_params(labelbottom=number > 0)
        shares = [coverage(y[rows], bounds[rows]) for rows in parts.values()]
        place = np.arange(len(parts)) + 0.4 * number - 0.2
        below.bar(place, 100 * np.array(shares), 0.36, color=colour)
        for x, share in zip(place, shares, strict=True):
            look = {"ha": "center", "color": "white", "fontweight": "bold", "fontsize": 9}
            below.text(x, 53, f"{100 * share:.0f}", **look)
        print(name, said, dict(zip(parts, np.round(shares, 3), strict=True)))
    low = min(ax.get_ylim()[0] for ax in above)
    for ax in above:
        ax.set_ylim(low, max(ax.get_ylim()[1] for ax in above))
    above[0].legend(loc="lower left")
    below.axhline(90, color=INK, lw=1, ls=DASHES)
    below.set(ylim=(50, 104), yticks=(50, 90), ylabel="coverage, %", xlabel="hour of the day")
    below.set_xticks(range(len(parts)), parts)
    return figure


def trust(X, y, when, answers):
    """Coverage with its 95 % band, over all rows and by group."""
    weather = X["weather"].to_numpy()
    parts = {f"{name} h": rows for name, rows in parts_of(X).items()}
    groups = {"all rows": np.full(len(y), True), **parts}
    groups |= {"clear": weather == 1, "mist": weather == 2, "rain or snow": weather >= 3}
    figure, ax = plt.subplots(figsize=(5.4, 4.0), layout="constrained")
    for number, (name, (_, bounds)) in enumerate(answers.items()):
        for line, rows in enumerate(groups.values()):
            share = coverage(y[rows], bounds[rows])
            low, high = binomial_band(round(share * rows.sum()), rows.sum())
            place = line + 0.3 * number - 0.15
            look = {"color": COLOURS[name], "label": name if line == 0 else None}
            ax.plot(
                [100 * low, 100 * high], [place, place], lw=2.5, alpha=0.45, color=COLOURS[name]
            )
            ax.plot(100 * share, place, "o", ms=6, **look)
            print(name, list(groups)[line], rows.sum(), round(100 * share, 1))
    ax.axvline(90, color=INK, lw=1, ls=DASHES)
    ax.axhline(0.5, color=FAINT, lw=0.8)
    ax.axhline(5.5, color=FAINT, lw=0.8)
    ax.set_yticks(range(len(groups)), groups)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.set_xlabel("coverage, %, with 95 % bands; dashed: the level")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


# ---- diagrams -----------------------------------------------------------------------------------


def sheet(width, height):
    """A figure without axes, measured in inches from the upper left corner."""
    figure = plt.figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.axis("off")
    return figure, ax


def box(ax, x, y, width, height, text, colour=INK, **look):
    """A rounded box with its text."""
    shape = FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=0.08")
    shape.set(facecolor=PALE[colour], edgecolor=colour, linewidth=1.2)
    ax.add_patch(shape)
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", **look)


def arrow(ax, start, end, text="", colour=INK, **place):
    """From one point to another, with a word at it."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.2})
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    if text:
        shift = place.pop("shift", (0, 0))
        look = {"ha": "center", "va": "center", "fontsize": 9, "color": colour, **place}
        ax.text(middle[0] + shift[0], middle[1] + shift[1], text, **look)


QUESTIONS = (
    ("Must each of some disjoint\ngroups be covered?", "MondrianConformalRegressor"),
    ("Must groups that overlap\nbe covered?", "ConditionalConformalRegressor"),
    ("Is x distributed differently\nin use?", "WeightedConformalRegressor"),
    ("Do rows change over time?", "AdaptiveIntervals(model)"),
    ("Has y two or more\nbranches?", "HPDSplitRegressor"),
    ("Are there too few rows to\nset some aside?", "SLCPRegressor(cv=10)"),
)


def choose():
    """Questions from top to bottom; the first yes decides."""
    step, tall = 0.74, 0.5
    figure, ax = sheet(5.5, 0.2 + step * len(QUESTIONS) + tall)
    for line, (question, answer) in enumerate(QUESTIONS):
        y = 0.1 + step * line
        box(ax, 0.1, y, 2.05, tall, question, fontsize=9.5)
        box(ax, 2.85, y, 2.55, tall, answer, BLUE, fontsize=9.5)
        arrow(ax, (2.15, y + tall / 2), (2.85, y + tall / 2), "yes", shift=(-0.04, -0.1))
        arrow(ax, (1.12, y + tall), (1.12, y + step), "no", shift=(0.2, 0))
    y = 0.1 + step * len(QUESTIONS)
    box(
        ax, 0.1, y, 5.3, tall, "SLCPRegressor(), or SLCPRegressor(your_model)", GREEN, fontsize=10.5
    )
    return figure


def deploy():
    """The life of a model: a file, a service, labels, an alarm, a new calibration."""
    wide, tall, half = 1.42, 0.66, 0.33
    left, middle, right, top, bottom = 0.1, 2.04, 3.98, 0.1, 1.3
    figure, ax = sheet(5.5, bottom + tall + 0.1)
    for x, y, text, colour in (
        (left, top, "train\nfit, save_model", INK),
        (middle, top, "model.skops\ndata, no code", BLUE),
        (right, top, "service\nPOST /predict", BLUE),
        (right, bottom, "labels.jsonl\nPOST /labels", BLUE),
        (middle, bottom, "CoverageMonitor\nstill covering?", GREEN),
        (left, bottom, "recent rows\nconformalize", ORANGE),
    ):
        box(ax, x, y, wide, tall, text, colour, fontsize=9.5)
    arrow(ax, (left + wide, top + half), (middle, top + half))
    arrow(ax, (middle + wide, top + half), (right, top + half), "load", shift=(-0.03, -0.11))
    down = (right + wide / 2, top + tall), (right + wide / 2, bottom)
    arrow(ax, *down, "y becomes known", ha="right", shift=(-0.08, 0))
    arrow(ax, (right, bottom + half), (middle + wide, bottom + half))
    alarm = (middle, bottom + half), (left + wide, bottom + half)
    arrow(ax, *alarm, "alarm", MISS, shift=(0.02, -0.11))
    back = (left + wide / 2, bottom), (middle + wide / 3, top + tall)
    arrow(ax, *back, "a new file", ha="right", shift=(-0.2, -0.05))
    return figure


def rows():
    """Which rows do what in fit."""
    figure, ax = sheet(5.5, 1.95)
    box(ax, 0.1, 0.1, 3.9, 0.5, "training rows, 75 %", BLUE, fontsize=10)
    box(ax, 4.1, 0.1, 1.3, 0.5, "calibration, 25 %", ORANGE, fontsize=9.5)
    box(ax, 0.1, 1.3, 1.8, 0.5, "the model", BLUE, fontsize=10)
    box(ax, 2.2, 1.3, 1.8, 0.5, "the local law", BLUE, fontsize=10)
    box(ax, 4.1, 1.3, 1.3, 0.5, "the correction", ORANGE, fontsize=10)
    arrow(ax, (1.0, 0.6), (1.0, 1.3), "trains", ha="left", shift=(0.07, 0))
    arrow(ax, (3.1, 0.6), (3.1, 1.3), "out-of-fold scores", ha="right", shift=(-0.07, 0))
    arrow(ax, (4.75, 0.6), (4.75, 1.3), "scores", ha="right", shift=(-0.07, 0))
    return figure


def time_series():
    """Rows in the order of time: who trains, who calibrates, who is predicted."""
    figure, ax = sheet(5.5, 1.5)
    for x, width, text, colour in (
        (0.1, 2.3, "fit: older rows", BLUE),
        (2.5, 1.2, "conformalize:\nthe newest", ORANGE),
        (3.8, 1.6, "AdaptiveIntervals:\npredict, then update", GREEN),
    ):
        box(ax, x, 0.1, width, 0.6, text, colour, fontsize=9.5)
    arrow(ax, (0.1, 1.0), (5.4, 1.0), "time", shift=(0, 0.18))
    ax.plot([3.75, 3.75], [0.02, 1.1], color=INK, lw=1, ls=DASHES)
    ax.text(3.75, 1.3, "now", ha="center", fontsize=9)
    return figure


# ---- how an interval is made --------------------------------------------------------------------


def noisy(n, seed):
    """Noise that grows with x."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 5, n)
    return x[:, None], 2 * np.sin(x) ** 2 + 0.15 * x * rng.standard_normal(n)


def equation():
    """The four steps, on one feature: point model, local law, correction, interval."""
    X, y = noisy(1_500, 0)
    smooth = make_pipeline(SplineTransformer(12), LinearRegression())
    model = SLCPRegressor(smooth, law=KernelLaw(bandwidth=0.25), random_state=0).fit(X, y)
    grid = np.linspace(0.02, 4.98, 200)[:, None]
    found, mu, bounds = model.diagnose(grid), model.predict(grid), model.predict_interval(grid)
    p = model.calibration_.scores(np.array([0.9]))[:, :, 0].max(axis=1)
    theta, x = float(found["correction"].iloc[0]), grid[:, 0]
    figure, ((first, second), (third, fourth)) = plt.subplots(
        2, 2, figsize=(5.6, 4.7), layout="constrained"
    )
    shown = slice(0, 400)
    for ax, height in ((first, y), (second, y - model.predict(X)), (fourth, y)):
        ax.plot(X[shown, 0], height[shown], ".", ms=2.5, color=POINT, alpha=0.7)
        ax.set_xlabel("x")
    first.plot(x, mu, color=INK)
    first.set_title("1. point model $\\mu(x)$")
    second.axhline(0, color=INK, lw=0.8)
    for bound in (found["local_lower"], found["local_upper"]):
        second.plot(x, bound, color=BLUE)
    second.set_title("2. score $V = y - \\mu(x)$, and\n    quantiles of its local law", color=BLUE)
    third.hist(p, 30, color=PALE[ORANGE], edgecolor=ORANGE, lw=0.6)
    third.axvline(theta, color=ORANGE, lw=1.6)
    third.annotate(
        "$\\theta^*$",
        (theta, 0.86),
        (4, 0),
        ("data", "axes fraction"),
        "offset points",
        color=INK,
        fontsize=11,
    )
    third.set(xlabel="adjusted score $p$, calibration rows", yticks=[])
    third.set_title("3. correction: 90 % of\n    the $p$ are at most $\\theta^*$", color=ORANGE)
    fourth.fill_between(x, *bounds.T, color=GREEN, alpha=0.22, lw=0)
    for bound in bounds.T:
        fourth.plot(x, bound, color=GREEN)
    fourth.plot(x, mu, color=INK, lw=1)
    fourth.set_title("4. interval: $\\mu(x)$, local\n    quantile, and $\\theta^*$", color=GREEN)
    return figure


def guarantee():
    """Scores of 19 calibration rows, and the places that a new one may take among them."""
    n, level = 19, 0.9
    k = conformal_rank(n, level)
    scores = np.sort(np.random.default_rng(2).gamma(2.0, 1.0, n))
    figure, ax = plt.subplots(figsize=(5.4, 1.6), layout="constrained")
    ax.axvspan(0, scores[k - 1], color=GREEN, alpha=0.14, lw=0)
    ax.plot(scores, np.zeros(n), "o", ms=5, color=INK, zorder=3, clip_on=False)
    ax.plot(scores[k - 1], 0, "o", ms=8, color=ORANGE, zorder=4)
    word = f"$\\theta^*$: the {k}th of {n} scores"
    ax.annotate(word, (scores[k - 1], 0), (0, 11), textcoords="offset points", ha="center")
    ax.text(
        0.05,
        0.72,
        f"{k} of {n + 1} equally likely places\nof a new score: {k / (n + 1):.0%}",
        color=GREEN,
    )
    ax.set(
        xlim=(0, 1.1 * scores[-1]),
        ylim=(-0.25, 1.3),
        yticks=[],
        xlabel="score: the larger, the more unusual",
    )
    ax.spines["left"].set_visible(False)
    return figure


def sizes():
    """The coverage of 95 % of calibration sets, by their size."""
    n = np.unique(np.geomspace(9, 10_000, 300).astype(int))
    k = np.array([conformal_rank(int(one), 0.9) for one in n])
    low, high = 100 * beta.ppf([[0.025], [0.975]], k, n + 1 - k)
    figure, ax = plt.subplots(figsize=(5.4, 2.6), layout="constrained")
    ax.fill_between(n, low, high, color=GREEN, alpha=0.22, lw=0)
    for bound in (low, high):
        ax.plot(n, bound, color=GREEN, lw=1)
    ax.axhline(90, color=INK, lw=1, ls=DASHES)
    ax.set(xscale="log", xlabel="calibration rows", ylabel="coverage, %", ylim=(60, 101))
    ax.set_xticks([10, 100, 1_000, 10_000], ["10", "100", "1,000", "10,000"])
    return figure


def from_example(name):
    """The first figure of an example, in the same look and not too wide for a phone."""
    plt.close("all")
    runpy.run_path(str(DOCS.parent / "examples" / f"plot_{name}.py"))
    figure = plt.figure(plt.get_fignums()[0])
    figure.set_size_inches(6.4, 6.4 * figure.get_figheight() / figure.get_figwidth())
    return figure


REAL = {"bike": bike, "trust": trust}
DRAWN = {"choose": choose, "deploy": deploy, "rows": rows, "time_series": time_series}
DRAWN |= {"equation": equation, "guarantee": guarantee, "sizes": sizes}
EXAMPLES = ("monitor", "distribution", "adaptive", "cross")


def main(names):
    """Draw these images, or all."""
    names = names or [*REAL, *DRAWN, *EXAMPLES]
    found = rentals() if set(names) & set(REAL) else ()
    for name in names:
        if name in REAL:
            figure = REAL[name](*found)
        else:
            figure = DRAWN[name]() if name in DRAWN else from_example(name)
        figure.savefig(IMAGES / f"{name}.png", pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main(sys.argv[1:])
