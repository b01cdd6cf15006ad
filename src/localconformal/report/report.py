"""The report: everything it says, as plain data; a page that needs nothing else; and a file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.audit import Audit, Comparison, Failure, Summary
from localconformal.audit.audit import (
    coverage_phrase,
    intervals_of,
    part_verdict,
)
from localconformal.audit.cells import ALPHA, say_rounded
from localconformal.audit.summary import Accuracy, accuracy, summary_lines
from localconformal.columns import LABEL, MISSING, as_table, read_columns
from localconformal.io.files import write_whole
from localconformal.metrics import CoverageLengthCurve, coverage_band
from localconformal.metrics.intervals import check_one_level, is_covered
from localconformal.quantiles import Array
from localconformal.report.charts import (
    KINDS,
    MAX_METHODS,
    METRIC_NAMES,
    NARROW,
    OVER,
    UNDER,
    all_charts,
    paired_in_points,
    region_state,
    say_calibration,
    short,
)
from localconformal.rows import columns_of, is_frame
from localconformal.text import (
    plain_data,
    render_template,
    say_band,
    say_difference,
    say_level,
    say_number,
    say_p_value,
    say_rows,
    say_share,
)
from localconformal.versions import PACKAGES, versions

#: Digits kept of a number: a page of 400 pixels shows no more.
_DIGITS = 6
#: Characters of the conditions of a rule, whose names the audit has cut, of a paragraph, and of a
#: model's settings.
_CONDITIONS, _PARAGRAPH, _SETTINGS = 400, 600, 4_000
#: Parts told as sentences, and rows of the tables.
_MAX_SENTENCES, _MAX_ROWS, _MAX_COLUMNS, _MAX_CANDIDATES, _MAX_NOTES = 12, 400, 200, 60, 60

_SCRIPTS = ("draw.js", "charts.js", "page.js")


def write_report(audit: Audit, path: str | Path, **content: Any) -> Path:
    """Write an audit as one HTML file that needs nothing else, and return its path.

    The page asks for nothing from the network, and its content security policy forbids it to.
    It is under 3 MB whatever the data, and the same for the same arguments. The file is whole or
    not there. It needs the extra ``report``.

    Parameters
    ----------
    audit : Audit
    path : str or Path
    **content
        Everything else on the page, as in `report_content`: ``model=``, ``comparison=``, ``X=``,
        ``y=``, ``intervals=`` and so on.

    Examples
    --------
    >>> import tempfile
    >>> from localconformal.audit import audit
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(200, 1)), rng.uniform(size=200)
    >>> intervals = np.tile([0.05, 0.95], (200, 1))
    >>> path = f"{tempfile.mkdtemp()}/report.html"
    >>> page = write_report(audit(X, y, intervals), path, X=X, y=y, intervals=intervals)
    >>> page.stat().st_size < 3_000_000
    True
    """
    page = render(report_content(audit, **content))
    return write_whole(Path(path), lambda part: part.write_text(page, encoding="utf-8"))


def report_content(
    audit: Audit,
    *,
    model: Any = None,
    title: str = "How well do these intervals cover?",
    comparison: Comparison | None = None,
    curve: CoverageLengthCurve | None = None,
    X: Any = None,
    y: ArrayLike | None = None,
    intervals: ArrayLike | None = None,
    y_pred: ArrayLike | None = None,
    random_state: int = 0,
    group_hint: str = "pass groups= to the audit",
) -> dict[str, Any]:
    """The content of a report as numbers, texts, lists and dicts that JSON can say.

    NaN and infinities are the texts "NaN", "Infinity" and "-Infinity". The size is bounded
    whatever the number of rows, columns and groups: rows are counted or drawn with a seed, long
    tables and texts are cut, and what was cut is said.

    Parameters
    ----------
    audit : Audit
    model : fitted estimator, default=None
        What made the intervals: asked for its promise, how it was fitted, by how many rows it was
        calibrated, and for the intervals of X where none are given.
    title : str, default="How well do these intervals cover?"
        Above the headline, and of the browser's window.
    comparison : Comparison, default=None
    curve : CoverageLengthCurve, default=None
        Of `localconformal.metrics.coverage_length_curve`.
    X : array or frame of shape (n, d), default=None
    y : array of shape (n,), default=None
    intervals : array of shape (n, 2), default=None
        The rows that were audited, for the charts of lengths, errors and intervals; without
        intervals, or a model that gives them, these charts are left out.
    y_pred : array of shape (n,), default=None
        Point predictions of these rows: how good they are, and a chart of them. None asks the
        model, where it is asked for the intervals too; otherwise both are left out.
    random_state : int, default=0
        Seed of the rows drawn.
    group_hint : str, default="pass groups= to the audit"
        What to do for a table of groups, said where there are none.
    """
    audit = _with_expected_band(audit, model)
    if intervals is None and model is not None and X is not None and y is not None:
        intervals = intervals_of(model, X, audit.summary.confidence_level)
        if y_pred is None and hasattr(model, "predict"):
            y_pred = model.predict(X)
    found = rows = None
    if y is not None and intervals is not None:
        rows = _check_rows(audit, y, intervals)
        found = None if y_pred is None else accuracy(rows[0], y_pred)
    numbers = [(name, typeset(said), text) for name, said, text in summary_lines(audit.summary)]
    content = {
        "title": short(title),
        "headline": _headline(audit, found),
        "numbers": numbers,
        "guarantee": _promise(audit, model),
        "failures": _failures(audit, group_hint),
        "predictions": [] if found is None else [t for t in (found.warning, found.text) if t],
        "charts": all_charts(audit, rows, y_pred, curve, comparison, random_state),
        "slab": _slab_lines(audit),
        "comparison": None if comparison is None else _methods(comparison),
        "making": _model_facts(model),
        "facts": _data_facts(audit, X, model, random_state),
        "notes": [short(note, _PARAGRAPH) for note in audit.notes[:_MAX_NOTES]],
    }
    return dict(plain_data(content, _DIGITS))


def render(content: dict[str, Any]) -> str:
    """The page of a `report_content`: style, script and data are inside, nothing else is asked for.

    Examples
    --------
    >>> from localconformal.audit import audit
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(200, 1)), rng.uniform(size=200)
    >>> content = report_content(audit(X, y, np.tile([0.05, 0.95], (200, 1))), title="a < b")
    >>> content["headline"]["text"]
    '92.0 % of 200 rows lie in their interval. The target is 90 %.'
    >>> "<title>a &lt; b</title>" in render(content), "https://" in render(content)
    (True, False)
    """
    tools = (say_band, say_number, say_p_value, say_share, typeset)
    named = {tool.__name__: tool for tool in tools}
    return render_template("report/templates/report.html.j2", **content, **_assets(), **named)


@cache
def _assets() -> dict[str, str]:
    """Style and script, and the policy that lets through these and nothing else."""
    folder = files("localconformal.report") / "assets"
    style = (folder / "page.css").read_text(encoding="utf-8")
    parts = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}\n}})();\n'
    digests = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    policy = (
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; "
        "form-action 'none'"
    ).format(*digests)
    return {"style": style, "script": script, "policy": policy}


# ---- texts ------------------------------------------------------------------------------------


#: A hyphen before a number is a minus.
_MINUS = re.compile(r"(?<!\w)-(?=[\d∞])|(?<=e)-(?=\d)")


def typeset(number: str) -> str:
    """A number in the signs of a page: a dash, infinity and minus."""
    return "–" if number == "-" else _MINUS.sub("−", number.replace("infinity", "∞"))


#: Where in memory an object is differs every time.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _say(value: Any) -> str:
    if isinstance(value, float) or type(value) is int:
        return typeset(say_number(value))
    return short(value if isinstance(value, str) else _ADDRESS.sub("", str(value)))


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> dict[str, Any]:
    texts = [[_say(value) for value in row] for row in rows]
    return {"title": title, "columns": [short(name, NARROW) for name in columns], "rows": texts}


# ---- what was audited, and how it was calibrated ----------------------------------------------


def _check_rows(audit: Audit, y: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    """y (n,) and bounds (n, 2), those that were audited."""
    y_checked, bounds = check_one_level(y, intervals)
    n, share = len(y_checked), float(is_covered(y_checked, bounds).mean())
    if n != audit.summary.n or not np.isclose(share, audit.summary.coverage):
        raise ValueError(
            f"y and intervals have {say_rows(n)}, {say_share(share)} of them covered; expected the "
            f"audit's {say_rows(audit.summary.n)}, {say_share(audit.summary.coverage)} of them "
            "covered: pass what was audited."
        )
    return y_checked, bounds


def _with_expected_band(audit: Audit, model: Any) -> Audit:
    """The audit with the Beta-binomial band of its coverage, where only the model knows it."""
    summary, report = audit.summary, getattr(model, "fit_report_", None)
    promise: Any = getattr(model, "guarantee_", None)
    # Cells are calibrated by rows of their own, which are not counted there.
    if promise is None or promise.conditional_on is not None or not isinstance(report, Mapping):
        return audit
    n = int(report.get("rows", {}).get("calibration", 0))
    if summary.n_calibration or n == 0 or not (promise.marginal and promise.finite_sample):
        return audit
    lower, upper = coverage_band(n, summary.n, summary.confidence_level)
    known = replace(summary, n_calibration=n, expected_lower=lower, expected_upper=upper)
    return replace(audit, summary=known)


def _say_expected(summary: Summary) -> str:
    return say_band(summary.expected_lower, summary.expected_upper)


# ---- the head of the page ---------------------------------------------------------------------

#: What one part of a family of tests is called, and several.
_PARTS = {
    "rules": ("rule", "rules"),
    "features": ("feature bin", "feature bins"),
    "groups": ("group", "groups"),
    "sizes": ("length stratum", "length strata"),
    "slab": ("slab", "slabs"),
}


def _headline(audit: Audit, found: Accuracy | None) -> dict[str, Any]:
    summary, (under, over) = audit.summary, _sides(audit)
    lists = (audit.rules, audit.features, audit.groups, audit.sizes)
    n_tested = sum(map(len, lists)) + (audit.slab.n > 0)
    often = f"; {len(over):,} covered too often" if over else ""
    fails = (f"{len(under):,} of {n_tested:,}", f"parts of the rows, beyond chance{often}")
    figures = [*_figures(summary), ("Coverage fails", *fails)]
    verdict = [_overall_sentence(summary), *_parts_sentences(audit, under, over, n_tested)]
    return {
        "text": f"{say_share(summary.coverage)} of {say_rows(summary.n)} "
        f"{'lies in its' if summary.n == 1 else 'lie in their'} interval. "
        f"The target is {say_level(summary.confidence_level)}.",
        "verdict": verdict + ([found.warning] if found is not None and found.warning else []),
        "figures": [{"label": label, "value": v, "detail": text} for label, v, text in figures],
    }


def _sides(audit: Audit) -> tuple[list[Failure], list[Failure]]:
    """Parts covered too rarely and parts covered too often, as everywhere on the page."""
    found = audit.failures(ALPHA)
    return [one for one in found if one.is_under], [one for one in found if not one.is_under]


def _overall_sentence(summary: Summary) -> str:
    if summary.p_value >= ALPHA:
        return "Over all rows the difference is within chance."
    drawn = say_calibration(summary)
    if summary.is_explained:
        return (
            f"Over all rows that is within what {drawn} explains: on as many rows, 95 % of such "
            f"sets cover {_say_expected(summary)} %."
        )
    beyond = f" and {drawn} explain" if summary.n_calibration else " explains"
    if summary.coverage < summary.confidence_level:
        return (
            f"Over all rows that is less than chance{beyond}: the intervals are too short, or "
            "these rows differ from those they were made for."
        )
    return (
        f"Over all rows that is more than chance{beyond}: the intervals are longer than the "
        "target asks for."
    )


def _parts_sentences(
    audit: Audit, under: list[Failure], over: list[Failure], n_tested: int
) -> list[str]:
    """Is it the target everywhere, and if not, where is it worst?"""
    none = f"None of the {n_tested:,} parts looked at one by one is"
    if n_tested == 0:
        return ["There were no parts of the rows to look at one by one."]
    if not under and not over:
        return [f"{none} off by more than chance."]
    lines = [f"{none} covered too rarely."]
    if under:
        lines = [f"Coverage is too low, by more than chance, in {_say_parts(under)}."]
        lines += _worst_sentences(audit, under)
    return [*lines, f"It is higher than asked in {_say_parts(over)}."] if over else lines


def _worst_sentences(audit: Audit, under: list[Failure]) -> list[str]:
    """Which of the parts is worst; where all rows are off, of those that differ from the others."""
    told, lines = under, []
    if audit.is_shifted:
        told = [failure for failure in under if failure.stands_out]
        lines.append(
            f"Of these, {_say_parts(told)} also differ from the other rows."
            if told
            else "None of these differs from the other rows."
        )
    if told:
        worst = min(told, key=lambda failure: failure.gap)
        phrase = coverage_phrase(worst, audit.summary.confidence_level)
        lines.append(f"It fails most where {short(worst.text, _CONDITIONS)}: {phrase}.")
    return lines


def _say_parts(failures: list[Failure]) -> str:
    """2 rules, 5 feature bins and 1 group."""
    counts = Counter(failure.part for failure in failures)
    *first, last = (
        f"{counts[part]:,} {one if counts[part] == 1 else many}"
        for part, (one, many) in _PARTS.items()
        if counts[part]
    )
    return f"{', '.join(first)} and {last}" if first else last


def _figures(summary: Summary) -> list[tuple[str, str, str]]:
    """Numbers to take home: what each is called, the number, and a detail."""
    length = f"median {_say(summary.median_length)}"
    if summary.share_infinite > 0:
        infinite = say_number(100 * summary.share_infinite)
        length = f"{infinite} % are infinite, the others {_say(summary.mean_finite_length)}"
    band = f"95 % band: {say_band(summary.lower, summary.upper)}"
    if summary.n_calibration:
        band += f"; {say_calibration(summary)} explains {_say_expected(summary)}"
    return [
        ("Target", say_level(summary.confidence_level), "of rows in their interval"),
        ("Observed", say_share(summary.coverage), band),
        ("Mean length", _say(summary.mean_length), length),
    ]


def _promise(audit: Audit, model: Any) -> dict[str, Any]:
    """What the model promises, in its own words; nothing where there is none to ask."""
    guarantee = getattr(model, "guarantee_", None)
    if guarantee is None:
        line = (
            "These intervals were made elsewhere: nothing is promised here. "
            "The audit says how they did on these rows, no more."
        )
        return {"known": False, "lines": [line]}
    lines = [short(line, _PARAGRAPH) for line in str(guarantee).splitlines() if line.strip()]
    level, target = getattr(guarantee, "confidence_level", None), audit.summary.confidence_level
    if isinstance(level, float) and level != target:
        lines.append(f"The intervals on this page were made for {say_level(target)}.")
    return {"known": True, "lines": lines}


# ---- rules, groups and bins -------------------------------------------------------------------

_TABLES = {
    "rules": ("Rules", "No rule was found to be tested."),
    "groups": ("Groups", "No groups were named"),
    "features": ("Feature bins", "No feature tells rows apart."),
}


def _failures(audit: Audit, group_hint: str) -> dict[str, Any]:
    """Parts off the target as sentences, each side by itself, and every part in tables."""
    under, over = _sides(audit)
    return {
        UNDER: _told_parts(audit, under),
        OVER: _told_parts(audit, over),
        "level": audit.summary.confidence_level,
        "tables": [_region_table(audit, part, group_hint) for part in _TABLES],
    }


def _told_parts(audit: Audit, found: list[Failure]) -> dict[str, Any]:
    """The first few parts of one side as sentences, and how many more there are."""
    level, first = audit.summary.confidence_level, list(KINDS)
    sentences = []
    for one in _outstanding_first(audit, found, lambda one: first.index(one.part))[:_MAX_SENTENCES]:
        text = short(f"{KINDS[one.part]}{one.text}", _CONDITIONS)
        state = UNDER if one.is_under else OVER
        sentences.append({"state": state, "text": f"{text}: {coverage_phrase(one, level)}"})
    return {"sentences": sentences, "more": len(found) - len(sentences)}


def _region_table(audit: Audit, part: str, group_hint: str) -> dict[str, Any]:
    """One family of tests, the most significant first."""
    title, empty = _TABLES[part]
    if part == "groups" and group_hint:
        empty = f"{empty}: {group_hint}."
    tested = _outstanding_first(audit, getattr(audit, part), lambda one: one.p_value)
    names = ("n", "coverage", "lower", "upper", "gap", "mean_length", "adjusted_p_value")
    rows = [
        {"text": short(one.text, _CONDITIONS), "state": region_state(one)}
        | {name: getattr(one, name) for name in names}
        for one in tested[:_MAX_ROWS]
    ]
    text = part_verdict(audit, part) if tested else empty
    left_out = len(tested) - len(rows)
    return {"id": part, "title": title, "text": text, "rows": rows, "left_out": left_out}


def _outstanding_first(
    audit: Audit, parts: Iterable[Any], order: Callable[[Any], float]
) -> list[Any]:
    """In this order; where all rows are off the target, first what differs from the others."""
    shifted = audit.is_shifted
    return sorted(parts, key=lambda one: (shifted and not one.stands_out, order(one)))


# ---- the worst slab ---------------------------------------------------------------------------


def _slab_lines(audit: Audit) -> list[str]:
    slab = audit.slab
    first = (
        "Of all slabs, that is, ranges of a weighted sum of features, the one that covers least "
        f"holds {short(audit.slab_text, _CONDITIONS)}."
    )
    if not slab.n:
        return [first, "No other row lies in it, so that nothing can be said of its coverage."]
    return [
        first,
        f"Of {say_rows(slab.n)} in it that did not find it {say_share(slab.coverage)} "
        f"({say_band(slab.lower, slab.upper)}) are covered; the target is "
        f"{say_level(audit.summary.confidence_level)}. Of the {say_rows(slab.found_n)} that found "
        f"it {say_share(slab.found_coverage)} were, which is low by construction.",
    ]


# ---- methods side by side ---------------------------------------------------------------------

#: Column -> field of a summary, and how it is said.
_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "coverage": ("coverage", say_share),
    "mean length": ("mean_length", say_number),
    "interval score": ("interval_score", say_number),
    "corr(length, covered)": ("length_coverage_corr", say_number),
    "worst slab": ("worst_slab_coverage", say_share),
    "excess risk": ("excess_risk_l1", say_number),
}


def _methods(comparison: Comparison) -> dict[str, Any]:
    """Coverage of each method, and their paired differences from the best."""
    methods = []
    for method in comparison.methods[:MAX_METHODS]:
        said = [typeset(say(getattr(method.summary, name))) for name, say in _COLUMNS.values()]
        methods.append([method.name, *said])
    paired: dict[str, list[str]] = {}
    for row in paired_in_points(comparison):
        cell = typeset(say_difference(row.difference, row.lower, row.upper))
        paired.setdefault(row.method, [row.method]).append(cell)
    apart = list(paired.values())[:MAX_METHODS]
    is_cut = len(comparison.methods) > MAX_METHODS
    cut = [f"The first {MAX_METHODS} methods are shown."] if is_cut else []
    return {
        "heading": comparison.heading(),
        "tables": [
            _table("Methods", ("method", *_COLUMNS), methods),
            _table(comparison.differences_heading(), ("method", *METRIC_NAMES.values()), apart),
        ],
        "notes": cut + [short(note, _PARAGRAPH) for note in comparison.notes[:MAX_METHODS]],
    }


# ---- how the intervals were made, and from what -----------------------------------------------


def _model_facts(model: Any) -> dict[str, Any]:
    """The model as it was set, its fit report, and the candidates it chose from.

    Seconds are left out, since they differ every time: the same seed gives the same page.
    """
    if model is None:
        return {"model": None, "tables": []}
    text = _ADDRESS.sub("", repr(model))
    report = getattr(model, "fit_report_", {})
    tables = [
        _table(f"Fit: {name}", ("stage", name), part.items())
        for name, part in (report.items() if isinstance(report, Mapping) else ())
        if isinstance(part, Mapping) and name != "seconds"
    ]
    selection = getattr(model, "selection_", None)
    if is_frame(selection):
        columns = columns_of(selection)
        rows = list(zip(*(column.to_list() for column in columns), strict=True))
        names = [column.name for column in columns]
        tables.append(_table("Candidates, the best first", names, rows[:_MAX_CANDIDATES]))
    is_long = len(text) > _SETTINGS
    return {"model": f"{text[:_SETTINGS]}..." if is_long else text, "tables": tables}


def _data_facts(audit: Audit, X: Any, model: Any, seed: int) -> list[dict[str, Any]]:
    """Rows, columns, missing values, versions and seeds."""
    facts: list[tuple[str, Any]] = [("rows audited", audit.summary.n)]
    tables = []
    if X is not None:
        columns = _column_rows(X, audit.summary.n)
        facts.append(("columns", len(columns)))
        facts.append(("columns with missing values", sum(row[2] > 0 for row in columns)))
        names = ("column", "kind", "missing", "distinct", "range or most frequent")
        is_cut = len(columns) > _MAX_COLUMNS
        title = f"Columns, the first {_MAX_COLUMNS}" if is_cut else "Columns"
        tables.append(_table(title, names, columns[:_MAX_COLUMNS]))
    facts.append(("seed of the samples on this page", seed))
    if model is not None and hasattr(model, "random_state"):
        facts.append(("random_state of the model", model.random_state))
    used = [type(one).__module__ for one in (X, model, getattr(model, "estimator", None))]
    packages = dict.fromkeys([*PACKAGES, *sorted(name.split(".")[0] for name in used)])
    return [
        _table("Facts", ("fact", "value"), facts),
        _table("Versions", ("package", "version"), versions(list(packages)).items()),
        *tables,
    ]


def _column_rows(X: Any, n: int) -> list[tuple[Any, ...]]:
    """Name, kind, missing values, distinct values and range of each column."""
    if len(X) != n:
        raise ValueError(
            f"X has {say_rows(len(X))}; expected the audit's {say_rows(n)}: pass what was audited."
        )
    rows: list[tuple[Any, ...]] = []
    for column in read_columns(as_table(X), n):
        name, kind = short(column.name, NARROW), column.kind
        if kind == LABEL:
            distinct = len(set(column.codes[column.codes != MISSING].tolist()))
            range_ = column.labels[0] if column.labels else ""
        else:
            distinct = len(column.values)
            ends = [column.values[0], column.values[-1]] if distinct else []
            range_ = " to ".join(say_rounded(float(end), kind) for end in ends)
        rows.append((name, kind, column.n_missing, distinct, range_))
    return rows
