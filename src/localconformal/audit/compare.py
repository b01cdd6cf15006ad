"""Methods side by side on the same rows, with paired differences and their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from localconformal.audit.audit import Summary, common_level, intervals_of, summarise
from localconformal.audit.cells import telling_columns
from localconformal.composition import Calibration, FixedScores
from localconformal.metrics import interval_score
from localconformal.metrics.intervals import check_levels, check_one_level, is_covered, lengths
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.regressors.base import rows_of
from localconformal.rows import at_ends, make_frame
from localconformal.text import (
    aligned,
    has_jinja2,
    one_line,
    render_template,
    say_difference,
    say_level,
    say_number,
    say_share,
)

#: Fields of `Summary` -> columns of the text.
_SHOWN = {"coverage": "coverage", "mean_length": "length", "interval_score": "score"}
_SHOWN |= {"length_coverage_corr": "corr(length, covered)"}
_SHOWN |= {"worst_slab_coverage": "worst slab", "excess_risk_l1": "excess risk"}
METRICS = ("interval_score", "length", "coverage")
BOTH_FINITE = "Differences of score and length use only rows where both methods are finite."
#: With fewer rows, confidence intervals are rough; characters of a method's name in the text.
_FEW_ROWS, _WIDEST = 30, 90
#: Endings of fields of `Summary` that have no mean over splits.
_NO_MEAN = ("p_value", "_lower", "_upper", "_error")
#: Draws of calibration rows, and number of rows whose bounds are followed.
_DRAWS, _ROWS_MOVED = 50, 500


@dataclass(frozen=True, eq=False)
class Method:
    """One method: its summary, and the values compared, per row or, over splits, per split.

    ``movement`` is how far bounds move when calibration rows are redrawn; see `bound_movement`.
    """

    name: str
    summary: Summary
    interval_score: Array
    length: Array
    coverage: Array
    movement: float = math.nan


@dataclass(frozen=True)
class Difference:
    """A method minus the reference, averaged over rows and, if there are several, over splits.

    ``metric`` is "interval_score", "length" or "coverage"; ``error`` is the standard error, NaN for
    one row; ``lower`` and ``upper`` are the 95 % confidence interval, by the normal approximation
    over rows, by Student's t over splits; ``n`` counts the rows where both methods are finite.
    """

    method: str
    reference: str
    metric: str
    difference: float
    error: float
    lower: float
    upper: float
    n: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods on the same rows; with ``splits``, means over splits, from `over`."""

    methods: tuple[Method, ...]
    notes: tuple[str, ...]
    splits: tuple[Comparison, ...] = ()
    test_over_fit: float = math.nan

    @classmethod
    def over(cls, splits: Sequence[Comparison], test_over_fit: float) -> Comparison:
        """The same methods on several random splits of one table: means and their uncertainty.

        With R splits, the interval of a mean is mean ± t_{R-1} sqrt((1 / R + n_test / n_fit) s^2)
        with s^2 the variance over splits: they share rows, so 1 / R alone would be too small
        (Nadeau and Bengio 2003). The band of a coverage is for its mean. A single split is
        returned as it is. ``test_over_fit`` is n_test / n_fit.
        """
        named = [{method.name: method for method in split.methods} for split in splits]
        if not splits or any(list(split) != list(named[0]) for split in named):
            got = f"splits: got the methods {[list(split) for split in named]}"
            raise ValueError(f"{got}; expected at least one split, with the same methods in each.")
        if len(splits) == 1:
            return splits[0]
        of_each = [[split[name] for split in named] for name in named[0]]
        methods = tuple(_mean_method(one, test_over_fit) for one in of_each)
        notes = dict.fromkeys(note for split in splits for note in split.notes)
        return cls(methods, (say_splits(len(splits)), *notes), tuple(splits), test_over_fit)

    @property
    def ranked(self) -> tuple[Method, ...]:
        """By the interval score; infinite ones by the share of infinite intervals."""
        found = [(m.summary.interval_score, m.summary.share_infinite) for m in self.methods]
        return tuple(self.methods[i] for i in sorted(range(len(found)), key=found.__getitem__))

    @property
    def best(self) -> str:
        """The name of the method ranked first."""
        return self.ranked[0].name

    def frame(self) -> Any:
        """One row per method (pandas)."""
        rows = [
            {"method": m.name, **asdict(m.summary), "movement": m.movement} for m in self.methods
        ]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        last = ["worst_slab_coverage", "mean_length", "interval_score"]
        return make_frame(at_ends(columns, ["method", "coverage"], last), None)

    def paired(self, reference: str | None = None) -> tuple[Difference, ...]:
        """Every other method minus the reference (None: the best), metric by metric."""
        by_name, found = {method.name: method for method in self.methods}, list[Difference]()
        chosen = self.best if reference is None else reference
        if chosen not in by_name:
            raise ValueError(f"reference: got {chosen!r}; expected one of {', '.join(by_name)}.")
        if self.splits:
            for rows in zip(*(split.paired(chosen) for split in self.splits), strict=True):
                each = np.array([row.difference for row in rows])
                names, n = (rows[0].method, chosen, rows[0].metric), sum(row.n for row in rows)
                found.append(Difference(*names, *resampled_mean(each, self.test_over_fit), n))
            return tuple(found)
        base = by_name.pop(chosen)
        for metric, (name, method) in product(METRICS, by_name.items()):
            numbers = paired_mean(getattr(method, metric), getattr(base, metric))
            found.append(Difference(name, chosen, metric, *numbers))
        return tuple(found)

    def differences(self, reference: str | None = None) -> Any:
        """`paired` as a pandas frame."""
        rows, names = self.paired(reference), [field.name for field in fields(Difference)]
        return make_frame({name: [getattr(row, name) for row in rows] for name in names}, None)

    def heading(self) -> str:
        """What was compared."""
        one, n = self.methods[0].summary, len(self.splits)
        rows = f"of {n} splits (n = {one.n:,} each)" if n else f"(n = {one.n:,})"
        return f"Methods on the same rows {rows}, target {say_level(one.confidence_level)}"

    def differences_heading(self) -> str:
        """What the differences refer to."""
        name = one_line(self.best, _WIDEST)
        return f"Differences from {name}, with their 95 % confidence intervals"

    def texts(self) -> tuple[list[list[str]], list[list[str]]]:
        """The two tables as text, column names first."""
        # Unknown for bounds without a model.
        moves = ["bounds move"] * any(not math.isnan(m.movement) for m in self.methods)
        methods, found = [["method", *_SHOWN.values(), *moves]], dict[str, list[str]]()
        for method in self.methods:
            said = [say_number(getattr(method.summary, name)) for name in _SHOWN]
            said += [say_share(method.movement)] * len(moves)
            methods.append([one_line(method.name, _WIDEST), *said])
        for row in self.paired():
            cells = found.setdefault(row.method, [one_line(row.method, _WIDEST)])
            cells.append(say_difference(row.difference, row.lower, row.upper))
        return methods, [["method", *METRICS], *found.values()]

    def __str__(self) -> str:
        methods, paired = self.texts()
        lines = [self.heading(), *aligned([[*row, ""] for row in methods])]
        if len(paired) > 1:
            lines += ["", self.differences_heading(), *aligned([[*row, ""] for row in paired])]
        if self.notes:
            lines += ["", "Notes", *(f"  - {note}" for note in self.notes)]
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        if not has_jinja2():
            return None
        titled = zip((self.heading(), self.differences_heading()), self.texts(), strict=True)
        tables = [(title, names, rows) for title, (names, *rows) in titled if rows]
        return render_template("audit/audit.html.j2", tables=tables, notes=self.notes)


def compare(
    candidates: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    confidence_level: float | None = None,
    random_state: int = 0,
) -> Comparison:
    """Methods side by side on rows that are new to all of them.

    Differences are paired: with d_i the difference of two methods on row i, the standard error is
    that of the mean of d, far below those of the two means if the methods make similar errors. It
    covers the choice of test rows only; another training or calibration set would add to it.

    Parameters
    ----------
    candidates : dict of name -> fitted estimator, or intervals of shape (n, 2)
    X, y : array (n,) or (n, d), series or frame; array of shape (n,)
    confidence_level : float, default=None
        As in `audit`; None is the level of all estimators, 0.9 if all candidates are intervals.
    random_state : int, default=0

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
    if not isinstance(candidates, Mapping) or not candidates:
        got = "none" if isinstance(candidates, Mapping) else f"a {type(candidates).__name__}"
        raise ValueError(
            f"candidates: got {got}; expected a dict of name -> estimator or intervals, with at "
            'least one method: pass {"mine": ...}.'
        )
    level = common_level(candidates.values(), confidence_level)
    moved = {
        str(name): bound_movement(candidate, X, confidence_level, random_state)
        for name, candidate in candidates.items()
    }
    asked = {
        str(name): check_one_level(y, intervals_of(candidate, X, confidence_level))
        for name, candidate in candidates.items()
    }
    y_checked, bounds = next(iter(asked.values()))
    level, n = float(check_levels(level, bounds)[0]), len(y_checked)
    columns, column_notes = telling_columns(X, n)

    def describe(name: str, y: Array, bounds: Array) -> tuple[Method, list[str]]:
        summary, _, notes = summarise(columns, y, bounds, level, None, random_state)
        method = Method(name, summary, **row_values(y, bounds, level), movement=moved[name])
        return method, [f"{name}: {note}" for note in notes]

    described = in_threads(partial(describe, name, *pair) for name, pair in asked.items())
    methods = tuple(method for method, _ in described)
    notes = [*column_notes, *(note for _, found in described for note in found)]
    if len(methods[0].length) < _FEW_ROWS:
        notes.append("With so few rows, confidence intervals are rough.")
    if any(method.summary.share_infinite > 0 for method in methods):
        notes.append(BOTH_FINITE)
    return Comparison(methods, tuple(notes))


def bound_movement(
    model: Any, X: Any, confidence_level: float | None = None, random_state: int = 0
) -> float:
    """How far a bound moves when calibration rows are redrawn, as a share of the mean length.

    The standard deviation of each bound over 50 bootstrap draws of the calibration rows, averaged
    over bounds that are finite in all of them (of at most 500 rows); models and laws are not
    refitted. NaN if there is no such bound, for bounds without a model of this library, for models
    that take groups or weights with X, and for those that keep more of the calibration rows than
    their scores and positions (LCP).
    """
    calibration = getattr(model, "calibration_", None)
    if not isinstance(calibration, Calibration) or model._beside_given:
        return math.nan
    level = float(model.confidence_level if confidence_level is None else confidence_level)
    rng, at, held = np.random.default_rng(random_state), np.array([level]), calibration.fixed(level)
    if not (held.kept is None or isinstance(held.kept, np.ndarray)):
        return math.nan
    rows = rows_of(model, X)
    rows = rows.take(rng.permutation(len(rows))[:_ROWS_MOVED])
    placed, draws = held.parts.at(rows), []
    for _ in range(_DRAWS):
        drawn = rng.integers(held.n, size=held.n)
        kept = None if held.kept is None else held.kept[drawn]
        redrawn = FixedScores(held.parts, held.V[drawn], held.F, kept)
        draws.append(placed.bounds(held.parts.correction.theta(redrawn, rows, at), at)[:, :, 0])
    bounds = np.array(draws)
    bounds = bounds[:, np.isfinite(bounds).all(axis=(0, 2))]
    length = float(np.mean(bounds[:, :, 1] - bounds[:, :, 0])) if bounds.size else math.nan
    return float(bounds.std(axis=0).mean()) / length if length > 0.0 else math.nan


def row_values(y: Array, bounds: Array, level: float) -> dict[str, Array]:
    """The values compared (n,), by the names of `METRICS`."""
    # As one row of n levels: the score does not change when y and the bounds move together.
    around = (bounds - y[:, None]).T[None]
    return {
        "interval_score": np.asarray(interval_score([0.0], around, np.full(len(y), level))),
        "length": lengths(bounds),
        "coverage": is_covered(y, bounds).astype(np.float64),
    }


def paired_mean(ours: Array, theirs: Array) -> tuple[float, float, float, float, int]:
    """Mean difference of rows (n,) where both are finite, its standard error, 95 % interval, n."""
    both = np.isfinite(ours) & np.isfinite(theirs)
    n = len(each := ours[both] - theirs[both])
    mean = float(each.mean()) if n else math.nan
    error = float(each.std(ddof=1) / np.sqrt(n)) if n > 1 else math.nan
    reach = float(ndtri(0.975)) * error
    return mean, error, mean - reach, mean + reach, n


def resampled_mean(values: Array, test_over_fit: float) -> tuple[float, float, float, float]:
    """Mean of one number per split, its standard error and 95 % interval; splits share rows."""
    n, mean = len(values), float(values.mean())
    error = math.sqrt((1.0 / n + test_over_fit) * float(values.var(ddof=1)))
    reach = float(stdtrit(n - 1, 0.975)) * error
    return mean, error, mean - reach, mean + reach


def _mean_method(methods: Sequence[Method], test_over_fit: float) -> Method:
    means, names = dict[str, Any](), ("interval_score", "mean_length", "coverage")
    each = {name: np.array([getattr(m.summary, name) for m in methods]) for name in names}
    for name, first in asdict(methods[0].summary).items():
        values = [getattr(method.summary, name) for method in methods]
        mean = math.nan if name.endswith(_NO_MEAN) else float(np.mean(values))
        means[name] = round(mean) if isinstance(first, int) else mean
    _, _, lower, upper = resampled_mean(each["coverage"], test_over_fit)
    summary = Summary(**{**means, "lower": max(0.0, lower), "upper": min(1.0, upper)})
    found: dict[str, Any] = {"movement": float(np.mean([method.movement for method in methods]))}
    found |= dict(zip(METRICS, each.values(), strict=True))
    return Method(methods[0].name, summary, **found)


def say_splits(n: int) -> str:
    """What the numbers of several splits are."""
    ours = f"Numbers are means over {n} random splits"
    return f"{ours}; confidence intervals allow for the rows that splits share."
