"""How the intervals were made, and from what: the model, the data, the versions."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from localconformal import __version__
from localconformal.audit import Audit
from localconformal.audit.columns import MISSING, as_table, read_columns
from localconformal.audit.conditions import say_value
from localconformal.audit.slab import rounded
from localconformal.columns import LABEL as LABELS
from localconformal.frames import columns_of, is_frame
from localconformal.report.plain import LABEL, short, typeset
from localconformal.text import say_number, say_rows

MAX_REPR, MAX_COLUMNS, MAX_CANDIDATES = 4_000, 200, 60
#: What differs from one fit to the next.
SECONDS, ADDRESS = "seconds", re.compile(r" at 0x[0-9a-fA-F]+")
PACKAGES = ("numpy", "scipy", "sklearn", "numba")


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> dict[str, Any]:
    """A table of texts, the first column the name of its row."""
    texts = [[say(value) for value in row] for row in rows]
    return {"title": title, "columns": [short(name, LABEL) for name in columns], "rows": texts}


def say(value: Any) -> str:
    """A value as text of one line."""
    if isinstance(value, float) or type(value) is int:
        return typeset(say_number(value))
    return short(value if isinstance(value, str) else without_addresses(str(value)))


def without_addresses(text: str) -> str:
    """What Python says of objects, but not where in memory they are: that differs every time.

    Examples
    --------
    >>> without_addresses("<function cells at 0x7f0c1b2a3d40>")
    '<function cells>'
    """
    return ADDRESS.sub("", text)


def model_facts(model: Any) -> dict[str, Any]:
    """The model as it was set, its fit report, and the candidates it chose from.

    Seconds are left out, since they differ every time: the same seed gives the same page.
    """
    if model is None:
        return {"model": None, "tables": []}
    text = without_addresses(repr(model))
    shown = text if len(text) <= MAX_REPR else f"{text[:MAX_REPR]}..."
    report = getattr(model, "fit_report_", {})
    tables = [
        table(f"Fit: {name}", ("stage", name), part.items())
        for name, part in (report.items() if isinstance(report, Mapping) else ())
        if isinstance(part, Mapping) and name != SECONDS
    ]
    selection = getattr(model, "selection_", None)
    if is_frame(selection):
        columns = columns_of(selection)
        rows = list(zip(*(column.to_list() for column in columns), strict=True))
        names = [column.name for column in columns]
        tables.append(table("Candidates, the best first", names, rows[:MAX_CANDIDATES]))
    return {"model": shown, "tables": tables}


def data_facts(audit: Audit, X: Any, model: Any, seed: int) -> list[dict[str, Any]]:
    """Rows, columns, missing values, versions and seeds."""
    facts: list[tuple[str, Any]] = [("rows audited", audit.summary.n)]
    tables = []
    if X is not None:
        columns = column_rows(X, audit.summary.n)
        facts += [
            ("columns", len(columns)),
            ("columns with missing values", sum(row[2] > 0 for row in columns)),
        ]
        names = ("column", "kind", "missing", "distinct", "range or most frequent")
        left_out = len(columns) - MAX_COLUMNS
        title = f"Columns, the first {MAX_COLUMNS}" if left_out > 0 else "Columns"
        tables.append(table(title, names, columns[:MAX_COLUMNS]))
    facts += [("seed of the samples on this page", seed)]
    if model is not None and hasattr(model, "random_state"):
        facts.append(("random_state of the model", model.random_state))
    return [
        table("Facts", ("fact", "value"), facts),
        table("Versions", ("package", "version"), versions(X, model)),
        *tables,
    ]


def column_rows(X: Any, n: int) -> list[tuple[Any, ...]]:
    """Name, kind, missing values, distinct values and range of each column."""
    if len(X) != n:
        raise ValueError(
            f"X has {say_rows(len(X))}; the audit's {say_rows(n)} were expected: pass what was "
            "audited."
        )
    rows = []
    for column in read_columns(as_table(X), n):
        known = column.codes[column.codes != MISSING]
        is_label = column.kind == LABELS
        ends = [column.values[0], column.values[-1]] if len(column.values) else []
        span = " to ".join(say_value(rounded(float(end), column.kind), column.kind) for end in ends)
        first = column.labels[0] if column.labels else ""
        distinct = len(set(known.tolist())) if is_label else len(column.values)
        rows.append(
            (
                short(column.name, LABEL),
                column.kind,
                column.n_missing,
                distinct,
                first if is_label else span,
            )
        )
    return rows


def versions(X: Any, model: Any) -> list[tuple[str, str]]:
    """Of Python, of this library, and of what it and the model stand on."""
    used = [type(one).__module__ for one in (X, model, getattr(model, "estimator", None))]
    roots = dict.fromkeys([*PACKAGES, *sorted(name.split(".")[0] for name in used)])
    found = [("Python", platform.python_version()), ("localconformal", __version__)]
    for root in roots:
        version = getattr(sys.modules.get(root), "__version__", None)
        if version is not None and root != "localconformal":
            found.append((root, str(version)))
    return found
