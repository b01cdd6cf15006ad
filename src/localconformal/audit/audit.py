"""For whom do the intervals fail? An audit of anyone's intervals."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.audit.cells import (
    ALPHA,
    Cell,
    Counted,
    Outcomes,
    feature_cells,
    group_cells,
    group_partitions,
    read_table,
    size_cells,
)
from localconformal.audit.rules import Rule, find_rules
from localconformal.audit.summary import Summary, say_slab, summarise, summary_lines
from localconformal.io.files import write_whole
from localconformal.metrics import WorstSlab
from localconformal.metrics.intervals import (
    check_levels,
    check_one_level,
    coverage_p_values,
    is_covered,
    lengths,
)
from localconformal.parallel import in_threads
from localconformal.rows import at_ends, make_frame
from localconformal.text import (
    aligned,
    has_jinja2,
    one_line,
    render_template,
    say_band,
    say_level,
    say_number,
    say_p_value,
    say_rows,
    say_share,
)

#: What `Audit.frame` knows.
_PARTS = ("summary", "rules", "features", "groups", "sizes", "slab", "failures", "notes")
_LEVEL = "confidence_level"
_DEFAULT_LEVEL = 0.9
#: Parts that are families of tests, and how they are called.
_TITLES = {
    "rules": "Rules",
    "features": "Bins of features",
    "groups": "Groups",
    "sizes": "Strata of the length",
}
#: Lines of a part of the text, and rows of a table in HTML, before the rest is only counted.
_MOST_LINES, _MOST_ROWS = 10, 20
#: Conditions are three at most, of names and labels that are cut where they are made.
_WIDEST_SENTENCE = 400


@dataclass(frozen=True, kw_only=True)
class Failure(Counted):
    """A part of the rows whose coverage is off the target by more than chance.

    ``part`` of the audit is "rules", "features", "groups", "sizes" or "slab"; the numbers are
    explained at `Counted`, and those in comparison with the other rows are NaN for the slab.
    """

    part: str


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; every part is plain data, and a frame by ``frame(part)``.

    ``summary`` is over all rows. ``features`` are the bins of every feature, the most significant
    first; ``groups`` those that were named; ``sizes`` strata of the length, from the shortest on.
    ``slab`` is the slab of the features that covers worst, on rows that did not find it, and
    ``slab_text`` the same in words. ``rules`` are regions found on one half of the rows and tested
    on the other, the most significant first; where all rows are off the target, those that differ
    from the other rows too. ``notes`` say what was small, missing, undefined, left out or drawn.
    The same rows and ``random_state`` find the same.
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
        """Whether all rows together are off the target by more than chance."""
        return self.summary.p_value < ALPHA

    @property
    def slab_p_value(self) -> float:
        """Of the exact test that the worst slab's coverage is the target; NaN without rows."""
        slab = self.slab
        if slab.n == 0:
            return nan
        n_covered = round(slab.n * slab.coverage)
        return float(coverage_p_values(n_covered, slab.n, self.summary.confidence_level))

    def failures(self, alpha: float = 0.05) -> tuple[Failure, ...]:
        """All that is significant at ``alpha``: rules, features, groups, sizes, slab; worst first.

        Each of the five parts errs, even once, with probability ``alpha`` at most. Where
        ``is_shifted``, most parts are off with the whole: those with ``stands_out`` say more.
        """
        found: list[Failure] = []
        names = [field.name for field in fields(Counted)]
        for part in _TITLES:
            hits = [one for one in getattr(self, part) if one.adjusted_p_value <= alpha]
            found += [
                Failure(part=part, **{name: getattr(one, name) for name in names})
                for one in sorted(hits, key=lambda one: one.gap)
            ]
        if self.slab_p_value <= alpha:
            known: dict[str, Any] = {name: getattr(self.slab, name, nan) for name in names}
            known |= {"text": self.slab_text, "adjusted_p_value": self.slab_p_value}
            known["gap"] = self.slab.coverage - self.summary.confidence_level
            known["p_value"] = self.slab_p_value
            found.append(Failure(part="slab", **known))
        return tuple(found)

    def frame(self, part: str = "summary") -> Any:
        """One part as a frame: pandas, or polars where only that is installed.

        It is "summary", "rules", "features", "groups", "sizes", "slab", "failures" or "notes".
        """
        if part not in _PARTS:
            raise ValueError(f"part: got {part!r}; expected one of {', '.join(_PARTS)}.")
        if part == "summary":
            values = asdict(self.summary)
            numbers = [float(value) for value in values.values()]
            return make_frame({"metric": list(values), "value": numbers}, None)
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

    def _repr_html_(self) -> str | None:
        """Tables for a notebook; None without jinja2, so that it shows the text."""
        return sections_html(_sections(self)) if has_jinja2() else None

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page; the file is whole or not there. It needs jinja2."""
        page = sections_html(_sections(self), is_page=True)
        return write_whole(Path(path), lambda part: part.write_text(page, encoding="utf-8"))


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

    The rows must be new to whatever made the intervals. Then bands are exact given the intervals:
    a coverage within its band may be the target, one outside is off by more than chance.
    Bins, groups, strata and rules are adjusted for their number by Holm's method. Where all rows
    together are off the target, only rules that also differ from the other rows are told.

    Parameters
    ----------
    X : array of shape (n,) or (n, d), series or frame
        Numbers, times and labels; missing values are a bin of their own.
    y : array of shape (n,)
    intervals : array of shape (n, 2), (predictions, intervals), or fitted estimator
        Lower and upper bounds of one level, made by any method; an estimator is asked for
        ``predict_interval(X)``.
    groups : labels of shape (n,), str, list of str, frame or dict, default=None
        Labels; the name of a column of X, or several; a frame of labels; or a dict of
        name -> labels or column. Labels may be made of y, as a range of it; intervals that are
        valid on average promise nothing there.
    confidence_level : float, default=None
        What the intervals were made for, asked of an estimator that takes it. None is what the
        estimator was set to, 0.9 for bounds.
    y_pred : array of shape (n,), default=None
        Point predictions, for the correlation of length and error; None is the centre.
    n_calibration : int, default=None
        Rows that calibrated the intervals: how far their draw alone moves the coverage is then
        said too.
    random_state : int, default=0
        Seed of the halves behind the rules, and of all that is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = rng.normal(size=2000) * np.where(X[:, 0] > 0.75, 2.0, 1.0)
    >>> found = audit(X, y, np.tile([-1.645, 1.645], (2000, 1)))
    >>> found.rules[0].text
    'x0 > 0.7435'
    >>> found.rules[0].upper < 0.9
    True
    """
    target = common_level([intervals], confidence_level)
    y_checked, bounds = check_one_level(y, intervals_of(intervals, X, confidence_level))
    table = read_table(X, len(y_checked))
    level = float(check_levels(target, bounds)[0])
    rows = Outcomes(is_covered(y_checked, bounds), lengths(bounds), level)
    named = group_partitions(X, groups, len(y_checked))
    tasks: list[Callable[[], Any]] = [
        lambda: find_rules(table.columns, rows, random_state),
        lambda: summarise(table, y_checked, bounds, level, y_pred, random_state, n_calibration),
    ]
    (rules, rule_notes), (summary, slab, summary_notes) = in_threads(tasks)
    by_group, group_notes = group_cells(named, rows)
    by_size, size_notes = size_cells(bounds, rows)
    notes = _shift_notes(summary), summary_notes, table.notes, group_notes, size_notes, rule_notes
    return Audit(
        summary=summary,
        features=feature_cells(table.columns, rows),
        groups=by_group,
        sizes=by_size,
        slab=slab,
        slab_text=say_slab(slab, table.columns),
        rules=rules,
        notes=tuple(note for part in notes for note in part),
        random_state=random_state,
    )


def _shift_notes(summary: Summary) -> list[str]:
    """Whether every gap holds one that all rows share."""
    if summary.p_value >= ALPHA:
        return []
    reason = ", though the draw of the calibration set can explain it" * summary.is_explained
    return [
        f"Coverage of all rows is off {say_level(summary.confidence_level)} by more than the draw "
        f"of these rows explains{reason}; bins, groups and rules are compared with the target, so "
        "that this is part of every gap, and rules are named only if they differ from the other "
        "rows too."
    ]


def intervals_of(candidate: Any, X: Any, confidence_level: float | None) -> Any:
    """The candidate's intervals for X, or the candidate if it is them."""
    found = candidate
    if hasattr(candidate, "predict_interval"):
        takes = inspect.signature(candidate.predict_interval).parameters
        asked = (
            {_LEVEL: confidence_level} if confidence_level is not None and _LEVEL in takes else {}
        )
        found = candidate.predict_interval(X, **asked)
    # MAPIE returns (predictions, intervals).
    beside = isinstance(found, tuple) and len(found) == 2 and np.ndim(found[1]) > 1
    return found[1] if beside else found


def common_level(candidates: Iterable[Any], confidence_level: float | None) -> float:
    """The target: as given, or what all that predict intervals were set to."""
    if confidence_level is not None:
        return confidence_level
    asked = [one for one in candidates if hasattr(one, "predict_interval")]
    unknown = [one for one in asked if np.ndim(getattr(one, _LEVEL, [])) != 0]
    if unknown:
        raise ValueError(
            f"{type(unknown[0]).__name__} does not say in {_LEVEL} which one level its intervals "
            f"were made for; pass {_LEVEL}=."
        )
    levels = {float(getattr(one, _LEVEL)) for one in asked}
    if len(levels) > 1:
        raise ValueError(
            f"{_LEVEL}: got candidates of levels {sorted(levels)}; expected one: pass {_LEVEL}=."
        )
    return levels.pop() if levels else _DEFAULT_LEVEL


def audit_text(audit: Audit, rest: str = 'frame("failures")') -> str:
    """The whole audit as text; ``rest`` is where failures stand that it only counts."""
    lines = [_heading(audit), *aligned(summary_lines(audit.summary)), ""]
    for part in _TITLES:
        lines += _part_lines(audit, part, rest)
    if audit.slab.n:
        lines += [_slab_sentence(audit), ""]
    if audit.notes:
        lines += ["Notes", *(f"  - {' '.join(note.split())}" for note in audit.notes)]
    return "\n".join(lines).rstrip()


def _heading(audit: Audit) -> str:
    """What was audited."""
    target = say_level(audit.summary.confidence_level)
    return f"Coverage audit of {say_rows(audit.summary.n)}, target {target}"


def _part_lines(audit: Audit, part: str, rest: str) -> list[str]:
    """What is significant in one part, and how much was tested."""
    tested = getattr(audit, part)
    if not tested:
        return []
    level = audit.summary.confidence_level
    told = _told_failures(audit, part)
    lines = [f"{_TITLES[part]}: {part_verdict(audit, part)}"]
    for one in told[:_MOST_LINES]:
        lines.append(f"  {one_line(one.text, _WIDEST_SENTENCE)}: {coverage_phrase(one, level)}")
    if len(told) > _MOST_LINES:
        lines.append(f"  and {len(told) - _MOST_LINES:,} more: see {rest}")
    return [*lines, ""]


def _told_failures(audit: Audit, part: str) -> list[Failure]:
    """What is worth a line: where all rows are off the target, only what stands out from them."""
    hits = [one for one in audit.failures() if one.part == part]
    return [one for one in hits if one.stands_out] if audit.is_shifted else hits


def part_verdict(audit: Audit, part: str) -> str:
    """How many are significant; where all rows are off, how many differ from the others too."""
    tested = getattr(audit, part)
    gaps = [one.gap for one in tested if one.adjusted_p_value <= ALPHA]
    n_under = sum(gap < 0 for gap in gaps)
    text = _verdict(n_under, len(gaps) - n_under, len(tested))
    told = len(_told_failures(audit, part))
    if told == len(gaps):
        return text
    verb = "differs" if told <= 1 else "differ"
    return f"{text}, {told or 'none'} of them {verb} from the other rows too"


def _slab_sentence(audit: Audit) -> str:
    """Which rows the worst slab holds, and their coverage."""
    phrase = coverage_phrase(audit.slab, audit.summary.confidence_level)
    return f"Worst slab: {one_line(audit.slab_text, _WIDEST_SENTENCE)}: {phrase}"


def _verdict(n_under: int, n_over: int, n_tested: int) -> str:
    """How many of how many are significant, on either side of the target.

    >>> _verdict(2, 1, 80)
    '2 of 80 are below the target and 1 above it by more than chance (5 %, Holm)'
    """
    chance = "by more than chance (5 %, Holm)"
    if n_under + n_over == 0:
        return f"none of {n_tested:,} is off the target {chance}"
    first, place = (n_under, "below") if n_under else (n_over, "above")
    verb = "is" if first == 1 else "are"
    both = f" and {n_over:,} above it" if n_under and n_over else ""
    return f"{first:,} of {n_tested:,} {verb} {place} the target{both} {chance}"


def coverage_phrase(region: Any, confidence_level: float) -> str:
    """71 % [64, 77] of 312 rows, target 90 %: of a rule, a cell, a failure or a slab."""
    digits = digits_of_band(region.lower, region.upper, confidence_level)
    share, low, high = (
        f"{100 * value:.{digits}f}" for value in (region.coverage, region.lower, region.upper)
    )
    target = say_level(confidence_level)
    return f"{share} % [{low}, {high}] of {say_rows(region.n)}, target {target}"


def digits_of_band(lower: float, upper: float, confidence_level: float) -> int:
    """Decimals of a band in per cent: none, or as few as keep the target in or out of it."""
    digits = 0 if upper - lower > 0.02 else 1
    outside = not lower <= confidence_level <= upper
    while digits < 3:
        low, high = round(100 * lower, digits), round(100 * upper, digits)
        if (not low <= 100 * confidence_level <= high) == outside:
            break
        digits += 1
    return digits


@dataclass(frozen=True)
class Section:
    """A title, a table, a paragraph and notes, as far as there are any, in HTML."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    #: Rows in bold, by their place.
    marked: Sequence[int] = ()
    #: The column that is a sentence.
    text_column: int | None = None
    below: str = ""
    notes: Sequence[str] = ()


def sections_html(sections: Sequence[Section], is_page: bool = False) -> str:
    """The sections as one element, or as a page that needs nothing else."""
    return render_template("audit/audit.html.j2", sections=sections, is_page=is_page)


def _sections(audit: Audit) -> list[Section]:
    lines = summary_lines(audit.summary)
    sections = [Section(_heading(audit), ("", "value", ""), lines, text_column=2)]
    sections += [_part_section(audit, part) for part in _TITLES if getattr(audit, part)]
    if audit.slab.n:
        sections.append(Section("", below=_slab_sentence(audit)))
    if audit.notes:
        sections.append(Section("Notes", notes=audit.notes))
    return sections


def _part_section(audit: Audit, part: str) -> Section:
    """The table of one part; where all rows are off, bold is what stands out from them as well."""
    tested, rows, marked = getattr(audit, part), [], []
    for i, region in enumerate(tested[:_MOST_ROWS]):
        band, gap = say_band(region.lower, region.upper), f"{100 * region.gap:+.1f}"
        coverage = [f"{region.n:,}", say_share(region.coverage), band, gap]
        p_value = say_p_value(region.adjusted_p_value)
        rows.append([region.text, *coverage, say_number(region.mean_length), p_value])
        if region.adjusted_p_value <= ALPHA and (region.stands_out or not audit.is_shifted):
            marked.append(i)
    rest = len(tested) - len(rows)
    return Section(
        f"{_TITLES[part]}: {part_verdict(audit, part)}",
        ("which rows", "rows", "coverage", "95 % band", "gap", "mean length", "adjusted p"),
        rows,
        marked=marked,
        below=f'and {rest:,} more: see frame("{part}")' if rest else "",
    )
