"""Every feature in bins: quantiles of numbers, the frequent labels, missing values apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.audit.cells import Cell, Partition, Rows, count_cells, ranked
from localconformal.audit.columns import FEWEST_LABEL_ROWS, MISSING, Column
from localconformal.audit.conditions import (
    Condition,
    label_condition,
    missing_condition,
    range_condition,
)
from localconformal.columns import LABEL
from localconformal.metrics.stratified import size_bins
from localconformal.text import shorten

MAX_BINS, FEWEST_ROWS = 10, 15
#: Labels with a bin of their own; the others share one.
MAX_LABEL_BINS = 20


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
