"""Coverage of parts of the rows, cell by cell, with its band and p-values; bins of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit.columns import FEWEST_LABEL_ROWS, MISSING, Column
from localconformal.audit.conditions import (
    Condition,
    label_condition,
    missing_condition,
    range_condition,
)
from localconformal.audit.significance import (
    coverage_p_values,
    holm,
    is_off,
    rest_gaps,
    rest_p_values,
    stands_out,
)
from localconformal.columns import LABEL
from localconformal.metrics.groups import count_groups
from localconformal.metrics.stratified import size_bins
from localconformal.quantiles import Array
from localconformal.text import shorten

#: Bins of one feature, and rows of each.
MAX_BINS, FEWEST_ROWS = 10, 15
#: Labels with a bin of their own; the others share one.
MAX_LABEL_BINS = 20


@dataclass(frozen=True)
class Cell:
    """Coverage of the rows of one bin, one group or one stratum of lengths.

    Attributes
    ----------
    by : str
        What parts the rows: a feature, the name of the groups, "length".
    label : str
        Which of the parts it is, in short.
    text : str
        The same as a condition in words.
    position : int
        Its place among the parts, from 0 on.
    n : int
        Rows.
    coverage, gap : float
        And its difference from the target.
    lower, upper : float
        Exact 95 % binomial band of the coverage.
    p_value : float
        Of the exact two-sided test that the coverage is the target.
    adjusted_p_value : float
        The same by Holm's method, for all cells of the part of the audit it stands in.
    rest_gap : float
        Coverage less that of all other rows; NaN where there are none.
    adjusted_rest_p_value : float
        Of the exact two-sided test that the two are equal, by Holm's method too.
    mean_length : float
    """

    by: str
    label: str
    text: str
    position: int
    n: int
    coverage: float
    gap: float
    lower: float
    upper: float
    p_value: float
    adjusted_p_value: float
    rest_gap: float
    adjusted_rest_p_value: float
    mean_length: float


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows in parts: the code of each row, and what to call each code."""

    by: str
    codes: NDArray[np.intp]
    labels: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class Rows:
    """What is counted: whether each row is covered, and how long its interval is."""

    covered: NDArray[np.bool_]
    length: Array
    confidence_level: float


def count_cells(partitions: Sequence[Partition], rows: Rows) -> tuple[Cell, ...]:
    """The cells of all partitions as one family of tests."""
    columns: dict[str, list[Any]] = {}
    for partition in partitions:
        counted = count_groups(partition.codes, rows.covered, rows.confidence_level)
        n = counted["n"]
        total = np.bincount(partition.codes, weights=rows.length)
        found = {
            "by": [partition.by] * len(n),
            "label": partition.labels,
            "text": partition.texts,
            "position": range(len(n)),
            **{key: counted[key].tolist() for key in ("n", "coverage", "gap", "lower", "upper")},
            "mean_length": (total / n).tolist(),
        }
        for key, values in found.items():
            columns.setdefault(key, []).extend(values)
    if not columns:
        return ()
    n_covered = np.rint(np.multiply(columns["n"], columns["coverage"]))
    columns |= tests_of(n_covered, np.array(columns["n"]), rows)
    cells = zip(*columns.values(), strict=True)
    return tuple(Cell(**dict(zip(columns, cell, strict=True))) for cell in cells)


def tests_of(n_covered: Array, n: NDArray[np.intp], rows: Rows) -> dict[str, list[float]]:
    """p-values of parts of these rows, against the target and against the rows left, as fields."""
    everything = int(rows.covered.sum()), len(rows.covered)
    p_values = coverage_p_values(n_covered, n, rows.confidence_level)
    tests = {
        "p_value": p_values,
        "adjusted_p_value": holm(p_values),
        "rest_gap": rest_gaps(n_covered, n, *everything),
        "adjusted_rest_p_value": holm(rest_p_values(n_covered, n, *everything)),
    }
    return {name: values.tolist() for name, values in tests.items()}


def ranked(cells: Sequence[Cell], rows: Rows) -> tuple[Cell, ...]:
    """The most significant first, among equals the largest gap.

    Where all rows are off the target, those that stand out from them come before the others.
    """
    shifted = is_off(int(rows.covered.sum()), len(rows.covered), rows.confidence_level)

    def place(cell: Cell) -> tuple[bool, float, float]:
        return shifted and not stands_out(cell), cell.p_value, -abs(cell.gap)

    return tuple(sorted(cells, key=place))


def feature_cells(columns: list[Column], rows: Rows) -> tuple[Cell, ...]:
    """The bins of all features, ranked, as one family of tests; a single bin says nothing."""
    partitions = [bin_column(column) for column in columns]
    return ranked(count_cells([p for p in partitions if len(p.labels) > 1], rows), rows)


def bin_column(column: Column) -> Partition:
    """The bins of one column; missing values are the last."""
    codes, bins = (label_bins if column.kind == LABEL else number_bins)(column)
    if column.n_missing:
        codes = np.where(column.codes == MISSING, len(bins), codes)
        bins.append(missing_condition(column))
    return Partition(column.name, codes, [b.short for b in bins], [b.text for b in bins])


def number_bins(column: Column) -> tuple[NDArray[np.intp], list[Condition]]:
    """Bin of each row, equal values together; and the range of each bin."""
    is_known = column.codes != MISSING
    known = column.codes[is_known]
    if len(column.values) <= MAX_BINS:
        bins = known.astype(np.intp)
    else:
        n_bins = int(np.clip(len(known) // FEWEST_ROWS, 2, MAX_BINS))
        bins = size_bins(known.astype(np.float64), n_bins)
    codes = np.zeros(len(column.codes), dtype=np.intp)
    codes[is_known] = bins
    first = np.full(bins.max(initial=-1) + 1, len(column.values))
    np.minimum.at(first, bins, known)
    ends = [*first[1:], len(column.values)]
    return codes, [range_condition(column, a, b - 1) for a, b in zip(first, ends, strict=True)]


def label_bins(column: Column) -> tuple[NDArray[np.intp], list[Condition]]:
    """Bin of each row, rare labels together, the most frequent first; and what each bin is."""
    known = column.codes[column.codes != MISSING]
    counts = np.bincount(known, minlength=len(column.labels) + 1)
    order = np.argsort(-counts[:-1], kind="stable")
    n_frequent = min(int(np.sum(counts[:-1] >= FEWEST_LABEL_ROWS)), MAX_LABEL_BINS)
    if np.sum(counts > 0) == n_frequent + 1 and counts[-1] == 0:
        # One label left is no crowd.
        n_frequent += 1
    place = np.full(len(counts) + 1, n_frequent)
    place[order[:n_frequent]] = np.arange(n_frequent)
    bins = [label_condition(column, int(code)) for code in order[:n_frequent]]
    if len(known) > counts[order[:n_frequent]].sum():
        text = f"{shorten(column.name)} is a rarer label"
        bins.append(Condition(column.name, text, "rarer labels"))
    return place[column.codes], bins
