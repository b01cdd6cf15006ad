"""The numbers at the head of an audit, and of each method compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from localconformal import metrics
from localconformal.audit.cells import ALPHA, Table, label_condition, missing_condition, say_rounded
from localconformal.columns import LABEL, Column, read_columns
from localconformal.metrics import HSIC, ExcessRisk, WorstSlab, binomial_band
from localconformal.metrics.intervals import (
    check_prediction,
    coverage_p_values,
    is_covered,
    lengths,
)
from localconformal.metrics.slab import MAX_FIND_ROWS
from localconformal.quantiles import Array
from localconformal.text import (
    listing,
    say_band,
    say_number,
    say_p_value,
    say_rows,
    say_share,
    say_tick,
    shorten,
)

#: Rows that the excess risk learns from; more take time and change it little.
_MAX_RISK_ROWS = 100_000
_FEW_ROWS = 100
#: Metrics that are fields of `Summary`, by their names.
_PLAIN = "mean_length", "median_length", "share_infinite", "share_empty", "length_coverage_corr"
#: With fewer rows, the standard error of the excess risk is too small: by a third at 100.
_FEWEST_RISK_ROWS = 500
#: Columns named of the direction of a slab.
_MOST_NAMED = 3
#: By how much a value may be off its place in a slab, in standard deviations.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Summary:
    """Coverage, size and conditional coverage of all rows; NaN where undefined.

    ``lower`` and ``upper`` are the exact 95 % binomial band of the coverage, ``p_value`` that of
    the exact two-sided test that it is the target, ``confidence_level``. ``n_calibration`` is 0
    where it is not known; 95 % of calibration sets of this size, together with as many test rows
    as these, put the coverage of split conformal intervals between ``expected_lower`` and
    ``expected_upper`` (`coverage_band`). The other numbers are those of the metrics of their
    names; ``excess_risk_n`` rows were drawn for the excess risk where there are many.
    """

    n: int
    confidence_level: float
    coverage: float
    lower: float
    upper: float
    p_value: float
    n_calibration: int
    expected_lower: float
    expected_upper: float
    mean_length: float
    median_length: float
    mean_finite_length: float
    median_finite_length: float
    share_infinite: float
    share_empty: float
    interval_score: float
    length_coverage_corr: float
    length_error_corr: float
    hsic: float
    hsic_p_value: float
    worst_slab_coverage: float
    worst_slab_lower: float
    worst_slab_upper: float
    worst_slab_n: int
    excess_risk_l1: float
    excess_risk_l1_error: float
    excess_risk_n: int

    @property
    def is_explained(self) -> bool:
        """Whether the draw of the calibration set alone explains the coverage."""
        return self.expected_lower <= self.coverage <= self.expected_upper


def summarise(
    table: Table,
    y: Array,
    bounds: Array,
    confidence_level: float,
    y_pred: ArrayLike | None,
    random_state: int,
    n_calibration: int | None = None,
) -> tuple[Summary, WorstSlab, list[str]]:
    """Summary, worst slab and what to know about them, of checked y (n,) and bounds (n, 2)."""
    n = len(y)
    expected = (math.nan, math.nan)
    if n_calibration is not None:
        expected = metrics.coverage_band(n_calibration, n, confidence_level)
    finite = lengths(bounds[np.isfinite(bounds).all(axis=1)])
    hits = int(is_covered(y, bounds).sum())
    lower, upper = binomial_band(hits, n)
    dependence = cast(HSIC, metrics.hsic(y, bounds, random_state=random_state))
    # Without columns that tell rows apart, one that does not.
    columns = table.columns or read_columns(np.zeros(n), n)
    found = metrics.worst_slab_coverage(y, bounds, columns, random_state=random_state)
    slab = cast(WorstSlab, found)
    risk = _find_risk(columns, y, bounds, confidence_level, random_state)
    summary = Summary(
        n=n,
        confidence_level=confidence_level,
        coverage=hits / n,
        lower=float(lower),
        upper=float(upper),
        p_value=float(coverage_p_values(hits, n, confidence_level)),
        n_calibration=n_calibration or 0,
        expected_lower=expected[0],
        expected_upper=expected[1],
        **{name: float(getattr(metrics, name)(y, bounds)) for name in _PLAIN},
        mean_finite_length=float(finite.mean()) if len(finite) else math.nan,
        median_finite_length=float(np.median(finite)) if len(finite) else math.nan,
        interval_score=float(metrics.interval_score(y, bounds, confidence_level)),
        length_error_corr=float(metrics.length_error_corr(y, bounds, y_pred)),
        hsic=dependence.value,
        hsic_p_value=dependence.p_value,
        worst_slab_coverage=slab.coverage,
        worst_slab_lower=slab.lower,
        worst_slab_upper=slab.upper,
        worst_slab_n=slab.n,
        excess_risk_l1=risk.l1,
        excess_risk_l1_error=risk.l1_error,
        excess_risk_n=risk.n,
    )
    return summary, slab, _summary_notes(summary, dependence.n)


def _find_risk(X: Any, y: Array, bounds: Array, level: float, random_state: int) -> ExcessRisk:
    """Excess risk of all rows, or of a seeded sample of many."""
    if len(y) > _MAX_RISK_ROWS:
        drawn = np.random.default_rng(random_state).permutation(len(y))[:_MAX_RISK_ROWS]
        rows = np.sort(drawn)
        X, y, bounds = [column.take(rows) for column in X], y[rows], bounds[rows]
    return cast(ExcessRisk, metrics.excess_risk(y, bounds, X, level, random_state=random_state))


def _summary_notes(summary: Summary, hsic_n: int) -> list[str]:
    """What was infinite, empty, undefined or drawn."""
    n, infinite = summary.n, say_number(100 * summary.share_infinite)
    empty = say_number(100 * summary.share_empty)
    said = {
        f"With so few rows ({n}) coverage is known to about ± "
        f"{50 * (summary.upper - summary.lower):.0f} points.": n < _FEW_ROWS,
        f"{infinite} % of the intervals are infinite: they make "
        "the mean length and the interval score infinite.": summary.share_infinite > 0,
        f"{empty} % of the intervals are empty, the lower bound being "
        "above the upper one: they cover nothing.": summary.share_empty > 0,
        "The correlation of length and coverage is undefined: one of them is the same in all "
        "rows.": np.isnan(summary.length_coverage_corr),
        f"HSIC was measured on {hsic_n:,} rows drawn at random.": hsic_n < n,
        f"The worst slab was found on {MAX_FIND_ROWS:,} rows and reported on the others.": n
        > 4 * MAX_FIND_ROWS,
        "No row was left on which to report the worst slab.": summary.worst_slab_n == 0,
        f"The excess risk was learned from {summary.excess_risk_n:,} rows drawn at "
        f"random.": summary.excess_risk_n < n,
    }
    return [sentence for sentence, applies in said.items() if applies]


def summary_lines(summary: Summary) -> list[tuple[str, str, str]]:
    """Name, value and how to read it, of each number worth a line."""
    slab = "no row was left on which to report it"
    if summary.worst_slab_n:
        band = _brackets(summary.worst_slab_lower, summary.worst_slab_upper)
        slab = f"{band} on {say_rows(summary.worst_slab_n)} that did not find it"
    band, verdict = _brackets(summary.lower, summary.upper), "off the target"
    if summary.p_value >= ALPHA:
        verdict = "within chance of the target"
    elif summary.is_explained:
        verdict = f"within what a calibration set of {summary.n_calibration:,} rows explains"
    verdict = f"{band}, {verdict}, {_p_phrase(summary.p_value)}"
    lines = [("coverage", say_share(summary.coverage), verdict)]
    if summary.n_calibration:
        expected = f"{say_band(summary.expected_lower, summary.expected_upper)} %"
        sets = f"with 95 % of calibration sets of {summary.n_calibration:,} rows"
        lines.append(("expected", expected, sets))
    median = f"median {say_number(summary.median_length)}"
    lines.append(("mean length", say_number(summary.mean_length), median))
    if summary.share_empty > 0:
        lines.append(("empty", f"{say_number(100 * summary.share_empty)} %", "cover nothing"))
    if summary.share_infinite > 0:
        finite = (
            f"the finite ones are {say_number(summary.mean_finite_length)} long on average, median "
            f"{say_number(summary.median_finite_length)}"
        )
        lines.append(("infinite", f"{say_number(100 * summary.share_infinite)} %", finite))
    dependence = f"0 is ideal, {_p_phrase(summary.hsic_p_value)}"
    error = f"± {say_number(summary.excess_risk_l1_error)}"
    if summary.excess_risk_n < _FEWEST_RISK_ROWS:
        error = "too few rows to tell its error"
    risk = f"{error}; 0 is ideal, below 0 is noise"
    return [
        *lines,
        ("interval score", say_number(summary.interval_score), "lower is better"),
        ("corr(length, covered)", say_number(summary.length_coverage_corr), "0 is ideal"),
        ("corr(length, error)", say_number(summary.length_error_corr), "higher is better"),
        ("HSIC(length, covered)", say_number(summary.hsic), dependence),
        ("worst slab", say_share(summary.worst_slab_coverage), slab),
        ("excess risk, L1", say_number(summary.excess_risk_l1), risk),
    ]


def _brackets(lower: float, upper: float) -> str:
    """A band in per cent, as it stands behind its coverage."""
    return f"[{100 * lower:.1f}, {100 * upper:.1f}]"


def _p_phrase(value: float) -> str:
    """p = 0.031, or p < 0.001."""
    return f"p {say_p_value(value)}" if value < 0.001 else f"p = {say_p_value(value)}"


def say_slab(slab: WorstSlab, columns: list[Column]) -> str:
    """The rows of the slab: a range or a label where it is along one of these columns."""
    used = np.flatnonzero(slab.direction)
    if not columns:
        return "all rows"
    if len(used) > 1:
        order = used[np.argsort(-np.abs(slab.direction[used]), kind="stable")]
        names = [shorten(slab.columns[j]) for j in order[:_MOST_NAMED]]
        return f"a range of a weighted sum of {len(used)} columns, above all {listing(names)}"
    j = int(used[0])
    column = columns[slab.source[j]]
    text = (_say_label if column.kind == LABEL else _say_range)(slab, j, column)
    # What is not known stands at the mean.
    if column.n_missing and slab.low <= 0.0 <= slab.high:
        return f"{text} or missing" if text else missing_condition(column).text
    return text


def _say_range(slab: WorstSlab, j: int, column: Column) -> str:
    """The least and the largest of the column's values in the slab; nothing if there are none."""
    scale = slab.scale[j] or 1.0
    points = (column.values - slab.center[j]) / scale
    inside = column.values[(points >= slab.low - _ROUNDING) & (points <= slab.high + _ROUNDING)]
    if len(inside) == 0:
        return ""
    low, high = (say_rounded(float(value), column.kind) for value in inside[[0, -1]])
    name = shorten(column.name)
    return f"{name} = {low}" if low == high else f"{name} {low} to {high}"


def _say_label(slab: WorstSlab, j: int, column: Column) -> str:
    """The label that the slab holds, or leaves out."""
    ends = slab.center[j] + slab.scale[j] * np.clip([slab.low, slab.high], -1e9, 1e9)
    has_zero, has_one = bool(ends[0] < 0.5), bool(ends[1] > 0.5)
    if has_zero and has_one:
        return f"{shorten(column.name)} is known"
    if column.is_flag:
        return label_condition(column, int(has_one)).text
    first = np.flatnonzero(slab.source == slab.source[j])[0]
    return label_condition(column, int(j - first), negated=has_zero).text


@dataclass(frozen=True)
class Accuracy:
    """Errors of point predictions; those of a constant beside them."""

    n: int
    #: 1 less the squared errors over those of the mean of y; NaN where y is the same everywhere.
    r2: float
    #: Mean absolute error.
    mae: float
    #: That of the median of y, the constant of the least.
    constant_mae: float

    @property
    def text(self) -> str:
        """Both errors in one sentence."""
        return (
            f"The point predictions have R2 = {say_tick(self.r2, 0.1)} and are off by "
            f"{say_number(self.mae)} on average; the best constant is off by "
            f"{say_number(self.constant_mae)}."
        )

    @property
    def warning(self) -> str:
        """That a constant would do as well; nothing where it would not."""
        if np.isnan(self.r2):
            return ""
        fails = {"squared": self.r2 <= 0.0, "absolute": self.mae >= self.constant_mae}
        errors = " and ".join(name for name, fail in fails.items() if fail)
        if not errors:
            return ""
        return (
            f"By its {errors} errors the point model is no better than a constant: better "
            "features or another model would shorten the intervals."
        )


def accuracy(y: ArrayLike, y_pred: ArrayLike) -> Accuracy:
    """Errors of point predictions (n,) of rows that the model has not seen.

    >>> found = accuracy([1.0, 2.0, 3.0, 6.0], [1.5, 2.0, 2.5, 5.0])
    >>> found.mae, found.constant_mae, found.warning
    (0.5, 1.5, '')
    >>> accuracy([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]).r2
    -3.0
    """
    actual = np.asarray(y, dtype=np.float64)
    predicted = check_prediction(y_pred, len(actual))
    around = actual - actual.mean()
    # Squares of numbers at most 1 do not overflow.
    scale = float(np.abs(around).max())
    r2 = math.nan
    if scale > 0.0:
        errors, spread = (actual - predicted) / scale, around / scale
        r2 = 1.0 - float(np.sum(errors**2) / np.sum(spread**2))
    return Accuracy(
        n=len(actual),
        r2=r2,
        mae=float(np.abs(actual - predicted).mean()),
        constant_mae=float(np.abs(actual - np.median(actual)).mean()),
    )
