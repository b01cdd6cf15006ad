"""For whom do intervals fail? Numbers over all rows, and an audit of intervals of any origin."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from math import nan
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from localconformal import metrics
from localconformal.audit import cells
from localconformal.audit.cells import ALPHA, Cell, Counted, Outcomes
from localconformal.audit.rules import Rule, find_rules
from localconformal.columns import LABEL, MISSING, Column, read_columns
from localconformal.metrics import HSIC, ExcessRisk, WorstSlab, binomial_band
from localconformal.metrics.conditional import MAX_FIND_ROWS
from localconformal.metrics.intervals import (
    check_levels,
    check_one_level,
    check_prediction,
    coverage_p_values,
    is_covered,
    lengths,
)
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.rows import at_ends, make_frame
from localconformal.text import (
    aligned,
    has_jinja2,
    listing,
    one_line,
    render_template,
    say_band,
    say_level,
    say_number,
    say_p_value,
    say_rows,
    say_share,
    say_tick,
    shorten,
)

_LEVEL, _DEFAULT_LEVEL = "confidence_level", 0.9
#: Parts that are families of tests, and their titles.
_TITLES = {"rules": "Rules", "features": "Bins of features", "groups": "Groups"}
_TITLES["sizes"] = "Strata of the length"
_PARTS = ("summary", *_TITLES, "slab", "failures", "notes")
#: Lines per part of the text, and rows of an HTML table, before the rest is only counted.
_MOST_LINES, _MOST_ROWS, _WIDEST_SENTENCE, _FEW_ROWS = 10, 20, 400, 100
#: More rows hardly change the excess risk; with fewer its standard error is too small.
_MAX_RISK_ROWS, _FEWEST_RISK_ROWS = 100_000, 500
#: Metrics that are fields of `Summary` of the same name.
_PLAIN = "mean_length", "median_length", "share_infinite", "share_empty", "length_coverage_corr"
_BAND = "lower", "upper"
#: Columns named in a slab's direction; tolerance of a value there, in standard deviations.
_MOST_NAMED, _ROUNDING = 3, 1e-9


@dataclass(frozen=True)
class Summary:
    """Coverage, length and conditional coverage over all rows; NaN where undefined.

    ``lower`` and ``upper`` are the exact 95 % binomial band of the coverage, ``p_value`` is from
    the exact two-sided test that it equals ``confidence_level``. ``n_calibration`` is 0 if unknown;
    with 95 % of calibration sets of that size, and this many test rows, the coverage of split
    conformal intervals lies between ``expected_lower`` and ``expected_upper`` (`coverage_band`).
    The other numbers are the metrics of those names; the excess risk uses ``excess_risk_n`` rows.
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
        """Whether the draw of the calibration set alone can explain the coverage."""
        return self.expected_lower <= self.coverage <= self.expected_upper

    @property
    def is_one_sided(self) -> bool:
        """Whether intervals have one bound: no length is finite, but some have one finite end."""
        return self.share_infinite < 1.0 and np.isnan(self.mean_finite_length)


def summarise(
    columns: list[Column],
    y: Array,
    bounds: Array,
    confidence_level: float,
    y_pred: ArrayLike | None,
    random_state: int,
    n_calibration: int | None = None,
) -> tuple[Summary, WorstSlab, list[str]]:
    """Summary, worst slab and notes on them, from checked y (n,) and bounds (n, 2)."""
    n, level, seed, expected = len(y), confidence_level, random_state, (nan, nan)
    if n_calibration is not None:
        expected = metrics.coverage_band(n_calibration, n, level)
    finite = lengths(bounds[np.isfinite(bounds).all(axis=1)])
    hits = int(is_covered(y, bounds).sum())
    lower, upper = binomial_band(hits, n)
    dependence = cast(HSIC, metrics.hsic(y, bounds, random_state=seed))
    # Without any informative column, use a constant one.
    columns = columns or read_columns(np.zeros(n), n)
    slab = cast(WorstSlab, metrics.worst_slab_coverage(y, bounds, columns, random_state=seed))
    X, rows = columns, cast(Any, slice(None))
    if n > _MAX_RISK_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(n)[:_MAX_RISK_ROWS])
        X = [column.take(rows) for column in columns]
    risk = cast(ExcessRisk, metrics.excess_risk(y[rows], bounds[rows], X, level, random_state=seed))
    numbers: dict[str, Any] = {name: float(getattr(metrics, name)(y, bounds)) for name in _PLAIN}
    numbers |= {f"worst_slab_{name}": getattr(slab, name) for name in ("coverage", *_BAND, "n")}
    numbers |= {f"excess_risk_{name}": getattr(risk, name) for name in ("l1", "l1_error", "n")}
    numbers |= {f"expected_{name}": end for name, end in zip(_BAND, expected, strict=True)}
    summary = Summary(
        n=n,
        confidence_level=level,
        coverage=hits / n,
        lower=float(lower),
        upper=float(upper),
        p_value=float(coverage_p_values(hits, n, level)),
        n_calibration=n_calibration or 0,
        mean_finite_length=float(finite.mean()) if len(finite) else nan,
        interval_score=float(metrics.interval_score(y, bounds, level)),
        length_error_corr=float(metrics.length_error_corr(y, bounds, y_pred)),
        hsic=dependence.value,
        hsic_p_value=dependence.p_value,
        **numbers,
    )
    return summary, slab, _summary_notes(summary, dependence.n)


def _summary_notes(summary: Summary, hsic_n: int) -> list[str]:
    n, off_by = summary.n, 50 * (summary.upper - summary.lower)
    said = {
        f"With so few rows ({n}), coverage is known only to about ± {off_by:.0f} points.": n
        < _FEW_ROWS,
        f"HSIC was measured on {hsic_n:,} rows drawn at random.": hsic_n < n,
        f"The worst slab was found on {MAX_FIND_ROWS:,} rows and reported on the others.": n
        > 4 * MAX_FIND_ROWS,
        f"The excess risk was learned from {summary.excess_risk_n:,} rows drawn at "
        f"random.": summary.excess_risk_n < n,
    }
    return [sentence for sentence, applies in said.items() if applies]


def say_overall(summary: Summary) -> str:
    """Whether the coverage of all rows is off the target, or what explains it."""
    if summary.p_value >= ALPHA:
        return "within chance of the target"
    if summary.is_explained:
        return f"consistent with a calibration set of {summary.n_calibration:,} rows"
    return "off the target"


def summary_lines(summary: Summary) -> list[tuple[str, str, str]]:
    """Name, value and how to read it, for each number worth a line."""
    slab = "no rows were left to measure it on"
    if summary.worst_slab_n:
        band = _brackets(summary.worst_slab_lower, summary.worst_slab_upper)
        slab = f"{band} on {say_rows(summary.worst_slab_n)} not used to find it"
    band = _brackets(summary.lower, summary.upper)
    verdict = f"{band}, {say_overall(summary)}, {_p_phrase(summary.p_value)}"
    lines = [("coverage", say_share(summary.coverage), verdict)]
    if summary.n_calibration:
        expected = f"{say_band(summary.expected_lower, summary.expected_upper)} %"
        sets = f"for 95 % of calibration sets of {summary.n_calibration:,} rows"
        lines.append(("expected", expected, sets))
    median = f"median {say_number(summary.median_length)}"
    if summary.is_one_sided:
        lines.append(("mean length", "none", "one-sided: each row has one bound"))
    else:
        lines.append(("mean length", say_number(summary.mean_length), median))
    if summary.share_empty > 0:
        lines.append(("empty", f"{say_number(100 * summary.share_empty)} %", "cover nothing"))
    if summary.share_infinite > 0:
        finite = f"the finite ones are {say_number(summary.mean_finite_length)} long on average"
        finite = "have no finite bound" if summary.is_one_sided else finite
        lines.append(("infinite", f"{say_number(100 * summary.share_infinite)} %", finite))
    error = f"± {say_number(summary.excess_risk_l1_error)}"
    if summary.excess_risk_n < _FEWEST_RISK_ROWS:
        error = "too few rows for a standard error"
    risk = f"{error}; 0 is ideal, below 0 is noise"
    dependence = f"0 is ideal, {_p_phrase(summary.hsic_p_value)}"
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
    return f"[{100 * lower:.1f}, {100 * upper:.1f}]"


def _p_phrase(value: float) -> str:
    return f"p {say_p_value(value)}" if value < 0.001 else f"p = {say_p_value(value)}"


def say_slab(slab: WorstSlab, columns: list[Column]) -> str:
    """The rows of the slab: a range or a label if it lies along one of these columns."""
    used = np.flatnonzero(slab.direction)
    if not columns:
        return "all rows"
    if len(used) > 1:
        order = used[np.argsort(-np.abs(slab.direction[used]), kind="stable")]
        names = [shorten(slab.columns[j]) for j in order[:_MOST_NAMED]]
        return f"a range of a weighted sum of {len(used)} columns, mainly {listing(names)}"
    column = columns[slab.source[j := int(used[0])]]
    is_label, first = column.kind == LABEL, np.flatnonzero(slab.source == slab.source[j])[0]
    values = np.arange(len(column.labels)) if is_label else column.values
    # With more than two labels, each has an indicator.
    points = values == j - first if is_label and not column.is_flag else values
    points = (points - slab.center[j]) / (slab.scale[j] or 1.0)
    inside = np.flatnonzero((points >= slab.low - _ROUNDING) & (points <= slab.high + _ROUNDING))
    # Missing values are placed at the mean.
    missing = column.n_missing > 0 and slab.low <= 0.0 <= slab.high
    if len(inside) == 0:
        return cells.label_condition(column, MISSING).text
    if not is_label:
        low, high = (cells.say_rounded(float(values[i]), column.kind) for i in inside[[0, -1]])
        text = f"{shorten(column.name)} {f'= {low}' if low == high else f'{low} to {high}'}"
    elif len(inside) == len(values):
        text = f"{shorten(column.name)} is known"
    elif len(inside) == 1:
        text = cells.label_condition(column, int(inside[0])).text
    else:
        text = cells.label_condition(column, int(j - first), negated=True).text
    return f"{text} or missing" if missing else text


@dataclass(frozen=True)
class Accuracy:
    """Errors of point predictions; r2 is NaN if y is constant.

    ``constant_mae`` is the error of the median of y, the best constant.
    """

    n: int
    r2: float
    mae: float
    constant_mae: float

    @property
    def text(self) -> str:
        """Both errors in one sentence."""
        ours = f"R2 = {say_tick(self.r2, 0.1)} and are off by {say_number(self.mae)} on average"
        constant = f"the best constant is off by {say_number(self.constant_mae)}"
        return f"The point predictions have {ours}; {constant}."

    @property
    def warning(self) -> str:
        """A warning if a constant would do as well; otherwise empty."""
        if not (self.r2 <= 0.0 or self.mae >= self.constant_mae) or np.isnan(self.r2):
            return ""
        worse = "The point model is no better than a constant"
        return f"{worse}: better features or another model would shorten the intervals."


def accuracy(y: ArrayLike, y_pred: ArrayLike) -> Accuracy:
    """Errors of point predictions (n,) for rows that the model has not seen."""
    actual = np.asarray(y, dtype=np.float64)
    errors, around = actual - check_prediction(y_pred, len(actual)), actual - actual.mean()
    # Squares of numbers at most 1 do not overflow.
    scale, r2 = float(np.abs(around).max()), nan
    if scale > 0.0:
        r2 = 1.0 - float(np.sum((errors / scale) ** 2) / np.sum((around / scale) ** 2))
    constant_mae = float(np.abs(actual - np.median(actual)).mean())
    return Accuracy(len(actual), r2, float(np.abs(errors).mean()), constant_mae)


@dataclass(frozen=True, kw_only=True)
class Failure(Counted):
    """A part of the rows whose coverage is off the target by more than chance; see `Counted`.

    ``part`` is "rules", "features", "groups", "sizes" or "slab"; comparisons of the slab with the
    other rows are NaN.
    """

    part: str


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; every part is plain data, and ``frame(part)`` makes it a frame.

    ``features`` are the bins of every feature; ``rules`` are regions found on one half of the rows
    and tested on the other, the most significant first; ``sizes`` are strata of the length, from
    the shortest on; ``slab`` is the slab of the features that covers worst, on rows not used to
    find it, and ``slab_text`` the same in words. ``notes`` say what was too small, missing, left
    out or sampled.
    """

    summary: Summary
    features: tuple[Cell, ...]
    groups: tuple[Cell, ...]
    sizes: tuple[Cell, ...]
    slab: WorstSlab
    slab_text: str
    rules: tuple[Rule, ...]
    notes: tuple[str, ...]
    random_state: int

    @property
    def is_shifted(self) -> bool:
        """Whether overall coverage is off the target by more than chance."""
        return self.summary.p_value < ALPHA

    @property
    def slab_p_value(self) -> float:
        """From the exact test that the worst slab's coverage is the target; NaN without rows."""
        n, level = self.slab.n, self.summary.confidence_level
        return float(coverage_p_values(round(n * self.slab.coverage), n, level)) if n else nan

    def failures(self, alpha: float = 0.05) -> tuple[Failure, ...]:
        """Everything significant at ``alpha``: rules, features, groups, sizes, slab; worst first.

        In each of the five parts, the probability of even one false finding is at most ``alpha``.
        If ``is_shifted``, most parts are off because all rows are: look at those that
        ``stands_out``.
        """
        found, names = list[Failure](), [field.name for field in fields(Counted)]
        for part in _TITLES:
            hits = [one for one in getattr(self, part) if one.adjusted_p_value <= alpha]
            for one in sorted(hits, key=lambda one: one.gap):
                found.append(Failure(part=part, **{name: getattr(one, name) for name in names}))
        if (p_value := self.slab_p_value) <= alpha:
            known: dict[str, Any] = {name: getattr(self.slab, name, nan) for name in names}
            known |= {"text": self.slab_text, "p_value": p_value, "adjusted_p_value": p_value}
            known["gap"] = self.slab.coverage - self.summary.confidence_level
            found.append(Failure(part="slab", **known))
        return tuple(found)

    def frame(self, part: str = "summary") -> Any:
        """A part of the audit, or "failures", as a pandas frame, or polars without pandas."""
        if part not in _PARTS:
            raise ValueError(f"part: got {part!r}; expected one of {', '.join(_PARTS)}.")
        if part == "summary":
            values = asdict(self.summary)
            return make_frame({"metric": [*values], "value": [*map(float, values.values())]}, None)
        if part == "slab":
            return self.slab.frame()
        if part == "notes":
            return make_frame({"note": list(self.notes)}, None)
        kinds: dict[str, Any] = {"rules": Rule, "failures": Failure}
        rows = self.failures() if part == "failures" else getattr(self, part)
        shared = [field.name for field in fields(Counted)]
        own = [field.name for field in fields(kinds.get(part, Cell)) if field.name not in shared]
        names = [name for name in (*own, *shared) if name != "conditions"]
        columns = {name: [getattr(row, name) for row in rows] for name in names}
        return make_frame(at_ends(columns, ["text", "coverage"], ["n", "adjusted_p_value"]), None)

    def __str__(self) -> str:
        return audit_text(self)

    def _is_told(self, one: Counted) -> bool:
        """Off the target; if all rows are, only if it also differs from the others."""
        return one.adjusted_p_value <= ALPHA and (one.stands_out or not self.is_shifted)

    def _repr_html_(self) -> str | None:
        """Tables for a notebook; None without jinja2, so the notebook shows the text."""
        if not has_jinja2():
            return None
        said = {part: f"{name}: {part_verdict(self, part)}" for part, name in _TITLES.items()}
        given = {"audit": self, "notes": self.notes, "lines": summary_lines(self.summary)}
        given |= {"slab": self.slab.n and _slab_sentence(self), "title": _heading(self)}
        given |= {"parts": said, "is_told": self._is_told, "most": _MOST_ROWS}
        return render_template("audit/audit.html.j2", **given)


def audit(
    X: Any,
    y: ArrayLike,
    intervals: Any,
    groups: Any = None,
    *,
    confidence_level: float | None = None,
    y_pred: ArrayLike | None = None,
    n_calibration: int | None = None,
    random_state: int = 0,
) -> Audit:
    """Where, and for whom, intervals cover too rarely or too often.

    The rows must be new to whatever made the intervals; then bands are exact given the intervals.
    Bins, groups, strata and rules are adjusted for their number by Holm's method. If overall
    coverage is off the target, only rules that also differ from the other rows are reported.

    Parameters
    ----------
    X : array of shape (n,) or (n, d), series or frame
        Numbers, times and labels; missing values have their own bin.
    y : array of shape (n,)
    intervals : array of shape (n, 2), (predictions, intervals), or fitted estimator
        Lower and upper bounds at one level, made by any method; for an estimator,
        ``predict_interval(X)`` is called.
    groups : labels of shape (n,), str, list of str, frame or dict, default=None
        Labels; the name of a column of X, or several; a frame of labels; or a dict of
        name -> labels or column.
    confidence_level : float, default=None
        The level of the intervals, passed to an estimator that accepts one. None is the level of
        the estimator, or 0.9 for bounds.
    y_pred : array of shape (n,), default=None
        Point predictions, for the correlation of length and error; None uses the centres.
    n_calibration : int, default=None
        Number of calibration rows, to say how far their draw alone moves the coverage.
    random_state : int, default=0
        Seed of the halves behind the rules, and of all sampling.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = rng.normal(size=2000) * np.where(X[:, 0] > 0.75, 2.0, 1.0)
    >>> found = audit(X, y, np.tile([-1.645, 1.645], (2000, 1)))
    >>> found.rules[0].text, found.rules[0].upper < 0.9
    ('x0 > 0.7435', True)
    """
    target = common_level([intervals], confidence_level)
    y_checked, bounds = check_one_level(y, intervals_of(intervals, X, confidence_level))
    columns, column_notes = cells.telling_columns(X, len(y_checked))
    level = float(check_levels(target, bounds)[0])
    rows = Outcomes(is_covered(y_checked, bounds), lengths(bounds), level)
    named = cells.group_partitions(X, groups, len(y_checked))
    tasks: list[Callable[[], Any]] = [
        lambda: find_rules(columns, rows, random_state),
        lambda: summarise(columns, y_checked, bounds, level, y_pred, random_state, n_calibration),
    ]
    (rules, rule_notes), (summary, slab, summary_notes) = in_threads(tasks)
    by_group = cells.count_cells(named, rows)
    by_size, size_notes = cells.size_cells(bounds, rows)
    notes = [*summary_notes, *column_notes, *size_notes, *rule_notes]
    if summary.p_value < ALPHA:
        reason = ", though the draw of the calibration set can explain it" * summary.is_explained
        said = (
            f"Overall coverage is off {say_level(level)} by more than the draw of these rows "
            f"explains{reason}. Bins, groups and rules are compared with the target, so this is "
            "part of every gap; rules are listed only if they also differ from the other rows."
        )
        notes.insert(0, said)
    by_feature, told = cells.feature_cells(columns, rows), say_slab(slab, columns)
    parts = by_feature, by_group, by_size, slab, told, rules
    return Audit(summary, *parts, tuple(notes), random_state)


def intervals_of(candidate: Any, X: Any, confidence_level: float | None) -> Any:
    """The candidate's intervals for X, or the candidate itself if it is intervals."""
    found = candidate
    if hasattr(candidate, "predict_interval"):
        takes = _LEVEL in inspect.signature(candidate.predict_interval).parameters
        asked = {_LEVEL: confidence_level} if takes and confidence_level is not None else {}
        found = candidate.predict_interval(X, **asked)
    # MAPIE returns (predictions, intervals).
    beside = isinstance(found, tuple) and len(found) == 2 and np.ndim(found[1]) > 1
    return found[1] if beside else found


def common_level(candidates: Iterable[Any], confidence_level: float | None) -> float:
    """The target: as given, or the level that all estimators were set to."""
    if confidence_level is not None:
        return confidence_level
    asked = [one for one in candidates if hasattr(one, "predict_interval")]
    unknown = [one for one in asked if np.ndim(getattr(one, _LEVEL, [])) != 0]
    if unknown:
        silent = f"{type(unknown[0]).__name__} has no {_LEVEL} that is one number"
        raise ValueError(f"{silent}, so the level of its intervals is unknown; pass {_LEVEL}=.")
    levels = {float(getattr(one, _LEVEL)) for one in asked}
    if len(levels) > 1:
        got = f"{_LEVEL}: got candidates with the levels {sorted(levels)}"
        raise ValueError(f"{got}; expected one level: pass {_LEVEL}=.")
    return levels.pop() if levels else _DEFAULT_LEVEL


def audit_text(audit: Audit, rest: str = 'frame("failures")') -> str:
    """The whole audit as text; ``rest`` is where to find failures that it only counts."""
    lines = [_heading(audit), *aligned(summary_lines(audit.summary)), ""]
    for part, title in _TITLES.items():
        if not getattr(audit, part):
            continue
        told = sorted(filter(audit._is_told, getattr(audit, part)), key=lambda one: one.gap)
        lines.append(f"{title}: {part_verdict(audit, part)}")
        for one in told[:_MOST_LINES]:
            phrase = coverage_phrase(one, audit.summary.confidence_level)
            lines.append(f"  {one_line(one.text, _WIDEST_SENTENCE)}: {phrase}")
        if len(told) > _MOST_LINES:
            lines.append(f"  and {len(told) - _MOST_LINES:,} more: see {rest}")
        lines.append("")
    if audit.slab.n:
        lines += [_slab_sentence(audit), ""]
    if audit.notes:
        lines += ["Notes", *(f"  - {' '.join(note.split())}" for note in audit.notes)]
    return "\n".join(lines).rstrip()


def _heading(audit: Audit) -> str:
    summary = audit.summary
    return f"Coverage audit of {say_rows(summary.n)}, target {say_level(summary.confidence_level)}"


def part_verdict(audit: Audit, part: str) -> str:
    """How many are significant; if all rows are off, how many also differ from the others."""
    tested = getattr(audit, part)
    gaps = [one.gap for one in tested if one.adjusted_p_value <= ALPHA]
    n_under, chance = sum(gap < 0 for gap in gaps), "by more than chance (5 %, Holm)"
    if not gaps:
        return f"none of {len(tested):,} is off the target {chance}"
    below = f"{n_under:,} of {len(tested):,} below the target"
    text = f"{below} and {len(gaps) - n_under:,} above it {chance}"
    told = sum(map(audit._is_told, tested))
    if told == len(gaps):
        return text
    verb = "differs" if told <= 1 else "differ"
    return f"{text}; {told or 'none'} of them also {verb} from the other rows"


def _slab_sentence(audit: Audit) -> str:
    phrase = coverage_phrase(audit.slab, audit.summary.confidence_level)
    return f"Worst slab: {one_line(audit.slab_text, _WIDEST_SENTENCE)}: {phrase}"


def coverage_phrase(region: Any, confidence_level: float) -> str:
    """71 % [64, 77] of 312 rows, target 90 %: for a rule, a cell, a failure or a slab.

    With as few decimals as keep the target on its side of the band's ends.
    """
    lower, upper, target = 100 * region.lower, 100 * region.upper, 100 * confidence_level
    inside, digits = lower <= target <= upper, int(upper - lower <= 2.0)
    while digits < 3 and (round(lower, digits) <= target <= round(upper, digits)) != inside:
        digits += 1
    share, low, high = (f"{value:.{digits}f}" for value in (100 * region.coverage, lower, upper))
    told = f"{share} % [{low}, {high}] of {say_rows(region.n)}"
    return f"{told}, target {say_level(confidence_level)}"
