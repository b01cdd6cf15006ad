"""Coverage of parts of the rows, cell by cell, with its band and p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit.significance import (
    coverage_p_values,
    holm,
    is_off,
    rest_gaps,
    rest_p_values,
    stands_out,
)
from localconformal.metrics.groups import count_groups
from localconformal.quantiles import Array


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
