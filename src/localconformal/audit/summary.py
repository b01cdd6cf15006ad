"""The numbers at the head of an audit, and of each method compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit.columns import Table
from localconformal.audit.significance import coverage_p_values
from localconformal.frames import is_frame
from localconformal.metrics import (
    HSIC,
    ExcessRisk,
    WorstSlab,
    binomial_band,
    coverage_band,
    excess_risk,
    hsic,
    interval_score,
    length_coverage_corr,
    length_error_corr,
    mean_length,
    median_length,
    share_empty,
    share_infinite,
    worst_slab_coverage,
)
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.slab import MAX_FIND_ROWS
from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.text import say_number

#: Rows that the excess risk learns from; more take time and change it little.
MAX_RISK_ROWS = 100_000
FEW_ROWS = 100


@dataclass(frozen=True)
class Summary:
    """Coverage, size and conditional coverage of all rows; NaN where undefined.

    Attributes
    ----------
    n : int
    confidence_level : float
        The target.
    coverage : float
    lower, upper : float
        Exact 95 % binomial band of the coverage.
    p_value : float
        Of the exact two-sided test that it is the target.
    n_calibration : int
        Rows that calibrated the intervals; 0 where it is not known.
    expected_lower, expected_upper : float
        Where 95 % of calibration sets of this size, together with as many test rows as these, put
        the coverage of split conformal intervals (`coverage_band`); NaN where it is not known.
    mean_length, median_length : float
        Of all intervals; infinite as the metrics of these names say.
    mean_finite_length, median_finite_length : float
        Of the finite ones.
    share_infinite, share_empty : float
    interval_score : float
    length_coverage_corr : float
        0 is ideal.
    length_error_corr : float
        The higher, the better hard rows are told from easy ones.
    hsic, hsic_p_value : float
        Dependence of length and coverage; 0 is ideal.
    worst_slab_coverage, worst_slab_lower, worst_slab_upper : float
        On rows that did not find the slab, with its exact 95 % band.
    worst_slab_n : int
    excess_risk_l1, excess_risk_l1_error : float
        Lower bound of the distance of P(covered | x) from the target; 0 is ideal.
    excess_risk_n : int
        Rows that it was learned from.
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
    expected = expected_band(n_calibration, n, confidence_level)
    finite = np.isfinite(bounds).all(axis=1)
    hits = int(is_covered(y, bounds).sum())
    lower, upper = binomial_band(hits, n)
    dependence = cast(HSIC, hsic(y, bounds, random_state=random_state))
    slab = find_slab(table, y, bounds, random_state)
    risk = find_risk(table.X, y, bounds, confidence_level, random_state)
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
        mean_length=float(mean_length(y, bounds)),
        median_length=float(median_length(y, bounds)),
        mean_finite_length=of_some(mean_length, y[finite], bounds[finite]),
        median_finite_length=of_some(median_length, y[finite], bounds[finite]),
        share_infinite=float(share_infinite(y, bounds)),
        share_empty=float(share_empty(y, bounds)),
        interval_score=float(interval_score(y, bounds, confidence_level)),
        length_coverage_corr=float(length_coverage_corr(y, bounds)),
        length_error_corr=float(length_error_corr(y, bounds, y_pred)),
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
    return summary, slab, summary_notes(summary, dependence.rounded)


def expected_band(
    n_calibration: int | None, n: int, confidence_level: float
) -> tuple[float, float]:
    """Where n rows' coverage lies for 95 % of calibration sets of this size; NaN if unknown."""
    if n_calibration is None:
        return float("nan"), float("nan")
    return coverage_band(n_calibration, n, confidence_level)


def of_some(metric: Callable[[Array, Array], Any], y: Array, bounds: Array) -> float:
    """The metric of these rows; NaN if there are none."""
    return float(metric(y, bounds)) if len(y) else float("nan")


def find_slab(table: Table, y: Array, bounds: Array, random_state: int) -> WorstSlab:
    """The worst slab; the columns of an array are called x0, x1, ... as everywhere in an audit."""
    slab = cast(WorstSlab, worst_slab_coverage(y, bounds, table.X, random_state=random_state))
    if is_frame(table.X) or not table.columns:
        return slab
    # Positions among the columns kept, with the label of an indicator behind an equals sign.
    parts = [name.partition("=") for name in slab.columns]
    names = (f"{table.columns[int(j)].name}{sign}{label}" for j, sign, label in parts)
    return replace(slab, columns=tuple(names))


def find_risk(
    X: Any, y: Array, bounds: Array, confidence_level: float, random_state: int
) -> ExcessRisk:
    """Excess risk of all rows, or of a seeded sample of many."""
    if len(y) > MAX_RISK_ROWS:
        drawn = np.random.default_rng(random_state).permutation(len(y))[:MAX_RISK_ROWS]
        rows: NDArray[np.intp] = np.sort(drawn)
        X, y, bounds = take_rows(X, rows), y[rows], bounds[rows]
    risk = excess_risk(y, bounds, X, confidence_level, random_state=random_state)
    return cast(ExcessRisk, risk)


def summary_notes(summary: Summary, rounded: bool) -> list[str]:
    """What was infinite, empty, undefined, rounded or drawn."""
    n = summary.n
    infinite, empty = (
        say_number(100 * share) for share in (summary.share_infinite, summary.share_empty)
    )
    said = {
        f"With so few rows ({n}) coverage is known to about ± "
        f"{50 * (summary.upper - summary.lower):.0f} points.": n < FEW_ROWS,
        f"{infinite} % of the intervals are infinite: they make "
        "the mean length and the interval score infinite.": summary.share_infinite > 0,
        f"{empty} % of the intervals are empty, the lower bound being "
        "above the upper one: they cover nothing.": summary.share_empty > 0,
        "The correlation of length and coverage is undefined: one of them is the same in all "
        "rows.": np.isnan(summary.length_coverage_corr),
        "HSIC sees lengths rounded to one of 10,000 places in their range.": rounded,
        f"The worst slab was found on {MAX_FIND_ROWS:,} rows and reported on the others.": n
        > 4 * MAX_FIND_ROWS,
        "No row was left to report the worst slab on.": summary.worst_slab_n == 0,
        f"The excess risk was learned from {summary.excess_risk_n:,} rows drawn at "
        f"random.": summary.excess_risk_n < n,
    }
    return [sentence for sentence, applies in said.items() if applies]
