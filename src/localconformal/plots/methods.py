"""Methods side by side in three numbers: coverage, length, interval score, with paired bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from localconformal.audit.audit import check_one_level
from localconformal.audit.compare import paired_mean, row_values
from localconformal.metrics import binomial_band
from localconformal.plots._axes import (
    IDEAL,
    INK,
    MAIN,
    MISS,
    POINT,
    caption,
    check_packages,
    extent,
    finish,
    in_percent,
    make_panels,
    plain,
    say_odd,
)
from localconformal.plots.coverage import VERDICTS, draw_rows, verdicts
from localconformal.quantiles import Array
from localconformal.text import say_level, say_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COVERAGE, LENGTH, SCORE = "coverage", "mean length", "interval score"
#: What the panels show, by the names of `row_values`.
METRICS = {COVERAGE: "coverage", LENGTH: "length", SCORE: "interval_score"}
BASE, BETTER, WORSE, ALIKE = "base", "better", "worse", "alike"
#: name -> (colour, marker); to the left is better.
STANDINGS = {BASE: (INK, "D"), BETTER: (MAIN, "<"), WORSE: (MISS, ">"), ALIKE: (POINT, "o")}


def plot_methods(
    y: ArrayLike,
    methods: Mapping[str, ArrayLike],
    confidence_level: float = 0.9,
    *,
    baseline: str | None = None,
    probability: float = 0.95,
    ax: Any = None,
) -> tuple[list[Axes], Any]:
    """Draw coverage, mean length and interval score of each method on the same rows.

    The band of a coverage is the exact binomial one. Those of lengths and scores are paired:
    d_i is the difference of row i from the baseline, and the bar is the value of the method
    plus or minus t_{n-1} sd(d) / sqrt(n), so that where it does not reach the baseline's line
    the two differ by more than chance. Rows are taken as independent.

    Parameters
    ----------
    y : array of shape (n,)
    methods : dict of name -> intervals of shape (n, 2)
    confidence_level : float, default=0.9
    baseline : str, default=None
        The method with which the others are compared; None is the first.
    probability : float, default=0.95
        With which each band holds, on its own.
    ax : three matplotlib axes, default=None

    Returns
    -------
    ax : list of three matplotlib axes
    frame : pandas.DataFrame
        One row for each method and metric: method, metric, value, lower, upper (the bar),
        difference (from the baseline), baseline, confidence_level.

    Examples
    --------
    >>> methods = {"a": [[0.0, 1.0], [0.0, 1.0]], "b": [[0.0, 3.0], [0.0, 2.0]]}
    >>> axes, frame = plot_methods([0.5, 0.7], methods)
    >>> frame.loc[frame["metric"] == "mean length", "difference"].tolist()
    [0.0, 1.5]
    """
    check_packages("plot_methods")
    if not methods or (baseline is not None and baseline not in methods):
        raise ValueError(
            f"methods are {list(methods)} and baseline is {baseline!r}; at least one method, and "
            "one of them as the baseline, were expected."
        )
    checked = {name: check_one_level(y, intervals) for name, intervals in methods.items()}
    base = next(iter(methods)) if baseline is None else baseline
    frame = _methods_frame(checked, base, confidence_level, probability)
    panels = make_panels(ax, 3, (9.6, 1.6 + 0.36 * len(methods)), sharey=True)
    for panel, metric in zip(panels, METRICS, strict=True):
        _draw_metric(panel, frame[frame["metric"] == metric], metric)
    panels[0].set_yticks(np.arange(len(methods)), [plain(name, 24) for name in methods])
    share = say_level(probability)
    said = [
        f"Bars: exact {share} bands of the coverage (dashed: the level); of length and score, "
        f"{share} bands of the difference from {plain(base, 24)} (dotted).",
        "Interval score: length plus misses, lower is better (◀).",
    ]
    for name, (_, bounds) in checked.items():
        if text := say_odd(bounds, infinite="their mean at the edge"):
            said.append(f"{plain(name, 24)}: {text}")
    caption(panels[0], said, n_panels=3)
    return panels, frame


def _methods_frame(
    checked: Mapping[str, tuple[Array, Array]], base: str, level: float, probability: float
) -> Any:
    """The numbers of each method, metric by metric."""
    import pandas as pd

    parts = {name: row_values(y, bounds, level) for name, (y, bounds) in checked.items()}
    records = []
    for metric, key in METRICS.items():
        reference = parts[base][key]
        for name, numbers in parts.items():
            values, value = numbers[key], float(numbers[key].mean())
            if metric == COVERAGE:
                ends = binomial_band(int(values.sum()), len(values), probability)
            else:
                room = paired_room(values, reference, probability) if name != base else np.nan
                ends = value - room, value + room
            difference = 0.0 if name == base else value - float(reference.mean())
            records.append((name, metric, value, *ends, difference, base, level))
    columns = ["method", "metric", "value", "lower", "upper", "difference"]
    return pd.DataFrame(records, columns=[*columns, "baseline", "confidence_level"])


def paired_room(values: Array, reference: Array, probability: float) -> float:
    """Half the band of the mean difference of paired numbers; NaN where one is infinite."""
    _, error, _, _, n = paired_mean(values, reference)
    return float(stdtrit(n - 1, 0.5 + probability / 2.0)) * error if n == len(values) else np.nan


def _draw_metric(ax: Axes, part: Any, metric: str) -> None:
    """One panel; infinite values stand at the edge."""
    low, high = extent(*(part[column].to_numpy() for column in ("value", "lower", "upper")))
    line: tuple[float, Any]
    inside = part.assign(value=part["value"].clip(upper=high))
    if metric == COVERAGE:
        looks, texts = (
            [VERDICTS[v] for v in verdicts(part)],
            [f"{100 * v:.1f}" for v in part["value"]],
        )
        level = part["confidence_level"].iloc[0]
        line = level, IDEAL
        low, high = min(low, level - 0.02), min(max(high, level + 0.02), 1.005)
        in_percent(ax.xaxis)
    else:
        looks, texts = _standings(part), [say_number(v) for v in part["value"]]
        line = inside.loc[part["method"] == part["baseline"], "value"].iloc[0], ":"
    ax.axvline(line[0], color=INK, lw=1.0, ls=line[1], zorder=0)
    ax.set_xlim(low, high)
    ax.set_ylim(len(part) - 0.5, -0.5)
    draw_rows(ax, inside, looks, texts)
    finish(ax, "coverage, %" if metric == COVERAGE else metric, "")
    ax.tick_params(axis="y", length=0)


def _standings(part: Any) -> list[tuple[str, str]]:
    """Look of each method: is it lower than the baseline, or higher, by more than chance?"""
    room, difference = part["upper"] - part["value"], part["difference"]
    is_base = part["method"] == part["baseline"]
    # An infinite value is worse, or better than an infinite one, without a band.
    apart = (np.abs(difference) > room) | np.isinf(difference)
    named = np.select(
        [is_base, apart & (difference < 0), apart & (difference > 0)], [BASE, BETTER, WORSE], ALIKE
    )
    return [STANDINGS[name] for name in named]
