"""The report: its content as plain data, a page that needs nothing else, and a file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.audit import Audit, Comparison, Failure
from localconformal.audit.audit import (
    Accuracy,
    accuracy,
    coverage_phrase,
    intervals_of,
    part_verdict,
    say_overall,
    summary_lines,
)
from localconformal.audit.cells import ALPHA
from localconformal.columns import as_table
from localconformal.explanation import read_explained
from localconformal.io.files import write_whole
from localconformal.metrics import coverage_band
from localconformal.metrics.intervals import check_one_level, is_covered, mean_bound, open_end
from localconformal.quantiles import Array
from localconformal.report import charts
from localconformal.report.charts import NARROW, OVER, UNDER, say_calibration, short
from localconformal.rows import columns_of, is_frame, table_names
from localconformal.text import (
    plain_data,
    render_template,
    say_band,
    say_level,
    say_number,
    say_rows,
    say_share,
)
from localconformal.versions import PACKAGES, versions

#: Digits kept of a number: a chart of 400 pixels shows no more.
_DIGITS = 6
#: Characters of the conditions of a rule, of a paragraph, and of a model's settings.
_CONDITIONS, _PARAGRAPH, _SETTINGS = 400, 600, 4_000
#: Parts described in sentences, and rows of the tables.
_MAX_SENTENCES, _MAX_ROWS, _MAX_PARTS, _MAX_NOTES, _MAX_FEATURES = 12, 400, 60, 60, 10


def write_report(audit: Audit, path: str | Path, **content: Any) -> Path:
    """Write an audit as one HTML file that needs nothing else, and return its path.

    The page's content security policy forbids all network access. The page stays under 3 MB for any
    data, and is the same for the same arguments. It needs the extra ``report``. ``content`` is the
    rest of the page, as in `report_content`.

    Examples
    --------
    >>> import tempfile
    >>> from localconformal.audit import audit
    >>> found = audit([1.0, 2.0, 3.0], [0.1, 0.2, 5.0], [[0.0, 1.0]] * 3)
    >>> write_report(found, f"{tempfile.mkdtemp()}/report.html").stat().st_size < 3_000_000
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
    X: Any = None,
    y: ArrayLike | None = None,
    intervals: ArrayLike | None = None,
    y_pred: ArrayLike | None = None,
    explained: Any = None,
    random_state: int = 0,
    group_hint: str = "pass groups= to the audit",
) -> dict[str, Any]:
    """The content of a report as numbers, strings, lists and dicts that JSON can hold.

    NaN and infinities are the strings "NaN", "Infinity" and "-Infinity". The size is bounded: rows
    are aggregated or sampled with a seed, long tables and texts are cut, and the page says so.

    Parameters
    ----------
    audit : Audit
    model : fitted estimator, default=None
        What made the intervals; provides its guarantee, its fit report, and the intervals of X if
        none are given.
    title : str, default="How well do these intervals cover?"
    comparison : Comparison, default=None
    X : array or frame of shape (n, d), default=None
    y : array of shape (n,), default=None
    intervals : array of shape (n, 2), default=None
        The rows that were audited, for the charts of errors and intervals.
    y_pred : array of shape (n,), default=None
        Point predictions of these rows, for their errors and a chart; if None, computed by the
        model if it also computes the intervals.
    explained : frame, default=None
        Result of ``model.explain_width`` for some rows: which features make intervals wide.
    random_state : int, default=0
        Seed of random samples.
    group_hint : str, default="pass groups= to the audit"
        How to get a table of groups, shown if there are none.
    """
    audit = _with_expected_band(audit, model)
    failed = audit.failures(ALPHA)
    sides = {UNDER: [f for f in failed if f.is_under], OVER: [f for f in failed if not f.is_under]}
    if intervals is None and model is not None and X is not None and y is not None:
        intervals = intervals_of(model, X, audit.summary.confidence_level)
        if y_pred is None and hasattr(model, "predict"):
            y_pred = model.predict(X)
    found = rows = None
    if y is not None and intervals is not None:
        rows = (*_check_rows(audit, y, intervals), y_pred)
        found = None if y_pred is None else accuracy(rows[0], y_pred)
    numbers = [(name, typeset(said), text) for name, said, text in summary_lines(audit.summary)]
    content = {
        "title": short(title),
        "headline": _headline(audit, sides[UNDER], sides[OVER], found, rows[1] if rows else None),
        "numbers": numbers,
        "guarantee": _promise(audit, model),
        "failures": {
            **{state: _told_parts(audit, parts) for state, parts in sides.items()},
            "level": audit.summary.confidence_level,
            "tables": [_region_table(audit, part, group_hint) for part in _TABLES],
        },
        "predictions": list(filter(None, (found.warning, found.text))) if found else [],
        "charts": charts.all_charts(audit, rows, comparison, random_state),
        "slab": _slab_lines(audit),
        "widths": None if explained is None else _widths(explained),
        "comparison": None if comparison is None else _methods(comparison),
        "making": _model_facts(model),
        "facts": _data_facts(audit, X, model, random_state),
        "notes": [short(note, _PARAGRAPH) for note in audit.notes[:_MAX_NOTES]],
    }
    return dict(plain_data(content, _DIGITS))


def render(content: dict[str, Any]) -> str:
    """The page of a `report_content`, with style, script and data inside; it requests nothing.

    >>> from localconformal.audit import audit
    >>> found = audit([1.0, 2.0, 3.0], [0.1, 0.2, 5.0], [[0.0, 1.0]] * 3)
    >>> "<title>a &lt; b</title>" in render(report_content(found, title="a < b"))
    True
    """
    given = {**content, **_assets(), "typeset": typeset}
    return render_template("report/templates/report.html.j2", **given)


@cache
def _assets() -> dict[str, Any]:
    """Style and script, and their digests for the policy that allows nothing else."""
    folder, names = files("localconformal.report") / "assets", ("draw.js", "charts.js", "page.js")
    style, *parts = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", *names))
    script = '"use strict";\n(() => {{\n{}\n}})();\n'.format("\n".join(parts))
    digests = [hashlib.sha256(text.encode()).digest() for text in (style, script)]
    encoded = [base64.b64encode(digest).decode() for digest in digests]
    return {"style": style, "script": script, "digests": encoded}


#: A hyphen before a number is a minus; the memory address of an object differs every time.
_MINUS = re.compile(r"(?<!\w)-(?=[\d∞])|(?<=e)-(?=\d)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def typeset(number: str) -> str:
    """A number with typographic signs: dash, infinity and minus."""
    return "–" if number == "-" else _MINUS.sub("−", number.replace("infinity", "∞"))


def _say(value: Any) -> str:
    if isinstance(value, float) or type(value) is int:
        return typeset(say_number(value))
    return short(value if isinstance(value, str) else _ADDRESS.sub("", str(value)))


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> dict[str, Any]:
    texts = [[_say(value) for value in row] for row in rows]
    return {"title": title, "columns": [short(name, NARROW) for name in columns], "rows": texts}


def _check_rows(audit: Audit, y: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    y_checked, bounds = check_one_level(y, intervals)
    n, share = len(y_checked), float(is_covered(y_checked, bounds).mean())
    if n != audit.summary.n or not np.isclose(share, audit.summary.coverage):
        got = f"y and intervals have {say_rows(n)}, {say_share(share)} covered"
        known = f"{say_rows(audit.summary.n)}, {say_share(audit.summary.coverage)} covered"
        raise ValueError(f"{got}; expected the audit's {known}: pass what was audited.")
    return y_checked, bounds


def _with_expected_band(audit: Audit, model: Any) -> Audit:
    """The audit with the Beta-binomial band of its coverage, if only the model knows it."""
    summary, report = audit.summary, getattr(model, "fit_report_", None)
    promise: Any = getattr(model, "guarantee_", None)
    # Cells have their own calibration rows, which are not counted there.
    if promise is None or promise.conditional_on is not None or not isinstance(report, Mapping):
        return audit
    # Across folds the distribution of coverage is unknown.
    if promise.proven_level is not None:
        return audit
    n = int(report.get("rows", {}).get("calibration", 0))
    if summary.n_calibration or n == 0 or not (promise.marginal and promise.finite_sample):
        return audit
    lower, upper = coverage_band(n, summary.n, summary.confidence_level)
    known = replace(summary, n_calibration=n, expected_lower=lower, expected_upper=upper)
    return replace(audit, summary=known)


def _headline(
    audit: Audit,
    under: list[Failure],
    over: list[Failure],
    found: Accuracy | None,
    bounds: Array | None,
) -> dict[str, Any]:
    summary, families = audit.summary, (audit.rules, audit.features, audit.groups, audit.sizes)
    n_tested = sum(map(len, families)) + (audit.slab.n > 0)
    detail, infinite = f"median {_say(summary.median_length)}", 100 * summary.share_infinite
    if infinite > 0:
        others = _say(summary.mean_finite_length)
        detail = f"{say_number(infinite)} % are infinite, the others {others}"
    size, inside, made = ("Mean length", _say(summary.mean_length), detail), "in", "interval"
    if summary.is_one_sided:
        none = f"; {say_number(infinite)} % have none" if infinite > 0 else ""
        size, inside, made = ("Mean length", "none", f"one bound per row{none}"), "within", "bound"
        if bounds is not None and (end := open_end(bounds)) is not None:
            made = ("upper bound", "lower bound")[end]
            size = ("Mean bound", _say(mean_bound(bounds)), size[2])
    band = f"95 % band: {say_band(summary.lower, summary.upper)}"
    if summary.n_calibration:
        expected = say_band(summary.expected_lower, summary.expected_upper)
        band += f"; expected for {say_calibration(summary)}: {expected}"
    beyond = "parts of the rows, beyond chance"
    beyond += f"; {len(over):,} covered too often" if over else ""
    figures = [
        ("Target", say_level(summary.confidence_level), f"of rows {inside} their {made}"),
        ("Observed", say_share(summary.coverage), band),
        size,
        ("Coverage fails", f"{len(under):,} of {n_tested:,}", beyond),
    ]
    overall = f"Overall, this is {say_overall(summary)}."
    verdict = [overall, *_parts_sentences(audit, under, over, n_tested)]
    lie = f"lies {inside} its" if summary.n == 1 else f"lie {inside} their"
    return {
        "text": f"{say_share(summary.coverage)} of {say_rows(summary.n)} {lie} {made}. "
        f"The target is {say_level(summary.confidence_level)}.",
        "verdict": verdict + ([found.warning] if found and found.warning else []),
        "figures": [{"label": label, "value": v, "detail": text} for label, v, text in figures],
    }


def _parts_sentences(
    audit: Audit, under: list[Failure], over: list[Failure], n_tested: int
) -> list[str]:
    if n_tested == 0:
        return ["There were no parts of the rows to test."]
    if not under and not over:
        return [f"None of the {n_tested:,} parts tested is off the target by more than chance."]
    sides = f"{len(under):,} are covered too rarely and {len(over):,} too often"
    lines = [f"Of {n_tested:,} parts tested, {sides}, by more than chance."]
    # If all rows are off the target, only a part that differs from the others says more.
    if told := [one for one in under if one.stands_out or not audit.is_shifted]:
        worst = min(told, key=lambda failure: failure.gap)
        phrase = coverage_phrase(worst, audit.summary.confidence_level)
        lines.append(f"Coverage is worst for {short(worst.text, _CONDITIONS)}: {phrase}.")
    return lines


def _promise(audit: Audit, model: Any) -> dict[str, Any]:
    guarantee = getattr(model, "guarantee_", None)
    if guarantee is None:
        line = "These intervals were made elsewhere: nothing is promised here. "
        line += "The audit only says how they did on these rows."
        return {"known": False, "lines": [line]}
    lines = [short(line, _PARAGRAPH) for line in str(guarantee).splitlines() if line.strip()]
    level, target = getattr(guarantee, "confidence_level", None), audit.summary.confidence_level
    if isinstance(level, float) and level != target:
        lines.append(f"The intervals on this page were made for {say_level(target)}.")
    return {"known": True, "lines": lines}


_TABLES = {"rules": ("Rules", "No rule was found that could be tested.")}
_TABLES["groups"] = "Groups", "No groups were named"
_TABLES["features"] = "Feature bins", "No feature divides the rows."


def _told_parts(audit: Audit, found: list[Failure]) -> dict[str, Any]:
    level, first, sentences = audit.summary.confidence_level, list(charts.KINDS), []
    for one in _outstanding_first(audit, found, lambda one: first.index(one.part))[:_MAX_SENTENCES]:
        text = short(f"{charts.KINDS[one.part]}{one.text}", _CONDITIONS)
        state = UNDER if one.is_under else OVER
        sentences.append({"state": state, "text": f"{text}: {coverage_phrase(one, level)}"})
    return {"sentences": sentences, "more": len(found) - len(sentences)}


def _region_table(audit: Audit, part: str, group_hint: str) -> dict[str, Any]:
    """One family of tests, the most significant first."""
    title, text = _TABLES[part]
    if part == "groups" and group_hint:
        text += f": {group_hint}."
    tested = _outstanding_first(audit, getattr(audit, part), lambda one: one.p_value)
    names = ("n", "coverage", "lower", "upper", "gap", "mean_length", "adjusted_p_value")
    rows = []
    for one in tested[:_MAX_ROWS]:
        row = {"text": short(one.text, _CONDITIONS), "state": charts.region_state(one)}
        rows.append(row | {name: getattr(one, name) for name in names})
    text, left_out = part_verdict(audit, part) if tested else text, len(tested) - len(rows)
    return {"id": part, "title": title, "text": text, "rows": rows, "left_out": left_out}


def _outstanding_first(audit: Audit, parts: Iterable[Any], order: Any) -> list[Any]:
    """In this order; if all rows are off the target, what differs from the others comes first."""
    return sorted(parts, key=lambda one: (audit.is_shifted and not one.stands_out, order(one)))


def _slab_lines(audit: Audit) -> list[str]:
    slab, told = audit.slab, short(audit.slab_text, _CONDITIONS)
    first = "Of all slabs, that is, ranges of a weighted sum of features, the one with the lowest "
    first += f"coverage is {told}."
    if not slab.n:
        return [first, "No other row lies in it, so nothing can be said about its coverage."]
    phrase = coverage_phrase(slab, audit.summary.confidence_level)
    found = f"Of the {say_rows(slab.found_n)} used to find it, {say_share(slab.found_coverage)}"
    held = f"Coverage of rows in it that were not used to find it: {phrase}"
    return [first, f"{held}. {found} are covered, which is low by construction."]


def _widths(explained: Any) -> dict[str, Any]:
    """Which features make intervals wide: on average, and for the widest row."""
    names, parts, base, width = read_explained(explained)
    known = np.flatnonzero(np.isfinite(parts).all(axis=1))
    if not len(known):
        return {"lines": ["The intervals of the explained rows are infinite."], "tables": []}
    mean, widest = np.abs(parts[known]).mean(axis=0), known[np.argmax(width[known])]
    usual, most = np.argsort(-mean)[:_MAX_FEATURES], np.argsort(-np.abs(parts[widest]))
    ends = f"{_say(float(base[widest]))} to {_say(float(width[widest]))}"
    lines = [
        f"What each feature adds to the width, or subtracts from it, in {say_rows(len(known))}: "
        "Shapley values, which add up to the width minus the mean width of background rows.",
        f"In the widest of these rows they lead from {ends}.",
    ]
    tables = [
        _table("On average", ("feature", "mean size"), [(names[j], float(mean[j])) for j in usual]),
        _table(
            f"The widest, row {getattr(explained, 'index', range(len(width)))[widest]}",
            ("feature", "part"),
            [(names[j], float(parts[widest, j])) for j in most[:_MAX_FEATURES]],
        ),
    ]
    return {"lines": lines, "tables": tables}


def _methods(comparison: Comparison) -> dict[str, Any]:
    titles, most, tables = ("Methods", comparison.differences_heading()), charts.MAX_METHODS, []
    for title, (names, *rows) in zip(titles, comparison.texts(), strict=True):
        said = [[name, *map(typeset, numbers)] for name, *numbers in rows[:most]]
        tables.append(_table(title, names, said))
    cut = [f"The first {most} methods are shown."] if len(comparison.methods) > most else []
    notes = cut + [short(note, _PARAGRAPH) for note in comparison.notes[:most]]
    return {"heading": comparison.heading(), "tables": tables, "notes": notes}


def _model_facts(model: Any) -> dict[str, Any]:
    """Its settings; its fit report without seconds, which differ every time; its selection."""
    if model is None:
        return {"model": None, "tables": []}
    text, report = _ADDRESS.sub("", repr(model)), getattr(model, "fit_report_", {})
    tables = [
        _table(f"Fit: {name}", ("stage", name), part.items())
        for name, part in (report.items() if isinstance(report, Mapping) else ())
        if isinstance(part, Mapping) and name != "seconds"
    ]
    if is_frame(selection := getattr(model, "selection_", None)):
        names, columns = zip(*((c.name, c.to_list()) for c in columns_of(selection)), strict=True)
        rows = list(zip(*columns, strict=True))[:_MAX_PARTS]
        tables.append(_table("What law='auto' chose", names, rows))
    settings = text if len(text) <= _SETTINGS else f"{text[:_SETTINGS]}..."
    return {"model": settings, "tables": tables}


def _data_facts(audit: Audit, X: Any, model: Any, seed: int) -> list[dict[str, Any]]:
    facts: list[tuple[str, Any]] = [("rows audited", n := audit.summary.n)]
    if X is not None:
        if len(X) != n:
            got = f"X has {say_rows(len(X))}"
            raise ValueError(f"{got}; expected the audit's {say_rows(n)}: pass what was audited.")
        facts.append(("columns", len(table_names(as_table(X)))))
    facts.append(("seed of samples on this page", seed))
    if hasattr(model, "random_state"):
        facts.append(("random_state of the model", model.random_state))
    used = [type(one).__module__ for one in (X, model, getattr(model, "estimator", None))]
    packages = dict.fromkeys([*PACKAGES, *sorted(name.split(".")[0] for name in used)])
    return [
        _table("Facts", ("fact", "value"), facts),
        _table("Versions", ("package", "version"), versions(list(packages)).items()),
    ]
