"""The audit of intervals that stand in a table, whoever made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit import Audit, audit
from localconformal.io.tables import TableError, about, check_columns
from localconformal.quantiles import Array
from localconformal.workflow.columns import TimeReader, as_floats
from localconformal.workflow.preparation import learn_column

#: What a page that a command writes says where no groups were named.
GROUP_HINT = "name their columns with --groups"


@dataclass(frozen=True, eq=False)
class AuditedTable:
    """An audit, the rows behind it, and what was done to the table.

    Attributes
    ----------
    audit : Audit
    X : pandas frame of shape (n, d)
    y : array of shape (n,)
    intervals : array of shape (n, 2)
    notes : tuple of str
        Rows left out, and where failures were looked for if there are no features.
    """

    audit: Audit
    X: Any
    y: Array
    intervals: Array
    notes: tuple[str, ...]


def audit_table(
    table: Any,
    *,
    y: str,
    lower: str,
    upper: str,
    groups: Sequence[str] = (),
    features: Sequence[str] = (),
    confidence_level: float = 0.9,
    random_state: int = 0,
    source: str = "The table",
) -> AuditedTable:
    """Audit the intervals of a table.

    Parameters
    ----------
    table : pandas frame
    y, lower, upper : str
        Columns of numbers; bounds may be infinite. Rows where one of the three is missing are left
        out, and counted.
    groups : sequence of str, default=()
        Columns whose labels are groups.
    features : sequence of str, default=()
        Columns among which failures are looked for; none named is every column but y and the
        bounds, groups included.
    confidence_level : float, default=0.9
        What the intervals were made for.
    random_state : int, default=0
    source : str, default="The table"
        What messages call the table.

    Returns
    -------
    AuditedTable

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.uniform(size=300), "y": rng.normal(size=300)})
    >>> found = audit_table(table.assign(low=-1.6, high=1.6), y="y", lower="low", upper="high")
    >>> found.audit.summary.n, list(found.X)
    (300, ['x'])
    """
    named = (y, lower, upper)
    if len(set(named)) < 3:
        raise TableError(
            f"y, lower and upper are {y!r}, {lower!r} and {upper!r}; three different columns were "
            "expected."
        )
    check_columns([*named, *groups, *features], list(table.columns), source)
    with about(source):
        numbers = np.column_stack([as_floats(table[name], flags=False) for name in named])
        missing = np.asarray(np.isnan(numbers).any(axis=1))
        known = ~missing
        check_rows(numbers[known], named)
    kept = table[known].reset_index(drop=True)
    X, notes = feature_frame(kept, named, features)
    labels = {name: kept[name] for name in groups} or None
    values, intervals = numbers[known, 0], numbers[known, 1:]
    X = with_times(X)
    found = audit(
        X, values, intervals, labels, confidence_level=confidence_level, random_state=random_state
    )
    return AuditedTable(found, X, values, intervals, (*missing_notes(missing, named), *notes))


def feature_frame(
    table: Any, named: tuple[str, str, str], features: Sequence[str]
) -> tuple[Any, tuple[str, ...]]:
    """The columns among which failures are looked for, and what to know about them."""
    if features:
        return table[list(dict.fromkeys(features))], ()
    others = table.drop(columns=list(named))
    if others.shape[1]:
        return others, ()
    note = "The table has no other column: failures are looked for along the order of its rows."
    return others.assign(row=np.arange(len(table))), (note,)


def with_times(X: Any) -> Any:
    """The features with days as times, however they are written: sentences speak of dates then."""
    read = {name: learn_column(X[name])[0] for name in X.columns}
    times = {
        name: reader.times(X[name])
        for name, reader in read.items()
        if isinstance(reader, TimeReader) and "days" in reader.parts
    }
    return X.assign(**times) if times else X


def check_rows(numbers: Array, named: tuple[str, str, str]) -> None:
    """Rows (n, 3) of y, lower and upper that can be audited, or one sentence."""
    y, lower, upper = named
    if len(numbers) == 0:
        raise TableError(
            f"no row has a number in each of {y!r}, {lower!r} and {upper!r}; at least one was "
            "expected."
        )
    if not np.isfinite(numbers[:, 0]).all():
        raise TableError(f"column {y!r} holds infinite values; finite numbers were expected.")
    if (numbers[:, 1] > numbers[:, 2]).all():
        raise TableError(
            f"{lower!r} is above {upper!r} in every row; the lower bounds were expected in "
            f"{lower!r}: swap the two names."
        )


def missing_notes(missing: NDArray[np.bool_], named: tuple[str, str, str]) -> tuple[str, ...]:
    """A sentence on rows that were left out."""
    count = int(np.count_nonzero(missing))
    if not count:
        return ()
    rows = "1 row was" if count == 1 else f"{count:,} of {len(missing):,} rows were"
    return (f"{rows} left out: {', '.join(named)} are not all known there.",)


def audit_record(found: AuditedTable) -> dict[str, Any]:
    """The audit as plain data: everything of `Audit`, significant failures apart."""
    whole = asdict(found.audit)
    return {
        "summary": whole["summary"],
        "failures": [asdict(failure) for failure in found.audit.failures()],
        **{part: whole[part] for part in ("rules", "features", "groups", "sizes", "slab")},
        "notes": [*found.notes, *whole["notes"]],
    }
