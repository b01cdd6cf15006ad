"""Methods side by side on the same rows, with paired differences and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from localconformal.audit.cells import Partition, Rows
from localconformal.audit.columns import Table, as_table, read_table
from localconformal.audit.groups import group_cells, group_partitions
from localconformal.audit.inputs import check_level, check_one_level, common_level, intervals_of
from localconformal.audit.sentences import aligned
from localconformal.audit.summary import Summary, summarise
from localconformal.frames import at_ends, make_frame
from localconformal.metrics import interval_score
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import lengths
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.text import one_line, say_difference, say_level, say_number

#: Columns of the text, by their fields of `Method`.
SHOWN = {
    "coverage": "coverage",
    "mean_length": "length",
    "interval_score": "score",
    "length_coverage_corr": "corr(length, covered)",
    "worst_slab_coverage": "worst slab",
    "excess_risk_l1": "excess risk",
}
FEW_ROWS = 30


@dataclass(frozen=True, eq=False)
class Method:
    """One method: its summary, and each row's share in what is compared.

    Attributes
    ----------
    name : str
    summary : Summary
    worst_group_coverage, mean_group_gap : float
        Over the groups; NaN without groups.
    interval_score, length, coverage : array of shape (n,)
        Of each row.
    """

    name: str
    summary: Summary
    worst_group_coverage: float
    mean_group_gap: float
    interval_score: Array
    length: Array
    coverage: Array


@dataclass(frozen=True)
class Difference:
    """A method less the reference, averaged over rows.

    Attributes
    ----------
    method, reference : str
    metric : str
        "interval_score", "length" or "coverage".
    difference : float
    error : float
        Standard error of the paired difference; NaN for one row.
    lower, upper : float
        95 % confidence interval, by the normal approximation.
    n : int
        Rows where both methods are finite.
    """

    method: str
    reference: str
    metric: str
    difference: float
    error: float
    lower: float
    upper: float
    n: int


METRICS = ("interval_score", "length", "coverage")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods on the same rows.

    Attributes
    ----------
    methods : tuple of Method
        As they were given.
    notes : tuple of str
    """

    methods: tuple[Method, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        """The method of the lowest interval score; of infinite ones, of the fewest infinities."""
        return min(
            self.methods, key=lambda m: (m.summary.interval_score, m.summary.share_infinite)
        ).name

    def frame(self) -> Any:
        """One row a method (pandas)."""
        columns: dict[str, list[Any]] = {"method": [method.name for method in self.methods]}
        for field in fields(Summary):
            columns[field.name] = [getattr(method.summary, field.name) for method in self.methods]
        for name in ("worst_group_coverage", "mean_group_gap"):
            columns[name] = [getattr(method, name) for method in self.methods]
        first, last = (
            ["method", "coverage"],
            ["worst_slab_coverage", "mean_length", "interval_score"],
        )
        return make_frame(at_ends(columns, first, last), None)

    def paired(self, reference: str | None = None) -> tuple[Difference, ...]:
        """Every other method less the reference, metric by metric.

        Parameters
        ----------
        reference : str, default=None
            Name of a method; None is the one of the lowest interval score.
        """
        by_name = {method.name: method for method in self.methods}
        chosen = self.best if reference is None else reference
        if chosen not in by_name:
            raise ValueError(f"reference is {chosen!r}; one of {', '.join(by_name)} was expected.")
        return tuple(
            difference(method, by_name[chosen], metric)
            for metric in METRICS
            for method in self.methods
            if method.name != chosen
        )

    def differences(self, reference: str | None = None) -> Any:
        """The same as a pandas frame.

        Parameters
        ----------
        reference : str, default=None
            Name of a method; None is the one of the lowest interval score.
        """
        rows = [asdict(row) for row in self.paired(reference)]
        names = [field.name for field in fields(Difference)]
        return make_frame({name: [row[name] for row in rows] for name in names}, None)

    def heading(self) -> str:
        """What was compared."""
        summary = self.methods[0].summary
        return (
            f"Methods on the same rows (n = {summary.n:,}), "
            f"target {say_level(summary.confidence_level)}"
        )

    def differences_heading(self) -> str:
        """What the differences are from."""
        return f"Differences from {one_line(self.best)}, with their 95 % confidence intervals"

    def texts(self) -> tuple[list[list[str]], list[list[str]]]:
        """The two tables as texts, the names of their columns first."""
        methods = [["method", *SHOWN.values()]]
        for method in self.methods:
            values = [say_number(getattr(method.summary, name)) for name in SHOWN]
            methods.append([one_line(method.name), *values])
        paired = [["method", *METRICS]]
        found = {(row.method, row.metric): row for row in self.paired()}
        for name in (method.name for method in self.methods if method.name != self.best):
            rows = [found[name, metric] for metric in METRICS]
            cells = [say_difference(row.difference, row.lower, row.upper) for row in rows]
            paired.append([one_line(name), *cells])
        return methods, paired

    def __str__(self) -> str:
        methods, paired = self.texts()
        lines = [self.heading(), *aligned([[*row, ""] for row in methods])]
        if len(paired) > 1:
            lines += ["", self.differences_heading(), *aligned([[*row, ""] for row in paired])]
        if self.notes:
            lines += ["", "Notes", *(f"  - {note}" for note in self.notes)]
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        from localconformal.audit.html import comparison_html, has_jinja2

        return comparison_html(self) if has_jinja2() else None


def compare(
    candidates: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    confidence_level: float | None = None,
    groups: Any = None,
    random_state: int = 0,
) -> Comparison:
    """Methods side by side on rows that are new to all of them.

    Differences are paired: with d_i the difference of two methods on row i, the standard error is
    that of the mean of d, far below those of the two means when the methods err alike. It is the
    rows' share of the uncertainty; another training or calibration set would add its own.

    Parameters
    ----------
    candidates : dict of name -> fitted estimator, or intervals of shape (n, 2)
        Estimators are asked for ``predict_interval(X)``; (predictions, intervals) will do too.
    X : array of shape (n,) or (n, d), series or frame
    y : array of shape (n,)
    confidence_level : float, default=None
        Asked of each estimator, where its ``predict_interval`` takes it, and the target of the
        metrics. None is what the estimators were set to, all of which must then tell it, and 0.9
        where all candidates are intervals.
    groups : labels of shape (n,), str, list of str, frame or dict, default=None
        As in `audit`; adds the coverage of the worst group and the mean gap over groups.
    random_state : int, default=0

    Returns
    -------
    Comparison

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> y = X[:, 0] * rng.normal(size=500)
    >>> even = np.tile([-1.0, 1.0], (500, 1))
    >>> found = compare({"even": even, "scaled": 1.645 * X * even}, X, y)
    >>> found.best
    'scaled'
    >>> [row.lower > 0 for row in found.paired() if row.metric == "interval_score"]
    [True]
    """
    if not isinstance(candidates, Mapping):
        raise ValueError(
            f"candidates is a {type(candidates).__name__}; a dict of name -> estimator or "
            'intervals was expected: pass {"mine": ...}.'
        )
    if not candidates:
        raise ValueError("candidates is empty; at least one method was expected.")
    level = common_level(candidates.values(), confidence_level)
    asked = {
        str(name): check_one_level(y, intervals_of(candidate, X, confidence_level))
        for name, candidate in candidates.items()
    }
    y_checked, bounds = next(iter(asked.values()))
    level, n = check_level(level, bounds), len(y_checked)
    table, parts = read_table(X, n), group_partitions(as_table(X), groups, n)
    described = in_threads(
        partial(describe, name, table, parts, *pair, level, random_state)
        for name, pair in asked.items()
    )
    methods = tuple(method for method, _ in described)
    notes = [*table.notes, *(note for _, found in described for note in found)]
    if len(methods[0].length) < FEW_ROWS:
        notes.append("Confidence intervals of so few rows are rough.")
    if any(method.summary.share_infinite > 0 for method in methods):
        notes.append(
            "Differences of score and length are those of rows where both methods are finite."
        )
    return Comparison(methods, tuple(notes))


def describe(
    name: str,
    table: Table,
    parts: list[Partition],
    y: Array,
    bounds: Array,
    level: float,
    random_state: int,
) -> tuple[Method, list[str]]:
    """One method, and what to know about it."""
    summary, _, notes = summarise(table, y, bounds, level, None, random_state)
    covered = is_covered(y, bounds)
    rows = Rows(covered, lengths(bounds), level)
    cells, _ = group_cells(parts, rows)
    method = Method(
        name=name,
        summary=summary,
        worst_group_coverage=min((cell.coverage for cell in cells), default=float("nan")),
        mean_group_gap=float(np.mean([abs(cell.gap) for cell in cells])) if cells else float("nan"),
        interval_score=row_scores(y, bounds, level),
        length=rows.length,
        coverage=covered.astype(np.float64),
    )
    return method, [f"{name}: {note}" for note in notes]


def row_scores(y: Array, bounds: Array, level: float) -> Array:
    """The interval score of each row (n,)."""
    # One row of n levels: the score does not change when y and the bounds move together.
    around = (bounds - y[:, None]).T[None]
    return np.asarray(interval_score([0.0], around, np.full(len(y), level)))


def difference(method: Method, reference: Method, metric: str) -> Difference:
    """One paired difference."""
    values = paired_mean(getattr(method, metric), getattr(reference, metric))
    return Difference(method.name, reference.name, metric, *values)


def paired_mean(ours: Array, theirs: Array) -> tuple[float, float, float, float, int]:
    """Mean difference (n,), its standard error, 95 % interval and rows, where both are finite."""
    both = np.isfinite(ours) & np.isfinite(theirs)
    each = ours[both] - theirs[both]
    n = len(each)
    mean = float(each.mean()) if n else float("nan")
    error = float(each.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    reach = float(ndtri(0.975)) * error
    return mean, error, mean - reach, mean + reach, n
