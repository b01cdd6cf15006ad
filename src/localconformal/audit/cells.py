"""Parts of the rows, and their coverage: conditions on columns, bins, groups, strata of lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from localconformal.columns import (
    DURATION,
    LABEL,
    MISSING,
    NUMBER,
    TIME,
    Column,
    as_table,
    column_of,
    group_codes,
    is_missing,
    name_of,
    read_columns,
)
from localconformal.metrics.intervals import (
    binomial_band,
    coverage_p_values,
    open_end,
    size_bins,
    tied_lengths,
)
from localconformal.quantiles import Array
from localconformal.rows import columns_of, is_frame, table_names
from localconformal.text import listing, say_number, shorten

#: Level of significance.
ALPHA = 0.05
#: Most bins of a feature, and fewest rows of each.
_MAX_BINS, _FEWEST_ROWS = 10, 15
#: Most labels with their own bin, and fewest rows of each; the others share one.
_MAX_LABEL_BINS, _FEWEST_LABEL_ROWS = 20, 10
#: Why a column is left out; the third holds for identifiers, for example.
_REASONS = (
    "all rows hold the same value",
    "float64 cannot tell their numbers apart",
    "no label has enough rows",
    "they order the rows like another column",
)
#: Seconds of the units in which a time is written, the coarsest first.
_UNITS = {"D": 86_400, "h": 3_600, "m": 60, "s": 1}


def telling_columns(X: Any, n: int) -> tuple[list[Column], list[str]]:
    """The informative columns of X, each once; what was left out, and what is missing."""
    constant, collapsed, scattered, repeated = left_out = [list[str]() for _ in _REASONS]
    kept: dict[bytes, Column] = {}
    for column in read_columns(X, n):
        # Equal codes divide the rows in the same way, whatever the values are.
        key = column.codes.tobytes()
        labelled = column.codes[(column.codes != MISSING) & (column.codes < len(column.labels))]
        if column.is_collapsed:
            collapsed.append(column.name)
        elif column.is_constant:
            constant.append(column.name)
        elif column.kind == LABEL and np.bincount(labelled).max(initial=0) < _FEWEST_LABEL_ROWS:
            scattered.append(column.name)
        elif key in kept:
            repeated.append(f"{column.name} (as {kept[key].name})")
        else:
            kept[key] = column
    told = [(why, listing(names)) for why, names in zip(_REASONS, left_out, strict=True) if names]
    notes = [f"Left out because {why}: {names}." for why, names in told]
    if missing := [f"{c.name} ({c.n_missing:,})" for c in kept.values() if c.n_missing]:
        notes.append(f"Missing (or infinite) values have their own bin in {listing(missing)}.")
    return list(kept.values()), notes


@dataclass(frozen=True)
class Condition:
    """low < value <= high, or a given label, or a missing value; the last two may be negated.

    ``text`` has it in words, ``short`` the same without the name of the feature; ``negated`` means
    that the label must differ, or that the value must not be missing.
    """

    feature: str
    text: str
    short: str
    low: float = -math.inf
    high: float = math.inf
    label: str | None = None
    missing: bool = False
    negated: bool = False

    def holds(self, column: Column) -> NDArray[np.bool_]:
        """Which rows of the column meet the condition; a missing number meets no range."""
        codes, labels = column.codes, column.labels
        if self.missing:
            return (codes == MISSING) != self.negated
        if self.label is not None:
            code = labels.index(self.label) if self.label in labels else MISSING - 1
            return (codes == code) != self.negated
        first, last = np.searchsorted(column.values, [self.low, self.high], side="right")
        return (codes >= first) & (codes < last)


def range_condition(column: Column, first: int, last: int) -> Condition:
    """That the value is the ``first`` to the ``last`` of the column's distinct values."""
    values, final = column.values, len(column.values) - 1
    low = -math.inf if first == 0 else _between(values[first - 1], values[first], column.kind)
    high = math.inf if last == final else _between(values[last], values[last + 1], column.kind)
    name = shorten(column.name)
    if first == last:
        short = say_value(values[first], column.kind)
        text = f"{name} = {short}"
    elif first == 0 and last == final:
        text, short = f"{name} is known", "known"
    elif first == 0 or last == final:
        sign, bound = ("<=", high) if first == 0 else (">", low)
        short = f"{sign} {say_value(bound, column.kind)}"
        text = f"{name} {short}"
    else:
        start, end = (say_value(bound, column.kind) for bound in (low, high))
        text, short = f"{start} < {name} <= {end}", f"{start} to {end}"
    return Condition(column.name, text, short, low, high)


def label_condition(column: Column, code: int, negated: bool = False) -> Condition:
    """That the label is this one, or is not; or that the value is missing, or is not."""
    if code == MISSING:
        name, state = column.name, "known" if negated else "missing"
        return Condition(name, f"{shorten(name)} is {state}", state, missing=True, negated=negated)
    said = shorten(label := column.labels[code])
    sign, short = ("!=", f"not {said}") if negated else ("=", said)
    text = f"{shorten(column.name)} {sign} {said}"
    return Condition(column.name, text, short, label=label, negated=negated)


def _between(a: float, b: float, kind: str = NUMBER) -> float:
    """The number t with a <= t < b that takes the fewest digits to write.

    >>> _between(0.31287, 0.33521), _between(9.0, 12.0), _between(59.0, 61.0, "duration")
    (0.32, 10.0, 60.0)
    """
    a, b = float(a), float(b)
    if kind in (TIME, DURATION):
        return next((t for u in _UNITS.values() if (t := float(math.ceil(a / u) * u)) < b), a)
    # Something that rounds to a number inside: the middle, or a itself.
    for digits in range(1, 18):
        for value in (0.0, a / 2 + b / 2, a):
            if a <= (rounded := float(f"{value:.{digits}g}")) < b:
                return rounded
    return a


def say_value(value: float, kind: str) -> str:
    """The number in as few digits as identify it, with thousands commas; a time as a date.

    >>> say_value(2011, "number"), say_value(293712.5, "number"), say_value(1230768000, "time")
    ('2011', '293,712.5', '2009-01-01')
    """
    if kind == TIME:
        if value % 1:
            return str(np.datetime64(round(value * 1e6), "us")).replace("T", " ")
        unit = next(unit for unit, size in _UNITS.items() if value % size == 0)
        # A date with hours but no minutes is easily misread.
        time = np.datetime64(int(value), "s").astype(f"M8[{'m' if unit == 'h' else unit}]")
        return str(time).replace("T", " ")
    if kind == DURATION:
        return str(timedelta(seconds=value))
    whole = float(value).is_integer() and abs(value) < 1e15
    text = str(int(value)) if whole else repr(float(value))
    # Below ten thousand it may be a year.
    if abs(value) < 10_000 or "e" in text:
        return text
    thousands, point, rest = text.partition(".")
    return f"{int(thousands):,}{point}{rest}"


def say_rounded(value: float, kind: str) -> str:
    """The same, but at most five digits if not whole: to be read, not computed with."""
    whole = kind != NUMBER or value.is_integer()
    return say_value(value if whole else float(f"{value:.5g}"), kind)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A part of the rows and its coverage; ``text`` says which rows.

    ``gap`` is coverage minus target, ``lower`` and ``upper`` the exact 95 % binomial band of the
    coverage; ``p_value`` is from the exact two-sided test that it is the target, adjusted by Holm's
    method for all parts of its family. ``rest_gap`` is the coverage minus that of all other rows,
    NaN if there are none, with the exact test that the two are equal, also adjusted.
    """

    text: str
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

    @property
    def is_under(self) -> bool:
        """Whether the rows are covered too rarely; otherwise too often."""
        return self.gap < 0.0

    @property
    def stands_out(self) -> bool:
        """Whether the coverage also differs from the other rows', in the same direction."""
        return self.adjusted_rest_p_value <= ALPHA and self.gap * self.rest_gap > 0


@dataclass(frozen=True, kw_only=True)
class Cell(Counted):
    """Coverage of the rows of one bin, group or stratum of lengths; for the numbers see `Counted`.

    ``by`` is a feature, the name of the groups, or "length"; ``label`` is a short name of the part,
    ``position`` its place, from 0.
    """

    by: str
    label: str
    position: int


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What is counted: whether each row is covered, and how long its interval is."""

    covered: NDArray[np.bool_]
    length: Array
    confidence_level: float

    @property
    def is_off(self) -> bool:
        """Whether the coverage of all rows is off the target at ``ALPHA``."""
        hits, n = int(self.covered.sum()), len(self.covered)
        return bool(coverage_p_values(hits, n, self.confidence_level) < ALPHA)

    def take(self, places: NDArray[np.intp]) -> Outcomes:
        """Some of the rows, by position."""
        return Outcomes(self.covered[places], self.length[places], self.confidence_level)

    def describe(self, parts: Sequence[tuple[int, int, float]]) -> list[dict[str, Any]]:
        """Numbers from (rows, rows covered, total length) of each part, as one family of tests."""
        table = np.array(parts, dtype=np.float64).reshape(-1, 3)
        n, k = table[:, :2].astype(np.intp).T
        rest = k, n, int(self.covered.sum()), len(self.covered)
        p_values, share = coverage_p_values(k, n, self.confidence_level), k / n
        found: dict[str, Any] = dict(zip(("lower", "upper"), binomial_band(k, n), strict=True))
        found |= {"n": n, "coverage": share, "gap": share - self.confidence_level}
        found |= {"p_value": p_values, "adjusted_p_value": _holm(p_values)}
        found["rest_gap"] = _rest_gaps(*rest)
        found["adjusted_rest_p_value"] = _holm(_rest_p_values(*rest))
        found["mean_length"] = table[:, 2] / n
        told = zip(*(values.tolist() for values in found.values()), strict=True)
        return [dict(zip(found, part, strict=True)) for part in told]


def _rest_gaps(k: ArrayLike, n: ArrayLike, all_covered: int, n_all: int) -> Array:
    """Coverage of k of n rows minus that of the other rows; NaN if there are none."""
    hits, rows = np.asarray(k), np.asarray(n)
    others = np.where(rows < n_all, n_all - rows, np.nan)
    return hits / rows - (all_covered - hits) / others


def _rest_p_values(k: ArrayLike, n: ArrayLike, all_covered: int, n_all: int) -> Array:
    """Exact two-sided p-values of "covered like the other rows"; 1 without other rows.

    Given how many of all rows are covered, k is hypergeometric; the smaller tail is doubled.
    """
    law, hits = hypergeom(n_all, all_covered, np.asarray(n)), np.asarray(k)
    return np.minimum(1.0, 2.0 * np.minimum(law.cdf(hits), law.sf(hits - 1)))


def _holm(p_values: ArrayLike) -> Array:
    """p-values adjusted by Holm's method, in the order given.

    Sorted ascending, p_(i) of m becomes max over j <= i of (m - j + 1) p_(j), at most 1. Whatever
    the dependence, the probability of even one false finding below alpha is then at most alpha.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order, adjusted = np.argsort(p, kind="stable"), np.empty_like(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows in parts: the code of each row, and the name of each code."""

    by: str
    codes: NDArray[np.intp]
    labels: Sequence[str]
    texts: Sequence[str]


def count_cells(partitions: Sequence[Partition], rows: Outcomes) -> tuple[Cell, ...]:
    """The cells of all partitions as one family of tests."""
    names, counts = list[dict[str, Any]](), list[tuple[int, int, float]]()
    for one in partitions:
        for position, (label, text) in enumerate(zip(one.labels, one.texts, strict=True)):
            names.append({"by": one.by, "label": label, "text": text, "position": position})
        hits = np.bincount(one.codes[rows.covered], minlength=len(one.labels))
        totals = np.bincount(one.codes, weights=rows.length)
        counts += zip(np.bincount(one.codes), hits, totals, strict=True)
    described = zip(names, rows.describe(counts), strict=True)
    return tuple(Cell(**name, **numbers) for name, numbers in described)


def feature_cells(columns: list[Column], rows: Outcomes) -> tuple[Cell, ...]:
    """The bins of all features as one family; if all rows are off, what stands out comes first."""
    parts = []
    for column in columns:
        codes, bins = (_label_bins if column.kind == LABEL else number_bins)(column)
        if column.n_missing:
            codes = np.where(column.codes == MISSING, len(bins), codes)
            bins.append(label_condition(column, MISSING))
        named = [b.short for b in bins], [b.text for b in bins]
        parts += [Partition(column.name, codes, *named)] if len(bins) > 1 else []
    cells, off = count_cells(parts, rows), rows.is_off
    return tuple(sorted(cells, key=lambda c: (off and not c.stands_out, c.p_value, -abs(c.gap))))


def number_bins(column: Column) -> tuple[NDArray[np.intp], list[Condition]]:
    """Bin of each row, equal values together; and the range of each bin."""
    known = column.codes[is_known := column.codes != MISSING]
    if len(column.values) <= _MAX_BINS:
        bins = known.astype(np.intp)
    else:
        n_bins = int(np.clip(len(known) // _FEWEST_ROWS, 2, _MAX_BINS))
        bins = size_bins(known.astype(np.float64), n_bins)
    codes = np.zeros(len(column.codes), dtype=np.intp)
    codes[is_known] = bins
    first = np.full(bins.max(initial=-1) + 1, len(column.values))
    np.minimum.at(first, bins, known)
    ends = pairwise([*first, len(column.values)])
    return codes, [range_condition(column, a, b - 1) for a, b in ends]


def _label_bins(column: Column) -> tuple[NDArray[np.intp], list[Condition]]:
    """Bin of each row, rare labels together, the most frequent first; and what each bin is."""
    known = column.codes[column.codes != MISSING]
    counts = np.bincount(known, minlength=len(column.labels) + 1)
    order = np.argsort(-counts[:-1], kind="stable")
    n_frequent = min(int(np.sum(counts[:-1] >= _FEWEST_LABEL_ROWS)), _MAX_LABEL_BINS)
    if np.sum(counts > 0) == n_frequent + 1 and counts[-1] == 0:
        # A single remaining label needs no common bin.
        n_frequent += 1
    place = np.full(len(counts) + 1, n_frequent)
    place[order[:n_frequent]] = np.arange(n_frequent)
    bins = [label_condition(column, int(code)) for code in order[:n_frequent]]
    if len(known) > counts[order[:n_frequent]].sum():
        text = f"{shorten(column.name)} is a rarer label"
        bins.append(Condition(column.name, text, "rarer labels"))
    return place[column.codes], bins


def group_partitions(X: Any, groups: Any, n: int) -> list[Partition]:
    """One partition for each kind of groups named, in any form that `audit` accepts."""
    if groups is None:
        return []
    table, parts = as_table(X), []
    for by, given in _named_groups(groups, n, table_names(table)).items():
        distinct, codes = group_codes(column_of(table, given) if _is_name(given) else given, n)
        said = [shorten(name_of(label)) for label in distinct]
        known = ["is missing" if is_missing(label) else "" for label in distinct]
        ends = [end or f"= {text}" for end, text in zip(known, said, strict=True)]
        parts.append(Partition(by, codes, said, [f"{shorten(by)} {end}" for end in ends]))
    return parts


def _named_groups(groups: Any, n: int, names: list[Any]) -> dict[str, Any]:
    """Name -> labels, or the name of a column."""
    if isinstance(groups, Mapping):
        return {str(name): given for name, given in groups.items()}
    if is_frame(groups):
        return {str(column.name): column.to_native() for column in columns_of(groups)}
    if _is_name(groups):
        return {str(groups): groups}
    is_list = isinstance(groups, list | tuple) and len(groups) != n
    # A wrong number of labels may belong to other rows, passed by mistake.
    if is_list and all(isinstance(one, str) or one in names for one in groups):
        return {str(name): name for name in groups}
    if np.ndim(groups) > 1:
        got = f"groups: got shape {np.shape(groups)}; expected labels of shape ({n},)"
        raise ValueError(f"{got}: pass several kinds as a frame or a dict of name -> labels.")
    name = getattr(groups, "name", None)
    return {"group" if name in (None, "") else str(name): groups}


def _is_name(given: Any) -> bool:
    return isinstance(given, str) or (np.ndim(given) == 0 and not isinstance(given, Mapping))


def size_cells(bounds: Array, rows: Outcomes) -> tuple[tuple[Cell, ...], list[str]]:
    """Strata of the length, from the shortest on, as one family of tests."""
    length = tied_lengths(bounds)
    codes = size_bins(length, n_bins=5)
    labels = []
    for code in np.unique(codes):
        inside = length[codes == code]
        low, high = say_number(inside.min()), say_number(inside.max())
        finite = low if low == high else f"{low} to {high}"
        labels.append("infinite" if np.isinf(inside.min()) else finite)
    if open_end(bounds) is not None:
        return (), ["Each interval has one bound and no length, so there are no strata of it."]
    if len(labels) == 1:
        note = "All intervals have the same length: they do not adapt, and there are no strata"
        return (), [f"{note} of the length."]
    part = Partition("length", codes, labels, [f"length {label}" for label in labels])
    return count_cells([part], rows), []
